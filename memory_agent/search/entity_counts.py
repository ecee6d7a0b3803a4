"""Counting what turns name, turn by turn: how often, first and last. Pure but for its own growing."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from memory_agent.domain import EntityCount

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import datetime

    from memory_agent.domain import Entity


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
