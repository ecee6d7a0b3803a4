"""An MCP server over the tools: who may see which, whose memory is meant, what of an error is told; and standard input and output."""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import json
import logging
import os
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass
from io import TextIOWrapper
from typing import TYPE_CHECKING, Any, Final, cast

import anyio
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server
from mcp.shared.exceptions import MCPError
from mcp_types import (
    INVALID_PARAMS,
    CallToolRequestParams,
    CallToolResult,
    ListToolsResult,
    PaginatedRequestParams,
    TextContent,
    ToolAnnotations,
)
from mcp_types import Tool as ListedTool
from pydantic import ValidationError
from starlette.requests import Request

from memory_agent import __version__
from memory_agent.domain import new_id
from memory_agent.errors import InvalidInput, MemoryAgentError
from memory_agent.mcp.tools import INSTRUCTIONS, TOOLS, Arguments, Memory, Tool
from memory_agent.server.logs import origin
from memory_agent.wire.problems import problem_for_network, problem_of

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from mcp.server.context import ServerRequestContext

    from memory_agent.mcp.tools import Answer
    from memory_agent.server.auth import Principal


log = logging.getLogger(__name__)

AgentOf = Callable[["Principal", str, str], Memory]
"""The memory of a tenant's user and thread, by the ids that the tenant knows them by; no I/O."""
PrincipalOf = Callable[[Request | None], "Principal"]
"""Who asks: of an HTTP request what was found out about its key, of None (stdio) whoever runs the process."""


def build_server(
    *,
    agent_of: AgentOf,
    principal_of: PrincipalOf,
    default_thread: str = "main",
) -> Server[Any]:
    """An MCP server whose tools work on the memory that `agent_of` gives, for whom `principal_of` names.

    A principal that is bound to a user needs no `user_id`; others pass one. One that
    may only read is not shown the tools that write, and is refused if it calls one. No argument reaches another tenant.
    """
    serving = _Serving(agent_of, principal_of, default_thread)
    return Server[Any](
        "memory-agent",
        version=__version__,
        title="Memory",
        instructions=INSTRUCTIONS,
        on_list_tools=serving.list,
        on_call_tool=serving.call,
    )


@dataclass(frozen=True, slots=True)
class _Serving:
    """Answers `tools/list` and `tools/call`."""

    agent_of: AgentOf
    principal_of: PrincipalOf
    default_thread: str

    async def list(
        self, ctx: ServerRequestContext[Any, Any], params: PaginatedRequestParams | None
    ) -> ListToolsResult:
        """The tools that whoever asks may use; what they list depends on the key, so no cache may share it."""
        principal = self.principal_of(ctx.request)
        return ListToolsResult(
            tools=[
                self._listed(tool, principal)
                for tool in TOOLS.values()
                if not (tool.writes and principal.read_only)
            ],
            cache_scope="private",
        )

    async def call(
        self, ctx: ServerRequestContext[Any, Any], params: CallToolRequestParams
    ) -> CallToolResult:
        """Call a tool: its answer, or an error that the model can read and act on."""
        tool = TOOLS.get(params.name)
        if tool is None:
            raise MCPError(
                code=INVALID_PARAMS,
                message=f"there is no tool {params.name!r:.80}; there are {', '.join(TOOLS)}",
            )
        try:
            answer = await self._answer(tool, self.principal_of(ctx.request), params.arguments or {})
            return CallToolResult(
                content=[TextContent(text=answer.as_text())],
                structured_content=answer.model_dump(mode="json"),
            )
        except MemoryAgentError as exc:
            # Whoever runs the process may know where its parts are.
            told = problem_of(exc) if ctx.request is None else problem_for_network(exc)
            return _failed(told.detail or type(exc).__name__)
        except Exception as exc:
            reference = new_id()
            log.error("tool %s failed (%s): %s", tool.name, reference, origin(exc))
            return _failed(f"the memory failed unexpectedly; its log says more under {reference}")

    async def _answer(self, tool: Tool, principal: Principal, given: dict[str, Any]) -> Answer:
        if tool.writes:
            principal.check_may_write()
        asked = _checked(tool, given)
        user_id = self._whose(principal, asked.user_id)
        thread_id = self.default_thread if asked.thread_id is None else asked.thread_id
        taken = inspect.signature(tool.run).parameters
        values = {name: value for name, value in dict(asked, thread_id=thread_id).items() if name in taken}
        return await tool.run(self.agent_of(principal, user_id, thread_id), **values)

    def _whose(self, principal: Principal, given: str | None) -> str:
        if given is not None:
            principal.check_user(given)
            return given
        if principal.user_id is None:
            raise InvalidInput("user_id is missing; pass the id of the user whose memory is meant")
        return principal.user_id

    def _listed(self, tool: Tool, principal: Principal) -> ListedTool:
        schema = _plain(_untitled(tool.arguments.model_json_schema()))
        schema.pop("description", None)
        properties, required = schema["properties"], schema.get("required", [])
        properties["thread_id"]["default"] = self.default_thread
        if principal.user_id is not None:
            del properties["user_id"]
        else:
            required = ["user_id", *required]
        return ListedTool(
            name=tool.name,
            title=tool.title,
            description=tool.description,
            input_schema={**schema, "required": required},
            output_schema=_untitled(tool.answer.model_json_schema(mode="serialization")),
            annotations=ToolAnnotations(
                title=tool.title,
                read_only_hint=not tool.writes,
                destructive_hint=tool.destroys,
                idempotent_hint=tool.repeatable,
                open_world_hint=False,
            ),
        )


