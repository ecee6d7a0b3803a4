"""Exports of each kind and age as their programs write them: trees with forks, hidden messages, tools, media, odd times and titles."""

from __future__ import annotations

import json
import random
import zipfile
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

START: Final = 1_700_000_000
SENTINEL: Final = "00000000-0000-4000-8000-000000000000"
WORDS: Final = ["tram", "lake", "tea", "bridge", "winter", "Lisbon", "garden", "recipe", "ladder", "choir"]
TITLES: Final = ("Trams", "", None, "Träume & 茶")
_DRAWN: Final = {
    "content_type": "image_asset_pointer",
    "asset_pointer": "sediment://f",
    "metadata": {"dalle": {"prompt": "a red kite"}},
}
_HEARD: Final = {"content_type": "audio_transcription", "text": "So I said."}
_IMAGE: Final = {"content_type": "image_asset_pointer", "asset_pointer": "sediment://g", "metadata": None}


def _text(chance: random.Random) -> str:
    return " ".join(chance.choices(WORDS, k=chance.randint(2, 9)))


# --- ChatGPT ---------------------------------------------------------------------------------------------------
def _chatgpt_message(chance: random.Random) -> dict[str, Any]:
    text = _text(chance)
    plain = {"content_type": "text", "parts": [text]}
    both = {"content_type": "multimodal_text", "parts": [chance.choice([_IMAGE, _HEARD]), text]}
    kinds: list[tuple[int, str, dict[str, Any], dict[str, Any]]] = [
        (30, "user", plain, {}),
        (30, "assistant", plain, {}),
        (4, "user", both, {}),
        (
            2,
            "user",
            {"content_type": "text", "parts": [""]},
            {"metadata": {"attachments": [{"name": "a.pdf"}]}},
        ),
        (2, "assistant", {"content_type": "text", "parts": [""]}, {}),
        (2, "system", plain, {}),
        (2, "user", plain, {"metadata": {"is_visually_hidden_from_conversation": True}}),
        (1, "user", {"content_type": "user_editable_context", "user_profile": text}, {}),
        (1, "assistant", {"content_type": "model_editable_context", "model_set_context": text}, {}),
        (3, "assistant", {"content_type": "thoughts", "thoughts": [{"content": text}]}, {}),
        (2, "assistant", {"content_type": "reasoning_recap", "content": "Thought for 3 s"}, {}),
        (2, "assistant", plain, {"channel": "analysis"}),
        (
            3,
            "assistant",
            {"content_type": "code", "language": "python", "text": text},
            {"recipient": "python"},
        ),
        (3, "tool", {"content_type": "execution_output", "text": text}, {}),
        (2, "tool", {"content_type": "tether_browsing_display", "result": text}, {}),
        (2, "tool", {"content_type": "multimodal_text", "parts": [_DRAWN]}, {}),
    ]
    _, role, content, more = chance.choices(kinds, [weight for weight, *_ in kinds])[0]
    return {
        "author": {"role": role, "name": None, "metadata": {}},
        "content": content,
        "recipient": "all",
        **more,
    }


def _chatgpt(chance: random.Random, name: str, unit: int = 1) -> dict[str, Any]:
    """A conversation of a few branches, here and there of two roots; times in seconds, or thousandths."""
    begun = START + chance.randrange(10**7)
    nodes: dict[str, dict[str, Any]] = {
        "root": {"id": "root", "message": None, "parent": None, "children": []}
    }
    for n in range(chance.randint(2, 25)):
        forked = chance.random() < 0.15
        parent = chance.choice(list(nodes)) if forked else list(nodes)[-1]
        message = {"id": f"{name}-m{n}", **_chatgpt_message(chance)}
        message["create_time"] = (begun + n + 0.5) * unit if chance.random() < 0.95 or not n else 0
        orphaned = chance.random() < 0.02
        node: dict[str, Any] = {
            "id": f"{name}-{n}",
            "message": message,
            "parent": "lost" if orphaned else parent,
            "children": [],
        }
        nodes[f"{name}-{n}"] = node
        if not orphaned:
            nodes[parent]["children"].append(f"{name}-{n}")
    timed = [key for key, node in nodes.items() if (node["message"] or {}).get("create_time")]
    whole: dict[str, Any] = {
        "id": name,
        "conversation_id": name,
        "title": chance.choice(TITLES),
        "create_time": begun * unit,
        "update_time": (begun + 99) * unit,
        "mapping": nodes,
        "current_node": chance.choice(timed),
        "is_archived": False,
    }
    if chance.random() < 0.2:
        del whole["title"]
    if chance.random() < 0.1:
        whole["is_do_not_remember"] = True
    if chance.random() < 0.3:  # the newest leaf is the last node then
        for node in nodes.values():
            if node["message"]:
                node["message"]["create_time"] = (begun + int(node["id"].split("-")[-1])) * unit
        whole["current_node"] = None
    return whole


