"""MemoryService: opens everything from settings, hands out agents, runs the worker, closes everything."""

from __future__ import annotations

import asyncio
import atexit
import contextlib
import functools
import importlib.util
import inspect
import logging
import os
import platform
import socket
import threading
import time
import weakref
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, Self

from memory_agent.adapters import Overrides, open_adapters
from memory_agent.agent.agent import MemoryAgent
from memory_agent.agent.arguments import checked_flag
from memory_agent.agent.search import search_turns
from memory_agent.checks import checked_id, checked_retention
from memory_agent.clock import SystemClock
from memory_agent.concurrency import Home, together
from memory_agent.config import MemoryConfig
from memory_agent.conversations.people import check_user, checked_limit, list_threads, list_users
from memory_agent.data_dir import OwnAddress
from memory_agent.domain import (
    DEFAULT_TENANT,
    STAGES,
    VECTORS,
    Outage,
    RebuildStep,
    Scope,
    Usage,
    WorkerStatus,
    checked_tenant,
    new_id,
    outage_name,
    stages_but,
)
from memory_agent.errors import (
    ConfigError,
    DataDirInUse,
    InvalidInput,
    NotFound,
    NotOpen,
    SettleTimeout,
    TurnsParked,
)
from memory_agent.ports import known_fingerprint, known_scripts, warning_of
from memory_agent.search.user_index import IDLE_SECONDS, unread
from memory_agent.wiring import Core, wire
from memory_agent.work.pending import FAR, Looks, pending_in_words, waits_for_a_part
from memory_agent.work.worker import repeating, running

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Iterable, Mapping, Sequence
    from datetime import datetime
    from pathlib import Path
    from types import TracebackType
    from typing import IO

    from memory_agent.client.service import ServiceClient
    from memory_agent.domain import (
        ErasureReceipt,
        ForgetReceipt,
        GivenRole,
        LiveStats,
        MemoryStatus,
        Recollection,
        Session,
        Stage,
        ThreadsPage,
        UsersPage,
    )
    from memory_agent.exports.files import Written
    from memory_agent.exports.run import Imported
    from memory_agent.ports import LLM, Clock, DocumentStore, Embedder, EntityFinder, Redactor, VectorIndex
    from memory_agent.topics.sweep import SweepAction, SweepProgress, SweepReport
    from memory_agent.wiring import Core


_TURNS_AT_ONCE: Final = 2_000
"""Turns that owe work over again, so that what people say meanwhile need not wait behind everybody's."""
_THREADS: Final = 1_000_000


