"""ServiceClient and MemoryClient, blocking."""

from __future__ import annotations

from typing import Any

from memory_agent.client import memory, service
from memory_agent.sync.agent_calls import AgentCalls
from memory_agent.sync.blocking import Blocking, hands_out, made_like, waits


class MemoryClient(AgentCalls):
    """The memory of one thread of one user, of a service over HTTP: MemoryAgent's calls."""

    @made_like(memory.MemoryClient.__init__)
    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(memory.MemoryClient(*args, **options))


class ServiceClient(Blocking):
    """A service over HTTP, shared by all threads of an application: `with ServiceClient(url, api_key=…) as service:`."""

    @made_like(service.ServiceClient.__init__)
    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(service.ServiceClient(*args, **options))

    agent = hands_out(service.ServiceClient.agent, MemoryClient)
    search = waits(service.ServiceClient.search)
    users = waits(service.ServiceClient.users)
    threads = waits(service.ServiceClient.threads)
    find_session = waits(service.ServiceClient.find_session)
    forget_user = waits(service.ServiceClient.forget_user)
    ready = waits(service.ServiceClient.ready)
    status = waits(service.ServiceClient.status)
    settle = waits(service.ServiceClient.settle)
    retry_parked = waits(service.ServiceClient.retry_parked)
    rebuild_index = waits(service.ServiceClient.rebuild_index)
    sweep = waits(service.ServiceClient.sweep)
    worker_status = waits(service.ServiceClient.worker_status)
    pause_worker = waits(service.ServiceClient.pause_worker)
    resume_worker = waits(service.ServiceClient.resume_worker)
