"""A memory's calls: turns, threads, users, sessions, facts and topics."""

import asyncio
from collections.abc import Awaitable
from operator import attrgetter, itemgetter
from typing import Annotated, Any, TypeVar
from uuid import NAMESPACE_URL, uuid5

from fastapi import APIRouter, Query, Request
from fastapi.responses import Response

from memory_agent import domain as values
from memory_agent.agent.agent import MANY_TURNS, MemoryAgent
from memory_agent.checks import MAX_ID_CHARS, MAX_TAG_CHARS
from memory_agent.conversations.people import UnknownUser
from memory_agent.domain import MAX_SEQ, KnownFacts, new_id
from memory_agent.errors import InvalidInput, NotFound
from memory_agent.server.auth import Principal
from memory_agent.server.dependencies import (
    LONGEST_WAIT_SECONDS,
    MAX_PAGE,
    THREAD,
    Api,
    Caller,
    Cursor,
    DirectRoute,
    IdempotencyKey,
    Limit,
    Memory,
    OpenApi,
    PathText,
    Reach,
    TimeQuery,
    UserQuery,
    WritableMemory,
    Writer,
    answer,
    memory_of,
    nothing,
    waited,
    writable_memory_of,
)
from memory_agent.server.openapi import NOT_NEEDED, operation_id
from memory_agent.wire import requests
from memory_agent.wire.answers import (
    HISTORY,
    THREADS,
    USERS,
    CompressedContext,
    Compression,
    EntityCount,
    FactRecord,
    Facts,
    ForgetReceipt,
    MemoryContext,
    MemoryStatus,
    Recollection,
    Session,
    SessionSummary,
    ThreadSummary,
    TopicContext,
    TopicStats,
    TopicTurn,
    Turn,
    UpdateReceipt,
    UserSummary,
)
from memory_agent.wire.base import Items, json_of, json_of_many
from memory_agent.wire.pages import Page, page_of
from memory_agent.wire.requests import (
    AddTurn,
    AddTurns,
    Feedback,
    Fetch,
    Forget,
    Merge,
    NewSession,
    Search,
    SetImportance,
    Settle,
    StartSession,
    Tags,
    Update,
)

# --- turns: remembered, listed, searched ---------------------------------------------------------------------
turns = APIRouter(tags=["turns"], route_class=DirectRoute, generate_unique_id_function=operation_id)
search = APIRouter(tags=["search"], generate_unique_id_function=operation_id)


@turns.post(f"{THREAD}/update", status_code=201, response_model=UpdateReceipt)
async def update_memory(
    request: Request, user_id: PathText, thread_id: PathText, body: Update, key: IdempotencyKey = None
) -> Response:
    """Remember one exchange. Durable when this answers; search by meaning and facts follow in the background."""
    memory = writable_memory_of(request, user_id, thread_id)
    receipt = await memory.update_memory(
        body.user_msg,
        body.assistant_msg,
        speaker=body.speaker,
        timestamp=body.timestamp,
        metadata=body.metadata,
        importance=body.importance,
        idempotency_key=key,
    )
    return answer(json_of(UpdateReceipt, receipt), 201)


@turns.post(f"{THREAD}/turns", status_code=201, response_model=Turn)
async def add_turn(memory: WritableMemory, body: AddTurn, key: IdempotencyKey = None) -> Response:
    """Remember one message."""
    return answer(json_of(Turn, (await memory.add_turns([body.domain()], idempotency_key=key))[0]), 201)


@turns.post(f"{THREAD}/turns/bulk", status_code=201, response_model=Items[Turn])
async def add_turns(memory: WritableMemory, body: AddTurns, key: IdempotencyKey = None) -> Response:
    """Remember many messages in order, all of them or, if one is refused, none."""
    stored = await memory.add_turns(body.domain(), idempotency_key=key)

    def written() -> Response:
        return answer(json_of_many(Turn, stored), 201)

    # In a thread, as others would wait for some tenths of a second for ten thousand turns.
    return await asyncio.to_thread(written) if len(stored) > MANY_TURNS else written()


