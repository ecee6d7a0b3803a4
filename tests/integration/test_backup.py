"""Backups taken while a memory is used, and restored: whole, into either store, without what was forgotten since."""

from __future__ import annotations

import asyncio
import json
import shutil
from contextlib import AsyncExitStack
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from memory_agent import MemoryConfig, MemoryService
from memory_agent.adapters import open_keys, open_store
from memory_agent.domain import ErasureReceipt
from memory_agent.errors import ConfigError, InvalidInput
from memory_agent.exports.run import back_up, restore
from memory_agent.keys import new_key
from tests.faults import steps
from tests.integration.commands import Quick
from tests.integration.test_exports import from_sqlite_by_day, lengthened
from tests.released.write import SAID, fill, known

Settings = dict[str, Any]


def now() -> datetime:
    return datetime.now(UTC)


async def backed_up(settings: Settings, file: Path) -> None:
    """A backup beside whoever uses the memory."""
    cfg = MemoryConfig(**settings)
    async with AsyncExitStack() as stack:
        await back_up(file, await open_store(cfg, None, stack), await open_keys(cfg, None, stack), now=now())


async def restored(file: Path, settings: Settings, **options: Any) -> Any:
    return await restore(file, MemoryConfig(**settings), now=now(), **options)


async def knowledge(settings: Settings) -> Any:
    async with MemoryService(MemoryConfig(**settings)) as service:
        await service.settle(timeout=60)
        return json.loads(json.dumps(await known(service)))


@from_sqlite_by_day
async def test_a_backup_of_one_store_is_restored_into_the_other(
    places: tuple[Settings, Settings], tmp_path: Path
) -> None:
    """Everything known, API keys that still open, receipts, and an erasure that was under way; a backup of that is as good."""
    first, second = places
    await fill(first)
    before = json.loads(json.dumps(await lengthened(first)))
    key, _ = new_key("museum", label="front desk", now=now())
    async with AsyncExitStack() as stack:
        await (await open_keys(MemoryConfig(**first), None, stack)).put(key)
    file = tmp_path / "memory.backup.gz"
    async with MemoryService(MemoryConfig(**first)) as service:
        receipts = await service.erasures()
        assert "mongo_uri" not in first or (await service.status()).erasures == 1
        await backed_up(first, file)
    done = await restored(file, second)
    assert done.forgotten_turns == 0
    assert await knowledge(second) == before
    async with AsyncExitStack() as stack:
        store = await open_store(MemoryConfig(**second), None, stack)
        keys = await open_keys(MemoryConfig(**second), None, stack)
        assert await keys.list() == [key]
        assert [receipt.id for receipt in await store.receipts()] == [receipt.id for receipt in receipts]
    await backed_up(second, tmp_path / "again.gz")
    third: Settings = {"data_dir": tmp_path / "third"}
    await restored(tmp_path / "again.gz", third)
    assert await knowledge(third) == before


@from_sqlite_by_day
async def test_what_was_forgotten_since_does_not_come_back(
    places: tuple[Settings, Settings], tmp_path: Path
) -> None:
    """By the receipts that were kept; into a memory that holds something nothing is restored."""
    first, second = places
    await fill(first)
    file = tmp_path / "memory.backup.gz"
    await backed_up(first, file)
    receipts: list[ErasureReceipt]
    async with MemoryService(MemoryConfig(**first)) as service:
        await service.agent("ada", "work").clear()
        await service.forget_user("ben")
        await service.settle(timeout=60)
        receipts = await service.erasures()
        after = json.loads(json.dumps(await known(service)))
    done = await restored(file, second, receipts=receipts)
    assert done.forgotten_turns == 8 + 6
    assert await knowledge(second) == after
    async with MemoryService(MemoryConfig(**second)) as service:
        assert {one.id for one in await service.erasures()} == {one.id for one in receipts}
        # Whose last pass may be still to come: nobody will make it here, where there is nothing to erase.
        assert "mongo_uri" not in first or {one.state for one in receipts} == {"owed"}
        assert {one.state for one in await service.erasures()} <= {"swept", "erased", "operator"}
        work = service.agent("ada", "work")
        await work.update_memory(*SAID["ada", "work"][0], idempotency_key="work 0")
        assert (await work.status()).turns == 0, "a late repeat"
        assert "ben" not in await service.core.store.stored_users(limit=100)
        assert "work" not in await service.core.store.stored_threads("ada")
    foreign = [*receipts[:-1], type(receipts[0])(**{**_fields(receipts[0]), "key": "0" * 16})]
    with pytest.raises(InvalidInput, match="is of another memory"):
        await restored(file, {"data_dir": tmp_path / "third"}, receipts=foreign)
    where = "restore into another db_name" if "mongo_uri" in first else "restore into another data_dir"
    for full in (first, second):
        with pytest.raises(ConfigError, match=r"isn't empty.*`memory-agent import`"):
            await restored(file, full, receipts=receipts)
    with pytest.raises(ConfigError, match=where):
        await restored(file, first)
    assert await knowledge(first) == after


