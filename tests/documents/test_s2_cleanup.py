"""S2: facts looked up by hand, in MongoDB too; and old conversations cleaned up, of which the facts stay."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from chromadb import HttpClient

from memory_agent import InvalidInput, MemoryService
from tests.documents.conftest import Servers
from tests.documents.frame import says

DEVELOPER = {"name": "John", "occupation": "developer"}


@says("S2", 'result = await extract_facts("User: I\'m John, a developer")')
@says("S2", 'print(result)  # Should show {"name": "John", "occupation": "developer"}')
@says("S2", "new_facts = await extract_facts(memory_text)")
async def test_what_would_be_noted_of_a_text_is_told_and_not_stored(service: MemoryService) -> None:
    memory = service.agent("nobody yet", "t")
    for text in (
        "User: I'm John, a developer",
        "User: I'm John, a developer\nAssistant: Hello John, I'm Eve, a nurse.",
        'user: "I\'m John, a developer"\n\nAssistant: "Hello!"\nUser: Thanks.',
        "I'm John, a developer",
    ):
        assert await memory.extract_facts(text) == DEVELOPER
    for text in (
        "Assistant: I'm John, a developer",
        "User: What is a developer?",
        "User:",
        "Hello: I'm John",
    ):
        assert await memory.extract_facts(text) == {}
    with pytest.raises(InvalidInput, match="text is empty"):
        await memory.extract_facts("")
    assert await memory.fetch_facts() == {}
    assert await service.core.store.thread_ids(memory.scope, limit=5) == []


@says("S2", "**Cause:** Extraction disabled or no clear facts in conversation")
async def test_facts_that_are_still_to_come_are_counted(service: MemoryService) -> None:
    """Right after an update nothing may be known yet; how many messages are still to be read says so."""
    memory = service.agent("counted", "t")
    await service.pause_worker()
    await memory.update_memory("I'm John, a developer", "Hello!")
    facts = await memory.fetch_facts()
    assert (facts, facts.pending) == ({}, 1)
    await service.resume_worker()
    await memory.settle(timeout=60)
    facts = await memory.fetch_facts()
    assert (facts, facts.pending) == (DEVELOPER, 0)


@says("S2", "**Key-value pairs** for easy lookup")
async def test_mongodb_shows_the_document_that_fetch_facts_returns(servers: Servers) -> None:
    """To whoever has PyMongo and the document alone: by a fact, by the thread, with dates; of several people by name."""
    facts = servers.database.facts
    memory = servers.service.agent("by hand", "thread_abc")
    before = datetime.now(UTC) - timedelta(seconds=1)
    await memory.update_memory("I'm John, a developer", "Hello!")
    await memory.settle(timeout=60)
    found: Any = facts.find_one({"facts.name": "John", "user_id": "by hand"})
    assert found["facts"] == await memory.fetch_facts(scope="thread") == DEVELOPER
    assert (found["user_id"], found["thread_id"]) == ("by hand", "thread_abc")
    assert before < found["created_at"] == found["updated_at"] < datetime.now(UTC)
    await memory.update_memory("My timezone is CET.", "Noted.")
    await memory.update_memory("I work as a nurse.", "Noted.", speaker="Dr. $Bo")
    await memory.settle(timeout=60)
    again: Any = facts.find_one({"user_id": "by hand", "thread_id": "thread_abc"})
    assert (again["_id"], again["created_at"]) == (found["_id"], found["created_at"])
    assert again["updated_at"] > found["updated_at"]
    assert again["facts"] == {"user": DEVELOPER | {"timezone": "CET"}, "Dr%2E $Bo": {"occupation": "nurse"}}
    assert facts.find_one({"facts.Dr%2E $Bo.occupation": "nurse"}, {"_id": 1}) == {"_id": found["_id"]}
    assert ["user_id", "thread_id"] in [list(dict(one["key"])) for one in facts.index_information().values()]


@says("S2", "# Delete old memories (e.g., >90 days)", "conversations_col.delete_many({", better="s2-cleanup")
async def test_old_conversations_go_and_facts_stay(servers: Servers) -> None:
    """From MongoDB and Chroma alike, as its dry run says; what was said since stays where it is."""
    memory = servers.service.agent("cleaned", "thread_abc")
    cutoff = datetime.now(UTC) - timedelta(days=90)
    await memory.update_memory("I'm John, a developer", "Hello!", timestamp=cutoff - timedelta(days=1))
    await memory.update_memory("I live in Lisbon.", "Lovely.", timestamp=cutoff + timedelta(days=1))
    await memory.settle(timeout=60)
    known = DEVELOPER | {"location": "Lisbon"}
    planned: list[Any] = []
    done: list[Any] = []
    await servers.service.sweep(retention_days=90, dry_run=True, each=planned.append)
    report = await servers.service.sweep(retention_days=90, each=done.append)
    assert planned == done
    assert (report.forgotten, report.forget_facts) == (2, False)
    turns = servers.database.turns
    assert turns.count_documents({"user_id": "cleaned", "timestamp": {"$lt": cutoff}}) == 0
    assert [turn.content for turn in (await memory.history()).turns] == ["I live in Lisbon.", "Lovely."]
    gone = {action.turn_id for action in done}
    client = HttpClient(host=servers.cfg.chroma_host or "", port=servers.cfg.chroma_port)
    held = [
        client.get_collection(one.name).get(where={"user_id": "cleaned"})["ids"]
        for one in client.list_collections()
    ]
    assert gone.isdisjoint(one for ids in held for one in ids)
    assert await memory.fetch_facts() == known
    found: Any = servers.database.facts.find_one({"user_id": "cleaned"})
    assert found["facts"] == known
    events = str(list(servers.database.fact_events.find({"user_id": "cleaned"})))
    assert "a developer" not in events
    assert "I live in Lisbon" in events
