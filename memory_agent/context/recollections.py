"""Recollections as items of a prompt: in the order in which they were said, taken by what they are worth. Pure."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

import regex

from memory_agent.context.passages import best_passage, outline
from memory_agent.context.render import heading_of, recalled_line
from memory_agent.lazily import lazily
from memory_agent.text.corrections import Claims, asks, counts, names_in, of_self
from memory_agent.text.languages import any_of
from memory_agent.text.sentences import bounds, only_asks
from memory_agent.text.subjects import (
    Told,
    called,
    content_words,
    first_words,
    names_nothing,
    only_reacts,
    points_outside,
    repeats,
    says_more_than,
    speaks_of_others,
)
from memory_agent.text.terms import count_terms

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from memory_agent.context.assemble import Material
    from memory_agent.context.ledger import Item, Packing
    from memory_agent.domain import ContextLine, Turn

_PASSAGE_SHARE: Final = 1 / 25
"""Of the budget, for one recollection: of a longer turn the passage is shown that has most of the question's words."""
_LEAST_PASSAGE_TOKENS: Final = 60
_LEAST_WIDER: Final = 20
"""Tokens of a sentence: with less room nothing more is shown of any."""
_ENDS_WITHIN: Final = lazily(regex.compile, r"[\p{L}\p{N},(] \[…\]\Z")
_OUTLINE_SHARE: Final = 2 / 3
"""Of the same, for what has no passage that answers."""


def passage_tokens(budget: int) -> int:
    """The most tokens that one recollection takes of a budget."""
    return max(int(budget * _PASSAGE_SHARE), _LEAST_PASSAGE_TOKENS)


_EQUAL_RANKS: Final = 12
"""Ranks that are worth about the same: what is found tenth is evidence half as often as what is found first."""
_EQUAL_TOKENS: Final = 45
"""Turns up to this size cost about the same: one of ten tokens is no bargain, for it seldom says anything."""
_SURE: Final = 40
"""Of the ranks behind it one in a hundred and fifty is evidence, whatever it is: what is understood alone comes first there."""
_BEST: Final = 15
"""Ranks whose neighbours are shown before the others behind `_SURE`."""
_BESIDE: Final = 0.6
_TELLING_WORDS: Final = 3
"""Content words of what can be understood alone."""
_RANKS_BEHIND: Final = 24
"""So many ranks behind its own stands what is not understood alone: out of a small prompt, and in a large one."""
_CUT_AWAY: Final = 2
"""Words of the question."""
_UNCLEAR_CHARS: Final = 300
_POINTING_CHARS: Final = 160
"""A longer turn that begins with "it" says enough besides."""
_IDLE: Final = any_of("words", "idle_reply", regex.IGNORECASE)


def recalled_items(packing: Packing, material: Material) -> list[Item]:
    """Recollections, best first, to be read day by day in the order in which they were said, other threads' first."""
    recollections, answered = material.recollections, material.answered

    def elsewhere(turn: Turn) -> bool:
        return material.thread_id not in (None, turn.thread_id)

    def when(turn: Turn) -> tuple[Any, ...]:
        return turn.timestamp.date(), not elsewhere(turn), turn.timestamp, turn.thread_id, turn.seq

    in_time = sorted((found.turn for found in recollections), key=when)
    place = {turn.id: float(number) for number, turn in enumerate(in_time)}
    rank = {found.turn.id: number for number, found in enumerate(recollections)}
    turns = {found.turn.id: found.turn for found in recollections}

    def quoted(other: Turn | None, number: int) -> Turn | None:
        """The turn that this one answers or goes on from, unless that is wanted more than `number`: then it stands right above."""
        return None if other is None or rank.get(other.id, math.inf) < number else other

    items = []
    for number, found in enumerate(recollections):
        turn, away = found.turn, elsewhere(found.turn)
        now = turns.get(found.replaced_by or "")
        answers = quoted(answered.get(turn.id), number)
        after = quoted(material.spoken_of.get(turn.id), max(number, _BEST))
        item = packing.item(
            "long_term",
            turn.id,
            recalled_line(turn, answers, now, after),
            place=place[turn.id],
            reason="recalled from another conversation" if away else "recalled",
            score=found.score,
            confidence=found.confidence,
            # Other threads' turns have the numbers of this one's, and are not what those show.
            turn=None if away else turn,
            under=heading_of(turn, elsewhere=away),
        )
        if not away and (quoting := answers or after):
            item = item._replace(quotes=(quoting.seq, recalled_line(turn, replaced=now).head))
        items.append(item)
    return items


