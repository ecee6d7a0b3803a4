"""Who outgrows the memory: when a user's rows are taken into the term index, and that none is missed."""

from collections import Counter
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import pytest

from memory_agent.domain import SearchRow
from memory_agent.errors import StoreUnavailable
from memory_agent.ports import ALL_ROWS
from memory_agent.search import candidates
from memory_agent.search.candidates import CandidateKeeper
from memory_agent.search.user_index import ResidentCache
from memory_agent.stores.sqlite import SqliteStore
from tests.conformance.values import NOW, a_row, a_scope

SCOPE = a_scope()
MOST = 10
MODEL = "ab12cd34ef56"
PAGE = 4


class CountingStore(SqliteStore):
    """A SQLite store that counts how often rows were counted and taken in, and goes away before a given taking."""

    counted = 0
    fails_after = 1_000

    def __init__(self, file: Path) -> None:
        super().__init__(file)
        self.came: Counter[str] = Counter()

    async def index_terms(self, user_id: str, turn_ids: Sequence[str]) -> None:
        self.fails_after -= 1
        if self.fails_after < 0:
            raise StoreUnavailable("gone")
        self.came.update(turn_ids)
        await super().index_terms(user_id, turn_ids)

    async def count_rows(self, user_id: str, *, limit: int) -> int:
        self.counted += 1
        return await super().count_rows(user_id, limit=limit)


class Kept:
    """A user's rows, put and taken as the index stage does."""

    def __init__(self, store: CountingStore) -> None:
        self.store = store
        self.keeper = CandidateKeeper(store, max_turns=MOST)
        self.rows: list[SearchRow] = []

    async def put(self, count: int) -> None:
        first = len(self.rows) + 1
        rows = [a_row(seq=seq, terms={"sea": 1}) for seq in range(first, first + count)]
        self.rows += rows
        await self.store.put_search_rows("ada", rows, now=NOW)
        await self.keeper.take("ada", rows)

    async def held(self) -> int:
        return (await self.store.term_candidates(SCOPE, ["sea"], limit=1)).frequency["sea"]

    async def assert_all_in(self) -> None:
        ids = {row.turn_id for row in self.rows}
        assert await self.held() == len(ids)
        assert await self.store.candidates_through("ada") == ALL_ROWS

    async def is_in_memory(self) -> bool:
        cache = ResidentCache(self.store, embedder=lambda: MODEL, max_turns=MOST, max_bytes=10**8)
        return await cache.get("ada") is not None


@pytest.fixture
async def kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Kept]:
    monkeypatch.setattr(candidates, "_PAGE", PAGE)
    store = CountingStore(tmp_path / "memory.db")
    await store.open()
    yield Kept(store)
    await store.close()


async def test_only_who_outgrows_the_memory_is_in_the_term_index(kept: Kept) -> None:
    for _ in range(5):
        await kept.put(2)
    assert await kept.held() == 0
    assert await kept.store.candidates_through("ada") is None
    assert await kept.is_in_memory()
    await kept.put(1)
    await kept.assert_all_in()
    assert set(kept.store.came.values()) == {1}
    assert not await kept.is_in_memory()
    await kept.put(3)
    await kept.assert_all_in()
    assert set(kept.store.came.values()) == {1}


async def test_who_is_small_is_counted_once(kept: Kept) -> None:
    for _ in range(MOST):
        await kept.put(1)
    assert kept.store.counted == 1
    await kept.put(1)
    assert kept.store.counted == 2


async def test_outgrowing_is_gone_on_with_where_it_stopped(kept: Kept) -> None:
    """While the store is away the user stays in memory; what was taken in before is not taken in again."""
    await kept.put(MOST)
    kept.store.fails_after = 2
    with pytest.raises(StoreUnavailable):
        await kept.put(1)
    assert len(kept.store.came) == 2 * PAGE
    assert await kept.is_in_memory()
    kept.store.fails_after = 1_000
    await kept.put(1)
    await kept.assert_all_in()
    assert set(kept.store.came.values()) == {1}


async def test_what_was_erased_is_not_taken_in(kept: Kept) -> None:
    await kept.put(MOST)
    await kept.store.sweep_orphans(SCOPE.user, stubs_before=NOW, now=NOW)  # none of them has a turn
    assert {row.erased for row in await kept.store.search_rows("ada")} == {True}
    kept.rows.clear()
    await kept.put(1)
    await kept.assert_all_in()


async def test_a_row_put_while_pages_are_read_is_taken_in(kept: Kept) -> None:
    """Two who put rows of a user at once miss none between them: whoever is late finds that the index is there."""
    await kept.put(MOST)
    other = CandidateKeeper(kept.store, max_turns=MOST)
    late = a_row(seq=99, terms={"sea": 1})
    reads = kept.store.search_rows

    async def and_put(user_id: str, **asked: object) -> list[SearchRow]:
        rows = await reads(user_id, **asked)  # type: ignore[arg-type]
        if not rows and late not in kept.rows:
            # After the last page was read, and before that is noted.
            kept.rows.append(late)
            await kept.store.put_search_rows("ada", [late], now=NOW)
            await other.take("ada", [late])
        return rows

    kept.store.search_rows = and_put  # type: ignore[method-assign]
    await kept.put(1)
    await kept.assert_all_in()
