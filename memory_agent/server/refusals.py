"""Every refusal as a problem document: our errors by their table, FastAPI's and Starlette's own beside them."""

from __future__ import annotations

import logging
import math
from http import HTTPStatus
from typing import TYPE_CHECKING

from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.responses import Response

from memory_agent.errors import AccessDenied, MemoryAgentError, Unavailable
from memory_agent.server.access_log import route_of
from memory_agent.server.answers import PROBLEM_TYPE, instance_of, problem_response, request_id
from memory_agent.wire.problems import Problem, problem_for_network, problem_of_request

if TYPE_CHECKING:
    from fastapi import FastAPI
    from starlette.requests import Request

log = logging.getLogger(__name__)


def error_response(error: MemoryAgentError) -> Response:
    """The answer that tells of `error`."""
    problem = problem_for_network(error, instance=_instance())
    if isinstance(error, Unavailable):
        log.warning("a request found a part unavailable: %s", type(error).__name__)
    headers: dict[str, str] = {}
    if problem.retry_after is not None:
        headers["Retry-After"] = str(max(math.ceil(problem.retry_after), 1))
    if isinstance(error, AccessDenied) and error.status == HTTPStatus.UNAUTHORIZED:
        headers["WWW-Authenticate"] = 'Bearer realm="memory_agent"'
    return _response(problem, headers)


def problem_text(error: MemoryAgentError) -> str:
    """The problem document of an error that comes when the answer has begun."""
    return problem_for_network(error, instance=_instance()).to_json()


def add_problem_handlers(app: FastAPI) -> None:
    """Answer errors of handlers with problems."""

    async def ours(_: Request, exc: Exception) -> Response:
        assert isinstance(exc, MemoryAgentError)  # noqa: S101 - what it is registered for
        return error_response(exc)

    async def of_request(_: Request, exc: Exception) -> Response:
        assert isinstance(exc, RequestValidationError)  # noqa: S101 - what it is registered for
        return _response(problem_of_request(exc.errors(), instance=_instance()))

    async def of_http(request: Request, exc: Exception) -> Response:
        assert isinstance(exc, HTTPException)  # noqa: S101 - what it is registered for
        headers = dict(exc.headers or {})
        if exc.status_code == HTTPStatus.METHOD_NOT_ALLOWED and (methods := _allowed(request)):
            headers["Allow"] = ", ".join(sorted(methods))
        title = HTTPStatus(exc.status_code).phrase
        return problem_response(
            exc.status_code,
            _SLUGS.get(exc.status_code, title.lower().replace(" ", "-")),
            title,
            _DETAILS.get(exc.status_code, title),
            headers=headers,
        )

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


def _response(problem: Problem, headers: dict[str, str] | None = None) -> Response:
    return Response(problem.to_json(), problem.status, headers, PROBLEM_TYPE)


def _instance() -> str | None:
    id_ = request_id.get()
    return None if id_ is None else instance_of(id_)
