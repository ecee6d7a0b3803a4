"""ServiceClient and MemoryClient, blocking."""

from __future__ import annotations

from typing import Any

from memory_agent.client import memory, service
from memory_agent.sync.blocking import hands_out, made_like, waits
from memory_agent.sync.calls import AgentCalls, ServiceCalls


class MemoryClient(AgentCalls):
    """The memory of one thread of one user, of a service over HTTP: MemoryAgent's calls."""

    @made_like(memory.MemoryClient.__init__)
    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(memory.MemoryClient(*args, **options))


class ServiceClient(ServiceCalls):
    """A service over HTTP, shared by all threads of an application: `with ServiceClient(url, api_key=…) as service:`."""

    @made_like(service.ServiceClient.__init__)
    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(service.ServiceClient(*args, **options))

    agent = hands_out(service.ServiceClient.agent, MemoryClient)
    ready = waits(service.ServiceClient.ready)
