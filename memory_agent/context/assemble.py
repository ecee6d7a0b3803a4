"""Packing what is known into the prompt of one question. Pure.

First what a prompt must not be without: who the assistant is, and the running conversation in half of the budget. Then
the facts that the question touches, and what else the preset gives a share. Then recollections, while they are worth their
tokens. The budget is a bound: what room is left stays empty.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from memory_agent.context.budget import PRESERVED_TOKENS
from memory_agent.context.items import (
    FactItems,
    leave_unfit,
    plain_items,
    preserved_items,
    summary_items,
    turn_items,
)
from memory_agent.context.ledger import Packing
from memory_agent.context.recollections import PRICES, cut_about, recalled_items, take_recollections
from memory_agent.context.render import as_data, day_of, one_line
from memory_agent.domain import ContextLine, MemoryContext
from memory_agent.text.terms import count_terms

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence
    from datetime import date

    from memory_agent.context.budget import Shares
    from memory_agent.context.ledger import Item, Packed
    from memory_agent.domain import (
        EntityCount,
        KeyMoment,
        RecallPrice,
        Recollection,
        SummaryItem,
        Tier,
        Turn,
    )
    from memory_agent.ports import TokenCounter


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
    preserved turns have no room for. `summarized`: a language model wrote the summary; else it is quotes, and search finds
    those that the question needs.

    `persona` and `state`: lines; `preserved`: turns with their importance; `entities`: those that the question names, by first
    mention; `window`: the last turns, oldest first, and `whole`: they are the whole thread; `recollections`: best first, each
    said once, and `said_again`: by the turn's id, how often, and when last; `answered`: by the id of a recollected turn, the turn
    that it answers; `spoken_of`: likewise of one that names nothing, the turn before that names something; `question` is in
    `language`, by which its search terms are made.
    """

    persona: Sequence[str] = ()
    state: Sequence[str] = ()
    reminder_left: Sequence[tuple[Tier, str]] = ()
    passed_over: Sequence[KeyMoment] = ()
    summary: Sequence[SummaryItem] = ()
    summarized: bool = True
    preserved: Sequence[tuple[Turn, float]] = ()
    facts: Mapping[str, Any] = field(default_factory=dict)
    people: Sequence[str] = ()
    """Of whom facts are known; `facts` are keyed by them if there are several."""
    entities: Sequence[EntityCount] = ()
    topic: TopicLine | None = None
    window: Sequence[Turn] = ()
    recollections: Sequence[Recollection] = ()
    said_again: Mapping[str, tuple[int, date]] = field(default_factory=dict)
    whole: bool = False
    answered: Mapping[str, Turn] = field(default_factory=dict)
    spoken_of: Mapping[str, Turn] = field(default_factory=dict)
    question: str = ""
    language: str = "english"
    degraded: Sequence[str] = ()
    thread_id: str | None = None
    """The thread that it is for: recollections of others say so. None: all are of one."""
    fact_items: dict[str | None, FactItems] = field(default_factory=dict)
    """What packing has made of these facts, kept as long as they are."""


ORDER: Final[tuple[Tier, ...]] = (
    "persona",
    "summary",
    "preserved",
    "facts",
    "entities",
    "topic",
    "state",
    "long_term",
    "short_term",
)
"""What changes least comes first: the longest common beginning with the prompt before is what a cache can reuse. The
running conversation is last, for the user's new message continues it."""
WINDOW_SHARE: Final = 0.5
"""Of the budget, for the running conversation."""
_MOST_DUE: Final = 6
"""An exchange with calls of tools between question and answer has more turns than two."""
_LEAST_CUT_TOKENS: Final = 60
"""Of what is cut of the last exchange, so that its other turns find room, too."""


def pack_context(
    material: Material,
    *,
    shares: Shares,
    preset: str,
    price: RecallPrice,
    top_k: int | None,
    budget: int,
    counter: TokenCounter,
) -> MemoryContext:
    """The context in at most `budget` tokens of rendered text.

    `top_k`: recollections at most; None: no bound.
    """
    packing = Packing(ORDER, budget=budget, counter=counter)
    asked = frozenset(count_terms(material.question, material.language))
    items = _items(packing, material)
    facts = FactItems.of(packing, material.facts, material.people, material.window, material.fact_items)

    def limit(share: float | None) -> int:
        return int(budget * (share or 0.0))

    packing.take_all(items["persona"])
    leave_unfit(packing, material.reminder_left, material.passed_over)
    whole = (
        _take_window(packing, items["short_term"], material, asked, limit(WINDOW_SHARE)) and material.whole
    )
    # Whom a question is about says nothing of which of his facts it touches.
    named = count_terms(" ".join((*material.people, *_speakers(material.window))), material.language)
    wanted, needed, others = facts.by_question(asked - named.keys(), material.language)
    packing.take_all((*wanted, *needed), limit=limit(shares.facts))
    packing.take_all(others, limit=limit(shares.other_facts))
    for tier, share, most in (
        ("topic", shares.topic, budget),
        ("summary", shares.summary if material.summarized else None, budget),
        ("preserved", shares.preserved, PRESERVED_TOKENS),
        ("entities", _ENTITIES_SHARE, budget),
        ("state", shares.state, budget),
    ):
        if whole and tier in {"summary", "preserved"}:
            for item in items[tier]:
                packing.leave(item, "the whole conversation is shown")
        else:
            _take_share(packing, items[tier], share, min(limit(share), most), preset)
    most = len(items["long_term"]) if top_k is None else top_k
    take_recollections(packing, items["long_term"], material, asked, PRICES[price], most)
    return _context(packing.packed(), material, facts, preset=preset, budget=budget)


