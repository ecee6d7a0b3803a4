"""mem0's calls over this memory: its arguments and results, as those of mem0ai 2.2.1 are."""

from __future__ import annotations

import asyncio
import hashlib
import os
import re
import subprocess
import sys
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from memory_agent import InvalidInput, MemoryConfig, MemoryService
from memory_agent.domain import Scope
from memory_agent.errors import NotFound, StoreUnavailable
from memory_agent.integrations.mem0 import AsyncMemory, Memory, Place, expiry, passes
from tests.constants import settings_of
from tests.integration.conversations import opened
from tests.over_http import both_ways_by_day, embedded_only
from tests.servers.forks import forks

pytestmark = pytest.mark.usefixtures("both_ways")
PAGE = Path(__file__).parents[3] / "docs" / "mem0.md"
ADA: dict[str, Any] = {"user_id": "ada"}
SAID = [
    {"role": "system", "content": "Be brief."},
    {"role": "user", "content": "I am allergic to walnuts", "name": "Ada"},
    {"role": "assistant", "content": "No walnuts, then"},
]


@pytest.fixture
async def service(both_ways: None, quiet: dict[str, Any]) -> AsyncIterator[MemoryService]:
    async with opened(quiet) as service:
        yield service


@pytest.fixture
def memory(service: MemoryService) -> AsyncMemory:
    return AsyncMemory(service=service)


async def texts(memory: AsyncMemory, **filters: Any) -> list[str]:
    return [each["memory"] for each in (await memory.get_all(filters=filters, top_k=100))["results"]]


@both_ways_by_day
async def test_records_have_mem0s_keys_and_values(memory: AsyncMemory, service: MemoryService) -> None:
    added = await memory.add(SAID, **ADA, agent_id="cook", metadata={"topic": "food", "user_id": "eve"})
    first, second = added["results"]
    assert [each["event"] for each in (first, second)] == ["ADD", "ADD"]
    assert first.keys() == {"id", "memory", "event", "actor_id", "role"}
    record = await memory.get(first["id"])
    assert record is not None
    at = record["created_at"]
    assert datetime.fromisoformat(at).tzinfo
    assert record == {
        "id": first["id"],
        "memory": "I am allergic to walnuts",
        "hash": hashlib.md5(b"I am allergic to walnuts").hexdigest(),
        "metadata": {"topic": "food"},
        "score": None,
        "created_at": at,
        "updated_at": at,
        "user_id": "ada",
        "agent_id": "cook",
        "actor_id": "Ada",
        "role": "user",
    }
    listed = (await memory.get_all(filters=ADA))["results"]
    del record["score"]
    assert listed[1] == record
    assert [each["id"] for each in listed] == [second["id"], first["id"]]
    await service.settle(timeout=100, scope=Scope.of("ada"))
    found = (await memory.search("walnuts allergic", filters=ADA, explain=True))["results"]
    assert found[0]["id"] == first["id"]
    assert 0.1 <= found[0]["score"] <= 1
    assert found[0].keys() == {*record, "score", "score_details"}
    assert found == sorted(found, key=lambda each: -each["score"])


@both_ways_by_day
async def test_an_update_keeps_the_id_and_the_history_and_no_search_finds_the_old_text(
    memory: AsyncMemory, service: MemoryService
) -> None:
    (added,) = (await memory.add("I live in Porto", **ADA))["results"]
    await memory.add("And I like tea", **ADA)
    assert await memory.update(added["id"], "I live in Delft") == {"message": "Memory updated successfully!"}
    await memory.update(added["id"], metadata={"sure": True})
    await memory.update(added["id"], data="I live in Lisbon", expiration_date="2999-01-01")
    record = await memory.get(added["id"])
    assert record is not None
    expected = (added["id"], "I live in Lisbon", {"sure": True})
    assert (record["id"], record["memory"], record["metadata"]) == expected
    assert record["expiration_date"] == "2999-01-01"
    assert record["created_at"] < record["updated_at"]
    changes = await memory.history(added["id"])
    assert [(each["event"], each["old_memory"], each["new_memory"]) for each in changes] == [
        ("ADD", None, "I live in Porto"),
        ("UPDATE", "I live in Porto", "I live in Delft"),
        ("UPDATE", "I live in Delft", "I live in Delft"),
        ("UPDATE", "I live in Delft", "I live in Lisbon"),
    ]
    assert changes[0].keys() == {
        *("id", "memory_id", "old_memory", "new_memory", "event", "created_at", "updated_at"),
        *("is_deleted", "actor_id", "role"),
    }
    await service.settle(timeout=100, scope=Scope.of("ada"))
    assert await texts(memory, **ADA) == ["I live in Lisbon", "And I like tea"]
    found = (await memory.search("live Porto Delft Lisbon", filters=ADA, threshold=0))["results"]
    assert not [each for each in found if "Porto" in each["memory"] or "Delft" in each["memory"]]


