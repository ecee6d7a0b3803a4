"""Files of exports: a first line that says what follows, the records, and a last line with their number and checksum."""

from __future__ import annotations

import base64
import contextlib
import gzip
import hashlib
import io
import json
import os
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from datetime import datetime
from typing import IO, TYPE_CHECKING, Any, Final

import numpy as np
from pydantic import TypeAdapter, ValidationError

from memory_agent import domain
from memory_agent.checks import MAX_ID_CHARS, at_home
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
from memory_agent.errors import ConfigError, InvalidInput
from memory_agent.stores.codec import dump_json, pack_vectors, unpack_vectors

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path


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
_ROW_PLAIN: Final = ("utc_offset_minutes", "told_days", "terms", "length", "embedder", "language")


def _row(row: SearchRow) -> dict[str, Any]:
    vectors, passages = pack_vectors(row.vectors)
    written = {name: getattr(row, name) for name in (*_ROW, *_ROW_PLAIN)}
    written |= {"timestamp": _iso(row.timestamp), "terms": dict(row.terms), "signs": row.signs.packed}
    written |= {"passages": passages, "vectors": _base64(vectors), "tokens": _base64(row.tokens)}
    return {name: value for name, value in written.items() if value not in (None, "", ())}


def _read_row(given: dict[str, Any]) -> SearchRow:
    vectors = base64.b64decode(given.pop("vectors", ""), validate=True)
    tokens = base64.b64decode(given.pop("tokens", ""), validate=True)
    signs, passages = domain.TurnFeatures.unpacked(given.pop("signs")), given.pop("passages")
    given["timestamp"] = datetime.fromisoformat(given["timestamp"])
    given["told_days"] = tuple(given.get("told_days", ()))
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


