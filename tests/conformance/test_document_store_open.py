"""What every DocumentStore must do as a whole: open, close, and have every noun's port."""

import asyncio

import pytest

from memory_agent.errors import NotOpen
from memory_agent.ports import DocumentStore

from .values import OpenStore, a_scope, on_every_server, stored

SCOPE = a_scope()


@on_every_server
async def test_opens_and_closes_again_and_again(open_store: OpenStore) -> None:
    """open and close can be repeated, and what was stored is there after opening again."""
    store = await open_store()
    assert isinstance(store, DocumentStore)  # it has every method of the port
    await store.open()
    [turn] = await stored(store, SCOPE, "kept")
    for _ in range(2):
        await store.close()
    for call in (store.list_turns(SCOPE), stored(store, SCOPE, "hello")):
        with pytest.raises(NotOpen):
            await call
    await store.open()
    assert await store.list_turns(SCOPE) == [turn]


async def test_the_next_process_reads_what_was_acknowledged(open_store: OpenStore) -> None:
    """A store that nobody closed, as of a process that was killed, has left all that its calls returned for; numbers go on."""
    abandoned = await open_store()
    kept = [*await stored(abandoned, SCOPE, "a", "b", key="k"), *await stored(abandoned, SCOPE, "c")]
    await abandoned.strike_off(SCOPE, [kept[0].id], "index")
    following = await open_store()
    assert await following.list_turns(SCOPE) == kept
    assert await stored(following, SCOPE, "a", "b", key="k") == kept[:2]
    assert [turn.seq for turn in await stored(following, SCOPE, "d")] == [4]


@on_every_server
async def test_several_open_one_new_database_at_once(open_store: OpenStore) -> None:
    """Stores that open the same new database at the same time all work."""
    stores = await asyncio.gather(*(open_store() for _ in range(4)))
    for store in stores:
        await stored(store, SCOPE, "hello")
    assert len(await stores[0].list_turns(SCOPE)) == 4
