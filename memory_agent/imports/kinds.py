"""The kinds of files that can be imported: how each is known by what it holds, and how it is read."""

from __future__ import annotations

import functools
import html
import itertools
import json
import re
from collections import Counter
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

from memory_agent.checks import MAX_CONTENT_CHARS, checked_id
from memory_agent.domain import role_of
from memory_agent.errors import InvalidInput
from memory_agent.imports.files import Conversation, Unreadable, digest, each, text_in, time_of
from memory_agent.messages import UNSAID, read_messages

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

    from memory_agent.domain import Role
    from memory_agent.imports.files import ImportFile
    from memory_agent.messages import PlainMessage


OWN: Final = "memory-agent"
KINDS: Final = ("chatgpt", "claude", "gemini", "mem0", "langchain", "openai-jsonl", "sharegpt")
_LOOKED_AT: Final = 20
"""Values at the beginning of a file by which it is known."""


def kind_of(value: Any) -> str | None:
    """The kind of a file that begins with this value; None if it is of no kind that can be imported.

    >>> kind_of({"mapping": {}}), kind_of({"conversations": [{"from": "human", "value": "Hello"}]}), kind_of({"id": 1})
    ('chatgpt', 'sharegpt', None)
    """
    if isinstance(value, list):
        return next(filter(None, map(kind_of, value[:_LOOKED_AT])), None)
    if not isinstance(value, dict):
        return None
    match value:
        case {"memory_agent": dict()}:
            return OWN
        case {"mapping": dict()}:
            return "chatgpt"
        case {"chat_messages": list()} | {"conversations_memory": _} | {"project_memories": _}:
            return "claude"
        case {"memory": str()} | {"results": [{"memory": str()}, *_]}:
            return "mem0"
        case {"time": str(), "title": str(), "products": _} | {"time": str(), "title": str(), "header": _}:
            return "gemini"
        case {"type": str(), "data": {"content": _}}:
            return "langchain"
        case {"conversations": list() as said} | {"messages": list() as said}:
            said = [one for one in said[:_LOOKED_AT] if isinstance(one, dict)]
            return "sharegpt" if any("from" in one for one in said) else kind_of(said)
        case {"role": role, "content": _} if role_of(role) is not None:
            return "openai-jsonl"
    return None


def read_file(file: ImportFile, source: str, user_id: str) -> Iterator[Conversation | Unreadable]:
    """The conversations of a file. A file of another kind is Unreadable if the caller named it, else passed over.

    `source`: one of KINDS, or "auto".
    """
    try:
        with file.values() as values:
            beginning: list[Any] = []
            for value in itertools.islice(values, _LOOKED_AT):
                beginning.append(value)
                if (kind := kind_of(value)) is not None:
                    break
            else:
                kind = None
            if (why := _refusal(kind, source, beginning)) is not None:
                if file.named or kind is not None:
                    raise InvalidInput(why)
                return
            items = _numbered(itertools.chain(beginning, values), file)
            yield from _read(kind or source, items, user_id)
    except (InvalidInput, ValueError) as exc:
        yield Unreadable(where=str(file), reason=str(exc))


def _refusal(kind: str | None, source: str, beginning: list[Any]) -> str | None:
    if kind == OWN:
        return "is an export of memory_agent; import it by itself, without a user (`service.import_from`)"
    if kind is None:
        broken = next((one.reason for one in beginning if isinstance(one, Unreadable)), None)
        known = f"holds nothing that can be imported; known are {', '.join(KINDS)}"
        return broken or f"{known}. Lines of turns are for `memory-agent ingest`"
    return None if source in ("auto", kind) else f"is of the kind {kind}, not {source}; say so, or auto"


def _numbered(values: Iterator[Any], file: ImportFile) -> Iterator[tuple[str, Any]]:
    for number, value in enumerate(values, start=1):
        yield f"{file}, item {number}", value


