"""The report of misses shows what was found instead, and counts why."""

from __future__ import annotations

import pytest

from benchmarks.misses import CLASSES, missed_turns, misses_report
from benchmarks.recall_sets import Corpus, Question
from benchmarks.runs import Run
from benchmarks.scoring import Result, score
from tests.unit.benchmarks.sets import answers, gold, turn

HIKE = "I went hiking."
LONG = "Long ago, " * 20


def made() -> tuple[Corpus, list[Result]]:
    """Four questions about hiking: evidence found first; at 11, in other words; beyond 50, in the same; one of each."""
    texts = {30: "We walked.", 57: HIKE, 58: "Nothing of the kind.", 5: LONG}
    of = Corpus(
        name="c1",
        turns=tuple(turn(number, text=texts.get(number)) for number in range(60)),
        questions=tuple(
            Question(id=f"q{number}", text="Who hikes?", type="ab"[number // 2], date=None)
            for number in range(4)
        ),
    )
    found = [f"t{number}" for number in range(50)]
    at_eleven = [*found[:10], "t30", *found[10:30]]
    wanted = {"q0": ["t1"], "q1": ["t30"], "q2": ["t57"], "q3": ["t1", "t58"]}
    results = score(
        "set", of, answers({"q0": found, "q1": at_eleven, "q2": found, "q3": found}), gold(wanted, of)
    )
    return of, results


def test_missed_turns_are_told_apart_by_rank_and_by_words() -> None:
    of, results = made()
    assert [(one.type, one.kind) for one in missed_turns(results, {("set", "c1"): of})] == [
        ("a", CLASSES[1]),
        ("b", CLASSES[2]),
        ("b", CLASSES[3]),
    ]


def test_a_report_counts_and_shows_the_worst_first() -> None:
    of, results = made()
    report = misses_report(Run(system="ours", results=results), {("set", "c1"): of}, 2)
    assert "3 of 4 questions have evidence beyond the first 10: 3 of 5 gold turns." in report
    assert "| type b | 0 | 0 | 1 | 1 |" in report
    assert "| all | 0 | 1 | 1 | 1 |" in report
    shown = [line for line in report.splitlines() if line.startswith("q")]
    assert shown == ["q2, type b", "q1, type a"], "the third is beyond the two asked for"
    assert "- gold t57, not among 50: Ann: I went hiking." in report
    assert "- gold t30, rank 11: Bob: We walked." in report
    assert "- rank 1, t0: Bob: text 0" in report


def test_a_run_on_other_files_is_refused() -> None:
    _, results = made()
    with pytest.raises(ValueError, match="corpora that the given files don't have, such as"):
        misses_report(Run(system="ours", results=results), {}, 1)
