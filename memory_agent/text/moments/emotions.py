"""What somebody feels in a turn, by a lexicon of English and Korean, and how feelings follow each other. Pure.

The rules are of the kind that VADER uses (Hutto and Gilbert 2014): a word has a strength; words of degree before it, its
exclamation marks and capitals raise or lower it; a negation before it takes it away. What differs: there are fourteen
emotions instead of one scale, and a word for a state ("sad", "슬퍼") counts only if the speaker is in it. So "she is sad",
"would be sad", "are you sad?", "I'm not sad" and "sorry to hear that" show no feeling.
"""

from __future__ import annotations

import re
from functools import lru_cache
from itertools import pairwise
from typing import TYPE_CHECKING, Final

from memory_agent.domain.moments import EmotionSpan, Feeling
from memory_agent.text.moments.emotion_phrases import PHRASES
from memory_agent.text.moments.emotion_words import (
    BOILERPLATE,
    DIMINISHERS,
    EMOJI,
    EXCLAMATIONS,
    EXTREMES,
    FIRST_PERSON,
    INTENSIFIERS,
    KOREAN_STEMS,
    LEADS,
    NEGATIONS,
    OTHER_PERSON,
    POSITIVE,
    STATES,
    UNREAL,
)
from memory_agent.text.sentences import sentences_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from memory_agent.domain.moments import Emotion
    from memory_agent.text.sentences import Sentence

_DEGREE: Final = 1.4
_EXTREME: Final = 1.6
_ONE_MORE: Final = 1.1
_SLIGHT: Final = 0.5
_MARK: Final = 0.1
_CAPITALS: Final = 1.2
_AFTER: Final = 1.3
_EMOJI_AGREES: Final = 1.15
_NO_MORE: Final = 0.7
_AGAIN: Final = 0.05
_MOST_MARKS: Final = 3
_LEAST_CAPITALS: Final = 3

WEAK_INTENSITY: Final = 0.4
"""A feeling below it opens no span of the course while the one before is fresh."""
FRESH_TURNS: Final = 6

_TOKEN: Final = re.compile(r"[a-z]+(?:'[a-z]+)?|[,;:]")
_PAST: Final = frozenset({"was", "were", "used"})
_CLAUSE_WORDS: Final = frozenset({",", ";", ":", "but", "because", "since", "while", "although", "though"})
_LEXICON: Final = frozenset((*STATES, *EXCLAMATIONS))
_SO_MUCH: Final = re.compile(
    r"^ (?:\w+ ){0,3}(?:so much|very much|so badly|a lot|more than|to death|to pieces|as hell|with all my|beyond words)\b"
)

Found = tuple["Emotion", float]


# Asked for by itself and for `emotional_peak`.
@lru_cache(maxsize=8)
def feeling_of(text: str) -> Feeling | None:
    """The strongest feeling that the speaker of `text` shows; None for none. Never raises.

    Its intensity is that of the strongest word or phrase, each with its degree and marks, and a little more if the
    same emotion comes up again. Of equal ones the first wins.

    >>> feeling_of("I'm a bit sad today"), feeling_of("너무 슬퍼요ㅠㅠ")
    (Feeling(emotion='sadness', intensity=0.25), Feeling(emotion='sadness', intensity=0.89))
    """
    found: list[Found] = []
    for sentence in sentences_of(text):
        found.extend(_feelings(sentence))
    if not found:
        return None
    emotion, strength = max(found, key=lambda each: each[1])
    again = sum(1 for its, _ in found if its == emotion) - 1
    return Feeling(emotion=emotion, intensity=round(min(1.0, strength + _AGAIN * min(again, 2)), 2))


def _feelings(sentence: Sentence) -> Iterator[Found]:
    shown = [] if sentence.low.isascii() else [EMOJI[sign] for sign in _SIGN.findall(sentence.low)]
    words: list[Found] = []
    if sentence.words:
        words.extend(_english_words(sentence))
        words.extend(_english_phrases(sentence))
    if sentence.korean:
        words.extend(_korean_words(sentence))
    marks = 1 + _MARK * min(sentence.shouts, _MOST_MARKS)
    for emotion, strength in words:
        agrees = any((its in POSITIVE) == (emotion in POSITIVE) or its == "sadness" for its, _ in shown)
        yield emotion, min(1.0, strength * marks * (_EMOJI_AGREES if agrees else 1.0))
    if shown and not words:
        emotion, strength = max(shown, key=lambda each: each[1])
        yield emotion, min(0.7, strength + 0.05 * (min(len(shown), 4) - 1))


_SIGN: Final = re.compile("|".join(sorted(EMOJI, key=len, reverse=True)))


