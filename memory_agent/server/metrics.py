"""Readiness, metrics for Prometheus, and the middleware around all others: request ids, the access log, latencies, spans."""

from __future__ import annotations

import asyncio
import functools
import logging
import re
import time
from collections.abc import Mapping
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final, Literal

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    ProcessCollector,
    disable_created_metrics,
    generate_latest,
)
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.registry import Collector
from pydantic import BaseModel, Field

from memory_agent.domain import Stage, new_id
from memory_agent.errors import MemoryAgentError
from memory_agent.server.logs import origin, request_id
from memory_agent.server.problems import problem_response
from memory_agent.server.tracing import UNMATCHED, method_of, route_of, server_span

if TYPE_CHECKING:
    from collections.abc import Iterator

    from prometheus_client.core import Metric
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

    from memory_agent.domain import LiveStats, MemoryStatus, Usage
    from memory_agent.server.events import EventHub
    from memory_agent.service import MemoryService


# --- metrics: requests of this process, and the state of the memory behind it --------------------------------
log = logging.getLogger(__name__)

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"

STATUS_SECONDS = 5.0
"""How long the store's answer is shown before it is asked again."""
STATUS_TIMEOUT = 2.0
"""How many seconds it may take."""
_BUCKETS: Final = (0.01, 0.05, 0.1, 0.5, 2.5, 10.0)
disable_created_metrics()  # type: ignore[no-untyped-call] # a line for each series, which nobody reads


class Metrics:
    """Everything that one application measures, in a registry of its own."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        # By status alone or by time alone: both together would be eighteen lines for each method, route and status.
        requests = Counter(
            "memory_agent_http_requests",
            "Requests answered",
            ("method", "route", "status"),
            registry=self.registry,
        )
        seconds = Histogram(
            "memory_agent_http_request_seconds",
            "Time from a request's head to the end of its answer (of an event stream: to its beginning)",
            ("method", "route"),
            buckets=_BUCKETS,
            registry=self.registry,
        )
        # Labels are few: whoever looks one up in the registry waits for its lock each time.
        self._requests, self._seconds = functools.cache(requests.labels), functools.cache(seconds.labels)
        self.in_flight = 0
        Gauge(
            "memory_agent_http_requests_in_flight",
            "Requests in progress",
            registry=self.registry,
        ).set_function(lambda: self.in_flight)
        ProcessCollector(registry=self.registry)
        self._memory = _Memory()
        self.registry.register(self._memory)
        self._asking = asyncio.Lock()
        self._asked_at = float("-inf")

    def observe(self, method: str, route: str, status: int | None, seconds: float) -> None:
        """A request was answered; `status` None: the client left before.

        Labels have few values, whoever asks for what: routes are templates, and what no route answers is one series.
        """
        kind = "none" if status is None else f"{status // 100}xx"
        if route == UNMATCHED or status == HTTPStatus.METHOD_NOT_ALLOWED:
            method, route = "OTHER", UNMATCHED
        self._requests(method, route, kind).inc()
        if status is not None and status < HTTPStatus.BAD_REQUEST:
            self._seconds(method, route).observe(seconds)

    async def render(self, service: MemoryService, events: EventHub | None = None) -> bytes:
        """All metrics as `CONTENT_TYPE`. Never fails: what cannot be had is missing, and memory_agent_store_up is 0."""
        async with self._asking:
            if time.monotonic() - self._asked_at >= STATUS_SECONDS:
                await self._ask(service)
                self._asked_at = time.monotonic()
        self._memory.events = events
        return generate_latest(self.registry)

    async def _ask(self, service: MemoryService) -> None:
        shown = self._memory
        shown.status = shown.live = shown.usage = None
        try:
            shown.usage = service.usage
            async with asyncio.timeout(STATUS_TIMEOUT):
                shown.live = await service.get_stats()
                shown.status = await service.status()
        except Exception as exc:
            log.warning("the store's metrics could not be had: %s", type(exc).__name__)


class _Memory(Collector):
    """Collector that answers a scrape from values fetched just before."""

    def __init__(self) -> None:
        self.status: MemoryStatus | None = None
        self.live: LiveStats | None = None
        self.usage: Usage | None = None
        self.events: EventHub | None = None

    def collect(self) -> Iterator[Metric]:
        yield _gauge("store_up", "1 if the document store answered", self.status is not None)
        if (status := self.status) is not None:
            yield _gauge("turns", "Turns in the store", status.turns)
            yield _gauge("backlog_turns", "Turns that owe a stage", status.pending, "stage")
            yield _gauge("owed_turns", "Turns that owe any stage", status.owed_count)
            yield _gauge("parked_turns", "Turns whose stages keep failing", status.parked_count)
            yield _gauge("lag_seconds", "Age of the oldest owed turn that is not parked", status.lag_seconds)
            yield _gauge("erasures", "Forget calls whose last pass is still to come", status.erasures)
            yield _gauge("to_rebuild_turns", "Turns that another embedding model embedded", status.to_rebuild)
            words = "Turns whose vectors Chroma does not have yet"
            yield _gauge("vectors_missing_turns", words, status.vectors_missing)
            # No counters: what was forgotten is not counted any more.
            cost = status.extraction
            tokens = {"prompt": cost.prompt_tokens, "completion": cost.completion_tokens}
            words = "Tokens that the facts of stored turns have cost"
            yield _gauge("extraction_tokens", words, tokens, "kind")
            words = "Requests to a model for the facts of stored turns"
            yield _gauge("extraction_requests", words, cost.requests)
            words = "Seconds that a model took for the facts of stored turns"
            yield _gauge("extraction_seconds", words, cost.seconds)
        if (live := self.live) is not None:
            yield _gauge("live_threads", "Threads with a buffer in this process", live.live_threads)
            yield _gauge("live_threads_most", "How many there may be", live.max_live_threads)
            yield _gauge("live_turns", "Analyses of turns in those buffers", live.turns)
            yield _counter("live_hits", "Turns that were found in a buffer", live.hits)
            yield _counter("live_misses", "Turns that were not", live.misses)
            yield _counter("live_evictions", "Threads that left because there were too many", live.evictions)
        if (usage := self.usage) is not None:
            yield _counter("llm_requests", "Requests to language models", usage.requests)
            tokens = {"prompt": usage.prompt_tokens, "completion": usage.completion_tokens}
            yield _counter("llm_tokens", "Tokens that language models used", tokens, "kind")
            yield _counter("llm_seconds", "Seconds that language models took", usage.seconds)
        if self.events is not None:
            yield _gauge("event_readers", "Readers of events", self.events.readers)
            yield _counter("event_readers_dropped", "Readers that were sent away", self.events.dropped)


def _gauge(name: str, words: str, value: float | Mapping[Any, float], label: str = "") -> Metric:
    return _filled(GaugeMetricFamily(f"memory_agent_{name}", words, labels=[label] * bool(label)), value)


def _counter(name: str, words: str, value: float | Mapping[Any, float], label: str = "") -> Metric:
    return _filled(CounterMetricFamily(f"memory_agent_{name}", words, labels=[label] * bool(label)), value)


def _filled(family: Any, value: float | Mapping[Any, float]) -> Metric:
    """`value`: the one there is, or by the label's value."""
    for of, number in value.items() if isinstance(value, Mapping) else [(None, value)]:
        family.add_metric([] if of is None else [of], number)
    filled: Metric = family
    return filled


