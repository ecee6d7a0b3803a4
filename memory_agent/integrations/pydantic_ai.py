"""Pydantic AI over a memory, in this process or over HTTP: a capability that recalls and remembers, and a conversation store."""

from __future__ import annotations

import functools
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from pydantic import TypeAdapter
from pydantic_ai import DeferredToolRequests
from pydantic_ai.capabilities import AbstractCapability
from pydantic_ai.conversation_store import (
    ConversationConflict,
    ConversationEntry,
    ConversationRecord,
    ConversationStore,
)
from pydantic_ai.messages import (
    ModelMessagesTypeAdapter,
    ModelRequest,
    ModelResponse,
    SystemPromptPart,
    TextContent,
    UserPromptPart,
)
from pydantic_core import to_json

from memory_agent.domain import DEFAULT_TENANT
from memory_agent.errors import IdempotencyKeyReused, TurnForgotten
from memory_agent.integrations.shared import (
    all_turns,
    last_values,
    recalled,
    side_by_side,
    threads_in,
    to_its_end,
    turns_of,
    values_in,
)
from memory_agent.lazily import Recent

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from pydantic_ai import AgentRunResult, RunContext
    from pydantic_ai.messages import ModelMessage
    from pydantic_ai.models import ModelRequestContext

    from memory_agent.domain import TurnInput
    from memory_agent.integrations.shared import Kept, Memory, Service

    Entries = dict[str, ConversationEntry]


# --- words in messages ---------------------------------------------------------------------------------------
def said_by_user(message: ModelMessage) -> str:
    """The user's words in a message; empty where there are none. Images and files leave no trace."""
    if not isinstance(message, ModelRequest):
        return ""
    contents = [part.content for part in message.parts if isinstance(part, UserPromptPart)]
    pieces = [piece for given in contents for piece in ([given] if isinstance(given, str) else given)]
    texts = [piece.content if isinstance(piece, TextContent) else piece for piece in pieces]
    return "\n".join(text for text in texts if isinstance(text, str)).strip()


def said_by_model(message: ModelMessage) -> str:
    """The model's words in a message; empty where there are none, as of thoughts and calls of tools."""
    return "" if isinstance(message, ModelRequest) else (message.text or "").strip()


# --- the capability ------------------------------------------------------------------------------------------
class MemoryCapability(AbstractCapability[Any]):
    """Recalls before each request to the model, and remembers the exchange after the run: `Agent(…, capabilities=[…])`.

    What is recalled is a system prompt of that request alone: no history, no store and no turn holds it.
    """

    def __init__(self, memory_of: Callable[[RunContext[Any]], Memory], *, remember: bool = True) -> None:
        """`memory_of` says whose memory a run uses, such as `lambda run: service.agent(run.deps.user_id, run.conversation_id)`.

        `remember=False`: where a MemoryConversationStore keeps the messages, which remembers them.
        """
        self._memory_of, self._remember = memory_of, remember

    async def before_model_request(
        self, ctx: RunContext[Any], request_context: ModelRequestContext
    ) -> ModelRequestContext:
        """Add what should be remembered; nothing, while the memory is away."""
        messages = request_context.messages
        question = next(filter(None, map(said_by_user, reversed(messages))), "")
        shown = [*map(said_by_user, messages), *map(said_by_model, messages)]
        text = await recalled(self._memory_of(ctx), question, shown=shown)
        return replace(request_context, messages=_with(messages, text)) if text else request_context

    async def after_run(self, ctx: RunContext[Any], *, result: AgentRunResult[Any]) -> AgentRunResult[Any]:
        """Remember what the user said since the last answer, and this one. A repeat changes nothing."""
        answer = _answer(result.output)
        said = _unanswered(result.all_messages())
        if self._remember and said and answer:
            await self._memory_of(ctx).update_memory(
                "\n\n".join(said), answer, idempotency_key=f"pydantic-ai {result.run_id}"
            )
        return result


def _with(messages: list[ModelMessage], text: str) -> list[ModelMessage]:
    """The messages with a system prompt more, behind those that the first one begins with; they themselves stay as they are."""
    first, *others = messages
    if not isinstance(first, ModelRequest):
        return [ModelRequest([SystemPromptPart(text)]), *messages]
    parts = sorted(  # which leaves all others in their order
        [*first.parts, SystemPromptPart(text)], key=lambda part: not isinstance(part, SystemPromptPart)
    )
    return [replace(first, parts=parts), *others]


def _answer(output: object) -> str:
    """The answer as text: a structured one as JSON; empty for a run that waits for its tools."""
    if isinstance(output, DeferredToolRequests):
        return ""
    return output.strip() if isinstance(output, str) else to_json(output, fallback=str).decode()


