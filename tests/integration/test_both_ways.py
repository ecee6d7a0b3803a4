"""An agent and a client of the same thread, side by side: the same values of the same types, the same refusals.

The agent's other tests run both ways as well (tests/over_http.py), each by itself.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import AsyncIterator, Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from memory_agent import Character, MemoryAgent, MemoryClient, MemoryConfig, MemoryService, NotFound
from memory_agent.testing import BruteForceIndex, FixedClock, HashEmbedder
from tests.integration.conversations import START, said
from tests.integration.rest import BREAD, HOTELS, LISBON, operation_of, shows
from tests.over_http import Doors, OverHttp

MIA = Character(name="Mia", personality="dry", profile="A pilot.", traits=("calm",))
Call = Any  # of an agent or a client, with what the types forbid as well


@pytest.fixture
def doors() -> Iterator[Doors]:
    with pytest.MonkeyPatch.context() as patch:
        doors = Doors()
        doors.put_up(patch)
        yield doors


@pytest.fixture
async def sides(
    doors: Doors, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[tuple[MemoryAgent, MemoryClient]]:
    """Of one thread, with a bit of everything in it."""
    monkeypatch.setattr("memory_agent.conversations.compress._LONGEST_GAP_TURNS", 10)
    cfg = MemoryConfig(
        data_dir=tmp_path / "data",
        enable_topics=True,
        enable_fact_extraction=True,
        max_messages_per_topic=6,
        recent_message_keep=2,
    )
    parts: dict[str, Any] = {"embedder": HashEmbedder(), "vectors": BruteForceIndex()}
    async with MemoryService(cfg, clock=FixedClock(START + timedelta(hours=3)), **parts) as service:
        assert isinstance(service, OverHttp)
        agent, client = service.behind.agent("ann", "chat"), service.agent("ann", "chat")
        assert isinstance(client, MemoryClient)
        await agent.start_session(MIA, ["Ann", "Bob"], {"room": {"floor": 3, "open": True}})
        texts = [LISBON, "In May.", HOTELS, "By the castle.", "My name is Ann and I live in Oslo.", "Hi!"]
        texts += [BREAD, "Feed it. I like COSRX snail mucin.", "Decided: we bake on Sunday.", "Fine."]
        for round_ in range(3):
            when = START + timedelta(hours=round_)
            await agent.add_turns(
                said(texts, start=when, metadata={"n": [1, 2.5, None], "in": {"a": "b"}}, importance=0.7)
            )
        await agent.set_fact("pets", [{"name": "Rufus", "age": 3, "weight": 7.5, "tame": True}])
        await agent.settle(30)
        await agent.tag_topic((await agent.topics())[0].topic_id, ["trips"])
        await agent.compress()
        yield agent, client


READS: dict[str, Call] = {
    "short term": lambda m: m.fetch_short_term(50),
    "short term as set": lambda m: m.fetch_short_term(),
    "long term": lambda m: m.fetch_long_term("sights in Lisbon", 10),
    "long term of the user": lambda m: m.fetch_long_term("bread", scope="user", role="user"),
    "long term of a role by its other name": lambda m: m.fetch_long_term("bread", role="human"),
    "long term since after until": lambda m: m.fetch_long_term(
        "x", since=START + timedelta(days=1), until=START
    ),
    "context": lambda m: m.fetch_memory("Which sights in Lisbon?"),
    "context of a preset": lambda m: m.fetch_memory(
        "bread",
        max_tokens=900,
        preset="code",
        now=datetime(2026, 3, 1, 10, 30, tzinfo=UTC),
    ),
    "context at a price, without its window": lambda m: m.fetch_memory(
        "bread", price="thorough", window=False, top_k=2
    ),
    "facts": lambda m: m.fetch_facts(),
    "facts of a text": lambda m: m.extract_facts("User: I'm John, a developer\nAssistant: Hello!"),
    "facts of the user": lambda m: m.fetch_facts(
        scope="user", as_of=START + timedelta(minutes=30), recorded_by=START + timedelta(days=9)
    ),
    "fact history": lambda m: m.fact_history(),
    "history of a fact": lambda m: m.fact_history(("pets",), scope="user"),
    "topics": lambda m: m.topics(include_archived=True),
    "topic": lambda m: m.topic_stats(),
    "topic's context": lambda m: m.topic_context(),
    "topic's history": lambda m: m.topic_history(),
    "what is left of it": lambda m: m.topic_history(include_compressed=False),
    "current session": lambda m: m.current_session(),
    "sessions": lambda m: m.sessions(),
    "history": lambda m: m.history(),
    "page of the history": lambda m: m.history(after=3, limit=4),
    "session's context": lambda m: m.session_context(),
    "session's context then": lambda m: m.session_context(through=12),
    "compressions": lambda m: m.compressions(),
    "no compression": lambda m: m.compress_if_needed(),
    "entities": lambda m: m.entities(),
    "status": lambda m: m.status(),
    "threads": lambda m: m.threads(),
    "threads behind one": lambda m: m.threads(after="chat", limit=1),
    "thread": lambda m: m.thread_summary(),
    "topics of a tag": lambda m: m.topics(tag="trips"),
    "long term of a tag": lambda m: m.fetch_long_term("sights", tag="trips"),
}


@shows(
    *(
        "recent_turns",
        "search_memory",
        "fetch_memory",
        "fetch_facts",
        "fact_history",
        "list_topics",
        "show_topic",
    ),
    *("topic_context", "topic_history", "current_session", "list_sessions", "list_turns", "thread_context"),
    *(
        "list_compressions",
        "compress_thread",
        "list_entities",
        "thread_status",
        "list_threads",
        "show_thread",
    ),
)
async def test_reads_give_the_same_values_of_the_same_types(
    doors: Doors, sides: tuple[MemoryAgent, MemoryClient]
) -> None:
    """All the way down: lists are lists, tuples tuples, and whole numbers whole; contexts print the same text."""
    agent, client = sides
    empty = []
    for name, read in READS.items():
        here, there = await read(agent), await read(client)
        assert there == here, name
        assert kinds(there) == kinds(here), name
        assert str(there) == str(here), name
        empty += [name] * (not here)
    assert empty == ["long term since after until", "no compression"]
    were_answered(doors, test_reads_give_the_same_values_of_the_same_types)


def were_answered(doors: Doors, test: Any) -> None:
    (socket,) = doors.sockets
    assert set(test.shows) - {operation_of(*asked) for asked in socket.asked} == set()


def kinds(value: object) -> object:
    """The types of a value and of all that it holds."""
    if dataclasses.is_dataclass(value):
        return type(value), {
            field.name: kinds(getattr(value, field.name)) for field in dataclasses.fields(value)
        }
    if isinstance(value, dict):
        return type(value), {key: kinds(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return type(value), [kinds(one) for one in value]
    return type(value)


async def written(memory: Call) -> list[Any]:
    """The answers of every call that changes something, each with all that it takes."""
    receipt = await memory.update_memory(
        LISBON, "In May.", speaker="Ann", timestamp=START, metadata={"a": [1, None]}, importance=1
    )
    entities = [{"kind": "brands", "name": "COSRX"}]
    bread = await memory.add_turn("human", BREAD, speaker="Bob", entities=entities, idempotency_key="a key")
    again = await memory.add_turn("user", BREAD, speaker="Bob", entities=entities, idempotency_key="a key")
    told = [receipt, bread, again.id]
    told += await memory.add_turns([{"role": "tool", "content": "2"}, {"role": "assistant", "content": "3"}])
    told += [await memory.add_user_message("Hi", importance=0.2), await memory.add_assistant_message("Hello")]
    session = await memory.start_session(MIA, ["Ann"], {"plan": "pro"}, idempotency_key="another")
    await memory.add_turns([{"role": "user", "content": str(number)} for number in range(3)])
    told += [session]
    told += [await memory.set_fact(("preferences", "Meeting time"), {"from": "9:30"})]
    told += [await memory.add_fact("interests", "sea"), await memory.add_fact("interests", "bread")]
    told += [await memory.retract_fact("interests", "sea"), await memory.revert_fact("interests")]
    told += [await memory.retract_fact("interests"), await memory.revert_fact("", START)]
    await memory.settle(30)
    told += [await memory.history(session.id, limit=2)]
    lisbon, other = [(await memory.turn_topic(turn)).topic_id for turn in (receipt.turn_ids[0], bread.id)]
    assert lisbon != other
    told += [await memory.tag_topic(other, ["to do", "home"]), await memory.tag_topic(other, remove=["home"])]
    told += [await memory.set_topic_importance(other, value) for value in (0.5, None)]
    told += [await memory.feedback(other, useful=False), await memory.feedback(bread.id, useful=True)]
    for change, *which in (
        (memory.archive_topic, other),
        (memory.restore_topic, other),
        (memory.merge_topics, other, lisbon),
        (memory.split_topic, other),
    ):
        told += [await change(*which), await memory.settle(30)]
    told += [await memory.compress(), await memory.forget([bread.id, "unknown"]), await memory.settle(30)]
    return [*told, await memory.history(), await memory.clear(), await memory.fact_history()]


@shows(
    *("update_memory", "add_turn", "add_turns", "set_fact", "add_fact"),
    *("retract_fact", "revert_fact", "turn_topic", "tag_topic", "set_topic_importance", "give_feedback"),
    *(
        "archive_topic",
        "restore_topic",
        "merge_topics",
        "split_topic",
        "forget_turns",
        "clear_thread",
        "settle_thread",
    ),
)
async def test_writes_do_and_answer_the_same(doors: Doors, sides: tuple[MemoryAgent, MemoryClient]) -> None:
    """In threads of two users, whose ids are those of the order in which they come."""
    agent, client = sides
    here, there = [
        [_numbered(repr(one), ids) for one in await written(memory)]
        for memory, ids in (
            (agent._service.agent("bob", "new"), {}),
            (client._service.agent("eve", "new"), {}),
        )
    ]
    assert there == [one.replace("'bob'", "'eve'") for one in here]
    were_answered(doors, test_writes_do_and_answer_the_same)


def _numbered(text: str, ids: dict[str, int]) -> str:
    return re.sub(
        r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}",
        lambda found: f"#{ids.setdefault(found[0], len(ids))}",
        text,
    )


BOTH_WAYS = (
    *("compression", "context", "entities", "facts", "forget", "memory", "people", "search", "sessions"),
    *("topics",),
)
LONE = "half \ud800"
REFUSED: dict[str, Call] = {
    "content empty": lambda m: m.update_memory("", None),
    "content of an exchange": lambda m: m.update_memory("a", 7),
    "importance of an exchange": lambda m: m.update_memory("a", "b", importance=2),
    "content none": lambda m: m.add_user_message(None),
    "content surrogate": lambda m: m.add_user_message(LONE),
    "content long": lambda m: m.add_user_message("x" * 1_000_001),
    "role": lambda m: m.add_turn("boss", "x"),
    "speaker": lambda m: m.add_turn("user", "x", speaker=""),
    "importance": lambda m: m.add_turn("user", "x", importance=2),
    "timestamp naive": lambda m: m.add_turn("user", "x", timestamp=datetime(2026, 1, 1)),  # noqa: DTZ001
    "timestamp text": lambda m: m.add_turn("user", "x", timestamp="2026-01-01T00:00:00Z"),
    "metadata nan": lambda m: m.add_turn("user", "x", metadata={"a": float("inf")}),
    "metadata key": lambda m: m.add_turn("user", "x", metadata={1: 2}),
    "metadata large": lambda m: m.add_turn("user", "x", metadata={"a": "x" * 100_000}),
    "entities": lambda m: m.add_turn("user", "x", entities=[{"kind": "Brands", "name": "x"}]),
    "entities text": lambda m: m.add_turn("user", "x", entities="LANEIGE"),
    "key empty": lambda m: m.add_turn("user", "x", idempotency_key=""),
    "key line": lambda m: m.add_turn("user", "x", idempotency_key="a\nb"),
    "key of an exchange": lambda m: m.update_memory("a", "b", idempotency_key=" "),
    "second of two turns": lambda m: m.add_turns(
        [{"role": "user", "content": "x"}, {"role": "user", "content": ""}]
    ),
    "turn's field": lambda m: m.add_turns([{"role": "user", "content": "x", "colour": "red"}]),
    "turn's content missing": lambda m: m.add_turns([{"role": "user"}]),
    "turns none": lambda m: m.add_turns(None),
    "turns too many": lambda m: m.add_turns([{"role": "user", "content": "x"}] * 10_001),
    "message": lambda m: m.fetch_memory(" "),
    "max_tokens": lambda m: m.fetch_memory("x", max_tokens=-1),
    "max_tokens huge": lambda m: m.fetch_memory("x", max_tokens=2**70),
    "max_tokens bool": lambda m: m.fetch_memory("x", max_tokens=True),
    "preset": lambda m: m.fetch_memory("x", preset="huge"),
    "price": lambda m: m.fetch_memory("x", price="cheap"),
    "window": lambda m: m.fetch_memory("x", window="no"),
    "recollections": lambda m: m.fetch_memory("x", top_k=-1),
    "now": lambda m: m.fetch_memory("x", now="today"),
    "limit": lambda m: m.fetch_short_term(-1),
    "limit text": lambda m: m.fetch_short_term("5"),
    "query": lambda m: m.fetch_long_term(""),
    "top_k": lambda m: m.fetch_long_term("x", 1.5),
    "scope": lambda m: m.fetch_long_term("x", scope="all"),
    "role of a search": lambda m: m.fetch_long_term("x", role="boss"),
    "topic of a search": lambda m: m.fetch_long_term("x", topic_id="none"),
    "topic of a search of the user": lambda m: m.fetch_long_term("x", topic_id="none", scope="user"),
    "topic_id of a search": lambda m: m.fetch_long_term("x", topic_id=""),
    "tag of a search": lambda m: m.fetch_long_term("x", tag=" "),
    "tag of topics": lambda m: m.topics(tag="x" * 65),
    "limit of threads": lambda m: m.threads(limit=0),
    "threads after none": lambda m: m.threads(after=""),
    "metadata of a search": lambda m: m.fetch_long_term("x", metadata={"a": object()}),
    "facts' scope": lambda m: m.fetch_facts(scope=""),
    "as_of": lambda m: m.fetch_facts(as_of=datetime(2026, 1, 1)),  # noqa: DTZ001
    "recorded_by": lambda m: m.fetch_facts(recorded_by="2026-01-01"),
    "fact_history's path": lambda m: m.fact_history("a..b"),
    "fact_history's path number": lambda m: m.fact_history(7),
    "fact_history's path deep": lambda m: m.fact_history(["a"] * 40),
    "path": lambda m: m.set_fact("", "x"),
    "path list": lambda m: m.set_fact([], "x"),
    "value none": lambda m: m.set_fact("a", None),
    "value object": lambda m: m.set_fact("a", object),
    "value nan": lambda m: m.set_fact("a", float("nan")),
    "value empty": lambda m: m.set_fact("a", {}),
    "key of a fact": lambda m: m.set_fact("a", "x", idempotency_key="a\nb"),
    "nothing to retract": lambda m: m.retract_fact("nothing.here"),
    "no such element": lambda m: m.retract_fact("pets", "Felix"),
    "nothing to revert": lambda m: m.revert_fact("nothing.here"),
    "no such event": lambda m: m.revert_fact("pets", "no event"),
    "revert to a naive time": lambda m: m.revert_fact("pets", datetime(2026, 1, 1)),  # noqa: DTZ001
    "revert to a time of text": lambda m: m.revert_fact("pets", "2026-01-01T00:00:00"),
    "revert to a number": lambda m: m.revert_fact("pets", 7),
    "revert to a time to come": lambda m: m.revert_fact("pets", datetime(2199, 1, 1, tzinfo=UTC)),
    "revert to text that is a time": lambda m: m.revert_fact("pets", "2026-03-03T09:00:00+00:00"),
    "no such topic": lambda m: m.topic_stats("none"),
    "topic_id": lambda m: m.topic_stats(""),
    "topic with a name of ours": lambda m: m.topic_history("current"),
    "no such turn's topic": lambda m: m.turn_topic("none"),
    "turn_id of a topic": lambda m: m.turn_topic(""),
    "merge": lambda m: m.merge_topics("none", "neither"),
    "split": lambda m: m.split_topic("none"),
    "tag": lambda m: m.tag_topic("none", ["a"]),
    "tags text": lambda m: m.tag_topic("none", "a"),
    "tag empty": lambda m: m.tag_topic("none", [""]),
    "tags none": lambda m: m.tag_topic("none"),
    "topic's importance": lambda m: m.set_topic_importance("none", 2),
    "importance of no topic": lambda m: m.set_topic_importance("none", 0.5),
    "feedback": lambda m: m.feedback("none", True),
    "useful": lambda m: m.feedback("none", "yes"),
    "restore": lambda m: m.restore_topic("none"),
    "archive what has a name of ours": lambda m: m.archive_topic("current"),
    "archive": lambda m: m.archive_topic("none"),
    "character": lambda m: m.start_session("Mia"),
    "character's name": lambda m: m.start_session(Character(name="")),
    "participants": lambda m: m.start_session(participants="Ann"),
    "many participants": lambda m: m.start_session(participants=["x"] * 101),
    "participant": lambda m: m.start_session(participants=[""]),
    "session's metadata": lambda m: m.start_session(metadata={"x": object()}),
    "session's key": lambda m: m.start_session(idempotency_key="a\nb"),
    "no such session": lambda m: m.history("none"),
    "session_id": lambda m: m.history(""),
    "page": lambda m: m.history(limit=0),
    "page huge": lambda m: m.history(limit=10_001),
    "place text": lambda m: m.history(after="x"),
    "place": lambda m: m.history(after=-1),
    "through": lambda m: m.session_context(through=0),
    "entities' scope": lambda m: m.entities(scope="all"),
    "turn_ids": lambda m: m.forget([]),
    "turn_ids text": lambda m: m.forget("abc"),
    "turn id": lambda m: m.forget([""]),
    "unknown turn": lambda m: m.forget(["none", "neither"], missing_ok=False),
    "turn ids, many": lambda m: m.forget(["x"] * 10_001),
    "timeout": lambda m: m.settle("soon"),
    "timeout of a topic": lambda m: m.turn_topic("none", True),
}


NAMED: dict[str, list[str]] = {
    "content empty": ["user_msg", "assistant_msg", "must have text"],
    "timestamp naive": ["time zone"],
    "message": ["user_message"],
    "max_tokens": ["max_tokens is -1"],
    "max_tokens bool": ["max_tokens is True"],
    "preset": ["preset is 'huge'; use one of balanced, code, chat, minimal, recall"],
    "price": ["price is 'cheap'; use one of thrifty, balanced, thorough, or None"],
    "window": ["window is 'no'; pass True or False"],
    "recollections": ["top_k is -1; pass a whole number from 0 on"],
    "limit text": ["limit", "5"],
    "top_k": ["top_k", "1.5"],
    "scope": ["scope is 'all'; use one of user, thread"],
    "role of a search": ["role", "boss"],
    "facts' scope": ["scope", "''"],
    "as_of": ["as_of", "time zone"],
    "fact_history's path number": ["path", "7"],
    "path": ["path", "preferences.meeting_time"],
    "value none": ["a", "retract_fact"],
    "value object": ["object"],
    "value nan": ["nan"],
    "value empty": ["states nothing"],
    "nothing to retract": ["nothing.here", "known paths: name"],
    "no such element": ["Felix", "pets"],
    "no such event": ["no event", "fact_history"],
    "revert to a naive time": ["time zone"],
    "revert to a time to come": ["2199", "still to come"],
    "character": ["character is a str"],
    "character's name": ["character.name"],
    "participants": ["participants is 'Ann'"],
    "many participants": ["101 participants"],
    "no such session": ["no such session"],
    "session_id": ["session_id"],
    "page": ["limit is 0"],
    "page huge": ["limit is 10001"],
    "place": ["after is -1"],
    "turn_ids": ["turn_ids", "clear()"],
    "turn_ids text": ["turn_ids", "abc"],
}
"""What some of them say: which argument is wrong, with which value, and what to do."""
SEEN_BY_THE_SERVICE = {
    *(name for name in REFUSED if name.startswith(("no such ", "no server ", "nothing to "))),
    *("archive", "feedback", "importance of no topic", "merge", "restore", "split", "tag", "tags none"),
    *("topic of a search", "topic of a search of the user", "unknown turn"),
    "revert to a time of text",
    "revert to a time to come",
    "timestamp naive",  # whose zone a setting may tell
}
"""Refusals that take a look at what is stored."""


async def test_what_is_refused_is_refused_in_the_same_words(
    doors: Doors, sides: tuple[MemoryAgent, MemoryClient]
) -> None:
    """By the same class of errors; a client asks the service for nothing that it can see to be impossible."""
    agent, client = sides
    (socket,) = doors.sockets
    before, differ, asked, unsaid = await agent.status(), {}, set(), {}
    for name, call in REFUSED.items():
        answers = socket.answers
        here, there = await outcome(call, agent), await outcome(call, client)
        if here != there or here[0] == "returned":
            differ[name] = here, there
        if socket.answers > answers:
            asked.add(name)
        if not all(words in here[1] for words in NAMED.get(name, ())):
            unsaid[name] = here
    assert (differ, unsaid, NAMED.keys() - REFUSED.keys()) == ({}, {}, set())
    assert asked == SEEN_BY_THE_SERVICE
    assert await agent.status() == before


async def outcome(call: Callable[[Any], Any], memory: object) -> tuple[str, str]:
    """How the call ends: the error's class, and its message."""
    try:
        value = await call(memory)
    except Exception as exc:
        return type(exc).__name__, str(exc)
    return "returned", repr(value)


