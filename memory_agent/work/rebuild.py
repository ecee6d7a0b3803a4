"""Rebuilding what is derived: the vector index from search rows, or both from the turns."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from memory_agent.domain import Scope
    from memory_agent.ports import Clock, WorkStore


async def rebuild_index(store: WorkStore, clock: Clock, scope: Scope) -> int:
    """Owe the index stage to every turn of the scope again; how many turns.

    The worker fills the vector index from the search rows that are there, and makes those that are missing from
    the turns. Reading goes on meanwhile. Safe to repeat.
    """
    return await store.owe(scope, "index", now=clock.now())
