"""The service as docker-compose.yml runs it, without containers: its environment, its commands, on servers of their own."""

from __future__ import annotations

import json
import re
import subprocess
import threading
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx
import pymongo
import pytest
import yaml

from benchmarks.service_load import Load as Asked
from benchmarks.service_load import Reader, Told, check, kill_plan, path_of, run_clients, settled
from memory_agent.domain import ALL_TENANTS
from tests.servers.chroma import ChromaProcess
from tests.servers.deployment import Deployment
from tests.servers.forks import forks
from tests.servers.mongod import Mongod

ROOT = Path(__file__).parents[2]
PREFIX = "MEMORY_AGENT_"
CLIENTS, EXCHANGES, SEARCHES = 4, 3, 4

pytestmark = pytest.mark.timeout(240)


def compose_environment(service: str) -> dict[str, str]:
    """The variables that Compose gives a service, where .env sets nothing."""
    text = (ROOT / "docker-compose.yml").read_text(encoding="utf-8")
    given: dict[str, Any] = yaml.safe_load(text)["services"][service]["environment"]
    return {
        name: re.sub(r"\$\{[A-Z0-9_]+(?::-([^}]*))?\}", lambda match: match[1] or "", str(value))
        for name, value in given.items()
    }


def composed(service: str, mongod: Mongod, chroma: ChromaProcess) -> dict[str, str]:
    """The same with this machine's addresses instead of those of Compose's network."""
    given = compose_environment(service)
    assert given[f"{PREFIX}MONGO_URI"] == "mongodb://mongo:27017/?replicaSet=rs0"
    assert given[f"{PREFIX}CHROMA_HOST"] == "chroma"
    return {
        **given,
        f"{PREFIX}MONGO_URI": mongod.uri,
        f"{PREFIX}CHROMA_HOST": chroma.host,
        # 8000, the default, inside Compose's network
        f"{PREFIX}CHROMA_PORT": str(chroma.port),
    }


def write_config(folder: Path) -> None:
    """The file that Compose mounts, with what tests cannot wait for made shorter."""
    text = (ROOT / "config" / "memory.toml").read_text(encoding="utf-8")
    text, count = re.subn(r"^lease_seconds = .*$", "lease_seconds = 2.0", text, flags=re.MULTILINE)
    assert count == 1
    (folder / "config").mkdir(parents=True)
    (folder / "config" / "memory.toml").write_text(text, encoding="utf-8")


@dataclass(frozen=True, kw_only=True, slots=True)
class Composed:
    """What Compose would have started, and a key for it."""

    deployment: Deployment
    mongod: Mongod
    cleanup: dict[str, str]
    token: str
    everybodys: str

    def call(self, api: int, method: str, path: str, *, token: str = "", **options: Any) -> httpx.Response:
        """A request to one of the two services."""
        headers = {"Authorization": f"Bearer {token or self.token}"}
        url = self.deployment.addresses[api] + path
        return httpx.request(method, url, headers=headers, timeout=60, trust_env=False, **options)

    def command(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """A `memory-agent` command in the environment of `cleanup`."""
        own = self.deployment.worker.environment
        environment = {name: value for name, value in own.items() if not name.startswith((PREFIX, "OTEL_"))}
        environment |= self.cleanup
        return forks().run(arguments, stdin="", cwd=self.deployment.folder, env=environment, timeout=60)


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Composed]:
    folder = tmp_path_factory.mktemp("service")
    write_config(folder)
    with Mongod(quick=True) as mongod:
        chroma = ChromaProcess(folder / "chroma").start()
        try:
            api, worker = (composed(name, mongod, chroma) for name in ("api", "worker"))
            settings = {name.removeprefix(PREFIX).lower(): value for name, value in worker.items()}
            others = {name: value for name, value in api.items() if name not in worker}
            deployment = Deployment(folder, settings, environment=others)
            for process in deployment.apis:
                # The port is the one thing that two services on one machine cannot share.
                assert {**process.environment, f"{PREFIX}SERVER_PORT": "8080"}.items() >= api.items()
            assert deployment.worker.environment.items() >= worker.items()
            with deployment:
                yield Composed(
                    deployment=deployment,
                    mongod=mongod,
                    cleanup=composed("cleanup", mongod, chroma),
                    token=deployment.key("acme")[1],
                    everybodys=deployment.key(ALL_TENANTS)[1],
                )
        finally:
            chroma.stop()


# --- under load ----------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True, slots=True)
class Load:
    """What became of a load, and of the sweep beside it."""

    told: Told
    asked: Asked
    sweep: subprocess.CompletedProcess[str]


@pytest.fixture(scope="module")
def load(service: Composed) -> Load:
    """Some clients while one service and the worker are killed, and a sweep runs."""
    keys = [("acme", service.token), ("globex", service.deployment.key("globex")[1])]
    asked = Asked(addresses=service.deployment.addresses, keys=keys, clients=CLIENTS, exchanges=EXCHANGES)
    done: list[subprocess.CompletedProcess[str]] = []
    sweeping = threading.Thread(target=lambda: done.append(service.command("sweep", "--quiet")))
    sweeping.start()
    told = run_clients(service.deployment, asked, kill_plan(["api 0", "worker"], times=1, seed=3))
    sweeping.join()
    return Load(told=told, asked=asked, sweep=done[0])


