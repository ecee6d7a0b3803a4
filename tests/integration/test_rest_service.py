"""REST: what those who run the service see of it: health, metrics, logs and traces; and the stream of events."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import json
import re
from collections.abc import Awaitable
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import httpx
import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from prometheus_client import generate_latest
from prometheus_client.parser import text_string_to_metric_families

from memory_agent import VectorIndexUnavailable
from memory_agent.domain import ALL_TENANTS
from memory_agent.server.metrics import Metrics
from memory_agent.server.tracing import UNMATCHED
from memory_agent.stores.sqlite.meta import SqliteKeys
from memory_agent.testing import BruteForceIndex
from tests.integration.conversations import counted
from tests.integration.rest import ANN, Rest, document, operations, problem_in, rest_on, shows
from tests.integration.streams import listening
from tests.servers.mongod import Mongod
from tests.servers.service import ServiceProcess

EXCHANGE = {"user_msg": "My puppy is called Rufus.", "assistant_msg": "Cute!"}


# --- health --------------------------------------------------------------------------------------------------
@shows("alive", "ready", "metrics")
async def test_health_is_told_without_a_key(rest: Rest) -> None:
    """That it runs, that its parts are up with what is owed, and Prometheus' text."""
    await rest.post("update", EXCHANGE, status=201)
    await rest.post("settle", status=204)
    assert await rest.get("/healthz") == {"status": "alive"}
    ready = await rest.get("/readyz")
    assert (ready["status"], ready["parked"]) == ("ready", 0)
    assert ready["parts"]["store"] == ready["parts"]["vector_index"] == "up"
    assert set(ready["pending"].values()) == {0}
    everybodys = await rest.server.headers(ALL_TENANTS, read_only=True)
    answer = await rest.ask("GET", "/metrics", headers=everybodys)
    assert answer.headers["Content-Type"].startswith("text/plain; version=0.0.4")
    async with httpx.AsyncClient(base_url=rest.server.address) as nobody:
        for path in ("/healthz", "/readyz", "/docs", "/openapi.json"):
            assert (await nobody.get(path)).status_code == 200
        assert (await nobody.get("/metrics")).status_code == 401
    denied = await rest.refused("GET", "/metrics", status=403)
    assert "--all-tenants" in denied["detail"]


async def test_with_its_store_down_it_is_alive_and_not_ready(tmp_path: Path) -> None:
    """503 with the part that is down, requests get 503 with Retry-After; with the store back all is well again."""
    with Mongod(quick=True) as mongod:
        settings = {"data_dir": tmp_path, "mongo_uri": mongod.uri, "store_timeout_seconds": 3}
        open_metrics = {"server_metrics_open": True}
        async with (
            rest_on(settings, server=open_metrics) as rest,
            httpx.AsyncClient(base_url=rest.server.address) as open_to_all,
        ):
            await rest.post("update", EXCHANGE, status=201)
            before = await rest.get("/readyz")
            mongod.kill9()
            assert await rest.get("/healthz") == {"status": "alive"}
            async with asyncio.timeout(60):  # what was seen a moment ago is shared for a second
                while (answer := await rest.client.get("/readyz")).status_code == 200:
                    await asyncio.sleep(0.1)
            down = answer.json()
            assert (down["status"], down["parts"]["store"]) == ("down", "down")
            assert down["pending"] == before["pending"], "what was last seen"
            unknown = {"Authorization": "Bearer ma_0000000000000000_" + "0" * 43}
            assert (await open_to_all.get(f"{ANN}/turns", headers=unknown)).status_code in (401, 503)
            metrics = (await open_to_all.get("/metrics")).text
            assert "memory_agent_store_up 0.0" in metrics
            assert re.search(r'requests_total{method="GET",route="[^"]*/turns",status="[45]xx"} 1', metrics)
            answer = await rest.client.get(f"{ANN}/turns")
            assert answer.status_code == 503
            problem = problem_in(answer)
            assert problem["type"].endswith(":store-unavailable")
            assert int(answer.headers["Retry-After"]) >= 1
            assert str(mongod.port) not in answer.text
            mongod.restart()
            async with asyncio.timeout(60):
                while (await rest.client.get("/readyz")).status_code != 200:
                    await asyncio.sleep(0.1)
            assert len((await rest.get("turns"))["items"]) == 2


async def test_without_its_index_it_is_degraded(tmp_path: Path) -> None:
    """200, for requests are answered: by word where meaning is missing."""
    vectors = BruteForceIndex()
    async with rest_on({"data_dir": tmp_path}, vectors=vectors) as rest:
        await rest.say("My puppy is called Rufus.")
        vectors.fail = VectorIndexUnavailable("the index is gone")
        ready = await rest.get("/readyz")
        assert (ready["status"], ready["parts"]["vector_index"]) == ("degraded", "down")
        found = await rest.post("/api/memory/search", {"user_id": "ann", "query": "puppy"})
        assert "Rufus" in found["items"][0]["turn"]["content"]


