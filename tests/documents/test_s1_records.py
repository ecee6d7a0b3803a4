"""S1, Conversation Memory System Design Document: what is stored of a conversation, and where it can be asked for."""

from __future__ import annotations

import sqlite3
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path

import pytest
import pytest_asyncio

from memory_agent import Character, InvalidInput, MemoryAgent, MemoryConfig, MemoryService, Turn
from memory_agent.domain import Message
from memory_agent.models.tokens import best_token_counter
from memory_agent.testing import HashEmbedder, ScriptedLLM
from tests.documents.frame import says
from tests.servers.openai_script import ScriptedOpenAI

MIKU = Character(
    name="Hatsune Miku",
    personality="energetic, supportive, passionate about music",
    profile="A virtual singer.",
    traits=("cheerful",),
)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def long_talk(service: MemoryService) -> MemoryAgent:
    """A hundred and twenty turns of one sitting with a character, compressed as they came and once more when asked."""
    memory = service.agent("lee", "long talk")
    await memory.start_session(MIKU, participants=["lee"], metadata={"app": "AiChat"}, character_id=39)
    for day in range(60):
        await memory.update_memory(
            f"On day {day} I practised the guitar for {day + 10} minutes and decided to play song number {day}.",
            f"[excited] Song number {day} is one of my favourites!",
        )
    await memory.settle()
    await memory.compress()
    return memory


# --- data models -----------------------------------------------------------------------------------------------
@says("S1", "class ConversationSession:", "last_activity: datetime", "compression_count: int")
@says("S1", "character_id: int")
@says("S1", "CREATE TABLE conversation_sessions (", better="s1-schema")
async def test_a_session_has_what_the_document_gives_it(long_talk: MemoryAgent) -> None:
    (session,) = await long_talk.sessions()
    last = (await long_talk.fetch_short_term())[-1]
    assert session.total_turns == 120
    assert session.compression_count == len(await long_talk.compressions()) >= 1
    assert (session.participants, session.metadata["app"]) == (("lee",), "AiChat")
    assert (session.started_at <= last.timestamp, session.last_activity) == (True, last.timestamp)
    assert (session.character, session.character_id) == (MIKU, 39)
    assert last.session_id == session.id


@says("S1", "- [ ] Basic session management", "- [ ] Implement ConversationSession model")
@says("S1", "participants: List[str]  # User IDs", "total_turns: int")
async def test_a_session_counts_its_turns_and_names_who_takes_part(service: MemoryService) -> None:
    memory = service.agent("lee", "sitting")
    started = await memory.start_session(participants=["lee", "mia"])
    await memory.update_memory("Hello!", "Hello Lee, hello Mia!")
    (session,) = await memory.sessions()
    assert (session.id, session.total_turns, session.participants) == (started.id, 2, ("lee", "mia"))
    await memory.start_session(participants=["lee"])
    await memory.add_turn("user", "I am back.")
    assert [(one.number, one.total_turns) for one in await memory.sessions()] == [(1, 2), (2, 1)]


@says("S1", "class ConversationTurn:", "turn_id: int  # Sequential within session", "token_count: int")
@says(
    "S1",
    'speaker_type: Literal["user", "assistant", "system"]',
    "metadata: Dict[str, Any]  # emotion, model_used",
)
@says("S1", "speaker_type TEXT NOT NULL CHECK(speaker_type IN ('user', 'assistant', 'system'))")
async def test_a_turn_has_what_the_document_gives_it(service: MemoryService) -> None:
    memory = service.agent("lee", "one turn")
    turns = [
        await memory.add_turn("system", "Stay in your role."),
        await memory.add_turn("user", "Hi Miku!", speaker="lee", metadata={"emotion": "glad"}),
        await memory.add_turn("assistant", "Hello!", speaker="Miku", metadata={"model_used": "gpt-mini"}),
    ]
    assert [(turn.seq, turn.role, turn.speaker) for turn in turns] == [
        (1, "system", None),
        (2, "user", "lee"),
        (3, "assistant", "Miku"),
    ]
    assert [turn.metadata for turn in turns] == [{}, {"emotion": "glad"}, {"model_used": "gpt-mini"}]
    assert len({turn.session_id for turn in turns}) == 1
    assert 0 < turns[2].tokens < turns[0].tokens
    with pytest.raises(InvalidInput, match="narrator"):
        await memory.add_turn("narrator", "Meanwhile …")  # type: ignore[arg-type]


