"""The fence around the network that native code cannot go round: `fence.c`, compiled and put before libc."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import NamedTuple

SOURCE = Path(__file__).with_name("fence.c")


class Note(NamedTuple):
    """What a process tried: a `look-up` of a name, a `connection` to an address, or a `write` of a path."""

    what: str
    which: str
    program: str


class Fence:
    """A compiled fence and the file that it notes attempts in. It is about what a process does, not about its parent."""

    def __init__(self, folder: Path) -> None:
        """Compile it into `folder`. Raises RuntimeError where there is no C compiler."""
        self.library = folder / "fence.so"
        self.file = folder / "fence.notes"
        command = ["cc", "-O1", "-shared", "-fPIC", "-o", str(self.library), str(SOURCE), "-ldl"]
        try:
            subprocess.run(command, check=True, capture_output=True, text=True)
        except (OSError, subprocess.CalledProcessError) as exc:
            said = getattr(exc, "stderr", "") or exc
            raise RuntimeError(
                f"the tests' fence needs a C compiler; `{' '.join(command)}` said: {said}"
            ) from exc

    def environment(self, *, notes: Path | None = None, writes: bool = False) -> dict[str, str]:
        """What puts a process, and all that it starts, behind the fence. `writes`: note what it writes as well."""
        noting = {"LD_PRELOAD": str(self.library), "FENCE_NOTES": str(notes or self.file)}
        return {**noting, "FENCE_WRITES": "1"} if writes else noting

    def notes(self, file: Path | None = None) -> list[Note]:
        """What was tried since the beginning."""
        kept = file or self.file
        return (
            [Note(*line.split("\t")) for line in kept.read_text("utf-8").splitlines()]
            if kept.exists()
            else []
        )
