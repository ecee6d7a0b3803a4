"""Owed work: how a user or everybody stands, what is tried again or made anew, the worker, the sweep."""

import asyncio
from collections.abc import AsyncGenerator
from dataclasses import replace
from typing import Final

from fastapi import APIRouter
from fastapi.responses import Response
from pydantic import BaseModel

from memory_agent.errors import MemoryAgentError
from memory_agent.server.dependencies import (
    THREAD,
    Api,
    Caller,
    OpenApi,
    Operator,
    PathText,
    WritableMemory,
    Writer,
    WritingOperator,
    answer,
    event_source,
    nothing,
    waited,
)
from memory_agent.server.openapi import operation_id
from memory_agent.server.problems import problem_text
from memory_agent.topics.sweep import SweepReport
from memory_agent.wire import answers
from memory_agent.wire.answers import (
    CallCount,
    ErasureReceipt,
    MemoryStatus,
    RebuildStep,
    TurnCount,
    WorkerStatus,
)
from memory_agent.wire.base import Items, json_of, json_of_many
from memory_agent.wire.requests import ReplayErasures, Settle, Sweep

router = APIRouter(tags=["work"], generate_unique_id_function=operation_id)

USER: Final = "/api/users/{user_id}"
HEARTBEAT_SECONDS: Final = 15.0
"""Of silence, until whoever waits for a sweep is told that it is still at work."""


# --- how it stands -------------------------------------------------------------------------------------------
@router.get("/api/stats", response_model=MemoryStatus)
async def memory_status(api: OpenApi, _: Operator) -> Response:
    """Counts of everybody: turns, owed work, parked turns with their last error, lag. For a key for all tenants."""
    return answer(json_of(MemoryStatus, await api.service.status()))


@router.get(f"{USER}/stats", response_model=MemoryStatus)
async def user_status(api: OpenApi, principal: Caller, user_id: PathText) -> Response:
    """Counts of all of the user's threads."""
    return answer(json_of(MemoryStatus, await api.service.status(principal.scope(user_id))))


@router.post("/api/settle", status_code=204, response_class=Response)
async def settle_everybody(api: OpenApi, _: Operator, body: Settle | None = None) -> Response:
    """Wait until nothing is owed to anybody's turns, as `settle` of a thread does. For a key for all tenants."""
    await api.service.settle(**waited(body))
    return nothing()


@router.post(f"{USER}/settle", status_code=204, response_class=Response)
async def settle_user(
    api: OpenApi, principal: Caller, user_id: PathText, body: Settle | None = None
) -> Response:
    """Wait until nothing is owed to the user's turns, as `settle` of a thread does."""
    await api.service.settle(**waited(body), scope=principal.scope(user_id))
    return nothing()


# --- again and anew ------------------------------------------------------------------------------------------
@router.post("/api/retry", response_model=TurnCount)
async def retry_everybody(api: OpenApi, _: WritingOperator) -> Response:
    """Give everybody's parked turns a fresh start; how many. For a key for all tenants."""
    return answer(TurnCount(turns=await api.service.retry_parked()))


@router.post(f"{USER}/retry", response_model=TurnCount)
async def retry_user(api: OpenApi, principal: Writer, user_id: PathText) -> Response:
    """Give the user's parked turns a fresh start; how many."""
    return answer(TurnCount(turns=await api.service.retry_parked(principal.scope(user_id))))


@router.post(f"{THREAD}/retry", response_model=TurnCount)
async def retry_thread(api: OpenApi, memory: WritableMemory) -> Response:
    """Give the thread's parked turns a fresh start; how many."""
    return answer(TurnCount(turns=await api.service.retry_parked(memory.scope)))


@router.post(f"{USER}/rebuild", response_model=TurnCount, status_code=202)
async def rebuild_user(api: OpenApi, principal: Writer, user_id: PathText) -> Response:
    """Fill the user's vector index anew, and the search rows that are missing; of how many turns. Settle waits for it."""
    principal.check_user(user_id)
    turns = await api.service.rebuild_index(user_id, tenant=principal.tenant)
    return answer(TurnCount(turns=turns), 202)


@router.post("/api/rebuild", response_model=RebuildStep, status_code=202)
async def rebuild_some(api: OpenApi, _: WritingOperator) -> Response:
    """Do the same for some users more, until all are done; settle between two calls. For a key for all tenants."""
    return answer(json_of(RebuildStep, await api.service.rebuild_next()), 202)


@router.post("/api/facts/reextract", response_model=RebuildStep, status_code=202)
async def reextract_some(api: OpenApi, _: WritingOperator) -> Response:
    """Have the facts of some users more extracted again. For a key for all tenants.

    Call it until all are done, and settle between two calls.
    """
    return answer(json_of(RebuildStep, await api.service.reextract_facts()), 202)


