"""Scores of a search whose evidence is known, and how sure they are. All pure; nothing else looks at gold.

Of one question, each from 0 to 1:

- `recall@k`: the share of its gold turns among the first k turns found;
- `session_any@5`, `session_all@5`: whether any, or all, of its gold sessions are among the first five sessions found, where a
  session stands at its best turn.

Intervals are percentile bootstraps over questions (Efron & Tibshirani, An Introduction to the Bootstrap, 1993, ch. 13):
questions are drawn with replacement as often as there are any, a thousand times. Systems that answered the same
questions are compared by the same bootstrap of the differences question by question.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from benchmarks.recall_sets import Corpus, Evidence, Gold

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
        _scored(set_name, corpus.name, questions[answer.question].type, answer, evidence, session_of)
        for answer in answers
        for evidence in (gold.by_question[answer.question],)
    ]


def _scored(
    set_name: str,
    corpus: str,
    kind: str,
    answer: Answer,
    evidence: Evidence,
    session_of: Mapping[str, str],
) -> Result:
    turns = answer.turns[:DEPTH]
    turn_rank = _ranks(turns, evidence.turns)
    session_rank = _ranks(tuple(dict.fromkeys(session_of[turn] for turn in turns)), evidence.sessions)
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
        question=answer.question,
        type=kind,
        gold_turns=turn_rank,
        figures=figures,
    )


def _ranks(found: Sequence[str], wanted: Iterable[str]) -> dict[str, int | None]:
    at: dict[str, int] = {}
    for rank, name in enumerate(found, start=1):
        at.setdefault(name, rank)
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
