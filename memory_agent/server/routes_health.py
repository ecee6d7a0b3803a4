"""For those who run the service: is it alive, is it ready, how is it doing. Without anybody's data; all but metrics without keys."""

from typing import TYPE_CHECKING, Annotated

from fastapi import APIRouter, Query, Request
from fastapi.responses import Response
from pydantic import BaseModel, Field

from memory_agent.errors import NotFound
from memory_agent.keys import proof_of
from memory_agent.server.dependencies import OpenApi, answer
from memory_agent.server.metrics import CONTENT_TYPE
from memory_agent.server.openapi import operation_id
from memory_agent.server.readiness import Ready
from memory_agent.wire.work import Proof

if TYPE_CHECKING:
    from memory_agent.server.auth import Principal

router = APIRouter(tags=["health"], generate_unique_id_function=operation_id)


class Alive(BaseModel):
    """The process runs and answers."""

    status: str = Field("alive", examples=["alive"])


@router.get("/healthz", response_model=Alive)
async def alive() -> Response:
    """The process runs."""
    return answer(Alive(status="alive"))


@router.get("/readyz", response_model=Ready, responses={503: {"model": Ready}})
async def ready(api: OpenApi) -> Response:
    """The stores can be reached; with how much work is owed. 503 while the document store is down."""
    found = await api.readiness.look()
    return answer(found, 503 if found.status == "down" else 200)


# Some balancers ask by HEAD. It is no operation of its own.
for path, handler in (("/healthz", alive), ("/readyz", ready)):
    router.add_api_route(path, handler, methods=["HEAD"], include_in_schema=False)


@router.get("/holder", response_model=Proof, include_in_schema=False)
async def holder(api: OpenApi, nonce: Annotated[str, Query(min_length=16, max_length=128)]) -> Response:
    """Show to whoever read the key beside the lock that it may be sent here."""
    if api.own_key is None:
        raise NotFound("this service holds no folder")
    return answer(Proof(proof=proof_of(api.own_key, nonce)))


@router.get(
    "/metrics",
    response_class=Response,
    responses={200: {"content": {"text/plain": {"schema": {"type": "string"}}}}},
)
async def metrics(request: Request, api: OpenApi) -> Response:
    """Prometheus' text format. Asks for a key for all tenants, unless the setting `server_metrics_open` says otherwise."""
    principal: Principal | None = request.scope["state"].get("principal")
    if principal is not None:
        principal.check_all_tenants()
    text = await api.metrics.render(api.service, api.hub)
    return Response(text, media_type=CONTENT_TYPE)
