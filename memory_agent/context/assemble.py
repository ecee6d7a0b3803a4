"""Packing what is known into the prompt of one question. Pure.

First what a prompt must not be without: who the assistant is, and the newest exchange. Then each tier up to its
share: facts, summary, preserved turns, entities, topic, more of the window, the state of the conversation. Then
recollections by rank. What room is left goes to what did not fit before.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from memory_agent.context.budget import PRESERVED_TOKENS
from memory_agent.context.items import (
    fact_items,
    leave_unfit,
    plain_items,
    preserved_items,
    summary_items,
    window_items,
)
from memory_agent.context.ledger import NO_ROOM, Item, Packing
from memory_agent.context.render import as_data, one_line, recalled_heading, recalled_line
from memory_agent.domain import ContextLine, MemoryContext

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from memory_agent.context.budget import Shares
    from memory_agent.context.ledger import Packed
    from memory_agent.domain import Entity, EntityCount, KeyMoment, Recollection, SummaryItem, Tier, Turn
    from memory_agent.ports import TokenCounter

ORDER: Final[tuple[Tier, ...]] = (
    "persona",
    "summary",
    "preserved",
    "facts",
    "entities",
    "short_term",
    "topic",
    "state",
    "long_term",
)
"""What changes least comes first: the longest common beginning with the prompt before is what a cache can reuse."""
MOST_RECOLLECTIONS: Final = 80
"""In a prompt, where nobody set how many; some 3,000 tokens of a chat's turns."""
_DUE_TURNS: Final = 2
"""The newest exchange."""
_NEWEST_SHARE: Final = 0.5
"""Of the budget, for the newest exchange whatever the preset's share of the window is."""


@dataclass(frozen=True, kw_only=True, slots=True)
class TopicLine:
    """The active topic: its title and, if it has one, its summary."""

    id: str
    title: str
    summary: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Material:
    """All that a context may be made of. Everything in the order in which it is wanted.

    `reminder_left`: lines of persona and state that the reminder has no room for; `passed_over`: moments that the
    preserved turns have no room for.

    `persona` and `state`: lines; `preserved`: turns with their importance; `entities`: by first mention, `asked`:
    those that the question names; `window`: the last turns, oldest first; `recollections`: best first; `answered`: by the id of a recollected
    turn that says little by itself, the turn before it.
    """

    persona: Sequence[str] = ()
    state: Sequence[str] = ()
    reminder_left: Sequence[tuple[Tier, str]] = ()
    passed_over: Sequence[KeyMoment] = ()
    summary: Sequence[SummaryItem] = ()
    preserved: Sequence[tuple[Turn, float]] = ()
    facts: Mapping[str, Any] = field(default_factory=dict)
    people: Sequence[str] = ()
    """Of whom facts are known; `facts` are keyed by them if there are several."""
    entities: Sequence[EntityCount] = ()
    asked: Collection[Entity] = ()
    topic: TopicLine | None = None
    window: Sequence[Turn] = ()
    recollections: Sequence[Recollection] = ()
    answered: Mapping[str, Turn] = field(default_factory=dict)
    degraded: Sequence[str] = ()


