"""One MongoDB database: its collections and indexes, its options, and its driver's errors in our words."""

from __future__ import annotations

import asyncio
import functools
import re
import time
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import UTC
from typing import TYPE_CHECKING, Any, Concatenate, Final, ParamSpec, TypeVar
from weakref import WeakValueDictionary

import pymongo
from bson.codec_options import CodecOptions
from bson.errors import BSONError
from pymongo import AsyncMongoClient, IndexModel, ReadPreference, WriteConcern
from pymongo.errors import (
    BulkWriteError,
    ConnectionFailure,
    CursorNotFound,
    DuplicateKeyError,
    ExecutionTimeout,
    InvalidURI,
    PyMongoError,
    WaitQueueTimeoutError,
    WriteConcernError,
)
from pymongo.read_concern import ReadConcern

from memory_agent.errors import NotOpen, StoreError, StoreUnavailable
from memory_agent.lazily import Recent
from memory_agent.stores.codec import SEQ_TRUST_SECONDS

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine, Hashable, Iterator, Mapping

    from pymongo.asynchronous.collection import AsyncCollection
    from pymongo.asynchronous.database import AsyncDatabase

    from memory_agent.domain import Scope

    Document = dict[str, Any]
    Collection = AsyncCollection[Document]


_UNAVAILABLE: Final = (
    ConnectionFailure,
    CursorNotFound,
    ExecutionTimeout,
    WaitQueueTimeoutError,
    WriteConcernError,
)
# https://github.com/mongodb/mongo/blob/v6.0/src/mongo/base/error_codes.yml
_UNAVAILABLE_CODES: Final = frozenset(
    {
        6,  # HostUnreachable
        7,  # HostNotFound
        13,  # Unauthorized
        18,  # AuthenticationFailed
        24,  # LockTimeout
        43,  # CursorNotFound
        46,  # LockBusy
        50,  # MaxTimeMSExpired
        64,  # WriteConcernFailed
        70,  # ShardNotFound
        89,  # NetworkTimeout
        91,  # ShutdownInProgress
        100,  # UnsatisfiableWriteConcern
        112,  # WriteConflict
        133,  # FailedToSatisfyReadPreference
        134,  # ReadConcernMajorityNotAvailableYet
        150,  # StaleEpoch
        175,  # QueryPlanKilled
        189,  # PrimarySteppedDown
        202,  # NetworkInterfaceExceededTimeLimit
        237,  # CursorKilled
        262,  # ExceededTimeLimit
        290,  # TransactionExceededLifetimeLimitSeconds
        317,  # ConnectionPoolExpired
        391,  # ReauthenticationRequired
        462,  # IngressRequestRateLimitExceeded
        9001,  # SocketException
        10058,  # LegacyNotPrimary
        10107,  # NotWritablePrimary
        11600,  # InterruptedAtShutdown
        11601,  # Interrupted
        11602,  # InterruptedDueToReplStateChange
        13388,  # StaleConfig
        13435,  # NotPrimaryNoSecondaryOk
        13436,  # NotPrimaryOrSecondary
        14031,  # OutOfDiskSpace
    }
)
_TEMPORARY_LABELS: Final = ("RetryableWriteError", "TransientTransactionError", "SystemOverloadedError")
_CREDENTIALS: Final = re.compile(r"//\S*@")
_SETTINGS: Final = re.compile(r" \(configured timeouts: [^)]*\)|, Timeout: [\d.]+s$")
"""What the driver says of how it was set up, which mends nothing."""
_MAX_MESSAGE_CHARS: Final = 500


@contextmanager
def driver_errors(timeout_seconds: float) -> Iterator[None]:
    """Bound what runs inside to `timeout_seconds` and raise only our errors from it.

    The deadline is the driver's own (client-side operations timeout), so that it holds for a client with
    other options too, and the server stops working on what nobody waits for.
    """
    try:
        with pymongo.timeout(timeout_seconds):
            yield
    except (PyMongoError, BSONError, OverflowError) as exc:
        raise translated(exc) from exc


