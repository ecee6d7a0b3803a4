"""The service under load while its processes are killed: `python -m benchmarks.service_load`.

A MongoDB replica set, a Chroma server, two `memory-agent serve` and one `memory-agent worker`, each a process of its own,
and 200 clients that write exchanges, fetch and list over HTTP, as fast as they are answered. Meanwhile one service and the
worker are ended with SIGKILL and started again, twice each. In the end every acknowledged turn must be there once, byte for
byte and in order, nothing may be owed, and search must find what was said; else the exit code is 1, and the first
discrepancy is printed.

Times are those of single requests as clients see them: all clients always have one in progress, so that they hold the wait
for all others'. `others_busy` is the share of the machine's time that none of this took.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from collections import Counter, defaultdict
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import httpx
import numpy as np

from benchmarks.measure import machine
from benchmarks.meter import Others, say
from benchmarks.service_clients import Exchange, Job, discrepancies, path_of, texts
from tests.servers.chroma import ChromaProcess
from tests.servers.deployment import Deployment, Used
from tests.servers.mongod import Mongod

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence


_PAGE: Final = 500


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
    """What the clients noted, and how often a process was killed."""

    exchanges: list[Exchange] = field(default_factory=list)
    requests: list[dict[str, Any]] = field(default_factory=list)
    processes: list[dict[str, Any]] = field(default_factory=list)
    complaints: list[str] = field(default_factory=list)
    """What a client found wrong by itself."""
    kills: int = 0
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
                _kill_and_restart(deployment, waiting.pop(0))
                told.kills += 1
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


def _kill_and_restart(deployment: Deployment, kill: Kill) -> None:
    deployment.kill(kill.name)
    time.sleep(kill.down_seconds)
    deployment.start(kill.name)


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


# --- the figures ----------------------------------------------------------------------------------------------
TENANTS: Final = 8
KILLED: Final = ("api 0", "worker")


def times(seconds: Sequence[float]) -> dict[str, float | int]:
    """How many, and p50, p95, p99 and the longest in milliseconds."""
    if not seconds:
        return {"count": 0}
    shown = {f"p{q}_ms": round(float(np.percentile(seconds, q)) * 1_000, 1) for q in (50, 95, 99)}
    return {"count": len(seconds), **shown, "max_ms": round(max(seconds) * 1_000, 1)}


def figures(told: Told) -> dict[str, Any]:
    """What the clients saw: speed, times of requests by kind, errors by kind."""
    acknowledged = told.acknowledged
    seconds = told.ended - told.began
    good = [request for request in told.requests if request["result"].startswith("2")]
    kinds = ("update", "fetch", "list")
    return {
        "seconds": round(seconds, 1),
        "turns_acknowledged": 2 * len(acknowledged),
        "turns_per_second": round(2 * len(acknowledged) / seconds, 1),
        "given_up": len(told.exchanges) - len(acknowledged),
        "retries": sum(exchange.attempts - 1 for exchange in acknowledged),
        "errors": dict(
            Counter(
                f"{request['what']} {request['result']}"
                for request in told.requests
                if not request["result"].startswith("2")
            )
        ),
        "requests": {kind: times(_seconds(good, kind)) for kind in kinds},
        "noticed": dict(sum((Counter(process["counts"]) for process in told.processes), Counter())),
    }


def _seconds(requests: Sequence[Mapping[str, Any]], kind: str) -> list[float]:
    return [request["ended"] - request["began"] for request in requests if request["what"] == kind]


def make_jobs(arguments: argparse.Namespace, deployment: Deployment, folder: Path) -> list[Job]:
    """A job for each process of clients, with about the same number of clients each."""
    keys = [(f"tenant-{number}", deployment.key(f"tenant-{number}")[1]) for number in range(TENANTS)]
    exchanges = max(2, round(arguments.turns / 2 / arguments.clients))
    share = [
        range(
            arguments.clients * n // arguments.processes,
            arguments.clients * (n + 1) // arguments.processes,
        )
        for n in range(arguments.processes)
    ]
    return [
        Job(
            addresses=deployment.addresses,
            keys=keys,
            first=part.start,
            clients=len(part),
            exchanges=exchanges,
            ledger=str(folder / f"clients-{number}.jsonl"),
            last_after=str(folder / "kills-are-done"),
            seed=arguments.seed,
        )
        for number, part in enumerate(share)
    ]


def measure(
    arguments: argparse.Namespace, folder: Path, mongod: Mongod, chroma: ChromaProcess
) -> dict[str, Any]:
    """All figures. Raises Wrong."""
    settings = {
        "mongo_uri": mongod.uri,
        "chroma_host": chroma.host,
        "chroma_port": chroma.port,
        "data_dir": folder / "data",
        "db_name": "service_load",
    }
    kills = kill_plan(KILLED, times=arguments.kills, seed=arguments.seed)
    servers = {"mongod": Used(), "chroma": Used()}
    servers["mongod"].began(mongod.pid)
    servers["chroma"].began(chroma.pid)
    with Deployment(folder / "service", settings) as deployment:
        jobs = make_jobs(arguments, deployment, folder)
        say(f"{sum(job.clients * job.exchanges for job in jobs):,} exchanges; {_told(kills)}")
        others, used = Others(), deployment.used | servers
        before = _cpu(used)
        told = run_clients(deployment, jobs, kills)
        own = _cpu(used) - before + sum(process["cpu_seconds"] for process in told.processes)
        busy = round(others.share() - own / (told.ended - told.began) / (os.cpu_count() or 1), 3)
        cpu = {name: round(one.cpu_seconds, 1) for name, one in used.items()}
        say("all are acknowledged")
        keys = jobs[0].keys
        with Reader(deployment, keys) as reader:
            settle_seconds = round(settled(reader, timeout=arguments.settle_seconds), 1)
            say("settled")
            checked = check(reader, told, searches=arguments.searches, seed=arguments.seed)
        _cpu(used)
        return {
            **figures(told),
            "settle_seconds": settle_seconds,
            "checked": checked,
            "cpu_seconds": cpu,
            "others_busy": max(0.0, busy),
            "peak_mib": {name: round(one.peak_mib) for name, one in used.items()},
            "kills": _told(kills),
        }


def _cpu(used: Mapping[str, Used]) -> float:
    for one in used.values():
        one.look()
    return sum(one.cpu_seconds for one in used.values())


def _told(kills: Sequence[Kill]) -> str:
    return ", ".join(f"{kill.name} at {kill.share:.0%} for {kill.down_seconds} s" for kill in kills)


def run(arguments: argparse.Namespace) -> int:
    """Start everything, measure, print; the exit code."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        mongod = stack.enter_context(Mongod())
        chroma = ChromaProcess(folder / "chroma").start()
        stack.callback(chroma.stop)
        try:
            report = measure(arguments, folder, mongod, chroma)
        except Wrong as exc:
            print(f"WRONG: {exc}")
            return 1
    report = {
        "machine": machine(),
        "clients_at_once": arguments.clients,
        "seed": arguments.seed,
        **report,
    }
    text = json.dumps(report, indent=2)
    print(text)
    if arguments.json:
        arguments.json.write_text(text + "\n", encoding="utf-8")
    return 0


def main() -> None:
    """Parse the command line and run."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    add = parser.add_argument
    add("--turns", type=int, default=20_000, help="that are written, two an exchange (default %(default)s)")
    add("--clients", type=int, default=200, help="at once (default %(default)s)")
    add("--processes", type=int, default=2, help="that the clients run in (default %(default)s)")
    add("--kills", type=int, default=2, help="of a service, and of the worker (default %(default)s)")
    add("--searches", type=int, default=100, help="exchanges that search must find (default %(default)s)")
    add("--settle-seconds", type=float, default=3_600.0, help="to wait at most until nothing is owed")
    add("--seed", type=int, default=1)
    add("--json", type=Path, help="a file to write the figures to")
    sys.exit(run(parser.parse_args()))


if __name__ == "__main__":
    main()