@turns.get(f"{THREAD}/turns", response_model=Page[Turn])
async def list_turns(
    memory: Memory,
    session_id: Annotated[str | None, Query(min_length=1, max_length=MAX_ID_CHARS)] = None,
    limit: Limit = 100,
    cursor: Cursor = None,
) -> Response:
    """All turns of the thread (or of one session), oldest first, word for word, compressed ones included."""
    page = await memory.history(session_id, after=HISTORY.after(cursor) or 0, limit=limit)
    return answer(HISTORY.json_of(page))


@turns.get(f"{THREAD}/turns/recent", response_model=Items[Turn])
async def recent_turns(
    memory: Memory,
    limit: Annotated[int | None, Query(ge=0, le=MAX_PAGE, description="Default: short_term_window.")] = None,
) -> Response:
    """The last turns, oldest first."""
    return answer(json_of_many(Turn, await memory.fetch_short_term(limit)))


@turns.get(f"{THREAD}/turns/{{turn_id}}/topic", response_model=TopicStats | None)
async def turn_topic(
    memory: Memory,
    turn_id: PathText,
    timeout: Annotated[
        float, Query(ge=0, le=LONGEST_WAIT_SECONDS, description="Seconds to wait for it.")
    ] = 30.0,
) -> Response:
    """The topic of a turn, once it is known; null for a turn that belongs to none."""
    topic = await memory.turn_topic(turn_id, timeout)
    return answer(None if topic is None else json_of(TopicStats, topic))


# --- search -------------------------------------------------------------------------------------------------------
@search.post("/api/memory/search", response_model=Items[Recollection])
async def search_memory(api: OpenApi, principal: Caller, body: Search) -> Response:
    """The turns that answer the question best, by meaning and by word, best first; each with why it was found."""
    principal.check_user(body.user_id)
    filters: dict[str, Any] = {
        name: getattr(body, name)
        for name in ("since", "until", "role", "tag", "session_id", "metadata", "now")
    }
    if body.thread_id is not None:
        memory = api.agent(principal, body.user_id, body.thread_id)
        found = await memory.fetch_long_term(
            body.query, body.top_k, topic_id=body.topic_id, scope=body.scope, **filters
        )
    elif body.topic_id is not None:
        raise InvalidInput("topic_id is given without thread_id; topics belong to a thread, so name both")
    elif body.scope == "thread":
        raise InvalidInput("scope is 'thread' without thread_id; name the thread, or leave scope out")
    else:
        found = await api.service.search(
            body.user_id, body.query, body.top_k, tenant=principal.tenant, **filters
        )
    return answer(json_of_many(Recollection, found))


# --- users and threads ---------------------------------------------------------------------------------------
threads = APIRouter(tags=["threads"], route_class=DirectRoute, generate_unique_id_function=operation_id)
people = APIRouter(tags=["people"], generate_unique_id_function=operation_id)

Found = TypeVar("Found")
Through = Annotated[
    int | None, Query(ge=1, le=MAX_SEQ, description="As of the turn with this seq; default: now.")
]
Whole = Annotated[bool, Query(description="Whether a short conversation is shown whole, else in sections.")]
IfNeeded = Annotated[bool, Query(description="Only if the conversation has grown enough; else 204.")]


@threads.post(f"{THREAD}/fetch", response_model=MemoryContext)
async def fetch_memory(request: Request, user_id: PathText, thread_id: PathText, body: Fetch) -> Response:
    """The memory for answering the message: `text` is the prompt. `include` asks for more, which is ten times as large."""
    memory = memory_of(request, user_id, thread_id)
    given = dict(body)
    only = MemoryContext.sent(given.pop("include"))
    return answer(json_of(MemoryContext, await memory.fetch_memory(**given), only=only))


@threads.get(f"{THREAD}/context", response_model=CompressedContext)
async def thread_context(memory: Memory, through: Through = None, whole: Whole = True) -> Response:
    """The compressed context of the conversation, now or as of a turn. Changes nothing."""
    return answer(json_of(CompressedContext, await memory.session_context(through, whole=whole)))


@threads.post(f"{THREAD}/compress", response_model=CompressedContext, responses=NOT_NEEDED)
async def compress_thread(memory: WritableMemory, if_needed: IfNeeded = False) -> Response:
    """Sum the conversation up to now; its history is untouched. A repeat without new turns records nothing."""
    return await compressed(memory, if_needed=if_needed)


async def compressed(memory: MemoryAgent, *, if_needed: bool) -> Response:
    """The answer of a compression; 204 if none was needed."""
    context = await (memory.compress_if_needed() if if_needed else memory.compress())
    return nothing() if context is None else answer(json_of(CompressedContext, context))