def translated(exc: Exception) -> StoreUnavailable | StoreError:
    """Our error for one of the driver's, with its message cleared of credentials and of what was to be stored."""
    said = str(exc)
    if isinstance(exc, BulkWriteError) and (report := first_write_error(exc)):
        said = f"{report.get('errmsg')} (code {report.get('code')})"
    # A selection of a server that failed ends with the driver's whole view of the deployment, which says it all again;
    # a write that was refused ends with the whole document, texts and all.
    said = said.partition(", Topology Description: ")[0].partition(", full error: ")[0]
    words = _SETTINGS.sub("", _CREDENTIALS.sub("//***@", said))
    words = words[:_MAX_MESSAGE_CHARS]
    if _temporary(exc):
        return StoreUnavailable(f"MongoDB is unavailable for now ({type(exc).__name__}): {words}")
    return StoreError(f"MongoDB refused an operation ({type(exc).__name__}): {words}")


def _temporary(exc: Exception) -> bool:
    if not isinstance(exc, PyMongoError):
        return False
    if isinstance(exc, _UNAVAILABLE) or exc.timeout:
        return True
    if any(exc.has_error_label(label) for label in _TEMPORARY_LABELS):
        return True
    return not _codes(exc).isdisjoint(_UNAVAILABLE_CODES)


def _codes(exc: PyMongoError) -> set[int]:
    details = getattr(exc, "details", None) or {}
    reports = [*details.get("writeErrors", ()), *details.get("writeConcernErrors", ())]
    codes = {report.get("code") for report in reports} | {getattr(exc, "code", None)}
    return {code for code in codes if isinstance(code, int)}


def violated_keys(exc: BulkWriteError | DuplicateKeyError) -> tuple[str, ...]:
    """The fields of the unique index that a write violated; empty if it failed for another reason."""
    report = first_write_error(exc) if isinstance(exc, BulkWriteError) else exc.details
    return tuple((report or {}).get("keyPattern", {}))


def first_write_error(exc: BulkWriteError) -> Mapping[str, Any] | None:
    """The error that stopped an ordered bulk write, with its position as `index`; None if every write was made."""
    reports: list[Mapping[str, Any]] = (exc.details or {}).get("writeErrors", [])
    return reports[0] if reports else None


SEQ_KEYS: Final = ("user_id", "thread_id", "seq")
CALL_KEYS: Final = ("user_id", "thread_id", "idempotency_key", "call_index")
INDEX_SEQ_KEYS: Final = ("user_id", "index_seq")
CHANGE_KEYS: Final = ("user_id", "thread_id", "key")
TOPIC_KEYS: Final = ("user_id", "thread_id", "topic_id")
CHANGED_KEYS: Final = ("user_id", "thread_id", "changed")
ONCE_KEYS: Final = ("user_id", "thread_id", "idempotency_key")
NUMBER_KEYS: Final = ("user_id", "thread_id", "number")
STANDING_KEYS: Final = (*SEQ_KEYS, "timestamp")
SESSION_KEYS: Final = ("user_id", "session_id", "thread_id")
HELD_KEYS: Final = ("user_id", "turn_ids")

_KEYED: Final = {"idempotency_key": {"$type": "string"}}
_OWING: Final = {"owes": True}
_DUE: Final = {"due_at": {"$exists": True}}
_PARKED: Final = {"parked": True}
_GONE: Final = {"gone_at": {"$exists": True}}
_ERASING: Final = {"erasing": True}
_ERASED: Final = {"erased": True}
_PENDING: Final = {"pending": True}
_LARGE: Final = {"words": {"$exists": True}}
_LIVE: Final = {"timestamp": {"$exists": True}}
_ASSIGNED: Final = {"topic_id": {"$exists": True}}
_SAID: Final = {"session_id": {"$exists": True}}
_NUMBERED: Final = {"changed": {"$exists": True}}
_STALE: Final = {"stale": True}
_ABSORBING: Final = {"absorbed": {"$exists": True}}


def _index(*keys: str, unique: bool = False, only: Mapping[str, object] | None = None) -> IndexModel:
    options = {} if only is None else {"partialFilterExpression": only}
    return IndexModel([(key, 1) for key in keys], unique=unique, **options)


