"""A known user in a new thread: what is remembered of all of a user's threads, unless one alone is asked for."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from memory_agent import InvalidInput, MemoryAgent, MemoryConfig, MemoryService, TurnInput
from memory_agent.stores.sqlite import SqliteStore
from memory_agent.testing import HashEmbedder

MONDAY = datetime(2026, 5, 4, 9, tzinfo=UTC)
ALLERGY = "I'm allergic to penicillin, so I need to tell the new health centre."
HOME = "I live in Lisbon."
QUESTION = "What should the new doctor know?"


async def told(memory: MemoryAgent, *texts: str, when: datetime = MONDAY) -> list[str]:
    """The texts said by the user, and settled; their ids."""
    turns = await memory.add_turns([TurnInput(role="user", content=text, timestamp=when) for text in texts])
    await memory.settle(timeout=60)
    return [turn.id for turn in turns]


async def test_a_known_users_new_thread_is_not_blank(service: MemoryService) -> None:
    """It begins with the user's facts and recollections, which say that they are from elsewhere; no other user sees them."""
    await told(service.agent("ann", "monday"), ALLERGY, HOME)
    new = service.agent("ann", "tuesday")
    context = await new.fetch_memory(QUESTION)
    assert context.facts == await new.fetch_facts() != {}
    assert [found.turn.thread_id for found in context.long_term] == ["monday"]
    expected = ["[4 May 2026, another conversation]", f"user: {ALLERGY}"]
    assert context.part("long_term").splitlines() == expected
    assert (context.short_term, context.summary, context.topic, context.state) == ((), (), None, "")
    assert [found.text for found in await new.fetch_long_term(QUESTION, top_k=1)] == [ALLERGY]
    assert str(await new.fetch_memory(QUESTION, scope="thread")) == ""
    assert await new.fetch_long_term(QUESTION, scope="thread") == []
    assert await new.fetch_facts(scope="thread") == {}
    assert str(await service.agent("bob", "monday").fetch_memory(QUESTION)) == ""
    # Its own turns are no recollections from elsewhere, though they have the numbers of the other thread's.
    await told(new, "I see Dr Lima at noon.", "She asks for my history.", when=MONDAY + timedelta(days=1))
    context = await new.fetch_memory(QUESTION)
    assert {turn.thread_id for turn in context.short_term} == {"tuesday"}
    assert [found.turn.thread_id for found in context.long_term] == ["monday"]
    with pytest.raises(InvalidInput, match="scope is 'all'"):
        await new.fetch_memory(QUESTION, scope="all")  # type: ignore[arg-type]


async def test_a_later_correction_in_another_thread_counts(service: MemoryService) -> None:
    """From then on: as of a time before, neither the fact nor the turn is there."""
    work, home = service.agent("ann", "work"), service.agent("ann", "home")
    await told(work, "I live in Lisbon.")
    await told(home, "I moved to Porto.", when=MONDAY + timedelta(days=7))
    assert (await work.fetch_facts())["location"] == "Porto"
    assert (await work.fetch_facts(scope="thread"))["location"] == "Lisbon"
    for moment, location, threads in (
        (MONDAY + timedelta(days=1), "Lisbon", set()),
        (MONDAY + timedelta(days=8), "Porto", {"home"}),
    ):
        context = await work.fetch_memory("Have I moved to Porto?", now=moment)
        assert context.facts["location"] == location
        assert {found.turn.thread_id for found in context.long_term} - {"work"} == threads
    await home.clear()
    assert (await work.fetch_facts())["location"] == "Lisbon"
    assert "Porto" not in str(await work.fetch_memory("Where do I live?"))


async def test_of_the_same_said_in_two_threads_this_ones_comes_first(service: MemoryService) -> None:
    """From whichever it is asked; it is no surer for that."""
    said = "The boiler is serviced on Friday."
    threads = [service.agent("ann", name) for name in ("one", "two", "three")]
    for memory in threads[:2]:
        await told(memory, said, "Nothing else is new here.")
    from_outside = await threads[2].fetch_long_term("When is the boiler serviced?", top_k=4)
    sure = {found.turn.id: found.confidence for found in from_outside}
    assert (from_outside[0].text, [found for found in from_outside if "here" in found.why]) == (said, [])
    for memory in threads[:2]:
        found = await memory.fetch_long_term("When is the boiler serviced?", top_k=2)
        assert (found[0].text, found[0].turn.thread_id) == (said, memory.scope.thread_id)
        assert "here" in found[0].why
        assert found[0].confidence == sure[found[0].turn.id]
        alone = await memory.fetch_long_term("When is the boiler serviced?", top_k=2, scope="thread")
        assert {found.turn.thread_id for found in alone} == {memory.scope.thread_id}
        assert "here" not in alone[0].why


async def test_threads_are_kept_apart_by_one_setting(embedded_settings: dict[str, Any]) -> None:
    """`memory_scope="thread"` is what a call means that does not say; one that asks for the user gets all of theirs."""
    cfg = MemoryConfig(**embedded_settings, memory_scope="thread")
    async with MemoryService(cfg, embedder=HashEmbedder()) as service:
        await told(service.agent("ann", "monday"), HOME)
        new = service.agent("ann", "tuesday")
        assert str(await new.fetch_memory(QUESTION)) == ""
        assert (await new.fetch_long_term(QUESTION), await new.fetch_facts()) == ([], {})
        assert (await new.fact_history(), await new.entities()) == ([], [])
        assert HOME in str(await new.fetch_memory("Do I live in Lisbon?", scope="user"))
        assert [found.text for found in await new.fetch_long_term(QUESTION, scope="user")] == [HOME]
        assert await new.fetch_facts(scope="user") == {"location": "Lisbon"}


class CountedStore(SqliteStore):
    """An SQLite store that counts the calls that read it."""

    reads = 0

    async def _read(self, *args: Any, **options: Any) -> Any:
        self.reads += 1
        return await super()._read(*args, **options)


async def test_a_fetch_reads_as_often_with_many_threads(embedded_settings: dict[str, Any]) -> None:
    """And what is known over all of them is folded again only where something was said or forgotten since."""
    cfg = MemoryConfig(**embedded_settings, run_worker=False)
    store = CountedStore(cfg.data_dir / "memory_agent.sqlite3")
    await store.open()
    reads = {}
    async with MemoryService(cfg, embedder=HashEmbedder(), store=store) as service:
        new, known = service.agent("ann", "new"), set[str]()
        await new.fetch_memory("What do I like?")  # the first one reads the user's rows into memory
        for threads in (2, 30):
            for number in range(len(known), threads):
                memory = service.agent("ann", f"thread {number}")
                await memory.add_fact("likes", f"thing {number}")
                known.add(f"thing {number}")
            for again in (False, True):
                before = store.reads
                context = await new.fetch_memory("What do I like?")
                reads[threads, again] = store.reads - before
                assert set(context.facts["likes"]) == known
        assert reads[2, False] == reads[30, False] == reads[30, True] + 1
        (await new.fetch_facts())["likes"].clear()  # the caller's own
        await service.agent("ann", "thread 0").clear()
        assert set((await new.fetch_facts())["likes"]) == known - {"thing 0"}
    await store.close()
