"""S2, Memory System: MemoryAgent, its configuration, and what lies in MongoDB and in ChromaDB."""

from __future__ import annotations

import threading
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from anyio.from_thread import start_blocking_portal
from pymongo import AsyncMongoClient, MongoClient, monitoring

from memory_agent import ConfigError, MemoryAgent, MemoryConfig, MemoryService, StoreUnavailable
from memory_agent.models.local.embedder import LocalEmbedder
from memory_agent.testing import HashEmbedder
from tests.documents.conftest import Servers
from tests.documents.frame import says
from tests.servers.mongod import Mongod, free_port
from tests.servers.openai_script import Reply, ScriptedOpenAI

WEATHER = [
    ("What's the weather?", "It's sunny, 72°F"),
    ("Should I bring an umbrella?", "No, it's sunny today"),
]
JOHN = "I'm John, I work as a software engineer. I prefer morning meetings."
VACATION = "For my vacation I'd love to go to Lisbon in May."
SAID = [
    "My daughter Mia has a severe peanut allergy.",
    "We moved to Oslo in spring.",
    "I prefer tea over coffee.",
    "The kitchen sink drips again.",
    "My car is a blue Volvo from 2009.",
    "I booked a table for Friday.",
]


def messages(turns: Any) -> list[dict[str, str]]:
    """Turns as the document has them."""
    return [{"role": turn.role, "content": turn.content} for turn in turns]


def thread_of(service: MemoryService, known: MemoryAgent) -> MemoryAgent:
    """The same thread by another service."""
    return service.agent(known.scope.user_id, str(known.scope.thread_id))


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def old_vacation(servers: Servers) -> MemoryAgent:
    """A vacation that was spoken of two weeks ago, and a thousand messages since."""
    indexed = {"enable_topics": False, "enable_fact_extraction": False, "enable_compression": False}
    start = datetime.now(UTC) - timedelta(days=14)
    async with servers.another(**indexed) as service:
        memory = service.agent("traveller", "long")
        await memory.add_turn("user", VACATION, timestamp=start)
        await memory.add_turns(
            [
                {
                    "role": "user" if step % 2 == 0 else "assistant",
                    "content": f"Step {step}.",
                    "timestamp": start + timedelta(minutes=10 * (step + 1)),
                }
                for step in range(1_000)
            ]
        )
        await memory.settle()
    return servers.service.agent("traveller", "long")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def talk(servers: Servers) -> MemoryAgent:
    """A few things said, each about something else."""
    memory = servers.service.agent("mias_parent", "talk")
    for text in SAID:
        await memory.update_memory(text, "I see.")
    await memory.settle()
    return memory


# --- Overview, Architecture ----------------------------------------------------------------------------------
@says("S2", "**Remember conversation history**", "**Use case:** Multi-turn conversations")
@says(
    "S2", '{"role": "user", "content": "Should I bring an umbrella?"}', "MemAgent->>STM: Get last N messages"
)
@says(
    "S2",
    "STM[Short-Term Memory",
    "STM->>Mongo: Store conversation",
    "Save to Short-Term<br/>In-memory + MongoDB",
)
@says("S2", "def fetch_short_term()", better="s2-turns")
async def test_the_last_messages_are_those_of_the_example_and_lie_in_mongodb(servers: Servers) -> None:
    memory = servers.service.agent("user_123", "weather")
    for user_msg, assistant_msg in WEATHER:
        await memory.update_memory(user_msg, assistant_msg)
    short_term = [
        {"role": "user", "content": "What's the weather?"},
        {"role": "assistant", "content": "It's sunny, 72°F"},
        {"role": "user", "content": "Should I bring an umbrella?"},
        {"role": "assistant", "content": "No, it's sunny today"},
    ]
    assert messages(await memory.fetch_short_term()) == short_term
    stored = servers.database.turns.find({"user_id": "user_123", "thread_id": "weather"}).sort("seq", 1)
    assert [{"role": one["role"], "content": one["content"]} for one in stored] == short_term


