"""Transcripts of three coding agents, as their files are; what in them is a turn."""

import json
from datetime import UTC, datetime
from typing import Any

import pytest

from memory_agent.hooks.remember import read_turns


def claude(kind: str, content: Any, name: str, **more: Any) -> dict[str, Any]:
    message = {"role": kind, "content": content}
    return {"type": kind, "message": message, "uuid": name, "timestamp": "2026-02-01T14:59:02.592Z", **more}


def codex(kind: str, **payload: Any) -> dict[str, Any]:
    return {"timestamp": "2026-02-01T14:59:02.592Z", "type": kind, "payload": payload}


def cursor(role: str, *content: dict[str, Any]) -> dict[str, Any]:
    return {"role": role, "message": {"content": list(content)}}


def text(said: str, kind: str = "text") -> dict[str, Any]:
    return {"type": kind, "text": said}


TRANSCRIPTS: dict[str, list[dict[str, Any]]] = {
    "claude-code": [
        {"type": "file-history-snapshot", "messageId": "x", "snapshot": {}},
        claude("user", "Caveat: the messages below", "m0", isMeta=True),
        claude("user", "<command-name>/clear</command-name>\n<command-args></command-args>", "m1"),
        claude("user", "Tabs or spaces?<system-reminder>be kind</system-reminder>", "u1"),
        {"type": "attachment", "attachment": {"content": ["<memory_context>old</memory_context>"]}},
        claude("assistant", [{"type": "thinking", "thinking": "hm"}], "a0"),
        claude(
            "assistant",
            [text("Let me look."), {"type": "tool_use", "id": "t", "name": "Bash", "input": {}}],
            "a1",
        ),
        claude("user", [{"type": "tool_result", "tool_use_id": "t", "content": "\t\t"}], "r1"),
        claude("assistant", [text("I am a subagent.")], "s1", isSidechain=True),
        claude("assistant", [text("Tabs.")], "a2"),
        claude("user", "[Request interrupted by user for tool use]", "i1"),
        claude("user", [text("<memory_context>\nrecalled\n</memory_context>"), text("Thanks!")], "u2"),
        claude("assistant", [text("You're welcome.")], "a3"),
        claude(
            "user",
            "This session is being continued from a previous conversation",
            "c1",
            isCompactSummary=True,
        ),
    ],
    "codex": [
        codex("session_meta", id="s", cwd="/p"),
        codex("response_item", type="message", role="developer", content=[text("rules", "input_text")]),
        codex(
            "response_item",
            type="message",
            role="user",
            content=[text("<environment_context>\n/p\n</environment_context>", "input_text")],
        ),
        codex(
            "response_item",
            type="message",
            role="user",
            content=[text("# AGENTS.md instructions for /p\n\n<INSTRUCTIONS>x</INSTRUCTIONS>", "input_text")],
        ),
        codex("response_item", type="message", role="user", content=[text("Tabs or spaces?", "input_text")]),
        codex("event_msg", type="user_message", message="Tabs or spaces?"),
        codex("event_msg", type="agent_reasoning", text="hm"),
        codex(
            "response_item",
            type="message",
            role="assistant",
            phase="commentary",
            content=[text("Let me look.", "output_text")],
        ),
        codex("response_item", type="function_call", name="shell", arguments="{}"),
        codex("response_item", type="function_call_output", output="x"),
        codex("response_item", type="message", role="assistant", content=[text("Tabs.", "output_text")]),
        codex("event_msg", type="agent_message", message="Tabs."),
        codex("event_msg", type="user_message", message="Thanks!"),
        codex(
            "response_item",
            type="message",
            role="assistant",
            content=[text("You're welcome.", "output_text")],
        ),
    ],
    "cursor": [
        cursor(
            "user",
            text("<attached_files>a.py</attached_files>\n<user_query>\nTabs or spaces?\n</user_query>"),
        ),
        cursor("assistant", text("Let me look."), {"type": "tool_use", "name": "Read", "input": {}}),
        cursor("assistant", text("Tabs.")),
        {"type": "turn_ended", "status": "completed"},
        cursor("user", text("Thanks!")),
        cursor("assistant", text("You're welcome.")),
    ],
}
TALK = [
    ("user", "Tabs or spaces?"),
    ("assistant", "Tabs."),
    ("user", "Thanks!"),
    ("assistant", "You're welcome."),
]


def written(host: str) -> bytes:
    return b"".join(json.dumps(entry).encode() + b"\n" for entry in TRANSCRIPTS[host])


@pytest.mark.parametrize("host", TRANSCRIPTS)
def test_turns_are_what_was_typed_and_what_was_answered_at_last(host: str) -> None:
    data = written(host)
    turns, done = read_turns(host, data, 0)
    assert ([(turn.role, turn.content) for turn in turns], done) == (TALK, len(data))
    assert len({turn.id for turn in turns}) == len(turns)
    said_at = None if host == "cursor" else datetime(2026, 2, 1, 14, 59, 2, 592000, tzinfo=UTC)
    assert {turn.timestamp for turn in turns} == {said_at}


@pytest.mark.parametrize("host", TRANSCRIPTS)
def test_a_transcript_that_grows_gives_the_same_ids_however_it_is_cut(host: str) -> None:
    """Also in the middle of a line, which is left for the next look."""
    data = written(host)
    whole = {turn.id: turn for turn in read_turns(host, data, 0)[0]}
    for cut in range(0, len(data), 37):
        turns, done = read_turns(host, data[:cut], 0)
        assert done <= cut
        rest, end = read_turns(host, data[done:], done)
        assert end == len(data)
        found = {turn.id: turn.content for turn in [*turns, *rest]}
        assert found.items() >= {name: turn.content for name, turn in whole.items()}.items()
        assert [turn.content for turn in rest] == [content for _, content in TALK][len(TALK) - len(rest) :]


def test_lines_that_cannot_be_read_are_passed_over() -> None:
    lines = [
        b"not json",
        b"[1]",
        b'{"type": "user"}',
        b'{"type": "user", "message": 3}',
        b'{"type":"user","message":{"content":[3]}}',
    ]
    data = b"\n".join(
        [*lines, json.dumps(claude("user", "Hello", "u1", timestamp="yesterday")).encode(), b""]
    )
    for host in TRANSCRIPTS:
        read_turns(host, data, 0)
    ((turn,), done) = read_turns("claude-code", data, 5)
    assert (turn.content, turn.timestamp, done) == ("Hello", None, len(data) + 5)