def _read(kind: str, items: Iterator[tuple[str, Any]], user_id: str) -> Iterator[Conversation | Unreadable]:
    broken: list[Unreadable] = []

    def whole() -> Iterator[tuple[str, Any]]:
        for where, value in items:
            if isinstance(value, Unreadable):
                broken.append(value)
            else:
                yield where, value

    readers: dict[str, Callable[..., Iterator[Conversation | Unreadable]]] = {
        "chatgpt": chatgpt_conversations,
        "claude": claude_conversations,
        "gemini": gemini_conversations,
        "mem0": functools.partial(mem0_memories, user_id=user_id),
    }
    read = readers.get(kind) or functools.partial(message_conversations, source=kind)
    for found in read(whole()):
        yield from broken
        broken.clear()
        yield found
    yield from broken


# --- branches of conversations that are trees ----------------------------------------------------------------
def last_shown(parents: Mapping[str, str | None], newest: Mapping[str, float], leaf: str | None) -> list[str]:
    """Nodes from a root to `leaf`, oldest first; without one, along the children whose subtrees hold the newest message.

    `parents`: of each node, in the file's order; one that is no node stands for none. `newest`: the time of each node that
    has a message. Of equal times the later node counts. Cycles are walked once.
    """
    if leaf is None or leaf not in parents:
        leaf = _newest_leaf(parents, newest)
    path: list[str] = []
    met: set[str] = set()
    while leaf is not None and leaf in parents and leaf not in met:
        met.add(leaf)
        path.append(leaf)
        leaf = parents[leaf]
    return path[::-1]


def _newest_leaf(parents: Mapping[str, str | None], newest: Mapping[str, float]) -> str | None:
    if not newest:
        return None
    order = {node: (newest.get(node, -1.0), place) for place, node in enumerate(parents)}
    children: dict[str | None, list[str]] = {}
    for node, parent in parents.items():
        children.setdefault(parent, []).append(node)
    # The newest message of all is in the subtree of each node above it. Below it there may be older ones.
    leaf = max(newest, key=order.__getitem__)
    seen = {leaf}
    while below := [node for node in children.get(leaf, ()) if node in newest and node not in seen]:
        leaf = max(below, key=order.__getitem__)
        seen.add(leaf)
    return leaf


# --- ChatGPT's export: conversations as trees of messages ----------------------------------------------------
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


def chatgpt_conversations(items: Iterable[tuple[str, Any]]) -> Iterator[Conversation | Unreadable]:
    """The conversations of a `conversations.json` or one of its shards."""
    return each(items, _read_chatgpt)


def _read_chatgpt(item: dict[str, Any]) -> Conversation:
    mapping = item["mapping"]
    found = Conversation(
        source="chatgpt",
        id=checked_id("the conversation's id", item.get("conversation_id") or item.get("id")),
        title=text_in(item, "title"),
        started=time_of(item.get("create_time")) or time_of(item.get("update_time")),
    )
    nodes: dict[str, dict[str, Any]] = {}
    messages: dict[str, Any] = {}
    for node, one in mapping.items():
        found.take(functools.partial(_note_node, nodes, messages, node, one))
    if item.get("is_do_not_remember"):
        found.left_out['of conversations marked "do not remember"'] += len(messages)
        return found
    # A node that is broken is told by who has it as a child, so that what was said before it is not lost.
    told = ((child, node) for node, one in nodes.items() for child in one.get("children") or ())
    parents = dict(told) | {node: one.get("parent") for node, one in nodes.items()}
    branch = last_shown(parents, _newest(messages, "create_time"), item.get("current_node"))
    found.left_out["of branches not shown last"] += len(messages.keys() - set(branch))
    for node in branch:
        if node in messages:
            found.take(functools.partial(_take_message, found, node, messages[node]))
    return found


def _note_node(
    nodes: dict[str, dict[str, Any]], messages: dict[str, Any], node: str, one: dict[str, Any]
) -> None:
    if message := one.get("message"):
        messages[node] = message
    nodes[node] = one


