"""Processes killed (-9) at random moments of every kind of work, and what they leave compared with an outside model.

`python -m benchmarks.kills [--rounds 1000] [--minutes M] [--store mongodb] [--place FOLDER] [--seed N]`

What a round does, and what has to hold after it, is in docs/benchmarks.md, "Kills". Only rounds in which the process was killed count.
With `--place` a later call goes on with the same memory. What is wrong ends the run with 1 and leaves the folder as it is.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import json
import os
import random
import shutil
import signal
import sys
import tempfile
import time
import traceback
from collections import Counter
from contextlib import AsyncExitStack, asynccontextmanager, nullcontext, suppress
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Final

import pymongo

from benchmarks.measure import mongo_uri, print_report, say, store_option
from benchmarks.outside_model import Held, Model, differences, replayed
from memory_agent import MemoryConfig, MemoryService
from memory_agent.adapters import open_keys, open_store
from memory_agent.clock import SystemClock
from memory_agent.doctor.examine import Examiner
from memory_agent.domain import STAGES, Scope
from memory_agent.errors import ConfigError
from memory_agent.exports.files import ExportFile
from memory_agent.exports.run import back_up, restore
from memory_agent.stores.mongo import MongoStore
from memory_agent.stores.sqlite import SqliteStore
from memory_agent.testing import HashEmbedder
from memory_agent.work import worker
from memory_agent.work.forget import remains_in
from tests.conformance.values import a_draft
from tests.released.fixture import DB_NAME, known, put_documents, put_file

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Iterable

    from benchmarks.outside_model import Call
    from memory_agent.domain import Turn
    from memory_agent.ports import DocumentStore

vars(worker)["POLL_SECONDS"] = 0.05  # a constant of the package; a second would be most of a round

USERS: Final = ("ann", "bob")
"""Each is talked to by a task of its own."""
THREADS: Final = ("chat", "work")
MARKS: Final = ("mark_one", "mark_two")
"""Facts that are edited, and that no text tells of."""
_MANY: Final = 120
"""Turns of a user above which forgetting is more frequent than saying."""
_EVERY: Final = 50
"""Rounds between two lines of progress."""
_FIRST_SECONDS: Final = 1.0
_LONGEST_SECONDS: Final = 300.0


class Wrong(AssertionError):
    """The memory differs from the model, or the doctor has found something."""


def demand(wrong: Iterable[str]) -> None:
    """Raise Wrong if there is anything."""
    if found := list(wrong):
        raise Wrong("; ".join(found))


class LaterClock(SystemClock):
    """The real clock, so many hours further: leases of the dead are over, and last passes are due."""

    def __init__(self, hours: int) -> None:
        self.ahead = timedelta(hours=hours)

    def now(self) -> Any:
        """See `Clock.now`."""
        return super().now() + self.ahead


@dataclass(kw_only=True)
class Place:
    """A memory in a folder (or a database), the log of the process at work on it, and the model."""

    folder: Path
    mongo_uri: str | None
    round: int = 0
    killed: bool = False
    """True when what is left is looked at."""
    seed: int = 0
    model: Model = field(default_factory=Model)

    def settings(self, name: str = "main") -> MemoryConfig:
        """Settings of the memory of that name."""
        return MemoryConfig(
            data_dir=self.folder / name,
            max_messages_per_topic=6,
            recent_message_keep=2,
            mongo_uri=self.mongo_uri,
            db_name=f"kills_{name}",
        )

    @property
    def clock(self) -> LaterClock:
        """Two hours further with each round, and one more once the process was killed."""
        return LaterClock(2 * self.round + self.killed)

    @property
    def log(self) -> Path:
        """Calls that were begun and calls that were acknowledged."""
        return self.folder / "log"

    @asynccontextmanager
    async def opened(
        self, name: str = "main", *, worker: bool = True, model: str = ""
    ) -> AsyncIterator[MemoryService]:
        """The memory of that name, with that embedding model."""
        cfg = self.settings(name).model_copy(update={"run_worker": worker})
        async with MemoryService(cfg, embedder=HashEmbedder(seed=model), clock=self.clock) as service:
            yield service

    def load(self) -> None:
        """Read the model."""
        if (file := self.folder / "model.json").exists():
            self.model = Model.from_json(json.loads(file.read_text()))

    def save(self) -> None:
        """Write the model; the log begins anew."""
        half = self.folder / "model.json.part"
        half.write_text(json.dumps(asdict(self.model)))
        half.replace(self.folder / "model.json")
        self.log.write_text("")

    def doubtful(self) -> list[Call]:
        """Take the log in; the calls that were begun and did not return."""
        lines = self.log.read_text().splitlines() if self.log.exists() else []
        return replayed(map(json.loads, lines), self.model)

    def looked_for(self) -> list[str]:
        """Forgotten texts and ids that no file may hold in the end; a server's files are its own."""
        gone = [] if self.mongo_uri else self.model.gone
        return random.Random(self.seed).sample(gone, min(len(gone), 2_000))

    def drop(self, name: str) -> None:
        """Delete the memory of that name."""
        shutil.rmtree(self.folder / name, ignore_errors=True)
        if self.mongo_uri:
            with pymongo.MongoClient[Any](self.mongo_uri) as client:
                client.drop_database(f"kills_{name}")


