"""Shared by the handlers: the open service, the caller, the memory asked for, and the forms of an answer."""

# No `from __future__ import annotations` here: FastAPI reads the annotations when the routes are declared.

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Callable, Coroutine
from dataclasses import dataclass
from typing import Annotated, Any, Final, get_type_hints

from fastapi import Depends, Header, Path, Query, Request
from fastapi.responses import Response, StreamingResponse
from fastapi.routing import APIRoute
from pydantic import BaseModel, BeforeValidator, Json, ValidationError, create_model
from starlette.requests import ClientDisconnect

from memory_agent import domain
from memory_agent.agent.agent import MemoryAgent
from memory_agent.checks import MAX_ID_CHARS
from memory_agent.config import MemoryConfig
from memory_agent.domain import ApiKey
from memory_agent.server.auth import Authenticator, Principal
from memory_agent.server.events import EventHub
from memory_agent.server.incoming import LARGE_BYTES, segment_text
from memory_agent.server.metrics import Metrics, Readiness
from memory_agent.service import MemoryService
from memory_agent.wire.base import Time
from memory_agent.wire.pages import MAX_CURSOR_CHARS
from memory_agent.wire.requests import Settle

THREAD: Final = "/api/threads/{user_id}/{thread_id}"
MAX_PAGE: Final = 1_000


@dataclass(kw_only=True, slots=True)
class Api:
    """An open service as it is served."""

    cfg: MemoryConfig
    service: MemoryService
    authenticator: Authenticator
    hub: EventHub
    metrics: Metrics
    readiness: Readiness
    own_key: ApiKey | None = None
    """That which commands on this machine find beside the lock."""

    def agent(self, principal: Principal, user_id: str, thread_id: str) -> MemoryAgent:
        """The memory of a thread, if `principal` may ask for its user. Raises AccessDenied, InvalidInput."""
        principal.check_user(user_id)
        return self.service.agent(user_id, thread_id, tenant=principal.tenant)


def _utf8(value: object) -> object:
    """A header's text, which is read as Latin-1, as the UTF-8 that it was sent as; else as it is."""
    if not isinstance(value, str):
        return value
    try:
        return value.encode("latin-1").decode("utf-8")
    except UnicodeError:
        return value


PathText = Annotated[str, BeforeValidator(segment_text), Path(min_length=1, max_length=MAX_ID_CHARS)]
"""An id in a path, percent-encoded there: it may hold any character, '/' and '%' too."""
UserQuery = Annotated[str | None, Query(alias="user_id", min_length=1, max_length=MAX_ID_CHARS)]
Limit = Annotated[int, Query(ge=1, le=MAX_PAGE, description="How many items a page holds at most.")]
Cursor = Annotated[
    str | None,
    Query(
        max_length=MAX_CURSOR_CHARS,
        description="The next_cursor of the page before; none for the first page.",
    ),
]
Reach = Annotated[
    domain.Reach | None,
    Query(alias="scope", description="This thread, or all of the user's; default: the service's setting."),
]
TimeQuery = Annotated[Time | None, Query()]
IdempotencyKey = Annotated[
    str | None,
    BeforeValidator(_utf8),
    Header(
        alias="Idempotency-Key",
        min_length=1,
        max_length=MAX_ID_CHARS,
        description="A repeat with the same key in the same thread changes nothing and gets the first answer; "
        "another call under that key is refused.",
    ),
]


# Dependencies are coroutines, though none waits for anything: FastAPI runs each plain function in a thread. And none has
# dependencies of its own, for solving one costs as much as reading the whole request.
async def api_of(request: Request) -> Api:
    """The open API that the application serves."""
    return _api(request)


async def principal_of(request: Request) -> Principal:
    """The caller, as the middleware authenticated it."""
    return _principal(request)


async def _writer(request: Request) -> Principal:
    return _writing(request)


async def _memory(request: Request, user_id: PathText, thread_id: PathText) -> MemoryAgent:
    return memory_of(request, user_id, thread_id)


async def _own_memory(request: Request, user_id: PathText, thread_id: PathText) -> MemoryAgent:
    return writable_memory_of(request, user_id, thread_id)


def memory_of(request: Request, user_id: str, thread_id: str) -> MemoryAgent:
    """A thread's memory, to read. Called by the handlers that are asked most, in place of the dependency `Memory`."""
    return _api(request).agent(_principal(request), user_id, thread_id)


def writable_memory_of(request: Request, user_id: str, thread_id: str) -> MemoryAgent:
    """The same for a key that may change it, in place of `WritableMemory`."""
    return _api(request).agent(_writing(request), user_id, thread_id)


def _api(request: Request) -> Api:
    api: Api = request.app.state.api
    return api


def _principal(request: Request) -> Principal:
    principal: Principal = request.scope["state"]["principal"]
    return principal


