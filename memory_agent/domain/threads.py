"""Users and their threads, the sessions of a thread, and the events of its memory."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Literal, get_args

from memory_agent.domain.base import OfThread

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

EventKind = Literal["turn_stored", "indexed", "topic_assigned", "facts_changed", "compressed", "parked"]
EVENT_KINDS: Final[tuple[EventKind, ...]] = get_args(EventKind)


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


@dataclass(frozen=True, kw_only=True, slots=True)
class Character:
    """The role that the assistant plays. Plain text; all but `name` may be empty."""

    name: str
    personality: str = ""
    profile: str = ""
    traits: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class Session(OfThread):
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


@dataclass(frozen=True, kw_only=True, slots=True)
class MemoryEvent(OfThread):
    """Something that happened to a thread. Names what it happened to and holds none of its contents.

    `id`: where it stands in the order of events, as text without a meaning of its own; whoever passes it as `after` gets
    what happened since. `turn_id` and `seq`: of the turn (for `facts_changed` the turn that brought it about, None
    for a person's edit; for `compressed` the last turn that it covers, by `seq` alone). `topic_id` is for
    `topic_assigned`, `change_id` for `facts_changed` (the change's `key`) and `compressed` (the compression's id).
    """

    id: str
    kind: EventKind
    user_id: str
    thread_id: str
    at: datetime
    """When it was seen to happen, in UTC to the millisecond."""
    turn_id: str | None = None
    seq: int | None = None
    topic_id: str | None = None
    change_id: str | None = None
