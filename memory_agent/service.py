"""MemoryService: opens everything from settings, hands out agents, runs the worker, closes everything.

The only module that knows both the core and the adapters (through `adapters`, which imports them when they are
opened, so that importing this package loads no driver and no model).
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import platform
import time
from typing import TYPE_CHECKING, Any, Self

from memory_agent.adapters import make_counter, make_embedder, make_llm, open_store, open_vectors
from memory_agent.agent import MemoryAgent
from memory_agent.clock import SystemClock
from memory_agent.config import MemoryConfig
from memory_agent.data_dir import DataDirLock
from memory_agent.domain import Scope, new_id
from memory_agent.errors import NotOpen, SettleTimeout, TurnsParked
from memory_agent.lifecycle.curate import Curator
from memory_agent.lifecycle.decay import DecaySettings
from memory_agent.lifecycle.forget import Forgetter
from memory_agent.lifecycle.rebuild import rebuild_index
from memory_agent.lifecycle.sweep import Sweeper, SweepSettings
from memory_agent.recall.resident import ResidentCache
from memory_agent.recall.search import Searcher
from memory_agent.recall.topics import TopicReader
from memory_agent.remember.compact import Compactor, CompactSettings
from memory_agent.remember.facts import FactKeeper, LLMFactExtractor, PatternFactExtractor
from memory_agent.remember.index import Indexer
from memory_agent.remember.matching import MatchSettings
from memory_agent.remember.summaries import ExtractiveSummarizer, LLMSummarizer
from memory_agent.remember.topics import TopicKeeper
from memory_agent.remember.worker import Worker, WorkerSettings

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable
    from pathlib import Path
    from types import TracebackType

    from memory_agent.domain import ForgetReceipt, MemoryStatus, Usage
    from memory_agent.lifecycle.sweep import SweepAction, SweepProgress, SweepReport
    from memory_agent.ports import LLM, Clock, DocumentStore, Embedder, TokenCounter, VectorIndex
    from memory_agent.remember.facts import FactExtractor
    from memory_agent.remember.summaries import Summarizer

log = logging.getLogger(__name__)

_SETTLE_POLL_SECONDS = 0.01
_SETTLE_POLL_LONGEST_SECONDS = 0.25
_LAST_PASS_MARGIN_SECONDS = 10.0


class MemoryService:
    """Everything that agents of one application share. Use as `async with MemoryService(cfg) as service:`.

    One service lives on one event loop. Closing it finishes the stage in hand and leaves the rest owed; the next
    start resumes.
    """

    def __init__(
        self,
        cfg: MemoryConfig | None = None,
        *,
        mongo_client: Any | None = None,
        store: DocumentStore | None = None,
        vectors: VectorIndex | None = None,
        embedder: Embedder | None = None,
        llm: LLM | None = None,
        clock: Clock | None = None,
    ) -> None:
        """`mongo_client`: PyMongo's AsyncMongoClient or Motor's client that the application holds and closes.

        Other parts may be handed in as well, such as an embedder of one's own; those are not closed here.
        """
        self.cfg = cfg or MemoryConfig()
        self._mongo_client = mongo_client
        self._given_store = store
        self._given_vectors = vectors
        self._given_embedder = embedder
        self._given_llm = llm
        self.clock: Clock = clock or SystemClock()
        self._stack: contextlib.AsyncExitStack | None = None
        self._parts: Parts | None = None
        self._working: asyncio.Task[None] | None = None

    # --- lifecycle -------------------------------------------------------------------------------------------
    async def __aenter__(self) -> Self:
        """Open the stores and start the worker. Raises DataDirInUse, ModelNotFound or StoreUnavailable."""
        if self._stack is not None:
            raise NotOpen("this service is open already; use one `async with` per service")
        async with contextlib.AsyncExitStack() as stack:
            self._parts = await Parts.open(self, stack)
            await stack.enter_async_context(
                _repeating(self._parts.housekeep, self.cfg.resident_idle_seconds / 2)
            )
            if self.cfg.run_worker:
                self._working = await stack.enter_async_context(_running(self._parts.worker))
                stack.callback(setattr, self, "_working", None)
            self._stack = stack.pop_all()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        stack, self._stack = self._stack, None
        try:
            if stack is not None:
                await stack.aclose()
        finally:
            self._parts = None

    @property
    def parts(self) -> Parts:
        """The opened parts. Raises NotOpen outside `async with`."""
        if self._parts is None:
            raise NotOpen("this service is not open; use `async with MemoryService(...) as service:`")
        return self._parts

    # --- agents ----------------------------------------------------------------------------------------------
    def agent(self, user_id: str, thread_id: str) -> MemoryAgent:
        """The memory of one user's thread; no I/O. Raises InvalidInput for impossible ids."""
        return MemoryAgent(user_id=user_id, thread_id=thread_id, service=self)

    @property
    def llm(self) -> LLM | None:
        """The configured language model, if any."""
        return self.parts.llm

    @property
    def usage(self) -> Usage | None:
        """What the language models were asked and used since this service was opened; None without any."""
        facts, summaries = self.parts.llm, self.parts.summary_llm
        if facts is None or summaries is None or facts is summaries:
            return None if facts is None else facts.usage
        return facts.usage + summaries.usage

    # --- work ------------------------------------------------------------------------------------------------
    async def run_worker(self, stop: asyncio.Event | None = None) -> None:
        """Run the worker here until `stop` is set or this is cancelled; for processes that only work off.

        Where the service runs one already (the setting `run_worker`), this only waits.
        """
        async with contextlib.AsyncExitStack() as stack:
            working = self._working
            if working is None:
                working = await stack.enter_async_context(_running(self.parts.worker))
            stopped = asyncio.create_task((stop or asyncio.Event()).wait())
            try:
                waits: set[asyncio.Task[Any]] = {working, stopped}
                await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
            finally:
                stopped.cancel()
            if working.done():
                working.result()

    async def status(self, scope: Scope | None = None) -> MemoryStatus:
        """How the scope (None: everybody) stands."""
        return await self.parts.store.status(scope, now=self.clock.now())

    async def settle(
        self,
        timeout: float | None = None,
        *,
        scope: Scope | None = None,
        progress: Callable[[MemoryStatus], None] | None = None,
    ) -> None:
        """Wait until nothing is owed to the scope's turns (None: anybody's).

        `timeout` in seconds; `progress` is called with every status seen. Raises TurnsParked if what is left is
        parked, SettleTimeout if time runs out.
        """
        # The clock is looked at between two questions: cancelling one in the middle of the driver's work, as
        # asyncio.timeout does, was seen to be swallowed there.
        deadline = None if timeout is None else time.monotonic() + timeout
        self.parts.worker.wake()
        pause = _SETTLE_POLL_SECONDS
        while True:
            status = await self.status(scope)
            if progress is not None:
                progress(status)
            if status.owed_count == status.parked_count:
                break
            if deadline is not None and time.monotonic() >= deadline:
                down = ", ".join(sorted(self.parts.worker.down)) or "none known to this process"
                raise SettleTimeout(
                    f"after {timeout} s still owed: {dict(status.pending)}; parts that are down: {down}"
                )
            left = pause if deadline is None else max(min(pause, deadline - time.monotonic()), 0)
            await asyncio.sleep(left)
            pause = min(pause * 1.5, _SETTLE_POLL_LONGEST_SECONDS)
        if status.parked_count:
            raise TurnsParked(status.parked)

    async def retry_parked(self, scope: Scope | None = None) -> int:
        """Give parked turns of the scope (None: of everybody) a fresh start; how many."""
        count = await self.parts.store.retry_parked(scope, now=self.clock.now())
        self.parts.worker.wake()
        return count

    async def rebuild_index(self, user_id: str) -> int:
        """Fill the vector index of a user anew, and the search rows that are missing; how many turns.

        Returns at once; `settle` waits for the work.
        """
        count = await rebuild_index(self.parts.store, self.clock, Scope(user_id=user_id))
        self.parts.worker.wake()
        return count

    async def sweep(
        self,
        *,
        dry_run: bool = False,
        progress: Callable[[SweepProgress], None] | None = None,
        each: Callable[[SweepAction], None] | None = None,
    ) -> SweepReport:
        """Archive (or delete, as `decay_policy` says) faded topics of all users, and forget turns past `retention_days`.

        With `dry_run` nothing changes; `each` is called with everything that is done or would be. Interrupted, the
        next one goes on from there. Raises SweepRunning while another process sweeps.
        """
        return await self.parts.sweeper.sweep(
            holder=f"{platform.node()}, process {os.getpid()}, run {new_id()}",
            dry_run=dry_run,
            progress=progress,
            each=each,
        )

    async def forget_user(self, user_id: str) -> ForgetReceipt:
        """Erase everything about a user from every tier, index and cache.

        Turns that are written after this call began are not touched. Raises InvalidInput for an empty id.
        """
        return await self.parts.forgetter.forget(Scope(user_id=user_id), None)


