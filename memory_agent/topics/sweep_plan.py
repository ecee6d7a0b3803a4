"""Plan of a sweep, as a pure function of the topics and of `now`; its settings and its report."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal

from memory_agent.topics.decay import priority_of
from memory_agent.topics.merged import AnyTopic, newest, unmerged

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import datetime

    from memory_agent.domain import PackedSize

FADE_BELOW: Final = 0.05
"""The priority below which a topic may go; at the usual importance of 0.5, after three half-lives and a third without access."""
Policy = Literal["archive", "delete"]
Deed = Literal["merge", "archive", "delete", "forget"]


@dataclass(frozen=True, kw_only=True, slots=True)
class SweepSettings:
    """Settings of a sweep; units and reasons in `config/memory.toml`."""

    max_topics: int
    decay_policy: Policy
    retention_days: float | None
    lease_seconds: float


@dataclass(frozen=True, kw_only=True, slots=True)
class SweepAction:
    """One thing that a sweep does (or, as a dry run, would do). No text of anybody is in it.

    "merge" makes a topic a part of the topic `into`; "archive" and "delete" concern a topic, with its priority; "forget" a
    turn past the retention age.
    """

    deed: Deed
    user_id: str
    thread_id: str
    topic_id: str | None = None
    into: str | None = None
    priority: float | None = None
    turn_id: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class SweepReport:
    """Report of a sweep: what it did, or as a dry run would have done.

    `threads` and `topics` were looked at, `merged`/`archived`/`deleted` topics and `forgotten` turns acted on. `packed` says
    what archiving compressed. What `failed` is tried again by the next sweep; `owed` names parts that were down,
    where the worker erases later. `skipped` threads have topics that are to be made anew and could not be, so that nothing
    can be said of them; the next sweep looks again. `resumed`: it went on from where one that was cut short had come to.
    """

    dry_run: bool
    resumed: bool
    started_at: datetime
    seconds: float
    threads: int
    topics: int
    merged: int
    archived: int
    deleted: int
    forgotten: int
    packed: PackedSize
    failed: int
    skipped: int
    owed: tuple[str, ...]

    @property
    def whole(self) -> bool:
        """True if everything was done that there was to do."""
        return not (self.failed or self.skipped or self.owed)


@dataclass(frozen=True, kw_only=True, slots=True)
class SweepProgress:
    """Progress of a sweep."""

    threads: int
    topics: int
    actions: int


def plan_thread(
    topics: Iterable[AnyTopic], *, now: datetime, settings: SweepSettings
) -> list[tuple[AnyTopic, float]]:
    """The topics of one thread that have to go at `now`, with their priorities, lowest first.

    Only as many as the thread has above `max_topics`, only those with a priority below `FADE_BELOW`, and never
    the current one. Archived topics and those that were merged into others don't count. None while one of them is
    stale: what it says is not what its turns say.
    """
    topics = list(topics)
    if any(topic.stale for topic in topics):
        return []
    active = [topic for topic in unmerged(topics) if not topic.archived]
    excess = len(active) - settings.max_topics
    if excess <= 0:
        return []
    current = newest(active)
    rated = ((topic, priority_of(topic, now)) for topic in active)
    faded = [pair for pair in rated if pair[0] is not current and pair[1] < FADE_BELOW]
    return sorted(faded, key=lambda pair: (pair[1], pair[0].id))[:excess]
