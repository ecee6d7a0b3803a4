"""What is open to those who run the service: is it alive, is it ready, how is it doing; and the page of its calls.

It is without anybody's data. All but metrics are without keys.
"""

import base64
import hashlib
import re
from typing import TYPE_CHECKING, Annotated, Final

from fastapi import APIRouter, Query, Request
from fastapi.openapi.docs import get_swagger_ui_html
from fastapi.responses import Response
from pydantic import BaseModel, Field
from starlette.exceptions import HTTPException
from starlette.staticfiles import StaticFiles

from memory_agent.errors import NotFound
from memory_agent.keys import proof_of
from memory_agent.server.dependencies import OpenApi, answer
from memory_agent.server.metrics import CONTENT_TYPE, Ready
from memory_agent.server.openapi import operation_id
from memory_agent.wire.answers import Proof

if TYPE_CHECKING:
    from memory_agent.server.auth import Principal

# --- health and metrics --------------------------------------------------------------------------------------
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


# --- Swagger UI, from a package, so that no other host is asked for its files --------------------------------
pages = APIRouter(include_in_schema=False)

_FILES: Final = {"swagger-ui-bundle.js", "swagger-ui.css", "favicon.png"}
_PACKAGED: Final = StaticFiles(packages=[("fastapi_offline", "static")])
"""Swagger UI as it was published; the package's own application, which has further pages, is not used."""


@pages.api_route("/docs", methods=["GET", "HEAD"])
async def docs() -> Response:
    """Every call, to read and to try."""
    page = get_swagger_ui_html(
        # Relative addresses work under any path of a proxy.
        openapi_url="openapi.json",
        title="memory_agent",
        swagger_js_url="docs/swagger-ui-bundle.js",
        swagger_css_url="docs/swagger-ui.css",
        swagger_favicon_url="docs/favicon.png",
        swagger_ui_parameters={"validatorUrl": None},  # a foreign host's, which would be sent our address
    )
    page.headers["Content-Security-Policy"] = _policy(bytes(page.body).decode())
    return page


@pages.api_route("/docs/{name}", methods=["GET", "HEAD"])
async def docs_file(name: str, request: Request) -> Response:
    """A file of Swagger UI."""
    if name not in _FILES:
        raise HTTPException(404)
    return await _PACKAGED.get_response(name, request.scope)


def _policy(html: str) -> str:
    """The page may load and ask for what is here, and run the one script that it holds."""
    (script,) = re.findall(r"<script>(.*?)</script>", html, flags=re.DOTALL)
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    return "; ".join(
        (
            "default-src 'none'",
            f"script-src 'self' 'sha256-{digest}'",
            "style-src 'self' 'unsafe-inline'",  # Swagger UI sets styles of its elements
            "img-src 'self' data:",
            "connect-src 'self'",
            "base-uri 'none'",
            "form-action 'none'",
            "frame-ancestors 'none'",
        )
    )
