"""Reading recall sets: conversations with questions, and apart from them what answers the questions.

A recall set is JSON lines, packed by xz or not, a corpus (one user's history, in order) a line:

    {"corpus": …, "turns": [{"id", "session", "date", "role", "text"}],
     "questions": [{"id", "text", "type", "date", "gold_turns", "gold_sessions"}]}

`Corpus` is what a system under test may see. Its evidence goes into a `Gold` of its own as the line is read, which only
`benchmarks.scoring` looks at, and only after the corpus' questions were answered.
"""

from __future__ import annotations

import itertools
import lzma
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Final

from pydantic import AfterValidator, BaseModel, ConfigDict, ValidationError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_DATE_FORMATS: Final = (  # besides ISO 8601
    "%I:%M %p on %d %B, %Y",
    "%Y/%m/%d %H:%M",
    "%d.%m.%Y, %H:%M:%S",
    "%B-%d-%Y",
)
ROLES: Final = ("user", "assistant", "system", "tool")
"""Roles that are no person's name."""


class BadRecallSet(ValueError):
    """A recall set that can't be read; the message names the file, the line and what is wrong with it."""


def read_date(text: str | None) -> datetime | None:
    """A recall set's date in UTC; None where it has none. Raises ValueError for one in no form that we know."""
    if not text:
        return None
    plain = re.sub(r"\s*\([A-Za-z]+\)", "", text)
    with suppress(ValueError):
        moment = datetime.fromisoformat(plain)
        return moment.astimezone(UTC) if moment.tzinfo else moment.replace(tzinfo=UTC)
    for form in _DATE_FORMATS:
        with suppress(ValueError):
            return datetime.strptime(plain, form).replace(tzinfo=UTC)
    raise ValueError(f"the date {text!r:.80} is in no known form; write it as 2024-05-31 13:30")


def _known_date(text: str | None) -> str | None:
    read_date(text)
    return text


_Date = Annotated[str | None, AfterValidator(_known_date)]
"""As written in the set."""


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, coerce_numbers_to_str=True)  # some sets number turns and sessions


class SetTurn(_Part):
    """One turn as a recall set has it. `role`: one of ROLES, or a speaker's name."""

    id: str
    session: str
    date: _Date = None
    role: str
    text: str

    @property
    def speaker(self) -> str | None:
        """Who speaks, if the set names the speaker."""
        return None if self.role in ROLES else self.role

    @property
    def embedded(self) -> str:
        """What a memory embeds of it: "speaker: text" where the set names the speaker, else the text alone."""
        return f"{self.speaker}: {self.text}" if self.speaker else self.text


class Question(_Part):
    """What is asked. `type`: the set's own name for its kind; `date`: when it is asked."""

    id: str
    text: str
    type: str
    date: _Date = None


class _Asked(Question):
    gold_turns: frozenset[str]
    gold_sessions: frozenset[str]


