"""Refusals as problem documents (RFC 9457), in ASCII, so that no text can break a header or a parser."""

from __future__ import annotations

import json
import uuid
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Final

from starlette.responses import Response

if TYPE_CHECKING:
    from collections.abc import Mapping

    from starlette.types import Receive, Scope, Send

PROBLEM_TYPE: Final = "application/problem+json"

request_id: ContextVar[str | None] = ContextVar("memory_agent_request_id", default=None)
"""The id of the request being answered; None outside of requests."""


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


def problem_body(
    status: int, slug: str, title: str, detail: str, *, extra: Mapping[str, Any] | None = None
) -> bytes:
    """The document alone; `extra` are further members, which never replace the standard ones."""
    document: dict[str, Any] = dict(extra or {})
    document |= {
        "type": f"urn:memory-agent:problem:{slug}",
        "title": title,
        "status": status,
        "detail": detail,
    }
    if (id_ := request_id.get()) is not None:
        document["instance"] = instance_of(id_)
    return json.dumps(document, ensure_ascii=True).encode("ascii")


def problem_response(
    status: int,
    slug: str,
    title: str,
    detail: str,
    *,
    headers: Mapping[str, str] | None = None,
    extra: Mapping[str, Any] | None = None,
) -> Response:
    """A problem as an answer; `detail` must not quote contents or ids of users."""
    body = problem_body(status, slug, title, detail, extra=extra)
    return Response(body, status, dict(headers or {}), PROBLEM_TYPE)


async def send_denial(response: Response, scope: Scope, receive: Receive, send: Send) -> None:
    """Answer a request, or the opening handshake of a WebSocket, with `response`."""
    if scope["type"] == "websocket" and "websocket.http.response" not in scope.get("extensions", {}):
        await send({"type": "websocket.close", "code": 1008, "reason": ""})
        return
    await response(scope, receive, send)
