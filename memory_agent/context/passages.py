"""Parts that stand for a long turn: the passage that answers a question best, its outline, its beginning and end. Pure."""

from __future__ import annotations

import math
import re
from collections import Counter
from functools import lru_cache, partial
from itertools import islice
from typing import TYPE_CHECKING, Final

from memory_agent.context.budget import largest
from memory_agent.lazily import lazily
from memory_agent.text.sentences import MAX_SENTENCE_CHARS, bounds
from memory_agent.text.subjects import first_words
from memory_agent.text.terms import count_terms

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Sequence

    import regex

_LONGEST_KEPT: Final = 8_192
_SMALL_TALK: Final = -0.5
"""Worth of a sentence that tells nothing: less than that of one without a term of the question."""

_PART_CHARS: Final = 160
"""Of what is too long for a sentence, cut behind a comma or between words."""

# What ends with a colon, or with the number of a list's item, is nothing without what follows.
_LEADS_IN: Final = lazily(re.compile, r"(?::\W{0,4}|\n\W{0,4}\d{1,2}[.)]\W{0,4})\Z")
_ANNOUNCES: Final = lazily(re.compile, r":\W{0,4}(?:```\w*\s*)?\Z")
_ASKS: Final = lazily(re.compile, r"[?？]\W{0,4}\Z")
LEFT_OUT: Final = "[…]"
"""In the place of sentences that a passage leaves out."""
_MOST_OPENING: Final = 3
_NEXT_ITEM: Final = lazily(re.compile, r"\s*\n\W{0,4}\d{1,2}[.)]\W{0,4}\Z")
_TAIL_CHARS: Final = 64
"""Of a passage, in which what leads in is looked for: a run of thousands of blanks would take seconds."""
_LEAST_TITLES: Final = 3
"""Fewer tell less of a text than its beginning and end."""
_MOST_TITLES: Final = 40
_FENCE: Final = ("```", "~~~")
_HEADING: Final = lazily(re.compile, r"\s*#{1,6}\s+\S.*")
# An item of a list with a title of its own: of "1. **Pack light**: take one bag" all up to the colon.
_TITLED: Final = lazily(re.compile, r"\s*(?P<mark>\d{1,2}[.)]\s+|[-*•]\s+)?\*\*[^*\n]{2,80}\*\*:?")
_TITLE_CHARS: Final = 80
"""An item of a list of no more is shown whole: "**Date**: 12 May" is nothing without what follows."""
# An item of a list without titles.
_ITEM: Final = lazily(re.compile, r"\s*(?P<mark>\d{1,2}[.)]|[-*•])\s+\S.*")
_ITEM_CHARS: Final = (50, 25)
"""Of a longer one the first words, up to the first of these, or the second for want of room."""
_LEAST_BEGUN_CHARS: Final = 12
_GOES_ON: Final = " …"
_BULLETS: Final = ("-", "*", "•")
_MARKED_CHARS: Final = 80
_MARKS_BEFORE: Final = lazily(re.compile, r"\s*[-<>~*_|+]{3,}\s")
_MARKS_BEHIND: Final = lazily(re.compile, r"\s[-<>~*_|+]{3,}(?:\s+(?!\S*[^\W\d_]{2})\S+)*\s*\Z")
_LEAST_BEGINNING_CHARS: Final = 60
_FIRST_CHARS: Final = 240
"""Of a text's first line beside its outline."""


def best_passage(
    text: str,
    asked: Collection[str],
    language: str,
    fits: Callable[[str], bool],
    idle: regex.Pattern[str] | None = None,
    *,
    broken: bool = False,
) -> str | None:
    """Neighbouring sentences of `text` with most of the `asked` terms that fit, "[…]" where others are left out.

    A term counts the less the more of the sentences hold it. Of equally good ones the first, and with no term in any the
    first that is no small talk. Parts of what is too long for a sentence count as sentences. Empty if not even one fits.

    `idle`: what small talk begins like besides; then what asks, or leads in to what is cut away, is small talk as well, with what
    stands before that, and there is no passage (None) if there is nothing else. `broken`: of a sentence that does not fit by itself, its beginning.
    """
    read = _read_at_once if len(text) > _LONGEST_KEPT else _read
    spans, terms = read(text, language)
    worth = _worth(text, spans, terms, asked, idle)
    best = max(range(len(spans)), key=lambda at: (worth[at], -at), default=None)
    if best is None:
        return ""
    if idle is not None and worth[best] < 0:
        return None

    # A reply's polite beginning and end are not grown into.
    tells = [at for at, each in enumerate(worth) if each >= 0]
    ends = (0, len(spans) - 1) if idle is None else (tells[0], tells[-1])
    grown = list(_grown(text, spans, worth, best, *ends))

    def shown(count: int) -> str:
        return _shown(text, spans, *grown[count - 1])

    most = 1
    while most < len(grown) and fits(shown(most)):
        most = min(2 * most, len(grown))
    count = largest(most, lambda count: fits(shown(count)))
    if count:
        return shown(count)
    return _beginning(text, *spans[best], fits) if broken else ""


