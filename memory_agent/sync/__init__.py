"""The same calls, blocking: for scripts, and for frameworks of threads such as Flask.

with MemoryService(MemoryConfig()) as service:
    memory = service.agent(user_id="user_123", thread_id="thread_abc")
    context = memory.fetch_memory("What did I say about my vacation?")
    receipt = memory.update_memory(user_msg, assistant_msg)

Each class stands for the asynchronous one of its name, which does the work on an event loop in a thread of its own.
"""

from typing import TYPE_CHECKING

from memory_agent.sync.embedded import MemoryAgent, MemoryService

if TYPE_CHECKING:
    from memory_agent.sync.client import MemoryClient, ServiceClient
else:

    def __getattr__(name: str) -> object:
        # They bring httpx along, which those who run embedded never need to load.
        if name in ("MemoryClient", "ServiceClient"):
            from memory_agent.sync import client

            return getattr(client, name)
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


__all__ = ["MemoryAgent", "MemoryClient", "MemoryService", "ServiceClient"]