# --- Claude ----------------------------------------------------------------------------------------------------
def _claude(chance: random.Random, name: str, *, tree: bool) -> dict[str, Any]:
    begun = START + chance.randrange(10**7)
    messages: list[dict[str, Any]] = []
    for n in range(chance.randint(1, 20)):
        text, at = _text(chance), datetime.fromtimestamp(begun + 60 * n, UTC)
        message: dict[str, Any] = {
            "uuid": f"{name}-{n}",
            "sender": "assistant" if n % 2 else "human",
            "text": text,
            "created_at": f"{at:%Y-%m-%dT%H:%M:%S}.123456Z",
            "attachments": [],
            "files": [],
        }
        if tree:
            before = [one["uuid"] for one in messages]
            parent = chance.choice([*before, SENTINEL]) if chance.random() < 0.2 else [SENTINEL, *before][-1]
            message["parent_message_uuid"] = parent
            parts: list[dict[str, Any]] = [{"type": "text", "text": text, "citations": []}]
            if n % 2:
                parts.insert(0, {"type": "thinking", "thinking": text, "summaries": []})
                parts += [
                    {"type": "tool_use", "name": "map", "input": {}},
                    {"type": "tool_result", "content": []},
                ]
            shown = chance.choices([parts, [], [{"type": "token_budget"}]], [8, 1, 1])[0]
            message |= {"content": shown, "text": text if shown else ""}
            if chance.random() < 0.1:
                message["attachments"] = [{"file_name": "a.txt", "file_size": 3, "extracted_content": "abc"}]
        messages.append(message)
    title = chance.choice(TITLES)
    return {"uuid": name, "name": title, "created_at": messages[0]["created_at"], "chat_messages": messages}


# --- others ----------------------------------------------------------------------------------------------------
def _gemini(chance: random.Random, *, newer: bool) -> list[dict[str, Any]]:
    log: list[dict[str, Any]] = []
    at = START
    for n in range(60):
        at += chance.choice([30, 90, 1_000, 4_000])
        text = _text(chance)
        one: dict[str, Any] = {
            "header": "Gemini Apps",
            "title": f"Prompted {text}" if chance.random() < 0.9 else "Gave feedback: Good response",
            "time": f"{datetime.fromtimestamp(at, UTC):%Y-%m-%dT%H:%M:%S}.{n:03}Z",
            "products": ["Gemini Apps"],
        }
        if chance.random() < 0.4:
            one["titleUrl"] = f"https://gemini.google.com/app/{chance.choice('abc')}1"
        if chance.random() < 0.8 and newer:
            inner = {"request": json.dumps({"text": text}), "response": json.dumps({"text": "Yes."})}
            one["userInteractions"] = [{"userInteraction": inner}]
        elif chance.random() < 0.8:
            one |= chance.choice(
                [
                    {"details": [{"name": "Response", "value": "Yes."}]},
                    {"safeHtmlItem": [{"html": "<p>Yes.</p>"}]},
                ]
            )
        log.insert(0, one)
    return log


def _mem0(chance: random.Random) -> list[dict[str, Any]]:
    return [
        {
            "id": f"{n}",
            "memory": _text(chance),
            "hash": "x",
            "created_at": "2025-01-01T00:00:00-08:00",
            "updated_at": None if n % 3 else "2025-02-01T00:00:00-08:00",
            "user_id": "ada",
            "metadata": None,
        }
        for n in range(40)
    ]


def _langchain(chance: random.Random) -> list[dict[str, Any]]:
    kinds: list[dict[str, Any]] = [
        {"type": "system", "data": {"content": "Be kind."}},
        {"type": "human", "data": {"content": _text(chance), "id": None}},
        {"type": "ai", "data": {"content": "", "tool_calls": [{"name": "f", "args": {}, "id": "1"}]}},
        {"type": "tool", "data": {"content": "3", "tool_call_id": "1"}},
        {"type": "ai", "data": {"content": [{"type": "text", "text": _text(chance)}]}},
    ]
    return [*kinds, *chance.choices(kinds[1:], k=30)]


