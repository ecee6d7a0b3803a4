"""Retries, services that are down or something else, and what never gets into a text."""

from __future__ import annotations

import asyncio
import logging
import time
import traceback
from typing import Any

import httpx
import pytest

from memory_agent import MemoryClient, ServiceClient, errors
from memory_agent.wire import answers
from tests.integration.client.http_script import KEY, HttpScript, Step, answer, cut, problem, silence
from tests.integration.client.samples import (
    CONTEXT,
    FORGOTTEN,
    RECOLLECTION,
    STATUS,
    TOPIC,
    TURN,
    answer_with,
    of,
)

# --- retries -------------------------------------------------------------------------------------------------
CALLS: dict[str, tuple[Any, Any]] = {
    "status": (lambda m: m.status(), STATUS),
    "feedback": (lambda m: m.feedback("a", useful=False), TOPIC),
}
SAFE = {
    "status": CALLS["status"],
    "fetch_memory": (lambda m: m.fetch_memory("What?"), CONTEXT),
    "fetch_long_term": (lambda m: m.fetch_long_term("sea"), [RECOLLECTION]),
    "forget": (lambda m: m.forget(["a"]), FORGOTTEN),
    "clear": (lambda m: m.clear(), FORGOTTEN),
    "add_turn": (lambda m: m.add_turn("user", "Hi"), TURN),
    "settle": (lambda m: m.settle(), None),
}
UNSAFE: dict[str, Any] = {
    "feedback": CALLS["feedback"][0],
    "merge_topics": lambda m: m.merge_topics("a", "b"),
    "compress": lambda m: m.compress(),
    "forget if all are known": lambda m: m.forget(["a"], missing_ok=False),
}
TEMPORARY: dict[str, Step] = {
    "connection cut": cut(),
    "half an answer": cut(
        b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 99\r\n\r\n{"
    ),
    "502 of a proxy": answer("<html>", 502, media_type="text/html"),
    "503": problem(503, "store-unavailable", "down"),
    "504 of a proxy": answer("", 504, media_type="text/html"),
}


@pytest.mark.parametrize("failure", TEMPORARY)
async def test_what_is_safe_to_repeat_is_repeated_and_nothing_else(
    script: HttpScript, memory: MemoryClient, failure: str
) -> None:
    for call, result in SAFE.values() if failure == "503" else [SAFE["status"]]:
        script.asked.clear()
        good = answer(b"", 204) if result is None else answer(answer_with(result))
        script.then(TEMPORARY[failure], good)
        assert await call(memory) == result
        first, second = script.asked
        assert (first.target, first.body) == (second.target, second.body)
        assert first.header("authorization") == f"Bearer {KEY}"
    for name, unsafe in UNSAFE.items():
        script.asked.clear()
        script.then(TEMPORARY[failure])
        with pytest.raises(errors.Unavailable):
            await unsafe(memory)
        assert len(script.asked) == 1, name


@pytest.mark.parametrize("name", CALLS)
async def test_refusal_for_too_many_requests_is_waited_out_whatever_it_was(
    script: HttpScript, memory: MemoryClient, name: str
) -> None:
    """The service has not begun with it, so it can count but once."""
    script.then(
        problem(429, "rate-limited", "slow down", headers={"Retry-After": "1"}, retry_after=0.4),
        answer(answer_with(CALLS[name][1])),
    )
    began = time.monotonic()
    await CALLS[name][0](memory)
    assert time.monotonic() - began >= 1


async def test_longer_patience_than_half_a_minute_is_the_caller_s_to_have(
    script: HttpScript, memory: MemoryClient
) -> None:
    script.then(
        problem(429, "rate-limited", "slow down", headers={"Retry-After": "3600"}, retry_after=3_599.5)
    )
    with pytest.raises(errors.RateLimited) as caught:
        await memory.status()
    assert caught.value.retry_after == 3_599.5
    assert len(script.asked) == 1


async def test_too_large_a_bulk_says_what_to_do_unsplit(script: HttpScript, memory: MemoryClient) -> None:
    script.then(problem(413, "request-too-large", "This service takes bodies of at most 1,000 bytes."))
    with pytest.raises(errors.RequestTooLarge, match=r"at most 1,000 bytes.*several calls of add_turns"):
        await memory.add_turns([{"role": "user", "content": "Hi"}])
    assert len(script.asked) == 1


@pytest.mark.parametrize("name", CALLS)
async def test_service_that_just_restarts_is_waited_for_whatever_is_asked(name: str) -> None:
    """What never reached it can be sent again without counting twice."""
    async with HttpScript() as before:
        port = before.port
    async with MemoryClient("ada", "t", base_url=f"http://127.0.0.1:{port}", api_key=KEY) as memory:
        asking = asyncio.create_task(CALLS[name][0](memory))
        await asyncio.sleep(0.05)
        async with HttpScript(at=port).then(answer(answer_with(CALLS[name][1]))) as script:
            assert await asking == CALLS[name][1]
            assert len(script.asked) == 1


# --- a service that is not there, or is something else -------------------------------------------------------
async def test_service_that_is_down_is_named_without_credentials() -> None:
    async with HttpScript() as gone:
        url = f"http://ada:secret@127.0.0.1:{gone.port}/x"
        plain = f"http://127.0.0.1:{gone.port}/x"
    async with MemoryClient("ada", "t", base_url=url) as memory:
        with pytest.raises(errors.ServiceUnavailable) as caught:
            await memory.feedback("a", useful=True)
    assert plain in str(caught.value)
    assert "secret" not in "".join(traceback.format_exception(caught.value))
    assert isinstance(caught.value.__cause__, httpx.ConnectError)


async def test_answer_that_trickles_in_does_not_hold_a_call_beyond_its_time(script: HttpScript) -> None:
    async def trickle(writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 999\r\n\r\n")
        while True:
            writer.write(b" ")
            await writer.drain()
            await asyncio.sleep(0.02)

    script.then(trickle)
    async with MemoryClient(
        "ada", "t", base_url=script.url, api_key=KEY, timeout=0.3, max_retries=0
    ) as memory:
        with pytest.raises(errors.ServiceUnavailable):
            await memory.status()


async def test_key_is_in_no_text_log_or_error(script: HttpScript, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    script.then(answer("<html>", 401, media_type="text/html"), cut())
    async with ServiceClient(script.url, api_key=KEY, max_retries=0) as service:
        memory = service.agent("ada", "t")
        shown = [repr(service), repr(memory), repr(service.connection)]
        for kind in (errors.AccessDenied, errors.ServiceUnavailable):
            with pytest.raises(kind) as caught:
                await memory.status()
            shown += [*traceback.format_exception(caught.value), repr(caught.value)]
    shown.append(caplog.text)
    assert all(KEY not in text for text in shown)


async def test_outside_async_with_nothing_can_be_asked(script: HttpScript) -> None:
    memory = MemoryClient("ada", "t", base_url=script.url, api_key=KEY)
    with pytest.raises(errors.NotOpen):
        await memory.status()
    async with memory:
        with pytest.raises(errors.NotOpen, match="open already"):
            await memory.__aenter__()
    with pytest.raises(errors.NotOpen):
        await memory.status()


async def test_client_that_was_handed_in_is_used_and_left_open(script: HttpScript) -> None:
    """Its own auth, redirects and timeouts do not change ours."""
    script.then(answer(of(answers.MemoryStatus, STATUS)), answer("", 302, headers={"Location": script.url}))
    async with httpx.AsyncClient(auth=("a", "b"), follow_redirects=True, headers={"X-App": "mine"}) as http:
        async with MemoryClient("ada", "t", base_url=script.url, api_key=KEY, http=http) as memory:
            await memory.status()
            with pytest.raises(errors.ServiceError, match="redirect"):
                await memory.status()
        assert not http.is_closed
    assert script.asked[0].header("authorization") == f"Bearer {KEY}"
    assert script.asked[0].header("x-app") == "mine"
    assert len(script.asked) == 2


async def test_cancelled_call_leaves_the_client_usable(script: HttpScript, memory: MemoryClient) -> None:
    script.then(silence(), answer(of(answers.MemoryStatus, STATUS)))
    call = asyncio.create_task(memory.status())
    while not script.asked:
        await asyncio.sleep(0.01)
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    assert await memory.status() == STATUS
