"""Claims: a worker's threads, for one stage and a limited time."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING, Final

from memory_agent.concurrency import together
from memory_agent.errors import BackendError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable, Sequence

    from memory_agent.domain import Scope, Stage, Turn
    from memory_agent.ports import Clock, WorkStore

log = logging.getLogger(__name__)

LIVE_TURNS: Final = 64
"""Pending turns of a thread: fewer go through all stages together; a backlog's stages run side by side, in larger batches."""
_DUE_THREADS: Final = 200
_DUE_THREADS_LOOKED_AT: Final = 20_000


@dataclass(slots=True)
class Claimed:
    """The threads that a worker has claimed for a stage, and the names of all its leases on them.

    `holder`: whose these are, which no other stage's loop of the worker is: it would be given the same leases.
    """

    holder: str
    threads: int = 0
    names: set[str] = field(default_factory=set)
    ahead: list[Turn] = field(default_factory=list)
    """The turns that will come next where there was room for some alone."""


class Claims:
    """The claims of one worker, `holder`."""

    def __init__(self, store: WorkStore, clock: Clock, holder: str, *, lease_seconds: float) -> None:
        self._store, self._clock, self._holder = store, clock, holder
        self._lease_seconds = lease_seconds
        self._held: dict[Stage, Claimed] = {}
        self._rounds = 0

    @property
    def counts(self) -> dict[Stage, int]:
        """The number of threads under a lease for each stage just now."""
        return {stage: claimed.threads for stage, claimed in self._held.items() if claimed.threads}

    async def claim(
        self,
        stage: Stage,
        claimed: Claimed,
        *,
        at_once: int,
        limit: int = 1,
        room: int | None = None,
        ahead: bool = False,
    ) -> AsyncIterator[tuple[Scope, list[Turn]]]:
        """Lease due threads, as the store orders them, `at_once` together, and give what each owes of the stage, at most `limit` turns.

        With `room` for so many turns, threads that are leased together and owe less than an equal share of it have theirs; the rest is for
        some of the others, by turns, at least LIVE_TURNS each: what is done with in one round costs least. Looks further where all that it found are leased by others or wait for their first turn.
        """
        seen: set[Scope] = set()
        looked_at = _DUE_THREADS
        while looked_at <= _DUE_THREADS_LOOKED_AT:
            due = await self._store.due_threads(self._clock.now(), stage, limit=looked_at)
            new = [scope for scope in due if scope not in seen]
            seen.update(new)
            for start in range(0, len(new), at_once):
                names = {lease_name(stage, scope): scope for scope in new[start : start + at_once]}
                taken = await self._take(claimed, names)
                claimed.threads += len(taken)
                ours = [scope for name, scope in names.items() if name in taken]
                if room is None or not ours:
                    found = await together(*(self.pending(scope, stage, limit) for scope in ours))
                else:
                    found = await self._shares(ours, stage, room, claimed, ahead=ahead)
                for scope, pending in zip(ours, found, strict=True):
                    if pending:
                        yield scope, pending
            if len(due) < looked_at:
                return
            looked_at *= 10

    async def pending(self, scope: Scope, stage: Stage | None, limit: int) -> list[Turn]:
        """The oldest turns of a thread that owe the stage (None: any) and are not parked."""
        return await self._store.owed_turns(scope, stage, limit=limit, parked=False)

    async def _shares(
        self, scopes: Sequence[Scope], stage: Stage, room: int, claimed: Claimed, *, ahead: bool
    ) -> list[list[Turn]]:
        """What threads owe that share the room. `ahead`: those that would come next are then in `claimed`."""

        async def read(scopes: Sequence[Scope], limit: int) -> list[list[Turn]]:
            return await together(*(self.pending(scope, stage, limit * (1 + ahead)) for scope in scopes))

        share = max(room // len(scopes), 1)
        pending = dict(zip(scopes, await read(scopes, share), strict=True))
        hungry = [scope for scope, turns in pending.items() if len(turns) >= share]
        left = room - sum(len(turns) for turns in pending.values() if len(turns) < share)
        each = max(left // len(hungry), LIVE_TURNS) if hungry else share
        if each > share:
            # One after the other, or whoever has little would wait for the whole of some imports that are due before it.
            many = max(left // each, 1)
            start = self._rounds * many % len(hungry)
            self._rounds += 1
            fed = [*hungry[start:], *hungry[:start]][:many]
            pending |= {scope: [] for scope in hungry}
            pending |= zip(fed, await read(fed, each), strict=True)
            hungry = hungry if len(fed) == len(hungry) else []  # others come next
        claimed.ahead += [turn for scope in hungry for turn in pending[scope][each:]]
        return [turns[:each] for turns in pending.values()]

    async def claim_more(
        self, claimed: Claimed, scopes: Iterable[Scope], stages: Sequence[Stage]
    ) -> set[str]:
        """Lease these stages of threads that are claimed already; the names of those that were to be had."""
        return await self._take(claimed, [lease_name(stage, scope) for scope in scopes for stage in stages])

    async def _take(self, claimed: Claimed, names: Iterable[str]) -> set[str]:
        now = self._clock.now()
        until = now + timedelta(seconds=self._lease_seconds)
        taken = await self._store.acquire_leases(list(names), claimed.holder, now=now, until=until)
        claimed.names |= taken
        return taken

    @contextlib.asynccontextmanager
    async def leases(self, stage: Stage) -> AsyncIterator[Claimed]:
        """Claims of a stage: their leases are renewed while the block runs and given back at its end."""
        claimed = self._held[stage] = Claimed(holder=f"{self._holder}/{stage}")
        ended = False

        async def renew() -> None:
            while not ended:
                await asyncio.sleep(self._lease_seconds / 3)
                names = set(claimed.names)
                try:
                    lost = names - await self._take(claimed, names) if names else set()
                except BackendError as exc:
                    log.warning("leases could not be renewed: %s", exc)
                    continue
                if lost:
                    # All stages are idempotent, so going on is safe; it is only done twice.
                    log.warning("lost the lease on a thread; another worker goes on with it")

        renewing = asyncio.create_task(renew())
        try:
            yield claimed
        finally:
            # The flag too: on Python 3.11 asyncio.wait_for, by which PyMongo sends, can swallow a cancellation.
            ended = True
            renewing.cancel()
            await asyncio.wait({renewing})
            if claimed.names:
                with contextlib.suppress(BackendError):  # they run out by themselves
                    await self._store.release_leases(sorted(claimed.names), claimed.holder)
            self._held.pop(stage, None)


def lease_name(stage: Stage, scope: Scope) -> str:
    """The name of a stage's lease on a thread; no two share one, whatever characters the ids hold."""
    return f"{stage}:" + json.dumps([scope.user_id, scope.thread_id])
