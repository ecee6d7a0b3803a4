"""The context of a question as a user of the package gets it: a role that lasts, presets, times, memory of threads."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from memory_agent import MemoryAgent, MemoryContext, MemoryService
from memory_agent.agent.arguments import PRESET_NAMES
from memory_agent.context.assemble import ORDER
from memory_agent.context.budget import PERSONA_TOKENS
from memory_agent.context.ledger import message_tokens
from memory_agent.domain import Character, Preset
from memory_agent.errors import EmbedderUnavailable
from memory_agent.testing import FixedClock, HashEmbedder
from tests import profiles
from tests.integration.conversations import START, everything, lines, opened, said, settings_on
from tests.integration.fact_script import asking, standing
from tests.integration.test_facts_echo import ECHOES, SAID, eager
from tests.over_http import embedded_only
from tests.servers.openai_script import Reply, Request, ScriptedOpenAI

pytestmark = pytest.mark.usefixtures("both_ways")  # see tests/over_http.py

MIA = Character(
    name="Mia Holm",
    personality="warm, curious, a little ironic",
    profile="A retired lighthouse keeper from Bodø who repairs clocks and writes long letters. " * 10,
    traits=("patient", "never lies"),
)


@pytest.fixture
def settings(request: pytest.FixtureRequest, tmp_path: Path) -> dict[str, Any]:
    """A fresh database: SQLite's, unless a test is `on_each_store`."""
    return settings_on(getattr(request, "param", "sqlite"), request, tmp_path)


@pytest.fixture
async def service(settings: dict[str, Any]) -> AsyncIterator[MemoryService]:
    async with opened(settings) as service:
        yield service


@embedded_only("it is about prompts, and long")
async def test_a_role_lasts_for_hundreds_of_turns(embedded_settings: dict[str, Any]) -> None:
    """The reminder is there at every turn, in its tokens, and what was decided is quoted, though no model sums it up."""
    quiet = {"enable_topics": False, "enable_fact_extraction": False, "session_idle_seconds": 1e6}
    async with opened({**embedded_settings, **quiet}, clock=FixedClock(START)) as service:
        memory = service.agent("ann", "chat")
        await memory.start_session(MIA)
        counter, most = service.core.counter, PERSONA_TOKENS
        blocks = 20 if profiles.chosen() == "nightly" else 6
        for block in range(blocks):
            texts = lines(50, first=block * 50 + 1)
            texts[30] = f"We have decided to meet at quay {block}."
            await memory.add_turns(said(texts, start=START + timedelta(minutes=50 * block)))
            context = await memory.fetch_memory("Who are you, and what now?")
            reminder = context.reminder
            assert counter.count(reminder) <= most
            assert reminder.startswith("You are Mia Holm.\nPersonality: warm, curious")
            assert reminder == context.persona
            assert context.degraded == ()
            await memory.settle(timeout=60)
        compressions = await memory.compressions()
        assert len(compressions) >= blocks // 2 - 1
        compressed = await memory.session_context()
        assert compressed.reminder.startswith("You are Mia Holm.")
        assert "We have decided to meet at quay 1" in str(compressed)
        assert len(await everything(memory)) == 50 * blocks


async def test_a_context_of_everything_fits_and_adds_up(settings: dict[str, Any]) -> None:
    """By any preset and budget, as text and as messages, beside a long past."""
    options = {"enable_topics": True, "enable_fact_extraction": True}
    async with opened(settings, **options) as service:
        memory = service.agent("ann", "chat")
        await memory.start_session(MIA)
        await memory.update_memory("I live in Bergen. I like chess.", "Noted.")
        await memory.add_turns(said(lines(60)))
        await memory.update_memory("We have decided to meet at the quay.", "```py\nprint('ok')\n```")
        await memory.settle(timeout=60)
        await memory.compress()
        await memory.update_memory("I'm so happy!", "Good.")
        counter = service.core.counter
        for preset in PRESET_NAMES:
            for budget in (0, 1, 60, 200, 1_000, 4_000, 10**6):
                context = await memory.fetch_memory("Which clocks?", max_tokens=budget, preset=preset)
                assert counter.count(str(context)) == context.tokens <= budget
                assert message_tokens(context.blocks, counter) <= budget
                assert sum(entry.tokens for entry in context.ledger if entry.kept) == context.tokens
                names = [(entry.tier, entry.item) for entry in context.ledger]
                assert len(names) == len(set(names))
                tiers = [block.tier for block in context.blocks]
                assert tiers == [tier for tier in ORDER if tier in tiers]
                if budget >= 200:
                    assert context.persona.startswith("You are Mia Holm.")
                if budget >= 1_000 and preset != "recall":
                    assert context.short_term[-1].content == "Good."
                if budget == 10**6:
                    # the whole conversation is shown, and then nothing of it again
                    some = {"topic", "state"} if preset in {"code", "chat"} else set()
                    now = {"long_term", "summary"} if preset == "recall" else {"short_term"}
                    assert {"persona", "facts"} | some <= set(tiers) <= {"persona", "facts"} | some | now


