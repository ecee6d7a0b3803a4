"""Metrics for Prometheus: requests of this process, and the state of the memory behind it."""

from __future__ import annotations

import asyncio
import functools
import logging
import time
from collections.abc import Mapping
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final

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

from memory_agent.server.tracing import UNMATCHED

if TYPE_CHECKING:
    from collections.abc import Iterator

    from prometheus_client.core import Metric

    from memory_agent.domain import LiveStats, MemoryStatus, Usage
    from memory_agent.server.events import EventHub
    from memory_agent.service import MemoryService

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
            shown.live = await service.get_stats()
            async with asyncio.timeout(STATUS_TIMEOUT):
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
            # No counters: what was forgotten is not counted any more.
            cost = status.extraction
            tokens = {"prompt": cost.prompt_tokens, "completion": cost.completion_tokens}
            words = "Tokens that the facts of stored turns have cost"
            yield _gauge("extraction_tokens", words, tokens, "kind")
            words = "Requests to a model for the facts of stored turns"
            yield _gauge("extraction_requests", words, cost.requests)
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
