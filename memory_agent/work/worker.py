"""The worker: claims threads with pending turns under a lease, runs the stages, marks them done.

Everything it does is idempotent, so a worker that dies loses nothing: its leases run out and another goes on.
`Unavailable` (a part is down) holds the stage back and is waited out, for as long as it takes; any other error of a
turn is counted and, after `max_attempts`, parks the turn with its last error, visibly.

A stage that needs a part that is down waits, longer each time, instead of failing turn by turn.

Which one, since when and with which error is kept in the document store as well, so that every process can tell.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import functools
import itertools
import logging
import random
import time
import traceback
from collections import OrderedDict
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Final

from memory_agent.concurrency import together
from memory_agent.domain import STAGES, VECTORS, Outage, new_id, outage_name
from memory_agent.errors import BackendError, MalformedReply, ModelRefused, StoreUnavailable, Unavailable
from memory_agent.work.claims import Claims
from memory_agent.work.stages import Rounds, batches, by_thread, first_batch

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
    from datetime import datetime

    from memory_agent.domain import Scope, Stage, Turn
    from memory_agent.ports import Clock, DocumentStore, WorkStore
    from memory_agent.work.claims import Claimed
    from memory_agent.work.forget import Forgetter
    from memory_agent.work.stages import OrderedStage, Stages


log = logging.getLogger(__name__)

_HOLDER: Final = "workers"
"""Of the lease that tells of an outage: all of them, so that each may renew or end it."""
_KEPT: Final = timedelta(days=3_650)
"""Until somebody does the stage's work: processes that only look must see it while no worker runs."""

_CLEARED_SECONDS: Final = 60.0
_MAX_ERROR_CHARS: Final = 1_000


@dataclass(slots=True)
class _Hold:
    """A stage that waits because a part it needs is down; `until` in monotonic seconds."""

    error: Unavailable
    failures: int
    until: float
    since: datetime


def backoff_seconds(failures: int, *, base: float, longest: float, jitter: float) -> float:
    """Seconds to wait after so many `failures` (from 1): doubling from `base`, at most `longest`.

    `jitter` in [0, 1] takes up to half of it away, so that many turns that failed together don't return together.
    """
    doubled = base * 2.0 ** min(max(failures - 1, 0), 60)
    return min(doubled, longest) * (1.0 - 0.5 * jitter)


