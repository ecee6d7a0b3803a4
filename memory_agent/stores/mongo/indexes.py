"""Every index, in one table. Unique ones start with `user_id`, so that a cluster can be sharded by it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pymongo import IndexModel

if TYPE_CHECKING:
    from collections.abc import Mapping

SEQ_KEYS: Final = ("user_id", "thread_id", "seq")
CALL_KEYS: Final = ("user_id", "thread_id", "idempotency_key", "call_index")
INDEX_SEQ_KEYS: Final = ("user_id", "index_seq")
CHANGE_KEYS: Final = ("user_id", "thread_id", "key")
TOPIC_KEYS: Final = ("user_id", "thread_id", "topic_id")
CHANGED_KEYS: Final = ("user_id", "thread_id", "changed")
ONCE_KEYS: Final = ("user_id", "thread_id", "idempotency_key")
NUMBER_KEYS: Final = ("user_id", "thread_id", "number")
STANDING_KEYS: Final = (*SEQ_KEYS, "timestamp")
SESSION_KEYS: Final = ("user_id", "session_id", "thread_id")
HELD_KEYS: Final = ("user_id", "turn_ids")

_KEYED: Final = {"idempotency_key": {"$type": "string"}}
_OWING: Final = {"owes": True}
_DUE: Final = {"due_at": {"$exists": True}}
_PARKED: Final = {"parked": True}
_GONE: Final = {"gone_at": {"$exists": True}}
_ERASING: Final = {"erasing": True}
_ERASED: Final = {"erased": True}
_LARGE: Final = {"words": {"$exists": True}}
_LIVE: Final = {"timestamp": {"$exists": True}}
_ASSIGNED: Final = {"topic_id": {"$exists": True}}
_SAID: Final = {"session_id": {"$exists": True}}
_NUMBERED: Final = {"changed": {"$exists": True}}
_STALE: Final = {"stale": True}
_ABSORBING: Final = {"absorbed": {"$exists": True}}


def _index(*keys: str, unique: bool = False, only: Mapping[str, object] | None = None) -> IndexModel:
    options = {} if only is None else {"partialFilterExpression": only}
    return IndexModel([(key, 1) for key in keys], unique=unique, **options)


INDEXES: Final[Mapping[str, tuple[IndexModel, ...]]] = {
    "turns": (
        _index(*SEQ_KEYS, unique=True),
        _index(*CALL_KEYS, unique=True, only=_KEYED),
        _index("user_id", "_id"),
        # What is owed, by stage: a long backlog of one stage must not slow down the look-up of another.
        _index("pending", "user_id", "thread_id", "seq", only=_OWING),
        _index("pending", "user_id", "_id", only=_OWING),
        _index("pending", "due_at", "user_id", "thread_id", only=_DUE),
        _index("parked", "user_id", "thread_id", only=_PARKED),
        _index("user_id", "thread_id", "gone_at", only=_GONE),
        _index("user_id", "thread_id", only=_ERASING),
        _index(*TOPIC_KEYS, "seq", only=_ASSIGNED),
        # With the time, so that counting a session's turns and finding its last reads no turn.
        _index(*SESSION_KEYS, "seq", "timestamp", only=_SAID),
        _index("timestamp", "_id", only=_LIVE),
        # Who is there: counting a thread's turns and finding its last reads none of them, and passes over forgotten ones.
        _index(*STANDING_KEYS, only=_LIVE),
    ),
    "search_rows": (
        _index(*INDEX_SEQ_KEYS, unique=True),
        _index("user_id", "words", "_id", "thread_id", only=_LARGE),
        _index("user_id", "erased_at", only=_ERASED),
        _index("embedder"),
    ),
    "large_users": (_index("user_id", unique=True),),
    "facts": (_index("user_id", "thread_id", unique=True),),
    "fact_events": (
        _index(*CHANGE_KEYS, unique=True),
        _index(*SEQ_KEYS, unique=True),
        _index(*ONCE_KEYS, unique=True, only=_KEYED),
        _index("user_id", "turn_id"),
        _index("user_id", "turns"),
        _index("user_id", "recorded_at", "thread_id", "seq"),
    ),
    "costs": (_index("user_id", "thread_id", unique=True),),
    "topics": (
        _index(*TOPIC_KEYS, unique=True),
        _index(*CHANGED_KEYS, unique=True, only=_NUMBERED),
        _index("user_id", "stale", only=_STALE),
        _index("user_id", "absorbed", only=_ABSORBING),
    ),
    "topic_marks": (_index("user_id", "thread_id", unique=True),),
    "sessions": (
        _index(*NUMBER_KEYS, unique=True),
        _index(*ONCE_KEYS, unique=True, only=_KEYED),
        # In this order, for a session may be asked for by its id alone.
        _index("session_id", "user_id"),
        _index("user_id", "started_at", "number", "thread_id"),
    ),
    "spent_keys": (_index("user_id", "thread_id", "kind", "key", unique=True),),
    "compressions": (
        _index(*NUMBER_KEYS, unique=True),
        _index("user_id", "thread_id", "through", "number"),
        _index(*SESSION_KEYS, only=_SAID),
    ),
    "segments": (
        # With the sizes, so that adding them up does not read the packed texts.
        _index(*TOPIC_KEYS, "raw_bytes", "packed_bytes"),
        _index(*HELD_KEYS),
    ),
    "erasures": (_index("due_at"), _index("user_id")),
    "erasure_receipts": (_index("state"),),
}
KEY_INDEXES: Final[Mapping[str, tuple[IndexModel, ...]]] = {
    "api_keys": (_index("tenant", "created_at", "_id"),)
}
"""Of the store of API keys, which may be on a database of its own."""
