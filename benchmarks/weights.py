"""Where the weights of the search come from: `python -m benchmarks.weights FILE [FILE ...] [--detail]`.

Remembers each conversation, takes the signals of every turn for every question from the product's own index, and fits the
weights of `memory_agent.search.fusion`: a softmax over all turns of a conversation should give the evidence as much as it can
(listwise cross-entropy, with a small L2 penalty). Prints the weights fitted on all, and recall@k by cross-validation: of each
conversation (or fifth of the conversations, where there are more) with weights fitted on the others. `--detail` adds late
interaction over the best 50. Evidence is used for fitting and scoring; nothing of it is stored.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
from collections import defaultdict
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from benchmarks.measure import machine, open_service
from benchmarks.recall import remember
from benchmarks.recall_sets import read_date, read_with_gold
from memory_agent.facts.people import called
from memory_agent.search.fusion import DEFAULT_WEIGHTS, best_first, fuse, min_max, normalised
from memory_agent.search.late_interaction import LateInteraction, Shortlist
from memory_agent.search.query_analysis import Questioner
from memory_agent.search.request import RowFilter

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from benchmarks.recall_sets import Question
    from memory_agent import MemoryAgent, MemoryService

    Floats = NDArray[np.float32]

KS: Final = (5, 10, 20, 50)
FOLDS: Final = 5
PENALTY: Final = 1e-3
SHORTLIST: Final = 50


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Asked:
    """One question: `signals`, shape (turns, signals), and the positions of its evidence. `fold`: when it is held out."""

    set: str
    fold: int
    signals: Floats
    gold: tuple[int, ...]


async def signals_of(
    service: MemoryService, memory: MemoryAgent, question: Question, *, detail: bool
) -> tuple[list[str], dict[str, Floats]]:
    """The turns of a user and their normalised signals for a question, as `fetch_long_term` has them."""
    parts, language = service.core, service.cfg.search_language
    questioner = Questioner(parts.embedder, parts.spotter, language=language, weights=DEFAULT_WEIGHTS)
    index = await parts.residents.get(memory.scope.user_id)
    if index is None:
        raise SystemExit("the user is too large to be kept in memory; raise resident_max_turns")
    where = RowFilter(thread_id=memory.scope.thread_id)
    asked = await questioner.asked(
        question.text,
        now=read_date(question.date) or datetime.now(UTC),
        where=where,
        known=tuple(index.speakers),
        called=called(await parts.facts.people(memory.scope)),
        resident=index,
        degraded=[],
    )
    scored = index.score(asked, where=where)
    values: dict[str, Floats] = {str(name): given for name, given in normalised(scored.values).items()}
    if detail:
        best = best_first(fuse(normalised(scored.values), DEFAULT_WEIGHTS))[:SHORTLIST]
        ids = [scored.turn_ids[position] for position in best]
        before, after = index.beside(ids)
        shortlist = Shortlist(
            query=question.text,
            names=asked.question.names,
            statistics=index.statistics(asked.terms),
            user_id=memory.scope.user_id,
            turn_ids=ids,
            before=before,
            after=after,
        )
        late = LateInteraction(parts.store, parts.embedder, language=language, weights={})
        found = await late.score(shortlist)
        values["detail"] = np.zeros(len(scored.turn_ids), dtype=np.float32)
        if found is not None:
            values["detail"][best] = min_max(found)
    return list(scored.turn_ids), values


def fit(asked: Sequence[Asked]) -> Floats:
    """Weights, shape (signals,), that give the evidence of these questions the most."""
    import torch

    width = max(len(one.signals) for one in asked)
    count = asked[0].signals.shape[1]
    signals = torch.zeros(len(asked), width, count)
    hidden = torch.full((len(asked), width), -1e9)
    gold = torch.zeros(len(asked), width)
    for row, one in enumerate(asked):
        signals[row, : len(one.signals)] = torch.from_numpy(one.signals)
        hidden[row, : len(one.signals)] = 0.0
        gold[row, list(one.gold)] = 1.0 / len(one.gold)
    weights = torch.full((count,), 2.0, requires_grad=True)
    search = torch.optim.LBFGS([weights], max_iter=150, line_search_fn="strong_wolfe")

    def loss() -> torch.Tensor:
        search.zero_grad()
        likely = torch.log_softmax(signals @ weights + hidden, dim=1)
        value = -(gold * likely).sum(dim=1).mean() + PENALTY * (weights**2).sum()
        value.backward()  # type: ignore[no-untyped-call]
        return value

    search.step(loss)  # type: ignore[no-untyped-call]
    fitted: Floats = weights.detach().numpy()
    return fitted


def recall(asked: Sequence[Asked], weights: Floats) -> dict[str, list[float]]:
    """Recall@k of each question."""
    found: dict[str, list[float]] = defaultdict(list)
    for one in asked:
        order = best_first((one.signals @ weights).astype(np.float32))
        for k in KS:
            found[f"recall@{k}"].append(len(set(order[:k].tolist()) & set(one.gold)) / len(one.gold))
    return found


def held_out(asked: Sequence[Asked]) -> dict[str, dict[str, float]]:
    """Mean recall@k by set, each question with weights fitted on the other folds of all sets."""
    by_set: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for fold in range(FOLDS):
        weights = fit([one for one in asked if one.fold != fold])
        for name in {one.set for one in asked}:
            theirs = [one for one in asked if one.fold == fold and one.set == name]
            for figure, values in recall(theirs, weights).items():
                by_set[name][figure] += values
    return {
        name: {figure: round(float(np.mean(values)), 4) for figure, values in figures.items()}
        for name, figures in by_set.items()
    }


async def collect(files: Sequence[Path], *, detail: bool) -> tuple[list[str], list[Asked]]:
    """The signals' names, and every question of every set that has evidence."""
    asked: list[Asked] = []
    names: list[str] = []
    quick: dict[str, Any] = {
        "enable_topics": False,
        "enable_fact_extraction": False,
        "enable_compression": False,
    }
    async with open_service("sqlite", **quick) as service:
        for file in files:
            for number, (corpus, gold) in enumerate(read_with_gold(file)):
                memory = service.agent(f"{file.name}-{corpus.name}", "history")
                origin = await remember(memory, corpus)
                for question in corpus.questions:
                    ids, values = await signals_of(service, memory, question, detail=detail)
                    names = list(values)
                    wanted = gold.by_question[question.id].turns
                    places = tuple(i for i, turn_id in enumerate(ids) if origin[turn_id] in wanted)
                    if places:
                        signals = np.stack([values[name] for name in names], axis=1)
                        asked.append(Asked(set=file.name, fold=number % FOLDS, signals=signals, gold=places))
                print(f"{corpus.name}: {len(origin)} turns", file=sys.stderr)
    return names, asked


async def run(arguments: argparse.Namespace) -> dict[str, Any]:
    """The whole report."""
    names, asked = await collect(arguments.files, detail=arguments.detail)
    weights = fit(asked)
    return {
        "machine": machine(),
        "questions": len(asked),
        "fitted_on_all": {name: round(float(w), 2) for name, w in zip(names, weights, strict=True)},
        "held_out": held_out(asked),
    }


def main() -> None:
    """Parse the command line and run."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("files", type=Path, nargs="+", metavar="FILE", help="recall sets")
    parser.add_argument("--detail", action="store_true", help="with late interaction over the best 50")
    print(json.dumps(asyncio.run(run(parser.parse_args())), indent=2))


if __name__ == "__main__":
    main()
