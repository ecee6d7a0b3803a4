"""Items of a context as lines of a prompt.

What was remembered is data and cannot close its own delimiters.
"""

from __future__ import annotations

import json
from datetime import timedelta
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import regex

from memory_agent.context.budget import largest
from memory_agent.digest.fold import GAP as GAP
from memory_agent.domain import ROLES, ContextLine
from memory_agent.lazily import kept_by_text, lazily
from memory_agent.text.corrections import tells_when
from memory_agent.text.inert import MONTHS, delimiters, inert, inert_line, look_of
from memory_agent.text.terms import as_letters
from memory_agent.text.times import told_from

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from datetime import date

    from memory_agent.domain import SummaryItem, Turn
    from memory_agent.text.time_spans import TimeSpan

_OURS: Final = delimiters("memory_", heads=True)
LINES_KEPT: Final = 16_384
LINE_CHARS_KEPT: Final = 200
"""A longer line of a fact is made each time: with its words one of 200 letters takes 8 KB, of as many Chinese characters 18."""
QUOTED_LETTERS: Final = 50
"""Of Chinese 25 characters; see `as_letters`."""
_SAYS_ONE_THING_CHARS: Final = 60
"""A longer turn says more than what a later one replaces."""
# What ends a name in the head of a turn or before a recollection.
_ENDS_A_NAME: Final = lazily(regex.compile, r"[\[\]［］【】〔〕“”：]|:(?=\s|\Z)")
_IN_A_NAME: Final = dict(zip("[]［］【】〔〕“”：:", '()()()()"";;', strict=True))
_DASHES: Final = "-‐‑‒–—―… "
# A user may call himself "assistant".
_LIKE_A_ROLE: Final = lazily(regex.compile, rf"\W*(?:{'|'.join(ROLES)})\b")
_SINGLE_QUOTES: Final = str.maketrans("“”", "‘’")


def as_data(text: str) -> str:
    """`text` as data of a context: see `inert`. Its further lines are indented where it is shown."""
    return inert(text, _OURS)


def one_line(text: str) -> str:
    """`text` as data in one line."""
    return inert_line(text, _OURS)


@lru_cache(maxsize=256)
def name_of(speaker: str | None) -> str:
    """A speaker's name as data that cannot pass for a line's head or begin a line; empty for none.

    In one line, with round brackets and straight quotation marks, ";" for a colon that would end it, and no dash before it.
    """
    line = one_line(speaker or "").lstrip(_DASHES)
    return _ENDS_A_NAME.sub(lambda found: _IN_A_NAME[found[0]], line) if look_of(line).strip() else ""


def fact_line(path: Sequence[str], value: Any, whose: str = "") -> ContextLine:
    """One fact as a line: `- occupation: nurse`, or `- Ann, occupation: nurse` where it has to say whose it is."""
    shown = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
    name = ".".join(path)
    line = _fact_line if len(name) + len(shown) <= LINE_CHARS_KEPT else _fact_line_made
    return line(name, shown, whose)


def _fact_line_made(name: str, value: str, whose: str) -> ContextLine:
    who = f"{name_of(whose)}, " if whose else ""
    return ContextLine(body=one_line(f"- {who}{name_of(name)}: {value}"))


_fact_line: Final = lru_cache(maxsize=LINES_KEPT)(_fact_line_made)


def day_of(day: date, *, with_year: bool = True) -> str:
    """A day as prompts name it, whatever the locale: `3 May 2026`."""
    return f"{day.day} {MONTHS[day.month - 1]}" + (f" {day.year}" if with_year else "")


def span_of(span: TimeSpan) -> str:
    """A span of time as prompts name it: `7 May 2023`, `1 to 7 May 2023`, `May 2023`, `2022`, `about 2013`."""
    first, last = span.start.date(), span.end.date() - timedelta(days=1)
    months = (last.year - first.year) * 12 + last.month - first.month
    if span.precision == "about" and months:
        middle = first + (last - first) / 2
        return (
            f"about {middle.year}"
            if months > _MONTHS_TOLD
            else f"about {MONTHS[middle.month - 1]} {middle.year}"
        )
    if first == last:
        return day_of(first)
    if first.day == 1 and (last + timedelta(days=1)).day == 1:
        if not months:
            return f"{MONTHS[first.month - 1]} {first.year}"
        if first.month == 1 and months == 11:
            return str(first.year)
    same_month = (first.year, first.month) == (last.year, last.month)
    begins = str(first.day) if same_month else day_of(first, with_year=first.year != last.year)
    return f"{begins} to {day_of(last)}"


_MONTHS_TOLD: Final = 3


