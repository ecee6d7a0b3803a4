"""Jobs about compressions and sessions for the nursery, and what is said in them. See `topic_jobs`."""

from __future__ import annotations

import asyncio
import os
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

from memory_agent import MemoryAgent
from tests.faults.topic_jobs import opened, with_fuse

SETTINGS: dict[str, Any] = {
    "enable_fact_extraction": False,
    "enable_topics": False,
    "compress_every_turns": 6,
    "recent_messages_count": 2,
    "lease_seconds": 5,
    "retry_max_seconds": 0.02,
    "worker_poll_seconds": 0.02,
}
START: Final = datetime(2026, 3, 1, 9, tzinfo=UTC)
SECRET: Final = "Zebulon"
"""In one turn only, and in what its compressions made of it."""
SECRET_AT: Final = 8
"""The `seq` of that turn."""
_COLOURS: Final = ("blue", "red", "amber", "violet", "silver", "olive", "ivory")


def talk(turns: int) -> list[dict[str, Any]]:
    """So many turns, full of decisions and feelings, each with a text of its own that must come back as it was."""
    said = []
    for number in range(1, turns + 1):
        colour, ship = _COLOURS[number % len(_COLOURS)], f"Harbour {number}"
        if number == SECRET_AT:
            text = f"I have decided: my doctor {SECRET} Quill gets the keys on 2026-07-01. I am so happy!"
        elif number % 2:
            text = (
                f"I decided to paint the boat in {ship} {colour} on 2026-06-{number:02}.\r\n\t漢字 {number} "
            )
        else:
            text = f" I am worried: the {colour} paint costs £{number}00 ✓\n\n"
        at = START + timedelta(minutes=number)
        role = "user" if number % 2 or number == SECRET_AT else "assistant"
        said.append({"role": role, "content": text, "timestamp": at})
    return said


# --- calls, in sessions that open by themselves --------------------------------------------------------------

CALLS: Final[tuple[tuple[str, tuple[tuple[str, float | None], ...]], ...]] = (
    ("first", (("Hello.", 0.0), ("Hi.", 0.0))),
    ("across", (("One more thing.", 0.1), ("Back again.", 5.0), ("Late again.", 10.0))),
    ("first", (("Hello.", None), ("Hi.", None))),
    ("last", (("Good night.", 21.0),)),
)
"""Idempotency keys, and texts with the hours at which they are said.

The third repeats the first without a time, so in a session of its own.
"""
TEXTS: Final = ("Hello.", "Hi.", "One more thing.", "Back again.", "Late again.", "Good night.")
SESSIONS_OF_TEXTS: Final = (1, 1, 1, 2, 3, 4)
"""The numbers of the sessions that they open, or belong to, when nobody dies."""


async def say_call(memory: MemoryAgent, number: int, *, later: float = 0.0) -> None:
    """Make that one of CALLS, so many hours later."""
    key, said = CALLS[number]
    turns = [
        {"role": "user", "content": text}
        | ({} if hours is None else {"timestamp": START + timedelta(hours=hours + later)})
        for text, hours in said
    ]
    await memory.add_turns(turns, idempotency_key=key)


# --- jobs ----------------------------------------------------------------------------------------------------


async def say(job: dict[str, Any]) -> None:
    """Make all CALLS; a line in the job's `acknowledged` for each that returned."""
    done = os.open(job["acknowledged"], os.O_WRONLY | os.O_TRUNC | os.O_CREAT)
    async with with_fuse(job) as service:
        for number in range(len(CALLS)):
            await say_call(service.agent("ann", "chat"), number)
            os.write(done, f"{number}\n".encode())


async def drop(job: dict[str, Any]) -> None:
    """Forget the job's `turn_ids` (None: the whole thread), and work off what is owed then."""
    async with with_fuse(job) as service:
        memory = service.agent("ann", "chat")
        if job["turn_ids"] is None:
            await memory.clear()
        else:
            await memory.forget(job["turn_ids"])
        await service.settle(200)


async def crowd(job: dict[str, Any]) -> None:
    """The first `writers` processes say `each` exchanges; the others work off what is owed until all are said."""
    writes, folder = job["number"] < job["writers"], Path(job["folder"])
    # In folders of their own: nobody looks at the vectors.
    settings = {**job["settings"], "data_dir": str(folder / f"process {job['number']}")}
    async with asyncio.timeout(200), opened({**settings, "run_worker": not writes}) as service:
        memory = service.agent("ann", "chat")
        if writes:
            await _meet(folder, "ready", job)
            for number in range(job["each"]):
                said = (f"{job['number']}:question {number}", f"{job['number']}:answer {number}")
                await memory.update_memory(*said)
        await _meet(folder, "done", job)
        await memory.settle(200)


async def _meet(folder: Path, where: str, job: dict[str, Any]) -> None:
    """Until all writers have come this far."""
    if job["number"] < job["writers"]:
        (folder / f"{where} {job['number']}").touch()
    while len([*folder.glob(f"{where} *")]) < job["writers"]:
        await asyncio.sleep(0.005)
