"""Signing in and out. A key is sent once, in the body of a form; from then on a cookie names a login of this process."""

from __future__ import annotations

from importlib import resources
from typing import TYPE_CHECKING, Any, Final

from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse, RedirectResponse, Response

from memory_agent.errors import AccessDenied, MemoryAgentError
from memory_agent.inspect.logins import cookie_name
from memory_agent.inspect.page import (
    HEADERS,
    address,
    next_page,
    read_form,
    redirect,
    refused,
    rendered,
)
from memory_agent.wire.problems import problem_for_network

if TYPE_CHECKING:
    from starlette.requests import Request

    from memory_agent.inspect.logins import Logins
    from memory_agent.inspect.page import Page

_KINDS: Final = {"inspect.css": "text/css", "inspect.js": "text/javascript", "icon.svg": "image/svg+xml"}
_PATH: Any = None
"""Of the cookie: the folder of the address as the browser knows it, which is that of the pages behind any proxy."""


async def sign_in(request: Request) -> Response:
    """The form that asks for a key, and what it brings."""
    if request.method != "POST":
        wanted = next_page(request.query_params.get("next", ""))
        return await rendered(request, "sign_in.html", next=wanted, problem=None)
    wanted = ""
    try:
        form = await read_form(request)
        wanted = next_page(form.get("next", ""))
        principal = await request.scope["state"]["authenticate"](form.get("key", "").strip())
    except MemoryAgentError as exc:
        problem = problem_for_network(exc)
        return await rendered(request, "sign_in.html", code=problem.status, next=wanted, problem=problem)
    return _begun(request, principal.key_id, wanted or address("of", principal.tenant, "users"))


async def enter(request: Request) -> Response:
    """Where a ticket of an address begins a login; without keys anybody's does."""
    wanted = next_page(request.query_params.get("next", ""))
    authenticator = request.app.state.api.authenticator
    try:
        if authenticator.asks and request.headers.get("sec-fetch-site") in ("cross-site", "same-site"):
            # It would sign a reader in as whoever made the link.
            raise AccessDenied("this address was opened by a page from elsewhere; open this address yourself")
        key_id = _logins(request).redeem(request.query_params.get("ticket", ""))
        if key_id is None and authenticator.asks:
            raise AccessDenied("this address was used already, or is too old; sign in with a key", status=401)
        principal = await authenticator.again(key_id or "")
    except MemoryAgentError as exc:
        return await refused(request, exc)
    return _begun(request, key_id or "", wanted or address("of", principal.tenant, "users"))


async def ticket(request: Request) -> Response:
    """A ticket for whoever brings a key: `memory-agent inspect` opens a browser with it."""
    key_id = request.scope["state"]["principal"].key_id
    return JSONResponse({"ticket": _logins(request).ticket(key_id)}, headers=HEADERS)


async def sign_out(page: Page) -> Response:
    """The end of the login."""
    cookie = _cookie(page.request)
    _logins(page.request).end(page.request.cookies.get(cookie, ""))
    answer = redirect(page.request, "sign-in")
    answer.delete_cookie(cookie, path=_PATH)
    return answer


async def first(page: Page) -> Response:
    """From /inspect/ to the first page."""
    return page.go("of", page.principal.tenant, "users")


async def front(request: Request) -> Response:
    """From /inspect to /inspect/, below whatever path this is served."""
    return RedirectResponse("inspect/", 307, headers=HEADERS)


async def static(request: Request) -> Response:
    """A file of the pages."""
    name = request.path_params["name"]
    if name not in _KINDS:
        raise HTTPException(404)
    file = resources.files("memory_agent.inspect") / "static" / name
    kept = {**HEADERS, "Cache-Control": "public, max-age=31536000, immutable"}
    return Response(file.read_bytes(), headers=kept, media_type=_KINDS[name])


def _begun(request: Request, key_id: str, wanted: str) -> Response:
    answer = redirect(request, wanted)
    secure = "https" in (request.url.scheme, request.headers.get("x-forwarded-proto"))
    answer.set_cookie(
        _cookie(request),
        _logins(request).begin(key_id),
        path=_PATH,
        httponly=True,
        samesite="strict",
        secure=secure,
    )
    return answer


def _cookie(request: Request) -> str:
    return cookie_name(request.headers.get("host", ""))


def _logins(request: Request) -> Logins:
    logins: Logins = request.app.state.logins
    return logins
