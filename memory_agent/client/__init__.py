"""The memory over HTTP: `MemoryClient` is a MemoryAgent, and `ServiceClient` a MemoryService, of another process.

`connection` (one exchange with the service: what is repeated, what is raised) stands on `address`, `retries` and
`replies`; `memory` and the modules named `…_calls` say what each method sends.
"""

from memory_agent.client.memory import MemoryClient
from memory_agent.client.service import ServiceClient

__all__ = ["MemoryClient", "ServiceClient"]
