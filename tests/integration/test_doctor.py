"""The doctor: each fault planted in a memory is found, named and mended, and a whole one has none."""

from __future__ import annotations

import gzip
import json
from contextlib import AsyncExitStack
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from memory_agent import MemoryConfig, MemoryService
from memory_agent.adapters import open_keys
from memory_agent.conformance.values import a_change, a_row
from memory_agent.doctor.examine import Examined, examine, repair
from memory_agent.domain import FactsDocument, Scope
from tests.released.write import fill, known

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from pathlib import Path

    from memory_agent.doctor.checks import Finding
    from tests.integration.commands import Quick
    from tests.servers.mongod import Mongod

SCOPE = Scope(user_id="ada", thread_id="home")
Store = Any


@pytest.fixture(params=["sqlite", "mongodb"])
async def settings(request: pytest.FixtureRequest, tmp_path: Path) -> dict[str, Any]:
    """A memory with two tenants' users, facts, topics, and a forget call under way."""
    found: dict[str, Any] = {"data_dir": tmp_path / "data"}
    if request.param == "mongodb":
        server: Mongod = request.getfixturevalue("mongod")
        found |= {"mongo_uri": server.uri, "db_name": request.getfixturevalue("db_name")}
    await fill(found)
    return found


async def examined(service: MemoryService) -> list[Finding]:
    """What is wrong."""
    async with AsyncExitStack() as stack:
        keys = await open_keys(service.cfg, None, stack)
        totals = Examined()
        core, now = service.core, service.clock.now()
        found = [each async for each in examine(core.store, keys, core.vectors, now=now, totals=totals)]
    assert totals.turns > 40
    assert totals.users == 4
    return [finding for finding in found if finding.wrong]


async def lose_a_row(store: Store) -> None:
    [first, *_] = await store.list_turns(SCOPE)
    if hasattr(store, "_execute"):
        await store._execute("DELETE FROM search_rows WHERE unpack_id(turn_id) = ?", [first.id])
    else:
        await store._rows.delete_one({"_id": first.id, "user_id": "ada"})


async def orphan_a_row(store: Store) -> None:
    row = a_row(scope=SCOPE, seq=99)
    await store.put_search_rows("ada", [row], now=datetime.now(UTC))


async def _first_row(store: Store) -> Any:
    return next(row for row in await store.search_rows("ada") if row.thread_id == "home")


async def spoil_vectors(store: Store) -> None:
    row = await _first_row(store)
    spoilt = replace(row, vectors=np.zeros_like(row.vectors))
    await store.put_search_rows("ada", [spoilt], now=datetime.now(UTC))


async def move_a_row(store: Store) -> None:
    row = await _first_row(store)
    moved = replace(row, role="assistant" if row.role == "user" else "user")
    await store.put_search_rows("ada", [moved], now=datetime.now(UTC))


async def falsify_facts(store: Store) -> None:
    document = await store.load_facts(SCOPE)
    false = FactsDocument(facts={"": {"name": "Eve"}}, through=document.through, at=document.at)
    assert await store.save_facts(SCOPE, false, expected=document.revision)


async def plant_a_change(store: Store) -> None:
    assert await store.append_fact_change(SCOPE, a_change("01890a5d-ac96-774b-bcce-b302099a8057"))


async def lose_a_topic(store: Store) -> None:
    [first, *_] = await store.list_topics(SCOPE)
    assert await store.delete_topic(SCOPE, first.id, expected=first.revision)


async def overstate_a_topic(store: Store) -> None:
    [first, *_] = await store.list_topics(SCOPE)
    assert await store.save_topic(replace(first, through=5_000), expected=first.revision)


async def park_a_turn(store: Store) -> None:
    [first, *_] = await store.list_turns(SCOPE)
    await store.owe(SCOPE, "facts", now=datetime.now(UTC), turn_ids=[first.id])
    await store.postpone(SCOPE, [first.id], error="the model is on fire", due_at=None, counted=True)


FAULTS: dict[str, tuple[Callable[[Store], Awaitable[None]], str]] = {
    "a lost row": (lose_a_row, "1 turns without a search row"),
    "a row of nobody": (orphan_a_row, "1 search rows of turns that are gone"),
    "spoilt vectors": (spoil_vectors, "1 search rows with vectors that can be none"),
    "a moved row": (move_a_row, "1 search rows that say another place, role or time than their turns"),
    "false facts": (falsify_facts, "1 document of facts that is not the fold of its changes"),
    "a change of nobody": (plant_a_change, "1 changes of facts by turns that are gone"),
    "a lost topic": (lose_a_topic, "1 topics that turns belong to and that are missing"),
    "an overstated topic": (overstate_a_topic, "1 topics that are made of more turns than there were"),
    "a parked turn": (park_a_turn, "1 parked turns (the model is on fire)"),
}


async def test_each_fault_is_found_and_mended(settings: dict[str, Any]) -> None:
    """One after the other: the doctor finds that one alone, mends it, and then nothing; what is known is as before."""
    async with MemoryService(MemoryConfig(**settings)) as service:
        await service.settle(timeout=60)
        assert await examined(service) == []
        before = json.dumps(await known(service))
        for name, (plant, what) in FAULTS.items():
            await service.pause_worker()
            await plant(service.core.store)
            found = await examined(service)
            assert [finding.what for finding in found] == [what], name
            assert found[0].scope == SCOPE
            await service.resume_worker()
            assert await repair(service.core, found[0], now=service.clock.now())
            await service.settle(timeout=60)
            assert await examined(service) == [], name
            assert json.dumps(await known(service)) == before, name


def test_the_command(quick: Quick, tmp_path: Path) -> None:
    """Exit codes for cron, JSON for machines; a page of a damaged file is named, and its other turns are saved."""
    turns = [{"role": "user", "content": f"Box {at} holds letters. " * 20} for at in range(60)]
    quick("ingest", quick.file(*turns))
    assert "60 turns in 1 thread of 1 user: nothing is wrong." in quick("doctor").stdout
    whole_one = {"totals": {"users": 1, "threads": 1, "turns": 60}, "findings": [], "mended": []}
    assert quick.json("doctor") == whole_one
    quick("doctor", "--erased", "letters", code=3)
    assert "Nothing of 1 text is in the files" in quick("doctor", "--erased", "nowhere to be found").stdout
    file = quick.data / "memory_agent.sqlite3"
    whole = bytearray(file.read_bytes())
    page = whole.rindex(b"holds letters") // 4_096 * 4_096
    whole[page : page + 4_096] = bytes(4_096)
    file.write_bytes(whole)
    said = quick("doctor", code=1)
    assert "is damaged" in said.stderr
    assert "doctor --save-to FILE" in said.stderr
    assert "in saved.gz" in quick("doctor", "--save-to", "saved.gz").stdout
    lines = gzip.decompress((tmp_path / "saved.gz").read_bytes()).decode().splitlines()[1:-1]
    saved = [json.loads(line)["content"] for line in lines]
    assert 10 < len(saved) < 60
    assert {turn["content"] for turn in turns} > {*saved}
    quick.data = tmp_path / "other"
    quick("import", "saved.gz")
    quick("worker", "--until-idle")
    assert quick.json("doctor")["findings"] == []
    assert len(quick.json("history", "--all")["turns"]) == len(saved)
