"""Who is remembered, and in which threads: told with counts, page by page, and of nobody else's."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from memory_agent import MemoryService, NotFound, TurnsParked
from memory_agent.testing import HashEmbedder
from tests import profiles
from tests.integration.conversations import START, STORES, opened, said, settings_on
from tests.over_http import embedded_only

pytestmark = pytest.mark.usefixtures("both_ways")  # see tests/over_http.py


@pytest.fixture(params=profiles.by_day(*STORES))
def settings(request: pytest.FixtureRequest, tmp_path: Path, both_ways: None) -> dict[str, Any]:
    return settings_on(request.param, request, tmp_path)


@pytest.fixture
async def service(settings: dict[str, Any]) -> AsyncIterator[MemoryService]:
    async with opened(settings) as service:
        yield service


async def fill(service: MemoryService) -> None:
    """Ada's two threads, and Bo's one."""
    for user, thread, count, day in (("ada", "work", 3, 0), ("ada", "holidays", 2, 4), ("bo", "work", 1, 2)):
        turns = said(["Hello."] * count, start=START + timedelta(days=day))
        await service.agent(user, thread).add_turns(turns)


async def test_an_unknown_name_is_said_with_the_nearest_ones(service: MemoryService) -> None:
    """Of users and threads; a new user's memory begins empty all the same."""
    with pytest.raises(NotFound, match=r"^no user 'ada' is remembered$"):
        await service.threads("ada")
    await fill(service)
    with pytest.raises(NotFound, match=r"^no user 'adda' is remembered; nearest: 'ada'$"):
        await service.threads("adda")
    with pytest.raises(NotFound, match=r"^no user 'me' is remembered; there are 'ada', 'bo'$"):
        await service.agent("me", "work").thread_summary()
    with pytest.raises(NotFound, match=r"^user 'ada' has no thread 'holliday'; nearest: 'holidays'$"):
        await service.agent("ada", "holliday").thread_summary()
    with pytest.raises(NotFound, match=r"^user 'bo' has no thread 'main'; there is 'work'$"):
        await service.agent("bo", "main").thread_summary()
    new = service.agent("me", "main")
    assert (await new.threads()).threads == ()
    assert await new.fetch_long_term("Hello") == []
    assert await new.fetch_short_term() == []
    assert str(await new.fetch_memory("Hello")) == ""


@embedded_only("what is parked is looked at with the service's own eyes")
async def test_parked_turns_name_their_user(settings: dict[str, Any]) -> None:
    """In the status of everybody, of the user, and in what settle raises; as the tenant knows the user."""
    embedder = HashEmbedder()
    embedder.fail = ValueError("a broken model")
    async with opened(settings, embedder=embedder, max_attempts=1) as service:
        memory = service.agent("ada", "work", tenant="acme")
        await memory.update_memory("Hi", "Hello")
        with pytest.raises(TurnsParked, match=r"of user 'ada', thread 'work', owing index") as caught:
            await memory.settle(30)
        for parked in (*caught.value.parked, *(await service.status()).parked):
            scope = parked.scope
            assert (scope.tenant, scope.tenants_user_id, scope.thread_id) == ("acme", "ada", "work")
