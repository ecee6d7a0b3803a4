"""S0, Conversation Memory System: topics that fade and come back."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import dataclasses
import gzip
import json
import threading
import tomllib
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from memory_agent import MemoryAgent, MemoryConfig, MemoryService
from memory_agent.models.local.embedder import LocalEmbedder
from memory_agent.stores.codec import pack_texts
from memory_agent.testing import FixedClock, HashEmbedder
from memory_agent.topics.stage import topic_id_of
from tests.documents.frame import says
from tests.servers.openai_script import Reply, Request, ScriptedOpenAI

START = datetime(2026, 3, 1, 9, tzinfo=UTC)
CHAT = Path(__file__).parents[1] / "integration" / "chats" / "moving.toml"
ALPHA = "alpha beta gamma delta"
LISBON = [
    "We fly to Lisbon on 3 May 2026 and stay at the Solar hotel near the castle.",
    "The Solar hotel in Lisbon has a room for 140 euros, with a view of the castle.",
    "My sister Ana joins our trip to Lisbon on 5 May, she loves the trams.",
    "On 6 May we take the train from Lisbon to Porto, it leaves at 9:30.",
    "In Lisbon I want to see the castle, the tram museum and the monastery.",
    "We decided to rent bicycles in Lisbon for two days of our trip.",
    "Ana is allergic to shellfish, so our restaurant in Lisbon must be careful.",
]
BREAD = [
    "My sourdough bread doesn't rise, what is wrong with my sourdough starter?",
    "How warm should the sourdough dough be while the bread proofs?",
]


@contextlib.asynccontextmanager
async def standing_still(folder: Path, **settings: Any) -> AsyncIterator[tuple[MemoryService, FixedClock]]:
    """A service whose clock the test moves, and whose embedder knows words alone."""
    clock = FixedClock(START)
    cfg = MemoryConfig(
        data_dir=folder, enable_fact_extraction=False, **{"similarity_threshold": 0.5, **settings}
    )
    async with MemoryService(cfg, clock=clock, embedder=HashEmbedder()) as service:
        yield service, clock


def exchanges(texts: list[str], *, start: datetime = START) -> list[dict[str, Any]]:
    """Each of these said by the user, with an answer a minute later; an hour apart."""
    turns = []
    for hour, text in enumerate(texts):
        at = start + timedelta(hours=hour)
        turns.append({"role": "user", "content": text, "timestamp": at})
        answer = f"Noted for your trip: {text.lower()}"
        turns.append({"role": "assistant", "content": answer, "timestamp": at + timedelta(minutes=1)})
    return turns


async def packed(service: MemoryService, thread: str = "packed") -> MemoryAgent:
    """A topic of 13 messages, which are one too many; tests that only read share it."""
    memory = service.agent("ann", thread)
    await memory.add_turns(exchanges(LISBON)[:13], idempotency_key="13 messages")
    await memory.settle(timeout=60)
    return memory


def spoken(texts: list[str]) -> list[str]:
    return [turn["content"] for turn in exchanges(texts)]


# --- adding, matching ----------------------------------------------------------------------------------------
@says("S0", "topic = conversation_memory_manager.add_user_message(", better="s0-add")
@says("S0", "conversation_memory_manager.add_assistant_message(", "importance=0.5  # Optional: 0.0-1.0")
@says("S0", "| `max_topics` | 20 |", "| `max_messages_per_topic` | 12 |", "| `recent_message_keep` | 4 |")
@says("S0", "| `base_half_life_seconds` | 86400 |", "| `max_half_life_seconds` | 2592000 |")
@says("S0", "| `access_threshold_for_lt` | 5 |")
async def test_a_message_is_stored_and_its_topic_is_told(service: MemoryService) -> None:
    memory = service.agent("user123", "adding")
    said = await memory.add_user_message("What are the key features?", importance=0.5)
    await memory.add_assistant_message("The key features are speed and a long memory.")
    topic = await memory.turn_topic(said.id)
    await memory.settle(timeout=60)
    assert topic is not None
    topic = await memory.topic_stats(topic.topic_id)
    assert (topic.importance_score, topic.total_messages) == (0.5, 2)
    cfg = service.cfg
    assert (cfg.max_topics, cfg.max_messages_per_topic, cfg.recent_message_keep) == (20, 12, 4)
    lives = (cfg.base_half_life_seconds, cfg.max_half_life_seconds, cfg.access_threshold_for_lt)
    assert lives == (86400, 2592000, 5)


@says("S0", "1. Compute embedding of the message", "2. Compare with existing topics (cosine similarity)")
@says("S0", "- Refresh last_active_at (LRU timer reset)", "- Create new topic")
@says("S0", "Conversations are automatically grouped into topics based on semantic similarity")
@says("S0", "3. If similarity > threshold (0.7):", "| `similarity_threshold` | 0.7 |", better="s0-threshold")
async def test_messages_are_grouped_by_what_they_are_about(
    service: MemoryService, shared_embedder: LocalEmbedder
) -> None:
    memory = service.agent("ann", "grouping")
    ids = [(await memory.add_user_message(text)).id for text in (LISBON[0], *BREAD, LISBON[3])]
    topics = [topic for turn_id in ids if (topic := await memory.turn_topic(turn_id))]
    lisbon, bread, dough, back = (topic.topic_id for topic in topics)
    assert (lisbon, bread) == (back, dough)
    assert lisbon != bread
    await memory.settle(timeout=60)
    assert (await memory.topic_stats(lisbon)).access_count == 1
    assert (await memory.topics())[0].current
    # A cosine of .7 would have parted these, of which nobody would say that they are of two subjects.
    one, other = await shared_embedder.embed([LISBON[0], LISBON[3]], purpose="document")
    assert float(one @ other) < 0.7
    assert service.cfg.similarity_threshold == 0.35


@says(
    "S0",
    "class MessageEntry:",
    '# Returns: [{"role": "user", "content": "...", "timestamp": 1234567890}, ...]',
    better="s0-time",
)
@says("S0", "full_history = conversation_memory_manager.get_full_topic_history(", "include_compressed=True")
@says("S0", "messages: List[MessageEntry]         # Active messages in memory")
@says("S0", "message_count: int                   # Total message count")
@says("S0", "**Full History Preservation**: Nothing is lost - all messages are preserved")
async def test_the_full_history_has_every_message_word_for_word(service: MemoryService) -> None:
    memory = await packed(service)
    history = await memory.topic_history(include_compressed=True)
    assert [message["content"] for message in history] == spoken(LISBON)[:13]
    assert {message["role"] for message in history} == {"user", "assistant"}
    assert history[0]["timestamp"].timestamp() == START.timestamp()
    active = await memory.topic_history(include_compressed=False)
    assert active == history[-4:]
    stats = await memory.topic_stats()
    assert (stats.active_messages, stats.total_messages) == (4, 13)


@says("S0", "class TopicMemory:", better="s0-topic")
@says(
    "S0",
    "title: str                           # Topic title (first 80 chars of initial message)",
    better="s0-title",
)
@says("S0", "created_at: float                    # Topic creation time")
@says("S0", "last_active_at: float                # Last access time (refreshed on use)")
@says("S0", "importance_score: float              # User-defined importance (0.0-1.0)")
@says("S0", "access_count: int                    # Number of accesses (for LT memory consolidation)")
@says("S0", "embedding: Optional[np.ndarray]      # Topic embedding for similarity matching")
async def test_a_topic_tells_of_itself_what_the_document_keeps_in_it(tmp_path: Path) -> None:
    async with standing_still(tmp_path) as (service, clock):
        memory = service.agent("ann", "chat")
        long = f"{LISBON[0]} {LISBON[1]}"
        await memory.add_user_message(long, importance=0.9, timestamp=START)
        await memory.add_user_message(long, timestamp=START + timedelta(hours=2))
        await memory.settle(timeout=60)
        clock.set(START + timedelta(hours=5))
        topic = await memory.topic_stats()
        assert (topic.opener, len(topic.opener)) == (long[:80], 80)
        assert topic.topic_title == "Solar hotel, Lisbon"
        assert (topic.age_seconds, topic.inactive_seconds) == (5 * 3600, 3 * 3600)
        assert (topic.importance_score, topic.access_count) == (0.9, 1)
        assert (await memory.set_topic_importance(topic.topic_id, 0.25)).importance_score == 0.25
        (stored,) = await service.core.store.list_topics(memory.scope)
        assert isinstance(stored.embedding, np.ndarray)
        assert stored.embedding.any()


@says("S0", 'stats = conversation_memory_manager.get_topic_stats("user123")', '"topic_id": "abc123",')
@says(
    "S0", '"topic_title": "Discussion about features",', '"active_messages": 4,', '"compressed_messages": 8,'
)
@says(
    "S0", '"total_messages": 12,', '"has_summary": True,', '"importance_score": 0.5,', '"access_count": 15,'
)
@says(
    "S0",
    '"memory_type": "long-term",',
    '"half_life_days": 8.0,',
    '"age_seconds": 3600,',
    '"inactive_seconds": 120',
)
async def test_the_statistics_of_a_topic_are_those_of_the_document(tmp_path: Path) -> None:
    """12 messages of an hour ago, 8 of them compressed; 15 accesses make 8 days of half-life."""
    async with standing_still(tmp_path, max_messages_per_topic=11) as (service, clock):
        memory = service.agent("user123", "chat")
        about = "We talk about the features of the new gearbox: it has 6 gears, said Tom on 3 May."
        at = [START, *[START + timedelta(seconds=3480)] * 11]
        await memory.add_turns([{"role": "user", "content": about, "timestamp": each} for each in at])
        await memory.settle(timeout=60)
        topic_id = (await memory.topic_stats()).topic_id
        clock.set(START + timedelta(hours=1))
        told = dataclasses.asdict(await memory.topic_stats())
        expected = {
            "topic_id": topic_id,
            "topic_title": told["topic_title"],
            "active_messages": 4,
            "compressed_messages": 8,
            "total_messages": 12,
            "has_summary": True,
            "importance_score": 0.5,
            "access_count": 11,
            "memory_type": "long-term",
            "half_life_days": 4.0,
            "age_seconds": 3600,
            "inactive_seconds": 120,
        }
        assert {key: told[key] for key in expected} == expected
        assert "gears" in told["topic_title"] or "gearbox" in told["topic_title"]
        more = [{"role": "user", "content": about, "timestamp": clock.now()} for _ in range(4)]
        await memory.add_turns(more)
        await memory.settle(timeout=60)
        stats = await memory.topic_stats()
        assert (stats.access_count, stats.memory_type, stats.half_life_days) == (15, "long-term", 8.0)


# --- compaction ----------------------------------------------------------------------------------------------
@says("S0", "When a topic exceeds `max_messages_per_topic` (default: 12)")
@says("S0", "1. Take all messages except recent 4 (recent_message_keep)")
@says("S0", "6. Keep only recent 4 messages in active memory")
@says("S0", "- Combine with newly old messages", better="s0-combine")
@says(
    "S0", "compressed_messages: Optional[str]   # Base64-encoded gzip compressed history", better="s0-format"
)
@says(
    "S0", "Old messages are compressed (gzip) instead of deleted, preserving full history", better="s0-format"
)
@says(
    "S0",
    "using an LRU (Least Recently Used) strategy with automatic compression to preserve full conversation history",
)
async def test_the_thirteenth_message_has_all_but_four_compressed(service: MemoryService) -> None:
    memory = service.agent("ann", "compaction")
    await memory.add_turns(exchanges(LISBON)[:12])
    await memory.settle(timeout=60)
    stats = await memory.topic_stats()
    assert (stats.active_messages, stats.compressed_messages) == (12, 0)
    await memory.add_turns(exchanges(LISBON)[12:13])
    await memory.settle(timeout=60)
    stats = await memory.topic_stats()
    assert (stats.active_messages, stats.compressed_messages, stats.has_summary) == (4, 9, True)
    assert stats.compression_ratio > 1
    # What grows old later joins what is compressed already.
    await memory.add_turns(exchanges([f"{text} That is for Lisbon." for text in LISBON])[:9])
    await memory.settle(timeout=60)
    stats = await memory.topic_stats()
    assert (stats.active_messages, stats.compressed_messages, stats.total_messages) == (4, 18, 22)
    assert len(await memory.topic_history()) == 22


@says("S0", "2. Generate LLM summary of old messages")
@says("S0", "summary: Optional[str]               # LLM-generated summary of old messages")
@says("S0", "**Multi-Turn Summarization**: Incrementally update summaries instead of regenerating")
@says("S0", "- **Add message with compaction**: 500-2000ms (LLM summarization)", better="s0-latency")
async def test_a_model_writes_the_summary_and_goes_on_with_it(
    tmp_path: Path, openai_server: ScriptedOpenAI
) -> None:
    asked: list[str] = []
    waits = threading.Event()

    def answer(request: Request) -> Reply:
        asked.append(str(request["messages"]))
        assert waits.wait(60)
        return Reply(
            text=f"TITLE: Alpha\nSUMMARY: They talk of {'beta and gamma' if len(asked) > 1 else 'alpha'}."
        )

    openai_server.answer = answer
    settings = {"max_messages_per_topic": 6, "recent_message_keep": 2}
    async with standing_still(tmp_path, openai_base_url=openai_server.base_url, **settings) as (service, _):
        memory = service.agent("ann", "chat")
        turns = [{**turn, "content": f"{ALPHA} {number}"} for number, turn in enumerate(exchanges(LISBON))]
        await memory.add_turns(turns[:8])
        assert len(await memory.fetch_short_term()) == 8, "nobody waits for the model"
        waits.set()
        await memory.settle(timeout=60)
        stats = await memory.topic_stats()
        assert (stats.summary_made_by, stats.compressed_messages) == ("llm:gpt-4o-mini:form-2", 6)
        await memory.add_turns(turns[8:])
        await memory.settle(timeout=60)
        assert "They talk of alpha." in asked[1]
        assert f"{ALPHA} 0" not in asked[1], "what is summarised is not read again"
        stats = await memory.topic_stats()
        assert stats.summary is not None
        assert stats.summary.text == "They talk of beta and gamma."


def by_the_document(texts: list[str]) -> tuple[int, int]:
    """Bytes of these messages as JSON, and in its format: JSON, gzip, base64."""
    entries = [{"role": "user", "content": text, "timestamp": 1234567890} for text in texts]
    plain = json.dumps(entries).encode()
    return len(plain), len(base64.b64encode(gzip.compress(plain)))


@says("S0", "4. Compress all old messages (JSON → gzip → base64)", better="s0-format")
@says("S0", "MessageEntry List → JSON → gzip → base64 → String", better="s0-format")
@says(
    "S0", "'H4sIAAAAAAAC/6tWKkktLlGyUlAqys9VslIqLU4t...'  # Stored in compressed_messages", better="s0-format"
)
@says("S0", "**Compression Ratio**: Typically 70-90% size reduction (e.g., 10KB → 1-3KB)", better="s0-ratio")
@says(
    "S0",
    "| 10 messages | 8.2 KB | 1.1 KB | 86.6% |",
    "| 20 messages | 16.5 KB | 2.3 KB | 86.1% |",
    better="s0-ratio",
)
@says("S0", "| 50 messages | 41.2 KB | 5.8 KB | 85.9% |", better="s0-ratio")
@says("S0", "**Low Memory Footprint**: 70-90% reduction through compression", better="s0-ratio")
def test_a_segment_is_smaller_than_the_documents_format_makes_it() -> None:
    """Of a conversation as people have it: its format saves about a half, ours two thirds."""
    days = tomllib.loads(CHAT.read_text("utf-8"))["day"]
    texts = [text for day in days for _, text in day["said"]]
    assert len(texts) >= 50
    for count in (10, 20, 50):
        plain, theirs = by_the_document(texts[:count])
        ours = len(pack_texts(texts[:count]).data)
        assert ours < 0.85 * theirs
        assert 1 - ours / plain >= 0.6


@says("S0", "- Active messages (4): ~2-10KB (depends on message length)")
@says("S0", "- Compressed history (10+ messages): ~1-5KB (70-90% compression)")
@says(
    "S0",
    "- Summary: ~200-500 bytes",
    "- Embedding: 1024 floats × 4 bytes = 4KB",
    "- **Total per topic**: ~7-20KB",
    better="s0-memory",
)
async def test_a_topic_takes_less_than_the_document_says(service: MemoryService) -> None:
    memory = await packed(service)
    stats = await memory.topic_stats()
    (topic,) = await service.core.store.list_topics(memory.scope)
    counts = (await service.core.store.count_topic_turns(memory.scope, [topic.id]))[topic.id]
    assert topic.summary is not None
    active = sum(
        len(turn["content"].encode()) for turn in await memory.topic_history(include_compressed=False)
    )
    assert active < 10_000
    assert counts.packed_bytes < 5_000
    assert 200 <= len(topic.summary.text) <= 1_200
    assert topic.embedding.nbytes == 384 * 2
    assert active + counts.packed_bytes + len(topic.summary.text) + topic.embedding.nbytes < 7_000
    assert stats.compression_ratio > 1


# --- decay ---------------------------------------------------------------------------------------------------
def accessed(count: int) -> list[dict[str, Any]]:
    """A topic that is opened and comes back so many times, all at once."""
    return [
        {"role": "user", "content": ALPHA, "timestamp": START, "importance": 1.0} for _ in range(count + 1)
    ]


@says(
    "S0", "priority = importance_score × decay_factor", "decay_factor = 0.5^(age_seconds / half_life_seconds)"
)
@says(
    "S0",
    "- 0 days: priority = 1.0 (100%)",
    "- 1 day: priority = 0.5 (50%)",
    "- 2 days: priority = 0.25 (25%)",
)
@says("S0", "- 3 days: priority = 0.125 (12.5%)", "- 4 days: priority = 0.0625 (6.25%)")
@says("S0", "- 5 days: priority = 0.03125 (3.1% - deleted)", "- 16 days: priority = 0.5 (50%)")
@says("S0", "- 32 days: priority = 0.25 (25%)", "- 48 days: priority = 0.125 (12.5%)")
@says("S0", "- 64 days: priority = 0.0625 (6.25%)", "- 80 days: priority = 0.03125 (3.1% - deleted)")
@says("S0", "Topics decay over time based on a half-life formula, with recent activity refreshing the timer")
async def test_priorities_fall_by_the_tables(tmp_path: Path) -> None:
    async with standing_still(tmp_path) as (service, clock):
        for accesses, days in ((0, 1), (20, 16)):
            memory = service.agent("ann", f"{accesses} accesses")
            clock.set(START)
            await memory.add_turns(accessed(accesses))
            await memory.settle(timeout=60)
            for lives, priority in enumerate((1.0, 0.5, 0.25, 0.125, 0.0625, 0.03125)):
                clock.set(START + timedelta(days=lives * days))
                stats = await memory.topic_stats()
                assert stats.priority == pytest.approx(priority), (accesses, lives)
            await memory.add_user_message(ALPHA, timestamp=clock.now())
            await memory.settle(timeout=60)
            assert (await memory.topic_stats()).priority == 1.0


@says("S0", "- New topics (< 5 accesses): 1 day half-life (short-term memory)")
@says("S0", "- Frequent topics (5+ accesses): 2-30 days half-life (long-term memory)")
@says("S0", "- Half-life doubles every 5 accesses (up to 30-day max)")
@says("S0", "| 0-4 | 1 day | Short-term | ~5 days |", "| 5-9 | 2 days | Transitioning | ~10 days |")
@says("S0", "| 10-14 | 4 days | Long-term | ~20 days |", "| 15-19 | 8 days | Long-term | ~40 days |")
@says("S0", "| 20-24 | 16 days | Long-term | ~80 days |", "| 25+ | 30 days (max) | Long-term | ~150 days |")
@says("S0", "**Human-Like Memory**: Mimics short-term to long-term memory consolidation")
@says("S0", "**Adaptive Decay**: Frequently accessed topics survive 16x longer than new ones")
async def test_what_is_come_back_to_stays_longer(tmp_path: Path) -> None:
    table = [
        ((0, 4), 1, "short-term", 5),
        ((5, 9), 2, "transitioning", 10),
        ((10, 14), 4, "long-term", 20),
        ((15, 19), 8, "long-term", 40),
        ((20, 24), 16, "long-term", 80),
        ((25, 40), 30, "long-term", 150),
    ]
    async with standing_still(tmp_path) as (service, _):
        for both, days, kind, survives in table:
            for accesses in both:
                memory = service.agent("ann", f"{accesses} accesses")
                await memory.add_turns(accessed(accesses))
                await memory.settle(timeout=60)
                stats = await memory.topic_stats()
                assert (stats.access_count, stats.half_life_days) == (accesses, days)
                assert stats.memory_type == kind
                assert stats.priority_in(survives) < 0.05 < stats.priority_in(0.8 * survives)


@says("S0", "When conversation has > `max_topics` (default: 20)", "3. Sort topics by priority (lowest first)")
@says("S0", "4. Remove topics with priority < 0.05", better="s0-remove")
@says("S0", "5. Skip active topic (never remove)")
@says(
    "S0",
    "**Automatic Decay**: Old, unimportant topics are removed to prevent memory bloat",
    better="s0-remove",
)
async def test_once_there_are_more_than_twenty_all_that_faded_go(tmp_path: Path) -> None:
    async with standing_still(tmp_path) as (service, clock):
        memory = service.agent("ann", "chat")
        texts = [" ".join(f"word{number}{letter}" for letter in "abcdef") for number in range(22)]
        ids = []
        for day, text in enumerate(texts[:20]):
            ids.append((await memory.add_user_message(text, timestamp=START + timedelta(days=day))).id)
        await memory.settle(timeout=60)
        clock.set(START + timedelta(days=90))
        assert (await service.sweep()).archived == 0, "20 are not too many"
        fresh = await memory.add_user_message(texts[20], timestamp=clock.now() - timedelta(hours=1))
        old = await memory.add_user_message(texts[21], timestamp=START)
        await memory.settle(timeout=60)
        planned: list[Any] = []
        await service.sweep(dry_run=True, each=planned.append)
        assert [action.topic_id for action in planned] == [topic_id_of(each) for each in ids]
        priorities = [action.priority for action in planned]
        assert priorities == sorted(priorities)
        assert max(priorities) < 0.05
        assert (await service.sweep()).archived == 20
        left = await memory.topics()
        assert {topic.topic_id for topic in left} == {topic_id_of(fresh.id), topic_id_of(old.id)}
        current = next(topic for topic in left if topic.current)
        assert (current.topic_id, current.priority < 0.05) == (topic_id_of(old.id), True)
        everything = await memory.topics(include_archived=True)
        assert sum(topic.total_messages for topic in everything) == 22
        assert (await memory.topic_history(topic_id_of(ids[0])))[0]["content"] == texts[0]


@says(
    "S0",
    "1. Detect topic has compressed_messages",
    "3. Merge decompressed messages with current active messages",
)
@says(
    "S0",
    "4. Sort by timestamp (chronological order)",
    "5. Restore full history to active memory",
    better="s0-restore",
)
@says("S0", "7. Continue conversation with full context")
@says(
    "S0",
    "When an old topic is accessed again, compressed messages are automatically restored",
    better="s0-restore",
)
@says("S0", "**Seamless UX**: Decompression is automatic and transparent")
@says("S0", "**LRU-Based Efficiency**: Hot topics stay decompressed, cold topics compressed")
async def test_an_old_topic_that_is_taken_up_again_has_its_whole_history(service: MemoryService) -> None:
    memory = await packed(service, "coming back")
    topic = await memory.topic_stats()
    await memory.archive_topic(topic.topic_id)
    cold = await memory.topic_stats(topic.topic_id)
    assert (cold.archived, cold.compressed_messages) == (True, 13)
    other = await memory.add_user_message(BREAD[0])
    assert (await memory.topic_stats(await about(memory, other.id))).current
    again = "Which castle did we want to see on our trip to Lisbon in May?"
    back = await memory.add_user_message(again)
    assert await about(memory, back.id) == topic.topic_id
    await memory.settle(timeout=60)
    warm = await memory.topic_stats()
    assert (warm.topic_id, warm.archived, warm.active_messages) == (topic.topic_id, False, 1)
    context = await memory.topic_context()
    assert [message["content"] for message in context[1:]] == [*spoken(LISBON)[:13], again]


async def about(memory: MemoryAgent, turn_id: str) -> str:
    """The id of the topic of a turn, once it is known."""
    topic = await memory.turn_topic(turn_id)
    assert topic is not None
    return topic.topic_id


# --- what a model gets ---------------------------------------------------------------------------------------
@says("S0", 'context = conversation_memory_manager.get_topic_context("user123")')
@says("S0", '# Returns: [{"role": "system", "content": "Topic summary: ..."},', better="s0-context")
@says(
    "S0", "**Context-Aware**: Topic summaries + recent messages provide optimal context", better="s0-context"
)
async def test_the_context_is_the_whole_topic_or_its_summary_and_its_end(service: MemoryService) -> None:
    memory = await packed(service)
    title = (await memory.topic_stats()).topic_title
    whole = await memory.topic_context()
    assert whole[0] == {"role": "system", "content": f"The conversation is about: {title}"}
    assert [message["content"] for message in whole[1:]] == spoken(LISBON)[:13]
    assert [set(message) for message in whole] == [{"role", "content"}] * 14
    count = service.core.counts.count
    for room in (60, 150, 250):
        context = await memory.topic_context(max_tokens=room)
        assert sum(count(message["content"]) + 4 for message in context) <= room
        shown = [message["content"] for message in context[1:]]
        assert shown == spoken(LISBON)[13 - len(shown) : 13] or len(shown) == 1
        summary = context[0]["content"].partition("What was said before, in sentences taken from it:\n")[2]
        assert summary or room == 60
        quoted = [line.partition("): ")[2] for line in summary.splitlines() if not line.endswith("…")]
        assert all(any(quote in said for said in spoken(LISBON)) for quote in quoted)


@says("S0", "conversation_memory_manager.add_user_message(conv_id, question)")
@says("S0", "standalone_question = _rewrite_query(question, topic_history)", '"chat_history": topic_history')
@says("S0", "conversation_memory_manager.add_assistant_message(conv_id, answer)")
async def test_a_pipeline_of_questions_and_answers_runs_as_the_document_has_it(
    service: MemoryService,
) -> None:
    """With a query rewriter and an agent that look at the history; topics are asked for by conversation."""

    def _rewrite_query(question: str, history: list[dict[str, str]]) -> str:
        subject = history[0]["content"].removeprefix("The conversation is about: ")
        return f"{question} ({subject})"

    def agent_generator(asked: dict[str, Any]) -> str:
        questions = [message for message in asked["chat_history"] if message["role"] == "user"]
        return f"Answer {len(questions)} to: {asked['search_query']}"

    answers = []
    memory = service.agent("user123", "qa")
    for question in (BREAD[0], "And how long does it take?"):
        said = await memory.add_user_message(question)
        topic = await memory.turn_topic(said.id)
        topic_history = await memory.topic_context()
        standalone_question = _rewrite_query(question, topic_history)
        answer = agent_generator(
            {"input": question, "search_query": standalone_question, "chat_history": topic_history}
        )
        await memory.add_assistant_message(answer)
        answers.append(answer)
        assert topic is not None
    assert answers == [
        f"Answer 1 to: {BREAD[0]} (sourdough bread)",
        "Answer 2 to: And how long does it take? (sourdough bread)",
    ]


# --- at once -------------------------------------------------------------------------------------------------
@says(
    "S0",
    "All memory operations use a threading lock (`self._lock`) to ensure thread-safe access",
    better="s0-lock",
)
@says(
    "S0",
    "# All state modifications are protected",
    "**Thread-Safe**: All operations protected by locks",
    better="s0-lock",
)
@says("S0", "- **Add message**: <1ms (no compression)", better="s0-latency")
async def test_eight_threads_write_at_once_and_nothing_is_lost_or_mixed(tmp_path: Path) -> None:
    async with standing_still(tmp_path) as (service, _):
        loop = asyncio.get_running_loop()
        memory = service.agent("ann", "chat")

        def talk(thread: int) -> None:
            for number in range(5):
                told = memory.update_memory(f"{ALPHA} {thread} {number}?", f"Answer {thread} {number}.")
                asyncio.run_coroutine_threadsafe(told, loop).result()

        await asyncio.gather(*(asyncio.to_thread(talk, thread) for thread in range(8)))
        await memory.settle(timeout=60)
        history = [message["content"] for message in await memory.topic_history()]
        assert len(history) == 80
        for question, answer in zip(history[::2], history[1::2], strict=True):
            assert question.removeprefix(f"{ALPHA} ").rstrip("?") == answer.removeprefix("Answer ").rstrip(
                "."
            )


@says(
    "S0",
    "- **Decompress on access**: 1-5ms (gzip decompression)",
    "- **Topic matching**: 1-2ms (embedding similarity)",
    better="s0-latency",
)
async def test_what_is_compressed_is_read_without_being_written_back(service: MemoryService) -> None:
    memory = await packed(service)
    before = await memory.topic_stats()
    for _ in range(3):
        assert len(await memory.topic_history()) == 13
    after = await memory.topic_stats()
    assert (after.active_messages, after.compressed_messages) == (4, 9)
    assert after.compression_ratio == before.compression_ratio


# --- future enhancements -------------------------------------------------------------------------------------
@says("S0", "**Persistent Storage**: Save compressed topics to disk/database for long-term retention")
async def test_compressed_topics_are_there_after_a_restart(tmp_path: Path) -> None:
    texts = [f"{ALPHA} {number}" for number in range(13)]
    async with standing_still(tmp_path) as (service, _):
        memory = service.agent("ann", "chat")
        await memory.add_turns([{"role": "user", "content": text} for text in texts])
        await memory.settle(timeout=60)
        before = await memory.topic_stats()
        assert before.compressed_messages == 9
    async with standing_still(tmp_path) as (service, _):
        memory = service.agent("ann", "chat")
        assert await memory.topic_stats() == before
        assert [message["content"] for message in await memory.topic_history()] == texts


@says("S0", "**Topic Merging**: Automatically merge related topics")
async def test_topics_of_one_subject_are_merged_by_the_sweep_and_split_by_hand(
    tmp_path: Path, shared_embedder: LocalEmbedder
) -> None:
    cfg = MemoryConfig(data_dir=tmp_path, enable_fact_extraction=False, similarity_threshold=2)
    async with MemoryService(cfg, embedder=shared_embedder) as service:
        memory = service.agent("ann", "chat")
        said = [
            BREAD[0],
            LISBON[0],
            f"{BREAD[0]} Please help!",
            "When is the income tax return due this year?",
        ]
        ids = [topic_id_of((await memory.add_user_message(text)).id) for text in said]
        await memory.settle(timeout=60)
        merged: list[Any] = []
        assert (await service.sweep(each=merged.append)).merged == 1
        assert (merged[0].topic_id, merged[0].into) == (ids[2], ids[0])
        assert (await memory.topic_stats(ids[2])).topic_id == ids[0]
        assert (await memory.split_topic(ids[2])).total_messages == 1
        assert (await service.sweep()).merged == 0


@says("S0", "**Importance Learning**: Learn importance scores from user feedback")
async def test_importance_is_learned_from_feedback(tmp_path: Path) -> None:
    async with standing_still(tmp_path) as (service, _):
        memory = service.agent("ann", "chat")
        turn = await memory.add_user_message(ALPHA)
        await memory.settle(timeout=60)
        scores = [(await memory.feedback(turn.id, useful=True)).importance_score for _ in range(8)]
        assert scores == sorted(scores)
        assert 0.5 < scores[0] < scores[-1] < 1
        assert (await memory.feedback(turn.id, useful=False)).importance_score == scores[-2]


@says("S0", "**Cross-Topic Search**: Search across all topics, not just active one")
@says("S0", "**Topic Tags**: Add user-defined tags for better organization")
async def test_all_topics_are_searched_or_those_with_a_tag(service: MemoryService) -> None:
    memory = service.agent("tess", "earlier")
    lisbon, bread = [await memory.add_user_message(text) for text in (LISBON[1], BREAD[0])]
    trip = await about(memory, lisbon.id)
    await about(memory, bread.id)
    await memory.settle(timeout=60)
    assert not (await memory.topic_stats(trip)).current
    assert (await memory.fetch_long_term("hotel near the castle", top_k=1))[0].turn.id == lisbon.id
    await memory.tag_topic(trip, ["travel"])
    assert [topic.topic_id for topic in await memory.topics(tag="travel")] == [trip]
    question = "What did I say about the sourdough bread, and about the Solar hotel in Lisbon?"
    assert {found.turn.id for found in await memory.fetch_long_term(question, tag="travel")} == {lisbon.id}
    here = service.agent("tess", "today")
    everything = str(await here.fetch_memory(question))
    assert LISBON[1] in everything
    assert BREAD[0] in everything
    tagged = str(await here.fetch_memory(question, tags=["travel", "food"]))
    assert LISBON[1] in tagged
    assert BREAD[0] not in tagged
    assert LISBON[1] not in str(await here.fetch_memory(question, tags=["food"]))
