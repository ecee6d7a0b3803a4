"""One service over HTTP: a request goes out, is repeated where that is safe, and comes back as an answer or an error.

httpx is called here alone; none of its errors get out. The secrets of an address are in no text that is shown.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import math
import random
import re
import time
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final, TypeVar
from urllib.parse import unquote_to_bytes, urlencode

import httpx
from httpx_sse import EventSource, SSEError
from pydantic import BaseModel, ValidationError
from pydantic_core import PydanticSerializationError

from memory_agent import __version__
from memory_agent.concurrency import Home
from memory_agent.config import ENV_PREFIX, MemoryConfig
from memory_agent.domain import DEFAULT_TENANT
from memory_agent.errors import (
    ConfigError,
    InvalidInput,
    MemoryAgentError,
    NotOpen,
    RateLimited,
    ServiceError,
    ServiceUnavailable,
)
from memory_agent.wire.problems import MEDIA_TYPE, Problem, error_of

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping

    from httpx_sse import ServerSentEvent

    from memory_agent.wire.base import Request

# --- the address ---------------------------------------------------------------------------------------------
_EXAMPLE: Final = "http://127.0.0.1:8080"
_TOKEN: Final = re.compile(r"[\x21-\x7e]+")


@dataclass(frozen=True, kw_only=True, slots=True)
class Address:
    """A service. `url` ends without '/' and holds no credentials; `authorization` is the header's value."""

    url: str
    authorization: str | None = field(repr=False)

    @classmethod
    def of(cls, base_url: str | None, api_key: str | None) -> Address:
        """The address with this key; what is None is taken from the settings `service_url` and `service_api_key`.

        Raises ConfigError if there is no address at all, or one that cannot be used, or an impossible key.
        """
        if base_url is None or api_key is None:
            settings = MemoryConfig()
            base_url = settings.service_url if base_url is None else base_url
            if api_key is None and settings.service_api_key is not None:
                api_key = settings.service_api_key.get_secret_value()
        if base_url is None:
            raise ConfigError(
                f"there is no address of a service; pass base_url, e.g. {_EXAMPLE!r}, or set service_url "
                f"({ENV_PREFIX}SERVICE_URL)"
            )
        url, userinfo = _split(base_url)
        if api_key is None:
            return cls(url=url, authorization=_basic(userinfo) if userinfo else None)
        if not isinstance(api_key, str) or _TOKEN.fullmatch(api_key) is None:
            raise ConfigError(
                "api_key must be visible ASCII without blanks, such as `ma_…`; it is not shown here"
            )
        if userinfo:
            raise ConfigError(
                f"base_url holds a user name and api_key is set, but one request carries only one of both; "
                f"take the user name out of the address of {url}"
            )
        return cls(url=url, authorization=f"Bearer {api_key}")


def _split(base_url: object) -> tuple[str, bytes]:
    """The address without credentials and without a '/' at its end; the credentials. Raises ConfigError."""
    try:
        parsed = httpx.URL(base_url) if isinstance(base_url, str) else httpx.URL("")
    except (httpx.InvalidURL, UnicodeError):
        parsed = httpx.URL("")
    # What is refused is not repeated: it may hold a password.
    if parsed.scheme not in ("http", "https") or not parsed.host or parsed.query or parsed.fragment:
        raise ConfigError(
            f"base_url must be an address with http:// or https://, a host and no query, e.g. {_EXAMPLE!r}"
        )
    return str(parsed.copy_with(userinfo=b"")).rstrip("/"), parsed.userinfo


def _basic(userinfo: bytes) -> str:
    # RFC 7617: for a gateway in front of a service that asks for no key.
    name, _, password = userinfo.partition(b":")
    pair = unquote_to_bytes(name) + b":" + unquote_to_bytes(password)
    return f"Basic {base64.b64encode(pair).decode('ascii')}"


# --- answers -------------------------------------------------------------------------------------------------
Model = TypeVar("Model", bound=BaseModel)


@dataclass(frozen=True, kw_only=True, slots=True)
class Reply:
    """An answer. `asked` says of which request, for messages: method and service, without the ids of users."""

    asked: str
    status: int
    media_type: str
    """As the answer has it, without parameters, in lower case."""
    content: bytes
    retry_after: float | None = None
    """Seconds, if the answer has such a header."""

    @property
    def is_good(self) -> bool:
        return 200 <= self.status < 300


def value_of(reply: Reply, model: type[Model]) -> Model:
    """The value in a good reply. Raises ServiceError if it is none of that model."""
    found = value_or_none(reply, model)
    if found is None:
        raise ServiceError(f"{reply.asked} was answered {reply.status} without a {model.__name__}")
    return found


