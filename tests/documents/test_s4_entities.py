"""S4, ConversationMemory Implementation: brands and indicators that a conversation names."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from memory_agent import Entity, MemoryAgent, MemoryConfig, MemoryService, by_kind
from memory_agent.domain import Role
from memory_agent.testing import HashEmbedder, ScriptedLLM
from tests.documents.conftest import Servers
from tests.documents.frame import says

START = datetime(2026, 3, 2, 9, tzinfo=UTC)
LONG = "Message number {} is about ferries. " + "They sail at nine from the old harbour. " * 20
SHARE = ["LANEIGE 점유율 알려줘", "현재 LANEIGE의 SoS는 12.5%입니다."]
SAID: list[tuple[Role, str]] = [("user", SHARE[0]), ("assistant", SHARE[1])]


@pytest.fixture
async def quick(tmp_path: Path) -> AsyncIterator[MemoryService]:
    """A service of the test's own, whose embedder takes no time."""
    async with MemoryService(MemoryConfig(data_dir=tmp_path / "data"), embedder=HashEmbedder()) as opened:
        yield opened


async def talk(memory: MemoryAgent, count: int, text: str = "Message number {} is about ferries.") -> None:
    await memory.add_turns(
        [{"role": ("user", "assistant")[i % 2], "content": text.format(i)} for i in range(count)]
    )


async def named(memory: MemoryAgent) -> dict[str, list[str]]:
    """The document's `tracked_entities`: those of this session."""
    return by_kind(await memory.entities(scope="thread"))


# --- sessions --------------------------------------------------------------------------------------------------
@says("S4", "tracks conversation history per session", "- Per-session conversation history storage")
@says("S4", "- Support for both user and assistant messages", "- Basic operations (add, get, clear)")
@says(
    "S4",
    "**add_turn(session_id, role, content, entities=None)**",
    "**get_history(session_id) -> list[dict]**",
    better="s4-session",
)
@says("S4", "**clear_session(session_id)**", "class ConversationTurn:", better="s4-session")
@says("S4", "- Automatic timestamping of each turn", "timestamp: datetime                       # When added")
async def test_turns_are_added_read_and_cleared(quick: MemoryService) -> None:
    memory = quick.agent("kim", "session1")
    before = datetime.now(UTC) - timedelta(seconds=1)
    for role, text in SAID:
        await memory.add_turn(role, text)
    history = (await memory.history()).turns
    assert [(turn.role, turn.content) for turn in history] == [("user", SHARE[0]), ("assistant", SHARE[1])]
    assert all(before < turn.timestamp <= datetime.now(UTC) for turn in history)
    await (
        memory.settle()
    )  # of what a worker has in hand the last pass of an erasure takes care, seconds later
    receipt = await memory.clear()
    assert receipt.turns == 2
    assert (await memory.history()).turns == ()
    assert await named(memory) == {}


@says("S4", "- Multi-session independence")
@says("S4", "session_id: str                           # Session identifier", better="s4-session")
async def test_sessions_know_nothing_of_each_other(quick: MemoryService) -> None:
    one, two = quick.agent("kim", "s1"), quick.agent("kim", "s2")
    await one.add_user_message("LANEIGE?")
    await two.add_user_message("COSRX?")
    assert (await named(one), await named(two)) == ({"brands": ["LANEIGE"]}, {"brands": ["COSRX"]})
    await one.clear()
    assert [turn.content for turn in await two.fetch_short_term()] == ["COSRX?"]
    assert one.scope.thread_id == "s1"


@says("S4", "- Edge cases (empty sessions, duplicates, etc.)")
async def test_an_empty_session_and_the_same_words_again(quick: MemoryService) -> None:
    memory = quick.agent("kim", "empty")
    assert str(await memory.fetch_memory("Hello?")) == ""
    assert (await memory.session_context()).text == ""
    assert await memory.entities() == []
    for _ in range(2):
        await memory.add_user_message("LANEIGE, laneige, 라네즈")
    assert len((await memory.history()).turns) == 2
    assert await named(memory) == {"brands": ["LANEIGE"]}


