"""A search of long-term memory: the request and its answer."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from memory_agent.search.user_index import RowFilter

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    from memory_agent.domain import Recollection, Scope


@dataclass(frozen=True, kw_only=True, slots=True)
class SearchRequest:
    """A search of long-term memory. `now`: what "last week" is told from."""

    scope: Scope
    query: str
    top_k: int
    where: RowFilter
    now: datetime
    here: str | None = None
    """The thread in which it is asked: its turns precede others that fit as well."""
    said: str = ""
    """What the asker said last before it: what a message of few words is understood by."""
    called: Mapping[str, str] = field(default_factory=dict)
    """The speakers whom other names stand for, by name."""
    topic_ids: frozenset[str] | None = None
    """Only turns that carry one of these."""
    metadata: Mapping[str, Any] | None = None

    @property
    def is_filtered(self) -> bool:
        """True if the caller excludes turns of the scope."""
        return (
            bool(self.metadata)
            or self.topic_ids is not None
            or self.where != RowFilter(thread_id=self.scope.thread_id)
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class SearchAnswer:
    """Recollections, best first, and the parts that were down (`embedder`, `vector_index`, `entities`)."""

    recollections: tuple[Recollection, ...]
    degraded: tuple[str, ...]
