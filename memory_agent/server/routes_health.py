"""For those who run the service: is it alive, is it ready, how is it doing. Without keys, and without anybody's data."""

import asyncio
from typing import Final

from fastapi import APIRouter
from fastapi.responses import Response
from pydantic import BaseModel, Field

from memory_agent.domain import Stage
from memory_agent.errors import MemoryAgentError, VectorIndexUnavailable
from memory_agent.server.asking import OpenApi, answer
from memory_agent.server.metrics import CONTENT_TYPE
from memory_agent.server.state import Api

router = APIRouter(tags=["health"])
_PATIENCE_SECONDS: Final = 5.0


class Alive(BaseModel):
    """The process runs and answers."""

    status: str = Field("alive", examples=["alive"])


class Ready(BaseModel):
    """Whether requests would be answered, part by part."""

    status: str = Field(
        description="`ready`, `degraded` (answers, without the parts that are down) or `down`."
    )
    parts: dict[str, str] = Field(examples=[{"store": "up", "vector_index": "up"}])
    pending: dict[Stage, int] = Field(description="Turns that owe each stage, of everybody.")
    parked: int
    lag_seconds: float


@router.get("/healthz", response_model=Alive)
async def alive() -> Response:
    """The process runs."""
    return answer(Alive(status="alive"))


@router.get("/readyz", response_model=Ready, responses={503: {"model": Ready}})
async def ready(api: OpenApi) -> Response:
    """The stores can be reached; with how much work is owed. 503 while the document store is down."""
    parts = {"store": "up", "vector_index": await _vectors(api)}
    parts |= dict.fromkeys(sorted(api.service.parts.worker.down), "down")
    try:
        async with asyncio.timeout(_PATIENCE_SECONDS):
            status = await api.service.status()
    except (MemoryAgentError, TimeoutError):
        parts["store"] = "down"
        return answer(Ready(status="down", parts=parts, pending={}, parked=0, lag_seconds=0.0), 503)
    return answer(
        Ready(
            status="degraded" if "down" in parts.values() else "ready",
            parts=parts,
            pending=dict(status.pending),
            parked=status.parked_count,
            lag_seconds=status.lag_seconds,
        )
    )


async def _vectors(api: Api) -> str:
    try:
        async with asyncio.timeout(_PATIENCE_SECONDS):
            await api.service.parts.vectors.ping()
    except (VectorIndexUnavailable, TimeoutError):
        return "down"
    return "up"


@router.get(
    "/metrics",
    response_class=Response,
    responses={200: {"content": {"text/plain": {"schema": {"type": "string"}}}}},
)
async def metrics(api: OpenApi) -> Response:
    """Prometheus' text format."""
    text = await api.metrics.render(api.service, api.hub)
    return Response(text, media_type=CONTENT_TYPE)
