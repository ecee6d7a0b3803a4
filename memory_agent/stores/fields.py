"""Storage form of each value: one table of its fields, for SQLite's columns and for MongoDB's documents.

Never rename a field or change its kind: files and databases hold them. What a value takes beside its fields (a number
that the store assigns, texts that are kept elsewhere) its store hands in by name, and takes out again.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, replace
from types import NoneType
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from memory_agent.domain import (
    Character,
    Erasure,
    FactChange,
    ParkedTurn,
    Scope,
    SearchRow,
    TopicSummary,
    Turn,
)
from memory_agent.stores.codec import (
    dump_json,
    from_milliseconds,
    milliseconds,
    pack_entities,
    unpack_entities,
    unpack_signs,
    unpack_stated,
    unpack_vectors,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from memory_agent.domain import Stage

    Record = tuple[Any, ...]

STAGE_BITS: Final[dict[Stage, int]] = {"index": 1, "topics": 2, "facts": 8, "compact": 16, "compress": 32}
"""How `turns.pending` keeps the owed stages, in their order. Never renumber: files on disk hold these bits.

4 was once reserved for entities and stays unused: they are found in the index stage.
"""
_EMPTY: Final[tuple[Any, ...]] = (None, "", (), [], {}, b"")


def _as_it_is(value: Any) -> Any:
    return value


@dataclass(frozen=True, kw_only=True, slots=True)
class Kind:
    """Conversion of a field's values: to a column and back, and to part of a document."""

    write: Callable[[Any], Any] = _as_it_is
    read: Callable[[Any], Any] = _as_it_is
    put: Callable[[Any], Any] = _as_it_is
    get: Callable[[Any], Any] = _as_it_is
    absent: Callable[[], Any] | None = None
    """What it means that a document lacks the field; None: it never does."""

    def or_absent(self, absent: Callable[[], Any] = NoneType) -> Kind:
        """The same, but documents leave it out where it is that."""
        return replace(self, absent=absent)

    def leaves_out(self, stored: Any) -> bool:
        """True if documents do without this: None, or what is empty if its absence means something empty."""
        if self.absent is NoneType:
            return stored is None
        return self.absent is not None and stored in _EMPTY


class Fields:
    """The stored fields of a value. `names`: what MongoDB calls those that it calls otherwise."""

    def __init__(self, kinds: Mapping[str, Kind], *, names: Mapping[str, str] | None = None) -> None:
        self._kinds = dict(kinds)
        self._names = dict(names or {})
        self.columns = ", ".join(self._kinds)
        self.marks = ", ".join("?" * len(self._kinds))
        self._reads = [(name, kind.read) for name, kind in self._kinds.items()]

    def only(self, *names: str) -> Fields:
        """These of the fields."""
        return Fields({name: self._kinds[name] for name in names}, names=self._names)

    def record(self, value: Any, **given: Any) -> Record:
        """The parameters for `columns`; `given` instead of the value's own fields, as they are stored."""
        return tuple(
            given[name] if name in given else kind.write(getattr(value, name))
            for name, kind in self._kinds.items()
        )

    def of_record(self, record: Sequence[Any]) -> dict[str, Any]:
        """The fields in a row that begins with `columns`."""
        return {
            name: value if read is _as_it_is else read(value)
            for (name, read), value in zip(self._reads, record, strict=False)
        }

    def document(self, value: Any, **given: Any) -> dict[str, Any]:
        """The value as MongoDB stores it, without fields that neither it nor `given` has."""
        document = {}
        for name, kind in self._kinds.items():
            if name in given or hasattr(value, name):
                stored = kind.put(given[name] if name in given else getattr(value, name))
                if not kind.leaves_out(stored):
                    document[self._names.get(name, name)] = stored
        return document

    def of_document(self, document: Mapping[str, Any]) -> dict[str, Any]:
        """The fields in a document."""
        found = {}
        for name, kind in self._kinds.items():
            key = self._names.get(name, name)
            lacking = kind.absent is not None and key not in document
            found[name] = kind.absent() if lacking and kind.absent else kind.get(document[key])
        return found


