"""Who holds a folder, and who answers at the address beside its lock: a stranger there learns nothing and stops nobody."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import httpx
import pytest

from memory_agent import DataDirInUse, MemoryConfig, MemoryService
from memory_agent.cli.opening import FolderMemory, open_or_ask
from memory_agent.data_dir import DataDirLock, LocalService, is_held, say_leaving, unchanged_for
from memory_agent.domain import ALL_TENANTS
from memory_agent.keys import new_key
from memory_agent.server.run import sharing
from tests.servers.service import SECONDS, Served, ServiceProcess

pytestmark = pytest.mark.timeout(300)

LONG_AGO: Final = "2020-01-01T00:00:00+00:00"


class Stranger:
    """Somebody else's server: keeps what it is told, and answers each request with the same."""

    def __init__(self, body: bytes) -> None:
        """`body`: JSON; empty: it hangs up instead."""
        self.body = body
        self.told = b""

    @contextlib.asynccontextmanager
    async def at(self, port: int = 0) -> AsyncIterator[str]:
        server = await asyncio.start_server(self._meet, "127.0.0.1", port)
        async with server:
            yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"

    async def _meet(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError, asyncio.IncompleteReadError):
            self.told += await reader.readuntil(b"\r\n\r\n")
            if self.body:
                head = (
                    f"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {len(self.body)}"
                )
                writer.write(f"{head}\r\nConnection: close\r\n\r\n".encode() + self.body)
                await writer.drain()
        writer.close()


def age(folder: Path) -> None:
    """Let the folder's holder have it since long ago."""
    file = folder / ".lock-holder.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), "since": LONG_AGO}))


@pytest.fixture
def cfg(tmp_path: Path) -> MemoryConfig:
    return MemoryConfig(data_dir=tmp_path / "memory")


async def test_the_key_goes_to_nobody_who_does_not_know_it(cfg: MemoryConfig) -> None:
    """A folder that two machines mount: the address that was left by the one is somebody else's on the other."""
    lock = DataDirLock(cfg.data_dir)
    lock.acquire()
    age(cfg.data_dir)
    _, token = new_key(ALL_TENANTS, now=datetime.now(UTC))
    for body in (b'{"status": "ready"}', b'{"proof": "00"}', b'{"proof": ""}', b"[]", b""):
        stranger = Stranger(body)
        async with stranger.at() as url, AsyncExitStack() as stack:
            LocalService(url=url, api_key=token, db_name=cfg.db_name).leave_in(cfg.data_dir)
            with pytest.raises(DataDirInUse):
                await open_or_ask(cfg, stack)
        assert stranger.told.startswith(b"GET /holder?nonce=")
        assert token.encode() not in stranger.told
        assert b"authorization" not in stranger.told.lower()
    lock.release()


async def test_a_holder_that_is_about_to_end_is_waited_for(cfg: MemoryConfig) -> None:
    """A chat client that is started again starts its new process while the old one still finishes."""
    lock = DataDirLock(cfg.data_dir)
    lock.acquire()
    age(cfg.data_dir)
    assert unchanged_for(cfg.data_dir, datetime.now(UTC)) > 1_000_000
    say_leaving(cfg.data_dir)
    assert unchanged_for(cfg.data_dir, datetime.now(UTC)) < SECONDS
    assert is_held(cfg.data_dir)
    async with AsyncExitStack() as stack:
        opening = asyncio.create_task(open_or_ask(cfg, stack))
        await asyncio.sleep(0.5)
        assert not opening.done()
        lock.release()
        assert isinstance(await opening, MemoryService)
        assert is_held(cfg.data_dir)
    assert not is_held(cfg.data_dir)


async def test_who_follows_takes_over_though_others_took_the_port(cfg: MemoryConfig, tmp_path: Path) -> None:
    """By the lock it sees that the holder was killed; what it asks for meanwhile waits."""
    holder = ServiceProcess(tmp_path / "logs", settings={"data_dir": cfg.data_dir})
    await asyncio.to_thread(holder.start)
    try:
        async with FolderMemory(cfg) as memory:
            agent = memory.agent("ada", "main", tenant="default")
            assert await agent.add_turns([{"role": "user", "content": "The tuner comes on Monday."}])
            await asyncio.to_thread(holder.kill)
            async with Stranger(b"").at(int(holder.address.rpartition(":")[2])):
                assert await agent.add_turns([{"role": "user", "content": "It barks."}])
                assert isinstance(memory._service, MemoryService)
                threads = (await agent.threads()).threads
                assert [(thread.thread_id, thread.turns) for thread in threads] == [("main", 2)]
    finally:
        await asyncio.to_thread(holder.kill)


async def test_what_a_holder_serves_beside_its_work_is_for_no_web_page_and_no_key_but_its_own(
    cfg: MemoryConfig,
) -> None:
    """Neither by a name that was made to point here, nor from an origin that the settings let ask a service, nor by a stored key."""
    changed = cfg.model_copy(update={"server_cors_origins": ("https://app.example",)})
    async with MemoryService(changed) as service, sharing(service):
        while (left := LocalService.left_in(cfg.data_dir)) is None:
            await asyncio.sleep(0.05)
        key = {"Authorization": f"Bearer {left.api_key}"}
        async with httpx.AsyncClient(base_url=left.url, trust_env=False) as http:
            assert (await http.get("/metrics", headers={"Host": "evil.example"})).status_code == 421
            for path in ("/readyz", "/api/worker"):
                page = {**key, "Origin": "https://app.example"}
                assert (await http.get(path, headers=page)).status_code == 403
            stored = await Served(left.url, None, cfg).headers(ALL_TENANTS)  # type: ignore[arg-type]
            for headers in ({}, stored):
                assert (await http.get("/api/worker", headers=headers)).status_code == 401
            assert (await http.get("/api/worker", headers=key)).status_code == 200
            assert (await http.get("/holder")).status_code == 422