class Upkeep:
    """The calls of a MemoryService that look after its stores."""

    clock: Clock

    @property
    def core(self) -> Core:
        """Every open part."""
        raise NotImplementedError

    async def rebuild_index(self, user_id: str, *, tenant: str = DEFAULT_TENANT) -> int:
        """Fill the vector index of a user anew, and the search rows that are missing; how many turns.

        Returns at once; `settle` waits for the work.
        """
        count = await self._rebuild(Scope.of(user_id, tenant=tenant))
        self.core.worker.wake()
        return count

    async def _rebuild(self, user: Scope) -> int:
        if self.core.filler is not None:
            await self.core.store.want_vectors([user.user_id], anew=True)
        return await self.core.store.owe(user, "index", now=self.clock.now())

    async def rebuild_next(self) -> RebuildStep:
        """Do `rebuild_index` for some users more; called again and again, with `settle` between, for everybody.

        How far it is stands in the store, so that another process, or a later one, goes on. The step behind the last begins anew,
        and so does the first one by another embedding model.
        """
        made_by = known_fingerprint(self.core.embedder)
        return await self._some_users("rebuild", self._rebuild, embedder=made_by)

    async def reextract_facts(self, scope: Scope | None = None) -> RebuildStep:
        """Have the worker extract facts again from stored turns of a thread or a user; from how many.

        What was known counts until all of a thread's turns are read, and then what they state now does. What people set,
        retracted or reverted stays. Returns at once; `settle` waits for the work. While turns of an earlier call are still to be
        read, those go on and nothing begins anew. Without a scope everybody's, some users more with each call, as in
        `rebuild_next`. Raises InvalidInput where the settings have no facts extracted.
        """
        if "facts" not in self.core.cfg.stages:
            raise InvalidInput("enable_fact_extraction is off, so no facts are extracted; set it to true")
        if scope is None:
            return await self._some_users("reextract", self._reextract, extractor=self.core.facts.extractor)
        turns = await self._reextract(scope)
        self.core.worker.wake()
        return RebuildStep(turns=turns, users=1, done=1)

    async def _reextract(self, scope: Scope) -> int:
        store = self.core.store
        if await store.owed_turns(scope, "reextract", limit=1, parked=False):
            return (await store.status(scope, now=self.clock.now())).pending["reextract"]
        threads = [scope.thread_id] if scope.thread_id else await store.thread_ids(scope, limit=_THREADS)
        of_threads = [Scope(user_id=scope.user_id, thread_id=thread) for thread in threads]
        return sum([await self.core.reextractor.begin(thread) for thread in of_threads])

    async def _some_users(
        self, name: str, begin: Callable[[Scope], Awaitable[int]], **by: str
    ) -> RebuildStep:
        """Begin something for some users more, whose turns owe it then.

        How far it is stands in the store by that name. It begins with the first user where `by` has changed since.
        """
        store = self.core.store
        begun: dict[str, Any] = {**by, "after": "", "done": 0}
        mark: Mapping[str, Any] = await store.get_meta(name) or begun
        if any(mark.get(part) != known for part, known in by.items()):
            mark = begun
        after, done, turns = str(mark["after"]), int(mark["done"]), 0
        left: list[str] = []
        while page := await store.stored_users(after=left[-1] if left else after, limit=1_000):
            left += page
        for user_id in left:
            turns += await begin(Scope(user_id=user_id))
            after, done = user_id, done + 1
            if turns >= _TURNS_AT_ONCE:
                break
        users = done + len(left) - left.index(after) - 1 if left else done
        await store.put_meta(name, {**mark, "after": after, "done": done} if done < users else begun)
        self.core.worker.wake()
        return RebuildStep(turns=turns, users=users, done=done)

    async def sweep(
        self,
        *,
        dry_run: bool = False,
        retention_days: float | None = None,
        forget_facts: bool | None = None,
        progress: Callable[[SweepProgress], None] | None = None,
        each: Callable[[SweepAction], None] | None = None,
    ) -> SweepReport:
        """Archive (or delete, as `decay_policy` says) faded topics of all users, and forget turns past `retention_days`.

        What is known from such turns stays, without their words, unless `forget_facts`. Both default to the settings. With `dry_run` nothing changes; `each` is called with everything that is done or would be. Interrupted, the
        next one goes on from there. Raises SweepRunning while another process sweeps.
        """
        return await self.core.sweeper.sweep(
            holder=f"{platform.node()}, process {os.getpid()}, run {new_id()}",
            dry_run=dry_run,
            retention_days=None if retention_days is None else checked_retention(retention_days),
            forget_facts=None if forget_facts is None else checked_flag("forget_facts", forget_facts),
            progress=progress,
            each=each,
        )

    async def erasures(self) -> list[ErasureReceipt]:
        """The receipts of all forget calls, by rising id, and how far each is. Keep them apart from the database: see `replay_erasures`."""
        return await self.core.store.receipts()

    async def replay_erasures(self, receipts: Iterable[ErasureReceipt]) -> int:
        """Erase again what these receipts were of, after a backup of before brought it back; how many forget calls that took.

        Raises InvalidInput for receipts of another memory.
        """
        return await self.core.forgetter.replay(receipts)

    async def export_to(self, target: Path | str | IO[bytes], **options: Any) -> Written:
        """Export everybody's memory, or less, as JSON Lines: see `exports.run.export_to` for the options."""
        from memory_agent.exports.run import export_to

        return await export_to(target, self.core.store, now=self.clock.now(), **options)

    async def import_from(
        self, path: Path | str, *, progress: Callable[[int], None] | None = None
    ) -> Imported:
        """Take an export in; what is there stays, and what was forgotten here stays forgotten. See `exports.run.import_from`."""
        from memory_agent.exports.run import import_from

        done = await import_from(path, self.core.store, clock=self.clock, progress=progress)
        self.core.housekeep()
        self.core.worker.wake()
        return done


