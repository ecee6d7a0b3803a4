"""ServiceClient: a memory service somewhere else, as an application holds it; hands out clients of its threads."""

from __future__ import annotations

import dataclasses
import math
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Any, Final, Self, TypeVar

from pydantic import BaseModel, ValidationError

from memory_agent.agent.arguments import checked_query
from memory_agent.checks import checked_id, is_number, is_whole
from memory_agent.client.calls import Asked, Asking, documented, many, one, sends, settled, stands_for
from memory_agent.client.connection import Address, Call, Connection, value_of
from memory_agent.conversations.people import checked_limit
from memory_agent.data_dir import LocalService
from memory_agent.domain import DEFAULT_TENANT, Scope
from memory_agent.errors import ConfigError, InvalidInput, MemoryAgentError, ServiceError, Unavailable
from memory_agent.keys import is_proof, new_nonce
from memory_agent.service import MemoryService
from memory_agent.wire import answers, requests
from memory_agent.wire.pages import Page
from memory_agent.wire.problems import Problem, error_of

if TYPE_CHECKING:
    from types import TracebackType

    import httpx

    from memory_agent.client.connection import Reply
    from memory_agent.client.memory import MemoryClient
    from memory_agent.config import MemoryConfig
    from memory_agent.domain import MemoryStatus, RebuildStep, ThreadsPage, UsersPage
    from memory_agent.topics.sweep import SweepReport

Read = TypeVar("Read", bound=BaseModel)

TIMEOUT_SECONDS: Final = 30.0
_PROBE_SECONDS: Final = 15.0
"""The service itself waits up to 10 for its parts."""

_WORKER: Final = one(answers.WorkerStatus)
_COUNT: Final = one(answers.TurnCount)
_OF_ALL: Final = "For a key for all tenants."
_PROCESS: Final = "The process is the one that answers."
_WORK: Final[dict[str, Any]] = {"repeatable": True, "long": True}
"""Of calls that begin work, or go on with it."""


# --- arguments that are not sent as they are -----------------------------------------------------------------
def _question(_: Asking, asked: Asked) -> Asked:
    checked_query(asked["query"], asked["role"])
    return asked


def _place(_: Asking, asked: Asked) -> Asked:
    after = asked.pop("after")
    cursor = answers.USERS.cursor(None if after is None else checked_id("after", after))
    return {**asked, "limit": checked_limit(asked["limit"]), "cursor": cursor}


def _about(scope: Scope | None, method: str, what: str) -> tuple[str, Asked]:
    """The route to `what` is about a thread, a user or (None) everybody, and what fills it."""
    if scope is None:
        return f"{method} {what}", {}
    if not isinstance(scope, Scope):
        raise InvalidInput(f"scope is {scope!r:.80}; pass a Scope, or None for everybody")
    ids = {"user_id": scope.tenants_user_id, "tenant": scope.tenant}
    if scope.thread_id is None:
        return f"{method} users/{{user_id}}/{what}", ids
    return f"{method} threads/{{user_id}}/{{thread_id}}/{what}", {**ids, "thread_id": scope.thread_id}


