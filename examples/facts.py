"""Facts: what is known about somebody, whose words it comes from, how to correct it and how to go back.

python examples/facts.py [FOLDER]
"""

import asyncio
import sys
import tempfile
from datetime import UTC, datetime

from memory_agent import MemoryConfig, MemoryService


async def main(folder: str) -> None:
    async with MemoryService(MemoryConfig(data_dir=folder)) as service:
        memory = service.agent(user_id="john", thread_id="chat")
        await memory.add_turns(
            [
                {
                    "role": "user",
                    "content": "I'm John, I work as a software engineer. I prefer morning meetings.",
                    "timestamp": datetime(2026, 3, 1, 10, tzinfo=UTC),
                },
                {
                    "role": "user",
                    "content": "Actually I moved to a product role.",
                    "timestamp": datetime(2026, 4, 1, 10, tzinfo=UTC),
                },
            ]
        )
        await memory.settle()  # facts are extracted in the background; without a model, by patterns

        print("known:", await memory.fetch_facts())
        in_march = await memory.fetch_facts(as_of=datetime(2026, 3, 15, tzinfo=UTC))
        print("in March:", in_march["occupation"])

        for record in await memory.fact_history("occupation"):
            ended = f"superseded by {record.superseded_by}" if record.superseded_by else "stands"
            print(f'  {record.id} {record.value}: "{record.sources[0].quote}" ({ended})')

        await memory.set_fact("preferences.meeting_time", "afternoon")  # people's word outranks extraction
        await memory.add_fact("preferences.likes", "jazz")
        print("corrected:", (await memory.fetch_facts())["preferences"])
        await memory.revert_fact("preferences.meeting_time")  # what it was before its last event
        print("reverted:", (await memory.fetch_facts())["preferences"])

        turns = await memory.reextract_facts()  # all of it extracted again, by whatever finds facts now
        await memory.settle()
        print(f"extracted again from {turns} turns:", (await memory.fetch_facts())["preferences"])


if __name__ == "__main__":
    if len(sys.argv) > 1:
        asyncio.run(main(sys.argv[1]))
    else:
        with tempfile.TemporaryDirectory() as scratch:
            asyncio.run(main(scratch))
