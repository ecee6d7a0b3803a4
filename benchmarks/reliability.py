"""How far probabilities can be trusted: reliability by tenths, calibration error, Brier score; and a logistic fit. All pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy.typing import NDArray

from memory_agent.search.confidence import confidence

if TYPE_CHECKING:
    from collections.abc import Mapping

    from memory_agent.search.confidence import Grounds

Floats = NDArray[np.float64]
Pairs = Sequence[tuple[Floats, Floats]]

BINS: Final = 10
THRESHOLDS: Final = (0.1, 0.2, 0.3, 0.5)
_PENALTY: Final = 1e-6
_STEPS: Final = 50


def logistic(columns: Floats, outcomes: Floats, weights: Floats) -> Floats:
    """The coefficients, shape (columns,), under which `outcomes` (0 or 1) are most likely, by Newton's method.

    `columns`: shape (n, columns); `weights`: how much each of the n counts.
    """
    share = weights / weights.sum()
    fitted = np.zeros(columns.shape[1])
    for _ in range(_STEPS):
        probable = 1.0 / (1.0 + np.exp(-(columns @ fitted)))
        slope = columns.T @ (share * (outcomes - probable)) - _PENALTY * fitted
        curve = (columns * (share * probable * (1.0 - probable))[:, None]).T @ columns
        step = np.linalg.solve(curve + _PENALTY * np.eye(len(fitted)), slope)
        fitted = fitted + step
        if np.abs(step).max() < 1e-9:
            break
    return fitted


def shipped(grounds: Grounds) -> Floats:
    """The confidence as the product gives it."""
    return confidence(grounds).astype(np.float64)


def figures(answers: Pairs) -> dict[str, Any]:
    """Of the confidence in each result of each question, and whether (1 or 0) it is evidence.

    `bins`: mean confidence, share of evidence and count by tenths of the confidence; `error`: the expected calibration
    error, the mean distance of the two over all results; `brier`: the mean square of confidence less outcome;
    `thresholds`: of what is at least that, the share that is evidence, and the share of the evidence that it holds.
    """
    given = np.concatenate([confident for confident, _ in answers])
    is_evidence = np.concatenate([outcome for _, outcome in answers])
    place = np.minimum((given * BINS).astype(int), BINS - 1)
    bins: list[list[float | None]] = []
    error = 0.0
    for number in range(BINS):
        inside = place == number
        if inside.any():
            mean, share = float(given[inside].mean()), float(is_evidence[inside].mean())
            error += float(inside.mean()) * abs(mean - share)
            bins.append([round(mean, 3), round(share, 3), int(inside.sum())])
        else:
            bins.append([None, None, 0])
    thresholds = {}
    for least in THRESHOLDS:
        above = given >= least
        thresholds[str(least)] = {
            "precision": round(float(is_evidence[above].mean()), 3) if above.any() else None,
            "recall": round(float(is_evidence[above].sum() / max(is_evidence.sum(), 1.0)), 3),
            "results": round(float(above.sum()) / len(answers), 2),
        }
    return {
        "questions": len(answers),
        "results": len(given),
        "error": round(error, 4),
        "brier": round(float(((given - is_evidence) ** 2).mean()), 4),
        "bins": bins,
        "thresholds": thresholds,
    }


def best_at_least(answers: Pairs) -> dict[str, float]:
    """The share of questions whose most confident result reaches each threshold."""
    best = np.array([confident.max(initial=0.0) for confident, _ in answers])
    return {str(least): round(float((best >= least).mean()), 3) for least in THRESHOLDS}


def tables(report: Mapping[str, Any]) -> str:
    """The report of `benchmarks.confidence` as tables in Markdown."""
    lines: list[str] = []
    for sight in ("with vectors", "by words alone"):
        ways = dict(report[sight])
        lines += [f"## {sight}", f"coefficients: {ways.pop('coefficients')}"]
        for way, by_set in ways.items():
            lines += ["", f"### {way}", *_reliability(by_set), "", *_thresholds(by_set), "", *_best(by_set)]
        lines.append("")
    return "\n".join(lines)


def _reliability(by_set: Mapping[str, Any]) -> list[str]:
    lines = [f"| confidence | {' | '.join(by_set)} |", "|---" * (len(by_set) + 1) + "|"]
    for number in range(BINS):
        cells = (_bin(found["bins"][number]) for found in by_set.values())
        lines.append(f"| {number / BINS:.1f} to {(number + 1) / BINS:.1f} | {' | '.join(cells)} |")
    for name in ("error", "brier"):
        cells = (f"{found[name]:.3f}" for found in by_set.values())
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return lines


def _bin(found: Sequence[Any]) -> str:
    mean, share, count = found
    return f"{mean:.2f} → {share:.2f} ({count:,})" if count else "–"


def _thresholds(by_set: Mapping[str, Any]) -> list[str]:
    lines = [f"| at least | {' | '.join(by_set)} |", "|---" * (len(by_set) + 1) + "|"]
    for least in map(str, THRESHOLDS):
        cells = (
            f"{of['precision'] if of['precision'] is not None else '–'} / {of['recall']} / {of['results']}"
            for of in (found["thresholds"][least] for found in by_set.values())
        )
        lines.append(f"| {least} | {' | '.join(cells)} |")
    return lines


def _best(by_set: Mapping[str, Any]) -> list[str]:
    kinds = ("own", "foreign", "small", "small_without")
    lines = [f"| best reaches {', '.join(map(str, THRESHOLDS))} | {' | '.join(by_set)} |"]
    lines.append("|---" * (len(by_set) + 1) + "|")
    for kind in kinds:
        cells = (
            " ".join(f"{found['best_at_least'][kind][str(least)]:.2f}" for least in THRESHOLDS)
            if kind in found["best_at_least"]
            else "–"
            for found in by_set.values()
        )
        lines.append(f"| {kind} | {' | '.join(cells)} |")
    return lines
