"""Updates and fetches a second of one API process with one worker beside it: `python -m benchmarks.service_speed`.

A MongoDB replica set of one, a Chroma server, `memory-agent serve` without worker, and `memory-agent worker`. Clients that
ask again as soon as they are answered, of some users each, first fetch of threads that hold the same turns, then write. `--beside PYTHON` runs the service of
another checkout, by that interpreter, in turns with this one: compare the ratios.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import itertools
import json
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import httpx
import numpy as np
import psutil

from benchmarks.closed_loop import ask, request_bytes
from benchmarks.measure import machine
from benchmarks.texts import WHAT, sentence
from memory_agent.keys import MAX_LIMIT
from tests.servers.chroma import ChromaProcess
from tests.servers.deployment import Deployment
from tests.servers.mongod import Mongod

if TYPE_CHECKING:
    from collections.abc import Callable

    Made = Callable[[int, int], bytes]


TURNS: Final = 20
"""In each thread when the fetches begin."""


def place_of(connection: int, users: int) -> str:
    """The address of a connection's thread."""
    return f"/api/threads/user%20{connection % users}/thread%20{connection}"


def calls(token: str, users: int) -> dict[str, Made]:
    """What the clients send, by the name of the call: each its own exchanges, and questions of which some come again."""
    sent = itertools.count()

    def update(connection: int, number: int) -> bytes:
        said = sentence(connection * 100_000 + number)
        body = {"user_msg": said, "assistant_msg": f"I see: {said}."}
        # Counted over all rounds: a key that comes again makes a repeat, which stores nothing.
        key = f"{connection}-{next(sent)}"
        return request_bytes(
            "POST",
            f"{place_of(connection, users)}/update",
            body,
            Authorization=f"Bearer {token}",
            Idempotency_Key=key,
        )

    def fetch(connection: int, number: int) -> bytes:
        body = {"user_message": f"who recommended {WHAT[(connection + number) % len(WHAT)]}?"}
        return request_bytes(
            "POST", f"{place_of(connection, users)}/fetch", body, Authorization=f"Bearer {token}"
        )

    return {"fetch": fetch, "update": update}


def fill(deployment: Deployment, token: str, *, users: int, connections: int) -> None:
    """The same turns in every thread, whoever answers faster; all of them indexed."""
    with httpx.Client(base_url=deployment.addresses[0], timeout=120, trust_env=False) as http:
        for connection in range(connections):
            turns = [{"role": "user", "content": sentence(connection * 1_000 + n)} for n in range(TURNS)]
            http.post(
                f"{place_of(connection, users)}/turns/bulk",
                json={"turns": turns},
                headers={"Authorization": f"Bearer {token}"},
            ).raise_for_status()
        while any(http.get("/readyz").json()["pending"].values()):
            time.sleep(0.5)


async def measured(
    deployment: Deployment, made: Made, *, connections: int, seconds: float
) -> dict[str, float]:
    """Requests a second, their times, and the API's processor time for each."""
    process = deployment.apis[0].process
    assert process is not None
    server = psutil.Process(process.pid)
    before, began = sum(server.cpu_times()[:2]), time.perf_counter()
    took = await ask(deployment.addresses[0], made, connections=connections, seconds=seconds)
    used = sum(server.cpu_times()[:2]) - before
    p50, p95 = np.percentile(took, [50, 95]) * 1_000
    return {
        "per_second": len(took) / (time.perf_counter() - began),  # the last answers come later
        "p50_ms": float(p50),
        "p95_ms": float(p95),
        "p95_to_p50": float(p95 / p50),
        "cpu_ms": used / len(took) * 1_000,
    }


def run(arguments: argparse.Namespace) -> dict[str, Any]:
    """All figures: medians of the rounds, and ratios to the other checkout."""
    pythons = {"ours": sys.executable, **({"beside": arguments.beside} if arguments.beside else {})}
    figures: dict[str, Any] = {"machine": machine(), "connections": arguments.connections}
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        mongod = stack.enter_context(Mongod())
        chroma = ChromaProcess(folder / "chroma").start()
        stack.callback(chroma.stop)
        sent: dict[str, tuple[Deployment, dict[str, Made]]] = {}
        for which, python in pythons.items():
            settings = {
                "mongo_uri": mongod.uri,
                "db_name": which,
                "chroma_host": chroma.host,
                "chroma_port": chroma.port,
                "memory_collection_prefix": which,
                "data_dir": folder / which,
            }
            deployment = Deployment(folder / which, settings, apis=1)
            for process in deployment.processes.values():
                process.python = python
            stack.enter_context(deployment)
            token = deployment.key("default", requests_per_minute=MAX_LIMIT)[1]
            fill(deployment, token, users=arguments.users, connections=arguments.connections)
            sent[which] = deployment, calls(token, arguments.users)
        for call in ("fetch", "update"):
            rounds: dict[str, list[dict[str, float]]] = {which: [] for which in sent}
            for _ in range(arguments.rounds):
                for which, (deployment, made) in sent.items():
                    measuring = measured(
                        deployment, made[call], connections=arguments.connections, seconds=arguments.seconds
                    )
                    rounds[which].append(asyncio.run(measuring))
            found = {
                which: {name: statistics.median(each[name] for each in of) for name in of[0]}
                for which, of in rounds.items()
            }
            figures[call] = {
                which: {name: round(value, 2) for name, value in each.items()}
                for which, each in found.items()
            }
            if "beside" in found:
                figures[call]["times_as_many"] = round(
                    found["ours"]["per_second"] / found["beside"]["per_second"], 2
                )
    return figures


def main() -> None:
    """Parse the command line and run."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    add = parser.add_argument
    add("--beside", help="the Python of another checkout's environment")
    add("--connections", type=int, default=50, help="at once (default %(default)s)")
    add("--users", type=int, default=10, help="that they are of (default %(default)s)")
    add("--seconds", type=float, default=5.0, help="of each round (default %(default)s)")
    add("--rounds", type=int, default=3, help="of each call (default %(default)s)")
    print(json.dumps(run(parser.parse_args()), indent=2))


if __name__ == "__main__":
    main()