@router.post(f"{USER}/facts/reextract", response_model=RebuildStep, status_code=202)
async def reextract_user(api: OpenApi, principal: Writer, user_id: PathText) -> Response:
    """Have the user's facts extracted again. What was known counts until a thread's turns are all read."""
    return answer(json_of(RebuildStep, await api.service.reextract_facts(principal.scope(user_id))), 202)


@router.post(f"{THREAD}/facts/reextract", response_model=RebuildStep, status_code=202)
async def reextract_thread(api: OpenApi, memory: WritableMemory) -> Response:
    """Have the thread's facts extracted again. What was known counts until its turns are all read."""
    return answer(json_of(RebuildStep, await api.service.reextract_facts(memory.scope)), 202)


# --- erasures ------------------------------------------------------------------------------------------------
@router.get("/api/erasures", response_model=Items[ErasureReceipt])
async def list_erasures(api: OpenApi, _: Operator) -> Response:
    """The receipts of all forget calls and how far each is, by hashes of ids alone. For a key for all tenants."""
    return answer(json_of_many(ErasureReceipt, await api.service.erasures()))


@router.post("/api/erasures/replay", response_model=CallCount)
async def replay_erasures(api: OpenApi, _: WritingOperator, body: ReplayErasures) -> Response:
    """Erase again what these receipts were of, where a restored backup brought it back. For a key for all tenants."""
    receipts = [receipt.domain() for receipt in body.receipts]
    return answer(CallCount(calls=await api.service.replay_erasures(receipts)))


# --- the worker ----------------------------------------------------------------------------------------------
@router.get("/api/worker", response_model=WorkerStatus)
async def worker_status(api: OpenApi, principal: Caller) -> Response:
    """The status of the worker in the process that answers; behind one address each process has its own."""
    found = await api.service.worker_status()
    return answer(
        json_of(WorkerStatus, found if principal.all_tenants else replace(found, usage=None, usage_by={}))
    )


@router.post("/api/worker/pause", response_model=WorkerStatus)
async def pause_worker(api: OpenApi, _: WritingOperator) -> Response:
    """Let it finish what it has in hand, then leave everything owed until `resume`. For a key for all tenants."""
    return answer(json_of(WorkerStatus, await api.service.pause_worker()))


@router.post("/api/worker/resume", response_model=WorkerStatus)
async def resume_worker(api: OpenApi, _: WritingOperator) -> Response:
    """Let it go on with what is owed. For a key for all tenants."""
    return answer(json_of(WorkerStatus, await api.service.resume_worker()))


# --- the sweep -----------------------------------------------------------------------------------------------
@router.post(
    "/api/sweep",
    response_class=Response,
    responses={200: {"content": {"text/event-stream": {"schema": {"type": "string"}}}}},
)
async def sweep(api: OpenApi, _: WritingOperator, body: Sweep | None = None) -> Response:
    """Let faded topics of all users go, and forget turns past the retention age. For a key for all tenants.

    What is known from such turns stays, without their words, unless `forget_facts`. Answers as server-sent events, each with JSON as `data`: `progress`, `action` for everything that is done (or would be,
    with `dry_run`), and at the end `report`, or `problem`. Whoever hangs up before ends the sweep; the next one goes on.
    """
    return await event_source(_swept(api, body or Sweep()))


async def _swept(api: Api, asked: Sweep) -> AsyncGenerator[str, None]:
    """A sweep as a task, and what it tells; closing this ends the sweep in order, and the next one goes on from there."""
    told: asyncio.Queue[str | None] = asyncio.Queue()

    def tell(name: str, model: BaseModel) -> None:
        told.put_nowait(_frame(name, model.model_dump_json()))

    sweep = api.service.sweep(
        **asked.model_dump(),
        progress=lambda so_far: tell("progress", answers.SweepProgress.of(so_far)),
        each=lambda action: tell("action", answers.TenantAction.of(action)),
    )
    task = asyncio.create_task(sweep, name="memory-agent sweep")
    task.add_done_callback(lambda _: told.put_nowait(None))
    try:
        frame = await told.get()
        if frame is None:
            task.result()  # what kept it from beginning is told by the status
        while frame is not None:
            yield frame
            try:
                frame = await asyncio.wait_for(told.get(), HEARTBEAT_SECONDS)
            except TimeoutError:
                frame = ": still at work\n\n"
        if not task.cancelled():
            yield _last(task)
    finally:
        task.cancel()
        await asyncio.wait({task})
        if not task.cancelled():
            task.exception()  # it was told of already, or nobody is there to be told


def _last(task: asyncio.Task[SweepReport]) -> str:
    try:
        return _frame("report", answers.SweepReport.of(task.result()).model_dump_json())
    except MemoryAgentError as exc:
        return _frame("problem", problem_text(exc))


def _frame(name: str, data: str) -> str:
    return f"event: {name}\ndata: {data}\n\n"
