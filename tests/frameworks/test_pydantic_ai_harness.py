"""The harness' notebook over a memory: the rules of its own store on both, and an agent that keeps notes."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any

import pytest
from openai import AsyncOpenAI
from pydantic_ai import Agent
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.openai import OpenAIProvider
from pydantic_ai_harness.memory import (
    InMemoryStore,
    Memory,
    MemoryConflictError,
    MemoryOperation,
    MemoryOperationConflictError,
    MemoryStore,
)

from memory_agent.integrations.memory_files import text_of
from memory_agent.integrations.pydantic_ai_harness import HarnessMemoryStore
from tests.frameworks.pages import calling, sent_to
from tests.over_http import both_ways_by_day, embedded_only

if TYPE_CHECKING:
    from memory_agent import MemoryService
    from tests.servers.openai_script import ScriptedOpenAI

pytestmark = pytest.mark.usefixtures("both_ways")
FIRST = MemoryOperation(id="1", fingerprint="a")
MANY = 10_000
RULES = embedded_only("theirs knows no HTTP")


@pytest.fixture(params=["theirs", "ours"])
def store(request: pytest.FixtureRequest, service: MemoryService) -> MemoryStore:
    return InMemoryStore() if request.param == "theirs" else HarnessMemoryStore(service, "ada")


@RULES
async def test_a_version_is_replaced_by_whoever_knows_it(store: MemoryStore) -> None:
    assert await store.read("a/MEMORY.md", max_chars=MANY) is None
    new = await store.write("a/MEMORY.md", "first ü", expected_version=None)
    assert (new.replayed, new.existed) == (False, False)
    with pytest.raises(MemoryConflictError):
        await store.write("a/MEMORY.md", "lost", expected_version=None)
    edited = await store.write("a/MEMORY.md", "second", expected_version=new.version)
    assert edited.existed
    with pytest.raises(MemoryConflictError):
        await store.delete("a/MEMORY.md", expected_version=new.version)
    file = await store.read("a/MEMORY.md", max_chars=3)
    assert file is not None
    assert (file.content, file.truncated, file.version) == ("sec", True, edited.version)
    gone = await store.delete("a/MEMORY.md", expected_version=edited.version)
    assert (gone.version, gone.existed) == (None, True)
    assert await store.read("a/MEMORY.md", max_chars=MANY) is None
    assert not (await store.delete("a/MEMORY.md", expected_version=None)).existed
    again = await store.write("a/MEMORY.md", "third", expected_version=None)
    assert again.version not in (new.version, edited.version)


@RULES
async def test_an_operation_that_is_called_again_changes_nothing(store: MemoryStore) -> None:
    assert await store.get_operation(FIRST) is None
    made = await store.write("a/b.md", "first", expected_version=None, operation=FIRST)
    await store.write("a/b.md", "second", expected_version=made.version)
    repeated = await store.write("a/b.md", "first", expected_version=None, operation=FIRST)
    assert repeated == await store.get_operation(FIRST)
    assert (repeated.version, repeated.replayed, repeated.existed) == (made.version, True, False)
    file = await store.read("a/b.md", max_chars=MANY)
    assert file is not None
    assert (file.content, file.operation_id) == ("second", None)
    deleted = MemoryOperation(id="2", fingerprint="b")
    await store.delete("a/b.md", expected_version=file.version, operation=deleted)
    assert (await store.delete("a/b.md", expected_version=file.version, operation=deleted)).existed
    with pytest.raises(MemoryOperationConflictError):
        await store.get_operation(MemoryOperation(id="1", fingerprint="other"))


@RULES
async def test_of_several_that_write_at_once_one_wins(store: MemoryStore) -> None:
    writes = (store.write("a/b.md", f"{n}", expected_version=None) for n in range(5))
    done = await asyncio.gather(*writes, return_exceptions=True)
    (won,) = (each for each in done if not isinstance(each, BaseException))
    assert [type(each) for each in done].count(MemoryConflictError) == 4
    file = await store.read("a/b.md", max_chars=MANY)
    assert file is not None
    assert file.version == won.version


@RULES
async def test_paths_are_listed_by_their_beginning_in_order_and_checked(store: MemoryStore) -> None:
    for path in ("b/x_.md", "a/y.md", "a/x.md", "ab/x.md", "a/sub/z.md"):
        await store.write(path, "x", expected_version=None)
    assert await store.list_paths("a/", limit=MANY) == ["a/sub/z.md", "a/x.md", "a/y.md"]
    assert await store.list_paths("a", limit=3) == ["a/sub/z.md", "a/x.md", "a/y.md"]
    assert len(await store.list_paths(limit=MANY)) == 5
    for path in ("a/../b.md", "/a.md", "a//b", "./a"):
        with pytest.raises(ValueError, match="path"):
            await store.write(path, "x", expected_version=None)


async def test_a_write_that_was_cut_short_before_its_receipt_is_known_again(service: MemoryService) -> None:
    store = HarnessMemoryStore(service, "ada")
    made = await store.write("a/b.md", "first", expected_version=None, operation=FIRST)
    await service.agent("ada", "/memory-operations").clear()
    repeated = await store.write("a/b.md", "first", expected_version=None, operation=FIRST)
    assert repeated.version == made.version
    assert [each.text for each in await store.files.versions("/memories/a/b.md")] == ["first"]
    assert await store.get_operation(FIRST) is not None


@both_ways_by_day
async def test_a_deletion_that_was_cut_short_erases_when_it_is_repeated(service: MemoryService) -> None:
    store, path = HarnessMemoryStore(service, "ada"), "/memories/a/b.md"
    await store.write("a/b.md", "first", expected_version=None)
    newest = await store.files.newest(path)
    assert newest is not None
    await store.files.append(path, [None], newest, metadata={"existed": True, "operation": FIRST.id})
    await store.delete("a/b.md", expected_version=newest.id, operation=FIRST)
    assert [text_of(turn) async for turn in store.files._history(path)] == [None]


@both_ways_by_day
async def test_a_note_of_one_run_is_shown_to_the_next_one_and_to_nobody_else(
    service: MemoryService, openai_server: ScriptedOpenAI
) -> None:
    async def run(user: str, text: str) -> Any:
        async with AsyncOpenAI(base_url=openai_server.base_url, api_key="none", max_retries=0) as client:
            model = OpenAIChatModel("scripted", provider=OpenAIProvider(openai_client=client))
            return await Agent(model, capabilities=[Memory(HarnessMemoryStore(service, user))]).run(text)

    note = json.dumps({"content": "Ida lives in Lisbon."})
    openai_server.then(calling("write_memory", note), "Noted.", "In Lisbon.", "Who?")
    for user, text in (("ada", "My sister moved."), ("ada", "Where is she?"), ("eve", "Where is she?")):
        await run(user, text)
    *_, ada, eve = sent_to(openai_server)
    assert "Ida lives in Lisbon." in ada
    assert "Lisbon" not in eve