@threads.get(f"{THREAD}/compressions", response_model=Page[Compression])
async def list_compressions(memory: Memory, limit: Limit = 100, cursor: Cursor = None) -> Response:
    """Every compression of the thread, oldest first, with its tokens before and after."""
    found = await memory.compressions()
    return answer(page_of(Compression.of, found, key=lambda one: one.number, cursor=cursor, limit=limit))


@threads.get(f"{THREAD}/entities", response_model=Items[EntityCount])
async def list_entities(memory: Memory, scope: Reach = None) -> Response:
    """The entities that the turns name, by first mention, each once."""
    return answer(json_of_many(EntityCount, await memory.entities(scope=scope)))


@threads.get(f"{THREAD}/stats", response_model=MemoryStatus)
async def thread_status(memory: Memory) -> Response:
    """Counts: turns, owed work, parked turns with their last error, lag."""
    return answer(json_of(MemoryStatus, await memory.status()))


@threads.post(f"{THREAD}/settle", status_code=204, response_class=Response)
async def settle_thread(memory: Memory, body: Settle | None = None) -> Response:
    """Wait until nothing is owed to the thread's turns: at most `timeout` seconds, and a minute.

    409 if time runs out (`settle-timeout`) or turns are parked (`turns-parked`).
    """
    await memory.settle(**waited(body))
    return nothing()


@threads.post(f"{THREAD}/forget", response_model=ForgetReceipt)
async def forget_turns(memory: WritableMemory, body: Forget) -> Response:
    """Erase turns of the thread from every tier, index and cache."""
    return answer(json_of(ForgetReceipt, await memory.forget(body.turn_ids, missing_ok=body.missing_ok)))


@threads.delete(THREAD, response_model=ForgetReceipt)
async def clear_thread(memory: WritableMemory) -> Response:
    """Erase all turns of the thread, and what was derived from them."""
    return answer(json_of(ForgetReceipt, await memory.clear()))


@threads.delete("/api/users/{user_id}", response_model=ForgetReceipt)
async def forget_user(api: OpenApi, principal: Writer, user_id: PathText) -> Response:
    """Erase everything about a user."""
    principal.check_user(user_id)
    return answer(json_of(ForgetReceipt, await api.service.forget_user(user_id, tenant=principal.tenant)))


# --- who is remembered ------------------------------------------------------------------------------------------
@people.get("/api/users", response_model=Page[UserSummary])
async def list_users(
    api: OpenApi, principal: Caller, user_id: UserQuery = None, limit: Limit = 100, cursor: Cursor = None
) -> Response:
    """The users of whom anything is remembered, by id, with counts and their last activity.

    A key for one user sees that one alone.
    """
    if user_id is not None:
        principal.check_user(user_id)
    page = await api.service.users(
        tenant=principal.tenant, user_id=user_id or principal.user_id, after=USERS.after(cursor), limit=limit
    )
    return answer(USERS.json_of(page))


@people.get("/api/users/{user_id}/threads", response_model=Page[ThreadSummary])
async def list_threads(
    api: OpenApi, principal: Caller, user_id: PathText, limit: Limit = 100, cursor: Cursor = None
) -> Response:
    """The user's threads, by id, with counts and their last activity. 404 names the users whose ids are nearest."""
    principal.check_user(user_id)
    asked = api.service.threads(user_id, tenant=principal.tenant, after=THREADS.after(cursor), limit=limit)
    return answer(THREADS.json_of(await _of_no_others(principal, asked)))


@people.get(THREAD, response_model=ThreadSummary)
async def show_thread(memory: Memory, principal: Caller) -> Response:
    """The thread's number of turns and the time of the last one. 404 names threads with similar ids."""
    return answer(json_of(ThreadSummary, await _of_no_others(principal, memory.thread_summary())))


async def _of_no_others(principal: Principal, asked: Awaitable[Found]) -> Found:
    """The answer; for a key of one user a refusal tells nothing of the tenant's others."""
    try:
        return await asked
    except UnknownUser:
        if principal.user_id is None:
            raise
        raise NotFound(f"nothing is remembered of user {principal.user_id!r} yet") from None


