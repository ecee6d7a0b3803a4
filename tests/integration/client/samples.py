"""A value of every kind, and its JSON as a service sends it."""

from __future__ import annotations

import dataclasses
import json
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from hypothesis import HealthCheck, Phase, find, settings

from tests.unit.wire import strategies

if TYPE_CHECKING:
    from collections.abc import Callable

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
QUICKLY = settings(
    phases=[Phase.generate], derandomize=True, database=None, suppress_health_check=list(HealthCheck)
)


def some(strategy: Any, of: Callable[[Any], bool] = lambda _: True) -> Any:
    """A value of the strategy, the same one in every run."""
    return find(strategy, of, settings=QUICKLY)


TURN = some(strategies.turns)
RECEIPT = some(strategies.receipts)
RECOLLECTION = some(strategies.recollections)
CONTEXT = some(strategies.contexts)
COMPRESSED = some(strategies.compressed_contexts)
COMPRESSION = some(strategies.compressions)
SESSION = some(strategies.sessions)
TOPIC = some(strategies.topic_stats)
SUGGESTION = some(strategies.suggestions)
TOPIC_TURN = some(strategies.topic_turns)
RECORD = some(strategies.records)
STATUS = some(strategies.statuses)
THREAD = some(strategies.threads)
FORGOTTEN = some(strategies.forget_receipts)
ENTITIES = some(strategies.entity_counts)
P = "/api/threads/ada/a%20thread"
REPLAY = some(
    strategies.proposals,
    lambda found: not (found.preview or found.changes) and found.scope.thread_id is not None,
)
PREVIEW = dataclasses.replace(REPLAY, preview=True)


def of(model: Any, value: Any) -> Any:
    """The JSON of a value."""
    return json.loads(model.of(value).model_dump_json())


def items(model: Any, *values: Any) -> Any:
    return {"items": [of(model, value) for value in values]}


def page(model: Any, *values: Any, cursor: str | None = None) -> Any:
    return items(model, *values) | {"next_cursor": cursor}
