"""MemoryService and MemoryAgent, blocking."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from memory_agent import service
from memory_agent.agent import agent
from memory_agent.domain import DEFAULT_TENANT
from memory_agent.sync.agent_calls import AgentCalls
from memory_agent.sync.blocking import Blocking, hands_out, made_like, waits

if TYPE_CHECKING:
    from memory_agent.config import MemoryConfig
    from memory_agent.domain import Usage


class MemoryAgent(AgentCalls):
    """The memory of one thread of one user: from a service, or alone with a service of its own, used with `with`."""

    def __init__(
        self, user_id: str, thread_id: str, cfg: MemoryConfig | None = None, *, tenant: str = DEFAULT_TENANT
    ) -> None:
        super().__init__(agent.MemoryAgent(user_id, thread_id, cfg, tenant=tenant))


class MemoryService(Blocking):
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
    search = waits(service.MemoryService.search)
    users = waits(service.MemoryService.users)
    threads = waits(service.MemoryService.threads)
    find_session = waits(service.MemoryService.find_session)
    get_stats = waits(service.MemoryService.get_stats)
    status = waits(service.MemoryService.status)
    worker_status = waits(service.MemoryService.worker_status)
    pause_worker = waits(service.MemoryService.pause_worker)
    resume_worker = waits(service.MemoryService.resume_worker)
    settle = waits(service.MemoryService.settle)
    retry_parked = waits(service.MemoryService.retry_parked)
    rebuild_index = waits(service.MemoryService.rebuild_index)
    sweep = waits(service.MemoryService.sweep)
    forget_user = waits(service.MemoryService.forget_user)
