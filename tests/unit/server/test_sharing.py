"""What a held folder's service does until it is there."""

import asyncio
from typing import Any

import pytest
from starlette.applications import Starlette

from memory_agent.server.run import _OnDemand


async def test_where_it_cannot_be_made_whoever_asked_is_answered_and_nobody_new_is_let_in(
    caplog: pytest.LogCaptureFixture,
) -> None:
    given_up = asyncio.Event()

    async def give_up() -> None:
        given_up.set()

    def make() -> Starlette:
        raise ImportError("a part is missing")

    async def unused(*_: Any) -> Any:
        raise AssertionError

    app, stop = _OnDemand(make, give_up), asyncio.Event()
    living = asyncio.create_task(app.live(stop))
    with pytest.raises(RuntimeError, match="could not be made"):
        await app({"type": "http"}, unused, unused)
    await given_up.wait()
    assert "a part is missing" in caplog.text
    assert not living.done()
    stop.set()
    await living
