"""A value of every kind, and its JSON as a service sends it."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from hypothesis import HealthCheck, Phase, find, settings

from memory_agent import domain as values
from memory_agent.topics.stats import TopicStats
from memory_agent.wire.base import Answer
from tests.unit.wire.strategies import values_of

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
QUICKLY = settings(
    phases=[Phase.generate],
    derandomize=True,
    database=None,
    suppress_health_check=list(HealthCheck),
    max_examples=1_000,  # of any profile: some look for a value that few are like
)


def some(kind: Any, of: Callable[[Any], bool] = lambda _: True) -> Any:
    """A value of the dataclass, the same one in every run."""
    return find(values_of(kind), of, settings=QUICKLY)


TURN = some(values.Turn)
RECEIPT = some(values.UpdateReceipt)
RECOLLECTION = some(values.Recollection)
CONTEXT = some(values.MemoryContext)
SESSION = some(values.Session)
TOPIC = some(TopicStats)
RECORD = some(values.FactRecord)
STATUS = some(values.MemoryStatus)
FORGOTTEN = some(values.ForgetReceipt)
P = "/api/threads/ada/a%20thread"


def of(model: Any, value: Any) -> Any:
    """The JSON of a value."""
    return json.loads(model.of(value).model_dump_json())


def items(model: Any, *values: Any) -> Any:
    return {"items": [of(model, value) for value in values]}


def page(model: Any, *values: Any, cursor: str | None = None) -> Any:
    return items(model, *values) | {"next_cursor": cursor}


def answer_with(result: Any) -> Any:
    """The JSON of the answer from which a call makes `result`: a value, or a list of values."""
    if isinstance(result, list):
        return items(Answer.__class_getitem__(type(result[0])), *result)
    return of(Answer.__class_getitem__(type(result)), result)
