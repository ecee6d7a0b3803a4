"""One process of clients that talk to a service over HTTP, and note what they were told.

`python -m benchmarks.service_load` starts several: `python -m benchmarks.service_clients` reads a job as JSON from its
standard input and writes a line of JSON for every exchange, every request and, in the end, for itself into the job's
file. A client sends its next exchange when the one before is acknowledged. It keeps trying, at the services in turn, under
the same idempotency key, until it is.

Whether what they were told and what the service holds in the end agree, `discrepancies` says, which asks no service.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import random
import sys
import time
from collections import Counter
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TextIO
from urllib.parse import quote

import httpx

from benchmarks.texts import sentence

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

PASSING: Final = frozenset({429, 502, 503})
"""Statuses after which the same request may be sent again."""
LONGEST_PAUSE_SECONDS: Final = 2.0
GROUP: Final = 4
"""So many clients are one user: each has a thread of its own, and all share another one."""
SHARED_EVERY: Final = 5
"""Every so many exchanges one goes into the shared thread."""
_TAILS: Final = (
    "",
    " 海の見える部屋がいい。",
    " 🜁 ça va?",
    "\n\n  two lines, indented\t",
    ' "quoted" \\ <b>&amp;</b>',
)
"""Ends of texts, by turns: what is easily lost on the way through JSON, HTTP or a store."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Exchange:
    """An exchange that a client sent, as often as it took, under one idempotency key."""

    client: int
    number: int
    """From 0, within its client."""
    tenant: str
    user: str
    thread: str
    began: float
    """When it was sent for the first time, in seconds of a clock that all clients share."""
    acked: float | None
    """When the answer came; None: the client gave up, and knows nothing."""
    turn_ids: tuple[str, ...] = ()
    """As the receipt says; empty without one."""
    seq: int = 0
    attempts: int = 1

    @property
    def place(self) -> tuple[str, str, str]:
        """Where it was said: tenant, user and thread."""
        return self.tenant, self.user, self.thread

    @property
    def key(self) -> str:
        """Its idempotency key."""
        return f"client {self.client} exchange {self.number}"

    def as_json(self) -> dict[str, Any]:
        """For a line of a file; `from_json` reads it."""
        return asdict(self)

    @classmethod
    def from_json(cls, line: Mapping[str, Any]) -> Exchange:
        """What `as_json` gave."""
        return cls(**{**line, "turn_ids": tuple(line["turn_ids"])})


def texts(client: int, number: int) -> tuple[str, str]:
    """What the user says and what the assistant answers in an exchange; no two exchanges share a text."""
    about = 100_003 * client + 2 * number
    tail = _TAILS[(client + number) % len(_TAILS)]
    name = f"[{client}-{number}]"
    return f"{name} {sentence(about)}{tail}", f"{name} So you say: {sentence(about + 1)}{tail}"


