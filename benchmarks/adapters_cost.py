"""Processor time of the memory tool's commands and of mem0's calls, beside the agent's own: embedded, with the default model.

python -m benchmarks.adapters_cost --times 50
"""

from __future__ import annotations

import argparse
import asyncio
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from memory_agent import MemoryConfig, MemoryService
from memory_agent.integrations.mem0 import AsyncMemory
from memory_agent.integrations.memory_files import MemoryFiles

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable


async def _main(times: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        cfg = MemoryConfig(data_dir=Path(folder), run_worker=False, enable_fact_extraction=False)
        async with MemoryService(cfg) as service:
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
                "tool: create": lambda n: files.create(f"/memories/{n}.md", f"bed {n}\n"),
                "tool: view a file": lambda n: files.view(f"/memories/{n}.md"),
                "tool: str_replace": lambda n: files.str_replace(f"/memories/{n}.md", "bed", "a bed"),
                "tool: insert": lambda n: files.insert(f"/memories/{n}.md", 1, "beans"),
                f"tool: view /memories, {times} files": lambda n: files.view("/memories"),
                "tool: rename": lambda n: files.rename(f"/memories/{n}.md", f"/memories/beds/{n}.md"),
                "tool: delete": lambda n: files.delete(f"/memories/beds/{n}.md"),
            }
            for case, call in cases.items():
                began = time.process_time()
                for n in range(times):
                    await call(n)
                print(f"{case:36} {(time.process_time() - began) / times * 1000:5.1f} ms")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--times", type=int, default=50)
    asyncio.run(_main(parser.parse_args().times))
