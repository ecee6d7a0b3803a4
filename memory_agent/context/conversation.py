"""Packing what stands for a whole conversation: the reminder first (who the assistant is), the recent turns last. Pure."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import groupby
from typing import TYPE_CHECKING, Any, Final

from memory_agent.context.budget import PRESERVED_TOKENS, SUMMARY_TOKENS, largest, usable
from memory_agent.context.items import (
    FactItems,
    leave_unfit,
    plain_items,
    preserved_items,
    summary_items,
    turn_items,
)
from memory_agent.context.ledger import Packing
from memory_agent.context.render import Heading, as_data, heading_of, one_line, quote_line, recalled_line
from memory_agent.digest.fold import PART, Digest, recency_bonus
from memory_agent.domain import (
    CompressedContext,
    CompressionMetadata,
    ContextBlock,
    ContextLine,
    KeyTopic,
    prompt_text,
)
from memory_agent.text.quotes import LEAST_TELLING
from memory_agent.text.sentences import shortened

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from memory_agent.context.ledger import Item, Packed
    from memory_agent.domain import Character, Compression, KeyMoment, SummaryItem, Tier, Turn
    from memory_agent.ports import TokenCounter


_TOPICS_AT_HAND: Final = 4
_TITLE_CHARS: Final = 40
_STATE_TOKENS: Final = 60
"""Of the lines that say how the conversation stands, beside who the assistant is."""
_NAME_CHARS: Final = 80
"""A name up to this long is told whole if it fits; a longer one leaves half of the room to the rest."""
_LINE_SHARE: Final = 0.6


@dataclass(frozen=True, kw_only=True, slots=True)
class Reminder:
    """Lines that say who the assistant is, and lines that say how the conversation stands."""

    identity: tuple[str, ...]
    state: tuple[str, ...]
    left: tuple[tuple[Tier, str], ...] = ()
    """Lines that there is no room for, by tier (`persona` or `state`)."""

    def __str__(self) -> str:
        return "\n".join((*self.identity, *self.state))

    def tokens(self, counter: TokenCounter) -> int:
        """The room that it takes in a prompt, by a counter with a margin."""
        lines = (ContextLine(body=as_data(line)) for line in self.identity)
        text = prompt_text([ContextBlock(tier="persona", lines=tuple(lines))]) if self.identity else ""
        return math.ceil(counter.count(text) * (1 + Fraction(counter.margin)))


def remind(
    character: Character | None,
    topics: Sequence[str],
    *,
    counter: TokenCounter,
    max_tokens: int,
) -> Reminder:
    """Who the assistant is in at most `max_tokens` tokens, and how things stand.

    `topics`: titles, the newest first. Lines that don't fit are cut at a word, or within a long one, as where no blanks part the words; they are left out
    where less than a few words would remain. The name is always told, shortened if need be, if a letter of it fits.
    Without a character only the state is told.
    """
    identity, no_identity = _identity(character, max_tokens, counter) if character else ((), ())
    state, no_state = _fit(_state(topics), _STATE_TOKENS, counter)
    left: list[tuple[Tier, str]] = [("persona", line) for line in no_identity]
    left += (("state", line) for line in no_state)
    return Reminder(identity=identity, state=state, left=tuple(left))


def _identity(
    character: Character, room: int, counter: TokenCounter
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The identity's lines, whole if they fit in `room` together, and those left out."""
    name = one_line(character.name)
    lines = (f"You are {name}.", *_nature(character))
    if counter.count("\n".join(lines)) <= room:
        return lines, ()
    told = _name_line(name, room, counter)
    return _fit(_nature(character), room, counter, first=told) if told else ((), lines)


