"""A search of long-term memory: the request, its question as rows are scored for it, and the answer."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime

    import numpy as np
    from numpy.typing import NDArray

    from memory_agent.domain import Recollection, Role, Scope, Turn
    from memory_agent.search.user_index import ResidentIndex
    from memory_agent.text.question import Question
    from memory_agent.text.time_spans import TimeSpan

    Floats = NDArray[np.float32]

Searched: TypeAlias = "tuple[list[Turn], ResidentIndex | None]"
"""Turns that are not indexed yet, and the user's index (None: too large to keep): what any question searches."""


@dataclass(frozen=True, kw_only=True, slots=True)
class RowFilter:
    """The caller's own filters. `since` is included, `until` is not."""

    thread_id: str | None = None
    since: datetime | None = None
    until: datetime | None = None
    role: Role | None = None


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
    session_id: str | None = None
    """Only turns of this session."""
    least_confidence: float = 0.0
    """Turns with less are left out."""

    @property
    def is_filtered(self) -> bool:
        """True if the caller excludes turns of the scope."""
        return (
            bool(self.metadata)
            or self.session_id is not None
            or self.topic_ids is not None
            or self.where != RowFilter(thread_id=self.scope.thread_id)
        )

    def wants(self, turn: Turn) -> bool:
        """True if the turn says something, and passes the filters of which its search row tells nothing."""
        if not turn.said:
            return False
        if self.topic_ids is not None and turn.topic_id not in self.topic_ids:
            return False
        if self.session_id not in (None, turn.session_id):
            return False
        given = self.metadata
        return not given or all(key in turn.metadata and turn.metadata[key] == given[key] for key in given)


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class AnalysedQuery:
    """A question as rows are scored for it.

    `terms`: its words and entities; `query`: its vector, and `gist`: that of it and of what is left of it without
    question words and names, float32, shape (dimension,), unit length, None without an embedder; `background`: see
    `Background` in `memory_agent.search.fusion`; `script`: that it is written in; `here`: the thread in which it is asked;
    `spans`: the times it names, in `time_words`; `offset`: the minutes by which its asker's clock is ahead of UTC;
    `with_assistant`: an assistant takes part in what is searched; `said`: the vector of what was said before it, if it is
    understood by that.
    """

    question: Question
    terms: Sequence[str]
    query: Floats | None = None
    gist: Floats | None = None
    background: float = 0.0
    script: str = ""
    here: str | None = None
    spans: Sequence[TimeSpan] = ()
    time_words: Sequence[str] = ()
    offset: int = 0
    with_assistant: bool = False
    said: Floats | None = None


NOT_REBUILT: Final = "embeddings by the current model (run `memory-agent rebuild --all`)"
"""Names in `degraded` that turns were found by their words alone, because another model embedded them."""


@dataclass(frozen=True, kw_only=True, slots=True)
class SearchAnswer:
    """Recollections, best first, and what was missing (`embedder`, `vector_index`, `entities`, NOT_REBUILT)."""

    recollections: tuple[Recollection, ...]
    degraded: tuple[str, ...]
