"""Copies of what a store holds, as they are exported and imported: with ids, numbers and keys as they are."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from memory_agent.domain.facts import ExtractionCost

if TYPE_CHECKING:
    from memory_agent.domain.compression import Compression
    from memory_agent.domain.facts import FactChange
    from memory_agent.domain.threads import Session
    from memory_agent.domain.turns import Turn
    from memory_agent.domain.work import KeyedKind


@dataclass(frozen=True, kw_only=True, slots=True)
class CopiedTurn:
    """A turn with its text, and its place in the call that brought it. `readable`: its text is there, also where it was not asked for."""

    turn: Turn
    idempotency_key: str | None = None
    call_index: int = 0
    call_size: int = 1
    readable: bool = True


@dataclass(frozen=True, kw_only=True, slots=True)
class ForgottenTurn:
    """The remains of a forgotten turn that had an idempotency key: enough to recognise a late repeat."""

    turn_id: str
    seq: int
    idempotency_key: str
    call_index: int
    call_size: int


@dataclass(frozen=True, kw_only=True, slots=True)
class SpentKey:
    """The remains of a forgotten edit or session that had an idempotency key. `id`: the change's key, or the session's id."""

    kind: KeyedKind
    key: str
    id: str


@dataclass(frozen=True, kw_only=True, slots=True)
class ThreadRemains:
    """The numbers that a thread must not give again, and what is left of what was forgotten in it."""

    last_seq: int = 0
    """The highest `seq` ever given."""
    last_change: int = 0
    """The highest number of a change of its facts."""
    cost: ExtractionCost = field(default_factory=ExtractionCost)
    turns: tuple[ForgottenTurn, ...] = ()
    keys: tuple[SpentKey, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class ThreadCopy:
    """Some of what a thread holds."""

    turns: tuple[CopiedTurn, ...] = ()
    sessions: tuple[Session, ...] = ()
    compressions: tuple[Compression, ...] = ()
    changes: tuple[FactChange, ...] = ()
    remains: ThreadRemains = ThreadRemains()


@dataclass(frozen=True, kw_only=True, slots=True)
class DamagedRecord:
    """A stored record that cannot be read. `of`: the id of the turn, session, topic, change or compression that it holds."""

    table: str
    """SQLite's table, or MongoDB's collection."""
    key: Any
    """Its key within the thread, as the store has it."""
    of: str
    error: str
    turn_id: str | None = None
    """Of a search row, or a change of facts that was read in a turn: that turn."""

    @property
    def derived(self) -> bool:
        """True if turns give it again; otherwise it is a turn, or what people set."""
        return self.turn_id is not None or self.table in ("topics", "compressions", "facts")
