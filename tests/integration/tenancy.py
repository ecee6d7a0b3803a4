"""Several tenants at one served service: their keys, their marks, and whatever an answer must not tell of others.

Every text carries the mark of its thread, and every id in an answer belongs to whoever it was told first. So whatever
crosses from one user to another is found in the bytes of an answer, whichever field it is in.
"""

from __future__ import annotations

import asyncio
import contextlib
import io
import itertools
import json
import logging
import re
from collections.abc import AsyncIterator, Collection, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final, NamedTuple, Self

import httpx

from memory_agent import MemoryConfig, MemoryService
from memory_agent.adapters import open_keys
from memory_agent.domain import Scope
from memory_agent.keys import new_key
from memory_agent.ports import KeyStore
from memory_agent.server.logs import JsonFormatter, NoExceptionTexts
from memory_agent.testing import HashEmbedder
from tests.integration.rest import segment
from tests.integration.streams import KINDS, Refused, listening
from tests.servers.service import Served, served

SECONDS: Final = 60
MARK: Final = re.compile("mq[a-j]{6}z")
UUID: Final = re.compile("[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
BETWEEN: Final = ("\x1f", "\\u001f", "\\x1f", "%1f", "\\u001F")
"""How the character between tenant and user could show itself."""
MCP_HEADERS: Final = {"Accept": "application/json, text/event-stream", "MCP-Protocol-Version": "2025-06-18"}


class Place(NamedTuple):
    """A thread of a tenant's user; without `thread` all of the user's."""

    tenant: str
    user: str
    thread: str | None = None

    @property
    def path(self) -> str:
        return f"/api/threads/{segment(self.user)}/{segment(self.thread or '')}"

    @property
    def owner_path(self) -> str:
        return f"/api/users/{segment(self.user)}"

    @property
    def owner(self) -> Place:
        return Place(self.tenant, self.user)

    @property
    def scope(self) -> Scope:
        return Scope.of(self.user, self.thread, tenant=self.tenant)


def mark_of(run: int, number: int) -> str:
    """A word that occurs nowhere else, in letters, so that nothing takes it for a number."""
    return "mq" + "".join(chr(ord("a") + int(digit)) for digit in f"{run:04}{number:02}") + "z"


@dataclass(frozen=True, kw_only=True)
class Caller:
    """Somebody with a key: of a tenant, perhaps of one of its users, perhaps to read only, perhaps with none that counts."""

    tenant: str
    token: str
    user: str | None = None
    read_only: bool = False
    counts: bool = True

    @property
    def headers(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {self.token}"}

    def refusal(self, place: Place, *, writes: bool) -> int | None:
        """With which status this caller is refused, whatever is asked; None if it is not."""
        if not self.counts:
            return 401
        if self.user not in (None, place.user) or (writes and self.read_only):
            return 403
        return None


@dataclass(frozen=True, kw_only=True)
class Answer:
    """What came back, over REST or MCP. A tool's failure counts as 422."""

    status: int
    text: str
    json: Any


def walked(value: Any) -> Iterator[tuple[str, Any]]:
    """All pairs of the objects in a JSON value."""
    if isinstance(value, dict):
        yield from value.items()
    for inner in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from walked(inner)


class Tenancy:
    """A served service, and what is known of whose is what."""

    def __init__(self, service: MemoryService, server: Served, keys: KeyStore, http: httpx.AsyncClient):
        self.service = service
        self.server = server
        self.keys = keys
        self.http = http
        self.marks: dict[Place, str] = {}
        self.owners: dict[str, Place] = {}
        self.log = io.StringIO()
        self.asked = 0

    # --- keys ------------------------------------------------------------------------------------------------
    async def caller(
        self, tenant: str, user: str | None = None, *, read_only: bool = False, expired: bool = False
    ) -> Caller:
        """Somebody with a new key."""
        made_at = datetime.now(UTC) - timedelta(days=1)
        expires = made_at + timedelta(hours=1) if expired else None
        key, token = new_key(tenant, user_id=user, read_only=read_only, expires_at=expires, now=made_at)
        await self.keys.put(key)
        return Caller(tenant=tenant, token=token, user=user, read_only=read_only, counts=not expired)

    async def revoke(self, caller: Caller) -> None:
        assert await self.keys.revoke(caller.token.split("_")[1], datetime.now(UTC))

    # --- what may be told ------------------------------------------------------------------------------------
    def threads_of(self, place: Place) -> set[str | None]:
        """The threads that an answer about `place` may tell of."""
        if place.thread is not None:
            return {place.thread}
        return {other.thread for other in self.marks if other.owner == place}

    def check(self, told: str, place: Place | None, *, asked: str = "", failed: bool = False) -> None:
        """Assert that `told` tells of nothing but `place`; where something failed also what was asked."""
        text = told.casefold()
        threads = set() if place is None else self.threads_of(place)
        allowed = {
            mark
            for other, mark in self.marks.items()
            if place and other.owner == place.owner and other.thread in threads
        }
        echoed = asked.casefold() if failed else ""
        strange = set(MARK.findall(text)) - allowed - set(MARK.findall(echoed))
        assert not strange, f"{place} was told of {self._whose(strange)}: {told[:2000]}"
        # Ids of people's own may hold these characters; then what is told does, too.
        own = "".join([asked, place.user, *map(str, threads)] if place else [asked]).casefold()
        if not any(between in own for between in BETWEEN):
            assert not any(between in text for between in BETWEEN), told
        for id_ in set(UUID.findall(text)) - set(UUID.findall(echoed)):
            owner = self.owners.get(id_)
            assert owner is None or (place and owner == place.owner), f"{place} got {id_} of {owner}: {told}"

    def _whose(self, marks: Collection[str]) -> list[Place]:
        return [place for place, mark in self.marks.items() if mark in marks]

    def _check_fields(self, value: Any, place: Place) -> None:
        threads = self.threads_of(place)
        for name, field in walked(value):
            assert name != "user_id" or field == place.user, (place, field)
            assert name != "thread_id" or field is None or field in threads, (place, field)

    def _own(self, text: str, place: Place) -> None:
        for id_ in UUID.findall(text):
            self.owners.setdefault(id_, place.owner)

    # --- asking ----------------------------------------------------------------------------------------------
    async def rest(
        self,
        caller: Caller,
        method: str,
        path: str,
        body: Any = None,
        *,
        about: Place,
        writes: bool = False,
        refuses: bool = True,
        **options: Any,
    ) -> Answer:
        """Ask over REST; the answer is about nothing but `about`, and with `refuses` a refusal where one is due."""
        self.asked += 1
        if body is not None:
            options["json"] = body
        options["headers"] = {**caller.headers, **options.pop("headers", {})}
        got = await self.http.request(method, path, **options)
        id_ = got.headers.pop("X-Request-Id")
        text = f"{sorted(got.headers.items())} {got.text}".replace(id_, "")
        asked = json.dumps([path, body, options.get("params")])
        answer = Answer(
            status=got.status_code,
            text=text,
            json=got.json() if "json" in got.headers.get("content-type", "") else None,
        )
        self._take(
            answer, caller, about, asked, due=caller.refusal(about, writes=writes) if refuses else None
        )
        return answer

    async def tool(
        self,
        caller: Caller,
        name: str,
        *,
        about: Place,
        writes: bool = False,
        refuses: bool = True,
        **arguments: Any,
    ) -> Answer:
        """Call an MCP tool over HTTP; the same."""
        self.asked += 1
        given = {"user_id": about.user, "thread_id": about.thread, **arguments}
        call = {"name": name, "arguments": given}
        body = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": call}
        got = await self.http.post("/mcp", json=body, headers={**caller.headers, **MCP_HEADERS})
        text = got.text.replace(got.headers.pop("X-Request-Id"), "")
        result = got.json().get("result", {})
        status, value = got.status_code, result.get("structuredContent")
        if result.get("isError"):
            said = result["content"][0]["text"]
            is_denied = said.startswith(("this key is for user", "this key may only read"))
            status, value = (403 if is_denied else 422), said
        answer = Answer(status=status, text=f"{sorted(got.headers.items())} {text}", json=value)
        asked = json.dumps(given)
        self._take(
            answer, caller, about, asked, due=caller.refusal(about, writes=writes) if refuses else None
        )
        return answer

    def _take(self, answer: Answer, caller: Caller, about: Place, asked: str, *, due: int | None) -> None:
        failed = answer.status >= 400
        assert due is None or answer.status == due, (due, answer)
        assert answer.status < 500, (answer, self.log.getvalue()[-3000:])
        is_allowed = caller.counts and due is None
        # An answer of the service tells of nobody but the key's own tenant.
        self.check(answer.text, about if is_allowed else None, asked=asked, failed=failed)
        if not failed:
            assert about.tenant == caller.tenant
            self._check_fields(answer.json, about)
            self._own(answer.text, about)

    # --- others ----------------------------------------------------------------------------------------------
    async def turns(self, place: Place) -> int:
        """How many turns the store counts there."""
        return (await self.service.status(place.scope)).turns

    async def check_public(self) -> None:
        """What is told without a key, and what is logged, is about nobody."""
        for path in ("/healthz", "/readyz", "/metrics"):
            got = await self.http.get(path)
            self.check(got.text, None)
            self._check_unnamed(got.text)
        logged = self.log.getvalue()
        self.log.seek(0)
        self.log.truncate()
        self.check(logged, None)
        self._check_unnamed(logged)

    def _check_unnamed(self, text: str) -> None:
        for place in self.marks:
            # As JSON would write it; short ids may stand in any text.
            assert len(place.user) < 4 or json.dumps(place.user)[1:-1] not in text, (place, text)

    @contextlib.contextmanager
    def logging(self) -> Iterator[None]:
        """Note what is logged as the service logs it, and more: ours from DEBUG on."""
        handler = logging.StreamHandler(self.log)
        handler.setFormatter(JsonFormatter())
        handler.addFilter(NoExceptionTexts())
        ours, root = logging.getLogger("memory_agent"), logging.getLogger()
        before = ours.level
        root.addHandler(handler)
        ours.setLevel(logging.DEBUG)
        try:
            yield
        finally:
            root.removeHandler(handler)
            ours.setLevel(before)


@contextlib.asynccontextmanager
async def tenancy_on(settings: Mapping[str, Any], **parts: Any) -> AsyncIterator[Tenancy]:
    """A service with topics and facts, served without limits of rate; what is said of a key counts at once.

    Threads are kept apart unless a request asks for all of a user's.
    """
    chosen = {"enable_topics": True, "enable_fact_extraction": True, "memory_scope": "thread"}
    cfg = MemoryConfig(**{**settings, **chosen})
    limits: dict[str, Any] = {"server_key_cache_seconds": 0, "server_requests_per_minute": 0}
    limits["server_failed_keys_per_minute"] = 0
    limits["server_metrics_open"] = True  # what it tells is looked at as well
    async with contextlib.AsyncExitStack() as stack:
        service = await stack.enter_async_context(MemoryService(cfg, **{"embedder": HashEmbedder(), **parts}))
        server = await stack.enter_async_context(served(service, **limits))
        keys = await open_keys(server.cfg, None, stack)
        http = await stack.enter_async_context(
            httpx.AsyncClient(
                base_url=server.address, timeout=SECONDS, limits=httpx.Limits(max_connections=None)
            )
        )
        tenancy = Tenancy(service, server, keys, http)
        stack.enter_context(tenancy.logging())
        yield tenancy


_KINDS: Final = itertools.cycle(KINDS)
"""Of the streams of events: one reader after the other takes each."""


class Reader:
    """Reads the events of a place until it is closed."""

    def __init__(self, tenancy: Tenancy, caller: Caller, place: Place, *, after: str | None) -> None:
        self._tenancy = tenancy
        self._caller = caller
        self.place = place
        self._after = after
        self.status = 0
        self.events: list[dict[str, Any]] = []
        self._begun = asyncio.Event()
        self._task = asyncio.create_task(self._read())

    @classmethod
    async def opened(cls, *args: Any, **options: Any) -> Self:
        """One that listens already, or was refused (`status`)."""
        reader = cls(*args, **options)
        await asyncio.wait_for(reader._begun.wait(), SECONDS)
        return reader

    async def close(self) -> BaseException | None:
        """Stop reading; what had gone wrong before."""
        self._task.cancel()
        await asyncio.wait([self._task])
        return None if self._task.cancelled() else self._task.exception()

    async def hear(self, turn_ids: Collection[str]) -> None:
        """Wait until it was told that these turns were stored."""
        async with asyncio.timeout(SECONDS):
            while not set(turn_ids) <= {event["turn_id"] for event in self.events}:
                if self._task.done():
                    self._task.result()
                    raise AssertionError("reading ended early")
                await asyncio.sleep(0.01)

    async def _read(self) -> None:
        query = "" if self._after is None else f"?after={segment(self._after)}"
        path = f"{self.place.path}/events{query}"
        try:
            address, headers = self._tenancy.server.address, self._caller.headers
            async with listening(address, headers, path, kind=next(_KINDS)) as stream:
                self.status = 200
                self._begun.set()
                while True:
                    self._take(await stream.next(patience=None))
        except Refused as refused:
            self.status = refused.status
            asked = json.dumps([self.place.user, self.place.thread, self._after])
            told = json.dumps(refused.problem | {"instance": ""})
            self._tenancy.check(told, None, asked=asked, failed=True)
        finally:
            self._begun.set()

    def _take(self, event: dict[str, Any]) -> None:
        self._tenancy.check(json.dumps(event), self.place)
        assert (event["user_id"], event["thread_id"]) == (self.place.user, self.place.thread)
        self.events.append(event)