# --- calls, logged ---------------------------------------------------------------------------------------------
class Caller:
    """Makes calls, and writes down that they are begun and that they returned, at once and without a buffer."""

    def __init__(self, place: Place, service: MemoryService) -> None:
        self.service = service
        self._numbers = itertools.count()
        self._log = os.open(place.log, os.O_WRONLY | os.O_APPEND | os.O_CREAT)

    async def make(self, call: Call) -> None:
        """Make a call."""
        number = next(self._numbers)
        self._write({"number": number, "begin": call})
        self._write({"number": number, "done": await made(self.service, call)})

    def _write(self, line: dict[str, Any]) -> None:
        os.write(self._log, f"{json.dumps(line)}\n".encode())


async def made(service: MemoryService, call: Call) -> dict[str, Any]:
    """Make a call, for the first time or once more; what its receipt says."""
    if call["op"] == "forget_user":
        await service.forget_user(call["user"])
        return {}
    memory = service.agent(*call["place"].split("/"))
    if call["op"] == "say":
        receipt = await memory.update_memory(*call["texts"], idempotency_key=call["key"])
        return {"ids": list(receipt.turn_ids), "seq": receipt.seq}
    if call["op"] == "set":
        await memory.set_fact(call["path"], call["value"], idempotency_key=call["key"])
    elif call["op"] == "clear":
        await memory.clear()
    else:
        there = {turn.id for turn in await memory.fetch_short_term(limit=1_000)}
        if left := [turn_id for turn_id in call["ids"] if turn_id in there]:
            await memory.forget(left)
    return {}


def exchange(user: str, name: str, thread: str = "chat") -> Call:
    """An exchange that nobody else has, with facts for the patterns in some."""
    told = f"The parcel {name} lies in the hall, and the gate to it is locked."
    if name.endswith("3"):
        told += f" I live in Town{name.replace('-', '')}."
    texts = [told, f"Noted: {name}."]
    return {"op": "say", "place": f"{user}/{thread}", "texts": texts, "key": f"key {name}"}


async def talk(place: Place, service: MemoryService, kind: str) -> None:
    """Some exchanges while a job of that kind is under way."""
    caller = Caller(place, service)
    for number in range(4):
        await caller.make(exchange(USERS[number % 2], f"{place.round}-{kind}-{number}"))


# --- what a memory holds ---------------------------------------------------------------------------------------
def listed(turns: Iterable[Turn]) -> list[list[Any]]:
    """What the model knows of turns."""
    return [[turn.id, turn.seq, turn.role, turn.content] for turn in turns]


