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
from fastapi import FastAPI
from pydantic import BaseModel, Field

from memory_agent import MemoryConfig, MemoryService, TurnInput

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

THREAD: Final = "history"
SETTLE_SECONDS: Final = 3_600
_Text = Annotated[str, Field(min_length=1)]


class Add(BaseModel):
    """What `POST /memories` is given; `timestamp` in seconds since 1970."""

    messages: list[dict[str, str]]
    user_id: _Text
    timestamp: float | None = None
    metadata: dict[str, Any] = {}


class Search(BaseModel):
    """What `POST /search` is given."""

    query: _Text
    user_id: _Text
    limit: Annotated[int, Field(ge=1, le=1_000)] = 100


def app_of(cfg: MemoryConfig) -> FastAPI:
    """The three calls over a service that is open while the application runs."""
    service = MemoryService(cfg)

    @contextlib.asynccontextmanager
    async def opened(_: FastAPI) -> AsyncIterator[None]:
        async with service:
            yield

    app = FastAPI(title="mem0's calls over memory_agent", lifespan=opened)

    @app.post("/memories")
    async def add(given: Add) -> dict[str, Any]:
        """Store the messages; they can be found when this returns."""
        at = None if given.timestamp is None else datetime.fromtimestamp(given.timestamp, UTC)
        memory = service.agent(user_id=given.user_id, thread_id=THREAD)
        said = [
            TurnInput(role=one["role"], content=one["content"], timestamp=at, metadata=given.metadata)  # type: ignore[arg-type]
            for one in given.messages
        ]
        turns = await memory.add_turns(said)
        await memory.settle(timeout=SETTLE_SECONDS)
        return {"results": [{"id": turn.id, "memory": turn.content, "event": "ADD"} for turn in turns]}

    @app.post("/search")
    async def search(given: Search) -> dict[str, Any]:
        """The best turns. The harness sorts by score once more, so a score never rises above that of a better one."""
        memory = service.agent(user_id=given.user_id, thread_id=THREAD)
        found = await memory.fetch_long_term(given.query, top_k=given.limit)
        scores = itertools.accumulate((hit.score for hit in found), min)
        return {
            "results": [
                {"id": hit.turn.id, "memory": hit.text, "score": score, "created_at": hit.turn.timestamp}
                for hit, score in zip(found, scores, strict=True)
            ]
        }

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
    uvicorn.run(
        app_of(MemoryConfig(data_dir=given.data)), host="127.0.0.1", port=given.port, log_level="warning"
    )


if __name__ == "__main__":
    main()
