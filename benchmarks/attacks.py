"""Clients that mean harm, by name. `python -m benchmarks.abuse` runs each beside an honest client, a test a quick version.

An attack talks to a service until its time is up, over raw connections, and counts what it got: statuses as text, `closed`
for connections that ended without an answer, `refused` for those that could not be had.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import random
import socket
import sys
from collections import Counter
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote, urlsplit

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine

Got = Counter[str]

_CONNECT_SECONDS: Final = 5.0


@dataclass(frozen=True, kw_only=True, slots=True)
class Target:
    """Who is attacked, for how long, and how hard."""

    address: str
    token: str
    """A key of the attacker's own."""
    seconds: float
    scale: float = 1.0
    """Of the number of connections, and of the bytes of large bodies."""

    @property
    def port(self) -> int:
        """Where the service listens, on 127.0.0.1."""
        return urlsplit(self.address).port or 80

    def many(self, count: int) -> int:
        """So many of a full `count`."""
        return max(1, round(count * self.scale))

    @property
    def thread(self) -> str:
        """The attacker's own thread."""
        return f"/api/threads/{quote('mallory')}/den"


# --- how they talk -------------------------------------------------------------------------------------------


class Line:
    """A connection that can be written to as one likes."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    @classmethod
    async def open(cls, target: Target, *, receive_bytes: int = 0) -> Line:
        """Connect; `receive_bytes`: how little the kernel keeps for one who does not read (0: as usual)."""
        sock = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        try:
            if receive_bytes:
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_bytes)
            sock.setblocking(False)
            async with asyncio.timeout(_CONNECT_SECONDS):
                await asyncio.get_running_loop().sock_connect(sock, ("127.0.0.1", target.port))
            limit = 2**10 if receive_bytes else 2**16
            return cls(*await asyncio.open_connection(sock=sock, limit=limit))
        except BaseException:
            sock.close()
            raise

    async def send(self, data: bytes) -> None:
        """Write, and wait until it is taken."""
        self.writer.write(data)
        await self.writer.drain()

    async def answer(self) -> str:
        """The status of the next answer, whose body is read; `closed` without one."""
        try:
            head = await self.reader.readuntil(b"\r\n\r\n")
            for line in head.lower().split(b"\r\n"):
                if line.startswith(b"content-length:"):
                    await self.reader.readexactly(int(line.split(b":")[1]))
        except (asyncio.IncompleteReadError, asyncio.LimitOverrunError, ConnectionError):
            return "closed"
        return head.split(b" ", 2)[1].decode("ascii", "replace")

    def close(self) -> None:
        """Leave without a word."""
        self.writer.transport.abort()


def head(
    target: Target,
    method: str,
    path: str,
    *,
    length: int | None = None,
    token: str | None = None,
    more: str = "",
) -> bytes:
    """A request's head. `token`: "" for none, None for the attacker's own; `length` None: the body is chunked."""
    lines = [f"{method} {path} HTTP/1.1", "Host: service", "Content-Type: application/json"]
    key = target.token if token is None else token
    if key:
        lines.append(f"Authorization: Bearer {key}")
    lines.append("Transfer-Encoding: chunked" if length is None else f"Content-Length: {length}")
    return ("\r\n".join(lines) + "\r\n" + more + "\r\n").encode("latin-1")


def post(target: Target, path: str, body: bytes, *, token: str | None = None) -> bytes:
    """A whole request."""
    return head(target, "POST", target.thread + path, length=len(body), token=token) + body


async def _repeat(target: Target, count: int, once: Callable[[Line, Got], Awaitable[bool]]) -> Got:
    """Do `once` over and over on `count` connections; a connection is made anew where it says False, or breaks."""
    got: Got = Counter()

    async def one() -> None:
        while True:
            try:
                line = await Line.open(target)
            except (OSError, TimeoutError):
                got["refused"] += 1
                await asyncio.sleep(0.05)
                continue
            try:
                while await once(line, got):
                    pass
            except (ConnectionError, asyncio.IncompleteReadError):
                got["closed"] += 1
            finally:
                line.close()

    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(target.seconds), asyncio.TaskGroup() as group:
            for _ in range(count):
                group.create_task(one())
    return got


async def _requests(target: Target, count: int, requests: list[bytes]) -> Got:
    """Send whole requests at full speed."""
    chance = random.Random(7)

    async def once(line: Line, got: Got) -> bool:
        await line.send(chance.choice(requests))
        status = await line.answer()
        got[status] += 1
        return status != "closed"

    return await _repeat(target, count, once)


async def _until_answered(line: Line, got: Got, sending: Coroutine[Any, Any, None]) -> bool:
    """Go on sending until an answer comes, or the connection ends."""
    task = asyncio.create_task(sending)
    try:
        got[await line.answer()] += 1
    finally:
        task.cancel()
        await asyncio.wait({task})
        if not task.cancelled():
            task.exception()  # a connection that is gone is what was to be expected
    return False


# --- slow ----------------------------------------------------------------------------------------------------


async def slow_heads(target: Target) -> Got:
    """500 connections whose request's head never ends."""

    async def once(line: Line, got: Got) -> bool:
        async def dribble() -> None:
            await line.send(f"GET {target.thread}/stats HTTP/1.1\r\nX-Padding: ".encode())
            while True:
                await asyncio.sleep(0.5)
                await line.send(b"x")

        return await _until_answered(line, got, dribble())

    return await _repeat(target, target.many(500), once)


