"""Fills the vector index from the search rows, user by user, behind whatever else the worker does.

Every user has a note in the document store: up to which row the index has all, and in which collection. Whoever puts rows
notes that there may be more; a collection that was lost, or is another embedding model's, has another name, and is filled
from the first row on. So what is missing is known after any crash, of this process or of the index, and is put there once it is back.
"""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING, Final

import numpy as np

from memory_agent.concurrency import together
from memory_agent.domain import VECTORS, PassageVector, Scope
from memory_agent.errors import BackendError, Unavailable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from datetime import timedelta

    from memory_agent.domain import SearchRow, VectorFill
    from memory_agent.ports import Clock, DocumentStore, VectorIndex

log = logging.getLogger(__name__)

_PAGE: Final = 500
"""Rows that are read and written at a time; a crash costs one page."""
_AT_ONCE: Final = 8
"""Users."""
_USERS: Final = 1_000
_REFUSED_SECONDS: Final = 60.0


class VectorFiller:
    """Brings search rows into the vector index, and takes what was erased out of it."""

    def __init__(
        self,
        store: DocumentStore,
        vectors: VectorIndex,
        clock: Clock,
        *,
        embedder: Callable[[], str],
        lease: timedelta,
        texts: bool,
    ) -> None:
        """`embedder`: gives the fingerprint of the model of `vectors`, "" until it is found; `texts`: go along."""
        self._store, self._vectors, self._clock, self._lease = store, vectors, clock, lease
        self._embedder, self._texts = embedder, texts
        self._fresh: dict[str, None] = {}
        """Users whose rows this process has put come first, for somebody may be waiting."""
        self._compared: tuple[str, int] | None = None
        self._after = ""
        self._refused: dict[str, float] = {}
        """Users whose vectors were refused, and until when (monotonic seconds) they are left out."""

    async def want(self, user_ids: Iterable[str]) -> None:
        """Rows of these users were put: from now on they come into the index whatever dies."""
        users = list(user_ids)
        await self._store.want_vectors(users)
        self._fresh |= dict.fromkeys(users)

    async def work_off(self, holder: str) -> bool:
        """Take in some rows of some users; whether there was anything to do."""
        if not self._embedder():
            return False  # nobody knows yet which collection is meant
        await self._compare()
        fresh = list(self._fresh)[:_AT_ONCE]
        for user_id in fresh:
            del self._fresh[user_id]
        fills = await self._store.vector_fills(fresh, limit=_AT_ONCE) if fresh else []
        if len(fills) == _AT_ONCE:
            return await self._fill_all(fills)
        # In this order one process is at a backlog, and each at what it has put itself.
        others = await self._others({fill.user_id for fill in fills}, _AT_ONCE - len(fills))
        if not others:
            return await self._fill_all(fills)
        now = self._clock.now()
        taken = await self._store.acquire_leases([VECTORS], holder, now=now, until=now + self._lease)
        try:
            return await self._fill_all([*fills, *(others if taken else ())])
        finally:
            await self._store.release_leases(list(taken), holder)

    async def _others(self, but: set[str], limit: int) -> list[VectorFill]:
        """Pending users behind the last ones, so that none is always the first."""
        found: list[VectorFill] = []
        limit += len(but)
        for after in dict.fromkeys((self._after, "")):
            found = found or await self._store.vector_fills(pending=True, after=after, limit=limit)
        self._after = found[-1].user_id if found else ""
        return [fill for fill in found if fill.user_id not in but and not self._is_refused(fill.user_id)]

    def _is_refused(self, user_id: str) -> bool:
        return time.monotonic() < self._refused.get(user_id, 0.0)

    async def _compare(self) -> None:
        """Note all users whose vectors are not where they belong: once, and after a loss or another model."""
        seen = (self._embedder(), self._vectors.losses)
        if seen == self._compared:
            return
        # First, so that `status` counts them also while the index is away.
        await self._store.want_vectors(None)
        after, lost = "", 0
        while page := await self._store.vector_fills(after=after, limit=_USERS):
            after = page[-1].user_id
            moved = [fill for fill in page if fill.place]
            moved = [fill for fill in moved if fill.place != await self._place(fill.user_id)]
            if moved:
                await self._store.want_vectors([fill.user_id for fill in moved], anew=True)
            lost += len(moved)
        if lost:
            log.warning(
                "the vectors of %d users are not where they belong (Chroma lost them, or another model, prefix or"
                " chroma_documents is set) and are written there from the search rows; `memory-agent status` counts what is missing",
                lost,
            )
        self._compared = seen

    async def _fill_all(self, fills: Sequence[VectorFill]) -> bool:
        try:
            await together(*map(self._fill_or_refuse, fills))
        except Exception:
            self._fresh |= dict.fromkeys(fill.user_id for fill in fills)
            raise
        return bool(fills or self._fresh)

    async def _fill_or_refuse(self, fill: VectorFill) -> None:
        try:
            if not await self._fill(fill):
                self._fresh[fill.user_id] = None
            self._refused.pop(fill.user_id, None)
        except Unavailable:
            raise
        except BackendError as exc:
            # One user's must not hold up the others'.
            self._refused[fill.user_id] = time.monotonic() + _REFUSED_SECONDS
            log.warning("a user's vectors cannot be written, trying again in a minute: %s", exc)

    async def _fill(self, fill: VectorFill) -> bool:
        """Take in a page of the user's rows; whether it was the last."""
        user_id = fill.user_id
        place = await self._place(user_id)
        through = fill.through if fill.place == place else 0
        if not through:  # what a former version or another way left there
            await self._vectors.clear(user_id)
        rows = await self._store.search_rows(user_id, after=through, limit=_PAGE)
        if gone := [row.turn_id for row in rows if row.erased]:
            await self._vectors.delete(user_id, gone)
        made_by = self._embedder()
        live = [row for row in rows if not row.erased and row.embedder == made_by]
        if passages := await self._passages(user_id, live):
            await self._vectors.upsert(user_id, passages)
        if place != await self._place(user_id):
            return False  # it was lost meanwhile, with what was there before
        done = len(rows) < _PAGE
        through = rows[-1].index_seq if rows else through
        await self._store.note_filled(fill, place=place, through=through, pending=not done)
        return done

    async def _place(self, user_id: str) -> str:
        """Where the user's vectors belong. With their texts it is another place, so that these come, or go, as they should."""
        return f"{await self._vectors.place(user_id)}{' with texts' * self._texts}"

    async def _passages(self, user_id: str, rows: Sequence[SearchRow]) -> list[PassageVector]:
        texts: dict[str, str] = {}
        if self._texts and rows:
            ids = [row.turn_id for row in rows]
            turns = await self._store.list_turns(Scope(user_id=user_id), ids=ids)
            texts = {turn.id: turn.content for turn in turns}
            rows = [row for row in rows if row.turn_id in texts]
        return [
            PassageVector(
                turn_id=row.turn_id,
                passage=number,
                thread_id=row.thread_id,
                role=row.role,
                timestamp=row.timestamp,
                vector=vector.astype(np.float32),
                text=texts.get(row.turn_id),
            )
            for row in rows
            for number, vector in enumerate(row.vectors)
        ]
