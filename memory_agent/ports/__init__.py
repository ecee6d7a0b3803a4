"""The ports. Their docstrings are the contract; `tests/conformance/` holds every adapter to it.

All methods may be called concurrently from one event loop. Adapters raise only errors of `memory_agent.errors`:
an `Unavailable` where the same call may work later, a `StoreError`/`VectorIndexError`/… where it will not.
A call that takes a `Scope` or a `user_id` never reads or changes anything outside it. Where `scope` must name a thread, one
without raises InvalidInput. A `limit` of 0 gives nothing, None everything; ids and texts compare code point by code point.
"""

from memory_agent.ports.copies import CopyStore as CopyStore
from memory_agent.ports.documents import DocumentStore as DocumentStore
from memory_agent.ports.erasures import ErasureStore as ErasureStore
from memory_agent.ports.events import EventStore as EventStore
from memory_agent.ports.facts import FactStore as FactStore
from memory_agent.ports.keys import KeyStore as KeyStore
from memory_agent.ports.meta import RESTORING as RESTORING
from memory_agent.ports.meta import MetaStore as MetaStore
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
)
from memory_agent.ports.rows import (
    ALL_ROWS as ALL_ROWS,
    RowStore as RowStore,
)
from memory_agent.ports.sessions import SessionStore as SessionStore
from memory_agent.ports.topics import TopicStore as TopicStore
from memory_agent.ports.turns import (
    PeopleStore as PeopleStore,
    TurnStore as TurnStore,
)
from memory_agent.ports.vectors import (
    LOST_INDEX as LOST_INDEX,
    VectorIndex as VectorIndex,
)
from memory_agent.ports.work import WorkStore as WorkStore