async def slow_bodies(target: Target) -> Got:
    """200 requests whose body of a megabyte comes a byte at a time."""

    async def once(line: Line, got: Got) -> bool:
        async def dribble() -> None:
            await line.send(head(target, "POST", f"{target.thread}/update", length=1_000_000))
            while True:
                await asyncio.sleep(0.5)
                await line.send(b" ")

        return await _until_answered(line, got, dribble())

    return await _repeat(target, target.many(200), once)


# --- big -----------------------------------------------------------------------------------------------------

_HUGE: Final = 100_000_000
_PIECE: Final = b"x" * 65_536


async def huge_announced(target: Target) -> Got:
    """Bodies of 100 MB that say so."""

    async def once(line: Line, got: Got) -> bool:
        async def pour() -> None:
            await line.send(head(target, "POST", f"{target.thread}/update", length=_HUGE))
            for _ in range(_HUGE // len(_PIECE)):
                await line.send(_PIECE)

        return await _until_answered(line, got, pour())

    return await _repeat(target, target.many(8), once)


async def huge_chunked(target: Target) -> Got:
    """Bodies of 100 MB that don't."""

    async def once(line: Line, got: Got) -> bool:
        async def pour() -> None:
            await line.send(head(target, "POST", f"{target.thread}/update"))
            for _ in range(_HUGE // len(_PIECE)):
                await line.send(b"%x\r\n%s\r\n" % (len(_PIECE), _PIECE))

        return await _until_answered(line, got, pour())

    return await _repeat(target, target.many(8), once)


async def held_bodies(target: Target) -> Got:
    """250 bodies of 8 MB that come but for their last byte, to fill the memory."""
    size = max(300_000, int(7_900_000 * target.scale))

    async def once(line: Line, got: Got) -> bool:
        async def pour() -> None:
            await line.send(head(target, "POST", f"{target.thread}/update", length=size))
            for _ in range((size - 1) // len(_PIECE)):
                await line.send(_PIECE)
            await asyncio.sleep(target.seconds)

        return await _until_answered(line, got, pour())

    return await _repeat(target, target.many(250), once)


async def connections(target: Target) -> Got:
    """10,000 connections, opened 200 at a time, that say nothing and are held open."""
    got: Got = Counter()
    lines: list[Line] = []
    room = asyncio.Semaphore(200)

    async def one() -> None:
        async with room:
            try:
                lines.append(await Line.open(target))
                got["opened"] += 1
            except (OSError, TimeoutError):
                got["refused"] += 1

    try:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(target.seconds):
                await asyncio.gather(*(one() for _ in range(target.many(10_000))))
                await asyncio.sleep(target.seconds)
        got["closed"] = sum(line.reader.at_eof() or line.reader.exception() is not None for line in lines)
    finally:
        for line in lines:
            line.close()
    return got


# --- broken --------------------------------------------------------------------------------------------------


async def bad_utf8(target: Target) -> Got:
    """Bodies and paths that are no UTF-8, as fast as they are answered."""
    bodies = [b'{"user_msg": "\xff\xfe", "assistant_msg": "x"}', b"\xc3\x28", b'{"user_msg": "\xed\xa0\x80"}']
    requests = [post(target, "/update", body) for body in bodies]
    paths = ("/api/threads/%ff%fe/x/stats", "/api/threads/mallory/%C3%28/stats", "/api/threads/%zz/x/stats")
    requests += [head(target, "GET", path, length=0) for path in paths]
    return await _requests(target, target.many(8), requests)


async def deep_json(target: Target) -> Got:
    """JSON of 100,000 levels, and 8 MB of opening brackets."""
    size = max(1_000, int(7_900_000 * target.scale))
    deep = b'{"user_msg": ' + b"[" * 100_000 + b"]" * 100_000 + b', "assistant_msg": "x"}'
    objects = b'{"a":' * 100_000 + b"1" + b"}" * 100_000
    level = b'{"user_msg": "x", "assistant_msg": "y", "metadata": {"a": ' + b"[" * 900 + b"]" * 900 + b"}}"
    bodies = [deep, objects, level, b"[" * size]
    return await _requests(target, target.many(8), [post(target, "/update", body) for body in bodies])


async def huge_numbers(target: Target) -> Got:
    """Numbers of a million digits, and beyond what any type holds."""
    numbers = (b"9" * 1_000_000, b"9" * 4_000, b"1e999999999", b"-1e400", b"NaN", b"Infinity")
    form = b'{"user_msg": "x", "assistant_msg": "y", "importance": %s}'
    about = b'{"user_msg": "x", "assistant_msg": "y", "metadata": {"n": %s}}'
    requests = [post(target, "/update", shape % number) for shape in (form, about) for number in numbers]
    return await _requests(target, target.many(8), requests)


async def wrong_millions(target: Target) -> Got:
    """8 MB bodies with a million mistakes each."""
    size = max(1_000, int(7_900_000 * target.scale))
    many = {
        "/turns/bulk": [b'{"turns": [%s]}' % _filled(b"1", size), b'{"turns": [%s]}' % _filled(b"{}", size)],
        "/update": [
            b"{%s}" % b",".join(b'"k%d":0' % n for n in range(size // 12)),
            b'{"user_msg": "x", "assistant_msg": "y", "metadata": {"a": [%s]}}' % _filled(b"1", size),
            b'{"user_msg": "%s", "assistant_msg": "y"}' % (b"\\u200b" * min(1_000_000, size // 6)),
        ],
        "/facts/add": [b'{"path": "a", "value": [%s]}' % _filled(b"[]", size)],
    }
    requests = [post(target, path, body) for path, bodies in many.items() for body in bodies]
    return await _requests(target, target.many(8), requests)


def _filled(value: bytes, size: int) -> bytes:
    return b",".join([value] * (size // (len(value) + 1)))


# --- greedy --------------------------------------------------------------------------------------------------


async def bulk(target: Target) -> Got:
    """10,000 turns in a request, one after the other, over two connections."""
    turns = [
        {"role": "user", "content": f"Line {n} of a long log that nobody will ever read."}
        for n in range(target.many(10_000))
    ]
    return await _requests(target, 2, [post(target, "/turns/bulk", json.dumps({"turns": turns}).encode())])


async def readers(target: Target) -> Got:
    """100 event streams that never read, while much happens."""
    got: Got = Counter()
    stream_head = head(
        target, "GET", f"{target.thread}/events", length=0, more="Accept: text/event-stream\r\n"
    )
    lines = []
    try:
        for _ in range(target.many(100)):
            try:
                line = await Line.open(target, receive_bytes=2_048)
                await line.send(stream_head)
                lines.append(line)
                got["opened"] += 1
            except OSError:
                got["refused"] += 1
        turns = [{"role": "user", "content": f"News {n}"} for n in range(100)]
        request = post(target, "/turns/bulk", json.dumps({"turns": turns}).encode())
        got += await _requests(target, 1, [request])
    finally:
        for line in lines:
            line.close()
    return got


async def no_key(target: Target) -> Got:
    """Requests without a key, as fast as they are answered."""
    return await _requests(target, target.many(16), [post(target, "/update", b"{}", token="")])


async def wrong_keys(target: Target) -> Got:
    """Requests with keys that look right and are none, each another one."""
    alphabet = "abcdefghijklmnopqrstuvwxyz234567"
    chance = random.Random(11)

    async def once(line: Line, got: Got) -> bool:
        key, secret = ("".join(chance.choices(alphabet, k=size)) for size in (16, 52))
        await line.send(post(target, "/update", b"{}", token=f"ma_{key}_{secret}"))
        status = await line.answer()
        got[status] += 1
        return status != "closed"

    return await _repeat(target, target.many(16), once)


ATTACKS: Final[dict[str, Callable[[Target], Coroutine[Any, Any, Got]]]] = {
    attack.__name__: attack
    for attack in (
        slow_heads,
        slow_bodies,
        huge_announced,
        huge_chunked,
        held_bodies,
        connections,
        bad_utf8,
        deep_json,
        huge_numbers,
        wrong_millions,
        bulk,
        readers,
        no_key,
        wrong_keys,
    )
}


def job(name: str, target: Target) -> str:
    """For the standard input of `python -m benchmarks.attacks`."""
    return json.dumps({"name": name, **asdict(target)})


def main() -> None:
    """Run the attack that standard input names, and print what it got as JSON."""
    given = json.load(sys.stdin)
    attack = ATTACKS[given.pop("name")]
    with contextlib.suppress(ImportError, ValueError, OSError):
        import resource

        _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    print(json.dumps(asyncio.run(attack(Target(**given)))))


if __name__ == "__main__":
    main()
