"""The delay that hooks of coding agents add to a prompt: whole processes, with a service that answers, refuses, or hangs.

python -m benchmarks.hooks_cost --prompts 20
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from memory_agent import MemoryConfig, MemoryService
from memory_agent.hooks import run
from memory_agent.server.sharing import sharing

SAID = [
    ("We indent with tabs in this project.", "Noted: tabs."),
    ("The parser is in parse.py, written by hand.", "I see."),
    ("Tests run by make test, in four minutes.", "Good."),
]


def _settings(folder: Path, name: str, url: str | None) -> Path:
    file = folder / f"{name}.json"
    whose = {"host": "claude-code", "user": "ada", "tenant": "default", "key_file": None}
    file.write_text(json.dumps({**whose, "url": url, "data_dir": str(folder), "python": sys.executable}))
    return file


def _measure(what: str, settings: Path, times: int) -> list[float]:
    said = {"prompt": "Do we indent with tabs or spaces?", "cwd": "/work/p", "session_id": "s"}
    took = []
    for _ in range(times):
        began = time.perf_counter()
        subprocess.run(
            [sys.executable, "-IS", run.__file__, what, str(settings)],
            input=json.dumps(said).encode(),
            capture_output=True,
            check=True,
        )
        took.append((time.perf_counter() - began) * 1000)
    return took


async def _main(prompts: int) -> None:
    with tempfile.TemporaryDirectory() as name, contextlib.ExitStack() as stack:
        folder = Path(name)
        silent = stack.enter_context(socket.create_server(("127.0.0.1", 0), backlog=1_000))
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            closed = probe.getsockname()[1]
        cases = {
            "a service that answers": ("recall", _settings(folder, "live", None)),
            "one that refuses": ("recall", _settings(folder, "refuses", f"http://127.0.0.1:{closed}")),
            "one that hangs": (
                "recall",
                _settings(folder, "hangs", f"http://127.0.0.1:{silent.getsockname()[1]}"),
            ),
            "after an answer": ("remember", _settings(folder, "after", f"http://127.0.0.1:{closed}")),
        }
        async with MemoryService(MemoryConfig(data_dir=folder)) as service, sharing(service):
            memory = service.agent("ada", "/work/p")
            for exchange in SAID:
                await memory.update_memory(*exchange)
            await memory.settle()
            await memory.fetch_memory("What is loaded once is loaded now")
            for case, (what, settings) in cases.items():
                took = await asyncio.to_thread(_measure, what, settings, prompts)
                print(f"{case:24} median {statistics.median(took):4.0f} ms, longest {max(took):4.0f}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--prompts", type=int, default=20)
    asyncio.run(_main(parser.parse_args().prompts))
