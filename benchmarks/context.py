"""How much of the evidence a prompt shows, and for how many tokens: `python -m benchmarks.context FILE`.

Remembers each corpus of a recall set and asks each question through `fetch_memory` at each price, without the running conversation,
which is the same for all. Prints the mean share of a question's gold turns that the context shows (a long one by a passage) and its tokens,
beside the same ranking packed line by line until as many tokens are full; the share of tokens by tier; and how many recollections small
talk gets (`SMALL_TALK`), which nothing that was said answers. `--compressed`: instead, of each corpus compressed to half of its tokens,
without a question, the share of all gold turns that stands there word for word, and with those of which a passage does.
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

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable, Mapping, Sequence

    from benchmarks.recall_sets import Corpus, Gold
    from memory_agent import MemoryAgent, MemoryService, RecallPrice, Turn
    from memory_agent.ports import TokenCounter

PRICES: Final = ("thrifty", "balanced", "thorough")
RANKED: Final = 300
NO_LIMIT_TOKENS: Final = 1_000_000
"""Of a context: no bound but half of the turns' tokens."""
SMALL_TALK: Final = (
    "Hello!",
    "Good morning",
    "How are you?",
    "thanks, that helped",
    "Great, thank you so much!",
    "Ok, perfect",
    "Sounds good",
    "Never mind",
    "Bye, see you tomorrow",
    "What's the capital of Mongolia?",
    "Who won the 2014 World Cup?",
    "What is the square root of 144?",
    "What's the boiling point of helium?",
    "How many ounces are in a stone?",
    "Which planet has the most moons?",
    "What's the difference between TCP and UDP?",
    "Write a function that reverses a string",
    "Explain photosynthesis in two sentences",
    "Translate 'good night' into Finnish",
    "Who discovered penicillin?",
    "What does the abbreviation GDP stand for?",
    "How do tides come about?",
    "In which year did the Berlin Wall fall?",
)
"""Greetings, thanks, and what anybody might ask."""


async def ask(
    memory: MemoryAgent,
    question: str,
    gold: frozenset[str],
    origin: Mapping[str, str],
    counter: TokenCounter,
    prices: Sequence[RecallPrice],
    values: dict[str, list[float]],
) -> None:
    """Score one question at each price."""
    ranked = [found.turn for found in await memory.fetch_long_term(question, top_k=RANKED)]
    for price in prices:
        began = time.perf_counter()
        context = await memory.fetch_memory(question, price=price, window=False)
        values["fetch_s"].append(time.perf_counter() - began)
        shown = [*context.preserved, *(found.turn for found in context.long_term)]
        inside = {origin[turn.id] for turn in shown}
        values[f"evidence@{price}"].append(len(gold & inside) / len(gold))
        lines = lines_until_full(ranked, context.tokens, counter)
        values[f"line_by_line@{price}"].append(len(gold & {origin[i] for i in lines}) / len(gold))
        for tier in ("facts", "long_term"):
            kept = sum(entry.tokens for entry in context.ledger if entry.kept and entry.tier == tier)
            values[f"{tier}@{price}"].append(kept / max(context.tokens, 1))
        values[f"recollections@{price}"].append(len(context.long_term))
        values[f"tokens@{price}"].append(context.tokens)


async def ask_compressed(
    memory: MemoryAgent, corpus: Corpus, gold: Gold, origin: Mapping[str, str], values: dict[str, list[float]]
) -> None:
    """Score what stands for the whole conversation by all questions about it."""
    context = await memory.session_context()
    text = " ".join(str(context).split())
    whole = {turn.id for turn in corpus.turns if " ".join(turn.text.split()) in text}
    seqs = {turn.seq: origin[turn.id] async for turn in turns_of(memory)}
    quoted = {entry.item for entry in context.ledger if entry.kept and entry.tier == "summary"}
    items = [item for at, item in enumerate(context.summary) if f"summary[{at}]" in quoted]
    shown = (*(moment.seq for moment in context.moments), *(item.first_seq for item in items))
    part = whole | {seqs[seq] for seq in shown} | {origin[turn.id] for turn in context.recent}
    for wanted in (evidence.turns for evidence in gold.by_question.values() if evidence.turns):
        values["whole"].append(len(wanted & whole) / len(wanted))
        values["in_part"].append(len(wanted & part) / len(wanted))
    values["tokens"].append(context.tokens / context.metadata.tokens_before)
    say(f"{corpus.name}: {np.mean(values['whole']):.3f} so far")


async def turns_of(memory: MemoryAgent) -> AsyncIterator[Turn]:
    """All turns of a thread."""
    after: int | None = 0
    while after is not None:
        page = await memory.history(after=after, limit=10_000)
        for turn in page.turns:
            yield turn
        after = page.next


async def chat(memory: MemoryAgent, prices: Sequence[RecallPrice], values: dict[str, list[float]]) -> None:
    """How many recollections small talk gets."""
    for price in prices:
        for text in SMALL_TALK:
            context = await memory.fetch_memory(text, price=price, window=False)
            values[f"small_talk@{price}"].append(len(context.long_term))
            values[f"small_talk_above_2@{price}"].append(len(context.long_term) > 2)


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
    service: MemoryService, corpora: Iterable[tuple[Corpus, Gold]], prices: Sequence[RecallPrice]
) -> dict[str, list[float]]:
    """Remember and ask every corpus; without prices, what it is compressed to."""
    values: dict[str, list[float]] = defaultdict(list)
    for corpus, gold in corpora:
        memory = service.agent(user_id=f"corpus-{corpus.name}", thread_id="history")
        origin = await remember(memory, corpus)
        if not prices:
            await ask_compressed(memory, corpus, gold, origin, values)
            continue
        for question in corpus.questions:
            if wanted := gold.by_question[question.id].turns:
                await ask(memory, question.text, wanted, origin, service.core.counter, prices, values)
        await chat(memory, prices, values)
        say(f"{corpus.name}: {len(origin)} turns")
    return values


async def run(arguments: argparse.Namespace) -> None:
    """Open a fresh service, measure, print."""
    corpora = itertools.islice(read_with_gold(arguments.file), arguments.limit)
    settings = dict(arguments.set)
    prices = () if arguments.compressed else arguments.prices
    if arguments.compressed:
        settings = {"enable_compression": False, "context_limit_tokens": NO_LIMIT_TOKENS, **settings}
    async with open_service("sqlite", cache=arguments.cache, **settings) as service:
        values = await measure(service, corpora, prices)
    fetch = values.pop("fetch_s", [])
    asked = {"questions": len(fetch) // len(prices), "fetch": percentiles(fetch)} if prices else {}
    means = {name: round(float(np.mean(given)), 3) for name, given in values.items()}
    about = {"file": arguments.file.name, "machine": machine(), "set": settings}
    print_report({**about, **means, **asked})


def main(given: Sequence[str] | None = None) -> None:
    """Parse the command line and run."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("file", type=Path, help="a recall set: JSON lines, or the same packed as .xz")
    parser.add_argument("--limit", type=int, help="only the first so many corpora")
    parser.add_argument(
        "--compressed", action="store_true", help="what each is compressed to, without a question"
    )
    parser.add_argument("--prices", choices=PRICES, nargs="+", default=PRICES)
    setting_option(parser)
    cache_option(parser)
    asyncio.run(run(parser.parse_args(given)))


if __name__ == "__main__":
    main()
