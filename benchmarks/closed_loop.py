"""Clients of a service that ask again as soon as they are answered, and cost next to nothing themselves.

An HTTP library's client takes longer for a request than the service that is measured. These write bytes that were made before,
and read an answer by its Content-Length.
"""

from __future__ import annotations

import asyncio
import json
import time
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable


def request_bytes(method: str, path: str, body: Any = None, **headers: str) -> bytes:
    """A request as it goes over the wire; `headers` by their names with '_' for '-'."""
    content = b"" if body is None else json.dumps(body).encode()
    told = {"Host": "127.0.0.1", **{name.replace("_", "-"): value for name, value in headers.items()}}
    if body is not None:
        told |= {"Content-Type": "application/json", "Content-Length": str(len(content))}
    lines = [f"{method} {path} HTTP/1.1", *(f"{name}: {value}" for name, value in told.items())]
    return "\r\n".join([*lines, "", ""]).encode() + content


class Refused(Exception):
    """An answer that is not good; the text has its beginning."""


async def ask(
    address: str, request: Callable[[int, int], bytes], *, connections: int, seconds: float
) -> list[float]:
    """Seconds of every request of a closed loop. `request(connection, number)` makes one. Raises Refused."""
    host, port = address.removeprefix("http://").split(":")
    until = time.perf_counter() + seconds
    took: list[float] = []

    async def client(connection: int) -> None:
        reader, writer = await asyncio.open_connection(host, int(port), limit=2**24)
        number = 0
        while (began := time.perf_counter()) < until:
            writer.write(request(connection, number))
            await _answered(reader)
            took.append(time.perf_counter() - began)
            number += 1
        writer.close()
        await writer.wait_closed()

    async with asyncio.TaskGroup() as group:
        for connection in range(connections):
            group.create_task(client(connection))
    return took


async def _answered(reader: asyncio.StreamReader) -> None:
    head = await reader.readuntil(b"\r\n\r\n")
    _, found, rest = head.lower().partition(b"content-length:")
    body = await reader.readexactly(int(rest.partition(b"\r\n")[0])) if found else b""
    if not head.startswith(b"HTTP/1.1 2"):
        raise Refused((head + body)[:600].decode("utf-8", "replace"))
