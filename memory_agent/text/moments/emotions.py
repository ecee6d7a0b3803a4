"""Emotions of a turn, by the lexicons of the languages, and their course over turns. Pure.

The rules are of the kind that VADER uses (Hutto and Gilbert 2014): a word has a strength; words of degree before it, its
exclamation marks and capitals raise or lower it; a negation before it takes it away. What differs: there are fourteen
emotions instead of one scale, and a word for a state ("sad", "슬퍼") counts only if the speaker is in it. So "she is sad",
"would be sad", "are you sad?", "I'm not sad" and "sorry to hear that" show no feeling.
Strengths, in (0, 1], are in three steps: about 0.3 a mild word, 0.5 a plain one, 0.8 and more a word that is strong
without any help. Chosen by hand; they are no measurement.
"""

from __future__ import annotations

import re
from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING, Final, cast, get_args

from memory_agent.domain.moments import Emotion, EmotionSpan, Feeling
from memory_agent.errors import InvalidInput
from memory_agent.lazily import lazily
from memory_agent.text.languages import languages_with
from memory_agent.text.sentences import sentences_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from memory_agent.text.sentences import Sentence
    from memory_agent.text.tables import Table

_MARK: Final = 0.1
_EMOJI_AGREES: Final = 1.15
_AGAIN: Final = 0.05
_MOST_MARKS: Final = 3

WEAK_INTENSITY: Final = 0.4
"""A feeling below it opens no span of the course while the one before is fresh."""
FRESH_TURNS: Final = 6

_POSITIVE: Final = frozenset({"joy", "excitement", "gratitude", "pride", "hope", "love", "relief"})

Shown = tuple[Emotion, float]

# How much more or less of a feeling a word of degree makes it, in any language.
DEGREE: Final = 1.4
ONE_MORE: Final = 1.1
SLIGHT: Final = 0.5


def by_strength(emotion: Emotion, *groups: tuple[float, str]) -> dict[str, Shown]:
    """The words of each group with the emotion and the group's strength."""
    return {word: (emotion, strength) for strength, words in groups for word in words.split()}


def shown(table: Table, key: str) -> dict[str, Shown]:
    """The words of a part of a language's table: each emotion with pairs of a strength and the words that have it."""
    found: dict[str, Shown] = {}
    for emotion, groups in table.items(key).items():
        found |= by_strength(known_emotion(emotion, table), *groups)
    return found


def known_emotion(emotion: str, table: Table) -> Emotion:
    """One of the emotions, as a table names it; InvalidInput for another."""
    if emotion not in get_args(Emotion):
        raise InvalidInput(f"{table.name}: no emotion {emotion!r}; one of: {', '.join(get_args(Emotion))}")
    return cast("Emotion", emotion)


_EMOJI: Final[dict[str, Shown]] = {
    **by_strength("joy", (0.4, "🎉 🥳"), (0.3, "😊 😄 😁 😀 😃 ☺ 🙂")),
    **by_strength("excitement", (0.4, "🤩")),
    **by_strength("love", (0.4, "❤ 🥰 😍 💕 💖 😘 💗 ♥")),
    **by_strength("gratitude", (0.3, "🙏")),
    **by_strength("sadness", (0.6, "💔"), (0.45, "😭"), (0.4, "😢 😞 😔 ☹ 🥺 😿 ㅠㅠ ㅜㅜ ㅠㅜ ㅜㅠ")),
    **by_strength("anger", (0.6, "🤬"), (0.5, "😡 😠")),
    **by_strength("frustration", (0.4, "😤 😩 😫 🙄")),
    **by_strength("fear", (0.45, "😨 😰"), (0.5, "😱")),
    **by_strength("surprise", (0.35, "😲 😮 🤯")),
    **by_strength("disgust", (0.5, "🤮 🤢")),
}


# Asked for by itself and for `emotional_peak`.
@lru_cache(maxsize=8)
def feeling_of(text: str) -> Feeling | None:
    """The strongest feeling that the speaker of `text` shows; None for none. Never raises.

    Its intensity is that of the strongest word or phrase, each with its degree and marks, and a little more if the
    same emotion comes up again. Of equal ones the first wins.

    >>> feeling_of("I'm a bit sad today"), feeling_of("너무 슬퍼요ㅠㅠ")
    (Feeling(emotion='sadness', intensity=0.25), Feeling(emotion='sadness', intensity=0.89))
    """
    found = [shown for sentence in sentences_of(text) for shown in _feelings(sentence)]
    if not found:
        return None
    emotion, strength = max(found, key=lambda each: each[1])
    again = sum(1 for its, _ in found if its == emotion) - 1
    return Feeling(emotion=emotion, intensity=round(min(1.0, strength + _AGAIN * min(again, 2)), 2))


