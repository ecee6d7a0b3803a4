"""Items that a prompt may hold, and those of a tier that are in, in reading order. Pure."""

from __future__ import annotations

from bisect import bisect_left
from itertools import groupby
from typing import TYPE_CHECKING, NamedTuple

from memory_agent.context.render import head_again
from memory_agent.domain import ContextLine

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from memory_agent.context.render import Heading
    from memory_agent.domain import Tier


class Item(NamedTuple):
    """One thing that a prompt may hold. `place`: where in its tier it is read; `reason`: why, if it is taken.

    `seq`: of the turn that it shows, whole, or (`part`) in an excerpt, which is of no use beside the whole turn or
    another excerpt. `under`: the heading that it stands under, once for all items of it. `begins`: of a value of a list, how
    the line begins that it shares with the list's other values, up to the bracket. `quotes`: the `seq` of the turn that its
    head quotes, and the head without the quote.
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
    begins: str | None = None
    quotes: tuple[int, str] | None = None


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


def _by_line(items: Iterable[Item]) -> Iterator[Item]:
    """The items, of values that share a line the first with that line."""
    for begins, run in groupby(items, key=lambda item: item.begins):
        if begins is None:
            yield from run
        else:
            values = list(run)
            yield values[0]._replace(line=shared_line(values))


def shared_line(values: Sequence[Item]) -> ContextLine:
    """The line of a list with these of its values: `- likes: ["tea", "jazz"]`."""
    begins = values[0].begins or ""
    inner = (item.line.body[len(begins) :].removesuffix("]") for item in values)
    return ContextLine(body=f"{begins}{', '.join(inner)}]")


def lines_of(items: Iterable[Item]) -> Iterator[ContextLine]:
    """The items' lines, a heading before each run of those that stand under it, with the year where that is another."""
    last: Heading | None = None
    above: Item | None = None
    for item in _by_line(items):
        if item.under is not None and item.under != last:
            with_year = last is None or last.day.year != item.under.day.year
            yield ContextLine(body=item.under.shown(with_year=with_year))
            last = item.under
        yield item.line if above is None else headed(item.line, head_below(above, item))
        above = item


def head_below(above: Item, item: Item) -> str:
    """The head of the item's line as it stands below another's: without a quote of what stands or is quoted there, a dash for one that is the same."""
    head, head_above = item.line.head, above.line.head
    if above.under != item.under:
        return head
    if item.quotes is not None:
        if above.quotes is not None and item.quotes[0] == above.quotes[0]:
            head, head_above = item.quotes[1], above.quotes[1]
        elif item.quotes[0] == above.seq and not above.line.body.endswith("…]"):
            head = item.quotes[1]
    if head and head == head_above:
        return head_again(follows=item.seq is not None and above.seq == item.seq - 1)
    return head


def headed(line: ContextLine, head: str) -> ContextLine:
    """The line with this head."""
    if head == line.head:
        return line
    return ContextLine(head=head, body=line.body, role=line.role, speaker=line.speaker)
