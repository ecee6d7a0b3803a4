"""Routes of users and threads."""

from collections.abc import Awaitable
from typing import TypeVar

from fastapi import APIRouter
from fastapi.responses import Response

from memory_agent.conversations.people import UnknownUser
from memory_agent.errors import NotFound
from memory_agent.server.auth import Principal
from memory_agent.server.dependencies import (
    THREAD,
    Caller,
    Cursor,
    Limit,
    Memory,
    OpenApi,
    PathText,
    UserQuery,
    answer,
)
from memory_agent.wire.pages import Page
from memory_agent.wire.people import THREADS, USERS, ThreadSummary, UserSummary

router = APIRouter(tags=["people"])

Found = TypeVar("Found")


@router.get("/api/users", response_model=Page[UserSummary])
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
    return answer(USERS.to_page(page))


@router.get("/api/users/{user_id}/threads", response_model=Page[ThreadSummary])
async def list_threads(
    api: OpenApi, principal: Caller, user_id: PathText, limit: Limit = 100, cursor: Cursor = None
) -> Response:
    """The user's threads, by id, with counts and their last activity. 404 names the users whose ids are nearest."""
    principal.check_user(user_id)
    asked = api.service.threads(user_id, tenant=principal.tenant, after=THREADS.after(cursor), limit=limit)
    return answer(THREADS.to_page(await _of_no_others(principal, asked)))


@router.get(THREAD, response_model=ThreadSummary)
async def show_thread(memory: Memory, principal: Caller) -> Response:
    """The thread's number of turns and the time of the last one. 404 names threads with similar ids."""
    return answer(ThreadSummary.of(await _of_no_others(principal, memory.thread_summary())))


async def _of_no_others(principal: Principal, asked: Awaitable[Found]) -> Found:
    """The answer; for a key of one user a refusal tells nothing of the tenant's others."""
    try:
        return await asked
    except UnknownUser:
        if principal.user_id is None:
            raise
        raise NotFound(f"nothing is remembered of user {principal.user_id!r} yet") from None
