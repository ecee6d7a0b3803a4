"""What is particular to the SQLite adapter: its errors, its durability settings, its file."""

import asyncio
import contextlib
import sqlite3
import threading
from collections.abc import AsyncIterator, Sequence
from datetime import timedelta
from pathlib import Path

import pytest

from memory_agent.domain import ErasedCounts, ExtractionCost, KeyMoment
from memory_agent.errors import StoreError, StoreUnavailable
from memory_agent.stores.codec import Packed, pack_texts, unpack_texts
from memory_agent.stores.fields import COMPRESSION, NEWEST
from memory_agent.stores.sqlite import SqliteStore
from memory_agent.stores.sqlite.connection import driver_errors, translated
from tests.conformance.values import (
    NOW,
    a_call,
    a_change,
    a_compression,
    a_row,
    a_scope,
    a_session,
    an_erasure,
    put_large,
    stored,
)

SCOPE = a_scope()
TABLES = {
    "turns", "sessions", "compressions", "search_rows", "row_terms", "row_tokens", "rows", "terms", "facts", "fact_events",
    "fact_change_turns", "costs",
}  # fmt: skip
ERRORS = {
    "DataError", "DatabaseError", "Error", "IntegrityError", "InterfaceError", "InternalError",
    "NotSupportedError", "OperationalError", "ProgrammingError", "Warning",
}  # fmt: skip


def test_every_error_of_the_driver_is_translated() -> None:
    """Each comes out as one of ours that names the file, with the driver's as its cause; a new class is noticed here."""
    values = vars(sqlite3).items()
    names = {name for name, value in values if isinstance(value, type) and issubclass(value, Exception)}
    assert names == ERRORS
    for name in names:
        error = getattr(sqlite3, name)("x")
        with pytest.raises(StoreError, match=r"memory\.db") as caught, driver_errors("memory.db"):
            raise error
        assert caught.value.__cause__ is error


TEMPORARY = ("BUSY", "BUSY_SNAPSHOT", "LOCKED", "FULL", "IOERR_FSYNC", "CANTOPEN")
LASTING = ("CORRUPT", "NOTADB", "READONLY", "CONSTRAINT_UNIQUE")


def test_result_codes_decide() -> None:
    for name in (*TEMPORARY, *LASTING):
        error = sqlite3.OperationalError("x")
        error.sqlite_errorname = f"SQLITE_{name}"
        error.sqlite_errorcode = getattr(sqlite3, error.sqlite_errorname)
        expected = StoreUnavailable if name in TEMPORARY else StoreError
        assert type(translated(error, "memory.db")) is expected, name


async def test_a_file_of_another_version_or_kind_is_refused(tmp_path: Path) -> None:
    """It is left alone, with words that say what to do; waiting will not mend it."""
    path = tmp_path / "memory.db"
    words = {
        NEWEST + 1: "later memory_agent .*Upgrade memory_agent",
        1: r"memory\.db .*before 0\.1\.0 .*another data_dir.*ingest",
    }
    for version, said in words.items():
        with contextlib.closing(sqlite3.connect(path)) as connection:
            connection.execute("CREATE TABLE IF NOT EXISTS turns (id TEXT)")
            connection.execute(f"PRAGMA user_version = {version}")
            with pytest.raises(StoreError, match=said):
                await SqliteStore(path).open()
            assert connection.execute("SELECT name FROM sqlite_master").fetchall() == [("turns",)]
    path.write_text("dear diary " * 100)
    with pytest.raises(StoreError):
        await SqliteStore(path).open()
    assert path.read_text().startswith("dear diary")
    with pytest.raises(StoreUnavailable, match=r"memory\.db/memory\.db"):  # a file where the folder should be
        await SqliteStore(path / "memory.db").open()