class Outages:
    """The stages and other loops of one worker that wait for a part, and until when."""

    def __init__(
        self, store: WorkStore, clock: Clock, *, base_seconds: float, longest_seconds: float
    ) -> None:
        self._store, self._clock = store, clock
        self._base, self._longest = base_seconds, longest_seconds
        self._holds: dict[str, _Hold] = {}
        self._worked: dict[str, float] = {}
        self._cleared: dict[str, float] = {}
        """Since when (monotonic seconds) the store tells of no outage, as far as this process knows."""

    @property
    def down(self) -> frozenset[str]:
        """Parts that were down when last needed, and that something waits for."""
        return frozenset(hold.error.part for hold in self._holds.values())

    def held(self, stage: str) -> bool:
        """True if the stage has to wait."""
        hold = self._holds.get(stage)
        return hold is not None and time.monotonic() < hold.until

    def seconds_down(self, stage: Stage) -> float:
        """For how long the stage has been waiting, whichever process found it out; 0 if it isn't."""
        hold = self._holds.get(stage)
        return 0.0 if hold is None else (self._clock.now() - hold.since).total_seconds()

    def due_at(self, stage: Stage) -> datetime:
        """The time at which the stage is tried again."""
        hold = self._holds.get(stage)
        seconds = 0.0 if hold is None else hold.until - time.monotonic()
        return self._clock.now() + timedelta(seconds=max(seconds, 0.001))

    def error(self, stage: Stage) -> Unavailable | None:
        """The error that the stage waits out; None if it doesn't."""
        hold = self._holds.get(stage)
        return None if hold is None else hold.error

    def worked_since(self, stage: Stage, moment: float) -> bool:
        """True if the stage's work was done since then (monotonic seconds), so that its parts were there."""
        return self._worked.get(stage, float("-inf")) > moment

    async def hold(self, stage: str, exc: Unavailable) -> None:
        """Let the stage wait for the part that `exc` names, and tell everybody."""
        before = self._holds.get(stage)
        if before is not None and self.held(stage):
            return  # calls that failed together are one failure
        failures = before.failures + 1 if before else 1
        seconds = max(self.backoff(failures), min(exc.retry_after or 0.0, self._longest))
        # Once is enough to be noticed; `status` tells how it stands.
        level = logging.INFO if before else logging.WARNING
        log.log(level, "stage %s waits for the %s, %.1f s for now: %s", stage, exc.part, seconds, exc)
        now = self._clock.now()
        hold = self._holds[stage] = _Hold(
            error=exc,
            failures=failures,
            until=time.monotonic() + seconds,
            since=now if before is None else before.since,
        )
        self._cleared.pop(stage, None)
        told = str(exc)[:_MAX_ERROR_CHARS]
        note = Outage(stage=stage, part=exc.part, since=now, error=told).note  # type: ignore[arg-type]
        name = outage_name(stage)
        await self._store.acquire_leases([name], _HOLDER, now=now, until=now + _KEPT, note=note)
        if before is None and (noted := await self._store.load_lease(name)) is not None:
            hold.since = noted.since

    async def ended(self, stage: str) -> None:
        """The stage did its work: nothing that it needs is down."""
        now = self._worked[stage] = time.monotonic()
        if (hold := self._holds.pop(stage, None)) is not None:
            log.warning("stage %s goes on: the %s is back", stage, hold.error.part)
        # Now and then also what another process noted that may not live any more.
        if now - self._cleared.get(stage, float("-inf")) > _CLEARED_SECONDS:
            await self._store.release_leases([outage_name(stage)], _HOLDER)
            self._cleared[stage] = now

    async def ended_if_idle(self, stage: Stage) -> None:
        """Wait no longer if nothing does: its turns were forgotten, or another process did their work.

        Nothing shows that the part is up again; whoever needs it next finds out.
        """
        if stage not in self._holds or self.held(stage):
            return
        ever = self._clock.now() + _KEPT
        # A turn of which an earlier stage is still pending comes to this one.
        for earlier in STAGES[: STAGES.index(stage) + 1]:
            if await self._store.due_threads(ever, earlier, limit=1):
                return
        await self._store.release_leases([outage_name(stage)], _HOLDER)
        del self._holds[stage]

    def backoff(self, failures: int) -> float:
        """See `backoff_seconds`."""
        jitter = random.random()  # noqa: S311 - spreads retries, guards nothing
        return backoff_seconds(failures, base=self._base, longest=self._longest, jitter=jitter)


def words_of(exc: Exception) -> str:
    """An error as it is kept with its turn, a model's reply included; it goes when the turn is forgotten."""
    reply = exc.reply if isinstance(exc, (MalformedReply, ModelRefused)) else ""
    told = f" (the reply: {reply!r:.2000})" if reply or isinstance(exc, MalformedReply) else ""
    return f"{type(exc).__name__}: {exc}"[:_MAX_ERROR_CHARS] + told


def origin_of(exc: Exception) -> str:
    """An error for the log: its class, and where in the code it arose if it is none of ours. No message."""
    trace = "" if isinstance(exc, BackendError) else "\n" + "".join(traceback.format_tb(exc.__traceback__))
    return type(exc).__name__ + trace


OUTAGE_PATIENCE_SECONDS: Final = 86_400.0
"""That a turn may fail as if a part were down, while that part works for others, before it is parked."""
STAND_IN_SECONDS: Final = 300.0
"""That the language model may be away before patterns stand in: a restart passes unnoticed, and a wrong key leaves nobody without facts."""
FIRST_RETRY_SECONDS: Final = 1.0
"""Before the first retry of a stage; each further one waits twice as long, with jitter."""
_BATCH_TURNS: Final = 256
FACTS_BATCH_TURNS: Final = 2
"""Turns of a thread in one request for facts. More is cheaper, for instructions and context are sent once; but a long
reply is cut off sooner, and small models lose track."""
_LEASED_AT_ONCE: Final = 32
"""Threads of one batch of indexing, or of another stage that asks no model."""
_FORGET: Final = "forget"
"""A loop that is no stage's, as those of `background` are none."""
_BATCH_CHARS: Final = 1_000_000
"""Text embedded in one batch, so that a few huge turns don't become one huge call."""
POLL_SECONDS: Final = 1.0  # between looks for what nothing announces
LONGEST_RETRY_SECONDS: Final = 300.0
_NEVER_PUT_OFF: Final = timedelta(hours=2)
"""Longer than anything is put off, or leased."""
_TIME_CHECKED: Final = timedelta(minutes=1)
_REMEMBERED_FAILURES: Final = 50_000
_MEANWHILE_TURNS: Final = 10_000
"""Of one thread that are looked at in one go while a stage waits."""