# --- English ---------------------------------------------------------------------------------------------------
def _english_words(sentence: Sentence) -> Iterator[Found]:
    if sentence.words.isdisjoint(_LEXICON):
        return
    low = BOILERPLATE.sub(lambda match: "·" * len(match.group()), sentence.low)
    tokens = [(match.group(), match.start(), match.end()) for match in _TOKEN.finditer(low)]
    names = [token for token, _, _ in tokens]
    for i, (word, start, end) in enumerate(tokens):
        if word not in _LEXICON:
            continue
        begin = max((j + 1 for j in range(i) if names[j] in _CLAUSE_WORDS), default=0)
        before = names[begin:i]
        state = word in STATES
        if state and not _is_the_speakers(before, names[:begin]):
            continue
        if not state and sentence.asks:
            continue
        if not UNREAL.isdisjoint(names[max(0, i - 8) : i]) or _is_negated(before):
            continue
        emotion, strength = STATES[word] if state else EXCLAMATIONS[word]
        written = sentence.text[start:end]
        if len(word) >= _LEAST_CAPITALS and written.isupper():
            strength *= _CAPITALS
        if _SO_MUCH.match(low[end : end + 60]):
            strength *= _AFTER
        if not _PAST.isdisjoint(before[-5:]):
            strength *= _NO_MORE
        yield emotion, strength * _degree(before)


def _is_the_speakers(before: Sequence[str], earlier: Sequence[str]) -> bool:
    """Whether the nearest person before a word for a state is the speaker, or nobody in a sentence without a subject."""
    near = before[:-1] if before[-1:] == ["this"] else before  # "never been this angry"
    for token in reversed(near):
        if token in FIRST_PERSON:
            return True
        if token in OTHER_PERSON:
            return False
    if any(token in OTHER_PERSON for token in earlier):
        return False
    return all(
        token in LEADS or token in INTENSIFIERS or token in DIMINISHERS or token in STATES for token in before
    )


def _is_negated(before: Sequence[str]) -> bool:
    near = before[-4:]
    if "only" in near or ("never" in near and not {"so", "more", "this"}.isdisjoint(near)):
        return False  # "not only sad", "never been so happy"
    return not NEGATIONS.isdisjoint(near) and not {"help", "stop"}.issuperset(near[-1:])


def _degree(before: Sequence[str]) -> float:
    factor, steps = 1.0, 0
    for token in reversed(before[-4:]):
        if token in DIMINISHERS:
            return _SLIGHT
        if token in INTENSIFIERS and steps < 2:
            factor *= _ONE_MORE if steps else (_EXTREME if token in EXTREMES else _DEGREE)
            steps += 1
        elif token not in LEADS and token not in {"a", "of", "and", "this"}:
            break
    return factor


def _english_phrases(sentence: Sentence) -> Iterator[Found]:
    for word in sentence.words & _PHRASES.keys():
        for pattern, emotion, strength in _PHRASES[word]:
            match = pattern.search(sentence.low)
            if match is None or sentence.asks:
                continue
            before = _TOKEN.findall(sentence.low[: match.start()])
            if " used to " in match.group():
                continue
            if not UNREAL.isdisjoint(before[-8:]) or not NEGATIONS.isdisjoint(before[-3:]):
                continue
            loud = _AFTER if _SO_MUCH.match(sentence.low[match.end() : match.end() + 60]) else 1.0
            yield emotion, min(1.0, strength * loud)


_PHRASES: Final[dict[str, list[tuple[re.Pattern[str], Emotion, float]]]] = {}
for _cues, _pattern, _emotion, _strength in PHRASES:
    for _cue in _cues:
        _PHRASES.setdefault(_cue, []).append((_pattern, _emotion, _strength))


