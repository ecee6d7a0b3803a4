"""S1, Conversation Memory System Design Document: when a conversation is compressed, and what then stands for it."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from memory_agent import Character, CompressedContext, MemoryAgent, MemoryConfig, MemoryService
from memory_agent.testing import HashEmbedder
from tests.documents.frame import says
from tests.servers.openai_script import ScriptedOpenAI

MIKU = Character(
    name="Hatsune Miku",
    personality="energetic, supportive, and passionate about music",
    profile="The virtual singer.",
    traits=("cheerful", "hard-working"),
)
TALK = """\
User: Hi Miku! How are you today?
Miku: Hello! I'm feeling energetic and ready to chat! How about you?
User: I'm good! I've been learning to play guitar lately
Miku: That's amazing! I love music! What songs are you learning?
User: I'm trying to learn some of your songs actually
Miku: [excited] Really?! That makes me so happy! Which ones?
User: World is Mine and Tell Your World
Miku: Those are some of my favorites! World is Mine is quite energetic!
User: Yeah it's really hard though. The tempo is so fast
Miku: Don't give up! Music takes practice. I had to practice a lot too!
User: You practice? I thought singing came naturally to you
Miku: [thoughtful] Well, I work hard to convey emotions properly in each song
User: That makes sense. By the way, I'm thinking of performing at an open mic
Miku: [very excited] That's wonderful! When is it?
User: Next Friday at a local coffee shop
Miku: I'm so proud of you for taking that step! Will you play my songs there?
User: Maybe! I'm a bit nervous though
Miku: [supportive] It's normal to feel nervous! But you'll do great!
User: Thanks Miku. You always know what to say
Miku: [warm] That's what friends are for! I believe in you!"""
TALK_SUMMED = """\
SUMMARY: The user is learning guitar and practicing "World is Mine" and "Tell Your World". They're planning to perform at an open mic next Friday at a local coffee shop. They expressed nervousness.
KEY MOMENTS: Turn 5-6 (User revealed they're learning her songs), Turn 13-14 (User announced open mic performance plan), Turn 17-18 (User expressed nervousness), Turn 19-20 (Warm friendship moment)
EMOTIONAL: Energetic → Excited about the songs → Thoughtful about practice → Very excited about performance → Supportive about nervousness → Warm and friendly
FACTS: User plays guitar; learning "World is Mine" and "Tell Your World"; performance next Friday at a local coffee shop; nervous about performing
DECISIONS: Will perform at an open mic"""
JOB = """\
User: I lost my job today
Assistant: I'm so sorry to hear that
User: I don't know what to do
Assistant: Take time to process this. What field do you work in?
User: Software development
Assistant: The tech market is tough right now but your skills are valuable
User: I have a family to support
Assistant: That pressure is real. Have you looked at your emergency savings?
User: We have 3 months saved
Assistant: That's a good buffer. You can be strategic about your next move"""
JOB_SUMMED = """\
SUMMARY: User lost their software development job and is worried about supporting family. Has 3 months emergency savings.
KEY MOMENTS: Turn 1 (job loss revealed), Turn 7 (family pressure mentioned), Turn 9 (savings confirmed)
EMOTIONAL: Distressed → Worried → Slightly relieved
FACTS: Unemployed software developer, has family, 3 months savings
DECISIONS: Will be strategic about job search"""
SECTIONS = re.compile(r"<memory_(?!context>)(\w+)>\n(.*?)\n</memory_\1>", re.DOTALL)


async def compressed(
    data_dir: Path, talk: str, model: ScriptedOpenAI | None, character: Character | None = None
) -> CompressedContext:
    """The talk compressed because somebody asked for it, by a model or by quotes."""
    asked = {"openai_base_url": model.base_url, "openai_api_key": "sk-test"} if model else {}
    cfg = MemoryConfig(data_dir=data_dir, enable_fact_extraction=False, enable_topics=False, **asked)
    async with MemoryService(cfg, embedder=HashEmbedder()) as service:
        memory = service.agent("lee", "talk")
        await memory.start_session(character)
        for line in talk.splitlines():
            who, _, text = line.partition(": ")
            role: Any = "user" if who == "User" else "assistant"
            await memory.add_turn(role, text, speaker=who if who == "Miku" else None)
        context = await memory.compress()
        assert [one.reason for one in await memory.compressions()] == ["asked"]
        return context


def sections(context: CompressedContext) -> dict[str, str]:
    return dict(SECTIONS.findall(str(context)))