# --- sessions by their id, and those of a thread -------------------------------------------------------------
sessions = APIRouter(tags=["sessions"], generate_unique_id_function=operation_id)


async def _found(api: Api, principal: Principal, session_id: str, user_id: str | None) -> values.Session:
    if user_id is not None:
        principal.check_user(user_id)
    user = user_id or principal.user_id
    return await api.service.find_session(session_id, tenant=principal.tenant, user_id=user)


async def _memory(api: Api, principal: Principal, session_id: str, user_id: str | None) -> MemoryAgent:
    """The memory of the session's thread."""
    session = await _found(api, principal, session_id, user_id)
    return api.agent(principal, session.scope.tenants_user_id, session.thread_id)


@sessions.post("/api/sessions/start", status_code=201, response_model=Session)
async def start_session(
    api: OpenApi, principal: Writer, body: StartSession, key: IdempotencyKey = None
) -> Response:
    """Begin a new sitting of a thread, or of a new thread where none is named.

    Not needed: without it a session opens with the first turn, and with the first after one closed.
    """
    # With a key a repeat finds the thread that was made the first time.
    made = new_id() if key is None else str(uuid5(NAMESPACE_URL, f"session:{key}"))
    memory = api.agent(principal, body.user_id, body.thread_id or made)
    return await _start(memory, body, key)


@sessions.post(f"{THREAD}/sessions", status_code=201, response_model=Session)
async def start_thread_session(
    memory: WritableMemory, body: NewSession, key: IdempotencyKey = None
) -> Response:
    """The same for the thread in the path."""
    return await _start(memory, body, key)


async def _start(memory: MemoryAgent, body: NewSession, key: str | None) -> Response:
    session = await memory.start_session(
        character=None if body.character is None else body.character.domain(),
        participants=body.participants,
        metadata=body.metadata,
        character_id=body.character_id,
        idempotency_key=key,
    )
    return answer(json_of(Session, session), 201)


@sessions.get(f"{THREAD}/sessions", response_model=Page[Session])
async def list_sessions(memory: Memory, limit: Limit = 100, cursor: Cursor = None) -> Response:
    """The thread's sessions, oldest first."""
    found = await memory.sessions()
    return answer(page_of(Session.of, found, key=lambda session: session.number, cursor=cursor, limit=limit))


@sessions.get(f"{THREAD}/sessions/current", response_model=Session | None)
async def current_session(memory: Memory) -> Response:
    """The session that a turn said now would belong to; null if that would open one."""
    session = await memory.current_session()
    return answer(None if session is None else json_of(Session, session))


@sessions.get("/api/sessions/{session_id}", response_model=Session)
async def show_session(
    api: OpenApi, principal: Caller, session_id: PathText, user_id: UserQuery = None
) -> Response:
    """A session, with how many turns and compressions it has."""
    return answer(json_of(Session, await _found(api, principal, session_id, user_id)))


@sessions.get("/api/sessions/{session_id}/context", response_model=CompressedContext)
async def session_context(
    api: OpenApi,
    principal: Caller,
    session_id: PathText,
    user_id: UserQuery = None,
    through: Through = None,
    whole: Whole = True,
) -> Response:
    """The compressed context of the session's conversation, now or as of a turn."""
    memory = await _memory(api, principal, session_id, user_id)
    return answer(json_of(CompressedContext, await memory.session_context(through, whole=whole)))


@sessions.post("/api/sessions/{session_id}/compress", response_model=CompressedContext, responses=NOT_NEEDED)
async def compress_session(
    api: OpenApi,
    principal: Writer,
    session_id: PathText,
    user_id: UserQuery = None,
    if_needed: IfNeeded = False,
) -> Response:
    """Sum the conversation up to now; its history is untouched. A repeat without new turns records nothing."""
    memory = await _memory(api, principal, session_id, user_id)
    return await compressed(memory, if_needed=if_needed)


@sessions.get("/api/sessions/{session_id}/history", response_model=Page[Turn])
async def session_history(
    api: OpenApi,
    principal: Caller,
    session_id: PathText,
    user_id: UserQuery = None,
    limit: Limit = 100,
    cursor: Cursor = None,
) -> Response:
    """The session's turns, oldest first, word for word."""
    memory = await _memory(api, principal, session_id, user_id)
    page = await memory.history(session_id, after=HISTORY.after(cursor) or 0, limit=limit)
    return answer(HISTORY.json_of(page))


