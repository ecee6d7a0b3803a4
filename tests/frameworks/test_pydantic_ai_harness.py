"""The harness' notebook over a memory: the rules of its own store on both, and an agent that keeps notes."""

import asyncio
import json
import re
from collections.abc import AsyncIterator
from typing import Any

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

from memory_agent import MemoryService
from memory_agent.integrations import pydantic_ai_harness
from memory_agent.integrations.memory_files import text_of
from memory_agent.integrations.pydantic_ai import MemoryCapability
from memory_agent.integrations.pydantic_ai_harness import HarnessMemoryStore, _about
from memory_agent.integrations.values import all_turns
from tests.frameworks.pages import Reader, calling, program_of, sent_to
from tests.over_http import both_ways_by_day, embedded_only
from tests.servers.openai_script import Reply, ScriptedOpenAI

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
    for path in ("a/../b.md", "/a.md", "a//b", "./a", "a..b", "a b.md", "ä.md", "a/", "x" * 201, "a\n", ""):
        with pytest.raises(ValueError, match="path"):
            await store.write(path, "x", expected_version=None)
    for asked in (store.list_paths("../", limit=1), store.list_paths(limit=0), store.read("a", max_chars=0)):
        with pytest.raises(ValueError, match=r"path|limit|max_chars"):
            await asked


async def test_files_that_the_harness_cannot_read_are_not_listed(service: MemoryService) -> None:
    store = HarnessMemoryStore(service, "ada")
    await store.files.create("/memories/main/travel notes.md", "Ida lives in Lisbon.")
    await store.write("main/x.md", "x", expected_version=None)
    assert await store.list_paths("main/", limit=1) == ["main/x.md"]
    assert await store.list_paths(limit=MANY) == ["main/x.md"]


async def test_a_write_that_was_cut_short_before_its_receipt_is_known_again(service: MemoryService) -> None:
    store = HarnessMemoryStore(service, "ada")
    made = await store.write("a/b.md", "first", expected_version=None, operation=FIRST)
    await store._receipts(FIRST).clear()
    with pytest.raises(MemoryOperationConflictError):
        await store.write("a/b.md", "x", expected_version=None, operation=MemoryOperation("1", "other"))
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
    await store.files.append(path, [None], newest, metadata={"existed": True, **_about(FIRST)})
    await store.delete("a/b.md", expected_version=newest.id, operation=FIRST)
    assert [text_of(turn) for turn in await all_turns(service.agent("ada", path))] == [None]


async def test_receipts_are_pruned_and_the_last_stay_known(
    service: MemoryService, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pydantic_ai_harness, "_RECEIPTS", 4)
    store = HarnessMemoryStore(service, "ada")
    shares: dict[str, list[MemoryOperation]] = {}
    for n in range(300):
        operation = MemoryOperation(id=f"{n}", fingerprint="a")
        shares.setdefault(store._receipts(operation).scope.thread_id or "", []).append(operation)
    assert len(shares) == 16
    done = next(iter(shares.values()))[:11]
    for operation in done:
        await store.delete("a/b.md", expected_version=None, operation=operation)
    known = [await store.get_operation(operation) is not None for operation in done]
    assert known == [False] * 4 + [True] * 7


class Notes:
    """Agents of the harness, for one user each, that keep a conversation as well where `remember`."""

    def __init__(self, service: MemoryService, client: AsyncOpenAI) -> None:
        self.service, self.model = (
            service,
            OpenAIChatModel("scripted", provider=OpenAIProvider(openai_client=client)),
        )

    async def run(self, text: str, user: str = "ada", *, remember: bool = False) -> Any:
        talk = [MemoryCapability(lambda _: self.service.agent(user, "t"))] if remember else []
        notebook: Any = Memory(HarnessMemoryStore(self.service, user))
        return await Agent(self.model, capabilities=[notebook, *talk]).run(text)


