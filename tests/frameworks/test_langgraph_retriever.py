"""The retriever, by LangChain's own suite for retrievers."""

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from anyio.from_thread import start_blocking_portal
from langchain_tests.integration_tests import RetrieversIntegrationTests

from memory_agent import MemoryConfig, MemoryService
from memory_agent.integrations.langgraph import MemoryRetriever
from memory_agent.models.local.embedder import LocalEmbedder


class TestMemoryRetriever(RetrieversIntegrationTests):
    """Synchronous callers ask from a thread of their own, the async ones on a loop of their own."""

    @pytest.fixture(autouse=True)
    def opened(
        self, embedded_settings: dict[str, Any], shared_embedder: LocalEmbedder, tmp_path: Path
    ) -> Iterator[None]:
        service = MemoryService(MemoryConfig(**embedded_settings), embedder=shared_embedder)
        with start_blocking_portal() as portal, portal.wrap_async_context_manager(service) as opened:
            self._memory = opened.agent("ada", "trips")
            for text in (
                "The tram goes to Porto",
                "The boat goes to Porto",
                "Porto has a bridge",
                "A bus to Porto",
            ):
                portal.call(partial(self._memory.add_turn, "user", text))
            portal.call(self._memory.settle)
            self._portal = portal
            yield

    @property
    def retriever_constructor(self) -> Any:
        return lambda **given: self._portal.call(self._made, given)

    async def _made(self, given: dict[str, Any]) -> MemoryRetriever:
        return MemoryRetriever(memory=self._memory, **given)

    @property
    def retriever_constructor_params(self) -> dict[str, Any]:
        return {"k": 2}

    @property
    def retriever_query_example(self) -> str:
        return "How do I get to Porto?"
