"""Domain values to MongoDB documents and back, where their fields alone are not enough."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Final

from memory_agent.domain import FactsDocument, SearchRow, Tombstone, Turn
from memory_agent.stores.codec import pack_stated, pack_vectors, thread_of
from memory_agent.stores.fields import CHANGE, DRAFT, ROW, TOMBSTONE, TURN, search_row_of, turn_of
from memory_agent.stores.mongo.json_values import from_bson, to_bson

if TYPE_CHECKING:
    from datetime import datetime

    from memory_agent.domain import FactChange, Scope, TurnDraft
    from memory_agent.stores.mongo.connection import Document

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


def scope_filter(scope: Scope) -> Document:
    """Matches what is in the scope."""
    query: Document = {"user_id": scope.user_id}
    if scope.thread_id is not None:
        query["thread_id"] = scope.thread_id
    return query


def turn_document(scope: Scope, draft: TurnDraft) -> Document:
    """A draft as stored, but for its `seq`."""
    document = DRAFT.document(
        draft,
        user_id=scope.user_id,
        thread_id=thread_of(scope),
        due_at=draft.due_at if draft.pending else None,
    )
    return document | ({"owes": True} if draft.pending else {})


def turn(document: Document) -> Turn:
    """The turn in a document of `turns` that has its `content`."""
    return turn_of(TURN.of_document(document), document["content"])


def turn_or_tombstone(document: Document) -> Turn | Tombstone:
    """Decode a document of `turns`: a turn, or the tombstone of one."""
    if "gone_at" not in document:
        return turn(document)
    return Tombstone(**TOMBSTONE.of_document(document))


def row_document(row: SearchRow) -> Document:
    """A search row as stored, but for its `index_seq`: arrays of distinct terms and of their counts in step."""
    vectors, passages = pack_vectors(row.vectors)
    document = ROW.document(row, vectors=vectors, passages=passages, terms=list(row.terms))
    return document | {"counts": struct.pack(f"<{len(row.terms)}I", *row.terms.values())}


def stub_document(user_id: str, turn_id: str, thread_id: str, seq: int, *, now: datetime) -> Document:
    """The document that replaces an erased turn's; it holds nothing of the turn but its place."""
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
    """The row in a document of `search_rows`."""
    terms = document["terms"]
    counts = struct.unpack(f"<{len(terms)}I", document["counts"])
    erased = "erased" in document
    return search_row_of(ROW.of_document(document), dict(zip(terms, counts, strict=True)), erased=erased)


def change_document(scope: Scope, change: FactChange) -> Document:
    """One change as stored, but for its `seq`: all of it in one document, so that it is there wholly or not at all."""
    document = CHANGE.document(change, thread_id=thread_of(scope), stated=pack_stated(change))
    return {"user_id": scope.user_id, **document}


def facts_fields(document: FactsDocument, revision: str) -> Document:
    return {
        "facts": to_bson(dict(document.facts)),
        "through": document.through,
        "at": document.at,
        "revision": revision,
    }


def facts_document(document: Document | None) -> FactsDocument:
    """The stored facts, or an empty document: also for facts in another form, which are then folded anew."""
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