def value_or_none(reply: Reply, model: type[Model]) -> Model | None:
    """The same; None for an answer that says that there is none (204, or null)."""
    if reply.status == HTTPStatus.NO_CONTENT:
        return None
    if reply.media_type != "application/json":
        raise ServiceError(
            f"{reply.asked} was answered {reply.status} with {reply.media_type or 'nothing'!r} and not with JSON; "
            "is service_url (base_url) the address of a memory service?"
        )
    try:
        return None if reply.content.strip() == b"null" else model.model_validate_json(reply.content)
    except ValidationError as exc:
        where = (
            ".".join(map(str, exc.errors(include_input=False, include_url=False)[0]["loc"])) or "its start"
        )
        # The cause would show what was answered, and that may be anybody's memory.
        raise ServiceError(
            f"{reply.asked} was answered {reply.status} with JSON that is no {model.__name__} at {where}; client and "
            "service may be of versions that do not fit"
        ) from None


def error_in(reply: Reply) -> MemoryAgentError:
    """The error that a reply tells of which is not good: the service's own, or (a proxy's page) what its status means."""
    problem = _problem(reply)
    if problem is None:
        problem = Problem(
            status=reply.status, detail=f"{reply.asked} was answered {reply.status}, {_meaning(reply.status)}"
        )
    if problem.retry_after is None and reply.retry_after is not None:
        problem = problem.model_copy(update={"retry_after": reply.retry_after})
    error = error_of(problem, reply.status)
    if reply.status == HTTPStatus.REQUEST_TIMEOUT and type(error) is ServiceError:
        return ServiceUnavailable(str(error))
    return error


def is_temporary(reply: Reply, error: MemoryAgentError) -> bool:
    """True if the same request may succeed soon. A 502 of the service itself is a verdict, one of a proxy is not."""
    return reply.status in (429, 503, 504) or isinstance(error, ServiceUnavailable | RateLimited)


def _problem(reply: Reply) -> Problem | None:
    if reply.media_type != MEDIA_TYPE:
        return None
    try:
        return Problem.model_validate_json(reply.content)
    except ValidationError:
        return None


def _meaning(status: int) -> str:
    if 300 <= status < 400:
        return "a redirect, which is not followed: set service_url (base_url) to where the service is"
    return (
        "and not with a problem of a memory service: something between here and there said so, or service_url "
        "(base_url) is not its address"
    )


# --- requests ------------------------------------------------------------------------------------------------
LONGEST_PAUSE_SECONDS: Final = 30.0
"""A service that asks for more patience is not waited for; its error says how long."""
_FIRST_PAUSE_SECONDS: Final = 0.25
_CONNECT_SECONDS: Final = 10.0
_SILENCE_SECONDS: Final = 60.0
"""Events come with a heartbeat every 15 seconds; without one for so long the connection is taken for dead."""
_AT_ONCE: Final = 50
"""Requests on their way; further ones wait here. Below the 64 that a service takes of one key by default."""
_LARGE_BYTES: Final = 500_000
"""Half of what common proxies take at most by default."""
_NO_AUTH: Final = httpx.Auth()  # not the one of a client that was handed in: that would replace our header


@dataclass(frozen=True, kw_only=True, slots=True)
class Call:
    """One request. `path` is percent-encoded and begins with '/'."""

    method: str
    path: str
    params: Mapping[str, str] = field(default_factory=dict)
    body: bytes | None = None
    """JSON."""
    idempotency_key: str | None = None
    repeatable: bool
    """A second time changes nothing more, so that it may be sent again when it is unknown what became of the first."""
    seconds: float
    """That one attempt may take."""
    until: float | None = None
    """By the monotonic clock: later no further attempt begins."""
    open_to_all: bool = False
    """No key is sent."""
    tenant: str = DEFAULT_TENANT
    """Whose user it concerns; the default one is the key's own."""


@dataclass(frozen=True, kw_only=True, slots=True)
class _Failure:
    """A failed attempt: its error, and whether and when another one makes sense."""

    error: MemoryAgentError
    temporary: bool
    untouched: bool
    """The service has not begun with it."""
    retry_after: float | None = None