async def held(service: MemoryService) -> Held:
    """All turns, and the edited facts, as the stores have them."""
    found, store = Held(), service.core.store
    for user in await store.user_ids("default", limit=100):
        for thread in await store.thread_ids(Scope(user_id=user), limit=100):
            agent, place = service.agent(user, thread), f"{user}/{thread}"
            if turns := await store.list_turns(agent.scope):
                found.turns[place] = listed(turns)
            facts = await agent.fetch_facts(scope="thread")
            if marks := {str(path): facts[path] for path in MARKS if path in facts}:
                found.facts[place] = marks
    return found


async def examine(store: DocumentStore, now: datetime, keys: Any = None, vectors: Any = None) -> None:
    """Raise Wrong for what the doctor finds."""
    examiner = Examiner(store, keys, vectors, now=now, moment_seconds=0.1)
    findings = [each async for each in examiner.findings()]
    demand(f"doctor: {each.what} ({each.scope}, {each.ids[:3]})" for each in findings if each.wrong)


async def diagnose(service: MemoryService) -> None:
    """Raise Wrong for what the doctor finds once nothing is owed."""
    await service.settle(timeout=120)
    async with AsyncExitStack() as stack:
        keys = await open_keys(service.cfg, None, stack)
        await examine(service.core.store, service.clock.now(), keys, service.core.vectors)


async def check_main(place: Place, *, thorough: bool) -> None:
    """Compare, make calls again that did not return, and compare again; with the doctor where it is to be thorough."""
    doubtful = place.doubtful()
    model = place.model
    async with place.opened() as service:
        demand(differences(model.now, await held(service), set(model.gone), doubtful))
        for call in doubtful:
            model.acknowledge(call, await made(service, call))
        demand(differences(model.now, await held(service), set(model.gone)))
        if thorough:
            await diagnose(service)
    place.save()


# --- kinds of jobs -----------------------------------------------------------------------------------------------
class Job:
    """A kind of job. `weight`: how often there is one."""

    weight: ClassVar = 1

    async def prepare(self, place: Place) -> None:
        """What has to be there before."""

    async def work(self, place: Place) -> None:
        """What is killed."""
        raise NotImplementedError

    async def check(self, place: Place) -> None:
        """Raise Wrong unless what is left is as it has to be: unless said otherwise, everything acknowledged."""
        await check_main(place, thorough=False)


class Life(Job):
    """Updates, edits, forget calls of each kind and rewrites of the file, by two tasks beside the worker."""

    weight: ClassVar = 6

    async def work(self, place: Place) -> None:
        async with place.opened() as service:
            caller = Caller(place, service)
            await asyncio.gather(*(self._talk(place, caller, user) for user in USERS))
            await asyncio.sleep(0.1)  # for the worker

    async def _talk(self, place: Place, caller: Caller, user: str) -> None:
        chance, own = random.Random(f"{place.seed} {user}"), place.model
        for number in range(8):
            thread, name = chance.choice(THREADS), f"{place.round}-{user}-{number}"
            turns = [turn[0] for turn in own.now.turns.get(f"{user}/{thread}", [])]
            draw = chance.random() * (2 if len(turns) > _MANY else 1)
            if draw < 0.6 or not turns:
                await caller.make(exchange(user, name, thread))
            elif draw < 0.72:
                mark = {"path": chance.choice(MARKS), "value": name, "key": f"edit {name}"}
                await caller.make({"op": "set", "place": f"{user}/{thread}", **mark})
            elif draw < 0.78:
                await caller.service.core.store.rewrite_files()
            elif draw < 0.94:
                ids = chance.sample(turns, min(len(turns), 3))
                await caller.make({"op": "forget", "place": f"{user}/{thread}", "ids": ids})
            elif draw < 0.97 or chance.random() < 0.7:
                await caller.make({"op": "clear", "place": f"{user}/{thread}"})
            else:
                await caller.make({"op": "forget_user", "user": user})

    async def check(self, place: Place) -> None:
        """Everything acknowledged and nothing forgotten is there."""
        await check_main(place, thorough=place.round % 4 == 0)


