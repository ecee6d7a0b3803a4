"""What every DocumentStore must do as a whole: open, close, and have every noun's port."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from memory_agent.conformance.values import a_scope, on_every_server, stored
from memory_agent.errors import NotOpen
from memory_agent.ports import DocumentStore

if TYPE_CHECKING:
    from memory_agent.conformance.values import OpenStore

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


@on_every_server
async def test_several_open_one_new_database_at_once(open_store: OpenStore) -> None:
    """Stores that open the same new database at the same time all work."""
    stores = await asyncio.gather(*(open_store() for _ in range(4)))
    for store in stores:
        await stored(store, SCOPE, "hello")
    assert len(await stores[0].list_turns(SCOPE)) == 4
