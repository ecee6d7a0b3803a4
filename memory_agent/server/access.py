"""Keys at the door: no handler runs, and no body is read, before it is known who asks and that they may.

The pages for people are the exception: their handlers run for everybody, and show nothing but the form that asks for a
key to whom the state of the request has no `principal` for.
"""

from __future__ import annotations

import functools
import time
from collections import Counter
from typing import TYPE_CHECKING, Final

from starlette.requests import HTTPConnection

from memory_agent.errors import AccessDenied, MemoryAgentError, RateLimited
from memory_agent.inspect.door import cookie_name
from memory_agent.server.auth import bearer_token, named_tenant
from memory_agent.server.incoming import source_of
from memory_agent.server.problems import error_response

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from starlette.types import ASGIApp, Receive, Scope, Send

    from memory_agent.inspect.door import Logins
    from memory_agent.server.auth import Authenticator, Principal
    from memory_agent.server.incoming import Network

TICKET: Final = "/inspect/ticket"
GUARDED: Final = ("/api/", "/mcp", TICKET)
"""What asks for a key. The others say nothing about anybody's memory."""
PAGES: Final = "/inspect/"
"""Where the key is that of a login."""
METRICS: Final = "/metrics"
FAILED_KEYS_PER_MINUTE: Final = 60
"""From one source, a sixth of them at once; then keys that this process has not met are refused without a look at the store."""
_FORGET_FROM: Final = 1_024
"""Keys from which on full buckets are looked for and forgotten."""


class Buckets:
    """A token bucket per key: ten seconds' worth of requests at once (at least 1), then `rate_per_minute` a minute.

    Each bucket is kept as the one time at which it would be full again ("theoretical arrival time" of the generic
    cell rate algorithm, ITU-T I.371), so that a full bucket need not be kept at all.
    """

    def __init__(self, rate_per_minute: float) -> None:
        """`rate_per_minute` 0: no limit."""
        self._rate = rate_per_minute
        self._full_at: dict[str, float] = {}
        self._look_from = _FORGET_FROM

    def __len__(self) -> int:
        return len(self._full_at)

    def take(self, key: str, now: float, *, rate_per_minute: float | None = None) -> float:
        """Take one token. 0 means go; else nothing is taken, and so many seconds later there will be one.

        `now`: seconds of a monotonic clock. `rate_per_minute`: of this key, instead of all keys' rate.
        """
        rate = self._rate if rate_per_minute is None else rate_per_minute
        if (wait := self.wait(key, now, rate_per_minute=rate)) > 0 or rate <= 0:
            return wait
        self._full_at[key] = max(self._full_at.get(key, now), now) + 60 / rate
        if len(self._full_at) >= self._look_from:
            self._full_at = {key: full_at for key, full_at in self._full_at.items() if full_at > now}
            # Twice what is left, so that looking costs a constant share of a request.
            self._look_from = max(_FORGET_FROM, 2 * len(self._full_at))
        return 0.0

    def wait(self, key: str, now: float, *, rate_per_minute: float | None = None) -> float:
        """The seconds until there is a token, as `take` would say; none is taken."""
        rate = self._rate if rate_per_minute is None else rate_per_minute
        if rate <= 0:
            return 0.0
        burst = max(1, round(rate / 6))
        wait = self._full_at.get(key, now) - now - (burst - 1) * 60 / rate
        # A request that comes when it was told to must not wait for a rounding error.
        return (
            wait if wait > max(1e-9, 1e-13 * abs(now)) else 0.0
        )  # some hundred times what a double can tell apart