def _unanswered(messages: Sequence[ModelMessage]) -> list[str]:
    """What the user said since the answer before the last one, oldest first; a run that was cancelled left some."""
    said: list[str] = []
    run_id: str | None = None
    for message in reversed(messages):
        # A structured answer of an earlier run is a call of a tool.
        is_over = said_by_model(message) or (isinstance(message, ModelResponse) and message.run_id != run_id)
        if said and is_over:
            break
        if text := said_by_user(message):
            said.append(text)
            run_id = message.run_id
    return said[::-1]


# --- the conversation store ----------------------------------------------------------------------------------
_RECORDS: Final = TypeAdapter(ConversationRecord)
_HEADS: Final = 10_000
"""Ends of histories of which the store knows where they are; those of others it looks for."""


@dataclass(frozen=True, kw_only=True)
class _Stored:
    """A record, the threads that its histories lie in, and the turn that says so."""

    record: ConversationRecord
    threads: tuple[str, ...]
    kept: Kept


class MemoryConversationStore(ConversationStore):
    """One user's conversations in a memory, each a thread: every message is a turn, which is searched and of which facts are made.

    A record is the thread's newest turn of that kind. It is written with the idempotency key of the one that it replaces, so
    that of several writers one wins, in whatever processes they are. `delete` erases the messages in every tier, but for those
    that forks need; a message that the memory was told to forget is the end of the history behind it.
    """

    def __init__(self, service: Service, user_id: str, *, tenant: str = DEFAULT_TENANT) -> None:
        self._service, self._user_id, self._tenant = service, user_id, tenant
        self._threads_of: Recent[str, tuple[str, ...]] = Recent(_HEADS)

    def _memory(self, conversation_id: str) -> Memory:
        return self._service.agent(self._user_id, conversation_id, tenant=self._tenant)

    # --- records -----------------------------------------------------------------------------------------
    async def read_record(self, conversation_id: str) -> ConversationRecord | None:
        """The record of a conversation; None if there is none."""
        stored = await self._stored(conversation_id)
        return stored.record if stored else None

    async def read_records(
        self, *, scope: str | None = None, limit: int | None = None
    ) -> Sequence[ConversationRecord]:
        """All of the user's records, those that were saved last first."""
        found = await side_by_side(self._stored(thread_id) for thread_id in await self._thread_ids())
        records = [stored.record for stored in found if stored and scope in (None, stored.record.scope)]
        return sorted(records, key=lambda record: record.updated_at, reverse=True)[:limit]

    async def write_record(
        self,
        record: ConversationRecord,
        *,
        new_entries: Sequence[ConversationEntry] = (),
        expected_revision: str | None,
    ) -> None:
        """Store the entries, then the record; of a conflict neither stays. Raises ConversationConflict if another record stands than is expected."""
        before = await self._expected(record.conversation_id, expected_revision)
        source = before or (await self._stored(record.forked_from) if record.forked_from else None)
        threads = tuple(dict.fromkeys((record.conversation_id, *(source.threads if source else ()))))
        value = {"record": _RECORDS.dump_python(record, mode="json"), "threads": threads}
        said = [turn for entry in new_entries for turn in _turns(entry)]
        await to_its_end(self._replace(record.conversation_id, before, value, said))
        self._note(record, threads)
        known = {None, before.record.head_id if before else None, *(entry.id for entry in new_entries)}
        if record.head_id not in known and record.head_id not in await self._entries(threads):
            # What it points into was deleted meanwhile.
            await self.delete_record(record.conversation_id, expected_revision=record.revision)
            raise ConversationConflict(record.conversation_id)

    async def delete_record(self, conversation_id: str, *, expected_revision: str) -> None:
        """Erase a conversation, but for entries that forks of it reach. Raises ConversationConflict as `write_record` does."""
        before = await self._expected(conversation_id, expected_revision)
        if before is None:
            raise ConversationConflict(conversation_id)
        await to_its_end(self._delete(conversation_id, before))

    async def _delete(self, conversation_id: str, before: _Stored) -> None:
        turns = await all_turns(self._memory(conversation_id))
        mark = await self._replace(conversation_id, before, None)
        needed: set[str] = set()
        for other in await side_by_side(self._stored(thread_id) for thread_id in await self._thread_ids()):
            if other and conversation_id in other.threads:
                entries = await self._entries(other.threads)
                for tip in (other.record.head_id, *other.record.branches):
                    needed |= {entry.id for entry in _line(entries, tip)}
        own = (kept for kept in values_in(turns) if "kind" in kept.turn.metadata)
        erased = [turn_id for kept in own if _entry_id(kept) not in needed for turn_id in kept.turn_ids]
        begun = [turn.id for turn in turns if turn.metadata.get("kind") == "beginning"]
        await self._forget(conversation_id, [*begun, *erased, *mark])

    async def _expected(self, conversation_id: str, expected_revision: str | None) -> _Stored | None:
        stored = await self._stored(conversation_id)
        if (stored.record.revision if stored else None) != expected_revision:
            raise ConversationConflict(conversation_id)
        return stored

    async def _replace(
        self, conversation_id: str, before: _Stored | None, value: Any, said: Sequence[TurnInput] = ()
    ) -> list[str]:
        """Store what is said, then a record in the place of the one before; its turns' ids. Raises ConversationConflict for
        whoever is second, of whom nothing stays."""
        memory = self._memory(conversation_id)
        replaced = before.kept.turn.id if before else await _beginning(memory)
        entries = await memory.add_turns(said) if said else []
        record = turns_of("tool", "[conversation]", value, kind="record")
        try:
            stored = await memory.add_turns(record, idempotency_key=f"pydantic-ai after {replaced}")
        except (IdempotencyKeyReused, TurnForgotten) as exc:
            await self._forget(conversation_id, [turn.id for turn in entries])
            raise ConversationConflict(conversation_id) from exc
        if before:
            await self._forget(conversation_id, before.kept.turn_ids)
        return [turn.id for turn in stored]

    async def _forget(self, conversation_id: str, turn_ids: Sequence[str]) -> None:
        for start in range(0, len(turn_ids), _HEADS):
            await self._memory(conversation_id).forget(turn_ids[start : start + _HEADS])

    async def _stored(self, conversation_id: str) -> _Stored | None:
        memory = self._memory(conversation_id)
        kept = _newest_record(await last_values(memory, 2))
        if kept is None:  # others may have added turns since
            kept = _newest_record(values_in(await all_turns(memory)))
        if kept is None or kept.value is None:
            return None
        record = _RECORDS.validate_python(kept.value["record"])
        self._note(record, tuple(kept.value["threads"]))
        return _Stored(record=record, threads=tuple(kept.value["threads"]), kept=kept)

    async def _thread_ids(self) -> list[str]:
        threads = functools.partial(self._service.threads, self._user_id, tenant=self._tenant)
        return [thread.thread_id async for thread in threads_in(threads)]

    # --- histories ---------------------------------------------------------------------------------------
    async def read_history(self, head_id: str | None, *, limit: int | None = None) -> list[ConversationEntry]:
        """The entries up to `head_id`, oldest first, or the last `limit` of them."""
        if head_id is None or limit == 0:
            return []
        history = list(_line(await self._entries(await self._where(head_id)), head_id))[::-1]
        return history[-limit:] if limit else history

    async def read_entry(self, entry_id: str) -> ConversationEntry:
        """One entry. Raises KeyError if no conversation of the user has it."""
        return (await self._entries(await self._where(entry_id)))[entry_id]

    async def _where(self, entry_id: str) -> Iterable[str]:
        return self._threads_of.get(entry_id) or await self._thread_ids()

    async def _entries(self, threads: Iterable[str]) -> Entries:
        read = await side_by_side(all_turns(self._memory(thread_id)) for thread_id in threads)
        kept = (
            each for turns in read for each in values_in(turns) if each.turn.metadata.get("kind") == "entry"
        )
        return {each.value["id"]: _entry(each.value) for each in kept}

    def _note(self, record: ConversationRecord, threads: tuple[str, ...]) -> None:
        """Know where the record's histories are when they are read next."""
        for tip in (record.head_id, *record.branches):
            if tip is not None:
                self._threads_of.put(tip, threads)


