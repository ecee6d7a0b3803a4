"""Labelled talks, and how many of their labels a facts document meets. Nothing but the standard library, so that peers are judged alike."""

from __future__ import annotations

import json
import re
from collections import Counter
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

HERE: Final = Path(__file__).parent
TALK: Final = HERE / "talk.jsonl"
EVERYDAY: Final = HERE / "everyday.jsonl"
RECORDS: Final = HERE / "records"
USER, ANYBODY = "user", "any"
_OTHERS: Final = ("people", "family")
_OVER: Final = re.compile(
    r"\b(?:no longer|not|no more|stopped|quit|gave up|given up|used to|former|formerly|passed away|died|dead|late)\b"
    r"|끊|그만|아님|않"
)
"""A fact that says itself that something is over doesn't claim it."""


class Line(NamedTuple):
    """A leaf of a facts document."""

    path: tuple[str, ...]
    value: str

    @property
    def text(self) -> str:
        return f"{'.'.join(self.path)}: {self.value}".replace("_", " ").casefold()


@dataclass(frozen=True, kw_only=True)
class Label:
    """A fact that must be there, or, `over` or as a must-not, must not.

    `of`: the user, anybody, or somebody else by a name or relation. Each of `says`, alternatives with a bar between, must
    occur in one line. A must-not isn't violated by a line with one of the words of `unless`, which make it right.
    """

    of: str
    says: tuple[str, ...]
    over: bool = False
    unless: str = ""

    def meets(self, line: Line, *, whose: bool = True) -> bool:
        """True if the line says this. Without `whose`, whoever it is about."""
        if whose and not self._is_about(line):
            return False
        return all(has_word(line.text, words) for words in self.says)

    def claimed_by(self, line: Line, *, whose: bool = True) -> bool:
        """True if the line says this, wrongly: as something that holds."""
        excused = _OVER.search(line.text) or (self.unless and has_word(line.text, self.unless))
        return not excused and self.meets(line, whose=whose)

    def _is_about(self, line: Line) -> bool:
        if self.of == ANYBODY:
            return True
        others = line.path[1:] if line.path[0] in _OTHERS else ()
        if self.of == USER:
            return not others
        return any(has_word(part.replace("_", " ").casefold(), self.of) for part in others)


def has_word(text: str, words: str) -> bool:
    """True if `text` holds one of the alternatives: as the beginning of a word, as a whole one where it is short."""
    return any(_pattern(word).search(text) for word in words.casefold().split("|"))


def _pattern(word: str) -> re.Pattern[str]:
    escaped = re.escape(word)
    if not word.isascii():  # Korean adds to its words at the end, and writes some together
        return re.compile(escaped)
    end = r"(?!\d)" if word[-1].isdigit() else r"(?!\w)" if len(word) < 4 else ""
    return re.compile(rf"(?<!\w){escaped}{end}")


@dataclass(frozen=True, kw_only=True)
class Said:
    """A message of somebody's talk with an assistant, and its reply."""

    who: str
    at: datetime
    text: str
    reply: str
    must: tuple[Label, ...] = ()
    must_not: tuple[Label, ...] = ()


def read_talk(file: Path = TALK) -> list[Said]:
    """The messages of a file, in order; each of `who` has a talk of their own."""
    return [_said(json.loads(line)) for line in file.read_text("utf-8").splitlines()]


def _said(row: Mapping[str, Any]) -> Said:
    labels = {
        kind: tuple(Label(**{**label, "says": tuple(label["says"])}) for label in row.get(kind, ()))
        for kind in ("must", "must_not")
    }
    at = datetime.strptime(row["at"], "%Y-%m-%d %H:%M").replace(tzinfo=UTC)
    return Said(who=row["who"], at=at, text=row["text"], reply=row["reply"], **labels)


def lines_of(document: object, path: tuple[str, ...] = ()) -> Iterator[Line]:
    """The leaves of a facts document; each element of a list is one."""
    if isinstance(document, dict):
        for key, value in document.items():
            yield from lines_of(value, (*path, str(key)))
    elif isinstance(document, list):
        for value in document:
            yield from lines_of(value, path)
    else:
        yield Line(path, str(document))


_NAMES: Final = re.compile(r"(?<=\s)[A-Z][\w-]+|\d+")
_DATE: Final = re.compile(r"\d{4}-\d\d-\d\d")


def invented(said: Iterable[Said], lines: Iterable[Line]) -> list[Line]:
    """Lines with a name or a number that no message has. Of a value's first word nobody knows whether it is a name."""
    text = " ".join(message.text for message in said).casefold()
    return [
        line
        for line in lines
        if any(name.casefold() not in text for name in _NAMES.findall(_DATE.sub("", line.value)))
    ]


@dataclass(kw_only=True)
class Score:
    """What a talk's labels find in what was noted."""

    found: list[Label] = field(default_factory=list)
    missed: list[Label] = field(default_factory=list)
    ended: list[Label] = field(default_factory=list)
    """Of those found, what had to be gone."""
    kept_out: list[Label] = field(default_factory=list)
    violated: list[tuple[Label, Line]] = field(default_factory=list)

    @property
    def musts(self) -> int:
        return len(self.found) + len(self.missed)

    @property
    def must_nots(self) -> int:
        return len(self.kept_out) + len(self.violated)

    @property
    def right(self) -> float:
        """The share of the musts that were met."""
        return len(self.found) / max(self.musts, 1)

    @property
    def wrong(self) -> float:
        """The share of the must-nots that were violated."""
        return len(self.violated) / max(self.must_nots, 1)

    def judge(self, said: Iterable[Said], lines: Sequence[Line], *, whose: bool = True) -> None:
        """Count what of one person's talk is in the lines. Without `whose`, must-nots of some person can't be judged."""
        for message in said:
            for label in message.must:
                claim = label.claimed_by if label.over else label.meets
                met = any(claim(line, whose=whose) for line in lines) != label.over
                (self.found if met else self.missed).append(label)
                if met and label.over:
                    self.ended.append(label)
            for label in message.must_not:
                if not whose and label.of != ANYBODY:
                    continue
                claims = [line for line in lines if label.claimed_by(line, whose=whose)]
                if claims:
                    self.violated.append((label, claims[0]))
                else:
                    self.kept_out.append(label)


@dataclass(kw_only=True)
class Outcome:
    """What came of a talk: facts documents by person, and the items that were left, by their reason."""

    documents: dict[str, Any]
    left: Counter[str] = field(default_factory=Counter)
    seconds: float
    score: Score


def judged(talk: Sequence[Said], documents: Mapping[str, object]) -> Score:
    """The score of everybody's final document."""
    score = Score()
    for who in dict.fromkeys(message.who for message in talk):
        score.judge((one for one in talk if one.who == who), [*lines_of(documents.get(who, {}))])
    return score
