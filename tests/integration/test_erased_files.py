"""What was forgotten leaves our own files, byte for byte, and does not come back with a backup."""

from __future__ import annotations

import asyncio
import contextlib
import shutil
import sqlite3
from collections.abc import Callable, Coroutine, Iterable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pymongo
import pytest
from bson import json_util

from memory_agent import InvalidInput, MemoryAgent, MemoryConfig, MemoryService
from memory_agent.stores.codec import pack_vectors
from memory_agent.testing import FixedClock, HashEmbedder
from memory_agent.work.forget import remains_in
from tests.faults import steps
from tests.fixtures import outgrown

Forget = Callable[[MemoryService, MemoryAgent, list[str]], Coroutine[Any, Any, object]]

USER, THREAD = "zebulon-of-the-quokkas", "talk-of-the-vault"
TIERS = {"turns", "segments", "search_rows", "topics", "facts", "fact_events", "sessions", "compressions"}
GONE = "The quokka vault of Zebulon {0} opens with {1}."
KEPT = "The weather in Ulm is mild on day {0}, says somebody."


def files_with(folder: Path, wanted: list[bytes]) -> list[str]:
    files = [file for file in folder.rglob("*") if file.is_file()]
    held = {file.name: file.read_bytes() for file in files}
    return [f"{name}: {one!r}" for name, data in held.items() for one in wanted if one in data]


async def _by_id(service: MemoryService, memory: MemoryAgent, ids: list[str]) -> None:
    for start in range(0, len(ids), 10):
        await memory.forget(ids[start : start + 10])


async def _whole_thread(service: MemoryService, memory: MemoryAgent, ids: list[str]) -> None:
    await memory.clear()


async def _whole_user(service: MemoryService, memory: MemoryAgent, ids: list[str]) -> None:
    await service.forget_user(USER)


async def _retention(service: MemoryService, memory: MemoryAgent, ids: list[str]) -> None:
    await service.sweep()


async def erased(service: MemoryService, clock: FixedClock, end: str = "erased") -> None:
    """Until every receipt says that nothing is left in the files, or but for a server's.

    Where nobody else has the store that takes seconds, and elsewhere as long as others' leases and indexes may live.
    """
    asked, ticks = clock.now(), 300.0 if end == "operator" else 0.1
    async with asyncio.timeout(120):
        while {receipt.state for receipt in await service.erasures()} != {end}:
            clock.tick(ticks)
            await asyncio.sleep(0.1)
    if end == "erased":
        assert clock.now() - asked <= timedelta(seconds=5)


async def told(
    service: MemoryService, clock: FixedClock, *, days_ago: int = 0, rounds: int = 60
) -> tuple[list[str], list[str]]:
    """Something of every tier of USER, beside what somebody else said, so that pages are shared; its texts and ids."""
    memory, other = service.agent(USER, THREAD), service.agent("bob", "chat")
    await memory.start_session(metadata={"about": "the vault of Zebulon"}, idempotency_key="session")
    texts, ids = [], []
    for number in range(rounds):
        text = GONE.format(number, number * 7_919)
        kept = [{"role": "user", "content": KEPT.format(f"{number} {part}")} for part in range(2)]
        await other.add_turns(kept)
        turn = await memory.add_user_message(
            text, timestamp=clock.now() - timedelta(days=days_ago), idempotency_key=f"call {number}"
        )
        texts.append(text)
        ids.append(turn.id)
    await memory.set_fact("favourite_vault", "that of Zebulon, behind the quokkas", idempotency_key="edit")
    await service.settle(timeout=60)
    await memory.compress()
    await memory.fetch_facts(scope="thread")
    return texts, ids


