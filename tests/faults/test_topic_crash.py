"""kill -9 before and after every write of topic assignment, compaction and sweeps: nothing is lost, nothing doubled."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import re
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, cast

import pytest

from memory_agent import MemoryService, Scope, SweepRunning
from memory_agent.domain import Topic, Turn
from memory_agent.topics.index import opener_of
from memory_agent.topics.projection import emptied
from memory_agent.topics.sweep import SweepAction
from tests import profiles
from tests.faults.killing import HOUR, end_erasures, kill_at_every_write
from tests.faults.nursery import Nursery
from tests.faults.topic_jobs import (
    FADING,
    FADING_THREADS,
    PAGE,
    THREADS,
    AheadClock,
    Database,
    Mongo,
    fill_threads,
    opened,
    said,
)

Check = Callable[[MemoryService], Awaitable[None]]
State = dict[str, Any]

SETTINGS: dict[str, Any] = {}
WATCHED = ("turns", "topics", "segments")
ANN, BOB, CORA, DAN = (Scope(user_id=user, thread_id="chat") for user in ("ann", "bob", "cora", "dan"))
EVERYBODY = (ANN, BOB, CORA, DAN)
GONE = ("compost", "violin", "clutch", "harbour", "telescope")
"""Words of what a sweep that deletes lets go; the last of the turns past the retention age."""


# --- what is in them -----------------------------------------------------------------------------------------


async def fill(database: Database) -> None:
    """Topics of all kinds: compacted and not, one merged into another, faded and fresh, settled, and old ones."""
    now = datetime.now(UTC)
    faded, old = now - timedelta(days=100), now - timedelta(days=500)
    first = said(*["garden"] * 4, *["music"] * 2, *["car"] * 4, at=faded)
    async with opened(database.settings) as service:
        ann = service.agent("ann", "chat")
        await ann.add_turns(first)
        await service.agent("bob", "chat").add_turns(said(*["boat"] * 4, *["food"] * 2, at=faded))
        await service.agent("cora", "chat").add_turns(said("food", "code", "food", at=now))
        await service.agent("dan", "chat").add_turns(said("stars", "stars", at=old))
        await service.settle(200)
        by_word = {topic.opener.split()[0]: topic.topic_id for topic in await ann.topics()}
        await ann.merge_topics(by_word["violin"], into=by_word["gearbox"])
        await service.settle(200)
        await _as_if_merge_was_cut_short(service, by_word["violin"])
    async with opened({**database.settings, "max_messages_per_topic": 1_000}) as service:
        await service.agent("ann", "chat").add_turns(
            said(*["garden"] * 4, *["food"] * 4, at=faded + timedelta(days=1), first=len(first))
        )
        await service.settle(200)
    database.keep()


async def _as_if_merge_was_cut_short(service: MemoryService, absorbed: str) -> None:
    """A merge archives what it absorbed as its last step; without it, that is left to the sweep."""
    (topic,) = await service.core.store.list_topics(ANN, ids=[absorbed], archived=True)
    stands = dataclasses.replace(topic, archived=False)
    assert await service.core.store.save_topics([stands])


async def state_of(service: MemoryService) -> State:
    """Everybody's turns and topics, but for what differs from run to run."""
    store = service.core.store
    state: State = {}
    for scope in EVERYBODY:
        turns = [
            (turn.seq, turn.id, turn.role, turn.content, turn.topic_id, turn.compressed)
            for turn in await store.list_turns(scope)
        ]
        stats = await service.agent(scope.user_id, "chat").topics(include_archived=True)
        ratios = {topic.topic_id: round(topic.compression_ratio, 6) for topic in stats}
        state[scope.user_id] = (turns, [*map(_topic, await store.list_topics(scope))], ratios)
    return state


def _topic(topic: Topic) -> dict[str, Any]:
    fields: dict[str, Any] = {name: getattr(topic, name) for name in topic.__slots__ if name != "revision"}
    fields["embedding"] = topic.embedding.tolist()
    if topic.summary is not None:
        fields["summary"] = (
            topic.summary.text,
            topic.summary.made_by,
            topic.summary.through,
            topic.summary.turns,
        )
    return fields


async def check_whole(service: MemoryService, database: Database) -> None:
    """Nothing is owed, every text is in one place, and topics say of their turns what is so."""
    status = await service.status()
    assert (status.owed_count, status.parked_count, status.erasures) == (0, 0, 0)
    raw = database.raw()
    places = [(turn_id, segment) for segment, texts in raw.segments.items() for turn_id in texts]
    packed = {turn_id: segment for turn_id, (segment, _) in raw.turns.items() if segment is not None}
    assert sorted(places) == sorted(packed.items())  # each once, none that is not pointed at
    assert all(raw.segments.values())
    assert all(bool(text) == (turn_id not in packed) for turn_id, (_, text) in raw.turns.items())
    for scope in EVERYBODY:
        await _check_thread(service, scope)


