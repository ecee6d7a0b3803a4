"""What benchmarks of speed remember and ask: made-up sentences, or conversations between real people at any length.

Made-up sentences share a few dozen words, so they say little of what real talk costs: they make few terms and many topics. Real
conversations come from recall sets (`benchmarks.recall_sets`), which are not part of this repository. Beyond their end they come
again with other names, so that no turn and no question is known from the round before.
"""

from __future__ import annotations

import random
import re
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Final, cast

from benchmarks.recall_sets import BadRecallSet, files_in, read_corpora, set_name

if TYPE_CHECKING:
    from argparse import ArgumentParser
    from collections.abc import Callable, Sequence

    from memory_agent import TurnInput
    from memory_agent.domain import GivenRole

_PARTS: Final = """\
my sister|my boss|our neighbour|the doctor|a friend from school|my daughter|the landlord|uncle Tom
bought|painted|lost|recommended|cooked|repaired|forgot|wrote about|dreamed of|complained about
an old bicycle|the kitchen|a train ticket|a book on whales|mushroom soup|the garden fence|a birthday|the new office|a week in \
Norway|the piano|two kittens|a broken phone|the marathon|a job in Lyon
yesterday|last summer|on Monday|two years ago|before breakfast|in March|after the storm
Mara|Joon|Ines|Tomas|Ayse|Peter|Lin|Rosa|Viktor|Amara|Bruno|Chloe|Dmitri|Elif|Farid|Greta|Hana"""
WHO, DID, WHAT, WHEN, NAMES = (line.split("|") for line in _PARTS.splitlines())
STARTED: Final = datetime(2025, 1, 1, tzinfo=UTC)
SITTING: Final = 25
"""Turns said in one go, a minute apart; so many hours pass until the next ones."""
PAUSE: Final = timedelta(hours=5)
ASKED: Final = 10**9
"""From this number on, made-up sentences are for questions."""
FRESH: Final = 10**7
"""From this number on, turns that are remembered while measuring: none of them is of a history."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Said:
    """One message. `role` is user or assistant; `speaker`: who says it, where people talk with each other."""

    role: GivenRole
    text: str
    speaker: str | None = None

    @property
    def embedded(self) -> str:
        """What a memory embeds of it: the text behind the speaker's name."""
        return f"{self.speaker}: {self.text}" if self.speaker else self.text

    def at(self, number: int) -> TurnInput:
        """It as the history's turn of this number."""
        sitting, minute = divmod(number, SITTING)
        return replace(self.now(), timestamp=STARTED + sitting * PAUSE + timedelta(minutes=minute))

    def now(self) -> TurnInput:
        """It as a turn that is said when it is remembered."""
        from memory_agent import TurnInput

        return TurnInput(role=self.role, content=self.text, speaker=self.speaker)


@dataclass(frozen=True, slots=True)
class Texts:
    """Turns and questions without end, by number: the same for the same number, another for every other."""

    name: str
    turn: Callable[[int], Said]
    question: Callable[[int], str]


# --- made up -------------------------------------------------------------------------------------------------
def sentence(number: int) -> str:
    """The same sentence for the same number, a different one (nearly always) for another."""
    pick = random.Random(number)
    parts = (pick.choice(WHO), pick.choice(DID), pick.choice(WHAT), pick.choice(WHEN))
    return f"{parts[0]} {parts[1]} {parts[2]} {parts[3]}, note {number}"


def made_up() -> Texts:
    """A user who says such sentences."""
    return Texts(
        "made up",
        lambda number: Said(role="user", text=sentence(number)),
        lambda number: f"what do you know of {sentence(ASKED + number)}?",
    )


# --- conversations -------------------------------------------------------------------------------------------
def conversations(files: Sequence[Path]) -> Texts:
    """The conversations of recall sets, one after the other. Raises BadRecallSet for what can't be read or has no turns."""
    said: list[tuple[Said, _Renamed]] = []
    asked: list[tuple[str, _Renamed]] = []
    found = files_in(files)
    for file in found:
        for corpus in read_corpora(file):
            renamed = _Renamed({turn.speaker for turn in corpus.turns if turn.speaker})
            for turn in corpus.turns:
                if turn.text.strip():
                    role = cast("GivenRole", "user" if turn.speaker else turn.role)
                    said.append((Said(role=role, text=turn.text, speaker=turn.speaker), renamed))
            asked += [(question.text, renamed) for question in corpus.questions if question.text.strip()]
    names = ", ".join(map(set_name, found))
    if not said or not asked:
        raise BadRecallSet(
            f"{names}: no {'questions' if said else 'turns'} in there; give a recall set with both"
        )

    def said_as(number: int) -> Said:
        again, index = divmod(number, len(said))
        one, renamed = said[index]
        if not again:
            return one
        speaker = one.speaker and renamed.one(one.speaker, again)
        # A text without a name would come again as it was, be embedded no more and stand behind the first one in searches.
        text = f"{renamed.all(one.text, again)} ({_name(again)} {again})"
        return Said(role=one.role, text=text, speaker=speaker)

    def question(number: int) -> str:
        again, index = divmod(number, len(asked))
        text, renamed = asked[index]
        return f"{_name(again)} {again}: {renamed.all(text, again)}" if again else text

    return Texts(names, said_as, question)


def _name(number: int) -> str:
    return NAMES[number % len(NAMES)]


class _Renamed:
    """A conversation whose people have other names each time that it comes again."""

    def __init__(self, people: set[str]) -> None:
        first = sorted({person.split()[0] for person in people})
        self._place = {name: place for place, name in enumerate(first)}
        self._any = re.compile(rf"\b({'|'.join(map(re.escape, first))})\b") if first else None

    def one(self, person: str, again: int) -> str:
        """The person's name in this round."""
        return _name(again + self._place[person.split()[0]])

    def all(self, text: str, again: int) -> str:
        """The text with the names of this round."""
        if self._any is None:
            return text
        return self._any.sub(lambda found: _name(again + self._place[found[1]]), text)


# --- options -------------------------------------------------------------------------------------------------
def text_option(parser: ArgumentParser) -> None:
    """Add `--text FILE …`."""
    about = "recall sets, or folders of them, that are remembered and asked instead of made-up texts, again with other names if too few"
    parser.add_argument("--text", type=Path, nargs="+", metavar="FILE", help=about)


def texts_of(parser: ArgumentParser, files: Sequence[Path] | None) -> Texts:
    """The conversations of the files, else made-up sentences; ends the program with a line about a bad file."""
    if not files:
        return made_up()
    try:
        return conversations(files)
    except BadRecallSet as exc:
        parser.error(str(exc))
