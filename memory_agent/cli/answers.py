"""Output of `memory-agent ask`: two lines a recollection, with the passage that answers and its words in bold."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, NamedTuple

import regex
from rich.cells import cell_len
from rich.text import Text

from memory_agent.cli.output import clean, line, out, say
from memory_agent.text.terms import CJK, count_terms

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    from memory_agent.domain import Recollection

_INDENT: Final = 4
_PIPED_CHARS: Final = 240
"""Of a passage where nobody looks, who would see a line's end."""
_SENTENCE: Final = re.compile(r"\S.*?(?:[.!?…]+[\"'”’)*]*(?=\s)|[。！？]+|$)")
_WORD: Final = re.compile(r"[^\W_]+(?:['’-][^\W_]+)*")
_WITHOUT_SPACES: Final = regex.compile(rf"[{CJK}]")


class Passage(NamedTuple):
    """One line out of a turn. `answer`: the bounds of the sentence that shares most with the question."""

    text: str
    answer: tuple[int, int]


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
            _print_indented(marked(Passage(said, (0, len(said))), asked, language))
            _print_indented(line((f"{recollection.explanation}  [turn {turn.id}]", "dim")))
        else:
            _print_indented(marked(passage_of(said, asked, language, cells=width), asked, language))


def _print_indented(text: Text) -> None:
    for one in text.split():
        out.print(Text(" " * _INDENT).append_text(one), soft_wrap=True)


def passage_of(text: str, asked: Collection[str], language: str, *, cells: int) -> Passage:
    """The part of `text` around the sentence with most of the terms `asked` for, in one line of so many cells.

    Cut between words, with an ellipsis where something is left out. A question is no answer if there is another one.
    """
    whole = " ".join(text.split())
    wide = cell_len(whole)
    room = cells if wide <= cells else max(cells * len(whole) // wide, 3)
    best = max(
        (match.span() for match in _SENTENCE.finditer(whole)),
        key=lambda span: _shared(whole[slice(*span)], asked, language),
        default=(0, len(whole)),
    )
    if wide <= cells:
        return Passage(whole, best)
    room -= 2  # for the ellipses
    start, end = best
    if end - start > room:  # around the first word that was asked for
        at = next((start + word[0] for word in _shared_words(whole[start:end], asked, language)), start)
        start = max(start, min(at - room // 4, end - room))
        end = start + room
    else:
        end = min(len(whole), start + room)
        start = max(0, end - room)
    start, end = _between_words(whole, start, end)
    shown = f"{'…' if start else ''}{whole[start:end]}{'…' if end < len(whole) else ''}"
    moved = bool(start) - start
    return Passage(shown, (max(best[0] + moved, 0), min(best[1] + moved, len(shown))))


def _between_words(line: str, start: int, end: int) -> tuple[int, int]:
    """The bounds moved inwards to where words begin and end, but for words that would take half of what is between."""
    if end < len(line) and line[end] != " ":
        space = line.rfind(" ", (start + end) // 2, end)
        end = end if space < 0 else space
    if start and line[start - 1] != " ":
        space = line.find(" ", start, (start + end) // 2)
        start = start if space < 0 else space + 1
    return start, end


def _shared(sentence: str, asked: Collection[str], language: str) -> float:
    shared = len(set(count_terms(sentence, language)).intersection(asked))
    return shared - 0.5 * sentence.rstrip("\"'”’)*").endswith(("?", "？"))


def marked(passage: Passage, asked: Collection[str], language: str) -> Text:
    """The passage with the words that the question has as well in bold, and dim what stands around the answer."""
    text = Text(passage.text)
    start, end = passage.answer
    text.stylize("dim", 0, start)
    text.stylize("dim", end)
    for begin, stop in _shared_words(passage.text, asked, language):
        # Not of what stands around it: bold and dim are one weight on many terminals.
        if start <= begin < end:
            text.stylize("bold", begin, stop)
    return text


def _shared_words(text: str, asked: Collection[str], language: str) -> Iterator[tuple[int, int]]:
    for match in _WORD.finditer(text):
        spans = [match.span()]
        if _WITHOUT_SPACES.search(match.group()):  # terms of such scripts are pairs of characters
            spans = [(at, at + 2) for at in range(match.start(), match.end() - 1)]
        yield from (s for s in spans if not count_terms(text[slice(*s)], language).keys().isdisjoint(asked))
