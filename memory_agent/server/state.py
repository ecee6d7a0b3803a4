"""State shared by the handlers: the open service, the authenticator, the events."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from memory_agent.agent.agent import MemoryAgent
    from memory_agent.config import MemoryConfig
    from memory_agent.domain import ApiKey
    from memory_agent.server.auth import Authenticator, Principal
    from memory_agent.server.events import EventHub
    from memory_agent.server.metrics import Metrics
    from memory_agent.server.readiness import Readiness
    from memory_agent.service import MemoryService


@dataclass(kw_only=True, slots=True)
class Api:
    """An open service as it is served."""

    cfg: MemoryConfig
    service: MemoryService
    authenticator: Authenticator
    hub: EventHub
    metrics: Metrics
    readiness: Readiness
    own_key: ApiKey | None = None
    """That which commands on this machine find beside the lock."""

    def agent(self, principal: Principal, user_id: str, thread_id: str) -> MemoryAgent:
        """The memory of a thread, if `principal` may ask for its user. Raises AccessDenied, InvalidInput."""
        principal.check_user(user_id)
        return self.service.agent(user_id, thread_id, tenant=principal.tenant)
