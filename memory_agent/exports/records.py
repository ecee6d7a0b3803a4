"""Records of an export: the JSON form of each value, a line each. Pure.

A line is an object with the kind of its `record`, whose it is (`tenant`, `user_id`, `thread_id`), and the value's fields; those that have their
default are left out. Times are ISO 8601 in UTC with milliseconds, bytes are in base64.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from pydantic import TypeAdapter, ValidationError

from memory_agent import domain
from memory_agent.checks import MAX_ID_CHARS
from memory_agent.domain import (
    ApiKey,
    Compression,
    CopiedTurn,
    Erasure,
    ErasureReceipt,
    FactChange,
    Scope,
    SearchRow,
    Session,
    ThreadRemains,
    Topic,
)
from memory_agent.errors import InvalidInput
from memory_agent.stores.codec import dump_json, pack_vectors, unpack_vectors

if TYPE_CHECKING:
    from collections.abc import Callable

_NAMES: Final = vars(domain) | {"datetime": datetime, "Mapping": Mapping, "Sequence": Sequence, "Any": Any}
"""What dataclasses import for their annotations alone."""


class _Array:
    """Stands for arrays, which are handed over in their own form."""

    def __class_getitem__(cls, _: object) -> Any:
        return Any


@dataclass(frozen=True, kw_only=True, slots=True)
class Secret:
    """The secret that the hashes of receipts are made with."""

    key: str


_adapters: dict[type[Any], TypeAdapter[Any]] = {}


def _adapter(kind: type[Any]) -> TypeAdapter[Any]:
    """Pydantic's reader and writer of a dataclass; made at its first use, for that takes some milliseconds."""
    if kind not in _adapters:
        adapter: TypeAdapter[Any] = TypeAdapter(kind)
        arrays = {"NDArray": _Array, "np": np}
        adapter.rebuild(force=True, _types_namespace={**_NAMES, **arrays})
        _adapters[kind] = adapter
    return _adapters[kind]


def _written(value: Any) -> dict[str, Any]:
    written: dict[str, Any] = _adapter(type(value)).dump_python(value, mode="json", exclude_defaults=True)
    return written


def _base64(data: bytes) -> str:
    return base64.b64encode(data).decode("ascii")


def _topic(topic: Topic) -> dict[str, Any]:
    others = {"embedding", "revision"}  # an array cannot be compared with its default
    written: dict[str, Any] = _adapter(Topic).dump_python(
        topic, mode="json", exclude=others, exclude_defaults=True
    )
    embedding = topic.embedding.astype("<f2").tobytes()
    return written | ({"embedding": _base64(embedding)} if embedding else {})


def _read_topic(given: dict[str, Any]) -> Topic:
    packed = given.pop("embedding", "")
    topic: Topic = _adapter(Topic).validate_python(given)
    return replace(topic, embedding=np.frombuffer(base64.b64decode(packed, validate=True), dtype="<f2"))


_ROW: Final = ("turn_id", "user_id", "thread_id", "seq", "role", "timestamp", "session_id", "speaker")
_ROW_PLAIN: Final = ("terms", "length", "embedder", "language")


def _row(row: SearchRow) -> dict[str, Any]:
    vectors, passages = pack_vectors(row.vectors)
    written = {name: getattr(row, name) for name in (*_ROW, *_ROW_PLAIN)}
    written |= {"timestamp": _iso(row.timestamp), "terms": dict(row.terms), "signs": row.signs.packed}
    written |= {"passages": passages, "vectors": _base64(vectors), "tokens": _base64(row.tokens)}
    return {name: value for name, value in written.items() if value not in (None, "")}


def _read_row(given: dict[str, Any]) -> SearchRow:
    vectors = base64.b64decode(given.pop("vectors", ""), validate=True)
    tokens = base64.b64decode(given.pop("tokens", ""), validate=True)
    signs, passages = domain.TurnFeatures.unpacked(given.pop("signs")), given.pop("passages")
    given["timestamp"] = datetime.fromisoformat(given["timestamp"])
    given = {"embedder": "", "language": "", **given}
    return SearchRow(vectors=unpack_vectors(vectors, passages), tokens=tokens, signs=signs, **given)


def _iso(time: datetime) -> str:
    return time.isoformat().replace("+00:00", "Z")


