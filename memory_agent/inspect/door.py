"""Signing in and out. A key is sent once, in the body of a form; from then on a cookie names a login of this process."""

from __future__ import annotations

import hashlib
import re
import secrets
import time
from collections import OrderedDict
from dataclasses import dataclass, field
from importlib import resources
from typing import TYPE_CHECKING, Any, Final

from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse, RedirectResponse, Response

from memory_agent.errors import AccessDenied, MemoryAgentError
from memory_agent.inspect.page import HEADERS, address, next_page, read_form, redirect, refused, rendered
from memory_agent.wire.problems import problem_for_network

if TYPE_CHECKING:
    from collections.abc import Callable

    from starlette.requests import Request

    from memory_agent.inspect.page import Page

# --- logins, held in this process ----------------------------------------------------------------------------
IDLE_SECONDS: Final = 3_600.0
LONGEST_SECONDS: Final = 43_200.0
"""Half a day, however busy; then the key is asked for again."""
TICKET_SECONDS: Final = 120.0
"""From when a command opens the browser to when that has asked for the page."""
_MOST_OF_A_KEY: Final = 20
"""Logins, and tickets; one more ends the one of the same key that was used least recently."""


@dataclass(slots=True)
class Login:
    """Somebody signed in with the key `key_id`, "" where no keys are asked for. `csrf`: what each of the pages' forms carries."""

    key_id: str
    began: float
    used: float
    csrf: str = field(default_factory=lambda: secrets.token_urlsafe(24))
    language: str | None = None
    """Chosen on a page; None: as the browser asks."""
    streams: int = 0
    """Of live pages that are open."""
    exports: int = 0
    """Under way."""


class Logins:
    """The logins of one process, the least recently used first. Only hashes of their names are kept."""

    def __init__(self, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._monotonic = monotonic
        self._logins: OrderedDict[str, Login] = OrderedDict()
        self._tickets: OrderedDict[str, tuple[float, str]] = OrderedDict()

    def begin(self, key_id: str) -> str:
        """A new login's name, for the cookie."""
        name, now = secrets.token_urlsafe(32), self._monotonic()
        while self._logins and now - next(iter(self._logins.values())).used > IDLE_SECONDS:
            self._logins.popitem(last=False)
        own = [hashed for hashed, login in self._logins.items() if login.key_id == key_id]
        for hashed in own[: 1 - _MOST_OF_A_KEY]:
            del self._logins[hashed]
        self._logins[_hash(name)] = Login(key_id=key_id, began=now, used=now)
        return name

    def find(self, name: str) -> Login | None:
        """The login of that name, which is used by this; None if there is none, or it has ended."""
        hashed = _hash(name)
        login = self._logins.get(hashed)
        if login is None:
            return None
        if self._is_over(login):
            del self._logins[hashed]
            return None
        login.used = self._monotonic()
        self._logins.move_to_end(hashed)
        return login

    def lasts(self, login: Login) -> bool:
        """True if the login has not ended; it is not used by this."""
        return not self._is_over(login) and any(one is login for one in self._logins.values())

    def _is_over(self, login: Login) -> bool:
        now = self._monotonic()
        return now - login.used > IDLE_SECONDS or now - login.began > LONGEST_SECONDS

    def end(self, name: str) -> None:
        """End the login, if there is one."""
        self._logins.pop(_hash(name), None)

    def ticket(self, key_id: str) -> str:
        """A word that begins one login of this key, once and soon: a browser is sent it in an address."""
        word, now = secrets.token_urlsafe(32), self._monotonic()
        while self._tickets and next(iter(self._tickets.values()))[0] <= now:
            self._tickets.popitem(last=False)
        own = [hashed for hashed, (_, of) in self._tickets.items() if of == key_id]
        for hashed in own[: 1 - _MOST_OF_A_KEY]:
            del self._tickets[hashed]
        self._tickets[_hash(word)] = now + TICKET_SECONDS, key_id
        return word

    def redeem(self, word: str) -> str | None:
        """The key that the ticket is of; None for one that was used, is too old, or is none."""
        until, key_id = self._tickets.pop(_hash(word), (0.0, ""))
        return key_id if until > self._monotonic() else None


def cookie_name(host: str) -> str:
    """The cookie's name for a Host header, with its port: browsers send a host's cookies to all of its ports.

    >>> cookie_name("localhost:8080"), cookie_name("memory.example")
    ('ma_inspect_8080', 'ma_inspect')
    """
    port = re.search(r":(\d{1,5})$", host, re.ASCII)
    return f"ma_inspect_{port[1]}" if port else "ma_inspect"


def _hash(name: str) -> str:
    return hashlib.sha256(name.encode("utf-8", "replace")).hexdigest()


# --- signing in and out --------------------------------------------------------------------------------------
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
