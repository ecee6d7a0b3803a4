"""How long the pages at /inspect take: `python -m benchmarks.inspect_pages [--text FILE …] [--turns N] [--topics N] [--facts N]`.

Remembers a thread of so many turns in sittings of 50, with so many topics and a fact for every fifty turns, and another user of 1,000
turns and so many facts. Asks for each page again and again over HTTP, as a browser does, and prints as Markdown the time to the first byte,
p50 and p95: of looks right after a fact was set, by which what is kept of the facts counts no more, and of those with nothing new, with
their processor time, which other work on the machine leaves alone. Vectors are made up of words' (`WordVectors`), so that the time is the
store's and ours. Pages and client share a process. With `--folder` what is remembered stays there, and is found there again.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import tempfile
import time
from collections import Counter
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import httpx

from benchmarks.measure import machine, open_service, percentiles
from benchmarks.meter import say
from benchmarks.texts import made_up, text_option, texts_of
from benchmarks.word_vectors import WordVectors
from memory_agent.cli.opening import stay_long
from memory_agent.domain import FactEvent, Topic
from memory_agent.facts.order import change_of
from memory_agent.text.terms import count_terms
from tests.servers.service import served

if TYPE_CHECKING:
    from collections.abc import Sequence

    from benchmarks.texts import Texts
    from memory_agent import MemoryService
    from memory_agent.domain import Turn

BEGAN: Final = datetime(2024, 1, 1, 9, tzinfo=UTC)
SITTING: Final = 50
BATCH: Final = 1_000
EACH: Final = 50
"""Turns for a fact, of the user of many turns: 1.7 facts in 100 turns is what patterns find in LoCoMo."""
FEW: Final = 1_000
"""Turns of the user of many facts."""
OF: Final = "of/default/users/ann"
HOME: Final = f"{OF}/home"
FULL: Final = "of/default/users/full/home"
WORDS: Final = 30
"""Of a topic."""
GROUPS: Final = 100
"""Groups of facts; each fact is one of its group's."""


async def remember(service: MemoryService, user: str, texts: Texts, turns: int) -> None:
    """The turns, indexed."""
    memory = service.agent(user, "home")
    for start in range(0, turns, BATCH):
        given: list[Any] = []
        for number in range(start, min(start + BATCH, turns)):
            day, minute = divmod(number, SITTING)
            said = texts.turn(number)
            when = BEGAN + timedelta(hours=18 * day, minutes=minute)
            given.append({"role": said.role, "content": said.text, "timestamp": when})
        await memory.add_turns(given)
        await memory.settle()
        say(f"{start + len(given):,} turns")


