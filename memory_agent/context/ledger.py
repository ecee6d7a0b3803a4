"""Choosing what fits: items are taken one by one into a token budget, with a ledger of every one considered. Pure.

An item is in whole or not at all. The budget holds for the rendered text, delimiters included, and for the same
as chat messages. Every line is counted with the line break that ends it, as encodings merge it with a mark before it:
so the sum is the size of the text.
"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass, replace
from itertools import groupby
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

from memory_agent.context.budget import largest, usable
from memory_agent.context.passages import outline, without_middle
from memory_agent.context.render import GAP
from memory_agent.domain import (
    TAG_OF,
    ContextBlock,
    ContextLine,
    LedgerEntry,
    prompt_messages,
    prompt_text,
)
from memory_agent.lazily import LateFields
from memory_agent.text.quotes import ANSWERS
from memory_agent.text.sentences import shortened

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from memory_agent.context.render import Heading
    from memory_agent.domain import Tier, Turn
    from memory_agent.ports import TokenCounter


At: TypeAlias = tuple[str, int]


class Item(NamedTuple):
    """One thing that a prompt may hold.

    `place`: where in its tier it is read; `reason`: why, if it is taken.

    `at`: the thread ("" for the one that it is for) and `seq` of the turn that it shows, whole, or (`part`) in an excerpt, which
    is of no use beside the whole turn or another excerpt. `under`: the heading that it stands under, once for all items of it.
    `begins`: of a value of a list, how the line begins that it shares with the list's other values, up to the bracket. `quotes`:
    where the turn is that its head quotes, and the head without the quote. `annotated`: its text says more than the turn's.
    """

    tier: Tier
    name: str
    line: ContextLine
    tokens: int
    place: float
    reason: str
    score: float | None = None
    confidence: float | None = None
    at: At | None = None
    part: bool = False
    under: Heading | None = None
    begins: str | None = None
    quotes: tuple[At, str] | None = None
    annotated: bool = False


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
        if above is not None and has_gap(above, item):
            yield ContextLine(body=GAP)
        yield item.line if above is None else headed(item.line, head_below(above, item))
        above = item


def has_gap(above: Item, item: Item) -> bool:
    """True if something was said between two turns, or excerpts, below each other under one heading."""
    if item.under is None or above.under != item.under or item.at == above.at:
        return False
    if above.at is None or item.at is None or above.at[0] != item.at[0]:
        return True
    quoted = item.line.body.startswith(ANSWERS)  # the turn between is the question that it quotes
    return item.at[1] - above.at[1] != 1 and not (quoted and item.at[1] - above.at[1] == 2)


def head_below(above: Item, item: Item) -> str:
    """The head of the item's line as it stands below another's: without a quote of what stands right there."""
    if (
        item.quotes is None
        or above.at != item.quotes[0]
        or has_gap(above, item)
        or above.annotated
        or above.line.body.endswith("…]")
    ):
        return item.line.head
    return item.quotes[1] if above.under == item.under else item.line.head


def headed(line: ContextLine, head: str) -> ContextLine:
    """The line with this head."""
    if head == line.head:
        return line
    return ContextLine(head=head, body=line.body, role=line.role, speaker=line.speaker)


_LEAST_SHOWN_CHARS: Final = 40
_READ_CHARS: Final = 20_000
_TOKEN_CHARS: Final = 8
"""Of a long token."""
_TEXT_CHARS: Final = 120
"""Of an item in the ledger: enough to know it by."""
NO_ROOM: Final = "no room in the budget"
NO_ROOM_IN_SHARE: Final = "no room in its share of the budget"
LEFT_TO_RECENT: Final = "it is among the last turns"
MESSAGE_OVERHEAD: Final = 4
"""Tokens that a chat API adds to each message for its role and delimiters (OpenAI's cookbook counts 3 to 4)."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Packed(LateFields):
    """The chosen items: blocks in reading order, the ledger, the tokens of the text."""

    blocks: tuple[ContextBlock, ...]
    ledger: tuple[LedgerEntry, ...]
    tokens: int
    taken: tuple[Item, ...]
    kept: frozenset[tuple[Tier, str]]

    def keeps(self, tier: Tier, name: str) -> bool:
        """True if the item of that tier and name is in."""
        return (tier, name) in self.kept

    def text_of(self, tier: Tier) -> str:
        """The text of the tier, line by line."""
        return "\n".join(line.shown() for block in self.blocks if block.tier == tier for line in block.lines)


class Packing:
    """Items chosen so far and the tokens they take. `order`: the tiers as they are read."""

    def __init__(
        self, order: Sequence[Tier], *, budget: int, counter: TokenCounter, apart: bool = False
    ) -> None:
        """`apart`: each tier stands for itself, so that a turn may be in several, under its number."""
        self._order = order
        self._apart = apart
        self._counter = counter
        self._budget = usable(budget, counter)
        self._lines = self._messages = 0
        self._taken: list[Item] = []
        self._of_tier: dict[Tier, int] = {}
        self._shown: dict[At, Tier] = {}
        self._excerpts: dict[At, Tier] = {}
        self._headings: set[tuple[Tier, Heading]] = set()
        self._begun: set[str] = set()
        self._placed: dict[Tier, Placed] = {}
        self._continuing: dict[tuple[str, str], int] = {}
        self._overheads: dict[Tier, int] = {}
        self._said: list[tuple[Item, str]] = []
        self._in: set[tuple[Tier, str]] = set()
        whole = prompt_text([ContextBlock(tier="facts", lines=(ContextLine(body=""),))])
        bare = f"<{TAG_OF['facts']}>\n\n</{TAG_OF['facts']}>\n"
        # A text beyond can't be shown whole, and reading a million characters would take seconds.
        self._most_chars = max(_READ_CHARS, _TOKEN_CHARS * budget)
        self._gap = counter.count(f"{GAP}\n")
        self._envelope = counter.count(whole) - counter.count(bare)

    def item(
        self,
        tier: Tier,
        name: str,
        line: ContextLine,
        *,
        place: float,
        reason: str,
        score: float | None = None,
        confidence: float | None = None,
        turn: Turn | None = None,
        away: bool = False,
        excerpt_of: int | None = None,
        under: Heading | None = None,
        begins: str | None = None,
    ) -> Item:
        """An item with its tokens counted.

        `turn`: shown whole, of another thread if it is `away`; `excerpt_of`: the `seq` of the turn that it is an excerpt of; `under` and `begins`: see `Item`.
        """
        at = self.at(turn, away=away) if turn else None if excerpt_of is None else ("", excerpt_of)
        if at and self._apart:
            at = tier, at[1]
            line = replace(line, head=f"Turn {at[1]} ({line.head.removesuffix(': ')}): ")
        if len(line.body) > self._most_chars:
            line = replace(line, body=without_middle(line.body, self._most_chars // 2))
        return Item(
            tier=tier,
            name=name,
            line=line,
            tokens=self._size(line),
            place=place,
            reason=reason,
            score=score,
            confidence=confidence,
            at=at,
            part=turn is None,
            under=under,
            begins=begins,
        )

    @staticmethod
    def at(turn: Turn, *, away: bool = False) -> At:
        """Where the turn is; `away`: in another thread, whose turns have the numbers of this one's."""
        return (turn.thread_id if away else ""), turn.seq

    def takes(self, item: Item) -> bool:
        """True if the item is in, whole or in part."""
        return (item.tier, item.name) in self._in

    @property
    def room(self) -> int:
        """Tokens that are left."""
        return self._budget - max(self._lines, self._messages)

    @property
    def tokens(self) -> int:
        """Tokens that are taken."""
        return self._budget - self.room

    def adds(self, item: Item) -> int:
        """Tokens that the item would add to the text, with its heading, a gap, and what its tier begins with."""
        placed = self._placed.get(item.tier) or Placed()
        return self._added_by(item, *placed.beside(placed.place_for(item)))[0]

    def room_for(self, item: Item) -> int:
        """Tokens that are left for the item's line, beside its heading, its tier's delimiters and the envelope."""
        placed = self._placed.get(item.tier) or Placed()
        lines, messages = self._added_by(item, *placed.beside(placed.place_for(item)))
        return self._budget - max(self._lines + lines, self._messages + messages) + item.tokens

    def showing(self, item: Item, body: str, why: str = "") -> Item:
        """The item with only `body` of its text."""
        line = replace(item.line, body=body)
        reason = f"{item.reason}, {why}" if why else item.reason
        return item._replace(line=line, tokens=self._size(line), reason=reason)

    def annotated(self, item: Item, body: str) -> Item:
        """The item with `body`, which is its text with something added."""
        if body == item.line.body:
            return item
        line = replace(item.line, body=body)
        return item._replace(line=line, tokens=self._size(line), annotated=True)

    def cut(self, item: Item, room: int) -> Item | None:
        """The item's outline in at most `room` tokens, or its beginning and end if it has none; None if that shows too little."""
        outlined = outline(item.line.body, lambda body: self.showing(item, body).tokens <= room)
        if outlined:
            return self.showing(item, outlined, "its outline, for want of room")

        def cut_to(chars: int) -> Item:
            return self.showing(item, without_middle(item.line.body, chars), "cut to what there is room for")

        chars = largest(len(item.line.body) // 2, lambda chars: cut_to(chars).tokens <= room)
        return None if chars < _LEAST_SHOWN_CHARS else cut_to(chars)

    def used_by(self, tier: Tier) -> int:
        """Tokens that the tier's items take."""
        return self._of_tier.get(tier, 0)

    def take(self, item: Item, *, limit: int | None = None) -> bool:
        """Take the item if it fits: in the budget, and its tier in `limit` tokens; else note why not."""
        where = self.where_shown(item)
        if where is not None:
            self.leave(item, _shown_among(where))
            return False
        placed = self._placed.get(item.tier) or Placed()
        at = placed.place_for(item)
        beside = placed.beside(at)
        own = item.tokens if item.begins is None else self._between(item, *beside)
        if limit is not None and self.used_by(item.tier) + own > limit:
            self.leave(item, NO_ROOM_IN_SHARE)
            return False
        added = self._added_by(item, *beside)
        lines, messages = self._lines + added[0], self._messages + added[1]
        if max(lines, messages) > self._budget:
            self.leave(item, NO_ROOM)
            return False
        self._lines, self._messages = lines, messages
        self._taken.append(item if own == item.tokens else item._replace(tokens=own))
        placed.insert(at, item)
        self._placed[item.tier] = placed
        if item.under:
            self._headings.add((item.tier, item.under))
        if item.begins is not None:
            self._begun.add(item.begins)
        self._of_tier[item.tier] = self.used_by(item.tier) + own
        if item.at is not None:
            (self._excerpts if item.part else self._shown)[item.at] = item.tier
            if not item.part and item.at in self._excerpts:
                self._drop_excerpts(item.at, item.tier)
        self._said.append((item, ""))
        self._in.add((item.tier, item.name))
        return True

    def _added_by(self, item: Item, above: Item | None, behind: Item | None) -> tuple[int, int]:
        """What the item adds between these to the text and to the messages: itself, its heading, its tier's delimiters, the envelope."""
        lines = self._between(item, above, behind) + self._heading(item)
        if item.tier not in self._of_tier:
            lines += self._delimiters(item.tier)
        if item.tier == "short_term":  # messages of their own
            block = ContextBlock(tier=item.tier, lines=(item.line,))
            return lines + self._envelope * (not self._of_tier), message_tokens([block], self._counter)
        first = all(tier == "short_term" for tier in self._of_tier)
        messages = lines + (self._envelope + MESSAGE_OVERHEAD) * first
        return lines + self._envelope * (not self._of_tier), messages

    def _between(self, item: Item, above: Item | None, behind: Item | None) -> int:
        """Tokens that the item adds between these: a line below it may need its own head for it, or do without."""
        added = self._below(above, item)
        return added if behind is None else added + self._below(item, behind) - self._below(above, behind)

    def _below(self, above: Item | None, item: Item) -> int:
        """Tokens of the item's line below that one, or of what it adds to the line that it shares with that."""
        if above is None:
            return item.tokens
        shared = item.begins is not None and above.begins == item.begins
        head = item.line.head if shared else head_below(above, item)
        if not shared and head == item.line.head:
            return item.tokens + (self._gap if has_gap(above, item) else 0)
        key = above.line.body if shared else head, item.line.body
        found = self._continuing.get(key)
        if found is None:
            size = self._size(shared_line([above, item]) if shared else headed(item.line, head))
            found = self._continuing[key] = size - (above.tokens if shared else 0)
        return found

    def _heading(self, item: Item) -> int:
        """Tokens of the heading that the item brings along."""
        if item.under is None or (item.tier, item.under) in self._headings:
            return 0
        years = {under.day.year for tier, under in self._headings if tier == item.tier}
        return self._counter.count(f"{item.under.shown(with_year=item.under.day.year not in years)}\n")

    def _drop_excerpts(self, at: At, shown_in: Tier) -> None:
        """Drop the excerpts of a turn that is now shown whole."""
        for excerpt in [taken for taken in self._taken if taken.part and taken.at == at]:
            self._remove(excerpt)
            self.leave(excerpt, _shown_among(shown_in))

    def _remove(self, item: Item) -> None:
        self._taken.remove(item)
        placed = self._placed[item.tier]
        at = placed.index(item)
        placed.remove(at)
        added = self._between(item, *placed.beside(at))
        self._lines -= added
        self._messages -= added
        self._of_tier[item.tier] -= item.tokens
        self._in.discard((item.tier, item.name))
        if item.at is not None:
            del (self._excerpts if item.part else self._shown)[item.at]

    def where_shown(self, item: Item) -> Tier | None:
        """The tier that shows the item's turn whole, or for an excerpt also in part; None if there is none."""
        if item.at is None:
            return None
        return self._shown.get(item.at) or (self._excerpts.get(item.at) if item.part else None)

    def take_all(self, items: Iterable[Item], *, limit: int | None = None) -> list[Item]:
        """Take each that fits; those that did not. With a `limit`, all are of one tier."""
        left, changed = list[Item](), True
        for item in items:
            if changed:
                room = self.room
                share = room if limit is None else limit - self.used_by(item.tier)
                fits, changed = min(room, share), False
            # Most of many facts: what shares no line and is no turn adds its tokens, whatever stands beside it.
            if item.tokens > fits and not (item.begins in self._begun or item.at or item.line.head):
                why = NO_ROOM_IN_SHARE if limit is not None and item.tokens > share else NO_ROOM
                self._said.append((item, why))
                left.append(item)
            elif self.take(item, limit=limit):
                changed = True
            else:
                left.append(item)
        return left

    def take_unbroken(self, items: Sequence[Item], *, limit: int | None = None) -> list[Item]:
        """Take items in order up to the first that does not fit; it and those behind it are left."""
        for position, item in enumerate(items):
            if not self.take(item, limit=limit):
                for behind in items[position + 1 :]:
                    self.leave(behind, "no room for what lies between it and the newest turn")
                return list(items[position:])
        return []

    def leave(self, item: Item, reason: str) -> None:
        """Note why the item is not taken; a later `take` may change that."""
        self._said.append((item, reason))

    def packed(self) -> Packed:
        """The chosen items.

        Should their sum have been too low, as a counter may have it, those taken last leave.
        """
        while True:
            blocks = self._blocks()
            tokens = self._counter.count(prompt_text(blocks))
            if max(tokens, message_tokens(blocks, self._counter)) <= self._budget or not self._taken:
                return self._packed(blocks, tokens)
            self.leave(self._taken.pop(), NO_ROOM)

    def _packed(self, blocks: tuple[ContextBlock, ...], tokens: int) -> Packed:
        kept = frozenset((item.tier, item.name) for item in self._taken)
        taken, said = tuple(self._taken), tuple(self._said)
        return Packed(blocks=blocks, ledger=(), tokens=tokens, taken=taken, kept=kept).made_later(
            lambda *_: _ledger(self._order, taken, _left(said), tokens), "ledger"
        )

    def _blocks(self) -> tuple[ContextBlock, ...]:
        of_tier: dict[Tier, list[Item]] = {tier: [] for tier in self._order}
        for item in self._taken:
            of_tier[item.tier].append(item)
        return tuple(
            ContextBlock(tier=tier, lines=tuple(lines_of(sorted(items, key=lambda item: item.place))))
            for tier, items in of_tier.items()
            if items
        )

    def _delimiters(self, tier: Tier) -> int:
        """Tokens of a tier's delimiters."""
        if tier not in self._overheads:
            tag = TAG_OF[tier]
            self._overheads[tier] = self._counter.count(f"<{tag}>\n") + self._counter.count(f"</{tag}>\n")
        return self._overheads[tier]

    def _size(self, line: ContextLine) -> int:
        return self._counter.count(f"{line.shown()}\n")


def _shown_among(tier: Tier) -> str:
    return f"shown already among the {TAG_OF[tier].removeprefix('memory_').replace('_', ' ')}"


def message_tokens(blocks: Sequence[ContextBlock], counter: TokenCounter) -> int:
    """The tokens of a context as chat messages, with `MESSAGE_OVERHEAD` for each."""
    return sum(counter.count(message["content"]) + MESSAGE_OVERHEAD for message in prompt_messages(blocks))


def _left(said: Iterable[tuple[Item, str]]) -> list[tuple[Item, str]]:
    """The items that were not taken in the end, with what was said of each last (of what was taken, "")."""
    left: dict[tuple[Tier, str], tuple[Item, str]] = {}
    for item, reason in said:
        if reason:
            left[item.tier, item.name] = (item, reason)
        else:
            left.pop((item.tier, item.name), None)
    return list(left.values())


def _ledger(
    order: Sequence[Tier], taken: Sequence[Item], left: Iterable[tuple[Item, str]], tokens: int
) -> tuple[LedgerEntry, ...]:
    """What was taken as it is read, tier by tier in that `order`, what delimits it, and what was left and why."""
    position = {tier: number for number, tier in enumerate(order)}
    as_read = sorted(taken, key=lambda item: (position[item.tier], item.place))
    entries = [_entry(item, item.reason, kept=True) for item in as_read]
    if taken:
        rest = tokens - sum(item.tokens for item in taken)
        entries.append(
            LedgerEntry(tier="envelope", item="delimiters", tokens=rest, kept=True, reason="marks the data")
        )
    return (*entries, *(_entry(item, reason, kept=False) for item, reason in left))


def _entry(item: Item, reason: str, *, kept: bool) -> LedgerEntry:
    return LedgerEntry(
        tier=item.tier,
        item=item.name,
        tokens=item.tokens,
        kept=kept,
        reason=reason,
        score=item.score,
        confidence=item.confidence,
        text=_beginning(item.line),
    )


def _beginning(line: ContextLine) -> str:
    who = "" if line.role is None else f"{line.speaker or line.role}: "
    return shortened(who + line.body[: 8 * _TEXT_CHARS], _TEXT_CHARS)
