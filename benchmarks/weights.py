"""Where the weights of the search come from: `python -m benchmarks.weights FILE [FILE ...] [--cache FOLDER] [--detail]`.

Remembers each conversation, takes the signals of every turn for every question from the product's own index, and fits the
weights of `memory_agent.search.fusion`: a softmax over all turns of a conversation should give the evidence as much as it can
(listwise cross-entropy, with a small L2 penalty, every set counting equally). Prints recall@k with the weights as shipped, which
is the product's, and the weights fitted on all sets. Then recall@k on each set with weights from others alone: of the other sets
(`without its set`: as fitted, and half of that with half of those shipped), or of the other conversations (`without its
conversation`, by fifths). `--detail` adds late interaction over the best 50. Evidence is used for fitting and scoring; nothing of it is stored.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
from collections import Counter, defaultdict
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from benchmarks.measure import machine, open_service
from benchmarks.recall import remember
from benchmarks.recall_sets import BadRecallSet, files_in, read_date, read_with_gold, set_name
from benchmarks.vectors import cache_option
from memory_agent.facts.people import called
from memory_agent.search.fusion import (
    WEIGHTS,
    WEIGHTS_WITHOUT_DETAIL,
    best_first,
    for_sessions,
    fuse,
    min_max,
    normalised,
)
from memory_agent.search.late_interaction import LateInteraction, Shortlist
from memory_agent.search.query_analysis import Questioner
from memory_agent.search.request import RowFilter
from memory_agent.search.user_index import behind_repeats

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from benchmarks.recall_sets import Question
    from memory_agent import MemoryAgent, MemoryService
    from memory_agent.search.user_index import ResidentIndex

    Floats = NDArray[np.float32]

KS: Final = (5, 10, 20, 50)
FOLDS: Final = 5
PENALTY: Final = 1e-3
SHORTLIST: Final = 50


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Asked:
    """One question: `signals`, shape (turns, signals), of the turns `ids`, and the positions of its evidence.

    `fold`: when its conversation is held out; `marked`: turns that the set marks as evidence, those of no text included.
    """

    set: str
    fold: int
    index: ResidentIndex
    ids: Sequence[str]
    signals: Floats
    gold: tuple[int, ...]
    marked: int


async def signals_of(
    service: MemoryService, memory: MemoryAgent, question: Question, index: ResidentIndex, *, detail: bool
) -> tuple[list[str], dict[str, Floats]]:
    """The turns of a user and their normalised signals for a question, as `fetch_long_term` has them in the only thread.

    What a weight depends on (`for_sessions`) is multiplied in here.
    """
    parts, language = service.core, service.cfg.search_language
    questioner = Questioner(parts.embedder, parts.spotter, language=language, weights=WEIGHTS_WITHOUT_DETAIL)
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
    scored = index.score(replace(asked, with_assistant=index.with_assistant), where=where)
    share = for_sessions(dict.fromkeys(WEIGHTS_WITHOUT_DETAIL, 1.0), index.sessions)
    signals = normalised(scored.values, weight_of_words=index.statistics(asked.terms).weight(asked.terms))
    values: dict[str, Floats] = {
        str(name): np.float32(share[name]) * given for name, given in signals.items()
    }
    del values["here"]
    if detail:
        best = best_first(fuse(values, WEIGHTS_WITHOUT_DETAIL))[:SHORTLIST]  # type: ignore[arg-type]
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
        late = LateInteraction(parts.store, parts.embedder, language=language)
        found = await late.score(shortlist)
        values["detail"] = np.zeros(len(scored.turn_ids), dtype=np.float32)
        if found is not None:
            values["detail"][best] = min_max(found)
    return list(scored.turn_ids), values


def fit(asked: Sequence[Asked]) -> Floats:
    """Weights, shape (signals,), that give the evidence of these questions the most, every set counting equally."""
    import torch

    width = max(len(one.signals) for one in asked)
    count = asked[0].signals.shape[1]
    sizes = Counter(one.set for one in asked)
    part = torch.tensor([1.0 / (len(sizes) * sizes[one.set]) for one in asked])
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
        value = -(part * (gold * likely).sum(dim=1)).sum() + PENALTY * (weights**2).sum()
        value.backward()  # type: ignore[no-untyped-call]
        return value

    search.step(loss)  # type: ignore[no-untyped-call]
    fitted: Floats = weights.detach().numpy()
    return fitted


def halfway(shipped: Floats, fitted: Floats) -> Floats:
    """The mean of both, `fitted` brought to the size of `shipped` before."""
    scale = shipped.clip(0.0).sum() / max(float(fitted.clip(0.0).sum()), 1e-6)
    mean: Floats = (0.5 * (shipped + fitted * scale)).astype(np.float32)
    return mean


def recall(asked: Sequence[Asked], weights_of: Callable[[Asked], Floats]) -> dict[str, dict[str, float]]:
    """Mean recall@k by set, each question with its weights, near-duplicates behind the others."""
    by_set: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for one in asked:
        order = best_first((one.signals @ weights_of(one)).astype(np.float32))
        order = behind_repeats(order, one.ids, one.index, most=2 * max(KS))
        for k in KS:
            found = len(set(order[:k].tolist()) & set(one.gold)) / one.marked
            by_set[one.set][f"recall@{k}"].append(found)
    return {
        name: {figure: round(float(np.mean(values)), 4) for figure, values in figures.items()}
        for name, figures in by_set.items()
    }


def held_out(asked: Sequence[Asked], shipped: Floats) -> dict[str, Any]:
    """Recall with weights fitted without the set of a question, and without its fold."""
    report: dict[str, Any] = {}
    sets = dict.fromkeys(one.set for one in asked)
    if len(sets) > 1:
        others = {name: fit([one for one in asked if one.set != name]) for name in sets}
        report["without its set"] = recall(asked, lambda one: others[one.set])
        halves = {name: halfway(shipped, weights) for name, weights in others.items()}
        report["without its set, half of it shipped"] = recall(asked, lambda one: halves[one.set])
    folds = dict.fromkeys(one.fold for one in asked)
    if len(folds) > 1:
        of_fold = {fold: fit([one for one in asked if one.fold != fold]) for fold in folds}
        report["without its conversation"] = recall(asked, lambda one: of_fold[one.fold])
    return report


async def collect(files: Sequence[Path], cache: Path, *, detail: bool) -> tuple[list[str], list[Asked]]:
    """The signals' names, and every question of every set that has evidence."""
    asked: list[Asked] = []
    names: list[str] = []
    quick: dict[str, Any] = {"enable_topics": False, "enable_compression": False}
    for file in files:
        async with open_service("sqlite", cache=cache, **quick) as service:
            for number, (corpus, gold) in enumerate(read_with_gold(file)):
                memory = service.agent(f"{set_name(file)}-{corpus.name}", "history")
                origin = await remember(memory, corpus)
                index = await service.core.residents.get(memory.scope.user_id)
                if index is None:
                    raise SystemExit("the user is too large to be kept in memory; raise resident_max_turns")
                for question in corpus.questions:
                    ids, values = await signals_of(service, memory, question, index, detail=detail)
                    names = list(values)
                    wanted = gold.by_question[question.id].turns
                    places = tuple(i for i, turn_id in enumerate(ids) if origin[turn_id] in wanted)
                    if places:
                        asked.append(
                            Asked(
                                set=set_name(file),
                                fold=number % FOLDS,
                                index=index,
                                ids=ids,
                                signals=np.stack([values[name] for name in names], axis=1),
                                gold=places,
                                marked=len(wanted),
                            )
                        )
                print(f"{corpus.name}: {len(origin)} turns", file=sys.stderr)
    return names, asked


async def run(arguments: argparse.Namespace) -> dict[str, Any]:
    """The whole report."""
    names, asked = await collect(arguments.files, arguments.cache, detail=arguments.detail)
    weights = fit(asked)
    its = WEIGHTS if arguments.detail else WEIGHTS_WITHOUT_DETAIL
    shipped = np.array([its[name] for name in names], dtype=np.float32)
    return {
        "machine": machine(),
        "questions": len(asked),
        "shipped": recall(asked, lambda _: shipped),
        "fitted_on_all": {name: round(float(w), 2) for name, w in zip(names, weights, strict=True)},
        **held_out(asked, shipped),
    }


def main() -> None:
    """Parse the command line and run."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("files", type=Path, nargs="+", metavar="FILE", help="recall sets, or folders of them")
    cache_option(parser)
    parser.add_argument("--detail", action="store_true", help="with late interaction over the best 50")
    arguments = parser.parse_args()
    try:
        arguments.files = files_in(arguments.files)
        report = asyncio.run(run(arguments))
    except BadRecallSet as exc:
        parser.error(str(exc))
    print(json.dumps(report, indent=2))


if __name__ == "__main__":
    main()
