"""Search: who said something, when it was, and why a turn was found.

python examples/search.py [FOLDER]
"""

import asyncio
import sys
import tempfile
from datetime import UTC, datetime

from memory_agent import MemoryConfig, MemoryService

TALK = [
    ((2023, 5, 6), "Ines", "Last weekend I ran the charity race for the animal shelter, 10 kilometres."),
    ((2023, 5, 6), "Bo", "Congratulations! My knee keeps me from running, I take photos of birds instead."),
    ((2023, 5, 20), "Ines", "I adopted a dog from the shelter, a grey whippet. Her name is Suki."),
    ((2023, 5, 20), "Bo", "A whippet! I have two cats, Oskar and Filou."),
    ((2023, 9, 2), "Bo", "I was at the shelter as well, to fetch a friend for my cats."),
    ((2023, 9, 2), "Ines", "Suki ran away during the storm, we found her in the barn."),
    ((2024, 3, 9), "Ines", "My race shoes are worn out. I want to run a half marathon in autumn."),
    ((2024, 3, 9), "Bo", "Buy the new pair a month before, not the day before."),
]
NOW = datetime(2024, 4, 2, 9, tzinfo=UTC)
QUESTIONS = [
    "What did Bo want at the shelter?",  # a person
    "What did Suki do last September?",  # a time, told from NOW
    "How far did Ines run in the race?",  # a number is asked for
]


async def main(folder: str) -> None:
    cfg = MemoryConfig(data_dir=folder, mongo_uri=None, chroma_host=None)
    async with MemoryService(cfg) as service:
        memory = service.agent(user_id="ines", thread_id="friends")
        for date, who, said in TALK:
            await memory.add_turn("user", said, speaker=who, timestamp=datetime(*date, 10, tzinfo=UTC))
        await memory.settle()

        for question in QUESTIONS:
            print(question)
            best, *_ = await memory.fetch_long_term(question, top_k=2, now=NOW)
            print(f"  {best.score:.2f}  {best.turn.timestamp:%d %B %Y}  {best.turn.speaker}: {best.text}")
            for reason in best.explanation.split("; "):
                print(f"        {reason}")
            print()
        shares = {signal: round(share, 2) for signal, share in best.why.items()}
        print(f"the last score is the sum of {shares}")


if __name__ == "__main__":
    if len(sys.argv) > 1:
        asyncio.run(main(sys.argv[1]))
    else:
        with tempfile.TemporaryDirectory() as scratch:
            asyncio.run(main(scratch))
