"""How long the pages at /inspect take: `python -m benchmarks.inspect_pages [--text FILE …] [--turns N] [--topics N] [--facts N]`.

Remembers one thread of so many turns in sittings of 50, puts so many topics and facts with it, and asks for each page again and again over
HTTP, as a browser does. Prints the time to the first byte, p50 and p95, of the first look after a fact was set (by which what
is kept of the facts counts no more) and of the later ones, as Markdown. Vectors are made up of words' (`WordVectors`), so that the time is the
store's and ours. Pages and client share a process. With `--folder` what is remembered stays there, and is found there again.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import tempfile
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import httpx

from benchmarks.measure import machine, open_service, percentiles
from benchmarks.meter import say
from benchmarks.texts import made_up, text_option, texts_of
from benchmarks.word_vectors import WordVectors
from memory_agent.domain import FactEvent, Topic
from memory_agent.facts.order import change_of
from memory_agent.text.terms import count_terms
from tests.servers.service import served

if TYPE_CHECKING:
    from benchmarks.texts import Texts
    from memory_agent import MemoryService
    from memory_agent.domain import Turn

BEGAN: Final = datetime(2024, 1, 1, 9, tzinfo=UTC)
SITTING: Final = 50
BATCH: Final = 1_000
OF: Final = "of/default/users/ann"
HOME: Final = f"{OF}/home"
GROUPS: Final = 100
"""Groups of facts; each fact is one of its group's."""


async def remember(service: MemoryService, texts: Texts, turns: int) -> None:
    """The turns, indexed."""
    memory = service.agent("ann", "home")
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
    words = count_terms(" ".join(turn.content for turn in turns))
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


async def put_facts(service: MemoryService, count: int) -> None:
    """So many facts, each of a turn of the user's."""
    memory, store = service.agent("ann", "home"), service.core.store
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
        "Facts, its last page": (f"{HOME}/facts", {"from": "9900"}),
        "Facts, history": (f"{HOME}/facts", {"view": "history"}),
        "Facts, one of them": (f"{HOME}/facts", {"path": "group_1.fact_1"}),
        "Facts, as of a year ago": (f"{HOME}/facts", {"as_of": "2025-01-01T00:00"}),
        "Topics": (f"{HOME}/topics", {}),
        "Topics, one of them": (f"{HOME}/topics/{topic}", {}),
        "Topics, map": (f"{HOME}/topics", {"view": "map"}),
        "Topics, the next sweep": (f"{HOME}/topics", {"view": "sweep"}),
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
    memory = service.agent("ann", "home")
    (topic, *_) = await service.core.store.topic_heads(memory.scope)
    rows = []
    async with served(service) as running:
        base = f"{running.address}/inspect/"
        async with httpx.AsyncClient(base_url=base, timeout=120) as http:
            signed = await http.post("sign-in", data={"key": await running.key()})
            assert signed.status_code == 303, signed.text
            for name, (path, asked) in pages(question, turns, topic.id).items():
                await first_byte(http, path, asked)
                fresh = []
                for number in range(max(rounds // 10, 2)):
                    await memory.set_fact("benchmark.round", f"{name} {number} {time.time()}")
                    fresh.append(await first_byte(http, path, asked))
                again = [await first_byte(http, path, asked) for _ in range(rounds)]
                shown = [figure for some in (fresh, again) for figure in percentiles(some).values()]
                rows.append(f"| {name} | " + " | ".join(f"{figure:.0f}" for figure in shown) + " |")
                say(rows[-1])
    head = "| page | after a change: p50 ms | p95 ms | again: p50 ms | p95 ms |"
    return "\n".join([head, "|---" * 5 + "|", *rows])


async def main() -> None:
    """Remember, ask, print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    text_option(parser)
    for name, count in (("turns", 50_000), ("topics", 1_400), ("facts", 10_000), ("rounds", 40)):
        parser.add_argument(f"--{name}", type=int, default=count)
    parser.add_argument("--folder", type=Path, help="where what is remembered stays")
    parser.add_argument("--store", choices=("sqlite", "mongodb"), default="sqlite")
    given = parser.parse_args()
    texts, embedder = texts_of(parser, given.text, otherwise=made_up()), WordVectors()
    off = {"enable_topics": False, "enable_fact_extraction": False, "enable_compression": False}
    with contextlib.ExitStack() as stack:
        folder = given.folder or Path(stack.enter_context(tempfile.TemporaryDirectory()))
        async with open_service(given.store, embedder=embedder, folder=folder, **off) as service:
            if not (await service.users()).users:
                await remember(service, texts, given.turns)
                await put_topics(service, given.topics, embedder)
                await put_facts(service, given.facts)
            print(f"{given.turns:,} turns, {given.topics:,} topics, {given.facts:,} facts; {machine()}\n")
            print(await measured(service, texts.question(0), given.turns, given.rounds))


if __name__ == "__main__":
    asyncio.run(main())
