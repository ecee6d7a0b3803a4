"""mem0's calls over this memory: `from memory_agent.integrations.mem0 import Memory` in place of `from mem0 import Memory`.

Nothing waits for a language model. What is different stands in docs/mem0.md.
"""

from __future__ import annotations

import asyncio
import base64
import functools
import hashlib
import json
import logging
import operator
import os
import threading
import weakref
from concurrent.futures import Future
from contextlib import AsyncExitStack
from dataclasses import dataclass
from datetime import UTC, date, datetime
from typing import TYPE_CHECKING, Any, Concatenate, Final, ParamSpec, Self, TypeVar

from memory_agent.checks import MAX_METADATA_CHARS, is_number, is_whole
from memory_agent.domain import DEFAULT_TENANT, TurnInput
from memory_agent.errors import IdempotencyKeyReused, InvalidInput, NotFound, NotOpen, TurnForgotten
from memory_agent.integrations.shared import compares, threads_in, turns_in
from memory_agent.messages import read_messages

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from types import TracebackType

    from memory_agent.config import MemoryConfig
    from memory_agent.domain import Turn
    from memory_agent.integrations.shared import Memory as Agent
    from memory_agent.integrations.shared import Service

    Record = dict[str, Any]
    from collections.abc import Coroutine

    _Running = tuple[asyncio.AbstractEventLoop, asyncio.Event]

# --- records in mem0's shape: ids that say where a turn is kept, owners, and mem0's filters ------------------
OWNERS: Final = ("user_id", "agent_id", "run_id")
THREAD: Final = "mem0"
"""Of what belongs to no run; a run's is `mem0:RUN`."""
_PROMOTED: Final = (*OWNERS, "actor_id", "role", "expiration_date")
ROOT: Final = "mem0_id"
VERSIONS: Final = "mem0_versions"
"""Of an updated memory: the id it keeps, and its earlier texts with the times from which they held."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Owner:
    """Whose memory one is. The user is `user_id`, or without one the agent or the run."""

    user_id: str | None = None
    agent_id: str | None = None
    run_id: str | None = None

    @classmethod
    def of(cls, given: Mapping[str, Any]) -> Owner:
        """From the ids among `given`. Raises InvalidInput if there are none, or empty ones."""
        ids = {name: _checked(name, given[name]) for name in OWNERS if given.get(name) is not None}
        if not ids:
            raise InvalidInput(
                "At least one of user_id, agent_id, run_id must be given: to search and get_all in filters, such as filters={'user_id': 'u1'}"
            )
        return cls(**ids)

    @property
    def user(self) -> str:
        """The user of the memory behind."""
        if self.user_id is not None:
            return self.user_id
        return f"agent:{self.agent_id}" if self.agent_id is not None else f"run:{self.run_id}"

    @property
    def thread(self) -> str:
        """The thread in which what is added is kept."""
        return THREAD if self.run_id is None else f"{THREAD}:{self.run_id}"

    @property
    def ids(self) -> dict[str, str]:
        given = {name: getattr(self, name) for name in OWNERS}
        return {name: value for name, value in given.items() if value is not None}


def _checked(name: str, value: object) -> str:
    text = str(value).strip()
    if not text or any(char.isspace() for char in text):
        raise InvalidInput(f"Invalid {name}: {value!r:.80}. It must be text without blanks in it")
    return text


def is_ours(thread_id: str) -> bool:
    """True of threads that hold such memories."""
    return thread_id == THREAD or thread_id.startswith(f"{THREAD}:")


# --- ids -----------------------------------------------------------------------------------------------------
@dataclass(frozen=True, kw_only=True, slots=True)
class Place:
    """Where a memory is kept, or was before it was updated."""

    user: str
    thread: str
    seq: int
    turn_id: str

    @classmethod
    def read(cls, memory_id: object) -> Place | None:
        """From a memory's id; None for what is none."""
        try:
            encoded = str(memory_id).encode()
            user, thread, seq, turn_id = json.loads(
                base64.urlsafe_b64decode(encoded + b"=" * (-len(encoded) % 4))
            )
        except (ValueError, TypeError):
            return None
        known = isinstance(user, str) and isinstance(thread, str) and isinstance(turn_id, str)
        if not known or type(seq) is not int or seq < 1 or not is_ours(thread):
            return None
        return cls(user=user, thread=thread, seq=seq, turn_id=turn_id)


