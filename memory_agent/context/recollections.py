"""Recollections as items of a prompt: which of them are worth their tokens, in the order in which they were said. Pure."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

import regex

from memory_agent.context.exchanges import only_a_question
from memory_agent.context.passages import LEFT_OUT, best_passage, outline
from memory_agent.context.render import heading_of, recalled_line, with_days
from memory_agent.text.corrections import Claims, asks
from memory_agent.text.languages import any_of
from memory_agent.text.subjects import (
    Told,
    called,
    content_words,
    names_nothing,
    only_reacts,
    points_outside,
    repeats,
    speaks_of_others,
)
from memory_agent.text.terms import count_terms

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence
    from datetime import date

    from memory_agent.context.assemble import Material
    from memory_agent.context.ledger import Item, Packing
    from memory_agent.domain import ContextLine, RecallPrice, Recollection, Turn

PRICES: Final[dict[RecallPrice, float]] = {"thrifty": 5e-4, "balanced": 1.8e-4, "thorough": 6e-5}
"""The chance of being what is needed that each token has to offer: at `balanced`, one in 5,600."""
_LINE_TOKENS: Final = 5
"""That a line costs besides what it adds to the text: the attention of who reads it."""
_PASSAGE_TOKENS: Final = 40.0
"""Of a long turn's best passage: with so many tokens 63 % of what it may tell is in, with twice as many 86 %."""
_LEAST_PASSAGE_TOKENS: Final = 30
_HALF: Final = 0.5
"""What a line is worth that is about something named elsewhere, where that isn't shown."""
_CUT_AWAY: Final = 2
"""Words of the question."""
_OUTLINE_SHARE: Final = 2 / 3
"""Of a passage's tokens, for what has no passage that answers."""
_IDLE: Final = any_of("words", "idle_reply", regex.IGNORECASE)


def least_confidence(price: RecallPrice) -> float:
    """The confidence below which not even a line of five words is worth its tokens."""
    return 15 * PRICES[price]


def tokens_worth(chance: float, price: float) -> int:
    """The most tokens that a passage is worth, given its chance to hold what is needed.

    What is needed is in the best t tokens of a passage with chance * (1 - exp(-t / 40)): each further token adds less, and the last
    one that pays is at t = 40 ln(chance / (40 price)).

    >>> [tokens_worth(chance, 2e-4) for chance in (0.9, 0.1, 0.008)]
    [188, 101, 0]
    """
    return int(_PASSAGE_TOKENS * math.log(max(chance / (_PASSAGE_TOKENS * price), 1.0)))


@dataclass(frozen=True, slots=True)
class _Line:
    """A recollection as it may be shown.

    `value`: its chance to be needed, as far as it tells something by itself.
    """

    item: Item
    found: Recollection
    value: float


def recalled_items(packing: Packing, material: Material) -> list[Item]:
    """Recollections, best first, to be read day by day in the order in which they were said, other threads' first."""
    recollections = material.recollections
    here = material.thread_id

    def elsewhere(turn: Turn) -> bool:
        return here not in (None, turn.thread_id)

    def when(turn: Turn) -> tuple[Any, ...]:
        return heading_of(turn).day, not elsewhere(turn), turn.timestamp, turn.thread_id, turn.seq

    place = {turn.id: float(at) for at, turn in enumerate(sorted((r.turn for r in recollections), key=when))}
    turns = {found.turn.id: found.turn for found in recollections}
    items = []
    for found in recollections:
        turn, away = found.turn, elsewhere(found.turn)
        now, again = turns.get(found.replaced_by or ""), material.said_again.get(turn.id)
        answers, after = material.answered.get(turn.id), material.spoken_of.get(turn.id)
        item = packing.item(
            "long_term",
            turn.id,
            recalled_line(turn, answers, now, after, again),
            place=place[turn.id],
            reason="recalled from another conversation" if away else "recalled",
            score=found.score,
            confidence=found.confidence,
            turn=turn,
            away=away,
            under=heading_of(turn, elsewhere=away),
        )
        if quoting := answers or after:
            quotes = (
                packing.at(quoting, away=away),
                recalled_line(turn, replaced=now, again=again).head,
            )
            item = item._replace(quotes=quotes)
        items.append(item)
    return items


