"""Scores of a search whose evidence is known, how sure they are, and runs of them; nothing else looks at gold.

Of one question, each from 0 to 1:

- `recall@k`: the share of its gold turns among the first k turns found;
- `session_any@5`, `session_all@5`: whether any, or all, of its gold sessions are among the first five sessions found, where a
  session stands at its best turn.

Intervals are percentile bootstraps over questions (Efron & Tibshirani, An Introduction to the Bootstrap, 1993, ch. 13):
questions are drawn with replacement as often as there are any, a thousand times. Systems that answered the same
questions are compared by the same bootstrap of the differences question by question.
"""

from __future__ import annotations

import json
from collections import defaultdict
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from benchmarks.measure import markdown

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from benchmarks.recall_sets import Corpus, Gold, Question

DEPTH: Final = 50
"""How many turns a system is asked for."""
KS: Final = (5, 10, 20, 50)
SESSION_K: Final = 5
RESAMPLES: Final = 1_000
CONFIDENCE: Final = 0.95
_SEED: Final = 20_260_607


@dataclass(frozen=True, kw_only=True, slots=True)
class Answer:
    """What a system found for one question. Ids are the recall set's own, best first, of at most DEPTH turns."""

    question: str
    turns: tuple[str, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Result:
    """One question, scored. Ranks count from 1; None: not found. `figures`: its scores by name."""

    set: str
    corpus: str
    question: str
    type: str
    gold_turns: Mapping[str, int | None]
    figures: Mapping[str, float]

    @property
    def key(self) -> tuple[str, str, str]:
        """What names the question among all sets."""
        return self.set, self.corpus, self.question


@dataclass(frozen=True, kw_only=True, slots=True)
class Estimate:
    """A mean over `count` questions and the interval that holds it with a confidence of CONFIDENCE."""

    mean: float
    low: float
    high: float
    count: int

    def __str__(self) -> str:
        return f"{self.mean:.3f} [{self.low:.3f}, {self.high:.3f}]"


def score(set_name: str, corpus: Corpus, answers: Sequence[Answer], gold: Gold) -> list[Result]:
    """One result per answer. Raises ValueError unless every question of the corpus was answered once."""
    questions = {question.id: question for question in corpus.questions}
    answered = [answer.question for answer in answers]
    if sorted(answered) != sorted(questions):
        raise ValueError(
            f"corpus {corpus.name!r} has {len(questions)} questions, and {len(answered)} answers"
        )
    session_of = {turn.id: turn.session for turn in corpus.turns}
    return [
        _scored(set_name, corpus.name, questions[answer.question], answer, gold, session_of)
        for answer in answers
    ]


def _scored(
    set_name: str, corpus: str, asked: Question, answer: Answer, gold: Gold, session_of: Mapping[str, str]
) -> Result:
    evidence, turns = gold.by_question[asked.id], answer.turns[:DEPTH]
    turn_rank = _ranks(turns, evidence.turns)
    session_rank = _ranks(dict.fromkeys(session_of[turn] for turn in turns), evidence.sessions)
    figures: dict[str, float] = {}
    if turn_rank:
        figures |= {f"recall@{k}": _share_within(turn_rank, k) for k in KS}
    if session_rank:
        share = _share_within(session_rank, SESSION_K)
        figures[f"session_any@{SESSION_K}"] = float(share > 0)
        figures[f"session_all@{SESSION_K}"] = float(share == 1)
    return Result(
        set=set_name,
        corpus=corpus,
        question=asked.id,
        type=asked.type,
        gold_turns=turn_rank,
        figures=figures,
    )


def _ranks(found: Iterable[str], wanted: Iterable[str]) -> dict[str, int | None]:
    at = {name: rank for rank, name in reversed(list(enumerate(found, start=1)))}
    return {name: at.get(name) for name in sorted(wanted)}


def _share_within(ranks: Mapping[str, int | None], k: int) -> float:
    return sum(rank is not None and rank <= k for rank in ranks.values()) / len(ranks)


# --- means and differences -----------------------------------------------------------------------------------


def estimate(values: Sequence[float], *, resamples: int = RESAMPLES, seed: int = _SEED) -> Estimate:
    """The mean of `values`, one per question, and its bootstrap interval; the same for the same values and seed.

    Raises ValueError for no values.
    """
    if not values:
        raise ValueError("there is no value to take the mean of")
    given = np.asarray(values, dtype=np.float64)
    drawn = np.random.default_rng(seed).integers(0, len(given), size=(resamples, len(given)))
    tail = 50 * (1 - CONFIDENCE)
    low, high = np.percentile(given[drawn].mean(axis=1), (tail, 100 - tail))
    mean = float(given.mean())
    # Means of equal numbers differ in their last bits with the order in which they are added.
    return Estimate(mean=mean, low=min(float(low), mean), high=max(float(high), mean), count=len(given))


def summary(results: Iterable[Result]) -> dict[str, Estimate]:
    """Each figure's estimate over the questions that have it."""
    values: dict[str, list[float]] = defaultdict(list)
    for result in results:
        for name, value in result.figures.items():
            values[name].append(value)
    return {name: estimate(given) for name, given in values.items()}


def by_type(results: Iterable[Result]) -> dict[str, list[Result]]:
    """The results of each type of question, by name."""
    kinds: dict[str, list[Result]] = defaultdict(list)
    for result in results:
        kinds[result.type].append(result)
    return dict(sorted(kinds.items()))


def differences(before: Iterable[Result], after: Iterable[Result]) -> dict[str, Estimate]:
    """By how much each figure is higher in `after`, over the questions that have it in both.

    Raises ValueError if they share no question.
    """
    known = {result.key: result.figures for result in before}
    values: dict[str, list[float]] = defaultdict(list)
    for result in after:
        earlier = known.get(result.key, {})
        for name, value in result.figures.items():
            if name in earlier:
                values[name].append(value - earlier[name])
    if not values:
        raise ValueError("the two runs share no question; compare runs on the same recall sets")
    return {name: estimate(given) for name, given in values.items()}


# --- runs, as files keep them and people read them -----------------------------------------------------------
COMPARED: Final = ("recall@5", "recall@10")
BESIDE: Final = ("recall@20", "recall@50", "session_any@5", "session_all@5")


class BadRun(ValueError):
    """A file of runs that can't be used; the message says why."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Run:
    """One system's answers to recall sets. `times`: by set, seconds and milliseconds under names that say which."""

    system: str
    version: str = ""
    settings: Mapping[str, Any] = field(default_factory=dict)
    times: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    results: Sequence[Result] = ()

    @property
    def sets(self) -> list[str]:
        """The names of the sets, in the order in which they were run."""
        return list(dict.fromkeys(result.set for result in self.results))

    def of(self, set_name: str) -> list[Result]:
        """The results on one set."""
        return [result for result in self.results if result.set == set_name]

    def figures(self) -> dict[str, Any]:
        """What is worth reading: figures and times by set, without the single questions."""
        return {
            "system": self.system,
            "version": self.version,
            "settings": dict(self.settings),
            "sets": {
                name: {
                    "questions": len(self.of(name)),
                    "figures": _plain(summary(self.of(name))),
                    "by_type": {
                        kind: _plain(summary(results)) for kind, results in by_type(self.of(name)).items()
                    },
                    "times": dict(self.times.get(name, {})),
                }
                for name in self.sets
            },
        }


def _plain(estimates: Mapping[str, Estimate]) -> dict[str, Any]:
    return {
        name: {key: round(value, 4) for key, value in asdict(one).items()} for name, one in estimates.items()
    }


# --- files ---------------------------------------------------------------------------------------------------


def write_runs(file: Path, runs: Iterable[Run], **about: Any) -> None:
    """Write runs with the result of every question; `about`: what else stands at the top."""
    records = [{**run.figures(), "results": [asdict(result) for result in run.results]} for run in runs]
    file.write_text(json.dumps({**about, "runs": records}, indent=1, ensure_ascii=False) + "\n", "utf-8")


def read_runs(name: str) -> list[Run]:
    """All runs of a file. Raises BadRun."""
    try:
        runs = [_run_of(record) for record in json.loads(Path(name).read_text("utf-8"))["runs"]]
    except FileNotFoundError as exc:
        raise BadRun(f"{name}: there is no such file; write one with --json {name}") from exc
    except (KeyError, TypeError, ValueError, OSError) as exc:
        raise BadRun(f"{name}: no file of runs as --json writes them ({exc!r:.80})") from exc
    if not runs:
        raise BadRun(f"{name} has no runs")
    return runs


def _run_of(record: Mapping[str, Any]) -> Run:
    return Run(
        system=record["system"],
        version=record.get("version", ""),
        settings=record.get("settings", {}),
        times={name: about.get("times", {}) for name, about in record.get("sets", {}).items()},
        results=[Result(**result) for result in record["results"]],
    )


# --- tables --------------------------------------------------------------------------------------------------
def systems_table(
    runs: Sequence[Run], compared: Sequence[str] = COMPARED, beside: Sequence[str] = BESIDE
) -> str:
    """The figures of all runs, a part per set: a row per system, and of one or two also one per type of the last one's questions.

    Differences of those compared are from the first run.
    """
    base, parts = runs[0], []
    for name in dict.fromkeys(name for run in runs for name in run.sets):
        rows = [(run.system, run.of(name), () if run is base else base.of(name)) for run in runs]
        if len(runs) <= 2:
            _, last, before = rows[-1]
            rows += [(f"… type {kind}", its, before) for kind, its in by_type(last).items()]
        of_set = _table(f"less {base.system}", [row for row in rows if row[1]], compared, beside)
        parts.append(f"{name}\n\n{of_set}")
    return "\n\n".join(parts)


def _table(
    first: str,
    rows: Sequence[tuple[str, Sequence[Result], Sequence[Result]]],
    compared: Sequence[str],
    beside: Sequence[str],
) -> str:
    """`rows`: label, results, and those from which they differ; of the latter there may be none."""
    figures = [summary(results) for _, results, _ in rows]
    changes = [_change(before, results) for _, results, before in rows]
    head = [first, "questions"]
    cells = [[label, str(len(results))] for label, results, _ in rows]
    for name in (*compared, *beside):
        if not any(name in its for its in figures):
            continue
        changed = name in compared and any(name in change for change in changes)
        head += [name, "difference"] if changed else [name]
        for line, its, change in zip(cells, figures, changes, strict=True):
            one = its.get(name)
            line.append("–" if one is None else str(one) if name in compared else _short(one.mean))
            if changed:
                line.append(_signed(change.get(name)))
    return markdown(head, cells)


def _short(mean: float) -> str:
    return f"{mean:.3f}" if mean < 2 else f"{mean:,.1f}" if mean < 20 else f"{mean:,.0f}"


def _signed(change: Estimate | None) -> str:
    if change is None:
        return ""
    star = "*" if change.low > 0 or change.high < 0 else ""
    return f"{change.mean:+.3f} [{change.low:+.3f}, {change.high:+.3f}]{star}"


def _change(before: Sequence[Result], after: Sequence[Result]) -> dict[str, Estimate]:
    asked = {result.key for result in before}
    return differences(before, after) if any(result.key in asked for result in after) else {}
