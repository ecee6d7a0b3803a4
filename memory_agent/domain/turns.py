"""Messages: as they come in, as they are stored, and what is left of forgotten ones."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from memory_agent.checks import at_offset
from memory_agent.domain.base import OfThread
from memory_agent.domain.recalled import RECALLED, said_in

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime

    from memory_agent.domain.base import Role, Stage
    from memory_agent.domain.search import Entity

MAX_SEQ: Final = 2**53
"""Above any thread's `seq`, and within what every store and JSON reader keeps exactly."""

VERBATIM: Final = "verbatim"
"""The field of metadata whose value is content in a form of its own, such as a file: redacted where the content is.

Pieces `[n, text]` of the numbered texts of one `value`, which several turns of a call hold, are redacted together.
"""


@dataclass(frozen=True, kw_only=True, slots=True)
class TurnInput:
    """One message as a caller hands it to `add_turns`; checked when it is admitted."""

    role: str
    content: str
    speaker: str | None = None
    timestamp: datetime | None = None
    metadata: Mapping[str, Any] | None = None
    importance: float | None = None
    entities: Sequence[Entity | Mapping[str, str]] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class TurnDraft:
    """An admitted turn, complete but for the `seq` that the store assigns.

    `call_index` and `call_size` place it within the call that brought it, so that a repeat of the call (same
    `idempotency_key`) can be recognised even if a crash cut the first one short.
    """

    id: str
    role: Role
    content: str
    speaker: str | None
    timestamp: datetime
    tokens: int
    importance: float | None
    metadata: Mapping[str, Any]
    pending: tuple[Stage, ...]
    due_at: datetime
    """From when on its stages may run."""
    idempotency_key: str | None
    call_index: int
    call_size: int
    session_id: str | None = None
    entities: tuple[Entity, ...] = ()
    given_entities: tuple[Entity, ...] | None = None
    """Both as in `Turn`."""
    utc_offset_minutes: int | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Turn(OfThread):
    """One stored message. `pending` are the stages still owed to it; `parked` if they keep failing."""

    id: str
    """A UUIDv7: ids made later sort later."""
    user_id: str
    thread_id: str
    seq: int
    """Counts from 1 within the thread, in the order in which turns were stored."""
    role: Role
    content: str
    speaker: str | None
    """A person's name where several take part."""
    timestamp: datetime
    """When it was said."""
    tokens: int
    importance: float | None
    """0 to 1; None if it came without one."""
    metadata: Mapping[str, Any]
    session_id: str | None = None
    entities: tuple[Entity, ...] = ()
    """What it names: found by the dictionary at once and by a finder once it is indexed, and what the caller gave."""
    given_entities: tuple[Entity, ...] | None = None
    """Those of them that the caller gave; None: all."""
    utc_offset_minutes: int | None = None
    """How far its speaker's clock was ahead of UTC, in minutes; None if nothing told it."""
    topic_id: str | None = None
    """The topic it was assigned to; topics that were merged since are looked up by `Topic.absorbed`."""
    compressed: bool = False
    """Its text is kept packed in a segment; reading it makes no difference."""
    pending: tuple[Stage, ...] = ()
    due_at: datetime | None = None
    """When its next owed stage may run; None if nothing is owed or it is parked."""
    attempts: int = 0
    last_error: str | None = None
    parked: bool = False

    @property
    def said(self) -> str:
        """The content without recalled memory that was given back in it; "" if it is nothing else."""
        return said_in(self.content)

    @property
    def shown(self) -> str:
        """What a prompt shows of it: what was `said`, behind a mark where recalled memory was left out."""
        said = self.said
        return said if said == self.content else f"{RECALLED} {said}".rstrip()

    @property
    def searchable_text(self) -> str:
        """The text that is embedded and indexed: what was `said`, after the speaker's name if there is one."""
        said = self.said
        return f"{self.speaker}: {said}" if self.speaker and said else said

    @property
    def local_time(self) -> datetime:
        """`timestamp` by the speaker's clock; in UTC if nothing told how that was set."""
        return at_offset(self.timestamp, self.utc_offset_minutes)


_SAID: Final = ("role", "content", "speaker", "importance", "metadata")


def own_entities(turn: Turn | TurnDraft) -> tuple[Entity, ...]:
    """The entities of a turn that the caller gave."""
    return turn.entities if turn.given_entities is None else turn.given_entities


def difference(draft: TurnDraft, turn: Turn) -> str | None:
    """The first field in which the stored turn is not what the draft says; None if it says the same.

    A draft whose time is that of its call was given none: a call that is repeated comes later.
    """
    for name in _SAID:
        if getattr(draft, name) != getattr(turn, name):
            return name
    if own_entities(draft) != own_entities(turn):
        return "entities"
    return None if draft.timestamp in (draft.due_at, turn.timestamp) else "timestamp"


@dataclass(frozen=True, kw_only=True, slots=True)
class HistoryPage:
    """Turns in order, word for word.

    `next`: what to pass as `after` for the page that follows; None at the end.
    """

    turns: tuple[Turn, ...]
    next: int | None


@dataclass(frozen=True, kw_only=True, slots=True)
class Tombstone:
    """The rest of a forgotten turn that had an idempotency key: enough to answer a late repeat, no content."""

    turn_id: str
    seq: int
    call_index: int
    call_size: int


def said_otherwise(drafts: Sequence[TurnDraft], stored: Sequence[Turn | Tombstone]) -> str | None:
    """Find the first field in which a call differs from the one that stored these turns under its key; None for a repeat.

    Of a turn that was forgotten there is nothing to compare.
    """
    pairs = zip(drafts, stored, strict=False)
    names = (difference(draft, turn) for draft, turn in pairs if isinstance(turn, Turn))
    return next(filter(None, names), None)


@dataclass(frozen=True, kw_only=True, slots=True)
class UpdateReceipt:
    """Proof of a durable `update_memory`: the ids of the turns it stored and the `seq` of the last of them."""

    turn_ids: tuple[str, ...]
    seq: int
