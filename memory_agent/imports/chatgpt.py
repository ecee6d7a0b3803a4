"""ChatGPT's export: conversations as trees of messages, of which one branch was last shown."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from memory_agent.checks import checked_id
from memory_agent.imports.branches import last_shown
from memory_agent.imports.values import Conversation, each, text_in, time_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from memory_agent.imports.values import Unreadable

_WHY_LEFT_OUT: Final = {
    "thoughts": "thoughts",
    "reasoning_recap": "thoughts",
    "user_editable_context": "custom instructions",
    "model_editable_context": "saved memories shown to the model",
    "execution_output": "tools",
    "tether_browsing_display": "tools",
    "tether_quote": "tools",
    "sonic_webpage": "tools",
    "system_error": "tools",
}
"""Kinds of content that nobody said."""


def conversations(items: Iterable[tuple[str, Any]]) -> Iterator[Conversation | Unreadable]:
    """The conversations of a `conversations.json` or one of its shards."""
    return each(items, _read)


def _read(item: dict[str, Any]) -> Conversation:
    mapping = item["mapping"]
    found = Conversation(
        source="chatgpt",
        id=checked_id("the conversation's id", item.get("conversation_id") or item.get("id")),
        title=text_in(item, "title"),
        started=time_of(item.get("create_time")) or time_of(item.get("update_time")),
    )
    messages = {node: one["message"] for node, one in mapping.items() if one.get("message")}
    if item.get("is_do_not_remember"):
        found.left_out['of conversations marked "do not remember"'] += len(messages)
        return found
    times = {node: time_of(message.get("create_time")) for node, message in messages.items()}
    newest = {node: time.timestamp() if time else 0.0 for node, time in times.items()}
    parents = {node: one.get("parent") for node, one in mapping.items()}
    branch = last_shown(parents, newest, item.get("current_node"))
    found.left_out["of branches not shown last"] += len(messages.keys() - set(branch))
    for node in branch:
        if node in messages:
            _take(found, node, messages[node])
    return found


def _take(found: Conversation, node: str, message: dict[str, Any]) -> None:
    content = message.get("content") or {}
    role = message["author"]["role"]
    why = _left_out(role, message, content)
    images = [] if why != "tools" else _made_images(content)
    if images:  # what a tool has drawn is what the assistant answers
        role, text = "assistant", "\n".join(images)
    elif why is not None:
        found.left_out[why] += 1
        return
    else:
        text = _text(content)
    attached = [f"[{name}]" for one in _attachments(message) if (name := text_in(one, "name"))]
    found.add(message.get("id") or node, role, "\n".join([text, *attached]), message.get("create_time"))


def _left_out(role: object, message: dict[str, Any], content: dict[str, Any]) -> str | None:
    """The reason why a message is not taken; None if it is."""
    metadata = message.get("metadata") or {}
    kind = content.get("content_type")
    if kind in _WHY_LEFT_OUT:
        return _WHY_LEFT_OUT[kind]
    if metadata.get("is_user_system_message"):
        return "custom instructions"
    if metadata.get("is_visually_hidden_from_conversation") or message.get("weight") == 0:
        return "hidden"
    if message.get("channel") == "analysis":
        return "thoughts"
    if role == "tool" or (role == "assistant" and message.get("recipient") not in (None, "all")):
        return "tools"
    return None if role in ("user", "assistant") else "system"


def _text(content: dict[str, Any]) -> str:
    """What a content says: its parts, or its text. Media leave their kind in brackets."""
    parts = content.get("parts")
    if not isinstance(parts, list):
        return text_in(content, "text", "result") or ""
    heard = any(
        isinstance(part, dict) and part.get("content_type") == "audio_transcription" for part in parts
    )
    shown = (part if isinstance(part, str) else _medium(part, heard=heard) for part in parts if part)
    return "\n".join(text for text in shown if text)


def _medium(part: dict[str, Any], *, heard: bool) -> str:
    kind = str(part.get("content_type", ""))
    if kind.startswith("image"):
        prompt = text_in((part.get("metadata") or {}).get("dalle") or {}, "prompt")
        return f"[image: {prompt}]" if prompt else "[image]"
    if said := text_in(part, "text"):
        return said
    if "audio" in kind or "video" in kind:
        return "" if heard else "[audio]"
    return "[attachment]"


def _made_images(content: dict[str, Any]) -> list[str]:
    parts = content.get("parts") or []
    media = [_medium(part, heard=False) for part in parts if isinstance(part, dict)]
    return [shown for shown in media if shown.startswith("[image:")]


def _attachments(message: dict[str, Any]) -> list[dict[str, Any]]:
    return (message.get("metadata") or {}).get("attachments") or []
