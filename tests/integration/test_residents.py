"""The cache of resident indexes over a real SQLite file: its bounds, and how it keeps up with the store."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace

import pytest

from memory_agent.domain import Scope, SearchRow
from memory_agent.ports import ALL_ROWS
from memory_agent.search import user_index
from memory_agent.search.request import RowFilter
from memory_agent.search.user_index import ResidentCache, ResidentIndex
from memory_agent.stores.sqlite import SqliteStore
from tests.conformance.values import a_row, a_scope, an_erasure, stored
from tests.unit.search.ranking import asked

PAGE = 250
"""Rows that the cache reads at a time; the tests go past it."""


class WatchedStore(SqliteStore):
    """A SQLite store that counts how often rows are read, and can replace rows before a later page is read."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.reads = 0
        self.replacements: list[list[SearchRow]] = []
        """Each is put once, before the next read of a page that is not the first."""

    async def search_rows(
        self, user_id: str, *, ids: Sequence[str] | None = None, after: int = 0, limit: int | None = None
    ) -> list[SearchRow]:
        self.reads += 1
        if after and self.replacements:
            await put(self, self.replacements.pop(0))
        return await super().search_rows(user_id, ids=ids, after=after, limit=limit)


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[WatchedStore]:
    """An open, empty store."""
    opened = WatchedStore(tmp_path / "memory.sqlite3")
    await opened.open()
    yield opened
    await opened.close()


def a_cache(
    store: SqliteStore, *, max_turns: int = 10_000, max_bytes: int = 100_000_000, idle_seconds: float = 600
) -> ResidentCache:
    """A cache with no bound that matters but those given."""
    return ResidentCache(
        store,
        embedder=lambda: "ab12cd34ef56",
        max_turns=max_turns,
        max_bytes=max_bytes,
        idle_seconds=idle_seconds,
    )


def rows_of(user_id: str, count: int, *, first: int = 0, word: str = "old") -> list[SearchRow]:
    """Rows whose turns are numbered from `first` and hold `word`."""
    scope = a_scope(user_id)
    return [
        a_row(f"{user_id}-{number:04}", scope=scope, terms={word: 1})
        for number in range(first, first + count)
    ]


async def put(store: SqliteStore, rows: Sequence[SearchRow]) -> None:
    await store.put_search_rows(rows[0].user_id, rows, now=datetime.now(UTC))


async def held(cache: ResidentCache, user_id: str) -> ResidentIndex:
    """The user's index, which must not be too large."""
    index = await cache.get(user_id)
    assert index is not None
    return index


def holding(index: ResidentIndex, word: str) -> list[str]:
    """The turns that hold the word, by rising id."""
    found = index.score(asked([word]), where=RowFilter())
    scores = zip(found.turn_ids, found.values["words"], strict=True)
    return sorted(turn_id for turn_id, score in scores if score > 0)


def turn_ids(index: ResidentIndex) -> list[str]:
    """Every turn as often as it is there, by rising id."""
    return sorted(index.score(asked(), where=RowFilter()).turn_ids)


# --- bounds --------------------------------------------------------------------------------------------------


async def test_least_recently_used_users_leave_first(store: WatchedStore) -> None:
    """Past the memory budget the users asked for longest ago are dropped, and the bytes counted stay below it."""
    for user in ("ann", "bob", "cat", "dan"):
        await put(store, rows_of(user, 100))
    one = (await held(a_cache(store), "ann")).nbytes
    budget = int(2.5 * one)
    cache = a_cache(store, max_bytes=budget)
    for user in ("ann", "bob", "ann", "cat"):
        await cache.get(user)
        assert cache.nbytes <= budget
    assert [user in cache for user in ("ann", "bob", "cat")] == [True, False, True]
    await cache.get("dan")
    assert [user in cache for user in ("ann", "bob", "cat", "dan")] == [False, False, True, True]
    assert len(await held(cache, "ann")) == 100