def _grown(
    text: str,
    spans: Sequence[tuple[int, int]],
    worth: Sequence[float],
    best: int,
    least: int,
    most: int,
) -> Iterator[tuple[int, int]]:
    """The first and the last sentence of a passage about the best one, of one sentence more each time, within `least` and `most`.

    Towards the side with more of the question in it; else on, for what follows explains.
    """
    first = last = best
    yield first, last
    while (first, last) != (least, most):
        ahead = worth[last + 1] if last < most else -math.inf
        back = worth[first - 1] if first > least else -math.inf
        begun = ahead > -math.inf and _LEADS_IN.search(text, max(0, spans[last][1] - 16), spans[last][1])
        first, last = (first, last + 1) if begun or ahead >= back else (first - 1, last)
        yield first, last


def _shown(text: str, spans: Sequence[tuple[int, int]], first: int, last: int) -> str:
    """The sentences from the first to the last, "[…]" where others are left out, without what announces one that is."""
    start, end = spans[first][0], spans[last][1]
    before = f"{LEFT_OUT} " if first else ""
    if last + 1 == len(spans):
        return before + text[start:end]
    while True:
        tail = max(start, end - _TAIL_CHARS)
        item = _NEXT_ITEM.search(text, tail, end)
        said = end if item is None else item.start()
        if last == first or not _ANNOUNCES.search(text, tail, said):
            return f"{before}{text[start:said].rstrip()} {LEFT_OUT}"
        last -= 1
        end = spans[last][1]


def _worth(
    text: str,
    spans: Sequence[tuple[int, int]],
    terms: Sequence[frozenset[str]],
    asked: Collection[str],
    idle: regex.Pattern[str] | None,
) -> list[float]:
    """What each sentence, with its `terms`, is worth to the question; see `best_passage`."""
    held = [its.intersection(asked) for its in terms]
    common = Counter(term for terms in held for term in terms)

    def worth_of(sentence: str, terms: Collection[str]) -> float:
        if idle is not None and (
            _LEADS_IN.search(sentence) or idle.match(sentence) or _ASKS.search(sentence)
        ):
            return _SMALL_TALK
        # The same in whatever order a set of texts comes, which is another in each process.
        shared = math.fsum(1 / common[term] for term in terms)
        return shared or (0.0 if first_words(sentence) else _SMALL_TALK)

    worth = [worth_of(text[start:end], terms) for terms, (start, end) in zip(held, spans, strict=True)]
    if idle is not None:
        for at in range(_opening(text, spans)):
            worth[at] = _SMALL_TALK
    return worth


def _read_at_once(text: str, language: str) -> tuple[tuple[tuple[int, int], ...], tuple[frozenset[str], ...]]:
    """The bounds of each sentence, and its terms."""
    spans = tuple(_spans(text))
    return spans, tuple(frozenset(count_terms(text[start:end], language)) for start, end in spans)


_read: Final = lru_cache(maxsize=64)(_read_at_once)
"""The same of the texts that were asked for last: replies that are too long for a prompt are found again and again.

So few, for the longest take 0.5 MB each, in Chinese 1 MB.
"""


def forget_passages() -> None:
    """Forget the texts that were read last: something was forgotten."""
    _read.cache_clear()


def _opening(text: str, spans: Sequence[tuple[int, int]]) -> int:
    """How many sentences stand before what leads in to a reply's list, if these are few and without a number."""
    for at, (start, end) in enumerate(spans[: _MOST_OPENING + 1]):
        sentence = text[start:end]
        if _LEADS_IN.search(sentence):
            return at
        if any(map(str.isdigit, sentence)):
            break
    return 0


def _beginning(text: str, start: int, end: int, fits: Callable[[str], bool]) -> str:
    """The first words of what lies between these that fit, marked as a part; empty if they are too few."""

    def shown(chars: int) -> str:
        before = f"{LEFT_OUT} " if start else ""
        words = text[start : start + chars].rsplit(None, 1) or [""]
        return f"{before}{words[0].rstrip(' ,;:->')} {LEFT_OUT}"

    chars = largest(end - start, lambda chars: fits(shown(chars)))
    return shown(chars) if chars >= _LEAST_BEGINNING_CHARS else ""


def _spans(text: str) -> Iterator[tuple[int, int]]:
    """The bounds of each sentence; of a longer one, as a transcript without points is, those of parts of about a clause."""
    for start, end in bounds(text):
        first = start
        while end - first > MAX_SENTENCE_CHARS:
            least, most = first + _PART_CHARS // 2, first + _PART_CHARS
            cut = max(text.rfind(mark, least, most) for mark in (", ", "; ", "，", "、"))
            cut = cut + 1 if cut >= 0 else text.rfind(" ", least, most)
            last = cut if cut >= 0 else most
            yield first, last
            first = last + (text[last] == " ")
        yield first, end


