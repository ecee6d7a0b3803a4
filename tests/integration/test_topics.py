"""Topics as a user of the package sees them: they form, are left and returned to, are compressed, fade and come back."""

from __future__ import annotations

import asyncio
import tomllib
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Literal

import pytest

from memory_agent import (
    EmbedderUnavailable,
    InvalidInput,
    MemoryAgent,
    MemoryService,
    NotFound,
    SettleTimeout,
)
from memory_agent.testing import FixedClock, HashEmbedder
from memory_agent.topics.projection import emptied
from memory_agent.topics.stage import topic_id_of
from tests.fixtures import OpenService, on_both_by_day
from tests.over_http import both_ways_by_day, embedded_only
from tests.servers.openai_script import Reply, Request, ScriptedOpenAI

pytestmark = pytest.mark.usefixtures("both_ways")  # see tests/over_http.py

START = datetime(2026, 3, 1, 9, tzinfo=UTC)
LISBON = [
    "I want to plan a trip to Lisbon in May, which sights in Lisbon should I see?",
    "Which hotels near the castle in Lisbon are good for our trip in May?",
    "How long is the train ride from Lisbon to Porto on our trip?",
    "Is the tram in Lisbon included in the city pass for tourists?",
    "Where do tourists in Lisbon eat the best custard tarts?",
]
BREAD = [
    "My sourdough bread doesn't rise, what is wrong with my sourdough starter?",
    "How warm should the sourdough dough be while the bread proofs?",
]
SUBJECTS = Path(__file__).parents[2] / "benchmarks" / "data" / "topic_subjects.toml"
SMALL = {"max_messages_per_topic": 6, "recent_message_keep": 2}


async def say(memory: MemoryAgent, questions: list[str], *, start: datetime = START) -> list[str]:
    """Ask each question, an hour apart, with an answer of its own; the ids of the questions."""
    ids = []
    for hour, question in enumerate(questions):
        receipt = await memory.update_memory(
            question, f"About that: {question.lower()}", timestamp=start + timedelta(hours=hour)
        )
        ids.append(receipt.turn_ids[0])
    return ids


async def open_topics(memory: MemoryAgent, questions: list[str]) -> list[str]:
    """Ask each question; the ids of the topics that they open, if they do."""
    return [topic_id_of(turn_id) for turn_id in await say(memory, questions)]


def asking(server: ScriptedOpenAI) -> dict[str, Any]:
    """Settings that ask the scripted server for summaries, and for nothing else."""
    return {"openai_base_url": server.base_url, "enable_fact_extraction": False}


async def everything(memory: MemoryAgent) -> list[str]:
    """All of a thread's texts, in order, as the document store gives them."""
    store = memory._service.core.store
    return [turn.content for turn in await store.list_turns(memory.scope)]


def spoken(questions: list[str]) -> list[str]:
    return [text for question in questions for text in (question, f"About that: {question.lower()}")]


# --- matching ------------------------------------------------------------------------------------------------
async def test_turns_join_the_topic_they_are_about(memory: MemoryAgent) -> None:
    """Two subjects are two topics, a short answer opens none, and going back to the first finds it again."""
    ids = await say(memory, [LISBON[0], "Yes, the second one.", *BREAD, LISBON[1]])
    lisbon, short, bread, dough, back = [await memory.turn_topic(turn_id) for turn_id in ids]
    assert lisbon is not None
    assert bread is not None
    expected = [lisbon.topic_id, bread.topic_id, lisbon.topic_id]
    assert [topic.topic_id for topic in (short, dough, back) if topic] == expected
    assert (lisbon.topic_title, lisbon.opener) == ("trip, Lisbon", LISBON[0][:80])
    await memory.settle(timeout=60)
    first, second = await memory.topics()
    assert {first.topic_id, second.topic_id} == {lisbon.topic_id, bread.topic_id}
    assert (first.current, first.topic_id, first.access_count) == (True, lisbon.topic_id, 2)
    assert (first.total_messages, second.total_messages) == (6, 4)