class Parts:
    """What an open service consists of."""

    store: DocumentStore
    vectors: VectorIndex
    embedder: Embedder
    llm: LLM | None
    summary_llm: LLM | None
    counter: TokenCounter
    residents: ResidentCache
    searcher: Searcher
    topics: TopicKeeper
    topic_reader: TopicReader
    curator: Curator
    facts: FactKeeper
    compactor: Compactor
    forgetter: Forgetter
    sweeper: Sweeper
    worker: Worker

    @classmethod
    async def open(cls, service: MemoryService, stack: contextlib.AsyncExitStack) -> Parts:
        """Open the adapters that the settings name, closing each when `stack` closes, and wire the core."""
        cfg, parts = service.cfg, cls()
        parts.embedder = service._given_embedder or make_embedder(cfg, stack)
        parts.llm = service._given_llm or make_llm(cfg, cfg.fact_extraction_model, stack)
        parts.summary_llm = parts.llm
        if service._given_llm is None and cfg.summary_model != cfg.fact_extraction_model:
            parts.summary_llm = make_llm(cfg, cfg.summary_model, stack)
        parts.counter = make_counter()
        for folder in _embedded_folders(service):
            lock = DataDirLock(folder)
            lock.acquire()
            stack.callback(lock.release)
        parts.store = service._given_store or await open_store(cfg, service._mongo_client, stack)
        # Reads the model's files once: collections and search rows are marked with whose vectors they hold.
        fingerprint = await asyncio.to_thread(lambda: parts.embedder.fingerprint)
        parts.vectors = service._given_vectors or await open_vectors(cfg, fingerprint, stack)
        parts._wire(cfg, service.clock)
        return parts

    def _wire(self, cfg: MemoryConfig, clock: Clock) -> None:
        self.residents = ResidentCache(
            self.store,
            embedder=self.embedder.fingerprint,
            max_turns=cfg.resident_max_turns,
            max_bytes=cfg.resident_memory_mb * 1_000_000,
            idle_seconds=cfg.resident_idle_seconds,
        )
        self.searcher = Searcher(
            self.store,
            self.vectors,
            self.embedder,
            self.residents,
            language=cfg.search_language,
            min_similarity=cfg.min_similarity,
            candidates=cfg.search_candidates,
        )
        self._wire_topics(cfg, clock)
        self.facts = FactKeeper(self.store, _make_extractor(self.llm), clock)
        self.forgetter = Forgetter(
            self.store,
            self.vectors,
            clock,
            drop_caches=self._drop_caches,
            renew_topics=self.topics.renew_stale,
            last_pass_after_seconds=max(cfg.lease_seconds, cfg.resident_idle_seconds)
            + _LAST_PASS_MARGIN_SECONDS,
            lease_seconds=cfg.lease_seconds,
        )
        indexer = Indexer(self.store, self.vectors, self.embedder, clock, language=cfg.search_language)
        settings = WorkerSettings(
            batch_turns=cfg.worker_batch_turns,
            poll_seconds=cfg.worker_poll_seconds,
            lease_seconds=cfg.lease_seconds,
            retry_base_seconds=cfg.retry_base_seconds,
            retry_max_seconds=cfg.retry_max_seconds,
            outage_patience_seconds=cfg.outage_patience_seconds,
            max_attempts=cfg.max_attempts,
            concurrent_threads=cfg.llm_concurrency,
        )
        self.worker = Worker(
            self.store,
            indexer,
            self.topics,
            self.facts,
            self.compactor,
            self.forgetter,
            clock,
            settings,
        )
        self.sweeper = _make_sweeper(self, cfg, clock)

    def _wire_topics(self, cfg: MemoryConfig, clock: Clock) -> None:
        self.topics = TopicKeeper(
            self.store,
            clock,
            embedder=self.embedder,
            settings=MatchSettings(
                similarity_threshold=cfg.similarity_threshold,
                continuation_bonus=cfg.continuation_bonus,
                short_turn_terms=cfg.short_turn_terms,
            ),
        )
        self.compactor = Compactor(
            self.store,
            _make_summarizer(self.summary_llm, cfg),
            self.topics,
            clock,
            CompactSettings(max_messages=cfg.max_messages_per_topic, keep=cfg.recent_message_keep),
        )
        self.curator = Curator(self.store, self.topics, self.compactor, clock)
        self.topic_reader = TopicReader(
            self.store, clock, _decay_settings(cfg), recent_messages=cfg.recent_message_keep
        )

    def _drop_caches(self, user_id: str) -> None:
        self.residents.drop(user_id)
        self.searcher.clear_cache()
        self.embedder.clear_cache()

    def housekeep(self) -> None:
        """What is kept of texts in memory leaves it in time, also of turns that another process forgot."""
        self.residents.drop_idle()
        self.searcher.clear_cache()
        self.embedder.clear_cache()