def telling(packing: Packing, items: Sequence[Item], material: Material) -> list[Item]:
    """Recollections but for small talk: words of greeting, thanks and reaction, and names of who talks, also given ones.

    A short answer tells as much as the question that it answers; a reaction to what was told tells nothing. From the
    `_SURE`th on also but for what can't be understood alone and stands alone: questions and a few words that share none with
    what is asked, and are not `beside_best`.
    """
    turns = [found.turn for found in material.recollections]
    names = _names(material)
    asked, beside = content_words(material.question) - names, beside_best(material)

    def tells(turn: Turn | None) -> bool:
        return turn is not None and says_more_than(turn.content, names) and not only_reacts(turn.content)

    def answers(turn: Turn) -> bool:
        question = material.answered.get(turn.id)
        return question is not None and asks(question.content) and tells(question)

    def stands_alone(turn: Turn) -> bool:
        words = first_words(turn.content)
        if turn.id in beside or (len(words) >= _TELLING_WORDS and not only_asks(turn.content)):
            return False
        return asked.isdisjoint(content_words(turn.content))

    left = {turn.id: "small talk" for turn in turns if not (tells(turn) or answers(turn))}
    alone = {turn.id: "says little by itself" for turn in turns[_SURE:] if stands_alone(turn)}
    for item in items:
        if why := left.get(item.name) or alone.get(item.name):
            packing.leave(item, why)
    return [item for item in items if item.name not in left and item.name not in alone]


def _names(material: Material) -> frozenset[str]:
    """The names, as content words, of who talks in the window or the recollections, also given ones."""
    turns = [found.turn for found in material.recollections]
    speakers = {turn.speaker or "" for turn in (*material.window, *turns)}
    documents = material.facts.values() if len(material.people) > 1 else [material.facts]
    given = [str(facts["name"]) for facts in documents if "name" in facts]
    greeted = {called(turn.content) or "" for turn in turns}
    return content_words(" ".join(sorted({*speakers, *given, *greeted})))


def unclear(material: Material) -> frozenset[str]:
    """The turns, by id, that tell little without those around them: people's whose "it" or "she" was named elsewhere, that only
    ask, name no thing, or speak of "you" alone.

    Not what shares a word with what is asked, nor what is `beside_best`; what points elsewhere has to stand behind one of these.
    """
    names, beside, behind = _names(material), beside_best(material), beside_best(material, (1, 2))
    asked = content_words(material.question) - names

    def is_unclear(turn: Turn) -> bool:
        text = turn.content
        if turn.role != "user" or len(text) >= _UNCLEAR_CHARS or not asked.isdisjoint(content_words(text)):
            return False
        if asks(text) and not (of_self(text) or names_in(text) or counts(text)):
            return True
        if len(text) < _POINTING_CHARS and turn.id not in behind and points_outside(text):
            return True
        return turn.id not in beside and (speaks_of_others(text) or names_nothing(text, names))

    return frozenset(found.turn.id for found in material.recollections if is_unclear(found.turn))


def beside_best(material: Material, by: Collection[int] = (-2, -1, 1, 2)) -> frozenset[str]:
    """The turns, by id, that were said within two of one of the best recollections, which explain each other.

    `by`: how many turns behind it.
    """
    best = [found.turn for found in material.recollections[:_BEST]]
    places = {(turn.thread_id, turn.session_id, turn.seq + count) for turn in best for count in by}
    turns = (found.turn for found in material.recollections)
    return frozenset(turn.id for turn in turns if (turn.thread_id, turn.session_id, turn.seq) in places)


def by_worth(
    items: Sequence[Item], most: int, beside: Collection[str] = (), behind: Collection[str] = ()
) -> list[Item]:
    """Items by what they are worth for their tokens, given best first; one takes at most `most` tokens.

    An item's worth falls with its rank r as 1 / (r + 12), its price rises with the square root of its tokens. Chosen
    on four sets of conversations (`benchmarks/context.py`): long replies of an assistant give way to what people
    said, and among turns of one size the order stays that of the ranking. Behind the `_SURE`th those that are named in
    `beside` (see `beside_best`) come before the others: they are evidence as often, and make it understood. Those named in
    `behind` (see `unclear`) count as found `_RANKS_BEHIND` later.
    """

    def price(ranked: tuple[int, Item]) -> tuple[float, int]:
        rank, item = ranked
        worth = _BESIDE if rank >= _SURE and item.name in beside else 1.0
        later = _RANKS_BEHIND if item.name in behind else 0
        return worth * (rank + later + _EQUAL_RANKS) * math.sqrt(
            max(min(item.tokens, most), _EQUAL_TOKENS)
        ), rank

    return [item for _, item in sorted(enumerate(items), key=price)]


def take_recollections(
    packing: Packing, items: Sequence[Item], material: Material, asked: Collection[str], most: int
) -> tuple[bool, list[tuple[Item, Item]], Told[ContextLine]]:
    """Take recollections by their worth; of one longer than `most` tokens the passage that answers best. True if all fit,
    those that are in only in part, each whole and as it is shown, and what is told.

    What repeats one that is taken is left out, unless either is corrected; so is a reply that only asks, leads in or is polite.
    """
    all_fit = True
    cut: list[tuple[Item, Item]] = []
    found = {recalled.turn.id: recalled for recalled in material.recollections}
    corrects = {recalled.replaced_by for recalled in material.recollections if recalled.replaced_by}
    told: Told[ContextLine] = Told()
    for item in by_worth(items, most, beside_best(material), unclear(material)):
        shown: Item | None = item
        if item.tokens > most and not packing.where_shown(item) and packing.room >= most:
            old = found[item.name]
            now = found.get(old.replaced_by or "")
            if now is None:
                shown = _passage(packing, item, asked, material.language, most)
            else:
                shown = _replaced_passage(packing, item, old.turn, now.turn, material.language, most)
        if shown is None:
            packing.leave(item, "small talk")
            continue
        corrected = item.name in corrects or found[item.name].replaced_by is not None
        # Most of them find no room, and need no second look.
        words = content_words(shown.line.body) if shown.tokens <= packing.room else frozenset[str]()
        if not (corrected or packing.where_shown(item)) and _repeats(shown.line, words, told):
            packing.leave(item, "another says the same")
            continue
        taken = packing.take(shown)
        if taken:
            told.add(shown.line, words)
            if shown is not item and item.name not in corrects and not found[item.name].replaced_by:
                cut.append((item, shown))
        all_fit = all_fit and (taken or packing.where_shown(item) is not None)
    return all_fit, cut, told