class ServiceClient(Asking):
    """A service over HTTP, shared by all threads of an application: `async with ServiceClient(url, api_key=…) as service:`.

    Lives on one event loop. Its key decides whose users it sees; `tenant`, here and there, is for a key for all tenants,
    and `default` the key's own.
    """

    def __init__(
        self,
        base_url: str | None = None,
        *,
        api_key: str | None = None,
        timeout: float = TIMEOUT_SECONDS,
        max_retries: int = 2,
        http: httpx.AsyncClient | None = None,
        transport: httpx.AsyncBaseTransport | None = None,
        trust_env: bool = True,
    ) -> None:
        """No I/O. Raises ConfigError if there is no address, or one that cannot be used.

        `base_url` and `api_key`: those of the settings `service_url` and `service_api_key` if None. `timeout`: seconds
        that each attempt of an ordinary call may take. `max_retries`: further attempts after a lost connection, a
        timeout, or an answer 429, 502 (a proxy's), 503 or 504; 0 for none. They wait as the service asks to, up to 30
        seconds. `http`: a client that the application holds and closes, with its proxies and certificates; else
        `transport` is httpx's. `trust_env`: proxies and certificates that the environment names are used.
        """
        if not is_number(timeout) or not 0 < timeout < math.inf:
            raise ConfigError(f"timeout is {timeout!r:.80}; pass seconds above 0")
        if not is_whole(max_retries, 0):
            raise ConfigError(f"max_retries is {max_retries!r:.80}; pass a whole number from 0 on")
        self._service = self
        self.timeout = timeout
        self.max_retries = max_retries
        self.connection = Connection(
            Address.of(base_url, api_key),
            max_retries=max_retries,
            http=http,
            transport=transport,
            trust_env=trust_env,
        )

    def __repr__(self) -> str:
        return f"ServiceClient({self.connection.url!r})"

    async def __aenter__(self) -> Self:
        await self.connection.open()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.connection.close()

    def agent(self, user_id: str, thread_id: str, *, tenant: str = DEFAULT_TENANT) -> MemoryClient:
        from memory_agent.client.memory import MemoryClient

        return MemoryClient(user_id, thread_id, service=self, tenant=tenant)

    agent.__doc__ = documented(MemoryService.agent, None)

    search = sends(
        MemoryService.search,
        "POST memory/search",
        many(answers.Recollection),
        requests.Search,
        prepare=_question,
        repeatable=True,
    )

    @stands_for(MemoryService.users)
    async def users(self, asked: Asked) -> UsersPage:
        """Those of the key's tenant; a key for one user sees that one alone."""
        reply = await self._ask("GET users", _place(self, asked))
        return answers.USERS.from_page(value_of(reply, Page[answers.UserSummary]))

    @stands_for(MemoryService.threads)
    async def threads(self, asked: Asked) -> ThreadsPage:
        reply = await self._ask("GET users/{user_id}/threads", _place(self, asked))
        return answers.THREADS.from_page(value_of(reply, Page[answers.ThreadSummary]))

    find_session = sends(MemoryService.find_session, "GET sessions/{session_id}", one(answers.Session))
    forget_user = sends(
        MemoryService.forget_user,
        "DELETE users/{user_id}",
        one(answers.ForgetReceipt),
        repeatable=True,
        long=True,
        note="If the request had to be sent again, the receipt may count less than was erased.",
    )

    async def ready(self) -> bool:
        """True if the service can be reached and its document store answers; asked once, without the key.

        Raises ServiceError if what answers is no memory service.
        """
        try:
            reply = await self._probe("/readyz")
        except Unavailable:
            return False
        if reply.media_type != "application/json":
            raise ServiceError(
                f"{reply.asked}/readyz was answered with {reply.media_type!r}; is service_url (base_url) the address "
                "of a memory service?"
            )
        return True

    async def _probe(self, path: str, **params: str) -> Reply:
        call = Call(
            method="GET",
            path=path,
            params=params,
            repeatable=False,
            seconds=_PROBE_SECONDS,
            until=0.0,
            open_to_all=True,
        )
        return await self.connection.send(call)

    # --- work ------------------------------------------------------------------------------------------------
    @stands_for(MemoryService.status)
    async def status(self, asked: Asked) -> MemoryStatus:
        return one(answers.MemoryStatus)(await self._ask(*_about(asked["scope"], "GET", "stats")))

    @stands_for(MemoryService.settle)
    async def settle(self, asked: Asked) -> None:
        """Asks as `settle` of a MemoryClient does."""
        scope = asked.pop("scope")
        await settled(self, *_about(scope, "POST", "settle"), lambda: self.status(scope), **asked)

    @stands_for(MemoryService.retry_parked)
    async def retry_parked(self, asked: Asked) -> int:
        """If the request had to be sent again, fewer may be counted than there were."""
        return _COUNT(await self._ask(*_about(asked["scope"], "POST", "retry"), repeatable=True))

    rebuild_index = sends(MemoryService.rebuild_index, "POST users/{user_id}/rebuild", _COUNT, **_WORK)

    @stands_for(MemoryService.reextract_facts)
    async def reextract_facts(self, asked: Asked) -> RebuildStep:
        reply = await self._ask(
            *_about(asked["scope"], "POST", "facts/reextract"), repeatable=True, long=True
        )
        return one(answers.RebuildStep)(reply)

    erasures = sends(MemoryService.erasures, "GET erasures", many(answers.ErasureReceipt), note=_OF_ALL)

    @stands_for(MemoryService.replay_erasures)
    async def replay_erasures(self, asked: Asked) -> int:
        """For a key for all tenants."""
        given = [dataclasses.asdict(receipt) for receipt in asked["receipts"]]
        calls = 0
        for start in range(0, len(given), requests.MAX_RECEIPTS):
            some = {"receipts": given[start : start + requests.MAX_RECEIPTS]}
            route = "POST erasures/replay"
            reply = await self._ask(route, some, requests.ReplayErasures, repeatable=True, long=True)
            calls += one(answers.CallCount)(reply)
        return calls

    rebuild_next = sends(
        MemoryService.rebuild_next, "POST rebuild", one(answers.RebuildStep), long=True, note=_OF_ALL
    )
    worker_status = sends(
        MemoryService.worker_status,
        "GET worker",
        _WORKER,
        note="The process is the one that answers; `usage` is told to a key for all tenants alone.",
    )
    pause_worker = sends(
        MemoryService.pause_worker, "POST worker/pause", _WORKER, repeatable=True, note=_PROCESS
    )
    resume_worker = sends(
        MemoryService.resume_worker, "POST worker/resume", _WORKER, repeatable=True, note=_PROCESS
    )

    @stands_for(MemoryService.sweep)
    async def sweep(self, asked: Asked) -> SweepReport:
        """Cancelled, the service's sweep ends, and the next one goes on from there."""
        progress, each = asked["progress"], asked["each"]
        given = {name: asked[name] for name in requests.Sweep.model_fields if asked[name] is not None}
        call = self._call("POST sweep", given, requests.Sweep)
        async with self.connection.stream(call, {}) as frames:
            async for frame in frames:
                if frame.event == "report":
                    return _read(answers.SweepReport, frame.data).domain()
                if frame.event == "problem":
                    problem = _read(Problem, frame.data)
                    raise error_of(problem, problem.status)
                if frame.event == "progress" and progress is not None:
                    progress(_read(answers.SweepProgress, frame.data).domain())
                if frame.event == "action" and each is not None:
                    each(_read(answers.TenantAction, frame.data).domain())
        raise ServiceError(
            "the service ended its answer before the sweep was over; the next one goes on from there"
        )


