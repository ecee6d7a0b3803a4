"""Counts of the entities that turns name: how often, first and last."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from memory_agent.domain import EntityCount

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from datetime import datetime

    from memory_agent.domain import Entity, Scope
    from memory_agent.ports import DocumentStore
    from memory_agent.search.entity_linking import EntitySpotter
    from memory_agent.search.user_index_cache import ResidentCache

UNINDEXED_LIMIT: Final = 500
"""Newest unindexed turns of a scope that are looked at beside the index (a bulk ingest may have more)."""
_COUNTINGS: Final = 5
"""Looks at entities while others are being indexed; the last one counts whatever happens."""


@dataclass(slots=True)
class _Count:
    entity: Entity
    turns: int
    first: tuple[datetime, str, int]
    """When, in which turn, and as its how manieth entity."""
    last: tuple[datetime, str]


class EntityTally:
    """The entities of turns that were added in any order, each turn once."""

    def __init__(self) -> None:
        self._counts: dict[Entity, _Count] = {}

    def add(self, turn_id: str, at: datetime, entities: Iterable[Entity]) -> None:
        """One more turn, with what it names in the order of mention."""
        for place, entity in enumerate(entities):
            known = self._counts.get(entity)
            if known is None:
                self._counts[entity] = _Count(entity, 1, (at, turn_id, place), (at, turn_id))
                continue
            known.turns += 1
            known.first = min(known.first, (at, turn_id, place))
            known.last = max(known.last, (at, turn_id))

    def merge(self, counts: Iterable[EntityCount]) -> None:
        """Add what was counted elsewhere, of other turns, in the order of first mention."""
        for place, count in enumerate(counts):
            first, last = (count.first_at, count.first_turn_id, place), (count.last_at, count.last_turn_id)
            known = self._counts.get(count.entity)
            if known is None:
                self._counts[count.entity] = _Count(count.entity, count.count, first, last)
                continue
            known.turns += count.count
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

    async def count(self, scope: Scope) -> list[EntityCount]:
        """The entities that the scope's turns name, by first mention; of turns not indexed yet by dictionary."""
        # In this order, as in a search: a turn that is indexed in between is then seen twice, and not never.
        unindexed = await self._store.owed_turns(scope, "index", limit=UNINDEXED_LIMIT, newest=True)
        named = [(turn, found) for turn in unindexed if (found := self._spotter.of_unindexed(turn))]
        index = await self._residents.get(scope.user_id)
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
