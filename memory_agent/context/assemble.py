"""Packing what is known into the prompt of one question. Pure.

First what a prompt must not be without: who the assistant is, and the running conversation, whole where it fits. Then
facts, topic, summary, preserved turns, entities and state, each up to its share. Then recollections, by what they are
worth for their tokens, as many as fit. What room is left goes to what did not fit before, and to more of what is cut.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import groupby
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
from memory_agent.context.recollections import (
    cut_about,
    passage_tokens,
    recalled_items,
    show_more,
    take_recollections,
    telling,
)
from memory_agent.context.render import as_data, one_line
from memory_agent.domain import ContextLine, MemoryContext
from memory_agent.text.terms import count_terms

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from memory_agent.context.budget import Shares
    from memory_agent.context.ledger import Item, Packed
    from memory_agent.domain import Entity, EntityCount, KeyMoment, Recollection, SummaryItem, Tier, Turn
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

    `persona` and `state`: lines; `preserved`: turns with their importance; `entities`: by first mention, `asked`:
    those that the question names; `window`: the last turns, oldest first, and `whole`: those of the whole thread;
    `recollections`: best first; `answered`: by the id of a recollected turn that says little by itself, the turn that
    it answers; `spoken_of`: likewise of one that names nothing, the turn before that names something; `question` is in `language`, by which its search terms are made.
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
    asked: Collection[Entity] = ()
    topic: TopicLine | None = None
    window: Sequence[Turn] = ()
    recollections: Sequence[Recollection] = ()
    whole: bool = False
    unread: frozenset[Tier] = frozenset()
    """Tiers that were left unread, for a prompt will hardly have room for them, or shows what is in them anyway."""
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
_DUE_TURNS: Final = 2
"""The newest exchange."""
_NEWEST_SHARE: Final = 0.5
"""Of the budget, for the user's latest words."""
_MOST_DUE: Final = 6
"""An exchange with calls of tools between question and answer has more turns than two."""
_REPLY_SHARE: Final = 1 / 3
"""Of the window's room, for one turn of it: a longer one is cut at its middle."""
_NEWEST_REPLY_SHARE: Final = 1 / 2
"""The same for the newest reply."""
_LEAST_REPLY_TOKENS: Final = 60
"""Of the newest reply, whatever room the question leaves."""
_WIDER: Final = 4
"""Times the tokens of a recollection that one may take where room is left."""
_UNASKED_SHARE: Final = 1 / 3
"""Of the facts' share, for those that the question says nothing of."""


def pack_context(
    material: Material, *, shares: Shares, preset: str, budget: int, counter: TokenCounter
) -> tuple[MemoryContext, frozenset[Tier]]:
    """The context that fits in `budget` tokens of rendered text, and the tiers for which it has room though they are `unread`."""
    packing = Packing(ORDER, budget=budget, counter=counter)
    asked = frozenset(count_terms(material.question, material.language))
    items = _items(packing, material)
    facts = FactItems.of(packing, material.facts, material.people, material.window, material.fact_items)

    def limit(share: float | None) -> int:
        return int(budget * (share or 0.0))

    packing.take_all(items["persona"])
    leave_unfit(packing, material.reminder_left, material.passed_over)
    waiting: list[Item] = []
    whole = False
    if shares.short_term is None:
        _left_out(packing, items["short_term"], preset)
    elif material.whole and packing.take_together(items["short_term"]):
        whole = True
    else:
        room = limit(shares.short_term)
        waiting = _take_window(packing, items["short_term"], material, asked, budget, room)
    for item in (*items["summary"], *items["preserved"]) if whole else ():
        packing.leave(item, "the whole conversation is shown")
    wanted, left = facts.by_question(asked, material.language)
    left = packing.take_all(left, limit=limit(shares.facts * _UNASKED_SHARE))
    left = packing.take_all(wanted, limit=limit(shares.facts)) + left
    for tier, share, most in (
        ("topic", shares.topic, budget),
        ("summary", shares.summary and (shares.summary if material.summarized else 0.0), budget),
        ("preserved", shares.preserved, PRESERVED_TOKENS),
        ("entities", shares.entities, budget),
        ("state", shares.state, budget),
    ):
        if not (whole and tier in {"summary", "preserved"}):
            left += _take_share(packing, items[tier], share, min(limit(share), most), preset)
    recalled = telling(packing, items["long_term"], material)
    # Crumbs between recollections go to nothing else: single lines of a tier, others for each question.
    most = passage_tokens(budget)
    all_fit, cut, told = take_recollections(packing, recalled, material, asked, most)
    if all_fit:
        packing.take_unbroken(waiting)
        for preserved, some in groupby(left, key=lambda item: item.tier == "preserved"):
            packing.take_all(some, limit=PRESERVED_TOKENS if preserved else None)
    show_more(packing, cut, material, asked, told, _WIDER * most)
    missed = {"long_term": not whole, "preserved": not whole and all_fit and shares.preserved is not None}
    missing = frozenset(tier for tier in material.unread if missed[tier])
    return _context(packing.packed(), material, facts, preset=preset, budget=budget), missing


def _take_window(
    packing: Packing,
    items: Sequence[Item],
    material: Material,
    asked_for: Collection[str],
    budget: int,
    room: int,
) -> list[Item]:
    """Take the newest turns (`items`: newest first) without a gap, in `room` tokens, the newest exchange in any case; the
    others.

    The user's latest words are whole, if they leave half of the budget; any other turn that is too long for its
    part of the room is shown without its middle, or its passage with what is `asked_for`.
    """

    def shortened(item: Item, most: int) -> Item | None:
        return cut_about(packing, item, asked_for, material.language, most)

    by_id = {turn.id: turn for turn in material.window}
    roles = [by_id[item.name].role for item in items[:_MOST_DUE]]
    asked = roles.index("user") if "user" in roles else 0
    due = max(asked + 1, _DUE_TURNS)
    newest = max(room * _NEWEST_REPLY_SHARE, min(_LEAST_REPLY_TOKENS, budget / 4))
    for position, item in enumerate(items):
        if position == asked:
            most = int(budget * _NEWEST_SHARE)
        else:
            most = int(max(room * _REPLY_SHARE, newest / (due - 1) if position < due else 0))
        cut = item if item.tokens <= most else shortened(item, most)
        if cut is None and position < due:
            # As much as leaves room for what it answers.
            left = packing.room_for(item)
            others = sum(min(other.tokens, _LEAST_REPLY_TOKENS) for other in items[position + 1 : due])
            most = left - min(others, left // 2)
            cut = item if item.tokens <= most else shortened(item, most)
        if packing.take(cut or item, limit=None if position < due else room):
            continue
        smaller = shortened(item, packing.room_for(item)) if position < due else None
        if smaller is None or not packing.take(smaller):
            for behind in items[position + 1 :]:
                packing.leave(behind, "no room for what lies between it and the newest turn")
            return list(items[position:])
    return []


def _take_share(
    packing: Packing, items: Sequence[Item], share: float | None, limit: int, preset: str
) -> list[Item]:
    """Take what fits in the tier's share; what did not. Of a tier without a share nothing is wanted."""
    return _left_out(packing, items, preset) if share is None else packing.take_all(items, limit=limit)


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
