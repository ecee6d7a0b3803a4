"""Every method of MemoryClient: what it sends, and what it makes of the answer."""

from __future__ import annotations

from typing import Any

from memory_agent import Character, ThreadsPage, TurnInput
from memory_agent.domain import HistoryPage
from memory_agent.wire import people, turns
from memory_agent.wire.pages import encode_cursor
from tests.integration.client.samples import (
    COMPRESSED,
    CONTEXT,
    FORGOTTEN,
    NOON,
    RECEIPT,
    RECOLLECTION,
    RECORD,
    REPLAY,
    SESSION,
    STATUS,
    THREAD,
    TOPIC,
    TURN,
    P,
    answer_with,
    page,
)

HI = {"role": "user", "content": "Hi"}
BRAND = {"kind": "brands", "name": "COSRX"}
MIRA = {"name": "Mira", "personality": "", "profile": "", "traits": ["kind"]}
UPDATE = {"timestamp": "2026-03-01T12:00:00Z", "metadata": {"a": [1, None]}, "importance": 1.0}
ASKED = {"user_id": "ada", "thread_id": "a thread", "query": "sea"}
FOUND = {"top_k": 2, "since": "2026-03-01T12:00:00Z", "role": "user", "metadata": {"a": 1}}
FETCH = {
    "user_message": "What?",
    "max_tokens": 9,
    "now": "2026-03-01T12:00:00Z",
    "preset": "code",
    "scope": "thread",
    "second_stage": "off",
}