async def test_idle_users_are_dropped(store: WatchedStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """After idle_seconds without a question an index goes, with its memory; asking keeps it, and others' go then."""
    for user in ("ann", "bob"):
        await put(store, rows_of(user, 10))
    now = 1_000.0
    monkeypatch.setattr(user_index, "time", SimpleNamespace(monotonic=lambda: now))
    cache = a_cache(store, idle_seconds=10)
    first, bob = await held(cache, "ann"), await held(cache, "bob")
    now += 6
    assert await held(cache, "bob") is bob
    assert "ann" in cache
    now += 6
    assert await held(cache, "bob") is bob
    assert "ann" not in cache
    now += 11
    cache.drop_idle()
    assert ("bob" in cache, cache.nbytes) == (False, 0)
    again = await held(cache, "ann")
    assert again is not first
    assert turn_ids(again) == turn_ids(first)


async def test_a_large_user_has_no_index(store: WatchedStore) -> None:
    """A user with more than max_turns turns at load has none, and takes no memory; at max_turns there is one."""
    await put(store, rows_of("ann", 11))
    await put(store, rows_of("bob", 10))
    await put(store, rows_of("cat", PAGE + 1))
    for user in ("ann", "bob", "cat"):
        await store.set_candidates_through(user, ALL_ROWS)
    cache = a_cache(store, max_turns=10)
    assert await cache.get("ann") is None
    assert len(await held(cache, "bob")) == 10
    assert cache.nbytes == (await held(cache, "bob")).nbytes
    assert await a_cache(store, max_turns=PAGE).get("cat") is None
    assert len(await held(a_cache(store, max_turns=PAGE + 1), "cat")) == PAGE + 1


async def test_erased_turns_do_not_count_as_large(store: WatchedStore) -> None:
    """Stubs of erased turns are no turns: what is left fits in memory again when it is loaded."""
    scope = a_scope("ann")
    turns = await stored(store, scope, *(f"text {number}" for number in range(12)))
    await put(store, [a_row(turn.id, scope=scope) for turn in turns])
    await store.erase_turns(
        an_erasure(scope, [turn.id for turn in turns[:2]]), now=datetime.now(UTC), limit=10
    )
    assert turn_ids(await held(a_cache(store, max_turns=10), "ann")) == sorted(turn.id for turn in turns[2:])


# --- keeping up ----------------------------------------------------------------------------------------------


async def test_many_pages_are_all_read_and_new_rows_are_added(store: WatchedStore) -> None:
    """1,300 rows are all there once; those that come later, by ones or by pages, go into the same index."""
    await put(store, rows_of("ann", 1_300))
    cache = a_cache(store)
    index = await held(cache, "ann")
    assert turn_ids(index) == [f"ann-{number:04}" for number in range(1_300)]
    reads = store.reads
    assert await held(cache, "ann") is index
    assert store.reads == reads, "nothing changed, so nothing is read"
    for first, count in ((1_300, 1), (1_301, PAGE), (1_301 + PAGE, PAGE + 1)):
        await put(store, rows_of("ann", count, first=first, word="new"))
        assert await held(cache, "ann") is index
        assert len(index) == first + count
    assert turn_ids(index) == [f"ann-{number:04}" for number in range(1_302 + 2 * PAGE)]
    assert len(holding(index, "new")) == 2 + 2 * PAGE
    assert index.head == await store.index_head("ann")


async def test_an_erased_row_leaves_the_index(store: WatchedStore) -> None:
    """Turns that were erased, one or all, are in no index handed out afterwards."""
    scope = a_scope("ann")
    turns = await stored(store, scope, "one", "two", "three")
    await put(store, [a_row(turn.id, scope=scope, terms={turn.content: 1, "all": 1}) for turn in turns])
    cache = a_cache(store)
    assert holding(await held(cache, "ann"), "two") == [turns[1].id]
    await store.erase_turns(an_erasure(scope, [turns[1].id]), now=datetime.now(UTC), limit=10)
    index = await held(cache, "ann")
    assert holding(index, "two") == []
    assert holding(index, "all") == turn_ids(index) == [turns[0].id, turns[2].id]
    assert index.head == await store.index_head("ann")
    await store.erase_turns(an_erasure(Scope(user_id="ann")), now=datetime.now(UTC), limit=10)
    assert turn_ids(await held(cache, "ann")) == []


@pytest.mark.parametrize("times", [1, 4])
async def test_rows_replaced_while_loading_are_there_once_and_newest(store: WatchedStore, times: int) -> None:
    """However often rows are replaced while later pages are read, each turn is there once, as it is now."""
    await put(store, rows_of("ann", 1_300))
    store.replacements = [
        rows_of("ann", 700, first=100 * version, word=f"version{version}") for version in range(times)
    ]
    cache = a_cache(store)
    index = await held(cache, "ann")
    assert store.replacements == []
    expected = {row.turn_id: next(iter(row.terms)) for row in await store.search_rows("ann")}
    assert turn_ids(index) == sorted(expected)
    for word in sorted(set(expected.values())):
        assert holding(index, word) == sorted(turn for turn, newest in expected.items() if newest == word)
    assert index.head == await store.index_head("ann")
    assert await held(cache, "ann") is index


async def test_questions_at_once_load_once(store: WatchedStore) -> None:
    """Ten questions of one user at a time read the user's rows once and share an index; so do they when it grows."""
    await put(store, rows_of("ann", 1_300))
    cache = a_cache(store)
    first, *others = await asyncio.gather(*[held(cache, "ann") for _ in range(10)])
    assert all(other is first for other in others)
    assert store.reads == 1_300 // PAGE + 1
    await put(store, rows_of("ann", 1, first=1_300))
    assert {id(index) for index in await asyncio.gather(*[held(cache, "ann") for _ in range(10)])} == {
        id(first)
    }
    assert store.reads == 1_300 // PAGE + 2
    assert len(first) == 1_301
