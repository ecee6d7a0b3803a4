"""Cleaning up: conversations that are too old go, what is known from them stays, unless that is asked for as well."""

from __future__ import annotations

import shutil
from contextlib import AsyncExitStack
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from memory_agent import MemoryConfig, MemoryService
from memory_agent.cli.opening import open_or_ask, share
from memory_agent.errors import InvalidInput
from memory_agent.facts.documents import FactDocuments
from memory_agent.facts.fold import fold
from memory_agent.work.forget import remains_in
from tests.fixtures import OpenService, on_both_by_day

OLD = "I'm John, I work as a software engineer. I prefer morning meetings."
KNOWN = {"name": "John", "occupation": "software engineer", "preferences": {"meeting_time": "morning"}}


async def talk(service: MemoryService) -> None:
    """A conversation of half a year ago, and one of yesterday."""
    memory = service.agent("user_123", "thread_abc")
    now = datetime.now(UTC)
    await memory.update_memory(OLD, "Nice to meet you, John!", timestamp=now - timedelta(days=180))
    await memory.update_memory("I live in Lisbon.", "Lovely.", timestamp=now - timedelta(days=1))
    await memory.settle(timeout=60)


async def swept(service: Any, **how: Any) -> list[Any]:
    """What the sweep does, which is what its dry run says."""
    planned: list[Any] = []
    said = await service.sweep(dry_run=True, each=planned.append, **how)
    done: list[Any] = []
    report = await service.sweep(each=done.append, **how)
    assert done == planned
    assert (report.forgotten, report.forget_facts) == (said.forgotten, said.forget_facts)
    return done


@on_both_by_day
async def test_facts_outlive_the_conversations_that_they_were_stated_in(open_service: OpenService) -> None:
    """Their values stay, the words go, here and in a process that had them; edits, later turns and a new extraction go on from there."""
    async with open_service(retention_days=90) as service:
        await talk(service)
        memory, store = service.agent("user_123", "thread_abc"), service.core.store
        known = KNOWN | {"location": "Lisbon"}
        assert await memory.fetch_facts() == known
        elsewhere = FactDocuments(store)
        assert "software engineer" in str((await elsewhere.known(memory.scope)).records[1].sources[0].quote)
        document = await store.load_facts(memory.scope)
        assert [(one.deed, one.user_id) for one in await swept(service)] == [("forget", "user_123")] * 2
        assert [turn.content for turn in (await memory.history()).turns] == ["I live in Lisbon.", "Lovely."]
        assert await memory.fetch_facts() == known
        assert await store.load_facts(memory.scope) == document
        changes = await store.fact_changes(memory.scope)
        assert fold(changes) == document.facts == known
        for read in (
            memory.fact_history(),
            elsewhere.history(memory.scope),
            store.fact_changes(memory.scope),
        ):
            assert "meetings" not in str(await read)
        [name, *_] = await memory.fact_history("name")
        assert (name.sources[0].turn_id, name.sources[0].quote, name.by) == (None, None, changes[0].extractor)
        # What is known goes on: people and later turns change it, and reading all again leaves it.
        await memory.set_fact("occupation", "architect")
        await memory.update_memory("I'm allergic to peanuts.", "Noted.")
        await memory.reextract_facts()
        await memory.settle(timeout=60)
        known |= {"occupation": "architect", "allergies": ["peanuts"]}
        assert await memory.fetch_facts() == known
        await memory.revert_fact("occupation")
        assert (await memory.fetch_facts())["occupation"] == "software engineer"
        assert (await service.forget_user("user_123")).turns == 4
        assert await memory.fetch_facts() == {} == await service.agent("user_123", "thread_abc").fetch_facts()
        assert await store.fact_changes(memory.scope.user) == []


@on_both_by_day
async def test_facts_go_with_their_conversations_if_asked(open_service: OpenService) -> None:
    """By the argument or the setting; what was stated elsewhere as well stays, and an explicit forget takes facts as ever."""
    for how in ({"forget_facts": True}, {}):
        async with open_service(retention_days=90, forget_facts=not how) as service:
            memory = service.agent("user_123", "thread_abc")
            await talk(service)
            await memory.update_memory("My name is John.", "I know.")
            await memory.settle(timeout=60)
            assert len(await swept(service, **how)) == 2
            assert await memory.fetch_facts() == {"location": "Lisbon", "name": "John"}
            [lisbon] = await memory.fact_history("location")
            await memory.forget([str(lisbon.sources[0].turn_id)])
            assert await memory.fetch_facts() == {"name": "John"}
            await service.forget_user("user_123")


async def test_what_is_impossible_is_refused_before_anything_goes(open_service: OpenService) -> None:
    async with open_service() as service:
        for days in (0, -1, float("nan"), 40_000, True):
            with pytest.raises(InvalidInput, match=r"retention_days is .*; pass days above 0"):
                await service.sweep(retention_days=days)
        with pytest.raises(InvalidInput, match="forget_facts is 'no'; pass True or False"):
            await service.sweep(forget_facts="no")  # type: ignore[arg-type]


async def test_a_receipt_of_a_cleanup_leaves_facts_again(tmp_path: Path) -> None:
    """Where a backup of before brought the turns back, they are erased again, and what is known stays once more."""
    before, after = (MemoryConfig(data_dir=tmp_path / name) for name in ("before", "after"))
    async with MemoryService(before) as service:
        await talk(service)
        await service.forget_user("nobody")  # the first forget call makes the secret by which receipts name
    shutil.copytree(before.data_dir, after.data_dir)
    async with MemoryService(before) as service:
        await swept(service, retention_days=90)
        receipts = [one for one in await service.erasures() if one.keeps_facts]
    async with MemoryService(after) as service:
        memory = service.agent("user_123", "thread_abc")
        assert await service.replay_erasures(receipts) == 1
        assert len((await memory.history()).turns) == 2
        assert await memory.fetch_facts() == KNOWN | {"location": "Lisbon"}


async def test_a_cleanup_beside_a_running_service_asks_it(
    settings: dict[str, Any], open_service: OpenService
) -> None:
    """The folder is another process's: what goes and what stays is the same, and no file has the words in the end."""
    async with open_service() as service, AsyncExitStack() as stack:
        await share(service, stack)
        await talk(service)
        asked = await open_or_ask(MemoryConfig(**settings), stack)
        assert isinstance(asked, MemoryService) == (
            "mongo_uri" in settings
        )  # where several work side by side
        assert len(await swept(asked, retention_days=90)) == 2
        assert (await asked.agent("user_123", "thread_abc").fetch_facts())["name"] == "John"
        await service.core.store.rewrite_files()
    assert (
        remains_in(MemoryConfig(**settings).data_dir, ["prefer morning meetings", "Nice to meet you"]) == []
    )