_SHOWN: dict[str, tuple[Any, ...]] = {
    # name: call, method and address below the thread's, body, result, and the answer where that is not its JSON
    "update_memory": (
        lambda m: m.update_memory("Hi", "Hello", timestamp=NOON, metadata={"a": [1, None]}, importance=1),
        "POST /update",
        {"user_msg": "Hi", "assistant_msg": "Hello", **UPDATE},
        RECEIPT,
    ),
    "add_turn": (
        lambda m: m.add_turn("user", "Hi", speaker="Ada", entities=[BRAND]),
        "POST /turns",
        {**HI, "speaker": "Ada", "entities": [BRAND]},
        TURN,
    ),
    "add_turns": (
        lambda m: m.add_turns([HI, TurnInput(role="tool", content="2")]),
        "POST /turns/bulk",
        {"turns": [HI, {"role": "tool", "content": "2"}]},
        [TURN, TURN],
    ),
    "fetch_memory": (
        lambda m: m.fetch_memory(
            "What?", max_tokens=9, now=NOON, preset="code", scope="thread", second_stage="off"
        ),
        "POST /fetch",
        FETCH,
        CONTEXT,
    ),
    "fetch_short_term": (lambda m: m.fetch_short_term(3), "GET /turns/recent?limit=3", None, [TURN]),
    "fetch_long_term": (
        lambda m: m.fetch_long_term("sea", 2, since=NOON, role="user", metadata={"a": 1}),
        "POST //memory/search",
        {**ASKED, **FOUND},
        [RECOLLECTION],
    ),
    "fetch_long_term of the user": (
        lambda m: m.fetch_long_term("sea", scope="user"),
        "POST //memory/search",
        {**ASKED, "scope": "user"},
        [],
    ),
    "fetch_long_term of a topic": (
        lambda m: m.fetch_long_term("sea", topic_id="t"),
        "POST //memory/search",
        {**ASKED, "topic_id": "t"},
        [],
    ),
    "turn_topic": (
        lambda m: m.turn_topic("id/1", timeout=None),
        "GET /turns/id%2F1/topic?timeout=20.0",
        None,
        TOPIC,
    ),
    "turn_topic of none": (
        lambda m: m.turn_topic("id", timeout=None),
        "GET /turns/id/topic?timeout=20.0",
        None,
        None,
    ),
    "threads": (
        lambda m: m.threads(after="a/b", limit=7),
        f"GET //users/ada/threads?limit=7&cursor={encode_cursor('a/b')}",
        None,
        ThreadsPage(threads=(THREAD,), next="c"),
        page(people.ThreadSummary, THREAD, cursor=encode_cursor("c")),
    ),
    "topics of a tag": (
        lambda m: m.topics(tag=" to do "),
        "GET /topics?limit=1000&archived=false&tag=to+do",
        None,
        [TOPIC],
    ),
    "merge_topics": (lambda m: m.merge_topics("a", "b"), "POST /topics/a/merge", {"into": "b"}, TOPIC),
    "set_topic_importance": (
        lambda m: m.set_topic_importance("a", None),
        "POST /topics/a/importance",
        {"importance": None},
        TOPIC,
    ),
    "feedback": (
        lambda m: m.feedback("a", useful=False),
        "POST /feedback",
        {"turn_or_topic": "a", "useful": False},
        TOPIC,
    ),
    "fetch_facts": (
        lambda m: m.fetch_facts(scope="user", as_of=NOON),
        "GET /facts?scope=user&as_of=2026-03-01T12%3A00%3A00%2B00%3A00",
        None,
        {"name": "Ada"},
        {"facts": {"name": "Ada"}},
    ),
    "fact_history": (
        lambda m: m.fact_history(["preferences", "Meeting time"]),
        "GET /facts/history?limit=1000&path=preferences.meeting_time",
        None,
        [RECORD],
    ),
    "set_fact": (
        lambda m: m.set_fact(("preferences", "time"), {"from": "9:30"}),
        "PUT /facts",
        {"path": ["preferences", "time"], "value": {"from": "9:30"}},
        RECORD,
    ),
    "add_fact": (
        lambda m: m.add_fact("interests", "sea"),
        "POST /facts/add",
        {"path": "interests", "value": "sea"},
        RECORD,
    ),
    "retract_fact": (
        lambda m: m.retract_fact("interests"),
        "POST /facts/retract",
        {"path": "interests"},
        RECORD,
    ),
    "revert_fact": (
        lambda m: m.revert_fact("", NOON),
        "POST /facts/revert",
        {"path": "", "to": NOON.isoformat()},
        RECORD,
    ),
    "replay_facts": (lambda m: m.replay_facts("gpt-x"), "POST /facts/replay", {"model": "gpt-x"}, REPLAY),
    "undo_replay": (lambda m: m.undo_replay(), "POST /facts/replay/undo", {}, "r", {"replay_id": "r"}),
    "start_session": (
        lambda m: m.start_session(Character(name="Mira", traits=("kind",)), ["Ada"], {"plan": "pro"}),
        "POST /sessions",
        {"character": MIRA, "participants": ["Ada"], "metadata": {"plan": "pro"}},
        SESSION,
    ),
    "history": (
        lambda m: m.history("s", after=7, limit=1),
        f"GET /turns?session_id=s&limit=1&cursor={encode_cursor(7)}",
        None,
        HistoryPage(turns=(TURN,), next=9),
        page(turns.Turn, TURN, cursor=encode_cursor(9)),
    ),
    "compress": (lambda m: m.compress(), "POST /compress", None, COMPRESSED),
    "compress_if_needed": (
        lambda m: m.compress_if_needed(),
        "POST /compress?if_needed=true",
        None,
        COMPRESSED,
    ),
    "settle": (lambda m: m.settle(), "POST /settle", {"timeout": 20.0}, None, b""),
    "status": (lambda m: m.status(), "GET /stats", None, STATUS),
    "forget": (lambda m: m.forget(["a", "b"]), "POST /forget", {"turn_ids": ["a", "b"]}, FORGOTTEN),
    "forget if all are known": (
        lambda m: m.forget(["a"], missing_ok=False),
        "POST /forget",
        {"turn_ids": ["a"], "missing_ok": False},
        FORGOTTEN,
    ),
    "clear": (lambda m: m.clear(), "DELETE ", None, FORGOTTEN),
}


def _shown(call: Any, asked: str, body: Any, result: Any, *answer: Any) -> tuple[Any, ...]:
    method, path = asked.split(" ")
    target = f"/api{path[1:]}" if path.startswith("//") else f"{P}{path}"
    answered = answer[0] if answer else answer_with(result, paged="limit=1000" in path)
    return call, method, target, body, answered, result


CALLS = {name: _shown(*shown) for name, shown in _SHOWN.items()}
"""By name: the call, the method and the address that it asks, its body, the answer, and what the call returns."""
