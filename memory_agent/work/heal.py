"""A vector index that came back empty (a Chroma server on another volume) is filled again from the search rows.

Whoever finds that a collection is not there leaves a mark before making it. A worker then looks which turns of large users the index
lacks, and has these indexed again, which embeds nothing. Of a collection that was never there nobody lacks anything.
"""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING, Final

from memory_agent.domain import Scope
from memory_agent.errors import BackendError, StoreError, StoreUnavailable
from memory_agent.ports import ALL_ROWS, LOST_INDEX

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import timedelta

    from memory_agent.ports import Clock, DocumentStore, VectorIndex

log = logging.getLogger(__name__)

_LEASE: Final = "vector index"
_USERS: Final = 200
_OWED: Final = 1_000
_TRY_AGAIN_SECONDS: Final = 10.0


class IndexHealer:
    """Has large users' turns indexed again that the vector index lost."""

    def __init__(
        self,
        store: DocumentStore,
        vectors: VectorIndex,
        clock: Clock,
        *,
        embedder: Callable[[], str],
        lease: timedelta,
    ) -> None:
        """`embedder`: gives the fingerprint of the model that `vectors` is of, "" until it is found; rows of others wait for a rebuild."""
        self._store, self._vectors, self._clock, self._lease = store, vectors, clock, lease
        self._embedder = embedder
        self._not_before = 0.0

    async def work_off(self, holder: str) -> bool:
        """Look once, if there is a mark; whether there was anything to do."""
        mark = await self._store.get_meta(LOST_INDEX)
        # While there is no model nobody knows which rows the index should have, and all would seem well.
        if not mark or not self._embedder() or time.monotonic() < self._not_before:
            return False
        now = self._clock.now()
        if not await self._store.acquire_leases([_LEASE], holder, now=now, until=now + self._lease):
            return False
        try:
            lost = await self._owe_what_is_lost()
            if await self._store.get_meta(LOST_INDEX) == mark:  # else another one was missed meanwhile
                await self._store.put_meta(LOST_INDEX, {})
        except (StoreUnavailable, StoreError):
            raise
        except BackendError as exc:
            self._not_before = time.monotonic() + _TRY_AGAIN_SECONDS
            log.warning("the vector index cannot be looked through, trying again: %s", exc)
            return False
        finally:
            await self._store.release_leases([_LEASE], holder)
        if lost:
            log.warning(
                "the vector index lacked %d turns of large users and is filled again from their search rows; `memory-agent"
                " status` says how many still owe `index`",
                lost,
            )
        return True

    async def _owe_what_is_lost(self) -> int:
        lost, after = 0, ""
        while page := await self._store.stored_users(after=after, limit=_USERS):
            after = page[-1]
            for user_id in page:
                if await self._store.candidates_through(user_id) == ALL_ROWS:
                    lost += await self._owe(user_id)
        return lost

    async def _owe(self, user_id: str) -> int:
        held, made_by = await self._vectors.turn_ids(user_id, searched=True), self._embedder()
        rows = [row for row in await self._store.search_rows(user_id) if row.embedder == made_by]
        lacking = [row.turn_id for row in rows if len(row.vectors) and row.turn_id not in held]
        for start in range(0, len(lacking), _OWED):
            ids = lacking[start : start + _OWED]
            await self._store.owe(Scope(user_id=user_id), "index", now=self._clock.now(), turn_ids=ids)
        return len(lacking)
