"""How an honest client fares beside malicious ones: `python -m benchmarks.abuse [ATTACK …]`.

One `memory-agent serve` with its worker, embedded or on MongoDB, with its default settings but for shorter limits on slow
heads and bodies. A client sends an update and a fetch every 200 ms: first alone, then beside each attack of
`benchmarks.attacks`, which runs in a process of its own with a key of its own. Prints a table: the honest client's times
from the moment at which a request was due, and their ratio to those alone; its errors and how often it had to send
something again; the service's memory before, at its peak and after; what the attacker got. The exit code is 1 if the
honest client had an error, or the service did not come back to itself.

The honest client is an ordinary one: it sends a request again, with the same idempotency key, where its connection ended
before an answer began or the answer was 429, 502 or 503; three times at most.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import re
import sys
import tempfile
import time
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import httpx
import numpy as np
import psutil

from benchmarks.attacks import ATTACKS, Target, job
from benchmarks.measure import machine, markdown, mongo_uri
from benchmarks.texts import sentence
from tests.servers.deployment import made_key
from tests.servers.service import ServiceProcess

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

PACE_SECONDS: Final = 0.2
RECOVERY_SECONDS: Final = 120.0
TRIES: Final = 4
_PASSING: Final = frozenset({429, 502, 503})


@dataclass(slots=True)
class Honest:
    """What happened to an honest client, in seconds."""

    update: list[float] = field(default_factory=list)
    fetch: list[float] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)
    retries: int = 0

    def times(self) -> dict[str, dict[str, float]]:
        """p50, p95 and p99 in milliseconds."""
        return {
            name: {f"p{q}": round(float(np.percentile(seconds or [0.0], q)) * 1_000, 1) for q in (50, 95, 99)}
            for name, seconds in (("update", self.update), ("fetch", self.fetch))
        }


class Client:
    """An honest client with a thread of its own."""

    def __init__(self, address: str, token: str) -> None:
        limits = httpx.Limits(max_connections=None)
        headers = {"Authorization": f"Bearer {token}"}
        self._http = httpx.AsyncClient(
            base_url=address, headers=headers, limits=limits, timeout=30, trust_env=False
        )
        self._said = 0
        self.address = address

    async def close(self) -> None:
        """Leave."""
        await self._http.aclose()

    async def run(self, goes_on: Callable[[Honest], bool]) -> Honest:
        """An update and a fetch every PACE_SECONDS, whether those before are answered or not."""
        seen = Honest()
        tasks: list[asyncio.Task[None]] = []
        began = time.perf_counter()
        while goes_on(seen):
            due = began + PACE_SECONDS * len(tasks)
            await asyncio.sleep(max(0.0, due - time.perf_counter()))
            tasks.append(asyncio.create_task(self._pair(seen, due)))
        await asyncio.gather(*tasks)
        return seen

    async def _pair(self, seen: Honest, due: float) -> None:
        self._said += 1
        number = self._said
        said = {"user_msg": f"{number}: {sentence(number)}", "assistant_msg": f"I see, number {number}."}
        if await self._ask(seen, "update", said, key=f"exchange {number}"):
            seen.update.append(time.perf_counter() - due)
        asked = time.perf_counter()
        if await self._ask(seen, "fetch", {"user_message": f"What about {sentence(number + 10**6)}?"}):
            seen.fetch.append(time.perf_counter() - asked)

    async def _ask(self, seen: Honest, what: str, body: dict[str, str], key: str = "") -> bool:
        headers = {"Idempotency-Key": key} if key else {}
        why = ""
        for attempt in range(TRIES):
            seen.retries += attempt > 0
            try:
                answer = await self._http.post(f"/api/threads/alice/diary/{what}", json=body, headers=headers)
            except httpx.TransportError as exc:
                why = type(exc).__name__
            else:
                if answer.is_success:
                    return True
                why = str(answer.status_code)
                if answer.status_code not in _PASSING:
                    break
                await asyncio.sleep(float(answer.headers.get("Retry-After", 0)))
        seen.errors.append(f"{what}: {why}")
        return False

    async def forget(self, user: str, token: str) -> None:
        """Erase a user."""
        await self._http.delete(
            f"/api/users/{user}", headers={"Authorization": f"Bearer {token}"}, timeout=RECOVERY_SECONDS
        )

    async def open_connections(self) -> int:
        """Connections that the service has open."""
        text = (await self._http.get("/metrics")).text
        found = re.search(r"^memory_agent_connections_open (\S+)$", text, re.MULTILINE)
        return int(float(found[1])) if found else 0


async def attack(name: str, target: Target) -> dict[str, int]:
    """Run an attack in a process of its own; what it got."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "benchmarks.attacks",
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        cwd=Path(__file__).parents[1],
    )
    try:
        told, _ = await process.communicate(job(name, target).encode())
    except BaseException:
        process.kill()
        await process.wait()
        raise
    if process.returncode:
        raise RuntimeError(f"the attack {name} ended with {process.returncode}")
    got: dict[str, int] = json.loads(told)
    return got


async def _watched(process: psutil.Process, peak: list[int]) -> None:
    while True:
        peak[0] = max(peak[0], process.memory_info().rss)
        await asyncio.sleep(0.1)


