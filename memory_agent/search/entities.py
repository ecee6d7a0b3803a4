"""Entities of turns and questions: found by dictionary, by the caller and by a finder where one is handed in, and counted."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, TypeAlias

from memory_agent.domain import EntityCount
from memory_agent.errors import BackendError
from memory_agent.text.dictionary import united

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from datetime import datetime

    from memory_agent.domain import Entity, Scope, Turn
    from memory_agent.ports import DocumentStore, EntityFinder
    from memory_agent.search.request import Searched
    from memory_agent.search.user_index import ResidentCache
    from memory_agent.text.dictionary import EntityDictionary

log = logging.getLogger(__name__)

_FOUND_INLINE: Final = 8
"""Turns whose names are looked for on the event loop, at up to half a millisecond each."""

UNINDEXED_LIMIT: Final = 500
"""Newest unindexed turns of a scope that are looked at beside the index (a bulk ingest may have more)."""
_COUNTINGS: Final = 5
"""Looks at entities while others are being indexed; the last one counts whatever happens."""


class EntitySpotter:
    """Finds entities; what it finds are the canonical names."""

    def __init__(self, dictionary: EntityDictionary, finder: EntityFinder | None = None) -> None:
        """`finder`: for names that no dictionary knows."""
        self._dictionary = dictionary
        self._finder = finder

    async def of_turns(self, turns: Sequence[Turn]) -> list[tuple[Entity, ...]]:
        """The entities of each turn, each once, in order of mention; the caller's own included."""
        recognised: list[list[Entity]] = [[] for _ in turns]
        if self._finder is not None and turns:
            try:
                recognised = await asyncio.to_thread(self._finder.find, [turn.said for turn in turns])
            except BackendError as exc:
                # Names that only it knows are missing then; the turns are searchable all the same.
                log.warning("%s failed, its names are left out: %s", self._finder.name, type(exc).__name__)

        def find() -> list[tuple[Entity, ...]]:
            return [
                united(self._dictionary.find(turn.said), turn.entities, names, self._dictionary)
                for turn, names in zip(turns, recognised, strict=True)
            ]

        return await asyncio.to_thread(find) if len(turns) > _FOUND_INLINE else find()

    def of_unindexed(self, turn: Turn) -> tuple[Entity, ...]:
        """Those of a turn that was not indexed yet: without the model, which takes its time."""
        return united(self._dictionary.find(turn.said), turn.entities, (), self._dictionary)

    def by_dictionary(self, text: str) -> tuple[Entity, ...]:
        """The entities that a text names by the dictionary alone."""
        return self._dictionary.find(text)

    async def of_question(self, text: str) -> tuple[Entity, ...]:
        """The entities that a question names. Raises BackendError if the model fails."""
        names: list[Entity] = []
        if self._finder is not None:
            names = (await asyncio.to_thread(self._finder.find, [text]))[0]
        return united(self._dictionary.find(text), (), names, self._dictionary)


_First: TypeAlias = "tuple[datetime, str, int]"
"""When, in which turn, and as its how manieth entity."""
_Last: TypeAlias = "tuple[datetime, str]"


@dataclass(slots=True)
class _Count:
    entity: Entity
    turns: int
    first: _First
    last: _Last


class EntityTally:
    """The entities of turns that were added in any order, each turn once."""

    def __init__(self) -> None:
        self._counts: dict[Entity, _Count] = {}

    def add(self, turn_id: str, at: datetime, entities: Iterable[Entity]) -> None:
        """One more turn, with what it names in the order of mention."""
        for place, entity in enumerate(entities):
            self._count(entity, 1, (at, turn_id, place), (at, turn_id))

    def merge(self, counts: Iterable[EntityCount]) -> None:
        """Add what was counted elsewhere, of other turns, in the order of first mention."""
        for place, count in enumerate(counts):
            first, last = (count.first_at, count.first_turn_id, place), (count.last_at, count.last_turn_id)
            self._count(count.entity, count.count, first, last)

    def _count(self, entity: Entity, turns: int, first: _First, last: _Last) -> None:
        known = self._counts.setdefault(entity, _Count(entity, 0, first, last))
        known.turns += turns
        known.first, known.last = min(known.first, first), max(known.last, last)

    def counts(self) -> list[EntityCount]:
        """By first mention: the turn's time and id, then the place within it."""
        return [
            EntityCount(
                entity=count.entity,
                count=count.turns,
                first_turn_id=count.first[1],
                last_turn_id=count.last[1],
                first_at=count.first[0],
                last_at=count.last[0],
            )
            for count in sorted(self._counts.values(), key=lambda count: count.first)
        ]


class EntityCounter:
    """Counts the entities of a scope: indexed turns in memory or by the store, the others by the dictionary."""

    def __init__(self, store: DocumentStore, residents: ResidentCache, spotter: EntitySpotter) -> None:
        self._store = store
        self._residents = residents
        self._spotter = spotter

    async def count(self, scope: Scope, searched: Searched | None = None) -> list[EntityCount]:
        """The entities that the scope's turns name, by first mention; of turns not indexed yet by dictionary.

        `searched`: see `Searcher.searched`, of this thread or all of its user's, where that was read already.
        """
        if searched is None or len(searched[0]) >= UNINDEXED_LIMIT:  # the thread's may be behind these
            # In this order, as in a search: a turn that is indexed in between is then seen twice, and not never.
            unindexed = await self._store.owed_turns(scope, "index", limit=UNINDEXED_LIMIT, newest=True)
            searched = unindexed, await self._residents.get(scope.user_id)
        unindexed, index = searched
        here = (turn for turn in unindexed if scope.thread_id in (None, turn.thread_id))
        named = [(turn, found) for turn in here if (found := self._spotter.of_unindexed(turn))]
        tally = EntityTally()
        if index is not None:
            tally.merge(index.entity_counts(scope.thread_id))
            indexed = {turn.id for turn, _ in named if index.has(turn.id)}
        else:
            counts, indexed = await self._counted_by_store(scope, [turn.id for turn, _ in named])
            tally.merge(counts)
        for turn, found in named:
            if turn.id not in indexed:
                tally.add(turn.id, turn.timestamp, found)
        return tally.counts()

    async def _counted_by_store(
        self, scope: Scope, turn_ids: Sequence[str]
    ) -> tuple[list[EntityCount], set[str]]:
        """The counts of a user too large to keep in memory, and which of these turns are among them."""
        counts: list[EntityCount] = []
        indexed: set[str] = set()
        for _ in range(_COUNTINGS):
            head = await self._store.index_head(scope.user_id)
            counts = await self._store.entity_counts(scope)
            rows = await self._store.search_rows(scope.user_id, ids=turn_ids) if turn_ids else []
            indexed = {row.turn_id for row in rows if not row.erased}
            # A turn that was indexed after the counting, and before its row was looked for, would be in neither.
            if not turn_ids or await self._store.index_head(scope.user_id) == head:
                break
        return counts, indexed