class Connection:
    """Connections to a service, from `open` to `close`."""

    def __init__(
        self,
        address: Address,
        *,
        max_retries: int,
        http: httpx.AsyncClient | None,
        transport: httpx.AsyncBaseTransport | None,
        trust_env: bool = True,
    ) -> None:
        """`http`: a client that the application holds and closes. `trust_env`: see ServiceClient."""
        self.url = address.url
        self._authorization = address.authorization
        self._max_retries = max_retries
        self._given = http
        self._transport = transport
        self._trust_env = trust_env
        self._http: httpx.AsyncClient | None = None
        self._home: Home | None = None
        self._slots = asyncio.Semaphore(_AT_ONCE)

    async def open(self) -> None:
        """Be ready to send; nothing is sent. Raises NotOpen if it is open already."""
        if self._http is not None:
            raise NotOpen("this client is open already; use one `async with` per client")
        self._home = Home()
        self._http = self._given or httpx.AsyncClient(
            transport=self._transport,
            trust_env=self._trust_env,
            # Streams of events hold a connection each and may be many; ordinary requests are bounded by `_slots`.
            limits=httpx.Limits(max_connections=None, max_keepalive_connections=20),
        )

    async def close(self) -> None:
        """Close all connections."""
        http, self._http = self._http, None
        if http is not None and http is not self._given:
            await http.aclose()

    async def send(self, call: Call) -> Reply:
        """The good answer to a request.

        Raises the error that the service tells of; ServiceUnavailable if it cannot be reached or does not answer in time,
        NotOpen before `open`.
        """
        retry = 0
        while True:
            outcome = await self._attempt(call)
            if isinstance(outcome, Reply):
                return outcome
            # No need for a source of randomness that cannot be foretold: it only spreads clients over time.
            pause = pause_before(retry, chance=random.random(), retry_after=outcome.retry_after)  # noqa: S311
            if retry >= self._max_retries or not _may_repeat(call, outcome, pause):
                raise outcome.error
            await asyncio.sleep(pause)
            retry += 1

    async def _attempt(self, call: Call) -> Reply | _Failure:
        request = self._request(call)
        try:
            # Waiting for a slot counts as well: whoever calls wants an answer in that time.
            async with asyncio.timeout(call.seconds), self._slots:
                response = await self._opened().send(request, auth=_NO_AUTH, follow_redirects=False)
        except (TimeoutError, httpx.HTTPError, httpx.StreamError) as exc:
            return self._failure(call, exc)
        reply = self._reply(call, response, response.content)
        return reply if reply.is_good else _refusal(reply)

    @contextlib.asynccontextmanager
    async def stream(
        self, call: Call, headers: Mapping[str, str]
    ) -> AsyncIterator[AsyncIterator[ServerSentEvent]]:
        """The server-sent events that answer a request, one attempt; `Call.seconds` is not looked at.

        Raises what the service tells of; ServiceUnavailable, on the way too, when the connection fails or nothing comes for
        60 seconds.
        """
        request = self._request(call, {**headers, "Accept": "text/event-stream", "Cache-Control": "no-store"})
        async with contextlib.AsyncExitStack() as stack:
            try:
                response = await self._opened().send(
                    request, stream=True, auth=_NO_AUTH, follow_redirects=False
                )
                stack.push_async_callback(response.aclose)
                if not response.is_success:
                    raise _refusal(self._reply(call, response, await response.aread())).error
                events = EventSource(response).aiter_sse()
                stack.push_async_callback(events.aclose)
                yield events
            except SSEError:
                media_type = _media_type(response)
                raise ServiceError(
                    f"{self._asked(call)} was answered with {media_type!r} and not with events; is service_url "
                    "(base_url) the address of a memory service?"
                ) from None
            except (httpx.HTTPError, httpx.StreamError) as exc:
                raise self._failure(call, exc).error from exc

    def _opened(self) -> httpx.AsyncClient:
        if self._http is None or self._home is None or self._http.is_closed:
            raise NotOpen("this client is not open; use `async with MemoryClient(...) as memory:`")
        self._home.check("client")
        return self._http

    def _request(self, call: Call, headers: Mapping[str, str] | None = None) -> httpx.Request:
        sent: dict[str, Any] = {
            "Accept": "application/json, application/problem+json",
            "User-Agent": f"memory-agent/{__version__}",
            **(headers or {}),
        }
        if self._authorization is not None and not call.open_to_all:
            sent["Authorization"] = self._authorization
        if call.tenant != DEFAULT_TENANT:
            sent["Memory-Agent-Tenant"] = call.tenant
        if call.body is not None:
            sent["Content-Type"] = "application/json"
        if call.idempotency_key is not None:
            sent["Idempotency-Key"] = call.idempotency_key.encode()
        query = _query(call.params)
        # The whole answer is bounded by `Call.seconds`; reading events is bounded by the silence in between.
        return self._opened().build_request(
            call.method,
            f"{self.url}{call.path}{query}",
            content=call.body,
            headers=sent,
            timeout=httpx.Timeout(_SILENCE_SECONDS if headers else None, connect=_CONNECT_SECONDS, pool=None),
        )

    def _reply(self, call: Call, response: httpx.Response, content: bytes) -> Reply:
        return Reply(
            asked=self._asked(call),
            status=response.status_code,
            media_type=_media_type(response),
            content=content,
            retry_after=read_retry_after(response.headers.get("Retry-After"), datetime.now(UTC)),
        )

    def _asked(self, call: Call) -> str:
        return f"{call.method} at {self.url}"

    def _failure(self, call: Call, exc: Exception) -> _Failure:
        """The driver's error as ours. Its message is not taken over where it may show what was sent."""
        asked = self._asked(call)
        connecting = isinstance(exc, httpx.ConnectError | httpx.ConnectTimeout | httpx.PoolTimeout)
        if connecting or isinstance(exc, httpx.ProxyError):
            error: MemoryAgentError = ServiceUnavailable(
                f"the memory service at {self.url} cannot be reached ({type(exc).__name__}: {exc!s:.200}); is it running?"
            )
            error.__cause__ = exc
            return _Failure(error=error, temporary=True, untouched=True)
        if isinstance(exc, TimeoutError | httpx.TimeoutException):
            what = "nothing more came" if isinstance(exc, httpx.ReadTimeout) else "there was no answer"
            error = ServiceUnavailable(f"{asked}: {what} for {_patience(call, exc):g} s")
        elif isinstance(exc, httpx.NetworkError | httpx.RemoteProtocolError):
            error = ServiceUnavailable(
                f"{asked}: the connection was lost before the answer was complete ({type(exc).__name__})"
                + _hint(call)
            )
        else:  # an answer that cannot be unpacked, or a request that cannot be written
            error = ServiceError(f"{asked} failed: {type(exc).__name__}")
        error.__cause__ = exc
        return _Failure(error=error, temporary=isinstance(error, ServiceUnavailable), untouched=False)


