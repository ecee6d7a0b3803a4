"""The memory over HTTP: `MemoryClient` is a MemoryAgent, and `ServiceClient` a MemoryService, of another process.

`connection` is one exchange with the service: what is repeated, what is raised. `calls` makes methods of routes, and `memory`
and `service` say what each sends.
"""

from memory_agent.client.memory import MemoryClient
from memory_agent.client.service import ServiceClient

__all__ = ["MemoryClient", "ServiceClient"]
