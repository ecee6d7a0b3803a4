"""Scores, held to cases worked out by hand, and the intervals around them."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.scoring import Result, by_type, differences, estimate, score, summary
from tests.unit.benchmarks.sets import answers, corpus, gold


def scored(found: list[str], wanted: list[str], turns: int = 60) -> Result:
    """One question whose gold turns are `wanted`, answered by `found`."""
    of = corpus(turns, questions=1)
    return score("set", of, answers({"q0": found}), gold({"q0": wanted}, of))[0]


# --- turns and sessions --------------------------------------------------------------------------------------
def test_turn_recall_is_the_share_of_gold_among_the_first_k() -> None:
    """Gold at ranks 2, 6 and 21, a fourth not found: one of four in 5, two in 10 and 20, three in 50."""
    found = [f"t{number}" for number in range(30)]
    result = scored(found, ["t1", "t5", "t20", "t55"])
    assert result.gold_turns == {"t1": 2, "t20": 21, "t5": 6, "t55": None}
    figures = result.figures
    assert [figures[f"recall@{k}"] for k in (5, 10, 20, 50)] == [0.25, 0.5, 0.5, 0.75]


def test_a_session_stands_at_its_best_turn() -> None:
    """t9 and t8 are both of s4: the first five sessions are s4, s0, s1, s2, s3, and s5 is sixth."""
    found = ["t9", "t8", "t0", "t2", "t4", "t6", "t10"]
    result = scored(found, ["t7", "t11"])
    assert (result.figures["session_any@5"], result.figures["session_all@5"]) == (1.0, 0.0)


def test_every_question_is_to_be_answered_once() -> None:
    of = corpus(questions=2)
    evidence = gold({"q0": ["t1"], "q1": ["t2"]}, of)
    with pytest.raises(ValueError, match="2 questions, and 1 answers"):
        score("set", of, answers({"q0": ["t1"]}), evidence)
    with pytest.raises(ValueError, match="2 questions, and 2 answers"):
        score("set", of, [*answers({"q0": ["t1"]})] * 2, evidence)


# --- estimates -----------------------------------------------------------------------------------------------

SHARES = st.lists(st.floats(0, 1), min_size=1, max_size=60)


@given(SHARES)
def test_an_interval_holds_its_mean(values: list[float]) -> None:
    found = estimate(values)
    assert found.low <= found.mean <= found.high
    assert found.mean == pytest.approx(np.mean(values))
    assert min(values) - 1e-9 <= found.low
    assert found.high <= max(values) + 1e-9
    assert found.count == len(values)


def test_means_are_over_the_questions_that_have_the_figure_and_by_type() -> None:
    of = corpus(questions=3)
    evidence = gold({"q0": ["t1"], "q1": ["t1"], "q2": ["t1"]}, of)
    results = score("set", of, answers({"q0": ["t1"], "q1": ["t2"], "q2": ["t3"]}), evidence)
    assert summary(results)["recall@5"].mean == pytest.approx(1 / 3)
    found = {kind: summary(its)["recall@5"].mean for kind, its in by_type(results).items()}
    assert found == {"a": 0.5, "b": 0.0}


# --- differences ---------------------------------------------------------------------------------------------
def run(recalls: list[float], set_name: str = "set") -> list[Result]:
    return [
        Result(
            set=set_name,
            corpus="c1",
            question=f"q{number}",
            type="a",
            gold_turns={},
            figures={"recall@5": recall},
        )
        for number, recall in enumerate(recalls)
    ]


def test_a_difference_is_paired_question_by_question() -> None:
    """Questions differ much, the systems by the same tenth on each: the difference is certain, though the means aren't."""
    hard_and_easy = [0.0, 0.3, 0.6, 0.9] * 10
    found = differences(run(hard_and_easy), run([recall + 0.1 for recall in hard_and_easy]))["recall@5"]
    assert found.mean == pytest.approx(0.1)
    assert found.low == pytest.approx(0.1)
    assert found.high == pytest.approx(0.1)
    assert estimate(hard_and_easy).high - estimate(hard_and_easy).low > 0.1