@pytest.mark.nightly  # by day unit/topics/test_matching.py
@embedded_only("about matching alone, which is the same on servers")
async def test_topics_are_subjects(service: MemoryService) -> None:
    """Unrelated questions each open one, also those that all ask for advice; returns find theirs again, and seven subjects in Korean are not two."""
    texts = {
        name: [line.rpartition(" | ") for line in text.strip().splitlines()]
        for name, text in tomllib.loads(SUBJECTS.read_text(encoding="utf-8")).items()
    }
    found: dict[str, list[str | None]] = {}
    for name, lines in texts.items():
        memory = service.agent("ann", name)
        stored = await memory.add_turns([{"role": "user", "content": words} for *_, words in lines])
        await memory.settle(timeout=60)
        turns = {turn.id: turn.topic_id for turn in await service.core.store.list_turns(memory.scope)}
        found[name] = [turns[turn.id] for turn in stored]
    assert len(set(found["unrelated"])) == 20
    assert len(set(found["requests"])) >= 27
    subjects = [subject for subject, *_ in texts["english"]]
    returns = [
        found["english"][at] in found["english"][:at]
        for at in range(1, len(subjects))
        if subjects[at] != subjects[at - 1] and subjects[at] in subjects[:at]
    ]
    assert sum(returns) >= 0.9 * len(returns)
    assert len(set(found["korean"])) >= 7
    largest = max(map(found["korean"].count, found["korean"]))
    assert largest <= len(found["korean"]) / 4


async def test_answers_follow_their_question(memory: MemoryAgent, service: MemoryService) -> None:
    """Also those of a tool; what an assistant says before anybody asked belongs to no topic."""
    greeting = await memory.add_assistant_message("Good morning! How can I help?")
    question = await memory.add_user_message(LISBON[0], importance=0.9)
    answer = await memory.add_turn("tool", "sourdough sourdough sourdough")
    await memory.settle(timeout=60)
    assert await memory.turn_topic(greeting.id) is None
    with pytest.raises(InvalidInput, match="has no topic; name one that has"):
        await memory.feedback(greeting.id, useful=True)
    topic, followed = await memory.turn_topic(question.id), await memory.turn_topic(answer.id)
    assert topic is not None
    assert followed is not None
    assert (followed.topic_id, followed.total_messages) == (topic.topic_id, 2)
    assert topic.importance_score == 0.9
    # A turn that says nothing of importance takes none away and adds none.
    other = service.agent("ann", "other")
    await other.add_user_message(LISBON[0], importance=0.1)
    await other.add_assistant_message("The castle.")
    await other.settle(timeout=60)
    assert (await other.topic_stats()).importance_score == 0.1


async def test_the_topic_of_an_unknown_turn_is_refused_and_a_late_waited_for(
    open_service: OpenService,
) -> None:
    """Without a worker there is no topic yet, and the error says what is missing."""
    async with open_service(run_worker=False) as service:
        memory = service.agent("ann", "chat")
        (turn_id,) = await say(memory, LISBON[:1])
        with pytest.raises(SettleTimeout, match=turn_id):
            await memory.turn_topic(turn_id, timeout=0.05)
        with pytest.raises(NotFound, match="no such turn"):
            await memory.turn_topic("nobody said this")
        with pytest.raises(NotFound, match="no topic yet"):
            await memory.topic_context()
        with pytest.raises(InvalidInput, match="has no topic yet"):
            await memory.feedback(turn_id, useful=True)
        assert await memory.topics() == []
        with pytest.raises(NotFound, match="no such topic"):
            await memory.topic_stats(turn_id)