async def put_topics(service: MemoryService, count: int, embedder: WordVectors) -> None:
    """So many topics, each of turns that follow one another."""
    memory, store = service.agent("ann", "home"), service.core.store
    turns = await store.list_turns(memory.scope)
    each = -(-len(turns) // count)
    every = [tuple(turns[start : start + each]) for start in range(0, len(turns), each)]
    for start in range(0, len(every), BATCH):
        groups = every[start : start + BATCH]
        vectors = await embedder.embed([group[0].content for group in groups], purpose="document")
        topics = [topic_of(group, vector, embedder) for group, vector in zip(groups, vectors, strict=True)]
        await store.save_topics(topics)
        await store.assign_topics(memory.scope, {turn.id: group[0].id for group in groups for turn in group})


def topic_of(turns: tuple[Turn, ...], vector: Any, embedder: WordVectors) -> Topic:
    """A topic of these turns."""
    words = dict(Counter(count_terms(" ".join(turn.content for turn in turns))).most_common(WORDS))
    return Topic(
        id=turns[0].id,
        user_id=turns[0].user_id,
        thread_id=turns[0].thread_id,
        title=", ".join(sorted(words, key=lambda word: -words[word])[:3]),
        opener=turns[0].content[:80],
        created_at=turns[0].timestamp,
        last_access=turns[-1].timestamp,
        access_count=len(turns) % 12,
        through=turns[-1].seq,
        embedding=vector,
        embedded=len(turns),
        embedder=embedder.fingerprint,
        words=dict.fromkeys(words, (1, "")),
    )


async def put_facts(service: MemoryService, user: str, count: int) -> None:
    """So many facts of the user's turns."""
    memory, store = service.agent(user, "home"), service.core.store
    turns = [turn for turn in await store.list_turns(memory.scope) if turn.role == "user"]
    each = -(-count // len(turns))
    for number, turn in enumerate(turns[: count // each]):
        events = tuple(
            FactEvent(
                op="set",
                path=(f"group_{(number * each + k) % GROUPS}", f"fact_{number * each + k}"),
                value=turn.content[k : 60 + k].strip() or "–",
                quote=turn.content[k : 60 + k].strip() or None,
                confidence=0.8,
            )
            for k in range(each)
        )
        change = change_of(turn, extractor="patterns:4", now=turn.timestamp, events=events)
        await store.append_fact_change(memory.scope, change)
    await service.core.facts.save(memory.scope)


def pages(question: str, turns: int, topic: str) -> dict[str, tuple[str, dict[str, str]]]:
    """Each page's address and what it is asked."""
    return {
        "Users": ("of/default/users", {}),
        "User": (OF, {}),
        "User, what forgetting would erase": (OF, {"forget": "1"}),
        "Ask": (f"{HOME}/ask", {"q": question}),
        "Ask, two prompts": (f"{HOME}/ask", {"q": question, "preset2": "chat"}),
        "Conversation, its beginning": (f"{HOME}/conversation", {}),
        "Conversation, its end": (f"{HOME}/conversation", {"after": str(turns - 50)}),
        "Turn": (f"{HOME}/turns/{turns // 2}", {}),
        "Facts": (f"{HOME}/facts", {}),
        "Facts, as of a year later": (f"{HOME}/facts", {"as_of": "2025-01-01T00:00"}),
        "Topics": (f"{HOME}/topics", {}),
        "Topics, one of them": (f"{HOME}/topics/{topic}", {}),
        "Topics, map": (f"{HOME}/topics", {"view": "map"}),
        "Topics, the next sweep": (f"{HOME}/topics", {"view": "sweep"}),
        "Many facts": (f"{FULL}/facts", {}),
        "Many facts, the hundredth page": (f"{FULL}/facts", {"from": "9900"}),
        "Many facts, history": (f"{FULL}/facts", {"view": "history"}),
        "Many facts, one of them": (f"{FULL}/facts", {"path": "group_1.fact_1"}),
        "Many facts, on the fifth day": (f"{FULL}/facts", {"as_of": "2024-01-05T23:59"}),
        "Many facts, conversation": (f"{FULL}/conversation", {}),
        "Many facts, a turn": (f"{FULL}/turns/7", {}),
    }


async def first_byte(http: httpx.AsyncClient, path: str, asked: dict[str, str]) -> float:
    """Seconds until the page begins."""
    began = time.perf_counter()
    async with http.stream("GET", path, params=asked) as answer:
        assert answer.status_code == 200, (path, answer.status_code, await answer.aread())
        async for _ in answer.aiter_raw():
            taken = time.perf_counter() - began
            break
    return taken


async def measured(service: MemoryService, question: str, turns: int, rounds: int) -> str:
    """The table."""
    (topic, *_) = await service.core.store.topic_heads(service.agent("ann", "home").scope)
    rows = []
    stay_long()  # as `serve` does when it begins
    async with served(service) as running:
        base = f"{running.address}/inspect/"
        async with httpx.AsyncClient(base_url=base, timeout=120) as http:
            signed = await http.post("sign-in", data={"key": await running.key()})
            assert signed.status_code == 303, signed.text
            for name, (path, asked) in pages(question, turns, topic.id).items():
                await first_byte(http, path, asked)
                memory, fresh = service.agent("full" if path.startswith(FULL) else "ann", "home"), []
                for number in range(max(rounds // 10, 2)):
                    await memory.set_fact("benchmark.round", f"{name} {number} {time.time()}")
                    fresh.append(await first_byte(http, path, asked))
                began = time.process_time()
                again = [await first_byte(http, path, asked) for _ in range(rounds)]
                each = 1_000 * (time.process_time() - began) / rounds
                shown = [figure for some in (fresh, again) for figure in percentiles(some).values()] + [each]
                rows.append(f"| {name} | " + " | ".join(f"{figure:.0f}" for figure in shown) + " |")
                say(rows[-1])
    head = "| page | after a change: p50 ms | p95 ms | again: p50 ms | p95 ms | processor ms |"
    return "\n".join([head, "|---" * 6 + "|", *rows])


async def main(options: Sequence[str] | None = None) -> None:
    """Remember, ask, print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    text_option(parser)
    for name, count in (("turns", 50_000), ("topics", 1_400), ("facts", 10_000), ("rounds", 40)):
        parser.add_argument(f"--{name}", type=int, default=count)
    parser.add_argument("--folder", type=Path, help="where what is remembered stays")
    parser.add_argument("--store", choices=("sqlite", "mongodb"), default="sqlite")
    given = parser.parse_args(options)
    texts, embedder = texts_of(parser, given.text, otherwise=made_up()), WordVectors()
    off: dict[str, Any] = {
        "enable_topics": False,
        "enable_fact_extraction": False,
        "enable_compression": False,
    }
    with contextlib.ExitStack() as stack:
        folder = given.folder or Path(stack.enter_context(tempfile.TemporaryDirectory()))
        async with open_service(given.store, embedder=embedder, folder=folder, **off) as service:
            if not (await service.users()).users:
                await remember(service, "ann", texts, given.turns)
                await put_topics(service, given.topics, embedder)
                await put_facts(service, "ann", given.turns // EACH)
                await remember(service, "full", texts, FEW)
                await put_facts(service, "full", given.facts)
            print(f"{given.turns:,} turns and {given.topics:,} topics; {given.facts:,} facts; {machine()}\n")
            print(await measured(service, texts.question(0), given.turns, given.rounds))


if __name__ == "__main__":
    asyncio.run(main())