class Backup(Job):
    """A backup while exchanges are stored."""

    async def prepare(self, place: Place) -> None:
        """No file of the backup before."""
        (place.folder / "new.backup.gz").unlink(missing_ok=True)

    async def work(self, place: Place) -> None:
        async with place.opened() as service, AsyncExitStack() as stack:
            store = await open_store(service.cfg, None, stack)
            keys = await open_keys(service.cfg, None, stack)
            talking = asyncio.create_task(talk(place, service, "backup"))
            await back_up(place.folder / "new.backup.gz", store, keys, now=service.clock.now())
            (place.folder / "taken").touch()
            await talking

    async def check(self, place: Place) -> None:
        """A file that is there is whole, and holds what was acknowledged before; it is kept for restores."""
        before = place.model.now.ids
        facts = {where: dict(marks) for where, marks in place.model.now.facts.items()}
        await check_main(place, thorough=False)
        taken, file = place.folder / "taken", place.folder / "new.backup.gz"
        if taken.exists() and not file.exists():
            raise Wrong("a backup was taken, and its file is not there")
        taken.unlink(missing_ok=True)
        if file.exists():
            kept = Held(turns=_turns_in(file), facts=facts)
            demand(f"turn {lost} is not in the backup" for lost in before - kept.ids)
            strangers = kept.ids - place.model.now.ids
            demand(f"turn {more} in the backup was never acknowledged" for more in strangers)
            file.replace(place.folder / "kept.backup.gz")
            place.model.kept = kept
            place.save()


def _turns_in(path: Path) -> dict[str, list[list[Any]]]:
    """The turns of an export, which is checked."""
    file, found = ExportFile(path), Held()
    file.check()
    for record in file.records():
        if record.kind == "turn" and record.scope is not None:
            where = f"{record.scope.user_id}/{record.scope.thread_id}"
            found.turns.setdefault(where, []).extend(listed([record.value.turn]))
    return found.turns


class Restore(Job):
    """The kept backup restored into an empty memory, without what was forgotten since."""

    async def prepare(self, place: Place) -> None:
        """A backup, if there is none yet."""
        if place.model.kept is None:
            await Backup().work(place)
            await Backup().check(place)
        place.drop("restored")

    async def work(self, place: Place) -> None:
        await self._restored(place)
        (place.folder / "taken").touch()

    async def _restored(self, place: Place) -> None:
        async with AsyncExitStack() as stack:
            receipts = await (await open_store(place.settings(), None, stack)).receipts()
        file = place.folder / "kept.backup.gz"
        await restore(file, place.settings("restored"), now=place.clock.now(), receipts=receipts)

    async def check(self, place: Place) -> None:
        """Nothing that can be opened, or the restored memory; once more, unless it was whole, the restored one."""
        model, taken = place.model, place.folder / "taken"
        assert model.kept is not None
        if not taken.exists():
            with suppress(ConfigError):  # it was whole, and the process was killed right after
                await self._restored(place)
        taken.unlink(missing_ok=True)
        async with place.opened("restored") as service:
            demand(differences(model.kept, await held(service), set(model.gone)))
            await diagnose(service)
        place.save()


class Import(Job):
    """An export of the memory taken into an empty one."""

    async def prepare(self, place: Place) -> None:
        """The export."""
        place.drop("imported")
        file = place.folder / "all.jsonl"
        file.unlink(missing_ok=True)
        async with place.opened(worker=False) as service:
            await service.export_to(file, vectors=place.round % 2 == 0)

    async def work(self, place: Place) -> None:
        async with place.opened("imported") as service:
            await service.import_from(place.folder / "all.jsonl")

    async def check(self, place: Place) -> None:
        """Nothing but what is in the file; once more, everything, once."""
        wanted = Held(turns=_turns_in(place.folder / "all.jsonl"), facts=place.model.now.facts)
        demand(differences(place.model.now, wanted, set()))
        async with place.opened("imported") as service:
            strangers = (await held(service)).ids - wanted.ids
            demand(f"turn {turn} is in no export" for turn in strangers)
            for _ in range(2):
                await service.import_from(place.folder / "all.jsonl")
                demand(differences(wanted, await held(service), set()))
            await diagnose(service)
        place.drop("imported")


