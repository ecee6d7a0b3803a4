"""The worker beside many users: nobody waits for somebody else's backlog, and who waits is told for what."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from numpy.typing import NDArray

from memory_agent import Busy, MemoryConfig, MemoryService, SettleTimeout
from memory_agent.clock import SystemClock
from memory_agent.domain import STAGES, ErasedCounts, Scope, Stage, TurnDraft
from memory_agent.errors import EmbedderUnavailable, StoreUnavailable
from memory_agent.stores.sqlite import SqliteStore
from memory_agent.testing import BruteForceIndex, HashEmbedder
from memory_agent.work.claims import lease_name
from tests.conformance.values import a_draft

SECONDS = 60
POLL_SECONDS = 60
"""Longer than a test waits, where a poll would hide that nobody was woken."""


class Watched(HashEmbedder):
    """An embedder that keeps the texts of each batch."""

    def __init__(self) -> None:
        super().__init__()
        self.batches: list[list[str]] = []

    async def embed(self, texts: Sequence[str], **options: Any) -> NDArray[Any]:
        self.batches.append(list(texts))
        return await super().embed(texts, **options)


@contextlib.asynccontextmanager
async def service_on(
    folder: Path, *, store: SqliteStore | None = None, embedder: HashEmbedder | None = None, **settings: Any
) -> AsyncIterator[MemoryService]:
    """An embedded service without a worker of its own, and its store, if it is given one, open as long."""
    cfg = MemoryConfig(data_dir=folder, **{"run_worker": False, **settings})
    parts: Any = {"store": store, "vectors": BruteForceIndex(), "embedder": embedder or HashEmbedder()}
    async with contextlib.AsyncExitStack() as stack:
        if store is not None:
            await store.open()
            stack.push_async_callback(store.close)
        yield await stack.enter_async_context(MemoryService(cfg, **parts))


@contextlib.asynccontextmanager
async def working(service: MemoryService) -> AsyncIterator[None]:
    """The service's worker, in this process, until the block ends."""
    stop = asyncio.Event()
    task = asyncio.create_task(service.run_worker(stop))
    yield
    stop.set()
    await task


# --- fairness ------------------------------------------------------------------------------------------------
async def test_a_short_history_is_indexed_in_one_batch(tmp_path: Path) -> None:
    """Eight at once, of which no batch holds all: each comes as a whole, since what comes again is read and written again."""
    embedder = Watched()
    async with service_on(tmp_path, embedder=embedder) as service:
        for user in range(8):
            said = [{"role": "user", "content": f"history {user} {number}"} for number in range(40)]
            await service.agent(f"user{user}", "chat").add_turns(said)
        async with working(service):
            await service.settle(SECONDS)
    for user in range(8):
        parts = [
            [text for text in batch if text.startswith(f"history {user} ")] for batch in embedder.batches
        ]
        assert [len(part) for part in parts if part] == [40]


class Ahead(Watched):
    """One that takes the texts of the next batch, and keeps them."""

    def __init__(self) -> None:
        super().__init__()
        self.ahead: list[list[str]] = []

    def embed_ahead(self, texts: Sequence[str]) -> None:
        self.ahead.append(list(texts))


async def test_the_next_batch_is_embedded_while_this_one_is_indexed(tmp_path: Path) -> None:
    embedder = Ahead()
    async with service_on(tmp_path, embedder=embedder, enable_topics=False) as service:
        said = [{"role": "user", "content": f"history {number}"} for number in range(600)]
        await service.agent("ann", "chat").add_turns(said)
        async with working(service):
            await service.settle(SECONDS)
    assert [len(batch) for batch in embedder.batches] == [256, 256, 88]
    assert embedder.ahead == embedder.batches[1:]