async def _check_thread(service: MemoryService, scope: Scope) -> None:
    store, agent = service.core.store, service.agent(scope.user_id, "chat")
    turns = await store.list_turns(scope)
    assert [turn.seq for turn in turns] == sorted({turn.seq for turn in turns})
    told = Counter[str]()
    for stats in await agent.topics(include_archived=True):
        (topic,) = await store.list_topics(scope, ids=[stats.topic_id])
        of_topic = [turn for turn in turns if turn.topic_id in topic.turns_of]
        _check_topic(topic, of_topic)
        assert (stats.total_messages, stats.compressed_messages) == (
            len(of_topic),
            sum(turn.compressed for turn in of_topic),
        )
        history = await agent.topic_history(topic.id)
        assert [message["content"] for message in history] == [turn.content for turn in of_topic]
        told.update(turn.id for turn in of_topic)
    assert told == {turn.id: 1 for turn in turns}


def _check_topic(topic: Topic, turns: Sequence[Turn]) -> None:
    """Its derived fields are those of its turns, counted here once more."""
    users = [turn for turn in turns if turn.role == "user"]
    assert turns
    expected = (opener_of(users[0].content), len(users) - 1, turns[-1].seq, False)
    assert (topic.opener, topic.access_count, topic.through, topic.stale) == expected
    if topic.summary is not None:
        assert topic.summary.turns == sum(turn.seq <= topic.summary.through for turn in turns)
    if not topic.archived and any(turn.compressed for turn in turns):
        assert topic.summary is not None
        assert topic.summary.through == max(turn.seq for turn in turns if turn.compressed)


async def check_fold(database: Database) -> None:
    """Every topic of the last recovery, which all others equal, is what it becomes when it is made anew from its turns.

    Summaries are left out.
    """
    async with opened({**database.settings, "run_worker": False}) as service:
        store = service.core.store
        for scope in EVERYBODY:
            topics = await store.list_topics(scope)
            for topic in topics:
                assert await store.save_topics([emptied(topic)])
            await service.core.folder.renew_stale(scope)
            anew = [{**_topic(topic), "summary": None} for topic in await store.list_topics(scope)]
            assert anew == [{**_topic(topic), "summary": None} for topic in topics]


# --- killing -------------------------------------------------------------------------------------------------


async def kill(
    nursery: Nursery, database: Database, job: dict[str, Any], also: Check, *, sweeps: bool, **kills: int
) -> None:
    """Kill the job at its writes; after each kill what is owed is done, all is whole, and as it is `also` checked."""

    async def recover(pid: int) -> State:
        clock = AheadClock(timedelta() if sweeps else HOUR)
        async with opened(database.settings, clock=clock) as service:
            if sweeps:
                await _says_who_sweeps(service, pid)
                clock.ahead = HOUR
                assert (await service.sweep()).whole
                await end_erasures(service, clock)
            await service.settle(30)
            await check_whole(service, database)
            await also(service)
            return await state_of(service)

    job["watched"] = [*WATCHED, *job.get("watched", ())]
    await kill_at_every_write(nursery, database, job, recover, **kills)
    await check_fold(database)


async def _says_who_sweeps(service: MemoryService, pid: int) -> None:
    """As long as the dead sweep's lease lasts, another one says whose it is and since when. Embedded it ends with its process."""
    lease = await service.core.store.load_lease("sweep")
    if lease is not None and lease.until > service.clock.now():
        since = lease.since.isoformat(timespec="seconds")
        with pytest.raises(SweepRunning, match=rf"process {pid}, .*, since {re.escape(since)}"):
            await service.sweep()


async def test_killed_while_topics_are_assigned(nursery: Nursery, database: Database) -> None:
    """Killed at any write of the stages up to topics, a thread's turns get the topics that they would have got."""
    database.settings |= {"worker_batch_turns": 10, "max_messages_per_topic": 1_000}
    about = [*["garden"] * 2, *["car"] * 3, *["garden"] * 2, *["food"] * 2, "car"]
    async with opened({**database.settings, "run_worker": False}) as service:
        await service.agent("ann", "chat").add_turns(said(*about, at=datetime.now(UTC)))
    database.keep()

    async def three_topics(service: MemoryService) -> None:
        assert len(await service.agent("ann", "chat").topics()) == 3

    await kill(nursery, database, {"kind": "settle"}, three_topics, sweeps=False, least=12)


async def test_killed_while_compacting(nursery: Nursery, database: Database) -> None:
    """Killed at any write of a compaction, the next worker ends it as if nothing had been."""
    await fill(database)
    async with opened({**database.settings, "run_worker": False}) as service:
        await service.core.store.owe(ANN, "compact", now=service.clock.now())
    database.keep()

    async def packed(service: MemoryService) -> None:
        assert any(turn.compressed for turn in await service.core.store.list_turns(ANN))

    await kill(nursery, database, {"kind": "settle"}, packed, sweeps=False, least=14)


