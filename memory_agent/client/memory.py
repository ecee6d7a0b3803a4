"""MemoryClient: one user's thread in a service.

What an agent loop calls before and after its model answers.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import json
import random
import re
import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from pydantic import ValidationError

from memory_agent.agent.agent import MemoryAgent
from memory_agent.agent.arguments import (
    OnService,
    check_page,
    check_tags,
    checked_about,
    checked_count,
    checked_include,
    checked_query,
    with_character_id,
)
from memory_agent.checks import MAX_ID_CHARS, checked_id, checked_text, checked_time
from memory_agent.client.calls import (
    PAGE,
    Asked,
    Asking,
    documented,
    in_slices,
    many,
    maybe,
    one,
    pages,
    sends,
    settled,
    stands_for,
)
from memory_agent.client.connection import pause_before, value_of
from memory_agent.client.service import TIMEOUT_SECONDS, ServiceClient
from memory_agent.conversations.sessions import checked_character
from memory_agent.domain import DEFAULT_TENANT, EVENT_KINDS, HistoryPage, Scope, ThreadsPage, TurnInput
from memory_agent.errors import (
    EventsLost,
    InvalidInput,
    MemoryAgentError,
    NotFound,
    RateLimited,
    RequestTooLarge,
    ServiceError,
    Unavailable,
)
from memory_agent.facts.edits import checked_path, checked_value, no_such_event
from memory_agent.topics.index import no_such_topic
from memory_agent.wire import answers, requests
from memory_agent.wire.answers import (
    HISTORY,
    CompressedContext,
    Compression,
    MemoryContext,
    Session,
    TopicContext,
    TopicStats,
    TopicTurn,
)
from memory_agent.wire.pages import Page
from memory_agent.work.admit import admit, exchange

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence

    import httpx
    from httpx_sse import ServerSentEvent

    from memory_agent.agent.facts import Path
    from memory_agent.domain import ForgetReceipt, MemoryEvent, Turn, TurnDraft
    from memory_agent.topics import stats

# --- facts ---------------------------------------------------------------------------------------------------
_RECORD: Final = one(answers.FactRecord)


# --- arguments that are not sent as they are -----------------------------------------------------------------
def _with_blocks(_: Asking, asked: Asked) -> Asked:
    check_tags(asked["tags"], ())
    # Of which the text is made, and messages and a tier's part of it too.
    return {**asked, "include": ["blocks", *checked_include(asked["include"])]}


def _whose(_: Asking, asked: Asked) -> Asked:
    checked_about(asked["about"])
    return asked


def _where(client: Asking, asked: Asked) -> Asked:
    path = asked.pop("path")
    # Normalised keys hold no dots.
    return _whose(
        client, {"path": None if path is None or path == "" else ".".join(checked_path(path)), **asked}
    )


def _statement(client: Asking, asked: Asked) -> Asked:
    _whose(client, asked)
    value = checked_value(asked["value"], checked_path(asked["path"]))
    return {**asked, "path": _sent_path(asked["path"]), "value": value}


def _element(client: Asking, asked: Asked) -> Asked:
    _whose(client, asked)
    return (
        {**asked, "path": _sent_path(asked["path"])} if asked["value"] is None else _statement(client, asked)
    )


def _reversion(client: Asking, asked: Asked) -> Asked:
    _whose(client, asked)
    path, to = asked["path"], asked["to"]
    where = "" if isinstance(path, str) and path == "" else _sent_path(path)
    moment = _moment(to)
    if isinstance(to, str) and requests.RevertFact.of(path=where, to=moment).moment() != to:
        raise no_such_event(to)  # the service would take it for a time
    return {**asked, "path": where, "to": moment}


def _sent_path(path: Path) -> str | list[str]:
    """The path as a request holds it. Raises InvalidInput for what is none."""
    checked_path(path)
    return path if isinstance(path, str) else [str(key) for key in path]


def _moment(to: object) -> str | None:
    """An event's id or a time, as a request holds it. Raises NotFound for what no event's id can be."""
    if to is None:
        return None
    if isinstance(to, datetime):
        return checked_time("to", to).isoformat()
    try:
        # An event of another thread has that thread's id before its own.
        return checked_text("to", to, max_chars=2 * MAX_ID_CHARS)
    except InvalidInput:
        raise no_such_event(to) from None


class FactCalls(Asking):
    """MemoryClient's calls about facts."""

    fetch_facts = sends(MemoryAgent.fetch_facts, "GET facts", one(answers.Facts), prepare=_whose)
    fact_history = pages(MemoryAgent.fact_history, "GET facts/history", answers.FactRecord, prepare=_where)
    set_fact = sends(
        MemoryAgent.set_fact,
        "PUT facts",
        _RECORD,
        requests.SetFact,
        prepare=_statement,
        note="Without a key the client makes its own, for the requests of this call alone.",
    )
    extract_facts = sends(
        MemoryAgent.extract_facts,
        "POST facts/extract",
        lambda reply: dict(one(answers.Facts)(reply)),
        requests.ExtractFacts,
        repeatable=True,
        long=True,
    )
    add_fact = sends(MemoryAgent.add_fact, "POST facts/add", _RECORD, requests.AddFact, prepare=_statement)
    retract_fact = sends(
        MemoryAgent.retract_fact,
        "POST facts/retract",
        _RECORD,
        requests.RetractFact,
        prepare=_element,
    )
    revert_fact = sends(
        MemoryAgent.revert_fact, "POST facts/revert", _RECORD, requests.RevertFact, prepare=_reversion
    )

    @stands_for(MemoryAgent.reextract_facts)
    async def reextract_facts(self, asked: Asked) -> int:
        return one(answers.RebuildStep)(
            await self._ask("POST facts/reextract", asked, repeatable=True, long=True)
        ).turns


