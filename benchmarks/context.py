"""How much of the evidence is inside a prompt: `python -m benchmarks.context FILE`.

Remembers each corpus of a recall set and asks each question through `fetch_memory` at several budgets. Prints the mean share of a
question's gold turns that the context shows word for word, beside the same ranking packed line by line until full; also the share of
tokens by tier, and how many windows had a gap.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import time
from collections import defaultdict
from pathlib import Path
from typing import TYPE_CHECKING, Final

import numpy as np

from benchmarks.measure import machine, open_service, percentiles, print_report, say
from benchmarks.recall import remember, setting_option
from benchmarks.recall_sets import read_with_gold
from benchmarks.vectors import cache_option
from memory_agent.context.assemble import ORDER
from memory_agent.context.budget import usable

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from benchmarks.recall_sets import Corpus, Gold
    from memory_agent import MemoryAgent, MemoryService, Turn
    from memory_agent.ports import TokenCounter

BUDGETS: Final = (500, 1_000, 2_000, 4_000)
RANKED: Final = 300


async def ask(
    memory: MemoryAgent,
    question: str,
    gold: frozenset[str],
    origin: Mapping[str, str],
    counter: TokenCounter,
    budgets: Sequence[int],
    values: dict[str, list[float]],
) -> None:
    """Score one question at each budget."""
    ranked = [found.turn for found in await memory.fetch_long_term(question, top_k=RANKED)]
    for budget in budgets:
        began = time.perf_counter()
        context = await memory.fetch_memory(question, max_tokens=budget)
        values["fetch_s"].append(time.perf_counter() - began)
        shown = [*context.short_term, *context.preserved, *(found.turn for found in context.long_term)]
        inside = {origin[turn.id] for turn in shown}
        values[f"fetch_memory@{budget}"].append(len(gold & inside) / len(gold))
        lines = lines_until_full(ranked, usable(budget, counter), counter)
        values[f"line_by_line@{budget}"].append(len(gold & {origin[i] for i in lines}) / len(gold))
        for tier in ORDER:
            kept = sum(entry.tokens for entry in context.ledger if entry.kept and entry.tier == tier)
            values[f"{tier}@{budget}"].append(kept / max(context.tokens, 1))
        window = [turn.seq for turn in context.short_term]
        values["gaps"].append(any(b != a + 1 for a, b in itertools.pairwise(window)))
        values[f"tokens@{budget}"].append(context.tokens)


def lines_until_full(ranked: Sequence[Turn], room: int, counter: TokenCounter) -> list[str]:
    """Ids of the turns that fit as lines (`[2026-05-03] Ann: …`), best first, those too long passed over."""
    ids: list[str] = []
    for turn in ranked:
        line = f"[{turn.timestamp:%Y-%m-%d}] {turn.speaker or turn.role}: {turn.content}\n"
        tokens = counter.count(line)
        if tokens <= room:
            ids.append(turn.id)
            room -= tokens
    return ids


async def measure(
    service: MemoryService, corpora: Iterable[tuple[Corpus, Gold]], budgets: Sequence[int]
) -> dict[str, list[float]]:
    """Remember and ask every corpus."""
    values: dict[str, list[float]] = defaultdict(list)
    for corpus, gold in corpora:
        memory = service.agent(user_id=f"corpus-{corpus.name}", thread_id="history")
        origin = await remember(memory, corpus)
        for question in corpus.questions:
            if wanted := gold.by_question[question.id].turns:
                await ask(memory, question.text, wanted, origin, service.core.counter, budgets, values)
        say(f"{corpus.name}: {len(origin)} turns")
    return values


async def run(arguments: argparse.Namespace) -> None:
    """Open a fresh service, measure, print."""
    corpora = itertools.islice(read_with_gold(arguments.file), arguments.limit)
    async with open_service("sqlite", cache=arguments.cache, **dict(arguments.set)) as service:
        values = await measure(service, corpora, arguments.budgets)
    fetch = values.pop("fetch_s")
    report = {
        "file": arguments.file.name,
        "machine": machine(),
        "set": dict(arguments.set),
        "questions": len(fetch) // len(arguments.budgets),
        "windows_with_a_gap": int(sum(values.pop("gaps"))),
        **{name: round(float(np.mean(given)), 3) for name, given in values.items()},
        "fetch": percentiles(fetch),
    }
    print_report(report)


def main(given: Sequence[str] | None = None) -> None:
    """Parse the command line and run."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("file", type=Path, help="a recall set: JSON lines, or the same packed as .xz")
    parser.add_argument("--limit", type=int, help="only the first so many corpora")
    parser.add_argument("--budgets", type=int, nargs="+", default=BUDGETS)
    setting_option(parser)
    cache_option(parser)
    asyncio.run(run(parser.parse_args(given)))


if __name__ == "__main__":
    main()