@says(
    "S1",
    "class ConversationSummary:",
    'summary_type: Literal["topic", "event", "fact", "emotion", "decision"]',
)
@says("S1", "turn_start: int", "importance_score: float")
@says("S1", "CREATE TABLE conversation_summaries (", "CREATE TABLE compression_events (", better="s1-schema")
async def test_a_summary_is_items_of_five_kinds_with_the_turns_that_they_are_from(
    long_talk: MemoryAgent,
) -> None:
    latest = (await long_talk.compressions())[-1]
    assert (latest.number, latest.through, latest.reason) == (
        len(await long_talk.compressions()),
        120,
        "asked",
    )
    assert latest.tokens_after < latest.tokens_before
    assert latest.summary
    for item in latest.summary:
        assert item.kind in ("topic", "event", "fact", "emotion", "decision")
        assert 1 <= item.first_seq <= item.last_seq <= 120
        assert 0 <= item.importance <= 10
        assert item.participants == ("user",)
    said = {turn.id for turn in (await long_talk.history(limit=200)).turns}
    assert set(latest.preserved) <= said


# --- database schema -------------------------------------------------------------------------------------------
@says("S1", "CREATE TABLE conversation_turns (", "CREATE INDEX idx_turns_session ON", better="s1-schema")
@says(
    "S1",
    "CREATE INDEX idx_summaries_session ON",
    "CREATE INDEX idx_compression_session ON",
    better="s1-schema",
)
@says("S1", "- [ ] Create database schema", "UNIQUE(session_id, turn_number)")
async def test_turns_sessions_and_compressions_are_tables_found_by_their_session(tmp_path: Path) -> None:
    async with MemoryService(MemoryConfig(data_dir=tmp_path), embedder=HashEmbedder()) as service:
        await service.agent("lee", "t").update_memory("Hi", "Hello")
    (file,) = tmp_path.glob("*.sqlite3")
    with sqlite3.connect(file) as database:
        for table, column in (("turns", "session_id"), ("sessions", "id"), ("compressions", "session_id")):
            plan = database.execute(
                f"EXPLAIN QUERY PLAN SELECT * FROM {table} WHERE user_id = 'lee' AND {column} = 's'"
            ).fetchall()
            assert "USING INDEX" in plan[0][3], (table, plan)
        assert database.execute("SELECT role, content FROM turns ORDER BY seq").fetchall() == [
            ("user", "Hi"),
            ("assistant", "Hello"),
        ]
        columns = [one[1] for one in database.execute("PRAGMA table_info(turns)")]
        others = ", ".join(name for name in columns if name not in ("number", "id"))
        with pytest.raises(sqlite3.IntegrityError, match="UNIQUE"):
            database.execute(
                f"INSERT INTO turns (id, {others}) SELECT 'x', {others} FROM turns WHERE seq = 1"
            )


@says("S1", "CREATE INDEX idx_turns_speaker ON", "CREATE INDEX idx_summaries_type ON", better="s1-speaker")
async def test_who_said_something_is_found_by_the_search(service: MemoryService) -> None:
    memory = service.agent("band", "rehearsal")
    for speaker in ("Ines", "Bo", "Kim"):
        await memory.add_turn("user", f"The concert should be on a {speaker[0]}-day.", speaker=speaker)
    await memory.settle()
    assert (await memory.fetch_long_term("What did Bo say about the concert?"))[0].turn.speaker == "Bo"


