"""S2, Memory System: what its reader finds in MongoDB and ChromaDB with their own clients, by the document alone."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from pymongo import MongoClient

from memory_agent import MemoryAgent, MemoryConfig, MemoryService
from memory_agent.models.local.embedder import LocalEmbedder
from tests.documents.frame import says
from tests.servers.chroma import ChromaProcess
from tests.servers.mongod import Mongod

JOHN = "I'm John, I work as a software engineer. I prefer morning meetings."


@says(
    "S2",
    '"thread_id": "thread_abc",',
    '"occupation": "Software Engineer",',
    "**MongoDB** structured documents",
)
@says(
    "S2", "user_facts.createIndex({", "existing = facts_col.find_one({", "**Key-value pairs** for easy lookup"
)
@says("S2", '"created_at": timestamp,', '"updated_at": "2024-10-28T14:30:00Z"')
@says("S2", "**2. user_facts** - Extracted facts", better="s2-facts")
async def test_mongodb_holds_the_conversation_and_the_facts_in_plain_documents(
    mongod: Mongod, fresh_db_name: str, tmp_path: Path
) -> None:
    """Also after an old conversation was deleted there by hand: what is gone from MongoDB is recalled no more."""
    cfg = MemoryConfig(mongo_uri=mongod.uri, db_name=fresh_db_name, data_dir=tmp_path)
    memory = MemoryAgent(user_id="user_123", thread_id="thread_abc", cfg=cfg)
    old = datetime.now(UTC) - timedelta(days=100)
    async with memory:
        await memory.update_memory("The ferry to Texel was late.", "What a pity.", timestamp=old)
        await memory.update_memory(JOHN, "Nice to meet you, John!")
        await memory.settle()
        with MongoClient[dict[str, Any]](mongod.uri, tz_aware=True) as client:
            database = client[fresh_db_name]
            said = list(
                database.turns.find({"user_id": "user_123", "thread_id": "thread_abc"}).sort("timestamp", 1)
            )
            assert [(one["role"], one["content"]) for one in said[2:]] == [
                ("user", JOHN),
                ("assistant", "Nice to meet you, John!"),
            ]

            facts = database.facts.find_one({"user_id": "user_123", "thread_id": "thread_abc"})
            assert facts is not None
            assert facts["facts"]["name"] == "John"
            assert facts["facts"]["occupation"] == "software engineer"
            assert "morning" in facts["facts"]["preferences"]["meeting_time"]
            assert facts["created_at"] <= facts["updated_at"] <= datetime.now(UTC)
            assert database.facts.find_one({"facts.name": "John"}) == facts
            keys = [one["key"] for one in database.facts.index_information().values()]
            assert [("user_id", 1), ("thread_id", 1)] in keys

            cutoff = datetime.now(UTC) - timedelta(days=90)
            assert database.turns.delete_many({"timestamp": {"$lt": cutoff}}).deleted_count == 2
            assert database.facts.find_one({"facts.name": "John"}) == facts
        assert not any("Texel" in found.text for found in await memory.fetch_long_term("Was the ferry late?"))


@says("S2", "**Semantic search** - ChromaDB", "MongoDB for structured data, ChromaDB for embeddings")
@says("S2", "**ChromaDB** vector database", "LTM->>Chroma: Add vector", "Store in ChromaDB<br/>Long-term")
@says("S2", "LTM[Long-Term Memory<br/>Semantic embeddings<br/>ChromaDB]")
async def test_chroma_answers_the_question_about_the_vacation_by_ids_of_mongodb(
    mongod: Mongod,
    chroma_server: ChromaProcess,
    fresh_db_name: str,
    tmp_path: Path,
    shared_embedder: LocalEmbedder,
) -> None:
    cfg = MemoryConfig(
        mongo_uri=mongod.uri,
        db_name=fresh_db_name,
        data_dir=tmp_path,
        chroma_host=chroma_server.host,
        chroma_port=chroma_server.port,
        memory_collection_prefix=fresh_db_name[:20],
    )
    async with MemoryService(cfg, embedder=shared_embedder) as service:
        for user in ("user_123", "somebody_else"):
            memory = service.agent(user_id=user, thread_id="thread_abc")
            await memory.update_memory(
                "For my vacation I'd love to go to Lisbon in May.", "Lisbon sounds lovely."
            )
            for what in ("printer", "invoice", "kettle", "window"):
                await memory.update_memory(f"The {what} is broken again.", f"Shall I order a new {what}?")
            await memory.settle()
    (embedding,) = await shared_embedder.embed(["What did I say about my vacation?"], purpose="query")
    with chroma_server.client() as chroma, MongoClient[dict[str, Any]](mongod.uri) as mongo:
        found: list[tuple[str, Any]] = []
        for collection in chroma.list_collections():
            if collection.name.startswith(cfg.memory_collection_prefix):
                results = collection.query(
                    query_embeddings=[embedding.tolist()], n_results=5, where={"user_id": "user_123"}
                )
                found += zip(results["ids"][0], results["metadatas"][0], strict=True)
        assert len(found) == 5
        assert {said["thread_id"] for _, said in found} == {"thread_abc"}
        best = mongo[fresh_db_name].turns.find_one({"_id": found[0][0]})
        assert best is not None
        assert (best["user_id"], best["content"]) == (
            "user_123",
            "For my vacation I'd love to go to Lisbon in May.",
        )
