"""Imports into a memory: nothing twice, whatever was there, was forgotten or was interrupted; and the command."""

from __future__ import annotations

import asyncio
import json
import shutil
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from memory_agent import ImportReport, MemoryConfig, MemoryService, ServiceClient, import_chats
from memory_agent.testing import HashEmbedder
from tests.faults import steps
from tests.integration.commands import Quick
from tests.servers.mongod import Mongod
from tests.servers.service import served
from tests.unit.test_imports import BEGINNINGS, TWO_ANSWERS, claude, said, tree, written, zipped

FOLLOWED = ("third", "first", said("user", "With milk?", 1_700_000_100.0))
CLAUDES = claude(("a", None, "human", "Where to?", "2025-03-01T10:00:00Z"))


async def imported(folder: Path, *paths: Path, **options: Any) -> ImportReport:
    async with MemoryService(MemoryConfig(data_dir=folder, run_worker=False)) as service:
        return await import_chats(service, "ada", *paths, **options)


async def turns_of(folder: Path, thread: str = "chatgpt:c1") -> list[str]:
    async with MemoryService(MemoryConfig(data_dir=folder, run_worker=False)) as service:
        return [turn.content for turn in await service.agent("ada", thread).fetch_short_term(limit=1000)]


async def test_a_newer_export_adds_what_is_new_also_of_another_branch(tmp_path: Path) -> None:
    memory = tmp_path / "memory"
    first = written(tmp_path, [tree(*TWO_ANSWERS, current="first")])
    assert (await imported(memory, first)).new == 2
    again = await imported(memory, first)
    assert (again.turns, again.new) == (2, 0)
    grown = written(tmp_path, [tree(*TWO_ANSWERS, FOLLOWED, current="third", title="Renamed"), CLAUDES])
    report = await imported(memory, grown)
    assert report.sources["chatgpt"].new == 1
    assert report.sources["chatgpt"].left_out["changed since they were imported"] == 2
    assert await turns_of(memory) == ["Which tea?", "Green.", "With milk?"]
    switched = written(tmp_path, [tree(*TWO_ANSWERS, FOLLOWED, current="second")])
    assert (await imported(memory, switched)).new == 1
    assert await turns_of(memory) == ["Which tea?", "Green.", "With milk?", "Black."]


async def test_facts_of_saved_memories_quote_the_memory(tmp_path: Path) -> None:
    """By patterns alone: the fact's source is the turn of the memory, which says where it comes from."""
    file = written(tmp_path, {"results": [{"id": "1", "memory": "My name is Ada.", "user_id": "u"}]})
    async with MemoryService(MemoryConfig(data_dir=tmp_path / "memory")) as service:
        await import_chats(service, "ada", file)
        agent = service.agent("ada", "mem0:memories")
        await agent.settle(timeout=60)
        [fact] = [one for one in await agent.fact_history() if one.value == "Ada"]
        [turn] = await agent.fetch_short_term()
        assert [source.turn_id for source in fact.sources] == [turn.id]
        assert turn.metadata["imported_from"] == "mem0"
        assert turn.metadata["kind"] == "saved memories"


async def test_each_kind_is_imported_once_into_threads_of_its_source(tmp_path: Path) -> None:
    kinds = BEGINNINGS | {"claude": [CLAUDES]}
    del kinds["memory-agent"]
    files = [written(tmp_path, value, f"{name}.json") for name, value in kinds.items()]
    cfg = MemoryConfig(data_dir=tmp_path / "memory", run_worker=False)
    async with MemoryService(cfg, embedder=HashEmbedder()) as service:
        first, again = [await import_chats(service, "ada", *files) for _ in range(2)]
        threads = (await service.threads("ada")).threads
    assert (first.unreadable, again.unreadable) == ([], [])
    assert {name: (one.turns, one.new) for name, one in first.sources.items()} == {
        name: (2, 2) if name == "chatgpt" else (1, 1) for name in kinds
    }
    assert (again.turns, again.new) == (first.turns, 0)
    assert {thread.thread_id.partition(":")[0] for thread in threads} == kinds.keys()


