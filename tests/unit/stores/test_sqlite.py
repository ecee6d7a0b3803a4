"""What is particular to the SQLite adapter: its errors, its durability settings, its file."""

from __future__ import annotations

import asyncio
import contextlib
import sqlite3
import threading
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from typing import TYPE_CHECKING

import pytest

from memory_agent.domain import Character, ErasedCounts, ExtractionCost, Noted
from memory_agent.errors import StoreError, StoreUnavailable
from memory_agent.stores.segments import pack_texts, unpack_texts
from memory_agent.stores.sqlite import SqliteStore
from memory_agent.stores.sqlite.errors import driver_errors, translated
from memory_agent.stores.sqlite.schema import VERSION
from tests.conformance.stores import (
    NOW,
    a_call,
    a_change,
    a_compression,
    a_row,
    a_scope,
    a_session,
    an_erasure,
    stored,
)

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from memory_agent.stores.segments import Packed

SCOPE = a_scope()
TABLES = ("turns", "sessions", "compressions", "search_rows", "row_terms", "rows", "terms")
ERRORS = {
    "DataError",
    "DatabaseError",
    "Error",
    "IntegrityError",
    "InterfaceError",
    "InternalError",
    "NotSupportedError",
    "OperationalError",
    "ProgrammingError",
    "Warning",
}


def test_every_error_of_the_driver_is_known() -> None:
    """A new exception class of sqlite3 makes this test ask what to do with it."""
    names = {
        name
        for name, value in vars(sqlite3).items()
        if isinstance(value, type) and issubclass(value, Exception)
    }
    assert names == ERRORS


@pytest.mark.parametrize("name", sorted(ERRORS))
def test_every_error_of_the_driver_is_translated(name: str) -> None:
    """Each comes out as one of ours that names the file, with the driver's as its cause."""
    error = getattr(sqlite3, name)("x")
    with pytest.raises(StoreError, match=r"memory\.db") as caught, driver_errors("memory.db"):
        raise error
    assert caught.value.__cause__ is error


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        (sqlite3.SQLITE_BUSY, StoreUnavailable),
        (sqlite3.SQLITE_BUSY_SNAPSHOT, StoreUnavailable),
        (sqlite3.SQLITE_LOCKED, StoreUnavailable),
        (sqlite3.SQLITE_FULL, StoreUnavailable),
        (sqlite3.SQLITE_IOERR_FSYNC, StoreUnavailable),
        (sqlite3.SQLITE_CANTOPEN, StoreUnavailable),
        (sqlite3.SQLITE_CORRUPT, StoreError),
        (sqlite3.SQLITE_NOTADB, StoreError),
        (sqlite3.SQLITE_READONLY, StoreError),
        (sqlite3.SQLITE_CONSTRAINT_UNIQUE, StoreError),
    ],
)
def test_result_codes_decide(code: int, expected: type[Exception]) -> None:
    """An error is temporary if its result code, extended or not, says so."""
    error = sqlite3.OperationalError("x")
    error.sqlite_errorcode = code
    error.sqlite_errorname = "SQLITE_X"
    assert type(translated(error, "memory.db")) is expected


async def test_a_file_of_a_later_version_is_refused(tmp_path: Path) -> None:
    """A file that a later version wrote is left alone, with words that say what to do."""
    path = tmp_path / "memory.db"
    with sqlite3.connect(path) as connection:
        connection.execute(f"PRAGMA user_version = {VERSION + 1}")
    connection.close()
    with pytest.raises(StoreError, match="upgrade memory_agent"):
        await SqliteStore(path).open()


async def test_a_file_of_an_earlier_version_is_refused(tmp_path: Path) -> None:
    """A file that an earlier version wrote is left alone, with words that name the remedies."""
    path = tmp_path / "memory.db"
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE turns (id TEXT)")
        connection.execute("PRAGMA user_version = 1")
    connection.close()
    with pytest.raises(StoreError, match=r"memory\.db .*earlier memory_agent .*another data_dir.*ingest"):
        await SqliteStore(path).open()
    with sqlite3.connect(path) as connection:
        assert connection.execute("SELECT name FROM sqlite_master").fetchall() == [("turns",)]
    connection.close()