@says("S4", "- Configurable maximum sessions (default: 100)", "- Least Recently Used (LRU) eviction policy")
@says(
    "S4",
    "max_sessions=100,          # Maximum concurrent sessions",
    "- LRU eviction",
    "- Prevents unbounded memory growth",
)
@says("S4", "- Automatic session cleanup when limit exceeded", better="s4-lru")
@says(
    "S4",
    "- Every `add_turn()` or `get_context()` updates access time",
    "- Oldest unused sessions are removed first",
    better="s4-lru",
)
@says("S4", "**get_stats() -> dict**", better="s4-stats")
async def test_of_sessions_in_memory_the_least_recently_used_leaves_and_nothing_is_lost(
    tmp_path: Path,
) -> None:
    cfg = MemoryConfig(data_dir=tmp_path, run_worker=False)
    async with MemoryService(cfg, embedder=HashEmbedder()) as service:
        for number in range(101):
            memory = service.agent("kim", f"s{number}")
            await memory.add_user_message(f"Session {number} is about LANEIGE.")
            await memory.session_context()
            await service.agent("kim", "s0").session_context()  # used all the time
        stats = await service.get_stats()
        assert (stats.live_threads, stats.max_live_threads, stats.evictions) == (100, 100, 1)
        await service.agent("kim", "s0").session_context()
        assert (await service.get_stats()).misses == stats.misses
        [turn] = (await service.agent("kim", "s1").history()).turns  # which has left
        assert turn.content == "Session 1 is about LANEIGE."


@says(
    "S4",
    "- ~500 bytes per turn (typical)",
    "- ~10KB per session (50 turns + summary)",
    "- ~1MB for 100 sessions (typical)",
    better="s4-memory",
)
async def test_what_a_session_takes_in_memory_has_a_bound(quick: MemoryService) -> None:
    """Turns are in the store; kept in memory are analyses of the last 400 of each of 100 threads."""
    memory = quick.agent("kim", "long")
    await talk(memory, 450)
    await memory.session_context()
    assert (await quick.get_stats()).turns <= 400
    assert (await memory.status()).turns == 450


# --- recent turns and the summary ------------------------------------------------------------------------------
@says(
    "S4",
    "- Configurable recent turns window (default: 6)",
    "max_recent_turns=6,        # Recent turns to keep in context",
    better="s4-window",
)
@says("S4", "recent_turns: list[dict]                  # Recent N turns", better="s4-context")
@says(
    "S4",
    "- Full history preservation",
    "- Efficient context window for LLM prompts",
    "- Recent turns limiting",
)
@says("S4", "- Messages are appended to history", "- Recent window provides working context")
@pytest.mark.parametrize("window", [6, 10])
async def test_recent_turns_are_the_last_and_the_history_is_whole(tmp_path: Path, window: int) -> None:
    cfg = MemoryConfig(data_dir=tmp_path, short_term_window=window)
    async with MemoryService(cfg, embedder=HashEmbedder()) as service:
        memory = service.agent("kim", "s1")
        await talk(memory, 30, LONG)
        recent = (await memory.fetch_memory("And now?")).short_term
        assert [turn.seq for turn in recent] == list(range(31 - window, 31))
        assert [turn.seq for turn in await memory.fetch_short_term()] == list(range(31 - window, 31))
        assert len((await memory.history()).turns) == 30


@says("S4", "max_turns_per_session=50   # Turns per session before summarization", better="s4-summary")
@says("S4", "- Turns exceeding session limit are automatically summarized", "- Excess turns are summarized")
@says("S4", "- Old messages are summarized, not discarded", "- Most recent turns are preserved verbatim")
@says(
    "S4", "- Preserves conversation continuity while reducing token usage", "- Optimized for LLM consumption"
)
@says("S4", "summary: str                              # Previous conversation summary", better="s4-summary")
@says(
    "S4",
    "- Summaries are concatenated",
    "- Summary length capped at 2000 characters",
    "- Summary length is capped at 2000 chars",
    better="s4-summary",
)
@says("S4", "- ~2KB per session summary (max)", better="s4-summary")
@says("S4", "total_turns: int                          # Total turn count")
async def test_a_long_session_is_summed_up_by_itself(quick: MemoryService) -> None:
    memory = quick.agent("kim", "s1")
    await talk(memory, 110, "I decided that ferry number {} sails at nine from the old harbour of Bergen.")
    await memory.settle(timeout=60)
    context = await memory.session_context()
    assert context.summary
    assert sum(len(item.text) for item in context.summary) <= 2_000
    assert [turn.seq for turn in context.recent] == list(range(101, 111))
    assert "ferry number 109" in context.text
    assert (context.metadata.original_turns, len((await memory.history(limit=200)).turns)) == (110, 110)
    assert context.metadata.tokens_after < context.metadata.tokens_before