def _name_line(name: str, room: int, counter: TokenCounter) -> str:
    """The name, whole or cut, in half of the room or else in as much as it takes; empty if in none."""
    whole = f"You are {name}."
    if len(name) <= _NAME_CHARS and counter.count(whole) + 1 <= room:
        return whole
    for most in (room // 2, room):
        if counter.count(whole) + 1 <= most:
            return whole
        if fitting := _fitting(name, "You are ", "….", most - 1, counter):
            return f"You are {fitting}…."
    return ""


def _nature(character: Character) -> Iterator[str]:
    if character.personality:
        yield f"Personality: {one_line(character.personality)}"
    if character.traits:
        yield f"Traits: {', '.join(map(one_line, character.traits))}"
    if character.profile:
        yield f"Profile: {one_line(character.profile)}"


def _state(topics: Sequence[str]) -> Iterator[str]:
    """What was talked about. Moods and decisions are not guessed at: those who read the turns see them."""
    if topics:
        titles = (one_line(shortened(title, _TITLE_CHARS)) for title in topics[:_TOPICS_AT_HAND])
        yield f"Talked about: {'; '.join(titles)}"


def _fit(
    lines: Iterator[str], room: int, counter: TokenCounter, *, first: str = ""
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """`first`, if there is one, and as many lines as fit, and those left out; one that does not fit is cut, and those behind it are tried.

    None takes more than `_LINE_SHARE` of the room, so that a long one leaves some to the others.
    """
    kept: list[str] = [first] if first else []
    left: list[str] = []
    most = int(room * _LINE_SHARE)
    for line in lines:
        free = min(room - _size(kept, counter), most if kept else room)
        if counter.count(line) + 1 <= free:
            kept.append(line)
        elif cut := _cut(line, free - 1, counter):
            kept.append(cut)
        else:
            left.append(line)
    return tuple(kept), tuple(left)


def _size(lines: Sequence[str], counter: TokenCounter) -> int:
    """Of the lines with a line break each, which is no less than of the lines joined."""
    return sum(counter.count(line) + 1 for line in lines)


_FEW_WORDS: Final = 5
_FEW_CHARS: Final = 16
_LONG_WORD: Final = 24
"""In bytes of UTF-8: eight Chinese characters or Korean syllables, which say as much as a few words."""


def _cut(line: str, room: int, counter: TokenCounter) -> str:
    """As many words of `line` as fit with "…", of a long one its beginning; empty if these are too few to say anything."""
    words = line.split(" ")
    count = largest(len(words) - 1, lambda n: counter.count(" ".join(words[:n]) + " …") <= room)
    whole_words = " ".join(words[:count])
    if len(words[count].encode(errors="replace")) > _LONG_WORD:
        fitting = _fitting(line, "", "…", room, counter)
        if len(fitting) >= _FEW_CHARS and len(fitting) > len(whole_words):
            return f"{fitting}…"
    return f"{whole_words} …" if count >= _FEW_WORDS else ""


def _fitting(text: str, before: str, after: str, room: int, counter: TokenCounter) -> str:
    """The longest beginning of `text`, not the whole, that fits between `before` and `after`; empty if none does."""
    chars = largest(len(text) - 1, lambda n: counter.count(before + text[:n].rstrip() + after) <= room)
    return text[:chars].rstrip()


ORDER: Final[tuple[Tier, ...]] = (
    "persona",
    "state",
    "summary",
    "topics",
    "moments",
    "journey",
    "facts",
    "decisions",
    "preserved",
    "short_term",
)
LEAST_TOKENS: Final = 400
"""A conversation of no more is shown whole: it is its own best summary."""
COMPRESSED_SHARE: Final = 0.48
"""Of the tokens of the turns that a compressed context of a long conversation stands for: a little under half."""
SHORT_TURNS, LONG_TURNS = 10, 60
"""Between so many turns the share falls from all of the tokens to `COMPRESSED_SHARE`."""
_TOPICS: Final = 8
SECTIONS_TOKENS: Final = 800
"""That a compression which was asked for may take, however short the conversation is: room for all sections."""
# Shares of the budget, before key moments take what is left.
_RECENT, _RECENT_AT_MOST = 0.45, 0.75
_OF_SPARE: Final = 0.9
"""Of the room left after all else that cut turns get: headings take the rest."""
_RECENT_TOKENS: Final = 200
"""That the last turns may take whatever their share: ten short ones of a chat."""
_UNCUT_TOKENS: Final = 150
"""Last turns of no more are cut only where they would take more than `_RECENT_AT_MOST`: most of a chat's are shorter."""
_SUMMARY: Final = 0.40
_PRESERVED: Final = 0.15
_FACTS: Final = 0.15
_TOPICS_SHARE: Final = 0.05
_WHOLE_TOKENS: Final = 80
_WHOLE_SCORE: Final = 10.0
"""Prose longer than so many tokens is quoted, not kept whole, unless it is as important as a caller can say."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Conversation:
    """A conversation as of a turn. `digest` is of all its turns; `summary` of those up to the last compression, before the
    first one of all turns as well.

    `preserved`: turns with their scores, the most wanted first; `recent`: the
    last turns, oldest first; `titles`: of topics by id; `made_by`: of the summary; `turns`: of the moments, by id.
    """

    reminder: Reminder
    digest: Digest
    recent: Sequence[Turn]
    summary: Sequence[SummaryItem] = ()
    preserved: Sequence[tuple[Turn, float]] = ()
    made_by: str | None = None
    passed_over: Sequence[KeyMoment] = ()
    """Moments that there is no room for among the preserved turns."""
    turns: Mapping[str, Turn] = field(default_factory=dict)
    in_sections: bool = False
    """Each section is whole, whatever the others show."""
    titles: Mapping[str, str] = field(default_factory=dict)
    facts: Mapping[str, Any] = field(default_factory=dict)
    people: Sequence[str] = ()
    """Of whom facts are known; `facts` are keyed by them if there are several."""
    last: Compression | None = None


def is_short(digest: Digest, *, recent_turns: int) -> bool:
    """True if the conversation is to be shown whole, where that fits: no turns but the last, or few and short ones."""
    return digest.turns <= recent_turns or (digest.turns < LONG_TURNS and digest.tokens <= LEAST_TOKENS)


def budget_for(digest: Digest, *, most_tokens: int) -> int:
    """Tokens that a compressed context of these turns may take: never more than the turns have, and at most `most_tokens`.

    The reminder, which isn't of the turns, comes on top.

    >>> [budget_for(Digest(turns=n, tokens=30 * n), most_tokens=4_000) for n in (10, 35, 60, 1_000)]
    [300, 777, 864, 4000]
    """
    long = min(max((digest.turns - SHORT_TURNS) / (LONG_TURNS - SHORT_TURNS), 0.0), 1.0)
    return min(int(digest.tokens * (1 - long * (1 - COMPRESSED_SHARE))), most_tokens)


def pack_whole(conversation: Conversation, *, budget: int, counter: TokenCounter) -> CompressedContext | None:
    """The reminder and the whole conversation, `recent` being all of its turns; None if `budget` tokens are too few."""
    packing = Packing(ORDER, budget=budget, counter=counter)
    _take_reminder(packing, conversation)
    if packing.take_unbroken(turn_items(packing, conversation.recent, "recent")):
        return None
    packed = packing.packed()
    if not all(packed.keeps("short_term", turn.id) for turn in conversation.recent):
        return None
    return _context(packed, conversation, {}, budget=budget, tokens_before=packed.tokens)


def least_for(recent: Sequence[Turn], *, most_tokens: int, counter: TokenCounter) -> int:
    """Tokens that the last turns take whole, 0 if they are long.

    Very short turns may take less than the prompt around them, and are shown nevertheless.
    """
    alone = Conversation(reminder=Reminder(identity=(), state=()), digest=Digest(), recent=recent)
    whole = pack_whole(alone, budget=min(_RECENT_TOKENS, most_tokens), counter=counter)
    return 0 if whole is None else math.ceil(whole.tokens * (1 + Fraction(counter.margin)))


def pack_compressed(conversation: Conversation, *, budget: int, counter: TokenCounter) -> CompressedContext:
    """The compressed context in at most `budget` tokens.

    Where last turns had to be cut and room is left after all else, they get that as well.
    """
    room = int(usable(budget, counter) * _RECENT)
    context, cut = _packed(conversation, room, budget=budget, counter=counter)
    spare = usable(budget, counter) - context.tokens
    if cut and spare > 0:
        more = int(spare * _OF_SPARE)
        context, _ = _packed(conversation, room + more, budget=budget, counter=counter)
    return context


def _packed(
    conversation: Conversation, recent_room: int, *, budget: int, counter: TokenCounter
) -> tuple[CompressedContext, bool]:
    """The context with `recent_room` tokens for the last turns, and whether any of these was cut."""
    packing = Packing(ORDER, budget=budget, counter=counter, apart=conversation.in_sections)
    _take_reminder(packing, conversation)
    leave_unfit(packing, (), conversation.passed_over)
    cut = _take_recent(packing, conversation.recent, recent_room, most=usable(budget, counter))
    shown = () if conversation.in_sections else {turn.id for turn in conversation.recent}
    facts = FactItems.of(packing, conversation.facts, conversation.people, conversation.recent, {})
    left = _take_summary(packing, conversation.summary, min(int(budget * _SUMMARY), SUMMARY_TOKENS))
    for wanted, share, most in (
        (preserved_items(packing, conversation.preserved, recent=shown), _PRESERVED, PRESERVED_TOKENS),
        (facts.items, _FACTS, budget),
        (_topic_items(packing, conversation), _TOPICS_SHARE, budget),
    ):
        share_of = packing.used_by(wanted[0].tier) if wanted else 0
        left += packing.take_all(wanted, limit=share_of + min(int(budget * share), most))
    ranked = sorted(
        conversation.digest.moments, key=lambda moment: (-moment.worth, -moment.score, -moment.seq)
    )
    packing.take_all(_moment_items(packing, ranked))
    spare = min(int(conversation.digest.tokens * COMPRESSED_SHARE) - packing.tokens, packing.room)
    whole = _whole_items(packing, ranked, conversation.turns)
    packing.take_all(whole, limit=packing.used_by("moments") + max(spare, 0))
    limits: dict[Tier, int] = {"summary": SUMMARY_TOKENS, "preserved": PRESERVED_TOKENS}
    for tier, items in groupby(left, key=lambda item: item.tier):
        packing.take_all(items, limit=limits.get(tier))
    packed = packing.packed()
    kept = facts.document(item for item in packed.taken if item.tier == "facts")
    return _context(packed, conversation, kept, budget=budget, tokens_before=conversation.digest.tokens), cut


def _take_summary(packing: Packing, summary: Sequence[SummaryItem], room: int) -> list[Item]:
    """Take the summary's items, each in its section, in `room` tokens together; those that don't fit."""
    left: list[Item] = []
    for item in summary_items(packing, summary, sections=True):
        before = packing.room
        if item.tokens <= room and packing.take(item):
            room -= before - packing.room
        else:
            left.append(item)
    return left


def _take_reminder(packing: Packing, conversation: Conversation) -> None:
    reminder = conversation.reminder
    packing.take_all(plain_items(packing, "persona", reminder.identity, "the reminder"))
    packing.take_all(plain_items(packing, "state", reminder.state, "the reminder"))
    leave_unfit(packing, reminder.left, ())


def _take_recent(packing: Packing, recent: Sequence[Turn], room: int, *, most: int) -> bool:
    """Take all the last turns in about `room` tokens, the long ones cut at their middle to what the short ones leave them.

    `most`: tokens of the whole context. True if any was cut.
    """
    items = turn_items(packing, recent, "recent")
    limit = max(room, int(most * _RECENT_AT_MOST), min(most, _RECENT_TOKENS))

    def level(room: int) -> int:
        return largest(room, lambda each: sum(min(item.tokens, each) for item in items) <= room)

    each = max(level(room), min(level(limit), _UNCUT_TOKENS))
    cut = [item if item.tokens <= each else packing.cut(item, each) for item in items]
    packing.take_unbroken([short or item for short, item in zip(cut, items, strict=True)], limit=limit)
    return any(item.tokens > each for item in items)


def _topic_items(packing: Packing, conversation: Conversation) -> list[Item]:
    titled = {
        conversation.titles[topic.topic_id]: topic
        for topic in conversation.digest.topics
        if topic.topic_id in conversation.titles
    }
    topics = list(titled.values())
    return [
        packing.item(
            "topics",
            topic.topic_id,
            ContextLine(body=one_line(f"- {conversation.titles[topic.topic_id]}")),
            place=topic.ranges[0][0],
            reason="talked about",
        )
        for topic in reversed(topics[-_TOPICS:])
    ]


def _moment_items(packing: Packing, ranked: Sequence[KeyMoment]) -> list[Item]:
    """Moments in their words, the most wanted first; those of a turn that is shown whole are left out.

    A line of code that stands in several is shown with the first.
    """
    shown: set[str] = set()
    items: list[Item] = []
    for moment in ranked:
        parts = [part for part in moment.text.split(PART) if part and part not in shown]
        shown.update(parts)
        if parts:
            items.append(
                packing.item(
                    "moments",
                    moment.turn_id,
                    quote_line(moment.who, PART.join(parts)),
                    place=moment.seq,
                    reason="a key moment",
                    score=moment.score,
                    excerpt_of=moment.seq,
                    under=Heading(moment.at.date()),
                )
            )
    return items


def _whole_items(packing: Packing, ranked: Sequence[KeyMoment], turns: Mapping[str, Turn]) -> list[Item]:
    """The same moments as the whole `turns` of people that they are from, for what room is left."""
    return [
        packing.item(
            "moments",
            moment.turn_id,
            recalled_line(turn),
            place=moment.seq,
            reason="a key moment",
            score=moment.score,
            turn=turn,
            under=heading_of(turn),
        )
        for moment in ranked
        if (turn := turns.get(moment.turn_id))
        and turn.role == "user"
        and not one_line(moment.text).endswith(one_line(turn.shown))
    ]


def _context(
    packed: Packed, conversation: Conversation, facts: dict[str, Any], *, budget: int, tokens_before: int
) -> CompressedContext:
    digest, last, made_by = conversation.digest, conversation.last, conversation.made_by
    preserved = {turn.id: turn for turn, _ in conversation.preserved if packed.keeps("preserved", turn.id)}
    ordered = tuple(sorted(preserved.values(), key=lambda turn: turn.seq))
    return CompressedContext(
        blocks=packed.blocks,
        ledger=(),
        tokens=packed.tokens,
        budget=budget,
        reminder="\n".join(filter(None, (packed.text_of("persona"), packed.text_of("state")))),
        summary=tuple(conversation.summary),
        topics=tuple(
            KeyTopic(title=conversation.titles[topic.topic_id], ranges=topic.ranges)
            for topic in digest.topics
            if packed.keeps("topics", topic.topic_id)
        ),
        moments=tuple(m for m in digest.moments if packed.keeps("moments", m.turn_id)),
        facts=facts,
        preserved=ordered,
        recent=tuple(turn for turn in conversation.recent if packed.keeps("short_term", turn.id)),
        metadata=CompressionMetadata(
            original_turns=digest.turns,
            compressed_at=0 if last is None else last.through,
            number=0 if last is None else last.number,
            tokens_before=tokens_before,
            tokens_after=packed.tokens,
            preserved_ids=tuple(turn.id for turn in ordered),
            made_by=made_by,
            summary_through=0 if made_by is None else digest.through if last is None else last.through,
        ),
    ).made_later(lambda *_: packed.ledger, "ledger")


def choose_preserved(
    digest: Digest, *, kept: Sequence[str], recent: set[str], max_tokens: int
) -> tuple[list[KeyMoment], list[KeyMoment]]:
    """The moments kept word for word, the weightiest first as far as they fit, and those that there is no room for.

    Long prose is among the latter: its telling sentences are quoted.

    Weight is importance with the bonus for being recent; among equals those kept before come first. `recent`: turns that
    are shown anyway.
    """
    before = set(kept)
    room = max_tokens
    chosen: list[KeyMoment] = []
    passed_over: list[KeyMoment] = []

    def weight(moment: KeyMoment) -> float:
        return moment.score + recency_bonus(max(digest.through - moment.seq, 0))

    for moment in sorted(digest.moments, key=lambda m: (-weight(m), m.turn_id not in before, -m.seq)):
        if moment.turn_id in recent or (moment.score < LEAST_TELLING and not moment.code):
            continue
        long = moment.tokens > _WHOLE_TOKENS and not moment.code and moment.score < _WHOLE_SCORE
        if moment.tokens <= room and not long:
            chosen.append(moment)
            room -= moment.tokens
        else:
            passed_over.append(moment)
    return chosen, passed_over
