"""The worker: claims threads with owed turns under a lease, runs the stages, strikes them off.

Everything it does is idempotent, so a worker that dies loses nothing: its leases run out and another goes on.
`Unavailable` (a part is down) holds the stage back and is waited out; any other error of a turn is counted and,
after `max_attempts`, parks the turn with its last error, visibly.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import random
import time
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Final

from memory_agent.domain import new_id, stored_at
from memory_agent.errors import BackendError, StoreUnavailable, Unavailable

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Sequence

    from memory_agent.domain import Scope, Stage, Turn
    from memory_agent.lifecycle.forget import Forgetter
    from memory_agent.ports import Clock, DocumentStore
    from memory_agent.remember.facts import FactKeeper
    from memory_agent.remember.index import Indexer

log = logging.getLogger(__name__)

_DUE_THREADS: Final = 200


@dataclass(frozen=True, kw_only=True, slots=True)
class WorkerSettings:
    """How the worker works; units in the names, reasons in `config/memory.toml`."""

    batch_turns: int
    poll_seconds: float
    lease_seconds: float
    retry_base_seconds: float
    retry_max_seconds: float
    outage_patience_seconds: float
    max_attempts: int
    concurrent_threads: int


@dataclass(slots=True)
class _Hold:
    """A stage that waits because a part it needs is down."""

    error: Unavailable
    failures: int
    until: float


def backoff_seconds(failures: int, *, base: float, longest: float, jitter: float) -> float:
    """How long to wait after so many `failures` (from 1): doubling from `base`, at most `longest`.

    `jitter` in [0, 1] takes up to half of it away, so that many turns that failed together don't return together.
    """
    doubled = base * 2.0 ** min(max(failures - 1, 0), 60)
    return min(doubled, longest) * (1.0 - 0.5 * jitter)


class Worker:
    """Works off what is owed, until cancelled. Several may run, in any number of processes."""

    def __init__(
        self,
        store: DocumentStore,
        indexer: Indexer,
        facts: FactKeeper,
        forgetter: Forgetter,
        clock: Clock,
        settings: WorkerSettings,
        *,
        housekeeping: Callable[[], None] = lambda: None,
    ) -> None:
        self._store = store
        self._indexer = indexer
        self._facts = facts
        self._forgetter = forgetter
        self._clock = clock
        self._settings = settings
        self._housekeeping = housekeeping
        self._holder = new_id()
        self._wake = asyncio.Event()
        self._stopping = False
        self._holds: dict[Stage, _Hold] = {}

    @property
    def down(self) -> frozenset[str]:
        """Parts that were down when last needed (`llm`, `embedder`, `vector_index`)."""
        return frozenset(hold.error.part for hold in self._holds.values())

    def wake(self) -> None:
        """There is work: don't wait for the next poll."""
        self._wake.set()

    def stop(self) -> None:
        """Finish the batch in hand, then let `run` return."""
        self._stopping = True
        self._wake.set()

    async def run(self) -> None:
        """Work until `stop`. Survives the store's outages; what it was doing is done again afterwards."""
        failures = 0
        while not self._stopping:
            self._wake.clear()
            try:
                worked = await self.step()
                failures = 0
            except StoreUnavailable as exc:
                failures += 1
                worked = False
                log.warning("the document store is down, trying again: %s", exc)
            except BackendError:
                failures += 1
                worked = False
                log.exception("the worker could not finish a batch; its leases run out and it is done again")
            if not worked and not self._stopping:
                await self._sleep(self._settings.poll_seconds if not failures else self._backoff(failures))

    async def step(self) -> bool:
        """One batch; whether there was anything to do."""
        self._housekeeping()
        erased = await self._forgetter.resume_due(self._holder)
        claimed: list[Scope] = []
        async with self._leases(claimed):
            to_index, to_extract = await self._claim(claimed)
            indexed = await self._run_index(to_index)
            extracted = await self._run_facts(to_extract)
        return erased or indexed or extracted

    # --- claiming --------------------------------------------------------------------------------------------
    async def _claim(self, claimed: list[Scope]) -> tuple[list[Turn], list[list[Turn]]]:
        """Lease due threads (added to `claimed`); what they owe of each stage, up to a batch.

        The stages are read apart, so that turns which wait for one part (a language model that is down) don't
        crowd out those that wait for nothing.
        """
        to_index: list[Turn] = []
        to_extract: list[list[Turn]] = []
        for scope in await self._store.due_threads(self._clock.now(), limit=_DUE_THREADS):
            room = self._settings.batch_turns - len(to_index)
            if room <= 0 or len(to_extract) >= self._settings.batch_turns:
                break
            if not await self._lease(scope):
                continue
            claimed.append(scope)
            owed = await self._store.owed_turns(scope, "index", limit=room, parked=False)
            to_index += [turn for turn in owed if self._is_due(turn)]
            to_extract.append(
                await self._store.owed_turns(scope, "facts", limit=self._settings.batch_turns, parked=False)
            )
        return to_index, to_extract

    async def _lease(self, scope: Scope) -> bool:
        now = self._clock.now()
        until = now + timedelta(seconds=self._settings.lease_seconds)
        return await self._store.acquire_lease(lease_name(scope), self._holder, now=now, until=until)

    @contextlib.asynccontextmanager
    async def _leases(self, claimed: list[Scope]) -> AsyncIterator[None]:
        """Renew the leases on `claimed` while the block runs; give them back at its end."""

        async def renew() -> None:
            while True:
                await asyncio.sleep(self._settings.lease_seconds / 3)
                for scope in list(claimed):
                    try:
                        kept = await self._lease(scope)
                    except BackendError as exc:
                        log.warning("a lease could not be renewed: %s", exc)
                        continue
                    if not kept:
                        # All stages are idempotent, so going on is safe; it is only done twice.
                        log.warning("lost the lease on a thread; another worker goes on with it")

        renewing = asyncio.create_task(renew())
        try:
            yield
        finally:
            renewing.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await renewing
            for scope in claimed:
                with contextlib.suppress(BackendError):  # it runs out by itself
                    await self._store.release_lease(lease_name(scope), self._holder)

    def _is_due(self, turn: Turn) -> bool:
        return turn.due_at is not None and turn.due_at <= self._clock.now()

    # --- stages ----------------------------------------------------------------------------------------------
    async def _run_index(self, turns: Sequence[Turn]) -> bool:
        """Index as one batch over threads; if that fails for a turn's own reasons, turn by turn."""
        if not turns or self._held("index"):
            return await self._wait_with_stage("index", turns)
        try:
            await self._indexer.index(turns)
        except StoreUnavailable:
            raise
        except Unavailable as exc:
            self._hold("index", exc)
            return await self._wait_with_stage("index", turns)
        except BackendError as exc:
            if len(turns) == 1:
                await self._failed(turns[0], exc)
                return True
            half = len(turns) // 2
            await self._run_index(turns[:half])
            await self._run_index(turns[half:])
            return True
        self._holds.pop("index", None)
        for scope, ids in _ids_by_thread(turns).items():
            await self._store.strike_off(scope, ids, "index")
        return True

    async def _run_facts(self, threads: Sequence[Sequence[Turn]]) -> bool:
        """Extract facts, in order within a thread, several threads at a time."""
        limit = asyncio.Semaphore(self._settings.concurrent_threads)

        async def one(owed: Sequence[Turn]) -> bool:
            async with limit:
                return await self._run_facts_of_thread(owed)

        return any(await _gather_all([one(owed) for owed in threads]))

    async def _run_facts_of_thread(self, owed: Sequence[Turn]) -> bool:
        worked = False
        for position, turn in enumerate(owed):
            if not self._is_due(turn):
                break  # later statements replace earlier ones, so they wait for it
            if self._held("facts"):
                return await self._wait_with_stage("facts", owed[position:]) or worked
            try:
                await self._facts.extract(turn)
            except StoreUnavailable:
                raise
            except Unavailable as exc:
                self._hold("facts", exc)
                return await self._wait_with_stage("facts", owed[position:]) or worked
            except BackendError as exc:
                await self._failed(turn, exc)
                return True
            self._holds.pop("facts", None)
            await self._store.strike_off(turn.scope, [turn.id], "facts")
            worked = True
        return worked

    # --- failures --------------------------------------------------------------------------------------------
    async def _failed(self, turn: Turn, exc: BackendError) -> None:
        """Count a failure of the turn itself: it is due again later, or parked."""
        attempts = turn.attempts + 1
        parked = attempts >= self._settings.max_attempts
        due_at = None if parked else self._clock.now() + timedelta(seconds=self._backoff(attempts))
        level = logging.ERROR if parked else logging.WARNING
        log.log(
            level, "turn %s failed %d time(s)%s: %s", turn.id, attempts, ", parked" if parked else "", exc
        )
        await self._store.postpone(turn.scope, [turn.id], error=_words(exc), due_at=due_at, counted=True)

    async def _wait_with_stage(self, stage: Stage, turns: Sequence[Turn]) -> bool:
        """Put turns off until the held stage is tried again; park those that waited past all patience."""
        hold = self._holds.get(stage)
        if hold is None:
            return False
        now = self._clock.now()
        due_at = now + timedelta(seconds=max(hold.until - time.monotonic(), 0.001))
        for scope, of_thread in _by_thread(turns).items():
            patient: list[str] = []
            spent: list[str] = []
            for turn in of_thread:
                waited = (now - stored_at(turn.id)).total_seconds()
                (spent if waited > self._settings.outage_patience_seconds else patient).append(turn.id)
            error = _words(hold.error)
            if patient:
                await self._store.postpone(scope, patient, error=error, due_at=due_at, counted=False)
            if spent:
                await self._store.postpone(scope, spent, error=error, due_at=None, counted=True)
        return False

    def _held(self, stage: Stage) -> bool:
        hold = self._holds.get(stage)
        return hold is not None and time.monotonic() < hold.until

    def _hold(self, stage: Stage, exc: Unavailable) -> None:
        before = self._holds.get(stage)
        failures = before.failures + 1 if before else 1
        seconds = self._backoff(failures)
        self._holds[stage] = _Hold(error=exc, failures=failures, until=time.monotonic() + seconds)
        log.warning("stage %s waits %.1f s: %s", stage, seconds, exc)

    def _backoff(self, failures: int) -> float:
        return backoff_seconds(
            failures,
            base=self._settings.retry_base_seconds,
            longest=self._settings.retry_max_seconds,
            jitter=random.random(),  # noqa: S311 - spreads retries, guards nothing
        )

    async def _sleep(self, seconds: float) -> None:
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._wake.wait(), seconds)


def lease_name(scope: Scope) -> str:
    """The name of a thread's lease; no two scopes share one, whatever characters their ids hold."""
    return "thread:" + json.dumps([scope.user_id, scope.thread_id])


async def _gather_all(work: Sequence[Awaitable[bool]]) -> list[bool]:
    """All results; if some failed, the first error once all have ended (so that no lease is given back early)."""
    results = await asyncio.gather(*work, return_exceptions=True)
    for result in results:
        if isinstance(result, BaseException):
            raise result
    return [result is True for result in results]


def _by_thread(turns: Sequence[Turn]) -> dict[Scope, list[Turn]]:
    grouped: dict[Scope, list[Turn]] = {}
    for turn in turns:
        grouped.setdefault(turn.scope, []).append(turn)
    return grouped


def _ids_by_thread(turns: Sequence[Turn]) -> dict[Scope, list[str]]:
    return {scope: [turn.id for turn in of_thread] for scope, of_thread in _by_thread(turns).items()}


def _words(exc: BackendError) -> str:
    return f"{type(exc).__name__}: {exc}"[:1_000]