def _feelings(sentence: Sentence) -> Iterator[Shown]:
    shown = [] if sentence.low.isascii() else [_EMOJI[sign] for sign in _SIGN.findall(sentence.low)]
    languages = (each for each in languages_with("feelings") if each.may_be_in(sentence.low))
    words = [feeling for each in languages for feeling in each.feelings(sentence)]
    marks = 1 + _MARK * min(sentence.shouts, _MOST_MARKS)
    for emotion, strength in words:
        agrees = any((its in _POSITIVE) == (emotion in _POSITIVE) or its == "sadness" for its, _ in shown)
        yield emotion, min(1.0, strength * marks * (_EMOJI_AGREES if agrees else 1.0))
    if shown and not words:
        emotion, strength = max(shown, key=lambda each: each[1])
        yield emotion, min(0.7, strength + 0.05 * (min(len(shown), 4) - 1))


_SIGN: Final = lazily(re.compile, "|".join(sorted(_EMOJI, key=len, reverse=True)))


# --- the course ------------------------------------------------------------------------------------------------
def extend_course(
    course: tuple[EmotionSpan, ...], seq: int, feeling: Feeling | None, *, limit: int = 24
) -> tuple[EmotionSpan, ...]:
    """The emotional course after turn `seq`: rising spans that don't overlap, at most `limit` of them.

    A turn without a feeling changes nothing, nor does one that the course has passed already (a repeat). The emotion of
    the last span extends it to `seq`, across the turns between. Another emotion opens a span, except a weak one (below
    `WEAK_INTENSITY`) within `FRESH_TURNS` turns after the last span: it is a passing mood and leaves no trace.

    Above `limit`, the span that weighs least (peak x turns), the newest apart, is taken over by the neighbour with the
    higher peak (the earlier of equals); neighbours of one emotion that then touch become one. Raises ValueError for a
    `limit` below 1.
    """
    if limit < 1:
        raise ValueError(f"limit is {limit}; a course has at least one span")
    if feeling is None or (course and seq <= course[-1].last_seq):
        return _reduced(course, limit)
    opened = EmotionSpan(emotion=feeling.emotion, first_seq=seq, last_seq=seq, peak=feeling.intensity)
    if not course:
        return (opened,)
    last = course[-1]
    if last.emotion == feeling.emotion:
        return _reduced((*course[:-1], _joined(last, opened)), limit)
    if feeling.intensity < WEAK_INTENSITY and seq - last.last_seq <= FRESH_TURNS:
        return _reduced(course, limit)
    return _reduced((*course, opened), limit)


def describe_course(course: Sequence[EmotionSpan], *, most: int = 6) -> str:
    """The course in a line, brought down to its `most` main spans: "sadness (turns 3-18) → hope (19-40)" with en dashes.

    Empty without a span. Raises ValueError for `most` below 1.
    """
    if most < 1:
        raise ValueError(f"most is {most}; pass 1 or more")
    parts: list[str] = []
    for span in _reduced(tuple(course), most):
        single = span.first_seq == span.last_seq
        turns = f"{span.first_seq}" if single else f"{span.first_seq}\u2013{span.last_seq}"
        label = "" if parts else ("turn " if single else "turns ")
        parts.append(f"{span.emotion} ({label}{turns})")
    return " → ".join(parts)


def _reduced(course: tuple[EmotionSpan, ...], limit: int) -> tuple[EmotionSpan, ...]:
    spans = list(course)
    while len(spans) > limit:
        least = min(range(len(spans) - 1), key=lambda i: (_weight(spans[i]), i))
        earlier = least > 0 and spans[least - 1].peak >= spans[least + 1].peak
        into = least - 1 if earlier else least + 1
        first, last = spans[min(into, least)].first_seq, spans[max(into, least)].last_seq
        spans[into] = replace(spans[into], first_seq=first, last_seq=last)
        del spans[least]
        spans = _coalesced(spans)
    return tuple(spans)


def _weight(span: EmotionSpan) -> float:
    return span.peak * (span.last_seq - span.first_seq + 1)


def _coalesced(spans: list[EmotionSpan]) -> list[EmotionSpan]:
    joined: list[EmotionSpan] = []
    for span in spans:
        if joined and joined[-1].emotion == span.emotion:
            joined[-1] = _joined(joined[-1], span)
        else:
            joined.append(span)
    return joined


def _joined(one: EmotionSpan, two: EmotionSpan) -> EmotionSpan:
    return replace(one, last_seq=two.last_seq, peak=max(one.peak, two.peak))
