"""What turns speak of by name: found at once, counted, searched under any alias, and forgotten."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from memory_agent import ConfigError, MemoryAgent, MemoryService
from memory_agent.domain import Entity, by_kind
from memory_agent.errors import BackendError, EmbedderUnavailable
from memory_agent.testing import HashEmbedder
from tests import profiles
from tests.integration.conversations import START, STORES, everything, opened, remains, settings_on
from tests.over_http import embedded_only

pytestmark = pytest.mark.usefixtures("both_ways")  # see tests/over_http.py

SAID = ("LANEIGE와 COSRX 비교", "SoS와 HHI로")
WHICH = "LANEIGE, COSRX, SoS, HHI?"
NAMED = {"brands": ["LANEIGE", "COSRX"], "indicators": ["SoS", "HHI"]}


@pytest.fixture(params=profiles.by_day(*STORES))
def settings(request: pytest.FixtureRequest, tmp_path: Path) -> dict[str, Any]:
    """A fresh database on each store, and the dictionary that ships."""
    return settings_on(request.param, request, tmp_path)


@pytest.fixture
async def service(settings: dict[str, Any]) -> AsyncIterator[MemoryService]:
    async with opened(settings) as service:
        yield service


async def names(memory: MemoryAgent, scope: Any = "thread") -> dict[str, list[str]]:
    return by_kind(await memory.entities(scope=scope))


async def test_names_are_known_before_and_after_they_are_indexed(settings: dict[str, Any]) -> None:
    """Of a thread and of all the user's threads, in the order of their first mention."""
    async with opened(settings, run_worker=False) as service:
        memory = service.agent("ann", "chat")
        for number, text in enumerate(SAID):
            await memory.add_user_message(text, timestamp=START + timedelta(minutes=number))
        before = await memory.entities(), await memory.entities(scope="user")
        assert [by_kind(counts) for counts in before] == [NAMED, NAMED]
        assert (await memory.fetch_memory(WHICH)).entities == NAMED
    async with opened(settings) as service:
        memory = service.agent("ann", "chat")
        await memory.settle(timeout=60)
        assert (await memory.entities(), await memory.entities(scope="user")) == before
        context = await memory.fetch_memory(WHICH)
        assert context.entities == NAMED
        assert context.part("entities").splitlines() == [
            "- LANEIGE (brands): mentioned in 1 turn, on 1 March 2026",
            "- COSRX (brands): mentioned in 1 turn, on 1 March 2026",
            "- SoS (indicators): mentioned in 1 turn, on 1 March 2026",
            "- HHI (indicators): mentioned in 1 turn, on 1 March 2026",
        ]


async def test_mentions_are_counted_by_turn(service: MemoryService) -> None:
    """Each turn once, with the first and the last; other threads count for the user alone, other users never.

    The same before and after they are indexed, and with entities that a caller names: an alias becomes the name it stands for.
    """
    memory, other, bob = (service.agent(*ids) for ids in (("ann", "chat"), ("ann", "b"), ("bob", "chat")))
    texts = ("라네즈, laneige and LANEIGE", "nothing", "LANEIGE?")
    turns = [
        await memory.add_turn("user", text, timestamp=START + timedelta(hours=hour))
        for hour, text in enumerate(texts)
    ]
    late = await other.add_turn("assistant", "LANEIGE again", timestamp=START + timedelta(days=1))
    given: list[Any] = [{"kind": "people", "name": "Mia Holm"}, Entity(kind="brands", name="라네즈")]
    stored = await bob.add_turn("user", "She likes LANEIGE", entities=given)
    for settled in (False, True):
        if settled:
            await service.settle(timeout=60)
        (count,) = await memory.entities(scope="thread")
        assert count.entity == Entity(kind="brands", name="LANEIGE")
        assert (count.count, count.first_turn_id, count.last_turn_id) == (2, turns[0].id, turns[2].id)
        assert (count.first_at, count.last_at) == (START, START + timedelta(hours=2))
        (of_user,) = await memory.entities()
        assert (of_user.count, of_user.first_turn_id, of_user.last_turn_id) == (3, turns[0].id, late.id)
        assert await names(bob, "user") == {"brands": ["LANEIGE"], "people": ["Mia Holm"]}
        assert [count.count for count in await bob.entities()] == [1, 1]
    (turn,) = await everything(bob)
    laneige, mia = Entity(kind="brands", name="LANEIGE"), Entity(kind="people", name="Mia Holm")
    assert turn.entities == stored.entities == (laneige, mia)
    assert turn.given_entities == (mia, given[1])


