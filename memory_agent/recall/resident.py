"""One user's search rows in memory, searched exactly; and the bounded cache of such indexes.

Also used, without staying, over the candidates of a user too large to keep: the same scoring, with the
statistics of the whole collection passed in.
"""

from __future__ import annotations

import asyncio
import logging
import time
from array import array
from collections import OrderedDict
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

import numpy as np

from memory_agent.domain import Entity
from memory_agent.recall.fuse import bm25, inverse_document_frequency
from memory_agent.recall.tally import EntityTally

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from numpy.typing import NDArray

    from memory_agent.domain import EntityCount, Role, SearchRow
    from memory_agent.ports import DocumentStore

log = logging.getLogger(__name__)

_PAGE: Final = 500
"""Rows read at a time: taking them in holds the event loop for about 5 ms."""
_BYTES_PER_ROW: Final = 400  # ids, list slots and dictionary entries, as measured with tracemalloc
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, kw_only=True, slots=True)
class RowFilter:
    """The caller's own filters. `since` is included, `until` is not."""

    thread_id: str | None = None
    since: datetime | None = None
    until: datetime | None = None
    role: Role | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class CollectionStatistics:
    """What BM25 needs to know of the whole collection: rows, mean terms per row, rows that hold each term."""

    rows: int
    mean_length: float
    frequency: Mapping[str, int]


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Signals:
    """Raw signals of the rows that pass the filter. `similarity` is NaN without a vector or a query vector."""

    turn_ids: Sequence[str]
    similarity: NDArray[np.float32]
    words: NDArray[np.float32]


