"""A run of clients against a service of several processes: started, disturbed, waited for, and checked at its end.

`python -m benchmarks.service_load` measures with it, and a test runs the same in small.
"""

from __future__ import annotations

import contextlib
import json
import random
import subprocess
import sys
import time
from collections import defaultdict
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import httpx

from benchmarks.service_clients import Job, path_of
from benchmarks.service_ledger import Exchange, discrepancies, texts

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from tests.servers.deployment import Deployment

_PAGE: Final = 500
_CALM_SECONDS: Final = 2.0
"""After a process is back; what is measured until then is measured in a kill's window."""


class Wrong(Exception):
    """The service and its clients disagree; the text has the first discrepancy."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Kill:
    """A process that is ended without warning once this share of the exchanges was acknowledged."""

    name: str
    share: float
    down_seconds: float
    """Until it is started again."""


def kill_plan(names: Sequence[str], *, times: int, seed: int) -> list[Kill]:
    """When each of `names` is killed, `times` times: at random moments, the same for the same seed."""
    chance = random.Random(seed)
    kills = [
        # Each kill has a part of the run for itself, so that the processes are not down all at once.
        Kill(name=name, share=0.0, down_seconds=round(chance.uniform(0.2, 1.5), 2))
        for name in names
        for _ in range(times)
    ]
    chance.shuffle(kills)
    width = 0.8 / max(len(kills), 1)
    return [
        replace(kill, share=round(0.08 + width * (number + 0.8 * chance.random()), 3))
        for number, kill in enumerate(kills)
    ]


@dataclass(kw_only=True, slots=True)
class Told:
    """What the clients noted, and when processes were down (`windows`)."""

    exchanges: list[Exchange] = field(default_factory=list)
    requests: list[dict[str, Any]] = field(default_factory=list)
    processes: list[dict[str, Any]] = field(default_factory=list)
    complaints: list[str] = field(default_factory=list)
    """What a client found wrong by itself."""
    windows: list[tuple[float, float]] = field(default_factory=list)
    began: float = 0.0
    ended: float = 0.0

    @property
    def acknowledged(self) -> list[Exchange]:
        """Those with a receipt."""
        return [exchange for exchange in self.exchanges if exchange.acked is not None]

    def by_place(self) -> Mapping[tuple[str, str, str], list[Exchange]]:
        """Exchanges by tenant, user and thread."""
        places = defaultdict(list)
        for exchange in self.exchanges:
            places[exchange.place].append(exchange)
        return places

    def read(self, ledger: Path) -> None:
        """Add a process's file."""
        for text in ledger.read_text(encoding="utf-8").splitlines():
            values = json.loads(text)
            match values.pop("line"):
                case "exchange":
                    self.exchanges.append(Exchange.from_json(values))
                case "request":
                    self.requests.append(values)
                case "process":
                    self.processes.append(values)
                case "missing":
                    self.complaints.append(
                        f"{values['key']}: acknowledged, and not among the newest turns as another service tells them"
                    )
                case "refused":
                    self.complaints.append(
                        f"{values['key']}: {values['what']} was refused with {values['status']}: {values['text']}"
                    )


def run_clients(deployment: Deployment, jobs: Sequence[Job], kills: Sequence[Kill]) -> Told:
    """Run a process for each job to its end, and kill and restart the deployment's meanwhile.

    Every client has two exchanges at least, and every job its `last_after`.
    """
    told = Told(began=time.monotonic())
    # Each client's last exchange waits for the last kill.
    before_the_last = sum(job.clients * (job.exchanges - 1) for job in jobs)
    waiting = sorted(kills, key=lambda kill: kill.share)
    with contextlib.ExitStack() as stack:
        running = [stack.enter_context(_process(job)) for job in jobs]
        while any(process.poll() is None for process in running):
            if waiting and _acknowledged(jobs) >= waiting[0].share * before_the_last:
                told.windows.append(_kill_and_restart(deployment, waiting.pop(0)))
            if not waiting:
                for job in jobs:
                    Path(job.last_after).touch()
            time.sleep(0.05)
        if failed := [process.returncode for process in running if process.returncode]:
            raise RuntimeError(f"a process of clients ended with {failed[0]}")
    told.ended = time.monotonic()
    for job in jobs:
        told.read(Path(job.ledger))
    return told