def _newest(messages: Mapping[str, Any], name: str) -> dict[str, float]:
    """When each message was said, for `last_shown`; 0 where it says nothing of that."""
    times = {key: time_of(one.get(name)) if isinstance(one, dict) else None for key, one in messages.items()}
    return {key: time.timestamp() if time else 0.0 for key, time in times.items()}


def _take_message(found: Conversation, node: str, message: dict[str, Any]) -> None:
    content = message.get("content") or {}
    content = {"parts": [content]} if isinstance(content, str) else content
    role = message["author"]["role"]
    if role == "assistant" and (canvas := _canvas(message, content)):
        found.add(message.get("id") or node, role, canvas, message.get("create_time"))
        return
    why = _left_out(role, message, content)
    images = [] if why != "tools" else _made_images(content)
    if images:  # what a tool has drawn is what the assistant answers
        role, text = "assistant", "\n".join(images)
    elif why is not None:
        found.left_out[why] += 1
        return
    else:
        text = _chatgpt_text(content)
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


def _chatgpt_text(content: dict[str, Any]) -> str:
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


def _canvas(message: dict[str, Any], content: dict[str, Any]) -> str:
    """What the assistant wrote into a document beside the chat (ChatGPT's canvas); "" for anything else."""
    if not str(message.get("recipient")).startswith("canmore"):
        return ""
    try:
        call = json.loads(_chatgpt_text(content))
    except ValueError:
        return ""
    call = call if isinstance(call, dict) else {}
    updates = [one for one in call.get("updates") or () if isinstance(one, dict)]
    written = [text for one in (call, *updates) if (text := text_in(one, "content", "replacement"))]
    name = text_in(call, "name")
    return "\n\n".join([f"[canvas: {name}]" if name else "[canvas]", *written]) if written else ""


def _attachments(message: dict[str, Any]) -> list[dict[str, Any]]:
    return (message.get("metadata") or {}).get("attachments") or []


# --- Claude's export: conversations, which are trees too, and what it remembered of the user -----------------
_CLAUDE_ROLES: Final[dict[object, Role]] = {"human": "user", "assistant": "assistant"}


def claude_conversations(items: Iterable[tuple[str, Any]]) -> Iterator[Conversation | Unreadable]:
    """The conversations of a `conversations.json`, or the memories of a `memories.json`."""
    return each(items, lambda item: _read_claude(item) if "chat_messages" in item else _claude_memories(item))


def _read_claude(item: dict[str, Any]) -> Conversation:
    found = Conversation(
        source="claude",
        id=checked_id("the conversation's uuid", item.get("uuid")),
        title=text_in(item, "name"),
        started=time_of(item.get("created_at")),
    )
    messages: dict[str, dict[str, Any]] = {}
    for place, message in enumerate(item["chat_messages"]):
        found.take(functools.partial(_note_claudes, messages, place, message))
    branch = list(messages)
    # Exports of earlier years say of no message what it answers, and are a line.
    if any(message.get("parent_message_uuid") for message in messages.values()):
        parents = {uuid: message.get("parent_message_uuid") for uuid, message in messages.items()}
        newest = _newest(messages, "created_at")
        branch = last_shown(parents, newest, item.get("current_leaf_message_uuid"))
    found.left_out["of branches not shown last"] += len(messages) - len(branch)
    for uuid in branch:
        found.take(functools.partial(_take_claudes, found, uuid, messages[uuid]))
    return found


def _note_claudes(messages: dict[str, dict[str, Any]], place: int, message: dict[str, Any]) -> None:
    messages[message.get("uuid") or str(place)] = message


def _take_claudes(found: Conversation, uuid: str, message: dict[str, Any]) -> None:
    if (role := _CLAUDE_ROLES.get(message.get("sender"))) is None:
        found.left_out["system"] += 1
    else:
        found.add(uuid, role, _claude_text(message), message.get("created_at"))