@contextlib.asynccontextmanager
async def _repeating(call: Callable[[], None], seconds: float) -> AsyncIterator[None]:
    """`call` every so many seconds while the block lasts."""

    async def repeat() -> None:
        while True:
            await asyncio.sleep(seconds)
            call()

    task = asyncio.create_task(repeat(), name="memory-agent housekeeping")
    try:
        yield
    finally:
        task.cancel()
        await asyncio.wait({task})


@contextlib.asynccontextmanager
async def _running(worker: Worker) -> AsyncIterator[asyncio.Task[None]]:
    """The worker as a task for as long as the block lasts; it finishes the batch in hand before the block ends."""
    worker.resume()
    task = asyncio.create_task(worker.run(), name="memory-agent worker")
    try:
        yield task
    finally:
        worker.stop()
        await task


def _embedded_folders(service: MemoryService) -> list[Path]:
    """The folders that only one process may use at a time."""
    cfg = service.cfg
    sqlite = service._given_store is None and service._mongo_client is None and cfg.mongo_uri is None
    chroma = service._given_vectors is None and cfg.chroma_host is None
    folders = [cfg.data_dir] if sqlite or chroma else []
    if chroma and not cfg.chroma_db_dir.resolve().is_relative_to(cfg.data_dir.resolve()):
        folders.append(cfg.chroma_db_dir)
    return folders


