"""Exports and backups: nothing lost between the two stores, the same bytes, and nothing forgotten comes back."""

from __future__ import annotations

import asyncio
import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from memory_agent import MemoryConfig, MemoryService
from memory_agent.domain import Entity, Scope
from memory_agent.errors import ConfigError, InvalidInput, NotFound, StoreError
from tests import profiles
from tests.released.write import fill, known

Settings = dict[str, Any]


def lines_of(path: Path) -> list[str]:
    """The records of a file, without its first and last line, which have times and checksums."""
    data = path.read_bytes()
    text = gzip.decompress(data).decode() if path.suffix == ".gz" else data.decode()
    return text.splitlines()[1:-1]


async def exported(settings: Settings, path: Path, **options: Any) -> list[str]:
    async with MemoryService(MemoryConfig(**settings)) as service:
        await service.settle(timeout=60)
        await service.export_to(path, **options)
    return lines_of(path)


async def lengthened(settings: Settings) -> Any:
    """What is known once there is a conversation too that is long enough to be compressed and packed, and one of several people."""
    async with MemoryService(MemoryConfig(**settings)) as service:
        await _several_people(service)
        memory = service.agent("ada", "long")
        for at in range(30):
            told = f"Stop {at} of the tram line is called {chr(65 + at % 26)}-{at}, and the fare there is {at * 7} cents. "
            await memory.update_memory(told * 2, f"Stop {at}, {at * 7} cents. " * 2)
        await service.settle(timeout=120)
        assert await memory.compress()
        await service.settle(timeout=120)
        store, scope = service.core.store, memory.scope
        turns = await store.list_turns(scope, limit=10)
        for topic_id in {turn.topic_id for turn in turns}:
            assert topic_id is not None
            of_topic = [turn.id for turn in turns if turn.topic_id == topic_id]
            await store.compress_turns(scope, topic_id, of_topic)
        return await known(service)


async def _several_people(service: MemoryService) -> None:
    """With a session begun by hand, entities, other languages, topics merged and tagged, and facts set, added, taken back and reverted."""
    memory = service.agent("ada", "club", tenant="museum")
    await memory.start_session(
        participants=["Emi", "Kwame"], metadata={"place": "quay 4"}, idempotency_key="s"
    )
    boat = Entity(kind="boats", name="Marimba")
    await memory.add_turns(
        [
            {
                "role": "user",
                "speaker": "Emi",
                "content": "The mast of the Marimba is cracked.",
                "entities": [boat],
            },
            {
                "role": "user",
                "speaker": "Kwame",
                "content": "제 여동생은 부산에 살아요.",
                "metadata": {"from": "app"},
            },
            {
                "role": "user",
                "speaker": "Emi",
                "content": "Ich backe sonntags Brot mit Sauerteig aus Roggen.",
            },
            {"role": "user", "speaker": "Kwame", "content": "我下个月搬到里斯本。", "importance": 0.9},
            {"role": "assistant", "content": "Noted, all of it."},
        ],
        idempotency_key="talk",
    )
    await service.settle(timeout=120)
    first, *others = await memory.topics()
    await memory.tag_topic(first.topic_id, ["boats", "2026"])
    if others:
        await memory.merge_topics(others[0].topic_id, into=first.topic_id)
    await memory.set_fact("location", "Faro", about="Emi", idempotency_key="edit")
    await memory.set_fact("location", "Olhão", about="Emi")
    await memory.add_fact("preferences.likes", "rye bread", about="Emi")
    await memory.retract_fact("preferences.likes", "rye bread", about="Emi")
    await memory.revert_fact("location", about="Emi")


from_sqlite_by_day = pytest.mark.parametrize("places", profiles.by_day("sqlite", "mongodb"), indirect=True)
"""From there into the other store, which is read again as well: what comes from MongoDB shows little more."""