def _claude_text(message: dict[str, Any]) -> str:
    """The texts and voice notes of a message without thoughts and tools, then attachments that fit."""
    parts = [part for part in message.get("content") or [] if isinstance(part, dict)]
    said = (part for part in parts if part.get("type") not in UNSAID and part.get("type") != "tool_result")
    texts = [text for part in said if (text := text_in(part, "text"))]
    # Where there are parts, `text` holds notes such as "This block is not supported" for tools.
    shown = "\n\n".join(texts) if parts else message.get("text") or ""
    for attached in message.get("attachments") or []:
        name = f"[{text_in(attached, 'file_name') or 'attachment'}]"
        more = f"\n\n{name}\n{attached.get('extracted_content') or ''}"
        shown += more if len(shown) + len(more) < MAX_CONTENT_CHARS else f"\n\n{name}"
    names = [text_in(one, "file_name") for key in ("files", "files_v2") for one in message.get(key) or []]
    return shown + "".join(f"\n[{name}]" for name in dict.fromkeys(names) if name)


def _claude_memories(item: dict[str, Any]) -> Conversation:
    """What Claude remembers: a paragraph of it becomes a turn, known again by its words."""
    found = Conversation(source="claude", id="memories", kind="saved memories", title="Saved memories")
    about = [(None, item.get("conversations_memory")), *(item.get("project_memories") or {}).items()]
    for project, text in about:
        for paragraph in (text or "").split("\n\n"):
            if paragraph.strip():
                found.add(digest(project or "", paragraph.strip()), "user", paragraph)
    return found


# --- Gemini's activity log of Google Takeout: one record per exchange ----------------------------------------
_GAP: Final = timedelta(minutes=30)
"""A longer pause begins another conversation, where no record says so."""
_PROMPTED: Final = "Prompted "
_LABEL: Final = re.compile(r"[^:：]{1,60}[:：]\s*")
"""What other languages than English put before a prompt: "Eingegebener Prompt: "."""
_WORDS_OF_A_LABEL: Final = 3
"""What stands once before a colon and is longer may be somebody's own words."""
_OWN_WORDS: Final = 5
"""So many titles that begin with the same words, and differ otherwise, have these from the log and not from people."""
_TAG: Final = re.compile(r"<(?:br|/p|/li|/h\d|/div)[^>]*>")
_ANY_TAG: Final = re.compile(r"<[^>]+>")


def gemini_conversations(items: Iterable[tuple[str, Any]]) -> Iterator[Conversation | Unreadable]:
    """The exchanges of a `MyActivity.json`, by the conversation that their address names, or by pauses between them.

    The log runs backwards, so all of it is read before the first one is given.
    """
    read: list[tuple[datetime, dict[str, Any]]] = []
    others = Conversation(source="gemini", id="activity")
    for where, item in items:
        time = time_of(item.get("time")) if isinstance(item, dict) else None
        if time is None:
            yield Unreadable(where=where, reason="is no activity with a time")
        else:
            read.append((time, item))
    labels = _labels([item for _, item in read])
    prompts = [(time, item) for time, item in read if _is_prompt(item, labels)]
    if len(prompts) < len(read):
        others.left_out["activities other than prompts"] += len(read) - len(prompts)
    found: dict[str, Conversation] = {}
    before, last = None, ""
    for time, item in sorted(prompts, key=lambda one: one[0]):
        named = re.search(r"/app/(\w+)", str(item.get("titleUrl", "")))
        if named:
            key = named[1]
        else:
            is_near = before is not None and time - before <= _GAP
            key = last if is_near else f"at-{time.astimezone(UTC):%Y%m%dT%H%M%S}"
            before, last = time, key
        conversation = found.setdefault(key, Conversation(source="gemini", id=key, started=time))
        conversation.take(functools.partial(_take_exchange, conversation, time, item, labels))
    yield from found.values()
    if others.left_out:
        yield others


