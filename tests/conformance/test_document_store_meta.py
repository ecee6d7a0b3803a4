"""What every DocumentStore must do with metadata of the store as a whole."""

import asyncio

from memory_agent.ports import MetaStore

from .values import NASTY, OpenStore, on_every_server


async def test_gives_back_what_was_put(store: MetaStore) -> None:
    """A value comes back as it was, whatever its keys; a second one replaces it; others are not touched."""
    assert await store.get_meta("a") is None
    assert await store.put_meta("a", NASTY)
    assert await store.put_meta("b", {"x": 1})
    assert await store.get_meta("a") == NASTY
    assert await store.put_meta("a", {})
    assert await store.get_meta("a") == {}
    assert await store.get_meta("b") == {"x": 1}


@on_every_server
async def test_one_wins_where_several_put_what_is_new(open_store: OpenStore) -> None:
    """With `only_new` the first stays, and everybody else is told."""
    stores = [await open_store() for _ in range(4)]
    put = await asyncio.gather(
        *(store.put_meta("id", {"of": at}, only_new=True) for at, store in enumerate(stores))
    )
    assert put.count(True) == 1
    assert await stores[0].get_meta("id") == {"of": put.index(True)}
    assert not await stores[1].put_meta("id", {"of": 9}, only_new=True)


@on_every_server
async def test_a_new_store_has_nothing_of_an_earlier_schema(open_store: OpenStore) -> None:
    """Nothing is left to upgrade, and whoever opens it next finds it so."""
    store = await open_store()
    state = await store.schema()
    assert (state.left, state.kept) == (0, ())
    assert not await store.upgrade_some()
    assert await (await open_store()).schema() == state


async def test_a_new_store_has_no_faults(store: MetaStore) -> None:
    """Nor after its indexes were made anew."""
    assert await store.check_files() == []
