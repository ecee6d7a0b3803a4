"""Running a command: its settings, its event loop, and the meaning of its exit code."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any, Final, NoReturn

import typer

from memory_agent.cli.output import complain, note
from memory_agent.errors import MemoryAgentError, SweepRunning, TurnsParked

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from memory_agent.config import MemoryConfig

OK: Final = 0
FAILED: Final = 1
UNFINISHED: Final = 3
BUSY: Final = 4
INTERRUPTED: Final = 130
MODELS_LOG: Final = "memory_agent.models.local"
"""Tells at level INFO what a model's first use takes time for."""


def settings(data_dir: Path | None, **values: Any) -> MemoryConfig:
    """The settings of a command: its options over the environment and the file. Raises ConfigError."""
    from memory_agent.config import MemoryConfig

    if data_dir is not None:
        values["data_dir"] = data_dir
    return MemoryConfig(**values)


def working_settings(data_dir: Path | None) -> MemoryConfig:
    """Settings of a command that waits for owed work: embedded stores have no other worker than its own."""
    cfg = settings(data_dir)
    return settings(data_dir, run_worker=True) if cfg.embedded else cfg


def run(command: Callable[[], int], *, quiet: bool = False) -> NoReturn:
    """Run `command` and leave with its exit code; an error of ours becomes one line on stderr.

    `quiet`: errors are all that is said.
    """
    if not quiet:
        _tell_of_the_model()
    try:
        code = command()
    except BrokenPipeError:
        raise  # whoever reads us has had enough; typer leaves quietly
    except (MemoryAgentError, OSError) as exc:
        complain(str(exc) or type(exc).__name__)
        code = {TurnsParked: UNFINISHED, SweepRunning: BUSY}.get(type(exc), FAILED)
    except KeyboardInterrupt:
        complain("interrupted; what was acknowledged is kept")
        code = INTERRUPTED
    raise typer.Exit(code)


class _Notes(logging.Handler):
    """Log records as remarks on stderr."""

    def emit(self, record: logging.LogRecord) -> None:
        note(record.getMessage())


def _tell_of_the_model() -> None:
    """A model's first use may take some seconds more, for its export: say so while it happens."""
    logger = logging.getLogger(MODELS_LOG)
    if not any(isinstance(handler, _Notes) for handler in logger.handlers):
        logger.addHandler(_Notes())
        logger.setLevel(logging.INFO)
        logger.propagate = False