@pytest.fixture
async def notes(service: MemoryService, openai_server: ScriptedOpenAI) -> AsyncIterator[Notes]:
    async with AsyncOpenAI(base_url=openai_server.base_url, api_key="none", max_retries=0) as client:
        yield Notes(service, client)


def noting(text: str) -> Reply:
    return calling("write_memory", json.dumps({"content": text}))


async def test_a_note_of_one_run_is_shown_to_the_next_one_and_to_nobody_else(
    notes: Notes, openai_server: ScriptedOpenAI
) -> None:
    openai_server.then(noting("Ida lives in Lisbon."), "Noted.", "In Lisbon.", "Who?")
    for user, text in (("ada", "My sister moved."), ("ada", "Where is she?"), ("eve", "Where is she?")):
        await notes.run(text, user)
    *_, ada, eve = sent_to(openai_server)
    assert "Ida lives in Lisbon." in ada
    assert "Lisbon" not in eve


async def test_notes_that_are_shown_are_not_remembered_as_the_users_words_and_become_no_facts(
    service: MemoryService, notes: Notes, openai_server: ScriptedOpenAI
) -> None:
    openai_server.then(noting("My name is Ida and I live in Lisbon."), "Noted.", "It is sunny.")
    await notes.run("Note this.")
    await notes.run("How is it there?", remember=True)
    assert "Lisbon" in sent_to(openai_server)[-1]
    await service.settle()
    memory = service.agent("ada", "t")
    said = [turn.content for turn in (await memory.history()).turns]
    assert said == ["How is it there?", "It is sunny."]
    assert await memory.fetch_facts() == {}
    assert [found.text for found in await memory.fetch_long_term("Lisbon") if "Lisbon" in found.text] == []


async def test_a_run_cancelled_after_its_note_keeps_the_note_once(
    notes: Notes, openai_server: ScriptedOpenAI
) -> None:
    openai_server.then(noting("Ida lives in Lisbon."), Reply(text="late", delay_seconds=30), "In Lisbon.")
    run = asyncio.ensure_future(notes.run("My sister moved."))
    while len(openai_server.chats) < 2:
        await asyncio.sleep(0.01)
    run.cancel()
    await asyncio.gather(run, return_exceptions=True)
    await notes.run("Where is she?")
    assert sent_to(openai_server)[-1].count("Ida lives in Lisbon.") == 1


async def test_two_runs_at_once_keep_both_notes(notes: Notes, openai_server: ScriptedOpenAI) -> None:
    openai_server.then(noting("First."), noting("Second."), "Noted.", "Noted.", "Both.")
    await asyncio.gather(notes.run("Note one."), notes.run("Note two."))
    await notes.run("What is noted?")
    assert {"First.", "Second."} <= set(re.findall(r"(?:First|Second)\.", sent_to(openai_server)[-1]))


@pytest.mark.nightly  # by day test_pages
@embedded_only("the reader has both ways of its own")
async def test_the_page_runs_as_it_stands_and_the_next_process_shows_the_note(
    reader: Reader, openai_server: ScriptedOpenAI
) -> None:
    program = program_of("pydantic-ai.md", 3)
    asking = program.replace("My sister Ida lives in Lisbon. Please note that.", "Where does my sister live?")
    openai_server.then(noting("Ida lives in Lisbon."), "Noted.", "In Lisbon.", "Who?")
    answer, _, size, *files = await reader.runs(program)
    assert (answer, size) == ("Noted.", "21B\t/memories")
    assert [file.split("\t")[1] for file in files] == ["/memories/main/", "/memories/main/MEMORY.md"]
    assert (await reader.runs(asking))[0] == "In Lisbon."
    assert (await reader.runs(asking.replace('"ada"', '"eve"')))[0] == "Who?"
    told, _, ada, eve = sent_to(openai_server)
    assert told.count("Lisbon") == 1
    assert "Ida lives in Lisbon." in ada
    assert "Lisbon" not in eve
