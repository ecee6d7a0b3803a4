"""What is particular to the MongoDB adapter: errors, guarantees over a client's own, indexes, JSON as its documents hold it."""

import gc
import json
from collections.abc import AsyncIterator, Iterator
from datetime import timedelta
from typing import Any

import bson
import bson.errors
import pymongo.errors
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from pymongo import AsyncMongoClient, monitoring

from memory_agent.domain import ExtractionCost
from memory_agent.errors import StoreError, StoreUnavailable
from memory_agent.stores.mongo import MongoStore
from memory_agent.stores.mongo.connection import INDEXES, driver_errors, translated
from memory_agent.stores.mongo.documents import from_bson, to_bson
from tests.conformance.values import (
    NOW,
    a_call,
    a_change,
    a_compression,
    a_draft,
    a_row,
    a_scope,
    a_session,
    a_topic,
    an_erasure,
    put_large,
    stored,
)
from tests.servers.mongod import Mongod, free_port
from tests.unit.stores.conftest import Asked

TEMPORARY = {
    "AutoReconnect", "ConnectionFailure", "CursorNotFound", "ExecutionTimeout", "NetworkTimeout",
    "NotPrimaryError", "ServerSelectionTimeoutError", "WTimeoutError", "WaitQueueTimeoutError",
    "WriteConcernError", "_OperationCancelled",
}  # fmt: skip
LASTING = {
    "BSONError", "BulkWriteError", "ClientBulkWriteException", "CollectionInvalid", "ConfigurationError",
    "DocumentTooLarge", "DuplicateKeyError", "EncryptedCollectionError", "EncryptionError", "InvalidBSON",
    "InvalidDocument", "InvalidId", "InvalidName", "InvalidOperation", "InvalidStringData", "InvalidURI",
    "OperationFailure", "ProtocolError", "PyMongoError", "WriteError",
}  # fmt: skip


def exception_classes() -> dict[str, type[Exception]]:
    """Every exception that the driver's public error modules hold."""
    return {
        name: value
        for module in (pymongo.errors, bson.errors)
        for name, value in vars(module).items()
        if isinstance(value, type) and issubclass(value, Exception)
    }


def instance(kind: type[Exception]) -> Exception:
    if kind.__name__ == "EncryptedCollectionError":
        return kind(Exception("x"), {})
    if kind.__name__ == "EncryptionError":
        return kind(Exception("x"))
    if issubclass(kind, pymongo.errors.BulkWriteError | pymongo.errors.ClientBulkWriteException):
        return kind({}, False) if kind.__name__.startswith("Client") else kind({})  # type: ignore[call-arg]
    return kind("x")


def is_certificate_error(name: str) -> bool:
    return name in ("_CertificateError", "CertificateError")


def test_every_error_of_the_driver_is_translated() -> None:
    """Each comes out as one of ours, with the driver's as its cause; a new class makes this ask what to do with it."""
    classes = {name: kind for name, kind in exception_classes().items() if not is_certificate_error(name)}
    assert classes.keys() == TEMPORARY | LASTING
    for name, kind in classes.items():
        error = instance(kind)
        expected = StoreUnavailable if name in TEMPORARY else StoreError
        with pytest.raises(expected) as caught, driver_errors(1):
            raise error
        assert (type(caught.value), caught.value.__cause__) == (expected, error)


def test_server_codes_decide() -> None:
    failed, bulk = pymongo.errors.OperationFailure, pymongo.errors.BulkWriteError
    for passing in (
        failed("stepping down", 189),
        failed("bad credentials", 18),
        failed("not authorized", 13),
        failed("x", 1, {"errorLabels": ["RetryableWriteError"]}),
        bulk({"writeConcernErrors": [{"code": 64}]}),
        bulk({"writeErrors": [{"code": 50}]}),
    ):
        assert type(translated(passing)) is StoreUnavailable, passing
    for lasting in (failed("bad value", 2), bulk({"writeErrors": [{"code": 11000}]})):
        assert type(translated(lasting)) is StoreError, lasting
    with pytest.raises(StoreError), driver_errors(1):
        bson.encode({"n": 2**70})


