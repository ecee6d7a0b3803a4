"""The sweep: what it does, how far it has come, what it did."""

from typing import Literal, Self

from memory_agent import domain as values
from memory_agent.domain import DEFAULT_TENANT, Scope, split_user_id
from memory_agent.lifecycle import sweep_plan
from memory_agent.wire.base import Answer, Instant, UserId


class SweepAction(Answer[sweep_plan.SweepAction]):
    """One thing that a sweep does (or, as a dry run, would do). No text of anybody is in it."""

    deed: Literal["archive", "delete", "forget"]
    tenant: str = DEFAULT_TENANT
    user_id: UserId
    thread_id: str
    topic_id: str | None
    priority: float | None
    """Of the topic; null for a turn."""
    turn_id: str | None
    """Null for a topic."""

    @classmethod
    def of(cls, value: sweep_plan.SweepAction) -> Self:
        """The model of `value`; a sweep goes over all tenants, so it says whose user it is."""
        return super().of(value).model_copy(update={"tenant": split_user_id(value.user_id)[0]})

    def domain(self) -> sweep_plan.SweepAction:
        """The action, of the tenant's user. Raises InvalidInput for impossible ids."""
        return sweep_plan.SweepAction(
            deed=self.deed,
            user_id=Scope.of(self.user_id, tenant=self.tenant).user_id,
            thread_id=self.thread_id,
            topic_id=self.topic_id,
            priority=self.priority,
            turn_id=self.turn_id,
        )


class SweepProgress(Answer[sweep_plan.SweepProgress]):
    """How far a sweep has come."""

    threads: int
    topics: int
    actions: int


class Compressed(Answer[values.Compressed]):
    """What archiving packed: turns, bytes of their texts before, bytes of the segments after."""

    turns: int
    raw_bytes: int
    packed_bytes: int


class SweepReport(Answer[sweep_plan.SweepReport]):
    """What a sweep did, or as a dry run would have done."""

    dry_run: bool
    resumed: bool
    """It went on from where one that was cut short had come to."""
    started_at: Instant
    seconds: float
    threads: int
    topics: int
    archived: int
    deleted: int
    forgotten: int
    packed: Compressed
    failed: int
    """What the next sweep tries again."""
    skipped: int
    """Threads whose topics are to be made anew and could not be."""
    owed: tuple[str, ...]
    """Parts that were down, where the worker erases later."""
