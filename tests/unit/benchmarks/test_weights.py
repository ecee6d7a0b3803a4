"""benchmarks.weights: weights follow what tells evidence from the rest, and are scored where they were not fitted."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.weights import FOLDS, Asked, fit, held_out, recall


def questions(*, seed: int, telling: bool) -> list[Asked]:
    """Of 40 turns each; the first signal is high for the evidence if it is `telling`, the second says nothing."""
    random = np.random.default_rng(seed)
    asked = []
    for number in range(60):
        signals = random.random((40, 2), dtype=np.float32)
        gold = int(random.integers(40))
        if telling:
            signals[gold, 0] = 1.0 + random.random()
        asked.append(Asked(set="made up", fold=number % FOLDS, signals=signals, gold=(gold,)))
    return asked


@pytest.mark.nightly  # it takes ten seconds
def test_a_signal_that_tells_evidence_gets_the_weight() -> None:
    """And one that says nothing hardly any."""
    telling, silent = fit(questions(seed=1, telling=True))
    assert telling > 3
    assert abs(silent) < telling / 5


@pytest.mark.nightly
def test_what_is_held_out_is_found_only_if_a_signal_tells_it() -> None:
    """Chance is 5 of 40."""
    assert held_out(questions(seed=2, telling=True))["made up"]["recall@5"] == 1.0
    assert held_out(questions(seed=3, telling=False))["made up"]["recall@5"] < 0.35


def test_recall_is_the_share_of_the_evidence_among_the_first() -> None:
    """By hand: two of ten turns, ranked first and seventh."""
    signals = np.arange(10, dtype=np.float32)[::-1, None].copy()
    found = recall([Asked(set="", fold=0, signals=signals, gold=(0, 6))], np.array([1.0], dtype=np.float32))
    assert found == {"recall@5": [0.5], "recall@10": [1.0], "recall@20": [1.0], "recall@50": [1.0]}