def _speakers(turns: Sequence[Turn]) -> set[str]:
    return {turn.speaker for turn in turns if turn.speaker}


def _take_window(
    packing: Packing, items: Sequence[Item], material: Material, asked: Collection[str], room: int
) -> bool:
    """Take the newest turns (`items`: newest first) whole, without a gap, as far as they fit in `room` tokens. True if all did.

    Of the last exchange, which is in at any size, what doesn't fit is cut: to its passage with what is `asked`, or its middle is left out.
    """
    by_id = {turn.id: turn for turn in material.window}
    roles = [by_id[item.name].role for item in items[:_MOST_DUE]]
    due = (roles.index("user") if "user" in roles else 0) + 1
    for position, item in enumerate(items):
        if packing.take(item, limit=room):
            continue
        behind = sum(min(other.tokens, _LEAST_CUT_TOKENS) for other in items[position + 1 : due])
        left = min(room - packing.used_by("short_term"), packing.room_for(item))
        cut = None
        if position < due:
            cut = cut_about(packing, item, asked, material.language, left - min(behind, left // 2))
        if cut is None or not packing.take(cut, limit=room):
            for other in items[position:]:
                packing.leave(other, "no room for what lies between it and the newest turn")
            return False
        if position + 1 >= due:
            for other in items[position + 1 :]:
                packing.leave(other, "no room for what lies between it and the newest turn")
            return False
    return True


_ENTITIES_SHARE: Final = 0.05


def _take_share(
    packing: Packing, items: Sequence[Item], share: float | None, limit: int, preset: str
) -> None:
    """Take what fits in the tier's share. Of a tier without a share nothing is wanted."""
    if share is not None:
        packing.take_all(items, limit=limit)
        return
    for item in items:
        packing.leave(item, f"the preset {preset} leaves its kind out")


def _items(packing: Packing, material: Material) -> dict[str, list[Item]]:
    """Every item of the material, in the order in which it is wanted."""
    return {
        "persona": plain_items(packing, "persona", material.persona, "who the assistant is"),
        "state": plain_items(packing, "state", material.state, "how the conversation stands"),
        # Whatever else shows: lines that came and went with what is recalled would change the prompt from its first
        # lines on.
        "summary": summary_items(packing, material.summary),
        "preserved": preserved_items(
            packing,
            material.preserved,
            recent={turn.id for turn in material.window},
            replaced={found.turn.id for found in material.recollections if found.replaced_by},
        ),
        "entities": _entity_items(packing, material),
        "topic": _topic_items(packing, material.topic),
        "short_term": turn_items(packing, material.window, "in the window"),
        "long_term": recalled_items(packing, material),
    }


def _entity_items(packing: Packing, material: Material) -> list[Item]:
    """Those that the question names, by first mention, so that a new name doesn't move the others."""
    return [
        packing.item(
            "entities",
            count.entity.term,
            ContextLine(body=one_line(_mentions(count))),
            place=place,
            reason="named",
            score=float(count.count),
        )
        for place, count in enumerate(material.entities)
    ]


def _mentions(count: EntityCount) -> str:
    turns = "1 turn, on" if count.count == 1 else f"{count.count:,} turns, last on"
    return f"- {count.entity.name} ({count.entity.kind}): mentioned in {turns} {day_of(count.last_at.date())}"


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


def _context(
    packed: Packed, material: Material, facts: FactItems, *, preset: str, budget: int
) -> MemoryContext:
    names: dict[str, list[str]] = {}
    for count in material.entities:
        if packed.keeps("entities", count.entity.term):
            names.setdefault(count.entity.kind, []).append(count.entity.name)
    topic = material.topic
    kept_turns = {turn.id: turn for turn, _ in material.preserved if packed.keeps("preserved", turn.id)}
    return MemoryContext(
        blocks=packed.blocks,
        ledger=(),
        tokens=packed.tokens,
        budget=budget,
        summary=tuple(
            item
            for place, item in enumerate(material.summary)
            if packed.keeps("summary", f"summary[{place}]")
        ),
        preserved=tuple(sorted(kept_turns.values(), key=lambda turn: turn.seq)),
        facts=facts.document(item for item in packed.taken if item.tier == "facts"),
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
    ).made_later(lambda *_: packed.ledger, "ledger")
