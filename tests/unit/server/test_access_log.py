"""Requests: ids, one line each in the log, observations and spans, none of which says what was asked."""

import asyncio
import json
import logging
import uuid
from types import SimpleNamespace
from typing import Any, cast

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from starlette.types import ASGIApp, Message

from memory_agent.domain import LiveStats, MemoryStatus, Usage
from memory_agent.server import metrics as metrics_module
from memory_agent.server.logs import request_id
from memory_agent.server.metrics import Metrics, Requests
from memory_agent.server.tracing import configure_tracing

SAID = "my sister lives in Porto"
ROUTE = SimpleNamespace(path="/api/threads/{user_id}")


def http(method: str = "GET", headers: list[tuple[bytes, bytes]] | None = None) -> dict[str, Any]:
    return {
        "type": "http",
        "method": method,
        "path": "/api/threads/anna",
        "query_string": b"query=Porto",
        "headers": headers or [],
        "scheme": "http",
    }


async def ask(app: ASGIApp, scope: dict[str, Any], *incoming: Message) -> list[Message]:
    sent: list[Message] = []
    left = list(incoming or [{"type": "http.request", "body": b"12345", "more_body": False}])

    async def receive() -> Message:
        return left.pop(0)

    async def send(message: Message) -> None:
        sent.append(message)

    await app(scope, receive, send)
    return sent


async def answering(scope: Any, receive: Any, send: Any) -> None:
    scope["route"] = ROUTE
    scope["state"]["principal"] = SimpleNamespace(key_id="k1", tenant="acme")
    await receive()
    await send({"type": "http.response.start", "status": 201, "headers": []})
    await send({"type": "http.response.body", "body": b"abc", "more_body": True})
    await send({"type": "http.response.body", "body": b"d"})


async def failing(scope: Any, receive: Any, send: Any) -> None:
    scope["route"] = ROUTE
    raise ValueError(SAID)


def fields_of(caplog: pytest.LogCaptureFixture) -> dict[str, Any]:
    [record] = [record for record in caplog.records if record.getMessage() == "request"]
    fields: dict[str, Any] = record.__dict__["fields"]
    return fields


@pytest.fixture(autouse=True)
def _all_levels(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "memory_agent")


async def test_line_says_route_status_time_key_tenant_and_bytes(caplog: pytest.LogCaptureFixture) -> None:
    await ask(Requests(answering, metrics=Metrics()), http("POST"))
    fields = fields_of(caplog)
    assert fields.pop("milliseconds") >= 0
    assert fields == {
        "method": "POST",
        "route": "/api/threads/{user_id}",
        "status": 201,
        "key_id": "k1",
        "tenant": "acme",
        "bytes_in": 5,
        "bytes_out": 4,
    }


async def test_request_id_is_taken_if_sane_and_always_returned() -> None:
    seen: list[str | None] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        seen.append(request_id.get())
        await answering(scope, receive, send)

    refused = (b"x" * 129, b"", b'a"b', b"a b", b"-a", b"a\n", "é".encode())
    for given in (b"abc-1.2:3_4", b"x" * 128, *refused):
        scope = http(headers=[(b"x-request-id", given)])
        [start, *_] = await ask(Requests(app, metrics=Metrics()), scope)
        returned = dict(start["headers"])[b"x-request-id"]
        assert returned.decode() == seen[-1] == scope["state"]["request_id"]
        assert (returned == given) is (given not in refused), given
        assert given not in refused or uuid.UUID(returned.decode()).version == 7
        assert request_id.get() is None


async def test_what_nobody_caught_is_answered_500_without_its_text(caplog: pytest.LogCaptureFixture) -> None:
    start, body = await ask(Requests(failing, metrics=Metrics()), http())
    document = json.loads(body["body"])
    assert (start["status"], document["type"]) == (500, "urn:memory-agent:problem:internal-error")
    assert SAID not in body["body"].decode() + caplog.text
    assert "in failing" in caplog.text
    fields = fields_of(caplog)
    assert (fields["status"], fields["error"]) == (500, "ValueError")


