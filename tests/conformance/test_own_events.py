"""Events of the project's own stores: how long they are kept, where they are kept, and the server that tells none."""

import asyncio
from typing import Any

import pytest

from memory_agent.errors import EventsLost, EventsUnsupported
from memory_agent.ports import DocumentStore
from memory_agent.stores.mongo.connection import read_all
from memory_agent.stores.sqlite import SqliteStore
from memory_agent.stores.sqlite.schema import KEPT_EVENTS
from tests.conformance.stores import SILENT
from tests.conformance.test_document_store_events import (
    LIFE,
    WAIT_SECONDS,
    a_life,
    since,
    take,
    telling,
    telling_by_any_driver,
)

from .values import NOW, a_change, a_scope, an_erasure, stored

SCOPE = a_scope()
silent = pytest.mark.parametrize("stores", SILENT, indirect=True)


@telling
async def test_an_id_of_another_database_is_refused(stores: Any, store: DocumentStore, tmp_path: Any) -> None:
    """An id that a store of the same kind told, but on other data, is not taken for one of this one's."""
    other_stores = type(stores)(
        stores._adapter, folder=tmp_path / "other", db_name=f"{stores._db_name}_2", uri=stores._uri
    )
    other = await other_stores.open()
    try:
        async with other.watch() as events:
            await stored(other, SCOPE, "elsewhere")
            [event] = await take(events, 1)
        with pytest.raises(EventsLost):
            await since(store, event.id)
        if stores._uri is not None:
            await other._turns.database.client.drop_database(f"{stores._db_name}_2")
    finally:
        await other_stores.close()


@telling
async def test_an_id_that_is_too_old_is_refused(store: DocumentStore) -> None:
    """If what followed an event is not kept any more, a watch from there says so instead of leaving it out."""
    async with store.watch() as events:
        await a_life(store)
        told = await take(events, len(LIFE))
        aged = await _let_age(store, told[0].id)
        with pytest.raises(EventsLost):
            async with store.watch(after=aged):
                pass
        if isinstance(store, SqliteStore):
            # The slow reader is told as well, and has ended then.
            with pytest.raises(EventsLost):
                await anext(events)
            with pytest.raises(StopAsyncIteration):
                await anext(events)


async def _let_age(store: DocumentStore, event_id: str) -> str:
    """An id of an event after which events are gone."""
    if not isinstance(store, SqliteStore):
        # A token begins with a byte for "timestamp" and the second; this one is of 1970, before any history.
        return f"{event_id[:2]}00000001{event_id[10:]}"

    def fill(db: Any) -> int:
        db.execute(
            "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ?)"
            " INSERT INTO events (kind, user_id, thread_id) SELECT 0, 'ada', 't1' FROM n",
            [KEPT_EVENTS + 200],
        )
        count: int = db.execute("SELECT count(*) FROM events").fetchone()[0]
        return count

    kept = await store._write(fill)
    assert KEPT_EVENTS <= kept <= KEPT_EVENTS + 100
    return event_id


@pytest.mark.parametrize("stores", ["sqlite"], indirect=True)
async def test_forgetting_leaves_no_event_in_the_file(store: SqliteStore) -> None:
    """The events of what is erased go in the same transaction; ids after which only such are gone stay good."""
    async with store.watch() as events:
        gone, stays = await a_life(store)
        assert await store.append_fact_change(SCOPE, a_change(None))
        assert await store.append_fact_change(SCOPE, a_change(stays.id, key="seen", seen=[gone.id]))
        told = await take(events, len(LIFE) + 2)
    await store.erase_turns(an_erasure(SCOPE, [gone.id]), now=NOW, limit=10)
    left = await since(store, told[0].id)
    assert [(event.kind, event.turn_id) for event in left] == [
        ("turn_stored", stays.id),
        ("parked", stays.id),
        ("facts_changed", None),
    ]
    await store.erase_turns(an_erasure(SCOPE), now=NOW, limit=10)
    await store.erase_turns(an_erasure(SCOPE), now=NOW, limit=10)
    rows = await store._read(lambda db: db.execute("SELECT * FROM events").fetchall())
    assert rows == []
    # Nothing was pruned, and numbers are not given again.
    assert await since(store, told[-1].id) == []
    [newest] = await since(store, told[0].id)
    assert int(newest.id) > int(told[-1].id)


@silent
@pytest.mark.parametrize("after", [None, f"82{0:040X}"], ids=["from-now", "resumed"])
async def test_a_store_that_cannot_tell_says_so(store: DocumentStore, after: str | None) -> None:
    """A store without a record of its changes refuses to be watched, and goes on with everything else."""
    with pytest.raises(EventsUnsupported, match="replica set"):
        async with store.watch(after=after):
            pass
    await a_life(store)


@telling_by_any_driver
async def test_leaving_leaves_nothing_behind(store: DocumentStore) -> None:
    """A watch in which nothing happens ends, however it is left, with its tasks and cursors."""
    before = asyncio.all_tasks()
    held_before = await _held_open(store)  # a server still knows of watchers that were killed

    async def wait(began: asyncio.Event) -> None:
        async with store.watch(SCOPE) as events:
            began.set()
            await anext(events)

    entered = asyncio.Event()
    waiting = asyncio.ensure_future(wait(entered))
    await entered.wait()
    await asyncio.sleep(0.05)
    assert await _held_open(store) == held_before + 1
    async with asyncio.timeout(WAIT_SECONDS):
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        async with store.watch(), store.watch(SCOPE):
            pass
    assert await _held_open(store) <= held_before
    assert asyncio.all_tasks() == before


async def _held_open(store: Any) -> int:
    """How many watches the store's file or server knows of."""
    if isinstance(store, SqliteStore):
        return len(store._watchers)
    database = store._turns.database
    operations = await read_all(
        database.client.admin.aggregate([{"$currentOp": {"idleCursors": True, "localOps": True}}])
    )
    return sum(
        operation.get("ns", "").startswith(f"{database.name}.$cmd") and "cursor" in operation
        for operation in operations
    )
