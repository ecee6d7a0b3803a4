"""The places of the founding documents, the tests that show them, and how many of each there are.

`places/s2.txt` lists what document S2 says, in its order and its own words: a code block, a table's row, a default, a
formula, an example. Each is named by a test of `test_s2_*.py`; where our call differs, by a row of docs/documents.md too.
"""

from __future__ import annotations

import difflib
import importlib
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest

FOLDER = Path(__file__).parent
PAGE = FOLDER.parents[1] / "docs" / "documents.md"
DOCUMENTS = {
    "S0": "Conversation Memory System",
    "S1": "Conversation Memory System Design Document",
    "S2": "Memory System - Persistent Conversation Context",
    "S3": "Memory System Documentation",
    "S4": "ConversationMemory Implementation (Task 3.3)",
}


@dataclass(frozen=True)
class Place:
    """One thing that a document says: `words` are its own, enough to find the line below the heading `section`."""

    document: str
    section: str
    words: str


@dataclass(frozen=True)
class Said:
    """That a test shows a place. `better`: the row of docs/documents.md that tells where our call differs."""

    test: str
    document: str
    words: str
    better: str | None


@dataclass(frozen=True)
class Row:
    """A row of docs/documents.md, where our call differs from a document's."""

    name: str
    document: str
    section: str


def says(document: str, *words: str, better: str | None = None) -> pytest.MarkDecorator:
    """Mark a test, or a parameter of one, as what shows these places of a document.

    `words`: a part of a place's line in `places/`, enough that no other line of the document has it.
    `better`: the row of docs/documents.md that tells what we do instead, and why; None if it works as written.
    """
    return pytest.mark.says(document, *words, better=better)


@cache
def places(document: str) -> tuple[Place, ...]:
    """All places of a document, in its order."""
    found, section = [], ""
    for line in (FOLDER / "places" / f"{document.lower()}.txt").read_text("utf-8").splitlines():
        if line.startswith("#"):
            section = line.lstrip("# ")
        elif line:
            found.append(Place(document, section, line.partition(": ")[2]))
    return tuple(found)


def place_of(said: Said) -> Place:
    """The place that a test names. Raises LookupError if none is meant, or several are."""
    all_of_it = places(said.document)
    found = [place for place in all_of_it if place.words == said.words] or [
        place for place in all_of_it if said.words in place.words
    ]
    if len(found) == 1:
        return found[0]
    alike = [p.words for p in found] or difflib.get_close_matches(
        said.words, [p.words for p in all_of_it], n=3, cutoff=0.3
    )
    raise LookupError(
        f"{said.test} names {len(found)} places of {said.document} by {said.words!r}; did it mean {alike}?"
    )


@cache
def shown() -> tuple[Said, ...]:
    """What all tests of this folder name, whichever of them run."""
    return tuple(one for each in functions().values() for function in each for one in _said_by(function))


@cache
def functions() -> dict[str, tuple[object, ...]]:
    """The test functions, by module."""
    return {
        file.stem: tuple(
            value
            for name, value in vars(importlib.import_module(f"tests.documents.{file.stem}")).items()
            if name.startswith("test_")
        )
        for file in sorted(FOLDER.glob("test_s[0-9]_*.py"))
    }


def marks_of(function: object) -> Iterator[pytest.Mark]:
    """The marks `says` of a test and of its parameters."""
    for mark in getattr(function, "pytestmark", ()):
        if mark.name == "says":
            yield mark
        elif mark.name == "parametrize":
            for values in mark.args[1]:
                yield from (one for one in getattr(values, "marks", ()) if one.name == "says")


def _said_by(function: object) -> Iterator[Said]:
    for mark in marks_of(function):
        document, *words = mark.args
        for one in words:
            yield Said(getattr(function, "__name__", ""), document, one, mark.kwargs["better"])


@cache
def rows() -> tuple[Row, ...]:
    """The rows of docs/documents.md: their name stands in backquotes in the first cell, the heading in the second."""
    found, document = [], ""
    for line in PAGE.read_text("utf-8").splitlines():
        if line.startswith("## "):
            document = line[3:5]
        elif match := re.match(r"\| `([a-z0-9-]+)` \| ([^|]+) \|", line):
            found.append(Row(match[1], document, match[2].strip()))
    return tuple(found)


def missing(document: str) -> list[Place]:
    """Places that no test names."""
    named = {place_of(said) for said in shown() if said.document == document}
    return [place for place in places(document) if place not in named]


def count() -> str:
    """How many places each document has, as a table: shown as written, better (with a row), missing."""
    table = ["| document | places | as written | better | missing |", "|---|---|---|---|---|"]
    for document, title in DOCUMENTS.items():
        better = {place_of(s) for s in shown() if s.document == document and s.better is not None}
        of_it, gone = len(places(document)), len(missing(document))
        table.append(
            f"| {document}, {title} | {of_it} | {of_it - gone - len(better)} | {len(better)} | {gone or 'none'} |"
        )
    return "\n".join(table)
