"""Status of a memory: pending work, erasures, events, entities and costs; the sweep, as it goes."""

from dataclasses import replace
from typing import Self

from memory_agent import domain as values
from memory_agent.domain import Scope, split_user_id
from memory_agent.topics import sweep_plan
from memory_agent.wire.base import Answer, Wire

WorkerStatus = Answer[values.WorkerStatus]
ParkedTurn = Answer[values.ParkedTurn]
MemoryStatus = Answer[values.MemoryStatus]
ForgetReceipt = Answer[values.ForgetReceipt]
ErasureReceipt = Answer[values.ErasureReceipt]
RebuildStep = Answer[values.RebuildStep]
EntityCount = Answer[values.EntityCount]
MemoryEvent = Answer[values.MemoryEvent]
SweepAction = Answer[sweep_plan.SweepAction]
SweepProgress = Answer[sweep_plan.SweepProgress]
SweepReport = Answer[sweep_plan.SweepReport]


class TurnCount(Answer[int]):
    """The number of turns concerned."""

    turns: int

    def domain(self) -> int:
        """The count."""
        return self.turns


class CallCount(Answer[int]):
    """The number of forget calls that were made again."""

    calls: int

    def domain(self) -> int:
        """The count."""
        return self.calls


class Proof(Wire):
    """That who answers knows a key."""

    proof: str


class TenantAction(Wire):
    """A sweep's action with whose user it is, for a sweep goes over all tenants."""

    tenant: str
    action: SweepAction

    @classmethod
    def of(cls, value: sweep_plan.SweepAction) -> Self:
        """The model of `value`."""
        return cls(tenant=split_user_id(value.user_id)[0], action=SweepAction.of(value))

    def domain(self) -> sweep_plan.SweepAction:
        """The action, of the tenant's user. Raises InvalidInput for impossible ids."""
        action = self.action.domain()
        return replace(action, user_id=Scope.of(action.user_id, tenant=self.tenant).user_id)
