"""Reliability is told by tenths, a logistic fit finds what made the outcomes, and held-out figures hold out."""

import numpy as np
import pytest

from benchmarks import reliability


def test_a_fit_finds_the_coefficients_that_made_the_outcomes() -> None:
    chance = np.random.default_rng(1)
    columns = np.stack([np.ones(40_000), chance.normal(size=40_000)], axis=1)
    truth = np.array([-1.0, 2.0])
    outcomes = (chance.random(40_000) < 1 / (1 + np.exp(-columns @ truth))).astype(float)
    fitted = reliability.logistic(columns, outcomes, np.ones(40_000))
    np.testing.assert_allclose(fitted, truth, atol=0.08)


def test_reliability_is_told_by_tenths_and_thresholds() -> None:
    answers = [(np.array([0.95, 0.15]), np.array([1.0, 0.0])), (np.array([0.95, 0.05]), np.array([0.0, 1.0]))]
    found = reliability.figures(answers)
    assert found["bins"][9] == [0.95, 0.5, 2]
    assert found["bins"][5] == [None, None, 0]
    assert found["error"] == pytest.approx((2 * 0.45 + 0.15 + 0.95) / 4)
    assert found["brier"] == pytest.approx((0.05**2 + 0.15**2 + 0.95**2 + 0.95**2) / 4, abs=1e-4)
    assert found["thresholds"]["0.5"] == {"precision": 0.5, "recall": 0.5, "results": 1.0}
    assert reliability.best_at_least(answers)["0.5"] == 1.0