class _Record(_Part):
    corpus: str
    turns: tuple[SetTurn, ...]
    questions: tuple[_Asked, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Corpus:
    """One user's history and what is asked about it. Holds no evidence."""

    name: str
    turns: tuple[SetTurn, ...]
    questions: tuple[Question, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Evidence:
    """What answers one question: ids of turns and of sessions; either may be empty."""

    turns: frozenset[str]
    sessions: frozenset[str]


@dataclass(frozen=True, kw_only=True, slots=True)
class Gold:
    """The evidence of one corpus, by question id. For scoring only."""

    by_question: Mapping[str, Evidence]


Sets = Mapping[str, Sequence[tuple[Corpus, Gold]]]
"""Corpora and their evidence by the name of the set."""


def set_name(file: Path) -> str:
    """What a set is called in figures: its file's name up to the first dot."""
    return file.name.partition(".")[0]


def files_in(given: Sequence[Path]) -> list[Path]:
    """The files of recall sets that a command line names: itself, or all in a folder. Raises BadRecallSet."""
    if not given:
        raise BadRecallSet("name at least one FILE (a recall set), or a folder of them")
    files: list[Path] = []
    for path in given:
        inside = [path] if path.is_file() else sorted(path.glob("*.jsonl")) + sorted(path.glob("*.jsonl.xz"))
        if not inside:
            raise BadRecallSet(
                f"there is no file {str(path)!r}, nor a folder of *.jsonl or *.jsonl.xz; give a recall set"
            )
        files += inside
    names = Counter(map(set_name, files))
    if twice := [name for name, count in names.items() if count > 1]:
        raise BadRecallSet(f"two files have the name {twice[0]!r}, by which figures are kept; rename one")
    return files


def read_sets(files: Sequence[Path], limit: int | None = None) -> Sets:
    """The sets by name; of each only the first `limit` corpora, if that is given. Raises BadRecallSet naming the line."""
    return {set_name(file): list(itertools.islice(read_with_gold(file), limit)) for file in files}


def read_corpora(file: Path) -> Iterator[Corpus]:
    """The corpora of a recall set. Raises FileNotFoundError, or BadRecallSet naming the line."""
    return (corpus for corpus, _ in read_with_gold(file))


def read_with_gold(file: Path) -> Iterator[tuple[Corpus, Gold]]:
    """The corpora of a recall set, each beside its evidence. Raises FileNotFoundError, or BadRecallSet naming the line.

    Where only turns are given as evidence, their sessions are the evidence sessions.
    """
    names = set[str]()
    with lzma.open(file, "rb") if file.suffix == ".xz" else file.open("rb") as lines:
        try:
            for number, line in enumerate(lines, start=1):
                if line.strip():
                    where = f"{file}, line {number}"
                    corpus, gold = _parsed(line, where)
                    if corpus.name in names:  # both would be one user's history
                        raise BadRecallSet(
                            f"{where}: corpus {corpus.name!r} stands in an earlier line; rename one"
                        )
                    names.add(corpus.name)
                    yield corpus, gold
        except (lzma.LZMAError, EOFError) as exc:
            raise BadRecallSet(f"{file}: not a whole file packed by xz ({exc})") from exc
    if not names:
        raise BadRecallSet(f"{file}: no corpus; a recall set has one a line")


def _parsed(line: bytes, where: str) -> tuple[Corpus, Gold]:
    try:
        return _corpus(_Record.model_validate_json(line))
    except ValidationError as exc:
        first = exc.errors()[0]
        place = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in first["loc"])
        raise BadRecallSet(f"{where}: {place.lstrip('.') or 'the line'}: {first['msg']}") from exc
    except ValueError as exc:
        raise BadRecallSet(f"{where}: {exc}") from exc


def _corpus(record: _Record) -> tuple[Corpus, Gold]:
    sessions = {turn.id: turn.session for turn in record.turns}
    if len(sessions) < len(record.turns):
        raise ValueError("two turns have the same id")
    gold = {question.id: _evidence(question, sessions) for question in record.questions}
    if len(gold) < len(record.questions):
        raise ValueError("two questions have the same id")
    questions = tuple(Question(**question.model_dump()) for question in record.questions)
    return Corpus(name=record.corpus, turns=record.turns, questions=questions), Gold(by_question=gold)


def _evidence(question: _Asked, sessions: Mapping[str, str]) -> Evidence:
    unknown = {*question.gold_turns - set(sessions), *question.gold_sessions - set(sessions.values())}
    if unknown:
        raise ValueError(f"question {question.id!r} names what the corpus does not have: {sorted(unknown)}")
    if not question.text.strip():
        raise ValueError(f"question {question.id!r} has no text")
    if not question.gold_turns | question.gold_sessions:
        raise ValueError(f"question {question.id!r} has no evidence; leave out one that nothing answers")
    derived = frozenset(sessions[turn] for turn in question.gold_turns)
    return Evidence(turns=question.gold_turns, sessions=question.gold_sessions or derived)