def _labels(items: Sequence[dict[str, Any]]) -> tuple[str, ...]:
    """What the log puts before prompts, in the languages in which it was kept; none if nothing tells."""
    titles = {title for item in items if (title := text_in(item, "title")) and _exchange(item)[1]}
    is_english = any(str(item.get("title")).startswith(_PROMPTED) for item in items)
    others = [title for title in titles if not (is_english and title.startswith(_PROMPTED))]
    return tuple(filter(None, (_PROMPTED if is_english else "", _label(others))))


def _label(titles: Collection[str]) -> str:
    """What most titles have before their first colon, else the words that many begin with, or ""."""
    labels = Counter(found[0] for title in titles if (found := _LABEL.match(title)))
    for label, count in labels.most_common(1):
        if 2 * count >= len(titles) and (count > 1 or len(label.split()) <= _WORDS_OF_A_LABEL):
            return label
    if len(titles) < _OWN_WORDS:
        return ""
    pairs = itertools.takewhile(lambda pair: pair[0] == pair[1], zip(min(titles), max(titles), strict=False))
    shared = "".join(char for char, _ in pairs)
    return shared[: shared.rfind(" ") + 1]


def _is_prompt(item: dict[str, Any], labels: tuple[str, ...]) -> bool:
    if labels:
        return str(item.get("title")).startswith(labels)
    return _exchange(item)[1] is not None


def _take_exchange(
    found: Conversation, time: datetime, item: dict[str, Any], labels: tuple[str, ...]
) -> None:
    request, response = _exchange(item)
    stamp = f"{time.astimezone(UTC):%Y%m%dT%H%M%S.%f}"
    title = str(item["title"])
    label = next((one for one in labels if title.startswith(one)), "")
    found.add(f"{stamp}-user", "user", request or title.removeprefix(label), time.isoformat())
    if response:
        found.add(f"{stamp}-assistant", "assistant", response, time.isoformat())
    else:
        found.left_out["answers that the log doesn't hold"] += 1


def _exchange(item: dict[str, Any]) -> tuple[str | None, str | None]:
    """What was asked and answered, in whichever of the log's forms there is."""
    said: dict[str, Any] = {
        str(one.get("name")): one.get("value") for one in item.get("details") or [] if isinstance(one, dict)
    }
    for one in item.get("userInteractions") or []:
        inner = one.get("userInteraction") or {}
        said |= {name.capitalize(): _plain(inner.get(name)) for name in ("request", "response")}
    pages = [text_in(one, "html") or "" for one in item.get("safeHtmlItem") or [] if isinstance(one, dict)]
    shown = "\n".join(html.unescape(_ANY_TAG.sub("", _TAG.sub("\n", page))) for page in pages)
    return text_in(said, "Request"), text_in(said, "Response") or shown.strip() or None


def _plain(value: object) -> str | None:
    """The text in a JSON string such as {"text": "…"}; the string itself if it is none."""
    try:
        inner = json.loads(value) if isinstance(value, str) else value
    except ValueError:
        return str(value)
    if isinstance(inner, dict):
        return text_in(inner, "text", "prompt", "content")
    return inner if isinstance(inner, str) else None