class Upgrade(Job):
    """What version 0.1.0 wrote, opened by this one, which upgrades it, and written to."""

    async def prepare(self, place: Place) -> None:
        """A fresh copy of the fixture."""
        place.drop("old")
        if place.mongo_uri is None:
            put_file(place.folder / "old")
        else:
            with pymongo.MongoClient[Any](place.mongo_uri) as client:
                put_documents(client, "kills_old")

    def _store(self, place: Place) -> Any:
        if place.mongo_uri is None:
            return SqliteStore(place.folder / "old" / f"{DB_NAME}.sqlite3")
        return MongoStore(place.mongo_uri, "kills_old", timeout_seconds=20)

    async def work(self, place: Place) -> None:
        store, scope, now = self._store(place), Scope(user_id="ada", thread_id="new"), place.clock.now()
        await store.open()
        for number in range(3):
            draft = a_draft(f"new {number}", key=f"new {number}", timestamp=now, pending=STAGES)
            await store.append_turns(scope, [replace(draft, due_at=now)])
        while await store.upgrade_some():
            pass
        await store.close()

    async def check(self, place: Place) -> None:
        """Every turn of before; once more, it ends well, and the doctor finds nothing."""
        await self.work(place)
        name = "mongodb" if place.mongo_uri else "sqlite"
        store = self._store(place)
        await store.open()
        try:
            for whose, of_user in known(name).items():
                tenant, _, user = whose.partition("/")
                for thread, turns in of_user["turns"].items():
                    found = await store.list_turns(Scope.of(user, tenant=tenant, thread_id=thread))
                    if listed(found) != turns:
                        raise Wrong(f"the turns of {whose}/{thread} are not what version 0.1.0 wrote")
            new = await store.list_turns(Scope(user_id="ada", thread_id="new"))
            if [turn.content for turn in new] != [f"new {number}" for number in range(3)]:
                raise Wrong(f"new turns beside the old ones: {[turn.content for turn in new]}")
            if (await store.schema()).left:
                raise Wrong("the upgrade is not finished")
            await examine(store, place.clock.now())
        finally:
            await store.close()
        place.drop("old")


class Rebuild(Job):
    """Everybody embedded anew by another model, each round by the other of two, while exchanges are stored."""

    weight: ClassVar = 2

    async def work(self, place: Place) -> None:
        async with place.opened(model=f"model {place.round % 2}") as service:
            talking = asyncio.create_task(talk(place, service, "rebuild"))
            await self._rebuild(service)
            await talking

    async def _rebuild(self, service: MemoryService) -> None:
        while (step := await service.rebuild_next()).done < step.users:
            await service.settle(120)
        await service.settle(120)

    async def check(self, place: Place) -> None:
        """Everything acknowledged; gone on with, the rebuild leaves nothing that the other model embedded."""
        await check_main(place, thorough=False)
        async with place.opened(model=f"model {place.round % 2}") as service:
            await self._rebuild(service)
            if left := (await service.status()).to_rebuild:
                raise Wrong(f"{left} turns were not rebuilt")
            await diagnose(service)


KINDS: Final[dict[str, Job]] = {
    "life": Life(),
    "backup": Backup(),
    "restore": Restore(),
    "import": Import(),
    "upgrade": Upgrade(),
    "rebuild": Rebuild(),
}


async def finish(place: Place) -> None:
    """At last: every erasure to its end, the doctor, and no byte of what was forgotten."""
    clock = place.clock
    async with MemoryService(place.settings(), embedder=HashEmbedder(), clock=clock) as service:
        demand(differences(place.model.now, await held(service), set(place.model.gone)))
        await diagnose(service)
        async with asyncio.timeout(300):
            while {one.state for one in await service.erasures()} & {"owed", "swept"}:
                clock.ahead += timedelta(minutes=15)
                await asyncio.sleep(0.1)
        await diagnose(service)
    remains = remains_in(place.folder / "main", place.looked_for())
    demand(f"{one.text!r} is still in {one.file}" for one in remains)


