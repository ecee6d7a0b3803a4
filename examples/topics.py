"""Topics: a conversation that goes from one subject to another and back, compressed and still whole.

python examples/topics.py [FOLDER]
"""

import asyncio
import sys
import tempfile

from memory_agent import MemoryConfig, MemoryService

TALK = [
    (
        "I want to plan a trip to Lisbon in May. Which sights in Lisbon should I see?",
        "The castle and the tile museum.",
    ),
    ("Which hotels near the castle in Lisbon are good for our trip?", "The Solar has a view of the river."),
    ("Yes, that one.", "It has rooms from the 3rd to the 9th of May, at 120 euros a night."),
    ("How long is the train ride from Lisbon to Porto on our trip?", "Three hours."),
    ("My sourdough bread doesn't rise, what is wrong with my sourdough starter?", "It may be too cold."),
    ("How warm should the sourdough dough be while the bread proofs?", "About 26 degrees."),
    ("Back to our trip to Lisbon in May: which sights and hotels did we say?", "The castle, and the Solar."),
]


async def main(folder: str) -> None:
    # Small limits, so that so short a talk has something to compress.
    cfg = MemoryConfig(data_dir=folder, max_messages_per_topic=6, recent_message_keep=2)
    async with MemoryService(cfg) as service:
        memory = service.agent(user_id="ada", thread_id="chat")
        for question, reply in TALK:
            receipt = await memory.update_memory(question, reply)
            topic = await memory.turn_topic(receipt.turn_ids[0])  # waits until the worker knows
            print(f"{question[:60]:<60} -> {topic.opener[:40] if topic else '-'}")
        await memory.settle()

        print()
        for topic in await memory.topics():
            print(
                f"{topic.topic_title[:40]}: {topic.active_messages} active, {topic.compressed_messages} compressed"
            )

        print("\nWhat a model would get to go on with the current topic:")
        for message in await memory.topic_context():
            print(f"  {message['role']}: {message['content']}")

        history = await memory.topic_history()
        print(f"\nAll {len(history)} turns of it, word for word, the first: {history[0]['content']}")

        planned = await service.sweep(dry_run=True)  # what a nightly sweep would let go: nothing yet
        print(f"a sweep would archive {planned.archived} of {planned.topics} topics")


if __name__ == "__main__":
    if len(sys.argv) > 1:
        asyncio.run(main(sys.argv[1]))
    else:
        with tempfile.TemporaryDirectory() as scratch:
            asyncio.run(main(scratch))