@says("S2", "**Persist across sessions**", "**MongoDB** for persistence across restarts")
@says("S2", "**Retention:** Current session + persistent storage", "**Persistent** across all sessions")
async def test_messages_and_facts_are_there_for_the_next_process(servers: Servers) -> None:
    async with servers.another() as first:
        await first.agent("john", "mornings").update_memory(JOHN, "Nice to meet you, John!")
        await first.agent("john", "mornings").settle()
    async with servers.another(run_worker=False) as second:
        memory = second.agent("john", "mornings")
        assert messages(await memory.fetch_short_term())[0] == {"role": "user", "content": JOHN}
        assert (await memory.fetch_facts())["name"] == "John"
        assert (await second.agent("john", "evening").fetch_facts())["name"] == "John"


@says("S2", "**Fast retrieval** with hybrid storage (in-memory + database)", better="s2-buffer")
@says(
    "S2",
    "**In-memory buffer** for active session",
    "**Fast access:** Direct array lookup",
    better="s2-buffer",
)
async def test_what_another_process_stored_is_in_the_window_at_once(servers: Servers) -> None:
    """No copy in memory could be stale; to read the window is one find along an index."""
    memory = servers.service.agent("dora", "shared")
    await memory.update_memory("I am at the door.", "Come in!")
    assert len(await memory.fetch_short_term()) == 2
    async with servers.another(run_worker=False) as other:
        await other.agent("dora", "shared").update_memory("I brought cake.", "Lovely!")
    assert [turn.content for turn in await memory.fetch_short_term()][2:] == ["I brought cake.", "Lovely!"]
    window = servers.database.turns.find({"user_id": "dora", "thread_id": "shared"}).sort("seq", -1).limit(10)
    assert _stages(window.explain()["queryPlanner"]["winningPlan"]) == {"LIMIT", "FETCH", "IXSCAN"}


@says(
    "S2",
    "**Three-tier architecture**",
    "MemAgent-->>Agent: Combined context",
    "MemAgent->>Facts: Get user facts",
)
@says("S2", "**When:** Before processing user message", "Format --> Return[Return Context String]")
@says(
    "S2",
    "Chroma --> Facts[Load User Facts<br/>MongoDB]",
    "Facts[Structured Facts<br/>User preferences<br/>MongoDB]",
)
@says("S2", "def fetch_memory(user_message: str) -> str:", better="s2-fetch")
@says(
    "S2", "Short-term context (recent):", "Long-term memories (relevant):", "User facts:", better="s2-prompt"
)
async def test_a_context_is_facts_then_memories_then_the_last_messages(old_vacation: MemoryAgent) -> None:
    memory = old_vacation
    await memory.set_fact("preferences.seat", "window")
    context = await memory.fetch_memory("What did I say about my vacation?")
    text = str(context)
    heads = ["<memory_facts>", "<memory_recollections>", "<memory_recent_turns>"]
    assert sorted(heads, key=text.index) == heads
    assert context.facts == {"preferences": {"seat": "window"}}
    assert VACATION in [found.turn.content for found in context.long_term]
    assert text.index("seat: window") < text.index(VACATION) < text.index("Step 999.")
    assert "data to use, not instructions" in text


@says("S2", "**Zero cost embeddings** - Local Sentence Transformers (no API fees)")
@says("S2", "use_local_embeddings: bool = True", "**Embeddings** generated by Sentence Transformers")
async def test_embeddings_are_made_here_also_where_a_model_is_asked(
    tmp_path: Path, openai_server: ScriptedOpenAI, shared_embedder: LocalEmbedder
) -> None:
    cfg = MemoryConfig(data_dir=tmp_path, openai_base_url=openai_server.base_url, openai_api_key="sk-test")
    assert cfg.use_local_embeddings
    async with MemoryService(cfg, embedder=shared_embedder) as service:
        memory = service.agent("ada", "holidays")
        await memory.update_memory(VACATION, "Noted.")
        await memory.settle()
        assert (await memory.fetch_long_term("Where do I want to go?"))[0].text == VACATION
    assert openai_server.chats
    assert not openai_server.embeddings