@from_sqlite_by_day
async def test_an_export_goes_into_the_other_store_and_comes_out_the_same(
    places: tuple[Settings, Settings], tmp_path: Path
) -> None:
    """Byte for byte, with vectors; what is known is the same; to import it twice changes nothing."""
    first, second = places
    await fill(first)
    before = await lengthened(first)
    lines = await exported(first, tmp_path / "first.jsonl", vectors=True)
    kinds = {json.loads(line)["record"] for line in lines}
    assert kinds == {"turn", "session", "topic", "change", "compression", "row", "remains"}
    of_club = [record for line in lines if (record := json.loads(line))["thread_id"] == "club"]
    assert any(record.get("entities") for record in of_club)
    assert {record.get("speaker") for record in of_club} >= {"Emi", "Kwame"}
    assert sum(record["record"] == "change" for record in of_club) >= 5
    async with MemoryService(MemoryConfig(**second)) as service:
        done = await service.import_from(tmp_path / "first.jsonl")
        assert done.new_turns == done.records["turn"] > 60
        await service.settle(timeout=60)
        assert json.loads(json.dumps(await known(service))) == json.loads(json.dumps(before))
    assert await exported(second, tmp_path / "second.jsonl", vectors=True) == lines
    async with MemoryService(MemoryConfig(**second)) as service:
        assert (await service.import_from(tmp_path / "first.jsonl")).new_turns == 0
    assert await exported(second, tmp_path / "third.jsonl", vectors=True) == lines


async def test_less_than_everything_is_exported(tmp_path: Path) -> None:
    """A thread, a user, a tenant; without vectors there are no search rows; of nobody there is no file."""
    settings: Settings = {"data_dir": tmp_path / "data"}
    await fill(settings)
    thread = await exported(settings, tmp_path / "a", scope=Scope(user_id="ada", thread_id="work"))
    assert {json.loads(line)["thread_id"] for line in thread} == {"work"}
    user = await exported(settings, tmp_path / "b", scope=Scope(user_id="ada"))
    assert {json.loads(line)["thread_id"] for line in user} == {"home", "work"}
    assert "row" not in {json.loads(line)["record"] for line in user}
    tenant = [json.loads(line) for line in await exported(settings, tmp_path / "c.gz", tenant="museum")]
    assert {(line["tenant"], line["user_id"]) for line in tenant} == {("museum", "ada")}
    with pytest.raises(NotFound, match="nothing is remembered of user 'eve'"):
        await exported(settings, tmp_path / "d", scope=Scope(user_id="eve"))
    with pytest.raises(ConfigError, match="is there already"):
        await exported(settings, tmp_path / "a")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a", "b", "c.gz", "data"]


@from_sqlite_by_day
async def test_what_was_forgotten_is_not_imported(places: tuple[Settings, Settings], tmp_path: Path) -> None:
    """A turn, a thread, a user: their turns, facts and topics stay away, and all others are there; then nothing is owed or found."""
    settings, _ = places
    await fill(settings)
    file = tmp_path / "before.jsonl"
    await exported(settings, file, vectors=True)
    async with MemoryService(MemoryConfig(**settings)) as service:
        home = service.agent("ada", "home")
        dog = next(turn for turn in await home.fetch_short_term(limit=50) if "Turnip" in turn.content)
        await home.forget([dog.id])
        await service.agent("ada", "work").clear()
        await service.forget_user("ben")
        await service.settle(timeout=60)
        after = await known(service)
        done = await service.import_from(file)
        assert done.new_turns == 0
        assert done.forgotten_turns == 1 + 8 + 6
        await service.settle(timeout=60)
        assert json.loads(json.dumps(await known(service))) == json.loads(json.dumps(after))
    # In an empty memory they are not known as forgotten: there all of it comes back.
    async with MemoryService(MemoryConfig(data_dir=tmp_path / "empty")) as service:
        assert (await service.import_from(file)).forgotten_turns == 0