def id_of(turn: Turn) -> str:
    """The id of the memory that a turn is: the same after an update."""
    root: str | None = turn.metadata.get(ROOT)
    if root is not None:
        return root
    where = json.dumps([turn.scope.tenants_user_id, turn.thread_id, turn.seq, turn.id], ensure_ascii=False)
    return base64.urlsafe_b64encode(where.encode()).decode().rstrip("=")


# --- records -------------------------------------------------------------------------------------------------
def record_of(turn: Turn, **more: Any) -> dict[str, Any]:
    """A memory as mem0 shows it."""
    payload = payload_of(turn)
    held = turn.metadata.get(VERSIONS) or []
    own = {name: value for name, value in turn.metadata.items() if name not in (*_PROMOTED, ROOT, VERSIONS)}
    return {
        "id": id_of(turn),
        "memory": turn.content,
        "hash": hashlib.md5(turn.content.encode(), usedforsecurity=False).hexdigest(),
        "metadata": own or None,
        **more,
        "created_at": held[0]["at"] if held else turn.timestamp.isoformat(),
        "updated_at": turn.timestamp.isoformat(),
        **{name: payload[name] for name in _PROMOTED if name in payload},
    }


def added(turn: Turn) -> dict[str, Any]:
    """The record that `add` gives of a memory."""
    said = {"id": id_of(turn), "memory": turn.content, "event": "ADD"}
    return {**said, "actor_id": turn.speaker, "role": turn.role}


def free(metadata: Mapping[str, Any] | None) -> dict[str, Any]:
    """Metadata without what says whose a memory is: that is told by arguments alone."""
    kept = (*OWNERS, "actor_id", "role", ROOT, VERSIONS)
    return {name: value for name, value in (metadata or {}).items() if name not in kept}