async def test_of_updates_at_once_all_are_in_the_history(memory: AsyncMemory, service: MemoryService) -> None:
    (added,) = (await memory.add("0", **ADA))["results"]
    other = AsyncMemory(service=service)
    await asyncio.gather(*((memory, other)[n % 2].update(added["id"], f"{n}") for n in range(1, 7)))
    changes = await memory.history(added["id"])
    assert sorted(each["new_memory"] for each in changes) == [str(n) for n in range(7)]
    assert await texts(memory, **ADA) == [changes[-1]["new_memory"]]


async def cut_short(memory: AsyncMemory, service: MemoryService, memory_id: str, text: str) -> None:
    """An update that ends between storing the new text and forgetting the old."""
    kind = type(service.agent("ada", "mem0"))
    with pytest.MonkeyPatch.context() as patch:

        async def fails(*_: Any) -> None:
            raise StoreUnavailable("cut short")

        patch.setattr(kind, "forget", fails)
        with pytest.raises(StoreUnavailable):
            await memory.update(memory_id, text)


async def test_an_update_that_was_cut_short_leaves_one_memory_and_nothing_once_it_is_deleted(
    memory: AsyncMemory, service: MemoryService
) -> None:
    (added,) = (await memory.add("I live in Porto", **ADA))["results"]
    await cut_short(memory, service, added["id"], "I live in Delft")
    await memory.update(added["id"], "I live in Lisbon")
    assert await texts(memory, **ADA) == ["I live in Lisbon"]
    assert len(await memory.history(added["id"])) == 3
    await memory.delete(added["id"])
    assert await memory.get(added["id"]) is None
    # Deleted right after it, nothing is left.
    (added,) = (await memory.add("I live in Porto", **ADA))["results"]
    await cut_short(memory, service, added["id"], "I live in Delft")
    await memory.delete(added["id"])
    assert (await memory.get(added["id"]), await texts(memory, **ADA)) == (None, [])


@both_ways_by_day
async def test_what_is_deleted_is_gone_with_its_history(memory: AsyncMemory) -> None:
    first, second = (await memory.add([*SAID, {"role": "user", "content": ""}], **ADA))["results"]
    await memory.update(first["id"], "I am allergic to almonds")
    assert await memory.delete(first["id"]) == {"message": "Memory deleted successfully!"}
    assert await texts(memory, **ADA) == ["No walnuts, then"]
    assert (await memory.get(first["id"]), await memory.history(first["id"])) == (None, [])
    for gone in (first["id"], "no such id", ""):
        with pytest.raises(NotFound, match="not found"):
            await memory.delete(gone)
        with pytest.raises(ValueError, match="not found"):  # as mem0's callers catch it
            await memory.update(gone, "x")
    assert await memory.get(second["id"])


