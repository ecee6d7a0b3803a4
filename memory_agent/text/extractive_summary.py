"""A summary without a language model: the most telling sentences of a conversation, word for word.

Sentences are chosen by SumBasic (Nenkova and Vanderwende, "The impact of frequency on summarization", Microsoft
Research MSR-TR-2005-101): a sentence scores the mean probability of its words, the best is taken, the probability
of its words is squared, and so on. Squaring is what removes redundancy: what was said once is worth little again.

What differs from the paper, because conversations are not news: a word counts once a sentence; the mean of a short
sentence is taken over `_FULL_SENTENCE` words, else "It was great" beats every sentence that says something; each
further sentence of one turn scores less, else an assistant's long answers crowd out its user; questions, code and
headings score less, numbers, dates and names more; small talk is taken only if there is nothing else; a sentence
whose words another one holds nearly all is left out. Small talk, dates in words and names are recognised in English
(greetings in a few more languages); everything else works for any script.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from functools import lru_cache
from math import fsum
from typing import TYPE_CHECKING, Final

import regex

from memory_agent.errors import InvalidInput
from memory_agent.lazily import lazily
from memory_agent.text.languages import all_words, any_of
from memory_agent.text.sentences import bounds, shortened
from memory_agent.text.terms import CJK, count_terms

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

SUMMARY_VERSION: Final = "1"
"""Changes with the rules, for the record of what made a summary."""

MIN_CHARS: Final = 80
"""The shortest limit of a summary that still holds a name and a few words."""

MAX_LINE_CHARS: Final = 240
MAX_WHO_CHARS: Final = 40
MAX_TURN_CHARS: Final = 20_000
"""Of a longer turn (a pasted document) only so much is looked at."""

_MIN_GROWTH: Final = 400
"""About four lines of a chat, with who and when; no less than `MAX_LINE_CHARS`."""

_FULL_SENTENCE: Final = 6
_SAME_WORDS: Final = 0.8
_OLD_GROUPS: Final = 4
_EARLIER: Final = -1
"""The turn of a line of the previous summary, which no longer says its own."""

# What a sentence's weight of 1 is multiplied by.
_QUESTION: Final = 0.5
_ASIDE: Final = 0.5
_POINTING: Final = 0.7
_CONCRETE: Final = 0.5
"""Added, not multiplied, for each of number, date, name."""


def extractive_summary(
    previous: str | None, turns: Sequence[tuple[str, str]], *, max_chars: int = 1200
) -> str:
    """At most `max_chars` characters of what `previous` (an earlier summary) and `turns` (who, text) say.

    One line a sentence, "who: sentence", in the order they were said; what was shortened ends in "…". Not empty
    unless `previous` and all texts are blank. Equal input gives equal output.

    Incremental: the lines of `previous` compete with the new sentences. Each quarter of its lines, in their order,
    and `turns` are sure of about a fifth of the room; what they leave goes to the best lines of `previous`, then to
    `turns`. So it thins out evenly, keeping the most telling lines of every part, and no batch, however long,
    wipes out the start. Over many batches what is old still gets thinner: pass batches of similar size. A summary
    grows by at most half of the characters of `turns` (or `_MIN_GROWTH`), so that a conversation that would fit is
    summarised too.

    Raises InvalidInput if `max_chars` is less than `MIN_CHARS`.
    """
    if max_chars < MIN_CHARS:
        raise InvalidInput(f"max_chars is {max_chars}; a summary needs at least {MIN_CHARS} characters")
    longest = min(max_chars, MAX_LINE_CHARS)
    said = [
        (_one_line(who), text[:MAX_TURN_CHARS] + "…" * (len(text) > MAX_TURN_CHARS)) for who, text in turns
    ]
    old = list(_previous_lines(previous or "", longest))
    names = _terms_of_names([*(who for who, _ in said), *(line.who for line in old)])
    lines = [
        _rated(line, names, group=i * _OLD_GROUPS // len(old), turn=_EARLIER) for i, line in enumerate(old)
    ]
    for turn, (who, text) in enumerate(said):
        lines += (_rated(line, names, group=_OLD_GROUPS, turn=turn) for line in _lines(who, text, longest))
    telling = [line for line in lines if line.weight > 0] or lines
    growth = max(_MIN_GROWTH, sum(len(text) for _, text in said) // 2)
    room = min(max_chars, sum(len(line.text) + 1 for line in old) + growth)
    chosen = {id(line) for line in _choose(telling, room)}
    return "\n".join(line.text for line in lines if id(line) in chosen)


# --- sentences -----------------------------------------------------------------------------------------------
@dataclass(frozen=True, kw_only=True, slots=True)
class _Said:
    """A candidate: the whole line, who and what within it. `code`: it stands for a block of code."""

    text: str
    who: str
    sentence: str
    code: bool = False


_CODE_BLOCK: Final = lazily(regex.compile, r"(```|~~~)(?P<body>.*?)(?:\1|\Z)", regex.DOTALL)
_LANGUAGE_TAG: Final = lazily(regex.compile, r"^[\w+#.-]*[ \t]*\n")
_MARKER: Final = lazily(regex.compile, r"^(?:(?:[-*•–>#]+|\d{1,3}[.)])(?: |$))+")
_EMPHASIS: Final = lazily(regex.compile, r"(?<![\w*])\*\*(?=\S)([^*]+)(?<=\S)\*\*(?![\w*])")
_WHO: Final = lazily(regex.compile, rf"^(?P<who>[^:\n]{{1,{MAX_WHO_CHARS}}}): (?=\S)")


def _one_line(text: str) -> str:
    return " ".join(text.split())


def _previous_lines(previous: str, longest: int) -> Iterator[_Said]:
    """The lines of an earlier summary; a paragraph, as a language model writes them, by its sentences."""
    for line in previous.splitlines():
        whole = _one_line(line)
        if not whole:
            continue
        for start, end in bounds(whole) if len(whole) > longest else [(0, len(whole))]:
            shown = shortened(whole[start:end], longest)
            found = _WHO.match(shown)
            who = found["who"] if found else ""
            yield _Said(text=shown, who=who, sentence=shown[found.end() :] if found else shown)


def _lines(who: str, text: str, longest: int) -> Iterator[_Said]:
    """One turn's lines: sentences, and the first line of each block of code."""
    label = f"{shortened(who, MAX_WHO_CHARS)}: " if who else ""
    position = 0
    for block in _CODE_BLOCK.finditer(text):
        yield from _prose(who, label, text[position : block.start()], longest)
        body = _LANGUAGE_TAG.sub("", block["body"]).split("\n")
        first = next((line for line in map(_one_line, body) if line), "")
        shown = shortened(f"{first} …".strip(), longest - len(label))
        yield _Said(text=label + shown, who=who, sentence=shown, code=True)
        position = block.end()
    yield from _prose(who, label, text[position:], longest)


