"""The shipped conversation: eight evenings over ten weeks of one user's life, and questions about them."""

from __future__ import annotations

import itertools
import json
from datetime import datetime
from importlib import resources
from typing import Any, Final, NamedTuple

from memory_agent.domain import TurnInput

USER_ID: Final = "mara"
THREAD_ID: Final = "diary"
TOP_K: Final = 5
"""The expected turn must be among so many results."""
SESSION_GAP_HOURS: Final = 4


class Question(NamedTuple):
    """A question, and words that only the turn that answers it holds."""

    question: str
    expected: str


def conversation() -> list[TurnInput]:
    """The conversation's turns, oldest first."""
    lines = _lines("conversation.jsonl")
    return [TurnInput(**{**line, "timestamp": datetime.fromisoformat(line["timestamp"])}) for line in lines]


def questions() -> list[Question]:
    """The demo's questions."""
    return [Question(**line) for line in _lines("questions.jsonl")]


def sessions(turns: list[TurnInput]) -> int:
    """The number of sittings: a pause of more than SESSION_GAP_HOURS starts another."""
    times = [turn.timestamp for turn in turns if turn.timestamp is not None]
    pauses = ((later - earlier).total_seconds() for earlier, later in itertools.pairwise(times))
    return 1 + sum(pause > SESSION_GAP_HOURS * 3_600 for pause in pauses)


def _lines(name: str) -> list[dict[str, Any]]:
    text = resources.files(__name__).joinpath(name).read_text(encoding="utf-8")
    return [json.loads(line) for line in text.splitlines()]
