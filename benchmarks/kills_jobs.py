"""The jobs that `benchmarks.kills` kills, and what has to hold after each: a class per kind, listed in `KINDS`."""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import random
import shutil
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any, ClassVar, Final

import pymongo

from benchmarks.kills_model import Held, Model, differences, replayed
from memory_agent import MemoryConfig, MemoryService
from memory_agent.adapters import open_keys, open_store
from memory_agent.clock import SystemClock
from memory_agent.doctor.examine import Examiner
from memory_agent.domain import STAGES, Scope
from memory_agent.errors import ConfigError
from memory_agent.exports.files import ExportFile
from memory_agent.exports.restoring import restore
from memory_agent.exports.run import back_up
from memory_agent.stores.mongo import MongoStore
from memory_agent.stores.sqlite import SqliteStore
from memory_agent.testing import HashEmbedder
from memory_agent.work import worker
from tests.conformance.values import a_draft
from tests.released.fixture import DB_NAME, known, put_documents, put_file

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable
    from pathlib import Path

    from benchmarks.kills_model import Call

vars(worker)["POLL_SECONDS"] = 0.05  # a constant of the package; a second would be most of a round

USERS: Final = ("ann", "bob")
"""Each is talked to by a task of its own."""
THREADS: Final = ("chat", "work")
MARKS: Final = ("mark_one", "mark_two")
"""Facts that are edited, and that no text tells of."""
_MANY: Final = 120
"""Turns of a user above which forgetting is more frequent than saying."""


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
        more: dict[str, Any] = (
            {"mongo_uri": self.mongo_uri, "db_name": f"kills_{name}"} if self.mongo_uri else {}
        )
        return MemoryConfig(
            data_dir=self.folder / name,
            max_messages_per_topic=6,
            **more,
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
        """Read the model, and take the log in; what was begun only."""
        if (file := self.folder / "model.json").exists():
            self.model = Model.from_json(json.loads(file.read_text()))

    def save(self) -> None:
        """Write the model; the log begins anew."""
        half = self.folder / "model.json.part"
        half.write_text(json.dumps(self.model.as_json()))
        half.replace(self.folder / "model.json")
        self.log.write_text("")

    def doubtful(self) -> list[Call]:
        """Take the log in; the calls that were begun and did not return."""
        lines = self.log.read_text().splitlines() if self.log.exists() else []
        return replayed(map(json.loads, lines), self.model)

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
        self._service = service
        self._numbers = itertools.count()
        self._log = os.open(place.log, os.O_WRONLY | os.O_APPEND | os.O_CREAT)

    async def make(self, call: Call) -> None:
        """Make a call."""
        number = next(self._numbers)
        self._write({"number": number, "begin": call})
        self._write({"number": number, "done": await made(self._service, call)})

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


def say(user: str, name: str, thread: str) -> Call:
    """An exchange that nobody else has, with facts for the patterns in some."""
    told = f"The parcel {name} lies in the hall, and the gate to it is locked."
    if name.endswith("3"):
        told += f" I live in Town{name.replace('-', '')}."
    return {
        "op": "say",
        "place": f"{user}/{thread}",
        "texts": [told, f"Noted: {name}."],
        "key": f"key {name}",
    }


# --- what a memory holds ---------------------------------------------------------------------------------------
async def held(service: MemoryService) -> Held:
    """All turns, and the edited facts, as the stores have them."""
    found, store = Held(), service.core.store
    for user in await store.user_ids("default", limit=100):
        for thread in await store.thread_ids(Scope(user_id=user), limit=100):
            agent, place = service.agent(user, thread), f"{user}/{thread}"
            turns = await store.list_turns(agent.scope)
            if turns:
                found.turns[place] = [[turn.id, turn.seq, turn.role, turn.content] for turn in turns]
            facts = await agent.fetch_facts(scope="thread")
            if marks := {str(path): facts[path] for path in MARKS if path in facts}:
                found.facts[place] = marks
    return found


async def diagnose(service: MemoryService) -> None:
    """Raise Wrong for what the doctor finds once nothing is owed."""
    await service.settle(timeout=120)
    async with AsyncExitStack() as stack:
        keys = await open_keys(service.cfg, None, stack)
        core, now = service.core, service.clock.now()
        findings = [
            each
            async for each in Examiner(core.store, keys, core.vectors, now=now, moment_seconds=0.1).findings()
        ]
    demand(f"doctor: {each.what} ({each.scope}, {each.ids[:3]})" for each in findings if each.wrong)


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
class Life:
    """Updates, edits, forget calls of each kind and rewrites of the file, by two tasks beside the worker."""

    weight: ClassVar = 6

    async def prepare(self, place: Place) -> None:
        """Nothing."""

    async def work(self, place: Place) -> None:
        """What is killed."""
        place.load()
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
                await caller.make(say(user, name, thread))
            elif draw < 0.72:
                mark = {"path": chance.choice(MARKS), "value": name, "key": f"edit {name}"}
                await caller.make({"op": "set", "place": f"{user}/{thread}", **mark})
            elif draw < 0.78:
                await caller._service.core.store.rewrite_files()
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


class Backup:
    """A backup while exchanges are stored."""

    weight: ClassVar = 1

    async def prepare(self, place: Place) -> None:
        """Nothing."""
        (place.folder / "new.backup.gz").unlink(missing_ok=True)

    async def work(self, place: Place) -> None:
        """What is killed."""
        async with place.opened() as service, AsyncExitStack() as stack:
            store = await open_store(service.cfg, None, stack)
            keys = await open_keys(service.cfg, None, stack)
            talking = asyncio.create_task(self._talk(place, service))
            await back_up(place.folder / "new.backup.gz", store, keys, now=service.clock.now())
            (place.folder / "taken").touch()
            await talking

    async def _talk(self, place: Place, service: MemoryService) -> None:
        caller = Caller(place, service)
        for number in range(4):
            await caller.make(say("ann", f"{place.round}-backup-{number}", "chat"))

    async def check(self, place: Place) -> None:
        """A file that is there is whole, and holds what was acknowledged before; it is kept for restores."""
        before = {turn[0] for turns in place.model.now.turns.values() for turn in turns}
        facts = {where: dict(marks) for where, marks in place.model.now.facts.items()}
        await check_main(place, thorough=False)
        taken, file = place.folder / "taken", place.folder / "new.backup.gz"
        if taken.exists() and not file.exists():
            raise Wrong("a backup was taken, and its file is not there")
        taken.unlink(missing_ok=True)
        if file.exists():
            kept = Held(turns=_turns_in(file), facts=facts)
            ids = {turn[0] for turns in kept.turns.values() for turn in turns}
            demand(f"turn {lost} is not in the backup" for lost in before - ids)
            now = place.model.now
            now_there = {turn[0] for turns in now.turns.values() for turn in turns}
            demand(f"turn {more} in the backup was never acknowledged" for more in ids - now_there)
            file.replace(place.folder / "kept.backup.gz")
            place.model.kept = kept
            place.save()


def _turns_in(path: Path) -> dict[str, list[list[Any]]]:
    """The turns of an export, which is checked."""
    file, found = ExportFile(path), Held()
    file.check()
    for record in file.records():
        if record.kind == "turn" and record.scope is not None:
            turn = record.value.turn
            where = f"{record.scope.user_id}/{record.scope.thread_id}"
            found.turns.setdefault(where, []).append([turn.id, turn.seq, turn.role, turn.content])
    return found.turns


class Restore:
    """The kept backup restored into an empty memory, without what was forgotten since."""

    weight: ClassVar = 1

    async def prepare(self, place: Place) -> None:
        """A backup, if there is none yet."""
        place.load()
        if place.model.kept is None:
            await Backup().work(place)
            await Backup().check(place)
        place.drop("restored")

    async def work(self, place: Place) -> None:
        """What is killed."""
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


class Import:
    """An export of the memory taken into an empty one."""

    weight: ClassVar = 1

    async def prepare(self, place: Place) -> None:
        """The export."""
        place.drop("imported")
        file = place.folder / "all.jsonl"
        file.unlink(missing_ok=True)
        async with place.opened(worker=False) as service:
            await service.export_to(file, vectors=place.round % 2 == 0)

    async def work(self, place: Place) -> None:
        """What is killed."""
        async with place.opened("imported") as service:
            await service.import_from(place.folder / "all.jsonl")

    async def check(self, place: Place) -> None:
        """Nothing but what is in the file; once more, everything, once."""
        wanted = Held(turns=_turns_in(place.folder / "all.jsonl"), facts=place.model.now.facts)
        demand(differences(place.model.now, wanted, set()))
        known_ids = {turn[0] for turns in wanted.turns.values() for turn in turns}
        async with place.opened("imported") as service:
            there = await held(service)
            strangers = [t for turns in there.turns.values() for t in turns if t[0] not in known_ids]
            demand(f"turn {turn} is in no export" for turn in strangers)
            for _ in range(2):
                await service.import_from(place.folder / "all.jsonl")
                demand(differences(wanted, await held(service), set()))
            await diagnose(service)
        place.drop("imported")


class Upgrade:
    """What version 0.1.0 wrote, opened by this one, which upgrades it, and written to."""

    weight: ClassVar = 1

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
        """What is killed."""
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
                    if [[turn.id, turn.seq, turn.role, turn.content] for turn in found] != turns:
                        raise Wrong(f"the turns of {whose}/{thread} are not what version 0.1.0 wrote")
            new = await store.list_turns(Scope(user_id="ada", thread_id="new"))
            if [turn.content for turn in new] != [f"new {number}" for number in range(3)]:
                raise Wrong(f"new turns beside the old ones: {[turn.content for turn in new]}")
            if (await store.schema()).left:
                raise Wrong("the upgrade is not finished")
            findings = [
                each
                async for each in Examiner(
                    store, None, None, now=place.clock.now(), moment_seconds=0.1
                ).findings()
            ]
            demand(f"doctor: {each.what} ({each.scope})" for each in findings if each.wrong)
        finally:
            await store.close()
        place.drop("old")


class Rebuild:
    """Everybody embedded anew by another model, each round by the other of two, while exchanges are stored."""

    weight: ClassVar = 2

    async def prepare(self, place: Place) -> None:
        """Nothing."""

    async def work(self, place: Place) -> None:
        """What is killed."""
        async with place.opened(model=f"model {place.round % 2}") as service:
            talking = asyncio.create_task(self._talk(place, service))
            await self._rebuild(service)
            await talking

    async def _talk(self, place: Place, service: MemoryService) -> None:
        caller = Caller(place, service)
        for number in range(4):
            await caller.make(say(USERS[number % 2], f"{place.round}-rebuild-{number}", "chat"))

    async def _rebuild(self, service: MemoryService) -> None:
        while (step := await service.rebuild_next()).done < step.users:
            await service.settle(120)
        await service.settle(120)

    async def check(self, place: Place) -> None:
        """Everything acknowledged; gone on with, the rebuild leaves nothing that the other model embedded."""
        await check_main(place, thorough=False)
        async with place.opened(model=f"model {place.round % 2}") as service:
            await self._rebuild(service)
            demand(
                [f"{left} turns were not rebuilt"] if (left := (await service.status()).to_rebuild) else []
            )
            await diagnose(service)


KINDS: Final[dict[str, Any]] = {
    "life": Life(),
    "backup": Backup(),
    "restore": Restore(),
    "import": Import(),
    "upgrade": Upgrade(),
    "rebuild": Rebuild(),
}
"""A kind of job is one more entry: `prepare` a place, `work` until it is killed, `check` what is left; `weight`: how often."""


async def finish(place: Place) -> int:
    """At last: every erasure to its end, the doctor, and no byte of what was forgotten; how many texts and ids were looked for."""
    from memory_agent.work.remains import remains_in

    clock = place.clock
    async with MemoryService(place.settings(), embedder=HashEmbedder(), clock=clock) as service:
        demand(differences(place.model.now, await held(service), set(place.model.gone)))
        await diagnose(service)
        async with asyncio.timeout(300):
            while {one.state for one in await service.erasures()} & {"owed", "swept"}:
                clock.ahead += timedelta(minutes=15)
                await asyncio.sleep(0.1)
        await diagnose(service)
    if place.mongo_uri is not None:
        return 0
    looked_for = random.Random(place.seed).sample(place.model.gone, min(len(place.model.gone), 2_000))
    demand(f"{one.text!r} is still in {one.file}" for one in remains_in(place.folder / "main", looked_for))
    return len(looked_for)
