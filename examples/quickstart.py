"""Remember two exchanges and get them back: everything embedded, no server, no language model.

python examples/quickstart.py [FOLDER]
"""

import asyncio
import sys
import tempfile

from memory_agent import MemoryConfig, MemoryService


async def main(folder: str) -> None:
    cfg = MemoryConfig(data_dir=folder, mongo_uri=None, chroma_host=None)
    async with MemoryService(cfg) as service:
        memory = service.agent(user_id="ada", thread_id="holidays")

        await memory.update_memory(
            "My name is Ada and I'm allergic to walnuts. In June we go to Porto Covo.",
            "Noted: no walnuts, and Porto Covo in June.",
        )
        await memory.update_memory("The ferry to Pessegueiro leaves at nine.", "I'll remind you at eight.")
        await memory.settle()

        print(await memory.fetch_memory("Where do we go on holiday?"))
        print()
        for found in await memory.fetch_long_term("What can't I eat?"):
            print(f"{found.confidence:.2f}  {found.text}")


if __name__ == "__main__":
    if len(sys.argv) > 1:
        asyncio.run(main(sys.argv[1]))
    else:
        with tempfile.TemporaryDirectory() as temporary:
            asyncio.run(main(temporary))