# --- rounds ---------------------------------------------------------------------------------------------------
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

    def __init__(self, place: Place, seed: int) -> None:
        self.place = place
        self.seed = seed
        self.kills: Counter[str] = Counter()
        self._chance = random.Random(seed)
        self._seconds: dict[str, float] = {}
        self._rounds, self._errors = place.folder / "rounds.json", place.folder / "errors"
        if self._rounds.exists():
            place.round = json.loads(self._rounds.read_text())

    def round(self) -> None:
        """One round. Raises Failed."""
        place = self.place
        place.round += 1
        place.seed = self.seed * 1_000_003 + place.round
        self._rounds.write_text(json.dumps(place.round))
        name = self._chance.choices(list(KINDS), [job.weight for job in KINDS.values()])[0]
        job, place.killed = KINDS[name], False
        self.whole(f"{name}, preparing", job.prepare)
        began = time.monotonic()
        pid = self._forked(job.work)
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
            raise self._failed(f"{name}, the job itself")
        place.killed = True
        self.whole(f"{name}, what is left", job.check)

    def _forked(self, step: Callable[[Place], Awaitable[object]]) -> int:
        """Start a process that reads the model and does it; its pid. It leaves with 0, or with 1 and the error in a file."""
        if pid := os.fork():
            return pid
        code = 1
        try:
            self.place.load()
            asyncio.run(step(self.place))  # type: ignore[arg-type]
            code = 0
        except BaseException:
            self._errors.write_text(traceback.format_exc())
        finally:
            os._exit(code)

    def whole(self, what: str, step: Callable[[Place], Awaitable[object]]) -> None:
        """Do it in a process of its own, to its end."""
        pid = self._forked(step)
        code = ended(pid, within=_LONGEST_SECONDS)
        if code is None:
            os.kill(pid, signal.SIGABRT)
            raise Failed(f"{what}, round {self.place.round}: more than {_LONGEST_SECONDS:g} s")
        if code:
            raise self._failed(what)

    def _failed(self, what: str) -> Failed:
        return Failed(f"{what}, round {self.place.round}:\n{self._errors.read_text()}")


def run(place: Place, *, rounds: int, minutes: float, seed: int) -> dict[str, object]:
    """So many kills (or as many as there is time for) in the place; the counts. Raises Failed."""
    asyncio.run(warm_up())
    running = Run(place, seed)
    began, told = time.monotonic(), 0
    while (kills := running.kills.total()) < rounds and time.monotonic() - began < 60 * minutes:
        running.round()
        if kills >= told + _EVERY:
            told = kills
            say(f"{kills:,} kills in {time.monotonic() - began:,.0f} s: {dict(running.kills)}")
    running.whole("the end", finish)
    place.load()
    return {
        "kills": running.kills.total(),
        "by_kind": dict(sorted(running.kills.items())),
        "rounds": place.round,
        "calls_acknowledged": place.model.calls,
        "turns_at_the_end": len(place.model.now.ids),
        "forgotten_texts_and_ids": len(place.model.gone),
        "looked_for_in_files": len(place.looked_for()),
        "seconds": round(time.monotonic() - began),
        "wrong": 0,
    }


def main() -> int:
    """Parse the command line and run; the exit code."""
    parser = argparse.ArgumentParser(description=str(__doc__).partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=1_000, help="that kill (default %(default)s)")
    parser.add_argument("--minutes", type=float, default=float("inf"), help="to begin rounds in, at most")
    store_option(parser)
    parser.add_argument("--place", type=Path, help="a folder to go on in later; a temporary one without it")
    parser.add_argument("--seed", type=int, default=int(time.time()))
    given = parser.parse_args()
    folder = given.place or Path(tempfile.mkdtemp(prefix="memory-agent-kills-"))
    folder.mkdir(parents=True, exist_ok=True)
    with mongo_uri() if given.store == "mongodb" else nullcontext() as uri:
        try:
            place = Place(folder=folder, mongo_uri=uri)
            found = run(place, rounds=given.rounds, minutes=given.minutes, seed=given.seed)
        except Failed as exc:
            say(f"seed {given.seed}, {folder}\n{exc}")
            return 1
    print_report(found)
    return 0


if __name__ == "__main__":
    sys.exit(main())
