"""What stands between a socket and a handler, ours beside FastAPI alone: `python -m benchmarks.service_path`.

The same three calls twice: of the service as it is served (limits on connections, request ids, keys, limits, bodies,
metrics, spans, a line of log), and of a FastAPI application that has nothing but them, under uvicorn as it comes. Behind
both is a memory that answers at once, always the same: a receipt, and a context of a real size. Each is asked without a
socket, and over loopback by connections that ask again as soon as they are answered. In turns, so that both meet the same
machine: compare the ratios. Times of a request are processor time, of the process that answers.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import logging
import os
import pickle
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import psutil
import uvicorn
import uvloop
from fastapi import FastAPI, Header

from benchmarks.closed_loop import Refused, ask, request_bytes
from benchmarks.measure import machine
from benchmarks.texts import sentence
from memory_agent import MemoryConfig, MemoryService
from memory_agent.adapters import open_keys
from memory_agent.clock import SystemClock
from memory_agent.domain import UpdateReceipt
from memory_agent.keys import MAX_LIMIT, new_key
from memory_agent.server.app import create_app
from memory_agent.server.edge.run import bind, make_server
from memory_agent.server.logs import configure_logs
from memory_agent.wire import context as wire_context
from memory_agent.wire import turns as wire_turns
from memory_agent.wire.requests import Fetch, Update  # noqa: TC001 - FastAPI reads the annotations

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from starlette.types import ASGIApp

    from memory_agent.domain import MemoryContext

TURNS: Final = 120
"""Remembered before the context is taken that every fetch is answered with."""
QUESTION: Final = "What did I say about the old bicycle?"
THREAD: Final = "/api/threads/user_123/thread_abc"
EXCHANGE: Final = {"user_msg": sentence(1), "assistant_msg": "I see.", "metadata": {"channel": "app"}}
CALLS: Final[dict[str, tuple[str, str, Any]]] = {
    "healthz": ("GET", "/healthz", None),
    "update": ("POST", f"{THREAD}/update", EXCHANGE),
    "fetch": ("POST", f"{THREAD}/fetch", {"user_message": QUESTION}),
}
ROUNDS: Final = 8
CONNECTIONS: Final = 16


# --- the memory and the applications ------------------------------------------------------------------------------
class AtOnce:
    """A memory that has the answer."""

    def __init__(self, context: MemoryContext) -> None:
        self._context = context
        self._receipt = UpdateReceipt(turn_ids=("0198f3a2-7c11-7d35-9b1e-5a0c2f6f4e10",) * 2, seq=8)

    async def fetch_memory(self, *_: Any, **__: Any) -> MemoryContext:
        return self._context

    async def update_memory(self, *_: Any, **__: Any) -> UpdateReceipt:
        return self._receipt


class Answering(MemoryService):
    """A service whose memories have the answer."""

    memory: AtOnce

    def agent(self, user_id: str, thread_id: str, **options: Any) -> Any:
        super().agent(user_id, thread_id, **options)  # which looks at the ids
        return self.memory


async def a_context(folder: Path) -> MemoryContext:
    """The context of a conversation of some length."""
    async with MemoryService(MemoryConfig(data_dir=folder)) as service:
        memory = service.agent("user_123", "thread_abc")
        await memory.add_turns([{"role": "user", "content": sentence(number)} for number in range(TURNS)])
        await memory.settle(timeout=120)
        return await memory.fetch_memory(QUESTION)


def alone(memory: AtOnce) -> FastAPI:
    """FastAPI with these calls and nothing else."""
    app = FastAPI()
    key = Annotated[str | None, Header(alias="Idempotency-Key")]

    @app.get("/healthz")
    async def healthz() -> dict[str, str]:
        return {"status": "alive"}

    async def update(user_id: str, thread_id: str, body: Update, idempotency_key: key = None) -> Any:
        return wire_turns.UpdateReceipt.of(
            await memory.update_memory(user_id, thread_id, body, idempotency_key)
        )

    async def fetch(user_id: str, thread_id: str, body: Fetch) -> Any:
        return wire_context.MemoryContext.of(await memory.fetch_memory(user_id, thread_id, body))

    place = "/api/threads/{user_id}/{thread_id}"
    app.post(f"{place}/update", status_code=201, response_model=wire_turns.UpdateReceipt)(update)
    app.post(f"{place}/fetch", response_model=wire_context.MemoryContext)(fetch)
    return app


@contextlib.asynccontextmanager
async def serving(memory: AtOnce, folder: Path) -> AsyncIterator[tuple[MemoryConfig, MemoryService, str]]:
    """An open service with this memory, its settings, and a key's token; its log goes nowhere."""
    configure_logs("info")
    with Path(os.devnull).open("w", encoding="utf-8") as nowhere:  # noqa: ASYNC230 - nothing is written
        logging.getLogger().handlers[-1].setStream(nowhere)  # type: ignore[attr-defined]
        cfg = MemoryConfig(data_dir=folder)
        key, token = new_key("default", requests_per_minute=MAX_LIMIT, now=SystemClock().now())
        async with Answering(cfg) as service, contextlib.AsyncExitStack() as stack:
            await (await open_keys(cfg, None, stack)).put(key)
            service.memory = memory
            yield cfg, service, token