INDEXES: Final[Mapping[str, tuple[IndexModel, ...]]] = {
    "turns": (
        _index(*SEQ_KEYS, unique=True),
        _index(*CALL_KEYS, unique=True, only=_KEYED),
        _index("user_id", "_id"),
        # What is owed, by stage: a long backlog of one stage must not slow down the look-up of another.
        _index("pending", "user_id", "thread_id", "seq", only=_OWING),
        _index("pending", "user_id", "_id", only=_OWING),
        _index("pending", "due_at", "user_id", "thread_id", only=_DUE),
        _index("parked", "user_id", "thread_id", only=_PARKED),
        _index("user_id", "thread_id", "gone_at", only=_GONE),
        _index("user_id", "thread_id", only=_ERASING),
        _index(*TOPIC_KEYS, "seq", only=_ASSIGNED),
        # With the time, so that counting a session's turns and finding its last reads no turn.
        _index(*SESSION_KEYS, "seq", "timestamp", only=_SAID),
        _index("timestamp", "_id", only=_LIVE),
        # Who is there: counting a thread's turns and finding its last reads none of them, and passes over forgotten ones.
        _index(*STANDING_KEYS, only=_LIVE),
    ),
    "search_rows": (
        _index(*INDEX_SEQ_KEYS, unique=True),
        _index("user_id", "words", "_id", "thread_id", only=_LARGE),
        _index("user_id", "erased_at", only=_ERASED),
        _index("embedder"),
    ),
    "large_users": (_index("user_id", unique=True),),
    "vector_fills": (
        _index("user_id", unique=True),
        _index("pending", "user_id", only=_PENDING),
    ),
    "facts": (_index("user_id", "thread_id", unique=True),),
    "fact_events": (
        _index(*CHANGE_KEYS, unique=True),
        _index(*SEQ_KEYS, unique=True),
        _index(*ONCE_KEYS, unique=True, only=_KEYED),
        _index("user_id", "turn_id"),
        _index("user_id", "turns"),
        _index("user_id", "recorded_at", "thread_id", "seq"),
    ),
    "costs": (_index("user_id", "thread_id", unique=True),),
    "topics": (
        _index(*TOPIC_KEYS, unique=True),
        _index(*CHANGED_KEYS, unique=True, only=_NUMBERED),
        _index("user_id", "stale", only=_STALE),
        _index("user_id", "absorbed", only=_ABSORBING),
    ),
    "topic_marks": (_index("user_id", "thread_id", unique=True),),
    "sessions": (
        _index(*NUMBER_KEYS, unique=True),
        _index(*ONCE_KEYS, unique=True, only=_KEYED),
        # In this order, for a session may be asked for by its id alone.
        _index("session_id", "user_id"),
        _index("user_id", "started_at", "number", "thread_id"),
    ),
    "spent_keys": (_index("user_id", "thread_id", "kind", "key", unique=True),),
    "compressions": (
        _index(*NUMBER_KEYS, unique=True),
        _index("user_id", "thread_id", "through", "number"),
        _index(*SESSION_KEYS, only=_SAID),
    ),
    "segments": (
        # With the sizes, so that adding them up does not read the packed texts.
        _index(*TOPIC_KEYS, "raw_bytes", "packed_bytes"),
        _index(*HELD_KEYS),
    ),
    "erasures": (_index("due_at"), _index("user_id")),
    "erasure_receipts": (_index("state"),),
}
KEY_INDEXES: Final[Mapping[str, tuple[IndexModel, ...]]] = {
    "api_keys": (_index("tenant", "created_at", "_id"),)
}
"""Of the store of API keys, which may be on a database of its own."""


_READ_AT_ONCE: Final = 10_000
_GREETING_SECONDS: Final = (0.6, 1.3)
"""For a first word, in two tries: that a server is down is said at once, not after the patience that a failover needs."""

_REMEMBERED_THREADS: Final = 20_000
_UNDER_WAY: Final = ContextVar("_UNDER_WAY", default=False)

_P = ParamSpec("_P")
_R = TypeVar("_R")
_S = TypeVar("_S", bound="MongoConnection")


def bounded(
    method: Callable[Concatenate[_S, _P], Coroutine[Any, Any, _R]],
) -> Callable[Concatenate[_S, _P], Coroutine[Any, Any, _R]]:
    """The store's time limit and our errors around a method that talks to the driver."""

    @functools.wraps(method)
    async def call(self: _S, /, *args: _P.args, **kwargs: _P.kwargs) -> _R:
        return await self._bounded(method(self, *args, **kwargs))

    return call