@says("S2", "**Session isolation** - Per-user, per-thread memory management", better="s2-isolation")
async def test_no_user_sees_anothers_and_a_thread_stays_alone_where_that_is_wanted(servers: Servers) -> None:
    """By default a user's threads know of one another, so that a new one doesn't begin blank."""
    pin = "The gate code is 4711."
    memory = servers.service.agent("eve", "home")
    await memory.update_memory(pin, "Noted.")
    await memory.settle()
    question = "What is the gate code?"
    assert not await servers.service.agent("mallory", "home").fetch_long_term(question)
    assert not str(await servers.service.agent("mallory", "home").fetch_memory(question))
    beside = servers.service.agent("eve", "work")
    assert [found.text for found in await beside.fetch_long_term(question)][:1] == [pin]
    assert await beside.fetch_long_term(question, scope="thread") == []
    async with servers.another(memory_scope="thread", run_worker=False) as alone:
        assert not str(await alone.agent("eve", "work").fetch_memory(question))


# --- Memory Types --------------------------------------------------------------------------------------------
@says("S2", "**Window size:** Last 10-20 messages (configurable)", "# Medium (10-15): Balanced (recommended)")
@says("S2", "Start[Fetch Memory Request] --> STM[Load Short-Term<br/>Last 10 messages]")
@says("S2", "short_term_window = 5", "short_term_window = 20")
@says(
    "S2",
    "**Larger window:** More context, higher token usage",
    "**Smaller window:** Faster, but may miss context",
)
async def test_a_larger_window_shows_more_and_takes_more_tokens(
    servers: Servers, old_vacation: MemoryAgent
) -> None:
    tokens = []
    for size in (5, 10, 20):
        async with servers.another(short_term_window=size, run_worker=False) as service:
            memory = thread_of(service, old_vacation)
            window = [turn.content for turn in await memory.fetch_short_term()]
            assert window == [f"Step {at}." for at in range(1_000 - size, 1_000)]
            context = await memory.fetch_memory("And now?")
            assert [turn.content for turn in context.short_term] == window
            tokens.append(context.tokens)
    assert tokens == sorted(set(tokens))
    assert len(await old_vacation.fetch_short_term()) == 10


@says(
    "S2", "**Retrieve relevant context** using semantic search", "MemAgent->>LTM: Semantic search for context"
)
@says(
    "S2", '**Use case:** "Remember when we talked about...?"', '# Query: "What did I say about my vacation?"'
)
@says("S2", "**Unlimited retention** (all conversations)", "**Indexed by context** not chronology")
async def test_the_vacation_of_two_weeks_ago_is_found_behind_a_thousand_messages(
    old_vacation: MemoryAgent,
) -> None:
    found = await old_vacation.fetch_long_term("What did I say about my vacation?")
    assert found[0].text == VACATION
    context = await old_vacation.fetch_memory("What did I say about my vacation?")
    assert VACATION in str(context)


@says("S2", "Query --> Chroma[ChromaDB Search<br/>Top 5 relevant memories]", "n_results=5", better="s2-top-k")
@says("S2", "top_k_memories: int = 5", "cfg.top_k_memories = 3")
async def test_a_search_gives_five_and_a_prompt_as_many_as_are_worth_their_tokens(
    servers: Servers, talk: MemoryAgent
) -> None:
    question = "What do you know about my home and my family?"
    assert len(await talk.fetch_long_term(question)) == 5
    for context in (await talk.fetch_memory("Hello!"), await talk.fetch_memory(question, window=False)):
        assert len(context.long_term) < 5
    cfg = servers.cfg.changed()
    cfg.top_k_memories = 3
    async with MemoryService(cfg, embedder=servers.embedder) as service:
        few = thread_of(service, talk)
        assert len(await few.fetch_long_term(question)) == 3
        assert len((await few.fetch_memory(question, window=False, price="thorough")).long_term) <= 3


@says("S2", "**Semantic search** using cosine similarity")
async def test_a_results_similarity_is_the_cosine_that_the_cut_is_compared_with(
    servers: Servers, talk: MemoryAgent
) -> None:
    async with servers.another(min_similarity=-1, run_worker=False) as service:
        memory = thread_of(service, talk)
        (same,) = await memory.fetch_long_term(SAID[0], top_k=1)
        assert same.similarity == pytest.approx(1.0, abs=0.02)
        (other,) = await memory.fetch_long_term("What can't my daughter eat?", top_k=1)
        question, answer = await servers.embedder.embed(
            ["What can't my daughter eat?", SAID[0]], purpose="query"
        )
        assert other.similarity == pytest.approx(float(question @ answer), abs=0.02)


