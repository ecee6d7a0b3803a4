"""WebSockets of events under fire: whatever bytes come in, the service lives, forgets the sender, and serves the others."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import struct
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from memory_agent.domain import Scope
from memory_agent.server.edge.connections import MAX_WEBSOCKET_BYTES
from tests.conformance.stores import a_draft, only_turns
from tests.integration.conversations import opened, settings_on
from tests.integration.streams import events_path, handshake, head_of, listening, raw
from tests.servers.service import Served, served

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from memory_agent import MemoryService

pytestmark = pytest.mark.timeout(120)

SCOPE = Scope.of("ada", "t", tenant="acme")
EXAMPLES = 150


# --- frames ------------------------------------------------------------------------------------------------------
def frame(
    opcode: int,
    data: bytes = b"",
    *,
    fin: bool = True,
    reserved: int = 0,
    masked: bool = True,
    length: int | None = None,
) -> bytes:
    """A frame by RFC 6455, section 5.2, or one that only looks like it: `length` is what it claims to hold."""
    claimed = len(data) if length is None else length
    bit = 0x80 if masked else 0
    if claimed < 126:
        size = bytes([bit | claimed])
    elif claimed < 65_536:
        size = bytes([bit | 126]) + struct.pack("!H", claimed)
    else:
        size = bytes([bit | 127]) + struct.pack("!Q", claimed)
    head = bytes([(0x80 if fin else 0) | (reserved & 7) << 4 | opcode]) + size
    if not masked:
        return head + data
    mask = os.urandom(4)
    return head + mask + bytes(byte ^ mask[index % 4] for index, byte in enumerate(data))


FRAMES = st.one_of(
    st.binary(min_size=1, max_size=200),
    st.builds(
        frame,
        st.integers(0, 15),
        st.binary(max_size=140),
        fin=st.booleans(),
        reserved=st.sampled_from([0, 0, 0, 1, 4, 7]),
        masked=st.sampled_from([True, True, True, False]),
    ),
    # Control frames hold at most 125 bytes, and are never in parts.
    st.builds(frame, st.sampled_from([8, 9, 10]), st.binary(min_size=126, max_size=300), fin=st.booleans()),
    # Closing, with codes of all kinds and texts that are none.
    st.builds(
        lambda code, text: frame(8, struct.pack("!H", code) + text),
        st.sampled_from([0, 999, 1000, 1004, 1005, 1006, 1015, 2999, 4000, 65_535]),
        st.binary(max_size=123),
    ),
    st.just(frame(8, b"\x03")),
    # Text that is no UTF-8, at once and in parts.
    st.sampled_from([frame(1, b"\xff\xfe"), frame(1, b"\xc3", fin=False) + frame(0, b"\x28")]),
    st.builds(
        lambda opcode, length: frame(opcode, b"x" * 50, length=length),
        st.integers(0, 2),
        st.sampled_from([65_536, 65_537, 2**31, 2**32, 2**62, 2**63 - 1, 2**64 - 1]),
    ),
    st.builds(
        lambda count: frame(1, b"x", fin=False) + frame(0, b"", fin=False) * count, st.integers(1, 500)
    ),
    st.builds(lambda count: frame(9, b"ping") * count, st.integers(1, 200)),
)
ENDS = st.sampled_from(["stays", "stays", "eof", "aborts"])
VALUES = st.text(
    st.characters(min_codepoint=0x20, max_codepoint=0xFF, exclude_characters="\x7f"), max_size=60
)
HEADERS = st.fixed_dictionaries(
    {},
    optional={
        "Sec-WebSocket-Key": VALUES
        | st.sampled_from(["", "AAAA", "=" * 24, "A" * 24, "A" * 5_000, "dGhlIHNhbXBsZSBub25jZQ==, x"]),
        "Sec-WebSocket-Version": VALUES | st.sampled_from(["", "8", "13, 8", "999999999999"]),
        "Sec-WebSocket-Protocol": VALUES
        | st.integers(0, 900).map(lambda count: ", ".join(f"p{number}" for number in range(count)))
        | st.sampled_from(["", ",", "a,,b", "memory-agent.events", "bearer.", "a b", '"']),
        "Sec-WebSocket-Extensions": VALUES
        | st.sampled_from(
            ["permessage-deflate; server_max_window_bits=99", "x;;", "permessage-deflate, " * 90]
        ),
        "Upgrade": st.sampled_from(["websocket", "WebSocket, h2c", "h2c", "", "websocket, websocket"]),
        "Connection": st.sampled_from(["Upgrade", "keep-alive, Upgrade", "close", "upgrade, close", ""]),
        "Origin": VALUES,
        "Content-Length": st.sampled_from(["0", "5", "-1", "99999999999"]),
        "Transfer-Encoding": st.sampled_from(["chunked", "identity"]),
    },
)


# --- a service for all examples ----------------------------------------------------------------------------------
class _Errors(logging.Handler):
    """Errors that are logged by us, or by the event loop about tasks of ours.

    uvicorn complains of text that is no UTF-8; the connection ends all the same.
    """

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.told: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        if record.name != "uvicorn.error":
            self.told.append(f"{record.name}: {record.getMessage()}")


class Fire:
    """A served service in a loop of its own, and a reader beside the attacker."""

    def __init__(self, runner: asyncio.Runner, there: Served, service: MemoryService, token: str) -> None:
        self.runner = runner
        self.there = there
        self.service = service
        self.headers = {"Authorization": f"Bearer {token}"}
        self.errors = _Errors()

    @property
    def readers(self) -> int:
        readers: int = self.there.app.state.api.hub.readers
        return readers

    async def with_witness(self, attack: bytes, end: str, *, opening: bytes | None = None) -> None:
        """Attack while another reads; it is told of what is stored meanwhile, and the attacker leaves nothing."""
        async with listening("websocket", self.there.address, self.headers) as witness:
            async with raw(self.there.address) as (reader, writer):
                writer.write(opening or handshake(events_path(), self.headers))
                if opening is None:
                    assert b" 101 " in await head_of(reader)
                writer.write(attack)
                if end == "eof":
                    writer.write_eof()
                elif end == "aborts":
                    writer.transport.abort()
                store = self.service.core.store
                [turn] = only_turns(await store.append_turns(SCOPE, [a_draft("words")]))
                await witness.until(turn.id)
                with contextlib.suppress(TimeoutError, ConnectionError):
                    async with asyncio.timeout(0.01):
                        await reader.read()
            await self.only(1)
        await self.only(0)
        assert self.errors.told == []

    async def only(self, count: int) -> None:
        async with asyncio.timeout(10):
            while self.readers != count:
                await asyncio.sleep(0.001)


@pytest.fixture(scope="module")
def fire(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fire]:
    folder: Path = tmp_path_factory.mktemp("frames")
    quiet = {**settings_on("sqlite", request, folder), "run_worker": False, "server_requests_per_minute": 0}
    with asyncio.Runner() as runner:
        stack = contextlib.AsyncExitStack()

        async def start() -> Fire:
            service = await stack.enter_async_context(opened(quiet))
            there = await stack.enter_async_context(served(service))
            return Fire(runner, there, service, await there.key("acme"))

        one = runner.run(start())
        logging.getLogger().addHandler(one.errors)
        yield one
        logging.getLogger().removeHandler(one.errors)
        runner.run(stack.aclose())


quick = settings(
    max_examples=EXAMPLES, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


@given(frames=st.lists(FRAMES, min_size=1, max_size=6), end=ENDS)
@quick
def test_no_frames_harm_the_service_or_other_readers(fire: Fire, frames: list[bytes], end: str) -> None:
    """Random bytes, reserved opcodes, unmasked and huge frames, floods of fragments and pings, half-closed lines."""
    fire.runner.run(fire.with_witness(b"".join(frames), end))


@given(headers=HEADERS, end=ENDS, frames=st.lists(FRAMES, max_size=2))
@quick
def test_no_handshake_harms_the_service_or_other_readers(
    fire: Fire, headers: dict[str, str], end: str, frames: list[bytes]
) -> None:
    """Keys, versions, protocols and extensions that are garbage, too many or too long."""
    opening = handshake(events_path(), {**fire.headers, **headers})
    fire.runner.run(fire.with_witness(b"".join(frames), end, opening=opening))


async def is_cut_off(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, flood: bytes) -> bool:
    """Whether the connection ends while ten times what is allowed is written."""
    for _ in range(100):
        try:
            writer.write(flood * (MAX_WEBSOCKET_BYTES // len(flood) // 10))
            await writer.drain()
            async with asyncio.timeout(0.01):
                if not await reader.read(65_536):
                    return True
        except TimeoutError:
            pass  # nothing came back, and the line still stands
        except ConnectionError:
            return True
    return False


@pytest.mark.parametrize(
    "flood", [frame(0, b"", fin=False), frame(9), frame(10)], ids=["parts", "pings", "pongs"]
)
def test_whoever_floods_a_websocket_is_cut_off(fire: Fire, flood: bytes) -> None:
    """Parts of a message without an end, and pings or pongs without one: either would fill the memory."""

    async def attack() -> None:
        async with raw(fire.there.address) as (reader, writer):
            writer.write(handshake(events_path(), fire.headers))
            assert b" 101 " in await head_of(reader)
            writer.write(frame(1, b"x", fin=False) if flood[0] == 0 else b"")
            assert await is_cut_off(reader, writer, flood)
        await fire.only(0)

    fire.runner.run(attack())
    assert fire.errors.told == []


def test_a_handshake_that_is_none_is_refused_without_a_trace_in_the_log(
    fire: Fire, caplog: pytest.LogCaptureFixture
) -> None:
    """400 for what is no WebSocket's handshake; nobody reads then."""

    async def statuses() -> list[bytes]:
        found = []
        for wrong in ({"Sec-WebSocket-Key": "garbage"}, {"Sec-WebSocket-Version": "8"}):
            async with raw(fire.there.address) as (reader, writer):
                writer.write(handshake(events_path(), {**fire.headers, **wrong}))
                found.append((await head_of(reader)).split()[1])
        return found

    assert fire.runner.run(statuses()) == [b"400", b"400"]
    assert fire.readers == 0
    assert not [record for record in caplog.records if record.levelno >= logging.ERROR]
