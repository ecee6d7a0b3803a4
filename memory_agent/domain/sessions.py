"""Sessions: the sittings of a thread, who took part, and in which role the assistant spoke."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from memory_agent.domain.base import Scope

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime


@dataclass(frozen=True, kw_only=True, slots=True)
class Character:
    """The role that the assistant plays. Plain text; all but `name` may be empty."""

    name: str
    personality: str = ""
    profile: str = ""
    traits: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class Session:
    """One sitting of a thread: every turn belongs to the one that was open when it was said.

    `number` counts from 1 within the thread; the newest is the one that may be open. `after_seq`: the last
    `seq` given in the thread before it began. `explicit`: somebody called `start_session`. `last_activity`: of its last turn, or its start.
    `idempotency_key`: the caller's name for that call; no other session of the thread has it. What follows it is counted
    when it is read.
    """

    id: str
    user_id: str
    thread_id: str
    number: int
    started_at: datetime
    after_seq: int
    participants: tuple[str, ...] = ()
    character: Character | None = None
    metadata: Mapping[str, Any] = field(default_factory=dict)
    explicit: bool = False
    idempotency_key: str | None = None
    last_activity: datetime | None = None
    total_turns: int = 0
    compression_count: int = 0

    @property
    def scope(self) -> Scope:
        return Scope(user_id=self.user_id, thread_id=self.thread_id)


@dataclass(frozen=True, kw_only=True, slots=True)
class ThreadHead:
    """The end of a thread: its newest session and its last turn (0 and None without any).

    `last_given`: the last `seq` that any of its turns got, also one that is forgotten; the next turn's is above it.
    """

    session: Session | None = None
    last_seq: int = 0
    last_given: int = 0
    last_at: datetime | None = None
    """The timestamp of the last turn."""
    last_session_id: str | None = None
    """The session of the last turn."""