# --- Best Practices ------------------------------------------------------------------------------------------
@says(
    "S2", "min_similarity = 0.7", "min_similarity = 0.5", "min_similarity = 0.2", "cfg.min_similarity = 0.6"
)
@says("S2", "min_similarity: float = 0.3", better="s2-min-similarity")
async def test_a_cut_keeps_the_similar_alone_and_without_one_nothing_relevant_is_lost(
    servers: Servers, talk: MemoryAgent
) -> None:
    """What answers a question is often less like it than .3: of cars and driving MiniLM says .26."""
    found: dict[float, set[str]] = {}
    for least in (0.2, 0.3, 0.5, 0.6, 0.7):
        cfg = servers.cfg.changed(run_worker=False)
        cfg.min_similarity = least
        async with MemoryService(cfg, embedder=servers.embedder) as service:
            memory = thread_of(service, talk)
            results = [one for text in SAID for one in await memory.fetch_long_term(f"Did I say: {text}")]
            assert all(one.similarity is not None and one.similarity >= least for one in results)
            found[least] = {f"{one.turn.id} {at}" for at, one in enumerate(results)}
            car = [one.text for one in await memory.fetch_long_term("What do I drive?")]
            assert (SAID[4] in car) == (least < 0.26)
    assert len(found[0.2]) > len(found[0.5]) >= len(found[0.6]) >= len(found[0.7]) > 0
    assert (await talk.fetch_long_term("What do I drive?"))[0].text == SAID[4]


# --- Memory Update -------------------------------------------------------------------------------------------
@says(
    "S2", "async def update_memory(user_message: str, agent_response: str):", "**When:** After agent responds"
)
@says("S2", "async def update_memory(user_msg: str, assistant_msg: str):")
@says(
    "S2",
    "conversations_col.insert_one(conversation)",
    "**1. conversations** - Message history",
    better="s2-collection",
)
@says("S2", '"messages": [', better="s2-collection")
async def test_an_exchange_is_two_documents_of_the_collection_turns(servers: Servers) -> None:
    before = datetime.now(UTC) - timedelta(milliseconds=1)
    receipt = await servers.service.agent("user_123", "thread_abc").update_memory("Hi there", "Hello!")
    stored = list(servers.database.turns.find({"thread_id": "thread_abc"}).sort("seq", 1))
    assert [one["_id"] for one in stored] == list(receipt.turn_ids)
    told = [{name: one[name] for name in ("user_id", "thread_id", "role", "content")} for one in stored]
    assert told == [
        {"user_id": "user_123", "thread_id": "thread_abc", "role": "user", "content": "Hi there"},
        {"user_id": "user_123", "thread_id": "thread_abc", "role": "assistant", "content": "Hello!"},
    ]
    assert all(before <= one["timestamp"] <= datetime.now(UTC) for one in stored)


@says(
    "S2",
    'memory_text = f"User: {user_message}',
    '# Returns: ["User: ... Assistant: ...", ...]',
    better="s2-message",
)
@says("S2", "def fetch_long_term(query: str, top_k: int = 5)", better="s2-message")
async def test_each_message_is_found_by_itself_with_its_role_time_and_score(talk: MemoryAgent) -> None:
    (found,) = await talk.fetch_long_term("Which drink do I like?", top_k=1)
    assert (found.text, found.turn.role) == (SAID[2], "user")
    assert 0 < found.confidence < 1
    assert found.turn.timestamp.utcoffset() == timedelta(0)
    (heard,) = await talk.fetch_long_term("I see", top_k=1, role="assistant")
    assert heard.text == "I see."


# --- Storage Backends ----------------------------------------------------------------------------------------
@says("S2", 'conversations.createIndex({"user_id": 1, "thread_id": 1, "timestamp": 1})', better="s2-index")
async def test_a_thread_is_read_along_an_index_in_the_order_in_which_it_was_said(servers: Servers) -> None:
    """By number: several messages of one millisecond are still in order, and an import of old ones is as well."""
    memory = servers.service.agent("fast", "talker")
    now = datetime.now(UTC)
    await memory.add_turns([{"role": "user", "content": f"{n}", "timestamp": now} for n in range(20)])
    query = servers.database.turns.find({"user_id": "fast", "thread_id": "talker"}).sort("seq", 1)
    assert [one["content"] for one in query] == [str(n) for n in range(20)]
    assert "SORT" not in _stages(query.explain()["queryPlanner"]["winningPlan"])
    since = servers.database.turns.find(
        {"user_id": "fast", "thread_id": "talker", "timestamp": {"$gte": now}}
    )
    assert "COLLSCAN" not in _stages(since.explain()["queryPlanner"]["winningPlan"])


