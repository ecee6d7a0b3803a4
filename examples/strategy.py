"""The strategy alone: a history that the caller holds, cut down to what a model should see. No store, no model.

python examples/strategy.py
"""

import asyncio
from collections.abc import Sequence

from memory_agent.strategy import ContextStrategy, HybridMemoryStrategy

TALK: list[tuple[str, str]] = [
    ("user", "My name is Ines and I write the ferry company's timetable program."),
    ("assistant", "Hello Ines."),
    ("user", "It reads the times from a spreadsheet. The harbour office sends a new one each Monday."),
    (
        "assistant",
        "```python\ndef read_times(path: str) -> list[str]:\n    return open(path).read().split()\n```",
    ),
    ("user", "We decided to keep all times in UTC and to convert them when they are printed."),
    ("assistant", "Then the summer time of the two islands is only a matter of printing."),
    *(
        (("user", "assistant")[i % 2], f"Sailing {i // 2 + 1} is at {6 + i // 2}:15 from the old harbour.")
        for i in range(16)
    ),
]


async def show(strategy: ContextStrategy, said: Sequence[object]) -> None:
    context = await strategy.prepare_context(said, "Which time zone do we store?")
    for role, content in context:
        print(f"{role:>9}  {content}")
    print()


async def main() -> None:
    strategy = HybridMemoryStrategy(recent_messages_count=4, summarization_threshold=20)
    print(f"{len(TALK)} messages; should_summarize: {await strategy.should_summarize(TALK)}\n")
    await show(strategy, TALK)

    prepared = await strategy.prepare(TALK, "Which time zone do we store?")
    print(f"kept {prepared.kept}, {len(prepared.summarized)} summarised, {prepared.tokens} tokens\n")

    await show(HybridMemoryStrategy(max_context_tokens=70, recent_messages_count=4), TALK)


if __name__ == "__main__":
    asyncio.run(main())
