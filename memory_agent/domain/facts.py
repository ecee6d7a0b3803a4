"""What is known, and the changes that it is the fold of."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime


@dataclass(frozen=True, kw_only=True, slots=True)
class FactEvent:
    """One change of one fact: `path` names it from the document's root, `value` is what was stated.

    Operations: `set` (a scalar, replacing any older one), `add` (one element of a list).
    """

    op: Literal["set", "add"]
    path: tuple[str, ...]
    value: Any


@dataclass(frozen=True, kw_only=True, slots=True)
class FactChange:
    """The events that one turn brought about, stored as one append so that they are all there or none.

    `key` is unique within the thread (one extraction of one turn), so a repeat adds nothing. `seq` rises in the
    order of appends within the thread; 0 until stored.
    """

    key: str
    turn_id: str
    extractor: str
    recorded_at: datetime
    events: tuple[FactEvent, ...]
    seq: int = 0


@dataclass(frozen=True, kw_only=True, slots=True)
class FactsDocument:
    """A thread's merged facts: the fold of its changes up to and including `seq == through`.

    `revision` is a random token that every save replaces; None means that nothing is stored yet.
    """

    facts: Mapping[str, Any] = field(default_factory=dict)
    through: int = 0
    revision: str | None = None