def test_messages_hold_no_credentials() -> None:
    error = pymongo.errors.ConfigurationError("cannot use mongodb://ada:se/cr@t@host:27017/?x=1")
    assert "cr@t" not in str(translated(error))
    assert "host" in str(translated(error))


async def test_a_refused_write_tells_nothing_of_what_was_to_be_stored(mongo: MongoStore) -> None:
    """The driver quotes the whole document; ids and the index are told, the text is not."""
    drafts = a_call("The nickname of my bank is Zebulon.", "Noted.")
    await mongo.append_turns(a_scope(), drafts)
    with pytest.raises(StoreError, match=r"duplicate key.*\(code 11000\)") as refused:
        await mongo.append_turns(a_scope(thread_id="another"), drafts)
    assert drafts[0].id in str(refused.value)
    assert "Zebulon" not in str(refused.value)


async def test_a_database_of_an_earlier_version_is_refused(mongod: Mongod, db_name: str) -> None:
    """In words, when it is opened, and nothing is written into it; an empty one and one's own are opened."""
    store = MongoStore(mongod.uri, db_name, timeout_seconds=10)
    for _ in range(2):
        await store.open()
        await store.put_search_rows(a_scope().user_id, [a_row("turn")], now=NOW)
        await store.close()
    async with AsyncMongoClient[dict[str, Any]](mongod.uri) as client:
        await client[db_name].drop_collection("search_rows")
        await client[db_name].drop_collection("meta")
        await client[db_name]["search_rows"].insert_one({"_id": "turn", "terms": ["cat"], "counts": b"1"})
        with pytest.raises(
            StoreError, match=f"'{db_name}' was written by a .*before 0.1.0 .*another.* db_name"
        ):
            await store.open()
        assert list(await client[db_name]["search_rows"].index_information()) == ["_id_"]


# The driver (4.20) leaves a socket to the garbage collector if closing cancels a connection attempt.
@pytest.mark.filterwarnings("ignore:.*<socket.socket:pytest.PytestUnraisableExceptionWarning")
async def test_an_unreachable_server_is_unavailable_in_time() -> None:
    store = MongoStore(f"mongodb://ada:secret@127.0.0.1:{free_port()}", "nowhere", timeout_seconds=0.3)
    with pytest.raises(StoreUnavailable) as caught:
        await store.open()
    message = str(caught.value)
    await store.close()
    del store, caught
    gc.collect()
    assert "secret" not in message


async def test_an_impossible_uri_is_refused() -> None:
    with pytest.raises(StoreError):
        await MongoStore("mongodb://[", "nowhere", timeout_seconds=1).open()


class Commands(monitoring.CommandListener):
    """Notes the commands that a client sends."""

    def __init__(self) -> None:
        self.sent: list[dict[str, Any]] = []

    def started(self, event: monitoring.CommandStartedEvent) -> None:
        self.sent.append({"name": event.command_name, **dict(event.command)})

    def succeeded(self, event: monitoring.CommandSucceededEvent) -> None: ...

    def failed(self, event: monitoring.CommandFailedEvent) -> None: ...


@pytest.fixture
def commands() -> Commands:
    return Commands()


@pytest.fixture
async def weak_client(mongod: Mongod, commands: Commands) -> AsyncIterator[AsyncMongoClient[dict[str, Any]]]:
    """An application's own client, with the weakest guarantees that it can have."""
    client = AsyncMongoClient[dict[str, Any]](
        mongod.uri, w=0, tz_aware=False, readPreference="secondaryPreferred", event_listeners=[commands]
    )
    yield client
    await client.close()