@says(
    "S4", "- Text truncation, not semantic summarization", "- [ ] LLM-based summarization", better="s4-limits"
)
async def test_a_summary_is_made_by_a_model_where_there_is_one(tmp_path: Path) -> None:
    llm = ScriptedLLM(lambda _: "SUMMARY: They talk of ferries.")
    cfg = MemoryConfig(data_dir=tmp_path, enable_fact_extraction=False, run_worker=False)
    async with MemoryService(cfg, llm=llm, embedder=HashEmbedder()) as service:
        memory = service.agent("kim", "s1")
        await talk(memory, 60)
        await memory.compress()
        assert [item.text for item in (await memory.session_context()).summary] == ["They talk of ferries."]


# --- entities --------------------------------------------------------------------------------------------------
@says("S4", 'memory.add_turn("session1", "user", "LANEIGE 점유율 알려줘")')
@says("S4", 'memory.add_turn("session1", "assistant", "현재 LANEIGE의 SoS는 12.5%입니다.")')
@says("S4", "tracked_entities: dict[str, list[str]]    # Extracted entities", better="s4-context")
@says("S4", """print(f"Tracked brands: {ctx.tracked_entities['brands']}")""", better="s4-context")
@says("S4", "entities: dict[str, list[str]]           # Extracted entities", better="s4-turn")
@says("S4", "metadata: dict[str, Any]                 # Additional metadata")
async def test_a_turn_and_its_session_have_what_it_names(service: MemoryService) -> None:
    memory = service.agent("kim", "session1")
    asked = await memory.add_turn("user", SHARE[0], metadata={"page": "sales"})
    answered = await memory.add_turn("assistant", SHARE[1])
    assert by_kind(asked.entities) == {"brands": ["LANEIGE"], "indicators": ["SoS"]}
    assert by_kind(answered.entities) == {"brands": ["LANEIGE"], "indicators": ["SoS"]}
    assert asked.metadata == {"page": "sales"}
    await memory.settle()
    tracked = await named(memory)
    assert tracked["brands"] == ["LANEIGE"]
    assert [turn.entities for turn in (await memory.history()).turns] == [asked.entities, answered.entities]
    [found, *_] = await memory.fetch_long_term("라네즈 점유율")
    assert Entity(kind="brands", name="LANEIGE") in found.turn.entities


@says("S4", 'memory.add_turn("s1", "user", "LANEIGE와 COSRX 비교")', '"brands": ["LANEIGE", "COSRX"],')
@says("S4", '"indicators": ["SoS", "HHI"]', "- Entity extraction and tracking")
@says("S4", "- Entity accumulation across conversation turns", "- Deduplication of entities")
async def test_entities_of_several_turns_are_kept_together(service: MemoryService) -> None:
    memory = service.agent("lee", "s1")
    await memory.add_turn("user", "LANEIGE와 COSRX 비교")
    await memory.add_turn("user", "SoS와 HHI로")
    await memory.add_turn("user", "COSRX의 SoS, LANEIGE의 HHI")
    for settled in (False, True):
        if settled:
            await memory.settle()
        assert await named(memory) == {"brands": ["LANEIGE", "COSRX"], "indicators": ["SoS", "HHI"]}


