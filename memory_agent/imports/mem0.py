"""mem0's memories, as `get_all` gives them or its platform exports them: sentences about a user."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from memory_agent.errors import InvalidInput
from memory_agent.imports.values import Conversation, Unreadable, digest, text_in

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator


def memories(items: Iterable[tuple[str, Any]], *, user_id: str) -> Iterator[Conversation | Unreadable]:
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