# --- without a socket ---------------------------------------------------------------------------------------------
async def called(app: ASGIApp, call: tuple[str, str, Any], token: str) -> int:
    """Ask an application as a server does; the bytes of its answer."""
    method, path, body = call
    content = b"" if body is None else json.dumps(body).encode()
    headers = {
        b"host": b"127.0.0.1",
        b"authorization": b"Bearer " + token.encode(),
        b"content-type": b"application/json",
        b"content-length": str(len(content)).encode(),
    }
    scope: dict[str, Any] = {
        "type": "http",
        "asgi": {"version": "3.0", "spec_version": "2.3"},
        "http_version": "1.1",
        "method": method,
        "scheme": "http",
        "path": path,
        "raw_path": path.encode(),
        "query_string": b"",
        "root_path": "",
        "headers": list(headers.items()),
        "client": ("127.0.0.1", 1),
        "server": ("127.0.0.1", 2),
        "state": {},
    }
    sent: list[Any] = []

    async def receive() -> Any:
        return {"type": "http.request", "body": content, "more_body": False}

    async def send(message: Any) -> None:
        sent.append(message)

    await app(scope, receive, send)
    if sent[0]["status"] >= 300:
        raise Refused(str(sent)[:600])
    return sum(len(message.get("body", b"")) for message in sent)


async def without_socket(memory: AtOnce, folder: Path, times: int) -> dict[str, Any]:
    """Microseconds of each call."""
    async with serving(memory, folder) as (cfg, service, token):
        app = create_app(cfg, service=service)
        apps: dict[str, ASGIApp] = {"ours": app, "alone": alone(memory)}
        async with app.router.lifespan_context(app):
            figures: dict[str, Any] = {}
            for name, call in CALLS.items():
                took: dict[str, list[float]] = {which: [] for which in apps}
                for _ in range(ROUNDS):
                    for which, asked in apps.items():
                        began = time.process_time()
                        for _ in range(times):
                            size = await called(asked, call, token)
                        took[which].append((time.process_time() - began) / times * 1e6)
                figures[name] = {"bytes": size, **compared(took)}
    return figures


def compared(took: dict[str, list[float]]) -> dict[str, float]:
    """The medians, and by how much ours is above the other."""
    medians = {which: statistics.median(each) for which, each in took.items()}
    shown = {f"{which}_us": round(median, 1) for which, median in medians.items()}
    return {**shown, "ratio": round(medians["ours"] / medians["alone"], 2)}


# --- over loopback ------------------------------------------------------------------------------------------------
async def serve(which: str, memory: AtOnce, folder: Path) -> None:
    """Answer until the process is ended; say where, and with which key."""
    async with serving(memory, folder) as (cfg, service, token):
        listening = bind("127.0.0.1", 0)
        if which == "ours":
            server: uvicorn.Server = make_server(
                lambda edge: create_app(cfg, edge=edge, service=service), cfg
            )
        else:
            server = uvicorn.Server(uvicorn.Config(alone(memory), log_level="warning", access_log=False))
        print(f"http://127.0.0.1:{listening.getsockname()[1]} {token}", flush=True)
        await server.serve(sockets=[listening])


@contextlib.contextmanager
def process(which: str, folder: Path) -> Iterator[tuple[psutil.Process, str, str]]:
    """A process that answers: itself, its address, a token."""
    command = [sys.executable, "-m", "benchmarks.service_path", "--serve", which, "--folder", str(folder)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as running:
        try:
            assert running.stdout is not None
            address, token = running.stdout.readline().split()
            yield psutil.Process(running.pid), address, token
        finally:
            running.kill()


async def over_loopback(folder: Path, seconds: float) -> dict[str, Any]:
    """Of each call, requests a second and microseconds of the server's processor time."""
    with contextlib.ExitStack() as stack:
        servers = {which: stack.enter_context(process(which, folder)) for which in ("ours", "alone")}
        figures: dict[str, Any] = {}
        for name, (method, path, body) in CALLS.items():
            took: dict[str, list[float]] = {which: [] for which in servers}
            rate: dict[str, list[float]] = {which: [] for which in servers}
            for _ in range(ROUNDS):
                for which, (server, address, token) in servers.items():
                    sent = request_bytes(method, path, body, Authorization=f"Bearer {token}")
                    before, began = sum(server.cpu_times()[:2]), time.perf_counter()
                    answers = await ask(
                        address, lambda *_, sent=sent: sent, connections=CONNECTIONS, seconds=seconds
                    )
                    took[which].append((sum(server.cpu_times()[:2]) - before) / len(answers) * 1e6)
                    rate[which].append(len(answers) / (time.perf_counter() - began))
            rates = {f"{which}_per_second": round(statistics.median(each)) for which, each in rate.items()}
            figures[name] = {**compared(took), **rates}
    return figures


# --- the command --------------------------------------------------------------------------------------------------
async def measured(arguments: argparse.Namespace, folder: Path) -> dict[str, Any]:
    """All figures."""
    context = await a_context(folder / "context")
    (folder / "context.pickle").write_bytes(pickle.dumps(context))
    return {
        "machine": machine(),
        "connections": CONNECTIONS,
        "without_socket": await without_socket(AtOnce(context), folder / "asgi", arguments.times),
        "over_loopback": await over_loopback(folder, arguments.seconds),
    }


def main() -> None:
    """Parse the command line and run."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    add = parser.add_argument
    add("--times", type=int, default=200, help="that each is called in each round (default %(default)s)")
    add("--seconds", type=float, default=1.0, help="of each round over loopback (default %(default)s)")
    add("--serve", choices=("ours", "alone"), help=argparse.SUPPRESS)
    add("--folder", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.serve:
        memory = AtOnce(pickle.loads((arguments.folder / "context.pickle").read_bytes()))
        uvloop.run(serve(arguments.serve, memory, arguments.folder / arguments.serve))
        return
    with tempfile.TemporaryDirectory() as folder:
        print(json.dumps(asyncio.run(measured(arguments, Path(folder))), indent=2))


if __name__ == "__main__":
    main()