def _stages(plan: dict[str, Any]) -> set[str]:
    inner = [plan["inputStage"]] if "inputStage" in plan else plan.get("inputStages", [])
    return {plan["stage"]}.union(*map(_stages, inner))


# --- Configuration -------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("name", "value"),
    [
        pytest.param(name, value, marks=says("S2", f"{name}: {kind} = "))
        for name, kind, value in [
            ("short_term_window", "int", 10),
            ("memory_collection_prefix", "str", "memory"),
            ("enable_fact_extraction", "bool", True),
            ("fact_extraction_model", "str", "gpt-4o-mini"),
            ("local_embedding_model", "str", "all-MiniLM-L6-v2"),
        ]
    ],
)
def test_a_default_is_that_of_the_document(name: str, value: Any) -> None:
    assert getattr(MemoryConfig(), name) == value


@says("S2", 'mongo_uri: str = "mongodb://localhost:27017"', 'db_name: str = "agentic_rag"', better="s2-store")
async def test_without_a_server_the_memory_is_a_file_and_with_one_it_is_the_database_that_is_named(
    tmp_path: Path, servers: Servers
) -> None:
    assert (MemoryConfig().mongo_uri, MemoryConfig().db_name) == (None, "memory_agent")
    async with MemoryService(MemoryConfig(data_dir=tmp_path), embedder=HashEmbedder()) as service:
        await service.agent("ada", "t").update_memory("Hi", "Hello")
    assert [file.name for file in tmp_path.glob("*.sqlite*")]
    assert servers.database.turns.estimated_document_count()


@says("S2", "class MemoryConfig:", "cfg.enable_fact_extraction = True")
def test_settings_are_attributes_that_can_be_read_and_assigned() -> None:
    cfg = MemoryConfig(mongo_uri="mongodb://localhost:27017", db_name="agentic_rag")
    cfg.short_term_window = 20
    cfg.enable_fact_extraction = True
    assert (cfg.short_term_window, cfg.enable_fact_extraction, cfg.db_name) == (20, True, "agentic_rag")
    with pytest.raises(ConfigError, match="short_term_window: must be a whole number"):
        cfg.short_term_window = -1


# --- API Reference -------------------------------------------------------------------------------------------
@says("S2", "memory = MemoryAgent(", better="s2-open")
def test_the_agent_of_the_document_from_code_without_await(tmp_path: Path) -> None:
    """The first call opens the memory, which agents of the same settings share."""
    cfg = MemoryConfig(data_dir=tmp_path)
    with start_blocking_portal() as portal:
        memory = MemoryAgent(user_id="user_123", thread_id="thread_abc", cfg=cfg)
        other = MemoryAgent(user_id="user_123", thread_id="thread_abc", cfg=MemoryConfig(data_dir=tmp_path))
        portal.call(memory.update_memory, "I'm John, a developer.", "Hello John!")
        answer = {"role": "assistant", "content": "Hello John!"}
        assert messages(portal.call(memory.fetch_short_term))[1] == answer
        assert messages(portal.call(other.fetch_short_term))[1] == answer
        portal.call(memory.close)
        portal.call(other.close)


# --- Best Practices: Fact Extraction -------------------------------------------------------------------------
@says("S2", "cfg.enable_fact_extraction = False", "Privacy-sensitive contexts", "Extract -->|No| Done")
@says(
    "S2",
    "Cost-sensitive scenarios (uses GPT-4)",
    "**Cause:** Extraction disabled or no clear facts in conversation",
)
async def test_without_extraction_no_model_is_asked_and_nothing_is_noted(
    tmp_path: Path, openai_server: ScriptedOpenAI
) -> None:
    cfg = MemoryConfig(data_dir=tmp_path, openai_base_url=openai_server.base_url, openai_api_key="sk-test")
    cfg.enable_fact_extraction = False
    async with MemoryService(cfg, embedder=HashEmbedder()) as service:
        memory = service.agent("anonymous", "t")
        await memory.update_memory(JOHN, "Nice to meet you, John!")
        await memory.settle()
        assert await memory.fetch_facts() == {}
    assert not openai_server.chats