log = logging.getLogger(__name__)

_OPEN: Final[set[MemoryService]] = set()
"""Services of this process that are open, which nobody else may hold on to."""
_LEAVING_SECONDS: Final = 10.0

_SETTLE_PATIENCE_SECONDS = 60.0  # longer than a server takes to restart
_SETTLE_COUNT_SECONDS = 1.0
_VECTORS_PATIENCE_SECONDS = 5.0
_UNREAD_KEPT = 10_000  # states of threads, by a hash each


class MemoryService(Upkeep):
    """Everything that agents of one application share. Use as `async with MemoryService(cfg) as service:`.

    One service lives on one event loop. Closing it finishes the stage in hand and leaves the rest owed; the next
    start resumes. One that is not closed is closed with its event loop, or with the process, and a warning says so.
    """

    ends_quietly = False
    """Whether nobody is to be warned that it was left open."""
    shares = True
    """Whether other processes may ask this one, and it them, where a folder is held."""
    elsewhere: ServiceClient | None = None
    """The process that holds the folder and answers the calls, if it isn't this one."""

    def __init__(
        self,
        cfg: MemoryConfig | None = None,
        *,
        mongo_client: Any | None = None,
        store: DocumentStore | None = None,
        vectors: VectorIndex | None = None,
        embedder: Embedder | None = None,
        llm: LLM | None = None,
        redact: Redactor | None = None,
        entity_finder: EntityFinder | None = None,
        clock: Clock | None = None,
    ) -> None:
        """`mongo_client`: PyMongo's AsyncMongoClient or Motor's client that the application holds and closes.

        Other parts may be handed in as well, such as an embedder of one's own; those are not closed here. `redact`
        takes out of a text what must not be stored or sent to a language model, as the settings say; `entity_finder` adds
        names that the dictionary of entities does not know.
        """
        self.cfg = cfg or MemoryConfig()
        self._overrides = Overrides(
            mongo_client=mongo_client,
            store=store,
            vectors=vectors,
            embedder=embedder,
            llm=llm,
            redact=redact,
            entity_finder=entity_finder,
        )
        self.clock: Clock = clock or SystemClock()
        self._stack: contextlib.AsyncExitStack | None = None
        self._core: Core | None = None
        self._working: asyncio.Task[None] | None = None
        self._vectors_slow = False
        self._unread: dict[int, tuple[tuple[str, ...], str]] = {}
        self._home: Home | None = None
        self._guard: asyncio.Task[None] | None = None
        self._agents: set[MemoryAgent] = set()
        """Those that were made alone and share this, which the first of them opened."""

    @classmethod
    def holding(cls, cfg: MemoryConfig) -> Self:
        """A service that opens the stores itself, or raises DataDirInUse."""
        service = cls(cfg)
        service.shares = False
        return service

    # --- lifecycle -------------------------------------------------------------------------------------------
    async def __aenter__(self) -> Self:
        """Open the stores and start the worker. Raises DataDirInUse, or StoreUnavailable.

        Raises ModelNotFound for a folder that holds no embedding model. A model that is known by name may turn up later:
        embedding is owed until then.
        """
        if self._stack is not None:
            raise NotOpen("this service is open already; use one `async with` per service")
        self.cfg.use()
        await _close_those_of_ended_loops()
        async with contextlib.AsyncExitStack() as stack:
            try:
                adapters = await open_adapters(self.cfg, self.clock, self._overrides, stack)
            except DataDirInUse:
                if not await self._ask_elsewhere(stack):
                    raise
            else:
                await self._begin(wire(adapters), stack)
            self._stack = stack.pop_all()
        self._home = Home()
        self._guard = asyncio.create_task(self._close_with_loop(), name="memory-agent guard")
        _keep_until_closed(self)
        return self

    async def _begin(self, core: Core, stack: contextlib.AsyncExitStack) -> None:
        self._core = core
        await stack.enter_async_context(repeating(core.housekeep, IDLE_SECONDS / 2))
        if self.cfg.run_worker:
            self._working = await stack.enter_async_context(running(core.worker))
            stack.callback(setattr, self, "_working", None)
        if self.shares and self.holds_folder:
            await stack.enter_async_context(answering_others(self))

    async def _ask_elsewhere(self, stack: contextlib.AsyncExitStack) -> bool:
        """Turn to the process that holds the folder; False if it is this one, or answers nobody."""
        if not self.shares or any(
            each.store_name == self.store_name and each.elsewhere is None for each in _OPEN
        ):
            return False
        from memory_agent.client.service import client_of_holder

        await stack.aclose()  # what was opened before the lock was asked for
        self.elsewhere = await client_of_holder(self.cfg, stack)
        stack.callback(setattr, self, "elsewhere", None)
        return self.elsewhere is not None

    @property
    def is_open(self) -> bool:
        """False before `async with`, once it is closed, and when its event loop has ended."""
        return self._stack is not None and self._home is not None and not self._home.loop.is_closed()

    @property
    def holds_folder(self) -> bool:
        """True if its stores are in `data_dir`, which is one process's at a time."""
        given = self._overrides
        return self.cfg.embedded and given.store is None and given.mongo_client is None

    @property
    def store_name(self) -> tuple[str, str]:
        """The name of its stores, by which two services have the same."""
        uri = self.cfg.mongo_uri
        return str(self.cfg.data_dir.resolve()) if uri is None else uri.get_secret_value(), self.cfg.db_name

    async def let_go(self, agent: MemoryAgent) -> None:
        """An agent that was made alone is done; the last one closes what the first one opened."""
        async with _sharing():
            if agent in self._agents:
                self._agents.discard(agent)
                if not self._agents:
                    await self.close()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Finish the stage in hand and close everything; what is pending is done after the next start."""
        stack, self._stack = self._stack, None
        _OPEN.discard(self)
        try:
            if stack is not None:
                await stack.aclose()
        finally:
            self._core = None
            if self._guard is not None and self._guard is not asyncio.current_task():
                self._guard.cancel()

    async def _close_with_loop(self) -> None:
        """Close with the event loop, which cancels every task as it ends, what nobody has closed by then."""
        try:
            await asyncio.get_running_loop().create_future()
        except asyncio.CancelledError:
            await asyncio.sleep(0)  # whoever is about to close it is cancelled as well
            if self._stack is not None:
                _warn_of(self)
                with contextlib.suppress(asyncio.CancelledError):  # the worker's, which was cancelled too
                    await self.close()
            raise

    @property
    def core(self) -> Core:
        """Every open part. Raises NotOpen outside `async with`, on another event loop and in a forked process."""
        if self.elsewhere is not None:
            raise NotOpen(
                f"data_dir {self.cfg.data_dir} is held by another process, which answers the calls of this one"
            )
        if self._core is None or self._home is None:
            raise NotOpen("this service is not open; use `async with MemoryService(...) as service:`")
        self._home.check("service")
        return self._core

    # --- agents ----------------------------------------------------------------------------------------------
    def agent(self, user_id: str, thread_id: str, *, tenant: str = DEFAULT_TENANT) -> MemoryAgent:
        """The memory of one user's thread; no I/O. Raises InvalidInput for impossible ids.

        `tenant`: whose user, where applications that must not see each other's users share a store.
        """
        return MemoryAgent(user_id=user_id, thread_id=thread_id, service=self, tenant=tenant)

    async def search(
        self,
        user_id: str,
        query: str,
        top_k: int | None = None,
        *,
        tenant: str = DEFAULT_TENANT,
        since: datetime | None = None,
        until: datetime | None = None,
        role: GivenRole | None = None,
        tag: str | None = None,
        session_id: str | None = None,
        metadata: Mapping[str, Any] | None = None,
        now: datetime | None = None,
    ) -> list[Recollection]:
        """The turns of all of a user's threads that answer `query` best: `fetch_long_term(scope="user")` without a thread."""
        return await search_turns(
            self,
            Scope.of(user_id, tenant=tenant),
            query,
            top_k,
            since=since,
            until=until,
            role=role,
            tag=tag,
            session_id=session_id,
            metadata=metadata,
            now=now,
        )

    async def users(
        self,
        *,
        tenant: str = DEFAULT_TENANT,
        user_id: str | None = None,
        after: str | None = None,
        limit: int = 100,
    ) -> UsersPage:
        """The tenant's users of whom anything is remembered, by rising id, at most `limit` (up to 1,000).

        With the number of their threads and turns, and when the last one was said. `user_id`: only this one. `after`:
        only those above it, such as the `next` of the page before: nobody is passed over, and nobody comes twice.
        """
        return await list_users(
            self.core.store,
            checked_tenant(tenant),
            user_id=None if user_id is None else checked_id("user_id", user_id),
            after=None if after is None else checked_id("after", after),
            limit=checked_limit(limit),
        )

    async def threads(
        self, user_id: str, *, tenant: str = DEFAULT_TENANT, after: str | None = None, limit: int = 100
    ) -> ThreadsPage:
        """A user's threads, paged as `users`. Raises NotFound, with the nearest names, if nothing is remembered of the user."""
        scope = Scope.of(user_id, tenant=tenant)
        above = None if after is None else checked_id("after", after)
        page = await list_threads(self.core.store, scope, after=above, limit=checked_limit(limit))
        if not page.threads:
            await check_user(self.core.store, scope)
        return page

    async def find_session(
        self, session_id: str, *, tenant: str = DEFAULT_TENANT, user_id: str | None = None
    ) -> Session:
        """A session of one of the tenant's users (or of this one) by its id alone.

        Its `user_id` is the one that is stored; `session.scope.tenants_user_id` is the tenant's. Raises NotFound.
        """
        checked_id("session_id", session_id)
        if user_id is not None:
            checked_id("user_id", user_id)
        found = await self.core.store.find_session(session_id, tenant=checked_tenant(tenant), user_id=user_id)
        if found is None:
            whose = "there is" if user_id is None else f"user {user_id!r} has"
            raise NotFound(f"session_id is {session_id!r:.80}, and {whose} no such session")
        return found

    @property
    def llm(self) -> LLM | None:
        """The configured language model, if any."""
        return self.core.llm

    @property
    def usage(self) -> Usage | None:
        """Requests, tokens and seconds of the language models since this service was opened; None without any."""
        return sum(used.values(), Usage()) if (used := self.usage_by) else None

    @property
    def usage_by(self) -> dict[str, Usage]:
        """The same by purpose (`facts`, `summaries`), or as `all` of a model that the application handed in for both."""
        facts, summaries = self.core.llm, self.core.summary_llm
        if facts is None or summaries is None or facts is summaries:
            return {} if facts is None else {"all": facts.usage}
        return {"facts": facts.usage, "summaries": summaries.usage}

    async def get_stats(self) -> LiveStats:
        """Counts of the analysis cache of this process: threads in memory, hits and misses, evictions."""
        return self.core.live.stats

    # --- work ------------------------------------------------------------------------------------------------
    async def run_worker(self, stop: asyncio.Event | None = None) -> None:
        """Run the worker here until `stop` is set or this is cancelled; for processes that only work off.

        Where the service runs one already (the setting `run_worker`), this only waits.
        """
        async with contextlib.AsyncExitStack() as stack:
            working = self._working
            if working is None:
                working = await stack.enter_async_context(running(self.core.worker))
                self._working = working
                stack.callback(setattr, self, "_working", None)
            stopped = asyncio.create_task((stop or asyncio.Event()).wait())
            try:
                waits: set[asyncio.Task[Any]] = {working, stopped}
                await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
            finally:
                stopped.cancel()
            if working.done():
                working.result()

    async def worker_status(self) -> WorkerStatus:
        """State of the worker of this process; others beside it are not in it."""
        worker = self.core.worker
        return WorkerStatus(
            runs=self._works,
            paused=worker.paused,
            at_work=worker.at_work,
            down=tuple(sorted(worker.down)),
            extractor=self.core.facts.extractor,
            usage=self.usage,
            usage_by=self.usage_by,
        )

    async def pause_worker(self) -> WorkerStatus:
        """Let this process's worker finish what it has in hand, then leave everything owed until `resume_worker`."""
        self.core.worker.pause()
        return await self.worker_status()

    async def resume_worker(self) -> WorkerStatus:
        """Let this process's worker go on with what is owed."""
        self.core.worker.go_on()
        return await self.worker_status()

    async def status(self, scope: Scope | None = None) -> MemoryStatus:
        """Counts of the scope (None: everybody): turns, owed stages, parked turns with their last error, lag."""
        counts: MemoryStatus
        if scope is None:
            made_by = known_fingerprint(self.core.embedder)
            counts, schema = await together(self._counts(None), self.core.store.schema())
            to_rebuild = await self.core.store.rows_by_others(made_by) if made_by else 0
            return replace(counts, to_rebuild=to_rebuild, store_schema=schema)
        counts = await self._counts(scope)
        embedder = self.core.embedder
        # Whatever is said or forgotten changes the number; where it doesn't in the end, the next exchange does. A hash, for it outlives them.
        state = hash((id(embedder), known_scripts(embedder), scope, counts.turns))
        if state not in self._unread:
            if len(self._unread) >= _UNREAD_KEPT:
                self._unread.clear()
            self._unread[state] = await unread(self.core.store, scope, embedder)
        scripts, language = self._unread[state]
        return replace(counts, unread_scripts=scripts, unread_language=language)

    async def _counts(self, scope: Scope | None) -> MemoryStatus:
        counts = await self.core.store.status(scope, now=self.clock.now())
        told = dict.fromkeys(
            warning_of(llm) for llm in (self.core.llm, self.core.summary_llm) if llm is not None
        )
        counts = replace(counts, warnings=tuple(filter(None, told)))
        missing = 0 if self.core.filler is None else await self.core.store.vectors_missing(scope)
        if not missing:
            return counts
        away = await self.core.store.load_lease(outage_name(VECTORS))
        outages = counts.outages if away is None else (*counts.outages, Outage.of(away))
        return replace(counts, vectors_missing=missing, outages=outages)

    async def settle(
        self,
        timeout: float | None = None,
        *,
        scope: Scope | None = None,
        without: Collection[Stage] = (),
        progress: Callable[[MemoryStatus], None] | None = None,
    ) -> None:
        """Wait until nothing is owed to the scope's turns (None: anybody's), but for the stages in `without`.

        `without=["facts"]` waits for all that needs no language model. `timeout` in seconds; without one SettleTimeout is raised as well once nothing has moved for a minute because a
        part is down, for nobody knows how long that takes. `progress` is called with every status seen. Raises
        TurnsParked if what is left is parked, SettleTimeout if time runs out. For vectors on their way to a Chroma it waits
        as long as that takes them, and neither for one that is away nor beyond `timeout`: `status` says how many are missing.
        """
        looks, stages = Looks(timeout), stages_but(without)
        owed: Mapping[Stage, int] | None = None
        moved_at = counted_at = time.monotonic()
        while True:
            worker = self.core.worker if self._works else None
            moved = self.core.worker.moved
            # Who only waits looks for one turn that owes something, and has them counted now and then.
            owes = await self._owes(scope, stages, parked=False)
            if progress is None:
                if not owes and not await self._owes(scope, stages, parked=True):
                    await self._settle_vectors(scope, looks)
                    return
                if owes and time.monotonic() - counted_at < _SETTLE_COUNT_SECONDS and not looks.is_over:
                    await self._look_later(looks, moved)
                    continue
            status, counted_at = await self._counts(scope), time.monotonic()
            if progress is not None:
                progress(status)
            if not owes:
                break
            now = time.monotonic()
            if status.pending != owed or not waits_for_a_part(status, worker):
                owed, moved_at = status.pending, now
            stands_still = looks.seconds is None and now - moved_at >= _SETTLE_PATIENCE_SECONDS
            if stands_still or looks.is_over:
                waited = _SETTLE_PATIENCE_SECONDS if stands_still else looks.seconds
                words = await pending_in_words(self.core.store, scope, status, worker, now=self.clock.now())
                raise SettleTimeout(f"after {waited:g} s {words}")
            await self._look_later(looks, moved)
        if parked := [turn for turn in status.parked if not set(stages).isdisjoint(turn.pending)]:
            raise TurnsParked(parked)
        await self._settle_vectors(scope, looks)

    async def _settle_vectors(self, scope: Scope | None, looks: Looks) -> None:
        """Wait for the scope's vectors as long as Chroma takes any; nobody need wait for one that is away.

        For one that took none in a while nobody waits again before it has taken all.
        """
        store, moved_at, left = self.core.store, time.monotonic(), -1
        while self.core.filler is not None and not looks.is_over:
            moved = self.core.worker.moved
            missing = await store.vectors_missing(scope)
            if missing != left:
                left, moved_at = missing, time.monotonic()
            self._vectors_slow |= time.monotonic() - moved_at > _VECTORS_PATIENCE_SECONDS
            self._vectors_slow &= missing > 0
            if not missing or self._vectors_slow or await store.load_lease(outage_name(VECTORS)) is not None:
                return
            await self._look_later(looks, moved)

    async def _look_later(self, looks: Looks, moved: asyncio.Event) -> None:
        is_at_work = self._works and bool(self.core.worker.at_work)
        if not is_at_work and looks.may_wake():
            self.core.worker.wake()
        await looks.pause(moved, seldom=is_at_work)

    async def _owes(self, scope: Scope | None, stages: Sequence[Stage], *, parked: bool) -> bool:
        """Whether turns of the scope owe one of the stages; with `parked` also such, which may be so of everybody."""
        store, any_stage = self.core.store, tuple(stages) == STAGES
        if scope is not None:
            asked = [None] if any_stage else stages
            return any(await together(*(store.owed_turns(scope, s, limit=1, parked=parked) for s in asked)))
        if parked or any_stage:
            return parked or await store.owes_more_than(0)
        ever = self.clock.now() + FAR
        return any(await together(*(store.due_threads(ever, stage, limit=1) for stage in stages)))

    @property
    def _works(self) -> bool:
        return self._working is not None and not self._working.done()

    async def retry_parked(self, scope: Scope | None = None) -> int:
        """Give parked turns of the scope (None: of everybody) a fresh start; how many."""
        count = await self.core.store.retry_parked(scope, now=self.clock.now())
        self.core.worker.wake()
        return count

    async def forget_user(self, user_id: str, *, tenant: str = DEFAULT_TENANT) -> ForgetReceipt:
        """Erase everything about a user from every tier, index and cache.

        Turns that are written after this call began are not touched. Raises InvalidInput for an empty id.
        """
        return await self.core.forgetter.forget(Scope.of(user_id, tenant=tenant), None)


