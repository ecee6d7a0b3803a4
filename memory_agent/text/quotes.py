"""Quotes: whole sentences in which somebody tells something, and how much each tells. Pure, without a model.

What a person says of names, numbers, dates, relatives, decisions, plans and feelings is worth showing again as it was said;
what it means is left to who reads it. Names are told by capitals, so in scripts without them the other signs speak.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from memory_agent.errors import InvalidInput
from memory_agent.lazily import kept_by_text, lazily
from memory_agent.text.languages import all_words, plain_any_of
from memory_agent.text.sentences import MAX_SENTENCE_CHARS, bounds, sentences_of, shortened
from memory_agent.text.terms import count_terms

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from memory_agent.text.sentences import Sentence


LEAST_TELLING: Final = 2.0
"""The weight of a sentence worth quoting: a name or number beside one's own words, something of a life, or something settled."""
# What one sign of each kind adds, and how many signs count.
_NAME, _NAMES = 1.5, 3
_NUMBER, _NUMBERS = 1.5, 2
_LIFE: Final = 2.0
"""Relations and roles in life, and what one is allergic to."""
_SETTLED: Final = 2.0
"""A decision or a plan."""
_FELT: Final = 1.0
"""A feeling of the speaker's own; alone it tells too little, unless somebody takes it up."""
_OTHERS: Final = 0.5
"""What a sentence is multiplied by in a turn of which none is about its speaker: mostly pasted, or about the world."""
_OWN_WORDS: Final = 0.5
PICKED_UP: Final = 1.0
_CALL_WORDS: Final = 3
"""So few words that are not one's own tell nothing: "Thanks, Caroline!", "Nice job!"."""
_TERMS_PICKED_UP: Final = 2
_SAME_TERMS: Final = 0.8
ANSWERS: Final = "(to “"
"""How a quoted answer begins, before the question."""
_QUESTION_CHARS: Final = 60
_ANSWER_CHARS: Final = 600
"""Of a reply that are looked through for its answer: an assistant's longer one goes on with advice."""
_INNER_QUOTES: Final = str.maketrans("“”", "‘’")

_NAMED: Final = lazily(re.compile, r"(?<![.!?\"“(])\s([A-Z][a-zà-ÿ]+|[A-Z]{2,})\b(?!')")
# Who is called, and named for that alone: "Hey Mel, …", "…, Caroline!".
_CALLED: Final = lazily(re.compile, r"(?:^(?:\w+,?\s){0,2}|,\s)[A-Z][a-zà-ÿ]+(?=[,!?]|\.?$)")
_NUMERAL: Final = lazily(re.compile, r"\d[\d.,:/-]*")
_TELLING: Final = plain_any_of("words", "telling")
_OWN: Final = plain_any_of("words", "self_told")
_DECIDES, _PLANS, _FEELS = (plain_any_of("words", f"settled.{key}") for key in ("decides", "plans", "feels"))
_COURTESY: Final = plain_any_of("words", "courtesy")
_DATE: Final = plain_any_of("times", "signs.date")


@dataclass(frozen=True, kw_only=True, slots=True)
class Quote:
    """A whole sentence as it was said; `weight`: how much it tells, above 0, mostly up to 10.

    `place`: which of the turn's sentences it is.
    """

    text: str
    weight: float
    place: int = 0


# A turn is rated when it is analysed, and again when it is summed up, with its topic perhaps much later.
@kept_by_text(256, short=1_024)
def quotes_of(text: str) -> tuple[Quote, ...]:
    """Every sentence of a turn in which its speaker tells something, in their order.

    >>> [quote.text for quote in quotes_of("Hi Mel! My sister Ines moved to Porto. Can you write to her?")]
    ['My sister Ines moved to Porto.']
    """
    sentences = sentences_of(text)
    personal = any(_OWN.search(sentence.low) for sentence in sentences)
    rated = ((sentence, _weight(sentence, personal=personal)) for sentence in sentences)
    return tuple(
        Quote(text=" ".join(sentence.text.split()), weight=weight, place=place)
        for place, (sentence, weight) in enumerate(rated)
        if weight > 0
    )


def tells_of_self(text: str) -> bool:
    """True if the speaker says something of themselves: "I …", also in a question that begins so."""
    own = ((_OWN.search(sentence.low), sentence.asks) for sentence in sentences_of(text))
    return any(found and not (asks and found.start()) for found, asks in own)


def question_in(text: str) -> str:
    """The last question of a turn, in one line, shortened; empty if its last sentences ask none."""
    asked = [sentence.text for sentence in sentences_of(text[-MAX_SENTENCE_CHARS:]) if sentence.asks]
    return shortened(asked[-1], _QUESTION_CHARS).translate(_INNER_QUOTES) if asked else ""


def answer_in(text: str) -> str:
    """The sentence of a reply that tells most, the longer among short ones; empty if it only asks."""
    begins = text[:_ANSWER_CHARS]
    said = [" ".join(sentence.text.split()) for sentence in sentences_of(begins) if not sentence.asks]
    weights = {quote.text: quote.weight for quote in quotes_of(begins)}
    return max(said, key=lambda one: (weights.get(one, 0.0), min(len(one), _QUESTION_CHARS)), default="")