async def test_killed_while_sweeping(nursery: Nursery, database: Database) -> None:
    """Killed at any write of a sweep, the next one goes on once the lease has run out, and ends it."""
    await fill(database)

    async def archived(service: MemoryService) -> None:
        topics = await service.core.store.list_topics(ANN, archived=True)
        assert len(topics) == len(("garden", "car", "music, which is in car"))

    job = {"kind": "sweep", "watched": ("leases",)}
    await kill(nursery, database, job, archived, sweeps=True, least=18)


async def test_killed_while_a_sweep_deletes(nursery: Nursery, database: Database) -> None:
    """Killed at any third write of a sweep that deletes, what had to go is gone everywhere in the end, and nothing else."""
    database.settings |= {"decay_policy": "delete", "retention_days": 400, "resident_max_turns": 0}
    await fill(database)

    async def deleted(service: MemoryService) -> None:
        await end_erasures(service, cast("AheadClock", service.clock))
        await service.settle(30)
        await _check_deleted(service, database)

    job = {"kind": "sweep", "watched": ("leases", "search_rows", "erasures")}
    await kill(nursery, database, job, deleted, sweeps=True, least=10, step=3, after=2)


async def _check_deleted(service: MemoryService, database: Database) -> None:
    """No word of the faded topics and of the old turns is left; rows and vectors are those of the turns that are."""
    everything = database.raw().everything
    assert [word for word in GONE if word in everything] == []
    for scope in EVERYBODY:
        ids = {turn.id for turn in await service.core.store.list_turns(scope)}
        assert bool(ids) == (scope != DAN)
        rows = await service.core.store.search_rows(scope.user_id)
        assert {row.turn_id for row in rows if not row.erased} == ids
        assert all(not row.terms and not row.vectors.size for row in rows if row.erased)
        assert await service.core.vectors.turn_ids(scope.user_id) == ids


# --- many threads --------------------------------------------------------------------------------------------


async def swept_threads(service: MemoryService) -> list[tuple[str, str, bool, bool]]:
    """How the faded threads' topics stand: archived, packed."""
    store = service.core.store
    standing = []
    for number in FADING:
        scope = Scope(user_id=f"user {number % 7}", thread_id=f"thread {number:03}")
        turns = {turn.id: turn for turn in await store.list_turns(scope)}
        standing += [
            (topic.id, turns[topic.id].content, topic.archived, turns[topic.id].compressed)
            for topic in await store.list_topics(scope)
        ]
    return standing


@pytest.mark.parametrize("database", profiles.by_day("server", "embedded"), indirect=True)
async def test_an_interrupted_sweep_is_resumed_and_of_two_one_works(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The sweep after one that was interrupted does what is left, looks at nothing twice, and ends as one sweep would."""
    monkeypatch.setattr("memory_agent.topics.sweep._PAGE", PAGE)
    await fill_threads(database)
    whole: list[SweepAction] = []
    async with opened({**database.settings, "run_worker": False}) as service:
        report = await service.sweep(each=whole.append)
        expected = await swept_threads(service)
    assert (report.resumed, report.threads, report.archived) == (False, THREADS, 2 * FADING_THREADS)
    database.put_back()
    done: list[SweepAction] = []

    def interrupt(action: SweepAction) -> None:
        done.append(action)
        if len(done) == FADING_THREADS:  # in the middle of a thread
            task.cancel()

    async with opened({**database.settings, "run_worker": False}) as service:
        task = asyncio.create_task(service.sweep(each=interrupt))
        with pytest.raises(asyncio.CancelledError):
            await task
        before = list(done)
        report = await service.sweep(each=done.append)
        assert report.resumed
        assert 0 < report.threads < THREADS
        assert (report.archived, report.failed) == (len(whole) - len(before), 0)
        assert [(a.deed, a.topic_id) for a in done] == [(a.deed, a.topic_id) for a in whole]
        assert await swept_threads(service) == expected
        again = await service.sweep()
        assert (again.resumed, again.threads, again.archived) == (False, THREADS, 0)
    database.put_back()
    await of_two_sweeps_one_works(database)


async def of_two_sweeps_one_works(database: Database) -> None:
    """The other says who works and since when; afterwards it works as well."""
    settings = {**database.settings, "run_worker": False}
    async with contextlib.AsyncExitStack() as stack:
        one = other = await stack.enter_async_context(opened(settings))
        if isinstance(database, Mongo):
            other = await stack.enter_async_context(opened(settings))
        sweeping = asyncio.create_task(one.sweep())
        while (lease := await one.core.store.load_lease("sweep")) is None:
            await asyncio.sleep(0)
        said_by_other = f"{lease.holder}, since {lease.since.isoformat(timespec='seconds')}"
        with pytest.raises(SweepRunning, match=re.escape(said_by_other)):
            await other.sweep()
        assert not sweeping.done()
        assert (await sweeping).archived == 2 * FADING_THREADS
        report = await other.sweep()
        assert (report.threads, report.archived, report.resumed) == (THREADS, 0, False)
        results = await asyncio.gather(one.sweep(), other.sweep(), return_exceptions=True)
        assert sorted(type(result).__name__ for result in results) == ["SweepReport", "SweepRunning"]