# --- what a request costs --------------------------------------------------------------------------------------
async def test_a_request_asks_the_store_for_what_its_call_does_and_no_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not for its key either, which is looked up once in a while, and not for anything to be measured or counted by."""
    looked_up: list[str] = []
    find = SqliteKeys.find

    async def noted_find(keys: SqliteKeys, key_id: str) -> Any:
        looked_up.append(key_id)
        return await find(keys, key_id)

    monkeypatch.setattr(SqliteKeys, "find", noted_find)
    monkeypatch.setattr("memory_agent.server.app.KEY_CACHE_SECONDS", 3_600.0)
    async with rest_on({"data_dir": tmp_path, "run_worker": False}) as rest:
        calls = counted(rest.service, monkeypatch)

        async def of(work: Awaitable[Any]) -> dict[str, int]:
            """The calls that some work makes."""
            calls.clear()
            await work
            return dict(calls)

        memory = rest.service.agent("ann", "chat")
        question = "What is my puppy called?"
        await rest.post("update", EXCHANGE, status=201)
        await rest.post("fetch", {"user_message": question})
        updated = await of(memory.update_memory(EXCHANGE["user_msg"], EXCHANGE["assistant_msg"]))
        assert "append_turns" in updated
        fetched = await of(memory.fetch_memory(question))
        for number in range(3):
            key = {"Idempotency-Key": f"key {number}"}
            assert await of(rest.post("update", EXCHANGE, status=201, headers=key)) == updated
        assert await of(rest.post("fetch", {"user_message": question})) == fetched
        assert await of(rest.get("/healthz")) == {}
        assert len(looked_up) == 1


# --- metrics -------------------------------------------------------------------------------------------------
async def test_metrics_are_read_by_prometheus_and_name_nobody(tmp_path: Path) -> None:
    """Requests by route and status, the backlog; no id of a user, no tenant, no content, no path."""
    async with rest_on({"data_dir": tmp_path}, server={"server_metrics_open": True}, tenant="acme") as rest:
        await rest.post("/api/threads/zuleika/thread-77/update", EXCHANGE, status=201)
        await rest.post("/api/threads/zuleika/thread-77/settle", status=204)
        await rest.get("/api/threads/zuleika/thread-77/turns")
        await rest.ask("GET", "/api/zuleika", status=404)
        text = (await rest.ask("GET", "/metrics")).text
        families = {family.name: family for family in text_string_to_metric_families(text)}
        counted = {
            (sample.labels["method"], sample.labels["route"], sample.labels["status"]): sample.value
            for sample in families["memory_agent_http_requests"].samples
        }
        thread = "/api/threads/{user_id}/{thread_id}"
        assert counted["POST", f"{thread}/update", "2xx"] == 1
        assert counted["GET", f"{thread}/turns", "2xx"] == 1
        assert counted["OTHER", "unmatched", "4xx"] == 1
        timed = [
            s for s in families["memory_agent_http_request_seconds"].samples if s.name.endswith("_count")
        ]
        assert {"method": "GET", "route": f"{thread}/turns"} in [sample.labels for sample in timed]
        assert families["memory_agent_turns"].samples[0].value == 2
        assert families["memory_agent_store_up"].samples[0].value == 1
        for word in ("zuleika", "thread-77", "acme", "Rufus", "puppy"):
            assert word not in text


async def test_metrics_stay_small_whoever_asks_for_what() -> None:
    """Every route by every method, with every status: what no operation is falls into one series, and all fit into 120 KB."""
    metrics = Metrics()
    for method, path, _ in operations(document()).values():
        for status in (200, 302, 404, 422, 503, None):
            metrics.observe(method, path, status, 0.1)
    whole = generate_latest(metrics.registry)
    for number in range(200):
        for method in ("GET", "POST", "OTHER"):
            metrics.observe(method, UNMATCHED, 404, 0.1 * number)
            metrics.observe(method, f"{ANN}/turns", 405, 0.1)
    assert generate_latest(metrics.registry).count(b"\n") <= whole.count(b"\n") + 1
    assert len(whole) < 120_000


# --- logs ----------------------------------------------------------------------------------------------------
def test_logs_of_the_process_hold_a_record_per_request_and_nobodys_words(tmp_path: Path) -> None:
    """One JSON object a line with the request's id, route and status; no content, no token, no id of a user."""
    settings = {"data_dir": tmp_path / "data", "enable_topics": False, "use_local_embeddings": False}
    settings |= {"openai_base_url": "http://127.0.0.1:9", "openai_api_key": "sk-hidden"}
    service = ServiceProcess(tmp_path, "--insecure-no-auth", settings=settings)
    service.start()
    token = "ma_" + "b" * 16 + "_" + "c" * 52
    headers = {"Authorization": f"Bearer {token}"}
    secret = "the-secret-of-zuleika"
    with httpx.Client(base_url=service.address, headers=headers, timeout=30) as client:
        given = {"X-Request-Id": "from-the-caller"}
        path = "/api/threads/zuleika/thread-77"
        body = {"user_msg": secret, "assistant_msg": secret}
        statuses = [
            client.post(f"{path}/update", json=body, headers=given).status_code,
            client.get(f"{path}/turns", params={"cursor": secret}).status_code,
            client.get(f"{path}/topics/{secret}").status_code,
            client.post(f"{path}/fetch", json={"user_message": secret}).status_code,
            client.get(f"/{secret}").status_code,
            client.post(f"{path}/update", content=secret.encode()).status_code,
        ]
    assert service.stop() == 0
    # Beside the log, the command says a few words to whoever started it.
    lines = [json.loads(line) for line in service.log.read_text().splitlines() if line.startswith("{")]
    requests = [line for line in lines if "route" in line]
    assert [line["status"] for line in requests] == statuses == [201, 422, 404, 200, 404, 422]
    assert requests[0]["request_id"] == "from-the-caller"
    assert len({line["request_id"] for line in requests}) == 6
    assert requests[0]["route"] == "/api/threads/{user_id}/{thread_id}/update"
    assert all(line["milliseconds"] >= 0 for line in requests)
    log = service.log.read_text()
    for word in ("zuleika", "thread-77", secret, token, "sk-hidden"):
        assert word not in log


