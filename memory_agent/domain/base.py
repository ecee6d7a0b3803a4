"""Whose memory, who speaks, what is owed: what every other value is made of."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final, Literal, get_args

import uuid_utils

from memory_agent.checks import checked_id

Role = Literal["user", "assistant", "system", "tool"]
Stage = Literal["index", "topics", "facts", "compact", "compress"]
"""What can be owed to a stored turn, in the order the worker runs it."""
ROLES: Final[tuple[Role, ...]] = get_args(Role)
STAGES: Final[tuple[Stage, ...]] = get_args(Stage)


def new_id() -> str:
    """A UUIDv7 as text: unique everywhere, and ids made later sort later."""
    return str(uuid_utils.uuid7())


def stored_at(turn_id: str) -> datetime:
    """When the turn was admitted, in UTC to the millisecond, as its UUIDv7 says (RFC 9562, section 5.7)."""
    return datetime.fromtimestamp(uuid_utils.UUID(turn_id).timestamp / 1000, tz=UTC)


@dataclass(frozen=True, kw_only=True, slots=True)
class Scope:
    """Whose memory: one thread of a user, or (`thread_id=None`) all threads of one user.

    There is no scope for "everybody": an empty or missing user id is refused, never read as "all".
    """

    user_id: str
    thread_id: str | None = None

    def __post_init__(self) -> None:
        checked_id("user_id", self.user_id)
        if self.thread_id is not None:
            checked_id("thread_id", self.thread_id)

    @property
    def user(self) -> Scope:
        """All threads of the same user."""
        return Scope(user_id=self.user_id)