async def _beginning(memory: Memory) -> str:
    """The id of the turn that a conversation's first record takes the place of: the same for all who begin it at once."""
    begun = 0
    while True:
        key = f"pydantic-ai new {begun}"
        try:
            turn = await memory.add_turn(
                "tool", "[conversation]", metadata={"kind": "beginning"}, idempotency_key=key
            )
        except TurnForgotten:  # there was such a conversation, which was deleted
            begun += 1
            continue
        return turn.id


def _newest_record(kept: Iterable[Kept]) -> Kept | None:
    return next((each for each in reversed(list(kept)) if each.turn.metadata.get("kind") == "record"), None)


def _turns(entry: ConversationEntry) -> list[TurnInput]:
    """The turns that keep an entry: its message as what the user or the model said in it."""
    (message,) = ModelMessagesTypeAdapter.dump_python([entry.message], mode="json")
    value = {"id": entry.id, "parent_id": entry.parent_id, "message": message}
    said, answered = said_by_user(entry.message), said_by_model(entry.message)
    role: Any = "user" if said else "assistant" if answered else "tool"
    return turns_of(role, said or answered or f"[{entry.message.kind}]", value, kind="entry")


def _entry(value: dict[str, Any]) -> ConversationEntry:
    (message,) = ModelMessagesTypeAdapter.validate_python([value["message"]])
    return ConversationEntry(id=value["id"], parent_id=value["parent_id"], message=message)


def _entry_id(kept: Kept) -> str | None:
    return kept.value["id"] if kept.turn.metadata["kind"] == "entry" else None


def _line(entries: Entries, tip: str | None) -> Iterator[ConversationEntry]:
    """The entries from `tip` back to the first, or to one that was forgotten."""
    while tip is not None and tip in entries:
        yield entries[tip]
        tip = entries[tip].parent_id


__all__ = ["MemoryCapability", "MemoryConversationStore"]
