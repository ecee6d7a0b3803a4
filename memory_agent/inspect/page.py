"""One request for a page: who asks, for which memory, and how it is answered. Every refusal is a page, too."""

from __future__ import annotations

import asyncio
import functools
import hmac
import re
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib import resources
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import parse_qs, quote, unquote, urlencode

from starlette.responses import RedirectResponse, Response

from memory_agent.errors import AccessDenied, InvalidInput, MemoryAgentError, Unavailable
from memory_agent.inspect.plots import chart
from memory_agent.inspect.texts import (
    LANGUAGES,
    language_for,
    parts_of,
    pluralised,
    reason_in,
    seen,
    translated,
    when,
)
from memory_agent.server.incoming import segment_text
from memory_agent.wire.base import quoted_segment
from memory_agent.wire.problems import problem_for_network

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from jinja2 import Environment
    from starlette.requests import Request

    from memory_agent.agent.agent import MemoryAgent
    from memory_agent.domain import Scope
    from memory_agent.inspect.door import Login, Logins
    from memory_agent.ports import DocumentStore
    from memory_agent.server.auth import Principal
    from memory_agent.server.dependencies import Api

    Handler = Callable[["Page"], Awaitable[Response]]

HEADERS: Final = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
    "connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
    "X-Frame-Options": "DENY",
    "X-Content-Type-Options": "nosniff",
    # Without it a form's request would name no origin, and LocalOnly take it for another page's.
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cache-Control": "no-store",
}
_MOST_FIELDS: Final = 40
_NEXT: Final = re.compile(r"of/[^\s\\]+")


@dataclass(slots=True)
class Page:
    """A request of somebody who may look; `tenant` is the path's, `form` a change's fields."""

    request: Request
    principal: Principal
    login: Login
    form: Mapping[str, str]

    @property
    def api(self) -> Api:
        api: Api = self.request.app.state.api
        return api

    def path(self, name: str) -> str:
        """An id in the path."""
        return segment_text(self.request.path_params[name])

    def asked(self, name: str) -> str:
        """A parameter of the address; "" without it."""
        return self.request.query_params.get(name, "").strip()

    def number(self, name: str) -> int | None:
        """A parameter that is a whole number from 0 on. Raises InvalidInput."""
        text = self.asked(name)
        if text and not (text.isascii() and text.isdigit() and len(text) < 16):
            raise InvalidInput(f"{name} is {text!r:.80}; write a whole number from 0 on")
        return int(text) if text else None

    def time(self, name: str) -> datetime | None:
        """A parameter that is a time, in UTC, which is meant without a zone. Raises InvalidInput."""
        text = self.asked(name)
        try:
            time = datetime.fromisoformat(text) if text else None
            return time and (time.astimezone(UTC) if time.tzinfo else time.replace(tzinfo=UTC))
        except (ValueError, OverflowError):
            raise InvalidInput(f"{name} is {text!r:.80}; write it like 2026-05-07T19:45") from None

    @property
    def agent(self) -> MemoryAgent:
        """The memory of the thread in the path. Raises AccessDenied."""
        return self.api.agent(self.principal, self.path("user"), self.path("thread"))

    def of_thread(self, *more: str) -> tuple[str, ...]:
        """The parts of a page's address: one of the thread in the path."""
        return ("of", self.principal.tenant, "users", self.path("user"), self.path("thread"), *more)

    @property
    def user_scope(self) -> Scope:
        """All threads of the user in the path. Raises AccessDenied."""
        return self.principal.scope(self.path("user"))

    @property
    def store(self) -> DocumentStore:
        """For bounded reads of what the agent's calls give whole."""
        return self.api.service.core.store

    async def show(self, template: str, **values: Any) -> Response:
        """The page that the template makes of the values."""
        return await rendered(self.request, template, page=self, **values)

    def go(self, *segments: str, **query: str) -> Response:
        """On to another page, after a change."""
        return redirect(self.request, address(*segments, **query))

    async def is_let_in(self) -> bool:
        """True while the login lasts, which an answer that goes on does not lengthen, and its key counts."""
        logins: Logins = self.request.app.state.logins
        if not logins.lasts(self.login):
            return False
        try:
            await self.api.authenticator.again(self.login.key_id)
        except Unavailable:  # of the store; what follows tells it
            return True
        except MemoryAgentError:
            return False
        return True

    def here(self, **changed: Any) -> str:
        """This page's address with some parameters changed; None takes one out."""
        query = {**dict(self.request.query_params), **changed}
        return "?" + urlencode({name: value for name, value in query.items() if value not in (None, "")})


