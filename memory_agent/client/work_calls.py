"""The part of ServiceClient that is about owed work: how it stands, tried again or made anew, the worker, the sweep."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

from pydantic import BaseModel, ValidationError

from memory_agent.client.documented import documented_as
from memory_agent.client.thread_requests import answered, call_to, settled
from memory_agent.domain import DEFAULT_TENANT, Scope
from memory_agent.errors import InvalidInput, ServiceError
from memory_agent.service import MemoryService
from memory_agent.wire import sweep as wire
from memory_agent.wire import work
from memory_agent.wire.problems import Problem, error_of
from memory_agent.wire.requests import Settle, Sweep

if TYPE_CHECKING:
    from collections.abc import Callable

    from memory_agent.client.connection import Call, Connection
    from memory_agent.domain import MemoryStatus, WorkerStatus
    from memory_agent.topics.sweep_plan import SweepAction, SweepProgress, SweepReport

Read = TypeVar("Read", bound=BaseModel)


@documented_as(MemoryService)
class WorkCalls:
    """ServiceClient's calls about pending work. `scope=None` is everybody: a key for all tenants."""

    connection: Connection
    timeout: float

    async def status(self, scope: Scope | None = None) -> MemoryStatus:
        return await answered(self, self._about(scope, "GET", "stats"), work.MemoryStatus)

    async def settle(
        self,
        timeout: float | None = None,
        *,
        scope: Scope | None = None,
        progress: Callable[[MemoryStatus], None] | None = None,
    ) -> None:
        """Asks as `settle` of a MemoryClient does."""

        async def ask(seconds: float, deadline: float | None) -> None:
            body = Settle.of(timeout=seconds)
            call = self._about(scope, "POST", "settle", body=body, waits=seconds, until=deadline)
            await self.connection.send(call)

        await settled(ask, lambda: self.status(scope), timeout, progress)

    async def retry_parked(self, scope: Scope | None = None) -> int:
        """If the request had to be sent again, fewer may be counted than there were."""
        return await answered(self, self._about(scope, "POST", "retry"), work.TurnCount)

    async def rebuild_index(self, user_id: str, *, tenant: str = DEFAULT_TENANT) -> int:
        scope = Scope.of(user_id, tenant=tenant)
        return await answered(self, self._about(scope, "POST", "rebuild", long=True), work.TurnCount)

    # --- the worker ------------------------------------------------------------------------------------------
    async def worker_status(self) -> WorkerStatus:
        """The process is the one that answers; `usage` is told to a key for all tenants alone."""
        return await self._worker("GET")

    async def pause_worker(self) -> WorkerStatus:
        """The process is the one that answers."""
        return await self._worker("POST", "pause")

    async def resume_worker(self) -> WorkerStatus:
        """The process is the one that answers."""
        return await self._worker("POST", "resume")

    async def _worker(self, method: str, *what: str) -> WorkerStatus:
        return await answered(self, call_to(self, method, "worker", *what), work.WorkerStatus)

    # --- the sweep -------------------------------------------------------------------------------------------
    async def sweep(
        self,
        *,
        dry_run: bool = False,
        progress: Callable[[SweepProgress], None] | None = None,
        each: Callable[[SweepAction], None] | None = None,
    ) -> SweepReport:
        """Cancelled, the service's sweep ends, and the next one goes on from there."""
        call = call_to(self, "POST", "sweep", body=Sweep.of(dry_run=bool(dry_run)), repeatable=False)
        async with self.connection.stream(call, {}) as frames:
            async for frame in frames:
                if frame.event == "report":
                    return _read(wire.SweepReport, frame.data).domain()
                if frame.event == "problem":
                    problem = _read(Problem, frame.data)
                    raise error_of(problem, problem.status)
                if frame.event == "progress" and progress is not None:
                    progress(_read(wire.SweepProgress, frame.data).domain())
                if frame.event == "action" and each is not None:
                    each(_read(wire.TenantAction, frame.data).domain())
        raise ServiceError(
            "the service ended its answer before the sweep was over; the next one goes on from there"
        )

    def _about(self, scope: Scope | None, method: str, what: str, **options: Any) -> Call:
        """A request about a thread, a user or everybody. `options`: those of `call_to`."""
        if scope is None:
            return call_to(self, method, what, **options)
        if not isinstance(scope, Scope):
            raise InvalidInput(f"scope is {scope!r:.80}; pass a Scope, or None for everybody")
        ids = [scope.tenants_user_id] if scope.thread_id is None else [scope.tenants_user_id, scope.thread_id]
        kind = "users" if scope.thread_id is None else "threads"
        return call_to(self, method, kind, *ids, what, tenant=scope.tenant, **options)


def _read(model: type[Read], data: str) -> Read:
    try:
        return model.model_validate_json(data)
    except ValidationError:
        raise ServiceError(
            "the service told of its sweep in a way that cannot be read; their versions may not fit"
        ) from None