def pack_context(
    material: Material,
    *,
    shares: Shares,
    preset: str,
    budget: int,
    counter: TokenCounter,
    max_recollections: int,
    window_step: int = 1,
) -> MemoryContext:
    """The context that fits in `budget` tokens of rendered text. `window_step`: turns by which the window moves on."""
    packing = Packing(ORDER, budget=budget, counter=counter)
    items = _items(packing, material)

    def limit(share: float) -> int:
        return int(budget * share)

    packing.take_all(items["persona"])
    leave_unfit(packing, material.reminder_left, material.passed_over)
    # Not past the first that does not fit: a window with a hole in it would misquote the conversation.
    window = items["short_term"] if shares.window else _left_out(packing, items["short_term"], preset)
    newest, older = window[:_DUE_TURNS], window[_DUE_TURNS:]
    waiting = _take_newest(
        packing, newest, material.window, room=limit(max(shares.short_term, _NEWEST_SHARE))
    )
    left: list[Item] = []
    for tier, share, most in (
        ("facts", shares.facts, budget),
        ("preserved", shares.preserved, PRESERVED_TOKENS),
        ("summary", shares.summary, budget),
        ("entities", shares.entities, budget),
        ("topic", shares.topic, budget),
    ):
        left += _take_share(packing, items[tier], share, min(limit(share), most), preset)
    if waiting:
        for item in older:
            packing.leave(item, NO_ROOM)
        waiting = [*waiting, *older]
    else:
        waiting = _take_window(packing, older, limit=limit(shares.short_term), step=window_step)
    left += _take_share(packing, items["state"], shares.state, limit(shares.state), preset)
    crowded = False
    for item in items["long_term"]:
        if packing.count_of("long_term") >= max_recollections:
            packing.leave(item, "more were found than a prompt may hold")
        elif not packing.take(item):
            crowded = crowded or packing.where_shown(item) is None
    # What is left over goes to older turns of the window (those too large for it passed over) and to the rest of each
    # tier; but not the crumbs between recollections, which would be others for each question and change the prompt
    # from its first lines on.
    if not crowded:
        packing.take_all(waiting)
        for item in left:
            packing.take(item, limit=PRESERVED_TOKENS if item.tier == "preserved" else None)
    return _context(packing.packed(), material, preset=preset, budget=budget)