@from_sqlite_by_day
@pytest.mark.parametrize("what", ["turns", "thread", "user"])
async def test_what_is_forgotten_while_an_import_runs_does_not_come_back(
    places: tuple[Settings, Settings], tmp_path: Path, what: str
) -> None:
    """Whichever of its batches is being written: turns, topics, facts and what searches find stay away."""
    settings, _ = places
    said = [{"role": "user", "content": f"My name is Ada and my locker is {at}."} for at in range(600)]
    async with MemoryService(MemoryConfig(**settings, run_worker=False)) as service:
        for user, wait in (("ada", 0.0), ("ben", 0.05)):
            memory = service.agent(user, "chat")
            await memory.add_turns(said)
            await service.export_to(tmp_path / user)
            ids = [turn.id for turn in (await memory.history(limit=1_000)).turns]
            importing = asyncio.create_task(service.import_from(tmp_path / user))
            await asyncio.sleep(wait)
            if what == "turns":
                await memory.forget(ids)
            elif what == "thread":
                await memory.clear()
            else:
                await service.forget_user(user)
            done = await importing
            assert not (await memory.history(limit=5)).turns
            assert done.new_turns == 0
            assert not await service.core.store.list_topics(memory.scope)


async def test_a_thread_that_goes_on_otherwise_is_refused(tmp_path: Path) -> None:
    """The error names turn, number and thread; what is there stays as it is."""
    file = tmp_path / "ada.jsonl"
    for name, text in (("one", "I live in Rome."), ("two", "I live in Oslo.")):
        async with MemoryService(MemoryConfig(data_dir=tmp_path / name)) as service:
            memory = service.agent("ada", "chat")
            await memory.update_memory(text, "I see.")
            if name == "one":
                await service.export_to(file)
                continue
            with pytest.raises(
                StoreError, match=r"turn '.*' cannot be stored as number 1 of thread 'chat': another"
            ):
                await service.import_from(file)
            assert [turn.content for turn in await memory.fetch_short_term()] == [text, "I see."]


def damaged(data: bytes) -> dict[str, tuple[bytes, str]]:
    """A file in wrong forms, each with what is said of it."""
    lines = data.splitlines(keepends=True)
    return {
        "cut off": (b"".join(lines[:-1]), "cut off: its last line is missing"),
        "cut in a line": (data[: len(data) // 2], r"line \d+ of .* is wrong: it cannot be read"),
        "changed": (data.replace(b"Lisbon", b"London", 1), r"is damaged: its checksum is \w+…"),
        "a line less": (b"".join([lines[0], *lines[2:]]), "is damaged: its checksum"),
        "more after the end": (data + lines[1], "it comes after the end"),
        "something else": (b"dear diary\n", "is no export of memory_agent"),
        "empty": (b"", "cut off"),
        "later": (data.replace(b'"version": 1', b'"version": 2', 1), "later memory_agent"),
        "unknown": (
            data.replace(b'{"record":"turn"', b'{"record":"song"', 1),
            "line 2 of .* its record is 'song'",
        ),
        "no user": (data.replace(b'"user_id":"ada",', b"", 1), "line 2 of .* it lacks 'user_id'"),
        "bad time": (data.replace(b'"timestamp":"', b'"timestamp":"x', 1), "line 2 of .* timestamp"),
        "packed and cut": (gzip.compress(data)[:-9], "damaged or cut off"),
    }


async def test_a_damaged_file_is_refused_whole(tmp_path: Path) -> None:
    """With the line and the reason where there is one; nothing of it is taken in."""
    await fill({"data_dir": tmp_path / "first"})
    await exported({"data_dir": tmp_path / "first"}, tmp_path / "whole.jsonl")
    for number, (data, said) in enumerate(damaged((tmp_path / "whole.jsonl").read_bytes()).values()):
        file = tmp_path / f"{number}.jsonl"
        file.write_bytes(data)
        async with MemoryService(MemoryConfig(data_dir=tmp_path / "second")) as service:
            with pytest.raises(InvalidInput, match=said):
                await service.import_from(file)
            assert (await service.status()).turns == 0
