"""Pieces of the stored form that MongoDB and SQLite share."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final, TypeVar

import numpy as np

from memory_agent.domain import FactEvent
from memory_agent.errors import InvalidInput

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from numpy.typing import NDArray

    from memory_agent.domain import Scope

EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
SEQ_TRUST_SECONDS: Final = 30.0
"""How long a process may number a thread's turns from memory, without asking the store for the last one."""
SEQ_HELD: Final = timedelta(seconds=2 * SEQ_TRUST_SECONDS)
"""How long an erased turn's number stays taken at least, so that no process still counts from below it."""

_T = TypeVar("_T")
_MILLISECOND: Final = timedelta(milliseconds=1)
_NO_VECTORS: Final[NDArray[np.float16]] = np.empty((0, 0), dtype=np.float16)


def milliseconds(time: datetime) -> int:
    """Milliseconds since 1970, exact for every year that a datetime can hold."""
    return (time - EPOCH) // _MILLISECOND


def from_milliseconds(value: int) -> datetime:
    """The inverse of `milliseconds`."""
    return EPOCH + value * _MILLISECOND


def thread_of(scope: Scope) -> str:
    """The scope's thread; raises InvalidInput for a scope that names none."""
    if scope.thread_id is None:
        raise InvalidInput(f"the scope of user {scope.user_id!r} names no thread; this needs one")
    return scope.thread_id


def pack_vectors(vectors: NDArray[np.float16]) -> tuple[bytes, int]:
    """Little-endian float16 bytes, row by row, and how many rows (passages) they are."""
    passages = vectors.shape[0]
    return (np.ascontiguousarray(vectors, dtype="<f2").tobytes(), passages) if passages else (b"", 0)


def unpack_vectors(packed: bytes, passages: int) -> NDArray[np.float16]:
    """The inverse of `pack_vectors`: a read-only array of shape (passages, dimension)."""
    if not passages:
        return _NO_VECTORS
    return np.frombuffer(packed, dtype="<f2").reshape(passages, -1)


def pack_events(events: Iterable[FactEvent]) -> str:
    """Fact events as JSON text: their values and keys may hold what a store's own documents may not."""
    return dump_json([[event.op, event.path, event.value] for event in events])


def unpack_events(text: str) -> tuple[FactEvent, ...]:
    """The inverse of `pack_events`."""
    return tuple(FactEvent(op=op, path=tuple(path), value=value) for op, path, value in json.loads(text))


def dump_json(value: Any) -> str:
    """Compact JSON that keeps every character as it is."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)


def chunks(items: Sequence[_T], size: int) -> Iterable[Sequence[_T]]:
    """`items` in slices of at most `size`."""
    for start in range(0, len(items), size):
        yield items[start : start + size]