def _prose(who: str, label: str, text: str, longest: int) -> Iterator[_Said]:
    for paragraph in map(_one_line, text.splitlines()):
        content = _EMPHASIS.sub(r"\1", _MARKER.sub("", paragraph)) or paragraph
        for start, end in bounds(content):
            shown = shortened(content[start:end], longest - len(label))
            yield _Said(text=label + shown, who=who, sentence=shown)


# --- rating --------------------------------------------------------------------------------------------------
@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class _Line:
    """A rated candidate. `weight` 0: small talk; `group`: whose share of the room it has; `turn`: its number."""

    text: str
    terms: frozenset[str]
    weight: float
    group: int
    turn: int


_DATE: Final = any_of("times", "signs.day", regex.IGNORECASE)
# A capital after a small letter, a digit or a comma: what begins a sentence has one in any case.
_NAME: Final = lazily(regex.compile, r"(?<=[\p{Ll}\p{N},;)'’\"-] )[\"'“‘(]?(?P<name>\p{Lu}[\p{L}\p{N}&-]+)")
_POINTS_BACK: Final = any_of("words", "points_back", regex.IGNORECASE)
# An attachment's label, a heading or lead-in, a row of a table.
_NOTE: Final = lazily(regex.compile, r"^\[[^\]]*\]$|^\([^)]*\)$|^\||[:：]$")
_BOILERPLATE: Final = any_of("words", "boilerplate", regex.IGNORECASE)
_QUESTION_END: Final = lazily(regex.compile, r"[?？]+[!！\"'”’»」』)）]*$")
_PAIR: Final = lazily(regex.compile, rf"[{CJK}]")
_NUMBER: Final = lazily(regex.compile, r"\p{N}")