# --- compaction ----------------------------------------------------------------------------------------------
@on_both_by_day
async def test_a_long_topic_is_compressed_and_read_as_before(open_service: OpenService) -> None:
    """Its last turns stay; the others are packed, and still read word for word, in order, and found by search."""
    async with open_service(**SMALL) as service:
        memory = service.agent("ann", "chat")
        await say(memory, LISBON)
        await memory.settle(timeout=60)
        stats = await memory.topic_stats()
        assert (stats.active_messages <= 6, stats.compressed_messages >= 4) == (True, True)
        assert stats.compression_ratio > 1
        assert (stats.has_summary, stats.summary_made_by) == (True, "extractive:2")
        history = await memory.topic_history()
        assert [turn["content"] for turn in history] == spoken(LISBON)
        assert set(history[0]) == {"role", "content", "timestamp"}
        assert [turn["timestamp"] for turn in history] == sorted(turn["timestamp"] for turn in history)
        active = await memory.topic_history(include_compressed=False)
        assert [turn["content"] for turn in active] == spoken(LISBON)[-stats.active_messages :]
        assert await everything(memory) == spoken(LISBON)
        (found, *_) = await memory.fetch_long_term("castle hotels", top_k=1, role="user")
        assert (found.text, found.turn.compressed) == (LISBON[1], True)
        assert found.topic_id == stats.topic_id
        context = await memory.topic_context()
        assert context[0] == {"role": "system", "content": f"The conversation is about: {stats.topic_title}"}
        assert [message["content"] for message in context[1:]] == spoken(LISBON)
        # In less room the last turns whole, and of the others the summary.
        context = await memory.topic_context(max_tokens=150)
        assert "What was said before, in sentences taken from it:\n" in context[0]["content"]
        assert [message["content"] for message in context[1:]] == spoken(LISBON)[-len(context) + 1 :]
        assert 2 < len(context) < 1 + len(spoken(LISBON))
        # Where no sentence is worth quoting there is no summary, and nothing is left out for it.
        asking = service.agent("ann", "asking")
        await say(asking, LISBON[1:])
        await asking.settle(timeout=60)
        stats = await asking.topic_stats()
        assert (stats.compressed_messages > 0, stats.has_summary) == (True, False)
        assert (stats.summary, stats.summary_made_by) == (None, None)
        context = await asking.topic_context(max_tokens=100)
        assert "What was said before" not in context[0]["content"]
        assert [message["content"] for message in context[1:]] == spoken(LISBON[1:])[-len(context) + 1 :]


async def test_search_gives_the_same_answers_after_compression(open_service: OpenService) -> None:
    """Same turns, same scores, same order."""
    asked = ["castle hotels", "train to Porto", "What is wrong with the dough?", "tarts"]

    async def answers(**others: Any) -> list[list[tuple[str, float]]]:
        async with open_service(**others) as service:
            memory = service.agent("ann", "chat")
            if not await everything(memory):
                await say(memory, [*LISBON, *BREAD])
            else:
                parts = service.core
                await parts.store.owe(memory.scope, "compact", now=service.clock.now())
            await memory.settle(timeout=60)
            return [
                [(found.text, found.score) for found in await memory.fetch_long_term(question, top_k=8)]
                for question in asked
            ]

    before = await answers(max_messages_per_topic=1_000)
    assert await answers(**SMALL) == before


async def test_a_model_summarises_what_is_new_on_top_of_what_it_said(
    open_service: OpenService, openai_server: ScriptedOpenAI
) -> None:
    """The second summary is made of the first and the turns since; it says which model made it.

    The topic bears the title that came with the summary, as long as no other takes its place.
    """
    asked: list[str] = []
    replies = [
        "TITLE: Lisbon in May\nSUMMARY: They plan a trip to Lisbon.",
        "TITLE: Rome\nSUMMARY: They plan trams on their trip to Lisbon.",
    ]

    def answer(request: Request) -> Reply:
        text = str(request["messages"])
        if "<conversation>" not in text:
            return Reply(text="{}")
        asked.append(text)
        return Reply(text=replies[len(asked) - 1])

    openai_server.answer = answer
    async with open_service(**asking(openai_server), **SMALL) as service:
        memory = service.agent("ann", "chat")
        await say(memory, LISBON[:4])
        await memory.settle(timeout=60)
        first = await memory.topic_stats()
        assert (first.summary_made_by, first.topic_title) == ("llm:gpt-4o-mini:form-2", "Lisbon in May")
        await say(memory, LISBON[2:], start=START + timedelta(days=1))
        await memory.settle(timeout=60)
        assert len(asked) == 2
        assert "They plan a trip to Lisbon." in asked[1]
        assert LISBON[0] not in asked[1]
        context = (await memory.topic_context(max_tokens=100))[0]["content"]
        assert context.startswith("The conversation is about: Lisbon in May\n")
        assert "summarised:\nThey plan trams on their trip to Lisbon." in context
        usage = service.usage
        assert usage is not None
        assert usage.requests == 2


async def test_a_model_that_will_not_summarise_is_stood_in_for(
    open_service: OpenService, openai_server: ScriptedOpenAI
) -> None:
    """The topic is compressed with sentences of its turns as summary, which says so; nothing of the refusal is kept."""
    replies = ("  ", "I’m sorry, but I can’t help with that.", "죄송하지만 도와드릴 수 없습니다.")
    async with open_service(**asking(openai_server), **SMALL) as service:
        for number, reply in enumerate(replies):
            openai_server.answer = lambda _, reply=reply: reply
            memory = service.agent("ann", f"chat {number}")
            await say(memory, LISBON)
            await memory.settle(timeout=60)
            assert (await memory.topic_stats()).compressed_messages > 0
            (topic,) = [one for one in await service.core.store.list_topics(memory.scope) if one.summary]
            assert topic.summary is not None
            assert topic.summary.made_by.startswith("extractive:")
            assert reply.strip() not in topic.summary.text or not reply.strip()
            assert await everything(memory) == spoken(LISBON)