def as_answer(question: str, answer: str) -> str:
    """An answer with the question that it answers, as it is quoted: `(to “Any pets?”) Two dogs.`"""
    return f"{ANSWERS}{question}”) {answer}"


def is_picked_up(terms: frozenset[str], answers: Iterable[frozenset[str]]) -> bool:
    """True if one of the `answers` (their terms) takes up two of the words of a quote, which weighs `PICKED_UP` more then."""
    return any(len(terms & answer) >= _TERMS_PICKED_UP for answer in answers)


def terms_of(text: str) -> frozenset[str]:
    """The words of a text that a search would look for."""
    return frozenset(count_terms(text))


def says_again(terms: frozenset[str], said: Sequence[frozenset[str]]) -> bool:
    """True if nearly all of the `terms` of a sentence are in one that was `said`, its numbers among them."""
    numbers = {term for term in terms if any(map(str.isdecimal, term))}
    return any(len(terms & other) >= _SAME_TERMS * len(terms) and numbers <= other for other in said)


def _weight(sentence: Sentence, *, personal: bool) -> float:
    """`personal`: somebody speaks of themselves in the turn, in this sentence or another."""
    text, low, words = sentence.text, sentence.low, sentence.words
    own = _OWN.search(low)
    numbers = len(_NUMERAL.findall(text)) + len(words & all_words("words", "counts"))
    numbers += len(set(_DATE.findall(low)))
    calls = not own and not numbers and 0 < len(words) <= _CALL_WORDS
    if calls or _COURTESY.match(low) or (sentence.asks and (own is None or own.start())):
        return 0.0
    weight = _NUMBER * min(numbers, _NUMBERS)
    of_life = _TELLING.search(low) is not None
    most = _NAMES if own or of_life else 1  # of the world, which is full of names, one is enough
    weight += _NAME * min(len(_NAMED.findall(f". {_CALLED.sub(' ', text)}")), most)
    if words and not personal and not of_life:
        return weight * _OTHERS
    weight += _SETTLED * bool(_DECIDES.search(low) or _PLANS.search(low)) + _FELT * bool(_FEELS.search(low))
    weight += _LIFE * of_life
    return weight + _OWN_WORDS if weight and personal else weight


SUMMARY_VERSION: Final = "2"
"""Changes with the rules, for the record of what made a summary."""
MIN_CHARS: Final = 80
"""The shortest limit of a summary that still holds a name and a few words."""
MAX_WHO_CHARS: Final = 40
_NO_PEOPLE: Final = ("assistant", "tool", "system")
"""Whose words are not quoted: an assistant's are mostly written for somebody."""


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class _Line:
    text: str
    weight: float
    terms: frozenset[str]


def extractive_summary(
    previous: str | None, turns: Sequence[tuple[str, str]], *, max_chars: int = 1200
) -> str:
    """At most `max_chars` characters of what `previous` (an earlier summary) and people in `turns` (who, text) tell.

    One line a sentence, "who: sentence", whole and in the order in which they were said; the weightiest as `text.quotes`
    weighs them, each once. Where too much is said, the lines of `previous` and the new ones are sure of half of the room
    each, so that no batch, however long, wipes out the start. Empty where nothing is told. Equal input gives equal output.

    Raises InvalidInput if `max_chars` is less than `MIN_CHARS`.
    """
    if max_chars < MIN_CHARS:
        raise InvalidInput(f"max_chars is {max_chars}; a summary needs at least {MIN_CHARS} characters")
    old, new = list(_lines_of(previous or "")), [line for who, text in turns for line in _quoted(who, text)]
    kept = [*_best(old, max_chars // 2, ())]
    kept += _best(new, max_chars - _size(kept), kept)
    kept += _best([line for line in old if line not in kept], max_chars - _size(kept), kept)
    chosen = set(map(id, kept))
    return "\n".join(line.text for line in (*old, *new) if id(line) in chosen)


def _best(lines: Sequence[_Line], room: int, said: Sequence[_Line]) -> Iterator[_Line]:
    """The weightiest of `lines` that fit in `room` characters, without those that say again what is `said`."""
    terms = [line.terms for line in said]
    for line in sorted(lines, key=lambda line: -line.weight):
        if len(line.text) + 1 <= room and not says_again(line.terms, terms):
            room -= len(line.text) + 1
            terms.append(line.terms)
            yield line


def _size(lines: Sequence[_Line]) -> int:
    return sum(len(line.text) + 1 for line in lines)


def _lines_of(previous: str) -> Iterator[_Line]:
    """The lines of an earlier summary; a paragraph, as a language model writes them, by its sentences."""
    for line in previous.splitlines():
        whole = " ".join(line.split())
        parts = [(0, len(whole))] if len(whole) <= MAX_SENTENCE_CHARS else bounds(whole)
        for start, end in parts:
            if text := whole[start:end]:
                weight = max((quote.weight for quote in quotes_of(text)), default=0.0)
                yield _Line(text=text, weight=weight, terms=terms_of(text))


def _quoted(who: str, text: str) -> Iterator[_Line]:
    if who.startswith(_NO_PEOPLE):
        return
    label = f"{shortened(who, MAX_WHO_CHARS)}: " if who else ""
    for quote in quotes_of(text):
        yield _Line(text=label + quote.text, weight=quote.weight, terms=terms_of(quote.text))
