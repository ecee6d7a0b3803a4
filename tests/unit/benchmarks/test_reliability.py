"""Reliability is told by tenths, a logistic fit finds what made the outcomes, and held-out figures hold out."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from benchmarks import confidence, reliability
from benchmarks.confidence import Case
from memory_agent.search.confidence import Grounds

SETS = ("one", "two")


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


def cases(chance: np.random.Generator) -> list[Case]:
    """Of two sets with two conversations each; evidence is what is near."""
    made: list[Case] = []
    for name in SETS:
        for number in range(200):
            nearness = chance.random(20).astype(np.float32)
            rest = np.zeros(20, dtype=np.float32)
            made += [
                Case(
                    set=name,
                    conversation=f"{name}-{number % 2}",
                    kind="own" if number % 4 else "foreign",
                    seen=seen,
                    grounds=Grounds(nearness=nearness, words=rest, lead=rest),
                    evidence=(chance.random(20) < nearness) & bool(number % 4),
                )
                for seen in (True, False)
            ]
    return made


def test_the_report_has_every_way_of_holding_out_and_is_shown_as_tables() -> None:
    report = confidence.report(cases(np.random.default_rng(2)))
    ways = report["with vectors"]
    assert ways["coefficients"]["nearness"] > 2
    assert report["by words alone"]["coefficients"]["nearness"] == 0
    for way in ("shipped", "fitted on all", "held out by conversation", "held out by set"):
        found: dict[str, Any] = ways[way]
        assert list(found) == list(SETS)
        assert found["one"]["questions"] == 150
        assert sum(count for _, _, count in found["one"]["bins"]) == 150 * 20
    # A line is no logistic curve, and the questions of others pull it down.
    assert 0 < ways["held out by set"]["one"]["error"] < 0.2
    shown = reliability.tables(report)
    assert "### held out by set" in shown
    assert "| foreign |" in shown
