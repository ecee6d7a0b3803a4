"""The stored form that MongoDB and SQLite share: packed texts, vectors, and the nearest of them.

A segment names its codec by a number, so that others can follow and old segments stay readable. Before the codec,
texts are joined with their lengths in front: lengths as unsigned LEB128 (https://dwarfstd.org, section 7.6), how
many texts first, then the UTF-8 bytes of all.
"""

from __future__ import annotations

import json
import zlib
from collections import defaultdict
from contextlib import suppress
from dataclasses import MISSING, dataclass, fields, replace
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from types import NoneType
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar

import brotli
import numpy as np

from memory_agent.domain import (
    Entity,
    FactEvent,
    KeyMoment,
    RefusedFact,
    Similar,
    SummaryItem,
    TopicRanges,
    TurnFeatures,
)
from memory_agent.errors import InvalidInput, StoreError
from memory_agent.products import product

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from memory_agent.domain import Compression, FactChange, Scope, SearchRow, Session


STORED: Final = 0
GZIP: Final = 1
BROTLI: Final = 2
"""Codec numbers. Never renumber: segments on disk hold them."""

SEGMENT_BYTES: Final = 4_000_000
"""Text of one segment at most, unless a single turn has more: far below what a MongoDB document may be (16 MB)."""

UNPACKED_BYTES: Final = 4 * SEGMENT_BYTES
"""What bytes of a store may unpack to: a few of a damaged or foreign blob could otherwise fill the memory."""

_THOROUGH_BYTES: Final = 200_000
_THOROUGH: Final = 10
_QUICK: Final = 5
"""Brotli's quality, 10 packs about 2 MB a second (11 half of that, to save 3 %) and 5 about 50; what is long repeats itself, and packs well anyhow."""

_KEPT: Final[dict[tuple[int, bytes], tuple[str, ...]]] = {}
"""Texts as they were unpacked last: each prompt reads a hundred segments for one or two texts each, and the next one half of them again."""
_MOST_KEPT: Final = 1_000
_MOST_KEPT_CHARS: Final = 16_000
"""Of a segment. Those of a chat have some 2,000, so that all take a few megabytes."""

_LENGTH_BITS: Final = 7
_MORE: Final = 1 << _LENGTH_BITS


@dataclass(frozen=True, kw_only=True, slots=True)
class Packed:
    """A segment's bytes with the number of their codec. `raw_bytes`: UTF-8 bytes of the texts."""

    codec: int
    data: bytes
    raw_bytes: int


def pack_texts(texts: Sequence[str], *, codec: int = BROTLI) -> Packed:
    """`texts` in their order; stored as they are where the codec would make them larger, or unpacking refuse them."""
    encoded = [text.encode() for text in texts]
    joined = _joined(encoded)
    data = _COMPRESS[codec](joined)
    if len(data) >= len(joined) or len(joined) > UNPACKED_BYTES:
        codec, data = STORED, joined
    return Packed(codec=codec, data=data, raw_bytes=sum(map(len, encoded)))


def unpack_texts(codec: int, data: bytes) -> list[str]:
    """The inverse of `pack_texts`. Raises StoreError for bytes that are none of its doing, before they fill the memory."""
    if codec not in _DECOMPRESS:
        raise StoreError(
            f"a segment is packed by codec {codec}, and this version knows {', '.join(map(str, _DECOMPRESS))};"
            " upgrade memory_agent"
        )
    packed = codec, bytes(data)
    if packed not in _KEPT:
        try:
            texts = _split(_DECOMPRESS[codec](packed[1]))
        except (brotli.error, zlib.error, ValueError, IndexError) as exc:
            raise StoreError(f"a segment of codec {codec} is damaged: {exc}") from exc
        if sum(map(len, texts)) > _MOST_KEPT_CHARS:
            return texts
        if len(_KEPT) >= _MOST_KEPT:
            _KEPT.clear()
        _KEPT[packed] = tuple(texts)
    return list(_KEPT[packed])


