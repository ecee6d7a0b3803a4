"""LangGraph and LangChain over a memory, in this process or over HTTP: their store, middleware and retriever.

All are made where an event loop runs, the service's, and stay with it: other threads and loops ask through it.
"""

from __future__ import annotations

import functools
import json
import operator
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final, cast

from langchain.agents.middleware import AgentMiddleware
from langchain_core.documents import Document
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage
from langchain_core.retrievers import BaseRetriever
from langgraph.store.base import (
    BaseStore,
    GetOp,
    Item,
    ListNamespacesOp,
    MatchCondition,
    Op,
    PutOp,
    Result,
    SearchItem,
    SearchOp,
    get_text_at_path,
    validate_op_namespace,
)
from pydantic import PrivateAttr

from memory_agent.agent.arguments import checked_count
from memory_agent.checks import has_visible
from memory_agent.domain import VERBATIM
from memory_agent.errors import InvalidInput
from memory_agent.integrations.shared import (
    AT_ONCE,
    Loop,
    compares,
    joined,
    recalled,
    side_by_side,
    threads_in,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from memory_agent.domain import Recollection, ThreadSummary, Turn
    from memory_agent.integrations.shared import Memory, Service

    Namespace = tuple[str, ...]
    from collections.abc import Awaitable

    from langchain.agents.middleware import AgentState, ModelRequest, ModelResponse
    from langchain_core.callbacks import AsyncCallbackManagerForRetrieverRun, CallbackManagerForRetrieverRun
    from langchain_core.messages import AnyMessage
    from langgraph.runtime import Runtime


# --- LangGraph's store ---------------------------------------------------------------------------------------
_PAGE: Final = 1_000
"""The most that a service tells of its people at a time."""


@dataclass(frozen=True, kw_only=True)
class _Stored:
    """An item, and the turn that keeps it."""

    item: Item
    turn: Turn

    @property
    def expired(self) -> bool:
        ends = self.turn.metadata["expires_at"]
        return ends is not None and datetime.fromisoformat(ends) <= datetime.now(UTC)


class MemoryStore(BaseStore):
    """A LangGraph store in a memory. `query=` searches by meaning and by word.

    A namespace is a user of the memory, by the id `name.label.label`, and an item a thread of that user, by its key; the newest
    turn of it is the item. So namespaces are kept apart as users are, and an item is read by its key however many there are.
    A put adds a turn and then forgets those before it; of two at once the later one stays, whole. Vectors follow in
    the background; until then words find it.

    Values are JSON of at most 100,000 characters, keys text of at most 512. Raises InvalidInput for others.
    """

    supports_ttl = True

    def __init__(
        self,
        service: Service,
        *,
        name: str = "langgraph",
        fields: Sequence[str] | None = None,
        default_ttl: float | None = None,
    ) -> None:
        """`name`: with what the ids of its users begin; stores of different names are apart. Without a dot.

        `fields`: paths of a value (such as `text` or `notes[*].body`) that are searched; None: all text in it. `default_ttl`:
        minutes that an item is kept after its last put; None for ever. Reading does not lengthen that.
        """
        if not name or "." in name:
            raise InvalidInput(f"name is {name!r:.80}; pass a name without dots")
        self._service, self._name, self._fields = service, name, fields
        self._loop = Loop("MemoryStore")
        self.ttl_config = {"refresh_on_read": False, "default_ttl": default_ttl}

    def batch(self, ops: Iterable[Op]) -> list[Result]:
        """`abatch` from a thread without an event loop; raises InvalidInput on one with."""
        return self._loop.wait(self._batch(list(ops)))

    async def abatch(self, ops: Iterable[Op]) -> list[Result]:
        """Run the operations: reads first, then puts; of several puts of one item the last."""
        return await self._loop.reach(self._batch(list(ops)))

    async def _batch(self, ops: list[Op]) -> list[Result]:
        for op in ops:
            validate_op_namespace(op)
            if isinstance(op, SearchOp | ListNamespacesOp):
                checked_count("limit", op.limit)
                checked_count("offset", op.offset)
        puts = {(op.namespace, op.key): op for op in ops if isinstance(op, PutOp)}
        results = await side_by_side(self._read(op) for op in ops)
        await side_by_side(self._put(op) for op in puts.values())
        return results

    async def _read(self, op: Op) -> Result:
        match op:
            case GetOp():
                stored = await self._stored(op.namespace, op.key)
                return stored.item if stored else None
            case SearchOp():
                return cast(
                    "Result", await (self._search(op) if (op.query or "").strip() else self._list(op))
                )
            case ListNamespacesOp():
                return await self._list_namespaces(op)
        return None

    # --- one item ----------------------------------------------------------------------------------------
    def _user_id(self, namespace: Namespace) -> str:
        return ".".join((self._name, *namespace))

    def _memory(self, namespace: Namespace, key: str) -> Memory:
        return self._service.agent(self._user_id(namespace), key)

    async def _stored(self, namespace: Namespace, key: str) -> _Stored | None:
        """The item as its newest turn says; None if there is none, or its time is over."""
        memory = self._memory(namespace, key)
        turns = await memory.fetch_short_term(1)
        if not turns:
            return None
        (turn,) = turns
        item = Item(
            value=dict(turn.metadata[VERBATIM]),
            key=key,
            namespace=namespace,
            created_at=datetime.fromisoformat(turn.metadata["created_at"]),
            updated_at=turn.timestamp,
        )
        stored = _Stored(item=item, turn=turn)
        if not stored.expired:
            return stored
        await memory.forget([turn.id])  # and not what was put meanwhile
        return None

    async def _put(self, op: PutOp) -> None:
        memory = self._memory(op.namespace, op.key)
        if op.value is None:
            await memory.clear()
            return
        before = await self._stored(op.namespace, op.key)
        now = datetime.now(UTC)
        text = "" if op.index is False else self._text(op.value, op.index or self._fields)
        searched = has_visible(text)
        turn = await memory.add_turn(
            "tool",
            text if searched else "-",
            timestamp=now,
            metadata={
                VERBATIM: dict(op.value),
                "created_at": (before.item.created_at if before else now).isoformat(),
                "expires_at": None if op.ttl is None else (now + timedelta(minutes=op.ttl)).isoformat(),
                "searched": searched,
            },
        )
        if turn.seq > 1:
            page = await memory.history(limit=_PAGE)
            older = [each.id for each in page.turns if each.seq < turn.seq]
            if older:
                await memory.forget(older)

    @staticmethod
    def _text(value: Mapping[str, Any], fields: Sequence[str] | None) -> str:
        if fields is None or "$" in fields:
            return "\n".join(_texts(value))
        return "\n".join(text for path in fields for text in get_text_at_path(value, path))

    # --- many items --------------------------------------------------------------------------------------
    async def _namespaces(self, prefix: Namespace) -> list[Namespace]:
        """The namespaces that hold anything and begin with these labels, by rising id."""
        below = f"{self._user_id(prefix)}."
        found: list[Namespace] = []
        if prefix:
            own = await self._service.users(user_id=below[:-1])
            found += [prefix for user in own.users if user.turns]
        after: str | None = below
        limit = 1  # most namespaces have none below them, and a page counts the turns of all that are on it
        while after is not None:
            page = await self._service.users(after=after, limit=limit)
            ours = [user for user in page.users if user.user_id.startswith(below)]
            found += [tuple(user.user_id.split(".")[1:]) for user in ours if user.turns]
            after, limit = (page.next, 100) if len(ours) == len(page.users) else (None, 0)
        return found

    async def _list_namespaces(self, op: ListNamespacesOp) -> list[Namespace]:
        found = {
            namespace[: op.max_depth]
            for namespace in await self._namespaces(())
            if all(_matches(namespace, condition) for condition in op.match_conditions or ())
        }
        return sorted(found)[op.offset : op.offset + op.limit]

    async def _list(self, op: SearchOp) -> list[SearchItem]:
        """Items without a question: those that were put last first."""
        keys: list[tuple[Namespace, ThreadSummary]] = []
        for namespace in await self._namespaces(op.namespace_prefix):
            threads = threads_in(functools.partial(self._service.threads, self._user_id(namespace)))
            keys += [(namespace, one) async for one in threads if one.last_activity is not None]
        keys.sort(key=lambda key: cast("datetime", key[1].last_activity), reverse=True)
        found: list[SearchItem] = []
        for start in range(0, len(keys), AT_ONCE):
            if len(found) >= op.offset + op.limit:
                break
            some = keys[start : start + AT_ONCE]
            read = await side_by_side(self._stored(namespace, thread.thread_id) for namespace, thread in some)
            found += [_search_item(each.item) for each in read if each and _passes(each.item, op.filter)]
        return found[op.offset : op.offset + op.limit]

    async def _search(self, op: SearchOp) -> list[SearchItem]:
        """Items that answer the question, best first; those of several namespaces by their confidence."""
        namespaces = await self._namespaces(op.namespace_prefix)
        found = await side_by_side(self._search_one(namespace, op) for namespace in namespaces)
        items = [item for of_one in found for item in of_one]
        if len(namespaces) > 1:
            items.sort(key=lambda item: item.score or 0.0, reverse=True)
        return items[op.offset : op.offset + op.limit]

    async def _search_one(self, namespace: Namespace, op: SearchOp) -> list[SearchItem]:
        wanted = top_k = op.offset + op.limit
        while True:
            hits = await self._service.search(self._user_id(namespace), op.query or "", top_k)
            items = [item for item in await side_by_side(self._hit(namespace, hit) for hit in hits) if item]
            items = [item for item in items if _passes(item, op.filter)]
            if len(items) >= wanted or len(hits) < top_k:
                return items[:wanted]
            top_k *= 4  # a filter left out too many

    async def _hit(self, namespace: Namespace, hit: Recollection) -> SearchItem | None:
        """The item that was found; None if the turn is not the item any more, or not to be searched."""
        stored = await self._stored(namespace, hit.turn.thread_id)
        if stored is None or stored.turn.id != hit.turn.id or not hit.turn.metadata["searched"]:
            return None
        return _search_item(stored.item, hit.confidence)


def _search_item(item: Item, score: float | None = None) -> SearchItem:
    return SearchItem(
        namespace=item.namespace,
        key=item.key,
        value=item.value,
        created_at=item.created_at,
        updated_at=item.updated_at,
        score=score,
    )


def _texts(value: object) -> list[str]:
    """All text and numbers in a value, in order.

    >>> _texts({"title": "Trip", "days": [{"to": "Porto"}, 3], "paid": True})
    ['Trip', 'Porto', '3']
    """
    if isinstance(value, Mapping):
        return [text for each in value.values() for text in _texts(each)]
    if isinstance(value, list | tuple):
        return [text for each in value for text in _texts(each)]
    return [str(value)] if isinstance(value, str | int | float) and not isinstance(value, bool) else []


def _matches(namespace: Namespace, condition: MatchCondition) -> bool:
    """True if the namespace begins or ends with the labels of the condition, of which `*` is any one."""
    path = condition.path
    if len(namespace) < len(path):
        return False
    part = (
        namespace[: len(path)]
        if condition.match_type == "prefix"
        else namespace[len(namespace) - len(path) :]
    )
    return all(wanted in ("*", label) for label, wanted in zip(part, path, strict=True))


_COMPARED: Final[Mapping[str, Callable[[Any, Any], bool]]] = {
    "$eq": operator.eq,
    "$ne": operator.ne,
    "$gt": operator.gt,
    "$gte": operator.ge,
    "$lt": operator.lt,
    "$lte": operator.le,
}


def _passes(item: Item, wanted: Mapping[str, Any] | None) -> bool:
    """True if the item's value is as the filter says.

    Raises InvalidInput for an operator that there is not.
    """
    return all(_holds(item.value.get(name), test) for name, test in (wanted or {}).items())


def _holds(value: object, test: object) -> bool:
    if not isinstance(test, Mapping) or not any(str(name).startswith("$") for name in test):
        return value == test
    return compares(value, test, _COMPARED)


# --- LangChain's middleware ----------------------------------------------------------------------------------
class MemoryMiddleware(AgentMiddleware[Any, Any, Any]):
    """Recalls before each call of the model, and remembers the exchange after the run.

    For `ainvoke` and `astream`.

    What is recalled goes into the system message of that request alone: no state, no checkpoint and no turn holds it.
    """

    def __init__(self, memory_of: Callable[[Runtime[Any]], Memory]) -> None:
        """`memory_of` says whose memory a run uses, such as
        `lambda run: service.agent(run.context.user_id, run.execution_info.thread_id)`.
        """
        super().__init__()
        self._loop = Loop("MemoryMiddleware")
        self._memory_of = memory_of

    async def awrap_model_call(
        self,
        request: ModelRequest[Any],
        handler: Callable[[ModelRequest[Any]], Awaitable[ModelResponse[Any]]],
    ) -> ModelResponse[Any]:
        """Call the model with what it should remember; without, while the memory is away."""
        question = next((_said(each) for each in reversed(request.messages) if _is_users(each)), "")
        shown = map(_said, request.messages)
        text = await self._loop.reach(recalled(self._memory_of(request.runtime), question, shown=shown))
        if text:
            request = request.override(system_message=_with(request.system_message, text))
        return await handler(request)

    async def aafter_agent(self, state: AgentState[Any], runtime: Runtime[Any]) -> None:
        """Remember what was said since the last answer, and this one. A repeat changes nothing."""
        schema = type(state.get("structured_response")).__name__
        said, answer = _exchange(state["messages"], schema)
        if said and answer is not None:
            await self._loop.reach(
                self._memory_of(runtime).update_memory(
                    "\n\n".join(_said(each) for each in said),
                    _said(answer) or _structured(answer, schema),
                    idempotency_key=f"langchain {said[-1].id} {answer.id}",
                )
            )


def _with(given: SystemMessage | None, text: str) -> SystemMessage:
    """The application's system message with what was recalled after it; its beginning stays as prompt caches know it."""
    own = given.content if given else ""
    if isinstance(own, str):
        return SystemMessage(joined(own, text))
    return SystemMessage([*own, {"type": "text", "text": text}])


def _is_users(message: AnyMessage) -> bool:
    """True for what the user said; SummarizationMiddleware writes what it sums up as if it were the user."""
    return isinstance(message, HumanMessage) and "lc_source" not in message.additional_kwargs


def _said(message: AnyMessage) -> str:
    return str(message.text).strip()


def _structured(message: AIMessage, schema: str) -> str:
    """The answer in a call of the schema's tool, by which ToolStrategy has a model answer."""
    return next((json.dumps(call["args"]) for call in message.tool_calls if call["name"] == schema), "")


def _exchange(messages: Sequence[AnyMessage], schema: str) -> tuple[list[AnyMessage], AIMessage | None]:
    """The last answer, and the user's messages that no answer stands between; a run that was cancelled left some."""
    answer: AIMessage | None = None
    said: list[AnyMessage] = []
    for message in reversed(messages):
        if isinstance(message, AIMessage) and (
            (_said(message) and not message.tool_calls) or _structured(message, schema)
        ):
            if answer is not None or said:
                break
            answer = message
        elif _is_users(message) and _said(message):
            said.append(message)
    return said[::-1], answer


# --- LangChain's retriever -----------------------------------------------------------------------------------
class MemoryRetriever(BaseRetriever):
    """The turns of a memory as documents, best first: `MemoryRetriever(memory=service.agent("ada", "holidays"), k=5)`.

    `memory`: a MemoryAgent or MemoryClient. `k`: how many turns at most; `invoke(question, k=3)` for one question.
    """

    memory: Any
    k: int = 5
    _loop: Loop = PrivateAttr(default_factory=lambda: Loop("MemoryRetriever"))

    def _get_relevant_documents(
        self, query: str, *, run_manager: CallbackManagerForRetrieverRun, k: int | None = None
    ) -> list[Document]:
        return self._loop.wait(self._documents(query, k))

    async def _aget_relevant_documents(
        self, query: str, *, run_manager: AsyncCallbackManagerForRetrieverRun, k: int | None = None
    ) -> list[Document]:
        return await self._loop.reach(self._documents(query, k))

    async def _documents(self, query: str, k: int | None) -> list[Document]:
        found: list[Recollection] = await self.memory.fetch_long_term(query, self.k if k is None else k)
        return [_document(each) for each in found]


def _document(found: Recollection) -> Document:
    turn = found.turn
    return Document(
        id=turn.id,
        page_content=turn.shown,
        metadata={
            **turn.metadata,
            "role": turn.role,
            "speaker": turn.speaker,
            "timestamp": turn.timestamp.isoformat(),
            "thread_id": turn.thread_id,
            "score": found.score,
            "confidence": found.confidence,
        },
    )


__all__ = ["MemoryMiddleware", "MemoryRetriever", "MemoryStore"]
