"""A talk remembered by a fresh memory, with a model at some address or without one, and what came of it."""

from __future__ import annotations

import time
from collections import Counter
from typing import TYPE_CHECKING, Any, Final

from memory_agent import MemoryConfig, MemoryService
from tests.llm.talks import Outcome, Said, judged

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from memory_agent.ports import Embedder

THREAD: Final = "talk"
FACTS_ALONE: Final[Mapping[str, Any]] = {"enable_topics": False, "enable_compression": False}
"""Settings by which a model is asked for nothing else."""


BARS: Final[Mapping[str, tuple[float, float]]] = {"qwen-1.5b": (0.75, 0.03), "qwen-0.5b": (0.45, 0.05)}
"""Of a talk's musts the least share that a model has to find, and of its must-nots the most that it may violate."""
EVERYDAY_LEAST: Final = 12
"""Of the musts of the ten everyday messages, for the larger model."""


def of_model(base_url: str, **others: Any) -> dict[str, Any]:
    """Settings that name a model's server, which answers one request after the other anyway."""
    named = {"openai_base_url": base_url, "fact_extraction_model": "local", "summary_model": "local"}
    return {**named, "llm_concurrency": 1, **others}


def drafts_of(talk: Sequence[Said]) -> dict[str, list[dict[str, Any]]]:
    """Everybody's turns for `add_turns`: each message and its reply."""
    turns: dict[str, list[dict[str, Any]]] = {}
    for said in talk:
        turns.setdefault(said.who, []).extend(
            {"role": role, "content": text, "timestamp": said.at}
            for role, text in (("user", said.text), ("assistant", said.reply))
        )
    return turns


async def remember(service: MemoryService, talk: Sequence[Said]) -> None:
    """Store everybody's talk, in one write each: what is asked of a model together depends on no clock."""
    for who, turns in drafts_of(talk).items():
        await service.agent(user_id=who, thread_id=THREAD).add_turns(turns)


async def outcome_of(service: MemoryService, talk: Sequence[Said], *, began: float) -> Outcome:
    """What is known once everybody's talk is settled."""
    documents: dict[str, dict[str, Any]] = {}
    left: Counter[str] = Counter()
    for who in dict.fromkeys(said.who for said in talk):
        memory = service.agent(user_id=who, thread_id=THREAD)
        await memory.settle()
        documents[who] = await memory.fetch_facts()
        left.update(record.refused for record in await memory.fact_history() if record.refused)
    seconds = time.perf_counter() - began
    return Outcome(documents=documents, left=left, seconds=seconds, score=judged(talk, documents))


async def run(
    talk: Sequence[Said], folder: Path, *, embedder: Embedder | None = None, **settings: Any
) -> Outcome:
    """Remember the talk and wait for its facts."""
    config = MemoryConfig(data_dir=folder, **settings)
    async with MemoryService(config, embedder=embedder) as service:
        began = time.perf_counter()
        await remember(service, talk)
        return await outcome_of(service, talk, began=began)
