"""Events of a thread's memory, for whoever watches it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal, get_args

from memory_agent.domain.base import Scope

if TYPE_CHECKING:
    from datetime import datetime

EventKind = Literal["turn_stored", "indexed", "topic_assigned", "facts_changed", "compressed", "parked"]
EVENT_KINDS: Final[tuple[EventKind, ...]] = get_args(EventKind)


@dataclass(frozen=True, kw_only=True, slots=True)
class MemoryEvent:
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

    @property
    def scope(self) -> Scope:
        return Scope(user_id=self.user_id, thread_id=self.thread_id)