# --- memory manager, chat service ------------------------------------------------------------------------------
@says("S1", "async def process_message(message: str, session_id: str):", "# 1. Add user turn to memory")
@says(
    "S1",
    "# 2. Check if compression needed",
    "# 3. Generate response with context",
    "# 4. Add assistant turn to memory",
)
@says(
    "S1", "async def add_turn(session_id: str, speaker: str, message: str, metadata: Dict)", better="s1-calls"
)
@says("S1", "async def get_session_context(session_id: str) -> CompressedContext", better="s1-calls")
@says("S1", "async def compress_if_needed(session_id: str) -> Optional[CompressedContext]", better="s1-calls")
@says(
    "S1",
    "- [ ] Integrate with ChatService",
    "- [ ] Update LLM services",
    "- Compression is transparent to end user",
)
async def test_the_chat_service_of_the_document_runs_past_a_compression(tmp_path: Path) -> None:
    llm, shown = ScriptedLLM(lambda _: "[happy] Of course!"), []

    async def process_message(memory: MemoryAgent, message: str) -> str:
        await memory.add_turn("user", message, speaker="lee", metadata={"emotion": "glad"})
        context = await memory.compress_if_needed() or await memory.session_context()
        prompt = [Message(role="system", content=str(context)), Message(role="user", content=message)]
        response = (await llm.complete(prompt)).text
        shown.append(context)
        await memory.add_turn("assistant", response, speaker="Miku", metadata={"model_used": "gpt-mini"})
        return response

    cfg = MemoryConfig(data_dir=tmp_path, context_limit_tokens=1_000, run_worker=False)
    async with MemoryService(cfg, embedder=HashEmbedder()) as service:
        memory = service.agent("lee", "chat")
        await memory.start_session(MIKU)
        for number in range(40):
            assert await process_message(
                memory, f"I learned chord number {number} for the open mic on Friday."
            )
        assert len((await memory.history(limit=100)).turns) == 80
        assert await memory.compressions()
    assert all("Hatsune Miku" in str(context) for context in shown)
    assert all("chord number" in str(context) for context in shown)
    assert max(context.tokens for context in shown) < 1_000


# --- configuration ---------------------------------------------------------------------------------------------
@says(
    "S1", '"context_window_size": 8000,', '"compression_threshold": 0.75,', '"enable_auto_compression": True,'
)
@says("S1", '"trigger_threshold": 0.75,', "**Threshold**: Compress at 75% of context limit")
@says("S1", "**Token Budget**: Max 8000 tokens for context window")
async def test_a_conversation_is_compressed_at_three_quarters_of_its_limit_unless_that_is_off(
    tmp_path: Path,
) -> None:
    cfg = MemoryConfig(data_dir=tmp_path, run_worker=False)
    assert (cfg.context_limit_tokens, cfg.enable_compression) == (8_000, True)
    assert "compress" not in cfg.changed(enable_compression=False).stages
    async with MemoryService(cfg, embedder=HashEmbedder()) as service:
        memory = service.agent("lee", "limit")
        tokens, compressed = 0, None
        for number in range(50):
            compressed = await memory.compress_if_needed()
            if compressed is not None:
                break
            turn = await memory.add_turn(
                "user", f"This is what happened on day {number}: " + "we walked on. " * 60
            )
            tokens += turn.tokens
        assert compressed is not None
        assert 6_000 <= tokens <= 6_000 + turn.tokens
        assert compressed.tokens <= 4_000  # room for as much again before the next one


@says("S1", '"max_session_duration_hours": 24,', '"max_turns_per_session": 1000,')
async def test_a_session_ends_after_a_day_and_after_a_thousand_turns(tmp_path: Path) -> None:
    cfg = MemoryConfig(data_dir=tmp_path, run_worker=False, session_idle_seconds=14_400)
    start = datetime(2026, 3, 1, tzinfo=UTC)
    async with MemoryService(cfg, embedder=HashEmbedder()) as service:
        day = service.agent("lee", "a day")
        hourly = [
            {"role": "user", "content": f"{hour}", "timestamp": start + timedelta(hours=hour)}
            for hour in range(30)
        ]
        await day.add_turns(hourly)
        assert [session.total_turns for session in await day.sessions()] == [24, 6]
        busy = service.agent("lee", "busy")
        await busy.add_turns([{"role": "user", "content": f"{n}", "timestamp": start} for n in range(1_001)])
        assert [session.total_turns for session in await busy.sessions()] == [1_000, 1]


