"""The base of MemoryAgent's parts: the thread that they are about, and the core that they call."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from memory_agent.domain import Scope
    from memory_agent.service import MemoryService
    from memory_agent.wiring import Core


class ThreadCalls:
    """One thread of an open service."""

    scope: Scope
    _service: MemoryService

    @property
    def _core(self) -> Core:
        """Every part of the service. Raises NotOpen outside `async with`."""
        return self._service.core
