"""Recall sets made up for tests."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.recall_sets import Corpus, Evidence, Gold, Question, SetTurn
from benchmarks.scoring import Answer


def turn(number: int, *, per_session: int = 2, text: str | None = None) -> SetTurn:
    """Turn `t<number>` of session `s<number // per_session>`."""
    return SetTurn(
        id=f"t{number}",
        session=f"s{number // per_session}",
        date="2023/05/08 (Mon) 13:56",
        role="Ann" if number % 2 else "Bob",
        text=text or f"text {number}",
    )


def corpus(turns: int = 10, questions: int = 3, *, name: str = "c1") -> Corpus:
    """So many turns, two a session, and so many questions of the types a and b."""
    return Corpus(
        name=name,
        turns=tuple(turn(number) for number in range(turns)),
        questions=tuple(
            Question(id=f"q{number}", text=f"question {number}?", type="ab"[number % 2], date=None)
            for number in range(questions)
        ),
    )


def gold(by_question: Mapping[str, Sequence[str]], of: Corpus) -> Gold:
    """Evidence turns by question, and their sessions."""
    session_of = {turn.id: turn.session for turn in of.turns}
    return Gold(
        by_question={
            question: Evidence(turns=frozenset(turns), sessions=frozenset(session_of[turn] for turn in turns))
            for question, turns in by_question.items()
        }
    )


def answers(by_question: Mapping[str, Sequence[str]]) -> list[Answer]:
    return [Answer(question=question, turns=tuple(turns)) for question, turns in by_question.items()]


def record(**changes: Any) -> dict[str, Any]:
    """A corpus as a line of a recall set has it, two turns and a question."""
    turns = [
        {"id": "t1", "session": "s1", "date": "2023/05/08 (Mon) 13:56", "role": "Ann", "text": "I hike."},
        {"id": "t2", "session": "s2", "date": None, "role": "user", "text": "Nice."},
    ]
    question = {
        "id": "q1",
        "text": "Who hikes?",
        "type": "4",
        "date": None,
        "gold_turns": ["t1"],
        "gold_sessions": [],
    }
    return {"corpus": "c1", "turns": turns, "questions": [question], **changes}


def written(file: Path, *records: Any) -> Path:
    """`file`, with each record on a line; a string stands as it is."""
    lines = [one if isinstance(one, str) else json.dumps(one) for one in records]
    file.write_text("\n".join(lines) + "\n", "utf-8")
    return file
