"""S2, Memory System: what lies in ChromaDB, looked at with its own client, as the document's reader would."""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import chromadb
import pytest
import pytest_asyncio

from memory_agent import MemoryAgent, MemoryConfig, MemoryService
from memory_agent.models.local.embedder import LocalEmbedder
from tests.documents.conftest import Servers
from tests.documents.frame import says
from tests.servers.chroma import ChromaProcess
from tests.servers.mongod import Mongod

TALK = [
    ("We fly to Lisbon for our vacation in May.", "Lovely, the trams are great fun."),
    ("I want to see the ocean there.", "Cascais has fine beaches."),
    *(
        (f"Ticket {number} of the billing service is about invoices.", f"I noted ticket {number}.")
        for number in range(18)
    ),
]


class Looked:
    """What twenty exchanges left in Chroma, by its own client."""

    def __init__(self, client: Any, cfg: MemoryConfig, turns: list[Any]) -> None:
        self.client, self.cfg, self.turns = client, cfg, turns

    @property
    def collection(self) -> Any:
        named = f"{self.cfg.memory_collection_prefix}_"
        [found] = [each for each in self.client.list_collections() if each.name.startswith(named)]
        return found


async def twenty_exchanges(cfg: MemoryConfig, embedder: LocalEmbedder) -> list[Any]:
    async with MemoryService(cfg, embedder=embedder) as service:
        memory: MemoryAgent = service.agent("user_123", "thread_abc")
        for said, answered in TALK:
            await memory.update_memory(said, answered)
        await memory.settle(60)
        assert (await memory.status()).vectors_missing == 0
        return list(await service.core.store.list_turns(memory.scope))


@pytest_asyncio.fixture(scope="module", loop_scope="module", params=["server", "folder"])
async def looked(
    request: pytest.FixtureRequest,
    tmp_path_factory: pytest.TempPathFactory,
    shared_embedder: LocalEmbedder,
) -> AsyncIterator[Looked]:
    """MongoDB with a Chroma server, and one machine with a folder of Chroma's."""
    data: Path = tmp_path_factory.mktemp("s2")
    if request.param == "folder":
        cfg = MemoryConfig(data_dir=data, chroma_db_dir=data / "chroma_db", chroma_documents=True)
        turns = await twenty_exchanges(cfg, shared_embedder)
        client: Any = chromadb.PersistentClient(data / "chroma_db")
        yield Looked(client, cfg, turns)
        client.close()
    else:
        mongod: Mongod = request.getfixturevalue("mongod")
        server: ChromaProcess = request.getfixturevalue("chroma_server")
        cfg = MemoryConfig(
            data_dir=data,
            mongo_uri=mongod.uri,
            db_name=f"t{uuid.uuid4().hex[:8]}",
            chroma_host=server.host,
            chroma_port=server.port,
            memory_collection_prefix=f"t{uuid.uuid4().hex[:8]}",
        )
        turns = await twenty_exchanges(cfg, shared_embedder)
        with server.client() as client:
            yield Looked(client, cfg, turns)


module = pytest.mark.asyncio(loop_scope="module")


@module
@says(
    "S2", "Save --> Embed[Generate Embedding<br/>Sentence Transformer]", '"embedding": [0.123, -0.456, ...]'
)
@says("S2", "embedding = model.encode(text)", '"timestamp": timestamp.isoformat(),')
@says("S2", 'metadatas={"timestamp": "2024-10-28"', '"timestamp": "2024-10-28T14:30:00Z",')
@says("S2", "**Collection naming:**", better="s2-chroma-names")
@says("S2", 'ids=[f"mem_', '"id": "mem_', better="s2-chroma-ids")
@says("S2", "documents=[memory_text]", '"document": "User: ', better="s2-chroma-documents")
@says("S2", "chroma_db_dir: str", better="s2-chroma-folder")
async def test_every_turn_has_its_embedding_in_chroma(looked: Looked) -> None:
    found = looked.collection.get(include=["embeddings", "metadatas", "documents"])
    by_id = dict(zip(found["ids"], found["metadatas"], strict=True))
    assert by_id.keys() == {turn.id for turn in looked.turns}
    assert len(by_id) == 2 * len(TALK)
    assert {len(vector) for vector in found["embeddings"]} == {384}
    for turn in looked.turns:
        said = by_id[turn.id]
        assert (said["user_id"], said["thread_id"], said["role"]) == ("user_123", "thread_abc", turn.role)
        assert datetime.fromisoformat(said["timestamp"]) == turn.timestamp.astimezone(UTC)
        assert said["epoch"] == pytest.approx(turn.timestamp.timestamp())
    texts = {turn.content for turn in looked.turns} if looked.cfg.chroma_documents else {None}
    assert set(found["documents"]) == texts


