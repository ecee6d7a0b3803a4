"""Routes of a thread as a whole: context, status, compression, forgetting."""

from typing import Annotated, Any

from fastapi import APIRouter, Query
from fastapi.responses import Response

from memory_agent.agent.agent import MemoryAgent
from memory_agent.domain import MAX_SEQ
from memory_agent.domain import CompressedContext as Compressed
from memory_agent.server.dependencies import (
    THREAD,
    Cursor,
    Limit,
    Memory,
    OpenApi,
    PathText,
    Reach,
    WritableMemory,
    Writer,
    answer,
    nothing,
    waited,
)
from memory_agent.server.openapi import NOT_NEEDED
from memory_agent.wire.base import Items
from memory_agent.wire.context import CompressedContext, Compression, MemoryContext
from memory_agent.wire.pages import Page, page_of
from memory_agent.wire.requests import Fetch, Forget, Settle
from memory_agent.wire.work import EntityCount, ForgetReceipt, MemoryStatus

router = APIRouter(tags=["threads"])

Through = Annotated[
    int | None, Query(ge=1, le=MAX_SEQ, description="As of the turn with this seq; default: now.")
]
IfNeeded = Annotated[bool, Query(description="Only if the conversation has grown enough; else 204.")]


@router.post(f"{THREAD}/fetch", response_model=MemoryContext)
async def fetch_memory(memory: Memory, body: Fetch) -> Response:
    """The memory for answering the message: `text` is the prompt, `ledger` says what is in it and why."""
    preset: Any = body.preset
    context = await memory.fetch_memory(
        body.user_message, max_tokens=body.max_tokens, now=body.now, preset=preset
    )
    return answer(MemoryContext.of(context))


@router.get(f"{THREAD}/context", response_model=CompressedContext)
async def thread_context(memory: Memory, through: Through = None) -> Response:
    """The compressed context of the whole conversation, now or as of a turn. Changes nothing."""
    return answer(CompressedContext.of(await memory.session_context(through)))


@router.post(f"{THREAD}/compress", response_model=CompressedContext, responses=NOT_NEEDED)
async def compress_thread(memory: WritableMemory, if_needed: IfNeeded = False) -> Response:
    """Sum the conversation up to now; its history is untouched. A repeat without new turns records nothing."""
    context = await compressed(memory, if_needed=if_needed)
    return nothing() if context is None else answer(CompressedContext.of(context))


async def compressed(memory: MemoryAgent, *, if_needed: bool) -> Compressed | None:
    """The conversation compressed; None if that was not needed."""
    return await (memory.compress_if_needed() if if_needed else memory.compress())


@router.get(f"{THREAD}/compressions", response_model=Page[Compression])
async def list_compressions(memory: Memory, limit: Limit = 100, cursor: Cursor = None) -> Response:
    """Every compression of the thread, oldest first, with its tokens before and after."""
    found = await memory.compressions()
    return answer(page_of(Compression.of, found, key=lambda one: one.number, cursor=cursor, limit=limit))


@router.get(f"{THREAD}/entities", response_model=Items[EntityCount])
async def list_entities(memory: Memory, scope: Reach = "thread") -> Response:
    """The entities that the turns name, by first mention, each once."""
    reach: Any = scope
    return answer(Items[EntityCount](items=tuple(map(EntityCount.of, await memory.entities(scope=reach)))))


@router.get(f"{THREAD}/stats", response_model=MemoryStatus)
async def thread_status(memory: Memory) -> Response:
    """Counts: turns, owed work, parked turns with their last error, lag."""
    return answer(MemoryStatus.of(await memory.status()))


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
    return answer(ForgetReceipt.of(await memory.forget(body.turn_ids, missing_ok=body.missing_ok)))


@router.delete(THREAD, response_model=ForgetReceipt)
async def clear_thread(memory: WritableMemory) -> Response:
    """Erase all turns of the thread, and what was derived from them."""
    return answer(ForgetReceipt.of(await memory.clear()))


@router.delete("/api/users/{user_id}", response_model=ForgetReceipt)
async def forget_user(api: OpenApi, principal: Writer, user_id: PathText) -> Response:
    """Erase everything about a user."""
    principal.check_user(user_id)
    return answer(ForgetReceipt.of(await api.service.forget_user(user_id, tenant=principal.tenant)))