@says("S4", "- Support for Korean and English keywords", "- Fast and deterministic")
@pytest.mark.parametrize(
    ("text", "found"),
    [
        pytest.param(
            "laneige, cosrx, tirtir, rare beauty, innisfree, sulwhasoo",
            {"brands": ["LANEIGE", "COSRX", "TIRTIR", "Rare Beauty", "innisfree", "Sulwhasoo"]},
            marks=[
                says("S4", "- English: laneige, cosrx, tirtir, rare beauty, innisfree, sulwhasoo"),
                says("S4", "- Automatic extraction of brands (LANEIGE, COSRX, TIRTIR, etc.)"),
            ],
        ),
        pytest.param(
            "라네즈, 코스알엑스, 티르티르, 설화수",
            {"brands": ["LANEIGE", "COSRX", "TIRTIR", "Sulwhasoo"]},
            marks=says("S4", "- Korean: 라네즈, 코스알엑스, 티르티르, 설화수"),
        ),
        pytest.param(
            "sos and HHI, then cpi; the share of shelf again",
            {"indicators": ["SoS", "HHI", "CPI"]},
            marks=[
                says("S4", "- English: sos, share of shelf, hhi, cpi"),
                says("S4", "- Automatic extraction of indicators (SoS, HHI, CPI)"),
            ],
        ),
        pytest.param(
            "점유율과 집중도, 가격지수",
            {"indicators": ["SoS", "HHI", "CPI"]},
            marks=says("S4", "- Korean: 점유율, 집중도, 가격지수"),
        ),
        pytest.param("sosyal kaos, scpi, laneiges and 라네즈크림", {}),
    ],
)
async def test_each_keyword_is_found_as_a_word_of_its_own(
    service: MemoryService, text: str, found: dict[str, list[str]]
) -> None:
    turn = await service.agent("keywords", "s1").add_turn("user", text)
    assert by_kind(turn.entities) == found


@says("S4", "- `entities`: Optional pre-extracted entities", better="s4-given")
async def test_entities_may_be_given(quick: MemoryService) -> None:
    memory = quick.agent("kim", "s1")
    given = [{"kind": "brands", "name": "라네즈"}, {"kind": "people", "name": "Mia"}]
    turn = await memory.add_turn("user", "How is the new one?", entities=given)
    assert by_kind(turn.entities) == {"brands": ["LANEIGE"], "people": ["Mia"]}
    assert await named(memory) == {"brands": ["LANEIGE"], "people": ["Mia"]}


@says("S4", "- Only recognizes predefined brands/indicators", better="s4-limits")
@says("S4", "- [ ] Add more brand/indicator keywords", "- [ ] Configurable entity extraction rules")
@says("S4", "- No external dependencies")
async def test_the_names_are_a_file_of_yours(tmp_path: Path) -> None:
    names = tmp_path / "entities.toml"
    names.write_text('[shops]\n"Olive Young" = ["올리브영"]\n[indicators]\nSoS = ["sos"]\n', encoding="utf-8")
    cfg = MemoryConfig(data_dir=tmp_path / "data", entities_file=names)
    async with MemoryService(cfg, embedder=HashEmbedder()) as service:
        turn = await service.agent("kim", "s1").add_user_message("올리브영의 sos")
        assert by_kind(turn.entities) == {"shops": ["Olive Young"], "indicators": ["SoS"]}


@says("S4", "- Can be replaced with NER if needed", "- [ ] Named Entity Recognition (NER)")
async def test_a_recogniser_of_ones_own_adds_names_and_holds_nothing_up(tmp_path: Path) -> None:
    class People:
        name = "people"
        down = False

        def find(self, texts: Sequence[str]) -> list[Any]:
            if self.down:
                raise RuntimeError("no model")
            return [[{"kind": "people", "name": "Mia"}] if "Mia" in text else [] for text in texts]

    people = People()
    cfg = MemoryConfig(data_dir=tmp_path)
    async with MemoryService(cfg, entity_finder=people, embedder=HashEmbedder()) as service:
        memory = service.agent("kim", "s1")
        await memory.add_user_message("Mia likes LANEIGE.")
        await memory.settle(timeout=60)
        [turn] = await memory.fetch_short_term()
        assert by_kind(turn.entities) == {"brands": ["LANEIGE"], "people": ["Mia"]}
        people.down = True
        await memory.add_user_message("Mia likes COSRX, too.")
        await memory.settle(timeout=60)
        context = await memory.fetch_memory("What does Mia like?")
        assert "COSRX, too" in context.text
        assert context.degraded == ("entities",)