# --- mem0's memories, as `get_all` gives them or its platform exports them -----------------------------------
def mem0_memories(items: Iterable[tuple[str, Any]], *, user_id: str) -> Iterator[Conversation | Unreadable]:
    """The memories of one user: of `user_id` if the file names that one, else of the only one that it names."""
    found = Conversation(source="mem0", id="memories", kind="saved memories", title="Saved memories")
    read: list[tuple[str, dict[str, Any]]] = []
    for where, item in items:
        results = item.get("results", [item]) if isinstance(item, dict) else [item]
        for one in results if isinstance(results, list) else [results]:
            if isinstance(one, dict) and text_in(one, "memory"):
                read.append((where, one))
            else:
                yield Unreadable(
                    where=where, reason="is no memory of mem0: it has no field memory with a text"
                )
    owners = {owner for _, one in read if (owner := text_in(one, "user_id"))}
    if len(owners) > 1 and user_id not in owners:
        named = ", ".join(sorted(owners)[:10])
        raise InvalidInput(f"holds memories of {len(owners)} users ({named}); pass one of them as the user")
    for _, one in read:
        if len(owners) > 1 and one.get("user_id") != user_id:
            found.left_out["of other users"] += 1
            continue
        text = str(one["memory"])
        # A memory that mem0 has changed is another sentence, and comes as a turn of its own.
        name = f"{text_in(one, 'id') or ''}-{digest(text)}"
        found.add(name, "user", text, one.get("updated_at") or one.get("created_at"))
    yield found


# --- lists of messages: OpenAI's, ShareGPT's, and LangChain's as dicts ---------------------------------------
_ROLE_OF: Final = {
    **dict.fromkeys(("gpt", "chatgpt", "bot", "model_response"), "assistant"),
    **dict.fromkeys(("function_call", "function_response", "observation", "tool_response"), "tool"),
}
"""ShareGPT's names of roles that no framework has."""
_NAMED_BY: Final = 2
"""A conversation without an id is known again by so many messages at its beginning."""


def message_conversations(
    items: Iterable[tuple[str, Any]], *, source: str
) -> Iterator[Conversation | Unreadable]:
    """A conversation of each item with a list of messages, and one of all messages that are items themselves."""
    loose: list[Any] = []
    met: Counter[str] = Counter()

    def read(item: Any) -> Conversation | None:
        if isinstance(item, dict) and not ("messages" in item or "conversations" in item):
            loose.append(item)
            return None
        whole = {"messages": item} if isinstance(item, list) else item
        if not isinstance(whole, dict):
            raise InvalidInput(f"is a {type(item).__name__}, neither a message nor a conversation")
        return _read_messages(whole, source, met)

    yield from each(items, read)
    if loose:
        yield from each([(f"{len(loose)} messages", loose)], read)


def _read_messages(item: dict[str, Any], source: str, met: Counter[str]) -> Conversation:
    found = Conversation(source=source, id="")
    given: list[tuple[int, dict[str, Any], PlainMessage]] = []

    def read(place: int, one: Any) -> None:
        message = _message(one)
        given.append((place, message, read_messages([message])[0]))

    for place, one in enumerate(item["messages" if "messages" in item else "conversations"]):
        found.take(functools.partial(read, place, one))
    named = text_in(item, "id", "conversation_id", "thread_id", "thread")
    if named is None:
        said = [one for *_, one in given if one.role in ("user", "assistant") and not one.blank]
        named = digest(*(part for one in said[:_NAMED_BY] for part in one.pair))
        met[named] += 1
        named += f"-{met[named]}" if met[named] > 1 else ""
    found.id, found.title = named, text_in(item, "title", "name")
    found.started = time_of(item.get("create_time") or item.get("created_at") or item.get("timestamp"))
    for place, message, one in given:
        if one.role not in ("user", "assistant"):
            found.left_out["tools" if one.role == "tool" else "system"] += 1
            continue
        key = text_in(message, "id") or f"{place}-{digest(one.content)}"
        found.add(key, one.role, one.content, message.get("timestamp") or message.get("created_at"))
    return found


def _message(given: Any) -> dict[str, Any]:
    """A message as `read_messages` takes it: LangChain's without its envelope, ShareGPT's by their fields' usual names."""
    if not isinstance(given, dict):
        raise InvalidInput(f"has a {type(given).__name__} among its messages; each is an object")
    if isinstance(data := given.get("data"), dict):
        return {**data, "type": given.get("type"), "role": data.get("role")}
    if "from" in given:
        role = _ROLE_OF.get(given["from"], given["from"])
        return {**given, "role": role, "content": given.get("value")}
    return given
