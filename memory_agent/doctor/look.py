"""A look at a whole memory with these settings, by the stores alone: also while a service runs on it, and nothing is changed."""

from __future__ import annotations

from contextlib import AsyncExitStack
from typing import TYPE_CHECKING

from memory_agent.adapters import open_keys, open_store, open_vectors
from memory_agent.clock import SystemClock
from memory_agent.doctor.examine import Examiner
from memory_agent.doctor.findings import Finding
from memory_agent.errors import BackendError

if TYPE_CHECKING:
    from collections.abc import Callable

    from memory_agent.config import MemoryConfig
    from memory_agent.doctor.examine import Totals
    from memory_agent.ports import DocumentStore, VectorIndex


async def open_stores(cfg: MemoryConfig, stack: AsyncExitStack) -> tuple[DocumentStore, VectorIndex | None]:
    """The stores alone, which several processes may read at once, whoever holds the folder."""
    store = await open_store(cfg, None, stack)
    return store, await open_vectors(cfg, store, lambda: "", stack) if cfg.chroma_host else None


async def examined(
    cfg: MemoryConfig,
    store: DocumentStore,
    vectors: VectorIndex | None,
    progress: Callable[[Totals], None] | None = None,
) -> tuple[list[Finding], Totals]:
    """All findings, API keys among them, and how much was looked at."""
    found: list[Finding] = []
    async with AsyncExitStack() as stack:
        keys = None
        try:
            keys = await open_keys(cfg, None, stack)
        except BackendError as exc:
            found.append(Finding(kind="keys", detail=str(exc)))
        now = SystemClock().now()
        examiner = Examiner(store, keys, vectors, now=now, topics=cfg.enable_topics, progress=progress)
        found += [finding async for finding in examiner.findings()]
    return found, examiner.totals
