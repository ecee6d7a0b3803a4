"""Agents made alone share a service per store; other processes ask the one that holds the folder."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest

from memory_agent import ConfigError, MemoryAgent, MemoryConfig, MemoryService, NotOpen
from memory_agent.testing import HashEmbedder
from tests.servers.forks import forks


@pytest.fixture
def cfg(tmp_path: Path) -> MemoryConfig:
    return MemoryConfig(data_dir=tmp_path / "data", enable_fact_extraction=False, run_worker=False)


async def said(memory: MemoryAgent) -> list[str]:
    return [turn.content for turn in await memory.fetch_short_term()]


async def test_agents_alone_share_a_service_from_the_first_call_to_the_last_close(cfg: MemoryConfig) -> None:
    """Whoever comes first opens it, also of several at once; each closes for itself alone."""
    agents = [MemoryAgent("ann", f"chat {n}", cfg.changed()) for n in range(4)]
    await asyncio.gather(*(agent.update_memory(f"I am in chat {n}.", None) for n, agent in enumerate(agents)))
    assert len({id(agent._service) for agent in agents}) == 1
    for agent in agents[1:]:
        await agent.close()
        with pytest.raises(NotOpen, match="this MemoryAgent was closed"):
            await said(agent)
    assert await said(agents[0]) == ["I am in chat 0."]
    await agents[0].close()
    async with MemoryService(cfg) as service, MemoryAgent("ann", "chat 1", cfg) as alone:
        assert alone._service is service
        assert await said(alone) == ["I am in chat 1."]
    async with agents[2] as again:
        assert await said(again) == ["I am in chat 2."]


async def test_a_service_that_was_opened_by_hand_is_not_closed_by_an_agent(cfg: MemoryConfig) -> None:
    async with MemoryService(cfg) as service:
        alone = MemoryAgent("ann", "chat", cfg)
        await alone.update_memory("Hello.", None)
        await alone.close()
        assert await said(service.agent("ann", "chat")) == ["Hello."]


async def test_other_settings_of_the_same_store_are_refused_by_name(cfg: MemoryConfig) -> None:
    here = Path.cwd()
    async with MemoryAgent("ann", "chat", cfg):
        other = MemoryAgent("ann", "chat", cfg.changed(top_k_memories=9, short_term_window=3))
        with pytest.raises(
            ConfigError, match="other settings: short_term_window, top_k_memories; use the same"
        ):
            await other.status()
        # The same folder by another name.
        async with MemoryAgent(
            "ann", "b", cfg.changed(data_dir=Path(os.path.relpath(cfg.data_dir, here)))
        ) as same:
            await same.status()


def test_each_event_loop_opens_it_anew(cfg: MemoryConfig, caplog: pytest.LogCaptureFixture) -> None:
    """One after the other; at the same time it is told that the memory is on another one."""
    memory = MemoryAgent("ann", "chat", cfg)
    for n in range(3):
        asyncio.run(memory.update_memory(f"Call {n}.", None))
    assert asyncio.run(said(memory)) == ["Call 0.", "Call 1.", "Call 2."]
    assert caplog.text.count("was left open") == 4

    async def beside() -> None:
        async with memory:
            with pytest.raises(NotOpen, match="on another event loop"):
                await asyncio.to_thread(asyncio.run, MemoryAgent("ann", "chat", cfg).status())

    asyncio.run(beside())


CLEANUP = """
import asyncio, sys
from memory_agent import MemoryAgent, MemoryConfig, MemoryService
from memory_agent.errors import DataDirInUse

async def main():
    cfg = MemoryConfig(data_dir=sys.argv[1])
    async with MemoryService(cfg) as service:
        print((await service.status()).turns, (await service.sweep(dry_run=True)).dry_run)
        await service.forget_user("bob")
        try:
            await service.export_to("everything.jsonl")
        except DataDirInUse as exc:
            print(exc)
    memory = MemoryAgent("ann", "chat", cfg)
    await memory.forget([(await memory.fetch_short_term())[0].id])
    await memory.add_user_message("from another process")
    await memory.close()

asyncio.run(main())
"""


async def test_another_process_asks_the_one_that_holds_the_folder(cfg: MemoryConfig) -> None:
    """A clean-up beside a running application; so do commands. Nothing of it is left when the application ends."""
    async with MemoryService(cfg, embedder=HashEmbedder()) as service:
        ann = service.agent("ann", "chat")
        await ann.update_memory("to be forgotten", "to be kept")
        await service.agent("bob", "chat").add_user_message("Hello.")
        for words in (
            ["-c", CLEANUP, str(cfg.data_dir)],
            ["status", "--json", "--data-dir", str(cfg.data_dir)],
        ):
            ran = await asyncio.to_thread(
                forks().run, words, stdin="", cwd=cfg.data_dir, env=os.environ, timeout=100
            )
            assert ran.returncode == 0, ran.stderr
            if words[0] == "-c":
                assert ran.stdout.splitlines()[0] == "3 True"
                assert "export_to needs the stores themselves, and another process holds" in ran.stdout
        assert '"turns": 2' in ran.stdout
        assert await said(ann) == ["to be kept", "from another process"]
        assert (cfg.data_dir / ".service.json").stat().st_mode & 0o777 == 0o600
    assert not (cfg.data_dir / ".service.json").exists()