# --- what nobody closed --------------------------------------------------------------------------------------
def _warn_of(service: MemoryService) -> None:
    if not service.ends_quietly:
        where = service.cfg.data_dir if service.cfg.embedded else service.cfg.db_name
        log.warning(
            "the MemoryService of %s was left open. Nothing acknowledged is lost, and what is pending is done after the next"
            " start; use `async with`, or `await service.close()`",
            where,
        )


def _keep_until_closed(service: MemoryService) -> None:
    global _is_told_of_exit
    _OPEN.add(service)
    if not _is_told_of_exit:
        _is_told_of_exit = True
        # Before executors of threads stop, by which everything is closed; `atexit` comes after that.
        getattr(threading, "_register_atexit", atexit.register)(_close_at_exit)


_is_told_of_exit = False


def _close_at_exit() -> None:
    """Close services whose event loop still runs in another thread, and tell of all that are open."""
    for service, home in [(each, each._home) for each in _OPEN]:
        if home is None or not home.is_here:
            continue
        _warn_of(service)
        if home.loop.is_running():
            with contextlib.suppress(Exception):
                asyncio.run_coroutine_threadsafe(service.close(), home.loop).result(_LEAVING_SECONDS)


async def _close_those_of_ended_loops() -> None:
    """Give back what services hold whose event loop was closed without them: their data_dir, for one."""
    for service in [each for each in _OPEN if each._home is not None and each._home.loop.is_closed()]:
        _warn_of(service)
        with contextlib.suppress(Exception, asyncio.CancelledError):  # what is bound to that loop
            await service.close()


