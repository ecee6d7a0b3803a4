"""Write the fixture of a released version: `PYTHONPATH=<its source> python tests/released/write.py FOLDER MONGO_URI`.

Run once for each release, by that release's own code. FOLDER gets the SQLite files and the collections of MongoDB as
lines of extended JSON, each packed by xz, and `known.json`: what that version knew through its public calls.
"""

from __future__ import annotations

import asyncio
import json
import lzma
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

DB_NAME = "released"
QUESTIONS = (
    "Where do I work now?",
    "What is my dog called?",
    "Wie heißt mein Hund?",
    "Which train did I miss?",
)
SAID = {
    ("ada", "home"): [
        ("My name is Ada and I live in Lisbon.", "Nice to meet you, Ada."),
        ("I work at the Harbour Library as an archivist.", "That sounds quiet."),
        ("My dog is called Turnip. He is afraid of umbrellas.", "Poor Turnip."),
        ("I love figs, and I hate coriander.", "No coriander, then."),
        ("I missed the 7:40 train to Porto on Monday.", "Did you get the next one?"),
        ("Yes, at 8:10, and I wrote 「図書館」 on the parcel.", "Good."),
        ("I moved to Coimbra last week.", "How is the new flat?"),
        ("The flat has a green door and three windows.", "Lovely."),
    ],
    ("ada", "work"): [
        ("I now work at the City Archive.", "Congratulations on the new job!"),
        ("def shelf(n): return n * 3", "That multiplies by three."),
        ("The inventory lists 412 maps, 90 of them of rivers.", "Which rivers?"),
        ("Mostly the Mondego and the Tejo.", "I see."),
    ],
    ("ben", "chat"): [
        ("I'm Ben. I live in Oslo and I like ice swimming.", "Brave!"),
        ("제 개 이름은 보리예요.", "귀여운 이름이네요."),
        ("My sister is called Runa.", "Noted."),
    ],
}
LONG = [(f"The box {at} holds letters of the year {1800 + at}.", f"Box {at}, noted.") for at in range(14)]
GONE = ("gus", "chat", "The secret ingredient is nutmeg from Grenada.")


async def fill(settings: dict[str, Any]) -> dict[str, Any]:
    """Say everything, and give what is known of it then."""
    from memory_agent import MemoryConfig, MemoryService

    async with MemoryService(MemoryConfig(**settings)) as service:
        for (user, thread), exchanges in SAID.items():
            agent = service.agent(user, thread)
            for at, (asked, answered) in enumerate(exchanges):
                await agent.update_memory(asked, answered, idempotency_key=f"{thread} {at}")
        boxes = service.agent("ada", "boxes", tenant="museum")
        for asked, answered in LONG:
            await boxes.update_memory(asked, answered)
        await service.agent(*GONE[:2]).update_memory(GONE[2], "I keep it.", idempotency_key="gone")
        await service.agent(*GONE[:2]).update_memory(
            "We talked about soup.", "We did.", idempotency_key="kept"
        )
        await service.settle(timeout=120)
        gus = service.agent(*GONE[:2])
        first = (await gus.fetch_short_term(limit=10))[0]
        await gus.forget([first.id])
        await service.agent("ada", "home").set_fact("likes", "olives")
        await boxes.compress()
        await service.settle(timeout=120)
        return await known(service)


async def known(service: Any) -> dict[str, Any]:
    """What there is of everybody by public calls, as JSON has it."""
    found: dict[str, Any] = {}
    for tenant in ("default", "museum"):
        for user in (await service.users(tenant=tenant)).users:
            found[f"{tenant}/{user.user_id}"] = await known_of(service, user.user_id, tenant=tenant)
    return found


async def known_of(service: Any, name: str, *, tenant: str = "default") -> dict[str, Any]:
    """What there is of a user."""
    of_user: dict[str, Any] = {"facts": {}, "turns": {}, "topics": {}, "search": {}}
    for thread in (await service.threads(name, tenant=tenant)).threads:
        agent = service.agent(name, thread.thread_id, tenant=tenant)
        turns = await agent.fetch_short_term(limit=100)
        of_user["turns"][thread.thread_id] = [[turn.id, turn.seq, turn.role, turn.content] for turn in turns]
        of_user["facts"][thread.thread_id] = await agent.fetch_facts(scope="thread")
        of_user["topics"][thread.thread_id] = len(await agent.topics())
    for question in QUESTIONS:
        hits = await service.search(name, question, 3, tenant=tenant)
        of_user["search"][question] = [hit.turn.id for hit in hits]
    return of_user


def pack(source: Path, target: Path) -> None:
    with source.open("rb") as read, lzma.open(target, "wb", preset=9) as write:
        shutil.copyfileobj(read, write)


async def main(folder: Path, mongo_uri: str) -> None:
    from bson import json_util
    from pymongo import MongoClient

    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as place:
        data = Path(place)
        of_sqlite = await fill({"data_dir": data, "db_name": DB_NAME})
        pack(data / f"{DB_NAME}.sqlite3", folder / "memory.sqlite3.xz")
        of_mongo = await fill({"data_dir": data / "other", "mongo_uri": mongo_uri, "db_name": DB_NAME})
        lines = data / "mongo.jsonl"
        database: Any = MongoClient[Any](mongo_uri)[DB_NAME]
        with lines.open("w", encoding="utf-8") as write:
            for name in sorted(database.list_collection_names()):
                for document in database[name].find():
                    write.write(json_util.dumps({"in": name, "document": document}) + "\n")
        pack(lines, folder / "mongo.jsonl.xz")
    known_file = folder / "known.json"
    known_file.write_text(
        json.dumps({"sqlite": of_sqlite, "mongodb": of_mongo}, ensure_ascii=False, indent=1) + "\n"
    )


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), sys.argv[2]))