async def test_a_question_finds_what_is_named_otherwise(settings: dict[str, Any]) -> None:
    """Under an alias in another language, the turn that names the same thing comes first, indexed or not."""
    texts = (
        "The weather in Bergen is wet",
        "I bought a LANEIGE mask",
        "Das Wetter ist gut",
        "COSRX is sold out",
    )
    for run_worker in (False, True):
        async with opened(settings, run_worker=run_worker) as service:
            memory = service.agent("ann", "chat")
            for text in () if run_worker else texts:
                await memory.add_user_message(text)
            if run_worker:
                await memory.settle(timeout=60)
            found = await memory.fetch_long_term("라네즈", top_k=4)
            assert found[0].text == "I bought a LANEIGE mask"
            assert found[0].why["words"] > 0
            assert "LANEIGE" in found[0].explanation


async def test_a_prompt_has_the_entities_that_the_question_names(memory: MemoryAgent) -> None:
    for text in ("LANEIGE", "COSRX", "TIRTIR"):
        await memory.add_user_message(f"{text} " + "word " * 40)
    await memory.settle(timeout=60)
    context = await memory.fetch_memory("TIRTIR or 라네즈?")
    assert context.entities["brands"] == ["LANEIGE", "TIRTIR"]
    assert [entry.item.partition(":")[2] for entry in context.ledger if entry.tier == "entities"] == [
        "LANEIGE",
        "TIRTIR",
    ]


async def test_another_thread_knows_when_an_entity_was_last_mentioned(
    memory: MemoryAgent, service: MemoryService
) -> None:
    """However much else is recalled, and however large the other thread is."""
    for number in range(20):
        await memory.add_user_message(
            f"LANEIGE sold {number} creams.", timestamp=START + timedelta(days=number)
        )
    await memory.settle(timeout=60)
    other = service.agent(memory.scope.user_id, "elsewhere")
    assert (await other.fetch_memory("How did LANEIGE do?")).part("entities") == (
        "- LANEIGE (brands): mentioned in 20 turns, last on 20 March 2026"
    )
    assert (await other.fetch_memory("How did LANEIGE do?", scope="thread")).part("entities") == ""


async def test_a_turn_has_its_entities_wherever_it_is_read(memory: MemoryAgent) -> None:
    """At once, and after it was indexed; a repeat of the call that gave its own is a repeat."""
    given = [{"kind": "people", "name": "Mia"}]
    added = await memory.add_turn("user", "LANEIGE와 sos", entities=given, idempotency_key="k")
    expected = {"brands": ["LANEIGE"], "indicators": ["SoS"], "people": ["Mia"]}
    for settled in (False, True):
        if settled:
            await memory.settle(timeout=60)
        [found] = await memory.fetch_long_term("LANEIGE")
        for turn in (
            added,
            await memory.add_turn("user", "LANEIGE와 sos", entities=given, idempotency_key="k"),
            *(await memory.history()).turns,
            *await memory.fetch_short_term(),
            found.turn,
            *(await memory.fetch_memory("LANEIGE?")).short_term,
        ):
            assert by_kind(turn.entities) == expected
            assert turn.given_entities == (Entity(kind="people", name="Mia"),)


async def test_what_forgotten_turns_named_is_gone(memory: MemoryAgent, service: MemoryService) -> None:
    """From the counts, and from the database; what other turns name as well is counted without them."""
    one = await memory.add_turn("user", "LANEIGE and COSRX", entities=[{"kind": "people", "name": "Zebulon"}])
    two = await memory.add_turn("user", "LANEIGE")
    await memory.settle(timeout=60)
    assert await remains(service, "Zebulon")
    await memory.forget([one.id])
    (count,) = await memory.entities()
    assert (count.entity.name, count.count, count.first_turn_id) == ("LANEIGE", 1, two.id)
    await memory.settle(timeout=60)
    assert [c.count for c in await memory.entities(scope="user")] == [1]
    assert await remains(service, "Zebulon") == []
    await memory.clear()
    assert await memory.entities() == []


