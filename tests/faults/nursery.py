"""A process that has the package's libraries loaded and forks writers on demand, so that each writer starts at once.

It is forked itself from the server of commands (`tests.servers.forks`). `-m tests.faults.nursery` reads jobs as JSON lines, forks a writer for each, prints its pid, waits for its
end and prints how it ended. A job's `kind` says what is done: "write" appends a line to the job's log for each
exchange that was acknowledged; "settle", "sweep" and "rebuild" are in `topic_jobs`,
"facts" is in `fact_jobs`, and "say", "drop" and "crowd" are in `compress_jobs`. A job of several `processes` is done
by so many at once, each of which is told its `number`.
"""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from memory_agent import adapters
from memory_agent.models.tokens import EstimatedTokens
from tests.faults import compress_jobs, fact_jobs, topic_jobs
from tests.servers.forks import forks


class Nursery:
    """The test's side of it."""

    def __init__(self) -> None:
        command = [forks().command, "-m", "tests.faults.nursery"]
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=Path(__file__).parents[2]
        )

    def spawn(self, job: dict[str, Any]) -> int:
        """Start a writer (or several); the pid (of the first)."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(job) + "\n")
        self._process.stdin.flush()
        return int(self._answer())

    def wait(self) -> int:
        """Wait for the end of all: 0, or of the first that failed its exit code or minus the signal that killed it."""
        return int(self._answer())

    def close(self) -> None:
        """End the nursery."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.stdout.close()
        self._process.wait(30)

    def _answer(self) -> str:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        assert line, "the nursery died"
        return line


def exchange(number: int) -> tuple[str, str]:
    """What is said in the exchange of that number; each states another town."""
    town = "Town" + "".join(chr(ord("a") + int(digit)) for digit in f"{number:03}")
    return f"I live in {town}.", f"{town} it is."


async def write(job: dict[str, Any]) -> None:
    """Send exchanges `from` to `until`, logging each acknowledged one; then settle."""
    from memory_agent import MemoryConfig, MemoryService

    async with MemoryService(MemoryConfig(**job["settings"])) as service:
        memory = service.agent("ann", "chat")
        log = os.open(job["log"], os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        for number in range(job["from"], job["until"]):
            receipt = await memory.update_memory(*exchange(number), idempotency_key=f"update {number}")
            os.write(log, (json.dumps([number, list(receipt.turn_ids), receipt.seq]) + "\n").encode())
            await asyncio.sleep(0.03)
        await memory.settle(timeout=120)


KINDS = {
    "write": write,
    "settle": topic_jobs.settle,
    "sweep": topic_jobs.sweep,
    "rebuild": topic_jobs.rebuild,
    "facts": fact_jobs.facts,
    "say": compress_jobs.say,
    "drop": compress_jobs.drop,
    "crowd": compress_jobs.crowd,
}


def main() -> None:
    """Fork a writer for each job that comes in."""
    adapters.make_counter = EstimatedTokens  # as the test's own services do
    for line in sys.stdin:
        job = json.loads(line)
        pids = [_fork({**job, "number": number}) for number in range(job.get("processes", 1))]
        print(pids[0], flush=True)
        codes = [os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in pids]
        print(next((code for code in codes if code), 0), flush=True)


def _fork(job: dict[str, Any]) -> int:
    """Do the job in a process of its own; its pid."""
    pid = os.fork()
    if not pid:
        asyncio.run(KINDS[job.get("kind", "write")](job))
        os._exit(0)
    return pid


if __name__ == "__main__":
    main()
