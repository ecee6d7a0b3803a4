"""The page that shows the OpenAPI document: Swagger UI, from a package, so that no other host is asked for its files."""

import base64
import hashlib
import re
from typing import Final

from fastapi import APIRouter, Request
from fastapi.openapi.docs import get_swagger_ui_html
from starlette.exceptions import HTTPException
from starlette.responses import Response
from starlette.staticfiles import StaticFiles

router = APIRouter(include_in_schema=False)

_FILES: Final = {"swagger-ui-bundle.js", "swagger-ui.css", "favicon.png"}
_PACKAGED: Final = StaticFiles(packages=[("fastapi_offline", "static")])
"""Swagger UI as it was published; the package's own application, which has further pages, is not used."""


@router.api_route("/docs", methods=["GET", "HEAD"])
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


@router.api_route("/docs/{name}", methods=["GET", "HEAD"])
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