def take_recollections(
    packing: Packing,
    items: Sequence[Item],
    material: Material,
    asked: Collection[str],
    price: float,
    top_k: int,
) -> None:
    """Take up to `top_k` of the recollections, those first that offer the most for a token, as long as that is the price of one.

    What is long is shown by its best passage. What only says again what is shown is left out. A turn that replaces another is taken before it.
    """
    talk = _Talk(material)
    lines = _lines(packing, items, material, talk)
    newer = {line.found.turn.id: line for line in lines}
    told: Told[ContextLine] = Told()
    taken = 0

    def take(line: _Line, value: float) -> bool:
        """Take the line, or its passage, if it is worth it."""
        shown = _worth_showing(packing, line, material, asked, value, price)
        if shown is None or packing.where_shown(shown):
            return shown is not None and bool(packing.take(shown))
        words = content_words(shown.line.body)
        if (
            line.found.replaced_by is None
            and line.item.name not in replacing
            and _said(shown.line, words, told)
        ):
            packing.leave(line.item, "another says the same")
            return False
        if shown is not line.item and talk.only_reacts(shown.line.body):
            packing.leave(line.item, "small talk")
            return False
        dated = packing.annotated(shown, with_days(shown.line.body, line.found.turn))
        if not (packing.take(dated) or packing.take(shown)):
            return False
        told.add(shown.line, words)
        return True

    replacing = {line.found.replaced_by for line in lines if line.found.replaced_by}
    order = sorted(lines, key=lambda line: -line.value / (line.item.tokens + _LINE_TOKENS))
    # Once more, for beside what was taken since a line may need no heading, gap or quote.
    for line in (*order, *order):
        other = newer.get(line.found.replaced_by or "")
        for each in (line,) if other is None else (other, line):
            if packing.takes(each.item):
                continue
            if taken >= top_k:
                packing.leave(each.item, "more recollections than were asked for")
            else:
                taken += take(each, max(each.value, line.value))


def _lines(packing: Packing, items: Sequence[Item], material: Material, talk: _Talk) -> list[_Line]:
    """The recollections that tell something, each with what it is worth.

    Greetings, thanks and reactions tell nothing, nor does a question, for which its answer counts; a short answer tells
    as much as the question that it answers. What is about something that was named elsewhere, and is not quoted, tells half.
    """
    names, reacts = talk.words, talk.only_reacts
    lines = []
    for item, found in zip(items, material.recollections, strict=True):
        turn, text = found.turn, found.turn.said
        answers = material.answered.get(turn.id)
        to_question = answers is not None and asks(answers.said)
        words = content_words(text) - names
        if to_question and answers is not None:
            words |= content_words(answers.said) - names
        if not words or (reacts(text) and not to_question):
            packing.leave(item, "small talk")
        elif only_a_question(turn):
            packing.leave(item, "only asks")
        else:
            unclear = turn.role == "user" and answers is None and turn.id not in material.spoken_of
            if unclear := unclear and len(text) < _UNCLEAR_CHARS:
                unclear = points_outside(text) or names_nothing(text, names) or speaks_of_others(text)
            lines.append(_Line(item, found, found.confidence * (_HALF if unclear else 1.0)))
    return lines


_UNCLEAR_CHARS: Final = 160
"""A longer turn that begins with "it" says enough besides."""