async def test_a_clients_weaker_guarantees_do_not_apply(
    weak_client: AsyncMongoClient[dict[str, Any]], db_name: str, commands: Commands
) -> None:
    """Every write of the store is journaled by a majority, and times are aware, whatever the client's options.

    Once a thread is known to the process, its next turns are stored in a single round trip. The client stays open.
    """
    store = MongoStore(weak_client, db_name, timeout_seconds=10)
    await store.open()
    await stored(store, a_scope(thread_id="t2"), "first")
    commands.sent.clear()
    for key in (None, "k"):  # a first call with a key is not looked up before it is written
        commands.sent.clear()
        await store.append_turns(a_scope(thread_id="t2"), a_call("second", "third", key=key))
        assert [command["name"] for command in commands.sent] == ["insert"]
    [turn] = await stored(store, a_scope(), "hello", pending=("index",))
    await store.put_search_rows("ada", [a_row(turn.id)], now=NOW)
    await store.strike_off(a_scope(), [turn.id], "index")
    await store.erase_turns(an_erasure(a_scope()), now=NOW, limit=5)
    await store.sweep_orphans(a_scope(), stubs_before=NOW, now=NOW)
    writes = [command for command in commands.sent if command["name"] in ("insert", "update", "delete")]
    assert {command["name"] for command in writes} == {"insert", "update", "delete"}
    assert all(command["writeConcern"] == {"w": "majority", "j": True} for command in writes)
    assert turn.timestamp.tzinfo is not None
    await store.close()
    assert await weak_client[db_name].turns.count_documents({"thread_id": "t2"}) == 5


async def test_reads_go_by_an_index(asked: Asked) -> None:
    store = asked.store
    async with asked.noting(planSummary="COLLSCAN") as scans:
        scope = a_scope()
        session = a_session(1)
        for _ in range(2):
            await store.put_sessions([session])
            turns = await stored(store, scope, *"abc", pending=("index",), key="k", session_id=session.id)
        ids = [turn.id for turn in turns]
        await put_large(store, "ada", [a_row(turn_id) for turn_id in ids])
        await store.count_rows("ada", limit=5)
        await store.put_sessions([a_session(2)])
        for number, turn in enumerate(turns, start=1):
            made = a_compression([turn], number, after_seq=number - 1, session_id=session.id)
            for _ in range(2):
                await store.append_compression(made)
        await store.assign_topics(scope, dict.fromkeys(ids, "topic"))
        for revision in (None, "other"):
            await store.save_topics([a_topic("topic", absorbed=("other",), revision=revision)])
        await store.compress_turns(scope, "topic", ids[:2])
        for i, turn_id in enumerate(ids):
            await store.append_fact_change(scope, a_change(turn_id, seen=ids[:i]))
        await store.append_fact_change(scope, a_change(None, generation="g"))
        await store.append_fact_change(scope, a_change(None))
        await store.add_extraction_cost(scope, ExtractionCost(turns=1))
        for some in (scope, scope.user):
            await store.list_turns(some, newest=True, limit=1)
            await store.list_turns(some, ids=ids)
            await store.list_turns(some, topic_ids=["topic"], compressed=True, newest=True)
            await store.list_turns(some, compressed=False)
            await store.list_turns(some, session_id=session.id, through=2)
            await store.sessions(some)
            await store.sessions(some, ids=[session.id], newest=1)
            await store.entity_counts(some)
            await store.list_topics(some)
            await store.list_topics(some, ids=["topic"], stale=True)
            await store.list_topics(some, archived=False)
            await store.owed_turns(some, "index", limit=1)
            await store.term_candidates(some, ["sea"], limit=5)
            await store.fact_changes(some)
            await store.fact_changes(some, keys=["k"])
            await store.status(some, now=NOW)
        await store.thread_head(scope)
        await store.compressions(scope)
        await store.compressions(scope, through=2, newest=1)
        await store.delete_session(scope, session.id)
        await store.due_threads(NOW, "index", limit=5)
        await store.owe(scope, "compact", now=NOW, turn_ids=ids)
        [old] = await store.turns_before(NOW + timedelta(days=1), limit=1)
        await store.turns_before(NOW + timedelta(days=1), after=old, limit=1)
        await store.topics_after(None, limit=5)
        await store.topics_after(("ada", "t1", "a"), limit=5)
        await store.count_topic_turns(scope, ["topic"])
        await store.delete_topic(scope, "topic", expected="other")
        await store.load_lease("sweep")
        await store.postpone(scope, ids, error="e", due_at=None, counted=True)
        await store.retry_parked(None, now=NOW)
        await store.load_facts(scope)
        await store.drop_generation(scope, "g")
        await store.due_erasures(NOW, limit=5)
        await store.erase_turns(an_erasure(scope, ids[:1]), now=NOW, limit=5)
        for _ in range(2):
            await store.erase_turns(an_erasure(scope), now=NOW, limit=5)
        await store.append_fact_change(scope, a_change("gone", seen=ids))
        await store.sweep_orphans(scope, stubs_before=NOW, now=NOW)
        await store.erase_remains(scope.user, before_id="z")
    assert [scan["command"] for scan in scans if scan["ns"] != asked.of("leases")] == []


