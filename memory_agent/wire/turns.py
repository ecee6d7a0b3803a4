"""Turns and their sessions, and what search brings back of them."""

from typing import Any, Final

from pydantic import ConfigDict

from memory_agent import domain as values
from memory_agent.checks import is_whole
from memory_agent.domain import MAX_SEQ, HistoryPage
from memory_agent.wire.base import Answer, Wire
from memory_agent.wire.pages import Places

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
Session = Answer[values.Session]


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


HISTORY: Final[Places[HistoryPage, int]] = Places(
    of="turns",
    value=HistoryPage,
    items="turns",
    model=Turn,
    is_place=lambda place: is_whole(place, 0, MAX_SEQ),
)
"""Pages of `MemoryAgent.history`; a place is a turn's `seq`."""
