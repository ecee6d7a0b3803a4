"""Pydantic AI over a memory, in this process or over HTTP: a capability that recalls and remembers, and a conversation store."""

from memory_agent.integrations.pydantic_ai.capability import MemoryCapability
from memory_agent.integrations.pydantic_ai.store import MemoryConversationStore

__all__ = ["MemoryCapability", "MemoryConversationStore"]