async def test_a_context_as_of_a_time_knows_nothing_later(memory: MemoryAgent) -> None:
    """Neither turns nor the state of the conversation."""
    await memory.add_turns(said([*lines(30), "We have decided to go.", "Good.", "I'm so happy!", *lines(30)]))
    await memory.settle(timeout=60)
    *_, line = lines(7)
    context = await memory.fetch_memory(line, now=START + timedelta(minutes=30))
    assert "decided" not in str(context)
    assert max(turn.seq for turn in context.short_term) == 30
    decided = [
        await memory.fetch_memory("What have we decided?", preset="recall", now=now)
        for now in (START + timedelta(minutes=30), None)
    ]
    assert ["decided to go" in str(each) for each in decided] == [False, True]
    later = await memory.fetch_memory("line", now=START + timedelta(minutes=33))
    assert "We have decided to go" in str(later)


async def test_a_conversation_that_fits_is_shown_whole_in_order(embedded_settings: dict[str, Any]) -> None:
    """Then nothing of it is recalled; one that does not fit is shown from its newest turn on, without a gap."""
    async with opened(embedded_settings, short_term_window=4) as service:
        memory = service.agent("ann", "chat")
        await memory.add_turns(said([f"line {number} of many" for number in range(1, 61)]))
        await memory.settle(timeout=60)
        context = await memory.fetch_memory("line 7", max_tokens=2_000)
        assert [turn.seq for turn in context.short_term] == list(range(1, 61))
        assert context.long_term == ()
        messages = context.to_messages()
        assert [message["content"] for message in messages[-60:]] == [t.content for t in context.short_term]
        small = await memory.fetch_memory("line 7", max_tokens=400)
        assert [turn.seq for turn in small.short_term] == list(range(61 - len(small.short_term), 61))
        assert small.long_term[0].turn.seq == 7


async def test_what_a_prompt_shows_whole_is_not_ranked_for_it(embedded_settings: dict[str, Any]) -> None:
    """Nor embedded, until another thread has something to recall, or half of the budget is too little for it."""
    embedder = HashEmbedder()
    async with opened(embedded_settings, embedder=embedder, short_term_window=4) as service:
        memory = service.agent("ann", "chat")
        await memory.start_session(MIA)
        await memory.add_turns(said([f"line {number}" for number in range(1, 31)], role="user"))
        await memory.settle(timeout=60)

        async def recalled(most: int, preset: Preset = "balanced") -> tuple[int, int]:
            context = await memory.fetch_memory("line 7", max_tokens=most, preset=preset)
            return len(context.short_term), sum(entry.tier == "long_term" for entry in context.ledger)

        embedder.fail = EmbedderUnavailable("down")
        assert (await memory.fetch_memory("line 7", max_tokens=2_000)).degraded == ()
        embedder.fail = None
        assert await recalled(2_000) == (30, 0)
        for shown, ranked in (await recalled(2_000, "recall"), await recalled(400)):
            assert shown in {0, 4}
            assert ranked
        await service.agent("ann", "other").update_memory("line 7 of another day", "Noted.")
        context = await memory.fetch_memory("line 7", max_tokens=2_000)
        assert len(context.short_term) == 30
        assert [found.text for found in context.long_term][:1] == ["line 7 of another day"]
        embedder.fail = EmbedderUnavailable("down")
        assert (await memory.fetch_memory("line 7", max_tokens=2_000)).degraded == ("embedder",)


# --- live threads --------------------------------------------------------------------------------------------
async def test_threads_leave_memory_and_nothing_else(settings: dict[str, Any]) -> None:
    """Of ten threads three are live; one that left gives the same context as before."""
    async with opened(settings, max_live_threads=3) as service:
        agents = [service.agent("ann", f"chat {n}") for n in range(10)]
        for n, memory in enumerate(agents):
            await memory.start_session(MIA)
            await memory.add_turns(said([*lines(40), f"We have decided to meet at quay {n}.", "Good."]))
        await service.settle(timeout=60)
        service.core.live.clear()
        before = await service.get_stats()

        async def context_of(memory: MemoryAgent) -> MemoryContext:
            """Of which moments are part: without room for the whole conversation."""
            return await memory.fetch_memory("Where do we meet?", max_tokens=200, preset="code")

        contexts = [await context_of(memory) for memory in agents]
        stats = await service.get_stats()
        assert (stats.live_threads, stats.max_live_threads) == (3, 3)
        assert stats.evictions - before.evictions == 7
        assert (stats.misses - before.misses, stats.turns) == (10 * 42, 3 * 42)
        again = await context_of(agents[0])
        assert again == contexts[0]
        assert "quay 0" in str(again)
        now = await service.get_stats()
        assert (now.evictions - stats.evictions, now.misses - stats.misses) == (1, 42)
        assert await context_of(agents[9]) == contexts[9]
        assert (await service.get_stats()).hits - now.hits == 42


