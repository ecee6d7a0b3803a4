"""Digest of a conversation, folded turn by turn: moments and topics. Pure.

`analyse` looks at one turn alone, and is the costly part; `fold` adds an analysed turn to the digest of those before it,
and is cheap. So analyses can be kept, and the digest be made anew from the turns that are there.
"""

from __future__ import annotations

import asyncio
import math
import re
from collections import OrderedDict
from dataclasses import dataclass, field
from itertools import accumulate
from typing import TYPE_CHECKING, Final

from memory_agent.domain import KeyMoment, LiveStats, TopicRanges
from memory_agent.lazily import lazily
from memory_agent.text.code.lines import has_code
from memory_agent.text.corrections import claims_of, features_of
from memory_agent.text.quotes import (
    LEAST_TELLING,
    answer_in,
    as_answer,
    question_in,
    quotes_of,
    tells_of_self,
)
from memory_agent.text.sentences import only_asks, sentences_of
from memory_agent.text.subjects import clear_subjects

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from memory_agent.domain import Compression, Scope, Turn


SHORT_ANSWER_CHARS: Final = 40
"""Of an answer that tells too little by itself, and is told with its question."""
MAX_CHARS: Final = 220
WHOLE_CHARS: Final = 400
"""A person's turn of no more is kept whole, of a longer one its most telling sentences."""
GAP: Final = "…"
"""Stands where turns, or sentences of one, are left out, so that no reply seems to answer what it doesn't."""
PART: Final = " | "
"""Between what is told in a turn and the lines of its code."""
_LINE_CHARS: Final = 300
"""Of a line of code that are looked at, without the blanks around it: the patterns' cost rises with the square."""
_LONG_LINE: Final = 60
_DEFINING: Final = 2.0
"""Weight of a line that defines or constrains something and not only sets it."""
_LINES: Final = 200

_FENCE: Final = lazily(
    re.compile, r"^[ \t]*(?:```|~~~)[^\n]*\n(?P<body>.*?)(?:^[ \t]*(?:```|~~~)[ \t]*$|\Z)", re.M | re.S
)
_DEFINES: Final = lazily(
    re.compile,
    r"^\s*(?:export\s+|default\s+|public\s+|private\s+|protected\s+|static\s+|async\s+|pub\s+|abstract\s+|final\s+)*"
    r"(?:def|class|function|fn|func|interface|type|struct|enum|trait|impl|module|namespace|(?:CREATE|create)(?! EXTENSION| extension)|ALTER|alter)"
    r"\b(?!\s*[=.:])(?!\s+(?:__|test_))",
)
_CONSTRAINS: Final = lazily(
    re.compile,
    r"\b(?:CHECK|EXCLUDE|UNIQUE|REFERENCES|PRIMARY|CONSTRAINT|INDEX|ON CONFLICT|WHERE|RETURNS|raise|throw|assert)\b|^\s*@\w",
)
_SETS: Final = lazily(
    re.compile, r"^\s*(?:const|let|var|val|export)?\s*[A-Za-z_][\w.]{2,}\s*(?::\s*[\w\[\], |]+)?=\s*\S"
)


@dataclass(frozen=True, kw_only=True, slots=True)
class Excerpt:
    """Some of a turn's own words, about `MAX_CHARS`; `weight`: how much its sentences tell (0 if nothing)."""

    text: str
    weight: float


def excerpt_of(text: str, *, role: str, code: bool = False) -> Excerpt:
    """The most telling words of a turn: a user's best sentences, then the lines of its code that define something.

    Sentences are whole, with "…" where one is left out; what an assistant writes is quoted of its code alone.
    """
    quotes = quotes_of(text) if role == "user" else ()
    best = max((quote.weight for quote in quotes), default=0.0)
    lines = _code_lines(text, least=0.0 if role == "user" else _DEFINING) if code else []
    chosen: list[int] = []
    room = MAX_CHARS
    if best >= LEAST_TELLING or not lines:
        for place in sorted(range(len(quotes)), key=lambda place: (-quotes[place].weight, place)):
            size = len(quotes[place].text) + 1
            if quotes[place].weight >= best / 2 and (not chosen or size <= room):
                chosen.append(place)
                room -= size
    told, last = "", 0
    for quote in (quotes[place] for place in sorted(chosen)):
        told += f"{'' if not told else ' ' if quote.place == last + 1 else f' {GAP} '}{quote.text}"
        last = quote.place
    if told:
        lines = lines[: sum(size <= room for size in accumulate(len(line) + 3 for line in lines))]
    return Excerpt(text=PART.join([*filter(None, [told]), *lines]), weight=best)


