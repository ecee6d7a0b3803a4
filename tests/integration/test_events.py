"""Streams of events over real sockets, on SQLite and MongoDB."""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest
import websockets

from memory_agent import MemoryService
from memory_agent.adapters import open_keys
from memory_agent.clock import SystemClock
from memory_agent.domain import EVENT_KINDS, Scope
from memory_agent.keys import read_token
from memory_agent.server import routes_events
from tests.conformance.test_document_store_events import LIFE, a_life
from tests.conformance.values import a_draft, only_turns
from tests.integration.conversations import STORES, opened, settings_on
from tests.integration.streams import KINDS, Refused, events_path, listening
from tests.servers.mongod import Mongod
from tests.servers.service import Served, served

pytestmark = pytest.mark.timeout(120)

_BY_DAY = {("sqlite", "websocket"), ("mongodb", "sse")}
on_each_store = pytest.mark.parametrize(
    ("service", "kind"),
    [
        pytest.param(store, kind, marks=[] if (store, kind) in _BY_DAY else pytest.mark.nightly)
        for store in STORES
        for kind in KINDS
    ],
    indirect=["service"],
)
"""With each kind of stream; in every combination at night."""
of_each_kind = pytest.mark.parametrize(
    ("service", "kind"), [("sqlite", kind) for kind in KINDS], indirect=["service"]
)
on_sqlite = pytest.mark.parametrize("service", ["sqlite"], indirect=True)
PAGE = Path(__file__).parents[2] / "docs" / "service.md"
ACME = Scope.of("ada", "t", tenant="acme")