def outline(text: str, fits: Callable[[str], bool]) -> str:
    """Beginning and titles of a text that has headings or lists, and its last line if that asks something.

    What an assistant lays out is told by its titles, or by the first words of a plain list's items; its beginning and end
    are politeness. With the titles of bullets if those fit as well, or with as many of the others as fit. Empty if there
    are too few.
    """
    lines = text.split("\n")
    forms = [list(islice(_titles(lines, _titled), _MOST_TITLES))]
    if len(forms[0]) < _LEAST_TITLES:
        forms = [list(islice(_titles(lines, first_words), _MOST_TITLES)) for first_words in _FIRST_WORDS]
    last = lines[-1] if lines[-1].rstrip().endswith(("?", "？")) else ""
    begins_laid_out = any(titles and titles[0][0] == 0 for titles in forms)
    first = "" if begins_laid_out else lines[0][:_FIRST_CHARS].rsplit(". ", 1)[0]

    def shown(begins: str, chosen: Sequence[str]) -> str:
        kept = [part for part in (begins, *chosen) if part]
        left_out = len(text) - sum(len(part.removesuffix(_GOES_ON)) for part in kept) - len(last)
        return "\n".join([*kept, _left_out(left_out), *filter(None, [last])])

    main: list[str] = []
    for titles in forms:
        every = [title for _, title, _ in titles]
        main = [title for _, title, bullet in titles if not bullet] or every
        for chosen in (every, main):
            if len(chosen) >= _LEAST_TITLES and fits(shown(first, chosen)):
                return shown(first, chosen)
    for begins in (first, ""):
        some = [shown(begins, main[:count]) for count in range(_LEAST_TITLES, len(main) + 1)]
        if fitting := list(filter(fits, some)):
            return fitting[-1]
    return ""


def without_middle(text: str, chars: int) -> str:
    """At most the first and the last `chars` characters of `text`, cut between lines or words.

    Half a line could be taken for something else: of what memory had put into a turn, for something new.
    """
    worded = _without_marks(text)
    head, tail = (
        (worded[:chars], worded[-chars:]) if len(worded) >= 2 * chars else (text[:chars], text[-chars:])
    )
    for between in ("\n", " "):
        end, start = head.rfind(between), tail.find(between)
        if end >= chars // 2 and 0 <= start < chars // 2:
            head, tail = head[:end], tail[start + 1 :]
            break
    return f"{head}\n{_left_out(len(text) - len(head) - len(tail))}\n{tail}"


def _without_marks(text: str) -> str:
    """`text` without a rule or arrows at an end, and what follows the last without a word: `… an example ->-> 2,N/A`."""
    begun = _MARKS_BEFORE.match(text, 0, _MARKED_CHARS)
    ended = _MARKS_BEHIND.search(text, max(0, len(text) - _MARKED_CHARS))
    return text[begun.end() if begun else 0 : ended.start() if ended else len(text)]


def _left_out(chars: int) -> str:
    return f"[… {chars:,} characters left out …]"


def _titles(
    lines: Sequence[str], title: Callable[[str], tuple[str, bool] | None]
) -> Iterator[tuple[int, str, bool]]:
    """The line, the text, and whether it is a bullet's or stands alone, of each title outside of code."""
    code = False
    for at, line in enumerate(lines):
        if line.lstrip().startswith(_FENCE):
            code = not code
        elif not code and (found := title(line)):
            yield at, *found


def _titled(line: str) -> tuple[str, bool] | None:
    """The title that the line is or begins with, and whether it is a bullet's or stands alone."""
    if _HEADING.match(line):
        return line.rstrip(), False
    found = _TITLED.match(line)
    if found is None:
        return None
    told = line if len(line) <= _TITLE_CHARS else found[0]
    return told.rstrip(), not found["mark"] or found["mark"].startswith(_BULLETS)


def _first_words(line: str, chars: int) -> tuple[str, bool] | None:
    """The first words of a list's item, and whether it is a bullet."""
    found = _ITEM.match(line)
    if found is None:
        return None
    whole = line.rstrip()
    if len(whole) <= chars + chars // 2:
        return whole, found["mark"] in _BULLETS
    words = whole[:chars].rsplit(" ", 1)[0]
    title, _, begun = words.partition(": ")
    # "Inequality: The …" tells no more than "Inequality …".
    return (title if len(begun) < _LEAST_BEGUN_CHARS else words) + _GOES_ON, found["mark"] in _BULLETS


_FIRST_WORDS: Final = tuple(partial(_first_words, chars=chars) for chars in _ITEM_CHARS)