async def test_pages_over_everybody_stay_small(asked: Asked) -> None:
    """However far a walk over everybody's turns and topics has come, its next page reads little more than itself; counting them, none."""
    store = asked.store
    for thread in range(20):
        scope = a_scope(thread_id=f"t{thread}")
        for n in range(10):
            await store.save_topics([a_topic(f"{n}", scope=scope)])
            await store.append_turns(scope, [a_draft(timestamp=NOW + timedelta(minutes=thread * 10 + n))])
    late = NOW + timedelta(days=1)
    walked = await store.turns_before(late, limit=150)
    async with asked.noting(op="query") as reads:
        await store.turns_before(late, after=walked[-1], limit=10)
        await store.topics_after(("ada", "t5", "5"), limit=10)
    assert len(reads) == 2
    assert all(read["docsExamined"] <= 15 and not read.get("hasSortStage") for read in reads)
    async with asked.noting(op="command", docsExamined={"$exists": True}) as counts:
        assert (await store.status(None, now=late)).turns == 200
    assert [count["docsExamined"] for count in counts] == [0]


async def test_how_a_long_thread_stands_is_told_from_its_newest_turns(asked: Asked) -> None:
    """Of a thousand turns only those since the last compression are looked at; a turn that is being forgotten is not counted."""
    store, scope = asked.store, a_scope()
    turns = await stored(store, scope, *map(str, range(1_000)))
    assert await store.append_compression(a_compression(turns[:950]))
    async with asked.noting(op="command", docsExamined={"$exists": True}) as reads:
        assert (await store.status(scope, now=NOW)).turns == 1_000
    assert [(read["keysExamined"] < 200, read["docsExamined"] < 5) for read in reads] == [(True, True)]
    # As a crash leaves it before the compression goes, which a worker had made of the turn meanwhile.
    await store.put_erasure(an_erasure(scope, [turns[7].id]))
    await store._empty_turns("ada", [turns[7].id], now=NOW)
    assert await store.compressions(scope)
    assert (await store.status(scope, now=NOW)).turns == 999


def test_unique_indexes_can_be_sharded() -> None:
    for indexes in INDEXES.values():
        for index in indexes:
            if index.document.get("unique"):
                assert next(iter(index.document["key"])) == "user_id"


characters = st.characters(codec="utf-8")
keys = st.text(characters, max_size=8) | st.text("%.$\0aF2", max_size=6)
values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(characters),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(keys, inner, max_size=3),
    max_leaves=12,
)


@given(st.dictionaries(keys, values, max_size=4))
@example({"": 1, "%": 2, "%25": 3, "%int": "7", "$ref": "a", "$id": 1, "a.b": {"$set": {}}, "0": {"\0": []}})
@example({"n": [2**63, -(2**63) - 1, 2**63 - 1, 10**40, 1.0, 1, True, -0.0]})
def test_any_json_comes_back_byte_for_byte(value: dict[str, Any]) -> None:
    """Through BSON itself, with keys in their order and numbers of their own kind."""
    stored = bson.encode({"facts": to_bson(value)})
    found = from_bson(bson.decode(stored)["facts"])
    assert json.dumps(found, ensure_ascii=False) == json.dumps(value, ensure_ascii=False)
    assert all(
        key and not key.startswith("$") and not {".", "\0"} & set(key) for key in _keys(to_bson(value))
    )


def _keys(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        yield from value
    for inner in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from _keys(inner)