@embedded_only("no agent asks anything: it is about opening")
async def test_a_dictionary_that_is_not_there_is_told_at_start(embedded_settings: dict[str, Any]) -> None:
    """By its name."""
    with pytest.raises(ConfigError, match=r"nowhere\.toml"):
        async with opened(embedded_settings, entities_file=Path("nowhere.toml")):
            pass


@embedded_only("no agent asks anything: it is about opening")
async def test_a_dictionary_of_before_is_told_at_start_and_not_passed_over(
    embedded_settings: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "config").mkdir()
    (tmp_path / "config" / "entities.yaml").write_text("brands: {}\n")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ConfigError, match=r"entities\.yaml is not read any more: .* TOML"):
        async with opened(embedded_settings):
            pass
    (tmp_path / "config" / "entities.toml").write_text("[brands]\n")
    async with opened(embedded_settings) as service:
        await service.agent("ann", "chat").add_user_message("LANEIGE?")


async def test_a_rebuild_finds_names_of_a_changed_dictionary(
    settings: dict[str, Any], tmp_path: Path
) -> None:
    """In turns that are indexed already, and without embedding any of them again."""
    async with opened(settings) as service:
        memory = service.agent("ann", "chat")
        await memory.add_user_message("LANEIGE와 올리브영")
        await memory.settle(timeout=60)
        assert await names(memory) == {"brands": ["LANEIGE"]}
    changed = tmp_path / "changed.toml"
    changed.write_text("[shops]\n'Olive Young' = ['올리브영']\n", encoding="utf-8")
    embedder = HashEmbedder()
    async with opened({**settings, "entities_file": changed}, embedder=embedder) as service:
        memory = service.agent("ann", "chat")
        assert await names(memory) == {"brands": ["LANEIGE"]}
        embedder.fail = EmbedderUnavailable("nothing is to be embedded")
        await service.rebuild_index("ann")
        await memory.settle(timeout=60)
        assert await names(memory) == {"shops": ["Olive Young"]}
        [turn] = await memory.fetch_short_term()
        assert by_kind(turn.entities) == {"shops": ["Olive Young"]}
        embedder.fail = None
        assert (await memory.fetch_long_term("Olive Young?"))[0].text == "LANEIGE와 올리브영"


class Ferries:
    """Finds the ship Aurora; can be down."""

    name = "ferries"

    def __init__(self) -> None:
        self.down = False

    def find(self, texts: Sequence[str]) -> list[list[Entity]]:
        if self.down:
            raise BackendError("no pilot")
        return [
            [Entity(kind="ships", name="Aurora")] if "aurora" in text.casefold() else [] for text in texts
        ]


async def test_a_finder_of_ones_own_adds_names_that_no_dictionary_has(settings: dict[str, Any]) -> None:
    """In turns and in questions; while it fails turns are indexed and answers come without its names, which is said."""
    finder = Ferries()
    async with opened(settings, entity_finder=finder) as service:
        memory = service.agent("ann", "chat")
        await memory.add_user_message("The aurora sails at nine, with COSRX on board.")
        await memory.settle(timeout=60)
        assert await names(memory) == {"ships": ["Aurora"], "brands": ["COSRX"]}
        [turn] = await memory.fetch_short_term()
        assert by_kind(turn.entities) == {"brands": ["COSRX"], "ships": ["Aurora"]}
        assert (await memory.fetch_memory("When does the Aurora sail?")).degraded == ()
        finder.down = True
        await memory.add_user_message("The aurora was late.")
        await memory.settle(timeout=60)
        assert "entities" in (await memory.fetch_memory("When does the Aurora sail?")).degraded
        assert "was late" in (await memory.fetch_long_term("late"))[0].text
