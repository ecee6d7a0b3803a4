"""mem0's own harness against this memory: `python -m benchmarks.mem0_server [--port 8888] [--data FOLDER]`.

Serves the three calls that mem0ai/memory-benchmarks makes of a self-hosted mem0, over a `MemoryService`. What is added is kept word
for word, a memory a message, at the time that the call names; `created_at` of what is found is that time.
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import uvicorn
from fastapi import Body, FastAPI

from memory_agent import MemoryAgent, MemoryConfig, MemoryService, TurnInput

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

SETTLE_SECONDS: Final = 3_600
Text = Annotated[str, Body(min_length=1)]
Messages = Annotated[list[dict[str, str]], Body()]
Timestamp = Annotated[float | None, Body(description="Seconds since 1970.")]
Limit = Annotated[int, Body(ge=1, le=1_000)]


def app_of(cfg: MemoryConfig) -> FastAPI:
    """The three calls over a service that is open while the application runs."""
    service = MemoryService(cfg)

    @contextlib.asynccontextmanager
    async def opened(_: FastAPI) -> AsyncIterator[None]:
        async with service:
            yield

    app = FastAPI(title="mem0's calls over memory_agent", lifespan=opened)

    def memory_of(user_id: str) -> MemoryAgent:
        return service.agent(user_id=user_id, thread_id="history")

    @app.post("/memories")
    async def add(messages: Messages, user_id: Text, timestamp: Timestamp = None) -> dict[str, Any]:
        """Store the messages; they can be found when this returns."""
        at = None if timestamp is None else datetime.fromtimestamp(timestamp, UTC)
        said: Any = [
            TurnInput(role=one["role"], content=one["content"], timestamp=at)  # checked there
            for one in messages
        ]
        memory = memory_of(user_id)
        turns = await memory.add_turns(said)
        await memory.settle(timeout=SETTLE_SECONDS)
        return {"results": [{"id": turn.id, "memory": turn.content, "event": "ADD"} for turn in turns]}

    @app.post("/search")
    async def search(query: Text, user_id: Text, limit: Limit = 100) -> dict[str, Any]:
        """The best turns. The harness sorts by score once more, so none has a higher one than a better turn."""
        found = await memory_of(user_id).fetch_long_term(query, top_k=limit)
        scores = itertools.accumulate((hit.score for hit in found), min)
        results = [
            {"id": hit.turn.id, "memory": hit.text, "score": score, "created_at": hit.turn.timestamp}
            for hit, score in zip(found, scores, strict=True)
        ]
        return {"results": results}

    @app.delete("/memories")
    async def forget(user_id: str) -> dict[str, str]:
        """Forget all of a user."""
        await service.forget_user(user_id)
        return {"message": f"forgot {user_id}"}

    return app


def main() -> None:
    """Parse the command line and serve."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument(
        "--port", type=int, default=8888, help="where the harness looks (default: %(default)s)"
    )
    parser.add_argument("--data", type=Path, default=Path("mem0-harness"), help="the memory's folder")
    given = parser.parse_args()
    app = app_of(MemoryConfig(data_dir=given.data))
    uvicorn.run(app, host="127.0.0.1", port=given.port, log_level="warning")


if __name__ == "__main__":
    main()
