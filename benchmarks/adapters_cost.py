"""Processor time of the memory tool's commands, of mem0's calls and of the examples for Open WebUI and Ollama, beside the agent's own.

Embedded, with the default model; Open WebUI's filter asks a service in the same process, whose time counts as well.

python -m benchmarks.adapters_cost --times 50
"""

from __future__ import annotations

import argparse
import asyncio
import json
import runpy
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx

from memory_agent import MemoryConfig, MemoryService
from memory_agent.integrations.mem0 import AsyncMemory
from memory_agent.integrations.memory_files import MemoryFiles
from tests.servers.service import served

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

EXAMPLES = Path(__file__).parents[1] / "examples"
TOLD = json.dumps({"message": {"role": "assistant", "content": "Noted"}, "done": True}) + "\n"


def _open_webui(address: str, key: str) -> Callable[[int], Awaitable[Any]]:
    """A turn of a chat in Open WebUI: the filter as it is pasted, before and after the answer."""
    pasted = runpy.run_path(str(EXAMPLES / "open_webui_filter.py"))["Filter"]()
    pasted.valves = pasted.Valves(url=address, api_key=key)

    async def turn(n: int) -> None:
        chat, ada = {"chat_id": "c"}, {"id": "ada"}
        said = {"role": "user", "content": f"Bed {n} gets beans", "id": f"u{n}"}
        answer = {"role": "assistant", "content": "Noted", "id": f"a{n}"}
        await pasted.inlet({"messages": [said]}, ada, chat)
        await pasted.outlet({"messages": [said, answer]}, ada, chat)

    return turn


def _ollama(memory: Any, *, alone: bool = False) -> Callable[[int], Awaitable[Any]]:
    """A turn of the chat with Ollama, whose model answers at once."""
    http = httpx.AsyncClient(
        base_url="http://ollama", transport=httpx.MockTransport(lambda _: httpx.Response(200, text=TOLD))
    )
    answer = runpy.run_path(str(EXAMPLES / "ollama_chat.py"))["answer"]

    async def turn(n: int) -> None:
        said = f"Bed {n} gets beans"
        if alone:
            await http.post("/api/chat", json={"messages": [{"role": "user", "content": said}]})
            return
        reply = "".join([piece async for piece in answer(http, "none", memory, said)])
        await memory.update_memory(said, reply)

    return turn


async def _main(times: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        cfg = MemoryConfig(data_dir=Path(folder), run_worker=False, enable_fact_extraction=False)
        async with MemoryService(cfg) as service, served(service) as server:
            files, mem0, agent = (
                MemoryFiles(service, "ada"),
                AsyncMemory(service=service),
                service.agent("ada", "chat"),
            )
            await agent.fetch_memory("What is loaded once is loaded now")

            async def exchange(n: int) -> None:
                await agent.fetch_memory(f"What grows in bed {n}?")
                await agent.update_memory(f"Bed {n} gets beans", "Noted")

            async def with_mem0(n: int) -> None:
                await mem0.search(f"What grows in bed {n}?", filters={"user_id": "bob"}, top_k=5)
                said = [
                    {"role": "user", "content": f"Bed {n} gets beans"},
                    {"role": "assistant", "content": "Noted"},
                ]
                await mem0.add(said, user_id="bob")

            cases: dict[str, Callable[[int], Awaitable[Any]]] = {
                "agent: fetch_memory, update_memory": exchange,
                "mem0: search, add": with_mem0,
                "Open WebUI's filter and the service": _open_webui(server.address, await server.key()),
                "Ollama chat without a memory": _ollama(None, alone=True),
                "Ollama chat": _ollama(service.agent("ada", "ollama")),
                "tool: create": lambda n: files.create(f"/memories/{n}.md", f"bed {n}\n"),
                "tool: view a file": lambda n: files.view(f"/memories/{n}.md"),
                "tool: str_replace": lambda n: files.str_replace(f"/memories/{n}.md", "bed", "a bed"),
                "tool: insert": lambda n: files.insert(f"/memories/{n}.md", 1, "beans"),
                f"tool: view /memories, {times} files": lambda n: files.view("/memories"),
                "tool: rename": lambda n: files.rename(f"/memories/{n}.md", f"/memories/beds/{n}.md"),
                "tool: delete": lambda n: files.delete(f"/memories/beds/{n}.md"),
            }
            for case, call in cases.items():
                if not case.startswith("tool"):
                    await call(times)  # which loads what is loaded once
                began = time.process_time()
                for n in range(times):
                    await call(n)
                print(f"{case:36} {(time.process_time() - began) / times * 1000:5.1f} ms")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--times", type=int, default=50)
    asyncio.run(_main(parser.parse_args().times))