# --- traces --------------------------------------------------------------------------------------------------
async def test_each_request_is_a_span(rest: Rest, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the template of the route and the caller's span as its parent; nothing of whom it is about."""
    exporter = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    monkeypatch.setattr(trace, "_TRACER_PROVIDER", provider)
    parent = f"00-{'a' * 32}-{'b' * 16}-01"
    await rest.post("update", EXCHANGE, status=201, headers={"traceparent": parent})
    await rest.ask("GET", "topics/unknown", status=404)
    provider.force_flush()
    spans = [span for span in exporter.get_finished_spans() if span.kind is trace.SpanKind.SERVER]
    thread = "/api/threads/{user_id}/{thread_id}"
    assert [span.name for span in spans] == [f"POST {thread}/update", f"GET {thread}/topics/{{topic_id}}"]
    assert spans[0].parent is not None
    assert (f"{spans[0].parent.trace_id:x}", f"{spans[0].parent.span_id:x}") == ("a" * 32, "b" * 16)
    assert spans[1].parent is None
    assert [dict(span.attributes or {}) for span in spans] == [
        {
            "http.request.method": method,
            "url.scheme": "http",
            "http.route": f"{thread}/{path}",
            "http.response.status_code": status,
        }
        for method, path, status in (("POST", "update", 201), ("GET", "topics/{topic_id}", 404))
    ]


# --- events --------------------------------------------------------------------------------------------------
@shows("stream_events")
async def test_events_are_streamed(rest: Rest) -> None:
    """What happens to the thread, as it happens; `test_events.py` shows the rest."""
    headers = dict(rest.client.headers)
    async with listening(rest.server.address, headers, f"{ANN}/events") as stream:
        rest.answered.add("stream_events")
        await rest.post("/api/threads/bob/chat/update", EXCHANGE, status=201)
        receipt = await rest.post("update", EXCHANGE, status=201)
        event = await stream.next()
    expected = ("turn_stored", "ann", receipt["turn_ids"][0])
    assert (event["kind"], event["user_id"], event["turn_id"]) == expected


# --- the document --------------------------------------------------------------------------------------------
async def test_the_document_is_served_and_its_page_loads_nothing_from_elsewhere(rest: Rest) -> None:
    """At the address where tools look for it."""
    assert await rest.get("/openapi.json") == document()
    # The files of its page are answered by the service itself, and it tells browsers to ask nobody else.
    async with httpx.AsyncClient(base_url=rest.server.address) as browser:
        page = await browser.get("/docs")
        linked = Linked(page.text)
        assert len(linked.addresses) == 4  # script, style, icon, and the document
        for address in linked.addresses:
            found = page.url.join(address)
            assert (found.host, found.port) == (page.url.host, page.url.port)
            answer = await browser.get(found)
            assert answer.status_code == 200
            again = await browser.get(found, headers={"If-None-Match": answer.headers.get("ETag", "*")})
            assert again.status_code == (304 if "docs/" in address else 200)
            assert not re.findall(r"url\((?!['\"]?data:)", answer.text if address.endswith("css") else "")
        assert "//" not in page.text.replace("<!-- `SwaggerUIBundle` is now available on the page -->", "")
        (script,) = linked.scripts
        digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
        policy = page.headers["Content-Security-Policy"]
        assert f"script-src 'self' 'sha256-{digest}'" in policy
        assert "default-src 'none'" in policy
        assert "http" not in policy
        assert (await browser.head("/docs")).status_code == 200
        for missing in ("/redoc", "/docs/redoc.standalone.js", "/docs/..%2Fcore.py", "/docs/"):
            assert (await browser.get(missing)).status_code == 404


class Linked(HTMLParser):
    """What a page loads, and its scripts' texts."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.addresses: list[str] = []
        self.scripts: list[str] = []
        self._in_script = False
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._in_script = tag == "script"
        self.addresses += [value for name, value in attrs if name in ("src", "href") and value]

    def handle_data(self, data: str) -> None:
        if self._in_script and data.strip():
            self.scripts.append(data)
            self.addresses += re.findall(r"\burl: '([^']+)'", data)