# --- metrics -------------------------------------------------------------------------------------------------
class Memory:
    """A service as far as it is measured."""

    def __init__(self, *, fails: bool = False, hangs: bool = False) -> None:
        self.fails = fails
        self.hangs = hangs
        self.asked = 0
        self.usage = Usage(requests=3, prompt_tokens=100, completion_tokens=20, seconds=4.5)

    async def status(self) -> MemoryStatus:
        self.asked += 1
        await asyncio.sleep(60 if self.hangs else 0)
        if self.fails:
            raise RuntimeError(SAID)
        pending: Any = {"index": 2, "facts": 1}
        counts: dict[str, Any] = {"turns": 9, "owed_count": 2, "parked_count": 1, "erasures": 0}
        return MemoryStatus(pending=pending, parked=(), lag_seconds=1.5, **counts)

    async def get_stats(self) -> LiveStats:
        return LiveStats(live_threads=1, max_live_threads=100, turns=5, hits=7, misses=8, evictions=0)


async def shown_by(metrics: Metrics, memory: Memory, events: Any = None) -> str:
    return (await metrics.render(cast("Any", memory), events)).decode()


async def test_scrape_shows_requests_backlog_tokens_and_readers() -> None:
    """The store is asked once for scrapes that come together, and another application measures for itself."""
    metrics, memory = Metrics(), Memory()
    await ask(Requests(answering, metrics=metrics), http())
    await ask(Requests(failing, metrics=metrics), http("BREW"))
    readers = SimpleNamespace(readers=4, dropped=2)
    shown, *_ = await asyncio.gather(*(shown_by(metrics, memory, readers) for _ in range(5)))
    count = 'memory_agent_http_requests_total{method="%s",route="/api/threads/{user_id}",status="%s"} 1.0'
    expected = {
        count % ("GET", "2xx"),
        count % ("OTHER", "5xx"),
        "memory_agent_http_requests_in_flight 0.0",
        "memory_agent_store_up 1.0",
        'memory_agent_backlog_turns{stage="index"} 2.0',
        "memory_agent_parked_turns 1.0",
        "memory_agent_lag_seconds 1.5",
        'memory_agent_llm_tokens_total{kind="prompt"} 100.0',
        "memory_agent_llm_seconds_total 4.5",
        "memory_agent_extraction_seconds 0.0",
        "memory_agent_live_hits_total 7.0",
        "memory_agent_event_readers 4.0",
        "memory_agent_event_readers_dropped_total 2.0",
    }
    assert expected - set(shown.splitlines()) == set()
    assert "anna" not in shown
    assert memory.asked == 1
    assert 'route="' not in await shown_by(Metrics(), memory)


@pytest.mark.parametrize("memory", [Memory(fails=True), Memory(hangs=True)], ids=["fails", "hangs"])
async def test_scrape_never_fails_with_the_store(
    memory: Memory, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(metrics_module, "STATUS_TIMEOUT", 0.05)
    shown = await shown_by(Metrics(), memory)
    assert "memory_agent_store_up 0.0" in shown
    assert "memory_agent_backlog_turns" not in shown
    assert SAID not in caplog.text


# --- traces --------------------------------------------------------------------------------------------------
@pytest.fixture
def spans(monkeypatch: pytest.MonkeyPatch) -> InMemorySpanExporter:
    """Spans of the provider that is the global one meanwhile."""
    exporter = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    monkeypatch.setattr(trace, "get_tracer_provider", lambda: provider)
    return exporter


OTLP = {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:1"}


@pytest.mark.parametrize(
    ("variables", "is_set_up"),
    [
        ({}, False),
        (OTLP, True),
        ({"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://127.0.0.1:1"}, True),
        (OTLP | {"OTEL_SDK_DISABLED": "true"}, False),
        (OTLP | {"OTEL_TRACES_EXPORTER": "none"}, False),
        (OTLP | {"OTEL_EXPORTER_OTLP_PROTOCOL": "http/protobuf"}, None),
    ],
)
def test_spans_are_exported_only_where_opentelemetrys_variables_say_so(
    monkeypatch: pytest.MonkeyPatch, variables: dict[str, str], is_set_up: bool | None
) -> None:
    for name in ("ENDPOINT", "TRACES_ENDPOINT", "PROTOCOL"):
        monkeypatch.delenv(f"OTEL_EXPORTER_OTLP_{name}", raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    providers: list[Any] = []
    monkeypatch.setattr(trace, "set_tracer_provider", providers.append)
    assert configure_tracing() in ((True, False) if is_set_up is None else (is_set_up,))
    assert len(providers) == 1 or not is_set_up
    for provider in providers:
        assert provider.resource.attributes["service.name"] == "memory-agent"
        provider.shutdown()
