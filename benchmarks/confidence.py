"""Where the confidence in a turn comes from, and how far it can be trusted: `python -m benchmarks.confidence FILE [FILE ...]`.

Remembers each conversation, and takes the grounds of `memory_agent.search.confidence` of the first 20 turns that the product's
own index ranks: for each question of the conversation; for questions of other conversations, which nothing here answers; and in
small memories cut out of it, with the evidence and without. A logistic model is fitted to whether a turn is evidence, every set
counting equally. `own` means the set's own questions, to which alone the reliability refers: how often turns of a confidence
are evidence, by tenths; with the figures as shipped, and held out by conversation and by set.

JSON goes to standard output, tables and progress to standard error.
Evidence is used for fitting and scoring; nothing of it is stored.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import sys
from collections import defaultdict
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal

import numpy as np

from benchmarks import reliability
from benchmarks.measure import SEARCH_ONLY, machine, open_service
from benchmarks.recall import remember
from benchmarks.recall_sets import BadRecallSet, files_in, read_date, read_sets
from benchmarks.vectors import cache_option
from memory_agent.search.confidence import Grounds, grounds, unrelated
from memory_agent.search.fusion import DEFAULT_WEIGHTS, best_first, fuse, normalised
from memory_agent.search.query_analysis import Questioner
from memory_agent.search.request import RowFilter
from memory_agent.search.user_index import ResidentIndex, behind_repeats

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    from benchmarks.recall_sets import Corpus, Question, Sets
    from memory_agent import MemoryService
    from memory_agent.domain import SearchRow
    from memory_agent.search.request import AnalysedQuery

Kind = Literal["own", "foreign", "small", "small_without"]

RESULTS: Final = 20
"""Turns looked at for each question: what a search or a prompt shows first."""
SIZES: Final = (3, 10, 40)
"""Turns of the small memories."""
FOREIGN: Final = 30
"""Questions of other conversations that each is asked, half of them of other sets."""
MIX: Final[Mapping[Kind, float]] = {"own": 1.0, "foreign": 0.35, "small": 0.5, "small_without": 0.25}
"""What each kind weighs in the fit. Most questions put to a memory are its own; young memories are as real as old ones."""


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Case:
    """One question put to one memory: the grounds of its first results, and which of them are evidence.

    `seen`: with vectors; else by words alone. `conversation`: what is left out together.
    """

    set: str
    conversation: str
    kind: Kind
    seen: bool
    grounds: Grounds
    evidence: np.ndarray[Any, np.dtype[np.bool_]]


def case_of(index: ResidentIndex, asked: AnalysedQuery) -> tuple[list[str], Grounds]:
    """The first results of a search of `index` and their grounds, as `Searcher` has them."""
    scored = index.score(asked, where=RowFilter())
    weight_of_words = index.statistics(asked.terms).weight(asked.terms)
    scores = fuse(normalised(scored.values, weight_of_words=weight_of_words), DEFAULT_WEIGHTS)
    meaning = scored.values["meaning"]
    found = grounds(
        scores,
        meaning,
        scored.values["words"],
        scored.values["words_around"],
        weight_of_words=weight_of_words,
        unrelated_cosine=unrelated(meaning, background=asked.background, whole=True),
    )
    first = behind_repeats(best_first(scores), scored.turn_ids, index, most=2 * RESULTS)[:RESULTS]
    of_first = Grounds(nearness=found.nearness[first], words=found.words[first], lead=found.lead[first])
    return [scored.turn_ids[position] for position in first], of_first


class Asker:
    """Asks the memories of one conversation. `origin`: which of the set's turns each of the rows is."""

    def __init__(
        self,
        service: MemoryService,
        where: tuple[str, str],
        rows: Sequence[SearchRow],
        origin: Mapping[str, str],
    ) -> None:
        parts, language = service.core, service.cfg.search_language
        self._questioner = Questioner(
            parts.embedder, parts.spotter, language=language, weights=DEFAULT_WEIGHTS
        )
        self._embedder = parts.residents.embedder
        self._set, self._conversation = where
        self._rows = sorted(rows, key=lambda row: row.seq)
        self._last = max(row.timestamp for row in rows)
        self._origin = origin
        self._whole = self._index(self._rows)
        self.cases: list[Case] = []

    def _index(self, rows: Sequence[SearchRow]) -> ResidentIndex:
        return ResidentIndex(rows, embedder=self._embedder)

    async def ask(self, question: Question, evidence: Collection[str], kind: Kind) -> None:
        """Put `question` to the whole memory."""
        await self._ask(self._whole, question, evidence, kind)

    async def ask_small(self, question: Question, evidence: Collection[str], chance: random.Random) -> None:
        """Put `question` to a memory of each size that has some of its evidence, and to one that has none."""
        at = [i for i, row in enumerate(self._rows) if self._origin[row.turn_id] in evidence]
        for size in SIZES:
            most = len(self._rows) - size
            start = min(max(0, chance.choice(at) - chance.randrange(size)), most)
            await self._ask(self._index(self._rows[start : start + size]), question, evidence, "small")
            far = [i for i in range(most) if not any(i - size <= place < i + 2 * size for place in at)]
            if far:
                start = chance.choice(far)
                await self._ask(self._index(self._rows[start : start + size]), question, (), "small_without")

    async def _ask(
        self, index: ResidentIndex, question: Question, evidence: Collection[str], kind: Kind
    ) -> None:
        asked = await self._questioner.asked(
            question.text,
            now=read_date(question.date) or self._last,
            where=RowFilter(),
            known=tuple(index.speakers),
            called={},
            resident=index,
            degraded=[],
        )
        for seen in (True, False):
            ids, found = case_of(index, asked if seen else replace(asked, query=None, gist=None))
            is_evidence = np.array([self._origin[turn_id] in evidence for turn_id in ids], dtype=np.bool_)
            self.cases.append(
                Case(
                    set=self._set,
                    conversation=self._conversation,
                    kind=kind,
                    seen=seen,
                    grounds=found,
                    evidence=is_evidence,
                )
            )


