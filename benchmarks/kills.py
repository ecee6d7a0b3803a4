"""Processes killed (-9) at random moments of every kind of work, and what they leave compared with an outside model.

`python -m benchmarks.kills [--rounds 1000] [--minutes M] [--mongo] [--place FOLDER] [--only KIND …] [--seed N]`

Each round forks a process that does seeded random work, kills it at a random moment, and has another open what is left: nothing
acknowledged is lost, doubled or out of order, nothing forgotten is back, facts are the fold of their changes. After the last round
every erasure is brought to its end, the doctor finds nothing, and no file of SQLite has a byte of what was forgotten.
Only rounds in which the process was killed count. With `--place` a later call goes on with the same memory. What is
wrong ends the run with 1 and leaves the folder as it is.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import random
import signal
import sys
import tempfile
import time
import traceback
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Final

from benchmarks.kills_jobs import KINDS, Place, check_main, finish

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

_EVERY: Final = 50
"""Rounds between two lines of progress."""
_FIRST_SECONDS: Final = 1.0
_LONGEST_SECONDS: Final = 300.0


def forked(work: Callable[[], Awaitable[object]], *, errors: Path) -> int:
    """Start a process that does it; its pid. It leaves with 0, or with 1 and the error in that file."""
    pid = os.fork()
    if pid:
        return pid
    code = 1
    try:
        asyncio.run(work())  # type: ignore[arg-type]
        code = 0
    except BaseException:
        errors.write_text(traceback.format_exc())
    finally:
        os._exit(code)


def ended(pid: int, *, within: float) -> int | None:
    """How the process ended: 0, its exit code, or minus the signal; None if it is still there after so many seconds."""
    deadline = time.monotonic() + within
    while True:
        found, status = os.waitpid(pid, os.WNOHANG)
        if found:
            return os.waitstatus_to_exitcode(status)
        if time.monotonic() >= deadline:
            return None
        time.sleep(0.002)


async def warm_up() -> None:
    """Do a little of everything here, so that what is forked has imported and compiled it."""
    with tempfile.TemporaryDirectory() as folder:
        place = Place(folder=Path(folder), mongo_uri=None)
        await KINDS["life"].work(place)
        await check_main(place, thorough=True)


class Failed(Exception):
    """A round that went wrong."""


class Run:
    """Rounds on one memory."""

    def __init__(self, folder: Path, mongo_uri: str | None, kinds: Sequence[str], seed: int) -> None:
        self.folder = folder
        self.kinds = list(kinds)
        self.seed = seed
        self.place = Place(folder=folder, mongo_uri=mongo_uri)
        self.kills: Counter[str] = Counter()
        self._chance = random.Random(seed)
        self._seconds: dict[str, float] = {}
        asyncio.run(warm_up())
        state = folder / "rounds.json"
        if state.exists():
            self.place.round = json.loads(state.read_text())

    def round(self) -> None:
        """One round. Raises Failed."""
        self.place.round += 1
        self.place.seed = self.seed * 1_000_003 + self.place.round
        (self.folder / "rounds.json").write_text(json.dumps(self.place.round))
        name = self._chance.choices(self.kinds, [KINDS[kind].weight for kind in self.kinds])[0]
        kind, place = KINDS[name], self.place
        place.killed = False
        self._whole("preparing", name, lambda: self._with_model(kind.prepare))
        errors = self.folder / "errors"
        began = time.monotonic()
        pid = forked(lambda: kind.work(place), errors=errors)
        # A job that was never left to its end is given twice the time, so that its end is reached now and then.
        longest = self._seconds.get(name, _FIRST_SECONDS)
        code = ended(pid, within=self._chance.uniform(0, longest))
        if code is None:
            os.kill(pid, signal.SIGKILL)
            code = ended(pid, within=_LONGEST_SECONDS)
        if code == -signal.SIGKILL:
            self.kills[name] += 1
            self._seconds[name] = longest * 1.02
        elif code == 0:
            self._seconds[name] = 1.1 * (time.monotonic() - began)
        else:
            raise Failed(f"{name}, round {place.round}: the job itself failed\n{errors.read_text()}")
        place.killed = True
        self._whole("what is left", name, lambda: self._with_model(kind.check))

    async def _with_model(self, step: Callable[[Place], Awaitable[object]]) -> None:
        self.place.load()
        await step(self.place)

    def _whole(self, what: str, name: str, work: Callable[[], Awaitable[object]]) -> None:
        """Do it in a process of its own, to its end."""
        errors = self.folder / "errors"
        pid = forked(work, errors=errors)
        code = ended(pid, within=_LONGEST_SECONDS)
        if code is None:
            os.kill(pid, signal.SIGABRT)
            raise Failed(f"{name}, round {self.place.round}: {what} took more than {_LONGEST_SECONDS:g} s")
        if code:
            raise Failed(f"{name}, round {self.place.round}: {what}\n{errors.read_text()}")

    def end(self) -> int:
        """See `finish`."""
        found = self.folder / "looked_for"

        async def work() -> None:
            self.place.load()
            found.write_text(str(await finish(self.place)))

        self._whole("the end", "all", work)
        return int(found.read_text())


def run(
    folder: Path,
    *,
    rounds: int,
    minutes: float | None,
    mongo_uri: str | None,
    kinds: Sequence[str],
    seed: int,
) -> dict[str, object]:
    """So many kills (or as many as there is time for) in the folder; the counts. Raises Failed."""
    running = Run(folder, mongo_uri, kinds or list(KINDS), seed)
    began, told = time.monotonic(), 0
    while (kills := running.kills.total()) < rounds:
        if minutes is not None and time.monotonic() - began > 60 * minutes:
            break
        running.round()
        if kills >= told + _EVERY:
            told = kills
            seconds = time.monotonic() - began
            print(f"{kills:,} kills in {seconds:,.0f} s: {dict(running.kills)}", file=sys.stderr, flush=True)
    looked_for = running.end()
    place = running.place
    place.load()
    return {
        "kills": running.kills.total(),
        "by_kind": dict(sorted(running.kills.items())),
        "rounds": place.round,
        "calls_acknowledged": place.model.calls,
        "turns_at_the_end": sum(map(len, place.model.now.turns.values())),
        "forgotten_texts_and_ids": len(place.model.gone),
        "looked_for_in_files": looked_for,
        "seconds": round(time.monotonic() - began),
        "wrong": 0,
    }


def main(arguments: Sequence[str]) -> int:
    """The command; its exit code."""
    parser = argparse.ArgumentParser(description=str(__doc__).partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=1_000)
    parser.add_argument("--minutes", type=float)
    parser.add_argument("--mongo", action="store_true", help="on a mongod that is started for it")
    parser.add_argument("--place", type=Path)
    parser.add_argument("--only", nargs="+", choices=list(KINDS), default=[])
    parser.add_argument("--seed", type=int, default=int(time.time()))
    given = parser.parse_args(arguments)
    with contextlib.ExitStack() as stack:
        folder = given.place or Path(tempfile.mkdtemp(prefix="memory-agent-kills-"))
        folder.mkdir(parents=True, exist_ok=True)
        uri = None
        if given.mongo:
            from tests.servers.mongod import Mongod

            uri = stack.enter_context(Mongod()).uri
        try:
            found = run(
                folder,
                rounds=given.rounds,
                minutes=given.minutes,
                mongo_uri=uri,
                kinds=given.only,
                seed=given.seed,
            )
        except Failed as exc:
            print(f"seed {given.seed}, {folder}\n{exc}", file=sys.stderr)
            return 1
    print(json.dumps(found, indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
