"""Output of `memory-agent ask`: two lines a recollection, with the passage that answers and its words in bold."""

from __future__ import annotations

import re
from bisect import bisect_left
from typing import TYPE_CHECKING, Final

import regex
from rich.cells import cell_len
from rich.text import Text

from memory_agent.cli.output import clean, line, out, say
from memory_agent.context.passages import LEFT_OUT, best_passage
from memory_agent.text.terms import CJK, count_terms

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    from memory_agent.domain import Recollection

_INDENT: Final = 4
_PIPED_CHARS: Final = 240
"""Of a passage where nobody looks, who would see a line's end."""
_WORD: Final = re.compile(r"[^\W_]+(?:['’-][^\W_]+)*")
_WITHOUT_SPACES: Final = regex.compile(rf"[{CJK}]")


def print_answers(
    question: str, found: Sequence[Recollection], *, language: str, here: str, why: bool
) -> None:
    """Best first, two lines each: confidence, when, who, and the thread if it isn't `here`; the passage that answers.

    With `why` the whole turn, what it was found by, and its id.
    """
    asked = frozenset(count_terms(question, language))
    width = max(out.width - _INDENT, 40) if out.is_terminal else _PIPED_CHARS
    for place, recollection in enumerate(found, start=1):
        turn = recollection.turn
        say(
            (f"{place:>2}. ", "bold"),
            (f"{recollection.confidence:.2f}", "bold cyan"),
            (f"  {turn.timestamp:%Y-%m-%d %H:%M}  ", "dim"),
            turn.speaker or turn.role,
            ("" if turn.thread_id == here else f"  in {turn.thread_id}", "dim"),
            ("  replaced" if recollection.replaced_by else "", "dim"),
        )
        said = clean(turn.content)
        if why:
            _print_indented(marked(said, asked, language))
            _print_indented(line((f"{recollection.explanation}  [turn {turn.id}]", "dim")))
        else:
            _print_indented(marked(passage_of(said, asked, language, cells=width), asked, language))


def _print_indented(text: Text) -> None:
    for one in text.split():
        out.print(Text(" " * _INDENT).append_text(one), soft_wrap=True)


def passage_of(text: str, asked: Collection[str], language: str, *, cells: int) -> str:
    """Neighbouring sentences of `text` with most of the terms `asked` for, as a prompt would have them, in one line of so many cells.

    If not even one fits, what stands around the first of those terms, where most of them come together.
    """

    def fits(passage: str) -> bool:
        return cell_len(" ".join(passage.split())) <= cells

    if found := best_passage(text, asked, language, fits):
        return " ".join(found.split())
    whole = " ".join(text.split())
    words = [start for start, _ in _shared_words(whole, asked, language)]
    densest = max(range(len(words)), key=lambda n: bisect_left(words, words[n] + cells // 2) - n, default=-1)
    at = words[densest] if words else 0
    start = max(at - cells // 4, 0)
    start = max(start, whole.find(" ", start, at) + 1)  # between words, where there are blanks
    cut = Text(f"{LEFT_OUT} {whole[start:]}" if start else whole)
    cut.truncate(cells, overflow="ellipsis")
    return cut.plain


def marked(passage: str, asked: Collection[str], language: str) -> Text:
    """The passage with the words that the question has as well in bold."""
    text = Text(passage)
    for start, end in _shared_words(passage, asked, language):
        text.stylize("bold", start, end)
    return text


def _shared_words(text: str, asked: Collection[str], language: str) -> Iterator[tuple[int, int]]:
    for match in _WORD.finditer(text):
        spans = [match.span()]
        if _WITHOUT_SPACES.search(match.group()):  # terms of such scripts are pairs of characters
            spans = [(at, at + 2) for at in range(match.start(), match.end() - 1)]
        yield from (s for s in spans if not count_terms(text[slice(*s)], language).keys().isdisjoint(asked))