@pytest.mark.parametrize(
    ("threads", "turns"), [(1, 1_200), (60, 20), pytest.param(1, 20_000, marks=pytest.mark.nightly)]
)
async def test_an_import_holds_up_nobodys_exchange(tmp_path: Path, threads: int, turns: int) -> None:
    """However much one user brings, in one thread or many: what twenty others said later is indexed in the first two batches."""
    embedder = Watched()
    async with service_on(tmp_path, embedder=embedder) as service:
        for thread in range(threads):
            for start in range(0, turns, 5_000):
                said = [
                    {"role": "user", "content": f"import {thread} {number}"}
                    for number in range(start, min(start + 5_000, turns))
                ]
                await service.agent("importer", f"t{thread}").add_turns(said)
        live = [service.agent(f"user{number}", "chat") for number in range(20)]
        for number, memory in enumerate(live):
            await memory.update_memory(f"live {number}", "Noted.")
        async with working(service):
            await asyncio.gather(*(memory.settle(SECONDS) for memory in live))
        of_turns = [
            batch for batch in embedder.batches if any(text.startswith(("import", "live")) for text in batch)
        ]
        first = {text for batch in of_turns[:2] for text in batch}
        assert {f"live {number}" for number in range(20)} <= first
        assert any(text.startswith("import") for text in first)


# --- without a poll ------------------------------------------------------------------------------------------
class Uneven(SqliteStore):
    """A store that is long over giving leases back, and gives some users' turns their topics late, or only when asked again."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.leave = asyncio.Event()
        self.failing: dict[str, Exception] = {
            "left": ValueError("once"),
            "down": StoreUnavailable("once"),
            "down later": StoreUnavailable("once"),
        }

    async def release_leases(self, names: Sequence[str], holder: str) -> None:
        await asyncio.sleep(0.1)
        await super().release_leases(names, holder)

    async def assign_topics(self, scope: Scope, topics: Any) -> None:
        if scope.user_id == "slow":
            await self.leave.wait()
        if error := self.failing.pop(scope.user_id, None):
            raise error
        await super().assign_topics(scope, topics)


def owing(count: int, *stages: Stage, now: datetime) -> list[TurnDraft]:
    """Turns of one call that owe these stages."""
    drafts = [a_draft(index=index, size=count, pending=stages) for index in range(count)]
    return [replace(draft, due_at=now) for draft in drafts]


async def until_done(service: MemoryService, users: Iterable[str]) -> None:
    """Wait until these owe nothing, without waking the worker as `settle` would, and no longer than any poll."""
    scopes = [Scope(user_id=user, thread_id="chat") for user in users]
    for _ in range(POLL_SECONDS * 5):
        owed = [await service.core.store.owed_turns(scope, None, limit=1) for scope in scopes]
        if not any(owed):
            return
        await asyncio.sleep(0.05)
    raise AssertionError([turns[0].pending for turns in owed if turns])


async def test_each_stage_is_woken_by_the_one_before_whatever_becomes_of_other_threads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Threads of a few turns and of many, beside one that is slow, one left to a stage's own loop, and two whose store is away once."""
    monkeypatch.setattr("memory_agent.work.worker.POLL_SECONDS", POLL_SECONDS)
    store = Uneven(tmp_path / "memory.db")
    async with service_on(tmp_path / "data", store=store) as service:
        sizes = {"few": 5, "some": 16, "more": 17, "many": 40, "slow": 20}
        sizes |= {"left": 1, "down": 2, "down later": 25}
        for user, size in sizes.items():
            said = [{"role": "user", "content": f"I live in town {number}."} for number in range(size)]
            await service.agent(user, "chat").add_turns(said)
        async with working(service):
            await until_done(service, ("few", "some", "more", "many"))
            store.leave.set()
            await until_done(service, sizes)
            assert not store.failing
            # Behind turns that wait for a later stage, of which nobody has told the worker.
            behind = Scope(user_id="behind", thread_id="chat")
            await store.append_turns(behind, owing(20, "compress", now=service.clock.now()))
            await service.agent("behind", "chat").add_user_message("I live in Ulm.")
            await until_done(service, ("behind",))