# --- prompts ---------------------------------------------------------------------------------------------------
@says(
    "S4",
    "**get_context(session_id) -> ConversationContext**",
    "class ConversationContext:",
    better="s4-context",
)
@says(
    "S4",
    "**to_prompt_text() -> str**",
    "- `to_prompt_text()` method generates formatted context",
    "{ctx.to_prompt_text()}",
)
@says("S4", "- Includes summary, recent turns, and tracked entities", better="s4-context")
async def test_the_prompt_has_recent_turns_and_the_entities_of_the_question(service: MemoryService) -> None:
    memory = service.agent("park", "session1")
    for role, text in SAID:
        await memory.add_turn(role, text, timestamp=START)
    await memory.settle()
    user_message = "How is LANEIGE's share now?"
    ctx = await memory.fetch_memory(user_message)
    prompt = f"{ctx.to_prompt_text()}\n\nUser query: {user_message}"
    assert SHARE[0] in prompt
    assert SHARE[1] in prompt
    assert "- LANEIGE (brands): mentioned in 2 turns, last on 2 March 2026" in prompt
    assert ctx.entities == {"brands": ["LANEIGE"]}


@says("S4", "- Automatic content truncation for long messages")
async def test_long_messages_are_cut(quick: MemoryService) -> None:
    memory = quick.agent("kim", "s1")
    await memory.add_user_message("word " * 2_000)
    ctx = await memory.fetch_memory("And?")
    assert "word" in ctx.text
    assert len(ctx.to_prompt_text(max_chars_per_message=400)) < 800
    assert (await memory.fetch_memory("And?", max_tokens=300)).tokens <= 300


# --- limits that are none here ---------------------------------------------------------------------------------
@says("S4", "- Lost on process restart", better="s4-limits")
@says("S4", "- [ ] SQLite persistence layer", "- [ ] JSON export/import for sessions")
async def test_sessions_outlive_the_process_and_go_into_a_file(tmp_path: Path) -> None:
    cfg = MemoryConfig(data_dir=tmp_path / "data")
    async with MemoryService(cfg, embedder=HashEmbedder()) as service:
        await service.agent("kim", "s1").add_user_message(SHARE[0])
    assert any(path.suffix in (".db", ".sqlite", ".sqlite3") for path in (tmp_path / "data").iterdir())
    other = MemoryConfig(data_dir=tmp_path / "other")
    async with MemoryService(cfg, embedder=HashEmbedder()) as service:
        assert by_kind((await service.agent("kim", "s1").history()).turns[0].entities)["brands"] == [
            "LANEIGE"
        ]
        await service.export_to(str(tmp_path / "file.json"))
        await service.export_to(tmp_path / "path.json")
    async with MemoryService(other, embedder=HashEmbedder()) as service:
        for name in ("file.json", "path.json"):
            await service.import_from(str(tmp_path / name))
        assert [turn.content for turn in (await service.agent("kim", "s1").history()).turns] == [SHARE[0]]
        assert await named(service.agent("kim", "s1")) == {"brands": ["LANEIGE"], "indicators": ["SoS"]}


@says("S4", "- Not designed for concurrent access", better="s4-limits")
@says("S4", "- [ ] Thread-safe concurrent access")
async def test_many_write_to_one_session_at_once(quick: MemoryService) -> None:
    await asyncio.gather(*(quick.agent("kim", "s1").add_user_message(f"LANEIGE {i}") for i in range(50)))
    turns = (await quick.agent("kim", "s1").history()).turns
    assert [turn.seq for turn in turns] == list(range(1, 51))
    assert {turn.content for turn in turns} == {f"LANEIGE {i}" for i in range(50)}
    [count] = await quick.agent("kim", "s1").entities()
    assert count.count == 50


