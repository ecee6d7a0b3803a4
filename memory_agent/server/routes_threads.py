"""Users and threads: listed, and a thread as a whole: context, status, compression, forgetting."""

from collections.abc import Awaitable
from typing import Annotated, Any, TypeVar

from fastapi import APIRouter, Query, Request
from fastapi.responses import Response

from memory_agent.agent.agent import MemoryAgent
from memory_agent.conversations.people import UnknownUser
from memory_agent.domain import MAX_SEQ
from memory_agent.errors import NotFound
from memory_agent.server.auth import Principal
from memory_agent.server.dependencies import (
    THREAD,
    Caller,
    Cursor,
    DirectRoute,
    Limit,
    Memory,
    OpenApi,
    PathText,
    Reach,
    UserQuery,
    WritableMemory,
    Writer,
    answer,
    memory_of,
    nothing,
    waited,
)
from memory_agent.server.openapi import NOT_NEEDED, operation_id
from memory_agent.wire.base import Items
from memory_agent.wire.context import CompressedContext, Compression, MemoryContext
from memory_agent.wire.encoding import json_of, json_of_many
from memory_agent.wire.pages import Page, page_of
from memory_agent.wire.people import THREADS, USERS, ThreadSummary, UserSummary
from memory_agent.wire.requests import Fetch, Forget, Settle
from memory_agent.wire.work import EntityCount, ForgetReceipt, MemoryStatus

router = APIRouter(tags=["threads"], route_class=DirectRoute, generate_unique_id_function=operation_id)
people = APIRouter(tags=["people"], generate_unique_id_function=operation_id)

Found = TypeVar("Found")
Through = Annotated[
    int | None, Query(ge=1, le=MAX_SEQ, description="As of the turn with this seq; default: now.")
]
IfNeeded = Annotated[bool, Query(description="Only if the conversation has grown enough; else 204.")]


@router.post(f"{THREAD}/fetch", response_model=MemoryContext)
async def fetch_memory(request: Request, user_id: PathText, thread_id: PathText, body: Fetch) -> Response:
    """The memory for answering the message: `text` is the prompt, `ledger` says what is in it and why."""
    memory = memory_of(request, user_id, thread_id)
    preset: Any = body.preset
    context = await memory.fetch_memory(
        body.user_message,
        max_tokens=body.max_tokens,
        now=body.now,
        preset=preset,
        scope=body.scope,
    )
    return answer(json_of(MemoryContext, context))


@router.get(f"{THREAD}/context", response_model=CompressedContext)
async def thread_context(memory: Memory, through: Through = None) -> Response:
    """The compressed context of the whole conversation, now or as of a turn. Changes nothing."""
    return answer(json_of(CompressedContext, await memory.session_context(through)))


@router.post(f"{THREAD}/compress", response_model=CompressedContext, responses=NOT_NEEDED)
async def compress_thread(memory: WritableMemory, if_needed: IfNeeded = False) -> Response:
    """Sum the conversation up to now; its history is untouched. A repeat without new turns records nothing."""
    return await compressed(memory, if_needed=if_needed)


async def compressed(memory: MemoryAgent, *, if_needed: bool) -> Response:
    """The answer of a compression; 204 if none was needed."""
    context = await (memory.compress_if_needed() if if_needed else memory.compress())
    return nothing() if context is None else answer(json_of(CompressedContext, context))


@router.get(f"{THREAD}/compressions", response_model=Page[Compression])
async def list_compressions(memory: Memory, limit: Limit = 100, cursor: Cursor = None) -> Response:
    """Every compression of the thread, oldest first, with its tokens before and after."""
    found = await memory.compressions()
    return answer(page_of(Compression.of, found, key=lambda one: one.number, cursor=cursor, limit=limit))


@router.get(f"{THREAD}/entities", response_model=Items[EntityCount])
async def list_entities(memory: Memory, scope: Reach = None) -> Response:
    """The entities that the turns name, by first mention, each once."""
    return answer(json_of_many(EntityCount, await memory.entities(scope=scope)))


@router.get(f"{THREAD}/stats", response_model=MemoryStatus)
async def thread_status(memory: Memory) -> Response:
    """Counts: turns, owed work, parked turns with their last error, lag."""
    return answer(json_of(MemoryStatus, await memory.status()))


@router.post(f"{THREAD}/settle", status_code=204, response_class=Response)
async def settle_thread(memory: Memory, body: Settle | None = None) -> Response:
    """Wait until nothing is owed to the thread's turns: at most `timeout` seconds, and a minute.

    409 if time runs out (`settle-timeout`) or turns are parked (`turns-parked`).
    """
    await memory.settle(waited(body))
    return nothing()


@router.post(f"{THREAD}/forget", response_model=ForgetReceipt)
async def forget_turns(memory: WritableMemory, body: Forget) -> Response:
    """Erase turns of the thread from every tier, index and cache."""
    return answer(json_of(ForgetReceipt, await memory.forget(body.turn_ids, missing_ok=body.missing_ok)))


@router.delete(THREAD, response_model=ForgetReceipt)
async def clear_thread(memory: WritableMemory) -> Response:
    """Erase all turns of the thread, and what was derived from them."""
    return answer(json_of(ForgetReceipt, await memory.clear()))


@router.delete("/api/users/{user_id}", response_model=ForgetReceipt)
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
        tenant=principal.tenant,
        user_id=user_id or principal.user_id,
        after=USERS.after(cursor),
        limit=limit,
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
