"""Items of a context: lines of a tier that may be taken or left. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from memory_agent.context.ledger import LEFT_TO_RECENT, Packing
from memory_agent.context.placing import Item
from memory_agent.context.render import (
    Heading,
    as_data,
    heading_of,
    recalled_line,
    summary_line,
)
from memory_agent.domain import ContextLine

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from memory_agent.domain import KeyMoment, SummaryItem, Tier, Turn


def plain_items(packing: Packing, tier: Tier, lines: Sequence[str], reason: str) -> list[Item]:
    """Lines of the persona or the state."""
    return [
        packing.item(tier, f"{tier}[{place}]", ContextLine(body=as_data(line)), place=place, reason=reason)
        for place, line in enumerate(lines)
    ]


def leave_unfit(packing: Packing, lines: Sequence[tuple[Tier, str]], moments: Sequence[KeyMoment]) -> None:
    """Note what there is no room for: lines in the reminder, moments among the preserved turns."""
    for place, (tier, line) in enumerate(lines):
        name = f"{tier}:left[{place}]"
        item = packing.item(tier, name, ContextLine(body=as_data(line)), place=place, reason="")
        packing.leave(item, "no room in the reminder")
    for moment in moments:
        item = Item(
            tier="preserved",
            name=moment.turn_id,
            line=ContextLine(body=moment.text),
            tokens=moment.tokens,
            place=moment.seq,
            reason="",
            score=moment.score,
        )
        packing.leave(item, "no room among the preserved turns")


def preserved_items(
    packing: Packing,
    preserved: Sequence[tuple[Turn, float]],
    *,
    recent: Collection[str],
    replaced: Collection[str] = (),
) -> list[Item]:
    """Turns that matter, word for word. Those that are `recent` (by id) are left to the recent turns.

    Those that are `replaced` are left to the recollections, beside what holds instead.
    """
    items = [
        packing.item(
            "preserved",
            turn.id,
            recalled_line(turn),
            place=turn.seq,
            reason="important",
            score=score,
            turn=turn,
            under=heading_of(turn),
        )
        for turn, score in preserved
    ]
    for item in items:
        if item.name in recent:
            packing.leave(item, LEFT_TO_RECENT)
        elif item.name in replaced:
            packing.leave(item, "a later turn replaces it")
    return [item for item in items if item.name not in recent and item.name not in replaced]


def summary_items(packing: Packing, summary: Sequence[SummaryItem], *, excerpts: bool = False) -> list[Item]:
    """A summary's items, the most important first.

    `excerpts`: they were taken out of turns, and are of no use beside these.
    """
    items = [
        packing.item(
            "summary",
            f"summary[{place}]",
            summary_line(item),
            place=place,
            reason="summarised",
            score=item.importance,
            excerpt_of=item.first_seq if excerpts else None,
            under=None if item.said_at is None else Heading(item.said_at.date()),
        )
        for place, item in enumerate(summary)
    ]
    return sorted(items, key=lambda item: (-(item.score or 0.0), item.place))


def turn_items(packing: Packing, turns: Sequence[Turn], reason: str) -> list[Item]:
    """The last turns (oldest first) word for word, the newest first, with who said them under the day."""
    return [
        packing.item(
            "short_term",
            turn.id,
            recalled_line(turn),
            place=turn.seq,
            reason=reason,
            turn=turn,
            under=heading_of(turn),
        )
        for turn in reversed(turns)
    ]
