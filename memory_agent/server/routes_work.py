"""Owed work: how a user or everybody stands, what is tried again or made anew, the worker, the sweep."""

import asyncio
import contextlib
from collections.abc import AsyncGenerator
from typing import Annotated, Any, Final

from fastapi import APIRouter, Depends
from fastapi.responses import Response
from pydantic import BaseModel

from memory_agent.domain import Scope
from memory_agent.errors import MemoryAgentError
from memory_agent.server.auth import Principal
from memory_agent.server.dependencies import (
    THREAD,
    Caller,
    OpenApi,
    PathText,
    Writer,
    answer,
    nothing,
    waited,
)
from memory_agent.server.problems import problem_text
from memory_agent.server.state import Api
from memory_agent.topics.sweep_plan import SweepReport
from memory_agent.wire import work as wire
from memory_agent.wire.requests import Settle, Sweep
from memory_agent.wire.work import MemoryStatus, TurnCount, WorkerStatus

router = APIRouter(tags=["work"])

USER: Final = "/api/users/{user_id}"
HEARTBEAT_SECONDS: Final = 15.0
"""Of silence, until whoever waits for a sweep is told that it is still at work."""


async def _of_user(principal: Caller, user_id: PathText) -> Scope:
    principal.check_user(user_id)
    return Scope.of(user_id, tenant=principal.tenant)


async def _of_own_user(principal: Writer, user_id: PathText) -> Scope:
    principal.check_user(user_id)
    return Scope.of(user_id, tenant=principal.tenant)


async def _of_own_thread(principal: Writer, user_id: PathText, thread_id: PathText) -> Scope:
    principal.check_user(user_id)
    return Scope.of(user_id, thread_id, tenant=principal.tenant)


async def _everybody(principal: Caller) -> Principal:
    principal.check_all_tenants()
    return principal


async def _everybody_writing(principal: Writer) -> Principal:
    principal.check_all_tenants()
    return principal


User = Annotated[Scope, Depends(_of_user)]
OwnUser = Annotated[Scope, Depends(_of_own_user)]
OwnThread = Annotated[Scope, Depends(_of_own_thread)]
Operator = Annotated[Principal, Depends(_everybody)]
WritingOperator = Annotated[Principal, Depends(_everybody_writing)]


# --- how it stands -------------------------------------------------------------------------------------------
@router.get("/api/stats", response_model=MemoryStatus)
async def memory_status(api: OpenApi, _: Operator) -> Response:
    """Counts of everybody: turns, owed work, parked turns with their last error, lag. For a key for all tenants."""
    return answer(MemoryStatus.of(await api.service.status()))


@router.get(f"{USER}/stats", response_model=MemoryStatus)
async def user_status(api: OpenApi, scope: User) -> Response:
    """Counts of all of the user's threads."""
    return answer(MemoryStatus.of(await api.service.status(scope)))


@router.post("/api/settle", status_code=204, response_class=Response)
async def settle_everybody(api: OpenApi, _: Operator, body: Settle | None = None) -> Response:
    """Wait until nothing is owed to anybody's turns, as `settle` of a thread does. For a key for all tenants."""
    await api.service.settle(waited(body))
    return nothing()


@router.post(f"{USER}/settle", status_code=204, response_class=Response)
async def settle_user(api: OpenApi, scope: User, body: Settle | None = None) -> Response:
    """Wait until nothing is owed to the user's turns, as `settle` of a thread does."""
    await api.service.settle(waited(body), scope=scope)
    return nothing()


# --- again and anew ------------------------------------------------------------------------------------------
@router.post("/api/retry", response_model=TurnCount)
async def retry_everybody(api: OpenApi, _: WritingOperator) -> Response:
    """Give everybody's parked turns a fresh start; how many. For a key for all tenants."""
    return answer(TurnCount(turns=await api.service.retry_parked()))


@router.post(f"{USER}/retry", response_model=TurnCount)
async def retry_user(api: OpenApi, scope: OwnUser) -> Response:
    """Give the user's parked turns a fresh start; how many."""
    return answer(TurnCount(turns=await api.service.retry_parked(scope)))


@router.post(f"{THREAD}/retry", response_model=TurnCount)
async def retry_thread(api: OpenApi, scope: OwnThread) -> Response:
    """Give the thread's parked turns a fresh start; how many."""
    return answer(TurnCount(turns=await api.service.retry_parked(scope)))


@router.post(f"{USER}/rebuild", response_model=TurnCount, status_code=202)
async def rebuild_user(api: OpenApi, scope: OwnUser) -> Response:
    """Fill the user's vector index anew, and the search rows that are missing; of how many turns. Settle waits for it."""
    turns = await api.service.rebuild_index(scope.tenants_user_id, tenant=scope.tenant)
    return answer(TurnCount(turns=turns), 202)


