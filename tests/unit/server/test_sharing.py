"""What a held folder's service does until it is there."""

import asyncio
from typing import Any

import pytest
from starlette.applications import Starlette

from memory_agent.server.sharing import _OnDemand


async def test_where_it_cannot_be_made_whoever_asked_is_answered_and_nobody_new_is_let_in(
    caplog: pytest.LogCaptureFixture,
) -> None:
    given_up = asyncio.Event()

    async def give_up() -> None:
        given_up.set()

    def make() -> Starlette:
        raise ImportError("a part is missing")

    told: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
    sent: list[Any] = []

    async def send(message: Any) -> None:
        sent.append(message["type"])

    app = _OnDemand(make, give_up)
    living = asyncio.create_task(app({"type": "lifespan"}, told.get, send))
    await told.put({"type": "lifespan.startup"})
    with pytest.raises(RuntimeError, match="could not be made"):
        await app({"type": "http"}, told.get, send)
    await given_up.wait()
    assert "a part is missing" in caplog.text
    assert not living.done()
    await told.put({"type": "lifespan.shutdown"})
    await living
    assert sent == ["lifespan.startup.complete", "lifespan.shutdown.complete"]
