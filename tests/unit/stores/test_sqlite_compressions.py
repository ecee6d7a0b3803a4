"""How the SQLite adapter keeps sessions, compressions and entities: what it reads, and what is left in the file."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from memory_agent.domain import Character, ErasedCounts, Noted
from memory_agent.stores.sqlite import SqliteStore
from tests.conformance.stores import (
    NOW,
    a_compression,
    a_row,
    a_scope,
    a_session,
    an_erasure,
    stored,
)

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

SCOPE = a_scope()
TABLES = ("turns", "sessions", "compressions", "search_rows", "row_terms", "rows", "terms")


@pytest.fixture
async def sqlite(tmp_path: Path) -> AsyncIterator[SqliteStore]:
    """An open store."""
    store = SqliteStore(tmp_path / "memory.db")
    await store.open()
    yield store
    await store.close()


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


async def test_what_was_derived_of_the_forgotten_is_not_left_in_the_file(tmp_path: Path) -> None:
    """After forgetting and closing, words of compressions, sessions and entities are nowhere in the file."""
    path = tmp_path / "memory.db"
    store = SqliteStore(path)
    await store.open()
    await store.put_sessions(
        [a_session(1, character=Character(name="4711 the robot"), participants=("4711",))]
    )
    turns = await stored(store, SCOPE, "a", "b")
    noted = (Noted(seq=1, text="the code is 4711"),)
    assert await store.append_compression(a_compression(turns, decisions=noted))
    await store.put_search_rows("ada", [a_row(turns[0].id, terms={"@codes:4711": 1})], now=NOW)
    assert len(await store.entity_counts(SCOPE)) == 1
    await store.erase_turns(an_erasure(SCOPE), now=NOW, limit=10)
    await store.close()
    assert b"4711" not in path.read_bytes()


async def test_reads_go_by_an_index(sqlite: SqliteStore) -> None:
    """No statement walks through a table, and each finds what it needs by the keys that were made for it."""
    statements: list[str] = []
    session = a_session(1)
    await sqlite.put_sessions([session])
    turns = await stored(sqlite, SCOPE, *"abc", session_id=session.id)
    await sqlite.put_search_rows("ada", [a_row(turns[0].id, terms={"@a:x": 1, "@a:y": 1})], now=NOW)
    await sqlite._write(lambda db: db.set_trace_callback(statements.append))
    await sqlite._read(lambda db: db.set_trace_callback(statements.append))
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
    await sqlite._write(lambda db: db.set_trace_callback(None))
    await sqlite._read(lambda db: db.set_trace_callback(None))
    steps = {
        sql: [
            step
            for *_, step in await sqlite._read(lambda db: db.execute(f"EXPLAIN QUERY PLAN {sql}").fetchall())  # noqa: B023 - awaited here
        ]
        for sql in set(statements)
        if sql[:6] in ("SELECT", "UPDATE", "DELETE")
    }
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
