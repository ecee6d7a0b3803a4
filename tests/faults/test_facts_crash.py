"""kill -9 before and after every write of extraction, edits, replays and forgetting: facts are whole, and none is lost."""

from __future__ import annotations

import asyncio
import contextlib
import signal
from collections import Counter
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pymongo
import pytest

from memory_agent import TurnsParked
from memory_agent.facts.fold import fold
from memory_agent.facts.order import applied_generations
from tests import profiles
from tests.faults.fact_jobs import SETTINGS, WATCHED, Model
from tests.faults.nursery import Nursery
from tests.faults.topic_jobs import AheadClock, Database, Folder, Mongo, opened

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator

    from memory_agent import MemoryAgent, MemoryService
    from tests.servers.mongod import Mongod

    Check = Callable[[MemoryService, MemoryAgent, list[str]], Awaitable[None]]

LIBRARIES = ("memory_agent.models.tokens", "brotli", "filelock", "snowballstemmer", "tomllib")
"""What the package imports only once it is needed."""
TALK = (
    "My sister is Zebulon.",
    "My dog is Rex.",
    "She agrees.",
    "My town is Bergen.",
    "My town is Oslo.",
    "Nothing to say.",
)
FACTS = {"sister": "Zebulon", "dog": "Rex", "agrees": ["Zebulon"], "town": "Oslo"}
WITHOUT_HER = {"dog": "Rex", "agrees": ["somebody"], "town": "Oslo"}


@pytest.fixture(scope="module")
def nursery() -> Iterator[Nursery]:
    """Processes without a model, one at a time."""
    started = Nursery(LIBRARIES)
    yield started
    started.close()


@pytest.fixture(params=["embedded", "server"])
def database(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Database]:
    """An empty database on either store."""
    if request.param == "embedded":
        yield _for_facts(Folder(tmp_path))
        return
    server: Mongod = request.getfixturevalue("mongod")
    with pymongo.MongoClient[Any](server.uri) as client:
        yield _for_facts(Mongo(tmp_path, server, request.getfixturevalue("db_name"), client))


def _for_facts(database: Database) -> Database:
    database.settings |= SETTINGS
    return database


async def fill(database: Database, *, extracted: bool, riddle: bool = False) -> list[str]:
    """The talk; the turns' ids."""
    async with opened({**database.settings, "run_worker": extracted}, llm=Model()) as service:
        memory = service.agent("ann", "chat")
        turns = await memory.add_turns([{"role": "user", "content": text} for text in TALK])
        if extracted:
            await memory.settle(60)
            assert await memory.fetch_facts() == FACTS
        if riddle:
            rhyme = await memory.add_user_message("A rhyme.")
            await memory.settle(60)
            assert "A rhyme about Zebulon." in str(await memory.fact_history())
            turns.append(rhyme)
            await memory.add_user_message("A riddle.")
            with pytest.raises(TurnsParked, match="A riddle about Zebulon"):
                await memory.settle(60)
    return [turn.id for turn in turns]


async def check_whole(service: MemoryService, memory: MemoryAgent) -> None:
    """What is read is the fold, and so is the document; each change is there once, none of turns that are gone."""
    store = service.parts.store
    changes = await store.fact_changes(memory.scope)
    assert await memory.fetch_facts() == fold(changes)
    document = await store.load_facts(memory.scope)
    if document.through == max((change.seq for change in changes), default=0):
        assert document.facts == fold(changes)
    await service.parts.facts.save(memory.scope)  # a kill may have left it behind, until the next change
    assert (await store.load_facts(memory.scope)).facts == fold(changes) == await memory.fetch_facts()
    ids = {turn.id for turn in await store.list_turns(memory.scope)}
    assert all({*change.turns} <= ids for change in changes)
    keys = Counter(change.key for change in changes)
    assert set(keys.values()) <= {1}
    seqs = [change.seq for change in changes]
    assert seqs == sorted({*seqs})


async def kill_at_every_write(
    nursery: Nursery, database: Database, job: dict[str, Any], check: Check, *, least: int
) -> None:
    """Run the job killed at each of its writes, `least` of them; after a restart and all that is owed, `check` it.

    On MongoDB at some of them: see `profiles.kills`.
    """
    folder = Path(database.settings["data_dir"]).parent
    acknowledged = folder / "acknowledged"
    job = {
        "kind": "facts",
        "settings": database.settings,
        "watched": WATCHED,
        "log": str(folder / "log"),
        "acknowledged": str(acknowledged),
        **job,
    }
    kills, dear = 0, isinstance(database, Mongo)
    for when in ("before", "after") if dear else ("before",):
        for at in profiles.kills(dear=dear):
            database.put_back()
            nursery.spawn({**job, "when": when, "at": at})
            code = nursery.wait()
            assert code in (0, -signal.SIGKILL)
            try:
                clock = AheadClock()
                clock.ahead = timedelta(hours=1)
                async with opened(database.settings, llm=Model(), clock=clock) as service:
                    async with asyncio.timeout(60):
                        while (await service.status()).erasures:
                            clock.ahead += timedelta(minutes=15)
                            await asyncio.sleep(0.02)
                    for _ in range(2):
                        with contextlib.suppress(TurnsParked):  # a riddle stays one
                            await service.settle(60)
                        # What was struck off while it was forgotten is owed again a moment later.
                        while any(service.parts.worker.at_work.values()):
                            await asyncio.sleep(0.01)
                    memory = service.agent("ann", "chat")
                    await check_whole(service, memory)
                    await check(service, memory, acknowledged.read_text().splitlines())
            except BaseException as exc:
                exc.add_note(f"killed {when} write {at}: {(folder / 'log').read_text()}")
                raise
            if code == 0:
                break
            kills += 1
    assert kills >= profiles.least(least, dear=dear)


