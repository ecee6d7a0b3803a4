"""What stands between a socket and a handler, ours beside FastAPI alone: `python -m benchmarks.service_path`.

The same three routes twice: in the service as it is served (edge, request ids, keys, limits, bodies, metrics, a span, a
log), and in a FastAPI application that has nothing but them, under uvicorn as it comes. Behind both is a memory that
answers at once, always the same: a receipt, and a context of a real size. Each is asked without a socket (microseconds of
processor time a request), and by connections that ask again as soon as they are answered (requests a second, and the
server's processor time). Turn by turn, so that both meet the same machine; the ratios are what to compare.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import logging
import multiprocessing
import os
import socket
import statistics
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated, Any, Final

import psutil
import uvicorn
from fastapi import FastAPI, Header

from benchmarks.measure import machine
from benchmarks.service_asking import Asked, ask, percentiles_of
from benchmarks.speed import sentence
from memory_agent import MemoryConfig, MemoryService
from memory_agent.adapters import open_keys
from memory_agent.clock import SystemClock
from memory_agent.domain import MemoryContext, UpdateReceipt
from memory_agent.keys import MAX_LIMIT, new_key
from memory_agent.server.app import create_app
from memory_agent.server.edge.run import bind, make_server
from memory_agent.server.logs import configure_logs
from memory_agent.wire import context as wire_context
from memory_agent.wire import turns as wire_turns
from memory_agent.wire.requests import Fetch, Update

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Mapping

    from starlette.types import ASGIApp

TURNS: Final = 120
"""Remembered before the context is taken that every fetch is answered with."""
THREAD: Final = "/api/threads/user_123/thread_abc"
REQUESTS: Final[Mapping[str, tuple[str, str, Any]]] = {
    "healthz": ("GET", "/healthz", None),
    "update": (
        "POST",
        f"{THREAD}/update",
        {
            "user_msg": "Which flights go to Lisbon on Friday?",
            "assistant_msg": "There are three: 08:10, 12:45 and 19:30.",
            "metadata": {"channel": "app"},
        },
    ),
    "fetch": ("POST", f"{THREAD}/fetch", {"user_message": "What did I say about the old bicycle?"}),
}


class AtOnce:
    """A memory that has the answer."""

    context: MemoryContext
    receipt = UpdateReceipt(turn_ids=("0198f3a2-7c11-7d35-9b1e-5a0c2f6f4e10",) * 2, seq=8)

    async def fetch_memory(self, *_: Any, **__: Any) -> MemoryContext:
        return self.context

    async def update_memory(self, *_: Any, **__: Any) -> UpdateReceipt:
        return self.receipt


class Answering(MemoryService):
    """A service whose memories have the answer."""

    memory = AtOnce()

    def agent(self, user_id: str, thread_id: str, **options: Any) -> Any:
        super().agent(user_id, thread_id, **options)  # which looks at the ids
        return self.memory


async def _a_context(cfg: MemoryConfig) -> MemoryContext:
    async with MemoryService(cfg) as service:
        memory = service.agent("user_123", "thread_abc")
        await memory.add_turns([{"role": "user", "content": sentence(number)} for number in range(TURNS)])
        await memory.settle(timeout=120)
        return await memory.fetch_memory("What did I say about the old bicycle?")


def alone(memory: AtOnce) -> FastAPI:
    """FastAPI with these routes and nothing else."""
    app = FastAPI()

    @app.get("/healthz")
    async def healthz() -> dict[str, str]:
        return {"status": "alive"}

    @app.post("/api/threads/{user_id}/{thread_id}/update", status_code=201)
    async def update(
        user_id: str, thread_id: str, body: Update, idempotency_key: Annotated[str | None, Header()] = None
    ) -> wire_turns.UpdateReceipt:  # type: ignore[valid-type]  # made at run time
        told = await memory.update_memory(user_id, thread_id, body, idempotency_key)
        return wire_turns.UpdateReceipt.of(told)

    @app.post("/api/threads/{user_id}/{thread_id}/fetch")
    async def fetch(user_id: str, thread_id: str, body: Fetch) -> wire_context.MemoryContext:
        return wire_context.MemoryContext.of(await memory.fetch_memory(user_id, thread_id, body))

    return app
