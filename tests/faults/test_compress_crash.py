"""kill -9 before and after every write about compressions and sessions: both are whole, and no turn is without."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from memory_agent import MemoryAgent, MemoryService
from memory_agent.domain import Compression, SummaryItem, Turn
from memory_agent.errors import IdempotencyKeyReused, TurnsParked
from tests import profiles
from tests.faults.compress_jobs import (
    CALLS,
    SECRET,
    SECRET_AT,
    SESSIONS_OF_TEXTS,
    SETTINGS,
    TEXTS,
    say_call,
    talk,
)
from tests.faults.killing import HOUR, acknowledged, end_erasures, kill_at_every_write
from tests.faults.nursery import Nursery
from tests.faults.topic_jobs import AheadClock, Database, opened

Check = Callable[[MemoryService, MemoryAgent], Awaitable[bool]]

TURNS = 14
THROUGH = (6, 12)
"""Where so many turns are compressed."""
OPENED_AHEAD = [1, 1, 4, 5, 6, 7]
"""The sessions of TEXTS where the second call's two were opened before it died."""
KEPT_OPEN = [1, 1, 1, 2, 3, 5]
"""And where it died before the session that the third call, a repeat, had opened was taken back."""
_RACES = 20 if profiles.chosen() == "nightly" else 6


async def fill(database: Database, *, compressed: bool) -> list[Turn]:
    """The talk, kept; its turns."""
    async with opened({**database.settings, "run_worker": compressed}) as service:
        memory = service.agent("ann", "chat")
        turns = await memory.add_turns(talk(TURNS))
        if compressed:
            await memory.settle(200)
            assert tuple(made.through for made in await memory.compressions()) == THROUGH
    database.keep()
    return turns


# --- what holds whatever died --------------------------------------------------------------------------------


async def check_compressions(memory: MemoryAgent) -> list[Compression]:
    """What `check_covering` says, nothing owed, and nothing due. The compressions."""
    status = await memory.status()
    assert (status.owed_count, status.parked_count, status.erasures) == (0, 0, 0)
    made = await check_covering(memory)
    turns = (await memory.history(limit=10_000)).turns
    after = made[-1].through if made else 0
    assert sum(turn.seq > after for turn in turns) < SETTINGS["compress_every_turns"]
    return made


async def check_covering(memory: MemoryAgent) -> list[Compression]:
    """Numbered without gaps, each of exactly the turns after the one before. The compressions."""
    turns = (await memory.history(limit=10_000)).turns
    made = await memory.compressions()
    assert [compression.number for compression in made] == list(range(1, len(made) + 1))
    after = 0
    for compression in made:
        assert compression.tokens_after > 0
        covered = tuple(turn.id for turn in turns if after < turn.seq <= compression.through)
        assert (compression.after_seq, compression.covers) == (after, covered)
        assert covered
        after = compression.through
        assert compression.turns == sum(turn.seq <= after for turn in turns)
    return made


async def check_sessions(memory: MemoryAgent) -> list[int]:
    """Numbers of sessions are unique, and rise with their turns; every turn belongs to one that is stored.

    Each turn's number.
    """
    sessions = await memory.sessions()
    assert len({session.number for session in sessions}) == len(sessions)
    used = [session.number for session in sessions if session.total_turns]
    assert used == sorted(used)
    by_id = {session.id: session.number for session in sessions}
    assert len(by_id) == len(sessions)
    turns = (await memory.history(limit=10_000)).turns
    of_turns = [by_id[turn.session_id or ""] for turn in turns]
    for session in sessions:
        page = await memory.history(session.id, limit=10_000)
        assert [turn.session_id for turn in page.turns] == [session.id] * of_turns.count(session.number)
        assert session.total_turns == len(page.turns)
    return of_turns


async def state_of(memory: MemoryAgent) -> Any:
    """What two runs have in common: the turns, the compressions but for ids, times and the tokens of the titles that topics had by then, and
    what stands for them.
    """
    turns = [(turn.seq, turn.id, turn.content) for turn in (await memory.history(limit=10_000)).turns]
    made = [
        tuple(
            getattr(compression, name)
            for name in compression.__slots__
            if name not in ("id", "at", "tokens_after")
        )
        for compression in await memory.compressions()
    ]
    return turns, made, await memory.session_context(), await memory.session_context(through=13)


async def kill(
    nursery: Nursery,
    database: Database,
    job: dict[str, Any],
    check: Check,
    *,
    least: int,
    worker: bool = True,
) -> None:
    """Kill the job at each of its writes; after a restart and all that is owed, `check`.

    Where `check` says so, the secret is in no file and no document any more.
    """
    settings = {**database.settings, "run_worker": worker}

    async def recover(_: int) -> None:
        clock = AheadClock(HOUR)
        async with opened(settings, clock=clock) as service:
            if worker:
                await end_erasures(service, clock)
                await service.settle(200)
            forgotten = await check(service, service.agent("ann", "chat"))
        if forgotten:
            check_forgotten(database)

    job = {"settings": settings, **job}
    await kill_at_every_write(nursery, database, job, recover, least=least, after=2)