class _Talk:
    """Who talks in the window or the recollections: the names of the speakers, also given ones."""

    def __init__(self, material: Material) -> None:
        turns = [found.turn for found in material.recollections]
        speakers = {turn.speaker or "" for turn in (*material.window, *turns)}
        documents = material.facts.values() if len(material.people) > 1 else [material.facts]
        given = {str(facts["name"]) for facts in documents if "name" in facts}
        names = " ".join(sorted(speakers | given | {called(turn.said) or "" for turn in turns}))
        self.words = content_words(names)
        """The names as content words."""
        self._names = set(names.casefold().split())

    def only_reacts(self, text: str) -> bool:
        """True if a text only reacts, whomever it names: `Those look amazing Kate!`"""
        if only_reacts(text):
            return True
        words = text.replace(LEFT_OUT, "").split()
        unnamed = [word for word in words if word.strip(_SIGNS).casefold() not in self._names]
        return len(unnamed) < len(words) and only_reacts(" ".join(unnamed))


_SIGNS: Final = "!?.,;:"


def _said(line: ContextLine, words: frozenset[str], told: Told[ContextLine]) -> bool:
    """True if a line that was taken, the speaker's own or for an assistant anybody's, says what this line says."""
    return any(
        (line.role == "assistant" or (line.role, line.speaker) == (other.role, other.speaker))
        and repeats(line.body, other.body)
        for other in told.like(words)
    )


def _worth_showing(
    packing: Packing, line: _Line, material: Material, asked: Collection[str], value: float, price: float
) -> Item | None:
    """The item whole, or its passage, if it is worth its tokens; else None, and noted."""
    item, most = line.item, max(tokens_worth(value, price), _LEAST_PASSAGE_TOKENS)
    if (packing.adds(item) - max(item.tokens - most, 0) + _LINE_TOKENS) * price > value:
        packing.leave(item, "not worth its tokens")
        return None
    if item.tokens <= most:
        return item
    now = next(
        (found.turn for found in material.recollections if found.turn.id == line.found.replaced_by), None
    )
    if now is None:
        shown = _passage(packing, item, asked, material.language, most)
    else:
        shown = _replaced_passage(packing, item, line.found.turn, now, material.language, most)
    if shown is None:
        packing.leave(item, "no passage of it is worth its tokens")
    return shown


def said_again(
    recollections: Sequence[Recollection], window: Collection[str]
) -> tuple[list[Recollection], dict[str, tuple[int, date]]]:
    """The recollections, of those in the same words by the same person the best alone, if need be the best that is not in the `window`
    (ids); and of these, by id, how often it was said, and when last.
    """
    groups: dict[tuple[Any, ...], list[Recollection]] = {}
    for found in recollections:
        turn = found.turn
        words = " ".join(turn.said.casefold().split())
        groups.setdefault((turn.role, turn.speaker, words), []).append(found)
    kept, again = [], {}
    for group in groups.values():
        best = next((found for found in group if found.turn.id not in window), group[0])
        kept.append(best)
        if len(group) > 1:
            again[best.turn.id] = len(group), max(found.turn.local_time for found in group).date()
    return kept, again


def _replaced_passage(
    packing: Packing, item: Item, old: Turn, now: Turn, language: str, most: int
) -> Item | None:
    """The passage of what is marked as replaced: the part that speaks of what the later turn's new values are of.

    Where that can't be shown, the mark would stand before what still holds.
    """
    wanted = Claims(now.said, language).changed
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

    def fits(part: str, room: int = most) -> bool:
        return packing.showing(item, part).tokens <= room

    passage = best_passage(body, asked, language, fits, idle)
    if passage == "":  # a sentence that is cut off may lose what it was chosen for
        passage = best_passage(
            body, asked, language, lambda part: fits(part, most + _LEAST_PASSAGE_TOKENS), idle
        )
    if not passage and outline(body, fits):
        return packing.cut(item, int(most * _OUTLINE_SHARE)) or packing.cut(item, most)
    if passage is None:
        return None
    passage = passage or best_passage(body, asked, language, fits, idle, broken=True)
    if not passage:
        return packing.cut(item, most)
    return packing.showing(item, passage, "the passage nearest to the question")