@pytest.fixture(params=["sqlite", "client", "mongodb"])
async def memory(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Any]:
    """A service on either store, and a client of one."""
    settings: dict[str, Any] = {"data_dir": tmp_path / "memory", "run_worker": False}
    if request.param == "mongodb":
        mongod: Mongod = request.getfixturevalue("mongod")
        settings |= {"mongo_uri": mongod.uri, "db_name": request.getfixturevalue("db_name")}
    async with MemoryService(MemoryConfig(**settings), embedder=HashEmbedder()) as service:
        if request.param != "client":
            yield service
            return
        async with served(service) as at, ServiceClient(at.address, api_key=await at.key()) as client:
            yield client


async def test_an_import_is_the_same_through_a_client_and_on_each_store(memory: Any, tmp_path: Path) -> None:
    """Nothing twice, what was forgotten stays forgotten, times and titles are kept, a conversation that is refused stops no other."""
    refused = tree(*TWO_ANSWERS, current="first", conversation_id="c" * 510)
    file = written(tmp_path, [tree(*TWO_ANSWERS, FOLLOWED, current="third"), refused])
    other = written(tmp_path, [CLAUDES], "claude.json")
    report = await import_chats(memory, "ada", file, other)
    expected = {"chatgpt": (3, 3), "claude": (1, 1)}
    assert {name: (one.turns, one.new) for name, one in report.sources.items()} == expected
    assert len(report.unreadable) == 1
    assert "thread_id" in report.unreadable[0].reason
    agent = memory.agent("ada", "chatgpt:c1")
    turns = await agent.fetch_short_term(10)
    assert [turn.content for turn in turns] == ["Which tea?", "Green.", "With milk?"]
    assert turns[1].timestamp.timestamp() == 1_700_000_002.0
    assert turns[0].metadata["title"] == "Tea"
    await agent.forget([turns[0].id])
    again = await import_chats(memory, "ada", file, other)
    assert again.new == 0
    assert again.sources["chatgpt"].left_out["forgotten here since"] == 1
    assert [turn.content for turn in await agent.fetch_short_term(10)] == ["Green.", "With milk?"]


LARGE = """
import asyncio, json, random, resource, sys
from pathlib import Path
from memory_agent import MemoryConfig, MemoryService, import_chats

def talk(number, chance):
    said = [" ".join(chance.choices(WORDS, k=4_000)) for _ in range(8)]
    nodes = {
        f"n{at}": {
            "id": f"n{at}",
            "parent": f"n{at - 1}" if at else None,
            "message": {
                "id": f"m{number}-{at}",
                "author": {"role": "assistant" if at % 2 else "user"},
                "create_time": 1.7e9 + 100 * number + at,
                "content": {"content_type": "text", "parts": [text]},
            },
        }
        for at, text in enumerate(said)
    }
    return {"conversation_id": f"c{number}", "title": f"Talk {number}", "current_node": "n7", "mapping": nodes}

WORDS = [f"word{number:04}" for number in range(3_000)]
chance, file = random.Random(3), Path(sys.argv[1]) / "conversations.json"
with file.open("w") as stream:
    for number in range(1_050):
        stream.write(("," if number else "[") + json.dumps(talk(number, chance)) + "\\n")
    stream.write("]")

async def main():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    async with MemoryService(MemoryConfig(data_dir=Path(sys.argv[1]) / "memory", run_worker=False)) as service:
        reports = [await import_chats(memory, "ada", file) for memory in (None, service, service)]
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    counts = [[report.turns, report.new] for report in reports]
    print(json.dumps({"bytes": file.stat().st_size, "counts": counts, "grown_mb": grown / 1024}))

asyncio.run(main())
"""


