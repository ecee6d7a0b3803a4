"""After a change of the embedding model: who was not rebuilt yet is found by words, and everything that tells of it says so."""

from __future__ import annotations

import asyncio
from contextlib import AbstractAsyncContextManager
from datetime import UTC, datetime
from typing import Any

import pytest

from memory_agent import MemoryConfig, MemoryService
from memory_agent import service as service_module
from memory_agent.domain import RebuildStep, Scope
from memory_agent.search.request import NOT_REBUILT
from memory_agent.stores.sqlite import SqliteStore
from memory_agent.testing import HashEmbedder
from tests.constants import settings_of
from tests.fixtures import outgrown
from tests.integration.commands import CommandLine, Quick, with_store

USERS = ("ann", "bob", "cyd")
TEXTS = (
    "We booked flights to Crete in June.",
    "The dentist moved to Mill Road.",
    "My puppy is called Rufus.",
)
ASKED = "When are the flights to Crete?"


def opened(settings: dict[str, Any], model: str) -> AbstractAsyncContextManager[MemoryService]:
    """With vectors of another length for each model."""
    embedder = HashEmbedder(seed=model, dimension=256 if model == "old" else 64)
    return MemoryService(MemoryConfig(**settings), embedder=embedder)


async def remember(settings: dict[str, Any]) -> None:
    """Everybody's turns, by the old model."""
    async with opened(settings, "old") as service:
        for user in USERS:
            await service.agent(user, "chat").add_turns([{"role": "user", "content": text} for text in TEXTS])
        await service.settle(60)
        assert (await service.status()).to_rebuild == 0


async def missing(service: MemoryService, user: str) -> tuple[str, ...]:
    """What the context of the question names as missing; the turn is found in any case."""
    context = await service.agent(user, "other").fetch_memory(ASKED)
    assert TEXTS[0] in str(context)
    return context.degraded


@pytest.mark.parametrize("settings", ["embedded", "servers"], indirect=True)
async def test_until_a_user_is_rebuilt_answers_say_that_words_alone_found_them(
    settings: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """User by user, by several services one after the other; what is said meanwhile is embedded by the new model at once."""
    monkeypatch.setattr(service_module, "_TURNS_AT_ONCE", 1)
    await remember(settings)
    every = len(USERS) * len(TEXTS)
    async with opened(settings, "new") as service:
        assert (await service.status()).to_rebuild == every
        assert {await missing(service, user) for user in USERS} == {(NOT_REBUILT,)}
        memory = service.agent("ann", "chat")
        await memory.add_user_message("The flights to Crete leave at noon.")
        await memory.settle(60)
        found = {each.text: each.similarity for each in await memory.fetch_long_term(ASKED)}
        assert found["The flights to Crete leave at noon."] is not None
        assert found[TEXTS[0]] is None
        assert await missing(service, "ann") == (NOT_REBUILT,)
        assert await service.rebuild_next() == RebuildStep(turns=4, users=3, done=1)
        await service.settle(60)
        assert [await missing(service, user) for user in USERS] == [(), (NOT_REBUILT,), (NOT_REBUILT,)]
    async with opened(settings, "new") as service:
        assert (await service.status()).to_rebuild == every - len(TEXTS)
        assert [(await service.rebuild_next()).done for _ in range(2)] == [2, 3]
        await service.settle(60)
        assert {await missing(service, user) for user in USERS} == {()}
        assert (await service.status()).to_rebuild == 0


async def test_a_rebuild_by_yet_another_model_begins_with_the_first_user(
    embedded_settings: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(service_module, "_TURNS_AT_ONCE", 1)
    await remember(embedded_settings)
    for model in ("new", "newest"):
        async with opened(embedded_settings, model) as service:
            assert (await service.rebuild_next()).done == 1


async def test_users_too_large_for_memory_are_told_so_as_well(embedded_settings: dict[str, Any]) -> None:
    with settings_of({**embedded_settings, "resident_max_turns": 1}) as known:
        await remember(known)
        async with opened(known, "old") as service:
            await outgrown(service, "ann")
        async with opened(known, "new") as service:
            assert await missing(service, "ann") == (NOT_REBUILT,)
            await service.rebuild_index("ann")
            await service.settle(60)
            assert await missing(service, "ann") == ()


def test_the_command_line_says_it_until_all_are_rebuilt(cli: CommandLine) -> None:
    asyncio.run(remember({"data_dir": cli.data}))
    told = cli("status")
    assert "9 turns were embedded by another model" in told.stderr
    assert "memory-agent rebuild --all" in told.stderr
    assert cli.json("status")["to_rebuild"] == 9
    assert "3 of a user's 3 turns were embedded by another model" in cli("ask", ASKED, "-u", "ann").stderr
    answered = cli("ask", ASKED, "-u", "ann", "--context")
    assert TEXTS[0] in answered.stdout
    assert f"missing: {NOT_REBUILT}" in answered.stderr
    rebuilt = cli("rebuild", "--all")
    assert "3 of 3 users done" in rebuilt.stderr
    assert "another model" not in cli("ask", ASKED, "-u", "ann").stderr
    assert cli.json("status")["to_rebuild"] == 0


@pytest.mark.parametrize("command", [("rebuild", "--all"), ("facts", "reextract", "--all")], ids=" ".join)
def test_a_turn_that_keeps_failing_holds_up_nobody_else(
    quick: Quick, monkeypatch: pytest.MonkeyPatch, command: tuple[str, ...]
) -> None:
    """Here one of the last user's, which is tried again when its user's turn comes."""
    monkeypatch.setattr(service_module, "_TURNS_AT_ONCE", 1)
    asyncio.run(remember({"data_dir": quick.data}))
    scope = Scope.of("cyd", "chat")

    async def park(store: SqliteStore) -> None:
        ids = [turn.id for turn in await store.list_turns(scope)]
        await store.owe(scope, "index", now=datetime.now(UTC), turn_ids=ids)
        await store.postpone(scope, ids, error="it fails", due_at=None, counted=True)

    with_store(quick, park)
    assert "3 of 3 users done" in quick(*command).stderr