def foreign_questions(corpora: Sets, file: str, own: Corpus, chance: random.Random) -> Iterator[Question]:
    """Questions of other conversations, half of them of other sets if there are any."""
    near = [q for corpus, _ in corpora[file] if corpus is not own for q in corpus.questions]
    far = [q for name, of_set in corpora.items() if name != file for c, _ in of_set for q in c.questions]
    for questions in (near, far):
        yield from chance.sample(questions, min(len(questions), FOREIGN // 2))


async def collect(sets: Sets, cache: Path) -> list[Case]:
    """Every question put to every memory that it is meant for."""
    chance = random.Random(16)
    cases: list[Case] = []
    async with open_service("sqlite", cache=cache, **SEARCH_ONLY) as service:
        for name, of_set in sets.items():
            for corpus, gold in of_set:
                user_id = f"{name}-{corpus.name}"
                origin = await remember(service.agent(user_id, "history"), corpus)
                rows = await service.core.store.search_rows(user_id)
                asker = Asker(service, (name, user_id), rows, origin)
                for question in corpus.questions:
                    evidence = gold.by_question[question.id].turns
                    if evidence & set(origin.values()):
                        await asker.ask(question, evidence, "own")
                        await asker.ask_small(question, evidence, chance)
                for question in foreign_questions(sets, name, corpus, chance):
                    await asker.ask(question, (), "foreign")
                cases += asker.cases
                print(f"{user_id}: {len(asker.cases)} cases", file=sys.stderr)
    return cases


# --- fitting -------------------------------------------------------------------------------------------------


def table_of(cases: Sequence[Case]) -> tuple[reliability.Floats, reliability.Floats, reliability.Floats]:
    """Of all results of `cases`: grounds, shape (n, 4) with a column of ones; 1 for evidence; what each weighs."""
    columns, evidence, weights = [], [], []
    sizes: dict[tuple[str, Kind], int] = defaultdict(int)
    for case in cases:
        sizes[case.set, case.kind] += len(case.evidence)
    for case in cases:
        found = case.grounds
        nearness = found.nearness if case.seen else np.zeros_like(found.nearness)
        columns.append(np.stack([np.ones_like(nearness), nearness, found.words, found.lead], axis=1))
        evidence.append(case.evidence)
        weights.append(np.full(len(case.evidence), MIX[case.kind] / sizes[case.set, case.kind]))
    return (
        np.concatenate(columns).astype(float),
        np.concatenate(evidence).astype(float),
        np.concatenate(weights),
    )


def fit(cases: Sequence[Case]) -> reliability.Floats:
    """Constant, nearness, words, lead."""
    return reliability.logistic(*table_of(cases))


def predicted(cases: Sequence[Case], fitted: reliability.Floats) -> list[reliability.Floats]:
    """The confidence in each result of each case."""
    return [1.0 / (1.0 + np.exp(-(table_of([case])[0] @ fitted))) for case in cases]


def held_out(cases: Sequence[Case], by: Literal["set", "conversation"]) -> list[reliability.Floats]:
    """The confidence in each result of each case, by a fit on the cases of other sets, or other conversations."""
    found: dict[int, reliability.Floats] = {}
    for group in dict.fromkeys(getattr(case, by) for case in cases):
        inside = [i for i, case in enumerate(cases) if getattr(case, by) == group]
        fitted = fit([case for case in cases if getattr(case, by) != group])
        found.update(zip(inside, predicted([cases[i] for i in inside], fitted), strict=True))
    return [found[i] for i in range(len(cases))]


def report(cases: Sequence[Case]) -> dict[str, Any]:
    """Fits and figures, by whether turns have vectors."""
    figures: dict[str, Any] = {"machine": machine()}
    for seen in (True, False):
        these = [case for case in cases if case.seen is seen]
        fitted = fit(these)
        ways: dict[str, list[reliability.Floats]] = {
            "shipped": [reliability.shipped(case.grounds) for case in these],
            "fitted on all": predicted(these, fitted),
        }
        if len({case.conversation for case in these}) > 1:
            ways["held out by conversation"] = held_out(these, "conversation")
        if len({case.set for case in these}) > 1:
            ways["held out by set"] = held_out(these, "set")
        figures["with vectors" if seen else "by words alone"] = {
            "coefficients": dict(
                zip(("constant", "nearness", "words", "lead"), fitted.round(3).tolist(), strict=True)
            ),
            **{way: _by_set(these, found) for way, found in ways.items()},
        }
    return figures


def _by_set(cases: Sequence[Case], found: Sequence[reliability.Floats]) -> dict[str, Any]:
    figures: dict[str, Any] = {}
    for name in dict.fromkeys(case.set for case in cases):
        of_kind: dict[Kind, list[tuple[reliability.Floats, reliability.Floats]]] = defaultdict(list)
        for case, confidence in zip(cases, found, strict=True):
            if case.set == name:
                of_kind[case.kind].append((confidence, case.evidence.astype(float)))
        figures[name] = {
            **reliability.figures(of_kind["own"]),
            "best_at_least": {kind: reliability.best_at_least(pairs) for kind, pairs in of_kind.items()},
        }
    return figures


def main() -> None:
    """Parse the command line and run."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("files", type=Path, nargs="*", metavar="FILE", help="recall sets, or folders of them")
    parser.add_argument("--limit", type=int, help="only the first so many corpora of each file")
    cache_option(parser)
    arguments = parser.parse_args()
    try:
        sets = read_sets(files_in(arguments.files), arguments.limit)
    except BadRecallSet as exc:
        parser.error(str(exc))
    figures = report(asyncio.run(collect(sets, arguments.cache)))
    print(reliability.tables(figures), file=sys.stderr)
    print(json.dumps(figures, indent=2))


if __name__ == "__main__":
    main()
