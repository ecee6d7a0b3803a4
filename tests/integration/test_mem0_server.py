"""What mem0's harness asks of a self-hosted mem0, asked of this memory over HTTP as the harness does."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import pytest
import uvicorn

from benchmarks.mem0_server import app_of
from memory_agent import MemoryConfig
from memory_agent.testing import HashEmbedder


@pytest.fixture
async def http(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[httpx.AsyncClient]:
    """A client of the three calls on a free port; vectors are made of words."""
    monkeypatch.setattr("memory_agent.models.local.embedder.LocalEmbedder", lambda *_, **__: HashEmbedder())
    server = uvicorn.Server(
        uvicorn.Config(app_of(MemoryConfig(data_dir=tmp_path)), port=0, log_level="warning")
    )
    with contextlib.suppress(asyncio.CancelledError):
        running = asyncio.create_task(server.serve())
        while not server.started:
            await asyncio.sleep(0.005)
        port = server.servers[0].sockets[0].getsockname()[1]
        async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}", timeout=60) as client:
            yield client
        server.should_exit = True
        await running


async def test_what_is_added_is_found_at_its_time_best_first_and_forgotten_by_user(
    http: httpx.AsyncClient,
) -> None:
    said = {"hiking": 1683554160, "pottery": 1688342400}
    for what, timestamp in said.items():
        messages = [
            {"role": "user", "content": f"Ann: I took up {what}."},
            {"role": "assistant", "content": "Bob: Oh, nice."},
        ]
        for user in ("u1", "u2"):
            added = await http.post(
                "/memories", json={"messages": messages, "user_id": user, "timestamp": timestamp}
            )
            assert [one["event"] for one in added.raise_for_status().json()["results"]] == ["ADD", "ADD"]

    async def search(user: str, limit: int = 4) -> list[dict[str, str]]:
        asked = {"query": "Who took up pottery?", "user_id": user, "limit": limit, "top_k": limit}
        results: list[dict[str, str]] = (
            (await http.post("/search", json=asked)).raise_for_status().json()["results"]
        )
        return results

    found = await search("u1")
    assert found[0]["memory"] == "Ann: I took up pottery."
    assert found[0]["created_at"] == "2023-07-03T00:00:00Z"
    assert len({one["id"] for one in found}) == len(found)
    scores = [float(one["score"]) for one in found]
    assert scores == sorted(scores, reverse=True), "the harness sorts by score again"
    assert len(await search("u1", limit=1)) == 1
    (await http.delete("/memories", params={"user_id": "u1"})).raise_for_status()
    assert await search("u1") == []
    assert len(await search("u2")) > 0
