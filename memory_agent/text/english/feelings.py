"""English lexicon of emotions; the rules that weigh it are those of `moments.emotions`."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from memory_agent.lazily import lazily
from memory_agent.text.moments.emotions import DEGREE, ONE_MORE, SLIGHT, known_emotion, shown
from memory_agent.text.tables import table

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from memory_agent.text.moments.emotions import Shown
    from memory_agent.text.sentences import Sentence

_EXTREME: Final = 1.6
_CAPITALS: Final = 1.2
_AFTER: Final = 1.3
_NO_MORE: Final = 0.7
_LEAST_CAPITALS: Final = 3

_TOKEN: Final = lazily(re.compile, r"[a-z]+(?:'[a-z]+)?|[,;:]")

_TABLE: Final = table("english", "feelings")
_STATES: Final = shown(_TABLE, "states")
_EXCLAMATIONS: Final = shown(_TABLE, "exclamations")
_LEXICON: Final = frozenset((*_STATES, *_EXCLAMATIONS))
_MORE, _MOST, _LESS = (_TABLE.words(f"words.{name}") for name in ("more", "most", "less"))
_NEGATIONS, _UNREAL = _TABLE.words("words.negation"), _TABLE.words("words.unreal")
_SPEAKER, _OTHERS = _TABLE.words("words.speaker"), _TABLE.words("words.others")
_LEADS, _PAST, _CLAUSE = (_TABLE.words(f"words.{name}") for name in ("leads", "past", "clause"))
_BOILERPLATE: Final = _TABLE.plain_pattern("patterns.boilerplate")
_SO_MUCH: Final = _TABLE.plain_pattern("patterns.so_much")
_PHRASES: Final = tuple(
    (
        each.words("cues"),
        each.plain_pattern("pattern"),
        known_emotion(each.value("emotion"), each),
        each.value("strength", float),
    )
    for each in _TABLE.parts("phrase")
)
"""Phrases that show a feeling as a whole, after words of which a sentence must have one."""


def feelings(sentence: Sentence) -> Iterator[Shown]:
    """Each feeling that the sentence shows, by a word or by a phrase."""
    yield from _words(sentence)
    yield from _phrases(sentence)


def _words(sentence: Sentence) -> Iterator[Shown]:
    if sentence.words.isdisjoint(_LEXICON):
        return
    low = _BOILERPLATE.sub(lambda match: "·" * len(match.group()), sentence.low)
    tokens = [(match.group(), match.start(), match.end()) for match in _TOKEN.finditer(low)]
    names = [token for token, _, _ in tokens]
    for i, (word, start, end) in enumerate(tokens):
        if word not in _LEXICON:
            continue
        begin = max((j + 1 for j in range(i) if names[j] in _CLAUSE), default=0)
        before = names[begin:i]
        state = word in _STATES
        if state and not _is_the_speakers(before, names[:begin]):
            continue
        if not state and sentence.asks:
            continue
        if not _UNREAL.isdisjoint(names[max(0, i - 8) : i]) or _is_negated(before):
            continue
        emotion, strength = _STATES[word] if state else _EXCLAMATIONS[word]
        written = sentence.text[start:end]
        if len(word) >= _LEAST_CAPITALS and written.isupper():
            strength *= _CAPITALS
        if _SO_MUCH.match(low[end : end + 60]):
            strength *= _AFTER
        if not _PAST.isdisjoint(before[-5:]):
            strength *= _NO_MORE
        yield emotion, strength * _degree(before)


def _is_the_speakers(before: Sequence[str], earlier: Sequence[str]) -> bool:
    """True if the nearest person before a word for a state is the speaker, or nobody in a sentence without a subject."""
    near = before[:-1] if before[-1:] == ["this"] else before  # "never been this angry"
    for token in reversed(near):
        if token in _SPEAKER:
            return True
        if token in _OTHERS:
            return False
    if any(token in _OTHERS for token in earlier):
        return False
    return all(token in _LEADS or token in _MORE or token in _LESS or token in _STATES for token in before)


def _is_negated(before: Sequence[str]) -> bool:
    near = before[-4:]
    if "only" in near or ("never" in near and not {"so", "more", "this"}.isdisjoint(near)):
        return False  # "not only sad", "never been so happy"
    return not _NEGATIONS.isdisjoint(near) and not {"help", "stop"}.issuperset(near[-1:])


def _degree(before: Sequence[str]) -> float:
    factor, steps = 1.0, 0
    for token in reversed(before[-4:]):
        if token in _LESS:
            return SLIGHT
        if token in _MORE and steps < 2:
            factor *= ONE_MORE if steps else (_EXTREME if token in _MOST else DEGREE)
            steps += 1
        elif token not in _LEADS and token not in {"a", "of", "and", "this"}:
            break
    return factor


def _phrases(sentence: Sentence) -> Iterator[Shown]:
    if sentence.asks:
        return
    for cues, pattern, emotion, strength in _PHRASES:
        match = None if cues.isdisjoint(sentence.words) else pattern.search(sentence.low)
        if match is None or " used to " in match.group():
            continue
        before = _TOKEN.findall(sentence.low[: match.start()])
        if not _UNREAL.isdisjoint(before[-8:]) or not _NEGATIONS.isdisjoint(before[-3:]):
            continue
        loud = _AFTER if _SO_MUCH.match(sentence.low[match.end() : match.end() + 60]) else 1.0
        yield emotion, min(1.0, strength * loud)