def _failed(message: str) -> CallToolResult:
    return CallToolResult(content=[TextContent(text=message)], is_error=True)


def _checked(tool: Tool, given: dict[str, Any]) -> Arguments:
    try:
        return tool.arguments.model_validate(given)
    except ValidationError as exc:
        said = [_said_of(tool, dict(error)) for error in exc.errors(include_url=False)]
        raise InvalidInput("; ".join(dict.fromkeys(said))) from None


def _said_of(tool: Tool, error: dict[str, Any]) -> str:
    """One wrong argument in words, its name first."""
    name = ".".join(str(part) for part in error["loc"])
    if error["type"] == "missing":
        return f"{name} is missing"
    if error["type"] == "extra_forbidden":
        return (
            f"{name!r:.80} is no argument of {tool.name}; it takes {', '.join(tool.arguments.model_fields)}"
        )
    if error["type"] != "value_error":
        return f"{name} is {error['input']!r:.80}: {error['msg']}"
    said = str(error["ctx"]["error"])
    # Checks of ours name the argument themselves.
    return said if not name or said.startswith(name) else f"{name} is {error['input']!r:.80}: {said}"


def _plain(schema: dict[str, Any]) -> dict[str, Any]:
    """A schema of arguments without what tells a model nothing: that what may be left out may be null as well."""
    properties = {}
    for name, said in schema["properties"].items():
        kinds = [kind for kind in said.get("anyOf", ()) if kind != {"type": "null"}]
        shown = {key: value for key, value in said.items() if key != "anyOf"}
        if shown.get("default", ...) is None:
            del shown["default"]
        properties[name] = {**(kinds[0] if kinds else {}), **shown}
    return {**schema, "properties": properties}


def _untitled(schema: Any) -> Any:
    """A schema without the titles that pydantic makes of the names."""
    if isinstance(schema, dict):
        return {
            key: _untitled(value)
            for key, value in schema.items()
            if not (key == "title" and isinstance(value, str))
        }
    return [_untitled(item) for item in schema] if isinstance(schema, list) else schema


# --- on standard input and output, for a client that starts the server as a process of its own ---------------
_CHUNK: Final = 65_536
_CHUNKS_AHEAD: Final = 16
_LAST_SECONDS: Final = 10.0
"""How long the last requests of a client that has closed its end may take."""


@contextlib.contextmanager
def wire() -> Iterator[tuple[int, int]]:
    """File descriptors of the client's messages and of ours.

    Meanwhile whatever else writes to standard output (a library, a child process) ends up on standard error, and
    standard input is empty: nothing but the protocol can get between.
    """
    sys.stdout.flush()
    reading, writing = os.dup(0), os.dup(1)
    nothing = os.open(os.devnull, os.O_RDONLY)
    try:
        os.dup2(nothing, 0)
        os.dup2(2, 1)
        yield reading, writing
    finally:
        with contextlib.suppress(OSError, ValueError):
            sys.stdout.flush()
        os.dup2(reading, 0)
        os.dup2(writing, 1)
        # `reading` stays open: a thread may be blocked in it, and a new file must not get its number.
        for number in (nothing, writing):
            os.close(number)


