"""The memory of one folder, whoever holds it: this process, which shares it, or another one, until that ends.

For processes that stay: two chat clients that each start an MCP server over one folder have one memory. Whoever came
first holds the folder; when it ends, one of the others takes over, and a call that fell in between is made again.
"""

from __future__ import annotations

import asyncio
import functools
import logging
import time
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Any, Final, Self, TypeVar, cast

from memory_agent.cli.opening import client_of_holder, open_or_ask, share
from memory_agent.data_dir import LocalService, is_held
from memory_agent.domain import new_id
from memory_agent.errors import AccessDenied, DataDirInUse, NotOpen, ServiceUnavailable
from memory_agent.service import MemoryService

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from types import TracebackType

    from memory_agent.cli.opening import Service
    from memory_agent.config import MemoryConfig
    from memory_agent.mcp.tools import Memory

log = logging.getLogger(__name__)

Answer = TypeVar("Answer")

_LOOK_SECONDS: Final = 0.5
"""Between two looks at whether the holder is still there; half of it is how long a call waits on average."""
_PATIENCE_SECONDS: Final = 30.0
"""How long a call waits for somebody to take over: opening takes seconds, with a model to load."""
_WRITES: Final = ("add_turns", "set_fact", "retract_fact")
"""Calls that count once only with an idempotency key, should they have to be made again."""


class FolderMemory:
    """Use as `async with FolderMemory(cfg) as memory:`. `cfg` must keep something in its data_dir."""

    def __init__(self, cfg: MemoryConfig) -> None:
        self._cfg = cfg
        self._service: Service | None = None
        self._stack = AsyncExitStack()
        """Closes the service in use."""
        self._left: LocalService | None = None
        """What stood beside the lock when the service in use was turned to."""
        self._following: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        """Open the memory or connect to who has it. Raises what opening raises, DataDirInUse if nobody serves it."""
        async with AsyncExitStack() as stack:
            before = LocalService.left_in(self._cfg.data_dir)
            self._service = await open_or_ask(self._cfg, stack)
            self._left = before or LocalService.left_in(self._cfg.data_dir)
            self._stack = stack.pop_all()
        self._following = asyncio.create_task(self._follow(), name="memory-agent folder")
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._following is not None:
            self._following.cancel()
            await asyncio.wait({self._following})
        await self._stack.aclose()
        self._service = None

    def agent(self, user_id: str, thread_id: str, *, tenant: str) -> Memory:
        """The memory of a thread, by whoever has it when it is called; no I/O."""
        return cast("Memory", _Calls(self, user_id, thread_id, tenant))

    async def call(self, ask: Callable[[Service], Awaitable[Answer]]) -> Answer:
        """The answer of `ask`; asked again of the next holder if the process that holds the folder ends meanwhile."""
        deadline = time.monotonic() + _PATIENCE_SECONDS
        while True:
            service = self._service
            if service is None:
                raise NotOpen("this memory is not open")
            try:
                return await ask(service)
            except (ServiceUnavailable, AccessDenied, NotOpen) as exc:
                refused = isinstance(exc, AccessDenied) and exc.status != 401  # the key of one that is gone
                if isinstance(service, MemoryService) or refused:
                    raise
                while self._service is service:
                    if time.monotonic() >= deadline:
                        raise
                    await asyncio.sleep(_LOOK_SECONDS / 5)

    # --- who has it ------------------------------------------------------------------------------------------
    async def _follow(self) -> None:
        """While another process holds the folder, look whether it is there, and take over; then share."""
        while not isinstance(self._service, MemoryService):
            await asyncio.sleep(_LOOK_SECONDS)
            left = LocalService.left_in(self._cfg.data_dir)
            # By the lock, not by who answers at the address: once its holder is gone that may be anybody.
            if left is None or left != self._left or not is_held(self._cfg.data_dir):
                await self._change(left)
        await share(self._service, self._stack)

    async def _change(self, left: LocalService | None) -> None:
        """Open the folder, or turn to who was quicker; nothing changes if neither works yet."""
        async with AsyncExitStack() as stack:
            try:
                service: Service | None = await stack.enter_async_context(MemoryService(self._cfg))
            except DataDirInUse:
                service = await client_of_holder(self._cfg, stack)
            except Exception as exc:
                # Whatever it is, the next look may find it mended; ending here, nobody would ever take over.
                log.warning("the memory cannot be taken over yet: %s", type(exc).__name__)
                return
            if service is None:
                return
            before, self._service, self._stack = self._stack, service, stack.pop_all()
            self._left = left
        await before.aclose()


class _Calls:
    """A thread's memory whose every call goes to who has the folder then."""

    def __init__(self, memory: FolderMemory, user_id: str, thread_id: str, tenant: str) -> None:
        self._memory = memory
        self._user_id = user_id
        self._thread_id = thread_id
        self._tenant = tenant

    def __getattr__(self, name: str) -> Callable[..., Awaitable[Any]]:
        return functools.partial(self._call, name)

    async def _call(self, name: str, *arguments: Any, **options: Any) -> Any:
        if name in _WRITES:
            options.setdefault("idempotency_key", new_id())

        async def ask(service: Service) -> Any:
            agent = service.agent(self._user_id, self._thread_id, tenant=self._tenant)
            return await getattr(agent, name)(*arguments, **options)

        return await self._memory.call(ask)