@module
@says("S2", 'where={"user_id": "user_123"}')
async def test_similar_conversations_are_found_by_the_documents_own_query(
    looked: Looked, shared_embedder: LocalEmbedder
) -> None:
    question = (await shared_embedder.embed(["What did I say about my vacation?"], purpose="query"))[0]
    asked: dict[str, Any] = {"query_embeddings": [question.tolist()], "n_results": 5}
    [ids] = looked.collection.query(**asked, where={"user_id": "user_123"})["ids"]
    by_id = {turn.id: turn.content for turn in looked.turns}
    assert TALK[0][0] in [by_id[turn_id] for turn_id in ids]
    assert looked.collection.query(**asked, where={"user_id": "somebody else"})["ids"] == [[]]


@module
@says("S2", 'where={"timestamp": {"$lt"', better="s2-chroma-cleanup")
async def test_old_ones_are_found_by_a_number(looked: Looked) -> None:
    """Chroma compares numbers alone by more and less, so it refuses the document's condition."""
    cutoff = datetime.now(UTC) - timedelta(days=90)
    where = {"epoch": {"$lt": cutoff.timestamp()}}
    assert looked.collection.get(where=where)["ids"] == []
    later = {"epoch": {"$lt": (datetime.now(UTC) + timedelta(days=1)).timestamp()}}
    assert len(looked.collection.get(where=later)["ids"]) == len(looked.turns)
    with pytest.raises(ValueError, match=r"int or a float"):
        looked.collection.get(where={"timestamp": {"$lt": cutoff.isoformat()}})


@says("S2", "# Delete old memories (e.g., >90 days)", "conversations_col.delete_many({", better="s2-cleanup")
async def test_old_memories_are_deleted_from_mongodb_and_from_chroma(servers: Servers) -> None:
    async with servers.another(retention_days=90) as service:
        memory = service.agent("old", "chat")
        long_ago = datetime.now(UTC) - timedelta(days=100)
        [gone] = await memory.add_turns(
            [{"role": "user", "content": "I rent a flat.", "timestamp": long_ago}]
        )
        [kept] = await memory.add_turns([{"role": "user", "content": "I own a house."}])
        await memory.settle(60)
        assert await service.core.vectors.turn_ids("old") == {gone.id, kept.id}
        told = await service.sweep(dry_run=True)
        assert (told.forgotten, await service.core.vectors.turn_ids("old")) == (1, {gone.id, kept.id})
        assert (await service.sweep()).forgotten == 1
        assert await service.core.vectors.turn_ids("old") == {kept.id}
        said = {"content": {"$in": [gone.content, kept.content]}}
        assert [turn["_id"] for turn in servers.database["turns"].find(said)] == [kept.id]


@says("S2", "- ChromaDB add: 15-25ms", better="s2-chroma-add")
async def test_nobody_waits_for_chroma(servers: Servers) -> None:
    """An exchange is acknowledged, and found by its words, while nothing works on it."""
    await servers.service.pause_worker()
    memory = servers.service.agent("quick", "chat")
    await memory.update_memory("My boat is called Ada.", "A fine name.")
    assert await servers.service.core.vectors.turn_ids("quick") == set()
    assert (await memory.fetch_long_term("What is my boat called?"))[0].text == "My boat is called Ada."
    await servers.service.resume_worker()
    await memory.settle(60)
    assert len(await servers.service.core.vectors.turn_ids("quick")) == 2