def _read(model: type[Read], data: str) -> Read:
    try:
        return model.model_validate_json(data)
    except ValidationError:
        raise ServiceError(
            "the service told of its sweep in a way that cannot be read; their versions may not fit"
        ) from None


async def is_holder(service: ServiceClient, token: str) -> bool:
    """True if the service can be reached and knows the token's key as its own. Asked once; the key is not sent.

    The process at an address may be another one than the one that left the address beside its folder's lock.
    """
    nonce = new_nonce()
    try:
        answered = value_of(await service._probe("/holder", nonce=nonce), answers.Proof)
    except MemoryAgentError:
        return False
    return is_proof(answered.proof, token, nonce)


async def client_of_holder(cfg: MemoryConfig, stack: AsyncExitStack) -> ServiceClient | None:
    """A client of the service that the folder's holder runs, closed with `stack`; None without one."""
    left = LocalService.left_in(cfg.data_dir)
    if left is None or left.db_name != cfg.db_name:
        return None
    async with AsyncExitStack() as trying:
        # A proxy that the environment names is no way to this machine, and must not see the key.
        client = await trying.enter_async_context(
            ServiceClient(left.url, api_key=left.api_key, trust_env=False)
        )
        # Of another machine or container that shares the folder, the address means nothing here; whoever listens there
        # must see neither the key nor what is asked. Or the holder is about to leave.
        if not await is_holder(client, left.api_key):
            return None
        stack.push_async_exit(trying.pop_all())
    return client
