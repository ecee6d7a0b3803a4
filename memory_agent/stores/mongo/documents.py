"""Domain values to MongoDB documents and back. Fields that would be None or empty are left out."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from bson.binary import Binary

from memory_agent.domain import (
    Erasure,
    FactChange,
    FactsDocument,
    Lease,
    OldTurn,
    Scope,
    SearchRow,
    Tombstone,
    Topic,
    TopicStanding,
    TopicSummary,
    Turn,
)
from memory_agent.stores.codec import (
    pack_entities,
    pack_stated,
    pack_vectors,
    thread_of,
    unpack_entities,
    unpack_signs,
    unpack_stated,
    unpack_vectors,
)
from memory_agent.stores.mongo.json_values import from_bson, to_bson

if TYPE_CHECKING:
    from datetime import datetime

    from memory_agent.domain import TurnDraft
    from memory_agent.stores.mongo.connection import Document


def scope_filter(scope: Scope) -> Document:
    """Matches what is in the scope."""
    query: Document = {"user_id": scope.user_id}
    if scope.thread_id is not None:
        query["thread_id"] = scope.thread_id
    return query


# --- turns ---------------------------------------------------------------------------------------------------


def turn_document(scope: Scope, draft: TurnDraft) -> Document:
    """A draft as stored, but for its `seq`."""
    document: Document = {
        "_id": draft.id,
        "user_id": scope.user_id,
        "thread_id": thread_of(scope),
        "role": draft.role,
        "content": draft.content,
        "timestamp": draft.timestamp,
        "tokens": draft.tokens,
        "pending": list(draft.pending),
        "call_index": draft.call_index,
        "call_size": draft.call_size,
    }
    for name in ("speaker", "importance", "idempotency_key", "session_id"):
        if (value := getattr(draft, name)) is not None:
            document[name] = value
    if draft.metadata:
        document["metadata"] = draft.metadata
    if draft.entities:
        document["entities"] = pack_entities(draft.entities)
    if draft.pending:
        document |= {"owes": True, "due_at": draft.due_at}
    return document


def turn(document: Document) -> Turn:
    """The turn in a document of `turns` that has its `content`."""
    get = document.get
    return Turn(
        id=document["_id"],
        user_id=document["user_id"],
        thread_id=document["thread_id"],
        seq=document["seq"],
        role=document["role"],
        content=document["content"],
        speaker=get("speaker"),
        timestamp=document["timestamp"],
        tokens=document["tokens"],
        importance=get("importance"),
        metadata=get("metadata", {}),
        session_id=get("session_id"),
        entities=unpack_entities(get("entities", ())),
        topic_id=get("topic_id"),
        compressed="segment_id" in document,
        pending=tuple(document["pending"]),
        due_at=get("due_at"),
        attempts=get("attempts", 0),
        last_error=get("last_error"),
        parked=get("parked", False),
    )


def turn_or_tombstone(document: Document) -> Turn | Tombstone:
    """What a document of `turns` stands for: a turn, or what is left of one."""
    if "gone_at" not in document:
        return turn(document)
    return Tombstone(
        turn_id=document["_id"],
        seq=document["seq"],
        call_index=document["call_index"],
        call_size=document["call_size"],
    )


def old_turn(document: Document) -> OldTurn:
    return OldTurn(
        user_id=document["user_id"],
        thread_id=document["thread_id"],
        id=document["_id"],
        timestamp=document["timestamp"],
        topic_id=document.get("topic_id"),
    )


# --- search rows ---------------------------------------------------------------------------------------------


def row_document(user_id: str, row: SearchRow) -> Document:
    """A search row as stored, but for its `index_seq`: arrays of distinct terms and of their counts in step."""
    vectors, passages = pack_vectors(row.vectors)
    document: Document = {
        "_id": row.turn_id,
        "user_id": user_id,
        "thread_id": row.thread_id,
        "seq": row.seq,
        "role": row.role,
        "timestamp": row.timestamp,
        "vectors": Binary(vectors),
        "passages": passages,
        "terms": list(row.terms),
        "counts": Binary(struct.pack(f"<{len(row.terms)}I", *row.terms.values())),
        "length": row.length,
        "embedder": row.embedder,
        "language": row.language,
    }
    for name in ("session_id", "speaker"):
        if (value := getattr(row, name)) is not None:
            document[name] = value
    if signs := row.signs.packed:
        document["signs"] = signs
    return document


def stub_document(user_id: str, turn_id: str, thread_id: str, seq: int, *, now: datetime) -> Document:
    """What replaces the row of an erased turn; nothing of the turn but its place is in it."""
    return {
        "_id": turn_id,
        "user_id": user_id,
        "thread_id": thread_id,
        "seq": seq,
        "role": "user",
        "timestamp": now,
        "vectors": b"",
        "passages": 0,
        "terms": [],
        "counts": b"",
        "length": 0,
        "embedder": "",
        "language": "",
        "erased": True,
        "erased_at": now,
    }


def search_row(document: Document) -> SearchRow:
    """The row in a document of `search_rows`. Called 10,000 times at a user's first search: keep it tight."""
    terms = document["terms"]
    counts = struct.unpack(f"<{len(terms)}I", document["counts"])
    return SearchRow(
        turn_id=document["_id"],
        user_id=document["user_id"],
        thread_id=document["thread_id"],
        seq=document["seq"],
        role=document["role"],
        timestamp=document["timestamp"],
        vectors=unpack_vectors(document["vectors"], document["passages"]),
        terms=dict(zip(terms, counts, strict=True)),
        length=document["length"],
        embedder=document["embedder"],
        language=document["language"],
        session_id=document.get("session_id"),
        speaker=document.get("speaker"),
        signs=unpack_signs(document.get("signs", 0)),
        index_seq=document["index_seq"],
        erased="erased" in document,
    )