# --- events --------------------------------------------------------------------------------------------------
_ID: Final = re.compile(r"[\x21-\x7e]{1,1024}")
_DROPPED: Final = "dropped"
_GIVE_UP_SECONDS: Final = 300.0
"""Of trying to come back to a service that told events before."""
_STEADY_SECONDS: Final = 5.0
"""A stream that lasted so long had nothing wrong with it when it began."""


class EventCalls(Asking):
    """MemoryClient's calls about events."""

    async def events(self, after: str | None = None) -> AsyncGenerator[MemoryEvent, None]:
        """A lost connection is made again, from the last event on. Raises EventsLost also if the connection
        was lost before there was any event to go on from, ServiceUnavailable if the service stays away for
        5 minutes.
        """
        stream = _Stream(_checked(after), max_retries=self._service.max_retries)
        while True:
            try:
                async with self._service.connection.stream(
                    self._call("GET events"), stream.headers
                ) as frames:
                    stream.begin()
                    async with contextlib.aclosing(_events(frames, stream)) as events:
                        async for event in events:
                            yield event
            except (Unavailable, RateLimited) as exc:
                await stream.lost(exc)
            else:
                await stream.lost(None)

    events.__doc__ = documented(MemoryAgent.events, events.__doc__)


class _Stream:
    """Position in the stream of events, over all connections."""

    def __init__(self, last: str | None, *, max_retries: int) -> None:
        self.last = last
        """The id of the last event."""
        self._max_retries = max_retries
        self._has_begun = False
        self._began = 0.0
        self._lost_at: float | None = None
        self._retry = 0

    @property
    def headers(self) -> dict[str, str]:
        return {} if self.last is None else {"Last-Event-ID": self.last}

    def begin(self) -> None:
        """The service sends events."""
        self._has_begun = True
        self._began = time.monotonic()

    def moved_on(self) -> None:
        """An event came."""
        self._retry, self._lost_at = 0, None

    async def lost(self, error: MemoryAgentError | None) -> None:
        """The connection ended (by `error`): wait before the next. Raises when there is none to be."""
        now = time.monotonic()
        if self._has_begun and self.last is None:
            raise EventsLost(
                "the connection was lost before the first event, so that some may have been missed; read the state anew"
            ) from error
        if self._has_begun and self._lost_at is None and now - self._began >= _STEADY_SECONDS:
            self._retry = 0
        self._lost_at = now if self._lost_at is None else self._lost_at
        tired = (
            now - self._lost_at > _GIVE_UP_SECONDS if self._has_begun else self._retry >= self._max_retries
        )
        if tired and error is not None:
            raise error
        asked = error.retry_after if isinstance(error, RateLimited) else None
        await asyncio.sleep(pause_before(self._retry, chance=random.random(), retry_after=asked))  # noqa: S311
        self._retry += 1