@both_ways_by_day
async def test_owners_are_kept_apart_and_deleted_apart(memory: AsyncMemory, service: MemoryService) -> None:
    await memory.add("of ada", user_id="ada")
    await memory.add("of ada in run 1", user_id="ada", run_id="1")
    await memory.add("of ada with the cook", user_id=" ada ", agent_id="cook")
    await memory.add("of ada with the cook in run 2", user_id="ada", agent_id="cook", run_id="2")
    await memory.add("of the cook", agent_id="cook")
    await memory.add("of run 1", run_id="1")
    await memory.add("of number 7", user_id=7)  # type: ignore[arg-type]  # as mem0 takes it
    await service.agent("ada", "chat").update_memory("of no mem0", "not its either")
    assert len(await texts(memory, user_id="ada")) == 4
    assert await texts(memory, user_id="ada", run_id="1") == ["of ada in run 1"]
    assert set(await texts(memory, user_id="ada", agent_id="cook")) == {
        "of ada with the cook",
        "of ada with the cook in run 2",
    }
    assert await texts(memory, agent_id="cook") == ["of the cook"]
    assert await texts(memory, run_id="1") == ["of run 1"]
    assert await texts(memory, user_id="7") == ["of number 7"]
    assert await texts(memory, user_id="bob") == []
    found = (await memory.search("of ada cook", filters={"user_id": "ada", "agent_id": "cook"}))["results"]
    assert {each["memory"] for each in found} <= {"of ada with the cook", "of ada with the cook in run 2"}
    await memory.delete_all(user_id="ada", agent_id="cook")
    assert len(await texts(memory, user_id="ada")) == 2
    await memory.delete_all(user_id="ada")
    assert await texts(memory, user_id="ada") == []
    await memory.reset()
    assert await texts(memory, agent_id="cook") == []
    assert len((await service.agent("ada", "chat").history()).turns) == 2


async def test_filters_and_last_days_leave_out_what_they_say(memory: AsyncMemory) -> None:
    for n in range(30):
        await memory.add(f"note {n}", **ADA, metadata={"n": n, "kind": "even" if n % 2 == 0 else "odd"})
    past = datetime.now(UTC).date() - timedelta(days=2)
    await memory.add("note of the past", **ADA, expiration_date=past)
    assert len((await memory.get_all(filters=ADA))["results"]) == 20
    assert await texts(memory, **ADA, n={"lt": 3}) == ["note 2", "note 1", "note 0"]
    assert len(await texts(memory, **ADA, kind="odd", n={"gte": 10, "lt": 20})) == 5
    shown = await memory.get_all(filters=ADA, top_k=1, show_expired=True)
    assert [each["memory"] for each in shown["results"]] == ["note of the past"]
    found = await memory.search("note", filters={**ADA, "n": {"in": [3, 29]}}, threshold=0)
    assert {each["memory"] for each in found["results"]} == {"note 3", "note 29"}
    assert (await memory.search("note", filters=ADA, top_k=0))["results"] == []
    # Metadata of that name which is no day ends nothing
    await memory.delete_all(**ADA)
    for last in ("soon", 29990101, {"year": 2000}, "2000-01-01T12:00:00Z", "2999-01-01T12:00:00Z"):
        await memory.add(f"until {last}", **ADA, metadata={"expiration_date": last})
    expected = ["until 2999-01-01T12:00:00Z", "until {'year': 2000}", "until 29990101", "until soon"]
    assert await texts(memory, **ADA) == expected


@embedded_only("no service is asked")
def test_mem0s_conditions() -> None:
    conditions: list[tuple[dict[str, Any], bool]] = [
        ({"a": 1}, True),
        ({"a": 2}, False),
        ({"b": "*"}, True),
        ({"c": "*"}, False),
        ({"b": {"contains": "ell"}}, True),
        ({"b": {"icontains": "HELL"}}, True),
        ({"b": {"contains": "x"}}, False),
        ({"c": {"icontains": "n"}}, False),
        ({"a": {"ne": 2, "nin": [3]}}, True),
        ({"c": {"gt": 1}}, False),
        ({"c": {"ne": 1}}, True),
        ({"AND": [{"a": 1}, {"b": "x"}]}, False),
        ({"OR": [{"a": 2}, {"b": "hello"}]}, True),
        ({"NOT": [{"a": 2}, {"b": "x"}]}, True),
        ({"NOT": [{"a": 1}]}, False),
    ]
    for wanted, holds in conditions:
        assert passes({"a": 1, "b": "hello"}, wanted) is holds, wanted