# --- what happens while a batch is embedded ------------------------------------------------------------------
class Meanwhile(Watched):
    """An embedder beside which something happens, once; whoever embeds ends as it does."""

    def __init__(self) -> None:
        super().__init__()
        self.happens: list[Callable[[], Awaitable[object]]] = []

    async def embed(self, texts: Sequence[str], **options: Any) -> NDArray[Any]:
        if self.happens:
            await self.happens.pop(0)()
        return await super().embed(texts, **options)


class ReadAhead(SqliteStore):
    """A store that says when all that a thread owes has been read: beside the embedding, in no order of its own."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.read = asyncio.Event()

    async def owed_turns(self, scope: Scope, stage: Stage | None, **options: Any) -> Any:
        found = await super().owed_turns(scope, stage, **options)
        if stage is None:
            self.read.set()
        return found


async def test_what_is_owed_anew_meanwhile_is_not_struck_off_with_the_batch(tmp_path: Path) -> None:
    """A turn of before that waits for the last stage, and is to be indexed again and asked for facts while the next one is embedded."""
    embedder, kept = Meanwhile(), ReadAhead(tmp_path / "memory.db")
    async with service_on(tmp_path / "data", store=kept, embedder=embedder) as service:
        store, worker, scope = service.core.store, service.core.worker, Scope(user_id="ann", thread_id="chat")
        await store.append_turns(scope, owing(1, "compress", now=service.clock.now()))
        (before,) = await store.owed_turns(scope, None, limit=9)
        await service.agent("ann", "chat").add_user_message("I live in Ulm.")

        async def owe_anew() -> None:
            await kept.read.wait()
            for stage in ("index", "facts"):
                await store.owe(scope, stage, now=service.clock.now(), turn_ids=[before.id])

        embedder.happens.append(owe_anew)
        kept.read.clear()
        assert await worker._index_step()
        assert [(turn.id, turn.pending) for turn in await store.owed_turns(scope, None, limit=9)] == [
            (before.id, ("index", "facts"))
        ]


async def test_what_is_behind_an_embedder_that_goes_down_does_not_wait_for_a_poll(tmp_path: Path) -> None:
    """The leases of the stages behind are taken while a batch is embedded: their own loops look in vain, and nobody tells them after."""
    embedder, scope = Meanwhile(), Scope(user_id="ann", thread_id="chat")
    async with service_on(tmp_path, embedder=embedder) as service:
        store, worker = service.core.store, service.core.worker
        await store.append_turns(scope, owing(1, "compress", now=service.clock.now()))
        await service.agent("ann", "chat").add_user_message("I live in Ulm.")

        async def down() -> None:
            while not any(
                "compress" in lease.name for lease in await store.held_leases(service.clock.now(), limit=9)
            ):
                await asyncio.sleep(0.01)
            assert not await worker._step(worker._in_order[-1])
            raise EmbedderUnavailable("away")

        embedder.happens.append(down)
        await worker._index_step()
        pending = (await service.status(scope)).pending
        assert worker.down == {"embedder"}
        assert (pending["index"], pending["compress"]) == (1, 1)


async def test_settle_wakes_a_worker_nobody_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """However much of others' work moves meanwhile, and however short a time it is given, asked again and again."""
    monkeypatch.setattr("memory_agent.work.worker.POLL_SECONDS", POLL_SECONDS)
    async with service_on(tmp_path) as service, working(service):
        memory, worker = service.agent("ann", "chat"), service.core.worker
        await memory.add_user_message("I live in Ulm.")
        await memory.settle(SECONDS)

        async def others_move() -> None:
            while True:
                await asyncio.sleep(0.01)
                worker.moved.set()
                worker.moved = asyncio.Event()

        moving = asyncio.create_task(others_move())
        for seconds, times in ((POLL_SECONDS / 4, 1), (0.03, 100)):
            drafts = owing(1, "index", "topics", now=service.clock.now())
            await service.core.store.append_turns(memory.scope, drafts)
            for _ in range(times):
                with contextlib.suppress(SettleTimeout):
                    await memory.settle(seconds)
                    break
            else:
                raise AssertionError("it was never woken")
        moving.cancel()