async def _events(
    frames: AsyncIterator[ServerSentEvent], stream: _Stream
) -> AsyncGenerator[MemoryEvent, None]:
    """The events of one connection, until the service ends it; what this version does not know is passed over."""
    async for frame in frames:
        if frame.event == _DROPPED:
            reason, may_resume = _read_dropped(frame.data)
            if not may_resume or stream.last is None:
                raise EventsLost(reason)
            return
        if frame.id:
            stream.last = frame.id
        if frame.data and frame.event in EVENT_KINDS:
            stream.moved_on()
            yield _read_event(frame.data)


def _checked(after: object) -> str | None:
    if after is None:
        return None
    if not isinstance(after, str):
        raise InvalidInput(
            f"after is {after!r:.80}; pass the id of an event, or None for what happens from now on"
        )
    if _ID.fullmatch(after) is None:
        raise EventsLost(f"{after!r:.80} is no event's id; read the state anew, then watch without `after`")
    return after


def _read_event(data: str) -> MemoryEvent:
    try:
        return answers.MemoryEvent.model_validate_json(data).domain()
    except ValidationError:
        raise ServiceError(
            "the service told an event that cannot be read; their versions may not fit"
        ) from None


def _read_dropped(data: str) -> tuple[str, bool]:
    """The service's reason for ending the stream, and whether to resume with the last id."""
    try:
        told = json.loads(data)
        return str(told["reason"]), told["resume"] is True
    except (ValueError, KeyError, TypeError):
        return "the service ended the stream of events; read the state anew", False


# --- the thread ----------------------------------------------------------------------------------------------
_CURRENT: Final = "current"
"""What stands for the current topic where an id would."""
_TURN: Final = one(answers.Turn)
_TURNS: Final = many(answers.Turn)
_TOPIC: Final = one(TopicStats)
_ERASED: Final = one(answers.ForgetReceipt)


# --- arguments that are not sent as they are -----------------------------------------------------------------
class _NoCounter:
    """The service counts tokens; here turns are only checked."""

    margin = 0.0

    def count(self, text: str) -> int:
        return 0


def _admitted(
    turns: Sequence[TurnInput | Mapping[str, Any]], idempotency_key: str | None, **options: Any
) -> list[TurnDraft]:
    """The turns as the service's door would let them in. Raises InvalidInput as it would.

    Whether it takes times without a zone is a setting of the service.
    """
    return admit(
        turns,
        now=datetime.now(UTC),
        counter=_NoCounter(),
        idempotency_key=idempotency_key,
        stages=(),
        zone=UTC,
        **options,
    )


def _sent(turn: TurnInput | Mapping[str, Any], draft: TurnDraft) -> Asked:
    """A turn in the form of a request."""
    timestamp = turn.timestamp if isinstance(turn, TurnInput) else turn.get("timestamp")
    sent = {
        "role": draft.role,
        "content": draft.content,
        "speaker": draft.speaker,
        "timestamp": timestamp,
        "metadata": dict(draft.metadata) or None,
        "importance": draft.importance,
        "entities": tuple({"kind": entity.kind, "name": entity.name} for entity in draft.entities) or None,
    }
    return {name: value for name, value in sent.items() if value is not None}


def _exchange(_: Asking, asked: Asked) -> Asked:
    key = asked.pop("idempotency_key")
    turns = exchange(**asked)
    sent = _sent(turns[0], _admitted(turns, key, numbered=False)[0])
    del sent["role"], sent["content"]
    return {
        "user_msg": asked["user_msg"],
        "assistant_msg": asked["assistant_msg"],
        **sent,
        "idempotency_key": key,
    }


