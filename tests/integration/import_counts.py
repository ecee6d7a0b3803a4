"""A second count of what an export holds: plain walks over its JSON by the exports' field lists, apart from the importer's code.

Counted is what a reader of the conversation saw last: no hidden message, no thought, no tool, nothing empty.
"""

from __future__ import annotations

import json
import re
import zipfile
from collections import defaultdict
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

Said = tuple[str, str | None, float | None]
"""Who said something counted, under which title, and when (seconds since 1970)."""
Counts = dict[str, list[list[Said]]]
"""By source, of each conversation with anything in it what was said."""

_NOBODY_SAID = [
    "thoughts",
    "reasoning_recap",
    "user_editable_context",
    "model_editable_context",
    "execution_output",
    "tether_browsing_display",
    "tether_quote",
    "sonic_webpage",
]


def counted(*paths: Path) -> Counts:
    """What these files, folders and ZIPs hold."""
    found: Counts = defaultdict(list)
    activities: list[dict[str, Any]] = []
    for text in (text for path in paths for text in _texts(path)):
        for value in _values(text):
            if isinstance(value, dict) and "products" in value:
                activities.append(value)
            elif (known := _conversation(value)) and known[1]:
                found[known[0]].append(known[1])
    if activities:
        found["gemini"] = _gemini(activities)
    return found


def _texts(path: Path) -> Iterator[str]:
    if path.is_dir():
        for inside in sorted(path.rglob("*")):
            if inside.is_file():
                yield from _texts(inside)
    elif path.suffix == ".zip":
        with zipfile.ZipFile(path) as packed:
            for name in packed.namelist():
                if name.endswith(".json"):
                    yield packed.read(name).decode()
    elif path.suffix in (".json", ".jsonl"):
        yield path.read_text("utf-8")


def _values(text: str) -> list[Any]:
    """The conversations, or the one list of messages, that a file holds."""
    try:
        whole = json.loads(text)
    except ValueError:
        return [json.loads(line) for line in text.splitlines() if line]
    is_messages = isinstance(whole, list) and whole and {"type", "data"} <= set(whole[0])
    return whole if isinstance(whole, list) and not is_messages and "memory" not in whole[0] else [whole]


def _conversation(value: Any) -> tuple[str, list[Said]] | None:
    if isinstance(value, list):
        if "memory" in value[0]:
            return "mem0", _memories(value)
        return "langchain", [said for one in value if (said := _langchain(one))]
    if "mapping" in value:
        return "chatgpt", chatgpt(value)
    if "chat_messages" in value:
        return "claude", _claude(value)
    if "conversations_memory" in value:
        texts = [value["conversations_memory"], *(value.get("project_memories") or {}).values()]
        paragraphs = [part for text in texts for part in re.split(r"\n\s*\n", text or "") if part.strip()]
        return "claude", [("user", "Saved memories", None)] * len(paragraphs)
    if "results" in value:
        return "mem0", _memories(value["results"])
    if "messages" in value:
        plain = [(one["role"], one.get("content")) for one in value["messages"]]
        return "openai-jsonl", [
            (role, None, None) for role, text in plain if role in ("user", "assistant") and text
        ]
    if "conversations" in value:
        names = {"human": "user", "gpt": "assistant"}
        given = [(names.get(one["from"]), one["value"]) for one in value["conversations"]]
        return "sharegpt", [(role, None, None) for role, text in given if role and text.strip()]
    return None


# --- ChatGPT ---------------------------------------------------------------------------------------------------
def chatgpt(conversation: dict[str, Any]) -> list[Said]:
    """What is shown of a conversation: from its current node upwards; without one from the newest leaf with a message."""
    if conversation.get("is_do_not_remember"):
        return []
    nodes = conversation["mapping"]
    above = {child for node in nodes.values() if (child := node.get("parent"))}
    at = conversation.get("current_node")
    if at not in nodes:
        leaves = [name for name, node in nodes.items() if name not in above and node.get("message")]
        at = max(leaves, key=lambda name: _seconds(nodes[name]["message"].get("create_time")) or 0)
    shown: list[Said] = []
    met = set()
    while at in nodes and at not in met:
        met.add(at)
        if (message := nodes[at].get("message")) and (role := _shown_by(message)):
            time = _seconds(message.get("create_time")) or _seconds(conversation.get("create_time"))
            shown.insert(0, (role, conversation.get("title"), time))
        at = nodes[at].get("parent")
    return shown


