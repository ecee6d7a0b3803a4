"""Turns, and what search brings back of them."""

from typing import Any, Final

from pydantic import BaseModel, ConfigDict

from memory_agent import domain as values
from memory_agent.checks import is_whole
from memory_agent.domain import MAX_SEQ, HistoryPage, Role, Stage
from memory_agent.errors import InvalidInput
from memory_agent.wire.base import Answer, Instant, JsonObject, PublicText, UserId
from memory_agent.wire.pages import Page, decode_cursor, encode_cursor

TURN_EXAMPLE: Final[dict[str, Any]] = {
    "id": "0198f3a2-7c11-7d35-9b1e-5a0c2f6f4e10",
    "user_id": "user_123",
    "thread_id": "thread_abc",
    "seq": 7,
    "role": "user",
    "content": "I moved to Lisbon in May.",
    "speaker": None,
    "timestamp": "2026-06-02T08:15:30.125Z",
    "tokens": 8,
    "importance": None,
    "metadata": {"channel": "app"},
    "session_id": "0198f3a2-7a02-7f10-8c4d-1b2e3f405162",
    "entities": [],
    "topic_id": "0198f3a2-7c11-7d35-9b1e-5a0c2f6f4e10",
    "compressed": False,
    "pending": [],
    "due_at": None,
    "attempts": 0,
    "last_error": None,
    "parked": False,
}


class Entity(Answer[values.Entity]):
    """Something with a name, by its canonical one."""

    kind: str
    name: str


class Turn(Answer[values.Turn]):
    """One stored message."""

    model_config = ConfigDict(json_schema_extra={"examples": [TURN_EXAMPLE]})

    id: str
    """A UUIDv7: ids made later sort later."""
    user_id: UserId
    thread_id: str
    seq: int
    """Counts from 1 within the thread, in the order in which turns were stored."""
    role: Role
    content: str
    speaker: str | None
    """A person's name where several take part."""
    timestamp: Instant
    """When it was said."""
    tokens: int
    importance: float | None
    """0 to 1; null if it came without one."""
    metadata: JsonObject
    session_id: str | None
    entities: tuple[Entity, ...]
    """Those that the caller gave."""
    topic_id: str | None
    """The topic that it was assigned to; null until it is known."""
    compressed: bool
    """Its text is kept packed; reading it makes no difference."""
    pending: tuple[Stage, ...]
    """Work that is still owed to it."""
    due_at: Instant | None
    """When the next owed work may run; null if nothing is owed or it is parked."""
    attempts: int
    last_error: PublicText | None
    parked: bool
    """Its work keeps failing, and waits until it is given a fresh start."""


class UpdateReceipt(Answer[values.UpdateReceipt]):
    """Proof that an exchange is stored durably."""

    turn_ids: tuple[str, ...]
    seq: int
    """Of the last of these turns."""


class Recollection(Answer[values.Recollection]):
    """A turn that search brought back."""

    turn: Turn
    score: float
    """0 to 1; orders the results of one search, and only those."""
    confidence: float
    """0 to 1: how probable it is that the turn answers the question or helps to; comparable between searches."""
    why: dict[str, float]
    """What each signal added to the score or took from it, the most first."""
    explanation: str
    """The same in words."""
    similarity: float | None
    """Cosine of the question with the turn; null without a vector."""


class ChatMessage(BaseModel):
    """A message as chat models take it."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    role: str
    content: str


# --- history -------------------------------------------------------------------------------------------------
def history_to_page(history: HistoryPage) -> Page[Turn]:
    """What `MemoryAgent.history` returned, for the wire."""
    return Page[Turn](
        items=tuple(map(Turn.of, history.turns)),
        next_cursor=None if history.next is None else encode_cursor(history.next),
    )


def page_to_history(page: Page[Turn]) -> HistoryPage:
    """The page as `MemoryAgent.history` returns it."""
    return HistoryPage(
        turns=tuple(turn.domain() for turn in page.items),
        next=None if page.next_cursor is None else after_cursor(page.next_cursor),
    )


def after_cursor(cursor: str | None) -> int:
    """The `after` of `MemoryAgent.history` that the cursor of a page of turns stands for; 0 for None.

    Raises InvalidInput for a cursor of another list.
    """
    if cursor is None:
        return 0
    after = decode_cursor(cursor)
    if not is_whole(after, 0, MAX_SEQ):
        raise InvalidInput(
            f"cursor is {cursor!r:.80}, which is none of a page of turns; pass its next_cursor"
        )
    return after
