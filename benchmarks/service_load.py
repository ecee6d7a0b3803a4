"""The service under load while its processes are killed: `python -m benchmarks.service_load`.

A MongoDB replica set, a Chroma server, two `memory-agent serve` and one `memory-agent worker`, each a process of its own,
and 200 clients that write exchanges, fetch and list over HTTP, as fast as they are answered. Meanwhile one service and the
worker are ended with SIGKILL and started again, twice each. In the end every acknowledged turn must be there once, byte for
byte and in order, nothing may be owed, and search must find what was said; else the exit code is 1, and the first
discrepancy is printed.

Times are those of single requests as clients see them: all clients always have one in progress, so that they hold the wait
for all others'. `outside_kills` leaves out what overlapped with a process being down, `others_busy` is the share of the
machine's time that none of this took.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
from collections import Counter
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from benchmarks.measure import machine
from benchmarks.meter import Others, say
from benchmarks.service_clients import Job
from benchmarks.service_run import Kill, Reader, Told, Wrong, check, kill_plan, run_clients, settled
from tests.servers.chroma import ChromaProcess
from tests.servers.deployment import Deployment, Used
from tests.servers.mongod import Mongod

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

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
    calm = [request for request in good if not _is_disturbed(request, told.windows)]
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
        "outside_kills": {kind: times(_seconds(calm, kind)) for kind in kinds},
        "until_acknowledged": times([(e.acked or 0.0) - e.began for e in acknowledged]),
        "noticed": dict(sum((Counter(process["counts"]) for process in told.processes), Counter())),
    }


def _seconds(requests: Sequence[Mapping[str, Any]], kind: str) -> list[float]:
    return [request["ended"] - request["began"] for request in requests if request["what"] == kind]


def _is_disturbed(request: Mapping[str, Any], windows: Sequence[tuple[float, float]]) -> bool:
    return any(request["began"] < end and request["ended"] > start for start, end in windows)


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