async def test_what_mem0_refuses_is_refused(memory: AsyncMemory) -> None:
    for call in (
        lambda: memory.add("x"),
        lambda: memory.add("x", user_id=" "),
        lambda: memory.add("x", user_id="a b"),
        lambda: memory.add("x", **ADA, expiration_date="soon"),
        lambda: memory.add("x", **ADA, memory_type="episodic"),
        lambda: memory.add(3, **ADA),  # type: ignore[arg-type]
        lambda: memory.search("x"),
        lambda: memory.search("x", user_id="ada"),
        lambda: memory.search("", filters=ADA),
        lambda: memory.search("x", filters=ADA, threshold=2),
        lambda: memory.get_all(filters={"topic": "x"}),
        lambda: memory.get_all(filters=ADA, top_k=-1),
        lambda: memory.update("x"),
        lambda: memory.delete_all(),
    ):
        with pytest.raises(ValueError):  # noqa: PT011 - mem0's class, ours says each time what is wrong
            await call()
    await memory.add("one", **ADA)
    wrong: list[dict[str, Any]] = [{"n": {"like": 1}}, {"n": {"eq": 1, "like": 1}}, {"OR": []}]
    for filters in wrong:
        with pytest.raises(InvalidInput):
            await memory.get_all(filters={**ADA, **filters})
    assert await texts(memory, **ADA) == ["one"]


@embedded_only("no service is asked")
def test_an_id_leads_nowhere_but_to_memories_of_these_calls() -> None:
    for wrong in ("", "x", "WzEsMl0", "W10", "WyJhZGEiLCJjaGF0IiwxLCJ0Il0", None, 3):
        assert Place.read(wrong) is None
    assert expiry(datetime(2026, 5, 1, tzinfo=UTC)) == "2026-05-01"


@embedded_only("the page's own service")
def test_the_example_remembers_in_one_process_and_recalls_in_the_next(tmp_path: Path) -> None:
    first, second = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    for program in (first, second):
        ran = forks().run(["-c", program], stdin="", cwd=tmp_path, env=os.environ, timeout=200)
        assert ran.returncode == 0, ran.stderr
        assert "allergic to walnuts" in ran.stdout


@embedded_only("it opens its own")
def test_without_await_it_opens_what_the_settings_say_and_closes_it(tmp_path: Path) -> None:
    with settings_of({"data_dir": tmp_path / "data", "enable_fact_extraction": False}) as known:
        for _ in range(2):
            with Memory(MemoryConfig(**known)) as memory:
                memory.add("I like tea", user_id="ada")
                memory.add("Bob's", user_id="bob")
            assert not (tmp_path / "data" / ".lock-holder.json").exists()
    with Memory(MemoryConfig(**known)) as memory:
        assert [each["memory"] for each in memory.get_all(filters=ADA)["results"]] == ["I like tea"] * 2


FORKED = """
import os, sys
from memory_agent.errors import NotOpen
from memory_agent.integrations.mem0 import Memory

memory = Memory()
child = os.fork()
if child == 0:
    try:
        memory.add("x", user_id="ada")
    except NotOpen as exc:
        print(exc, flush=True)
    memory.close()
    sys.exit(7)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
memory.close()
"""


@embedded_only("no service is asked")
@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system forks no processes")
def test_a_memory_made_before_a_fork_says_so_in_the_new_process_and_ends_with_it(tmp_path: Path) -> None:
    finished = subprocess.run(
        [sys.executable, "-W", "ignore::DeprecationWarning", "-c", FORKED],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    expected = ("this Memory was made before the process forked; make one in each process\n7\n", "")
    assert (finished.stdout, finished.stderr) == expected


@embedded_only("no service is asked")
def test_mem0s_configuration_is_taken_over_as_far_as_it_goes(caplog: pytest.LogCaptureFixture) -> None:
    memory = AsyncMemory.from_config(
        {
            "llm": {"provider": "openai", "config": {"model": "gpt-x", "api_key": "k", "temperature": 0}},
            "vector_store": {"provider": "qdrant"},
        }
    )
    assert memory._config is not None
    assert memory._config.fact_extraction_model == "gpt-x"
    assert "not used" in caplog.text
    assert "vector_store" in caplog.text