class Concurrency:
    """Concurrency limit: the requests of each key that are in progress."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._held: Counter[str] = Counter()

    def __len__(self) -> int:
        return len(self._held)

    def enter(self, key: str) -> bool:
        """Count one more, if there is room; who was let in must `leave`."""
        if self._held[key] >= self._limit:
            return False
        self._held[key] += 1
        return True

    def leave(self, key: str) -> None:
        """One is done."""
        self._held[key] -= 1
        if self._held[key] <= 0:
            del self._held[key]


class Access:
    """ASGI middleware: puts the `Principal` into the request's state, or refuses with 401 or 429."""

    def __init__(
        self,
        app: ASGIApp,
        *,
        authenticator: Callable[[], Authenticator],
        logins: Logins,
        requests_per_minute: float,
        concurrent: int,
        streams: int,
        metrics_open: bool = False,
        proxies: Sequence[Network] = (),
    ) -> None:
        """`requests_per_minute` (0: any number) of a key that says nothing else, `concurrent` at once.

        Of the `streams` that there may be, one key has half at most. `metrics_open`: metrics are told without a key.
        `proxies`: whose word counts for where a request comes from.
        """
        self._app = app
        self._authenticator = authenticator
        self._logins = logins
        self._buckets = Buckets(requests_per_minute)
        self._concurrency = Concurrency(concurrent)
        self._streams = Concurrency(max(streams // 2, 1))
        self._guarded = GUARDED if metrics_open else (*GUARDED, METRICS)
        self._proxies = proxies
        self._failed = Buckets(FAILED_KEYS_PER_MINUTE)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or _is_preflight(scope):
            await self._app(scope, receive, send)
        elif is_below(scope, self._guarded):
            await self._guard(scope, receive, send)
        elif is_below(scope, (PAGES,)):
            await self._look(scope, receive, send)
        else:
            await self._app(scope, receive, send)

    async def _guard(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            known = await self._authenticate(scope, bearer_token(scope["headers"]))
            principal = known.acting_for(named_tenant(scope["headers"]))
            held = self._admit(principal, scope)
        except MemoryAgentError as exc:
            await error_response(exc)(scope, receive, send)
            return
        await self._let_in(principal, held, scope, receive, send)

    async def _look(self, scope: Scope, receive: Receive, send: Send) -> None:
        """A page: told who is signed in, or why nobody is, and given `authenticate` for a token that its form may bring."""
        state = scope.setdefault("state", {})
        state["authenticate"] = functools.partial(self._sign_in, scope)
        name = _login_name(scope)
        login = None if name is None else self._logins.find(name)
        if login is None:
            await self._app(scope, receive, send)
            return
        state["login"] = login
        try:
            principal = await self._authenticator().again(login.key_id)
            held = self._admit(principal, scope)
        except MemoryAgentError as exc:
            state["refusal"] = exc
            await self._app(scope, receive, send)
            return
        await self._let_in(principal, held, scope, receive, send)

    async def _let_in(
        self, principal: Principal, held: Concurrency | None, scope: Scope, receive: Receive, send: Send
    ) -> None:
        scope.setdefault("state", {})["principal"] = principal
        try:
            await self._app(scope, receive, send)
        finally:
            if held is not None:
                held.leave(principal.key_id)

    async def _authenticate(self, scope: Scope, token: str | None) -> Principal:
        """Raises AccessDenied, RateLimited where too many keys from the same source were refused."""
        authenticator, source = self._authenticator(), source_of(scope, self._proxies)
        wait = self._failed.wait(source, time.monotonic())
        if wait > 0 and token is not None and not authenticator.has_met(token):
            raise _too_many_failed(wait)
        try:
            return await authenticator.principal(token)
        except AccessDenied:
            if token is not None and (wait := self._failed.take(source, time.monotonic())) > 0:
                raise _too_many_failed(wait) from None
            raise

    async def _sign_in(self, scope: Scope, token: str) -> Principal:
        """Whom a form's key stands for; it is a request of that key like any other. Raises as `_authenticate`."""
        principal = await self._authenticate(scope, token)
        self._count(principal)
        return principal

    def _count(self, principal: Principal) -> None:
        """Raises RateLimited."""
        wait = self._buckets.take(
            principal.key_id, time.monotonic(), rate_per_minute=principal.requests_per_minute
        )
        if wait > 0:
            raise RateLimited(
                f"this key has asked too much for now; ask again in {wait:.1f} s", retry_after=wait
            )

    def _admit(self, principal: Principal, scope: Scope) -> Concurrency | None:
        """The count that the request is held in until it ends. Raises RateLimited."""
        if not principal.key_id:
            return None  # without keys there is nobody to tell apart
        self._count(principal)
        # Streams live long, and would use up what a key may ask at once.
        held = self._streams if _is_stream(scope) else self._concurrency
        if not held.enter(principal.key_id):
            what = "streams of events open" if held is self._streams else "requests in progress"
            raise RateLimited(f"this key has too many {what}", retry_after=1.0)
        return held


def is_below(scope: Scope, paths: tuple[str, ...]) -> bool:
    """True if the request's path begins with one of these."""
    path = str(scope["path"])
    # Mounted below a path of another application's, this one routes by what follows it.
    return path.startswith(paths) or path.removeprefix(scope.get("root_path", "")).startswith(paths)


def _too_many_failed(wait: float) -> RateLimited:
    return RateLimited(
        f"too many keys from this address were refused; ask again in {wait:.1f} s", retry_after=wait
    )


def _login_name(scope: Scope) -> str | None:
    """The name of a login that the request's cookies hold."""
    connection = HTTPConnection(scope)
    return connection.cookies.get(cookie_name(connection.headers.get("host", "")))


def _is_stream(scope: Scope) -> bool:
    return bool(scope["method"] == "GET" and str(scope["path"]).endswith("/events"))


def _is_preflight(scope: Scope) -> bool:
    """True for a browser's question about CORS, with which it sends none of our headers."""
    return scope.get("method") == "OPTIONS" and any(
        name == b"access-control-request-method" for name, _ in scope["headers"]
    )