# --- fading --------------------------------------------------------------------------------------------------
TOPICS = ["alpha beta gamma delta", "red green blue yellow", "north south east west", "one two three four"]


async def fill_old(memory: MemoryAgent) -> list[str]:
    """Four topics a day apart; their ids."""
    ids = []
    for day, text in enumerate(TOPICS):
        ids += await say(memory, [text], start=START + timedelta(days=day))
    await memory.settle(timeout=60)
    return [topic_id_of(turn_id) for turn_id in ids]


FADING = {"max_topics": 2, "similarity_threshold": 0.5, "short_turn_terms": 0}


async def test_faded_topics_are_archived_found_and_restored(open_service: OpenService) -> None:
    """The sweep takes all that have faded out of matching and packs them; what was said in them is found all the same."""
    clock = FixedClock(START + timedelta(days=30))
    async with open_service(clock=clock, embedder=HashEmbedder(), **FADING) as service:
        memory = service.agent("ann", "chat")
        ids = await fill_old(memory)
        planned: list[Any] = []
        dry = await service.sweep(dry_run=True, each=planned.append)
        assert [action.topic_id for action in planned] == ids[:3]
        assert (dry.archived, len(await memory.topics())) == (3, 4)
        done: list[Any] = []
        report = await service.sweep(each=done.append)
        assert done == planned
        assert (report.archived, report.topics, report.threads, report.whole) == (3, 4, 1, True)
        assert report.packed.turns == 6
        assert [topic.topic_id for topic in await memory.topics()] == [ids[3]]
        everyone = await memory.topics(include_archived=True)
        assert {topic.topic_id for topic in everyone if topic.archived} == set(ids[:3])
        assert (await service.sweep()).archived == 0
        assert (await memory.fetch_long_term("alpha beta", top_k=1))[0].text == TOPICS[0]
        assert (await memory.topic_history(ids[0]))[0]["content"] == TOPICS[0]
        assert [message["content"] for message in (await memory.topic_context(ids[0]))[1:]] == spoken(
            TOPICS[:1]
        )
        # An archived topic comes back with a turn that is clearly about it, and not with another one.
        new = "sun moon stars clouds"
        other, again = await say(memory, [new, TOPICS[0]], start=START + timedelta(days=29))
        opened, back = await memory.turn_topic(other), await memory.turn_topic(again)
        assert opened is not None
        assert back is not None
        assert (opened.topic_id, back.topic_id, back.archived) == (topic_id_of(other), ids[0], False)
        # Somebody may bring it back as well.
        restored = await memory.restore_topic(ids[1])
        assert (restored.archived, restored.inactive_seconds) == (False, 0)
        assert await everything(memory) == spoken([*TOPICS, new, TOPICS[0]])


@pytest.mark.parametrize("policy", ["archive", "delete"])
async def test_turns_past_the_retention_age_are_forgotten(open_service: OpenService, policy: str) -> None:
    """Whatever their topic; the dry run lists exactly these, also those that go with a deleted topic only once.

    A topic that is deleted goes by the path of every forget call.
    """
    clock = FixedClock(START + timedelta(days=30))
    async with open_service(
        clock=clock, embedder=HashEmbedder(), decay_policy=policy, retention_days=27.5, **FADING
    ) as service:
        memory = service.agent("ann", "chat")
        await fill_old(memory)
        planned: list[Any] = []
        await service.sweep(dry_run=True, each=planned.append)
        assert await everything(memory) == spoken(TOPICS)
        done: list[Any] = []
        report = await service.sweep(each=done.append)
        assert done == planned
        assert (report.forgotten, report.deleted) == ((6, 0) if policy == "archive" else (0, 3))
        assert await everything(memory) == spoken(TOPICS[3:])
        assert "alpha" not in str(await memory.fetch_long_term("alpha", top_k=20))
        assert [topic.topic_title for topic in await memory.topics(include_archived=True)] == [TOPICS[3]]