async def beside(name: str, client: Client, target: Target, process: psutil.Process) -> dict[str, Any]:
    """The honest client's figures while an attack goes on, and the service's afterwards."""
    before, peak = process.memory_info().rss, [0]
    watching = asyncio.create_task(_watched(process, peak))
    running = asyncio.create_task(attack(name, target))
    seen = await client.run(lambda _: not running.done())
    got = await running
    watching.cancel()
    began = time.perf_counter()
    await client.forget("mallory", target.token)
    after = await client.run(lambda seen: len(seen.fetch) + len(seen.errors) < 5)
    return {
        **_figures(seen),
        "got": got,
        "rss_mib": [round(size / 2**20) for size in (before, peak[0], process.memory_info().rss)],
        "recovered_seconds": round(time.perf_counter() - began, 1),
        "errors_afterwards": after.errors,
        "connections_afterwards": await client.open_connections(),
    }


def _figures(seen: Honest) -> dict[str, Any]:
    return {
        "requests": len(seen.update) + len(seen.fetch) + len(seen.errors),
        "times_ms": seen.times(),
        "errors": seen.errors,
        "retries": seen.retries,
    }


async def measure(
    address: str, tokens: tuple[str, str], pid: int, arguments: argparse.Namespace
) -> dict[str, Any]:
    """The honest client alone, then beside each attack."""
    client, process = Client(address, tokens[0]), psutil.Process(pid)
    target = Target(address=address, token=tokens[1], seconds=arguments.seconds, scale=arguments.scale)
    try:
        await client.run(lambda seen: len(seen.fetch) + len(seen.errors) < 10)  # warm
        until = time.perf_counter() + arguments.seconds
        report = {"alone": _figures(await client.run(lambda _: time.perf_counter() < until))}
        for name in arguments.attacks or ATTACKS:
            print(f"{name} …", file=sys.stderr, flush=True)
            report[name] = await beside(name, client, target, process)
        return report
    finally:
        await client.close()


def table(report: dict[str, Any]) -> str:
    """What was measured, for people."""
    alone = report["alone"]["times_ms"]
    rows = []
    for name, found in report.items():
        times = found["times_ms"]
        cells = [
            " / ".join(f"{times[kind][q]:.0f}" for q in ("p50", "p95", "p99")) for kind in ("update", "fetch")
        ]
        ratios = [
            " / ".join(f"{times[kind][q] / (alone[kind][q] or 1):.1f}" for q in ("p50", "p95", "p99"))
            for kind in ("update", "fetch")
        ]
        rss = " → ".join(str(size) for size in found.get("rss_mib", []))
        got = ", ".join(f"{key} {count:,}" for key, count in sorted(found.get("got", {}).items()))
        counts = [str(len(found["errors"])), str(found["retries"])]
        rows.append([name, cells[0], ratios[0], cells[1], ratios[1], *counts, rss, got])
    columns = ["beside", "update p50 / p95 / p99, ms", "ratio", "fetch, ms", "ratio", "errors", "again"]
    return markdown([*columns, "MiB before → peak → after", "attacker got"], rows)


def failures(report: dict[str, Any]) -> list[str]:
    """What the honest client should not have seen."""
    return [
        f"{name}: {len(found[when])} {when}, the first {found[when][0]}"
        for name, found in report.items()
        for when in ("errors", "errors_afterwards")
        if found.get(when)
    ]


def run(arguments: argparse.Namespace) -> int:
    """Start a service, measure, print; the exit code."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        settings: dict[str, Any] = {
            "data_dir": folder / "data",
            "server_head_seconds": arguments.limit_seconds,
            "server_body_seconds": arguments.limit_seconds,
            "server_metrics_open": True,
        }
        if arguments.store == "mongodb":
            settings["mongo_uri"] = stack.enter_context(mongo_uri(None))
        tokens = tuple(asyncio.run(made_key(settings, tenant))[1] for tenant in ("honest", "malicious"))
        service = ServiceProcess(folder, settings=settings)
        service.start()
        stack.callback(service.kill)
        assert service.process is not None
        report = asyncio.run(measure(service.address, (tokens[0], tokens[1]), service.process.pid, arguments))
        code = service.stop()
    print(table(report))
    if arguments.json:
        whole = {"machine": machine(), "store": arguments.store, "seconds": arguments.seconds, "runs": report}
        arguments.json.write_text(json.dumps(whole, indent=2) + "\n", encoding="utf-8")
    wrong = failures(report) + ([f"the service ended with {code}"] if code else [])
    for one in wrong:
        print(f"WRONG: {one}")
    return 1 if wrong else 0


def main(given: Sequence[str] | None = None) -> None:
    """Parse the command line and run."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("attacks", nargs="*", metavar="ATTACK", help=f"default: all of {', '.join(ATTACKS)}")
    parser.add_argument("--seconds", type=float, default=10.0, help="of each attack (default %(default)s)")
    parser.add_argument(
        "--scale", type=float, default=1.0, help="of connections and bodies (default %(default)s)"
    )
    parser.add_argument(
        "--limit-seconds", type=float, default=5.0, help="server_head_seconds and server_body_seconds"
    )
    parser.add_argument("--store", choices=("sqlite", "mongodb"), default="sqlite")
    parser.add_argument("--json", type=Path, help="a file to write the figures to")
    arguments = parser.parse_args(given)
    for name in arguments.attacks:
        if name not in ATTACKS:
            parser.error(f"there is no attack {name!r}; there are {', '.join(ATTACKS)}")
    sys.exit(run(arguments))


if __name__ == "__main__":
    main()
