"""How other tenants fare beside abusive clients: `python -m benchmarks.abuse [--seconds S] [ATTACK …]`.

One `memory-agent serve`, embedded, behind nginx with `config/nginx.conf`, of which only addresses and folders are changed. Prints an
honest client's times by itself and beside each attack, from the moment at which a request was due. The exit code is 1 if one failed,
or if it waited more than 0.2 s longer at p95 than by itself just before.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import functools
import multiprocessing
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

import httpx
import psutil

from benchmarks.measure import machine, markdown, percentiles
from benchmarks.texts import sentence
from tests.servers.deployment import made_key
from tests.servers.mongod import free_port
from tests.servers.service import ServiceProcess

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

PACE_SECONDS: Final = 0.5
MOST_EXTRA_MS: Final = 200
NGINX_CONF: Final = Path(__file__).parents[1] / "config" / "nginx.conf"

# --- attacks -------------------------------------------------------------------------------------------------
UPDATE: Final = "/api/threads/mallory/den/update"
BULK: Final = "/api/threads/mallory/den/turns/bulk"


def head(token: str, length: int, path: str = UPDATE) -> bytes:
    """A POST's head."""
    lines = [f"POST {path} HTTP/1.1", "Host: service", "Content-Type: application/json"]
    lines += [f"Content-Length: {length}", f"Authorization: Bearer {token}", "\r\n"]
    return "\r\n".join(lines).encode()


def _post(token: str, path: str, body: bytes, *, held: int = 0) -> list[bytes]:
    """A request in pieces; `held`: how many bytes at its end never come."""
    whole = head(token, len(body), path) + body
    return [whole[at : at + len(PIECE)] for at in range(0, len(whole) - held, len(PIECE))]


def _dribbled(first: bytes, piece: bytes) -> list[bytes]:
    return [first, *[piece] * 1_000_000]