async def to_the_end(call: Awaitable[_R]) -> _R:
    """The result of a call of the driver. Who is cancelled meanwhile leaves when it has ended, in its time limit.

    A call that is cancelled while PyMongo waits for a server to come back can take its topology's lock along, and no
    other call ever ends: asyncio.wait_for of Python 3.11, cancelled a second time, leaves a waiter behind that gets
    the lock when nobody waits for it any more.
    """
    token = _UNDER_WAY.set(True)
    running = asyncio.ensure_future(call)
    _UNDER_WAY.reset(token)
    try:
        return await asyncio.shield(running)
    except asyncio.CancelledError:
        running.add_done_callback(lambda ended: ended.cancelled() or ended.exception())
        await asyncio.wait([running])
        raise


class Sequences:
    """The last sequence numbers that this process knows, with a lock for each thread that takes one.

    There is no counter: it would hand out numbers in one order and let the writes become visible in another. Here a
    number is taken by the write itself, tried one above the last, and a unique index settles who gets it: so nothing can
    appear below a number that somebody has already seen.
    """

    def __init__(self) -> None:
        self._last: Recent[Scope, tuple[int, float]] = Recent(_REMEMBERED_THREADS)
        self._locks: WeakValueDictionary[Hashable, asyncio.Lock] = WeakValueDictionary()

    def lock(self, key: Hashable) -> asyncio.Lock:
        """The lock of one sequence: writers of one process queue instead of colliding."""
        lock = self._locks.get(key)
        if lock is None:
            lock = self._locks[key] = asyncio.Lock()
        return lock

    def take(self, scope: Scope) -> int | None:
        """The thread's last number if it is known, which it then is no more until `put`.

        So whatever ends the write, an error or a cancellation, the next one asks the store.
        """
        last, known_at = self._last.pop(scope, (None, 0.0))
        return last if time.monotonic() - known_at < SEQ_TRUST_SECONDS else None

    def put(self, scope: Scope, last: int) -> None:
        """The thread's last number, as just written by us."""
        self._last.put(scope, (last, time.monotonic()))

    def forget_all(self) -> None:
        self._last.clear()