# --- readiness, cached so that frequent probes do not load the stores ----------------------------------------
_PATIENCE_SECONDS: Final = 5.0
_SHARED_SECONDS: Final = 1.0
"""How long an answer holds: whoever asks needs no key, and each look counts everybody's owed turns."""


State = Literal["up", "down"]


class Ready(BaseModel):
    """Readiness, part by part."""

    status: Literal["ready", "degraded", "down"] = Field(
        description="`ready`, `degraded` (answers, without the parts that are down) or `down`."
    )
    parts: dict[str, State] = Field(examples=[{"store": "up", "vector_index": "up"}])
    pending: dict[Stage, int] = Field(description="Turns that owe each stage, of everybody.")
    parked: int
    lag_seconds: float


class Readiness:
    """Looks at the stores of an open service."""

    def __init__(self, service: MemoryService) -> None:
        self._service = service
        self._looking = asyncio.Lock()
        self._seen: Ready | None = None
        self._known: MemoryStatus | None = None
        self._seen_at = float("-inf")

    async def look(self) -> Ready:
        """The readiness, at most a second old. Raises nothing."""
        async with self._looking:
            if self._seen is None or time.monotonic() - self._seen_at >= _SHARED_SECONDS:
                self._seen = await self._look()
                self._seen_at = time.monotonic()
            return self._seen

    async def _look(self) -> Ready:
        parts: dict[str, State] = {"store": "up", "vector_index": await self._vectors()}
        parts |= dict.fromkeys(sorted(self._service.core.worker.down), "down")
        try:
            async with asyncio.timeout(_PATIENCE_SECONDS):
                self._known = await self._service.status()
        except (MemoryAgentError, TimeoutError):
            parts["store"] = "down"
        known = self._known  # what was last seen, where the store doesn't answer
        is_down = parts["store"] == "down"
        return Ready(
            status="down" if is_down else "degraded" if "down" in parts.values() else "ready",
            parts=parts,
            pending=dict(known.pending) if known else {},
            parked=known.parked_count if known else 0,
            lag_seconds=known.lag_seconds if known else 0.0,
        )

    async def _vectors(self) -> State:
        try:
            async with asyncio.timeout(_PATIENCE_SECONDS):
                await self._service.core.vectors.ping()
        except (MemoryAgentError, TimeoutError):
            return "down"
        return "up"


