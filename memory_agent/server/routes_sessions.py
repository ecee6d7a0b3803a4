"""Sessions by their id: started, read, summed up. And the sessions of a thread."""

from fastapi import APIRouter
from fastapi.responses import Response

from memory_agent import domain as values
from memory_agent.agent.agent import MemoryAgent
from memory_agent.server.auth import Principal
from memory_agent.server.dependencies import (
    THREAD,
    Api,
    Caller,
    Cursor,
    IdempotencyKey,
    Limit,
    Memory,
    OpenApi,
    PathText,
    UserQuery,
    WritableMemory,
    Writer,
    answer,
)
from memory_agent.server.openapi import NOT_NEEDED, operation_id
from memory_agent.server.routes_threads import IfNeeded, Through, compressed
from memory_agent.wire.context import CompressedContext, SessionSummary
from memory_agent.wire.encoding import json_of
from memory_agent.wire.pages import Page, page_of
from memory_agent.wire.requests import NewSession, StartSession
from memory_agent.wire.turns import HISTORY, Session, Turn

router = APIRouter(tags=["sessions"], generate_unique_id_function=operation_id)


async def _found(api: Api, principal: Principal, session_id: str, user_id: str | None) -> values.Session:
    if user_id is not None:
        principal.check_user(user_id)
    user = user_id or principal.user_id
    return await api.service.find_session(session_id, tenant=principal.tenant, user_id=user)


async def _memory(api: Api, principal: Principal, session_id: str, user_id: str | None) -> MemoryAgent:
    """The memory of the session's thread."""
    session = await _found(api, principal, session_id, user_id)
    return api.agent(principal, session.scope.tenants_user_id, session.thread_id)


@router.post("/api/sessions/start", status_code=201, response_model=Session)
async def start_session(
    api: OpenApi, principal: Writer, body: StartSession, key: IdempotencyKey = None
) -> Response:
    """Begin a new sitting of a thread; the turns that follow belong to it.

    Not needed: without it a session opens with the first turn, and with the first after one closed.
    """
    memory = api.agent(principal, body.user_id, body.thread_id)
    return await _start(memory, body, key)


@router.post(f"{THREAD}/sessions", status_code=201, response_model=Session)
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
        idempotency_key=key,
    )
    return answer(json_of(Session, session), 201)


@router.get(f"{THREAD}/sessions", response_model=Page[Session])
async def list_sessions(memory: Memory, limit: Limit = 100, cursor: Cursor = None) -> Response:
    """The thread's sessions, oldest first."""
    found = await memory.sessions()
    return answer(page_of(Session.of, found, key=lambda session: session.number, cursor=cursor, limit=limit))


@router.get(f"{THREAD}/sessions/current", response_model=Session | None)
async def current_session(memory: Memory) -> Response:
    """The session that a turn said now would belong to; null if that would open one."""
    session = await memory.current_session()
    return answer(None if session is None else json_of(Session, session))


@router.get("/api/sessions/{session_id}", response_model=Session)
async def show_session(
    api: OpenApi, principal: Caller, session_id: PathText, user_id: UserQuery = None
) -> Response:
    """A session, with how many turns and compressions it has."""
    return answer(json_of(Session, await _found(api, principal, session_id, user_id)))


@router.get("/api/sessions/{session_id}/context", response_model=CompressedContext)
async def session_context(
    api: OpenApi, principal: Caller, session_id: PathText, user_id: UserQuery = None, through: Through = None
) -> Response:
    """The compressed context of the session's conversation, now or as of a turn."""
    memory = await _memory(api, principal, session_id, user_id)
    return answer(json_of(CompressedContext, await memory.session_context(through)))


@router.post("/api/sessions/{session_id}/compress", response_model=CompressedContext, responses=NOT_NEEDED)
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


@router.get("/api/sessions/{session_id}/history", response_model=Page[Turn])
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


@router.get("/api/sessions/{session_id}/summary", response_model=SessionSummary)
async def session_summary(
    api: OpenApi, principal: Caller, session_id: PathText, user_id: UserQuery = None
) -> Response:
    """The summary of the session's conversation."""
    memory = await _memory(api, principal, session_id, user_id)
    return answer(SessionSummary.of(await memory.session_context()))