# --- one service for all agents of a process, and for all processes of a machine -----------------------------
_LOCKS: Final[weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Lock]] = (
    weakref.WeakKeyDictionary()
)


def _sharing() -> asyncio.Lock:
    """Held while agents of this event loop open or close what they share."""
    return _LOCKS.setdefault(asyncio.get_running_loop(), asyncio.Lock())


async def shared_service(cfg: MemoryConfig, agent: MemoryAgent) -> MemoryService:
    """The service of this process that has the stores of these settings, opened if there is none.

    Raises ConfigError, which names the setting, if it has others of them; NotOpen if it is on another event loop.
    """
    async with _sharing():
        await _close_those_of_ended_loops()
        wanted = MemoryService(cfg)
        found = next((each for each in _OPEN if each.store_name == wanted.store_name), None)
        if found is None:
            await wanted.__aenter__()
            wanted._agents.add(agent)
            return wanted
        if found._home is not None:
            found._home.check("service")
        names = [name for name in MemoryConfig.model_fields if name != "data_dir"]
        if other := [name for name in names if getattr(found.cfg, name) != getattr(cfg, name)]:
            raise ConfigError(
                f"this process has a MemoryService of {cfg.data_dir if cfg.embedded else cfg.db_name} open with other settings:"
                f" {', '.join(other)}; use the same for all agents of it, or close the others first"
            )
        if found._agents:
            found._agents.add(agent)
        return found


