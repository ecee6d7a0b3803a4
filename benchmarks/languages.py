"""What is found in other languages, by embedding model: `python -m benchmarks.languages [--profile NAME ...] [CORPUS ...]`.

`data/languages.jsonl` is a recall set of our own writing: a history for each language of short turns about a life, and
questions that say the same in other words. Korean and Chinese have 100 questions among 130 turns, 15 of them in English and
15 about turns in English; each other language has 20 turns with a question each. Profiles:

- `all-MiniLM-L6-v2`: as it is;
- `its vectors anyway`: the same, with its vectors counted in scripts that it does not know, too;
- `words alone`: no embedding model;
- `multilingual`: multilingual-e5-small of the extra `multilingual`.

A table goes to standard output: the share of questions whose turn is first, and among the first five.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import time
from collections import defaultdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from benchmarks.measure import machine, open_service
from benchmarks.recall import Times, ask, remember
from benchmarks.recall_sets import read_with_gold
from benchmarks.scoring import score
from memory_agent.models.local.choose import ModelChoiceRequest
from memory_agent.models.local.embedder import LocalEmbedder

if TYPE_CHECKING:
    from collections.abc import Sequence

    from benchmarks.scoring import Result

DATA: Final = Path(__file__).with_name("data") / "languages.jsonl"
QUICK: Final[dict[str, Any]] = {
    "enable_topics": False,
    "enable_fact_extraction": False,
    "enable_compression": False,
}
PROFILES: Final = ("its vectors anyway", "words alone", "all-MiniLM-L6-v2", "multilingual")
MODELS: Final = {"all-MiniLM-L6-v2": "all-MiniLM-L6-v2", "multilingual": "multilingual-e5-small"}


class Unknowing(LocalEmbedder):
    """The same model, taken to know every script, as embedders did that say nothing of it."""

    @property
    def scripts(self) -> frozenset[str] | None:
        return None


class Wordless(LocalEmbedder):
    """The same model, taken to know none."""

    @property
    def scripts(self) -> frozenset[str] | None:
        return frozenset()


def embedder_of(profile: str) -> LocalEmbedder | None:
    """The embedder of a profile that no setting makes."""
    wanted = ModelChoiceRequest(model="all-MiniLM-L6-v2")
    match profile:
        case "its vectors anyway":
            return Unknowing(wanted)
        case "words alone":
            return Wordless(wanted)
    return None


async def measured(profile: str, names: Sequence[str]) -> tuple[list[Result], dict[str, float]]:
    """The results of every corpus, and milliseconds by what took them."""
    results: list[Result] = []
    times, remembering, turns = Times(), 0.0, 0
    own = embedder_of(profile)
    model = MODELS.get(profile, "all-MiniLM-L6-v2")
    async with open_service("sqlite", embedder=own, local_embedding_model=model, **QUICK) as service:
        for corpus, gold in read_with_gold(DATA):
            if names and corpus.name not in names:
                continue
            memory = service.agent(user_id=corpus.name, thread_id="history")
            began = time.process_time()
            origin = await remember(memory, corpus)
            remembering, turns = remembering + time.process_time() - began, turns + len(origin)
            answers = await ask(memory, corpus.questions, origin, times)
            results += score("languages", corpus, answers, gold)
            print(f"{profile}: {corpus.name}", file=sys.stderr)
    if own is not None:
        await own.close()
    per_search = 1_000 * sum(times.search) / max(len(times.search), 1)
    return results, {
        "processor ms a turn": 1_000 * remembering / max(turns, 1),
        "ms a search": per_search,
    }


def found_within(results: Sequence[Result], depth: int) -> float:
    """The share of questions whose turn is among the first `depth`."""
    hits = [any(rank is not None and rank <= depth for rank in r.gold_turns.values()) for r in results]
    return sum(hits) / len(hits)


def table(by_profile: dict[str, list[Result]]) -> str:
    """Markdown: a row for each corpus and type of question, a column for each profile."""
    rows: dict[tuple[str, str], dict[str, list[Result]]] = defaultdict(lambda: defaultdict(list))
    for profile, results in by_profile.items():
        for result in results:
            rows[result.corpus, result.type][profile].append(result)
    lines = [
        f"| R@1/R@5 | questions | {' | '.join(by_profile)} |",
        "|" + "---|" * (len(by_profile) + 2),
    ]
    for (corpus, kind), cells in rows.items():
        figures = (f"{found_within(own, 1):.2f}/{found_within(own, 5):.2f}" for own in cells.values())
        count = len(next(iter(cells.values())))
        lines.append(f"| {corpus}, {kind} | {count} | {' | '.join(figures)} |")
    return "\n".join(lines)


def main() -> None:
    """Parse the command line and run."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("corpora", nargs="*", metavar="CORPUS", help="only these languages")
    parser.add_argument("--profile", action="append", choices=PROFILES, help="only this one (repeatable)")
    given = parser.parse_args()
    by_profile = {}
    print(machine())
    for profile in given.profile or PROFILES:
        by_profile[profile], times = asyncio.run(measured(profile, given.corpora))
        print(f"{profile}: " + ", ".join(f"{value:.1f} {name}" for name, value in times.items()))
    print(f"\n{table(by_profile)}")


if __name__ == "__main__":
    main()
