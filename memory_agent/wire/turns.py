"""Turns, and what search brings back of them."""

from typing import Any, Final

from pydantic import ConfigDict

from memory_agent import domain as values
from memory_agent.checks import is_whole
from memory_agent.domain import MAX_SEQ, HistoryPage
from memory_agent.errors import InvalidInput
from memory_agent.wire.base import Answer, Wire
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


UpdateReceipt = Answer[values.UpdateReceipt]


class Turn(Answer[values.Turn]):
    """One stored message."""

    model_config = ConfigDict(json_schema_extra={"examples": [TURN_EXAMPLE]})


class Recollection(Answer[values.Recollection]):
    """A turn that search brought back."""

    turn: Turn


class ChatMessage(Wire):
    """A message as chat models take it."""

    role: str
    content: str


# --- history -------------------------------------------------------------------------------------------------
def history_to_page(history: HistoryPage) -> Page[Turn]:
    """A page of `MemoryAgent.history`, for the wire."""
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
