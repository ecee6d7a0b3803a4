"""Filters, and domain values to MongoDB documents and back, where their fields alone are not enough.

JSON values are kept so that ordinary queries find them: `{"facts.name": "Ada"}`. Keys and numbers that MongoDB can't
hold, or reads as something else, are written otherwise, and read back as they were:

    a.b     a%2Eb     a dot parts the names of a path
    $set    %24set    a dollar sign in front is an operator's
    50%     50%25     "%" begins what is written otherwise
    ""      %         no path could name it
    2**64   {"%int": "18446744073709551616"}, for BSON's integers have 64 bits
"""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final
from uuid import uuid4

from memory_agent.domain import (
    BETWEEN,
    FactsDocument,
    SearchRow,
    Tenant,
    Tombstone,
    Turn,
    tenants_range,
)
from memory_agent.stores.codec import DAMAGED, damaged, pack_stated, pack_terms, pack_vectors, thread_of
from memory_agent.stores.fields import CHANGE, DRAFT, FACTS, ROW, TOMBSTONE, TURN

if TYPE_CHECKING:
    from collections.abc import Iterable

    from memory_agent.domain import FactChange, Scope, TurnDraft
    from memory_agent.stores.mongo.connection import Document

BLANK_TOPIC: Final[Document] = {
    "title": "",
    "opener": "",
    "words": "{}",
    "access_count": 0,
    "given_importance": None,
    "embedded": 0,
    "embedder": "",
    "through": 0,
    "stale": True,
}
"""The derived fields of a topic that is to be made anew; `summary` and `embedding` are left out."""
STANDING: Final[Document] = {"timestamp": {"$gte": datetime(1, 1, 1, tzinfo=UTC)}}
"""Turns that were not forgotten. A range, for MongoDB answers no `$exists` from an index alone."""
_SPECIAL: Final = re.compile(r"[%.\0]|\A\$")
_WRITTEN: Final = re.compile("%([0-9A-F]{2})")
_NO_KEY: Final = "%"
_LARGE: Final = "%int"
"""No key is written like this, for "%" is always followed by two hexadecimal digits or the end."""


def scope_filter(scope: Scope | Tenant | None, ids: Iterable[str] | None = None) -> Document:
    """Matches what is in the scope (None: everything), with one of the `ids` (None: whichever)."""
    query: Document = {}
    if isinstance(scope, Tenant):
        first, below = tenants_range(scope.name)
        query["user_id"] = {"$not": {"$regex": BETWEEN}} if below is None else {"$gte": first, "$lt": below}
    elif scope is not None:
        query["user_id"] = scope.user_id
        query |= {} if scope.thread_id is None else {"thread_id": scope.thread_id}
    return query if ids is None else query | one_of(ids)


def one_of(ids: Iterable[str]) -> Document:
    """Matches what has one of these ids."""
    return {"_id": {"$in": list(ids)}}


def turn_document(scope: Scope, draft: TurnDraft) -> Document:
    """A draft as stored, but for its `seq`."""
    document = DRAFT.document(
        draft,
        user_id=scope.user_id,
        thread_id=thread_of(scope),
        due_at=draft.due_at if draft.pending else None,
    )
    return document | ({"owes": True} if draft.pending else {})


def turn_or_tombstone(document: Document) -> Turn | Tombstone:
    """Decode a document of `turns`, with its `content`: a turn, or the tombstone of one."""
    return TOMBSTONE.get(document) if "gone_at" in document else TURN.get(document)


def row_document(row: SearchRow) -> Document:
    """A search row as stored, but for its `index_seq`."""
    vectors, passages = pack_vectors(row.vectors)
    document = ROW.document(row, vectors=vectors, passages=passages, terms=pack_terms(row.terms))
    return document | ({"tokens": row.tokens} if row.tokens else {})


def stub_document(user_id: str, row: Document, *, now: datetime) -> Document:
    """The document that replaces an erased turn's row; it holds nothing of the turn but its place."""
    place = {name: row[name] for name in ("_id", "thread_id", "seq")}
    empty = {
        "vectors": b"",
        "passages": 0,
        "terms": "",
        "length": 0,
        "embedder": "",
        "language": "",
    }
    return {
        **place,
        "user_id": user_id,
        "role": "user",
        "timestamp": now,
        **empty,
        "erased": True,
        "erased_at": now,
    }


def search_row(document: Document) -> SearchRow:
    """The row in a document of `search_rows`."""
    try:
        return ROW.of(**ROW.of_document(document), erased="erased" in document)
    except DAMAGED as exc:
        raise damaged(document["_id"], exc) from exc


def change_document(scope: Scope, change: FactChange) -> Document:
    """One change as stored, but for its `seq`: all of it in one document, so that it is there wholly or not at all."""
    document = CHANGE.document(change, thread_id=thread_of(scope), stated=pack_stated(change))
    return {"user_id": scope.user_id, **document}


def facts_fields(document: FactsDocument) -> Document:
    """The thread's facts as stored, under a fresh revision."""
    return FACTS.document(document, facts=to_bson(document.facts), revision=uuid4().hex)


def facts_document(document: Document | None) -> FactsDocument:
    """The stored facts; an empty document without any, and for the form of before schema 14, which the upgrade replaces."""
    if document is None:
        return FactsDocument()
    if isinstance(document.get("facts"), list):
        return FactsDocument(revision=document.get("revision"))
    return FACTS.get({**document, "facts": from_bson(document.get("facts"))})


def to_bson(value: Any) -> Any:
    """A JSON value as BSON can hold it: text, numbers, booleans, None, and lists and dicts of those."""
    if isinstance(value, dict):
        return {_written(key): to_bson(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [to_bson(inner) for inner in value]
    if isinstance(value, int) and not -(2**63) <= value < 2**63:
        return {_LARGE: str(value)}
    return value


def from_bson(value: Any) -> Any:
    """The inverse of `to_bson`, keys in their order; PyMongo's 64-bit integers become plain ones."""
    if isinstance(value, dict):
        if _LARGE in value:
            return int(value[_LARGE])
        return {_read(key): from_bson(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [from_bson(inner) for inner in value]
    if isinstance(value, int) and not isinstance(value, bool):
        return int(value)
    return value


def _written(key: str) -> str:
    return _SPECIAL.sub(lambda found: f"%{ord(found[0]):02X}", key) or _NO_KEY


def _read(key: str) -> str:
    return "" if key == _NO_KEY else _WRITTEN.sub(lambda found: chr(int(found[1], 16)), key)
