"""MemoryService and MemoryAgent, blocking."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from memory_agent import service
from memory_agent.agent import agent
from memory_agent.domain import DEFAULT_TENANT
from memory_agent.sync.blocking import hands_out, made_like, waits
from memory_agent.sync.calls import AgentCalls, ServiceCalls

if TYPE_CHECKING:
    from memory_agent.config import MemoryConfig
    from memory_agent.domain import Usage


class MemoryAgent(AgentCalls):
    """The memory of one thread of one user: from a service, or alone with a service of its own, used with `with`."""

    def __init__(
        self, user_id: str, thread_id: str, cfg: MemoryConfig | None = None, *, tenant: str = DEFAULT_TENANT
    ) -> None:
        super().__init__(agent.MemoryAgent(user_id, thread_id, cfg, tenant=tenant))


class MemoryService(ServiceCalls):
    """Everything that agents of one application share. Use as `with MemoryService(cfg) as service:`, from any thread."""

    @made_like(service.MemoryService.__init__)
    def __init__(self, *args: Any, **parts: Any) -> None:
        super().__init__(service.MemoryService(*args, **parts))

    @property
    def cfg(self) -> MemoryConfig:
        """The settings."""
        cfg: MemoryConfig = self._async.cfg
        return cfg

    @property
    def usage(self) -> Usage | None:
        """Requests and tokens of the language models since this service was opened; None without any."""
        usage: Usage | None = self._async.usage
        return usage

    def run_worker(self) -> None:
        """Run the worker here until this is interrupted; for processes that only work off."""
        self._loop.run(self._async.run_worker)

    agent = hands_out(service.MemoryService.agent, MemoryAgent)
    get_stats = waits(service.MemoryService.get_stats)
