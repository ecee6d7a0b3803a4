"""Runs are kept with every question's result, and read back for tables and comparisons."""

import json
from pathlib import Path

import pytest

from benchmarks.runs import BadRun, Run, comparison, read_run, write_runs
from benchmarks.scoring import Result, score
from tests.unit.benchmarks.sets import answers, corpus, gold


def results(found: dict[str, list[str]], set_name: str = "one") -> list[Result]:
    of = corpus(20, questions=2)
    return score(set_name, of, answers(found), gold({"q0": ["t1"], "q1": ["t2", "t9"]}, of))


GOOD = {"q0": ["t1"], "q1": ["t2", "t9"]}
POOR = {"q0": ["t1"], "q1": ["t3", "t9"]}


def test_a_run_is_read_back_as_it_was_written(tmp_path: Path) -> None:
    run = Run(
        system="ours",
        version="1.2",
        settings={"top_k_memories": 50},
        times={"one": {"ingest_s": 1.5}},
        results=results(GOOD),
    )
    write_runs(tmp_path / "a.json", [run], machine="2 cores")
    assert read_run("a.json", tmp_path) == run
    assert json.loads((tmp_path / "a.json").read_text("utf-8"))["machine"] == "2 cores"


def test_figures_are_given_by_set_with_intervals_and_without_single_questions() -> None:
    figures = Run(system="ours", results=[*results(GOOD), *results(POOR, "two")]).figures()
    assert list(figures["sets"]) == ["one", "two"]
    assert figures["sets"]["two"]["figures"]["recall@5"] == {
        "mean": 0.75,
        "low": 0.5,
        "high": 1.0,
        "count": 2,
    }
    assert set(figures["sets"]["one"]["by_type"]) == {"a", "b"}
    assert "results" not in figures


def test_one_of_several_runs_is_named_with_a_hash(tmp_path: Path) -> None:
    write_runs(
        tmp_path / "a.json", [Run(system="x", results=results(GOOD)), Run(system="y", results=results(POOR))]
    )
    assert read_run("a.json#y", tmp_path).system == "y"
    with pytest.raises(BadRun, match=r"holds 2 runs; name one, as a\.json#x"):
        read_run("a.json", tmp_path)
    with pytest.raises(BadRun, match="no run 'z'; it has x, y"):
        read_run("a.json#z", tmp_path)


def test_a_comparison_gives_the_difference_of_what_both_ran() -> None:
    ours, theirs = Run(system="ours", results=results(GOOD)), Run(system="theirs", results=results(POOR))
    assert "| all | 2 | 1.000 [1.000, 1.000] | +0.250 [+0.000, +0.500] |" in comparison(theirs, ours)
    with pytest.raises(ValueError, match="different sets: one and two"):
        comparison(ours, Run(system="theirs", results=results(POOR, "two")))