VERSION: Final = 1
_GZIP: Final = b"\x1f\x8b"
_LONGEST_LINE: Final = 64_000_000
"""Longer than a turn of a million characters with all that a record may have besides."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Header:
    """Header of an export: of whom it is.

    `tenant`, `user_id`, `thread_id`: only theirs; None: everybody's.
    """

    content: str
    """"export" (what users' threads hold) or "backup" (besides, what the memory as a whole needs to go on)."""
    started_at: str
    """ISO 8601, UTC: what was forgotten after it may be in the export."""
    vectors: bool
    tenant: str | None = None
    user_id: str | None = None
    thread_id: str | None = None
    version: int = VERSION

    @property
    def started(self) -> datetime:
        """`started_at` as a time."""
        return datetime.fromisoformat(self.started_at)


@dataclass(frozen=True, kw_only=True, slots=True)
class Written:
    """An export that was written: how many records of each kind, and the SHA-256 of its lines."""

    records: dict[str, int]
    sha256: str


class ExportWriter:
    """Writes an export to a stream of bytes."""

    def __init__(self, stream: IO[bytes], header: Header) -> None:
        self._stream = stream
        self._hash = hashlib.sha256()
        self._counts: dict[str, int] = {}
        self._put(json.dumps({"memory_agent": asdict(header)}, ensure_ascii=False))

    def put(self, record: Record) -> None:
        """Write a record."""
        self._counts[record.kind] = self._counts.get(record.kind, 0) + 1
        self._put(record.line())

    def end(self) -> Written:
        """Write the last line."""
        written = Written(records=self._counts, sha256=self._hash.hexdigest())
        self._stream.write(f"{json.dumps({'end': asdict(written)})}\n".encode())
        return written

    def _put(self, line: str) -> None:
        data = f"{line}\n".encode()
        self._hash.update(data)
        self._stream.write(data)


@contextlib.contextmanager
def new_file(path: Path | str) -> Iterator[IO[bytes]]:
    """A stream into a file that is there once the block ends without an error, whole and on disk; packed if its name ends in .gz.

    For its owner's eyes alone. Raises ConfigError where it cannot be written, or is there already.
    """
    path = at_home(path)
    check_new(path)
    half = path.with_name(f"{path.name}.part")
    try:
        half.unlink(missing_ok=True)
        raw = os.fdopen(os.open(half, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600), "wb")
    except OSError as exc:
        raise ConfigError(f"{path} cannot be written: {exc}") from exc
    try:
        with raw:
            if path.suffix == ".gz":
                with gzip.GzipFile(filename="", mode="wb", fileobj=raw, compresslevel=6, mtime=0) as packed:
                    yield packed  # type: ignore[misc]  # a stream of bytes
            else:
                yield raw
            raw.flush()
            os.fsync(raw.fileno())
        half.replace(path)
    except OSError as exc:
        half.unlink(missing_ok=True)
        raise ConfigError(f"{path} cannot be written: {exc}") from exc
    except BaseException:
        half.unlink(missing_ok=True)
        raise


def check_new(path: Path) -> None:
    """Raises ConfigError for a file that is there already, or whose folder takes none."""
    if path.exists():
        raise ConfigError(f"{path} is there already; name another file")
    if not os.access(path.parent, os.W_OK | os.X_OK):
        raise ConfigError(f"{path} cannot be written: {path.parent} is no folder that may be written to")


class ExportFile:
    """An export to read, as often as one likes.

    `check` comes first; then `receipts` and `secret` are those of a backup.
    """

    def __init__(self, path: Path | str) -> None:
        self.path = at_home(path)
        self.receipts: list[ErasureReceipt] = []
        self.secret: str | None = None

    def check(self) -> tuple[Header, Written]:
        """Read all of it.

        Raises InvalidInput, which names the line, for a file that is damaged, cut off or no export.
        """
        records: dict[str, int] = {}
        header, end = None, None
        digest = hashlib.sha256()
        for number, line in self._lines():
            if end is not None:
                raise self._wrong(number, "it comes after the end")
            if header is None:
                header = self._header(line)
            elif line.startswith(b'{"end"'):
                end = self._end(number, line)
                continue
            else:
                record = self._record(number, line)
                records[record.kind] = records.get(record.kind, 0) + 1
                self._note(record)
            digest.update(line)
        if header is None or end is None:
            raise InvalidInput(
                f"{self.path} is cut off: its last line is missing; nothing of it was taken in"
            )
        found = Written(records=records, sha256=digest.hexdigest())
        if found != end:
            raise InvalidInput(
                f"{self.path} is damaged: its checksum is {found.sha256[:12]}…, and its last line says {end.sha256[:12]}…;"
                " nothing of it was taken in"
            )
        return header, found

    def _note(self, record: Record) -> None:
        if record.kind == "receipt":
            self.receipts.append(record.value)
        elif record.kind == "secret":
            self.secret = record.value.key

    def records(self) -> Iterator[Record]:
        """The records, in their order."""
        for number, line in self._lines():
            if number > 1 and not line.startswith(b'{"end"'):
                yield self._record(number, line)

    def _lines(self) -> Iterator[tuple[int, bytes]]:
        try:
            with self.path.open("rb") as raw:
                packed = raw.read(2) == _GZIP
                raw.seek(0)
                stream: Any = gzip.GzipFile(fileobj=raw) if packed else raw
                reader = io.BufferedReader(stream) if packed else stream
                number = 0
                while line := reader.readline(_LONGEST_LINE):
                    number += 1
                    yield number, line
        except (EOFError, zlib.error, gzip.BadGzipFile) as exc:
            raise InvalidInput(
                f"{self.path} is damaged or cut off ({exc}); nothing of it was taken in"
            ) from exc
        except OSError as exc:
            raise InvalidInput(f"{self.path} cannot be read: {exc}") from exc

    def _header(self, line: bytes) -> Header:
        try:
            header = Header(**json.loads(line)["memory_agent"])
            _ = header.started
        except (ValueError, TypeError, KeyError) as exc:
            raise InvalidInput(
                f"{self.path} is no export of memory_agent: its first line says so of none"
            ) from exc
        if header.version > VERSION:
            raise InvalidInput(
                f"{self.path} is of a later memory_agent (version {header.version} of exports, this one knows {VERSION});"
                " upgrade memory_agent"
            )
        return replace(header)

    def _end(self, number: int, line: bytes) -> Written:
        try:
            return Written(**json.loads(line)["end"])
        except (ValueError, TypeError, KeyError) as exc:
            raise self._wrong(number, "it is no last line of an export") from exc

    def _record(self, number: int, line: bytes) -> Record:
        try:
            return read_record(line.decode())
        except (InvalidInput, UnicodeDecodeError) as exc:
            raise self._wrong(number, str(exc)) from exc

    def _wrong(self, number: int, why: str) -> InvalidInput:
        return InvalidInput(f"line {number} of {self.path} is wrong: {why}; nothing of the file was taken in")