def _writing(request: Request) -> Principal:
    principal = _principal(request)
    principal.check_may_write()
    return principal


OpenApi = Annotated[Api, Depends(api_of)]
Caller = Annotated[Principal, Depends(principal_of)]
Writer = Annotated[Principal, Depends(_writer)]
Memory = Annotated[MemoryAgent, Depends(_memory)]
"""The memory of the thread in the path, to read."""
WritableMemory = Annotated[MemoryAgent, Depends(_own_memory)]
"""The same for a key that may change it."""


async def operator(principal: Caller) -> Principal:
    """Principal with a key for all tenants; anybody else is refused."""
    principal.check_all_tenants()
    return principal


async def writing_operator(principal: Writer) -> Principal:
    """The same, who may change things too."""
    return await operator(principal)


Operator = Annotated[Principal, Depends(operator)]
WritingOperator = Annotated[Principal, Depends(writing_operator)]


def answer(told: BaseModel | bytes | None, status: int = 200) -> Response:
    """The answer: JSON as it was written, or a model's; null for None."""
    body = told.model_dump_json() if isinstance(told, BaseModel) else told or b"null"
    return Response(body, status, media_type="application/json")


class DirectRoute(APIRoute):
    """A route whose handler, if it takes the request itself, gets the rest from one pass of Pydantic's, body included.

    FastAPI takes some five times as long for that. It still reads what cannot be read so, and says what is wrong with it.
    """

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """See FastAPI."""
        by_fastapi = super().get_route_handler()
        hints = get_type_hints(self.endpoint, include_extras=True)
        del hints["return"]
        if hints.pop("request", None) is None:
            return by_fastapi
        defaults = {"key": None}  # a header, which may be missing
        as_json: Any = Json
        hints["body"] = as_json[hints["body"]]
        fields: Any = {name: (hint, defaults.get(name, ...)) for name, hint in hints.items()}
        given = create_model("Given", **fields)
        headers = [field.alias for field in given.model_fields.values() if field.alias]

        async def read(request: Request) -> dict[str, Any] | None:
            with contextlib.suppress(ClientDisconnect, ValidationError):
                body = await request.body()
                # What is wrong is read twice, which a large body must not be.
                if request.headers.get("content-type") == "application/json" and len(body) <= LARGE_BYTES:
                    sent = {name: request.headers[name] for name in headers if name in request.headers}
                    return dict(given.model_validate({**request.path_params, **sent, "body": body}))
            return None

        async def handle(request: Request) -> Response:
            if (values := await read(request)) is None:
                return await by_fastapi(request)
            answered: Response = await self.endpoint(request, **values)
            return answered

        return handle


LONGEST_WAIT_SECONDS: Final = 60.0
"""That a request may wait; whoever wants to wait longer asks again."""


def waited(body: Settle | None) -> dict[str, Any]:
    """For how long a request waits for pending work, and for which stages not."""
    asked = body or Settle()
    seconds = LONGEST_WAIT_SECONDS if asked.timeout is None else min(asked.timeout, LONGEST_WAIT_SECONDS)
    return {"timeout": seconds, "without": asked.without}


def nothing() -> Response:
    """Done, and there is nothing to say."""
    return Response(status_code=204)


async def event_source(frames: AsyncGenerator[str, None], *, send_seconds: float | None = None) -> Response:
    """Server-sent events; what keeps `frames` from telling the first one is told by the status.

    `frames` is closed when the client goes, or takes longer than `send_seconds` to accept one.
    """
    return await streamed(frames, "text/event-stream", send_seconds=send_seconds)


async def streamed(
    pieces: AsyncGenerator[str, None] | AsyncGenerator[bytes, None],
    media_type: str,
    *,
    send_seconds: float | None = None,
) -> Response:
    """An answer piece by piece, closed as that of `event_source` is."""
    return _Stream(await anext(pieces), pieces, media_type, send_seconds)


class CutOff(Exception):
    """Raised by pieces of an answer that began and cannot be ended as it should: the client sees that some is missing."""


class _Stream(StreamingResponse):
    def __init__(
        self, first: Any, pieces: AsyncGenerator[Any, None], media_type: str, send_seconds: float | None
    ) -> None:
        async def every() -> AsyncGenerator[Any, None]:
            yield first
            async for piece in pieces:
                yield piece

        headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
        super().__init__(every(), headers=headers, media_type=media_type)
        self._pieces = pieces
        self._send_seconds = send_seconds

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        async def send_in_time(message: Any) -> None:
            async with asyncio.timeout(self._send_seconds):
                await send(message)

        async with contextlib.aclosing(self._pieces):
            with contextlib.suppress(TimeoutError, CutOff):  # the server cuts off what is left half sent
                await super().__call__(scope, receive, send_in_time)
