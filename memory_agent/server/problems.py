"""Problem documents (RFC 9457): every refusal of the service is one, our errors by their table and all others beside them."""

from __future__ import annotations

import logging
import math
import uuid
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

from starlette.exceptions import HTTPException
from starlette.responses import Response

from memory_agent.errors import AccessDenied, MemoryAgentError, Unavailable
from memory_agent.server.logs import request_id
from memory_agent.server.tracing import route_of
from memory_agent.wire.problems import MEDIA_TYPE, URN, Problem, problem_for_network, problem_of_request

if TYPE_CHECKING:
    from collections.abc import Mapping

    from fastapi import FastAPI
    from starlette.requests import Request

log = logging.getLogger(__name__)


def instance_of(id_: str) -> str:
    """A request's id as the URI that a problem's `instance` is.

    >>> instance_of("0190e1a2-0000-7000-8000-000000000000")
    'urn:uuid:0190e1a2-0000-7000-8000-000000000000'
    >>> instance_of("abc")
    'urn:memory-agent:request:abc'
    """
    try:
        return uuid.UUID(id_).urn
    except ValueError:
        return f"urn:memory-agent:request:{id_}"


def problem(status: int, slug: str, title: str, detail: str, **more: Any) -> Problem:
    """A problem that is no error of the core's; `more` are other members, such as `max_bytes`.

    `detail` must not quote contents or ids of users.
    """
    return Problem(type=URN + slug, title=title, status=status, detail=detail, instance=_instance(), **more)


def problem_response(
    status: int, slug: str, title: str, detail: str, *, headers: Mapping[str, str] | None = None, **more: Any
) -> Response:
    """Such a problem as an answer."""
    return _answer(problem(status, slug, title, detail, **more), headers)


def error_response(error: MemoryAgentError) -> Response:
    """The answer that tells of `error`."""
    found = problem_for_network(error, instance=_instance())
    if isinstance(error, Unavailable):
        log.warning("a request found a part unavailable: %s", type(error).__name__)
    headers: dict[str, str] = {}
    if found.retry_after is not None:
        headers["Retry-After"] = str(max(math.ceil(found.retry_after), 1))
    if isinstance(error, AccessDenied) and error.status == HTTPStatus.UNAUTHORIZED:
        headers["WWW-Authenticate"] = 'Bearer realm="memory_agent"'
    return _answer(found, headers)


def problem_text(error: MemoryAgentError) -> str:
    """The problem document of an error that comes when the answer has begun."""
    return problem_for_network(error, instance=_instance()).to_json()


def add_problem_handlers(app: FastAPI) -> None:
    """Answer errors of handlers with problems."""
    # Loaded here: what listens before there is an application needs problems too (see `sharing`).
    from fastapi.exceptions import RequestValidationError

    # Starlette calls each with the class it is registered for.
    async def ours(_: Request, exc: Any) -> Response:
        return error_response(exc)

    async def of_request(_: Request, exc: Any) -> Response:
        return _answer(problem_of_request(exc.errors(), instance=_instance()))

    async def of_http(request: Request, exc: Any) -> Response:
        headers = dict(exc.headers or {})
        if exc.status_code == HTTPStatus.METHOD_NOT_ALLOWED and (methods := _allowed(request)):
            headers["Allow"] = ", ".join(sorted(methods))
        title = HTTPStatus(exc.status_code).phrase
        slug = _SLUGS.get(exc.status_code, title.lower().replace(" ", "-"))
        detail = _DETAILS.get(exc.status_code, title)
        return problem_response(exc.status_code, slug, title, detail, headers=headers)

    app.add_exception_handler(MemoryAgentError, ours)
    app.add_exception_handler(RequestValidationError, of_request)
    app.add_exception_handler(HTTPException, of_http)


def _allowed(request: Request) -> set[str]:
    """All methods at the address; Starlette names those of one of its routes alone."""
    return {method.upper() for method in request.app.openapi()["paths"].get(route_of(request.scope), ())}


# `not-found` says that an id names nothing, which is another thing.
_SLUGS = {404: "no-such-address"}
_DETAILS = {
    400: "The body cannot be read; send JSON in UTF-8, of not too many levels.",
    404: "There is no such address; /docs lists those that there are.",
    405: "There is no such method at this address; the Allow header lists those that there are.",
}


def _answer(found: Problem, headers: Mapping[str, str] | None = None) -> Response:
    return Response(found.to_json(), found.status, dict(headers or {}), MEDIA_TYPE)


def _instance() -> str | None:
    id_ = request_id.get()
    return None if id_ is None else instance_of(id_)
