"""Readiness check, cached so that frequent probes do not load the stores."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Final, Literal

from pydantic import BaseModel, Field

from memory_agent.domain import Stage  # noqa: TC001 - pydantic reads the annotations
from memory_agent.errors import MemoryAgentError

if TYPE_CHECKING:
    from memory_agent.service import MemoryService

_PATIENCE_SECONDS: Final = 5.0
_SHARED_SECONDS: Final = 1.0
"""How long an answer holds: whoever asks needs no key, and each look counts everybody's owed turns."""


State = Literal["up", "down"]


class Ready(BaseModel):
    """Readiness, part by part."""

    status: Literal["ready", "degraded", "down"] = Field(
        description="`ready`, `degraded` (answers, without the parts that are down) or `down`."
    )
    parts: dict[str, State] = Field(examples=[{"store": "up", "vector_index": "up"}])
    pending: dict[Stage, int] = Field(description="Turns that owe each stage, of everybody.")
    parked: int
    lag_seconds: float


class Readiness:
    """Looks at the stores of an open service."""

    def __init__(self, service: MemoryService) -> None:
        self._service = service
        self._looking = asyncio.Lock()
        self._seen: Ready | None = None
        self._seen_at = float("-inf")

    async def look(self) -> Ready:
        """The readiness, at most a second old. Raises nothing."""
        async with self._looking:
            if self._seen is None or time.monotonic() - self._seen_at >= _SHARED_SECONDS:
                self._seen = await self._look()
                self._seen_at = time.monotonic()
            return self._seen

    async def _look(self) -> Ready:
        parts: dict[str, State] = {"store": "up", "vector_index": await self._vectors()}
        parts |= dict.fromkeys(sorted(self._service.core.worker.down), "down")
        try:
            async with asyncio.timeout(_PATIENCE_SECONDS):
                status = await self._service.status()
        except (MemoryAgentError, TimeoutError):
            parts["store"] = "down"
            return Ready(status="down", parts=parts, pending={}, parked=0, lag_seconds=0.0)
        return Ready(
            status="degraded" if "down" in parts.values() else "ready",
            parts=parts,
            pending=dict(status.pending),
            parked=status.parked_count,
            lag_seconds=status.lag_seconds,
        )

    async def _vectors(self) -> State:
        try:
            async with asyncio.timeout(_PATIENCE_SECONDS):
                await self._service.core.vectors.ping()
        except (MemoryAgentError, TimeoutError):
            return "down"
        return "up"