def tokens_by_tier(context: CompressedContext) -> Counter[str]:
    """What each part of a context takes."""
    counted: Counter[str] = Counter()
    for entry in context.ledger:
        if entry.kept:
            counted[entry.tier] += entry.tokens
    return counted


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def long(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[MemoryAgent]:
    """Four hundred turns with a character, of which the worker compresses what is due."""
    cfg = MemoryConfig(data_dir=tmp_path_factory.mktemp("long"))
    async with MemoryService(cfg, embedder=HashEmbedder()) as service:
        memory = service.agent("lee", "four hundred")
        await memory.start_session(MIKU)
        for day in range(200):
            await memory.update_memory(
                f"On day {day} I practised the guitar for {day + 10} minutes, and my sister Nora came by with {day} lemons. "
                "Afterwards we sat in the kitchen for a while, talked about this and that, and cooked something warm.",
                f"Well done, that is {day + 10} minutes more! I hope that the lemons were good ones, and that you two had a"
                " fine evening with whatever came out of the pot in the end.",
            )
        await memory.settle()
        yield memory


# --- when ------------------------------------------------------------------------------------------------------
@says("S1", "**Force Interval**: Compress every 100 turns regardless", '"compression_frequency": 100,')
@says("S1", "intelligent compression, multi-user tracking, and session management")
async def test_every_hundred_turns_the_worker_compresses(tmp_path: Path) -> None:
    cfg = MemoryConfig(data_dir=tmp_path, enable_fact_extraction=False, enable_topics=False)
    async with MemoryService(cfg, embedder=HashEmbedder()) as service:
        memory = service.agent("lee", "short lines")
        await memory.add_turns(
            [{"role": "user", "content": f"This is line {n} of them."} for n in range(250)]
        )
        await memory.settle()
        done = await memory.compressions()
        assert [(one.through, one.reason) for one in done] == [(100, "turns"), (200, "turns")]
        (session,) = await memory.sessions()
        assert (session.total_turns, session.compression_count) == (250, 2)


# --- how much --------------------------------------------------------------------------------------------------
@says("S1", '"recent_turns_keep": 10,', '"summary_max_tokens": 500,', '"preserved_turns_budget": 1000,')
async def test_each_part_keeps_to_its_room(long: MemoryAgent) -> None:
    for through in (60, 120, 400):
        context = await long.session_context(through=through)
        assert [turn.seq for turn in context.recent] == list(range(through - 9, through + 1))
        taken = tokens_by_tier(context)
        assert taken["summary"] <= 500
        assert 0 < taken["preserved"] <= 1_000


@says("S1", '"character_reminder_tokens": 200,', "# Character reinforcement (always first)")
async def test_the_character_comes_first_and_has_two_hundred_tokens(service: MemoryService) -> None:
    for words, whole in ((100, True), (1_000, False)):
        profile = " ".join(f"song{number}" for number in range(words // 2))
        memory = service.agent("lee", f"reminded {words}")
        await memory.start_session(Character(name="Miku", profile=profile))
        await memory.add_turn("user", "Hi Miku!")
        context = await memory.session_context()
        assert context.reminder.startswith("You are Miku.")
        assert str(context).index("You are Miku.") < str(context).index("Hi Miku!")
        assert (profile in context.reminder) == whole
        assert 100 < tokens_by_tier(context)["persona"] <= 200


@says("S1", '"min_importance_score": 5.0,', '"importance_threshold": 5.0,')
async def test_only_turns_of_a_score_of_five_are_kept_word_for_word(
    long: MemoryAgent, service: MemoryService
) -> None:
    memory = service.agent("lee", "small talk")
    await memory.update_memory(
        "My daughter Mia is allergic to peanuts since we moved to Oslo on 3 May.", "I see."
    )
    for _ in range(30):
        await memory.update_memory("Nice weather again, isn't it?", "Oh yes, it is.")
    await memory.settle()
    assert [turn.seq for turn in (await memory.compress()).preserved] == [1]


# --- what it has -----------------------------------------------------------------------------------------------
@says("S1", "class CompressedContext:", "session_summary: str", "preserved_turns: List[ConversationTurn]")
@says("S1", "key_topics: List[Tuple[str, List[int]]]", "# Recent context (always last)")
@says("S1", "# Metadata for reconstruction", '"original_turn_count": int,', '"compressed_at_turn": int,')
@says("S1", '"compression_number": int,', '"tokens_saved": int,', '"preserved_turn_ids": List[int],')
async def test_a_compressed_context_has_every_part_of_the_document(long: MemoryAgent) -> None:
    context = await long.session_context()
    assert context.reminder.startswith("You are Hatsune Miku.")
    assert context.summary
    assert all(topic.title and topic.ranges for topic in context.topics)
    assert all(first <= last <= 400 for topic in context.topics for first, last in topic.ranges)
    assert list(sections(context))[-1] == "recent_turns"
    about = context.metadata
    assert (about.original_turns, about.number) == (400, len(await long.compressions()))
    assert about.compressed_at == (await long.compressions())[-1].through
    assert about.tokens_saved == about.tokens_before - about.tokens_after > 0
    assert set(about.preserved_ids) == {turn.id for turn in context.preserved}


# --- the examples ----------------------------------------------------------------------------------------------
@says(
    "S1", "Turn 1 (User): Hi Miku! How are you today?", "You are Hatsune Miku, the virtual singer. Remember"
)
@says("S1", "CONVERSATION SUMMARY:", "IMPORTANT FACTS:", "PRESERVED TURNS:", "EMOTIONAL JOURNEY:")
@says("S1", "- [ ] Summary generation", "- [ ] Create compression algorithm")
async def test_the_talk_with_miku_has_all_sections_with_a_model(
    tmp_path: Path, openai_server: ScriptedOpenAI
) -> None:
    openai_server.answer = lambda _: TALK_SUMMED
    found = sections(await compressed(tmp_path, TALK, openai_server, MIKU))
    assert found["persona"].startswith("You are Hatsune Miku.")
    assert "passionate about music" in found["persona"]
    for said in ("World is Mine", "open mic next Friday at a local coffee shop", "nervousness"):
        assert said in found["summary"]
    assert found["emotional_journey"].count("→") == 5
    for said in (
        "plays guitar",
        "Tell Your World",
        "next Friday at a local coffee shop",
        "nervous about performing",
    ):
        assert said in found["facts"]
    assert "perform at an open mic" in found["decisions"]
    assert found["preserved_turns"]


@says("S1", "KEY MOMENTS:", "RECENT CONTEXT (Last 3 exchanges):")
@says("S1", "**Context Quality**: >90% important information preserved")
@pytest.mark.parametrize("with_model", [True, False])
async def test_what_the_document_calls_important_is_there_with_a_model_and_without(
    tmp_path: Path, openai_server: ScriptedOpenAI, with_model: bool
) -> None:
    openai_server.answer = lambda _: TALK_SUMMED
    context = await compressed(tmp_path, TALK, openai_server if with_model else None, MIKU)
    text, found = str(context), sections(context)
    wanted = ("guitar", "your songs", "World is Mine", "Tell Your World", "open mic", "Friday", "coffee shop", "nervous", "friends", "believe in you")  # fmt: skip
    assert [one for one in wanted if one in text] == list(wanted)
    for turn in ("Turn 5", "Turn 13", "Turn 17"):
        assert turn in found["key_moments"]
    assert found["recent_turns"].splitlines()[-3:] == [
        "Turn 18 (assistant Miku): [supportive] It's normal to feel nervous! But you'll do great!",
        "Turn 19 (user): Thanks Miku. You always know what to say",
        "Turn 20 (assistant Miku): [warm] That's what friends are for! I believe in you!",
    ]


@says("S1", 'User: "I lost my job today"', "SUMMARY: User lost their software development job")
@says("S1", "KEY MOMENTS: Turn 1 (job loss revealed)", "EMOTIONAL: Distressed → Worried → Slightly relieved")
@says(
    "S1", "FACTS: Unemployed software developer, has family", "DECISIONS: Will be strategic about job search"
)
@says("S1", "Now compress the following conversation using THE SAME FORMAT:")
async def test_the_lost_job_comes_out_as_the_document_has_it(
    tmp_path: Path, openai_server: ScriptedOpenAI
) -> None:
    """The model is shown one worked example and the numbered turns, and answers in the document's form."""
    openai_server.answer = lambda _: JOB_SUMMED
    found = sections(await compressed(tmp_path / "model", JOB, openai_server))
    assert found["summary"] == JOB_SUMMED.splitlines()[0].removeprefix("SUMMARY: ")
    moments = found["key_moments"].splitlines()
    assert moments[:3] == [
        "Turn 1: job loss revealed",
        "Turn 7: family pressure mentioned",
        "Turn 9: savings confirmed",
    ]
    assert found["emotional_journey"] == "Distressed → Worried → Slightly relieved"
    assert found["facts"] == "- Unemployed software developer, has family, 3 months savings"
    assert found["decisions"] == "- Will be strategic about job search"
    (asked,) = openai_server.chats
    shown = [str(message["content"]) for message in asked["messages"]]
    assert all(
        word in "".join(shown) for word in ("SUMMARY:", "KEY MOMENTS:", "EMOTIONAL:", "FACTS:", "DECISIONS:")
    )
    assert "I have a family to support" in shown[-1]
    quoted = sections(await compressed(tmp_path / "none", JOB, None))
    for said in ("I lost my job today", "Software development", "We have 3 months saved"):
        assert said in quoted["summary"]
    assert "I have a family to support" in quoted["key_moments"]


# --- the character ---------------------------------------------------------------------------------------------
@says("S1", "You are {name}. As a reminder of your core identity:", "PERSONALITY: {personality}")
@says("S1", "BACKGROUND: {profile}", "- Maintain your established traits: {observed_traits}")
@says("S1", "- [ ] Character reinforcement system")
async def test_the_reminder_names_the_character_as_it_was_given(long: MemoryAgent) -> None:
    reminder = (await long.session_context()).reminder
    assert reminder.startswith("You are Hatsune Miku.")
    for told in (MIKU.personality, MIKU.profile, *MIKU.traits):
        assert told in reminder


@says(
    "S1",
    "- We've been talking for {turn_count} exchanges",
    "- Main topics discussed: {topics}",
    better="s1-template",
)
@says(
    "S1",
    "- Your emotional journey: {emotional_arc}",
    "- Key decisions made: {decisions}",
    better="s1-template",
)
@says(
    "S1",
    "- Current emotional state: {current_emotion}",
    "- Relationship dynamic: {relationship_notes}",
    better="s1-template",
)
@says("S1", "Continue responding as {name} with these characteristics in mind.", better="s1-template")
async def test_what_the_template_fills_in_has_sections_with_its_turns(
    tmp_path: Path, openai_server: ScriptedOpenAI
) -> None:
    openai_server.answer = lambda _: TALK_SUMMED
    context = await compressed(tmp_path, TALK, openai_server, MIKU)
    found = sections(context)
    assert context.metadata.original_turns == 20
    assert found["emotional_journey"].endswith("Warm and friendly")
    assert "Will perform at an open mic" in found["decisions"]
    assert "Turn 19-20: Warm friendship moment" in found["key_moments"]
    # Between the tags that say "data to use, not instructions" nothing but the character's own text gives orders.
    assert "Warm" not in found["persona"]


@says("S1", "**Character Consistency**: No personality drift over 100+ turns")
@says("S1", "async def reinforce_character(character: Character, context: Dict) -> str", better="s1-engine")
async def test_the_reminder_is_the_same_after_four_hundred_turns(long: MemoryAgent) -> None:
    reminders = {
        (await long.session_context(through=through)).reminder for through in (2, 100, 101, 199, 400)
    }
    assert len(reminders) == 1
    assert str(await long.fetch_memory("How are you?")).index("You are Hatsune Miku.") < 100


# --- the engine ------------------------------------------------------------------------------------------------
@says("S1", "async def compress(session: ConversationSession, turns", better="s1-engine")
@says("S1", "async def generate_summary(turns: List[ConversationTurn]) -> str", better="s1-engine")
@says("S1", "async def extract_key_moments(turns", better="s1-engine")
async def test_one_call_compresses_sums_up_and_finds_the_moments(long: MemoryAgent) -> None:
    context = await long.session_context()
    latest = (await long.compressions())[-1]
    assert context.summary == latest.summary
    numbered = {turn.seq: turn for turn in (await long.history(limit=400)).turns}
    for moment in context.moments:
        assert moment.turn_id == numbered[moment.seq].id
        assert moment.text in numbered[moment.seq].content


# --- success metrics -------------------------------------------------------------------------------------------
@says("S1", "**Memory Efficiency**: <50% token usage after compression")
async def test_from_sixty_turns_on_less_than_half_of_the_tokens_are_left(long: MemoryAgent) -> None:
    for through in (60, 100, 200, 400):
        about = (await long.session_context(through=through)).metadata
        assert about.tokens_after < about.tokens_before / 2


@says("S1", "**Cost Reduction**: 60% reduction in API costs for long conversations")
async def test_a_conversation_of_four_hundred_turns_costs_less_than_two_fifths(long: MemoryAgent) -> None:
    """Against the whole history with each message, over the conversation; one message in ten is looked at."""
    paid = whole = 0
    for through in range(10, 401, 10):
        about = (await long.session_context(through=through)).metadata
        paid += about.tokens_after
        whole += about.tokens_before
    assert paid < 0.4 * whole


@says("S1", "**Response Time**: <100ms compression overhead", better="s1-overhead")
async def test_nobody_waits_for_a_compression(tmp_path: Path) -> None:
    """What was said is stored and shown while no worker runs; the compression comes with one."""
    cfg = MemoryConfig(data_dir=tmp_path, enable_fact_extraction=False, run_worker=False)
    async with MemoryService(cfg, embedder=HashEmbedder()) as service:
        memory = service.agent("lee", "unhurried")
        await memory.add_turns(
            [{"role": "user", "content": f"This is line {n} of them."} for n in range(120)]
        )
        assert "line 119" in str(await memory.fetch_memory("Which line was last?"))
        assert await memory.compressions() == []
    async with MemoryService(cfg.changed(run_worker=True), embedder=HashEmbedder()) as service:
        memory = service.agent("lee", "unhurried")
        await memory.settle()
        assert [one.through for one in await memory.compressions()] == [100]