def _fields(receipt: ErasureReceipt) -> dict[str, Any]:
    return {name: getattr(receipt, name) for name in type(receipt).__dataclass_fields__}


@from_sqlite_by_day
async def test_a_backup_is_taken_while_turns_are_stored_and_forgotten(
    places: tuple[Settings, Settings], tmp_path: Path
) -> None:
    """What was acknowledged before it began is in it, what was forgotten before it began is not; restored, nothing is left unmade."""
    first, second = places
    file = tmp_path / "memory.backup.gz"
    async with MemoryService(MemoryConfig(**first)) as service:
        memory = service.agent("ada", "chat")
        for at in range(40):
            await memory.update_memory(f"My lamp {at} is green.", "Noted.")
        gone = [turn.id for turn in (await memory.fetch_short_term(limit=100))[:6]]
        await memory.forget(gone)
        known_before = [turn.id for turn in await memory.fetch_short_term(limit=100)]

        async def go_on() -> None:
            for at in range(40):
                await memory.update_memory(f"My lamp {at} is blue now.", "Noted.")
                await asyncio.sleep(0)

        writing = asyncio.create_task(go_on())
        await asyncio.sleep(0.05)
        await backed_up(first, file)
        await writing
    await restored(file, second)
    async with MemoryService(MemoryConfig(**second)) as service:
        await service.settle(timeout=60)
        memory = service.agent("ada", "chat")
        turns = await memory.fetch_short_term(limit=1_000)
        ids = [turn.id for turn in turns]
        assert ids[: len(known_before)] == known_before
        assert [turn.seq for turn in turns] == list(range(7, 7 + len(turns)))
        assert not {*gone} & {*ids}
        store = service.core.store
        rows = await store.search_rows("ada")
        assert {row.turn_id for row in rows if not row.erased} == {*ids}
        for change in await store.fact_changes(memory.scope):
            assert {*change.turns} <= {*ids}
        assert {turn.topic_id for turn in turns} <= {
            topic.id for topic in await store.list_topics(memory.scope)
        }


@from_sqlite_by_day
async def test_a_restore_that_was_cut_short_goes_on_with_the_same_backup_alone(
    places: tuple[Settings, Settings], tmp_path: Path
) -> None:
    """Until all of it is there nobody can open the memory, and no other backup is mixed with it."""
    first, second = places
    file, other = tmp_path / "memory.backup", tmp_path / "other.backup"
    async with MemoryService(MemoryConfig(**first, run_worker=False)) as service:
        memory = service.agent("ada", "chat")
        await memory.add_turns([{"role": "user", "content": f"Lamp {at} is green."} for at in range(1_100)])
        await backed_up(first, file)
        before = await memory.fetch_short_term(limit=2_000)
        await memory.add_user_message("My lamp is red.")
        await backed_up(first, other)

    def cut_short(records: int) -> None:
        if records == 1_000:
            raise KeyError

    with pytest.raises(KeyError):
        await restored(file, second, progress=cut_short)
    with pytest.raises(ConfigError, match=r"has a part of a backup.*run `memory-agent restore` once more"):
        await knowledge(second)
    with pytest.raises(ConfigError, match="a restore of another backup, or with other receipts"):
        await restored(other, second)
    done = await restored(file, second)
    assert 0 < done.new_turns < done.records["turn"] == 1_100
    async with MemoryService(MemoryConfig(**second, run_worker=False)) as service:
        there = await service.agent("ada", "chat").fetch_short_term(limit=2_000)
    assert [(turn.id, turn.content) for turn in there] == [(turn.id, turn.content) for turn in before]


