"""Cost of open live pages to an agent's calls: `python -m benchmarks.live_pages`.

`memory-agent serve` on an embedded memory of 50,200 turns, the real model, no worker. Clients that ask again as soon as they are
answered fetch, then write; in every second round 100 pages *Work* of all tenants are open beside them, read by a process of their own.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import multiprocessing
import statistics
import tempfile
import time
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

import httpx
import psutil

from benchmarks.measure import machine
from benchmarks.service_speed import calls, measured, place_of
from benchmarks.texts import sentence
from memory_agent import MemoryConfig, MemoryService
from memory_agent.adapters import open_keys
from memory_agent.clock import SystemClock
from memory_agent.domain import ALL_TENANTS
from memory_agent.inspect.work import MOST_STREAMS
from memory_agent.keys import MAX_LIMIT, new_key
from tests.servers.service import ServiceProcess

if TYPE_CHECKING:
    from collections.abc import Iterator
    from multiprocessing.synchronize import Event

TURNS: Final = 20
"""In each thread that is asked about."""
OTHERS: Final = 50
"""Users besides, of whom nobody asks; the page counts their turns as well."""
BULK: Final = 1_000
KEYS: Final = 10
"""By which the pages' readers sign in: a key has so many logins, and a login so many pages."""


async def fill(cfg: MemoryConfig, *, users: int, connections: int, others: int) -> None:
    """Store the turns, those that are asked about indexed."""
    async with MemoryService(cfg) as service:
        for connection in range(connections):
            _, user, thread = (
                part.replace("%20", " ") for part in place_of(connection, users)[5:].split("/")
            )
            memory = service.agent(user, thread)
            said = [{"role": "user", "content": sentence(connection * 1_000 + n)} for n in range(TURNS)]
            await memory.add_turns(said)
        await service.settle()
        await service.pause_worker()
        for other in range(others):
            said = [{"role": "user", "content": sentence(other * BULK + n)} for n in range(BULK)]
            await service.agent(f"other {other}", "thread").add_turns(said)


async def key_for_all(cfg: MemoryConfig) -> str:
    """The token of a new key for all tenants."""
    key, token = new_key(ALL_TENANTS, requests_per_minute=MAX_LIMIT, now=SystemClock().now())
    async with contextlib.AsyncExitStack() as stack:
        await (await open_keys(cfg, None, stack)).put(key)
    return token


def look(address: str, tokens: list[str], pages: int, ready: Event, done: Event) -> None:
    """Hold so many live pages open, and read what they are sent, until `done`."""
    asyncio.run(_look(address, tokens, pages, ready, done))


async def _look(address: str, tokens: list[str], pages: int, ready: Event, done: Event) -> None:
    host, port = urlsplit(address).hostname, urlsplit(address).port
    told = [0] * pages

    async def page(number: int, cookie: str) -> None:
        reader, writer = await asyncio.open_connection(host, port)
        head = f"GET /inspect/work/events HTTP/1.1\r\nHost: {host}:{port}\r\nCookie: {cookie}\r\n\r\n"
        writer.write(head.encode())
        while data := await reader.read(65_536):
            told[number] += data.count(b"live-counts")
        raise RuntimeError(f"a page's stream ended; it had {told[number]} readings")

    cookies = []
    async with httpx.AsyncClient(trust_env=False) as http:
        for login in range(-(-pages // MOST_STREAMS)):
            token = tokens[login % len(tokens)]
            answer = await http.post(f"{address}/inspect/sign-in", data={"key": token})
            cookies.append(answer.headers["Set-Cookie"].partition(";")[0])
    reading = [asyncio.create_task(page(n, cookies[n // MOST_STREAMS])) for n in range(pages)]
    while not done.is_set():
        for task in reading:
            if task.done():
                task.result()
        if all(told):
            ready.set()
        await asyncio.sleep(0.1)
    for task in reading:
        task.cancel()


async def run(arguments: argparse.Namespace) -> dict[str, Any]:
    """Medians of the rounds without pages and with them, and their ratio."""
    with tempfile.TemporaryDirectory() as folder:
        settings = {"data_dir": Path(folder) / "data", "server_requests_per_minute": 10_000_000}
        users, connections = arguments.users, arguments.connections
        cfg = MemoryConfig(**settings)
        await fill(cfg, users=users, connections=connections, others=arguments.others)
        tokens = [await key_for_all(cfg) for _ in range(KEYS)]
        service = ServiceProcess(Path(folder), settings={**settings, "run_worker": False})
        service.start()
        try:
            return await asyncio.to_thread(_rounds, arguments, service, tokens)
        finally:
            service.stop()


@contextlib.contextmanager
def _open_pages(address: str, tokens: list[str], pages: int) -> Iterator[None]:
    """So many pages, open as long as the block lasts. Raises RuntimeError if they did not stay so."""
    spawn = multiprocessing.get_context("spawn")
    ready, done = spawn.Event(), spawn.Event()
    looking = spawn.Process(target=look, args=(address, tokens, pages, ready, done))
    looking.start()
    try:
        if not ready.wait(120):
            raise RuntimeError("not every page has been told anything within two minutes")
        yield
    finally:
        done.set()
        looking.join()
    if looking.exitcode:
        raise RuntimeError("the pages did not stay open")


def _rounds(arguments: argparse.Namespace, service: ServiceProcess, tokens: list[str]) -> dict[str, Any]:
    served: Any = SimpleNamespace(apis=[service], addresses=[service.address])
    figures: dict[str, Any] = {"machine": machine(), "pages": arguments.pages}
    process = psutil.Process(service.process.pid if service.process else 0)
    with _open_pages(service.address, tokens, arguments.pages):
        used = sum(process.cpu_times()[:2])
        time.sleep(arguments.seconds)
        used = sum(process.cpu_times()[:2]) - used
    figures["percent_of_a_core_for_pages_alone"] = round(100 * used / arguments.seconds, 1)
    for call, made in calls(tokens[0], arguments.users).items():

        def asked(made: Any = made) -> dict[str, float]:
            asking = measured(served, made, connections=arguments.connections, seconds=arguments.seconds)
            return asyncio.run(asking)

        asked()  # the first calls load the model and the threads
        found: dict[str, list[dict[str, float]]] = {"without": [], "with": []}
        for number in range(2 * arguments.rounds):
            # Neither is always first, so that what drifts falls on both.
            which = "with" if number % 4 in (1, 2) else "without"
            pages = _open_pages(service.address, tokens, arguments.pages)
            with pages if which == "with" else contextlib.nullcontext():
                found[which].append(asked())
        figures[call] = {
            which: {name: round(statistics.median(each[name] for each in of), 2) for name in of[0]}
            for which, of in found.items()
        }
        ratio = figures[call]["with"]["per_second"] / figures[call]["without"]["per_second"]
        figures[call]["costs_percent"] = round(100 * (1 - ratio), 1)
    return figures


def main() -> None:
    """Parse the command line and run."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    add = parser.add_argument
    add("--pages", type=int, default=100, help="that are open (default %(default)s)")
    add("--connections", type=int, default=10, help="that ask at once (default %(default)s)")
    add("--users", type=int, default=10, help="that they are of (default %(default)s)")
    add("--others", type=int, default=OTHERS, help=f"users with {BULK:,} turns besides (default %(default)s)")
    add("--seconds", type=float, default=6.0, help="of each round (default %(default)s)")
    add("--rounds", type=int, default=5, help="of each call, with pages and without (default %(default)s)")
    print(json.dumps(asyncio.run(run(parser.parse_args())), indent=2))


if __name__ == "__main__":
    main()