# --- facts ---------------------------------------------------------------------------------------------------

_CHANGE_FIELDS: Final = ("key", "kind", "at", "said_at", "recorded_at", "extractor")
COST_FIELDS: Final = ("turns", "requests", "prompt_tokens", "completion_tokens")


def change_document(scope: Scope, change: FactChange) -> Document:
    """One change as stored, but for its `seq`: all of it in one document, so that it is there wholly or not at all."""
    document: Document = {"user_id": scope.user_id, "thread_id": thread_of(scope)}
    document |= {name: getattr(change, name) for name in _CHANGE_FIELDS}
    document["stated"] = pack_stated(change)
    if change.turn_id is not None:
        document["turn_id"] = change.turn_id
    if change.turns:
        document["turns"] = list(change.turns)
    if change.generation:
        document["generation"] = change.generation
    if change.idempotency_key is not None:
        document["idempotency_key"] = change.idempotency_key
    return document


def fact_change(document: Document) -> FactChange:
    events, refused = unpack_stated(document["stated"])
    return FactChange(
        **{name: document[name] for name in _CHANGE_FIELDS},
        turn_id=document.get("turn_id"),
        turns=tuple(document.get("turns", ())),
        generation=document.get("generation", ""),
        idempotency_key=document.get("idempotency_key"),
        events=events,
        refused=refused,
        thread_id=document["thread_id"],
        seq=document["seq"],
    )


def facts_fields(document: FactsDocument, revision: str) -> Document:
    return {
        "facts": to_bson(dict(document.facts)),
        "through": document.through,
        "at": document.at,
        "revision": revision,
    }


def facts_document(document: Document | None) -> FactsDocument:
    """What is stored, or an empty document: also for facts in another form, which are then folded anew."""
    if document is None:
        return FactsDocument()
    if not isinstance(document["facts"], dict):
        return FactsDocument(revision=document["revision"])
    return FactsDocument(
        facts=from_bson(document["facts"]),
        through=document["through"],
        at=document["at"],
        revision=document["revision"],
    )


# --- topics --------------------------------------------------------------------------------------------------

BLANK_TOPIC: Final[Document] = {
    "title": "",
    "access_count": 0,
    "given_importance": None,
    "embedded": 0,
    "embedder": "",
    "through": 0,
    "stale": True,
}
"""The derived fields of a topic that is to be made anew; `summary` and `embedding` are left out."""
_TOPIC_FIELDS: Final = (
    *("user_id", "thread_id", "title", "created_at", "last_access", "access_count", "given_importance"),
    *("embedded", "embedder", "through", "stale", "votes", "archived"),
)
_STANDING_FIELDS: Final = (
    *(
        "user_id",
        "thread_id",
        "last_access",
        "access_count",
        "given_importance",
        "votes",
        "through",
        "archived",
        "stale",
    ),
)
_SUMMARY_FIELDS: Final = ("text", "made_by", "through", "turns", "made_at")


def topic_document(topic: Topic, revision: str) -> Document:
    """A topic as stored, but for its `_id`: its own id is unique within the thread only."""
    document: Document = {name: getattr(topic, name) for name in _TOPIC_FIELDS}
    document |= {"topic_id": topic.id, "revision": revision}
    if topic.set_importance is not None:
        document["set_importance"] = topic.set_importance
    if topic.tags:
        document["tags"] = list(topic.tags)
    if topic.absorbed:
        document["absorbed"] = list(topic.absorbed)
    if topic.embedding.size:
        document["embedding"] = Binary(np.ascontiguousarray(topic.embedding, dtype="<f2").tobytes())
    if topic.summary is not None:
        document["summary"] = {name: getattr(topic.summary, name) for name in _SUMMARY_FIELDS}
    return document


def topic(document: Document) -> Topic:
    get = document.get
    return Topic(
        id=document["topic_id"],
        **{name: document[name] for name in _TOPIC_FIELDS},
        embedding=np.frombuffer(get("embedding", b""), dtype="<f2"),
        summary=TopicSummary(**document["summary"]) if "summary" in document else None,
        set_importance=get("set_importance"),
        tags=tuple(get("tags", ())),
        absorbed=tuple(get("absorbed", ())),
        revision=document["revision"],
    )


def topic_standing(document: Document) -> TopicStanding:
    return TopicStanding(
        id=document["topic_id"],
        **{name: document[name] for name in _STANDING_FIELDS},
        set_importance=document.get("set_importance"),
        absorbed=tuple(document.get("absorbed", ())),
    )


# --- leases and erasures ------------------------------------------------------------------------------------


def lease(document: Document) -> Lease:
    return Lease(
        name=document["_id"],
        holder=document["holder"],
        since=document["since"],
        until=document["until"],
        note=document.get("note"),
    )


def erasure_document(erasure: Erasure) -> Document:
    return {
        "_id": erasure.id,
        "user_id": erasure.scope.user_id,
        "thread_id": erasure.scope.thread_id,
        "turn_ids": None if erasure.turn_ids is None else list(erasure.turn_ids),
        "before_id": erasure.before_id,
        "due_at": erasure.due_at,
        "swept": erasure.swept,
    }


def erasure(document: Document) -> Erasure:
    ids: list[Any] | None = document["turn_ids"]
    return Erasure(
        id=document["_id"],
        scope=Scope(user_id=document["user_id"], thread_id=document["thread_id"]),
        turn_ids=None if ids is None else tuple(ids),
        before_id=document["before_id"],
        due_at=document["due_at"],
        swept=document["swept"],
    )
