"""Lists of messages: lines of OpenAI's, ShareGPT's conversations, and LangChain's messages as dicts."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any, Final

from memory_agent.errors import InvalidInput
from memory_agent.imports.values import Conversation, digest, each, text_in, time_of
from memory_agent.messages import read_messages

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from memory_agent.imports.values import Unreadable

_ROLE_OF: Final = {"gpt": "assistant", "chatgpt": "assistant", "bot": "assistant", "function_call": "tool"}
"""ShareGPT's names of roles that no framework has."""
_NAMED_BY: Final = 2
"""A conversation without an id is known again by so many messages at its beginning."""


def conversations(items: Iterable[tuple[str, Any]], *, source: str) -> Iterator[Conversation | Unreadable]:
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
        return _read(whole, source, met)

    yield from each(items, read)
    if loose:
        yield from each([(f"{len(loose)} messages", loose)], read)


def _read(item: dict[str, Any], source: str, met: Counter[str]) -> Conversation:
    given = [_message(one) for one in item["messages" if "messages" in item else "conversations"]]
    plain = read_messages(given)
    named = text_in(item, "id", "conversation_id", "thread_id", "thread")
    if named is None:
        said = [one for one in plain if one.role in ("user", "assistant") and not one.blank]
        named = digest(*(part for one in said[:_NAMED_BY] for part in one.pair))
        met[named] += 1
        named += f"-{met[named]}" if met[named] > 1 else ""
    found = Conversation(
        source=source,
        id=named,
        title=text_in(item, "title", "name"),
        started=time_of(item.get("create_time") or item.get("created_at") or item.get("timestamp")),
    )
    for one in plain:
        if one.role not in ("user", "assistant"):
            found.left_out["tools" if one.role == "tool" else "system"] += 1
            continue
        message = given[one.position]
        key = text_in(message, "id") or f"{one.position}-{digest(one.content)}"
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
