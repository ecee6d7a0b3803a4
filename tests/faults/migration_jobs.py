"""Jobs about the move to another embedding model for the nursery. See `topic_jobs`."""

from __future__ import annotations

import asyncio
from typing import Any

from memory_agent import MemoryService
from memory_agent.domain import EmbedderMigration
from tests.faults.topic_jobs import with_fuse

SETTINGS: dict[str, Any] = {
    "enable_fact_extraction": False,
    "enable_topics": False,
    "retry_max_seconds": 0.05,
    "worker_poll_seconds": 0.02,
    "embedding_threads": 1,
}
WATCHED = ("search_rows", "row_next", "row_tokens", "vector_pointers", "meta")
ENDS = {"move": "moving", "back": "rolled back", "finish": "finished"}
"""The phase in which each step leaves a memory."""


def is_moved(state: EmbedderMigration) -> bool:
    """Whether nobody is left to be moved."""
    return state.looked and state.users == state.moved


async def step(service: MemoryService, name: str, model: str) -> EmbedderMigration:
    """Ask for the step, unless it was asked for already, and wait for its end."""
    state = await service.embedder_migration()
    phase = None if state is None else state.phase
    if name == "move" and state is None:
        await service.migrate_embedder(model)
    elif name == "back" and phase == "moving":
        await service.roll_back_migration()
    elif name == "finish" and phase == "moving":
        await service.finish_migration()
    async with asyncio.timeout(240):
        while True:
            state = await service.embedder_migration()
            if state is not None and state.phase == ENDS[name] and (state.is_over or is_moved(state)):
                return state
            await asyncio.sleep(0.01)


async def migrate(job: dict[str, Any]) -> None:
    """Do the job's step."""
    async with with_fuse(job) as service:
        await step(service, job["step"], job["model"])