async def test_a_client_asks_over_the_socket_and_an_agent_does_not(doors: Doors, tmp_path: Path) -> None:
    """Every request counts there, so that a test which runs both ways is known to have gone that way."""
    cfg = MemoryConfig(data_dir=tmp_path / "data", run_worker=False)
    async with MemoryService(cfg, embedder=HashEmbedder(), vectors=BruteForceIndex()) as service:
        assert isinstance(service, OverHttp)
        (socket,) = doors.sockets
        client, agent = service.agent("ann", "chat"), service.behind.agent("ann", "chat")
        turn = await client.add_user_message("hello")
        assert socket.answers == 1
        assert await agent.fetch_short_term() == [turn]
        assert socket.answers == 1
        assert await client.fetch_short_term() == [turn]
        with pytest.raises(NotFound):
            await service.find_session("none")
        assert socket.answers == 3


def test_the_agents_behaviour_is_tested_both_ways() -> None:
    """Each of these modules runs wholly both ways, but for what is marked as `embedded_only`, with a reason."""
    marked = 'pytestmark = pytest.mark.usefixtures("both_ways")'
    files = [Path(__file__).parent / f"test_{module}.py" for module in BOTH_WAYS]
    assert [file.name for file in files if marked not in file.read_text(encoding="utf-8")] == []