@pytest.fixture
async def service(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[MemoryService]:
    """An open service without a worker, whose store tells what the test does to it and nothing else."""
    settings = {**settings_on(request.param, request, tmp_path), "run_worker": False}
    async with opened(settings, server_key_cache_seconds=0) as one:
        yield one


async def store_turn(service: MemoryService, scope: Scope = ACME) -> str:
    """The id of a new turn."""
    return only_turns(await service.core.store.append_turns(scope, [a_draft("words")]))[0].id


async def nobody_reads(there: Served) -> None:
    """Wait until the service has no reader left."""
    async with asyncio.timeout(60):
        while there.app.state.api.hub.readers:
            await asyncio.sleep(0.01)


# --- what is told ------------------------------------------------------------------------------------------------
@on_each_store
async def test_every_kind_of_event_arrives(service: MemoryService, kind: str) -> None:
    """With the ids that the tenant knows, in order, and with nothing of what was said."""
    async with served(service) as there:
        headers = await there.headers("acme")
        async with listening(there.address, headers, kind=kind) as stream:
            turns = await a_life(service.core.store, ACME)
            told = await stream.take(len(LIFE))
        await nobody_reads(there)
    assert [event["kind"] for event in told] == LIFE
    assert {event["kind"] for event in told} == set(EVENT_KINDS)
    assert {(event["user_id"], event["thread_id"]) for event in told} == {("ada", "t")}
    assert [event["turn_id"] for event in told[:3]] == [turns[0].id, turns[1].id, turns[0].id]
    assert told[3]["topic_id"] == "the topic"
    assert told[4]["change_id"] == "the change"
    assert "harbour" not in json.dumps(told)


@on_each_store
async def test_nothing_of_others_ever_arrives(service: MemoryService, kind: str) -> None:
    """Neither of another tenant's user of the same name, nor of another user or thread of the same tenant."""
    others = [
        Scope.of("ada", "t"),
        Scope.of("ada", "t", tenant="other"),
        Scope.of("bob", "t", tenant="acme"),
        Scope.of("ada", "t2", tenant="acme"),
    ]
    async with served(service) as there:
        headers = await there.headers("acme")
        async with listening(there.address, headers, kind=kind) as stream:
            began = await store_turn(service)
            for scope in others:
                await a_life(service.core.store, scope)
            last = await store_turn(service)
            first = await stream.next()
            assert first["turn_id"] == began
            assert [event["turn_id"] for event in await stream.until(last)] == [last]
        # Their ids are as good as places as one's own: the order is the database's.
        stranger = await there.headers("other")
        path = events_path(after=first["id"])
        async with listening(there.address, stranger, path, kind=kind) as stream:
            assert [event["kind"] for event in await stream.take(len(LIFE))] == LIFE


# --- who is refused ----------------------------------------------------------------------------------------------
@on_each_store
async def test_an_id_that_is_none_is_gone(service: MemoryService, kind: str) -> None:
    """410, told by the status before any event; and no reader is left behind."""
    async with served(service) as there:
        headers = await there.headers("acme")
        for after in ("", "x", "0", "99999999", "ZZ", "00", "82", "\x00", "é", "1" * 5_000):
            with pytest.raises(Refused) as refused:
                async with listening(there.address, headers, events_path(after=after), kind=kind):
                    pass
            assert refused.value.status == 410
            assert "read the state anew" in refused.value.problem["detail"]
        await nobody_reads(there)


@of_each_kind
async def test_keys_are_asked_for_in_the_handshake(
    service: MemoryService, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """401 without one or with an unknown one, 403 for another user's, 422 for an id that can't be one."""
    monkeypatch.setattr(routes_events, "KEY_SECONDS", 0.5)
    async with served(service) as there:
        unknown = {"Authorization": "Bearer " + (await there.key("acme"))[:-3] + "aaa"}
        bobs = await there.headers("acme", user_id="bob", read_only=True)
        for headers, path, status in [
            ({}, events_path(), 401),
            (unknown, events_path(), 401),
            (bobs, events_path(), 403),
            (bobs, events_path("bob", "t" * 600), 422),
        ]:
            with pytest.raises(Refused) as refused:
                async with listening(there.address, headers, path, kind=kind):
                    pass
            assert refused.value.status == status
        async with listening(there.address, bobs, events_path("bob"), kind=kind) as stream:
            turn = await store_turn(service, Scope.of("bob", "t", tenant="acme"))
            assert len(await stream.until(turn)) == 1
        await nobody_reads(there)


async def test_a_store_without_events_says_so(tmp_path: Path, mongod_standalone: Any, db_name: str) -> None:
    """501, with what to do about it, for a MongoDB that is no replica set."""
    settings = {"mongo_uri": mongod_standalone.uri, "db_name": db_name, "run_worker": False}
    async with opened({**settings, "data_dir": tmp_path}) as service, served(service) as there:
        headers = await there.headers("acme")
        with pytest.raises(Refused) as refused:
            async with listening(there.address, headers):
                pass
        assert refused.value.status == 501
        assert "replica set" in refused.value.problem["detail"]
        await nobody_reads(there)


@of_each_kind
async def test_there_are_so_many_readers_and_no_key_can_take_all_places(
    service: MemoryService, kind: str
) -> None:
    """503 with when to come back; of one key half at most, then 429, while its other requests are answered."""
    async with served(service, server_event_streams=4, server_concurrent_requests=1) as there:
        greedy, modest, late = [await there.headers("acme") for _ in range(3)]
        async with contextlib.AsyncExitStack() as stack:
            for headers, whose, status in ((greedy, greedy, 429), (modest, late, 503)):
                for _ in range(2):
                    await stack.enter_async_context(listening(there.address, headers, kind=kind))
                with pytest.raises(Refused) as refused:
                    async with listening(there.address, whose, kind=kind):
                        pass
                assert refused.value.status == status
                assert kind != "sse" or int(refused.value.headers["Retry-After"]) >= 1
            async with httpx.AsyncClient(base_url=there.address, headers=greedy, trust_env=False) as http:
                assert (await http.get("/api/threads/ada/t/turns")).status_code == 200
        await nobody_reads(there)
        async with listening(there.address, late, kind=kind):
            pass


# --- how streams end ---------------------------------------------------------------------------------------------


@on_sqlite
async def test_heartbeats_tell_that_the_stream_is_alive(
    service: MemoryService, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A comment after each while without an event."""
    monkeypatch.setattr(routes_events, "HEARTBEAT_SECONDS", 0.05)
    async with served(service) as there:
        headers = await there.headers("acme")
        began = time.monotonic()
        async with listening(there.address, headers) as stream:
            while stream.heartbeats < 3:
                await stream.until(await store_turn(service))
                await asyncio.sleep(0.05)
            # However long a busy machine took for that.
            assert stream.heartbeats <= (time.monotonic() - began) / 0.05


@of_each_kind
async def test_a_revoked_key_ends_its_stream(
    service: MemoryService, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without another event, and not to be resumed; streams of other keys go on."""
    monkeypatch.setattr(routes_events, "HEARTBEAT_SECONDS", 0.1)
    async with served(service) as there, contextlib.AsyncExitStack() as stack:
        token = await there.key("acme")
        headers = {"Authorization": f"Bearer {token}"}
        other = await stack.enter_async_context(
            listening(there.address, await there.headers("acme"), kind=kind)
        )
        stream = await stack.enter_async_context(listening(there.address, headers, kind=kind))
        await stream.until(await store_turn(service))
        parsed = read_token(token)
        assert parsed is not None
        keys = await open_keys(there.cfg, None, stack)
        assert await keys.revoke(parsed[0], SystemClock().now())
        end = await stream.ends()
        assert not end.resume
        assert "revoked" in end.reason
        await other.until(await store_turn(service))


@on_each_store
async def test_a_stop_of_the_service_ends_streams_promptly(service: MemoryService, kind: str) -> None:
    """With a reason and the advice to resume; who comes back to the next process gets exactly the rest."""
    async with contextlib.AsyncExitStack() as stack:
        async with contextlib.AsyncExitStack() as running:
            there = await running.enter_async_context(served(service, server_shutdown_seconds=60))
            headers = await there.headers("acme")
            path = events_path()
            streams = [
                await stack.enter_async_context(listening(there.address, headers, path, kind=kind))
                for _ in range(3)
            ]
            turn = await store_turn(service)
            [last] = [(await stream.until(turn))[-1]["id"] for stream in streams][:1]
            resumed = await stack.enter_async_context(
                listening(there.address, headers, events_path(after=last), kind=kind)
            )
            ending = asyncio.create_task(running.aclose())
            ends = await asyncio.gather(*(stream.ends() for stream in [*streams, resumed]))
            await ending
        assert all(end.resume for end in ends)
        assert all("closing" in end.reason for end in ends)
    missed = [await store_turn(service) for _ in range(3)]
    async with (
        served(service) as there,
        listening(there.address, headers, events_path(after=last), kind=kind) as stream,
    ):
        assert [event["turn_id"] for event in await stream.take(3)] == missed


async def test_an_outage_of_the_store_is_waited_out(
    tmp_path: Path, db_name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Streams stay open while MongoDB is killed and started again, and then tell what they would have told."""
    monkeypatch.setattr(routes_events, "HEARTBEAT_SECONDS", 0.2)
    with Mongod(quick=True) as server:
        settings = {"mongo_uri": server.uri, "db_name": db_name, "data_dir": tmp_path, "run_worker": False}
        patient = {**settings, "store_timeout_seconds": 2, "server_key_cache_seconds": 0}
        async with opened(patient) as service, served(service) as there:
            headers = await there.headers("acme")
            async with contextlib.AsyncExitStack() as stack:
                streams = [
                    await stack.enter_async_context(listening(there.address, headers)) for _ in range(2)
                ]
                turn = await store_turn(service)
                lasts = [(await stream.until(turn))[-1]["id"] for stream in streams]
                path = events_path(after=lasts[0])
                await asyncio.to_thread(server.kill9)
                with pytest.raises(Refused) as refused:
                    async with listening(there.address, headers, path):
                        pass
                assert refused.value.status == 503
                await asyncio.to_thread(server.restart)
                turn = await store_turn(service)
                for stream in streams:
                    assert [event["turn_id"] for event in await stream.until(turn)] == [turn]
            async with listening(there.address, headers, path) as stream:
                assert [event["turn_id"] for event in await stream.until(turn)] == [turn]
            await nobody_reads(there)


# --- what only a WebSocket does ------------------------------------------------------------------------------
def socket_of(there: Served, path: str = "/api/threads/ada/t/events/ws", **options: Any) -> Any:
    return websockets.connect(f"ws{there.address.removeprefix('http')}{path}", proxy=None, **options)


async def end_of(socket: Any) -> tuple[int, str]:
    """The code and reason with which the service closes."""
    with contextlib.suppress(websockets.ConnectionClosed):
        while True:
            await socket.recv()
    assert socket.close_code is not None
    return socket.close_code, socket.close_reason or ""


@on_sqlite
async def test_a_socket_has_a_key_to_say_and_nothing_else(
    service: MemoryService, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In time, and not at every address; whatever follows ends it."""
    monkeypatch.setattr(routes_events, "KEY_SECONDS", 0.2)
    async with served(service) as there:
        headers = await there.headers("acme")
        async with socket_of(there, additional_headers=headers) as socket:
            assert json.loads(await socket.recv()) == {"kind": "ready"}
            await socket.send("hello")
            assert (await end_of(socket))[0] == 1003
        async with socket_of(there) as socket:
            code, reason = await end_of(socket)
            assert (code, "send it as the first message" in reason) == (4401, True)
        async with socket_of(there) as socket:
            await socket.send(b"\x00")
            assert (await end_of(socket))[0] == 4401
        async with socket_of(there) as socket:
            await socket.send("x" * 5_000)
            assert (await end_of(socket))[0] == 1009
        monkeypatch.setattr(routes_events, "MOST_WITHOUT_KEY", 0)
        async with socket_of(there) as socket:
            assert (await end_of(socket))[0] == 4503
        for path in ("/api/threads/ada/t/events", "/api/threads/ada/events/ws", "/mcp", "/inspect/"):
            with pytest.raises(websockets.InvalidStatus):
                await socket_of(there, path, additional_headers=headers)
        await nobody_reads(there)


@on_sqlite
async def test_a_service_without_keys_takes_sockets_of_its_own_pages_alone(service: MemoryService) -> None:
    """A browser sends a socket's origin and asks nobody for leave."""
    async with served(service, insecure_no_auth=True) as there:
        async with socket_of(there, origin="https://elsewhere.example") as socket:
            assert (await end_of(socket))[0] == 4403
        async with socket_of(there, origin=there.address) as socket:
            assert json.loads(await socket.recv()) == {"kind": "ready"}
            turn = await store_turn(service, Scope.of("ada", "t"))
            assert json.loads(await socket.recv())["turn_id"] == turn


@on_sqlite
async def test_the_page_of_the_manual_shows_events(service: MemoryService) -> None:
    """Its script's steps, by a client of another make."""
    [script] = re.findall(r"<script>\n(.*?)</script>", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    [address] = re.findall(r'new WebSocket\("ws://127.0.0.1:8080(.*)"\)', script)
    assert "socket.onopen = () => socket.send(" in script
    async with served(service) as there, socket_of(there, address) as socket:
        await socket.send(await there.key("acme"))
        assert json.loads(await socket.recv())["kind"] == "ready"
        turn = await store_turn(service, Scope.of("ada", "holidays", tenant="acme"))
        event = json.loads(await socket.recv())
        assert (event["kind"], event["turn_id"]) == ("turn_stored", turn)
    assert re.findall(r"event\.(\w+)", script) == ["kind", "turn_id"]


@on_sqlite
async def test_a_socket_that_goes_leaves_no_reader(service: MemoryService) -> None:
    async with served(service) as there:
        async with socket_of(there, additional_headers=await there.headers("acme")) as socket:
            await socket.recv()
            assert there.app.state.api.hub.readers == 1
        await nobody_reads(there)


@pytest.mark.nightly
@on_sqlite
async def test_a_socket_that_takes_nothing_is_dropped_while_others_go_on(
    service: MemoryService, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(routes_events, "SEND_SECONDS", 0.5)
    async with served(service) as there:
        headers = await there.headers("acme")
        async with (
            listening(there.address, headers) as other,
            socket_of(there, additional_headers=headers, max_queue=1) as deaf,
        ):
            await deaf.recv()
            deaf.transport.pause_reading()
            while there.app.state.api.hub.readers == 2:
                for _ in range(200):
                    turn = await store_turn(service)
                await other.until(turn)
            deaf.transport.abort()
        await nobody_reads(there)