async def test_what_is_live_of_a_forgotten_turn_is_dropped(memory: MemoryAgent) -> None:
    """The prompt says nothing of it any more."""
    await memory.update_memory("We have decided to meet Zebulon.", "Good.")
    receipt = await memory.update_memory("We have decided to sell the Quagga.", "Good.")
    assert "Quagga" in str(await memory.fetch_memory("x"))
    await memory.forget(receipt.turn_ids)
    context = await memory.fetch_memory("x")
    assert "Quagga" not in str(context)
    assert "Zebulon" in str(context)


# --- echoes --------------------------------------------------------------------------------------------------
@embedded_only("it is about what a prompt looks like in a turn")
@pytest.mark.parametrize("echo", profiles.by_day("whole", "without-tags", "quoted"))
@pytest.mark.parametrize("compressed", [False, True], ids=["context", "compressed"])
async def test_a_context_that_is_said_back_adds_no_facts(
    echo: str, compressed: bool, embedded_settings: dict[str, Any], openai_server: ScriptedOpenAI
) -> None:
    """With persona, summary, preserved turns, state and all, however eagerly a model notes what it sees."""
    note = eager()

    def answer(body: Request) -> Reply | str:
        if "THE SAME FORMAT" in str(body["messages"]):
            return "FACTS: Ann owns a red boat.\nDECISIONS: They sell the boat."
        return note(body)

    openai_server.answer = answer
    async with opened(asking(embedded_settings, openai_server)) as service:
        memory = service.agent("ann", "chat")
        await memory.start_session(MIA)
        await memory.add_turns(said(lines(30), role="assistant"))
        for text in SAID:
            await memory.update_memory(text, "We have decided to sell the boat, and I trust you.")
        await memory.settle(timeout=60)
        await memory.compress()
        records = [record.id for record in await standing(memory)]
        assert len(records) == 3
        for number in range(3):
            question = f"What should I do on day {number}?"
            context = await memory.session_context() if compressed else await memory.fetch_memory(question)
            if compressed:  # else the conversation itself is shown
                assert "They sell the boat." in str(context)
            assert "You are Mia Holm." in str(context)
            given = ECHOES[echo](str(context))
            await memory.update_memory(f"{given}\n\n{question}", f"{given}\n\nReally?")
            await memory.settle(timeout=60)
        assert [record.id for record in await standing(memory)] == records


async def test_the_preset_of_the_settings_holds_unless_asked(embedded_settings: dict[str, Any]) -> None:
    """Which a call may do."""
    chosen: Preset = "minimal"
    async with opened(embedded_settings, context_preset=chosen, run_worker=False) as service:
        memory = service.agent("ann", "chat")
        assert (await memory.fetch_memory("x")).tokens == 0
        await memory.add_turns(said(lines(30)))
        assert (await memory.fetch_memory("x")).preset == "minimal"
        assert (await memory.fetch_memory("x", preset="code")).preset == "code"


async def test_recollections_are_bounded_and_the_running_conversation_left_out_where_that_is_asked(
    embedded_settings: dict[str, Any],
) -> None:
    """By the call, else by the setting where somebody set it; what is sent along anyway is not recalled either."""
    asked: dict[str, Any] = {"user_message": "How many jars did hive 7 give?", "max_tokens": 400}

    async def fetched(**given: Any) -> tuple[MemoryContext, MemoryContext, MemoryContext]:
        settings = {**embedded_settings, **given, "run_worker": False}
        async with opened(settings, embedder=HashEmbedder()) as service:
            memory = service.agent("ann", "chat")
            last = await memory.fetch_short_term()
            if not last:
                texts = [
                    text for n in range(30) for text in (f"Hive {n} gave {n} jars.", f"Noted, {n} jars.")
                ]
                await memory.add_turns(said(texts))
            return (
                await memory.fetch_memory(**asked),
                await memory.fetch_memory(**asked, top_k=1),
                await memory.fetch_memory(**asked, price="thorough", window=False),
            )

    free, bounded, sent_along = await fetched()
    assert (len(free.long_term) > 2, len(bounded.long_term)) == (True, 1)
    assert (len(free.short_term), sent_along.short_term) == (10, ())
    assert sent_along.long_term
    assert {found.turn.seq for found in sent_along.long_term}.isdisjoint(range(51, 61))
    free, bounded, _ = await fetched(top_k_memories=2)
    assert (len(free.long_term), len(bounded.long_term)) == (2, 1)