def _code_lines(text: str, *, least: float) -> list[str]:
    """Up to three lines of its code that define, constrain or set something, in their order, within `MAX_CHARS`.

    `least`: what they have to weigh; with 0, code of which no line does so is told by its first.
    """
    lines = list(dict.fromkeys(" ".join(line.split()) for line in _lines_of_code(text)))
    rated = sorted((-_line_weight(line), place) for place, line in enumerate(lines) if line)[:3]
    room, kept = MAX_CHARS * 3 // 4, list[int]()
    for negative, place in rated:
        line = lines[place]
        tells = -negative >= least if negative else not (least or kept) and has_code(line)
        if tells and len(line) <= room:
            kept.append(place)
            room -= len(line) + len(PART)
    return [lines[place] for place in sorted(kept)]


def _line_weight(line: str) -> float:
    """Weight of a line's content, and a little for its length: of two lines that constrain, the longer says more."""
    line = line[:_LINE_CHARS]
    does = 3 * bool(_DEFINES.match(line)) + 2 * bool(_CONSTRAINS.search(line)) + bool(_SETS.match(line))
    return does + min(len(line) / _LONG_LINE, 1.0) if does else 0.0


def _lines_of_code(text: str) -> Iterator[str]:
    fenced = [line for match in _FENCE.finditer(text) for line in match["body"].splitlines()[:_LINES]]
    yield from fenced or (line for line in text.splitlines()[:_LINES] if has_code(line))


MIN_IMPORTANCE: Final = 5.0
"""From here on a turn counts as important: half of what its caller may give it."""
CODE_BONUS: Final = 2.0
"""Of a turn with code."""

_RECENCY: Final = ((5, 5.0), (10, 3.0), (20, 1.0))
_FULL_LENGTH_CHARS: Final = 1000
_GIVEN_SCALE: Final = 10.0


def recency_bonus(from_end: int) -> float:
    """5 for the last 5 turns, 3 for the last 10, 1 for the last 20, else 0; `from_end` is 0 for the newest turn.

    >>> [recency_bonus(from_end) for from_end in (0, 4, 5, 9, 10, 19, 20)]
    [5.0, 5.0, 3.0, 3.0, 1.0, 1.0, 0.0]

    Raises ValueError for a negative `from_end`.
    """
    if from_end < 0:
        raise ValueError(f"from_end is {from_end}; the newest turn is 0")
    return next((bonus for turns, bonus in _RECENCY if from_end < turns), 0.0)


def importance(
    *,
    telling: float = 0.0,
    chars: int,
    code: bool = False,
    given: float | None = None,
) -> float:
    """The importance of one turn, 0 or more; important from `MIN_IMPORTANCE` on.

    `telling` + `CODE_BONUS` for code + min(`chars` / 1000, 1). `telling`: how much its most telling
    sentence tells (`text.quotes`). `given`, 0 to 1, is how important the caller said the turn is: 10 x `given` then stands
    in for it, since who wrote the turn knows better than rules do.

    >>> importance(telling=3.5, chars=500)
    4.0
    >>> importance(telling=3.5, chars=0, given=0.3)
    3.0
    """
    weight = telling if given is None else _GIVEN_SCALE * given
    return weight + CODE_BONUS * code + min(max(chars, 0) / _FULL_LENGTH_CHARS, 1.0)


MOMENT_TOKENS: Final = 4_000
"""Of the moments that are kept: as many as a compressed context of the default size can show."""
# What makes a turn worth more of being kept, beside its importance: most questions about a conversation are answered by
# what people answered each other and said of themselves, little by what an assistant replies at length.
_ANSWERS, _OF_CODE, _OF_SELF, _REPLIES = 3.0, 5.0, 2.0, 1.0
_TOKEN_CHARS: Final = 4
_HEAD_TOKENS: Final = 6
"""Of a line, for who said it and a gap before it."""
MAX_TOPICS: Final = 16
MAX_RANGES: Final = 8
_SAME_RANGE: Final = 2