def address(*segments: str, **query: str) -> str:
    """The address of a page, below /inspect/.

    >>> address("of", "default", "users", "a/b", at="5")
    'of/default/users/a%2Fb?at=5'
    """
    path = "/".join(map(quoted_segment, segments))
    return f"{path}?{urlencode(query)}" if query else path


def base_of(request: Request) -> str:
    """The relative address of /inspect/ from the page, whatever path a proxy has put before it."""
    path = str(request.scope["path"]).removeprefix(request.scope.get("root_path", ""))
    return "../" * path.partition("/inspect/")[2].count("/") or "./"


def redirect(request: Request, where: str) -> Response:
    """To another page, by GET."""
    return RedirectResponse(base_of(request) + where, 303, headers=HEADERS)


def next_page(text: str) -> str:
    """The page that somebody wanted before signing in; "" for what is none of ours."""
    # To a browser an encoded dot is a dot, so that these lead up, and out.
    segments = map(unquote, re.split(r"[?#]", text)[0].split("/"))
    return text if _NEXT.fullmatch(text) and not {".", ".."} & {*segments} else ""


async def rendered(request: Request, template: str, *, code: int = 200, **values: Any) -> Response:
    """A page, in the language of the login or of the browser."""
    login: Login | None = request.scope["state"].get("login")
    language = language_of(request)
    shown = {"page": None, **values}
    shown |= {"base": base_of(request), "language": language, "languages": LANGUAGES, "login": login}
    wanted = values["next"] if template == "sign_in.html" else None
    shown["other_language"] = _other_language(request, wanted, shows=shown["page"] is not None)
    # What a page shows may be large, and nobody else should wait for it.
    html = await asyncio.to_thread(lambda: environment(language).get_template(template).render(shown))
    return Response(html, code, HEADERS, "text/html; charset=utf-8")


def language_of(request: Request) -> str:
    """The language that was chosen, now or before in this login, or that the browser asks for."""
    login: Login | None = request.scope["state"].get("login")
    chosen = request.query_params.get("lang", "")
    if chosen not in LANGUAGES:
        return (login and login.language) or language_for(request.headers.get("accept-language", ""))
    if login is not None:
        login.language = chosen
    return chosen


def _other_language(request: Request, wanted: str | None, *, shows: bool) -> str:
    """The address to see this page at in another language, but for that; where a form led here, that of a page that can be.

    `wanted`: where the form that asks for a key leads. `shows`: it is a page of somebody who may look.
    """
    if wanted is not None:
        return "sign-in?" + urlencode({"next": wanted, "lang": ""})
    if request.method == "POST":
        principal: Principal | None = request.scope["state"].get("principal")
        page = "sign-in" if principal is None else address("of", principal.tenant, "users")
        return f"{base_of(request)}{page}?lang="
    # A page that refuses repeats nothing of its address: neither a question nor a ticket.
    asked = dict(request.query_params) if shows else {}
    asked.pop("lang", None)  # it comes last
    return "?" + urlencode({**asked, "lang": ""})


