"""The ports. Their docstrings are the contract; `tests/conformance/` holds every adapter to it.

All methods may be called concurrently from one event loop. Adapters raise only errors of `memory_agent.errors`:
an `Unavailable` where the same call may work later, a `StoreError`/`VectorIndexError`/… where it will not.
A call that takes a `Scope` or a `user_id` never reads or changes anything outside it. Where `scope` must name a thread, one
without raises InvalidInput. A `limit` of 0 gives nothing, None everything; ids and texts compare code point by code point.
"""

from memory_agent.ports.copies import CopyStore
from memory_agent.ports.documents import DocumentStore
from memory_agent.ports.erasures import ErasureStore
from memory_agent.ports.events import EventStore
from memory_agent.ports.facts import FactStore
from memory_agent.ports.keys import KeyStore
from memory_agent.ports.meta import MetaStore
from memory_agent.ports.migration import MigrationStore
from memory_agent.ports.models import (
    LLM,
    Clock,
    Embedder,
    EntityFinder,
    Redactor,
    TokenCounter,
    ahead_by,
    known_fingerprint,
    known_scripts,
    pieces_per_word,
    tokens_by,
)
from memory_agent.ports.rows import ALL_ROWS, RowStore
from memory_agent.ports.sessions import SessionStore
from memory_agent.ports.topics import TopicStore
from memory_agent.ports.turns import PeopleStore, TurnStore
from memory_agent.ports.vectors import LOST_INDEX, VectorIndex
from memory_agent.ports.work import WorkStore

__all__ = [
    "ALL_ROWS",
    "LLM",
    "LOST_INDEX",
    "Clock",
    "CopyStore",
    "DocumentStore",
    "Embedder",
    "EntityFinder",
    "ErasureStore",
    "EventStore",
    "FactStore",
    "KeyStore",
    "MetaStore",
    "MigrationStore",
    "PeopleStore",
    "Redactor",
    "RowStore",
    "SessionStore",
    "TokenCounter",
    "TopicStore",
    "TurnStore",
    "VectorIndex",
    "WorkStore",
    "ahead_by",
    "known_fingerprint",
    "known_scripts",
    "pieces_per_word",
    "tokens_by",
]
