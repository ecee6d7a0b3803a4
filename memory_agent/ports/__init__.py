"""The ports. Their docstrings are the contract; `tests/conformance/` holds every adapter to it.

All methods may be called concurrently from one event loop. Adapters raise only errors of `memory_agent.errors`:
an `Unavailable` where the same call may work later, a `StoreError`/`VectorIndexError`/… where it will not.
A call that takes a `Scope` or a `user_id` never reads or changes anything outside it.
"""

from memory_agent.ports.application import Clock, Redactor
from memory_agent.ports.documents import DocumentStore
from memory_agent.ports.keys import KeyStore
from memory_agent.ports.models import (
    LLM,
    Embedder,
    EntityFinder,
    Reranker,
    TokenCounter,
    known_fingerprint,
)
from memory_agent.ports.vectors import VectorIndex

__all__ = [
    "LLM",
    "Clock",
    "DocumentStore",
    "Embedder",
    "EntityFinder",
    "KeyStore",
    "Redactor",
    "Reranker",
    "TokenCounter",
    "VectorIndex",
    "known_fingerprint",
]