async def restoring(file: str, folder: str) -> None:
    """What is killed."""
    await restored(Path(file), {"data_dir": Path(folder)})


async def test_a_restore_killed_at_each_step_ends_well_once_more(tmp_path: Path) -> None:
    """Until then the memory is empty, or whole, or cannot be opened."""
    whole, empty, place = tmp_path / "whole", tmp_path / "empty", tmp_path / "place"
    file, told = tmp_path / "memory.backup", ["My lamp is green.", "Noted."]
    async with MemoryService(MemoryConfig(data_dir=whole, run_worker=False)) as service:
        await service.agent("ada", "chat").update_memory(*told)
    await backed_up({"data_dir": whole}, file)

    async def texts(place: Path) -> list[str]:
        async with MemoryService(MemoryConfig(data_dir=place, run_worker=False)) as service:
            return [turn.content for turn in await service.agent("ada", "chat").fetch_short_term()]

    assert await texts(empty) == []

    def prepare() -> list[str]:
        shutil.rmtree(place, ignore_errors=True)
        shutil.copytree(empty, place)
        return [str(file), str(place)]

    async def check() -> None:
        try:
            there = await texts(place)
        except ConfigError:
            there = []
        assert there in ([], told)
        if not there:
            await restored(file, {"data_dir": place})
        assert await texts(place) == told

    await steps.kill_at_each("tests.integration.test_backup:restoring", prepare, check, least=30)


def test_the_commands(quick: Quick, tmp_path: Path) -> None:
    """Backup, restore, export and import as people type them, with what they print."""
    quick("ingest", quick.file({"role": "user", "content": "My lamp is green."}))
    said = quick("backup", "one.gz")
    assert said.stdout.split()[:2] == ["turns", "1"]
    assert "keep it where nobody else can read it" in said.stderr
    assert (tmp_path / "one.gz").stat().st_mode & 0o777 == 0o600
    assert "is there already" in quick("backup", "one.gz", code=1).stderr
    assert "--keep is for a folder" in quick("backup", "two.gz", "--keep", "2", code=2).stderr
    for number in range(3):
        (quick.folder / "kept").mkdir(exist_ok=True)
        (quick.folder / "kept" / f"memory_agent-2026-01-0{number + 1}T000000Z.backup.gz").touch()
    kept = Path(quick.json("backup", "kept/", "--keep", "2")["file"])
    assert {path.name for path in (quick.folder / "kept").iterdir()} == {
        kept.name,
        "memory_agent-2026-01-03T000000Z.backup.gz",
    }
    assert "isn't empty" in quick("restore", "one.gz", code=1).stderr
    quick.data = tmp_path / "restored"
    found = quick.json("restore", "one.gz")
    assert (found["new_turns"], found["forgotten_turns"]) == (1, 0)
    [user] = quick.json("users")["users"]
    lines = quick("export", "--user", user["user"]).stdout.splitlines()
    assert json.loads(lines[1])["content"] == "My lamp is green."
    quick("export", "all.jsonl", "--all-tenants", "--vectors")
    quick.data = tmp_path / "other"
    quick("restore", "all.jsonl", code=1)
    assert "new here 1 turn" in " ".join(quick("import", "all.jsonl").stdout.split())
    assert "new here 0 turns" in " ".join(quick("import", "all.jsonl").stdout.split())