def _shown_by(message: dict[str, Any]) -> str | None:
    role, about = message["author"]["role"], message.get("metadata") or {}
    content = message["content"]
    parts = content.get("parts", [content.get("text", "")])
    drawn = any(isinstance(part, dict) and (part.get("metadata") or {}).get("dalle") for part in parts)
    if role == "tool" and drawn:
        return "assistant"
    if role not in ("user", "assistant") or content["content_type"] in _NOBODY_SAID:
        return None
    if about.get("is_visually_hidden_from_conversation") or about.get("is_user_system_message"):
        return None
    if message.get("channel") == "analysis" or message.get("recipient", "all") != "all":
        return None
    visible = any(isinstance(part, dict) or part.strip() for part in parts) or about.get("attachments")
    return str(role) if visible else None


# --- Claude ----------------------------------------------------------------------------------------------------
def _claude(conversation: dict[str, Any]) -> list[Said]:
    """Downwards, at each fork into the child whose subtree holds the newest message; an older export is a line."""
    messages = {one["uuid"]: one for one in conversation["chat_messages"]}
    if not any("parent_message_uuid" in one for one in messages.values()):
        return _shown_by_claude(conversation, list(messages.values()))
    children: dict[str | None, list[str]] = defaultdict(list)
    for name, one in messages.items():
        parent = one["parent_message_uuid"]
        children[parent if parent in messages else None].append(name)

    def newest(name: str) -> float:
        own = _seconds(messages[name]["created_at"]) or 0
        return max([own, *map(newest, children[name])])

    shown, below = [], children[None]
    while below:
        chosen = max(below, key=newest)
        shown.append(messages[chosen])
        below = children[chosen]
    return _shown_by_claude(conversation, shown)


def _shown_by_claude(conversation: dict[str, Any], messages: list[dict[str, Any]]) -> list[Said]:
    shown: list[Said] = []
    for one in messages:
        parts = one.get("content") or [{"type": "text", "text": one.get("text", "")}]
        says = any(part["type"] == "text" and part["text"].strip() for part in parts)
        if says or one.get("attachments") or one.get("files"):
            role = {"human": "user"}.get(one["sender"], one["sender"])
            shown.append((role, conversation.get("name") or None, _seconds(one["created_at"])))
    return shown


# --- others ----------------------------------------------------------------------------------------------------
def _gemini(activities: list[dict[str, Any]]) -> list[list[Said]]:
    groups: dict[str, list[Said]] = defaultdict(list)
    provisional, until = 0, -1.0
    for one in sorted(activities, key=lambda one: _seconds(one["time"]) or 0):
        if not one["title"].startswith("Prompted "):
            continue
        time = _seconds(one["time"]) or 0
        address = one.get("titleUrl", "")
        if "/app/" not in address:
            provisional += time > until
            until = time + 30 * 60
            address = f"{provisional}"
        answered = (
            any(each["name"] == "Response" for each in one.get("details", []))
            or any("response" in each["userInteraction"] for each in one.get("userInteractions", []))
            or any(each["html"] for each in one.get("safeHtmlItem", []))
        )
        groups[address] += [("user", None, time), *([("assistant", None, time)] if answered else [])]
    return list(groups.values())


def _memories(results: list[dict[str, Any]]) -> list[Said]:
    times = [_seconds(one.get("updated_at")) or _seconds(one.get("created_at")) for one in results]
    return [("user", "Saved memories", time) for time in times]


def _langchain(message: dict[str, Any]) -> Said | None:
    role = {"human": "user", "ai": "assistant"}.get(message["type"])
    content = message["data"]["content"]
    says = content.strip() if isinstance(content, str) else [one for one in content if one["type"] == "text"]
    return (role, None, None) if role and says else None


def _seconds(time: object) -> float | None:
    """Seconds since 1970 of a time as exports write it: seconds, milliseconds or ISO 8601."""
    if isinstance(time, str):
        read = datetime.fromisoformat(time.replace("Z", "+00:00"))
        return (read if read.tzinfo else read.replace(tzinfo=UTC)).timestamp()
    if not isinstance(time, int | float) or time <= 0:
        return None
    return time / 1000 if time > 1e11 else time