# --- what people set -----------------------------------------------------------------------------------------
@both_ways_by_day
async def test_topics_are_merged_and_split_again(memory: MemoryAgent) -> None:
    """Merged topics are one, with all turns in order, whichever id one asks by; splitting gives each its own back."""
    ids = await open_topics(memory, [LISBON[0], BREAD[0], LISBON[1]])
    await memory.settle(timeout=60)
    before = {topic.topic_id: topic for topic in await memory.topics()}
    assert set(before) == {ids[0], ids[1]}
    merged = await memory.merge_topics(ids[1], into=ids[0])
    assert (merged.topic_id, merged.total_messages, merged.opener) == (ids[0], 6, LISBON[0][:80])
    assert "Lisbon" in merged.topic_title
    assert [topic.topic_id for topic in await memory.topics()] == [ids[0]]
    assert (await memory.topic_stats(ids[1])).topic_id == ids[0]
    assert len(await memory.topic_history(ids[1])) == 6
    found = await memory.fetch_long_term("sourdough starter", top_k=2, topic_id=ids[0], role="user")
    assert found[0].text == BREAD[0]
    with pytest.raises(InvalidInput, match="are one already"):
        await memory.merge_topics(ids[0], into=ids[1])
    await memory.split_topic(ids[1])
    after = {topic.topic_id: topic for topic in await memory.topics()}
    assert {i: (t.total_messages, t.topic_title, t.access_count) for i, t in after.items()} == {
        i: (t.total_messages, t.topic_title, t.access_count) for i, t in before.items()
    }
    with pytest.raises(InvalidInput, match="was not merged"):
        await memory.split_topic(ids[1])


APART: dict[str, Any] = {"similarity_threshold": 2, "continuation_bonus": 0, "short_turn_terms": 0}
"""No turn joins a topic."""


async def test_the_sweep_merges_what_is_one_and_leaves_what_was_split(open_service: OpenService) -> None:
    """As its dry run says; a split undoes it for good, and topics that are merely alike stay two."""
    async with open_service(**APART) as service:
        memory = service.agent("ann", "chat")
        ids = await open_topics(memory, [BREAD[0], LISBON[0], f"{BREAD[0]} Please help!", LISBON[2]])
        await memory.settle(timeout=60)
        planned: list[Any] = []
        done: list[Any] = []
        await service.sweep(dry_run=True, each=planned.append)
        assert len(await memory.topics()) == 4
        report = await service.sweep(each=done.append)
        assert done == planned
        assert [(action.deed, action.topic_id, action.into) for action in done] == [("merge", ids[2], ids[0])]
        assert (report.merged, report.archived, report.whole) == (1, 0, True)
        assert (await memory.topic_stats(ids[2])).absorbed == (ids[2],)
        await memory.split_topic(ids[2])
        assert (await service.sweep()).merged == 0
        assert len(await memory.topics()) == 4


async def test_topics_are_listed_and_their_turns_searched_by_tag(service: MemoryService) -> None:
    """Those of merged topics count; archived ones are listed if asked for, and found as all others are."""
    memory, other = service.agent("ann", "chat"), service.agent("ann", "other")
    lisbon, bread = await say(memory, [LISBON[0], BREAD[0]])
    (more,) = await say(other, [LISBON[2]])
    await say(service.agent("bob", "chat"), [LISBON[1]])
    await memory.settle(timeout=60)
    await other.settle(timeout=60)

    async def topic_of(agent: MemoryAgent, turn_id: str) -> str:
        stats = await agent.turn_topic(turn_id)
        assert stats is not None
        return stats.topic_id

    trip, dough = await topic_of(memory, lisbon), await topic_of(memory, bread)
    assert await memory.topics(tag="travel") == []
    assert await memory.fetch_long_term("Lisbon", tag="travel") == []
    await memory.tag_topic(trip, ["travel", "2026"])
    await other.tag_topic(await topic_of(other, more), ["travel"])
    assert [topic.topic_id for topic in await memory.topics(tag=" travel ")] == [trip]
    assert await memory.topics(tag="Travel") == []

    async def found(scope: Literal["thread", "user"] = "thread", **narrower: Any) -> set[str]:
        hits = await memory.fetch_long_term("Lisbon bread", 20, scope=scope, tag="travel", **narrower)
        return {hit.turn.id for hit in hits if hit.turn.role == "user"}

    assert await found() == {lisbon}
    assert await found("user") == {lisbon, more}
    assert await found(topic_id=trip) == {lisbon}
    assert await found(topic_id=dough) == set()
    asking = service.agent("ann", "asking")
    asked = "Which sights in Lisbon should I see in May, and why doesn't my sourdough bread rise?"
    everything = str(await asking.fetch_memory(asked, price="thorough"))
    assert (LISBON[0] in everything, BREAD[0] in everything) == (True, True)
    tagged = str(await asking.fetch_memory(asked, price="thorough", tags=["nowhere", "travel "]))
    assert (LISBON[0] in tagged, BREAD[0] in tagged) == (True, False)
    with pytest.raises(InvalidInput, match="pass lists of tags"):
        await asking.fetch_memory("Lisbon?", tags="travel")
    wide = await service.search("ann", "Lisbon bread", 20, tag="travel")
    assert {hit.turn.id for hit in wide if hit.turn.role == "user"} == {lisbon, more}
    await memory.merge_topics(dough, trip)
    assert await found() == {lisbon, bread}
    assert await found("user", role="user") == {lisbon, bread, more}
    await memory.split_topic(dough)
    assert await found() == {lisbon}
    await memory.archive_topic(trip)
    assert await memory.topics(tag="travel") == []
    assert [topic.topic_id for topic in await memory.topics(include_archived=True, tag="travel")] == [trip]
    assert await found() == {lisbon}