@dataclass(frozen=True, kw_only=True, slots=True)
class WorkerSettings:
    """Settings of the worker; units in the names, reasons in `config/memory.toml`."""

    lease_seconds: float
    max_attempts: int
    llm_concurrency: int


class Worker:
    """Works off what is pending, until stopped. Several may run, in any number of processes.

    Each stage has a loop and leases of its own, and so have forgetting and what is done in the background, so that none holds up another.
    Indexing batches turns over threads; the stages after it go through each thread in its order.
    """

    def __init__(
        self,
        store: DocumentStore,
        stages: Stages,
        forgetter: Forgetter,
        background: Mapping[str, Callable[[str], Awaitable[bool]]],
        clock: Clock,
        settings: WorkerSettings,
    ) -> None:
        self._store, self._clock, self._settings = store, clock, settings
        self._stages, self._forgetter, self._background = stages, forgetter, background
        self.holder = new_id()
        self._claims = Claims(store, clock, self.holder, lease_seconds=settings.lease_seconds)
        self._in_order = stages.in_order(_BATCH_TURNS, FACTS_BATCH_TURNS)
        self._rounds = Rounds(
            self._claims,
            self._in_order,
            clock,
            may_work=lambda stage: not (self._stopping or self.paused or self._outages.held(stage)),
            mark_done=self._mark_done,
        )
        self.moved = asyncio.Event()
        """Set and replaced whenever turns got their topic, owe nothing more, or came into the vector index."""
        self._woken: dict[str, asyncio.Event] = {
            loop: asyncio.Event() for loop in (*STAGES, _FORGET, *background)
        }
        self._store_errors: dict[str, str] = {}
        self.paused = self._stopping = False
        self._time_checked: datetime | None = None
        longest = LONGEST_RETRY_SECONDS
        self._outages = Outages(store, clock, base_seconds=FIRST_RETRY_SECONDS, longest_seconds=longest)
        self._unavailable_since: OrderedDict[str, float] = OrderedDict()

    @property
    def down(self) -> frozenset[str]:
        """Parts that were down when last needed and are waited for (`llm`, `embedder`, `vector_index`, `store`)."""
        return self._outages.down | ({StoreUnavailable.part} if self._store_errors else frozenset())

    @property
    def store_error(self) -> str | None:
        """The error by which the store kept a loop of this worker from its last round: a full disk, for one."""
        return next(iter(self._store_errors.values()), None)

    @property
    def at_work(self) -> dict[Stage, int]:
        """The number of threads that each stage works on just now."""
        return self._claims.counts

    def pause(self) -> None:
        """Finish the batches in hand, then leave everything pending, forgetting's last passes too, until `go_on`."""
        self.paused = True

    def go_on(self) -> None:
        """Work again after a `pause`."""
        self.paused = False
        self.wake()

    def wake(self, *stages: Stage) -> None:
        """There is work for these stages (none named: for any): don't wait for the next poll."""
        for loop in stages or self._woken:
            self._woken[loop].set()

    def resume(self) -> None:
        """Let the next `run` work, after a `stop`."""
        self._stopping = False

    def stop(self) -> None:
        """Finish the stage in hand, then let `run` return, also if it only starts now."""
        self._stopping = True
        self.wake()

    async def run(self) -> None:
        """Work until `stop`. Survives the store's outages; what it was doing is done again afterwards."""
        async with asyncio.TaskGroup() as loops:
            loops.create_task(self._loop(_FORGET, self._forget_step))
            for name, work_off in self._background.items():
                step = functools.partial(self._background_step, name, work_off)
                loops.create_task(self._loop(name, step))
            loops.create_task(self._loop("index", self._index_step))
            for kind in self._in_order:
                loops.create_task(self._loop(kind.stage, functools.partial(self._step, kind)))

    async def _loop(self, name: str, step: Callable[[], Awaitable[bool]]) -> None:
        failures, task = 0, asyncio.current_task()
        # A cancellation counts even if what was awaited swallowed it, or an event loop that ends would wait for ever.
        while not (self._stopping or (task is not None and task.cancelling())):
            self._woken[name].clear()
            worked, pause = False, POLL_SECONDS
            try:
                worked = False if self.paused else await step()
                failures = 0
                if self._store_errors.pop(name, None) is not None and not self._store_errors:
                    log.warning("the document store is back")
            except Exception as exc:
                # Whatever it is, a worker that ended silently would leave everything pending for ever.
                failures += 1
                pause = self._outages.backoff(failures)
                if isinstance(exc, StoreUnavailable):
                    if not self._store_errors:
                        log.warning("the document store is down, and tried again until it is back: %s", exc)
                    self._store_errors[name] = str(exc)
                else:
                    log.error("the worker could not finish a batch and does it again: %s", origin_of(exc))
            if not worked and not self._stopping:
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(self._woken[name].wait(), pause)

    async def _forget_step(self) -> bool:
        now = self._clock.now()
        if self._time_checked is None or not now - _TIME_CHECKED < self._time_checked <= now:
            self._time_checked = now
            if brought := await self._store.bring_back(now=now, beyond=now + _NEVER_PUT_OFF):
                log.warning(
                    "a clock was ahead: %d turns, erasures or leases are due now instead of later", brought
                )
                self.wake()
        return await self._forgetter.work_off(self.holder)

    async def _background_step(self, name: str, work_off: Callable[[str], Awaitable[bool]]) -> bool:
        """A step of what is no stage's; whether there was anything to do. Waits for a part as a stage does."""
        if self._outages.held(name):
            return False
        try:
            worked = await work_off(self.holder)
        except StoreUnavailable:
            raise
        except Unavailable as exc:
            await self._outages.hold(name, exc)
            return False
        if worked:
            await self._outages.ended(name)
            self._tell_moved()
        return worked

    async def _index_step(self) -> bool:
        """One batch of indexing over threads, each with its share of it; whether there was anything to do."""
        if self._outages.held("index"):
            return False
        behind: dict[Scope, Sequence[Turn]] = {}
        try:
            async with self._claims.leases("index") as claimed:
                found: list[Turn] = []
                ahead = self._stages.indexer.looks_ahead
                async for _, pending in self._claims.claim(
                    "index", claimed, at_once=_LEASED_AT_ONCE, room=_BATCH_TURNS, ahead=ahead
                ):
                    found += filter(self._is_due, pending)
                    if len(found) >= _BATCH_TURNS or sum(len(turn.content) for turn in found) >= _BATCH_CHARS:
                        break
                turns = first_batch(found, _BATCH_TURNS, chars=_BATCH_CHARS)
                behind |= by_thread(turns)
                later = [*found[len(turns) :], *filter(self._is_due, claimed.ahead)] if ahead else []
                following = first_batch(later, _BATCH_TURNS, chars=_BATCH_CHARS)
                indexed, ready = await together(
                    self._run_index(turns, following), self._rounds.ready(behind, claimed)
                )
                await self._rounds.follow(behind, ready, indexed)
                if not turns:
                    await self._outages.ended_if_idle("index")
                return bool(turns) and not self._outages.held("index")
        finally:
            # Now that the leases are given back: whoever found them taken would sleep until its poll.
            self._wake_behind(itertools.chain.from_iterable(behind.values()), "index")

    async def _step(self, kind: OrderedStage) -> bool:
        """A few threads at a time, in order within each; whether there was anything to do."""
        if self._outages.held(kind.stage):
            return await self._step_meanwhile(kind)
        async with self._claims.leases(kind.stage) as claimed:
            threads: list[list[Turn]] = []
            most = _LEASED_AT_ONCE if kind.inline else self._settings.llm_concurrency
            limit = 1 if self._rounds.begin_with(kind) else kind.per_claim
            async for _, pending in self._claims.claim(kind.stage, claimed, at_once=most, limit=limit):
                if self._is_ready(pending[0], kind.stage):
                    threads.append(pending)
                if len(threads) >= most:
                    break
            if not threads:
                await self._outages.ended_if_idle(kind.stage)
            return any(await together(*(self._run_thread(kind, pending, claimed) for pending in threads)))

    async def _run_thread(self, kind: OrderedStage, pending: Sequence[Turn], claimed: Claimed) -> bool:
        """Run a stage over one thread's turns, then let the next one go on with them, whatever became of other threads."""
        worked, scope = True, pending[0].scope
        try:
            left = None
            if self._rounds.begin_with(kind):
                left = await self._rounds.work_off(pending[0], limit=kind.per_claim, claimed=claimed)
                pending = left or await self._claims.pending(scope, kind.stage, kind.per_claim)
            if left is None:
                worked = await self._run_in_order(kind, pending)
        finally:
            if worked:  # once: whoever comes behind reads all that waits for it each time
                self._wake_behind(pending, kind.stage)
        return worked

    async def _step_meanwhile(self, kind: OrderedStage) -> bool:
        """The same while the stage waits, once its part has been away for long: what can be done without it is."""
        exc, stage = self._outages.error(kind.stage), kind.stage
        if kind.meanwhile is None or exc is None or self._outages.seconds_down(stage) < STAND_IN_SECONDS:
            return False
        worked = False
        async with self._claims.leases(stage) as claimed:
            async for scope, _ in self._claims.claim(stage, claimed, at_once=1):
                pending = await self._store.owed_turns(scope, stage, limit=_MEANWHILE_TURNS, parked=False)
                ready = [turn for turn in pending if self._is_ready(turn, stage)]
                if not ready:
                    continue
                try:
                    await kind.meanwhile(ready)
                except StoreUnavailable:
                    raise
                except Exception as error:
                    # It waits with the stage in any case, and must not keep other threads from what is theirs.
                    log.error("nothing could stand in for the %s of a thread: %s", stage, origin_of(error))
                await self._postpone(scope, [turn.id for turn in ready], exc, self._outages.due_at(stage))
                worked = True
                if self._stopping or not self._outages.held(stage):
                    break
        return worked

    def _is_due(self, turn: Turn) -> bool:
        return turn.due_at is not None and turn.due_at <= self._clock.now()

    def _is_ready(self, turn: Turn, stage: Stage) -> bool:
        return self._is_due(turn) and turn.pending[:1] == (stage,)

    # --- stages ----------------------------------------------------------------------------------------------
    async def _run_index(self, turns: Sequence[Turn], ahead: Sequence[Turn] = ()) -> set[str]:
        """Index as one batch over threads; if that fails for a turn's own reasons, by halves. The ids of those that are: that is still to be marked done.

        `ahead`: the next batch, most likely.
        """
        if not turns:
            return set()
        try:
            await self._stages.indexer.index(turns, ahead)
        except StoreUnavailable:
            raise
        except Unavailable as exc:
            await self._wait_for_part("index", turns, exc)
            return set()
        except Exception as exc:
            if len(turns) == 1:
                await self._failed(turns[0], exc)
                return set()
            half = len(turns) // 2
            return await self._run_index(turns[:half]) | await self._run_index(turns[half:])
        await self._outages.ended("index")  # at once: another half may find a part down
        if VECTORS in self._woken:
            self._woken[VECTORS].set()
        return {turn.id for turn in turns}

    async def _run_in_order(self, kind: OrderedStage, pending: Sequence[Turn]) -> bool:
        """Run a stage over one thread's turns in order, up to the first that has to wait."""
        # Later statements replace earlier ones, so nothing overtakes a turn that is not due yet.
        ready = list(itertools.takewhile(lambda turn: self._is_ready(turn, kind.stage), pending))
        worked = False
        if kind.narrow is not None and ready:
            needed = {turn.id for turn in await kind.narrow(ready)}
            # That nothing was needed of a part does not say that it is up again.
            needless = [turn for turn in ready if turn.id not in needed]
            await self._mark_done(needless, needless=[kind.stage])
            worked = len(needed) < len(ready)
            ready = [turn for turn in ready if turn.id in needed]
        for batch in batches(ready, kind.at_once):
            if self._stopping or self.paused or self._outages.held(kind.stage):
                break
            try:
                await kind.work(batch)
            except StoreUnavailable:
                raise
            except Unavailable as exc:
                await self._wait_for_part(kind.stage, batch, exc)
                if kind.meanwhile is not None and self._outages.seconds_down(kind.stage) >= STAND_IN_SECONDS:
                    await kind.meanwhile(batch)
                break
            except Exception as exc:
                if len(batch) > 1:  # whose fault it is shows in smaller batches
                    halved = dataclasses.replace(kind, at_once=(len(batch) + 1) // 2, narrow=None)
                    return await self._run_in_order(halved, batch) or worked
                await self._failed(batch[0], exc)
                return True
            await self._mark_done(batch, kind.stage)
            if kind.after is not None:
                await kind.after(batch)
            worked = True
        return worked

    def _wake_behind(self, turns: Iterable[Turn], stage: Stage) -> None:
        """Let those go on that come behind the stage."""
        behind = STAGES[STAGES.index(stage) + 1 :]
        for pending in {turn.pending for turn in turns}:
            # Those after the next one would look in vain.
            for later in [each for each in pending if each in behind][:1]:
                self._woken[later].set()

    async def _mark_done(self, turns: Sequence[Turn], *done: Stage, needless: Sequence[Stage] = ()) -> None:
        """Strike off stages that did their work for these turns, and those that had none."""
        stages = (*done, *needless)
        for stage in done:
            await self._outages.ended(stage)
        for turn in turns:
            self._unavailable_since.pop(turn.id, None)
        await together(
            *(
                self._store.strike_off(scope, [turn.id for turn in of_thread], *stages)
                for scope, of_thread in by_thread(turns).items()
            )
        )
        if "topics" in stages or any(set(turn.pending) <= set(stages) for turn in turns):
            self._tell_moved()

    def _tell_moved(self) -> None:
        self.moved.set()
        self.moved = asyncio.Event()

    # --- failures --------------------------------------------------------------------------------------------
    async def _failed(self, turn: Turn, exc: Exception) -> None:
        """Count a failure of the turn itself: it is due again later, or parked."""
        attempts = turn.attempts + 1
        parked = attempts >= self._settings.max_attempts
        due_at = None if parked else self._clock.now() + timedelta(seconds=self._outages.backoff(attempts))
        level = logging.ERROR if parked else logging.WARNING
        # The message may quote what was said or answered: it is kept with the turn, and not logged.
        text = "turn %s failed %d time(s)%s (its last_error says more): %s"
        log.log(level, text, turn.id, attempts, ", parked" if parked else "", origin_of(exc))
        await self._store.postpone(turn.scope, [turn.id], error=words_of(exc), due_at=due_at, counted=True)

    async def _wait_for_part(self, stage: Stage, turns: Sequence[Turn], exc: Unavailable) -> None:
        """Hold the stage back for a while, and its turns with it.

        Parked are only turns that failed so past all patience while the part worked for others: it is down for them.
        """
        now = time.monotonic()
        await self._outages.hold(stage, exc)
        due_at = self._outages.due_at(stage)
        for scope, of_thread in by_thread(turns).items():
            spent: list[str] = []
            for turn in of_thread:
                since = self._unavailable_since.setdefault(turn.id, now)
                if now - since > OUTAGE_PATIENCE_SECONDS and self._outages.worked_since(stage, since):
                    spent.append(turn.id)
            await self._postpone(scope, [turn.id for turn in of_thread if turn.id not in spent], exc, due_at)
            await self._postpone(scope, spent, exc, None)
            for turn_id in spent:
                self._unavailable_since.pop(turn_id)
        while len(self._unavailable_since) > _REMEMBERED_FAILURES:
            self._unavailable_since.popitem(last=False)

    async def _postpone(
        self, scope: Scope, turn_ids: Sequence[str], exc: Exception, due_at: datetime | None
    ) -> None:
        """Due again then; None: parked, and counted as a failure."""
        if turn_ids:
            counted, error = due_at is None, words_of(exc)
            await self._store.postpone(scope, turn_ids, error=error, due_at=due_at, counted=counted)


@contextlib.asynccontextmanager
async def repeating(call: Callable[[], None], seconds: float) -> AsyncIterator[None]:
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
async def running(worker: Worker) -> AsyncIterator[asyncio.Task[None]]:
    """The worker as a task for as long as the block lasts; it finishes the batch in hand before the block ends."""
    worker.resume()
    task = asyncio.create_task(worker.run(), name="memory-agent worker")
    try:
        yield task
    finally:
        worker.stop()
        await task
