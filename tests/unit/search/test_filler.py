"""Filling a vector index from the search rows: nothing is missing in the end, whatever goes wrong in between."""

from collections.abc import AsyncIterator, Sequence
from datetime import timedelta
from pathlib import Path

import pytest

from memory_agent.domain import PassageVector, Scope, new_id
from memory_agent.errors import VectorIndexError, VectorIndexUnavailable
from memory_agent.search import filler
from memory_agent.search.filler import VectorFiller
from memory_agent.stores.sqlite import SqliteStore
from memory_agent.testing import BruteForceIndex, FixedClock
from tests.conformance.values import NOW, a_row, a_scope, stored

MODEL = a_row(seq=1).embedder
PAGE = 4


class Index(BruteForceIndex):
    """A vector index that can go away before a given upsert, refuse a user's vectors, and lose all that it has."""

    def __init__(self) -> None:
        super().__init__()
        self.fails_after = 1_000
        self.refused = ""
        self.lost = 0
        self.came: list[str] = []

    @property
    def losses(self) -> int:
        return self.lost

    def held(self, user_id: str) -> list[PassageVector]:
        return list(self._users[user_id].values())

    def lose(self) -> None:
        self._users.clear()
        self._place = new_id()

    async def upsert(self, user_id: str, passages: Sequence[PassageVector]) -> None:
        self.fails_after -= 1
        if self.fails_after < 0:
            raise VectorIndexUnavailable("gone")
        if user_id == self.refused:
            raise VectorIndexError("not of this dimension")
        self.came += [passage.turn_id for passage in passages]
        await super().upsert(user_id, passages)


class Filled:
    """A store with an index beside it, and who fills it."""

    def __init__(self, store: SqliteStore) -> None:
        self.store, self.index, self.seq = store, Index(), 0
        self.filler = self.another()

    def another(self, model: str = MODEL, *, texts: bool = False) -> VectorFiller:
        """As of another process, or of this one after it was killed."""
        seconds = timedelta(seconds=30)
        return VectorFiller(
            self.store,
            self.index,
            FixedClock(NOW),
            embedder=lambda: model,
            lease=seconds,
            texts=texts,
        )

    async def put(self, count: int, user_id: str = "ada", *, noted: bool = True) -> list[str]:
        rows = [
            a_row(scope=Scope(user_id=user_id, thread_id="t1"), seq=self.seq + number)
            for number in range(1, count + 1)
        ]
        self.seq += count
        await self.store.put_search_rows(user_id, rows, now=NOW)
        if noted:
            await self.filler.want([user_id])
        return [row.turn_id for row in rows]

    async def work(self, by: VectorFiller | None = None) -> None:
        while await (by or self.filler).work_off("worker"):
            pass

    async def missing(self) -> int:
        return await self.store.vectors_missing(None)


@pytest.fixture
async def filled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Filled]:
    monkeypatch.setattr(filler, "_PAGE", PAGE)
    store = SqliteStore(tmp_path / "memory.db")
    await store.open()
    yield Filled(store)
    await store.close()


async def test_every_row_comes_once_and_what_is_missing_is_counted(filled: Filled) -> None:
    ids = await filled.put(2 * PAGE + 1)
    assert await filled.missing() == len(ids)
    await filled.work()
    assert (await filled.missing(), filled.index.came) == (0, ids)
    ids += await filled.put(1)
    assert await filled.missing() == 1
    await filled.work()
    assert (filled.index.came, await filled.index.turn_ids("ada")) == (ids, set(ids))
    assert not await filled.filler.work_off("worker")


async def test_while_there_is_no_model_nothing_is_written(filled: Filled) -> None:
    await filled.put(1)
    await filled.work(filled.another(model=""))
    assert (await filled.missing(), filled.index.came) == (1, [])


async def test_an_index_that_goes_away_is_filled_where_it_stopped(filled: Filled) -> None:
    ids = await filled.put(3 * PAGE)
    filled.index.fails_after = 2
    with pytest.raises(VectorIndexUnavailable):
        await filled.work()
    assert await filled.missing() == PAGE
    filled.index.fails_after = 1_000
    await filled.work(filled.another())
    assert (await filled.missing(), filled.index.came) == (0, ids)