async def test_killed_while_extracting(nursery: Nursery, database: Database) -> None:
    """Killed at any write of a batch's extraction, each turn's facts are there once in the end."""
    ids = await fill(database, extracted=False)
    database.keep()

    async def check(service: MemoryService, memory: MemoryAgent, _: list[str]) -> None:
        changes = await service.parts.store.fact_changes(memory.scope)
        assert sorted(change.turn_id or "" for change in changes) == ids[:5]
        assert await memory.fetch_facts() == FACTS
        assert (await memory.status()).extraction.requests >= 2

    await kill_at_every_write(nursery, database, {"step": "extract"}, check, least=8)


async def test_killed_while_editing(nursery: Nursery, database: Database) -> None:
    """Killed at any write of edits, every edit that was acknowledged counts, and the one in hand does or does not."""
    await fill(database, extracted=True)
    database.keep()

    async def check(service: MemoryService, memory: MemoryAgent, done: list[str]) -> None:
        changes = await service.parts.store.fact_changes(memory.scope)
        edits = [change.events[0] for change in changes if change.kind == "edit"]
        assert len(done) <= len(edits) <= len(done) + 1
        expected: dict[str, Any] = {}
        for number, op in enumerate(event.op for event in edits):
            if op == "set":
                expected[f"set{number // 3}"] = number // 3
            elif op == "add":
                expected["list"] = [f"add{number // 3}"]
            else:
                del expected["list"]
        assert (await memory.fetch_facts()).get("edits", {}) == expected

    await kill_at_every_write(nursery, database, {"step": "edit"}, check, least=12)


BETTER = {"better": {"sister": "Zebulon", "dog": "Rex", "agrees": ["Zebulon"], "town": "Oslo"}}


async def test_killed_while_applying_a_replay(nursery: Nursery, database: Database) -> None:
    """Killed at any write, the replay counts wholly or not at all, and wholly once it was acknowledged."""
    await fill(database, extracted=True)
    database.keep()

    async def check(service: MemoryService, memory: MemoryAgent, done: list[str]) -> None:
        changes = await service.parts.store.fact_changes(memory.scope)
        applied = applied_generations(changes)
        assert await memory.fetch_facts() == (BETTER if applied else FACTS)
        assert applied == done or not done
        if applied:
            await memory.undo_replay()
        else:  # what the dead one left behind is in nobody's way
            proposal = await memory.replay_facts()
            await memory.apply_replay(proposal)
            generations = {
                change.generation for change in await service.parts.store.fact_changes(memory.scope)
            }
            assert generations == {"", proposal.id}
            await memory.undo_replay()
        assert await memory.fetch_facts() == FACTS
        await check_whole(service, memory)

    job = {"step": "apply", "model": "better"}
    await kill_at_every_write(nursery, database, job, check, least=8)


async def test_killed_while_undoing_a_replay(nursery: Nursery, database: Database) -> None:
    """Killed at any write, the undoing counts wholly or not at all, and can be done again."""
    await fill(database, extracted=True)
    async with opened(database.settings, llm=Model("better")) as service:
        memory = service.agent("ann", "chat")
        replay_id = await memory.apply_replay(await memory.replay_facts())
        assert await memory.fetch_facts() == BETTER
    database.keep()

    async def check(service: MemoryService, memory: MemoryAgent, done: list[str]) -> None:
        applied = applied_generations(await service.parts.store.fact_changes(memory.scope))
        assert applied in ([], [replay_id])
        assert await memory.fetch_facts() == (BETTER if applied else FACTS)
        assert not (done and applied)
        if applied:
            assert await memory.undo_replay() == replay_id
            assert await memory.fetch_facts() == FACTS

    await kill_at_every_write(nursery, database, {"step": "undo"}, check, least=2)


async def test_killed_while_forgetting_what_others_had_in_view(nursery: Nursery, database: Database) -> None:
    """Killed at any write of a forget call, the turn, and what was understood with its help, are gone in the end."""
    ids = await fill(database, extracted=True, riddle=True)
    async with opened(database.settings, llm=Model()) as service:
        await service.agent("ann", "chat").set_fact("nickname", "Bee")
    database.keep()

    async def check(service: MemoryService, memory: MemoryAgent, done: list[str]) -> None:
        turns = await service.parts.store.list_turns(memory.scope)
        if len(turns) == len(TALK) + 2:  # killed before the call was recorded
            assert not done
            assert await memory.fetch_facts() == {**FACTS, "nickname": "Bee"}
            return
        assert [turn.id for turn in turns[:6]] == ids[1:]
        assert await memory.fetch_facts() == {**WITHOUT_HER, "nickname": "Bee"}
        history = str(await memory.fact_history())
        assert "Zebulon" not in history
        assert "Zebulon" not in str(await memory.status())
        changes = await service.parts.store.fact_changes(memory.scope)
        assert sorted(str(change.turn_id) for change in changes if change.turn_id) == [*ids[1:5], ids[6]]
        assert "A rhyme about somebody." in history
        # All at rest is read, whichever read may hide it.
        assert "zebulon" not in database.raw().everything.casefold()

    job = {"step": "forget", "turn_id": ids[0]}
    await kill_at_every_write(nursery, database, job, check, least=5)
