"""The ports that an application hands in: its redactor and its clock."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from datetime import datetime


Redactor = Callable[[str], str]
"""A text, without what must not go further. Called in a thread, for one text at a time, from several threads at once."""


class Clock(Protocol):
    """Source of the current time."""

    def now(self) -> datetime:
        """The current instant, timezone-aware UTC, cut to milliseconds."""