async def serve_stdio(server: Server[Any], stop: asyncio.Event, *, reading: int, writing: int) -> None:
    """Serve until the client closes its end and has its answers, or `stop` is set.

    The SDK's own reader waits for a line in a thread that can't be told to stop, and at the end of its input it drops
    what is in progress, which `printf … | memory-agent mcp` would never see answered. So the files are ours.
    """
    owed = _Owed()
    out = TextIOWrapper(os.fdopen(writing, "wb", closefd=False), encoding="utf-8", newline="\n")
    lines = cast("anyio.AsyncFile[str]", _Lines(reading, owed))
    answers = cast("anyio.AsyncFile[str]", _Answers(anyio.wrap_file(out), owed))

    async def serve() -> None:
        async with stdio_server(stdin=lines, stdout=answers) as (incoming, outgoing):
            await server.run(incoming, outgoing, server.create_initialization_options())

    serving = asyncio.create_task(serve(), name="memory-agent mcp")
    stopped = asyncio.create_task(stop.wait())
    try:
        await asyncio.wait({serving, stopped}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        stopped.cancel()
        serving.cancel()
        await asyncio.wait({serving})
    if not serving.cancelled() and (error := serving.exception()) is not None and not _client_left(error):
        raise error


def _client_left(error: BaseException) -> bool:
    """True if the only error is that nobody reads our answers any more."""
    if isinstance(error, BaseExceptionGroup):
        return all(map(_client_left, error.exceptions))
    return isinstance(error, BrokenPipeError)


class _Owed:
    """The requests that were read and are not answered yet, by id."""

    def __init__(self) -> None:
        self._ids: set[str] = set()
        self._none = asyncio.Event()

    def read(self, line: str) -> None:
        """Take note of a message of the client's."""
        message = _message(line)
        if "method" in message and "id" in message:
            self._ids.add(json.dumps(message["id"]))
        elif message.get("method") == "notifications/cancelled" and isinstance(message.get("params"), dict):
            self._ids.discard(json.dumps(message["params"].get("requestId")))

    def wrote(self, line: str) -> None:
        """Take note of a message of ours."""
        message = _message(line)
        if "method" not in message:
            self._ids.discard(json.dumps(message.get("id")))
        if not self._ids:
            self._none.set()

    async def settled(self) -> None:
        """Wait until all are answered, but not for ever."""
        self._none.clear()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_LAST_SECONDS):
                while self._ids:
                    await self._none.wait()
                    self._none.clear()


def _message(line: str) -> dict[str, Any]:
    try:
        message = json.loads(line)
    except (ValueError, RecursionError):
        return {}
    return message if isinstance(message, dict) else {}


class _Answers:
    """The file that our messages go to."""

    def __init__(self, file: anyio.AsyncFile[str], owed: _Owed) -> None:
        self._file = file
        self._owed = owed
        self._written = ""

    async def write(self, text: str) -> None:
        self._written = text
        await self._file.write(text)

    async def flush(self) -> None:
        await self._file.flush()
        self._owed.wrote(self._written)


class _Lines:
    """The lines of a file descriptor. A daemon thread reads it, which holds up nobody who leaves."""

    def __init__(self, number: int, owed: _Owed) -> None:
        self._number = number
        self._owed = owed

    async def __aiter__(self) -> AsyncIterator[str]:
        async for line in self._lines():
            self._owed.read(line)
            yield line
        await self._owed.settled()

    async def _lines(self) -> AsyncIterator[str]:
        chunks: asyncio.Queue[bytes] = asyncio.Queue(_CHUNKS_AHEAD)
        loop = asyncio.get_running_loop()
        threading.Thread(
            target=self._read, args=(loop, chunks), name="memory-agent mcp stdin", daemon=True
        ).start()
        begun: list[bytes] = []
        while chunk := await chunks.get():
            *ended, rest = chunk.split(b"\n")
            for line in ended:
                begun.append(line)
                yield b"".join(begun).decode("utf-8", errors="replace")
                begun.clear()
            begun.append(rest)
        if any(begun):
            yield b"".join(begun).decode("utf-8", errors="replace")

    def _read(self, loop: asyncio.AbstractEventLoop, chunks: asyncio.Queue[bytes]) -> None:
        # A closed loop: nobody waits for more.
        with contextlib.suppress(RuntimeError):
            while True:
                try:
                    chunk = os.read(self._number, _CHUNK)
                except OSError:
                    chunk = b""
                asyncio.run_coroutine_threadsafe(chunks.put(chunk), loop).result()
                if not chunk:
                    return
