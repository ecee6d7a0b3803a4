"""What was found instead of the evidence, as a page to read, and why evidence was missed, counted.

A question is missed if not all of its gold turns are among the first ten. For each missed gold turn the count says whether it
was among the candidates at all (the first `DEPTH`), and whether it shares a term with the question, by the package's own
tokeniser: without one, no search by words can find it.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from benchmarks.runs import markdown
from benchmarks.scoring import DEPTH
from memory_agent.text.terms import count_terms

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from benchmarks.recall_sets import Corpus
    from benchmarks.runs import Run
    from benchmarks.scoring import Result

WITHIN: Final = 10
"""Gold turns found by this rank are not missed."""
SHOWN: Final = 5
"""How many of the turns found instead are shown."""
CHARS: Final = 80
CLASSES: Final = (
    f"ranked {WITHIN + 1} to {DEPTH}, shares a term",
    f"ranked {WITHIN + 1} to {DEPTH}, shares no term",
    f"not among {DEPTH}, shares a term",
    f"not among {DEPTH}, shares no term",
)


@dataclass(frozen=True, kw_only=True, slots=True)
class MissedTurn:
    """One gold turn beyond the first WITHIN. `rank`: None if it is not among the first DEPTH."""

    type: str
    rank: int | None
    shares_term: bool

    @property
    def kind(self) -> str:
        """Its class, one of CLASSES."""
        return CLASSES[2 * (self.rank is None) + (not self.shares_term)]


def missed(result: Result) -> list[str]:
    """The gold turns that are not among the first WITHIN."""
    return [turn for turn, rank in result.gold_turns.items() if rank is None or rank > WITHIN]


def missed_turns(results: Iterable[Result], corpora: Mapping[tuple[str, str], Corpus]) -> list[MissedTurn]:
    """All gold turns that were missed, with what is counted of them. Raises KeyError for a corpus that is not given."""
    found = []
    for result in results:
        texts, question = _texts(result, corpora)
        terms = set(count_terms(question))
        found += [
            MissedTurn(
                type=result.type,
                rank=result.gold_turns[turn],
                shares_term=bool(terms & set(count_terms(texts[turn][1]))),
            )
            for turn in missed(result)
        ]
    return found


def misses_report(run: Run, corpora: Mapping[tuple[str, str], Corpus], most: int) -> str:
    """A page in Markdown: counts by class and type of question, and the `most` worst questions.

    Questions of which nothing was found come first, then those whose missed turns rank lowest. `corpora`: by set and name.
    Raises ValueError for a run on a corpus that is not given.
    """
    results = [result for result in run.results if result.gold_turns]
    unknown = {(result.set, result.corpus) for result in results} - set(corpora)
    if unknown:
        raise ValueError(f"the run has corpora that the given files don't have, such as {min(unknown)}")
    turns = missed_turns(results, corpora)
    worst = sorted((result for result in results if missed(result)), key=_badness, reverse=True)
    gold = sum(len(result.gold_turns) for result in results)
    parts = [
        f"# Misses of {run.system}",
        f"{len(worst)} of {len(results)} questions have evidence beyond the first {WITHIN}: {len(turns)} of {gold} gold turns.",
        _counts(turns),
        *(_question(result, corpora) for result in worst[:most]),
    ]
    return "\n\n".join(parts) + "\n"


def _counts(turns: Iterable[MissedTurn]) -> str:
    kinds: dict[str, Counter[str]] = {}
    for turn in turns:
        kinds.setdefault(turn.type, Counter())[turn.kind] += 1
    rows = [
        [f"type {kind}", *(str(counts[name]) for name in CLASSES)] for kind, counts in sorted(kinds.items())
    ]
    whole = sum(kinds.values(), Counter[str]())
    rows.append(["all", *(str(whole[name]) for name in CLASSES)])
    return markdown(["missed gold turns", *CLASSES], rows)


def _badness(result: Result) -> tuple[float, float]:
    ranks = [result.gold_turns[turn] or DEPTH + 1 for turn in missed(result)]
    return len(ranks) / len(result.gold_turns), sum(ranks) / len(ranks)


def _question(result: Result, corpora: Mapping[tuple[str, str], Corpus]) -> str:
    texts, question = _texts(result, corpora)
    gold = [
        f"- gold {turn}, {f'rank {rank}' if rank else f'not among {DEPTH}'}: {_cut(*texts[turn])}"
        for turn, rank in result.gold_turns.items()
    ]
    instead = [turn for turn in result.found if turn not in result.gold_turns][:SHOWN]
    found = [f"- rank {result.found.index(turn) + 1}, {turn}: {_cut(*texts[turn])}" for turn in instead]
    return "\n".join([f"## {question}", "", f"{result.question}, type {result.type}", "", *gold, "", *found])


def _texts(
    result: Result, corpora: Mapping[tuple[str, str], Corpus]
) -> tuple[dict[str, tuple[str, str]], str]:
    """Role and text of each turn by id, and the question's text."""
    corpus = corpora[result.set, result.corpus]
    asked = next(question.text for question in corpus.questions if question.id == result.question)
    return {turn.id: (turn.role, turn.text) for turn in corpus.turns}, asked


def _cut(role: str, text: str) -> str:
    line = f"{role}: {' '.join(text.split())}"
    return line if len(line) <= CHARS else line[: CHARS - 1] + "…"
