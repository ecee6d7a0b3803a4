"""Claude's export: conversations, which are trees too, and what it has remembered of the user."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from memory_agent.checks import MAX_CONTENT_CHARS, checked_id
from memory_agent.imports.branches import last_shown
from memory_agent.imports.values import Conversation, digest, each, text_in, time_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from memory_agent.domain import Role
    from memory_agent.imports.values import Unreadable

_ROLES: Final[dict[object, Role]] = {"human": "user", "assistant": "assistant"}


def conversations(items: Iterable[tuple[str, Any]]) -> Iterator[Conversation | Unreadable]:
    """The conversations of a `conversations.json`, or the memories of a `memories.json`."""
    return each(items, lambda item: _read(item) if "chat_messages" in item else _memories(item))


def _read(item: dict[str, Any]) -> Conversation:
    found = Conversation(
        source="claude",
        id=checked_id("the conversation's uuid", item.get("uuid")),
        title=text_in(item, "name"),
        started=time_of(item.get("created_at")),
    )
    messages = {message["uuid"]: message for message in item["chat_messages"]}
    branch = list(messages)
    # Exports of earlier years say of no message what it answers, and are a line.
    if any(message.get("parent_message_uuid") for message in messages.values()):
        times = {uuid: time_of(message.get("created_at")) for uuid, message in messages.items()}
        newest = {uuid: time.timestamp() if time else 0.0 for uuid, time in times.items()}
        parents = {uuid: message.get("parent_message_uuid") for uuid, message in messages.items()}
        branch = last_shown(parents, newest, item.get("current_leaf_message_uuid"))
    found.left_out["of branches not shown last"] += len(messages) - len(branch)
    for uuid in branch:
        message = messages[uuid]
        if (role := _ROLES.get(message.get("sender"))) is None:
            found.left_out["system"] += 1
        else:
            found.add(uuid, role, _text(message), message.get("created_at"))
    return found


def _text(message: dict[str, Any]) -> str:
    """The texts of a message, without thoughts and tools, then its attachments as far as they fit."""
    parts = [part for part in message.get("content") or [] if isinstance(part, dict)]
    texts = [part["text"] for part in parts if part.get("type") == "text" and part.get("text")]
    # Where there are parts, `text` holds notes such as "This block is not supported" for tools.
    shown = "\n\n".join(texts) if parts else message.get("text") or ""
    for attached in message.get("attachments") or []:
        name = f"[{text_in(attached, 'file_name') or 'attachment'}]"
        more = f"\n\n{name}\n{attached.get('extracted_content') or ''}"
        shown += more if len(shown) + len(more) < MAX_CONTENT_CHARS else f"\n\n{name}"
    names = [text_in(one, "file_name") for key in ("files", "files_v2") for one in message.get(key) or []]
    return shown + "".join(f"\n[{name}]" for name in dict.fromkeys(names) if name)


def _memories(item: dict[str, Any]) -> Conversation:
    """What Claude remembers: a paragraph of it becomes a turn, known again by its words."""
    found = Conversation(source="claude", id="memories", kind="saved memories", title="Saved memories")
    about = [(None, item.get("conversations_memory")), *(item.get("project_memories") or {}).items()]
    for project, text in about:
        for paragraph in (text or "").split("\n\n"):
            if paragraph.strip():
                found.add(digest(project or "", paragraph.strip()), "user", paragraph)
    return found