# --- forgetting ----------------------------------------------------------------------------------------------
class Sweeping(SqliteStore):
    """A store that counts its sweeps, and makes them wait for leave."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.sweeps = 0
        self.begun, self.leave = asyncio.Event(), asyncio.Event()

    async def sweep_orphans(self, scope: Scope, **options: Any) -> ErasedCounts:
        self.sweeps += 1
        self.begun.set()
        await self.leave.wait()
        return await super().sweep_orphans(scope, **options)


async def test_last_passes_of_a_user_are_one_and_hold_up_no_exchange(tmp_path: Path) -> None:
    """A hundred forget calls cost one sweep; and while it takes its time, turns are indexed and settled."""
    store = Sweeping(tmp_path / "memory.db")
    async with service_on(tmp_path / "data", store=store) as service:
        memory = service.agent("ann", "chat")
        turns = await memory.add_turns([{"role": "user", "content": f"secret {n}"} for n in range(100)])
        for turn in turns:
            await memory.forget([turn.id])
        now = service.clock.now()
        for erasure in await store.due_erasures(now.replace(year=now.year + 1), limit=1_000):
            assert erasure.swept
            await store.put_erasure(replace(erasure, due_at=now))
        store.sweeps = 0
        async with working(service):
            await asyncio.wait_for(store.begun.wait(), SECONDS)
            other = service.agent("bob", "chat")
            await other.update_memory("I like the sea.", "Noted.")
            await other.settle(SECONDS)
            store.leave.set()
            while (await service.status()).erasures:
                await asyncio.sleep(0.02)
        assert store.sweeps <= 2  # the first may find the stubs of what was forgotten, and comes again then


# --- what is waited for --------------------------------------------------------------------------------------
class Down(HashEmbedder):
    """An embedder that is away."""

    async def embed(self, texts: Sequence[str], **options: Any) -> NDArray[Any]:
        raise EmbedderUnavailable("no such server")


async def test_settle_names_what_it_waits_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Stage, turns, whose, how old, and who is at it: nobody, this process's worker, or a part that is down; up to five threads."""
    async with service_on(tmp_path, embedder=Down()) as service:
        memory = service.agent("ann", "chat")
        await memory.update_memory("I like the sea.", "Noted.")
        # Counting reads all turns: for so short a time once, at the end.
        store, counted = service.core.store, list[Scope | None]()
        status = store.status

        async def counting(scope: Scope | None, **given: Any) -> Any:
            counted.append(scope)
            return await status(scope, **given)

        with monkeypatch.context() as patch:
            patch.setattr("memory_agent.service._SETTLE_COUNT_SECONDS", 60)
            patch.setattr(store, "status", counting)
            with pytest.raises(SettleTimeout) as idle:
                await memory.settle(0.05)
        assert counted == [memory.scope]
        said = str(idle.value)
        assert (
            "; no worker runs in this process; it waits for: index of 2 turn(s) of user 'ann', thread 'chat'"
            in said
        )
        assert said.endswith(" s old: due, and no worker is at it")
        for number in range(6):
            await service.agent("bob", f"t{number}").add_user_message("Hello")
        with pytest.raises(SettleTimeout) as many:
            await service.settle(0.05)
        assert str(many.value).count("index of ") == 5
        assert str(many.value).endswith("; and more")
        async with working(service):
            while not (await service.status()).outages:
                await asyncio.sleep(0.02)
            with pytest.raises(
                SettleTimeout, match=r"parts that are down: embedder: no such server; .*index of 2 turn"
            ):
                await memory.settle(0.05)