async def test_rows_of_before_there_was_an_index_come_once(filled: Filled) -> None:
    """Nobody noted them: whoever begins to fill does, before it asks the index."""
    await filled.put(3, noted=False)
    await filled.put(2, "bob", noted=False)
    filled.index.fail = VectorIndexUnavailable("not there yet")
    with pytest.raises(VectorIndexUnavailable):
        await filled.work()
    assert await filled.missing() == 5
    filled.index.fail = None
    await filled.work()
    assert (await filled.missing(), len(filled.index.came)) == (0, 5)


async def test_an_index_that_lost_everything_is_filled_again(filled: Filled) -> None:
    """Noticed by whoever starts, and by who is at work and meets a collection that is gone."""
    ids = await filled.put(3)
    other = await filled.put(2, "bob")
    await filled.work()
    filled.index.lose()
    await filled.work(filled.another())
    assert [await filled.index.turn_ids(user) for user in ("ada", "bob")] == [set(ids), set(other)]
    filled.index.lose()
    filled.index.lost += 1
    await filled.work()
    assert [await filled.index.turn_ids(user) for user in ("ada", "bob")] == [set(ids), set(other)]


async def test_rows_of_another_model_stay_out_until_they_are_made_anew(filled: Filled) -> None:
    await filled.put(2)
    await filled.work(filled.another(model="another1"))
    assert (filled.index.came, await filled.missing()) == ([], 0)


async def test_texts_come_and_go_as_the_setting_says(filled: Filled) -> None:
    """Also those of turns that were there before."""
    [turn] = await stored(filled.store, a_scope(), "I live in Lisbon.")
    await filled.store.put_search_rows("ada", [a_row(turn.id, seq=1)], now=NOW)
    held: list[str | None] = []
    for texts in (False, True, False):
        await filled.work(filled.another(texts=texts))
        held += [passage.text for passage in filled.index.held("ada")]
    assert held == [None, "I live in Lisbon.", None]


async def test_what_is_erased_while_it_is_written_goes_again(filled: Filled) -> None:
    """It was read before it was erased, and written afterwards."""
    await filled.put(2)
    upsert = filled.index.upsert

    async def erased_first(user_id: str, passages: Sequence[PassageVector]) -> None:
        await filled.store.sweep_orphans(a_scope().user, stubs_before=NOW, now=NOW)  # none has a turn
        await upsert(user_id, passages)

    filled.index.upsert = erased_first  # type: ignore[method-assign]
    await filled.work()
    assert await filled.index.turn_ids("ada") == set()
    assert await filled.missing() == 0


async def test_a_row_put_while_the_last_page_is_written_is_not_missed(filled: Filled) -> None:
    await filled.put(1)
    upsert, late = filled.index.upsert, list[str]()

    async def and_put(user_id: str, passages: Sequence[PassageVector]) -> None:
        if not late:
            late.extend(await filled.put(1))
        await upsert(user_id, passages)

    filled.index.upsert = and_put  # type: ignore[method-assign]
    await filled.work()
    assert set(late) <= await filled.index.turn_ids("ada")


async def test_a_fill_that_is_begun_anew_meanwhile_is_begun_anew(filled: Filled) -> None:
    """As by `rebuild`, while a page is written: what the index lost before is written again."""
    ids = await filled.put(3 * PAGE)
    assert await filled.filler.work_off("worker")
    upsert, begun = filled.index.upsert, list[bool]()

    async def and_anew(user_id: str, passages: Sequence[PassageVector]) -> None:
        await upsert(user_id, passages)
        if not begun:
            begun.append(True)
            await filled.index.delete(user_id, ids[:1])
            await filled.store.want_vectors([user_id], anew=True)

    filled.index.upsert = and_anew  # type: ignore[method-assign]
    await filled.work()
    assert (await filled.index.turn_ids("ada"), await filled.missing()) == (set(ids), 0)


async def test_vectors_that_are_refused_hold_up_nobody_else(
    filled: Filled, caplog: pytest.LogCaptureFixture
) -> None:
    filled.index.refused = "ada"
    await filled.put(1)
    ids = await filled.put(2, "bob")
    await filled.work()
    assert (await filled.missing(), filled.index.came) == (1, ids)
    assert "not of this dimension" in caplog.text