@lru_cache(maxsize=1)
def _small_talk() -> frozenset[str]:
    return frozenset(count_terms(" ".join(all_words("words", "small_talk"))))


def _terms_of_names(names: Iterable[str]) -> frozenset[str]:
    """The terms of who speaks; not the date that may stand beside it."""
    return frozenset(term for name in set(names) for term in count_terms(name) if term.isalpha())


def _words_in(terms: Iterable[str]) -> float:
    """About how many words `terms` stand for: a Chinese, Japanese or Korean one is a character or a pair of them."""
    # fsum: a set has no order, and the sum of the same terms must be the same in every process.
    return fsum((0.7 if len(term) > 1 else 0.3) if _PAIR.match(term) else 1 for term in terms)


def _rated(line: _Said, names: frozenset[str], *, group: int, turn: int) -> _Line:
    """`line` with what it weighs. `names`: terms of who speaks, which say nothing about the subject."""
    named = {term for found in _NAME.finditer(line.sentence) for term in count_terms(found["name"])}
    # "Mel" is Melanie where it is written as a name; "car" is not Caroline.
    for_short = {term for term in named for name in names if len(term) > 2 and name.startswith(term)}
    terms = frozenset(count_terms(line.sentence)) - names - for_short - _small_talk()
    number, date = bool(_NUMBER.search(line.sentence)), bool(_DATE.search(line.sentence))
    question = bool(_QUESTION_END.search(line.sentence))
    small_talk = _words_in(terms) < 3 if question else _words_in(terms) < 2 and not date
    if small_talk or _BOILERPLATE.search(line.sentence):
        weight = 0.0
    else:
        weight = 1 + _CONCRETE * (number + date + bool(named & terms))
    if line.code or _NOTE.search(line.sentence):
        weight *= _ASIDE
    if question:
        weight *= _QUESTION
    if _POINTS_BACK.match(line.sentence):
        weight *= _POINTING
    return _Line(text=line.text, terms=terms, weight=weight, group=group, turn=turn)


# --- choosing ------------------------------------------------------------------------------------------------
def _choose(lines: Sequence[_Line], room: int) -> list[_Line]:
    """SumBasic's choice of at most `room` characters, line ends included; each group has its share first."""
    counts = Counter(term for line in lines for term in line.terms)
    total = counts.total()
    probability = {term: count / total for term, count in counts.items()}
    owed = [room / (_OLD_GROUPS + 1)] * (_OLD_GROUPS + 1)
    taken = Counter[int]()
    left = room + 1  # the last line has no end
    waiting, chosen = list(lines), list[_Line]()

    def score(line: _Line) -> float:
        # fsum: a set has no order, and equal input must give equal output in every process.
        mean = fsum(probability[term] for term in line.terms) / max(len(line.terms), _FULL_SENTENCE)
        return line.weight * mean / (1 + taken[line.turn])

    while waiting := [line for line in waiting if len(line.text) < left]:
        old = [line for line in waiting if line.turn == _EARLIER]
        best = max([line for line in waiting if owed[line.group] > 0] or old or waiting, key=score)
        chosen.append(best)
        left -= len(best.text) + 1
        owed[best.group] -= len(best.text) + 1
        if best.turn != _EARLIER:
            taken[best.turn] += 1
        for term in best.terms:
            probability[term] **= 2
        waiting = [line for line in waiting if line is not best and not _says_again(line, best)]
    return chosen


def _says_again(line: _Line, said: _Line) -> bool:
    """True if nearly all words of `line` are in `said`."""
    common = len(line.terms & said.terms)
    return line.text == said.text or (common > 0 and common >= _SAME_WORDS * len(line.terms))