@dataclass(frozen=True, kw_only=True, slots=True)
class Analysis:
    """The analysis of one turn, by rules. `score`: its importance, without recency."""

    score: float
    code: bool
    excerpt: Excerpt
    """Its most telling words."""
    question: str = ""
    """What it asks, last."""
    answer: str = ""
    """What of it would answer a question: a short turn, or its most telling sentence."""
    tells_of_self: bool = False
    """A person says something of themselves."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Digest:
    """The fold of the analyses of all turns up to and including `seq == through`.

    Bounded: what matters least goes first.
    """

    through: int = 0
    turns: int = 0
    tokens: int = 0
    """Of all these turns, word for word."""
    moments: tuple[KeyMoment, ...] = ()
    topics: tuple[TopicRanges, ...] = ()
    """By the turn that came last."""
    asked: tuple[str, str] | None = field(default=None, compare=False)
    """Who asked in the last turn, and what; no compression keeps it."""

    @classmethod
    def of(cls, compression: Compression | None) -> Digest:
        """The digest that a compression recorded; the empty one without a compression."""
        if compression is None:
            return cls()
        same = ("through", "turns", "moments", "topics")
        kept = {name: getattr(compression, name) for name in same}
        return cls(tokens=compression.tokens_before, **kept)


def clear_text_caches() -> None:
    """Forget the texts that the rules keep to read them once: something was forgotten."""
    for cached in (has_code, sentences_of, quotes_of, features_of, claims_of):
        cached.cache_clear()
    clear_subjects()


def analyse(turn: Turn) -> Analysis:
    """Analysis of one turn by the rules, whatever stands around it."""
    said = turn.said
    code = has_code(said)
    excerpt = excerpt_of(said, role=turn.role, code=code)
    score = importance(telling=excerpt.weight, chars=len(said), code=code, given=turn.importance)
    person = turn.role == "user"
    whole = " ".join(said.split()) if len(said) <= WHOLE_CHARS and not code else ""
    return Analysis(
        score=score,
        code=code,
        excerpt=Excerpt(text=whole, weight=excerpt.weight) if person and whole else excerpt,
        question=question_in(said),
        answer="" if only_asks(said) else whole or answer_in(said),
        tells_of_self=person and tells_of_self(said),
    )


def fold(
    digest: Digest, turns: Iterable[tuple[Turn, Analysis | None]], *, most_tokens: int = MOMENT_TOKENS
) -> Digest:
    """The digest with these turns, which follow what it has, by rising `seq`.

    None: it is left open if that is a moment. `most_tokens`: of all moments.
    """
    moments, asked = list(digest.moments), digest.asked
    topics = {topic.topic_id: list(topic.ranges) for topic in digest.topics}
    through, count, tokens = digest.through, digest.turns, digest.tokens
    for turn, analysis in turns:
        if turn.seq <= through:
            continue
        through, count, tokens = turn.seq, count + 1, tokens + turn.tokens
        who = turn.speaker or turn.role
        if analysis is not None:
            question = asked[1] if asked and asked[0] != who and analysis.answer else ""
            moment = _moment(turn, analysis, question)
            if moment.worth:
                moments.append(moment)
        asked = (who, analysis.question) if analysis and analysis.question else None
        if turn.topic_id is not None:
            ranges = topics.pop(turn.topic_id, [])
            _add_turn(ranges, turn.seq)
            topics[turn.topic_id] = ranges
    return Digest(
        through=through,
        turns=count,
        tokens=tokens,
        moments=_weightiest(moments, most_tokens),
        asked=asked,
        topics=tuple(
            TopicRanges(topic_id=topic_id, ranges=tuple(ranges))
            for topic_id, ranges in list(topics.items())[-MAX_TOPICS:]
        ),
    )


def _moment(turn: Turn, analysis: Analysis, question: str) -> KeyMoment:
    """The moment that a turn is, with the `question` that it answers where its words tell too little."""
    telling, text = analysis.excerpt.weight, analysis.excerpt.text
    text = text or (analysis.answer if question else "")
    person = turn.role == "user"
    if question and telling < LEAST_TELLING and (len(text) <= SHORT_ANSWER_CHARS or not person):
        text = as_answer(question, text)
    answered = (_ANSWERS if person else _REPLIES) * bool(question)
    said = answered + _OF_SELF * analysis.tells_of_self + _OF_CODE * analysis.code
    counts = said or telling or analysis.score >= MIN_IMPORTANCE
    return KeyMoment(
        turn_id=turn.id,
        seq=turn.seq,
        who=turn.speaker or turn.role,
        at=turn.timestamp,
        score=analysis.score,
        tokens=turn.tokens,
        code=analysis.code,
        text=text,
        worth=(analysis.score + said) / math.sqrt(_size(text)) if counts else 0.0,
    )


def _size(text: str) -> float:
    """About the tokens of a line with this text."""
    return len(text) / _TOKEN_CHARS + _HEAD_TOKENS


def _add_turn(ranges: list[tuple[int, int]], seq: int) -> None:
    """Add a turn to the ranges, the newest `MAX_RANGES`.

    What others say in between (an answer) opens no new one.
    """
    first = ranges.pop()[0] if ranges and seq - ranges[-1][1] <= _SAME_RANGE else seq
    ranges.append((first, seq))
    del ranges[:-MAX_RANGES]


def _weightiest(moments: Sequence[KeyMoment], most_tokens: int) -> tuple[KeyMoment, ...]:
    """Those of the highest worth in `most_tokens`; of those that say the same the newest."""
    once = {(moment.text or moment.turn_id): moment for moment in moments}
    ranked = sorted(once.values(), key=lambda moment: (-moment.worth, -moment.seq))
    sizes = accumulate(_size(moment.text) for moment in ranked)
    kept = [moment for moment, size in zip(ranked, sizes, strict=True) if size <= most_tokens]
    return tuple(sorted(kept, key=lambda moment: moment.seq))


_IN_PLACE: Final = 8
"""Turns analysed on the event loop; more of them go to a thread, at up to a millisecond each."""
_IN_PLACE_CHARS: Final = 4_000
"""Of these turns together: a single one may be a book."""
MAX_THREADS: Final = 100
MAX_KEPT_TURNS: Final = 400
"""Of one thread: as many as may come between two compressions, and some."""


class AnalysisCache:
    """At most `max_threads` buffers, one a thread, the least recently used out first."""

    def __init__(self, *, max_threads: int = MAX_THREADS) -> None:
        self._max_threads = max_threads
        self._threads: OrderedDict[Scope, OrderedDict[str, Analysis]] = OrderedDict()
        self._hits = self._misses = self._evictions = 0

    @property
    def stats(self) -> LiveStats:
        """Counts of the cache now."""
        return LiveStats(
            live_threads=len(self._threads),
            max_live_threads=self._max_threads,
            turns=sum(map(len, self._threads.values())),
            hits=self._hits,
            misses=self._misses,
            evictions=self._evictions,
        )

    async def analysed(self, scope: Scope, turns: Sequence[Turn]) -> list[tuple[Turn, Analysis]]:
        """Each of `turns` (of one thread) with its analysis."""
        known = self._buffer(scope)
        new = [turn for turn in turns if turn.id not in known]
        self._hits += len(turns) - len(new)
        self._misses += len(new)

        def work() -> dict[str, Analysis]:
            return {turn.id: analyse(turn) for turn in new}

        short = len(new) <= _IN_PLACE and sum(len(turn.content) for turn in new) <= _IN_PLACE_CHARS
        fresh = work() if short else await asyncio.to_thread(work)
        found = {turn.id: known.get(turn.id) or fresh[turn.id] for turn in turns}
        known.update(fresh)
        while len(known) > MAX_KEPT_TURNS:
            known.popitem(last=False)
        return [(turn, found[turn.id]) for turn in turns]

    def _buffer(self, scope: Scope) -> OrderedDict[str, Analysis]:
        buffer = self._threads.setdefault(scope, OrderedDict())
        self._threads.move_to_end(scope)
        while len(self._threads) > self._max_threads:
            self._threads.popitem(last=False)
            self._evictions += 1
        return buffer

    def drop(self, user_id: str) -> None:
        """Forget what is kept of this user's threads: something was forgotten."""
        for scope in [scope for scope in self._threads if scope.user_id == user_id]:
            del self._threads[scope]

    def clear(self) -> None:
        """Forget everything kept."""
        self._threads.clear()