def pause_before(retry: int, *, chance: float, retry_after: float | None = None) -> float:
    """Seconds to wait before the retry of that number (0: the first), `chance` being drawn from [0, 1).

    Without `retry_after` (what the service asks for) a quarter of a second, doubled with each retry, of which the upper
    half is left to chance, so that clients that failed together don't come back together.

    >>> pause_before(0, chance=0.0), pause_before(2, chance=1.0), pause_before(0, chance=0.0, retry_after=3)
    (0.125, 1.0, 3.0)
    """
    if retry_after is not None:
        # A little more, lest all come back in the same moment; never less.
        return float(retry_after) + chance * min(0.1 * retry_after, 1.0)
    most = min(_FIRST_PAUSE_SECONDS * math.pow(2, min(retry, 16)), LONGEST_PAUSE_SECONDS)
    return most * (0.5 + chance / 2)


def read_retry_after(value: str | None, now: datetime) -> float | None:
    """Seconds that a `Retry-After` header asks for: a number, or a time (RFC 9110, section 10.2.3); None for neither.

    >>> read_retry_after("7", datetime.now(UTC)), read_retry_after("soon", datetime.now(UTC))
    (7.0, None)
    """
    if value is None:
        return None
    try:
        seconds = float(value)
    except ValueError:
        try:
            time = parsedate_to_datetime(value)
        except ValueError:
            return None
        seconds = (time.replace(tzinfo=time.tzinfo or UTC) - now).total_seconds()
    return max(seconds, 0.0) if math.isfinite(seconds) else None


def encoded(body: Request) -> bytes:
    """The body as JSON, with what was passed alone. Raises InvalidInput for what JSON cannot hold."""
    try:
        return body.model_dump_json(exclude_unset=True).encode()
    except (PydanticSerializationError, UnicodeError, ValueError) as exc:
        raise InvalidInput(
            "the request cannot be written as JSON; pass text without lone surrogates, finite numbers, and lists and "
            "dicts of those"
        ) from exc


def _hint(call: Call) -> str:
    """A server, or a proxy, that refuses a large body may hang up while it is still being sent."""
    size = len(call.body or b"")
    if size < _LARGE_BYTES:
        return ""
    return f"; the request has {size:,} bytes, which may be more than is taken there: send less at once"


def _query(params: Mapping[str, str]) -> str:
    try:
        return f"?{urlencode(params)}" if params else ""
    except UnicodeError as exc:
        raise InvalidInput(
            f"{' and '.join(params)} cannot be sent: there is a lone surrogate; decode the text properly before passing it"
        ) from exc


def _may_repeat(call: Call, failure: _Failure, pause: float) -> bool:
    if not failure.temporary or not (call.repeatable or failure.untouched):
        return False
    in_time = call.until is None or time.monotonic() + pause < call.until
    return in_time and (failure.retry_after or 0) <= LONGEST_PAUSE_SECONDS


def _refusal(reply: Reply) -> _Failure:
    error = error_in(reply)
    return _Failure(
        error=error,
        temporary=is_temporary(reply, error),
        untouched=reply.status == httpx.codes.TOO_MANY_REQUESTS,
        retry_after=reply.retry_after,
    )


def _media_type(response: httpx.Response) -> str:
    value: str = response.headers.get("Content-Type", "")
    return value.partition(";")[0].strip().lower()


def _patience(call: Call, exc: Exception) -> float:
    return _SILENCE_SECONDS if isinstance(exc, httpx.ReadTimeout) else call.seconds
