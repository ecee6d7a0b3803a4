"""Somebody who follows a framework's page, on both ways of running a memory."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from memory_agent import MemoryConfig, MemoryService
from memory_agent.domain import ALL_TENANTS
from memory_agent.models.local.embedder import LocalEmbedder
from tests import profiles
from tests.frameworks.pages import Reader, environment_with
from tests.servers.openai_script import ScriptedOpenAI
from tests.servers.service import served


@pytest.fixture(params=profiles.by_day("embedded", "service"))
async def reader(
    request: pytest.FixtureRequest,
    tmp_path: Path,
    embedded_settings: dict[str, Any],
    shared_embedder: LocalEmbedder,
    openai_server: ScriptedOpenAI,
) -> AsyncIterator[Reader]:
    environment = environment_with(openai_server, tmp_path)
    if request.param == "embedded":
        yield Reader(tmp_path, environment)
        return
    cfg = MemoryConfig(**embedded_settings, enable_fact_extraction=False)
    async with MemoryService(cfg, embedder=shared_embedder) as service, served(service) as server:
        environment |= {"MEMORY_AGENT_SERVICE_URL": server.address}
        environment |= {"MEMORY_AGENT_SERVICE_API_KEY": await server.key(ALL_TENANTS)}
        yield Reader(tmp_path, environment, over_http=True)
