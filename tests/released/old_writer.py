"""A process of an earlier version: stores a turn for each line that it reads, and looks what is owed.

Prints the turn's number, how many turns the thread has, and how many threads owe the index something.
"""

from __future__ import annotations

import asyncio
import sys
from datetime import UTC, datetime
from typing import Any


async def main(kind: str, place: str, *rest: str) -> None:
    from memory_agent.domain import Scope, TurnDraft, new_id

    store: Any
    if kind == "sqlite":
        from memory_agent.stores.sqlite import SqliteStore

        store = SqliteStore(place)
    else:
        from memory_agent.stores.mongo import MongoStore

        store = MongoStore(place, rest[0], timeout_seconds=20)
    await store.open()
    scope = Scope(user_id="ada", thread_id="beside")
    print("open", flush=True)
    for line in iter(sys.stdin.readline, ""):
        now = datetime.now(UTC)
        draft = TurnDraft(
            id=new_id(),
            role="user",
            content=line.strip(),
            speaker=None,
            timestamp=now,
            tokens=1,
            importance=None,
            metadata={},
            pending=("index",),
            due_at=now,
            idempotency_key=None,
            call_index=0,
            call_size=1,
        )
        [turn] = await store.append_turns(scope, [draft])
        due = await store.due_threads(datetime.now(UTC), "index", limit=100)
        print(turn.seq, len(await store.list_turns(scope)), len(due), flush=True)
    await store.close()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