# --- compressing ---------------------------------------------------------------------------------------------


async def test_killed_while_compressing(nursery: Nursery, database: Database) -> None:
    """Killed at any write of the stages, a thread gets the compressions that it would have got, and none twice."""
    database.settings |= {"enable_topics": True, "max_messages_per_topic": 1_000, "worker_batch_turns": 10}
    said = [turn["content"] for turn in talk(TURNS)]
    await fill(database, compressed=False)
    undisturbed: list[Any] = []

    async def check(_: MemoryService, memory: MemoryAgent) -> bool:
        assert tuple(made.through for made in await check_compressions(memory)) == THROUGH
        assert [turn.content for turn in (await memory.history(limit=100)).turns] == said
        state = await state_of(memory)
        undisturbed.append(state)
        assert state == undisturbed[0]
        return False

    job = {"kind": "settle", "watched": ("turns", "compressions")}
    await kill(nursery, database, job, check, least=9)


async def test_a_compression_does_not_follow_one_that_was_made_anew(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Made of a compression with forgotten words, it is not stored behind the one that replaced that and goes as far."""
    monkeypatch.setattr("memory_agent.context.conversation.LEAST_TOKENS", 0)  # else it is shown whole
    await fill(database, compressed=False)
    at_once = {**database.settings, "run_worker": False, "compress_every_turns": 1_000}
    async with opened(at_once) as service:
        memory, compressor = service.agent("ann", "chat"), service.core.compressor
        turns = (await memory.history()).turns
        await compressor.compress(memory.scope, through=12)
        (before,) = await memory.compressions()
        assert SECRET in str(before)
        summarize, slow = compressor.summaries.model.summarize, iter([True])

        async def meanwhile(previous: Sequence[SummaryItem], new: Sequence[Turn]) -> tuple[SummaryItem, ...]:
            """While the model answers, the turn is forgotten, and the first compression made anew."""
            reply = await summarize(previous, new)
            if next(slow, False):
                await memory.forget([turns[SECRET_AT - 1].id])
                await compressor.compress(memory.scope, through=12)
            return reply

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(compressor.summaries.model, "summarize", meanwhile)
            await memory.compress()
        made = await memory.compressions()
        assert [(compression.number, compression.through) for compression in made] == [(1, 12), (2, TURNS)]
        assert [compression.turns for compression in made] == [11, TURNS - 1]
        assert SECRET not in str(made)


async def test_a_turn_parked_at_another_stage_holds_up_no_compression(database: Database) -> None:
    """A turn that cannot be indexed does not keep its conversation from being compressed."""
    await fill(database, compressed=False)
    async with opened({**database.settings, "run_worker": False}) as service:
        memory = service.agent("ann", "chat")
        broken = (await memory.history()).turns[2].id
        await service.core.store.postpone(memory.scope, [broken], error="broken", due_at=None, counted=True)
    async with opened(database.settings) as service:
        memory = service.agent("ann", "chat")
        with pytest.raises(TurnsParked, match="broken"):
            await memory.settle(200)
        assert tuple(made.through for made in await memory.compressions()) == THROUGH


# --- sessions ------------------------------------------------------------------------------------------------


async def test_killed_while_sessions_open(nursery: Nursery, database: Database) -> None:
    """Killed at any write of calls that open sessions, no turn is without one, and a repeat completes the rest.

    Where sessions were opened and their turns not yet stored, the repeat opens its own, and those stay without any.
    """
    database.keep()

    async def check(_: MemoryService, memory: MemoryAgent) -> bool:
        done = acknowledged(database)
        said = [turn.content for turn in (await memory.history()).turns]
        assert said == [*TEXTS[: len(said)]]
        assert len({text for number in map(int, done) for text, _ in CALLS[number][1]} - {*said}) == 0
        await check_sessions(memory)
        for again in (False, True):  # the second time all is there, and the sessions it opens are taken back
            for number in range(len(CALLS)):
                await say_call(memory, number)
            if again:
                with pytest.raises(IdempotencyKeyReused, match="another timestamp"):
                    await say_call(memory, 1, later=30)
            assert [turn.content for turn in (await memory.history()).turns] == [*TEXTS]
            numbers = await check_sessions(memory)
            assert numbers in ([*SESSIONS_OF_TEXTS], OPENED_AHEAD, KEPT_OPEN)
            known = sorted(session.number for session in await memory.sessions())
            assert known == list(range(1, numbers[-1] + 1))
        return False

    job = {"kind": "say", "watched": ("turns", "sessions")}
    await kill(nursery, database, job, check, least=9, worker=False)


# --- forgetting ----------------------------------------------------------------------------------------------


async def test_killed_while_forgetting_a_compressed_turn(nursery: Nursery, database: Database) -> None:
    """Killed at any write of a forget call, no compression that covers the turn is left, and others are made instead."""
    turns = await fill(database, compressed=True)
    assert SECRET in database.raw().everything
    gone = turns[SECRET_AT - 1].id

    async def check(service: MemoryService, memory: MemoryAgent) -> bool:
        made = await check_compressions(memory)
        if len((await memory.history()).turns) == TURNS:  # killed before the call was recorded
            assert await service.core.store.receipts() == []
            assert tuple(compression.through for compression in made) == THROUGH
            return False
        # It may have fallen due at the sixth turn while the forgotten one was there, and be made without it.
        assert [c.through for c in made] in ([*THROUGH], [THROUGH[0], THROUGH[1] + 1])
        assert all(gone not in compression.covers for compression in made)
        read = [made, await memory.session_context()]
        read += [await memory.session_context(through=turn.seq) for turn in turns]
        assert SECRET not in str([*map(str, read), read])
        return True

    job = {"kind": "drop", "turn_ids": [gone], "watched": ("erasures", "turns", "compressions")}
    await kill(nursery, database, job, check, least=8)


async def test_a_worker_that_looked_before_a_compression_was_dropped(database: Database) -> None:
    """It strikes the stage off as not needed, though what it saw is gone: the forget call's last pass owes it again."""
    turns = await fill(database, compressed=True)
    clock = AheadClock()
    async with opened({**database.settings, "run_worker": False}, clock=clock) as service:
        memory = service.agent("ann", "chat")
        await memory.forget([turns[SECRET_AT - 1].id])
        assert tuple(made.through for made in await memory.compressions()) == THROUGH[:1]
        await service.core.store.strike_off(memory.scope, [turns[-1].id], "compress")
    async with opened(database.settings, clock=clock) as service:
        await end_erasures(service, clock)
        await service.settle(200)
        await check_compressions(service.agent("ann", "chat"))


async def test_killed_while_clearing(nursery: Nursery, database: Database) -> None:
    """Killed at any write of a clear(), no compression, session or search row of the thread is left, and no word of any turn."""
    await fill(database, compressed=True)

    async def check(service: MemoryService, memory: MemoryAgent) -> bool:
        left = (await memory.history()).turns
        assert len(left) in (0, TURNS)
        if left:  # killed before the call was recorded
            assert await service.core.store.receipts() == []
            return False
        rows = await service.core.store.search_rows("ann")
        assert all(row.erased and not row.terms and not row.vectors.size for row in rows)
        assert (await memory.sessions(), await memory.compressions()) == ([], [])
        assert SECRET not in f"{await memory.session_context()}"
        return True

    job = {
        "kind": "drop",
        "turn_ids": None,
        "watched": ("erasures", "compressions", "sessions", "search_rows"),
    }
    await kill(nursery, database, job, check, least=4)


async def test_forgotten_while_it_is_compressed(database: Database) -> None:
    """Whichever is quicker, once a turn is forgotten no compression covers it, and none has a word of it."""
    async with opened({**database.settings, "run_worker": False}) as service:
        for number in range(_RACES):
            memory = service.agent("ann", f"chat {number}")
            turns = await memory.add_turns(talk(TURNS))
            gone = turns[SECRET_AT - 1].id

            async def forget(memory: MemoryAgent, gone: str, after: float) -> None:
                await asyncio.sleep(after)
                await memory.forget([gone])

            await asyncio.gather(memory.compress(), forget(memory, gone, number / _RACES * 0.03))
            made = await memory.compressions()
            assert not any(gone in compression.covers for compression in made)
            assert SECRET not in str(made)
            await memory.compress()
            await check_covering(memory)


def check_forgotten(database: Database) -> None:
    """The secret is nowhere at rest, in whichever case; nobody may have the database open."""
    assert SECRET.casefold() not in database.raw().everything.casefold()
    files = [path for path in Path(database.settings["data_dir"]).rglob("*") if path.is_file()]
    assert [path.name for path in files if SECRET.casefold().encode() in path.read_bytes().lower()] == []


# --- many at once --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("database", ["server"], indirect=True)
async def test_many_processes_on_one_thread(nursery: Nursery, database: Database) -> None:
    """Several processes talk and two compress: one session has all turns, each call's side by side and in its writer's order."""
    writers, each = (8 if profiles.chosen() == "nightly" else 4), 9
    folder = Path(database.settings["data_dir"]).parent
    job = {"settings": database.settings, "folder": str(folder), "writers": writers, "each": each}
    nursery.spawn({**job, "kind": "crowd", "processes": writers + 2})
    assert nursery.wait() == 0
    async with opened({**database.settings, "run_worker": False}) as service:
        memory = service.agent("ann", "chat")
        turns = (await memory.history(limit=1_000)).turns
        assert [turn.seq for turn in turns] == list(range(1, 2 * writers * each + 1))
        said = [turn.content for turn in turns]
        for writer in range(writers):
            own = [text for text in said if text.startswith(f"{writer}:")]
            assert own == [f"{writer}:{kind} {n}" for n in range(each) for kind in ("question", "answer")]
        assert said[1::2] == [question.replace("question", "answer") for question in said[::2]]
        made = await check_compressions(memory)
        assert len(made) > 1
        assert all(len(compression.covers) >= SETTINGS["compress_every_turns"] for compression in made)
        assert await check_sessions(memory) == [1] * len(turns)
        (session,) = await memory.sessions()
        assert session.compression_count == len(made)
