"""The ports. Their docstrings are the contract; `tests/conformance/` holds every adapter to it.

All methods may be called concurrently from one event loop. Adapters raise only errors of `memory_agent.errors`:
an `Unavailable` where the same call may work later, a `StoreError`/`VectorIndexError`/… where it will not.
A call that takes a `Scope` or a `user_id` never reads or changes anything outside it. Where `scope` must name a thread, one
without raises InvalidInput. A `limit` of 0 gives nothing, None everything; ids and texts compare code point by code point.
"""

from memory_agent.ports.documents import (
    ALL_ROWS as ALL_ROWS,
    RESTORING as RESTORING,
    CopyStore as CopyStore,
    DocumentStore as DocumentStore,
    ErasureStore as ErasureStore,
    EventStore as EventStore,
    FactStore as FactStore,
    KeyStore as KeyStore,
    MetaStore as MetaStore,
    PeopleStore as PeopleStore,
    RowStore as RowStore,
    SessionStore as SessionStore,
    TopicStore as TopicStore,
    TurnStore as TurnStore,
    WorkStore as WorkStore,
)
from memory_agent.ports.models import (
    LLM as LLM,
    Clock as Clock,
    Embedder as Embedder,
    EntityFinder as EntityFinder,
    Redactor as Redactor,
    TokenCounter as TokenCounter,
    ahead_by as ahead_by,
    known_fingerprint as known_fingerprint,
    known_scripts as known_scripts,
    pieces_per_word as pieces_per_word,
    tokens_by as tokens_by,
    warning_of as warning_of,
)
from memory_agent.ports.vectors import VectorIndex as VectorIndex
