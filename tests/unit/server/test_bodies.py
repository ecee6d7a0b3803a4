"""Large bodies: one of a key at a time, and not of too many values."""

import asyncio
import json
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import pytest
from starlette.types import Message, Receive, Scope, Send

from memory_agent.server.incoming import LARGE_BYTES, MAX_VALUES, BodyLimits

LIMIT = 2_000_000
LARGE = b"x" * (LARGE_BYTES + 1)


class App:
    """Reads the body, waits for its gate, answers. Notes who is past the body."""

    def __init__(self) -> None:
        self.gate = asyncio.Event()
        self.working = 0
        self.most = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        while (message := await receive())["type"] == "http.request":
            if not message.get("more_body"):
                break
        else:
            return
        self.working += 1
        self.most = max(self.most, self.working)
        try:
            await self.gate.wait()
        finally:
            self.working -= 1
        await send({"type": "http.response.start", "status": 201, "headers": []})
        await send({"type": "http.response.body", "body": b""})


class Bodies:
    """The middleware around an app, and what came of requests."""

    def __init__(self) -> None:
        self.app = App()
        self.limits = BodyLimits(self.app, limit=lambda _: LIMIT)

    def send(self, pieces: Sequence[bytes], key: str = "a", *, ends: bool = True) -> asyncio.Task[int]:
        """A request with these pieces of a body; its status. `ends`: the last piece is the last."""
        return asyncio.create_task(self._answer(list(pieces), key, ends))

    async def _answer(self, pieces: list[bytes], key: str, ends: bool) -> int:
        status = 0

        async def receive() -> Message:
            if pieces:
                piece = pieces.pop(0)
                return {"type": "http.request", "body": piece, "more_body": bool(pieces) or not ends}
            if ends:
                await asyncio.Event().wait()
            return {"type": "http.disconnect"}

        async def send(message: Message) -> None:
            nonlocal status
            status = message.get("status", status)

        scope: Any = {"type": "http", "headers": [], "state": {"principal": SimpleNamespace(key_id=key)}}
        await self.limits(scope, receive, send)
        return status


@pytest.fixture
def bodies() -> Bodies:
    return Bodies()


async def some_turns_of_the_loop() -> None:
    for _ in range(20):
        await asyncio.sleep(0)


async def test_large_bodies_of_a_key_are_worked_on_one_at_a_time_and_others_wait_for_nobody(
    bodies: Bodies,
) -> None:
    tasks = [bodies.send([LARGE]) for _ in range(5)]
    await some_turns_of_the_loop()
    assert bodies.app.working == 1
    tasks += [bodies.send([b"x"]), bodies.send([LARGE], "b")]
    await some_turns_of_the_loop()
    assert bodies.app.working == 3
    bodies.app.gate.set()
    assert await asyncio.gather(*tasks) == [201] * 7
    assert bodies.app.most == 3


async def test_client_that_leaves_while_it_waits_keeps_nobody_waiting(bodies: Bodies) -> None:
    first, leaving, last = (bodies.send([LARGE]) for _ in range(3))
    await some_turns_of_the_loop()
    leaving.cancel()
    bodies.app.gate.set()
    assert [await first, await last] == [201, 201]


@pytest.mark.parametrize("pieces", [[LARGE] * 9, [b"," * (MAX_VALUES + 1)], [LARGE, b"x"]])
async def test_the_next_large_body_is_read_whatever_became_of_the_one_before(
    bodies: Bodies, pieces: list[bytes]
) -> None:
    bodies.app.gate.set()
    await bodies.send(pieces, ends=False)
    assert await bodies.send([LARGE]) == 201


async def test_large_body_of_too_many_values_is_refused_before_it_is_complete(bodies: Bodies) -> None:
    for value in (b"0,", b"[],", b"{},", b"["):
        assert await bodies.send([value * 10_000] * 60, ends=False) == 413
    assert bodies.app.most == 0


async def test_ten_thousand_turns_with_all_their_fields_are_not_too_many_values(bodies: Bodies) -> None:
    turn = {
        "role": "user",
        "content": "One, two, three, four.",
        "speaker": "Ada",
        "timestamp": "2026-06-02T10:15:30Z",
        "metadata": {"a": 1, "b": [1, 2, 3], "c": {"d": None}},
        "importance": 0.5,
        "entities": [{"kind": "cities", "name": "Lisbon"}],
    }
    body = json.dumps({"turns": [turn] * 10_000}).encode()
    bodies.limits = BodyLimits(bodies.app, limit=lambda _: 8_000_000)
    bodies.app.gate.set()
    assert await bodies.send([body]) == 201
