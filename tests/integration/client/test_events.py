"""Events over connections that come and go."""

from __future__ import annotations

import asyncio
import contextlib
import json

import pytest

from memory_agent import MemoryClient, errors
from memory_agent.domain import MemoryEvent
from memory_agent.wire import answers
from tests.integration.client.http_script import HttpScript, Step, answer, cut, problem, stream
from tests.integration.client.samples import STATUS, of, some

EVENT = some(MemoryEvent, lambda event: event.kind == "turn_stored")


def event(id_: str) -> bytes:
    data = json.dumps(of(answers.MemoryEvent, EVENT) | {"id": id_})
    return f"id: {id_}\nevent: turn_stored\ndata: {data}\n\n".encode()


def dropped(reason: str, *, resume: bool) -> bytes:
    return f"event: dropped\ndata: {json.dumps({'reason': reason, 'resume': resume})}\n\n".encode()


async def ids(memory: MemoryClient, count: int, after: str | None = None) -> list[str]:
    async with contextlib.aclosing(memory.events(after)) as events:
        return [(await anext(events)).id for _ in range(count)]


async def hold(writer: asyncio.StreamWriter) -> None:
    await asyncio.sleep(3_600)


async def lose(writer: asyncio.StreamWriter) -> None:
    writer.transport.abort()


TROUBLE = (
    cut(),
    problem(503, "unavailable", "too many readers"),
    answer("<html>", 502, media_type="text/html"),
)


@pytest.mark.parametrize(
    ("end", "then"),
    [(lose, TROUBLE), (dropped("too slow", resume=True), ()), (b"", ())],
    ids=["connection lost", "dropped", "ended"],
)
async def test_lost_stream_goes_on_from_the_last_event(
    script: HttpScript, memory: MemoryClient, end: bytes | Step, then: tuple[Step, ...]
) -> None:
    script.then(stream(event("1"), event("2"), *([end] if end else [])), *then, stream(event("3"), hold))
    assert await ids(memory, 3) == ["1", "2", "3"]
    assert [asked.header("last-event-id") for asked in script.asked] == [None, *["2"] * (len(then) + 1)]


async def test_chunks_may_split_events_anywhere_and_lines_may_end_in_any_way(
    script: HttpScript, memory: MemoryClient
) -> None:
    raw = event("1") + event("2").replace(b"\n", b"\r\n") + event("3").replace(b"\n", b"\r") + event("4")
    script.then(stream(*[raw[i : i + 1] for i in range(len(raw))], hold))
    assert await ids(memory, 4) == ["1", "2", "3", "4"]


async def test_stream_that_cannot_be_healed_is_lost(script: HttpScript, memory: MemoryClient) -> None:
    script.then(stream(event("1"), dropped("events were missed", resume=False)))
    with pytest.raises(errors.EventsLost, match="events were missed"):
        await ids(memory, 2)


async def test_without_any_event_to_go_on_from_a_lost_connection_is_told(
    script: HttpScript, memory: MemoryClient
) -> None:
    """Going on "from now on" would pass over in silence what happened in between."""
    script.then(stream(b": events follow\n\n", lose))
    with pytest.raises(errors.EventsLost, match="before the first event"):
        await ids(memory, 1)
    script.then(stream(b": events follow\n\n", dropped("closing", resume=True)))
    with pytest.raises(errors.EventsLost, match="closing"):
        await ids(memory, 1)


@pytest.mark.parametrize(
    ("told", "kind"),
    [
        (problem(410, "events-lost", "not kept"), errors.EventsLost),
        (problem(501, "events-unsupported", "no replica set"), errors.EventsUnsupported),
        (problem(401, "access-denied", "revoked"), errors.AccessDenied),
        (answer("<html>", media_type="text/html"), errors.ServiceError),
        (stream(b"event: turn_stored\nid: 4\ndata: {}\n\n"), errors.ServiceError),
    ],
)
async def test_refused_stream_raises_what_the_service_says(
    script: HttpScript, memory: MemoryClient, told: Step, kind: type[errors.MemoryAgentError]
) -> None:
    script.then(told)
    with pytest.raises(kind):
        await ids(memory, 1, after="3")
    assert script.asked[0].header("last-event-id") == "3"


@pytest.mark.parametrize("after", ["", "ü", "a b", "1\n2", "x" * 1_025])
async def test_what_cannot_be_an_event_s_id_is_lost(memory: MemoryClient, after: str) -> None:
    with pytest.raises(errors.EventsLost, match="no event's id"):
        await ids(memory, 1, after=after)


async def test_reader_that_leaves_closes_its_connection(script: HttpScript, memory: MemoryClient) -> None:
    closed = asyncio.Event()

    async def until_closed(writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError):
            while True:
                writer.write(b"2\r\n:\n\r\n")
                await writer.drain()
                await asyncio.sleep(0.01)
        closed.set()

    script.then(stream(event("1"), until_closed))
    assert await ids(memory, 1) == ["1"]
    async with asyncio.timeout(60):
        await closed.wait()


async def test_streams_do_not_take_the_place_of_calls(script: HttpScript, memory: MemoryClient) -> None:
    script.then(*[stream(event("1"), hold)] * 120, answer(of(answers.MemoryStatus, STATUS)))
    async with contextlib.AsyncExitStack() as stack:
        for _ in range(120):
            events = await stack.enter_async_context(contextlib.aclosing(memory.events()))
            await anext(events)
        assert await memory.status() == STATUS