class ResidentIndex:
    """Vectors, postings and what filters ask for, of the rows given so far.

    Rows whose vectors another embedder than `embedder` (a fingerprint) made are found by their words alone.
    """

    def __init__(self, rows: Iterable[SearchRow] = (), *, embedder: str) -> None:
        self._embedder = embedder
        self.foreign = 0
        """How many rows hold vectors of another embedder."""
        self._turn_ids: list[str] = []
        self._known: set[str] = set()
        self._threads: dict[str, int] = {}
        self._thread = array("i")
        self._role: list[Role] = []
        self._time = array("d")
        self._length = array("f")
        self._first_passage = array("q")
        self._with_vectors = array("q")
        self._vectors: NDArray[np.float32] = np.empty((0, 0), dtype=np.float32)
        self._passages = 0
        self._postings: dict[str, tuple[array[int], array[int]]] = {}
        self._posted = 0
        self._tallies: dict[str, EntityTally] = {}
        latest = {
            row.turn_id: row for row in rows
        }  # a row read again while loading replaces its first reading
        self.head = max((row.index_seq for row in latest.values()), default=0)
        live = [row for row in latest.values() if not row.erased]
        own = [row.vectors for row in live if row.embedder == embedder]
        self._reserve(sum(map(len, own)), own[0].shape[1] if own else 0)
        for row in live:
            self._append(row)

    def __len__(self) -> int:
        return len(self._turn_ids)

    @property
    def nbytes(self) -> int:
        """About how much memory this index takes, in bytes."""
        return (
            self._vectors.nbytes + 8 * self._posted + _BYTES_PER_ROW * len(self) + 200 * len(self._postings)
        )

    def extend(self, rows: Sequence[SearchRow]) -> bool:
        """Take in rows of rising `index_seq`; False, with nothing changed, if they replace or erase rows here.

        What was erased must leave memory altogether, so such rows need a fresh load.
        """
        ids = {row.turn_id for row in rows}
        if len(ids) < len(rows) or not self._known.isdisjoint(ids):
            return False
        for row in rows:
            if not row.erased:
                self._append(row)
            self.head = max(self.head, row.index_seq)
        return True

    def signals(
        self,
        *,
        query: NDArray[np.float32] | None,
        terms: Iterable[str],
        where: RowFilter,
        statistics: CollectionStatistics | None = None,
    ) -> Signals:
        """Cosine and BM25 of every row that passes `where`. `query`: float32, shape (dimension,), unit length."""
        if not self._turn_ids:
            nothing = np.empty(0, dtype=np.float32)
            return Signals(turn_ids=[], similarity=nothing, words=nothing)
        similarity = self._similarity(query)
        words = self._words(terms, statistics)
        mask = self._mask(where)
        if mask is None:
            return Signals(turn_ids=self._turn_ids, similarity=similarity, words=words)
        kept = np.flatnonzero(mask)
        return Signals(
            turn_ids=[self._turn_ids[i] for i in kept], similarity=similarity[kept], words=words[kept]
        )

    def statistics(self, terms: Iterable[str]) -> CollectionStatistics:
        """The statistics of the rows that are here."""
        held = {term: len(self._postings[term][0]) for term in terms if term in self._postings}
        return CollectionStatistics(
            rows=len(self), mean_length=sum(self._length) / max(len(self), 1), frequency=held
        )

    def _similarity(self, query: NDArray[np.float32] | None) -> NDArray[np.float32]:
        if query is None or not self._passages:
            return np.full(len(self), np.nan, dtype=np.float32)
        by_passage = self._vectors[: self._passages] @ query
        if self._passages == len(self) == len(self._with_vectors):
            return by_passage
        similarity = np.full(len(self), np.nan, dtype=np.float32)
        rows = np.array(self._with_vectors, dtype=np.intp)
        similarity[rows] = np.maximum.reduceat(by_passage, np.array(self._first_passage, dtype=np.intp))
        return similarity

    def _words(self, terms: Iterable[str], statistics: CollectionStatistics | None) -> NDArray[np.float32]:
        terms = list(terms)
        of = statistics or self.statistics(terms)
        scores = np.zeros(len(self), dtype=np.float32)
        # Copies, not views: a view would forbid the arrays to grow while it lives.
        lengths = np.array(self._length, dtype=np.float32)
        for term in terms:
            if term not in self._postings:
                continue
            rows = np.array(self._postings[term][0], dtype=np.intp)
            counts = np.array(self._postings[term][1], dtype=np.float32)
            idf = inverse_document_frequency(of.rows, of.frequency.get(term, len(rows)))
            scores[rows] += bm25(counts, lengths[rows], mean_length=of.mean_length, idf=idf)
        return scores

    def _mask(self, where: RowFilter) -> NDArray[np.bool_] | None:
        masks: list[NDArray[np.bool_]] = []
        if where.thread_id is not None and (len(self._threads) > 1 or where.thread_id not in self._threads):
            masks.append(np.array(self._thread, dtype=np.int32) == self._threads.get(where.thread_id, -1))
        times = np.array(self._time) if where.since or where.until else None
        if where.since and times is not None:
            masks.append(times >= _epoch_seconds(where.since))
        if where.until and times is not None:
            masks.append(times < _epoch_seconds(where.until))
        if where.role is not None:
            masks.append(
                np.fromiter((role == where.role for role in self._role), dtype=np.bool_, count=len(self))
            )
        return np.logical_and.reduce(masks) if masks else None

    def _append(self, row: SearchRow) -> None:
        position = len(self._turn_ids)
        self._turn_ids.append(row.turn_id)
        self._known.add(row.turn_id)
        self._thread.append(self._threads.setdefault(row.thread_id, len(self._threads)))
        self._role.append(row.role)
        self._time.append(_epoch_seconds(row.timestamp))
        self._length.append(row.length)
        if row.embedder == self._embedder:
            self._append_vectors(position, row.vectors)
        else:
            self.foreign += 1
        for term, occurrences in row.terms.items():
            posting = self._postings.get(term)
            if posting is None:
                posting = self._postings[term] = (array("i"), array("i"))
            posting[0].append(position)
            posting[1].append(occurrences)
        self._posted += len(row.terms)
        named = [entity for term in row.terms if term[:1] == "@" and (entity := Entity.from_term(term))]
        if named:
            tally = self._tallies.setdefault(row.thread_id, EntityTally())
            tally.add(row.turn_id, row.timestamp, named)

    def entity_counts(self, thread_id: str | None) -> list[EntityCount]:
        """What the turns of the thread (None: all) name, by first mention."""
        if thread_id is not None:
            tally = self._tallies.get(thread_id)
            return [] if tally is None else tally.counts()
        everything = EntityTally()
        for tally in self._tallies.values():
            everything.merge(tally.counts())
        return everything.counts()

    def has(self, turn_id: str) -> bool:
        """Whether the turn has a row here."""
        return turn_id in self._known

    def _append_vectors(self, position: int, vectors: NDArray[np.float16]) -> None:
        self._with_vectors.append(position)
        self._first_passage.append(self._passages)
        self._reserve(self._passages + len(vectors), vectors.shape[1])
        self._vectors[self._passages : self._passages + len(vectors)] = vectors
        self._passages += len(vectors)

    def _reserve(self, passages: int, dimension: int) -> None:
        """Room for `passages` vectors, doubling so that appends stay cheap."""
        if passages <= len(self._vectors):
            return
        room = passages if not len(self._vectors) else max(passages, 2 * len(self._vectors))
        grown = np.empty((room, dimension), dtype=np.float32)
        if self._passages:
            grown[: self._passages] = self._vectors[: self._passages]
        self._vectors = grown