def _take_newest(packing: Packing, items: Sequence[Item], window: Sequence[Turn], *, room: int) -> list[Item]:
    """Take the newest exchange, whole or, what is too long for that, its beginning and end; those not taken.

    One long answer must not cost the prompt what was asked last.
    """
    by_id = {turn.id: turn for turn in window}
    left: list[Item] = []
    for position, item in enumerate(items):
        # What is cut leaves room for the other, half or what it needs, as long as enough of it stays to be read.
        others = sum(min(other.tokens, room // 2) for other in items[position + 1 :])
        if not any(_take_cut(packing, item, by_id[item.name], most) for most in (room - others, room)):
            left.append(item)
    return left


def _take_cut(packing: Packing, item: Item, turn: Turn, limit: int) -> bool:
    """Take the item of a turn, whole or with its middle left out, if its tier then takes at most `limit` tokens."""
    if packing.take(item, limit=limit):
        return True
    cut = packing.cut(item, turn, limit - packing.used_by(item.tier))
    return cut is not None and packing.take(cut)


def _take_window(packing: Packing, older: Sequence[Item], *, limit: int, step: int) -> list[Item]:
    """Take turns of the window, newest first, as far as they fit in `limit`; those that were not taken.

    Where not all fit, the window begins at a whole step: it then stays where it is for a few turns.
    """
    room = limit - packing.used_by("short_term")
    fits = 0
    for item in older:
        room -= item.tokens
        if room < 0:
            break
        fits += 1
    if fits < len(older):
        while fits and (older[fits - 1].place - 1) % step:
            fits -= 1
    left = packing.take_unbroken(older[:fits])
    for item in older[fits:]:
        packing.leave(item, "no room in its share of the budget")
    return [*left, *older[fits:]]


def _take_share(packing: Packing, items: Sequence[Item], share: float, limit: int, preset: str) -> list[Item]:
    """Take what fits in the tier's share; what did not. Of a tier without a share nothing is wanted."""
    return packing.take_all(items, limit=limit) if share else _left_out(packing, items, preset)


def _left_out(packing: Packing, items: Sequence[Item], preset: str) -> list[Item]:
    """Note that the preset wants none of them; none."""
    for item in items:
        packing.leave(item, f"the preset {preset} leaves its kind out")
    return []


def _items(packing: Packing, material: Material) -> dict[str, list[Item]]:
    """Every item of the material, in the order in which it is wanted."""
    return {
        "persona": plain_items(packing, "persona", material.persona, "who the assistant is"),
        "state": plain_items(packing, "state", material.state, "how the conversation stands"),
        # Whatever else shows: lines that came and went with what is recalled would change the prompt from its first
        # lines on.
        "summary": summary_items(packing, material.summary),
        "preserved": preserved_items(
            packing, material.preserved, recent={turn.id for turn in material.window}
        ),
        "facts": fact_items(packing, material.facts, material.people, material.window),
        "entities": _entity_items(packing, material),
        "topic": _topic_items(packing, material.topic),
        "short_term": window_items(packing, material.window, "in the window"),
        "long_term": _recalled_items(packing, material.recollections, material.answered),
    }


def _recalled_items(
    packing: Packing, recollections: Sequence[Recollection], answered: Mapping[str, Turn]
) -> list[Item]:
    """Recollections, best first, to be read in the order in which they were said, each under its day."""
    in_time = sorted((found.turn for found in recollections), key=lambda turn: (turn.timestamp, turn.seq))
    place = {turn.id: float(number) for number, turn in enumerate(in_time)}
    rank = {found.turn.id: number for number, found in enumerate(recollections)}

    def quoted(number: int, turn: Turn) -> Turn | None:
        """The turn that this one answers, unless that is wanted more than it: then it stands right above."""
        other = answered.get(turn.id)
        return None if other is None or rank.get(other.id, number) < number else other

    return [
        packing.item(
            "long_term",
            found.turn.id,
            recalled_line(found.turn, quoted(number, found.turn)),
            place=place[found.turn.id],
            reason="recalled",
            score=found.score,
            confidence=found.confidence,
            turn=found.turn,
            under=recalled_heading(found.turn),
        )
        for number, found in enumerate(recollections)
    ]


def _entity_items(packing: Packing, material: Material) -> list[Item]:
    """Those that the question names first, then those named last.

    One line a kind would change with each new name; one line a name, by first mention, keeps those before it as they were.
    """
    asked = set(material.asked)
    by_mention = list(enumerate(material.entities))
    by_mention.sort(key=lambda at: (at[1].entity in asked, at[1].last_at, at[1].last_turn_id), reverse=True)
    return [
        packing.item(
            "entities",
            count.entity.term,
            ContextLine(body=one_line(f"- {count.entity.kind}: {count.entity.name}")),
            place=place,
            reason="named",
            score=float(count.count),
        )
        for place, count in by_mention
    ]


def _topic_items(packing: Packing, topic: TopicLine | None) -> list[Item]:
    if topic is None:
        return []
    title = ContextLine(body=one_line(topic.title))
    items = [packing.item("topic", topic.id, title, place=0, reason="the active topic")]
    if topic.summary:
        summary = ContextLine(body=as_data(topic.summary))
        items.append(
            packing.item("topic", f"{topic.id}:summary", summary, place=1, reason="the active topic")
        )
    return items


def _context(packed: Packed, material: Material, *, preset: str, budget: int) -> MemoryContext:
    names: dict[str, list[str]] = {}
    for count in material.entities:
        if packed.keeps("entities", count.entity.term):
            names.setdefault(count.entity.kind, []).append(count.entity.name)
    topic = material.topic
    kept_turns = {turn.id: turn for turn, _ in material.preserved if packed.keeps("preserved", turn.id)}
    return MemoryContext(
        blocks=packed.blocks,
        ledger=packed.ledger,
        tokens=packed.tokens,
        budget=budget,
        summary=tuple(
            item
            for place, item in enumerate(material.summary)
            if packed.keeps("summary", f"summary[{place}]")
        ),
        preserved=tuple(sorted(kept_turns.values(), key=lambda turn: turn.seq)),
        facts=packed.facts(material.facts),
        entities=names,
        topic=topic.title if topic is not None and packed.keeps("topic", topic.id) else None,
        short_term=tuple(turn for turn in material.window if packed.keeps("short_term", turn.id)),
        long_term=tuple(
            found for found in material.recollections if packed.keeps("long_term", found.turn.id)
        ),
        degraded=tuple(material.degraded),
        preset=preset,
        persona=packed.text_of("persona"),
        state=packed.text_of("state"),
    )
