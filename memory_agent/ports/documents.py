"""The port of the document store, which holds the truth: the ports of each noun together."""

from __future__ import annotations

from typing import Protocol, runtime_checkable

from memory_agent.ports.copies import CopyStore
from memory_agent.ports.erasures import ErasureStore
from memory_agent.ports.events import EventStore
from memory_agent.ports.facts import FactStore
from memory_agent.ports.meta import MetaStore
from memory_agent.ports.rows import RowStore
from memory_agent.ports.sessions import SessionStore
from memory_agent.ports.topics import TopicStore
from memory_agent.ports.turns import PeopleStore, TurnStore
from memory_agent.ports.work import WorkStore


@runtime_checkable
class DocumentStore(
    TurnStore,
    PeopleStore,
    SessionStore,
    WorkStore,
    RowStore,
    TopicStore,
    FactStore,
    ErasureStore,
    EventStore,
    MetaStore,
    CopyStore,
    Protocol,
):
    """The truth: turns with what is owed to them, search rows, facts, and the records of forgetting."""

    async def open(self) -> None:
        """Connect and create missing collections and indexes. Idempotent, and safe when processes do it at once."""

    async def close(self) -> None:
        """Release what `open` made; a client that was handed in stays open. Idempotent."""
