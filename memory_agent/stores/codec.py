"""Pieces of the stored form that MongoDB and SQLite share."""

from __future__ import annotations

import json
from collections import defaultdict
from dataclasses import MISSING, fields
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final, TypeVar

import numpy as np

from memory_agent.domain import Entity, FactEvent, RefusedFact, TurnFeatures
from memory_agent.errors import InvalidInput

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from numpy.typing import NDArray

    from memory_agent.domain import FactChange, Scope, Session

EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
SEQ_TRUST_SECONDS: Final = 30.0
"""How long a process may number a thread's turns from memory, without asking the store for the last one."""
SEQ_HELD: Final = timedelta(seconds=2 * SEQ_TRUST_SECONDS)
"""How long an erased turn's number stays taken at least, so that no process still counts from below it."""

_T = TypeVar("_T")
_MILLISECOND: Final = timedelta(milliseconds=1)
_NO_VECTORS: Final[NDArray[np.float16]] = np.empty((0, 0), dtype=np.float16)
_EVENT_DEFAULTS: Final = {
    field.name: field.default for field in fields(FactEvent) if field.default is not MISSING
}


def milliseconds(time: datetime) -> int:
    """Milliseconds since 1970, exact for every year that a datetime can hold."""
    return (time - EPOCH) // _MILLISECOND


def from_milliseconds(value: int) -> datetime:
    """The inverse of `milliseconds`."""
    return EPOCH + value * _MILLISECOND


def thread_of(scope: Scope) -> str:
    """The scope's thread; raises InvalidInput for a scope that names none."""
    if scope.thread_id is None:
        raise InvalidInput(f"the scope of user {scope.tenants_user_id!r} names no thread; this needs one")
    return scope.thread_id


def of_tenant(sessions: Iterable[Session], tenant: str, user_id: str | None) -> list[Session]:
    """Those of the tenant's users, or of the one whom the tenant knows by `user_id`."""
    scopes = ((session, session.scope) for session in sessions)
    return [
        session
        for session, scope in scopes
        if scope.tenant == tenant and user_id in (None, scope.tenants_user_id)
    ]


def pack_vectors(vectors: NDArray[np.float16]) -> tuple[bytes, int]:
    """Little-endian float16 bytes, row by row, and how many rows (passages) they are."""
    passages = vectors.shape[0]
    return (np.ascontiguousarray(vectors, dtype="<f2").tobytes(), passages) if passages else (b"", 0)


def unpack_vectors(packed: bytes, passages: int) -> NDArray[np.float16]:
    """The inverse of `pack_vectors`: a read-only array of shape (passages, dimension)."""
    if not passages:
        return _NO_VECTORS
    return np.frombuffer(packed, dtype="<f2").reshape(passages, -1)


@lru_cache(maxsize=256)
def unpack_signs(packed: int) -> TurnFeatures:
    """The inverse of `TurnFeatures.packed`. There are few of them: a user's rows share the objects."""
    return TurnFeatures.unpacked(packed)


def by_thread(places: Iterable[tuple[str, int]]) -> dict[str, list[int]]:
    """The numbers of `places` (thread, `seq`) by thread."""
    threads: dict[str, list[int]] = defaultdict(list)
    for thread_id, seq in places:
        threads[thread_id].append(seq)
    return threads


def pack_stated(change: FactChange) -> str:
    """A change's events and refused facts as JSON text, without what is empty or the default.

    As text, for their values and keys may hold what a store's own documents may not.
    """
    packed: dict[str, Any] = {}
    if change.events:
        packed["events"] = [_event_fields(event) for event in change.events]
    if change.refused:
        packed["refused"] = [[r.op, r.path, r.said, r.quote, r.reason] for r in change.refused]
    return dump_json(packed)


def unpack_stated(text: str) -> tuple[tuple[FactEvent, ...], tuple[RefusedFact, ...]]:
    """The inverse of `pack_stated`."""
    packed = json.loads(text)
    return tuple(map(_event, packed.get("events", ()))), tuple(
        RefusedFact(op=op, path=path, said=said, quote=quote, reason=reason)
        for op, path, said, quote, reason in packed.get("refused", ())
    )


def _event_fields(event: FactEvent) -> dict[str, Any]:
    others = {name: getattr(event, name) for name in _EVENT_DEFAULTS}
    return {
        "op": event.op,
        "path": event.path,
        **{name: value for name, value in others.items() if value != _EVENT_DEFAULTS[name]},
    }


def _event(packed: Mapping[str, Any]) -> FactEvent:
    to = packed.get("to")
    return FactEvent(**{**packed, "path": tuple(packed["path"]), "to": None if to is None else tuple(to)})


def pack_entities(entities: Iterable[Entity]) -> list[list[str]]:
    """Entities as pairs of kind and name, in their order."""
    return [[entity.kind, entity.name] for entity in entities]


def unpack_entities(packed: Iterable[Sequence[str]]) -> tuple[Entity, ...]:
    """The inverse of `pack_entities`."""
    return tuple(Entity(kind=kind, name=name) for kind, name in packed)


def dump_json(value: Any) -> str:
    """Compact JSON that keeps every character as it is."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)


def chunks(items: Sequence[_T], size: int) -> Iterable[Sequence[_T]]:
    """`items` in slices of at most `size`."""
    for start in range(0, len(items), size):
        yield items[start : start + size]
