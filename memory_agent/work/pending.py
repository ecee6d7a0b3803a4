"""Pending work in words: which threads a stage waits in, and for what."""

from __future__ import annotations

import asyncio
import time
from datetime import timedelta
from typing import TYPE_CHECKING, Final

from memory_agent.checks import checked_timeout
from memory_agent.domain import STAGES, VECTORS, Scope, stored_at
from memory_agent.work.claims import lease_name

if TYPE_CHECKING:
    from datetime import datetime

    from memory_agent.domain import MemoryStatus, Stage
    from memory_agent.ports import WorkStore
    from memory_agent.work.worker import Worker


_NAMED: Final = 5
_LOOKED_AT: Final = 10_000
_COUNTED: Final = 1_000
FAR: Final = timedelta(days=3_650)
"""Whatever is put off is due by then."""


def waits_for_a_part(status: MemoryStatus, worker: Worker | None) -> bool:
    """True if pending work waits for a part that is down, as far as is known here.

    This process's own worker knows best: what is kept of an outage may be from before it was mended.
    """
    of_stages = [outage for outage in status.outages if outage.stage != VECTORS]
    if worker is None:
        return bool(of_stages)
    return bool(worker.store_error) or any(outage.part in worker.down for outage in of_stages)


async def pending_in_words(
    store: WorkStore, scope: Scope | None, status: MemoryStatus, worker: Worker | None, *, now: datetime
) -> str:
    """Say what is still pending by the scope's `status` (None: everybody's), what is down, and what is waited for.

    Named are up to five threads, stage by stage: how much they owe, since when, and who is at it; none whose turns are all
    parked. `worker`: this process's, if it runs.
    """
    parts = [f"{outage.part}: {outage.error}" for outage in status.outages]
    if worker is not None and worker.store_error is not None:
        parts.append(f"store: {worker.store_error}")  # which cannot keep a note of it
    down = "; ".join(parts) or "none known"
    idle = "; no worker runs in this process" if worker is None else "; the worker is paused" * worker.paused
    waits = await _threads_in_words(store, scope, now=now, ours="" if worker is None else worker.holder)
    return f"still owed: {dict(status.pending)}; parts that are down: {down}{idle}; it waits for: {waits}"


async def _threads_in_words(store: WorkStore, scope: Scope | None, *, now: datetime, ours: str) -> str:
    told: list[str] = []
    for stage in STAGES:
        for thread in await _threads(store, scope, stage, now):
            if len(told) == _NAMED:
                return "; ".join([*told, "and more"])
            if words := await _in_words(store, thread, stage, now=now, ours=ours):
                told.append(words)
    return "; ".join(told) or "nothing that is not parked"


async def _threads(store: WorkStore, scope: Scope | None, stage: Stage, now: datetime) -> list[Scope]:
    if scope is not None and scope.thread_id is not None:
        return [scope]
    everybodys = await store.due_threads(now + FAR, stage, limit=_LOOKED_AT)
    return [thread for thread in everybodys if scope in (None, thread.user)][: _NAMED + 1]


async def _in_words(store: WorkStore, thread: Scope, stage: Stage, *, now: datetime, ours: str) -> str | None:
    pending = await store.owed_turns(thread, stage, limit=_COUNTED, parked=False)
    waiting = [turn for turn in pending if turn.pending[:1] == (stage,)]
    if not waiting:
        return None
    count = f"{len(waiting):,}{' or more' if len(pending) == _COUNTED else ''}"
    age = max((now - stored_at(waiting[0].id)).total_seconds(), 0.0)
    lease = await store.load_lease(lease_name(stage, thread))
    due_at = waiting[0].due_at
    if lease is not None and lease.until > now:
        who = (
            "this process's worker"
            if ours and lease.holder.startswith(ours)
            else f"the worker {lease.holder!r}"
        )
        state = f"{who} is at it until {lease.until:%H:%M:%S} UTC"
    elif due_at is not None and due_at > now:
        state = f"due again in {(due_at - now).total_seconds():.0f} s after {waiting[0].last_error!r:.200}"
    else:
        state = "due, and no worker is at it"
    whose = f"user {thread.tenants_user_id!r}, thread {thread.thread_id!r}"
    return f"{stage} of {count} turn(s) of {whose}, the oldest {age:.0f} s old: {state}"


_POLL_SECONDS: Final = 0.05
_POLL_LONGEST_SECONDS: Final = 0.25
_WAKE_SECONDS: Final = 0.125
"""After which the worker is woken: turns that were stored here have woken it, those of others not."""


class Looks:
    """The time between the looks of somebody who waits.

    The clock is looked at between two of them: cancelling one in the middle of the driver's work, as asyncio.timeout
    does, was seen to be swallowed there.
    """

    def __init__(self, timeout: float | None) -> None:
        """`timeout`: seconds; None for ever. Raises InvalidInput for what is no number."""
        self.seconds = checked_timeout(timeout)
        self._deadline = None if self.seconds is None else time.monotonic() + self.seconds
        self._pause = _POLL_SECONDS
        # Who waits for less has but this look to wake it at.
        in_time = self.seconds is None or self.seconds > 2 * _WAKE_SECONDS
        self._wake_at: float | None = time.monotonic() + (_WAKE_SECONDS if in_time else 0)

    @property
    def is_over(self) -> bool:
        """True if the time has run out."""
        return self._deadline is not None and time.monotonic() >= self._deadline

    def may_wake(self) -> bool:
        """True once, when it is time to wake the worker, however much of others' work moves meanwhile."""
        if self._wake_at is None or time.monotonic() < self._wake_at:
            return False
        self._wake_at = None
        return True

    async def pause(self, moved: asyncio.Event, *, seldom: bool = False) -> None:
        """Wait until `moved` is set, the next look is due, or the time has run out. `seldom`: whoever sets it is at work."""
        pause = _POLL_LONGEST_SECONDS if seldom else self._pause
        left = pause if self._deadline is None else self._deadline - time.monotonic()
        waiting = asyncio.ensure_future(moved.wait())
        try:
            await asyncio.wait({waiting}, timeout=max(min(pause, left), 0))
        finally:  # also for who is cancelled
            waiting.cancel()
        self._pause = min(self._pause * 1.5, _POLL_LONGEST_SECONDS)