def show_more(
    packing: Packing,
    cut: Sequence[tuple[Item, Item]],
    material: Material,
    asked: Collection[str],
    told: Told[ContextLine],
    most: int,
) -> None:
    """Show more of recollections that are in only in part, as (whole, shown), up to `most` tokens where there is room: first of
    what ends within a sentence, then of the best.

    Not of one of which the next would repeat what is `told`; of a reply its passage, without what is polite.
    """

    def due(both: tuple[Item, Item]) -> tuple[bool, float]:
        item, shown = both
        return _ENDS_WITHIN.search(shown.line.body) is None, -(item.score or 0.0)

    for item, shown in sorted(cut, key=due):
        if packing.room < _LEAST_WIDER:
            break
        wider = _passage(packing, item, asked, material.language, min(shown.tokens + packing.room, most))
        if wider is None or wider.tokens <= shown.tokens:
            continue
        if item.line.role == "user" and item.tokens <= wider.tokens:
            wider = item
        body = wider.line.body
        sentences = (replace(item.line, body=body[start:end]) for start, end in bounds(body))
        more = (line for line in sentences if line.body not in shown.line.body)
        if not any(_repeats(line, content_words(line.body), told, shown.line) for line in more):
            packing.swap(shown, wider)


def _repeats(
    line: ContextLine, words: frozenset[str], told: Told[ContextLine], but: ContextLine | None = None
) -> bool:
    """True if one of `told` `but` that, the speaker's own or for an assistant anybody's, says what a line of these words says."""
    return any(
        other is not but
        and (line.role == "assistant" or (line.role, line.speaker) == (other.role, other.speaker))
        and repeats(line.body, other.body)
        for other in told.like(words)
    )


def _replaced_passage(
    packing: Packing, item: Item, old: Turn, now: Turn, language: str, most: int
) -> Item | None:
    """The passage of what is marked as replaced: the part that speaks of what the later turn's new values are of.

    Where that can't be shown, the mark would stand before what still holds.
    """
    claims = Claims(now.content, language)
    new = [claims.terms_of(value) for value in claims.values if value.is_new]
    wanted = frozenset().union(*new) or claims.terms
    shown = _passage(packing, item, wanted, language, most)
    if shown is not None and wanted.isdisjoint(count_terms(shown.line.body, language)):
        return shown._replace(line=replace(shown.line, head=recalled_line(old).head), quotes=None)
    return shown


def cut_about(packing: Packing, item: Item, asked: Collection[str], language: str, most: int) -> Item | None:
    """A turn cut to at most `most` tokens as `Packing.cut` does, or its passage that answers if that holds half of what is asked,
    and two words of it, or the only one, that would be cut away.
    """
    cut, body = packing.cut(item, most), item.line.body
    if cut is None or not asked:
        return cut

    def tells(part: str) -> bool:
        found = count_terms(part, language).keys() & asked
        return 2 * len(found) >= len(asked) and len(found - held) >= min(_CUT_AWAY, len(asked))

    held = count_terms(cut.line.body, language).keys() & asked
    if not tells(body):
        return cut
    idle = None if item.line.role == "user" else _IDLE
    passage = best_passage(
        body, asked, language, lambda part: packing.showing(item, part).tokens <= most, idle
    )
    if not passage or not tells(passage):
        return cut
    return packing.showing(item, passage, "the passage nearest to the question")


def _passage(packing: Packing, item: Item, asked: Collection[str], language: str, most: int) -> Item | None:
    """The item with the passage that answers best; its outline, or a part of that passage, if none is short enough.

    Of an assistant's reply nothing that asks, leads in or is polite ("Great question! Here are some tips:"); None without more.
    """
    idle, body = None if item.line.role == "user" else _IDLE, item.line.body

    def fits(part: str) -> bool:
        return packing.showing(item, part).tokens <= most

    passage = best_passage(body, asked, language, fits, idle)
    if not passage and outline(body, fits):
        return packing.cut(item, int(most * _OUTLINE_SHARE)) or packing.cut(item, most) or item
    if passage is None:
        return None
    passage = passage or best_passage(body, asked, language, fits, idle, broken=True)
    if not passage:
        return packing.cut(item, most) or item
    return packing.showing(item, passage, "the passage nearest to the question")