class _Named:
    """A collection of the store's database."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __get__(self, store: MongoConnection, owner: type[MongoConnection]) -> Collection:
        return store._collection(self._name)


class MongoConnection:
    """The base of a MongoStore's parts: one database with fixed guarantees."""

    _turns = _Named("turns")
    _rows = _Named("search_rows")
    _large_users = _Named("large_users")
    _vector_fills = _Named("vector_fills")
    _facts = _Named("facts")
    _fact_events = _Named("fact_events")
    _costs = _Named("costs")
    _topics = _Named("topics")
    _topic_marks = _Named("topic_marks")
    _spent_keys = _Named("spent_keys")
    _sessions = _Named("sessions")
    _compressions = _Named("compressions")
    _segments = _Named("segments")
    _leases = _Named("leases")
    _erasures = _Named("erasures")
    _keys = _Named("api_keys")
    _meta = _Named("meta")
    _receipts = _Named("erasure_receipts")
    _indexes = INDEXES

    def __init__(self, client_or_uri: object, db_name: str, *, timeout_seconds: float) -> None:
        self._client_or_uri = client_or_uri
        self._db_name = db_name
        self._timeout_seconds = timeout_seconds
        self._own_client: AsyncMongoClient[Document] | None = None
        self._database: AsyncDatabase[Document] | None = None
        self._collections: dict[str, Collection] = {}
        self._sequences = Sequences()

    async def open(self) -> None:
        if self._database is not None:
            return
        with driver_errors(self._timeout_seconds):
            client: Any = self._client_or_uri
            if isinstance(client, str):
                client = self._own_client = self._connect(client)
            database = _with_guarantees(client, self._db_name)
        try:
            await to_the_end(self._greet(database))
            await to_the_end(self._check_schema(database))
            await to_the_end(self._create_indexes(database))
        except BaseException:
            await self._close_own_client()
            raise
        self._database = database

    async def close(self) -> None:
        self._database = None
        self._collections.clear()
        self._sequences.forget_all()
        await self._close_own_client()

    async def _close_own_client(self) -> None:
        client, self._own_client = self._own_client, None
        if client is not None:
            with driver_errors(self._timeout_seconds):
                await client.close()
            await asyncio.sleep(0)  # in which the loop closes the connections' sockets

    def _connect(self, uri: str) -> AsyncMongoClient[Document]:
        limit = int(self._timeout_seconds * 1_000)
        try:
            return AsyncMongoClient(
                uri, appname="memory_agent", serverSelectionTimeoutMS=limit, connectTimeoutMS=limit
            )
        except ValueError as exc:  # what the driver's parser raises beside its own InvalidURI
            raise InvalidURI(str(exc)) from exc

    async def _greet(self, database: AsyncDatabase[Document]) -> None:
        """Raise StoreUnavailable soon if nobody answers; a set that is electing its primary does, and is waited for."""
        for seconds in _GREETING_SECONDS:
            try:
                with driver_errors(min(seconds, self._timeout_seconds)):
                    await database.command("ping", read_preference=ReadPreference.PRIMARY_PREFERRED)
            except StoreUnavailable as exc:
                if "[Errno" not in str(exc) and seconds != _GREETING_SECONDS[-1]:
                    continue  # it has not refused: a far one may need longer for its first word
                raise StoreUnavailable(
                    f"{exc}. Start MongoDB, or correct mongo_uri (MEMORY_AGENT_MONGO_URI); without that setting"
                    " everything is kept in data_dir"
                ) from exc
            return

    async def _check_schema(self, database: AsyncDatabase[Document]) -> None:
        """Raise StoreError for a database of a version that isn't read, before anything in it is changed."""

    async def _create_indexes(self, database: AsyncDatabase[Document]) -> None:
        for name, indexes in self._indexes.items():
            with driver_errors(self._timeout_seconds):
                await database[name].create_indexes(list(indexes))

    async def _bounded(self, call: Awaitable[_R]) -> _R:
        """The result of a call of the driver, within the store's time limit, or one of our errors.

        One inside another is within that one's limit, and needs no task of its own.
        """
        if _UNDER_WAY.get():
            return await call
        with driver_errors(self._timeout_seconds):
            return await to_the_end(call)

    def _collection(self, name: str) -> Collection:
        if self._database is None:
            raise NotOpen(f"the {type(self).__name__} is not open; call open() first")
        if name not in self._collections:
            self._collections[name] = self._database[name]
        return self._collections[name]


def _with_guarantees(client: Any, db_name: str) -> AsyncDatabase[Document]:
    """The database, whatever the client's own options say: UTC times, journaled majority writes, primary reads."""
    database: AsyncDatabase[Document] = client.get_database(
        db_name,
        codec_options=CodecOptions(tz_aware=True, tzinfo=UTC),
        read_preference=ReadPreference.PRIMARY,
        write_concern=WriteConcern(w="majority", j=True),
        read_concern=ReadConcern("local"),
    )
    return database


async def read_all(cursor: Any) -> list[dict[str, Any]]:
    """All documents of a find, of which 10,000 come in one answer; or of an aggregate, which PyMongo's client hands out as
    an awaitable, whose first answer has 101, and Motor's as the cursor itself."""
    if hasattr(cursor, "to_list"):
        cursor.batch_size(_READ_AT_ONCE)
    else:
        cursor = await cursor
    documents: list[dict[str, Any]] = await cursor.to_list(None)
    return documents


async def united(*parts: tuple[Any, ...], **options: Any) -> list[list[dict[str, Any]]]:
    """Results of each part, a collection with a pipeline's stages: in this order, in one command.

    `options`: of the first, such as `hint`.
    """
    pipelines = [[*stages, {"$set": {"part": number}}] for number, (_, *stages) in enumerate(parts)]
    first, *others = (collection for collection, *_ in parts)
    behind = [
        {"$unionWith": {"coll": other.name, "pipeline": pipeline}}
        for other, pipeline in zip(others, pipelines[1:], strict=True)
    ]
    found: list[list[dict[str, Any]]] = [[] for _ in parts]
    for document in await read_all(
        first.aggregate([*pipelines[0], *behind], batchSize=_READ_AT_ONCE, **options)
    ):
        found[document.pop("part")].append(document)
    return found