@says("S1", '"summary_model": "openrouter-gpt-mini"', "- Summaries generated with cheap models to save costs")
async def test_summaries_are_made_by_a_model_of_their_own(
    tmp_path: Path, openai_server: ScriptedOpenAI
) -> None:
    cfg = MemoryConfig(
        data_dir=tmp_path,
        openai_base_url=openai_server.base_url,
        openai_api_key="sk-test",
        summary_model="openrouter-gpt-mini",
        enable_fact_extraction=False,
        enable_topics=False,
    )
    assert MemoryConfig().summary_model == "gpt-4o-mini"
    async with MemoryService(cfg, embedder=HashEmbedder()) as service:
        memory = service.agent("lee", "summed")
        for n in range(20):
            await memory.update_memory(
                f"On day {n} I bought ticket number {n} to Porto for {n} euros.", "Have fun in Porto!"
            )
        await memory.compress()
        await memory.settle()
    assert {chat["model"] for chat in openai_server.chats} == {"openrouter-gpt-mini"}


@says("S1", '"enable_cross_session_memory": False,  # Future feature', better="s1-cross-session")
async def test_a_later_session_and_another_thread_know_of_the_first(service: MemoryService) -> None:
    first = service.agent("nora", "monday")
    await first.update_memory("My guitar teacher is called Tomoko.", "Nice.")
    await first.settle()
    await first.start_session()
    for memory in (first, service.agent("nora", "tuesday")):
        assert "Tomoko" in str(await memory.fetch_memory("Who is my guitar teacher?"))
    alone = await service.agent("nora", "tuesday").fetch_memory("Who is my guitar teacher?", scope="thread")
    assert "Tomoko" not in str(alone)


# --- notes -----------------------------------------------------------------------------------------------------
@says("S1", "- All timestamps in UTC")
async def test_times_are_utc_whatever_the_callers_clock_says(service: MemoryService) -> None:
    memory = service.agent("lee", "clocks")
    tokyo = datetime.fromisoformat("2026-03-01T09:00:00+09:00")
    turn = await memory.add_turn("user", "Good morning from Tokyo!", timestamp=tokyo)
    assert (turn.timestamp, turn.timestamp.utcoffset()) == (tokyo, timedelta(0))
    (session,) = await memory.sessions()
    assert session.started_at.utcoffset() == timedelta(0)


@says("S1", "- Token counting uses tiktoken for accuracy")
def test_tokens_are_counted_as_tiktoken_counts_them() -> None:
    """By the table of o200k_base, which the extra `tokens` brings."""
    counter = best_token_counter()
    assert counter.margin == 0
    assert [counter.count(text) for text in ("Hello, world!", "tiktoken is great!", "")] == [4, 6, 0]


@says("S1", "- Full history always preserved in database", "GET    /api/sessions/{id}/history")
@says("S1", "- [ ] Database operations", "- [ ] Implement ConversationTurn model")
async def test_the_whole_history_is_there_word_for_word_after_compressions(long_talk: MemoryAgent) -> None:
    pages: list[Turn] = []
    after = 0
    while True:
        page = await long_talk.history(after=after, limit=50)
        pages += page.turns
        if page.next is None:
            break
        after = page.next
    assert [turn.seq for turn in pages] == list(range(1, 121))
    assert pages[0].content.startswith("On day 0 I practised the guitar for 10 minutes")
    assert all(earlier.timestamp <= later.timestamp for earlier, later in pairwise(pages))


@says("S1", "- System can reconstruct context from any point", "- [ ] Context reconstruction")
async def test_a_context_can_be_had_as_of_any_turn(long_talk: MemoryAgent) -> None:
    for through in (1, 17, 60, 119):
        context = await long_talk.session_context(through=through)
        assert [turn.seq for turn in context.recent][-1] == through
        day = (through - 1) // 2
        assert f"On day {day} I" in str(context)
        assert f"On day {day + 1} I" not in str(context)
