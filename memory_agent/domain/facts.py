"""Facts, the changes that they are the fold of, and their history.

Stored: `FactChange` with its `FactEvent`s. Everything that depends on other changes (what was replaced, what replaced
it, how often it was said) is told by the fold and never stored, so that forgetting a turn leaves no trace of it in
what others brought about.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final, Literal

from memory_agent.domain.base import Counts

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence
    from datetime import datetime

FactOp = Literal["set", "add", "remove", "retract", "revert"]
"""`set`: what stands at a path; `add`, `remove`: one element of a list; `retract`: it holds no more; `revert`."""

ChangeKind = Literal["extraction", "edit", "replay", "undo"]
"""What a turn states; what a person says; a generation counts from now on; it counts no more.

The last is only in what earlier versions wrote.
"""

PERSON: Final = "person"
"""The `extractor` of people's own edits."""

UNNAMED: Final = "user"
"""The subject of what turns without a speaker state, by the role that prompts show them under."""


def shown(people: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """The documents of `people` as one: that of the one person there is, or each by name where there are several.

    Of several, those of whom nothing is known (any more) are left out.

    >>> shown({"Ann": {"job": "nurse"}}), shown({"Ann": {"job": "nurse"}, "Bo": {}})
    ({'job': 'nurse'}, {'Ann': {'job': 'nurse'}})
    """
    if len(people) > 1:
        return {name: dict(facts) for name, facts in people.items() if facts}
    return next((dict(facts) for facts in people.values()), {})


def by_person(facts: Mapping[str, Any], names: Sequence[str]) -> dict[str, Mapping[str, Any]]:
    """The inverse of `shown`, given the names of all of the people. Raises ValueError for facts of nobody.

    >>> by_person({"job": "nurse"}, ["Ann"]), by_person({"Ann": {"job": "nurse"}}, ["Ann", "Bo"])
    ({'Ann': {'job': 'nurse'}}, {'Ann': {'job': 'nurse'}, 'Bo': {}})
    """
    if facts and not names:
        raise ValueError("it doesn't say whose facts these are")
    return {name: facts.get(name, {}) for name in names} if len(names) > 1 else dict.fromkeys(names, facts)


Place = tuple[str, int, int]
"""Where an event stands in the fold of its thread: its change's `at` and `seq`, its number within the change."""


@dataclass(frozen=True, kw_only=True, slots=True)
class FactEvent:
    """One change of one fact. `path` names it from the root of its subject's document; () is the whole document.

    `quote` is the span of the turn that says so, word for word; `confidence` goes from 0 to 1; `valid_from` is since
    when it holds if the text says so (`2024`, `2024-05` or `2024-05-17`). `to` belongs to `revert`: the path becomes
    what it was once everything up to and including that place had happened. `subject`: whose fact it is; empty for
    a turn without a speaker, and for an edit made before anybody was known.
    """

    op: FactOp
    path: tuple[str, ...]
    value: Any = None
    quote: str | None = None
    confidence: float = 1.0
    valid_from: str | None = None
    to: Place | None = None
    subject: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class StatedFact:
    """A fact as an extractor stated it of a turn, before anybody has checked it.

    `add`: a value for a path, or one element more for a list, in which it takes the place of the element `old`;
    `retract`: what is known at the path holds no more, and `value` says loosely what that is. `quote` is the span of the
    turn that says so. `subject` is whose fact it is, None for the speaker's own. `plain`: a pattern found it, which has
    looked itself at how it is meant.
    """

    op: Literal["add", "retract"]
    path: tuple[str, ...]
    value: Any = None
    quote: str | None = None
    turn_id: str = ""
    old: Any = None
    confidence: float | None = None
    valid_from: str | None = None
    subject: str | None = None
    plain: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class RefusedFact:
    """An item of an extractor that was not believed. `said` is the item as it came, as text; `reason` says why."""

    path: str
    said: str
    quote: str | None
    reason: str
    op: FactOp = "set"
    subject: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class FactChange:
    """The effects of one turn or one edit, stored as one append so that they are there wholly or not at all.

    `key` is unique within the thread (one extraction of one turn; a UUIDv7 for edits), so a repeat adds nothing. `at` is
    its place in the fold: that of its turn's `seq`, or behind the last turn that was there when the edit was made. So
    what a turn states counts from when the turn was stored, however late it is extracted, and an edit outranks every
    turn before it. `turn_id` is None for edits. `turns` are all turns that were in view when it was made, its own among
    them: forgetting one of them forgets it, unless its facts are kept (`without`).
    `generation`: one in which all turns of a thread were extracted again ("": each was when it was new). A change counts once its own does.
    `seq` rises in the order of appends within the thread; 0 until stored. `idempotency_key` is the caller's name for an
    edit; no other change of the thread has it.
    """

    key: str
    kind: ChangeKind
    at: str
    turn_id: str | None
    turns: tuple[str, ...]
    said_at: datetime
    recorded_at: datetime
    extractor: str
    events: tuple[FactEvent, ...] = ()
    refused: tuple[RefusedFact, ...] = ()
    generation: str = ""
    thread_id: str = ""
    """Of the scope that it was read from; ignored when it is stored."""
    seq: int = 0
    idempotency_key: str | None = None

    def without(self, turn_ids: Collection[str]) -> FactChange:
        """The change once these turns are gone and its facts stay: it neither names nor quotes them."""
        own = self.turn_id in turn_ids
        return replace(
            self,
            turn_id=None if own else self.turn_id,
            turns=tuple(turn_id for turn_id in self.turns if turn_id not in turn_ids),
            events=tuple(replace(event, quote=None) for event in self.events) if own else self.events,
            refused=(),  # which may quote whatever was in view
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class FactsDocument:
    """A thread's merged facts by whose they are: the fold of its changes up to and including `seq == through`.

    Everybody of whom anything was known is among the `people`, also if nothing is now. `created_at` and `updated_at`: when the
    first and the last of the changes were recorded. `revision` is a random token that every save replaces; None means that
    nothing is stored yet.
    """

    people: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    through: int = 0
    created_at: datetime | None = None
    updated_at: datetime | None = None
    revision: str | None = None

    @property
    def facts(self) -> dict[str, Any]:
        """The facts as one document, which is what stores hold for others to read."""
        return shown(self.people)


class KnownFacts(dict[str, Any]):
    """The facts as one document. `pending`: messages that facts are still to be taken from."""

    pending: int = 0

    @classmethod
    def of(cls, document: Mapping[str, Any], pending: int) -> KnownFacts:
        """The document, while so many messages are pending."""
        facts = cls(document)
        facts.pending = pending
        return facts


@dataclass(frozen=True, kw_only=True, slots=True)
class FactSource:
    """Source of a fact: a turn with the quoted span; without one an edit, or a turn that is gone."""

    turn_id: str | None
    thread_id: str
    quote: str | None
    extractor: str
    said_at: datetime


@dataclass(frozen=True, kw_only=True, slots=True)
class FactRecord:
    """An event as its thread's history shows it.

    `id` names it within the thread, for `revert_fact` (among several threads: thread, slash, id). `old` is what it replaced or removed (None: nothing).
    `sources` are all that said the same, the first first; with each, `confidence` rises and `last_seen` moves on.
    `superseded_by` is the id of the event that ended it; None while it stands, or if it never brought anything about
    (`remove`, `retract` and `revert` never stand). `refused` is the reason if it was not believed; then it changed
    nothing.
    """

    id: str
    thread_id: str
    op: FactOp
    path: tuple[str, ...]
    value: Any
    old: Any
    sources: tuple[FactSource, ...]
    confidence: float
    valid_from: str | None
    said_at: datetime
    recorded_at: datetime
    last_seen: datetime
    stands: bool
    superseded_by: str | None = None
    refused: str | None = None
    subject: str = UNNAMED
    """Whose fact it is."""

    @property
    def by(self) -> str:
        """The first source: an extractor's name, or `person`."""
        return self.sources[0].extractor


@dataclass(frozen=True, kw_only=True, slots=True)
class ExtractionCost(Counts):
    """The cost of extracting facts with a language model: requests, tokens and seconds, for so many turns."""

    turns: int = 0
    requests: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    seconds: float = 0.0

    @property
    def tokens_per_turn(self) -> float:
        """Prompt and reply together; 0 before the first turn."""
        return (self.prompt_tokens + self.completion_tokens) / self.turns if self.turns else 0.0