@says("S4", "- [ ] Session expiration (time-based)", better="s4-expiry")
async def test_a_session_ends_after_a_pause_and_the_next_turn_begins_another(quick: MemoryService) -> None:
    memory = quick.agent("kim", "s1")
    for hours in (0, 1, 8):
        await memory.add_user_message(f"After {hours} hours.", timestamp=START + timedelta(hours=hours))
    first, second = await memory.sessions()
    assert [turn.content for turn in (await memory.history(first.id)).turns] == [
        "After 0 hours.",
        "After 1 hours.",
    ]
    assert [turn.content for turn in (await memory.history(second.id)).turns] == ["After 8 hours."]
    assert MemoryConfig().session_idle_seconds == 4 * 3_600


@says("S4", "- [ ] Semantic search over history")
async def test_what_was_said_is_found_by_what_it_means(service: MemoryService) -> None:
    memory = service.agent("choi", "s1")
    for text in ("The face cream sold out within a week.", "Our office moves in May.", "He plays the cello."):
        await memory.add_user_message(text)
    await memory.settle()
    [found, *_] = await memory.fetch_long_term("Which skincare product was in great demand?")
    assert found.text == "The face cream sold out within a week."


@says("S4", "- [ ] Cross-session entity tracking")
async def test_entities_are_known_across_sessions(service: MemoryService) -> None:
    await service.agent("jung", "s1").add_user_message("LANEIGE sold 90 jars.", timestamp=START)
    await service.agent("jung", "s1").settle()
    other = service.agent("jung", "s2")
    [count] = await other.entities()
    assert (count.entity.name, count.count, count.last_at) == ("LANEIGE", 1, START)
    prompt = (await other.fetch_memory("What about 라네즈?")).text
    assert "- LANEIGE (brands): mentioned in 1 turn, on 2 March 2026" in prompt


@says("S4", "- [ ] Distributed session storage")
async def test_sessions_lie_in_mongodb_for_every_process(servers: Servers) -> None:
    await servers.service.agent("kim", "s1").add_user_message(SHARE[0])
    await servers.service.agent("kim", "s1").settle()
    stored = servers.database.turns.find_one({"user_id": {"$regex": "kim"}, "thread_id": "s1"})
    assert stored is not None
    assert stored["entities"] == [["brands", "LANEIGE"], ["indicators", "SoS"]]
    async with servers.another() as second:
        assert await named(second.agent("kim", "s1")) == {"brands": ["LANEIGE"], "indicators": ["SoS"]}


@says("S4", "- `HybridChatbotAgent`: Use for conversation context", "- `UnifiedBrain`: Session management")
@says("S4", "- `ReActAgent`: Multi-turn reasoning context")
async def test_an_agent_that_reasons_in_several_turns_uses_it(quick: MemoryService) -> None:
    """Of each turn the context before, and of its steps what it thought, what a tool gave and what it answered."""
    await quick.agent("kim", "s1").start_session(participants=["Kim"])
    seen = []
    for question, given in (("What is LANEIGE's SoS?", "12.5 %"), ("And COSRX's?", "9.1 %")):
        memory = quick.agent("kim", "s1")
        seen.append((await memory.fetch_memory(question)).text)
        await memory.add_turns(
            [
                {"role": "user", "content": question},
                {"role": "tool", "content": f"SoS: {given}"},
                {"role": "assistant", "content": f"It is {given}."},
            ]
        )
    assert seen[0] == ""
    assert "It is 12.5 %." in seen[1]
    [session] = await quick.agent("kim", "s1").sessions()
    assert len((await memory.history(session.id)).turns) == 6


# --- what it costs ---------------------------------------------------------------------------------------------
@says(
    "S4",
    "- `add_turn()`: O(1) amortized",
    "- `get_context()`: O(N) where N = recent_turns",
    "- `clear_session()`: O(1)",
    better="s4-cost",
)
async def test_what_is_read_for_a_prompt_does_not_grow_with_the_session(quick: MemoryService) -> None:
    memory = quick.agent("kim", "s1")
    lengths = []
    for _ in range(3):
        await talk(memory, 40, LONG)
        context = await memory.fetch_memory("And now?")
        lengths.append(len(context.short_term))
        assert context.tokens <= 4_000
    assert lengths == [10, 10, 10]
    assert (await memory.clear()).turns == 120
