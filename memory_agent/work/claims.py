"""Claims: a worker's threads, for one stage and a limited time."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
from datetime import timedelta
from typing import TYPE_CHECKING, Final

from memory_agent.errors import BackendError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from memory_agent.domain import Scope, Stage, Turn
    from memory_agent.ports import Clock, WorkStore

log = logging.getLogger(__name__)

_DUE_THREADS: Final = 200
_DUE_THREADS_LOOKED_AT: Final = 20_000


class Claims:
    """The claims of one worker, `holder`."""

    def __init__(
        self, store: WorkStore, clock: Clock, holder: str, *, lease_seconds: float, batch_turns: int
    ) -> None:
        self._store, self._clock, self._holder = store, clock, holder
        self._lease_seconds, self._batch_turns = lease_seconds, batch_turns
        self._held: dict[Stage, list[Scope]] = {}

    @property
    def counts(self) -> dict[Stage, int]:
        """The number of threads under a lease for each stage just now."""
        return {stage: len(claimed) for stage, claimed in self._held.items() if claimed}

    async def claim(self, stage: Stage, claimed: list[Scope]) -> AsyncIterator[list[Turn]]:
        """Lease due threads, longest due first (added to `claimed`), and give what each owes of the stage.

        Looks further where all that it found are leased by others or wait for their first turn.
        """
        seen: set[Scope] = set()
        limit = _DUE_THREADS
        while limit <= _DUE_THREADS_LOOKED_AT:
            due = await self._store.due_threads(self._clock.now(), stage, limit=limit)
            for scope in [scope for scope in due if scope not in seen]:
                seen.add(scope)
                if await self._lease(stage, scope):
                    claimed.append(scope)
                    if owed := await self._store.owed_turns(
                        scope, stage, limit=self._batch_turns, parked=False
                    ):
                        yield owed
            if len(due) < limit:
                return
            limit *= 10

    async def _lease(self, stage: Stage, scope: Scope) -> bool:
        now = self._clock.now()
        until = now + timedelta(seconds=self._lease_seconds)
        return await self._store.acquire_lease(lease_name(stage, scope), self._holder, now=now, until=until)

    @contextlib.asynccontextmanager
    async def leases(self, stage: Stage) -> AsyncIterator[list[Scope]]:
        """A list of claimed threads: their leases are renewed while the block runs and given back at its end."""
        claimed: list[Scope] = []
        self._held[stage] = claimed
        ended = False

        async def renew() -> None:
            while not ended:
                await asyncio.sleep(self._lease_seconds / 3)
                for scope in claimed:
                    try:
                        kept = await self._lease(stage, scope)
                    except BackendError as exc:
                        log.warning("a lease could not be renewed: %s", exc)
                        continue
                    if not kept:
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
            for scope in claimed:
                with contextlib.suppress(BackendError):  # it runs out by itself
                    await self._store.release_lease(lease_name(stage, scope), self._holder)
            self._held.pop(stage, None)


def lease_name(stage: Stage, scope: Scope) -> str:
    """The name of a stage's lease on a thread; no two share one, whatever characters the ids hold."""
    return f"{stage}:" + json.dumps([scope.user_id, scope.thread_id])
