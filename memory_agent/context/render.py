"""Items of a context as lines of a prompt. What was remembered is data and cannot close its own delimiters."""

from __future__ import annotations

import json
import re
import unicodedata
from typing import TYPE_CHECKING, Any, Final

from memory_agent.domain import ContextLine
from memory_agent.lazily import lazily

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from memory_agent.domain import SummaryItem, Turn

# A remembered text that holds one of our tags must not end the data; only such tags are changed, so that
# remembered code and markup stay as they were. Possessive, so that any number of blanks takes one look.
_OUR_TAG: Final = lazily(re.compile, r"<(?=\s*+(?:/\s*+)?+memory_)", re.IGNORECASE)
_QUOTED_CHARS: Final = 80
_EMPTY_LINES: Final = lazily(re.compile, r"\n(?:[ \t>]*+\n)++")
_NO_BRACKETS: Final = str.maketrans("[]", "()")
# What turns the direction of writing is no control character by its category, but makes a line look like another.
_TURNS_WRITING: Final = frozenset("\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")


def as_data(text: str) -> str:
    """`text` with the `<` of anything that looks like one of our tags written as `&lt;`."""
    return _OUR_TAG.sub("&lt;", text)


def one_line(text: str) -> str:
    """`text` as data, its white space single blanks."""
    return as_data(" ".join(text.split()))


def name_of(speaker: str | None) -> str:
    """A speaker's name as data that cannot pass for a line's head or begin a line; empty for none.

    In one line, without control characters, its square brackets round.
    """
    shown = (
        char
        for char in (speaker or "").translate(_NO_BRACKETS)
        if char.isspace() or (unicodedata.category(char) != "Cc" and char not in _TURNS_WRITING)
    )
    return one_line("".join(shown))


def fact_line(path: Sequence[str], value: Any, whose: str = "") -> ContextLine:
    """One fact as a line: `- occupation: nurse`, or `- Ann, occupation: nurse` where it has to say whose it is."""
    shown = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
    who = f"{name_of(whose)}, " if whose else ""
    return ContextLine(body=one_line(f"- {who}{'.'.join(path)}: {' '.join(shown.split())}"))


def turn_line(turn: Turn, *, numbered: bool = False) -> ContextLine:
    """One turn with when and who, its own line breaks kept: `[2026-05-03 14:20 UTC, user] …`.

    `numbered`: with its `seq`, as in `[turn 12, 2026-05-03 14:20 UTC, user] …`.
    """
    speaker = name_of(turn.speaker)
    who = f"{turn.role} {speaker}" if speaker else turn.role
    number = f"turn {turn.seq}, " if numbered else ""
    return ContextLine(
        head=f"[{number}{turn.timestamp:%Y-%m-%d %H:%M} UTC, {who}] ",
        body=as_data(turn.content),
        role=turn.role,
        speaker=speaker or None,
    )


def recalled_heading(turn: Turn) -> str:
    """The heading of turns that were said on one day: `[2026-05-03 UTC]`."""
    return f"[{turn.timestamp:%Y-%m-%d} UTC]"


def recalled_line(turn: Turn, answers: Turn | None = None) -> ContextLine:
    """A turn below its `recalled_heading`: `Ann: …`, or `user: …` of a turn without a speaker.

    `answers`: the turn before one that says little by itself, of which the end is quoted:
    `Ann (to “Do you have a dog?”): Yes, two.`
    """
    who = name_of(turn.speaker) or turn.role
    if turn.speaker and turn.role != "user":
        who = f"{turn.role} {who}"
    quoted = "" if answers is None else f" (to “{_end_of(answers.content)}”)"
    return ContextLine(
        head=f"{who}{quoted}: ",
        # An empty line would end what the echo guard takes for memory's, and tell nothing.
        body=_EMPTY_LINES.sub("\n", as_data(turn.content)),
        role=turn.role,
        speaker=name_of(turn.speaker) or None,
    )


def _end_of(text: str) -> str:
    line = one_line(text)
    return line if len(line) <= _QUOTED_CHARS else f"…{line[-_QUOTED_CHARS:].split(' ', 1)[-1]}"


def summary_line(item: SummaryItem) -> ContextLine:
    """One line of a summary, with the turns that it is from: `12-15: Ann takes the job.`

    Its kind and who took part are left to the text: in so short a summary labels would cost a third of the room.
    """
    turns = str(item.first_seq) if item.first_seq >= item.last_seq else f"{item.first_seq}-{item.last_seq}"
    return ContextLine(body=one_line(f"{turns}: {item.text}"))


def fact_leaves(
    facts: Mapping[str, Any], path: tuple[str, ...] = ()
) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Every scalar or list of a facts document with its path, in the document's order."""
    for key, value in facts.items():
        if isinstance(value, dict):
            yield from fact_leaves(value, (*path, key))
        else:
            yield (*path, key), value