def forget_unpacked() -> None:
    """Forget the texts that were unpacked last: something was forgotten."""
    _KEPT.clear()


def segments_of(sizes: Iterable[int], *, most_bytes: int = SEGMENT_BYTES) -> Iterator[slice]:
    """Slices of texts that share a segment, by their sizes in bytes: in order, each text once."""
    start = total = count = 0
    for size in sizes:
        if count > start and total + size > most_bytes:
            yield slice(start, count)
            start, total = count, 0
        count, total = count + 1, total + size
    if count > start:
        yield slice(start, count)


def _joined(texts: Sequence[bytes]) -> bytes:
    return b"".join([_length(len(texts)), *(_length(len(text)) for text in texts), *texts])


def _split(joined: bytes) -> list[str]:
    count, at = _read_length(joined, 0)
    lengths = []
    for _ in range(count):
        length = joined[at]
        if length < _MORE:  # most are short, and every prompt reads a thousand
            at += 1
        else:
            length, at = _read_length(joined, at)
        lengths.append(length)
    if at + sum(lengths) != len(joined):
        raise ValueError(f"{len(joined):,} bytes where {at + sum(lengths):,} are announced")
    texts = []
    for length in lengths:
        texts.append(joined[at : at + length].decode())
        at += length
    return texts


def _length(value: int) -> bytes:
    out = bytearray()
    while value >= _MORE:
        out.append(value % _MORE | _MORE)
        value >>= _LENGTH_BITS
    out.append(value)
    return bytes(out)