async def test_tags_importance_and_feedback(memory: MemoryAgent) -> None:
    """Each is kept, bounded, and can be undone; votes and tags that come while turns join are all kept."""
    (turn_id,) = await say(memory, LISBON[:1])
    await memory.settle(timeout=60)
    topic_id = (await memory.topics())[0].topic_id
    assert (await memory.tag_topic(topic_id, ["travel", "2026", "travel"])).tags == ("travel", "2026")
    assert (await memory.tag_topic(topic_id, remove=["2026"])).tags == ("travel",)
    assert (await memory.set_topic_importance(topic_id, 0.0)).importance_score == 0.0
    assert (await memory.set_topic_importance(topic_id, None)).importance_score == 0.5
    up = await memory.feedback(turn_id, useful=True)
    assert 0.5 < up.importance_score < 1
    assert (await memory.feedback(topic_id, useful=False)).importance_score == 0.5
    await asyncio.gather(
        say(memory, LISBON[1:], start=START + timedelta(days=1)),
        *(memory.feedback(turn_id, useful=True) for _ in range(8)),
        *(memory.tag_topic(topic_id, [f"tag {n}"]) for n in range(8)),
    )
    await memory.settle(timeout=60)
    stats = await memory.topic_stats(topic_id)
    assert stats.importance_score == pytest.approx(1 - 0.5 * 0.25)
    assert len(stats.tags) == 1 + 8
    assert sum(topic.total_messages for topic in await memory.topics()) == 2 * len(LISBON)


# --- forgetting ----------------------------------------------------------------------------------------------
SECRET = "My vault code in Lisbon is zebulon4711, for our trip to Lisbon in May."


async def test_what_is_forgotten_is_in_no_topic(open_service: OpenService) -> None:
    """No title, summary or segment keeps it; the rest of the topic stays word for word, and is summarised anew."""
    async with open_service(**SMALL) as service:
        memory = service.agent("ann", "chat")
        ids = await say(memory, [SECRET, *LISBON])
        await memory.settle(timeout=60)
        topic = await memory.topic_stats(topic_id_of(ids[0]))
        assert "zebulon4711" in topic.opener
        assert "zebulon4711" in (await memory.topic_context(max_tokens=150))[0]["content"]
        secret = [
            turn.id
            for turn in await service.core.store.list_turns(memory.scope)
            if "zebulon4711" in turn.content
        ]
        receipt = await memory.forget(secret)
        assert (receipt.turns, receipt.packed_texts, receipt.topics) == (2, 2, 1)
        assert "zebulon4711" not in str(await service.core.store.list_topics(memory.scope))
        await memory.settle(timeout=60)
        stats = await memory.topic_stats()
        assert (stats.opener, stats.has_summary) == (LISBON[0][:80], True)
        contexts = [await memory.topic_context(), await memory.topic_context(max_tokens=150)]
        seen = [await memory.topics(), *contexts, await memory.topic_history()]
        assert "zebulon4711" not in str(seen)
        assert ids[0] not in f"{seen}{await service.core.store.list_turns(memory.scope)}"
        assert await everything(memory) == spoken(LISBON)