# --- requests ------------------------------------------------------------------------------------------------
access_log = logging.getLogger("memory_agent.server.access")

REQUEST_ID: Final = "X-Request-Id"
_REQUEST_ID: Final = REQUEST_ID.lower().encode("ascii")
_EVENTS: Final = b"text/event-stream"
_SANE_ID: Final = re.compile(rb"[A-Za-z0-9][A-Za-z0-9._:-]{0,127}")


class Requests:
    """ASGI middleware around all others: ids, the access log, metrics and spans. Answers 500 for what nobody caught.

    An id is taken from X-Request-Id if it is a token of at most 128 characters; it is returned in that header, and is
    in `scope["state"]["request_id"]` and in `logs.request_id` meanwhile. Key and tenant are read from
    `scope["state"]["principal"]` (`.key_id`, `.tenant`) when the answer is done.
    """

    def __init__(self, app: ASGIApp, *, metrics: Metrics) -> None:
        self._app = app
        self._metrics = metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        id_ = _given_id(scope) or new_id()
        scope.setdefault("state", {})["request_id"] = id_
        token = request_id.set(id_)
        request = _Request(scope, receive, send, id_)
        self._metrics.in_flight += 1
        try:
            await self._run(request)
        finally:
            self._metrics.in_flight -= 1
            seconds = request.answer_seconds()
            self._metrics.observe(method_of(scope), route_of(scope), request.status, seconds)
            if access_log.isEnabledFor(logging.INFO):
                # Not `log.info`, which looks through the stack for the line that called it.
                told = {"fields": request.fields()}
                access_log.handle(
                    access_log.makeRecord(
                        access_log.name, logging.INFO, "", 0, "request", (), None, extra=told
                    )
                )
            request_id.reset(token)

    async def _run(self, request: _Request) -> None:
        try:
            with server_span(request.scope, lambda: request.status):
                await self._app(request.scope, request.receive, request.send)
        except Exception as exc:
            request.error = type(exc).__name__
            if request.is_gone:
                return  # nobody is left to answer
            access_log.error("request failed: %s", origin(exc))
            if request.status is None:
                await problem_response(
                    500, "internal-error", "Internal error", "The service failed; its log says where."
                )(request.scope, request.receive, request.send)
            elif not request.is_complete:
                raise  # half an answer: the server closes the connection, which tells the client


def _given_id(scope: Scope) -> str | None:
    for name, value in scope["headers"]:
        if name == _REQUEST_ID and _SANE_ID.fullmatch(value):
            return str(value, "ascii")
    return None


class _Request:
    """The observations of one request."""

    def __init__(self, scope: Scope, receive: Receive, send: Send, id_: str) -> None:
        self.scope = scope
        self.status: int | None = None
        self.error: str | None = None
        self.is_gone = False
        self.is_complete = False
        self._receive = receive
        self._send = send
        self._id = id_
        self._began = time.perf_counter()
        self._stream_began: float | None = None
        self._bytes_in = 0
        self._bytes_out = 0

    async def receive(self) -> Message:
        message = await self._receive()
        if message["type"] == "http.disconnect":
            self.is_gone = self.is_gone or not self.is_complete
        else:
            self._bytes_in += _size(message)
        return message

    async def send(self, message: Message) -> None:
        kind = message["type"]
        if kind == "http.response.start":
            self.status = message["status"]
            headers = [pair for pair in message.get("headers", ()) if pair[0] != _REQUEST_ID]
            if any(name == b"content-type" and value.startswith(_EVENTS) for name, value in headers):
                self._stream_began = time.perf_counter()
            message = {**message, "headers": [*headers, (_REQUEST_ID, self._id.encode("ascii"))]}
        self._bytes_out += _size(message)
        await self._send(message)
        if kind == "http.response.body" and not message.get("more_body"):
            self.is_complete = True

    def answer_seconds(self) -> float:
        """The answer's latency in seconds; for a stream of events, until it began."""
        return (self._stream_began or time.perf_counter()) - self._began

    def fields(self) -> dict[str, Any]:
        """The access log's line."""
        principal = self.scope.get("state", {}).get("principal")
        fields = {
            "method": method_of(self.scope),
            "route": route_of(self.scope),
            "status": self.status,
            "milliseconds": round((time.perf_counter() - self._began) * 1000, 1),
            "key_id": getattr(principal, "key_id", None),
            "tenant": getattr(principal, "tenant", None),
            "bytes_in": self._bytes_in,
            "bytes_out": self._bytes_out,
        }
        if self.is_gone:
            fields["disconnected"] = True
        if self.error is not None:
            fields["error"] = self.error
        return fields


def _size(message: Message) -> int:
    """Bytes of a message's content."""
    return len(message.get("body") or b"")
