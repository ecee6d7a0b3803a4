"""Users and threads as `users()` and `threads()` list them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from datetime import datetime


@dataclass(frozen=True, kw_only=True, slots=True)
class UserSummary:
    """A user of whom something is remembered. `user_id` is the id that the tenant knows the user by."""

    user_id: str
    threads: int
    turns: int
    """Forgotten ones don't count, here and below."""
    last_activity: datetime | None
    """The timestamp of the newest of the threads' last turns; None without turns."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ThreadSummary:
    """A thread of which something is remembered: turns, or without any a session or a fact that somebody set."""

    thread_id: str
    turns: int
    last_activity: datetime | None
    """The timestamp of its last turn; None without turns."""


@dataclass(frozen=True, kw_only=True, slots=True)
class UsersPage:
    """Some users by rising id, and what to pass as `after` for those that follow (None: there are none)."""

    users: tuple[UserSummary, ...]
    next: str | None


@dataclass(frozen=True, kw_only=True, slots=True)
class ThreadsPage:
    """Some threads of a user by rising id, and what to pass as `after` for those that follow (None: there are none)."""

    threads: tuple[ThreadSummary, ...]
    next: str | None