def _copied(copied: CopiedTurn) -> dict[str, Any]:
    turn = replace(copied.turn, due_at=None)
    written = _written(turn)
    if copied.idempotency_key is not None:
        written |= {"idempotency_key": copied.idempotency_key}
    return written | {"call_index": copied.call_index, "call_size": copied.call_size}


def _read_copied(given: dict[str, Any]) -> CopiedTurn:
    call = {name: given.pop(name) for name in ("idempotency_key", "call_index", "call_size") if name in given}
    return CopiedTurn(turn=_adapter(domain.Turn).validate_python(given), **call)


def _session(session: Session) -> dict[str, Any]:
    return _written(replace(session, last_activity=None, total_turns=0, compression_count=0))


def _reader(kind: type[Any]) -> Callable[[dict[str, Any]], Any]:
    return lambda given: _adapter(kind).validate_python(given)


_KINDS: Final[
    dict[str, tuple[type[Any], Callable[[Any], dict[str, Any]], Callable[[dict[str, Any]], Any]]]
] = {
    "turn": (CopiedTurn, _copied, _read_copied),
    "session": (Session, _session, _reader(Session)),
    "topic": (Topic, _topic, _read_topic),
    "change": (FactChange, _written, _reader(FactChange)),
    "compression": (Compression, _written, _reader(Compression)),
    "row": (SearchRow, _row, _read_row),
    "remains": (ThreadRemains, _written, _reader(ThreadRemains)),
    "secret": (Secret, _written, _reader(Secret)),
    "receipt": (ErasureReceipt, _written, _reader(ErasureReceipt)),
    "erasure": (Erasure, _written, _reader(Erasure)),
    "key": (ApiKey, _written, _reader(ApiKey)),
}
"""Each kind of record with its value, and the way there and back."""
OF_A_THREAD: Final = ("turn", "session", "topic", "change", "compression", "row", "remains")
_KIND_OF: Final = {value: name for name, (value, _, _) in _KINDS.items()}


@dataclass(frozen=True, kw_only=True, slots=True)
class Record:
    """One line. `scope`: whose it is, None for what is the whole memory's."""

    kind: str
    value: Any
    scope: Scope | None = None

    @classmethod
    def of(cls, value: Any, scope: Scope | None = None) -> Record:
        return cls(kind=_KIND_OF[type(value)], value=value, scope=scope)

    def line(self) -> str:
        """The record as a line of JSON, without its end."""
        written = _KINDS[self.kind][1](self.value)
        whose: dict[str, Any] = {}
        if self.scope is not None:
            for name in ("user_id", "thread_id"):
                written.pop(name, None)
            whose = {"tenant": self.scope.tenant, "user_id": self.scope.tenants_user_id}
            whose["thread_id"] = self.scope.thread_id
        return dump_json({"record": self.kind, **whose, **written})


def read_record(line: str) -> Record:
    """The record in a line. Raises InvalidInput, which says what is wrong with it."""
    try:
        given = json.loads(line)
        kind = given.pop("record")
        if kind not in _KINDS:
            raise InvalidInput(f"its record is {kind!r:.80}; known are {', '.join(_KINDS)}")
        scope = None
        if kind in OF_A_THREAD:
            scope = Scope.of(_id(given, "user_id"), _id(given, "thread_id"), tenant=given.pop("tenant"))
            whose = {"user_id": scope.user_id, "thread_id": scope.thread_id}
            value_type = _KINDS[kind][0]
            names = (
                {"user_id", "thread_id"}
                if value_type is CopiedTurn
                else {one.name for one in fields(value_type)}
            )
            given |= {name: value for name, value in whose.items() if name in names}
        return Record(kind=kind, value=_KINDS[kind][2](given), scope=scope)
    except ValidationError as exc:
        first = exc.errors(include_url=False, include_input=False)[0]
        place = ".".join(map(str, first["loc"]))
        raise InvalidInput(f"{place or 'it'}: {first['msg']}") from exc
    except InvalidInput:
        raise
    except KeyError as exc:
        raise InvalidInput(f"it lacks {exc}") from exc
    except (ValueError, TypeError, AttributeError) as exc:
        raise InvalidInput(f"it cannot be read ({exc!s:.200})") from exc


def _id(given: dict[str, Any], name: str) -> str:
    value = given.pop(name)
    if not isinstance(value, str) or not 0 < len(value) <= MAX_ID_CHARS:
        raise InvalidInput(f"its {name} is {value!r:.80}; an id has 1 to {MAX_ID_CHARS} characters")
    return value