async def test_forgetting_while_a_model_summarises_leaves_no_trace(
    open_service: OpenService, openai_server: ScriptedOpenAI
) -> None:
    """A summary that was made of a forgotten turn is thrown away, and made again of what is left."""

    def answer(request: Request) -> Reply:
        text = str(request["messages"])
        if "zebulon4711" in text:
            return Reply(text="TITLE: Code zebulon4711\nSUMMARY: The code is zebulon4711.", delay_seconds=1.0)
        return Reply(text="They plan a trip.")

    openai_server.answer = answer
    async with open_service(**asking(openai_server), **SMALL) as service:
        memory = service.agent("ann", "chat")
        ids = await say(memory, [SECRET, *LISBON])
        for _ in range(1_000):
            if any("zebulon4711" in str(request.body) for request in openai_server.requests):
                break
            await asyncio.sleep(0.01)
        turns = await service.core.store.list_turns(memory.scope)
        await memory.forget([ids[0], turns[1].id])
        await memory.settle(timeout=60)
        assert "zebulon4711" not in str(await service.core.store.list_topics(memory.scope))
        assert (await memory.topic_context(max_tokens=100))[0]["content"].endswith("They plan a trip.")


# --- what a close look found ---------------------------------------------------------------------------------
HASHED: dict[str, Any] = {"similarity_threshold": 0.5, "continuation_bonus": 0.2, "short_turn_terms": 0}
WORDS = ["alpha beta gamma delta epsilon", "red green blue yellow purple", "north south east west center"]


async def three_topics(memory: MemoryAgent) -> list[str]:
    """Three subjects of two exchanges each; their ids."""
    ids = await open_topics(memory, [text for text in WORDS for _ in range(2)])
    await memory.settle(timeout=60)
    assert len(await memory.topics()) == 3
    return ids[::2]


async def totals(memory: MemoryAgent) -> dict[str, int]:
    return {t.topic_id: t.total_messages for t in await memory.topics(include_archived=True)}


@on_both_by_day
async def test_merges_lose_no_turn_however_they_come_and_go(open_service: OpenService) -> None:
    """Nested ones are split in any order, those at once leave every topic to be asked for, an emptied side is gone."""
    async with open_service(embedder=HashEmbedder(), **HASHED) as service:
        # A into B, B into C: each can be taken out again, whichever comes first, and no turn is without a topic.
        for first, second in ((0, 1), (1, 0)):
            memory = service.agent("ann", f"nested {first}")
            ids = await three_topics(memory)
            await memory.merge_topics(ids[0], into=ids[1])
            await memory.merge_topics(ids[1], into=ids[2])
            assert await totals(memory) == {ids[2]: 12}
            await memory.split_topic(ids[first])
            assert sum((await totals(memory)).values()) == 12
            assert (await memory.topic_stats(ids[first])).topic_id == ids[first]
            if second == 0 and (await memory.topic_stats(ids[0])).topic_id == ids[0]:
                continue  # it never was a part of C alone
            await memory.split_topic(ids[second])
            assert await totals(memory) == dict.fromkeys(ids, 4)
        # Two that would swallow each other, and a chain.
        for number, pairs in enumerate([((0, 1), (1, 0)), ((0, 1), (1, 2))]):
            memory = service.agent("ann", f"at once {number}")
            ids = await three_topics(memory)
            await asyncio.gather(
                *(memory.merge_topics(ids[one], into=ids[other]) for one, other in pairs),
                return_exceptions=True,
            )
            assert sum((await totals(memory)).values()) == 12
            for topic_id in ids:
                assert (await memory.topic_stats(topic_id)).total_messages >= 4
        # A part whose turns were forgotten.
        memory = service.agent("ann", "forgotten")
        ids = await three_topics(memory)
        turns = await service.core.store.list_turns(memory.scope)
        await memory.merge_topics(ids[0], into=ids[1])
        await memory.forget([turn.id for turn in turns if turn.topic_id == ids[1]])
        split = await memory.split_topic(ids[0])
        assert (split.topic_id, split.total_messages) == (ids[0], 4)
        assert await totals(memory) == {ids[0]: 4, ids[2]: 4}


