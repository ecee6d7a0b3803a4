"""A service for many users: repeated requests, one user's threads together, and forgetting with a receipt.

python examples/many_users.py [FOLDER]
"""

import asyncio
import sys
import tempfile

from memory_agent import MemoryConfig, MemoryService


async def main(folder: str) -> None:
    cfg = MemoryConfig(data_dir=folder, mongo_uri=None, chroma_host=None)
    async with MemoryService(cfg) as service:
        work = service.agent(user_id="ada", thread_id="work")
        home = service.agent(user_id="ada", thread_id="home")
        other = service.agent(user_id="ben", thread_id="work")

        # A client that got no answer sends its request again, under the same key: nothing is stored twice.
        first = await work.update_memory("The audit is on Monday.", "Good luck!", idempotency_key="request-1")
        again = await work.update_memory("The audit is on Monday.", "Good luck!", idempotency_key="request-1")
        print("stored once:", first == again)

        await home.update_memory("The plumber comes on Tuesday.", "At what time?")
        await other.update_memory("The audit was cancelled.", "What a relief.")
        await service.settle()

        found = await work.fetch_long_term("When is the audit, and when comes the plumber?")
        print("ada, all threads:", sorted({recollection.turn.thread_id for recollection in found}))
        print("ben:", [turn.content for turn in await other.fetch_short_term()])

        receipt = await service.forget_user("ada")
        print("forgotten turns:", receipt.turns)
        print(
            "ada has left:", len(await work.fetch_short_term()), "ben:", len(await other.fetch_short_term())
        )


if __name__ == "__main__":
    if len(sys.argv) > 1:
        asyncio.run(main(sys.argv[1]))
    else:
        with tempfile.TemporaryDirectory() as temporary:
            asyncio.run(main(temporary))
