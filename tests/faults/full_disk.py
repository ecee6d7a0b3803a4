"""A service on a disk that gets full, and has room again: `python -m tests.faults.full_disk FOLDER filler|limit`.

`filler`: FOLDER is a small file system of its own, which a file fills to the last byte. `limit`: the kernel lets no file of this
process grow (RLIMIT_FSIZE). Prints what happened as JSON; an assertion that fails ends it with 1.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import resource
import signal
import sys
from pathlib import Path
from typing import Any

from memory_agent import MemoryConfig, MemoryService, StoreUnavailable
from memory_agent.doctor.examine import Examiner
from memory_agent.testing import HashEmbedder

USERS = ("ann", "bob", "cy")
REFUSED = 4
"""So many refusals each writer waits for."""


class Disk:
    """The room that is left, with the one way or the other of taking it."""

    def __init__(self, folder: Path, way: str) -> None:
        self._filler = folder / "filler" if way == "filler" else None
        self._files = folder / "data"

    def fill(self) -> None:
        """Leave no room."""
        if self._filler is None:
            largest = max(file.stat().st_size for file in self._files.iterdir())
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
            resource.setrlimit(resource.RLIMIT_FSIZE, (largest, resource.RLIM_INFINITY))
            return
        with self._filler.open("wb", buffering=0) as file:
            for size in (1 << 16, 1 << 12, 1):
                with contextlib.suppress(OSError):  # ENOSPC
                    while True:
                        file.write(b"x" * size)

    def clear(self) -> None:
        """Give it back."""
        if self._filler is None:
            resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
        else:
            self._filler.unlink()


class Writer:
    """Says one exchange after the other, each until it is acknowledged; what was, and the refusals."""

    def __init__(self, service: MemoryService, user: str) -> None:
        self._memory = service.agent(user, "chat")
        self.user = user
        self.acknowledged: list[str] = []
        self.refusals: list[str] = []

    async def say(self, *, refused: int = 0, count: int = 0) -> None:
        """Go on until so many more were refused, or so many more acknowledged."""
        refused += len(self.refusals) if refused else 10**9
        count += len(self.acknowledged) if count else 10**9
        while len(self.refusals) < refused and len(self.acknowledged) < count:
            number = len(self.acknowledged)
            text = f"{self.user} has put parcel {number} into the hall. " * 20
            try:
                receipt = await self._memory.update_memory(
                    text, f"Noted {number}.", idempotency_key=f"{number}"
                )
            except StoreUnavailable as exc:
                self.refusals.append(str(exc))
                await asyncio.sleep(0.01)
            else:
                self.acknowledged += receipt.turn_ids[:1]


async def main(folder: Path, way: str) -> dict[str, Any]:
    """Fill it twice under three writers and a worker; what they say in the end fits in beside a short log alone."""
    disk, cfg = Disk(folder, way), MemoryConfig(data_dir=folder / "data")
    async with MemoryService(cfg, embedder=HashEmbedder()) as service:
        writers = [Writer(service, user) for user in USERS]
        for more in (5, 20 if way == "filler" else 5):
            await asyncio.gather(*(writer.say(count=5) for writer in writers))
            disk.fill()
            await asyncio.gather(*(writer.say(refused=REFUSED) for writer in writers))
            context = await service.agent("ann", "chat").fetch_memory("Where is parcel 1?")
            assert "parcel" in str(context), "what is there can be read"
            disk.clear()
            await asyncio.gather(*(writer.say(count=more) for writer in writers))
        await service.settle(timeout=120)
        for writer in writers:
            turns = await service.core.store.list_turns(service.agent(writer.user, "chat").scope)
            assert [turn.id for turn in turns[::2]] == writer.acknowledged, "each once, in order"
        now = service.clock.now()
        found = [
            each
            async for each in Examiner(service.core.store, None, None, now=now, moment_seconds=0.1).findings()
        ]
        assert [each.what for each in found if each.wrong] == []
    said = {text for writer in writers for text in writer.refusals}
    assert all("memory_agent.sqlite3 is unavailable for now" in text for text in said), said
    return {
        "acknowledged": sum(len(writer.acknowledged) for writer in writers),
        "refused": sum(len(writer.refusals) for writer in writers),
        "said": sorted(said),
    }


if __name__ == "__main__":
    print(json.dumps(asyncio.run(main(Path(sys.argv[1]), sys.argv[2]))))
