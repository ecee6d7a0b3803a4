"""The memory that a command works on: a running service's, or opened here, whoever holds the folder.

A folder that another process holds is asked for over the service which that process runs (`serve`, `mcp`, `chat` and
`worker` do). Commands call what MemoryService and ServiceClient share, so that it makes no difference to them.

For processes that stay: two chat clients that each start an MCP server over one folder have one memory. Whoever came
first holds the folder; when it ends, one of the others takes over, and a call that fell in between is made again.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import gc
import logging
import signal
import time
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final, Self, TypeAlias, TypeVar, cast

import typer

from memory_agent.cli.options import THREAD, service_options, settings, working_settings
from memory_agent.cli.output import note
from memory_agent.data_dir import LocalService, check_memory, is_held, unchanged_for
from memory_agent.domain import new_id
from memory_agent.errors import (
    AccessDenied,
    ConfigError,
    DataDirInUse,
    InvalidInput,
    NotFound,
    NotOpen,
    ServiceUnavailable,
)
from memory_agent.service import MemoryService

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable
    from pathlib import Path
    from types import TracebackType

    from memory_agent.agent.agent import MemoryAgent
    from memory_agent.cli.options import ThreadOptions
    from memory_agent.client import MemoryClient, ServiceClient
    from memory_agent.config import MemoryConfig
    from memory_agent.domain import Reach
    from memory_agent.mcp.tools import Memory

    Service: TypeAlias = "MemoryService | ServiceClient"
    Agent: TypeAlias = "MemoryAgent | MemoryClient"


_COMMAND_OF: Final[dict[str, tuple[str, ...]]] = {
    "topics": ("topics", "--all"),
    "fact_history": ("facts history",),
    "set_fact": ("facts set",),
    "retract_fact": ("facts retract",),
    "settle": (),
}
"""The command on a thread for a call that an error names as its remedy."""
_WAIT: Final = "memory-agent worker --until-idle"
_JUST_NOW_SECONDS: Final = 20.0
"""A holder that started, or began to end, no longer ago may be about to serve its memory, or to leave."""
_PATIENCE_SECONDS: Final = 15.0
"""How long one waits for that."""
_PAUSE_SECONDS: Final = 0.1


@asynccontextmanager
async def opened(
    data_dir: Path | None,
    *,
    new: bool = False,
    works: bool = False,
    shares: bool = False,
    stores: bool = False,
) -> AsyncIterator[Service]:
    """The memory: of the service that the options or settings name, of the one that holds the folder, or opened here.

    Raises NotFound where there is no memory, unless a `new` one may be made. `works`: the command waits for owed
    work, so that embedded stores get a worker; else a look starts none that it would have to wait for when it
    leaves. `shares`: while this holds the folder, other processes may use its memory. `stores`: it is for these
    stores, whatever the setting service_url says.
    """
    async with AsyncExitStack() as stack:
        client = named_service(data_dir, by_setting=not stores)
        if client is not None:
            yield await stack.enter_async_context(client)
            return
        cfg = working_settings(data_dir) if works else settings(data_dir, run_worker=False)
        if not new:
            check_memory(cfg)
        service = await open_or_ask(cfg, stack)
        if shares:
            await share(service, stack)
        yield service


def stay_long() -> None:
    """Leave all that is loaded by now out of Python's collections of garbage: a full one holds up every caller for 50 ms."""
    gc.collect()
    gc.freeze()


def told_to_stop() -> asyncio.Event:
    """An event that SIGTERM and SIGINT set; where the event loop knows no signals, ctrl-C interrupts as usual."""
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        with contextlib.suppress(NotImplementedError):
            asyncio.get_running_loop().add_signal_handler(number, stop.set)
    return stop


@asynccontextmanager
async def agent_of(
    where: ThreadOptions, *, new: bool = False, reach: Reach = "thread"
) -> AsyncIterator[Agent]:
    """The memory of the thread asked for, see `opened`.

    If nothing is remembered of it (with `reach` "user" and no thread named: of its user), that is said on leaving, also
    with an error that something is not there. What the block wrote makes a thread known.
    """
    if where.thread != THREAD:
        reach = "thread"
    async with opened(where.data_dir, new=new) as service:
        agent = where.agent(service)
        try:
            yield agent
        except InvalidInput as exc:
            if isinstance(exc, NotFound):
                await say_if_unknown(agent, reach=reach)
            if exc.remedy is None or exc.remedy[0] not in _COMMAND_OF:
                raise
            call, does = exc.remedy
            command = where.command(*_COMMAND_OF[call]) if _COMMAND_OF[call] else _WAIT
            raise type(exc)(f"{exc.wrong}; `{command}` {does}") from exc
        await say_if_unknown(agent, reach=reach)