# --- Korean ----------------------------------------------------------------------------------------------------
_STEMS: Final = {stem.replace("_", ""): found for stem, found in KOREAN_STEMS.items()}
_STEM: Final = re.compile(
    "|".join(stem.replace("_", " ?") for stem in sorted(KOREAN_STEMS, key=len, reverse=True))
)
_KOREAN_DEGREE: Final = re.compile(
    r"(?:너무|정말|진짜|완전|엄청|매우|몹시|무척|참|아주|굉장히|되게|존나|겁나|심하게|미치도록|죽도록|세상에서 제일|제일|가장)[가-힣]{0,2} (?:[가-힣]{1,4} )?$"
)
_KOREAN_TWICE: Final = re.compile(
    r"너무너무|너무 너무|정말 너무|진짜 너무|너무 정말|진짜 정말|정말정말|진짜진짜"
)
_KOREAN_SLIGHT: Final = re.compile(r"(?:조금|좀|약간|살짝|다소) (?:[가-힣]{1,3} )?$")
_TO_DEATH: Final = re.compile(r"[가-힣]{0,2} ?(?:죽겠|죽을 ?것 ?같|미치겠)")
_KOREAN_NOT_BEFORE: Final = re.compile(r"(?:(?<![가-힣])안|별로|하나도|전혀|덜|못) $")
_KOREAN_NOT_AFTER: Final = re.compile(
    r"[가-힣]{0,3}지(?:는|도|가|를)? ?(?:않|못|마|말|안)|[가-힣]{0,3} ?(?:건|게|거|것은|것이|상태는)? ?(?:아니|아닌|아냐)"
    r"|(?:이|은|도|가|할 것)? ?없|(?:은|는|을)? ?(?:마세요|마요|말고|마[.!]?$|말아)"
)
_KOREAN_OTHERS_AFTER: Final = re.compile(
    r"[가-힣]{0,2}(?:시|셨|세요|십|겠)|[가-힣]{0,3}(?:으면|다면|라면|면 |면$|을까|까 봐|길 바라|기를|고 싶)|(?:하|해|한)? ?(?:영화|노래|이야기|소설|드라마|책|결말)"
    r"|[가-힣]{0,2} ?(?:대요|래요|답니다|다고 (?:했|하|말))|[가-힣]{0,2} (?:것|거) 같(?:으|네)"
)
_KOREAN_PERSON_BEFORE: Final = re.compile(
    r"(?:엄마|아빠|친구|그녀|그|걔|남편|아내|동생|언니|오빠|누나|형|사람들|딸|아들|선생님|상사|팀장님?|너|넌|당신|여자친구|남자친구|주인공|고객)(?:들)?(?:이|가|은|는|도|님이)? "
    r"(?:너무 |정말 |많이 |진짜 |엄청 ){0,2}$"
)
_KOREAN_ME: Final = re.compile(r"(?<![가-힣])(?:저는|제가|나는|내가|난|전|저|나)(?![가-힣])")
# Stems that hold their honorific or negation themselves.
_WHOLE: Final = frozenset({"돌아가셨", "눈물이멈추지", "눈물이그치지", "살고싶지않", "믿기지않"})
_OTHERS_STATE: Final = frozenset("워퍼뻐러려")


def _korean_words(sentence: Sentence) -> Iterator[Found]:
    low = sentence.low
    asked = sentence.asks and not _KOREAN_ME.search(low)
    if asked:
        return
    for match in _STEM.finditer(low):
        before, after = low[max(0, match.start() - 16) : match.start()], low[match.end() : match.end() + 14]
        stem = match.group().replace(" ", "")
        if stem[-1] in _OTHERS_STATE and after[:1] in {"하", "해", "했", "합"}:
            continue  # 슬퍼해요: somebody else shows it
        if stem not in _WHOLE and (
            _KOREAN_NOT_BEFORE.search(before)
            or _KOREAN_NOT_AFTER.match(after)
            or _KOREAN_OTHERS_AFTER.match(after)
            or (not stem.startswith("자랑") and _KOREAN_PERSON_BEFORE.search(before))
        ):
            continue
        emotion, strength = _STEMS[stem]
        if _KOREAN_SLIGHT.search(before):
            strength *= _SLIGHT
        elif _KOREAN_TWICE.search(before):
            strength *= _DEGREE * _ONE_MORE
        elif _KOREAN_DEGREE.search(before) or _TO_DEATH.match(after):
            strength *= _DEGREE
        yield emotion, min(1.0, strength)


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
        taker, taken = spans[into], spans[least]
        spans[into] = EmotionSpan(
            emotion=taker.emotion,
            first_seq=min(taker.first_seq, taken.first_seq),
            last_seq=max(taker.last_seq, taken.last_seq),
            peak=taker.peak,
        )
        del spans[least]
        spans = _coalesced(spans)
    return tuple(spans)


def _weight(span: EmotionSpan) -> float:
    return span.peak * (span.last_seq - span.first_seq + 1)


def _coalesced(spans: list[EmotionSpan]) -> list[EmotionSpan]:
    if all(one.emotion != two.emotion for one, two in pairwise(spans)):
        return spans
    joined: list[EmotionSpan] = []
    for span in spans:
        if joined and joined[-1].emotion == span.emotion:
            joined[-1] = _joined(joined[-1], span)
        else:
            joined.append(span)
    return joined


def _joined(one: EmotionSpan, two: EmotionSpan) -> EmotionSpan:
    return EmotionSpan(
        emotion=one.emotion, first_seq=one.first_seq, last_seq=two.last_seq, peak=max(one.peak, two.peak)
    )