def _epoch_seconds(moment: datetime) -> float:
    return (moment - _EPOCH).total_seconds()


@dataclass(slots=True)
class _Entry:
    """A user's place in the cache; `index` is None while unloaded or where the user is too large."""

    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    index: ResidentIndex | None = None
    too_large: bool = False
    checked: float = 0.0


class ResidentCache:
    """The indexes of the users who are active here, within a memory budget.

    An index is fresh when its head is the store's; one that was not asked for in `idle_seconds` is dropped, so
    that whatever was erased meanwhile leaves memory too, and the stubs that announce erasures need not be kept
    for longer than that.
    """

    def __init__(
        self, store: DocumentStore, *, embedder: str, max_turns: int, max_bytes: int, idle_seconds: float
    ) -> None:
        """`embedder`: the fingerprint of the model that questions are embedded with."""
        self._store = store
        self.embedder = embedder
        self._max_turns = max_turns
        self._max_bytes = max_bytes
        self._idle_seconds = idle_seconds
        self._entries: OrderedDict[str, _Entry] = OrderedDict()

    async def get(self, user_id: str) -> ResidentIndex | None:
        """The user's index, as fresh as the store was when this was called; None if the user is too large."""
        self.drop_idle()
        entry = self._entries.setdefault(user_id, _Entry(checked=time.monotonic()))
        self._entries.move_to_end(user_id)
        async with entry.lock:
            if not entry.too_large:
                await self._freshen(user_id, entry)
            entry.checked = time.monotonic()
        self._shrink(keep=user_id)
        return entry.index

    def drop(self, user_id: str) -> None:
        """Forget the user's index; the next search loads it anew."""
        self._entries.pop(user_id, None)

    def drop_idle(self) -> None:
        """Forget the indexes that nobody asked for in `idle_seconds`."""
        oldest = time.monotonic() - self._idle_seconds
        idle = [
            user
            for user, entry in self._entries.items()
            if entry.checked < oldest and not entry.lock.locked()
        ]
        for user in idle:
            del self._entries[user]

    @property
    def nbytes(self) -> int:
        """Memory taken by all indexes, in bytes."""
        return sum(entry.index.nbytes for entry in self._entries.values() if entry.index is not None)

    def __contains__(self, user_id: str) -> bool:
        return user_id in self._entries

    async def _freshen(self, user_id: str, entry: _Entry) -> None:
        head = await self._store.index_head(user_id)
        index = entry.index
        if index is not None and head == index.head:
            return
        if index is not None and head > index.head and await self._fill(index, user_id):
            return
        await self._load(user_id, entry)

    async def _load(self, user_id: str, entry: _Entry) -> None:
        entry.index = None
        index = ResidentIndex(embedder=self.embedder)
        if not await self._fill(index, user_id):
            if len(index) <= self._max_turns:
                index = await self._load_at_once(user_id)
            if len(index) > self._max_turns:
                entry.too_large = True
                return
        entry.index = index
        if index.foreign:
            log.warning(
                "%d of a user's %d turns were embedded by another model and are found by words alone; "
                "rebuild_index (or `memory-agent rebuild`) embeds them anew",
                index.foreign,
                len(index),
            )

    async def _fill(self, index: ResidentIndex, user_id: str) -> bool:
        """Extend `index` to the store's head, page by page, so that few rows are in memory beside it.

        False if it grows too large or rows in it were replaced or erased meanwhile.
        """
        while True:
            page = await self._store.search_rows(user_id, after=index.head, limit=_PAGE)
            if not index.extend(page) or len(index) > self._max_turns:
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
            if len(page) < _PAGE or sum(not row.erased for row in rows.values()) > self._max_turns:
                return await asyncio.to_thread(ResidentIndex, list(rows.values()), embedder=self.embedder)
            after = page[-1].index_seq

    def _shrink(self, *, keep: str) -> None:
        total = self.nbytes
        for user in list(self._entries):
            if total <= self._max_bytes:
                return
            entry = self._entries[user]
            if user != keep and entry.index is not None and not entry.lock.locked():
                total -= entry.index.nbytes
                del self._entries[user]