async def test_another_model_leaves_summaries_and_waits_for_its_vectors(open_service: OpenService) -> None:
    """A turn before the rebuild renews nothing too early; after it the old subjects are found, with their summaries."""
    options = {**HASHED, **SMALL}
    async with open_service(embedder=HashEmbedder(seed="one"), **options) as service:
        memory = service.agent("ann", "chat")
        ids = await open_topics(memory, [f"{WORDS[0]} {n}" for n in range(5)] + [WORDS[1]])
        await memory.settle(timeout=60)
        before = (await service.core.store.list_topics(memory.scope, ids=[ids[0]]))[0].summary
        assert before is not None
    async with open_service(embedder=HashEmbedder(seed="two"), **options) as service:
        memory = service.agent("ann", "chat")
        await say(memory, [WORDS[2]], start=START + timedelta(days=1))
        await memory.settle(timeout=60)
        await service.rebuild_index("ann")
        await memory.settle(timeout=60)
        again = await say(memory, [f"{WORDS[n]} again" for n in (0, 1)], start=START + timedelta(days=2))
        joined = [await memory.turn_topic(turn_id) for turn_id in again]
        assert [topic and topic.topic_id for topic in joined] == [ids[0], ids[5]]
        await memory.settle(timeout=60)
        after = (await service.core.store.list_topics(memory.scope, ids=[ids[0]]))[0].summary
        assert after is not None
        assert after.text.startswith(before.text[:40])


async def test_an_archived_topic_can_be_read_answered_and_forgotten_in(open_service: OpenService) -> None:
    """Its whole history is shown, packed or not; a reply brings it back; its summary is made anew."""
    async with open_service(embedder=HashEmbedder(), **SMALL, **HASHED) as service:
        memory = service.agent("ann", "chat")
        stored = await memory.add_turns([{"role": "user", "content": f"{WORDS[0]} {n}"} for n in range(10)])
        await memory.settle(timeout=60)
        await say(memory, [f"{WORDS[0]} {n}" for n in range(10, 12)])
        await memory.settle(timeout=60)
        (topic,) = await service.core.store.list_topics(memory.scope)
        assert topic.summary is not None
        await memory.archive_topic(topic.id)
        await memory.restore_topic(topic.id)
        shown = [message["content"] for message in (await memory.topic_context())[1:]]
        assert shown == await everything(memory)
        # A reply follows its question into it, and it is back.
        question = await memory.add_user_message(WORDS[1])
        await memory.settle(timeout=60)
        await memory.archive_topic(topic_id_of(question.id))
        topic_of_reply = await memory.turn_topic((await memory.add_assistant_message("something else")).id)
        assert topic_of_reply is not None
        assert (topic_of_reply.topic_id, topic_of_reply.archived) == (topic_id_of(question.id), False)
        assert topic_of_reply.total_messages == 2
        # It gets its summary back after a forget, also while it stays archived.
        await memory.archive_topic(topic.id)
        await memory.forget([stored[1].id])
        await memory.settle(timeout=60)
        stats = await memory.topic_stats(topic.id)
        assert (stats.archived, stats.has_summary, stats.total_messages) == (True, True, 13)


async def test_a_stale_topic_is_made_anew_before_it_is_judged(open_service: OpenService) -> None:
    """By what its turns say; where that fails the thread is skipped, which the report says."""
    clock, embedder = FixedClock(START + timedelta(days=30)), HashEmbedder()
    async with open_service(clock=clock, embedder=embedder, decay_policy="delete", **FADING) as service:
        memory = service.agent("ann", "chat")
        for day, text in enumerate(TOPICS):
            await memory.add_turn("user", text, speaker="Ann", timestamp=START + timedelta(days=day))
        await memory.settle(timeout=60)
        store = service.core.store
        for topic in await store.list_topics(memory.scope):
            await store.save_topics([emptied(topic)])
        embedder.fail = EmbedderUnavailable("down")
        for dry_run in (True, False):
            report = await service.sweep(dry_run=dry_run)
            assert (report.deleted, report.skipped, report.whole) == (0, 1, False)
        assert await everything(memory) == TOPICS
        embedder.fail = None
        planned: list[Any] = []
        await service.sweep(dry_run=True, each=planned.append)
        assert all(topic.stale for topic in await store.list_topics(memory.scope))
        done: list[Any] = []
        report = await service.sweep(each=done.append)
        assert done == planned
        assert (report.deleted, report.skipped, report.whole) == (3, 0, True)
        assert await everything(memory) == TOPICS[3:]
