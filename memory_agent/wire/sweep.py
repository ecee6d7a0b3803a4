"""The sweep: what it does, how far it has come, what it did."""

from dataclasses import replace
from typing import Literal, Self

from pydantic import BaseModel, ConfigDict

from memory_agent import domain as values
from memory_agent.domain import Scope, split_user_id
from memory_agent.topics import sweep_plan
from memory_agent.wire.base import Answer, Instant, UserId


class SweepAction(Answer[sweep_plan.SweepAction]):
    """One thing that a sweep does (or, as a dry run, would do). No text of anybody is in it."""

    deed: Literal["archive", "delete", "forget"]
    user_id: UserId
    thread_id: str
    topic_id: str | None
    priority: float | None
    """Of the topic; null for a turn."""
    turn_id: str | None
    """Null for a topic."""


class TenantAction(BaseModel):
    """The same with whose user it is, for a sweep goes over all tenants."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    tenant: str
    action: SweepAction

    @classmethod
    def of(cls, value: sweep_plan.SweepAction) -> Self:
        """The model of `value`."""
        return cls(tenant=split_user_id(value.user_id)[0], action=SweepAction.of(value))

    def domain(self) -> sweep_plan.SweepAction:
        """The action, of the tenant's user. Raises InvalidInput for impossible ids."""
        user = Scope.of(self.action.user_id, tenant=self.tenant)
        return replace(self.action.domain(), user_id=user.user_id)


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
