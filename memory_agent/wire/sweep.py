"""The sweep: what it does, how far it has come, what it did."""

from dataclasses import replace
from typing import Self

from memory_agent.domain import Scope, split_user_id
from memory_agent.topics import sweep_plan
from memory_agent.wire.base import Answer, Wire

SweepAction = Answer[sweep_plan.SweepAction]
SweepProgress = Answer[sweep_plan.SweepProgress]
SweepReport = Answer[sweep_plan.SweepReport]


class TenantAction(Wire):
    """The same with whose user it is, for a sweep goes over all tenants."""

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