async def say_if_unknown(agent: Agent, *, reach: str = "thread") -> None:
    """A remark with the nearest names if nothing is remembered of the thread, or (reach "user") of its user."""
    try:
        if reach == "thread" or not (await agent.threads(limit=1)).threads:
            await agent.thread_summary()
    except NotFound as exc:
        text = str(exc)
        note(f"{text[0].upper()}{text[1:]}.")


def named_service(data_dir: Path | None, *, by_setting: bool = True) -> ServiceClient | None:
    """The service that --url or (`by_setting`) the setting service_url names, not open yet; None: the stores are opened here.

    --data-dir means the folder, whatever the settings say of a service.
    """
    url, key_file = service_options()
    if url is not None and data_dir is not None:
        raise typer.BadParameter("--url is a running service's memory and --data-dir a folder's: choose one")
    cfg = settings(data_dir)
    if url is None and (data_dir is not None or cfg.service_url is None or not by_setting):
        if key_file is not None:
            raise typer.BadParameter(
                "--key-file is for a running service: give --url as well, or set service_url"
            )
        return None
    from memory_agent.client import ServiceClient

    key = None if cfg.service_api_key is None else cfg.service_api_key.get_secret_value()
    return ServiceClient(url or cfg.service_url, api_key=key if key_file is None else read_key(key_file))


def read_key(file: Path) -> str:
    """The token in a file. Raises ConfigError, which does not repeat what it holds."""
    try:
        token = file.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeError) as exc:
        raise ConfigError(f"--key-file {file} cannot be read: {exc!s:.200}") from exc
    if not token:
        raise ConfigError(f"--key-file {file} is empty; it holds what `memory-agent keys create` printed")
    return token


async def open_or_ask(cfg: MemoryConfig, stack: AsyncExitStack) -> Service:
    """The service opened by these settings, or a client of the one that holds its folder; closed with `stack`.

    Waits a moment for a holder that has only just started, or is about to end. Raises DataDirInUse if the holder serves nothing.
    """
    from memory_agent.service import MemoryService

    began = time.monotonic()
    while True:
        try:
            return await stack.enter_async_context(MemoryService.holding(cfg))
        except DataDirInUse:
            from memory_agent.client.service import client_of_holder

            client = await client_of_holder(cfg, stack)
            if client is not None:
                return client
            waited = time.monotonic() - began
            if (
                waited >= _PATIENCE_SECONDS
                or unchanged_for(cfg.data_dir, datetime.now(UTC)) > _JUST_NOW_SECONDS
            ):
                raise
        await asyncio.sleep(_PAUSE_SECONDS)


async def tell_if_idle(service: Service) -> None:
    """Say so if nobody may be at work on what one is about to wait for."""
    from memory_agent.service import MemoryService

    worker = await service.worker_status()
    if worker.paused:
        note("the worker is paused, so what is owed stays owed: memory-agent worker --resume")
    elif not isinstance(service, MemoryService) and not worker.runs:
        note(f"the service at {service.connection.url} runs no worker, so this waits for another one's")


async def share(service: Service, stack: AsyncExitStack) -> None:
    """Let other processes use the memory of the folder that this one holds, until `stack` closes.

    Does nothing where no folder is held. Where the extra `server` is missing it says so, for the others are locked out.
    """
    from memory_agent.service import MemoryService

    if not isinstance(service, MemoryService) or not service.cfg.embedded:
        return
    try:
        from memory_agent.server.run import sharing
    except ModuleNotFoundError as exc:
        note(
            f"{exc.name} is not installed, so that no other process can use {service.cfg.data_dir} meanwhile; "
            "install memory_agent with its extra `server`"
        )
        return
    with contextlib.suppress(ConfigError):  # without loopback there is nobody to share with
        await stack.enter_async_context(sharing(service))


log = logging.getLogger(__name__)

Answer = TypeVar("Answer")

_LOOK_SECONDS: Final = 0.5
"""Between two looks at whether the holder is still there; half of it is how long a call waits on average."""
_TAKEOVER_SECONDS: Final = 30.0
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
        deadline = time.monotonic() + _TAKEOVER_SECONDS
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
                service: Service | None = await stack.enter_async_context(MemoryService.holding(self._cfg))
            except DataDirInUse:
                from memory_agent.client.service import client_of_holder

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