def _read_length(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[at]
        value |= (byte % _MORE) << shift
        at, shift = at + 1, shift + _LENGTH_BITS
        if byte < _MORE:
            return value, at


def _gzip(data: bytes) -> bytes:
    packer = zlib.compressobj(9, zlib.DEFLATED, 16 + zlib.MAX_WBITS)  # 16: with gzip's header
    return packer.compress(data) + packer.flush()


def _brotli(data: bytes) -> bytes:
    quality = _THOROUGH if len(data) <= _THOROUGH_BYTES else _QUICK
    packed: bytes = brotli.compress(data, mode=brotli.MODE_TEXT, quality=quality)
    return packed


def unbrotli(data: bytes) -> bytes:
    """Unpack what brotli packed. Raises brotli.error, or ValueError for a stream that is cut off or larger than UNPACKED_BYTES."""
    unpacker = brotli.Decompressor()
    # It stops near the limit: the whole of a larger stream is never in memory.
    unpacked: bytes = unpacker.process(data, output_buffer_limit=UNPACKED_BYTES)
    return _whole(unpacked, ended=unpacker.is_finished())


def _gunzip(data: bytes) -> bytes:
    unpacker = zlib.decompressobj(16 + zlib.MAX_WBITS)
    unpacked = unpacker.decompress(data, UNPACKED_BYTES + 1)
    return _whole(unpacked, ended=unpacker.eof)


def _whole(unpacked: bytes, *, ended: bool) -> bytes:
    if len(unpacked) > UNPACKED_BYTES:
        raise ValueError(f"it unpacks to more than {UNPACKED_BYTES:,} bytes, the most that is unpacked")
    if not ended:
        raise ValueError(f"it is cut off after {len(unpacked):,} bytes")
    return unpacked


_COMPRESS: Final[Mapping[int, Callable[[bytes], bytes]]] = {
    STORED: lambda data: data,
    GZIP: _gzip,
    BROTLI: _brotli,
}
_DECOMPRESS: Final[Mapping[int, Callable[[bytes], bytes]]] = {
    STORED: lambda data: data,
    GZIP: _gunzip,
    BROTLI: unbrotli,
}


DAMAGED: Final = (ValueError, TypeError, KeyError, IndexError, AttributeError, OverflowError, brotli.error)
"""What comes of reading a value whose bytes were changed."""


def damaged(name: object, exc: Exception) -> StoreError:
    """The error about a stored value of that name."""
    return StoreError(
        f"what is stored as {name!r:.80} is damaged ({type(exc).__name__}: {exc!s:.200}). Nothing was changed; look for"
        " more of it with `memory-agent doctor`, or restore a backup"
    )


Record = tuple[Any, ...]

EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
SEQ_TRUST_SECONDS: Final = 30.0
"""How long a process may number a thread's turns from memory, without asking the store for the last one."""
SEQ_HELD: Final = timedelta(seconds=2 * SEQ_TRUST_SECONDS)
"""How long an erased turn's number stays taken at least, so that no process still counts from below it."""

_T = TypeVar("_T")
_V = TypeVar("_V")
_W = TypeVar("_W")
_MILLISECOND: Final = timedelta(milliseconds=1)
_NO_VECTORS: Final[NDArray[np.float32]] = np.empty((0, 0), dtype=np.float32)
_STEPS: Final = 127
_SCALE_BYTES: Final = 4
_UUID_CHARS: Final = 36
_DERIVED_QUALITY: Final = 5
"""Brotli's: 28 KB to 10 in 2 ms; its best needs 40 ms for 8.4."""
_EVENT_DEFAULTS: Final = {
    field.name: field.default for field in fields(FactEvent) if field.default is not MISSING
}
_PARTS: Final[dict[str, type[Any]]] = {
    "summary": SummaryItem,
    "moments": KeyMoment,
    "topics": TopicRanges,
}
_PART_FIELDS: Final = {kind: tuple(field.name for field in fields(kind)) for kind in set(_PARTS.values())}
_STORED_AS: Final = {"moments": "key_moments"}
"""Names in the packed text, where they are others: below `moments` there may be some of older, other fields."""
_TIMES: Final = ("at", "said_at")
"""Fields of parts that hold a time, or None."""
_EMPTY: Final[tuple[Any, ...]] = (None, "", (), [], {}, b"")


def _as_it_is(value: Any) -> Any:
    return value


@dataclass(frozen=True, kw_only=True, slots=True)
class Kind:
    """Type of a field's column, and the conversion of its values: to the column and back, and to part of a document."""

    column: str = "TEXT"
    nullable: bool = False
    write: Callable[[Any], Any] = _as_it_is
    read: Callable[[Any], Any] = _as_it_is
    put: Callable[[Any], Any] = _as_it_is
    get: Callable[[Any], Any] = _as_it_is
    absent: Callable[[], Any] | None = None
    """What it means that a document lacks the field; None: it never does."""

    def or_null(self) -> Kind:
        """The same, but it may be None, which documents hold as null."""
        return replace(self, nullable=True)

    def or_absent(self, absent: Callable[[], Any] = NoneType) -> Kind:
        """The same, but documents leave it out where it is that."""
        return replace(self, absent=absent)

    def leaves_out(self, stored: Any) -> bool:
        """True if documents do without this: None, or what is empty if its absence means something empty."""
        if self.absent is NoneType:
            return stored is None
        return self.absent is not None and stored in _EMPTY

    def declared(self) -> str:
        """The column's type; one that documents may lack has what that means as its default."""
        if self.absent is None:
            return self.column if self.nullable else f"{self.column} NOT NULL"
        default = self.write(self.absent())
        if default is None:
            return self.column
        literal = f"x'{default.hex()}'" if isinstance(default, bytes) else repr(default)
        return f"{self.column} NOT NULL DEFAULT {literal}"


class Fields(Generic[_V]):
    """The stored fields of a value, which `of` makes of them. `names`: what MongoDB calls those that it calls otherwise."""

    def __init__(
        self, of: Callable[..., _V], kinds: Mapping[str, Kind], *, names: Mapping[str, str] | None = None
    ) -> None:
        self.of = of
        self.kinds = dict(kinds)
        self._names = dict(names or {})
        self.columns = ", ".join(self.kinds)
        self.marks = ", ".join("?" * len(self.kinds))
        self._reads = [(name, kind.read) for name, kind in self.kinds.items() if kind.read is not _as_it_is]
        self._gets = [
            (name, self._names.get(name, name), each.get, each.absent) for name, each in kinds.items()
        ]

    def only(self, of: Callable[..., _W], *names: str) -> Fields[_W]:
        """These of the fields, for another value."""
        return Fields(of, {name: self.kinds[name] for name in names}, names=self._names)

    def record(self, value: Any, **given: Any) -> Record:
        """The parameters for `columns`; `given` instead of the value's own fields, as they are stored."""
        return tuple(
            given[name] if name in given else kind.write(getattr(value, name))
            for name, kind in self.kinds.items()
        )

    def of_record(self, record: Sequence[Any]) -> dict[str, Any]:
        """The fields in a row that begins with `columns`."""
        fields = dict(zip(self.kinds, record, strict=False))
        for name, read in self._reads:
            fields[name] = read(fields[name])
        return fields

    def read(self, record: Sequence[Any], **others: Any) -> _V:
        """The value in a row that begins with `columns`. Raises StoreError for one that is damaged."""
        try:
            return self.of(**self.of_record(record), **others)
        except DAMAGED as exc:
            raise damaged(record[0], exc) from exc

    def document(self, value: Any, **given: Any) -> dict[str, Any]:
        """The value as MongoDB stores it, without fields that neither it nor `given` has."""
        document = {}
        for name, kind in self.kinds.items():
            if name in given or hasattr(value, name):
                stored = kind.put(given[name] if name in given else getattr(value, name))
                if not kind.leaves_out(stored):
                    document[self._names.get(name, name)] = stored
        return document

    def of_document(self, document: Mapping[str, Any]) -> dict[str, Any]:
        """The fields in a document."""
        found = {}
        for name, key, get, absent in self._gets:
            found[name] = absent() if absent and key not in document else get(document[key])
        return found

    def get(self, document: Mapping[str, Any]) -> _V:
        """The value in a document. Raises StoreError for one that is damaged."""
        try:
            return self.of(**self.of_document(document))
        except DAMAGED as exc:
            raise damaged(document.get("_id"), exc) from exc


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


def pack_vectors(vectors: NDArray[np.floating[Any]]) -> tuple[bytes, int]:
    """One byte a number, row by row, behind a step for each row (little-endian float32); and how many rows (passages) they are.

    A row's largest number is 127 of its steps, so that none is further than half a step from what it was.
    """
    passages = vectors.shape[0]
    if not passages:
        return b"", 0
    given = vectors.astype(np.float32)
    steps = np.maximum(np.abs(given).max(axis=1), np.finfo(np.float32).tiny) / np.float32(_STEPS)
    return steps.astype("<f4").tobytes() + np.rint(given / steps[:, None]).astype(np.int8).tobytes(), passages


def unpack_vectors(packed: bytes, passages: int) -> NDArray[np.float32]:
    """The inverse of `pack_vectors`, to half a step: an array of shape (passages, dimension)."""
    if not passages:
        return _NO_VECTORS
    steps = np.frombuffer(packed, dtype="<f4", count=passages)
    numbers = np.frombuffer(packed, dtype=np.int8, offset=_SCALE_BYTES * passages)
    vectors: NDArray[np.float32] = numbers.reshape(passages, -1) * steps[:, None]
    return vectors


def pack_terms(terms: Mapping[str, int]) -> str:
    """Terms in their order, each on a line with how often it occurs, unless that is once. No term has a control character in it."""
    return "\n".join(term if count == 1 else f"{term}\t{count}" for term, count in terms.items())


def unpack_terms(packed: str) -> dict[str, int]:
    """The inverse of `pack_terms`."""
    terms = {}
    for line in packed.split("\n") if packed else ():
        term, tab, count = line.partition("\t")
        terms[term] = int(count) if tab else 1
    return terms


def pack_id(text: str) -> bytes | str:
    """The 16 bytes of an id that is a UUID as this package writes them; any other as it is."""
    if len(text) == _UUID_CHARS:
        with suppress(ValueError):
            packed = bytes.fromhex(text.replace("-", ""))
            if unpack_id(packed) == text:
                return packed
    return text


def unpack_id(packed: bytes | str) -> str:
    """The inverse of `pack_id`. Twice a row at a user's first search: UUID's own `str` takes three times as long."""
    if isinstance(packed, str):
        return packed
    digits = packed.hex()
    return f"{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}"


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


def lowest_by_thread(places: Iterable[tuple[str, int]]) -> dict[str, int]:
    """The lowest number of `places` (thread, `seq`) in each thread."""
    return {thread_id: min(numbers) for thread_id, numbers in by_thread(places).items()}


def latest_rows(user_id: str, rows: Iterable[SearchRow]) -> list[SearchRow]:
    """The last row of each turn, as if they had come one after the other. Raises StoreError for another user's."""
    for row in rows:
        if row.user_id != user_id:
            raise StoreError(f"the search row of turn {row.turn_id} belongs to another user than {user_id!r}")
    return list({row.turn_id: row for row in rows}.values())


def pack_stated(change: FactChange) -> str:
    """A change's events and refused facts as JSON text, without what is empty or the default.

    As text, for their values and keys may hold what a store's own documents may not.
    """
    packed: dict[str, Any] = {}
    if change.events:
        packed["events"] = [_event_fields(event) for event in change.events]
    if change.refused:
        packed["refused"] = [[r.op, r.path, r.said, r.quote, r.reason, r.subject] for r in change.refused]
    return dump_json(packed)


def unpack_stated(text: str) -> tuple[tuple[FactEvent, ...], tuple[RefusedFact, ...]]:
    """The inverse of `pack_stated`."""
    packed = json.loads(text)
    return tuple(map(_event, packed.get("events", ()))), tuple(
        RefusedFact(op=op, path=path, said=said, quote=quote, reason=reason, subject="".join(subject))
        for op, path, said, quote, reason, *subject in packed.get("refused", ())
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


def pack_derived(compression: Compression) -> bytes:
    """The values derived from a compression's turns as packed JSON text, without empty ones.

    As text, for it may hold what a store's own documents may not; packed, for it quotes the turns. Each part is the list of its fields, in their
    order: one that is added to a part must come last and have a default.
    """
    packed: dict[str, Any] = {
        _STORED_AS.get(name, name): [
            [_packed(getattr(part, field)) for field in _PART_FIELDS[kind]] for part in parts
        ]
        for name, kind in _PARTS.items()
        if (parts := getattr(compression, name))
    }
    if compression.preserved:
        packed["preserved"] = compression.preserved
    text = dump_json(packed).encode()
    if len(text) > UNPACKED_BYTES:
        raise StoreError(
            f"a compression of {len(text):,} bytes is too large; at most {UNPACKED_BYTES:,} are stored"
        )
    data: bytes = brotli.compress(text, quality=_DERIVED_QUALITY)
    return data


@lru_cache(maxsize=32)
def unpack_derived(data: bytes) -> Mapping[str, Any]:
    """The inverse of `pack_derived`: fields of a Compression. Kept: each prompt of a thread reads its last one.

    Raises StoreError for bytes that are none of its doing.
    """
    try:
        packed = json.loads(unbrotli(data))
    except (brotli.error, ValueError) as exc:
        raise StoreError(f"the stored contents of a compression are damaged: {exc}") from exc
    derived: dict[str, Any] = {
        name: tuple(_part(kind, values) for values in packed.get(_STORED_AS.get(name, name), ()))
        for name, kind in _PARTS.items()
    }
    return {**derived, "preserved": tuple(packed.get("preserved", ()))}


def thinned(before: Compression, after: Compression) -> Compression:
    """The compression without the moments that the next one has, too: each is stored once. `completed` undoes it."""
    later = set(after.moments)
    return replace(before, moments=tuple(one for one in before.moments if one not in later))


def completed(newest_first: Iterable[Compression]) -> Iterator[Compression]:
    """A thread's compressions from its newest on, each with all of its moments."""
    after: tuple[KeyMoment, ...] = ()
    for compression in newest_first:
        # What a later one has of turns so far back, those before it had as well.
        shared = {one.turn_id: one for one in after if one.seq <= compression.through}
        every = shared | {one.turn_id: one for one in compression.moments}
        after = tuple(sorted(every.values(), key=lambda one: one.seq))
        yield replace(compression, moments=after)


def _part(kind: type[_T], values: Sequence[Any]) -> _T:
    given = dict(zip(_PART_FIELDS[kind], map(_frozen, values), strict=False))
    return kind(**{name: _time(value) if name in _TIMES else value for name, value in given.items()})


def _packed(value: Any) -> Any:
    return milliseconds(value) if isinstance(value, datetime) else value


def _time(value: int | None) -> datetime | None:
    return None if value is None else from_milliseconds(value)


def _frozen(value: Any) -> Any:
    return tuple(map(_frozen, value)) if isinstance(value, list) else value


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


PAGE_ROWS: Final = 4_096
"""Rows of a page: some 6 ms each, in between others read."""
_STEP_BYTES: Final = 4


class Nearest:
    """The best `limit` of all rows that were taken, by the cosine of their nearest passage with a vector of unit length."""

    def __init__(self, vector: NDArray[np.float32], *, limit: int) -> None:
        self._vector = np.asarray(vector, dtype=np.float32)
        self._limit = limit
        self._ids: list[Any] = []
        self._similarity = np.empty(0, dtype=np.float32)

    def take(self, rows: Sequence[tuple[Any, bytes, int]]) -> None:
        """Take rows: id, packed vectors (`pack_vectors`), number of passages. Raises ValueError for those of another dimension."""
        single = [row for row in rows if row[2] == 1]
        longer = [row for row in rows if row[2] > 1]
        found = [self._of_single([packed for _, packed, _ in single])]
        found += [np.max(self._cosines(packed, passages), keepdims=True) for _, packed, passages in longer]
        ids = [*self._ids, *(row[0] for row in single), *(row[0] for row in longer)]
        similarity = np.concatenate([self._similarity, *found])
        best = np.argsort(-similarity, kind="stable")[: self._limit]
        self._ids, self._similarity = [ids[place] for place in best], similarity[best]

    def found(self, named: Callable[[Any], str]) -> list[Similar]:
        """The nearest first; `named`: gives the turn's id of a row's."""
        nearest = zip(self._ids, np.clip(self._similarity, -1.0, 1.0), strict=True)
        return [Similar(turn_id=named(row_id), similarity=float(cosine)) for row_id, cosine in nearest]

    def _of_single(self, packed: Sequence[bytes]) -> NDArray[np.float32]:
        """The cosines of rows of one passage each, in one product."""
        size = _STEP_BYTES + len(self._vector)
        if any(len(one) != size for one in packed):
            raise ValueError(self._refusal(next(len(one) for one in packed if len(one) != size)))
        rows = np.frombuffer(b"".join(packed), dtype=np.uint8).reshape(-1, size)
        steps = rows[:, :_STEP_BYTES].copy().view("<f4")[:, 0]
        cosines: NDArray[np.float32] = (
            product(rows[:, _STEP_BYTES:].view(np.int8).astype(np.float32), self._vector) * steps
        )
        return cosines

    def _cosines(self, packed: bytes, passages: int) -> NDArray[np.float32]:
        vectors = unpack_vectors(packed, passages)
        if vectors.shape[1] != len(self._vector):
            raise ValueError(self._refusal(len(packed) // passages))
        cosines: NDArray[np.float32] = product(vectors, self._vector)
        return cosines

    def _refusal(self, size: int) -> str:
        return f"the vector has {len(self._vector)} numbers, those of the rows {size - _STEP_BYTES}"