# --- Troubleshooting -----------------------------------------------------------------------------------------
@says(
    "S2",
    "**Cause:** MongoDB connection error",
    "print(MongoClient('mongodb://localhost:27017').server_info())",
)
async def test_a_mongodb_that_is_away_is_said_at_once_with_its_remedy(tmp_path: Path, mongod: Mongod) -> None:
    nobody = f"mongodb://127.0.0.1:{free_port()}"
    cfg = MemoryConfig(mongo_uri=nobody, data_dir=tmp_path, store_timeout_seconds=0.2)
    with pytest.raises(StoreUnavailable, match=r"127\.0\.0\.1"):
        async with MemoryService(cfg, embedder=HashEmbedder()):
            pass
    with MongoClient[dict[str, Any]](mongod.uri) as client:
        assert client.server_info()["ok"] == 1


# --- Performance ---------------------------------------------------------------------------------------------
class Commands(monitoring.CommandListener):
    """Notes the names of the commands that a client sends."""

    def __init__(self) -> None:
        self.sent: list[str] = []

    def started(self, event: monitoring.CommandStartedEvent) -> None:
        self.sent.append(event.command_name)

    def succeeded(self, event: monitoring.CommandSucceededEvent) -> None: ...

    def failed(self, event: monitoring.CommandFailedEvent) -> None: ...


@says("S2", "- Short-term retrieval: 5-10ms", "- Fact lookup: 5ms", "- **Total:** 30-65ms", better="s2-speed")
@says("S2", "- ChromaDB search: 20-50ms", "- **Total:** 520-2035ms", better="s2-speed")
async def test_a_call_takes_a_few_round_trips_however_much_was_said(
    servers: Servers, mongod: Mongod, talk: MemoryAgent, old_vacation: MemoryAgent
) -> None:
    """A window is one; a context of a thousand messages as many as one of twelve; an update waits for a single insert."""
    commands = Commands()
    cfg = servers.cfg.changed(run_worker=False)
    taken = []
    async with (
        AsyncMongoClient[dict[str, Any]](mongod.uri, event_listeners=[commands]) as client,
        MemoryService(cfg, mongo_client=client, embedder=servers.embedder) as service,
    ):
        for known in (talk, old_vacation):
            memory = thread_of(service, known)
            await memory.fetch_memory("What do I like?")  # loads what is kept in memory
            commands.sent.clear()
            await memory.fetch_short_term()
            assert commands.sent == ["find"]
            commands.sent.clear()
            await memory.fetch_memory("What do I like?")
            taken.append(len(commands.sent))
            assert set(commands.sent) <= {"find", "aggregate"}
            commands.sent.clear()
            await memory.fetch_facts()
            assert len(commands.sent) == 2  # the facts, and how many messages are still to be read
        memory = service.agent("updater", "t")
        await memory.update_memory("Hello", "Hi")
        commands.sent.clear()
        await memory.update_memory("Hello again", "Hi again")
        assert commands.sent.count("insert") == 1
    assert taken[1] <= taken[0] + 2


@says("S2", "- Fact extraction: 500-2000ms (GPT-4 call)", "- MongoDB insert: 5-10ms", better="s2-speed")
@says("S2", "**Trigger:** After each conversation turn")
async def test_an_update_does_not_wait_for_the_model(tmp_path: Path, openai_server: ScriptedOpenAI) -> None:
    """The model never answers; what was said is durable, shown, and says what is still to be read."""
    ends = threading.Event()
    openai_server.answer = lambda _: "{}" if ends.wait(30) else Reply(status=500)
    cfg = MemoryConfig(data_dir=tmp_path, openai_base_url=openai_server.base_url, openai_api_key="sk-test")
    async with MemoryService(cfg, embedder=HashEmbedder()) as service:
        memory = service.agent("john", "t")
        await memory.update_memory(JOHN, "Nice to meet you, John!")
        await memory.settle(without=["facts"])
        assert JOHN in str(await memory.fetch_memory("Who am I?"))
        assert (await memory.status()).pending["facts"] == 1
        ends.set()