def _decay_settings(cfg: MemoryConfig) -> DecaySettings:
    return DecaySettings(
        base_half_life=cfg.base_half_life,
        access_threshold=cfg.access_threshold,
        max_half_life=cfg.max_half_life,
    )


def _make_sweeper(parts: Parts, cfg: MemoryConfig, clock: Clock) -> Sweeper:
    settings = SweepSettings(
        max_topics=cfg.max_topics,
        fade_below=cfg.fade_below,
        policy=cfg.decay_policy,
        retention_days=cfg.retention_days,
        decay=_decay_settings(cfg),
        lease_seconds=cfg.lease_seconds,
    )
    return Sweeper(parts.store, parts.compactor, parts.forgetter, clock, settings)


def _make_summarizer(llm: LLM | None, cfg: MemoryConfig) -> Summarizer:
    if llm is not None:
        return LLMSummarizer(llm, max_tokens=cfg.summary_max_tokens)
    from memory_agent.models.extractive_summary import SUMMARY_VERSION, extractive_summary

    return ExtractiveSummarizer(extractive_summary, version=SUMMARY_VERSION)


def _make_extractor(llm: LLM | None) -> FactExtractor:
    if llm is not None:
        return LLMFactExtractor(llm)
    from memory_agent.models.extractive import EXTRACTOR_VERSION, extract_facts

    return PatternFactExtractor(extract_facts, version=EXTRACTOR_VERSION)
