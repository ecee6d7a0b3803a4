"""The hasher of a store, by whose hashes receipts of erasures tell whom and what a forget call was about."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Final

from memory_agent.domain.hashing import HASHING, Hasher, new_secret

if TYPE_CHECKING:
    from collections.abc import Container
    from datetime import datetime

    from memory_agent.ports import DocumentStore, MetaStore

_EVER: Final = timedelta(days=36_500)


async def hasher_of(store: MetaStore) -> Hasher:
    """By the store's secret, which is made by whoever asks first."""
    await store.put_meta(HASHING, new_secret(), only_new=True)
    return Hasher.of(await store.get_meta(HASHING) or {})


async def end_lost(store: DocumentStore, now: datetime, ids: Container[str]) -> None:
    """Let receipts that are owed, but whose erasure is not recorded, wait for the files alone: what they are of is gone."""
    under_way = {erasure.id for erasure in await store.due_erasures(now + _EVER, limit=1_000_000)}
    for receipt in await store.receipts(state="owed"):
        if receipt.id in ids and receipt.id not in under_way:
            await store.put_receipt(replace(receipt, state="swept"))