# --- the bound -----------------------------------------------------------------------------------------------
async def test_above_the_bound_updates_have_to_wait(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is stored, and no session opened; once the worker has kept up, they are taken again."""
    monkeypatch.setattr("memory_agent.work.admit._MOST_TURNS", 3)
    async with service_on(tmp_path) as service:
        memory = service.agent("ann", "chat")
        await memory.update_memory("a", "b")
        service.core.backlog.forget()
        await memory.update_memory("c", "d")
        service.core.backlog.forget()
        with pytest.raises(Busy, match=r"more than 3 turns owe work") as busy:
            await service.agent("bob", "chat").update_memory("e", "f")
        assert busy.value.retry_after == 10.0
        assert (await service.users()).users[0].user_id == "ann"
        assert await service.agent("bob", "chat").sessions() == []
        async with working(service):
            await service.settle(SECONDS)
        service.core.backlog.forget()
        await service.agent("bob", "chat").update_memory("e", "f")


# --- a store that cannot be written --------------------------------------------------------------------------
class Full(SqliteStore):
    """A store on a disk that is full: it can be read."""

    is_full = False

    async def acquire_leases(self, names: Sequence[str], holder: str, **times: Any) -> set[str]:
        if self.is_full:
            raise StoreUnavailable("database or disk is full")
        return await super().acquire_leases(names, holder, **times)


async def test_settle_ends_on_a_full_disk_with_a_word(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without a timeout too: the store cannot keep a note of its own outage, but the worker knows. With room again it goes on."""
    monkeypatch.setattr("memory_agent.service._SETTLE_PATIENCE_SECONDS", 0.5)
    store = Full(tmp_path / "memory.db")
    async with service_on(tmp_path / "data", store=store) as service:
        memory = service.agent("ann", "chat")
        await memory.update_memory("I like the sea.", "Noted.")
        store.is_full = True
        async with working(service):
            async with asyncio.timeout(SECONDS):
                with pytest.raises(
                    SettleTimeout, match="parts that are down: store: database or disk is full"
                ):
                    await memory.settle()
            assert (await service.worker_status()).down == ("store",)
            store.is_full = False
            await memory.settle(SECONDS)
            while (await service.worker_status()).down:
                await asyncio.sleep(0.02)


# --- time ----------------------------------------------------------------------------------------------------
class Shifted(SystemClock):
    """A clock that is put wrong, and right again."""

    def __init__(self) -> None:
        self.ahead = timedelta(0)

    def now(self) -> datetime:
        return super().now() + self.ahead


async def test_a_clock_that_was_ahead_and_is_put_right_holds_nothing_up(tmp_path: Path) -> None:
    clock = Shifted()
    async with MemoryService(
        MemoryConfig(data_dir=tmp_path), embedder=HashEmbedder(), clock=clock
    ) as service:
        memory = service.agent("ann", "chat")
        for days in (30, 0, 18_000, -365, 0):
            clock.ahead = timedelta(days=days)
            for _ in range(3):
                await memory.update_memory("I like bees.", "Noted.")
            await memory.settle(SECONDS)


async def test_a_folder_whose_holder_was_killed_is_worked_on_at_once(tmp_path: Path) -> None:
    """The lock on the folder proves it dead: nobody waits for its leases to run out."""
    settings = MemoryConfig(data_dir=tmp_path, run_worker=False)
    async with MemoryService(settings, embedder=HashEmbedder()) as service:
        memory, now = service.agent("ann", "chat"), service.clock.now()
        await memory.add_user_message("I live in Ulm.")
        names = [lease_name(stage, memory.scope) for stage in STAGES]
        await service.core.store.acquire_leases(names, "killed", now=now, until=now + timedelta(hours=1))
    async with MemoryService(MemoryConfig(data_dir=tmp_path), embedder=HashEmbedder()) as service:
        await service.agent("ann", "chat").settle(SECONDS)
