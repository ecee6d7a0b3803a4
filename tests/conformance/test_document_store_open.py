"""What every DocumentStore must do as a whole: open, close, and have every noun's port."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from memory_agent.errors import NotOpen
from memory_agent.ports import DocumentStore
from tests.conformance.stores import a_scope, on_every_server, stored

if TYPE_CHECKING:
    from tests.conformance.stores import OpenStore

SCOPE = a_scope()


async def test_is_a_document_store(store: DocumentStore) -> None:
    """The adapter has every method of the port."""
    assert isinstance(store, DocumentStore)


@on_every_server
async def test_opens_and_closes_again_and_again(open_store: OpenStore) -> None:
    """open and close can be repeated, and what was stored is there after opening again."""
    store = await open_store()
    await store.open()
    [turn] = await stored(store, SCOPE, "kept")
    await store.close()
    await store.close()
    await store.open()
    assert await store.list_turns(SCOPE) == [turn]


@on_every_server
async def test_several_open_one_new_database_at_once(open_store: OpenStore) -> None:
    """Stores that open the same new database at the same time all work."""
    stores = await asyncio.gather(*(open_store() for _ in range(4)))
    for store in stores:
        await stored(store, SCOPE, "hello")
    assert len(await stores[0].list_turns(SCOPE)) == 4


async def test_refuses_calls_when_closed(store: DocumentStore) -> None:
    """A closed store says that it is not open."""
    await store.close()
    with pytest.raises(NotOpen):
        await store.list_turns(SCOPE)
    with pytest.raises(NotOpen):
        await stored(store, SCOPE, "hello")
