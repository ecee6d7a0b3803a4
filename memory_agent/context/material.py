"""Material of a context: everything that is known for one question."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from memory_agent.context.facts import FactItems
    from memory_agent.domain import Entity, EntityCount, KeyMoment, Recollection, SummaryItem, Tier, Turn


@dataclass(frozen=True, kw_only=True, slots=True)
class TopicLine:
    """The active topic: its title and, if it has one, its summary."""

    id: str
    title: str
    summary: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Material:
    """All that a context may be made of. Everything in the order in which it is wanted.

    `reminder_left`: lines of persona and state that the reminder has no room for; `passed_over`: moments that the
    preserved turns have no room for. `summarized`: a language model wrote the summary; else it is quotes, and search finds
    those that the question needs.

    `persona` and `state`: lines; `preserved`: turns with their importance; `entities`: by first mention, `asked`:
    those that the question names; `window`: the last turns, oldest first, and `whole`: those of the whole thread;
    `recollections`: best first; `answered`: by the id of a recollected turn that says little by itself, the turn that
    it answers; `spoken_of`: likewise of one that names nothing, the turn before that names something; `question` is in `language`, by which its search terms are made.
    """

    persona: Sequence[str] = ()
    state: Sequence[str] = ()
    reminder_left: Sequence[tuple[Tier, str]] = ()
    passed_over: Sequence[KeyMoment] = ()
    summary: Sequence[SummaryItem] = ()
    summarized: bool = True
    preserved: Sequence[tuple[Turn, float]] = ()
    facts: Mapping[str, Any] = field(default_factory=dict)
    people: Sequence[str] = ()
    """Of whom facts are known; `facts` are keyed by them if there are several."""
    entities: Sequence[EntityCount] = ()
    asked: Collection[Entity] = ()
    topic: TopicLine | None = None
    window: Sequence[Turn] = ()
    recollections: Sequence[Recollection] = ()
    whole: bool = False
    unread: frozenset[Tier] = frozenset()
    """Tiers that were left unread, for a prompt will hardly have room for them, or shows what is in them anyway."""
    answered: Mapping[str, Turn] = field(default_factory=dict)
    spoken_of: Mapping[str, Turn] = field(default_factory=dict)
    question: str = ""
    language: str = "english"
    degraded: Sequence[str] = ()
    thread_id: str | None = None
    """The thread that it is for: recollections of others say so. None: all are of one."""
    fact_items: dict[str | None, FactItems] = field(default_factory=dict)
    """What packing has made of these facts, kept as long as they are."""