def _or_null(convert: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda value: None if value is None else convert(value)


def _packed_summary(summary: TopicSummary) -> str:
    return dump_json({**asdict(summary), "made_at": milliseconds(summary.made_at)})


def _summary(packed: str) -> TopicSummary:
    values = json.loads(packed)
    return TopicSummary(**{**values, "made_at": from_milliseconds(values["made_at"])})


def _character(name: str, personality: str, profile: str, traits: list[str]) -> Character:
    return Character(name=name, personality=personality, profile=profile, traits=tuple(traits))


def stages(pending: int) -> tuple[Stage, ...]:
    """The stages in SQLite's `turns.pending`, in the order they run."""
    return tuple(stage for stage, bit in STAGE_BITS.items() if pending & bit)


PLAIN: Final = Kind()
TIME: Final = Kind(write=_or_null(milliseconds), read=_or_null(from_milliseconds))
_FLAG: Final = Kind(write=int, read=bool)
LIST: Final = Kind(
    write=_or_null(dump_json),
    read=_or_null(lambda text: tuple(json.loads(text))),
    put=_or_null(list),
    get=_or_null(tuple),
)
_NAMES: Final = LIST.or_absent(tuple)
_MAPPING: Final = Kind(
    write=lambda mapping: dump_json(mapping) if mapping else None,
    read=lambda text: json.loads(text) if text else {},
    absent=dict,
)
_STAGES: Final = Kind(
    write=lambda pending: sum(STAGE_BITS[stage] for stage in pending), read=stages, put=list, get=tuple
)
_ENTITIES: Final = Kind(
    write=lambda entities: dump_json(pack_entities(entities)) if entities else None,
    read=lambda text: unpack_entities(json.loads(text)) if text else (),
    put=pack_entities,
    get=unpack_entities,
    absent=tuple,
)
_VECTOR: Final = Kind(
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
    write=lambda signs: signs.packed,
    read=unpack_signs,
    put=lambda signs: signs.packed or None,
    get=unpack_signs,
    absent=lambda: unpack_signs(0),
)

_OPTIONAL: Final = PLAIN.or_absent()
_OF_THREAD: Final = {"user_id": PLAIN, "thread_id": PLAIN}
_SAID: Final = {
    "id": PLAIN,
    **_OF_THREAD,
    "seq": PLAIN,
    "role": PLAIN,
    "content": PLAIN,
    "speaker": _OPTIONAL,
    "timestamp": TIME,
    "tokens": PLAIN,
    "importance": _OPTIONAL,
    "metadata": _MAPPING,
    "pending": _STAGES,
    "due_at": TIME.or_absent(),
    "session_id": _OPTIONAL,
    "entities": _ENTITIES,
}
_CALL: Final = {"call_index": PLAIN, "call_size": PLAIN}
DRAFT: Final = Fields({**_SAID, "idempotency_key": _OPTIONAL, **_CALL}, names={"id": "_id"})
TURN: Final = Fields(
    {
        **_SAID,
        "attempts": PLAIN.or_absent(int),
        "last_error": _OPTIONAL,
        "parked": _FLAG.or_absent(bool),
        "topic_id": _OPTIONAL,
        "segment_id": _OPTIONAL,
    },
    names={"id": "_id"},
)
OLD_TURN: Final = TURN.only("user_id", "thread_id", "id", "timestamp", "topic_id")
TOMBSTONE: Final = Fields({"turn_id": PLAIN, "seq": PLAIN, **_CALL}, names={"turn_id": "_id"})
PARKED: Final = Fields(
    {
        "id": PLAIN,
        **_OF_THREAD,
        "pending": _STAGES,
        "attempts": PLAIN.or_absent(int),
        "last_error": _OPTIONAL,
    },
    names={"id": "_id"},
)
ROW: Final = Fields(
    {
        "turn_id": PLAIN,
        **_OF_THREAD,
        "seq": PLAIN,
        "role": PLAIN,
        "timestamp": TIME,
        "session_id": _OPTIONAL,
        "speaker": _OPTIONAL,
        "signs": _SIGNS,
        "vectors": PLAIN,
        "passages": PLAIN,
        "terms": PLAIN,
        "length": PLAIN,
        "embedder": PLAIN,
        "language": PLAIN,
        "index_seq": PLAIN,
    },
    names={"turn_id": "_id"},
)
TOPIC: Final = Fields(
    {
        "id": PLAIN,
        **_OF_THREAD,
        "title": PLAIN,
        "created_at": TIME,
        "last_access": TIME,
        "access_count": PLAIN,
        "given_importance": PLAIN,
        "embedding": _VECTOR,
        "embedded": PLAIN,
        "embedder": PLAIN,
        "summary": _SUMMARY,
        "through": PLAIN,
        "stale": _FLAG,
        "set_importance": _OPTIONAL,
        "votes": PLAIN,
        "tags": _NAMES,
        "absorbed": _NAMES,
        "archived": _FLAG,
        "revision": PLAIN,
    },
    names={"id": "topic_id"},
)
STANDING: Final = TOPIC.only(
    *("user_id", "thread_id", "id", "last_access", "access_count", "given_importance", "set_importance"),
    *("votes", "through", "absorbed", "archived", "stale"),
)
CHANGE: Final = Fields(
    {
        "thread_id": PLAIN,
        "seq": PLAIN,
        "key": PLAIN,
        "kind": PLAIN,
        "at": PLAIN,
        "turn_id": _OPTIONAL,
        "turns": _NAMES,
        "said_at": TIME,
        "recorded_at": TIME,
        "extractor": PLAIN,
        "generation": PLAIN.or_absent(str),
        "stated": PLAIN,
        "idempotency_key": _OPTIONAL,
    }
)
COST: Final = Fields(dict.fromkeys(("turns", "requests", "prompt_tokens", "completion_tokens"), PLAIN))
SESSION: Final = Fields(
    {
        **_OF_THREAD,
        "number": PLAIN,
        "id": PLAIN,
        "started_at": TIME,
        "after_seq": PLAIN,
        "explicit": _FLAG,
        "participants": _NAMES,
        "character": _CHARACTER,
        "metadata": _MAPPING,
        "idempotency_key": _OPTIONAL,
    },
    names={"id": "session_id"},
)
LEASE: Final = Fields(
    {"name": PLAIN, "holder": PLAIN, "since": TIME, "until": TIME, "note": _OPTIONAL}, names={"name": "_id"}
)
ERASURE: Final = Fields(
    {"id": PLAIN, **_OF_THREAD, "turn_ids": LIST, "before_id": PLAIN, "due_at": TIME, "swept": _FLAG},
    names={"id": "_id"},
)
API_KEY: Final = Fields(
    {
        "id": PLAIN,
        "tenant": PLAIN,
        "secret_hash": PLAIN,
        "created_at": TIME,
        "user_id": _OPTIONAL,
        "read_only": _FLAG,
        "label": PLAIN,
        "expires_at": TIME.or_absent(),
        "revoked_at": TIME.or_absent(),
        "requests_per_minute": _OPTIONAL,
        "max_body_bytes": _OPTIONAL,
    },
    names={"id": "_id"},
)


def turn_of(values: dict[str, Any], content: str) -> Turn:
    """The turn of the fields of TURN, with its text: for compressed ones that is not among them."""
    compressed = values.pop("segment_id") is not None
    return Turn(**values | {"content": content, "compressed": compressed})


def parked_turn(values: dict[str, Any]) -> ParkedTurn:
    """The turn of the fields of PARKED."""
    error = values.pop("last_error") or ""
    return ParkedTurn(turn_id=values.pop("id"), last_error=error, **values)


def search_row_of(values: dict[str, Any], terms: Mapping[str, int], *, erased: bool) -> SearchRow:
    """The row of the fields of ROW. Called 10,000 times at a user's first search: keep it tight."""
    vectors = unpack_vectors(values["vectors"], values.pop("passages"))
    return SearchRow(**values | {"vectors": vectors, "terms": terms, "erased": erased})


def fact_change_of(values: dict[str, Any]) -> FactChange:
    """The change of the fields of CHANGE."""
    events, refused = unpack_stated(values.pop("stated"))
    return FactChange(**values, events=events, refused=refused)


def erasure_of(values: dict[str, Any]) -> Erasure:
    """The forget call of the fields of ERASURE."""
    scope = Scope(user_id=values.pop("user_id"), thread_id=values.pop("thread_id"))
    return Erasure(scope=scope, **values)