class Heading(NamedTuple):
    """The heading of turns that were said on one day: `[3 May 2026]`, or `[3 May]` below one of the same year.

    `note`: what else sets them apart.
    """

    day: date
    note: str = ""

    def shown(self, *, with_year: bool) -> str:
        """The heading as a line."""
        note = f", {self.note}" if self.note else ""
        return f"[{day_of(self.day, with_year=with_year)}{note}]"


def heading_of(turn: Turn, *, elsewhere: bool = False) -> Heading:
    """The heading of the day by its speaker's clock. `elsewhere`: it was said in another thread."""
    return Heading(turn.local_time.date(), "another conversation" if elsewhere else "")


def quote_line(who: str, text: str) -> ContextLine:
    """A quote below the `Heading` of its day: `Ann: …`."""
    return ContextLine(head=f"{name_of(who)}: ", body=one_line(text))


@lru_cache(maxsize=256)
def _passes_for_a_name(name: str) -> bool:
    return bool(name) and not _LIKE_A_ROLE.match(look_of(name))


def forget_names() -> None:
    """Forget the names and texts that were shown last: something was forgotten."""
    name_of.cache_clear()
    _fact_line.cache_clear()
    _passes_for_a_name.cache_clear()
    _body_of.cache_clear()


@kept_by_text(8_192)
def _body_of(said: str) -> str:
    """What was said as data, without empty lines."""
    body = as_data(said)
    if "\n" in body:
        body = "\n".join(line for line in body.split("\n") if line.strip(" \t>")) or body.strip()
    return body if body.strip(" \t>") else body.strip()


def recalled_line(
    turn: Turn,
    answers: Turn | None = None,
    replaced: Turn | None = None,
    after: Turn | None = None,
    again: tuple[int, date] | None = None,
) -> ContextLine:
    """A turn below its `heading_of`: `Ann: …`, or `user: …` of a turn without a speaker.

    `answers`: the turn that this one answers, of which the end is quoted:
    `Ann (to “Do you have a dog?”): Yes, two.` `replaced`: the turn that replaces this one, of which the day is told:
    `Ann (replaced on 12 May 2026): It's on Monday.`, of a longer one that a part of it is. `after`: an earlier turn that tells what this one is about:
    `Ann (after “We saw Dune.”): I liked it.` `again`: how often it was said, and when last:
    `Ann (30 times, last on 31 March 2026): …`.
    """
    name = name_of(turn.speaker)
    by_name = turn.role == "user" and _passes_for_a_name(name)
    who = name if by_name else f"{turn.role} {name}".rstrip()
    quoted = "" if after is None else f" (after “{_end_of(after.shown)}”)"
    quoted = quoted if answers is None else f" (to “{_end_of(answers.shown)}”)"
    part = ", in part" if len(turn.said) > _SAYS_ONE_THING_CHARS else ""
    holds = "" if replaced is None else f" (replaced on {day_of(replaced.local_time.date())}{part})"
    often = "" if again is None else f" ({again[0]} times, last on {day_of(again[1])})"
    return ContextLine(
        head=f"{who}{quoted}{often}{holds}: ",
        body=_body_of(turn.shown),
        role=turn.role,
        speaker=name or None,
    )


def with_days(text: str, turn: Turn) -> str:
    """A turn's text with the day that its "yesterday" or "last week" means behind it, for a reader may not reckon.

    `We saw Dune yesterday (7 May 2026).`
    """
    at = 0
    for words, span in told_from(turn.said, said=turn.local_time) if tells_when(turn.said) else ():
        start = text.find(words, at)
        if start >= 0:
            end = start + len(words)
            days = f" ({span_of(span)})"
            text, at = text[:end] + days + text[end:], end + len(days)
    return text


def _end_of(text: str) -> str:
    line = one_line(text).translate(_SINGLE_QUOTES)
    if as_letters(line) <= QUOTED_LETTERS:
        return line
    end = line[-QUOTED_LETTERS:]
    end = end[-largest(len(end), lambda chars: as_letters(end[-chars:]) <= QUOTED_LETTERS) :]
    return f"…{end.split(' ', 1)[-1]}"


def summary_line(item: SummaryItem) -> ContextLine:
    """One line of a summary: `Turn 12-15: Ann takes the job.` of a moment, `Ann: …` of a quote."""
    if item.said_at is not None:
        return quote_line(", ".join(item.participants), item.text)
    if item.kind == "event":
        return ContextLine(body=one_line(f"Turn {item.turns}: {item.text}"))
    mark = "- " if item.kind in ("fact", "decision") else ""
    return ContextLine(body=one_line(f"{mark}{item.text}"))


def fact_leaves(
    facts: Mapping[str, Any], path: tuple[str, ...] = ()
) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Every scalar or list of a facts document with its path, in the document's order."""
    for key, value in facts.items():
        if isinstance(value, dict):
            yield from fact_leaves(value, (*path, key))
        else:
            yield (*path, key), value
