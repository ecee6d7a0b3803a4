"""A server that answers from a script, and clients of it."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from memory_agent import MemoryClient, ServiceClient
from tests.integration.client.http_script import KEY, HttpScript


@pytest.fixture
async def script() -> AsyncIterator[HttpScript]:
    async with HttpScript() as server:
        yield server


@pytest.fixture
async def memory(script: HttpScript) -> AsyncIterator[MemoryClient]:
    async with MemoryClient("ada", "a thread", base_url=script.url, api_key=KEY) as client:
        yield client


@pytest.fixture
async def service(script: HttpScript) -> AsyncIterator[ServiceClient]:
    async with ServiceClient(script.url, api_key=KEY) as client:
        yield client