@contextlib.contextmanager
def _process(job: Job) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-m", "benchmarks.service_clients"]
    root = Path(__file__).parents[1]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, text=True, cwd=root)
    try:
        assert process.stdin is not None
        process.stdin.write(job.as_json())
        process.stdin.close()
        yield process
    finally:
        process.kill()
        process.wait()


def _acknowledged(jobs: Sequence[Job]) -> int:
    count = 0
    for job in jobs:
        with contextlib.suppress(FileNotFoundError):
            count += Path(job.ledger).read_bytes().count(b'"line": "exchange"')
    return count


def _kill_and_restart(deployment: Deployment, kill: Kill) -> tuple[float, float]:
    """The seconds from the kill to shortly after the restart."""
    began = time.monotonic()
    deployment.kill(kill.name)
    time.sleep(kill.down_seconds)
    deployment.start(kill.name)
    return began, time.monotonic() + _CALM_SECONDS


# --- the end -------------------------------------------------------------------------------------------------


class Reader:
    """Reads a service at its end, from its processes in turn."""

    def __init__(self, deployment: Deployment, keys: Sequence[tuple[str, str]]) -> None:
        self._http = [httpx.Client(base_url=url, timeout=60, trust_env=False) for url in deployment.addresses]
        self._tokens = dict(keys)
        self._turn = 0

    def __enter__(self) -> Reader:
        return self

    def __exit__(self, *_: object) -> None:
        for http in self._http:
            http.close()

    def ask(self, method: str, path: str, tenant: str, **options: Any) -> Any:
        """The JSON of the answer; what a limit refuses is asked again. Raises httpx.HTTPStatusError."""
        self._turn += 1
        http = self._http[self._turn % len(self._http)]
        headers = {"Authorization": f"Bearer {self._tokens[tenant]}"}
        while True:
            answer = http.request(method, path, headers=headers, **options)
            if answer.status_code != 429:
                answer.raise_for_status()
                return answer.json() if answer.content else None
            time.sleep(float(answer.headers["Retry-After"]))

    def turns(self, place: tuple[str, str, str]) -> list[dict[str, Any]]:
        """All turns of a thread, a page from one process, the next from another."""
        tenant, user, thread = place
        found: list[dict[str, Any]] = []
        cursor: dict[str, Any] = {}
        while True:
            page = self.ask(
                "GET", f"{path_of(user, thread)}/turns", tenant, params={"limit": _PAGE, **cursor}
            )
            found += page["items"]
            if page["next_cursor"] is None:
                return found
            cursor = {"cursor": page["next_cursor"]}

    def found_by_search(self, exchange: Exchange) -> bool:
        """Whether the exchange's own words find its first turn."""
        question = texts(exchange.client, exchange.number)[0]
        asked = {"user_id": exchange.user, "thread_id": exchange.thread, "query": question, "top_k": 5}
        found = self.ask("POST", "/api/memory/search", exchange.tenant, json=asked)
        return exchange.turn_ids[0] in [item["turn"]["id"] for item in found["items"]]

    def status(self) -> dict[str, Any]:
        """How everybody's memory stands."""
        answer = self._http[0].get("/readyz")
        status: dict[str, Any] = answer.json()
        return status


def settled(reader: Reader, *, timeout: float) -> float:
    """Wait until nothing is owed to anybody; seconds. Raises Wrong if time runs out or turns are parked."""
    began = time.monotonic()
    while True:
        status = reader.status()
        if status["status"] == "ready" and not any(status["pending"].values()):
            return time.monotonic() - began
        if status["parked"] or time.monotonic() - began > timeout:
            raise Wrong(f"not settled after {time.monotonic() - began:.0f} s: {status}")
        time.sleep(0.1)


def check(reader: Reader, told: Told, *, searches: int, seed: int) -> dict[str, int]:
    """Compare all that was said with all that is stored; what was counted. Raises Wrong with the first discrepancy."""
    if told.complaints:
        raise Wrong(f"{told.complaints[0]} ({len(told.complaints)} in all)")
    turns = 0
    for place, sent in told.by_place().items():
        found = reader.turns(place)
        turns += len(found)
        for wrong in discrepancies(sent, found):
            raise Wrong(f"{place}: {wrong}")
    acknowledged = told.acknowledged
    sample = random.Random(seed).sample(acknowledged, min(searches, len(acknowledged)))
    for exchange in sample:
        if not reader.found_by_search(exchange):
            raise Wrong(f"{exchange.place}: search does not find {exchange.key} by its own words")
    return {"turns": turns, "threads": len(told.by_place()), "searches": len(sample)}