def discrepancies(sent: Sequence[Exchange], found: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """What is wrong with one thread, a sentence each.

    `sent`: the exchanges of this thread, in any order. `found`: its turns in the order in which the service lists them,
    each with `id`, `seq`, `role` and `content`. Acknowledged exchanges must be there once, as the receipt says, those
    without a receipt at most once. If one exchange was acknowledged before another was sent at all, it stands before
    that one.
    """
    yield from _wrong_order(found)
    turns = {(turn["role"], turn["content"]): turn for turn in found}
    counts = Counter((turn["role"], turn["content"]) for turn in found)
    expected = set()
    for exchange in sent:
        for role, content in zip(("user", "assistant"), texts(exchange.client, exchange.number), strict=True):
            expected.add((role, content))
            count = counts[role, content]
            if count > 1:
                yield f"{exchange.key}: the {role}'s turn is there {count} times"
            if count == 0 and exchange.acked is not None:
                yield f"{exchange.key}: the {role}'s turn was acknowledged and is not there as it was sent"
        yield from _unlike_its_receipt(exchange, turns)
    for turn in found:
        if (turn["role"], turn["content"]) not in expected:
            yield f"turn {turn['id']} (seq {turn['seq']}) is none that was sent: {turn['content']!r:.120}"
    yield from _overtaken(sent, turns)


def _wrong_order(found: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    for before, after in itertools.pairwise(found):
        if after["seq"] <= before["seq"]:
            yield f"turn {after['id']} with seq {after['seq']} is listed after seq {before['seq']}"
    for id_, count in Counter(turn["id"] for turn in found).items():
        if count > 1:
            yield f"the id {id_} is there {count} times"


def _unlike_its_receipt(
    exchange: Exchange, turns: Mapping[tuple[str, str], Mapping[str, Any]]
) -> Iterator[str]:
    user, assistant = texts(exchange.client, exchange.number)
    asked, answered = turns.get(("user", user)), turns.get(("assistant", assistant))
    if asked is not None and answered is not None and asked["seq"] >= answered["seq"]:
        yield f"{exchange.key}: the answer (seq {answered['seq']}) stands before the question ({asked['seq']})"
    if exchange.acked is None or asked is None or answered is None:
        return
    if exchange.turn_ids != (asked["id"], answered["id"]):
        yield f"{exchange.key}: the receipt names {exchange.turn_ids}, stored are {asked['id']}, {answered['id']}"
    if exchange.seq != answered["seq"]:
        yield f"{exchange.key}: the receipt says seq {exchange.seq}, stored is {answered['seq']}"


def _overtaken(sent: Sequence[Exchange], turns: Mapping[tuple[str, str], Mapping[str, Any]]) -> Iterator[str]:
    stored = []
    for exchange in sent:
        turn = turns.get(("user", texts(exchange.client, exchange.number)[0]))
        if turn is not None:
            stored.append((turn["seq"], exchange))
    latest: Exchange | None = None
    for _, exchange in sorted(stored, key=lambda one: one[0]):
        if latest is not None and exchange.acked is not None and exchange.acked < latest.began:
            yield f"{exchange.key} was acknowledged before {latest.key} was sent, and stands behind it"
        if latest is None or exchange.began > latest.began:
            latest = exchange


# --- the clients ----------------------------------------------------------------------------------------------
@dataclass(frozen=True, kw_only=True, slots=True)
class Job:
    """What one process does."""

    addresses: list[str]
    keys: list[tuple[str, str]]
    """Tenants and their tokens."""
    first: int
    """The number of its first client."""
    clients: int
    exchanges: int
    """Of each client."""
    ledger: str
    """The file to write to."""
    seed: int = 0
    fetch_every: int = 4
    list_every: int = 6
    give_up_seconds: float = 120.0
    """After so long an exchange is given up."""
    last_after: str = ""
    """A file without which no client sends its last exchange, so that they are not done before their disturber is."""

    def as_json(self) -> str:
        """For the process's standard input."""
        return json.dumps(asdict(self))


def place_of(client: int, number: int, tenants: list[str]) -> tuple[str, str, str]:
    """Tenant, user and thread of a client's exchange. Ids hold what addresses have to encode."""
    group = client // GROUP
    thread = "shared/100 %" if number % SHARED_EVERY == SHARED_EVERY - 1 else f"own {client}"
    return tenants[group % len(tenants)], f"user/{group} é", thread


def path_of(user: str, thread: str) -> str:
    """The address of a thread."""
    return f"/api/threads/{quote(user, safe='')}/{quote(thread, safe='')}"


class Unanswered(Exception):
    """All attempts failed until it was given up."""


class Clients:
    """The clients of one process."""

    def __init__(self, job: Job, ledger: TextIO) -> None:
        self._job = job
        self._tenants = [tenant for tenant, _ in job.keys]
        self._tokens = dict(job.keys)
        self._ledger = ledger
        limits = httpx.Limits(max_connections=None, max_keepalive_connections=None)
        self._http = [
            httpx.AsyncClient(base_url=address, limits=limits, timeout=30.0, trust_env=False)
            for address in job.addresses
        ]
        self._at = [client % len(job.addresses) for client in range(job.first, job.first + job.clients)]
        """Which service each client talks to now."""
        self.counts: Counter[str] = Counter()
        self._may_end = asyncio.Event()

    async def run(self) -> None:
        """All exchanges of all clients."""
        if not self._job.last_after:
            self._may_end.set()
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._watch_for_the_end(Path(self._job.last_after)))
                for index in range(self._job.clients):
                    group.create_task(self._client(index))
        finally:
            for http in self._http:
                await http.aclose()

    async def _client(self, index: int) -> None:
        job, client = self._job, self._job.first + index
        chance = random.Random(f"{job.seed} {client}")
        for number in range(job.exchanges):
            if number == job.exchanges - 1:
                await self._may_end.wait()
            exchange = await self._update(index, client, number, chance)
            if exchange.acked is None:
                continue
            if number % job.fetch_every == job.fetch_every - 1:
                await self._fetch(index, exchange, chance)
            if number % job.list_every == job.list_every - 1:
                await self._list(index, exchange, chance)

    async def _watch_for_the_end(self, file: Path) -> None:
        while not self._may_end.is_set():
            if file.exists():  # noqa: ASYNC240 - a look at a local file takes no time
                self._may_end.set()
            await asyncio.sleep(0.05)

    async def _update(self, index: int, client: int, number: int, chance: random.Random) -> Exchange:
        tenant, user, thread = place_of(client, number, self._tenants)
        about = {"client": client, "number": number, "tenant": tenant, "user": user, "thread": thread}
        blank = Exchange(**about, began=time.monotonic(), acked=None)  # type: ignore[arg-type]
        asked, answered = texts(client, number)
        body = {"user_msg": asked, "assistant_msg": answered, "metadata": {"client": client}}
        try:
            answer, attempts = await self._until_answered(
                "update", index, blank, f"{path_of(user, thread)}/update", body, chance
            )
        except Unanswered:
            exchange = blank
        else:
            exchange = Exchange(
                **about,  # type: ignore[arg-type]
                began=blank.began,
                acked=time.monotonic(),
                turn_ids=tuple(answer["turn_ids"]),
                seq=answer["seq"],
                attempts=attempts,
            )
        self._note("exchange", **exchange.as_json())
        return exchange

    async def _fetch(self, index: int, exchange: Exchange, chance: random.Random) -> None:
        question = {"user_message": texts(exchange.client, exchange.number // 2)[0]}
        path = f"{path_of(exchange.user, exchange.thread)}/fetch"
        try:
            context, _ = await self._until_answered("fetch", index, exchange, path, question, chance)
        except Unanswered:
            return
        self.counts["degraded fetches"] += bool(context["degraded"])
        if exchange.thread.startswith("own "):
            said = json.dumps(texts(exchange.client, exchange.number)[0])[1:-1]
            self.counts["fetches without the last exchange"] += said not in json.dumps(context)

    async def _list(self, index: int, exchange: Exchange, chance: random.Random) -> None:
        """The newest turns as another service tells them, too: what is acknowledged must be among them."""
        path = f"{path_of(exchange.user, exchange.thread)}/turns/recent?limit=100"
        self._at[index] = (self._at[index] + 1) % len(self._http)
        try:
            recent, _ = await self._until_answered("list", index, exchange, path, None, chance)
        except Unanswered:
            return
        ids = [turn["id"] for turn in recent["items"]]
        if not set(exchange.turn_ids) <= set(ids):
            self._note("missing", key=exchange.key, turn_ids=exchange.turn_ids)

    async def _until_answered(
        self,
        kind: str,
        index: int,
        exchange: Exchange,
        path: str,
        body: dict[str, Any] | None,
        chance: random.Random,
    ) -> tuple[Any, int]:
        """The JSON of a good answer, and how many attempts it took. Raises Unanswered."""
        headers = {"Authorization": f"Bearer {self._tokens[exchange.tenant]}"}
        if kind == "update":
            headers["Idempotency-Key"] = exchange.key
        until = time.monotonic() + self._job.give_up_seconds
        attempt = 0
        while time.monotonic() < until:
            attempt += 1
            http = self._http[self._at[index]]
            began = time.monotonic()
            pause = 0.05 * 2 ** min(attempt, 5) * chance.uniform(0.5, 1.0)
            try:
                if body is None:
                    answer = await http.get(path, headers=headers)
                else:
                    answer = await http.post(path, headers=headers, json=body)
            except httpx.TransportError as exc:
                result = type(exc).__name__
            else:
                result = str(answer.status_code)
                if answer.is_success:
                    self._request(kind, began, result, index)
                    return answer.json(), attempt
                pause = max(pause, float(answer.headers.get("Retry-After", 0.0)))
            self._request(kind, began, result, index)
            if result.isdigit() and int(result) not in PASSING:
                self._note("refused", what=kind, status=result, key=exchange.key, text=answer.text[:300])
                break
            if result != "429":  # the limit is each service's own, but spreading out is no way around it
                self._at[index] = (self._at[index] + 1) % len(self._http)
            await asyncio.sleep(min(pause, LONGEST_PAUSE_SECONDS) if result != "429" else pause)
        raise Unanswered(kind)

    def _request(self, kind: str, began: float, result: str, index: int) -> None:
        ended = time.monotonic()
        self._note("request", what=kind, began=began, ended=ended, result=result, at=self._at[index])

    def _note(self, line: str, **values: Any) -> None:
        self._ledger.write(json.dumps({"line": line, **values}) + "\n")


async def _run(job: Job, ledger: TextIO) -> None:
    clients, used = Clients(job, ledger), time.process_time()
    await clients.run()
    about = {"cpu_seconds": round(time.process_time() - used, 1), "counts": clients.counts}
    ledger.write(json.dumps({"line": "process", **about}) + "\n")


def main() -> None:
    """Do the job on standard input."""
    job = Job(**json.load(sys.stdin))
    with Path(job.ledger).open("w", encoding="utf-8", buffering=1) as ledger:
        asyncio.run(_run(job, ledger))


if __name__ == "__main__":
    main()