@sessions.get("/api/sessions/{session_id}/summary", response_model=SessionSummary)
async def session_summary(
    api: OpenApi, principal: Caller, session_id: PathText, user_id: UserQuery = None
) -> Response:
    """The summary of the session's conversation, with its key moments, facts and preserved turns."""
    memory = await _memory(api, principal, session_id, user_id)
    return answer(SessionSummary.of(await memory.session_context(whole=False)))


# --- facts: read, with their history; set, retracted, reverted -----------------------------------------------
facts = APIRouter(tags=["facts"], generate_unique_id_function=operation_id)
FACTS = f"{THREAD}/facts"
About = Annotated[str | None, Query(min_length=1, max_length=MAX_ID_CHARS)]


@facts.get(FACTS, response_model=Facts)
async def fetch_facts(
    memory: Memory,
    scope: Reach = None,
    as_of: TimeQuery = None,
    recorded_by: TimeQuery = None,
    about: About = None,
) -> Response:
    """The facts as one document: of all the user's threads or of this one, now or as of a time. Where facts of several
    speakers are known it is keyed by their names; `about` gives one person's."""
    found = await memory.fetch_facts(scope=scope, as_of=as_of, recorded_by=recorded_by, about=about)
    return answer(Facts.of(found))


@facts.get(f"{FACTS}/history", response_model=Page[FactRecord])
async def fact_history(
    memory: Memory,
    path: Annotated[str | None, Query(min_length=1, max_length=2_000)] = None,
    scope: Reach = None,
    as_of: TimeQuery = None,
    recorded_by: TimeQuery = None,
    about: About = None,
    limit: Limit = 100,
    cursor: Cursor = None,
) -> Response:
    """Every event at, above or below the path, oldest first, with sources and with what replaced it."""
    times: Any = {"as_of": as_of, "recorded_by": recorded_by}
    records = await memory.fact_history(path, scope=scope, about=about, **times)
    key = attrgetter("thread_id", "id")
    return answer(page_of(FactRecord.of, records, key=key, cursor=cursor, limit=limit))


@facts.put(FACTS, response_model=FactRecord)
async def set_fact(memory: WritableMemory, body: requests.SetFact, key: IdempotencyKey = None) -> Response:
    """Say what holds: the value stands at the path, whatever stood there."""
    record = await memory.set_fact(body.path, body.value, about=body.about, idempotency_key=key)
    return answer(json_of(FactRecord, record))


@facts.post(f"{FACTS}/add", response_model=FactRecord)
async def add_fact(memory: WritableMemory, body: requests.AddFact, key: IdempotencyKey = None) -> Response:
    """Say that the value is one more element of the list at the path."""
    record = await memory.add_fact(body.path, body.value, about=body.about, idempotency_key=key)
    return answer(json_of(FactRecord, record))


@facts.post(f"{FACTS}/extract", response_model=Facts)
async def extract_facts(memory: WritableMemory, body: requests.ExtractFacts) -> Response:
    """The facts that would be noted of a text alone, as one document. Nothing is stored; a language model may be asked."""
    return answer(Facts.of(KnownFacts(await memory.extract_facts(body.text))))


@facts.post(f"{FACTS}/retract", response_model=FactRecord)
async def retract_fact(
    memory: WritableMemory, body: requests.RetractFact, key: IdempotencyKey = None
) -> Response:
    """Say that what is known at the path holds no more; its history stays."""
    record = await memory.retract_fact(body.path, body.value, about=body.about, idempotency_key=key)
    return answer(json_of(FactRecord, record))


@facts.post(f"{FACTS}/revert", response_model=FactRecord)
async def revert_fact(
    memory: WritableMemory, body: requests.RevertFact, key: IdempotencyKey = None
) -> Response:
    """Make the path what it was after an event or at a time; by default, before its last event."""
    record = await memory.revert_fact(body.path, body.moment(), about=body.about, idempotency_key=key)
    return answer(json_of(FactRecord, record))


# --- topics: listed, read, and put in order by people --------------------------------------------------------
topics = APIRouter(tags=["topics"], generate_unique_id_function=operation_id)
TOPICS = f"{THREAD}/topics"
TOPIC = f"{TOPICS}/{{topic_id}}"


def _topic_named(topic_id: str) -> str | None:
    return None if topic_id == "current" else topic_id