async def test_many_open_a_new_file_at_once(tmp_path: Path) -> None:
    """Also where one of them switches it to its write-ahead log just then, which SQLite lets nobody wait for."""
    for number in range(10):
        stores = [SqliteStore(tmp_path / f"{number}.db") for _ in range(8)]
        await asyncio.gather(*(store.open() for store in stores))
        assert await asyncio.gather(*(store.list_turns(SCOPE) for store in stores)) == [[]] * 8
        await asyncio.gather(*(store.close() for store in stores))


async def test_commits_reach_the_disk(sqlite: SqliteStore) -> None:
    assert await sqlite._write(lambda db: db.execute("PRAGMA synchronous").fetchone()) == (2,)
    assert await sqlite._write(lambda db: db.execute("PRAGMA journal_mode").fetchone()) == ("wal",)


async def test_a_write_lock_held_elsewhere_blocks_no_read(tmp_path: Path) -> None:
    """While another process writes, reads go on, the event loop too, and writes fail as an outage in time."""
    store = SqliteStore(tmp_path / "memory.db", timeout_seconds=1)
    await store.open()
    [turn] = await stored(store, SCOPE, "before")
    other = sqlite3.connect(tmp_path / "memory.db", isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    write = asyncio.create_task(store.append_turns(SCOPE, a_call("blocked")))
    await asyncio.sleep(0.05)
    assert await store.list_turns(SCOPE) == [turn]
    assert not write.done()
    with pytest.raises(StoreUnavailable):
        await write
    other.execute("ROLLBACK")
    other.close()
    await stored(store, SCOPE, "after")
    await store.close()


@pytest.mark.parametrize(
    "texts", [("4711", "q7"), ("code 4711 " * 50, "harmless " * 50)], ids=["stored", "packed"]
)
async def test_what_was_forgotten_is_in_no_segment(
    sqlite: SqliteStore, tmp_path: Path, texts: tuple[str, str]
) -> None:
    """A packed text that is forgotten is neither in the file nor in a segment; one that stays is in its segment alone."""
    path = tmp_path / "memory.db"
    turns = await stored(sqlite, SCOPE, *texts)
    await sqlite.compress_turns(SCOPE, "topic", [turn.id for turn in turns])
    assert segments(path) == [{turn.id: turn.content for turn in turns}]
    await sqlite.erase_turns(an_erasure(SCOPE, [turns[0].id]), now=NOW, limit=10)
    [left] = await sqlite.list_turns(SCOPE)
    assert left.content == texts[1]
    await sqlite.close()
    assert b"4711" not in path.read_bytes()
    assert (texts[1].encode() in path.read_bytes()) == (texts[1] == "q7")
    assert segments(path) == [{turns[1].id: texts[1]}]


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


class Packing:
    """Packing that waits, the first time that the first text is `waits_at` (None: whichever), until it may go on."""

    def __init__(self, waits_at: str | None = None) -> None:
        self._begun, self._go_on, self._waits_at = threading.Event(), threading.Event(), waits_at

    def __call__(self, texts: Sequence[str], **options: int) -> Packed:
        if self._waits_at in (None, texts[0]) and not self._begun.is_set():
            self._begun.set()
            assert self._go_on.wait(20)
        return pack_texts(texts, **options)

    @contextlib.asynccontextmanager
    async def under_way(self) -> AsyncIterator[None]:
        assert await asyncio.to_thread(self._begun.wait, 20)
        yield
        self._go_on.set()


async def test_no_write_waits_for_packing(
    sqlite: SqliteStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While texts are packed others write, forget and read; the segment holds what is left then."""
    turns = await stored(sqlite, SCOPE, "a", "b", "c")
    monkeypatch.setattr("memory_agent.stores.sqlite.topics.pack_texts", packing := Packing())
    compress = asyncio.create_task(sqlite.compress_turns(SCOPE, "topic", [turn.id for turn in turns]))
    async with packing.under_way():
        await sqlite.erase_turns(an_erasure(SCOPE, [turns[1].id]), now=NOW, limit=10)
        await stored(sqlite, SCOPE, "d")
        assert [turn.content for turn in await sqlite.list_turns(SCOPE)] == ["a", "c", "d"]
    assert (await compress).turns == 2
    await sqlite.close()
    assert segments(tmp_path / "memory.db") == [{turns[0].id: "a", turns[2].id: "c"}]


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
    await sqlite.erase_turns(an_erasure(a_scope("bob")), now=an_erasure(SCOPE).due_at, limit=10)
    assert [turn.content for turn in await sqlite.list_turns(a_scope("ann"))] == ["a"]
    await sqlite.close()
    assert segments(path) == [{turn.id: "a"}]


async def test_a_compressed_turn_without_its_text_is_an_error(sqlite: SqliteStore) -> None:
    """A turn whose segment was lost or damaged is reported, never given out with another text or none."""
    lost = "its segment does not hold its text"
    for number, (damage, named) in enumerate(
        {
            "DELETE FROM segments": lost,
            "UPDATE segments SET user_id = 'other'": lost,
            "UPDATE segments SET codec = 0, data = x'00'": lost,
            "UPDATE segments SET data = x'01'": "damaged",
        }.items()
    ):
        scope = a_scope(f"u{number}")
        [turn] = await stored(sqlite, scope, "a")
        await sqlite.compress_turns(scope, "topic", [turn.id])
        await sqlite._execute(f"{damage} WHERE user_id = ?", [scope.user_id])
        with pytest.raises(StoreError, match=named):
            await sqlite.list_turns(scope)


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


async def test_a_moment_is_stored_once(sqlite: SqliteStore) -> None:
    """However many compressions have it. With one that is damaged a thread's others go, and are made anew."""
    turns = await stored(sqlite, SCOPE, *"abcdef")
    moments = tuple(
        KeyMoment(turn_id=turn.id, seq=turn.seq, who="user", at=NOW, score=3.0, tokens=1, text="x")
        for turn in turns
    )
    made = [
        a_compression([turn], turn.seq, after_seq=turn.seq - 1, moments=moments[: turn.seq])
        for turn in turns[:5]
    ]
    for one in made:
        assert await sqlite.append_compression(one)
    sql = f"SELECT {COMPRESSION.columns} FROM compressions ORDER BY number"
    rows = [COMPRESSION.read(row) for row in await sqlite._fetch(sql, [])]
    assert [one.moments for one in rows] == [(), (), (), (), moments[:5]]
    assert await sqlite.compressions(SCOPE) == made
    await sqlite._execute("UPDATE compressions SET derived = x'00' WHERE number = ?", [5])
    await sqlite.erase_turns(an_erasure(SCOPE, [turns[3].id]), now=NOW, limit=5)
    assert await sqlite.compressions(SCOPE) == []
    assert [turn.content for turn in await sqlite.owed_turns(SCOPE, "compress", limit=9)] == ["f"]


async def test_reads_go_by_an_index(sqlite: SqliteStore) -> None:
    session = a_session(1)
    await sqlite.put_sessions([session])
    turns = await stored(sqlite, SCOPE, *"abc", session_id=session.id)
    ids = [turn.id for turn in turns]
    await put_large(sqlite, "ada", [a_row(ids[0], terms={"@a:x": 1, "@a:y": 1}, tokens=b"t")])
    statements = await traced(sqlite)
    await sqlite.append_compression(a_compression(turns[:1], session_id=session.id))
    for i, turn_id in enumerate(ids):
        await sqlite.append_fact_change(SCOPE, a_change(turn_id, seen=ids[:i]))
    await sqlite.add_extraction_cost(SCOPE, ExtractionCost(turns=1))
    await sqlite.thread_head(SCOPE)
    await sqlite.search_rows("ada", ids=ids)
    await sqlite.token_codes("ada", ids, embedder="e")
    await sqlite.put_search_rows("ada", [a_row(ids[1])], now=NOW)
    await sqlite.compressions(SCOPE, newest=1)
    await sqlite.compressions(SCOPE, through=3)
    for scope in (SCOPE, SCOPE.user):
        await sqlite.list_turns(scope, session_id=session.id, through=2)
        await sqlite.sessions(scope)
        await sqlite.sessions(scope, ids=[session.id], newest=1)
        await sqlite.entity_counts(scope)
        await sqlite.delete_session(scope, session.id)
        await sqlite.fact_changes(scope, keys=["k"])
        await sqlite.status(scope, now=NOW)
    await sqlite.drop_generation(SCOPE, "g")
    await sqlite.erase_turns(an_erasure(SCOPE, ids[:1]), now=NOW, limit=5)
    await sqlite.sweep_orphans(SCOPE, stubs_before=NOW, now=NOW)
    for erased in (SCOPE, SCOPE.user):
        await sqlite.erase_turns(an_erasure(erased), now=NOW, limit=5)
    await sqlite.erase_remains(SCOPE.user, before_id="z")
    steps = await explained(sqlite, statements)
    assert len(steps) > 40
    scans = {
        sql: found
        for sql, found in steps.items()
        if any(step.startswith("SCAN") and step.split()[1] in TABLES for step in found)
    }
    assert scans == {}
    # By the ids: by the user it would be all of their rows, at each question and each turn.
    by_ids = [found for sql, found in steps.items() if "search_rows" in sql and "pack_id(value)" in sql]
    assert len(by_ids) >= 3
    assert all("SEARCH search_rows USING INDEX search_rows_turn (turn_id=?)" in found for found in by_ids)
    of_a_user = "SEARCH fact_events USING PRIMARY KEY (user_id=?)"
    assert all("ORDER BY recorded_at" in sql for sql, found in steps.items() if of_a_user in found)
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
    for index in ("fact_events USING INDEX fact_events_turn", "fact_change_turns USING PRIMARY KEY"):
        assert any(f"{index} (user_id=? AND turn_id=?" in step for step in plans), index


async def test_old_turns_of_one_time_are_not_sorted_for_each_page(sqlite: SqliteStore) -> None:
    """An import gives thousands of turns one timestamp: with the id in the index a page ends where its limit is."""
    await stored(sqlite, SCOPE, *"abc", timestamp=NOW)
    statements = await traced(sqlite)
    [first] = await sqlite.turns_before(NOW + timedelta(days=1), limit=1)
    assert await sqlite.turns_before(NOW + timedelta(days=1), after=first, limit=1)
    steps = await explained(sqlite, statements)
    pages = [found for sql, found in steps.items() if "FROM turns" in sql]
    assert len(pages) == 2
    assert not [step for found in pages for step in found if "B-TREE" in step]


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


async def test_how_a_long_thread_stands_is_told_from_its_newest_turns(sqlite: SqliteStore) -> None:
    """A status takes as many steps of the database with three hundred turns as with three thousand, most of them compressed."""
    counted = list[None]()
    steps = []
    await sqlite._read(lambda db: db.set_progress_handler(lambda: counted.append(None), 1))
    for thread, size in (("short", 300), ("long", 3_000)):
        scope = a_scope(thread_id=thread)
        turns = await stored(sqlite, scope, *map(str, range(size)))
        assert await sqlite.append_compression(a_compression(turns[:-50], scope=scope))
        counted.clear()
        assert (await sqlite.status(scope, now=NOW)).turns == size
        steps.append(len(counted))
    assert 0 < steps[1] <= steps[0] + 20


async def test_nobody_else_reads_the_files_also_where_others_could(tmp_path: Path) -> None:
    """In a folder that was there before, and a file of an earlier version."""
    folder = tmp_path / "data"
    folder.mkdir(mode=0o755)
    (folder / "memory.db").touch(mode=0o644)
    store = SqliteStore(folder / "memory.db")
    await store.open()
    await stored(store, SCOPE, "secret")
    modes = {path.name: path.stat().st_mode & 0o777 for path in folder.iterdir()}
    assert modes.keys() >= {"memory.db", "memory.db-wal", "memory.db-shm"}
    assert set(modes.values()) == {0o600}
    assert folder.stat().st_mode & 0o777 == 0o700
    await store.close()
