"""Services that the tests of a module share; each test has users of its own."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from memory_agent import MemoryConfig, MemoryService
from memory_agent.models.local.embedder import LocalEmbedder

SHARED = {"service", "servers"}
"""Services of a whole module. What asks for one runs on that module's event loop, with no fixture that has another one."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.path.parent.name == "documents" and SHARED & set(getattr(item, "fixturenames", ())):
            item.add_marker(pytest.mark.asyncio(loop_scope="module"), append=False)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def service(
    tmp_path_factory: pytest.TempPathFactory, shared_embedder: LocalEmbedder
) -> AsyncIterator[MemoryService]:
    """An embedded service with the default settings, the real embedding model and no language model."""
    cfg = MemoryConfig(data_dir=tmp_path_factory.mktemp("documents"))
    async with MemoryService(cfg, embedder=shared_embedder) as opened:
        yield opened
