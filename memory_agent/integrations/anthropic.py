"""Anthropic's memory tool with the files in a memory: a tool for `AsyncAnthropic().beta.messages.tool_runner`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from anthropic.lib.tools import ToolError
from anthropic.tools.memory import BetaAsyncAbstractMemoryTool

from memory_agent.domain import DEFAULT_TENANT
from memory_agent.errors import MemoryAgentError
from memory_agent.integrations.memory_files import MemoryFiles

if TYPE_CHECKING:
    from anthropic.types.beta import BetaCacheControlEphemeralParam, BetaMemoryTool20250818Command

    from memory_agent.integrations.shared import Service


class MemoryTool(BetaAsyncAbstractMemoryTool):
    """The memory tool of one user, over MemoryService or ServiceClient. `files` are its files, for the application.

    What a command refuses is told to the model; so is that the memory is away, and the conversation goes on.
    """

    def __init__(
        self,
        service: Service,
        user_id: str,
        *,
        tenant: str = DEFAULT_TENANT,
        cache_control: BetaCacheControlEphemeralParam | None = None,
    ) -> None:
        super().__init__(cache_control=cache_control)
        self.files = MemoryFiles(service, user_id, tenant=tenant)

    async def execute(self, command: BetaMemoryTool20250818Command) -> str:
        """Run a command, and tell the model of it. Raises ToolError."""
        given = {name: value for name, value in dict(command).items() if value is not None}
        try:
            return await self.files.run(given)
        except MemoryAgentError as exc:
            raise ToolError(str(exc)) from exc

    view = create = str_replace = insert = delete = rename = execute

    async def clear_all_memory(self) -> str:
        """Erase all files."""
        return await self.files.clear()