@pytest.mark.nightly
@pytest.mark.timeout(3_600)
async def test_an_export_of_300_mb_is_imported_in_bounded_memory(tmp_path: Path) -> None:
    """Counted first, then imported, then again, by a process of its own; what it takes does not grow with the file."""
    command = [sys.executable, "-c", LARGE, str(tmp_path)]
    process = await asyncio.create_subprocess_exec(*command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    out, said = await process.communicate()
    assert process.returncode == 0, said.decode()[-2_000:]
    found = json.loads(out)
    assert found["bytes"] > 290_000_000
    turns = 1_050 * 8
    assert found["counts"] == [[turns, 0], [turns, turns], [turns, 0]]
    assert found["grown_mb"] < 200


async def importing(file: str, folder: str) -> None:
    """What is killed."""
    await imported(Path(folder), Path(file))


@pytest.mark.nightly
@pytest.mark.timeout(1200)
async def test_an_import_killed_at_each_step_is_completed_and_doubles_nothing(tmp_path: Path) -> None:
    place = tmp_path / "place"
    file = written(
        tmp_path, [tree(*TWO_ANSWERS, FOLLOWED, current="third"), tree(*TWO_ANSWERS, conversation_id="c2")]
    )

    def prepare() -> list[str]:
        shutil.rmtree(place, ignore_errors=True)
        return [str(file), str(place)]

    async def check() -> None:
        await imported(place, file)
        assert await turns_of(place) == ["Which tea?", "Green.", "With milk?"]
        assert await turns_of(place, "chatgpt:c2") == ["Which tea?", "Black."]

    await steps.kill_at_each("tests.integration.test_imports:importing", prepare, check, least=20)


def test_the_command(quick: Quick, tmp_path: Path) -> None:
    """A dry run makes nothing, an import is named by source, and a bad conversation is told."""
    export = [tree(*TWO_ANSWERS, current="first"), {"mapping": 3, "id": "bad"}]
    packed = str(zipped(tmp_path / "export.zip", conversations=export))
    found = quick.json("import", packed, "--dry-run", code=1 + 2)
    assert found["sources"]["chatgpt"]["turns"] == 2
    assert isinstance(found["seconds"], float)
    assert not quick.data.exists()
    said = quick("import", packed, "--dry-run", "--user", "ada", code=3)
    assert "chatgpt: left out 1 message: of branches not shown last" in said.stdout
    assert "item 2: " in said.stderr
    assert "it searchable: < 1 minute" in said.stderr
    assert quick.json("import", packed, "--user", "ada", code=3)["sources"]["chatgpt"]["new"] == 2
    assert not any(quick.json("status")["pending"].values()), "it waits until they are searchable"
    assert quick.json("import", packed, "--user", "ada", code=3)["sources"]["chatgpt"]["new"] == 0
    threads = quick.json("threads", "--user", "ada")["threads"]
    assert [one["thread"] for one in threads] == ["chatgpt:c1"]
    assert "is of the kind chatgpt, not claude" in quick("import", packed, "--from", "claude", code=1).stderr
    assert "use one of auto, chatgpt" in quick("import", packed, "--from", "gpt", code=1).stderr


def test_an_own_export_is_known_and_takes_no_user(quick: Quick, tmp_path: Path) -> None:
    quick(
        "ingest", quick.file({"role": "user", "content": "My lamp is green."}), "--user", "ada", "--no-wait"
    )
    quick("export", "ada.jsonl.gz", "--user", "ada")
    quick.data = tmp_path / "other"
    assert quick.json("import", "ada.jsonl.gz")["new_turns"] == 1
    for option in (["--user", "ada"], ["--dry-run"]):
        assert "takes neither --user nor --dry-run" in quick("import", "ada.jsonl.gz", *option, code=2).stderr
    assert (
        json.loads(quick("export", "--user", "ada").stdout.splitlines()[1])["content"] == "My lamp is green."
    )
