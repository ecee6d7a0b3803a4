"""The indexes of the users who are active, within a memory budget, kept as fresh as the store."""

from __future__ import annotations

import asyncio
import itertools
import logging
import time
from collections import OrderedDict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from memory_agent.ports import ALL_ROWS
from memory_agent.search.user_index import ResidentIndex
from memory_agent.text.writing import MULTILINGUAL

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from memory_agent.domain import SearchRow
    from memory_agent.ports import RowStore

log = logging.getLogger(__name__)

IDLE_SECONDS: Final = 600.0
"""After its last search a resident user leaves memory."""
_PAGE: Final = 250
"""Rows read at a time: taking them in holds the event loop for about 5 ms."""


@dataclass(slots=True)
class _Entry:
    """A user's place in the cache; `index` is None while unloaded or where the user is too large."""

    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    index: ResidentIndex | None = None
    too_large: bool = False
    checked: float = 0.0
    nbytes: int = 0


class ResidentCache:
    """The indexes of the users who are active here, within a memory budget.

    An index is fresh when its head is the store's; one that was not asked for in `idle_seconds` is dropped, so
    that whatever was erased meanwhile leaves memory too, and the stubs that announce erasures need not be kept
    for longer than that.
    """

    def __init__(
        self,
        store: RowStore,
        *,
        embedder: Callable[[], str],
        scripts: Callable[[], frozenset[str] | None] = lambda: None,
        max_turns: int,
        max_bytes: int,
        idle_seconds: float = IDLE_SECONDS,
    ) -> None:
        """`embedder`: gives the fingerprint of the model that questions are embedded with; "" while there is none.

        `scripts`: gives the scripts that it reads, see `Embedder.scripts`.
        """
        self._store = store
        self._embedder = embedder
        self._scripts = scripts
        self._max_turns = max_turns
        self._max_bytes = max_bytes
        self._idle_seconds = idle_seconds
        self._entries: OrderedDict[str, _Entry] = OrderedDict()
        """By `checked`, the oldest first."""
        self.nbytes = 0
        """Memory taken by all indexes, in bytes."""

    async def get(self, user_id: str) -> ResidentIndex | None:
        """The user's index, as fresh as the store was when this was called; None if the user is too large."""
        self.drop_idle()
        entry = self._entries.setdefault(user_id, _Entry(checked=time.monotonic()))
        async with entry.lock:
            try:
                if not entry.too_large:
                    await self._freshen(user_id, entry)
                entry.checked = time.monotonic()
                if self._entries.get(user_id) is entry:
                    self._entries.move_to_end(user_id)
            finally:
                self._measure(user_id, entry)
        self._shrink(keep=user_id)
        return entry.index

    @property
    def embedder(self) -> str:
        """Whose vectors count by now."""
        return self._embedder()

    def index_of(self, rows: Iterable[SearchRow], *, whole: bool = True) -> ResidentIndex:
        """A new index of the rows; it is not kept."""
        return ResidentIndex(rows, embedder=self.embedder, scripts=self._scripts(), whole=whole)

    def drop(self, user_id: str) -> None:
        """Forget the user's index; the next search loads it anew."""
        if (entry := self._entries.pop(user_id, None)) is not None:
            self.nbytes -= entry.nbytes

    def drop_idle(self) -> None:
        """Forget the indexes that nobody asked for in `idle_seconds`."""
        oldest = time.monotonic() - self._idle_seconds
        old = itertools.takewhile(lambda item: item[1].checked < oldest, self._entries.items())
        for user in [user for user, entry in old if not entry.lock.locked()]:
            self.drop(user)

    def _measure(self, user_id: str, entry: _Entry) -> None:
        if self._entries.get(user_id) is entry:
            before, entry.nbytes = entry.nbytes, 0 if entry.index is None else entry.index.nbytes
            self.nbytes += entry.nbytes - before

    def __contains__(self, user_id: str) -> bool:
        return user_id in self._entries

    async def _freshen(self, user_id: str, entry: _Entry) -> None:
        head = await self._store.index_head(user_id)
        index = entry.index
        if index is not None and not index.embedder and self.embedder:
            index = entry.index = None  # its model was found since
        if index is not None and head == index.head:
            return
        if index is not None and head > index.head and await self._fill(index, user_id):
            return
        await self._load(user_id, entry)

    async def _load(self, user_id: str, entry: _Entry) -> None:
        entry.index, entry.too_large = None, False
        index = self.index_of(())
        if not await self._fill(index, user_id):
            if not await self._is_left_out(user_id, len(index)):
                index = await self._load_at_once(user_id)
            if await self._is_left_out(user_id, len(index)):
                entry.too_large = True
                return
        entry.index = index
        if index.foreign and index.embedder:
            log.warning(
                "%d of a user's %d turns were embedded by another model and are found by words alone; "
                "rebuild_index (or `memory-agent rebuild --all`) embeds them anew",
                index.foreign,
                len(index),
            )
        if index.unread:
            log.warning(
                "%d of a user's %d turns are in a script that the embedding model does not know and are found by words "
                "alone; %s",
                index.unread,
                len(index),
                MULTILINGUAL,
            )

    async def _fill(self, index: ResidentIndex, user_id: str) -> bool:
        """Extend `index` to the store's head, page by page, so that few rows are in memory beside it.

        False if it grows too large or rows in it were replaced or erased meanwhile.
        """
        while True:
            page = await self._store.search_rows(user_id, after=index.head, limit=_PAGE)
            if not index.extend(page) or await self._is_left_out(user_id, len(index)):
                return False
            if len(page) < _PAGE:
                return True

    async def _load_at_once(self, user_id: str) -> ResidentIndex:
        """The index while rows are being replaced (a rebuild): of several readings of a row the last counts."""
        rows: dict[str, SearchRow] = {}
        after = 0
        while True:
            page = await self._store.search_rows(user_id, after=after, limit=_PAGE)
            rows |= {row.turn_id: row for row in page}
            turns = sum(not row.erased for row in rows.values())
            if len(page) < _PAGE or await self._is_left_out(user_id, turns):
                return await asyncio.to_thread(self.index_of, list(rows.values()))
            after = page[-1].index_seq

    async def _is_left_out(self, user_id: str, turns: int) -> bool:
        """True for more turns than are kept in memory, once candidates can be drawn from all of the user's rows."""
        return turns > self._max_turns and await self._store.candidates_through(user_id) == ALL_ROWS

    def _shrink(self, *, keep: str) -> None:
        if self.nbytes <= self._max_bytes:
            return
        for user, entry in list(self._entries.items()):
            if self.nbytes <= self._max_bytes:
                return
            if user != keep and entry.index is not None and not entry.lock.locked():
                self.drop(user)