SIZE: Final = 7_900_000
PIECE: Final = b"x" * 65_536
PIECE_SECONDS: Final = 0.008
"""From one to the next: a connection sends 8 MB a second, 40 of them more than most networks carry."""
ATTACKS: Final[dict[str, tuple[int, Callable[[str], list[bytes]]]]] = {
    # How many connections, and what each sends, half a second after every small piece.
    "slow_heads": (300, lambda token: _dribbled(b"GET / HTTP/1.1\r\nX-Padding: ", b"x")),
    "slow_bodies": (200, lambda token: _dribbled(head(token, 1_000_000), b" ")),
    "idle": (1_100, lambda token: []),
    "large_bodies": (40, lambda token: _post(token, UPDATE, b'{"user_msg": "%s"}' % (b"x" * SIZE))),
    "large_lists": (40, lambda token: _post(token, BULK, b'{"turns": [%s]}' % b",".join([b"{}"] * (SIZE // 3)))),
    "held_bodies": (40, lambda token: _post(token, UPDATE, b"x" * SIZE, held=70_000)),
}  # fmt: skip


async def attack(name: str, address: str, token: str, seconds: float) -> Counter[str]:
    """Run an attack; the statuses that it got, and how many connections were closed or refused."""
    count, what = ATTACKS[name]
    pieces, port, got = what(token), urlsplit(address).port, Counter[str]()

    async def pour(writer: asyncio.StreamWriter) -> None:
        for piece in pieces:
            writer.write(piece)
            await writer.drain()
            await asyncio.sleep(0.5 if len(piece) < 100 else PIECE_SECONDS)
        await asyncio.sleep(seconds)

    async def one() -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        pouring = asyncio.create_task(pour(writer))
        try:
            got[(await reader.readuntil(b"\r\n")).split()[1].decode()] += 1
        finally:
            pouring.cancel()
            await asyncio.wait({pouring})
            writer.transport.abort()

    async def repeat() -> None:
        while True:
            try:
                await one()
            except asyncio.IncompleteReadError:
                got["closed"] += 1
            except OSError as exc:
                got["reset" if isinstance(exc, ConnectionResetError) else "refused"] += 1
                await asyncio.sleep(0.05)

    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(seconds), asyncio.TaskGroup() as group:
            for _ in range(count):
                group.create_task(repeat())
    return got


def attacked(name: str, address: str, token: str, seconds: float) -> Counter[str]:
    """`attack`, in a process of its own."""
    return asyncio.run(attack(name, address, token, seconds))


# --- the honest client ---------------------------------------------------------------------------------------


async def honest(http: httpx.AsyncClient, user: str, seconds: float) -> dict[str, Any]:
    """A client that updates and fetches at a steady pace: p50, p95 and the longest of each in milliseconds, and what failed."""
    times: dict[str, list[float]] = {"update": [], "fetch": []}
    errors: list[str] = []

    async def pair(number: int, due: float) -> None:
        said = {"user_msg": f"{user} {number}: {sentence(number)}", "assistant_msg": "I see."}
        asked = {"user_message": f"What does {user} say about {sentence(number + 10**6)}?"}
        for what, body in (("update", said), ("fetch", asked)):
            try:
                answer = await http.post(f"/api/threads/{user}/diary/{what}", json=body)
                answer.raise_for_status()
                times[what].append(time.perf_counter() - due)
            except httpx.HTTPError as exc:
                errors.append(f"{what}: {exc!r:.100}")
            due = time.perf_counter()

    began, tasks = time.perf_counter(), list[asyncio.Task[None]]()
    while time.perf_counter() < began + seconds:
        due = began + PACE_SECONDS * len(tasks)
        await asyncio.sleep(max(0.0, due - time.perf_counter()))
        tasks.append(asyncio.create_task(pair(len(tasks), due)))
    await asyncio.gather(*tasks)
    return {**{what: percentiles(found, 50, 95, 100) for what, found in times.items()}, "errors": errors}


async def measure(address: str, tokens: Sequence[str], pid: int, given: argparse.Namespace) -> dict[str, Any]:
    """The honest client by itself, then beside an attack, for each."""
    process, report = psutil.Process(pid), dict[str, Any]()
    # Forked, and giving way, for it stands for other machines.
    fork, give_way = multiprocessing.get_context("fork"), functools.partial(os.nice, 10)
    with ProcessPoolExecutor(1, mp_context=fork, initializer=give_way) as others:
        others.submit(os.getpid).result()
        key = {"Authorization": f"Bearer {tokens[0]}"}
        async with httpx.AsyncClient(base_url=address, headers=key, timeout=30, trust_env=False) as http:
            await honest(http, "warming up", 3.0)
            for name in given.attacks or ATTACKS:
                # A new user each time, or later runs would have more to read.
                alone = await honest(http, f"before {name}", given.seconds)
                told = asyncio.wrap_future(
                    others.submit(attacked, name, address, tokens[1], given.seconds + 1)
                )
                beside = await honest(http, f"beside {name}", given.seconds)
                mib = round(process.memory_info().rss / 2**20)
                report[name] = {"alone": alone, "beside": beside, "got": await told, "mib": mib}
    return report


# --- what is attacked ----------------------------------------------------------------------------------------


def start_nginx(service: str, folder: Path, stack: ExitStack) -> str:
    """nginx as it is shipped, but for addresses and folders, in front of the service until the stack ends; its address."""
    program = shutil.which("nginx", path="/usr/sbin:/usr/bin:/usr/local/sbin:/usr/local/bin")
    if program is None:
        raise SystemExit("nginx is not installed (Debian: nginx-light)")
    port = free_port()
    text = NGINX_CONF.read_text(encoding="utf-8")
    places = {"/tmp/": f"{folder}/", "/var/cache/nginx": str(folder)}
    places |= {"http://api:8080": service, "listen 8080": f"listen 127.0.0.1:{port}"}
    for ours, theirs in places.items():
        assert ours in text
        text = text.replace(ours, theirs)
    written = folder / "nginx.conf"
    written.write_text(text, encoding="utf-8")
    # Root's temporary folder is for root alone.
    process = subprocess.Popen([program, "-e", "stderr", "-c", str(written), "-g", "daemon off; user root;"])
    stack.callback(process.wait)
    stack.callback(process.terminate)
    while socket.socket().connect_ex(("127.0.0.1", port)):
        if process.poll() is not None:
            raise SystemExit("nginx ended")
        time.sleep(0.05)
    return f"http://127.0.0.1:{port}"


def run(given: argparse.Namespace) -> dict[str, Any]:
    """Start what is attacked, and measure."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        settings: dict[str, Any] = {"data_dir": folder / "data", "run_worker": False}
        tokens = [asyncio.run(made_key(settings, tenant))[1] for tenant in ("honest", "malicious")]
        service = ServiceProcess(folder, settings=settings)
        service.start()
        stack.callback(service.kill)
        assert service.process is not None
        address = start_nginx(service.address, folder, stack)
        return asyncio.run(measure(address, tokens, service.process.pid, given))


def table(report: dict[str, Any]) -> str:
    """What was measured, for people."""
    rows = []
    for name, found in report.items():
        times = [
            " / ".join(f"{ms:.0f}" for ms in found[when][what].values())
            for what in ("update", "fetch")
            for when in ("alone", "beside")
        ]
        got = ", ".join(f"{status} {count:,}" for status, count in sorted(found["got"].items()))
        rows.append([name, *times, str(len(found["beside"]["errors"])), str(found["mib"]), got])
    columns = ["attack", "update alone: p50 / p95 / longest, ms", "beside", "fetch alone", "beside", "errors"]
    return markdown([*columns, "service, MiB", "what the attacker got"], rows)


def failures(report: dict[str, Any]) -> list[str]:
    """Where the honest client failed, or waited too long."""
    wrong = []
    for name, found in report.items():
        alone, beside = found["alone"], found["beside"]
        wrong += [f"{name}: {error}" for error in beside["errors"][:1]]
        for what in ("update", "fetch"):
            more = beside[what].get("p95_ms", 0) - alone[what].get("p95_ms", 0)
            if more > MOST_EXTRA_MS:
                wrong.append(f"{name}: p95 of {what} is {more:.0f} ms longer")
    return wrong


def main() -> None:
    """Parse the command line and run."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("attacks", nargs="*", metavar="ATTACK", help=f"default: all of {', '.join(ATTACKS)}")
    parser.add_argument("--seconds", type=float, default=10.0, help="of each (default %(default)s)")
    given = parser.parse_args()
    report = run(given)
    print(f"{machine()}\n{table(report)}")
    wrong = failures(report)
    print(*(f"WRONG: {one}" for one in wrong), sep="\n")
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main()