async def test_a_file_that_is_no_database_is_refused(tmp_path: Path) -> None:
    """Another kind of file is an error that waiting will not mend, and is not overwritten."""
    path = tmp_path / "memory.db"
    path.write_text("dear diary " * 100)
    with pytest.raises(StoreError):
        await SqliteStore(path).open()
    assert path.read_text().startswith("dear diary")


async def test_a_folder_that_cannot_be_made_is_unavailable(tmp_path: Path) -> None:
    """A file where the folder should be is reported as an outage that names the path."""
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreUnavailable, match=r"memory\.db"):
        await SqliteStore(tmp_path / "file" / "memory.db").open()


async def test_many_open_a_new_file_at_once(tmp_path: Path) -> None:
    """Also where one of them switches it to its write-ahead log just then, which SQLite lets nobody wait for."""
    for number in range(30):
        stores = [SqliteStore(tmp_path / f"{number}.db") for _ in range(8)]
        await asyncio.gather(*(store.open() for store in stores))
        await asyncio.gather(*(store.close() for store in stores))


async def test_commits_reach_the_disk(sqlite: SqliteStore) -> None:
    """The writer runs in WAL with synchronous=FULL."""
    assert await sqlite._write(lambda db: db.execute("PRAGMA synchronous").fetchone()) == (2,)
    assert await sqlite._write(lambda db: db.execute("PRAGMA journal_mode").fetchone()) == ("wal",)