def test_nothing_is_lost_though_processes_were_killed(service: Composed, load: Load) -> None:
    """Every exchange is acknowledged, none is doubled or disordered, and search finds it."""
    assert len(load.told.acknowledged) == CLIENTS * EXCHANGES
    assert load.told.kills == 2
    results = {result for _, result, _ in load.told.requests}
    assert {name for name in results if not name.endswith(("Error", "Timeout"))} <= {
        "200",
        "201",
        "502",
        "503",
    }
    assert not load.told.noticed["fetches without the last exchange"]
    assert load.sweep.returncode == 0, load.sweep.stderr
    assert load.sweep.stdout == ""
    with Reader(service.deployment, load.asked.keys) as reader:
        settled(reader, timeout=60)
        counts = check(reader, load.told, searches=SEARCHES, seed=1)
    assert counts["turns"] == 2 * CLIENTS * EXCHANGES
    assert counts["searches"] == SEARCHES


def test_clients_above_their_limit_are_told_to_wait_then_served(service: Composed) -> None:
    """Twelve ask at once, of whom ten are let in; one more each second."""
    asked = Asked(
        addresses=service.deployment.addresses[:1],
        keys=[("hooli", service.deployment.key("hooli", requests_per_minute=60)[1])],
        clients=12,
        exchanges=1,
    )
    told = run_clients(service.deployment, asked, kills=[])
    results = Counter(result for _, result, _ in told.requests)
    assert set(results) == {"201", "429"}
    assert len(told.acknowledged) == results["201"] == 12


# --- one memory behind several processes ---------------------------------------------------------------------


def test_what_one_service_was_told_the_other_finds_and_tells_its_readers(service: Composed) -> None:
    path = path_of("bob", "garden")
    said = "The key of the boathouse hangs behind the barometer."
    url, headers = (
        f"{service.deployment.addresses[1]}{path}/events",
        {"Authorization": f"Bearer {service.token}"},
    )
    with httpx.stream("GET", url, headers=headers, timeout=20, trust_env=False) as reader:
        lines = reader.iter_lines()
        assert next(lines).startswith(":")
        answer = service.call(0, "POST", f"{path}/turns", json={"role": "user", "content": said})
        event = json.loads(next(line for line in lines if line.startswith("data: ")).removeprefix("data: "))
    assert (event["user_id"], event["thread_id"]) == ("bob", "garden")
    assert (event["turn_id"], event["seq"]) == (answer.json()["id"], 1)
    assert service.call(1, "GET", f"{path}/turns/recent").json()["items"][0]["content"] == said
    assert service.call(1, "POST", f"{path}/settle", json={}).status_code == 204
    asked = {"user_id": "bob", "query": "Where is the boathouse key?", "top_k": 1}
    found = service.call(1, "POST", "/api/memory/search", json=asked).json()["items"]
    assert [item["turn"]["content"] for item in found] == [said]


# --- told to stop --------------------------------------------------------------------------------------------


def test_service_told_to_stop_finishes_what_was_asked_and_leaves_with_0(service: Composed) -> None:
    """The request waits for a worker that is started after the service was told to stop."""
    path = path_of("dora", "waiting")
    assert service.deployment.stop("worker") == 0
    said = {"role": "user", "content": "I am waiting for the ferry to Naxos."}
    assert service.call(0, "POST", f"{path}/turns", json=said).is_success
    answers: list[httpx.Response] = []
    asking = threading.Thread(
        target=lambda: answers.append(service.call(0, "POST", f"{path}/settle", json={"timeout": 25}))
    )
    asking.start()
    wait_until(lambda: _in_flight(service, 0) >= 2)  # this question is one of them
    codes: list[int] = []
    stopping = threading.Thread(target=lambda: codes.append(service.deployment.stop("api 0")))
    stopping.start()
    try:
        wait_until(lambda: _refuses(service.deployment.addresses[0]))
        assert not answers
    finally:  # the next test finds all running, whatever came of this one
        service.deployment.start("worker")
        asking.join()
        stopping.join()
        service.deployment.start("api 0")
    assert [answer.status_code for answer in answers] == [204]
    assert codes == [0]


def test_worker_told_to_stop_leaves_with_0_and_gives_its_leases_back(service: Composed) -> None:
    """So that the next one need not wait for them to run out."""
    turns = [{"role": "user", "content": f"The {n}th crate holds lamp oil and rope."} for n in range(100)]
    for thread in range(4):
        path = f"{path_of('carl', f'cargo {thread}')}/turns/bulk"
        assert service.call(0, "POST", path, json={"turns": turns}).is_success
    with pymongo.MongoClient[dict[str, Any]](service.mongod.uri) as client:
        leases = client["memory_agent"]["leases"]
        # Those of a worker that was killed lie there, and have run out.
        live = {"until": {"$gt": datetime.now(UTC)}}
        wait_until(lambda: leases.count_documents(live) > 0)
        holders = set(leases.distinct("holder", live))
        assert service.deployment.stop("worker") == 0
        assert list(leases.find({"holder": {"$in": list(holders)}})) == []
    with Reader(service.deployment, [("acme", service.token)]) as reader:
        assert any(reader.status()["pending"].values()), "the worker was done before it was told to stop"
        service.deployment.start("worker")
        settled(reader, timeout=60)


def wait_until(condition: Any) -> None:
    until = time.monotonic() + 240
    while not condition():
        assert time.monotonic() < until, "it did not come about"
        time.sleep(0.02)


def _in_flight(service: Composed, api: int) -> float:
    text = service.call(api, "GET", "/metrics", token=service.everybodys).text
    found = re.search(r"^memory_agent_http_requests_in_flight (\S+)$", text, flags=re.MULTILINE)
    assert found is not None
    return float(found[1])


def _refuses(address: str) -> bool:
    """True once nobody listens. A connection that was taken up just before is ended without an answer."""
    try:
        httpx.get(f"{address}/healthz", trust_env=False)
    except httpx.ConnectError:
        return True
    except httpx.TransportError:
        return False
    return False
