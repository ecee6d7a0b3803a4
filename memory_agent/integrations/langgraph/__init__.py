"""LangGraph and LangChain over a memory, in this process or over HTTP: their store, middleware and retriever.

All are made where an event loop runs, the service's, and stay with it: other threads and loops ask through it.
"""

from memory_agent.integrations.langgraph.middleware import MemoryMiddleware
from memory_agent.integrations.langgraph.retriever import MemoryRetriever
from memory_agent.integrations.langgraph.store import MemoryStore

__all__ = ["MemoryMiddleware", "MemoryRetriever", "MemoryStore"]