@contextlib.asynccontextmanager
async def answering_others(service: MemoryService) -> AsyncIterator[None]:
    """Let other processes ask the one that holds the folder; nothing is loaded before one does."""
    loop, asked, stop = asyncio.get_running_loop(), asyncio.Event(), asyncio.Event()
    if any(importlib.util.find_spec(needed) is None for needed in ("fastapi", "uvicorn", "websockets")):
        yield  # without the extra `server`
        return
    try:
        listening = socket.create_server(("127.0.0.1", 0))
        loop.add_reader(listening, asked.set)
    except (OSError, NotImplementedError):  # no loopback, or Windows' event loop
        yield
        return

    async def serve() -> None:
        await asked.wait()
        loop.remove_reader(listening)
        run = await asyncio.to_thread(importlib.import_module, "memory_agent.server.run")
        async with run.sharing(service, own, listening):
            await stop.wait()

    own = OwnAddress(service.cfg)
    own.leave(f"http://127.0.0.1:{listening.getsockname()[1]}")
    serving = asyncio.create_task(serve(), name="memory-agent answering others")
    try:
        yield
    finally:
        loop.remove_reader(listening)
        await own.take_away()
        stop.set()
        if not asked.is_set():
            serving.cancel()
        await asyncio.wait({serving})
        listening.close()


def _asking(name: str, method: Any) -> Any:
    @functools.wraps(method)
    async def call(self: MemoryService, *args: Any, **options: Any) -> Any:
        if self.elsewhere is None:
            return await method(self, *args, **options)
        there = getattr(self.elsewhere, name, None)
        if there is None:
            raise DataDirInUse(
                f"{name} needs the stores themselves, and another process holds data_dir {self.cfg.data_dir}; end it first"
            )
        return await there(*args, **options)

    return call


for _name in [
    name for name in dir(MemoryService) if not name.startswith("_") and name not in ("close", "let_go")
]:
    if inspect.iscoroutinefunction(_method := getattr(MemoryService, _name)):
        setattr(MemoryService, _name, _asking(_name, _method))