# --- the worker ----------------------------------------------------------------------------------------------
@router.get("/api/worker", response_model=WorkerStatus)
async def worker_status(api: OpenApi, principal: Caller) -> Response:
    """The status of the worker in the process that answers; behind one address each process has its own."""
    found = WorkerStatus.of(await api.service.worker_status())
    return answer(found if principal.all_tenants else found.model_copy(update={"usage": None}))


@router.post("/api/worker/pause", response_model=WorkerStatus)
async def pause_worker(api: OpenApi, _: WritingOperator) -> Response:
    """Let it finish what it has in hand, then leave everything owed until `resume`. For a key for all tenants."""
    return answer(WorkerStatus.of(await api.service.pause_worker()))


@router.post("/api/worker/resume", response_model=WorkerStatus)
async def resume_worker(api: OpenApi, _: WritingOperator) -> Response:
    """Let it go on with what is owed. For a key for all tenants."""
    return answer(WorkerStatus.of(await api.service.resume_worker()))


# --- the sweep -----------------------------------------------------------------------------------------------
@router.post(
    "/api/sweep",
    response_class=Response,
    responses={200: {"content": {"text/event-stream": {"schema": {"type": "string"}}}}},
)
async def sweep(api: OpenApi, _: WritingOperator, body: Sweep | None = None) -> Response:
    """Let faded topics of all users go, and forget turns past the retention age. For a key for all tenants.

    Answers as server-sent events, each with JSON as `data`: `progress`, `action` for everything that is done (or would be,
    with `dry_run`), and at the end `report`, or `problem`. Whoever hangs up before ends the sweep; the next one goes on.
    """
    sweeping = _Sweeping(api, dry_run=body is not None and body.dry_run)
    return _SweepStream(sweeping, await sweeping.begin())


class _Sweeping:
    """A sweep as a task, and what it tells as frames of server-sent events."""

    def __init__(self, api: Api, *, dry_run: bool) -> None:
        self._told: asyncio.Queue[str | None] = asyncio.Queue()
        self._task = asyncio.create_task(self._sweep(api, dry_run), name="memory-agent sweep")
        self._task.add_done_callback(lambda _: self._told.put_nowait(None))

    async def _sweep(self, api: Api, dry_run: bool) -> SweepReport:
        return await api.service.sweep(
            dry_run=dry_run,
            progress=lambda so_far: self._tell("progress", wire.SweepProgress.of(so_far)),
            each=lambda action: self._tell("action", wire.TenantAction.of(action)),
        )

    def _tell(self, name: str, model: BaseModel) -> None:
        self._told.put_nowait(_frame(name, model.model_dump_json()))

    async def begin(self) -> str | None:
        """The first thing told; None: it is over. Raises what kept it from beginning, which the answer's status tells."""
        try:
            first = await self._told.get()
        except asyncio.CancelledError:
            await self._end()
            raise
        if first is None:
            self._task.result()
        return first

    def stop(self) -> None:
        """End the sweep in order; the next one goes on from there."""
        self._task.cancel()

    async def frames(self, first: str | None) -> AsyncGenerator[str, None]:
        """Everything that is told, to the end; leaving early ends the sweep."""
        frame = first
        try:
            while frame is not None:
                yield frame
                try:
                    frame = await asyncio.wait_for(self._told.get(), HEARTBEAT_SECONDS)
                except TimeoutError:
                    frame = ": still at work\n\n"
            if not self._task.cancelled():
                yield self._last()
        finally:
            await self._end()

    def _last(self) -> str:
        try:
            return _frame("report", wire.SweepReport.of(self._task.result()).model_dump_json())
        except MemoryAgentError as exc:
            return _frame("problem", problem_text(exc))

    async def _end(self) -> None:
        self._task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.wait({self._task})
        if not self._task.cancelled():
            self._task.exception()  # it was told of already, or nobody is there to be told


class _SweepStream(Response):
    """The answer; when whoever asked hangs up, the sweep ends."""

    media_type = "text/event-stream"

    def __init__(self, sweeping: _Sweeping, first: str | None) -> None:
        self.status_code = 200
        self.background = None
        self.init_headers({"Cache-Control": "no-store", "X-Accel-Buffering": "no"})
        self._sweeping = sweeping
        self._first = first

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        async def watch() -> None:
            while (await receive())["type"] != "http.disconnect":
                pass
            self._sweeping.stop()

        async def put(frame: str, *, more: bool = True) -> None:
            await send({"type": "http.response.body", "body": frame.encode(), "more_body": more})

        watching = asyncio.create_task(watch())
        try:
            async with contextlib.aclosing(self._sweeping.frames(self._first)) as frames:
                await send(
                    {"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers}
                )
                async for frame in frames:
                    await put(frame)
                await put("", more=False)
        finally:
            watching.cancel()
            await asyncio.wait({watching})


def _frame(name: str, data: Any) -> str:
    return f"event: {name}\ndata: {data}\n\n"