def _openai(chance: random.Random) -> str:
    call = {"id": "1", "type": "function", "function": {"name": "f", "arguments": "{}"}}
    kinds: list[dict[str, Any]] = [
        {"role": "system", "content": "Be kind."},
        {"role": "user", "content": _text(chance)},
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "content": "3", "tool_call_id": "1"},
        {"role": "assistant", "content": _text(chance)},
    ]
    lines = [{"messages": [*kinds[:2], *chance.choices(kinds, k=n)]} for n in range(12)]
    return "\n".join(map(json.dumps, lines))


def _sharegpt(chance: random.Random) -> list[dict[str, Any]]:
    names = ("human", "gpt", "system", "tool")
    return [
        {
            "id": f"s{n}",
            "conversations": [{"from": chance.choice(names), "value": _text(chance)} for _ in range(n)],
        }
        for n in range(1, 12)
    ]


_MANIFEST: Final = {"files": ["conversations-000.json"], "version": 1}
_MEMORIES: Final = {
    "conversations_memory": "Ada works on trams.\n\nShe likes tea.",
    "project_memories": {"p1": "Draft 2 is due."},
}


def made(kind: str, folder: Path, seed: int = 1) -> Path:
    """An export of one kind and age, in a folder of its own."""
    place = folder / f"{kind}-{seed}"
    place.mkdir()
    _MADE[kind](random.Random(f"{kind} {seed}"), place)
    return place


def _write(place: Path, **files: Any) -> None:
    for name, value in files.items():
        path = place / (f"{name}.jsonl" if isinstance(value, str) else f"{name}.json")
        path.write_text(value if isinstance(value, str) else json.dumps(value), "utf-8")


def _pack(path: Path, **files: Any) -> None:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as packed:
        for name, value in files.items():
            packed.writestr(f"{name}.json", json.dumps(value))


def _chatgpt_zip(chance: random.Random, place: Path) -> None:
    talks = [_chatgpt(chance, f"c{n}") for n in range(12)]
    _pack(place / "export.zip", conversations=talks, user={"id": "u"}, message_feedback=[{"id": "f"}])


def _chatgpt_shards(chance: random.Random, place: Path) -> None:
    shards = {
        f"conversations-{n:03}": [_chatgpt(chance, f"c{n}-{m}", 1000) for m in range(6)] for n in range(3)
    }
    for talk in (talk for shard in shards.values() for talk in shard):
        for node in talk["mapping"].values():  # newer exports write none of most users' messages
            if node["message"] and node["message"].get("metadata") == {}:
                del node["message"]["metadata"]
    _write(place, **shards, export_manifest=_MANIFEST, user_settings={"a": 1})
    (place / "file-x.dat").write_bytes(b"\x89PNG")


def _claude_zips(chance: random.Random, place: Path) -> None:
    for number in range(2):
        talks = [_claude(chance, f"k{number}-{n}", tree=True) for n in range(8)]
        _pack(place / f"conversations-00{number}.zip", conversations=talks)
    _pack(place / "memories-000.zip", **{"memories/account": {**_MEMORIES, "memory_files": []}})


_MADE: Final[dict[str, Callable[[random.Random, Path], None]]] = {
    "chatgpt-zip": _chatgpt_zip,
    "chatgpt-shards-of-2026": _chatgpt_shards,
    "claude-of-2023": lambda chance, place: _write(
        place, conversations=[_claude(chance, f"k{n}", tree=False) for n in range(8)], users=[{"uuid": "u"}]
    ),
    "claude-of-2025": lambda chance, place: _write(
        place,
        conversations=[_claude(chance, f"k{n}", tree=True) for n in range(8)],
        memories=[{**_MEMORIES, "account_uuid": "a"}],
    ),
    "claude-zips-of-2026": _claude_zips,
    "gemini-details": lambda chance, place: _write(place, MyActivity=_gemini(chance, newer=False)),
    "gemini-interactions": lambda chance, place: _write(place, MyActivity=_gemini(chance, newer=True)),
    "mem0": lambda chance, place: _write(place, mem0={"results": _mem0(chance)}),
    "mem0-platform": lambda chance, place: _write(
        place, mem0={"count": 40, "next": None, "previous": None, "results": _mem0(chance)}
    ),
    "langchain": lambda chance, place: _write(place, messages=_langchain(chance)),
    "openai-jsonl": lambda chance, place: _write(place, chats=_openai(chance)),
    "sharegpt": lambda chance, place: _write(place, shared=_sharegpt(chance)),
}
KINDS: Final = tuple(_MADE)
