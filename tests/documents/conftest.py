"""Services that the tests of a module share; each test has users of its own."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

import pytest
import pytest_asyncio
from pymongo import MongoClient
from pymongo.database import Database

from memory_agent import MemoryConfig, MemoryService
from memory_agent.models.local.embedder import LocalEmbedder
from tests.servers.chroma import ChromaProcess
from tests.servers.mongod import Mongod

SHARED = {"service", "servers", "long"}
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


@dataclass(frozen=True)
class Servers:
    """A service on MongoDB and Chroma, with PyMongo's own view of the database and the embedding model to open others."""

    service: MemoryService
    cfg: MemoryConfig
    database: Database[dict[str, Any]]
    embedder: LocalEmbedder

    def another(self, **others: Any) -> MemoryService:
        """A second service on the same stores, as another process has one."""
        return MemoryService(self.cfg.changed(**others), embedder=self.embedder)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def servers(
    tmp_path_factory: pytest.TempPathFactory,
    mongod: Mongod,
    chroma_server: ChromaProcess,
    shared_embedder: LocalEmbedder,
) -> AsyncIterator[Servers]:
    """A service on a database and on collections of its own."""
    name = f"documents_{uuid4().hex[:8]}"
    cfg = MemoryConfig(
        data_dir=tmp_path_factory.mktemp("unused"),
        mongo_uri=mongod.uri,
        db_name=name,
        chroma_host=chroma_server.host,
        chroma_port=chroma_server.port,
        memory_collection_prefix=name,
    )
    client = MongoClient[dict[str, Any]](mongod.uri, tz_aware=True)
    async with MemoryService(cfg, embedder=shared_embedder) as opened:
        yield Servers(opened, cfg, client[name], shared_embedder)
    client.drop_database(name)
    client.close()
