"""Failures: parts that are down, and the words of an error.

A stage that needs a part that is down waits, longer each time, instead of failing turn by turn.

Which one, since when and with which error is kept in the document store as well, so that every process can tell.
"""

from __future__ import annotations

import logging
import random
import time
import traceback
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Final

from memory_agent.domain import STAGES, Outage, outage_name
from memory_agent.errors import BackendError, MalformedReply, ModelRefused

if TYPE_CHECKING:
    from datetime import datetime

    from memory_agent.domain import Stage
    from memory_agent.errors import Unavailable
    from memory_agent.ports import Clock, WorkStore

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
    """The stages of one worker that wait for a part, and until when."""

    def __init__(
        self, store: WorkStore, clock: Clock, *, base_seconds: float, longest_seconds: float
    ) -> None:
        self._store, self._clock = store, clock
        self._base, self._longest = base_seconds, longest_seconds
        self._holds: dict[Stage, _Hold] = {}
        self._worked: dict[Stage, float] = {}
        self._cleared: dict[Stage, float] = {}
        """Since when (monotonic seconds) the store tells of no outage, as far as this process knows."""

    @property
    def down(self) -> frozenset[str]:
        """Parts that were down when last needed, and that something waits for."""
        return frozenset(hold.error.part for hold in self._holds.values())

    def held(self, stage: Stage) -> bool:
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

    async def hold(self, stage: Stage, exc: Unavailable) -> None:
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
        note = Outage(stage=stage, part=exc.part, since=now, error=str(exc)[:_MAX_ERROR_CHARS]).note
        name = outage_name(stage)
        await self._store.acquire_leases([name], _HOLDER, now=now, until=now + _KEPT, note=note)
        if before is None and (noted := await self._store.load_lease(name)) is not None:
            hold.since = noted.since

    async def ended(self, stage: Stage) -> None:
        """The stage did its work: nothing that it needs is down."""
        now = self._worked[stage] = time.monotonic()
        self._holds.pop(stage, None)
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
        # A turn that an earlier stage is still owed to comes to this one.
        for owed in STAGES[: STAGES.index(stage) + 1]:
            if await self._store.due_threads(ever, owed, limit=1):
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
