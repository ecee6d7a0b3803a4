"""An MCP server over the tools: who may see which, whose memory is meant, and what of an error is told."""

from __future__ import annotations

import inspect
import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from mcp.server.lowlevel import Server
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