@functools.cache
def environment(language: str) -> Environment:
    """The templates in a language. Everything that they are given is text, until a template says otherwise."""
    from jinja2 import Environment, PackageLoader, StrictUndefined

    made = Environment(
        loader=PackageLoader("memory_agent.inspect"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        extensions=["jinja2.ext.i18n"],
    )
    install: Any = made.install_gettext_callables  # type: ignore[attr-defined]
    install(functools.partial(translated, language), functools.partial(pluralised, language), newstyle=True)
    made.filters |= {
        "chart": functools.partial(chart, language),
        "seen": seen,
        # The same for attributes and titles, which hold no elements.
        "plain": lambda text: "".join(part for part, _ in parts_of(str(text))),
        "reason": functools.partial(reason_in, language),
        "when": when,
        # As fields for times have it, which know no zone.
        "field": lambda time: (
            "" if time is None else time.replace(tzinfo=None).isoformat(timespec="milliseconds")
        ),
        "time": lambda form, time: f"{time:{form}}",
        "count": lambda number: f"{number:,}",
    }
    made.globals |= {"address": address, "version": _static_version()}
    return made


@functools.cache
def _static_version() -> str:
    import hashlib

    files = sorted((resources.files("memory_agent.inspect") / "static").iterdir(), key=lambda file: file.name)
    return hashlib.sha256(b"".join(file.read_bytes() for file in files)).hexdigest()[:12]


def endpoint(handler: Handler, *, writes: bool = True) -> Callable[[Request], Awaitable[Response]]:
    """A handler as the router calls it: asks for a key first, checks the form of a change, shows what is refused.

    `writes`: its POST changes what is remembered, which not every key may.
    """

    async def answer(request: Request) -> Response:
        try:
            return await _answer(request, handler, writes=writes)
        except MemoryAgentError as exc:
            return await refused(request, exc)

    return answer


async def _answer(request: Request, handler: Handler, *, writes: bool) -> Response:
    state = request.scope["state"]
    if "principal" not in state:
        return await _strangers(request)
    principal: Principal = state["principal"]
    login: Login = state["login"]
    if "tenant" in request.path_params:
        state["principal"] = principal = principal.acting_for(segment_text(request.path_params["tenant"]))
    form: Mapping[str, str] = {}
    if request.method == "POST":
        form = await read_form(request)
        if not hmac.compare_digest(form.get("csrf", "").encode(), login.csrf.encode()):
            raise AccessDenied("this form is not of your login; open the page again")
        if writes:
            principal.check_may_write()
    return await handler(Page(request, principal, login, form))


async def _strangers(request: Request) -> Response:
    """The way in: nobody is signed in, or the key of who was does not count any more."""
    refusal = request.scope["state"].get("refusal")
    is_out = refusal is None or isinstance(refusal, AccessDenied)  # else it may be let in again later
    if is_out and "text/event-stream" in request.headers.get("accept", ""):
        # A live page that asks again: it goes to the form by itself.
        return Response("event: end\ndata: \n\n", headers=HEADERS, media_type="text/event-stream")
    if request.method == "GET" and request.headers.get("sec-fetch-site") == "cross-site":
        # Behind a link in another site's page no cookie comes along; from a page of ours it does.
        return await rendered(request, "onward.html")
    if not request.app.state.api.authenticator.asks:
        return redirect(request, address("enter", next=_wanted(request)))
    if refusal is not None:
        return await refused(request, refusal)
    return redirect(request, address("sign-in", next=_wanted(request)))


def _wanted(request: Request) -> str:
    """The page that was asked for, to come back to."""
    path = request.scope.get("raw_path", b"").decode("ascii", "replace")
    raw = path.removeprefix(quote(request.scope.get("root_path", ""))).partition("/inspect/")[2]
    query = request.scope["query_string"].decode("ascii", "replace")
    return "" if request.method != "GET" else next_page(f"{raw}?{query}" if query else raw)


async def read_form(request: Request) -> Mapping[str, str]:
    """A form's fields. Raises AccessDenied for one that another site's page sent."""
    if not _is_ours(request):
        raise AccessDenied(
            "this form was sent by a page from elsewhere (if it was not, a proxy before the service changes Host)"
        )
    try:
        text = (await request.body()).decode("ascii")
        fields = parse_qs(text, keep_blank_values=True, max_num_fields=_MOST_FIELDS, errors="strict")
    except ValueError:
        raise InvalidInput("the form cannot be read; open the page again") from None
    return {name: values[-1] for name, values in fields.items()}


def _is_ours(request: Request) -> bool:
    """False for what another origin's page sent."""
    site, origin = request.headers.get("sec-fetch-site"), request.headers.get("origin")
    if site == "same-origin":
        return True  # whatever a proxy has made of Host
    if site not in (None, "none"):
        return False
    # Over http browsers send no Sec-Fetch-Site but to this machine. Some proxies pass on Host without its port.
    sent_by = "" if origin is None else origin.partition("://")[2].lower()
    without_port = re.sub(r":\d+$", "", sent_by)
    return origin is None or request.headers.get("host", "").lower() in {sent_by, without_port} - {""}


async def refused(request: Request, error: MemoryAgentError) -> Response:
    """The page that says why something was not shown or done."""
    problem = problem_for_network(error)
    principal: Principal | None = request.scope["state"].get("principal")
    home = "" if principal is None else address("of", principal.tenant, "users")
    return await rendered(request, "refused.html", code=problem.status, problem=problem, home=home)
