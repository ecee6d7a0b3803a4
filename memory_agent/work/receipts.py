"""The hasher of a store, by whose hashes receipts of erasures tell whom and what a forget call was about."""

from __future__ import annotations

from typing import TYPE_CHECKING

from memory_agent.domain.hashing import HASHING, Hasher, new_secret

if TYPE_CHECKING:
    from memory_agent.ports import MetaStore


async def hasher_of(store: MetaStore) -> Hasher:
    """By the store's secret, which is made by whoever asks first."""
    await store.put_meta(HASHING, new_secret(), only_new=True)
    return Hasher.of(await store.get_meta(HASHING) or {})