def with_version(metadata: dict[str, Any], turn: Turn) -> dict[str, Any]:
    """Metadata with the turn's text among the earlier versions: of these as many of the newest as it has room for.

    The first always stays, shortened if need be: it says since when there is the memory.
    """
    said = {"text": turn.content, "at": turn.timestamp.isoformat()}
    versions: list[dict[str, Any]] = [*(turn.metadata.get(VERSIONS) or []), said]
    first, others = versions[0], versions[1:]
    held = {**metadata, VERSIONS: [first, *others]}
    while others and len(repr(held)) > MAX_METADATA_CHARS:
        del others[0]
        held[VERSIONS] = [first, *others]
    while first["text"] and len(repr(held)) > MAX_METADATA_CHARS:
        first = {**first, "text": first["text"][: len(first["text"]) // 2]}
        held[VERSIONS] = [first]
    return held


def payload_of(turn: Turn) -> dict[str, Any]:
    """The values that filters look at."""
    speaker = {} if turn.speaker is None else {"actor_id": turn.speaker}
    return {**turn.metadata, "role": turn.role, **speaker}


def history_of(turn: Turn) -> list[dict[str, Any]]:
    """The changes of a memory as mem0 lists them, oldest first."""
    held = [*(turn.metadata.get(VERSIONS) or []), {"text": turn.content, "at": turn.timestamp.isoformat()}]
    return [
        {
            "id": f"{id_of(turn)}.{number}",
            "memory_id": id_of(turn),
            "old_memory": held[number - 1]["text"] if number else None,
            "new_memory": version["text"],
            "event": "UPDATE" if number else "ADD",
            "created_at": held[0]["at"],
            "updated_at": version["at"],
            "is_deleted": False,
            "actor_id": turn.speaker,
            "role": turn.role,
        }
        for number, version in enumerate(held)
    ]


def expiry(value: object) -> str | None:
    """A day as `YYYY-MM-DD`. Raises InvalidInput."""
    if value is None:
        return None
    if isinstance(value, datetime):
        value = value.date()
    try:
        return value.isoformat() if isinstance(value, date) else date.fromisoformat(str(value)).isoformat()
    except ValueError:
        raise InvalidInput(f"expiration_date is {value!r:.80}; pass a date as YYYY-MM-DD") from None


def is_over(turn: Turn, today: date | None = None) -> bool:
    """True if the memory's last day is past."""
    last = turn.metadata.get("expiration_date")
    try:
        return last is not None and date.fromisoformat(str(last)[:10]) < (today or datetime.now(UTC).date())
    except ValueError:  # somebody's own metadata of this name, which is no day
        return False


# --- filters ---------------------------------------------------------------------------------------------------
_COMPARED: Final[Mapping[str, Callable[[Any, Any], bool]]] = {
    "eq": operator.eq,
    "ne": operator.ne,
    "gt": operator.gt,
    "gte": operator.ge,
    "lt": operator.lt,
    "lte": operator.le,
    "contains": operator.contains,
    "in": lambda value, other: value in other,
    "nin": lambda value, other: value not in other,
    "icontains": lambda value, other: value is not None and str(other).casefold() in str(value).casefold(),
}
_MISSING: Final = object()


def passes(payload: Mapping[str, Any], wanted: Mapping[str, Any]) -> bool:
    """True if all of mem0's conditions hold. Raises InvalidInput for one that there isn't."""
    return all(_holds(payload, name, test) for name, test in wanted.items())


def _holds(payload: Mapping[str, Any], name: str, test: Any) -> bool:
    if name in ("AND", "OR", "NOT"):
        if not isinstance(test, list) or not test:
            raise InvalidInput(f"{name} takes a list of conditions, not {test!r:.80}")
        found = [passes(payload, each) for each in test]
        return all(found) if name == "AND" else any(found) if name == "OR" else not any(found)
    value = payload.get(name, _MISSING)
    if test == "*":
        return value is not _MISSING
    if not isinstance(test, dict):
        return bool(value == test)
    return compares(None if value is _MISSING else value, test, _COMPARED)


# --- mem0's asynchronous calls: a message is a memory, word for word -----------------------------------------
log = logging.getLogger(__name__)

_PAGE: Final = 1_000
_UNSET: Final = object()
_PROCEDURAL: Final = "procedural_memory"


class AsyncMemory:
    """mem0's AsyncMemory.

    Opens the service of these settings at the first call, unless an open one is given.

    With the setting `service_url` that is a running service. `async with` or `await close()` closes what it has opened.
    """

    def __init__(
        self,
        config: MemoryConfig | None = None,
        *,
        service: Service | None = None,
        tenant: str = DEFAULT_TENANT,
    ) -> None:
        self._config, self._given, self._tenant = config, service, tenant
        self._own: Service | None = None
        self._stack = AsyncExitStack()
        self._opening = asyncio.Lock()

    @classmethod
    def from_config(cls, config_dict: Mapping[str, Any]) -> Self:
        """From mem0's dict: the language model of provider `openai` is taken over, of other sections a warning is logged."""
        return cls(settings_of(config_dict))

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Close the service that was opened here. Another call opens it again."""
        async with self._opening:
            self._own = None
            await self._stack.aclose()

    # --- write -------------------------------------------------------------------------------------------
    async def add(
        self,
        messages: str | dict[str, Any] | list[dict[str, Any]],
        *,
        user_id: str | None = None,
        agent_id: str | None = None,
        run_id: str | None = None,
        metadata: Mapping[str, Any] | None = None,
        expiration_date: Any = None,
        infer: bool = True,
        memory_type: str | None = None,
        prompt: str | None = None,
    ) -> dict[str, list[Record]]:
        """Remember each message that is not the system's: `{"results": [{"id", "memory", "event": "ADD", …}]}`.

        `infer` and `prompt` change nothing: facts are extracted in the background, as the service's settings say.
        """
        if memory_type not in (None, _PROCEDURAL):
            raise InvalidInput(
                f"Invalid 'memory_type'. Please pass {_PROCEDURAL} to create procedural memories."
            )
        owner = Owner.of({"user_id": user_id, "agent_id": agent_id, "run_id": run_id})
        if not isinstance(messages, str | dict | list):
            raise InvalidInput(f"messages is {messages!r:.80}; pass text, a message, or a list of messages")
        if not isinstance(messages, list):
            messages = [messages if isinstance(messages, dict) else {"role": "user", "content": messages}]
        said = read_messages(messages)
        last_day = expiry(expiration_date)
        held: dict[str, Any] = {**free(metadata), **owner.ids}
        if last_day is not None:
            held["expiration_date"] = last_day
        turns = [
            TurnInput(
                role=each.role,
                content=each.content,
                speaker=messages[each.position].get("name") or None,
                metadata=held,
            )
            for each in said
            if each.role != "system" and not each.blank
        ]
        if not turns:
            return {"results": []}
        stored = await (await self._thread(owner.user, owner.thread)).add_turns(turns)
        return {"results": [added(turn) for turn in stored]}

    async def update(
        self,
        memory_id: str,
        text: str | None = None,
        metadata: Mapping[str, Any] | None = None,
        expiration_date: Any = _UNSET,
        data: str | None = None,
    ) -> dict[str, str]:
        """Replace a memory's text or metadata; its id stays, and `history` has the earlier texts.

        Raises NotFound.
        """
        text = data if text is None else text
        if text is None and metadata is None and expiration_date is _UNSET:
            raise InvalidInput("At least one of text, metadata, or expiration_date must be provided.")
        turn = await self._found(memory_id)
        while True:
            held = {**turn.metadata, **free(metadata), ROOT: id_of(turn)}
            if expiration_date is not _UNSET:
                held["expiration_date"] = expiry(expiration_date)
            thread = await self._thread(turn.scope.tenants_user_id, turn.thread_id)
            try:
                await thread.add_turn(
                    turn.role,
                    turn.content if text is None else text,
                    speaker=turn.speaker,
                    metadata=with_version(held, turn),
                    idempotency_key=f"mem0 after {turn.id}",
                )
            except (IdempotencyKeyReused, TurnForgotten):  # somebody else has updated it first
                newer = await self._updated(memory_id, turn.seq)
                if newer is None:
                    raise _not_there(memory_id) from None
                await thread.forget([turn.id])  # where that update was cut short, the old text is there still
                turn = newer
                continue
            await thread.forget([turn.id])
            return {"message": "Memory updated successfully!"}

    async def delete(self, memory_id: str) -> dict[str, str]:
        """Erase a memory with its history. Raises NotFound."""
        turn: Turn | None = await self._found(memory_id)
        while turn is not None:  # an update that was cut short has left two
            await (await self._thread(turn.scope.tenants_user_id, turn.thread_id)).forget([turn.id])
            turn = await self._updated(memory_id, turn.seq)
        return {"message": "Memory deleted successfully!"}

    async def delete_all(
        self, user_id: str | None = None, agent_id: str | None = None, run_id: str | None = None
    ) -> dict[str, str]:
        """Erase the memories of an owner. Raises InvalidInput without one."""
        owner = Owner.of({"user_id": user_id, "agent_id": agent_id, "run_id": run_id})
        for thread_id in await self._threads(owner):
            thread = await self._thread(owner.user, thread_id)
            ids = [turn.id async for turn in turns_in(thread) if passes(payload_of(turn), owner.ids)]
            for start in range(0, len(ids), _PAGE):
                await thread.forget(ids[start : start + _PAGE])
        return {"message": "Memories deleted successfully!"}

    async def reset(self) -> None:
        """Erase the memories of everybody that were added by these calls, and nothing else of the service's."""
        service, after = await self._service(), ""
        while True:
            page = await service.users(after=after or None, tenant=self._tenant)
            for user in page.users:
                for thread_id in await self._threads(Owner(user_id=user.user_id)):
                    await (await self._thread(user.user_id, thread_id)).clear()
            if page.next is None:
                return
            after = page.next

    # --- read --------------------------------------------------------------------------------------------
    async def get(self, memory_id: str) -> Record | None:
        """A memory; None if there is none of this id."""
        try:
            return record_of(await self._found(memory_id), score=None)
        except NotFound:
            return None

    async def get_all(
        self,
        /,
        *,
        filters: Mapping[str, Any] | None = None,
        top_k: int = 20,
        show_expired: bool = False,
        **others: Any,
    ) -> dict[str, list[Record]]:
        """The newest memories of an owner that pass the filters: `{"results": […]}`."""
        owner = _owner(filters, others, top_k)
        found: list[Turn] = []
        for thread_id in await self._threads(owner):
            thread, wanted = await self._thread(owner.user, thread_id), top_k
            while True:
                last = await thread.fetch_short_term(wanted)
                kept = [turn for turn in last if _shown(turn, filters or {}, show_expired=show_expired)]
                if len(kept) >= top_k or len(last) < wanted:
                    break
                wanted *= 4
            found += kept
        found.sort(key=lambda turn: (turn.timestamp, turn.id), reverse=True)
        return {"results": [record_of(turn) for turn in found[:top_k]]}

    async def search(
        self,
        /,
        query: str,
        *,
        top_k: int = 20,
        filters: Mapping[str, Any] | None = None,
        threshold: float | None = 0.02,
        rerank: bool = False,
        explain: bool = False,
        show_expired: bool = False,
        **others: Any,
    ) -> dict[str, list[Record]]:
        """The memories of an owner that answer the query, best first, each with its confidence as `score`.

        `threshold`: the least confidence. `rerank` changes nothing: the best are always compared word by word.
        """
        owner = _owner(filters, others, top_k)
        if threshold is not None and not is_number(threshold, 0, 1):
            raise InvalidInput(f"Invalid threshold: {threshold!r:.80}. Must be between 0 and 1 (inclusive).")
        least, wanted, service = threshold or 0.0, top_k, await self._service()
        while True:
            hits = (
                await service.search(owner.user, query, wanted, tenant=self._tenant, metadata=owner.ids)
                if top_k
                else []
            )
            kept = [hit for hit in hits if _shown(hit.turn, filters or {}, show_expired=show_expired)]
            kept = [hit for hit in kept if hit.confidence >= least]
            if len(kept) >= top_k or len(hits) < wanted:
                break
            wanted *= 4
        return {
            "results": [
                record_of(hit.turn, score=hit.confidence)
                | ({"score_details": {"why": list(hit.why)}} if explain else {})
                for hit in kept[:top_k]
            ]
        }

    async def history(self, memory_id: str) -> list[Record]:
        """The changes of a memory, oldest first; none of one that was deleted, for that is erased."""
        try:
            return history_of(await self._found(memory_id))
        except NotFound:
            return []

    # --- where it is kept ----------------------------------------------------------------------------------
    async def _service(self) -> Service:
        if self._given is not None:
            return self._given
        async with self._opening:
            if self._own is not None:
                return self._own
            opening: Any = _service_of(self._config)  # of either kind, which a common type lacks
            self._own = own = await self._stack.enter_async_context(opening)
        return own  # type: ignore[no-any-return]

    async def _thread(self, user: str, thread: str) -> Agent:
        return (await self._service()).agent(user, thread, tenant=self._tenant)

    async def _threads(self, owner: Owner) -> list[str]:
        """The threads that may hold memories of an owner."""
        if owner.run_id is not None:
            return [owner.thread]
        threads = threads_in((await self._thread(owner.user, owner.thread)).threads)
        return [each.thread_id async for each in threads if each.turns and is_ours(each.thread_id)]

    async def _found(self, memory_id: str) -> Turn:
        """The turn that a memory is. Raises NotFound."""
        place = Place.read(memory_id)
        if place is None:
            raise _not_there(memory_id)
        page = await (await self._thread(place.user, place.thread)).history(after=place.seq - 1, limit=1)
        if page.turns and page.turns[0].id == place.turn_id:
            return page.turns[0]
        turn = await self._updated(memory_id, place.seq)
        if turn is None:
            raise _not_there(memory_id)
        return turn

    async def _updated(self, memory_id: str, after: int) -> Turn | None:
        """The newest version of a memory behind that turn of its thread."""
        place, newest = Place.read(memory_id), None
        if place is not None:
            async for turn in turns_in(await self._thread(place.user, place.thread), after):
                newest = turn if turn.metadata.get(ROOT) == memory_id else newest
        return newest


def _shown(turn: Turn, filters: Mapping[str, Any], *, show_expired: bool) -> bool:
    if not is_ours(turn.thread_id) or (is_over(turn) and not show_expired):
        return False
    owner = {name: str(filters[name]).strip() for name in OWNERS if filters.get(name) is not None}
    return passes(payload_of(turn), {**filters, **owner})


def _owner(filters: Mapping[str, Any] | None, others: Mapping[str, Any], top_k: int) -> Owner:
    """The owner that the filters name. Raises InvalidInput for what cannot be asked."""
    if wrong := set(OWNERS) & others.keys():
        raise InvalidInput(
            f"Top-level entity parameters {wrong} are not supported. Use filters={{'user_id': '...'}} instead."
        )
    if others:
        log.warning("not known here, and passed over: %s", ", ".join(sorted(others)))
    if not is_whole(top_k, 0):
        raise InvalidInput(f"top_k is {top_k!r:.80}; pass a whole number from 0 on")
    return Owner.of(filters or {})


def _not_there(memory_id: object) -> NotFound:
    return NotFound(f"Memory with id {memory_id!s:.80} not found")


def _service_of(config: MemoryConfig | None) -> Service:
    from memory_agent.config import MemoryConfig

    config = config or MemoryConfig()
    if config.service_url is not None:
        from memory_agent.client.service import ServiceClient

        key = config.service_api_key
        return ServiceClient(config.service_url, api_key=None if key is None else key.get_secret_value())
    from memory_agent.service import MemoryService

    service = MemoryService(config)
    service.ends_quietly = True  # what is written for mem0 closes nothing
    return service


def settings_of(config_dict: Mapping[str, Any]) -> MemoryConfig:
    """Our settings of mem0's: what can be taken over."""
    from memory_agent.config import MemoryConfig

    llm = config_dict.get("llm") or {}
    unused = [name for name in config_dict if name not in ("llm", "version")]
    values: dict[str, Any] = {}
    if llm.get("provider", "openai") == "openai":
        given = llm.get("config") or {}
        names = {
            "api_key": "openai_api_key",
            "openai_base_url": "openai_base_url",
            "model": "fact_extraction_model",
        }
        values = {ours: given[theirs] for theirs, ours in names.items() if given.get(theirs)}
    else:
        unused.append("llm")
    if unused:
        log.warning("of mem0's configuration not used, see docs/configuration.md: %s", ", ".join(unused))
    return MemoryConfig(**values)


# --- the same, waited for ------------------------------------------------------------------------------------
__all__ = ["AsyncMemory", "Memory"]

P = ParamSpec("P")
R = TypeVar("R")


def _waits(
    method: Callable[Concatenate[AsyncMemory, P], Coroutine[Any, Any, R]],
) -> Callable[Concatenate[Memory, P], R]:
    """The method, waited for."""

    @functools.wraps(method)
    def wait(self: Memory, /, *args: P.args, **kwargs: P.kwargs) -> R:
        return self._wait(method(self._memory, *args, **kwargs))

    return wait


class Memory:
    """mem0's Memory: `AsyncMemory` on an event loop in a thread of its own, closed when the program ends."""

    def __init__(self, config: MemoryConfig | None = None, *, tenant: str = DEFAULT_TENANT) -> None:
        self._memory = AsyncMemory(config, tenant=tenant)
        self._process = os.getpid()
        self._starting = threading.Lock()
        self._running: _Running | None = None
        self._end: Callable[[], object] = int
        """Ends the thread, once there is one."""

    @classmethod
    def from_config(cls, config_dict: Mapping[str, Any]) -> Self:
        """As `AsyncMemory.from_config`."""
        return cls(settings_of(config_dict))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the memory. Another call opens it again."""
        with self._starting:
            self._running = None
            self._end()

    def _wait(self, call: Coroutine[Any, Any, R]) -> R:
        if os.getpid() != self._process:  # a fork takes no threads along, and nobody would ever answer
            call.close()
            raise NotOpen("this Memory was made before the process forked; make one in each process")
        with self._starting:
            if self._running is None:
                self._running = self._start()
            loop, _ = self._running
        return asyncio.run_coroutine_threadsafe(call, loop).result()

    def _start(self) -> _Running:
        started: Future[_Running] = Future()
        thread = threading.Thread(target=_run, args=(started,), name="memory_agent mem0", daemon=True)
        thread.start()
        loop, stop = started.result()
        self._end = weakref.finalize(self, _end, loop, stop, thread, self._memory)
        return loop, stop

    add = _waits(AsyncMemory.add)
    get = _waits(AsyncMemory.get)
    get_all = _waits(AsyncMemory.get_all)
    search = _waits(AsyncMemory.search)
    update = _waits(AsyncMemory.update)
    delete = _waits(AsyncMemory.delete)
    delete_all = _waits(AsyncMemory.delete_all)
    history = _waits(AsyncMemory.history)
    reset = _waits(AsyncMemory.reset)


def _run(started: Future[_Running]) -> None:
    async def until_stopped() -> None:
        stop = asyncio.Event()
        started.set_result((asyncio.get_running_loop(), stop))
        await stop.wait()

    asyncio.run(until_stopped())


def _end(
    loop: asyncio.AbstractEventLoop, stop: asyncio.Event, thread: threading.Thread, memory: AsyncMemory
) -> None:
    if not thread.is_alive():  # in a process that was forked since
        return

    async def end() -> None:
        try:
            await memory.close()
        finally:
            stop.set()

    ended = asyncio.run_coroutine_threadsafe(end(), loop)
    if (
        threading.current_thread() is not thread
    ):  # where garbage is collected on the loop itself, nobody waits
        ended.result()
        thread.join()