def tiers_of(file: Path) -> dict[str, set[bytes]]:
    """A piece of every long value that each table holds of USER and of nobody else."""
    with contextlib.closing(sqlite3.connect(file)) as db:
        tables = [name for (name,) in db.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")]
        found: dict[str, tuple[set[bytes], set[bytes]]] = {}
        for table in tables:
            columns = {name for _, name, *_ in db.execute(f"PRAGMA table_info({table})")}
            if "user_id" in columns:
                found[table] = _pieces(db.execute(f"SELECT user_id, * FROM {table}"))
        rows = "SELECT user_id, tokens FROM row_tokens JOIN search_rows USING (number)"
        found["row_tokens"] = _pieces(db.execute(rows))
    return {table: mine - others for table, (mine, others) in found.items() if mine - others}


def _pieces(rows: Iterable[tuple[Any, ...]]) -> tuple[set[bytes], set[bytes]]:
    """Of USER, and of the others."""
    mine: set[bytes] = set()
    others: set[bytes] = set()
    for user, *values in rows:
        for value in values:
            raw = value.encode() if isinstance(value, str) else value
            if isinstance(raw, bytes):
                pieces = {raw[:40], raw[len(raw) // 2 :][:40]}
                (mine if user == USER else others).update(each for each in pieces if len({*each}) >= 6)
    return mine, others


@pytest.mark.parametrize(
    ("forget", "large"),
    [
        pytest.param(_by_id, False, id="turns"),
        pytest.param(_whole_user, True, id="a large user"),
        pytest.param(_whole_thread, False, id="a thread"),
        pytest.param(_whole_thread, True, id="a large user's thread", marks=pytest.mark.nightly),
        pytest.param(_by_id, True, id="a large user's turns", marks=pytest.mark.nightly),
        pytest.param(_retention, False, id="by age", marks=pytest.mark.nightly),
    ],
)
async def test_no_byte_of_what_was_forgotten_is_left(
    embedded_settings: dict[str, Any], tmp_path: Path, forget: Forget, large: bool
) -> None:
    """Not its text, its ids, its vectors or anything derived, in any file of the folder, while it runs and once it is closed."""
    clock = FixedClock(datetime.now(UTC))
    embedder, folder = HashEmbedder(), tmp_path / "data"
    file = folder / "memory_agent.sqlite3"
    cfg = MemoryConfig(**embedded_settings, retention_days=30 if forget is _retention else None)
    async with MemoryService(cfg, embedder=embedder, clock=clock) as service:
        if large:
            await outgrown(service, USER)
        texts, ids = await told(service, clock, days_ago=60 if forget is _retention else 0)
        vectors = [pack_vectors(await embedder.embed([text], purpose="document"))[0][4:] for text in texts]
        there = {found.text for found in remains_in(folder, [*texts, *ids])}
        assert there >= set(ids), "they were there"
        assert there & set(texts), "those that are not packed in clear"
        tiers = tiers_of(file)
        assert tiers.keys() >= TIERS | ({"row_terms"} if large else set())
        before = [path.read_bytes() for path in folder.iterdir() if path.is_file()]
        unseen = [tier for tier, pieces in tiers.items() if not any(p in b for p in pieces for b in before)]
        assert unseen == [], "what each tier holds is found while it is there"
        await forget(service, service.agent(USER, THREAD), ids)
        await erased(service, clock)
        wanted = [
            *texts,
            *ids,
            *([USER] * (forget is _whole_user)),
            *([THREAD] * (forget in (_whole_user, _whole_thread))),
        ]
        derived = set().union(*tiers.values()) if forget in (_whole_user, _whole_thread) else set()
        if forget is _whole_thread:  # the user goes on talking, and late repeats are known by their keys
            derived -= {USER.encode(), b"session", *(f"call {number}".encode() for number in range(60))}
        assert remains_in(folder, wanted) == []
        assert files_with(folder, [*vectors, *derived]) == []
        assert (await service.agent("bob", "chat").status()).turns == 120
    assert remains_in(folder, wanted) == []
    assert files_with(folder, [*vectors, *derived]) == []
    assert remains_in(folder, [KEPT.format("59 1")]), "what stays is there, so looking finds it"


async def test_a_topic_that_goes_on_keeps_no_id_of_the_turn_that_opened_it(
    embedded_settings: dict[str, Any], tmp_path: Path
) -> None:
    """Its own id stands in the turns that are left, their packed texts, the events and the compressions."""
    clock = FixedClock(datetime.now(UTC))
    cfg = MemoryConfig(**embedded_settings, max_messages_per_topic=6, recent_message_keep=2)
    async with MemoryService(cfg, embedder=HashEmbedder(), clock=clock) as service:
        memory = service.agent(USER, THREAD)
        first = await memory.add_user_message(GONE.format(0, 1))
        await memory.add_turns([{"role": "user", "content": GONE.format(n, n)} for n in range(1, 12)])
        await service.settle(timeout=60)
        await memory.compress()
        (before,) = await memory.topics()
        await memory.forget([first.id])
        await service.settle(timeout=60)
        await erased(service, clock)
        (topic,) = await memory.topics()
        assert (topic.topic_id, topic.total_messages) == (before.topic_id, 11)
    assert remains_in(tmp_path / "data", [first.id]) == []
    assert remains_in(tmp_path / "data", [topic.topic_id]), "the topic's own id is there, so looking finds it"


async def forgets(folder: str) -> None:
    """What is killed."""
    async with MemoryService(MemoryConfig(data_dir=folder), embedder=HashEmbedder()) as service:
        await service.forget_user(USER)


@pytest.mark.timeout(3_600)  # some hundred kills by night
async def test_a_killed_forget_call_leaves_no_byte_either(tmp_path: Path) -> None:
    """Killed at any step it is finished by the next process, or made again; then nothing is left."""
    whole, place = tmp_path / "whole", tmp_path / "place"
    async with MemoryService(MemoryConfig(data_dir=whole), embedder=HashEmbedder()) as service:
        texts, ids = await told(service, FixedClock(datetime.now(UTC)), rounds=6)
    derived = set().union(*tiers_of(whole / "memory_agent.sqlite3").values())
    assert files_with(whole, [*derived])

    def prepare() -> list[str]:
        shutil.rmtree(place, ignore_errors=True)
        shutil.copytree(whole, place)
        return [str(place)]

    async def check() -> None:
        clock = FixedClock(datetime.now(UTC) + timedelta(hours=2))
        cfg = MemoryConfig(data_dir=place)
        async with MemoryService(cfg, embedder=HashEmbedder(), clock=clock) as service:
            if not await service.erasures():
                await service.forget_user(USER)
            await erased(service, clock)
            assert (await service.agent("bob", "chat").status()).turns == 12
        assert remains_in(place, [*texts, *ids, USER, THREAD]) == []
        assert files_with(place, [*derived]) == []

    await steps.kill_at_each("tests.integration.test_erased_files:forgets", prepare, check, least=60)


async def test_no_document_of_a_server_holds_what_was_forgotten(server_settings: dict[str, Any]) -> None:
    """In MongoDB's collections and Chroma's, and in the folder; what else is on the servers' disks the receipt leaves to the operator."""
    clock = FixedClock(datetime.now(UTC))
    folder = server_settings["data_dir"]
    async with MemoryService(
        MemoryConfig(**server_settings), embedder=HashEmbedder(), clock=clock
    ) as service:
        await outgrown(service, USER)
        texts, ids = await told(service, clock, rounds=40)
        wanted = [*texts, *ids, USER, THREAD]
        with pymongo.MongoClient[Any](server_settings["mongo_uri"]) as client:
            database = client[server_settings["db_name"]]

            def holding() -> set[str]:
                """The collections in which there is any of it."""
                names = database.list_collection_names()
                return {
                    name
                    for name in names
                    for document in database[name].find()
                    if any(text in json_util.dumps(document) for text in wanted)
                }

            assert holding() >= {"turns", "search_rows", "topics", "facts", "sessions", "compressions"}
            assert await service.core.vectors.turn_ids(USER)
            await service.forget_user(USER)
            await erased(service, clock, "operator")
            assert holding() == set()
        assert await service.core.vectors.turn_ids(USER) == set()
        assert (await service.agent("bob", "chat").status()).turns == 80
    if folder.exists():
        assert remains_in(folder, wanted) == []


async def test_many_forget_calls_cost_one_rewrite(embedded_settings: dict[str, Any]) -> None:
    """Their last passes are waited for some minutes, and the file is written anew once for all."""
    clock = FixedClock(datetime.now(UTC))
    async with MemoryService(
        MemoryConfig(**embedded_settings), embedder=HashEmbedder(), clock=clock
    ) as service:
        memory, store, rewrites = service.agent("ann", "chat"), service.core.store, 0
        rewrite = store.rewrite_files

        async def counted() -> bool:
            nonlocal rewrites
            rewrites += 1
            return await rewrite()

        store.rewrite_files = counted  # type: ignore[method-assign]
        for number in range(20):
            turn = await memory.add_user_message(GONE.format(number, number))
            await memory.forget([turn.id])
        await erased(service, clock)
        assert rewrites == 1


async def test_a_receipt_tells_each_tier(embedded_settings: dict[str, Any]) -> None:
    """What is erased, what the worker still owes, and what only an operator reaches, with what to do."""
    async with MemoryService(MemoryConfig(**embedded_settings), embedder=HashEmbedder()) as service:
        turn = await service.agent("ann", "chat").add_user_message(GONE.format(1, 1))
        receipt = await service.agent("ann", "chat").forget([turn.id])
        assert {tier.tier: tier.state for tier in receipt.tiers} == {
            "documents": "erased",
            "search_rows": "erased",
            "vector_index": "erased",
            "last_pass": "owed",
            "files": "owed",
            "backups": "operator",
        }
        assert all(tier.note for tier in receipt.tiers if tier.state != "erased")
        [kept] = await service.erasures()
        assert (kept.id, kept.state, len(kept.turns)) == (receipt.id, "owed", 1)
        assert turn.id not in str(kept)
        assert "ann" not in (kept.user, kept.thread)


async def test_a_mongodb_receipt_names_the_oplog(server_settings: dict[str, Any]) -> None:
    """How far back it reaches now, and that it is the operator's; such an erasure ends so."""
    clock = FixedClock(datetime.now(UTC))
    async with MemoryService(
        MemoryConfig(**server_settings), embedder=HashEmbedder(), clock=clock
    ) as service:
        turn = await service.agent("ann", "chat").add_user_message(GONE.format(1, 1))
        receipt = await service.agent("ann", "chat").forget([turn.id])
        notes = {tier.tier: tier.note for tier in receipt.tiers if tier.state == "operator"}
        assert notes.keys() == {"mongodb_files", "oplog", "chroma_files", "backups"}
        assert f"now it reaches back to {datetime.now(UTC):%Y-}" in notes["oplog"]
        async with asyncio.timeout(60):
            while [one.state for one in await service.erasures()] != ["operator"]:
                clock.tick(300)
                await asyncio.sleep(0.1)


async def test_what_a_restored_backup_brings_back_is_erased_again(
    embedded_settings: dict[str, Any], tmp_path: Path
) -> None:
    """By the receipts alone: turns, a thread and a user, and nothing that was said since or by others."""
    cfg, before = MemoryConfig(**embedded_settings), tmp_path / "backup"
    async with MemoryService(cfg, embedder=HashEmbedder()) as service:
        turns = {}
        for user, thread in (("ann", "a"), ("ann", "b"), ("bob", "a"), ("cy", "a")):
            turns[user, thread] = await service.agent(user, thread).update_memory(
                f"{user} {thread}", "Noted."
            )
        await service.settle(timeout=60)
        await service.core.forgetter.hasher()  # which the first forget call would make
    shutil.copytree(tmp_path / "data", before)
    async with MemoryService(cfg, embedder=HashEmbedder()) as service:
        await service.agent("ann", "a").forget(turns["ann", "a"].turn_ids[:1])
        await service.agent("ann", "b").clear()
        await service.forget_user("bob")
        receipts = await service.erasures()
    shutil.rmtree(tmp_path / "data")
    shutil.copytree(before, tmp_path / "data")
    async with MemoryService(cfg, embedder=HashEmbedder()) as service:
        await service.agent("bob", "a").update_memory("said since", "Noted.")
        assert await service.replay_erasures(receipts) == 3
        left = {
            (user, thread): [turn.content for turn in await service.agent(user, thread).fetch_short_term()]
            for user, thread in (*turns, ("bob", "a"))
        }
        assert left == {
            ("ann", "a"): ["Noted."],
            ("ann", "b"): [],
            ("bob", "a"): ["said since", "Noted."],
            ("cy", "a"): ["cy a", "Noted."],
        }
        with pytest.raises(InvalidInput, match="is of another memory"):
            await service.replay_erasures([replace(receipts[0], key="0000")])


def test_a_planted_leak_is_found(tmp_path: Path) -> None:
    """In a database, its log, and any other file, also across the pieces in which files are read."""
    text, turn_id = "quokka", "01890a5d-ac96-774b-bcce-b302099a8057"
    db = sqlite3.connect(tmp_path / "memory.sqlite3")
    db.execute("PRAGMA journal_mode = WAL")
    db.execute("CREATE TABLE t (x)")
    db.execute("INSERT INTO t VALUES (?)", [f"a {text} in a row"])
    db.commit()
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep" / "large.bin").write_bytes(b"\0" * (16_000_000 - 3) + f"{text}{text}".encode())
    (tmp_path / "id.bin").write_bytes(bytes.fromhex(turn_id.replace("-", "")))
    found = {(one.file, one.text): one.times for one in remains_in(tmp_path, [text, turn_id])}
    db.close()
    assert found == {("deep/large.bin", text): 2, ("id.bin", turn_id): 1, ("memory.sqlite3-wal", text): 1}
    assert remains_in(tmp_path, []) == []
