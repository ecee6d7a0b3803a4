"""Storage form of each value: one table of its fields, for SQLite's columns and for MongoDB's documents.

Never rename a field or change its kind: files and databases hold them. What a value takes beside its fields (a number
that the store assigns, texts that are kept elsewhere) its store hands in by name, and takes out again.
"""

from __future__ import annotations

import functools
import json
from dataclasses import asdict, replace
from types import NoneType
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from memory_agent.domain import (
    STAGES,
    ApiKey,
    Character,
    Compression,
    Erasure,
    ErasureReceipt,
    ExtractionCost,
    FactChange,
    FactsDocument,
    Lease,
    OldTurn,
    ParkedTurn,
    Scope,
    SearchRow,
    Session,
    Tombstone,
    Topic,
    TopicDecayState,
    TopicHead,
    TopicSummary,
    Turn,
    by_person,
)
from memory_agent.errors import StoreError
from memory_agent.stores.codec import (
    Fields,
    Kind,
    dump_json,
    from_milliseconds,
    milliseconds,
    pack_entities,
    pack_id,
    unpack_derived,
    unpack_entities,
    unpack_id,
    unpack_signs,
    unpack_stated,
    unpack_terms,
    unpack_vectors,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from memory_agent.domain import Stage


STAGE_BITS: Final[dict[Stage, int]] = {
    "index": 1,
    "topics": 2,
    "facts": 8,
    "compact": 16,
    "compress": 32,
    "reextract": 64,
}
"""How `turns.pending` keeps the owed stages, whatever order they run in. Never renumber: files on disk hold these bits.

4 was once reserved for entities and stays unused: they are found in the index stage.
"""


def _or_null(convert: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda value: None if value is None else convert(value)


def _packed_summary(summary: TopicSummary) -> str:
    return dump_json({**asdict(summary), "made_at": milliseconds(summary.made_at)})


def _summary(packed: str) -> TopicSummary:
    values = json.loads(packed)
    return TopicSummary(**{**values, "made_at": from_milliseconds(values["made_at"])})


def _character(name: str, personality: str, profile: str, traits: list[str]) -> Character:
    return Character(name=name, personality=personality, profile=profile, traits=tuple(traits))


def _words(packed: str) -> dict[str, tuple[int, str]]:
    return {word: (turns, phrase) for word, (turns, phrase) in json.loads(packed).items()}


@functools.cache
def stages(pending: int) -> tuple[Stage, ...]:
    """The stages in SQLite's `turns.pending`, in the order they run."""
    return tuple(stage for stage in STAGES if pending & STAGE_BITS[stage])


def _in_order(pending: list[Stage]) -> tuple[Stage, ...]:
    """MongoDB's `turns.pending` in the order the stages run, which was another when some turns were stored."""
    return tuple(stage for stage in STAGES if stage in pending)


_TEXT: Final = Kind()
_WHOLE: Final = Kind(column="INTEGER")
_REAL: Final = Kind(column="REAL")
_BYTES: Final = Kind(column="BLOB")
_TIME: Final = Kind(column="INTEGER", write=_or_null(milliseconds), read=_or_null(from_milliseconds))
_ID: Final = Kind(column="ANY", write=_or_null(pack_id), read=_or_null(unpack_id))
_FLAG: Final = Kind(column="INTEGER", write=int, read=bool)
_LIST: Final = Kind(
    write=_or_null(dump_json),
    read=_or_null(lambda text: tuple(json.loads(text))),
    put=_or_null(list),
    get=_or_null(tuple),
)
_NAMES: Final = _LIST.or_absent(tuple)
_MAPPING: Final = Kind(
    write=lambda mapping: dump_json(mapping) if mapping else None,
    read=lambda text: json.loads(text) if text else {},
    absent=dict,
)
_STAGES: Final = Kind(
    column="INTEGER",  # a bit per owed stage
    write=lambda pending: sum(STAGE_BITS[stage] for stage in pending),
    read=stages,
    put=list,
    get=_in_order,
)
_ENTITIES: Final = Kind(
    write=lambda entities: dump_json(pack_entities(entities)) if entities else None,
    read=lambda text: unpack_entities(json.loads(text)) if text else (),
    put=pack_entities,
    get=unpack_entities,
    absent=tuple,
)
_GIVEN: Final = Kind(
    write=_or_null(lambda entities: dump_json(pack_entities(entities))),
    read=_or_null(lambda text: unpack_entities(json.loads(text))),
    put=_or_null(pack_entities),
    get=_or_null(unpack_entities),
    absent=NoneType,
)
_WORDS: Final = Kind(  # as JSON in documents too, where a word could be no key
    write=dump_json,
    read=_words,
    put=dump_json,
    get=_words,
)
_VECTOR: Final = Kind(
    column="BLOB",
    write=lambda vector: vector.astype("<f2").tobytes(),
    read=lambda packed: np.frombuffer(packed, dtype="<f2"),
    put=lambda vector: vector.astype("<f2").tobytes(),
    get=lambda packed: np.frombuffer(packed, dtype="<f2"),
    absent=lambda: np.empty(0, dtype="<f2"),
)
_SUMMARY: Final = Kind(
    write=_or_null(_packed_summary),
    read=_or_null(_summary),
    put=_or_null(asdict),
    get=lambda fields: TopicSummary(**fields),
    absent=NoneType,
)
_CHARACTER: Final = Kind(
    write=_or_null(lambda character: dump_json(list(asdict(character).values()))),
    read=_or_null(lambda packed: _character(*json.loads(packed))),
    put=_or_null(asdict),
    get=lambda fields: _character(**fields),
    absent=NoneType,
)
_SIGNS: Final = Kind(
    column="INTEGER",
    write=lambda signs: signs.packed,
    read=unpack_signs,
    put=lambda signs: signs.packed or None,
    get=unpack_signs,
    absent=lambda: unpack_signs(0),
)


def _drafted(*, idempotency_key: str | None, call_index: int, call_size: int, **values: Any) -> Turn:
    return Turn(**values)


def _turn(**values: Any) -> Turn:
    values["compressed"] = values.pop("segment_id") is not None
    return Turn(**values)


def _parked(*, id: str, last_error: str | None, **values: Any) -> ParkedTurn:  # noqa: A002 - the field's name
    return ParkedTurn(turn_id=id, last_error=last_error or "", **values)


def search_row_of(*, vectors: bytes, passages: int, terms: str, **values: Any) -> SearchRow:
    """The row of the fields of ROW. Called 10,000 times at a user's first search: keep it tight."""
    return SearchRow(vectors=unpack_vectors(vectors, passages), terms=unpack_terms(terms), **values)


def _change(*, stated: str, **values: Any) -> FactChange:
    events, refused = unpack_stated(stated)
    return FactChange(**values, events=events, refused=refused)


def _compression(*, derived: bytes, **values: Any) -> Compression:
    return Compression(**unpack_derived(bytes(derived)), **values)


def _erasure(*, user_id: str, thread_id: str | None, **values: Any) -> Erasure:
    return Erasure(scope=Scope(user_id=user_id, thread_id=thread_id), **values)


_OPTIONAL: Final = _TEXT.or_absent()
_OF_THREAD: Final = {"user_id": _TEXT, "thread_id": _TEXT}
_SAID: Final = {
    "id": _TEXT,
    **_OF_THREAD,
    "seq": _WHOLE,
    "role": _TEXT,
    "content": _TEXT,
    "speaker": _OPTIONAL,
    "timestamp": _TIME,
    "tokens": _WHOLE,
    "importance": _REAL.or_absent(),
    "metadata": _MAPPING,
    "pending": _STAGES,
    "due_at": _TIME.or_absent(),
    "session_id": _OPTIONAL,
    "entities": _ENTITIES,
    "given_entities": _GIVEN,
    "utc_offset_minutes": _WHOLE.or_absent(),
}
_CALL: Final = {"call_index": _WHOLE, "call_size": _WHOLE}
_FAILED: Final = {"attempts": _WHOLE.or_absent(int), "last_error": _OPTIONAL}
DRAFT: Final = Fields(_drafted, {**_SAID, "idempotency_key": _OPTIONAL, **_CALL}, names={"id": "_id"})
TURN: Final = Fields(
    _turn,
    {
        **_SAID,
        **_FAILED,
        "parked": _FLAG.or_absent(bool),
        "topic_id": _OPTIONAL,
        "segment_id": _WHOLE.or_absent(),
    },
    names={"id": "_id"},
)
OLD_TURN: Final = TURN.only(OldTurn, "user_id", "thread_id", "id", "timestamp", "topic_id")
TOMBSTONE: Final = Fields(Tombstone, {"turn_id": _TEXT, "seq": _WHOLE, **_CALL}, names={"turn_id": "_id"})
PARKED: Final = Fields(
    _parked, {"id": _TEXT, **_OF_THREAD, "pending": _STAGES, **_FAILED}, names={"id": "_id"}
)
ROW: Final = Fields(
    search_row_of,
    {
        "turn_id": _ID,
        **_OF_THREAD,
        "seq": _WHOLE,
        "role": _TEXT,
        "timestamp": _TIME,
        "session_id": _ID.or_absent(),
        "speaker": _OPTIONAL,
        "utc_offset_minutes": _WHOLE.or_absent(),
        "signs": _SIGNS,
        "told_days": _LIST.or_absent(tuple),
        "vectors": _BYTES,
        "passages": _WHOLE,
        "terms": _TEXT,
        "length": _WHOLE,
        "embedder": _TEXT,  # whose vectors these are
        "language": _TEXT,  # whose stems these are
        "index_seq": _WHOLE,
    },
    names={"turn_id": "_id"},
)
TOPIC: Final = Fields(
    Topic,
    {
        **_OF_THREAD,
        "id": _TEXT,
        "title": _TEXT,
        "opener": _TEXT,
        "created_at": _TIME,
        "last_access": _TIME,
        "access_count": _WHOLE,
        "given_importance": _REAL.or_null(),
        "embedded": _WHOLE,
        "embedder": _TEXT,
        "through": _WHOLE,
        "stale": _FLAG,
        "set_importance": _REAL.or_absent(),
        "votes": _WHOLE,
        "tags": _NAMES,
        "absorbed": _NAMES,
        "parted": _NAMES,
        "archived": _FLAG,
        "revision": _TEXT,
        "words": _WORDS,
        "embedding": _VECTOR,  # the large ones last, so that SQLite reads the others without them
        "summary": _SUMMARY,
    },
    names={"id": "topic_id"},
)
HEAD: Final = TOPIC.only(
    TopicHead,
    *("user_id", "thread_id", "id", "title", "opener", "created_at", "last_access", "access_count"),
    *("given_importance", "through", "stale", "set_importance", "votes", "tags", "absorbed", "archived"),
    "summary",
)
STANDING: Final = TOPIC.only(
    TopicDecayState,
    *("user_id", "thread_id", "id", "last_access", "access_count", "given_importance", "set_importance"),
    *("votes", "through", "absorbed", "archived", "stale"),
)
CHANGE: Final = Fields(
    _change,
    {
        "thread_id": _TEXT,
        "seq": _WHOLE,
        "key": _TEXT,
        "kind": _TEXT,
        "at": _TEXT,
        "turn_id": _OPTIONAL,
        "turns": _NAMES,
        "said_at": _TIME,
        "recorded_at": _TIME,
        "extractor": _TEXT,
        "generation": _TEXT.or_absent(str),
        "stated": _TEXT,
        "idempotency_key": _OPTIONAL,
    },
)
FACTS: Final = Fields(
    lambda facts, people, **values: FactsDocument(people=by_person(facts, people), **values),
    {
        "facts": Kind(write=dump_json, read=json.loads),
        "people": replace(_NAMES, write=lambda people: dump_json(list(people))),
        "through": _WHOLE,
        "created_at": _TIME.or_null(),
        "updated_at": _TIME.or_null(),
        "revision": _TEXT,
    },
)
COST: Final = Fields(
    ExtractionCost,
    {
        **dict.fromkeys(("turns", "requests", "prompt_tokens", "completion_tokens"), _WHOLE),
        "seconds": _REAL.or_absent(float),
    },
)
SESSION: Final = Fields(
    Session,
    {
        **_OF_THREAD,
        "number": _WHOLE,
        "id": _TEXT,
        "started_at": _TIME,
        "after_seq": _WHOLE,
        "explicit": _FLAG,
        "participants": _NAMES,
        "character": _CHARACTER,
        "metadata": _MAPPING,
        "idempotency_key": _OPTIONAL,
    },
    names={"id": "session_id"},
)
COMPRESSION: Final = Fields(
    _compression,
    {
        **_OF_THREAD,
        "id": _TEXT,
        "at": _TIME,
        "session_id": _OPTIONAL,
        "number": _WHOLE,
        "reason": _TEXT,
        **dict.fromkeys(("after_seq", "through", "turns", "tokens_before", "tokens_after"), _WHOLE),
        "made_by": _TEXT,
        "derived": _BYTES,
        "covers": _LIST,
    },
)
LEASE: Final = Fields(
    Lease,
    {"name": _TEXT, "holder": _TEXT, "since": _TIME, "until": _TIME, "note": _OPTIONAL},
    names={"name": "_id"},
)
ERASURE: Final = Fields(
    _erasure,
    {
        "id": _TEXT,
        "user_id": _TEXT,
        "thread_id": _TEXT.or_null(),
        "turn_ids": _LIST.or_null(),
        "before_id": _TEXT,
        "due_at": _TIME,
        "swept": _FLAG,
        "keeps_facts": _FLAG.or_absent(bool),
    },
    names={"id": "_id"},
)
RECEIPT: Final = Fields(
    ErasureReceipt,
    {
        "id": _TEXT,
        "at": _TIME,
        "key": _TEXT,
        "tenant": _TEXT,
        "user": _TEXT,
        "thread": _TEXT.or_null(),
        "turns": _LIST,
        "before_id": _TEXT,
        "state": _TEXT,
        "keeps_facts": _FLAG.or_absent(bool),
    },
    names={"id": "_id"},
)
API_KEY: Final = Fields(
    ApiKey,
    {
        "id": _TEXT,
        "tenant": _TEXT,
        "secret_hash": _TEXT,
        "created_at": _TIME,
        "user_id": _OPTIONAL,
        "read_only": _FLAG,
        "label": _TEXT,
        "expires_at": _TIME.or_absent(),
        "revoked_at": _TIME.or_absent(),
        "requests_per_minute": _WHOLE.or_absent(),
        "max_body_bytes": _WHOLE.or_absent(),
    },
    names={"id": "_id"},
)


NEWEST: Final = 14
OLDEST: Final = 9
"""That of version 0.1.0, the first that was released."""


def check_version(found: int, place: str) -> None:
    """Raise StoreError for a store of a version that is not read here. `place`: the file, or the database."""
    if found > NEWEST:
        raise StoreError(
            f"{place} was written by a later memory_agent (schema {found}, this one knows up to {NEWEST}); nothing in it"
            " was touched. Upgrade memory_agent, or name another data_dir or db_name"
        )
    if found < OLDEST:
        raise StoreError(
            f"{place} was written by a memory_agent of before 0.1.0 (schema {found}, this one reads {OLDEST} and later);"
            " nothing in it was touched. Name another data_dir or db_name, or export the turns with the memory_agent that"
            " wrote them and ingest them anew"
        )
