"""Recall sets are read with the evidence apart, and what is wrong with one is said by its line."""

import dataclasses
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from benchmarks.recall_sets import BadRecallSet, Evidence, Gold, read_corpora, read_date, read_with_gold
from tests.unit.benchmarks.sets import record, written


def reachable(thing: Any) -> Iterator[Any]:
    """`thing` and all that can be got from it by fields, items and attributes."""
    yield thing
    parts: list[Any] = []
    if dataclasses.is_dataclass(thing) and not isinstance(thing, type):
        parts += [getattr(thing, field.name) for field in dataclasses.fields(thing)]
        parts += [field.name for field in dataclasses.fields(thing)]
    if isinstance(thing, Mapping):
        parts += [*thing.keys(), *thing.values()]
    elif isinstance(thing, list | tuple | set | frozenset):
        parts += thing
    parts += vars(thing).values() if hasattr(thing, "__dict__") and not isinstance(thing, type) else ()
    for part in parts:
        yield from reachable(part)


def test_a_corpus_holds_no_evidence_anywhere(tmp_path: Path) -> None:
    """Neither an object that holds some, nor a field named after it, can be reached from what a system gets."""
    ((corpus, gold),) = read_with_gold(written(tmp_path / "set.jsonl", record()))
    things = list(reachable(corpus))
    assert not any(isinstance(thing, Gold | Evidence) for thing in things)
    texts = {thing for thing in things if isinstance(thing, str)}
    assert not any("gold" in text for text in texts)
    assert any(isinstance(thing, Evidence) for thing in reachable(gold)), "the walk would find it"


def test_sessions_of_evidence_are_given_or_those_of_its_turns(tmp_path: Path) -> None:
    given = record(corpus="c2")
    given["questions"][0] |= {"gold_turns": ["t1"], "gold_sessions": ["s2"]}
    file = written(tmp_path / "set.jsonl", record(), given)
    derived, as_given = (gold.by_question["q1"] for _, gold in read_with_gold(file))
    assert (derived.turns, derived.sessions) == (frozenset({"t1"}), frozenset({"s1"}))
    assert as_given.sessions == frozenset({"s2"})


def without(name: str) -> dict[str, Any]:
    return {key: value for key, value in record().items() if key != name}


def asking(**changes: Any) -> dict[str, Any]:
    return record(questions=[{**record()["questions"][0], **changes}])


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("{not json", "Invalid JSON"),
        (without("turns"), "turns: Field required"),
        (record(turns=[{"id": "t1", "session": "s1", "role": "user", "text": []}]), "turns[0].text: "),
        (record(turns=[*record()["turns"], record()["turns"][0]]), "two turns have the same id"),
        (record(questions=[*record()["questions"] * 2]), "two questions have the same id"),
        (asking(gold_turns=["t9"], gold_sessions=["s9"]), "what the corpus does not have: ['s9', 't9']"),
        (asking(gold_turns=[]), "question 'q1' has no evidence; leave out"),
        (asking(text=" "), "question 'q1' has no text"),
        (asking(date="some day"), "in no known form; write it as 2024-05-31 13:30"),
        (record(), "corpus 'c1' stands in an earlier line; rename one"),
    ],
    ids=lambda value: value[:30] if isinstance(value, str) else "",
)
def test_a_malformed_line_is_named(tmp_path: Path, line: Any, said: str) -> None:
    file = written(tmp_path / "set.jsonl", record(), "", line)
    with pytest.raises(BadRecallSet, match=r"set\.jsonl, line 3: ") as caught:
        list(read_corpora(file))
    assert said in str(caught.value)


@pytest.mark.parametrize(
    ("text", "moment"),
    [
        ("1:56 pm on 8 May, 2023", datetime(2023, 5, 8, 13, 56, tzinfo=UTC)),
        ("2023/07/12 (Wed) 10:14", datetime(2023, 7, 12, 10, 14, tzinfo=UTC)),
        ("2023-07-12", datetime(2023, 7, 12, tzinfo=UTC)),
        ("18.01.2024, 08:30:33", datetime(2024, 1, 18, 8, 30, 33, tzinfo=UTC)),
        ("March-15-2024", datetime(2024, 3, 15, tzinfo=UTC)),
        ("2024-05-31T13:30:00+02:00", datetime(2024, 5, 31, 11, 30, tzinfo=UTC)),
        (None, None),
    ],
)
def test_dates_of_all_sets_are_read(text: str | None, moment: datetime | None) -> None:
    assert read_date(text) == moment