async def test_a_write_lock_held_elsewhere_blocks_no_read(tmp_path: Path) -> None:
    """While another process writes, reads go on, the event loop too, and writes fail as an outage in time."""
    store = SqliteStore(tmp_path / "memory.db", timeout_seconds=1)
    await store.open()
    [turn] = await stored(store, a_scope(), "before")
    other = sqlite3.connect(tmp_path / "memory.db", isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    write = asyncio.create_task(store.append_turns(a_scope(), a_call("blocked")))
    await asyncio.sleep(0.05)
    assert await store.list_turns(a_scope()) == [turn]
    assert not write.done()
    with pytest.raises(StoreUnavailable):
        await write
    other.execute("ROLLBACK")
    other.close()
    await stored(store, a_scope(), "after")
    await store.close()


async def test_what_was_forgotten_is_not_left_in_the_file(sqlite: SqliteStore, tmp_path: Path) -> None:
    """After forgetting and closing, the erased words are nowhere in the file."""
    path = tmp_path / "memory.db"
    turns = await stored(sqlite, a_scope(), "the launch code is 4711", "harmless")
    await sqlite.put_search_rows("ada", [a_row(turn.id, speaker="Zebulon") for turn in turns], now=NOW)
    await sqlite.erase_turns(an_erasure(a_scope()), now=an_erasure(a_scope()).due_at, limit=10)
    await sqlite.close()
    assert b"4711" not in path.read_bytes()
    assert b"Zebulon" not in path.read_bytes()


@pytest.mark.parametrize(
    "texts", [("4711", "q7"), ("code 4711 " * 50, "harmless " * 50)], ids=["stored", "packed"]
)
async def test_what_was_forgotten_is_in_no_segment(
    sqlite: SqliteStore, tmp_path: Path, texts: tuple[str, str]
) -> None:
    """A packed text that is forgotten is neither in the file nor in a segment; compressing leaves no copy either."""
    path = tmp_path / "memory.db"
    turns = await stored(sqlite, a_scope(), *texts)
    await sqlite.compress_turns(a_scope(), "topic", [turn.id for turn in turns])
    await sqlite.erase_turns(an_erasure(a_scope(), [turns[0].id]), now=NOW, limit=10)
    [left] = await sqlite.list_turns(a_scope())
    assert left.content == texts[1]
    await sqlite.close()
    assert b"4711" not in path.read_bytes()
    assert segments(path) == [{turns[1].id: texts[1]}]


async def test_a_compressed_text_is_kept_once(sqlite: SqliteStore, tmp_path: Path) -> None:
    """Once packed, a text is in its segment and nowhere else in the file."""
    path = tmp_path / "memory.db"
    turns = await stored(sqlite, a_scope(), *(f"the sea at night, number {i}" for i in range(50)))
    await sqlite.compress_turns(a_scope(), "topic", [turn.id for turn in turns])
    await sqlite.close()
    assert b"the sea at night" not in path.read_bytes()
    assert segments(path) == [{turn.id: turn.content for turn in turns}]


def segments(path: Path) -> list[dict[str, str]]:
    """Every segment's texts by turn, in their order; what no turn points at is empty."""
    with contextlib.closing(sqlite3.connect(path)) as connection:
        found = connection.execute(
            "SELECT id, live, raw_bytes, codec, data FROM segments ORDER BY id"
        ).fetchall()
        return [_texts(connection, *segment) for segment in found]


def _texts(
    connection: sqlite3.Connection, segment_id: int, live: int, raw_bytes: int, codec: int, data: bytes
) -> dict[str, str]:
    places = dict(
        connection.execute(
            "SELECT segment_at, id FROM turns WHERE segment_id = ? ORDER BY segment_at", [segment_id]
        ).fetchall()
    )
    texts = unpack_texts(codec, data)
    assert live == len(places)
    assert raw_bytes == len("".join(texts).encode())
    assert not any(text for at, text in enumerate(texts) if at not in places)
    return {turn_id: texts[at] for at, turn_id in places.items()}


async def test_no_write_waits_for_packing(
    sqlite: SqliteStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While texts are packed others write, forget and read; the segment holds what is left then."""
    path = tmp_path / "memory.db"
    turns = await stored(sqlite, a_scope(), "a", "b", "c")
    packing, go_on = threading.Event(), threading.Event()

    def slowly(texts: Sequence[str], **options: int) -> Packed:
        packing.set()
        assert go_on.wait(20)
        return pack_texts(texts, **options)

    monkeypatch.setattr("memory_agent.stores.sqlite.topics.pack_texts", slowly)
    compress = asyncio.create_task(sqlite.compress_turns(a_scope(), "topic", [turn.id for turn in turns]))
    while not packing.is_set():
        await asyncio.sleep(0.01)
    await sqlite.erase_turns(an_erasure(a_scope(), [turns[1].id]), now=NOW, limit=10)
    await stored(sqlite, a_scope(), "d")
    assert [turn.content for turn in await sqlite.list_turns(a_scope())] == ["a", "c", "d"]
    go_on.set()
    assert (await compress).turns == 2
    await sqlite.close()
    assert segments(path) == [{turns[0].id: "a", turns[2].id: "c"}]


async def test_texts_keep_their_places_while_others_are_forgotten(
    sqlite: SqliteStore, tmp_path: Path
) -> None:
    """Whichever texts of a segment go, those that stay are read at their places; with the last one it goes as well."""
    path = tmp_path / "memory.db"
    texts = {turn.id: turn.content for turn in await stored(sqlite, a_scope(), *"abcdef")}
    await sqlite.compress_turns(a_scope(), "topic", list(texts))
    ids = list(texts)
    for gone in ([ids[1]], [ids[0], ids[4]], [ids[3]], [ids[2], ids[5]]):
        counts = await sqlite.erase_turns(an_erasure(a_scope(), gone), now=NOW, limit=10)
        assert (counts.turns, counts.packed_texts) == (len(gone), len(gone))
        texts = {turn_id: text for turn_id, text in texts.items() if turn_id not in gone}
        assert {turn.id: turn.content for turn in await sqlite.list_turns(a_scope())} == texts
        assert segments(path) == ([texts] if texts else [])


async def test_of_two_who_forget_in_one_segment_neither_brings_a_text_back(
    sqlite: SqliteStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While one packs what stays of a segment, another forgets there: what was packed is not used."""
    path = tmp_path / "memory.db"
    turns = await stored(sqlite, a_scope(), *"abcd")
    await sqlite.compress_turns(a_scope(), "topic", [turn.id for turn in turns])
    packing, go_on = threading.Event(), threading.Event()

    def slowly(texts: Sequence[str], **options: int) -> Packed:
        if texts[0] == "" and not packing.is_set():
            packing.set()
            assert go_on.wait(20)
        return pack_texts(texts, **options)

    monkeypatch.setattr("memory_agent.stores.sqlite.forgetting.pack_texts", slowly)
    forget = asyncio.create_task(sqlite.erase_turns(an_erasure(a_scope(), [turns[0].id]), now=NOW, limit=10))
    while not packing.is_set():
        await asyncio.sleep(0.01)
    await sqlite.erase_turns(an_erasure(a_scope(), [turns[2].id]), now=NOW, limit=10)
    go_on.set()
    assert (await forget).turns == 1
    await sqlite.close()
    assert segments(path) == [{turns[1].id: "b", turns[3].id: "d"}]


async def test_no_segment_is_written_by_another_user(sqlite: SqliteStore, tmp_path: Path) -> None:
    """What a turn points at counts only if it is its user's own, for reading and for forgetting."""
    path = tmp_path / "memory.db"
    [turn] = await stored(sqlite, a_scope("ann"), "a")
    [other] = await stored(sqlite, a_scope("bob"), "b")
    await sqlite.compress_turns(a_scope("ann"), "topic", [turn.id])
    point = "UPDATE turns SET content = '', (segment_id, segment_at) = (SELECT id, 0 FROM segments) WHERE user_id = 'bob'"
    await sqlite._write(lambda db: db.execute(point).rowcount)
    with pytest.raises(StoreError, match=f"{other.id} is compressed"):
        await sqlite.list_turns(a_scope("bob"))
    await sqlite.erase_turns(an_erasure(a_scope("bob")), now=an_erasure(a_scope()).due_at, limit=10)
    assert [turn.content for turn in await sqlite.list_turns(a_scope("ann"))] == ["a"]
    await sqlite.close()
    assert segments(path) == [{turn.id: "a"}]


@pytest.mark.parametrize(
    ("damage", "named"),
    [
        ("DELETE FROM segments", "its segment does not hold its text"),
        ("UPDATE segments SET user_id = 'other'", "its segment does not hold its text"),
        ("UPDATE segments SET codec = 0, data = x'00'", "its segment does not hold its text"),
        ("UPDATE segments SET data = x'01'", "damaged"),
    ],
    ids=["lost", "anothers", "too-few-texts", "damaged"],
)
async def test_a_compressed_turn_without_its_text_is_an_error(
    sqlite: SqliteStore, damage: str, named: str
) -> None:
    """A turn whose segment was lost or damaged is reported, never given out with another text or none."""
    [turn] = await stored(sqlite, a_scope(), "a")
    await sqlite.compress_turns(a_scope(), "topic", [turn.id])
    await sqlite._write(lambda db: db.execute(damage))
    with pytest.raises(StoreError, match=named):
        await sqlite.list_turns(a_scope())


async def test_compressions_of_turns_that_are_gone_are_swept(sqlite: SqliteStore) -> None:
    """In a file where a covered turn is missing, its compression and the later ones go, and the newest turn owes."""
    turns = await stored(sqlite, SCOPE, *"abcd")
    for turn in turns[:3]:
        made = a_compression([turn], turn.seq, after_seq=turn.seq - 1)
        assert await sqlite.append_compression(made)
    other = a_scope(thread_id="t2")
    kept = a_compression(await stored(sqlite, other, "x"), scope=other)
    assert await sqlite.append_compression(kept)
    hers = a_scope("eve")
    assert await sqlite.append_compression(a_compression(await stored(sqlite, hers, "x"), scope=hers))
    mend = "DELETE FROM turns WHERE content = 'b'"
    await sqlite._write(lambda db: db.execute(mend).rowcount)
    swept = [await sqlite.sweep_orphans(other, stubs_before=NOW, now=NOW) for _ in range(2)]
    assert swept == [ErasedCounts(compressions=2), ErasedCounts()]
    assert [compression.number for compression in await sqlite.compressions(SCOPE)] == [1]
    assert await sqlite.compressions(other) == [kept]
    assert len(await sqlite.compressions(hers)) == 1
    assert [turn.content for turn in await sqlite.owed_turns(SCOPE.user, "compress", limit=9)] == ["d"]


async def test_what_was_derived_of_the_forgotten_is_not_left_in_the_file(
    sqlite: SqliteStore, tmp_path: Path
) -> None:
    """After forgetting and closing, words of compressions, sessions and entities are nowhere in the file."""
    await sqlite.put_sessions(
        [a_session(1, character=Character(name="4711 the robot"), participants=("4711",))]
    )
    turns = await stored(sqlite, SCOPE, "a", "b")
    noted = (Noted(seq=1, text="the code is 4711"),)
    assert await sqlite.append_compression(a_compression(turns, decisions=noted))
    await sqlite.put_search_rows("ada", [a_row(turns[0].id, terms={"@codes:4711": 1})], now=NOW)
    assert len(await sqlite.entity_counts(SCOPE)) == 1
    await sqlite.erase_turns(an_erasure(SCOPE), now=NOW, limit=10)
    await sqlite.close()
    assert b"4711" not in (tmp_path / "memory.db").read_bytes()


async def test_reads_go_by_an_index(sqlite: SqliteStore) -> None:
    """No statement walks through a table, and each finds what it needs by the keys that were made for it."""
    session = a_session(1)
    await sqlite.put_sessions([session])
    turns = await stored(sqlite, SCOPE, *"abc", session_id=session.id)
    await sqlite.put_search_rows("ada", [a_row(turns[0].id, terms={"@a:x": 1, "@a:y": 1})], now=NOW)
    statements = await traced(sqlite)
    await sqlite.append_compression(a_compression(turns[:1], session_id=session.id))
    await sqlite.thread_head(SCOPE)
    await sqlite.compressions(SCOPE, newest=1)
    await sqlite.compressions(SCOPE, through=3)
    for scope in (SCOPE, SCOPE.user):
        await sqlite.list_turns(scope, session_id=session.id, through=2)
        await sqlite.sessions(scope)
        await sqlite.sessions(scope, ids=[session.id], newest=1)
        await sqlite.entity_counts(scope)
        await sqlite.delete_session(scope, session.id)
    await sqlite.erase_turns(an_erasure(SCOPE, [turns[0].id]), now=NOW, limit=5)
    await sqlite.sweep_orphans(SCOPE, stubs_before=NOW, now=NOW)
    await sqlite.erase_turns(an_erasure(SCOPE), now=NOW, limit=5)
    await sqlite.erase_user_remains("ada", before_id="z")
    steps = await explained(sqlite, statements)
    assert len(steps) > 20
    scans = {
        sql: found
        for sql, found in steps.items()
        if any(step.startswith("SCAN") and step.split()[1] in TABLES for step in found)
    }
    assert scans == {}
    plans = {step for found in steps.values() for step in found}
    of_session = "(user_id=? AND session_id=? AND thread_id=?"
    for step in (
        f"SEARCH turns USING COVERING INDEX turns_session {of_session})",
        f"SEARCH turns USING INDEX turns_session {of_session})",
        f"SEARCH turns USING INDEX turns_session {of_session} AND seq<?)",
        "SEARCH turns USING INDEX turns_session (user_id=? AND session_id=?)",
        f"SEARCH compressions USING COVERING INDEX compressions_session {of_session})",
        "SEARCH sessions USING INDEX sessions_id (id=? AND user_id=?)",
        "SEARCH terms USING PRIMARY KEY (user_id=? AND term>? AND term<?)",
    ):
        assert step in plans, plans


async def test_changes_are_found_by_an_index(sqlite: SqliteStore) -> None:
    """No read or write of facts and of what forgetting them takes walks through a table; by turn, not through a user's."""
    statements = await traced(sqlite)
    ids = [turn.id for turn in await stored(sqlite, a_scope(), *"abc")]
    for i, turn_id in enumerate(ids):
        await sqlite.append_fact_change(a_scope(), a_change(turn_id, seen=ids[:i]))
    await sqlite.add_extraction_cost(a_scope(), ExtractionCost(turns=1))
    for scope in (a_scope(), a_scope().user):
        await sqlite.fact_changes(scope, keys=["k"])
        await sqlite.status(scope, now=NOW)
    await sqlite.drop_generation(a_scope(), "g")
    await sqlite.erase_turns(an_erasure(a_scope(), ids[:1]), now=NOW, limit=5)
    await sqlite.sweep_orphans(a_scope(), stubs_before=NOW, now=NOW)
    for erased in (a_scope(), a_scope().user):
        await sqlite.erase_turns(an_erasure(erased), now=NOW, limit=5)
    found = await explained(sqlite, statements)
    assert len(found) > 20
    steps = {step for plan in found.values() for step in plan}
    assert any("fact_change_turns USING PRIMARY KEY (user_id=? AND turn_id=?" in step for step in steps)
    assert any("fact_events USING INDEX fact_events_turn (user_id=? AND turn_id=?)" in step for step in steps)
    of_a_user = "SEARCH fact_events USING PRIMARY KEY (user_id=?)"
    assert all("ORDER BY recorded_at" in sql for sql, plan in found.items() if of_a_user in plan)
    scans = {sql: plan for sql, plan in found.items() if any(map(is_scan, plan))}
    assert scans == {}


async def test_no_view_outlives_its_change(sqlite: SqliteStore) -> None:
    """Which turns a change had in view is in the file as long as the change, and no longer."""
    ids = [turn.id for turn in await stored(sqlite, a_scope(), *"abc")]
    await sqlite.append_fact_change(a_scope(), a_change(ids[1], seen=ids[:1]))
    await sqlite.append_fact_change(a_scope(), a_change(ids[2], seen=ids[1:2]))
    await sqlite.append_fact_change(a_scope(), a_change(ids[2], seen=ids[1:2], generation="g"))
    views = "SELECT turn_id FROM fact_change_turns ORDER BY turn_id, seq"
    seen = [ids[0], *ids[1:2] * 3, *ids[2:] * 2]
    assert await sqlite._read(lambda db: db.execute(views).fetchall()) == [(turn_id,) for turn_id in seen]
    await sqlite.drop_generation(a_scope(), "g")
    await sqlite.erase_turns(an_erasure(a_scope(), ids[:1]), now=NOW, limit=5)
    assert await sqlite._read(lambda db: db.execute(views).fetchall()) == [(ids[1],), (ids[2],)]


def is_scan(step: str) -> bool:
    return step.startswith("SCAN") and any(name in step for name in ("turns", "fact", "costs"))


async def traced(store: SqliteStore) -> list[str]:
    """What the store runs from now on."""
    statements: list[str] = []
    await store._write(lambda db: db.set_trace_callback(statements.append))
    await store._read(lambda db: db.set_trace_callback(statements.append))
    return statements


async def explained(store: SqliteStore, statements: list[str]) -> dict[str, list[str]]:
    """How SQLite went about each of these that looks for something, step by step; nothing is traced any more."""
    await store._write(lambda db: db.set_trace_callback(None))
    await store._read(lambda db: db.set_trace_callback(None))

    def steps(db: sqlite3.Connection, sql: str) -> list[str]:
        return [step for *_, step in db.execute(f"EXPLAIN QUERY PLAN {sql}")]

    looking = [sql for sql in {*statements} if sql[:6] in ("SELECT", "UPDATE", "DELETE")]
    return await store._read(lambda db: {sql: steps(db, sql) for sql in looking})


def open_once(path: str) -> bool:
    """In a process of its own: open a new file, write, close."""

    async def run() -> bool:
        store = SqliteStore(path)
        await store.open()
        await stored(store, a_scope(), "hello")
        await store.close()
        return True

    return asyncio.run(run())


async def test_processes_open_a_new_file_at_once(tmp_path: Path) -> None:
    """Several processes that create the same file at the same time all succeed."""
    path = str(tmp_path / "memory.db")
    loop = asyncio.get_running_loop()
    with ProcessPoolExecutor(3, mp_context=get_context("spawn")) as pool:
        assert all(await asyncio.gather(*(loop.run_in_executor(pool, open_once, path) for _ in range(6))))
