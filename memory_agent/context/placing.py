"""Items that a prompt may hold, and those of a tier that are in, in reading order. Pure."""

from __future__ import annotations

from bisect import bisect_left
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence

    from memory_agent.context.render import Heading
    from memory_agent.domain import ContextLine, Tier


class Item(NamedTuple):
    """One thing that a prompt may hold. `place`: where in its tier it is read; `reason`: why, if it is taken.

    `seq`: of the turn that it shows, whole, or (`part`) in an excerpt, which is of no use beside the whole turn or
    another excerpt. `under`: the heading that it stands under, once for all items of it.
    """

    tier: Tier
    name: str
    line: ContextLine
    tokens: int
    place: float
    reason: str
    score: float | None = None
    confidence: float | None = None
    seq: int | None = None
    part: bool = False
    under: Heading | None = None


class Placed:
    """The items of a tier that are in, as they are read."""

    def __init__(self, items: Sequence[Item] = ()) -> None:
        self._items = list(items)
        self._places = [item.place for item in items]

    def copy(self) -> Placed:
        """Another with the same items."""
        return Placed(self._items)

    def place_for(self, item: Item) -> int:
        """Where the item would stand: before those of the same place."""
        return bisect_left(self._places, item.place)

    def beside(self, at: int) -> tuple[Item | None, Item | None]:
        """The items that are read right before that place, and from it on; None where there is none."""
        return self._items[at - 1] if at else None, self._items[at] if at < len(self._items) else None

    def insert(self, at: int, item: Item) -> None:
        """Put the item there."""
        self._items.insert(at, item)
        self._places.insert(at, item.place)

    def index(self, item: Item) -> int:
        """Where the item stands."""
        return self._items.index(item)

    def remove(self, at: int) -> None:
        """Take out the item that stands there."""
        del self._items[at], self._places[at]
