"""Upkeep of a memory: what its operator asks of a service, apart from what agents do."""

from __future__ import annotations

import os
import platform
from typing import TYPE_CHECKING, Any, Final

from memory_agent.domain import DEFAULT_TENANT, RebuildStep, Scope, new_id
from memory_agent.errors import InvalidInput
from memory_agent.ports import known_fingerprint

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Mapping
    from pathlib import Path
    from typing import IO

    from memory_agent.domain import (
        ErasureReceipt,
    )
    from memory_agent.exports.files import Written
    from memory_agent.exports.run import Imported
    from memory_agent.ports import Clock
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
        scope = Scope.of(user_id, tenant=tenant)
        count = await self.core.store.owe(scope, "index", now=self.clock.now())
        self.core.worker.wake()
        return count

    async def rebuild_next(self) -> RebuildStep:
        """Do `rebuild_index` for some users more; called again and again, with `settle` between, for everybody.

        How far it is stands in the store, so that another process, or a later one, goes on. The step behind the last begins anew,
        and so does the first one by another embedding model.
        """
        now = self.clock.now()
        return await self._some_users(
            "rebuild",
            lambda user: self.core.store.owe(user, "index", now=now),
            embedder=known_fingerprint(self.core.embedder),
        )

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
            return await self._some_users(
                "reextract", self._reextract, extractor=self.core.facts.extractor.name
            )
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
        progress: Callable[[SweepProgress], None] | None = None,
        each: Callable[[SweepAction], None] | None = None,
    ) -> SweepReport:
        """Archive (or delete, as `decay_policy` says) faded topics of all users, and forget turns past `retention_days`.

        With `dry_run` nothing changes; `each` is called with everything that is done or would be. Interrupted, the
        next one goes on from there. Raises SweepRunning while another process sweeps.
        """
        return await self.core.sweeper.sweep(
            holder=f"{platform.node()}, process {os.getpid()}, run {new_id()}",
            dry_run=dry_run,
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

    async def export_to(self, target: Path | IO[bytes], **options: Any) -> Written:
        """Export everybody's memory, or less, as JSON Lines: see `exports.run.export_to` for the options."""
        from memory_agent.exports.run import export_to

        return await export_to(target, self.core.store, now=self.clock.now(), **options)

    async def import_from(self, path: Path, *, progress: Callable[[int], None] | None = None) -> Imported:
        """Take an export in; what is there stays, and what was forgotten here stays forgotten. See `exports.run.import_from`."""
        from memory_agent.exports.run import import_from

        done = await import_from(path, self.core.store, now=self.clock.now(), progress=progress)
        self.core.housekeep()
        self.core.worker.wake()
        return done
