"""One half of the demo in a process of its own: `python -m memory_agent.demo remember|answer FOLDER`.

What happens is reported as JSON lines on stdout; `memory_agent.cli.demo` shows them.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from memory_agent.config import MemoryConfig
from memory_agent.demo import THREAD_ID, TOP_K, USER_ID, conversation, questions
from memory_agent.errors import MemoryAgentError
from memory_agent.service import MemoryService

if TYPE_CHECKING:
    from memory_agent.agent.agent import MemoryAgent
    from memory_agent.demo import Question


def report(event: str, **values: Any) -> None:
    """One JSON line, at once."""
    sys.stdout.write(json.dumps({"event": event, **values}, ensure_ascii=False) + "\n")
    sys.stdout.flush()


def embedded(folder: Path) -> MemoryConfig:
    """The embedded default, whatever servers and models the environment names: the demo leaves those alone."""
    return MemoryConfig(
        data_dir=folder,
        mongo_uri=None,
        chroma_host=None,
        openai_api_key=None,
        openai_base_url=None,
        use_local_embeddings=True,
        enable_fact_extraction=True,
        run_worker=True,
    )


async def remember(folder: Path) -> None:
    """Store the conversation and wait until all of it is indexed."""
    turns = conversation()
    async with MemoryService(embedded(folder)) as service:
        agent = service.agent(user_id=USER_ID, thread_id=THREAD_ID)
        await _load(service)
        started = time.perf_counter()
        await agent.add_turns(list(turns), idempotency_key="demo")
        report("stored", turns=len(turns), seconds=time.perf_counter() - started)
        started = time.perf_counter()
        await agent.settle(progress=lambda status: report("owed", turns=status.owed_count))
        report("settled", seconds=time.perf_counter() - started)


async def answer(folder: Path) -> None:
    """Open what the other process left, and ask."""
    started = time.perf_counter()
    async with MemoryService(embedded(folder)) as service:
        agent = service.agent(user_id=USER_ID, thread_id=THREAD_ID)
        status = await agent.status()
        await _load(service)
        report("opened", turns=status.turns, seconds=time.perf_counter() - started)
        for question in questions():
            await _ask(agent, question)
        report("facts", facts=await agent.fetch_facts())
        context = await agent.fetch_memory(questions()[0].question)
        report("context", tokens=context.tokens, budget=context.budget, text=str(context))


async def _load(service: MemoryService) -> None:
    """Have the model loaded, which its first use does, to tell how long that took."""
    started = time.perf_counter()
    await service.core.embedder.embed(["Where is it?"], purpose="query")
    report("loaded", seconds=time.perf_counter() - started)


async def _ask(agent: MemoryAgent, question: Question) -> None:
    started = time.perf_counter()
    found = await agent.fetch_long_term(question.question, TOP_K)
    seconds = time.perf_counter() - started
    rank, hit = next(
        ((i, hit) for i, hit in enumerate(found, start=1) if question.expected in hit.text), (None, None)
    )
    report(
        "answer",
        **question._asdict(),
        rank=rank,
        text=hit.text if hit else None,
        timestamp=hit.turn.timestamp.isoformat() if hit else None,
        score=hit.score if hit else None,
        found_instead=None if hit else [other.text for other in found],
        seconds=seconds,
    )


def main() -> int:
    """Run the half that was asked for; 1 if it failed."""
    half, folder = sys.argv[1], Path(sys.argv[2])
    report("started", pid=os.getpid())
    try:
        asyncio.run({"remember": remember, "answer": answer}[half](folder))
    except MemoryAgentError as exc:
        report("failed", error=str(exc))
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