@topics.get(TOPICS, response_model=Page[TopicStats])
async def list_topics(
    memory: Memory,
    archived: Annotated[bool, Query(description="Archived ones as well.")] = False,
    tag: Annotated[
        str | None, Query(min_length=1, max_length=MAX_TAG_CHARS, description="Only those that carry it.")
    ] = None,
    limit: Limit = 100,
    cursor: Cursor = None,
) -> Response:
    """The thread's topics, highest priority first, archived ones last."""
    found = await memory.topics(archived, tag=tag)
    return answer(page_of(TopicStats.of, found, key=lambda topic: topic.topic_id, cursor=cursor, limit=limit))


@topics.get(TOPIC, response_model=TopicStats)
async def show_topic(memory: Memory, topic_id: PathText) -> Response:
    """A topic; `current` is the current one."""
    return answer(json_of(TopicStats, await memory.topic_stats(_topic_named(topic_id))))


@topics.get(f"{TOPIC}/context", response_model=TopicContext)
async def topic_context(
    memory: Memory,
    topic_id: PathText,
    max_tokens: Annotated[
        int | None, Query(ge=0, le=2**53 - 1, description="Tokens of all messages.")
    ] = None,
) -> Response:
    """Messages for a model to go on with the topic: its whole history, or a summary and the last turns."""
    messages = await memory.topic_context(_topic_named(topic_id), max_tokens=max_tokens)
    return answer(TopicContext.of(messages))


@topics.get(f"{TOPIC}/history", response_model=Page[TopicTurn])
async def topic_history(
    memory: Memory,
    topic_id: PathText,
    include_compressed: Annotated[bool, Query(description="Turns whose text is packed, too.")] = True,
    limit: Limit = 100,
    cursor: Cursor = None,
) -> Response:
    """All of the topic's turns in order, word for word."""
    turns = list(enumerate(await memory.topic_history(_topic_named(topic_id), include_compressed)))
    page = page_of(lambda turn: TopicTurn.of(turn[1]), turns, key=itemgetter(0), cursor=cursor, limit=limit)
    return answer(page)


@topics.post(f"{TOPIC}/merge", response_model=TopicStats)
async def merge_topics(memory: WritableMemory, topic_id: PathText, body: Merge) -> Response:
    """Make the topic a part of another, whose id stays. `split` undoes it."""
    return answer(json_of(TopicStats, await memory.merge_topics(topic_id, body.into)))


@topics.post(f"{TOPIC}/split", response_model=TopicStats)
async def split_topic(memory: WritableMemory, topic_id: PathText) -> Response:
    """Take the topic out of the one it was merged into, with the turns that were its own."""
    return answer(json_of(TopicStats, await memory.split_topic(topic_id)))


@topics.post(f"{TOPIC}/tags", response_model=TopicStats)
async def tag_topic(memory: WritableMemory, topic_id: PathText, body: Tags) -> Response:
    """Add and remove tags."""
    return answer(json_of(TopicStats, await memory.tag_topic(topic_id, body.add, body.remove)))


@topics.post(f"{TOPIC}/importance", response_model=TopicStats)
async def set_topic_importance(memory: WritableMemory, topic_id: PathText, body: SetImportance) -> Response:
    """Set the topic's importance; null: as its turns say."""
    return answer(json_of(TopicStats, await memory.set_topic_importance(topic_id, body.importance)))


@topics.post(f"{TOPIC}/restore", response_model=TopicStats)
async def restore_topic(memory: WritableMemory, topic_id: PathText) -> Response:
    """Bring an archived topic back into matching."""
    return answer(json_of(TopicStats, await memory.restore_topic(topic_id)))


@topics.post(f"{TOPIC}/archive", response_model=TopicStats)
async def archive_topic(memory: WritableMemory, topic_id: PathText) -> Response:
    """Take the topic out of matching and compress it. `restore` undoes it."""
    return answer(json_of(TopicStats, await memory.archive_topic(topic_id)))


@topics.post(f"{THREAD}/feedback", response_model=TopicStats)
async def give_feedback(memory: WritableMemory, body: Feedback) -> Response:
    """Say that a topic, or a turn of it, was useful or not; the opposite vote undoes it."""
    return answer(json_of(TopicStats, await memory.feedback(body.turn_or_topic, body.useful)))
