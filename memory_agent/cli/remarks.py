"""Log records that arrive while somebody types at a prompt: kept, and printed between two exchanges."""

from __future__ import annotations

import logging
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from memory_agent.cli.output import note

if TYPE_CHECKING:
    from collections.abc import Iterator

_MODELS: Final = "memory_agent.models.local"
"""Tells at level INFO what a model's first use takes time for."""


class Remarks(logging.Handler):
    """Log records that wait for the right moment, each message once."""

    def __init__(self) -> None:
        super().__init__()
        self._waiting: dict[str, None] = {}
        self._told: set[str] = set()

    def emit(self, record: logging.LogRecord) -> None:
        """Keep what it says."""
        self._waiting[record.getMessage()] = None

    def tell(self) -> None:
        """Print what was kept since the last time, and was not told yet."""
        for message in self._waiting:
            if message not in self._told:
                note(f"meanwhile: {message}")
        self._told |= self._waiting.keys()
        self._waiting.clear()


@contextmanager
def collected_remarks() -> Iterator[Remarks]:
    """Every warning of this process, and what models tell of themselves, while the block runs; the rest at its end."""
    root, models = logging.getLogger(), logging.getLogger(_MODELS)
    remarks = Remarks()
    at_once, propagates = models.handlers[:], models.propagate
    models.handlers, models.propagate = [], True
    root.addHandler(remarks)
    try:
        yield remarks
    finally:
        root.removeHandler(remarks)
        models.handlers, models.propagate = at_once, propagates
        remarks.tell()