def _message(_: Asking, asked: Asked) -> Asked:
    key = asked.pop("idempotency_key")
    turn = TurnInput(**asked)
    return {**_sent(turn, _admitted([turn], key)[0]), "idempotency_key": key}


def _search(memory: MemoryClient, asked: Asked) -> Asked:
    if asked["topic_id"] is not None:
        memory._check_topic(asked["topic_id"])
    checked_query(asked["query"], asked["role"])
    return {"user_id": memory.scope.tenants_user_id, "thread_id": memory.scope.thread_id, **asked}


def _sitting(_: Asking, asked: Asked) -> Asked:
    character = asked["character"]
    if character is not None:
        asked["character"] = dataclasses.asdict(checked_character(character))
    with_character_id(None, asked["character_id"])
    return asked


def _by_archived(_: Asking, asked: Asked) -> Asked:
    return {"archived": asked["include_archived"], "tag": asked["tag"]}


def _tags(_: Asking, asked: Asked) -> Asked:
    check_tags(asked["add"], asked["remove"])
    return {**asked, "add": tuple(asked["add"]), "remove": tuple(asked["remove"])}


# --- the client ----------------------------------------------------------------------------------------------
class MemoryClient(FactCalls, EventCalls, OnService):
    """The memory of one thread of one user, kept by a service: MemoryAgent's methods over HTTP.

    From a ServiceClient: `service.agent(user_id, thread_id)`. Alone, as an async context manager with connections of its
    own: `async with MemoryClient("user", "thread", base_url="http://127.0.0.1:8080") as memory:`.

    All methods return what MemoryAgent's do and raise the same errors; besides, ServiceUnavailable if the service cannot be
    reached or does not answer in time, AccessDenied, RateLimited, RequestTooLarge, and ServiceError for an answer that is
    none. What can be repeated without harm is repeated; every write carries an idempotency key, so that it counts once.
    What is not passed is as the service's settings say. Calls whose work grows with the thread, or that ask a language
    model, may take 20 times `timeout`.
    """

    def __init__(
        self,
        user_id: str,
        thread_id: str,
        *,
        base_url: str | None = None,
        api_key: str | None = None,
        timeout: float = TIMEOUT_SECONDS,
        max_retries: int = 2,
        http: httpx.AsyncClient | None = None,
        service: ServiceClient | None = None,
        tenant: str = DEFAULT_TENANT,
    ) -> None:
        """For the values from `base_url` on see ServiceClient; they are not looked at with a `service`.

        `tenant`: whose user, for a key for all tenants; `default` is the key's own.
        """
        self.scope = Scope.of(user_id, checked_id("thread_id", thread_id), tenant=tenant)
        self._below = ("threads", user_id, thread_id)
        self._owns_service = service is None
        self._service = service or ServiceClient(
            base_url, api_key=api_key, timeout=timeout, max_retries=max_retries, http=http
        )

    def _call(self, route: str, asked: Asked | None = None, *body: Any, **options: Any) -> Any:
        return super()._call(route, {"tenant": self.scope.tenant, **(asked or {})}, *body, **options)

    def _named(self, name: str, asked: Asked) -> str:
        if name == "topic_id|current":
            topic_id = asked.pop("topic_id")
            if topic_id is None:
                return "current"
        else:
            topic_id = super()._named(name, asked)
        if name.startswith("topic_id"):
            self._check_topic(topic_id, _CURRENT)
        return str(topic_id)

    def _check_topic(self, topic_id: object, *others: str) -> None:
        """Refuse what can be no topic's id, and what stands for something `other` where an id would."""
        with contextlib.suppress(InvalidInput):
            if checked_id("topic_id", topic_id) not in others:
                return
        raise no_such_topic(self.scope, topic_id)

    # --- remember --------------------------------------------------------------------------------------------
    update_memory = sends(
        MemoryAgent.update_memory,
        "POST update",
        one(answers.UpdateReceipt),
        requests.Update,
        prepare=_exchange,
    )
    add_turn = sends(MemoryAgent.add_turn, "POST turns", _TURN, requests.AddTurn, prepare=_message)

    @stands_for(MemoryAgent.add_user_message)  # type: ignore[arg-type]  # to mypy **options might hold a `self`
    async def add_user_message(self, asked: Asked) -> Turn:
        return await self.add_turn("user", asked["text"], importance=asked["importance"], **asked["options"])

    @stands_for(MemoryAgent.add_assistant_message)  # type: ignore[arg-type]
    async def add_assistant_message(self, asked: Asked) -> Turn:
        return await self.add_turn("assistant", asked["text"], **asked["options"])

    @stands_for(MemoryAgent.add_turns)
    async def add_turns(self, asked: Asked) -> list[Turn]:
        """They go in one request: RequestTooLarge is raised, and nothing stored, if that is more than the
        service takes at once (the setting `server_max_body_bytes`, 8 MB by default).
        """
        drafts = _admitted(asked["turns"], asked["idempotency_key"])
        if not drafts:
            return []
        sent = [_sent(turn, draft) for turn, draft in zip(asked["turns"], drafts, strict=True)]
        try:
            reply = await self._ask("POST turns/bulk", {**asked, "turns": sent}, requests.AddTurns, long=True)
        except RequestTooLarge as exc:
            raise RequestTooLarge(
                f"{exc} Pass the turns in several calls of add_turns, each with an idempotency key of its own."
            ) from exc
        return _TURNS(reply)

    # --- recall ----------------------------------------------------------------------------------------------
    fetch_memory = sends(
        MemoryAgent.fetch_memory,
        "POST fetch",
        one(MemoryContext),
        requests.Fetch,
        prepare=_with_blocks,
        repeatable=True,
        note="Without the service there is nothing to answer from: ServiceUnavailable is raised.",
    )
    fetch_long_term = sends(
        MemoryAgent.fetch_long_term,
        "POST /memory/search",
        many(answers.Recollection),
        requests.Search,
        prepare=_search,
        repeatable=True,
    )

    @stands_for(MemoryAgent.fetch_short_term)
    async def fetch_short_term(self, asked: Asked) -> list[Turn]:
        """Above a `limit` of 1,000 all turns are read for it."""
        limit = None if asked["limit"] is None else checked_count("limit", asked["limit"])
        if limit is None or limit <= PAGE:
            return _TURNS(await self._ask("GET turns/recent", asked))
        last: list[Turn] = []
        after: int | None = 0
        while after is not None:
            page = await self.history(after=after, limit=PAGE)
            last = [*last, *page.turns][-limit:]
            after = page.next
        return last

    # --- topics ----------------------------------------------------------------------------------------------
    @stands_for(MemoryAgent.turn_topic)
    async def turn_topic(self, asked: Asked) -> stats.TopicStats | None:
        """Asks in requests of at most 20 seconds."""
        timeout = asked.pop("timeout")

        async def ask(seconds: float, deadline: float | None) -> stats.TopicStats | None:
            params = {**asked, "timeout": seconds}
            reply = await self._ask("GET turns/{turn_id}/topic", params, waits=seconds, until=deadline)
            found: stats.TopicStats | None = maybe(TopicStats)(reply)
            return found

        return await in_slices(ask, timeout)

    topics = pages(MemoryAgent.topics, "GET topics", TopicStats, prepare=_by_archived)
    topic_stats = sends(MemoryAgent.topic_stats, "GET topics/{topic_id|current}", _TOPIC)
    topic_context = sends(
        MemoryAgent.topic_context, "GET topics/{topic_id|current}/context", one(TopicContext)
    )
    topic_history = pages(MemoryAgent.topic_history, "GET topics/{topic_id|current}/history", TopicTurn)
    merge_topics = sends(MemoryAgent.merge_topics, "POST topics/{topic_id}/merge", _TOPIC, requests.Merge)
    split_topic = sends(MemoryAgent.split_topic, "POST topics/{topic_id}/split", _TOPIC)
    tag_topic = sends(
        MemoryAgent.tag_topic, "POST topics/{topic_id}/tags", _TOPIC, requests.Tags, prepare=_tags
    )
    set_topic_importance = sends(
        MemoryAgent.set_topic_importance,
        "POST topics/{topic_id}/importance",
        _TOPIC,
        requests.SetImportance,
    )
    feedback = sends(MemoryAgent.feedback, "POST feedback", _TOPIC, requests.Feedback)
    restore_topic = sends(MemoryAgent.restore_topic, "POST topics/{topic_id}/restore", _TOPIC)
    archive_topic = sends(MemoryAgent.archive_topic, "POST topics/{topic_id}/archive", _TOPIC)

    # --- sessions --------------------------------------------------------------------------------------------
    start_session = sends(
        MemoryAgent.start_session,
        "POST sessions",
        one(Session),
        requests.NewSession,
        prepare=_sitting,
        note="Without a key the client makes its own, which the session then shows.",
    )
    current_session = sends(MemoryAgent.current_session, "GET sessions/current", maybe(Session))
    sessions = pages(MemoryAgent.sessions, "GET sessions", Session)

    @stands_for(MemoryAgent.history)
    async def history(self, asked: Asked) -> HistoryPage:
        """More than 1,000 turns are asked for in several requests."""
        session_id, place, limit = asked["session_id"], asked["after"], asked["limit"]
        check_page(place, limit)
        found: list[Turn] = []
        while place is not None and len(found) < limit:
            cursor = HISTORY.cursor(place or None)
            params = {"session_id": session_id, "limit": min(limit - len(found), PAGE), "cursor": cursor}
            page = HISTORY.from_page(value_of(await self._ask("GET turns", params), Page[answers.Turn]))
            if page.next is not None and page.next <= place:
                raise ServiceError("the service gave the same page again; its history has no end")
            found += page.turns
            place = page.next
        return HistoryPage(turns=tuple(found), next=place)

    # --- compression -----------------------------------------------------------------------------------------
    session_context = sends(MemoryAgent.session_context, "GET context", one(CompressedContext))
    compress = sends(MemoryAgent.compress, "POST compress", one(CompressedContext), long=True)
    compress_if_needed = sends(
        MemoryAgent.compress_if_needed, "POST compress?if_needed", maybe(CompressedContext), long=True
    )
    compressions = pages(MemoryAgent.compressions, "GET compressions", Compression)
    entities = sends(MemoryAgent.entities, "GET entities", many(answers.EntityCount))

    # --- the user's threads ----------------------------------------------------------------------------------
    @stands_for(MemoryAgent.threads)
    async def threads(self, asked: Asked) -> ThreadsPage:
        scope = self.scope
        try:
            return await self._service.threads(scope.tenants_user_id, tenant=scope.tenant, **asked)
        except NotFound:
            return ThreadsPage(threads=(), next=None)

    thread_summary = sends(MemoryAgent.thread_summary, "GET ", one(answers.ThreadSummary))

    # --- look after ------------------------------------------------------------------------------------------
    @stands_for(MemoryAgent.settle)
    async def settle(self, asked: Asked) -> None:
        """Asks in requests of at most 20 seconds (1 with `progress`, which is called with the status before
        each and at the end), and without `timeout` goes on however long a part is down.
        """
        await settled(self, "POST settle", {}, self.status, **asked)

    status = sends(MemoryAgent.status, "GET stats", one(answers.MemoryStatus))

    @stands_for(MemoryAgent.forget)
    async def forget(self, asked: Asked) -> ForgetReceipt:
        """If the request had to be sent again, the receipt may count less than was erased."""
        # Sent again, it would not find what the first request erased.
        missing_ok = asked["missing_ok"]
        values = {"turn_ids": asked["turn_ids"]} if missing_ok else asked
        return _ERASED(
            await self._ask("POST forget", values, requests.Forget, repeatable=missing_ok, long=True)
        )

    clear = sends(
        MemoryAgent.clear,
        "DELETE ",
        _ERASED,
        repeatable=True,
        long=True,
        note="For the receipt see `forget`.",
    )
