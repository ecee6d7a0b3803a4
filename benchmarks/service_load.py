"""The service under load while its processes are killed: `python -m benchmarks.service_load [--turns N] [--clients N]`.

What runs, is killed and has to hold is in docs/benchmarks.md, "The service"; else the exit code is 1, and the first discrepancy is printed.
Times are those of single requests as clients see them: all clients always have one in progress, so that they hold the wait
for all others'. `others_busy` is the share of the machine's time that none of this took.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import itertools
import json
import os
import random
import sys
import tempfile
import time
from collections import Counter, defaultdict
from contextlib import AsyncExitStack, ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

import httpx

from benchmarks.measure import Others, machine, percentiles, print_report, say, servers
from benchmarks.outside_model import Held, differences
from benchmarks.texts import sentence
from tests.servers.deployment import Deployment, Used

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence


PASSING: Final = frozenset({429, 502, 503})
"""Statuses after which the same request may be sent again."""
LONGEST_PAUSE_SECONDS: Final = 2.0
GIVE_UP_SECONDS: Final = 120.0
GROUP: Final = 4
"""So many clients are one user: each has a thread of its own, and all share another one."""
SHARED_EVERY: Final = 5
"""Every so many exchanges one goes into the shared thread."""
FETCH_EVERY, LIST_EVERY = 4, 6
"""Every so many exchanges a client fetches, and lists its newest turns."""
TENANTS: Final = 8
KILLED: Final = ("api 0", "worker")
KILLS: Final = 2
"""Of each of these."""
SEARCHES: Final = 100
"""Exchanges that search must find by their own words."""
SETTLE_SECONDS: Final = 3_600.0
SEED: Final = 1
_PAGE: Final = 500


# --- exchanges, and whether they are there -------------------------------------------------------------------
_TAILS: Final = ("", " 海の見える部屋がいい。", " 🜁 ça va?", "\n\n  indented\t", ' "quoted" \\ <b>&amp;</b>')
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

    @property
    def turns(self) -> tuple[tuple[str, str], tuple[str, str]]:
        """Role and text of both turns."""
        asked, answered = texts(self.client, self.number)
        return ("user", asked), ("assistant", answered)


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
    stored = [[turn[name] for name in ("id", "seq", "role", "content")] for turn in found]
    acknowledged = sorted((one for one in sent if one.acked is not None), key=lambda one: one.seq)
    wanted = [
        [turn_id, one.seq - 1 + at, *turn]
        for one in acknowledged
        for at, (turn_id, turn) in enumerate(zip(one.turn_ids, one.turns, strict=True))
    ]
    doubtful = [
        {"op": "say", "place": "thread", "texts": [text for _, text in one.turns]}
        for one in sent
        if one.acked is None
    ]
    thread, there = Held(turns={"thread": wanted}), Held(turns={"thread": stored})
    yield from differences(thread, there, set(), doubtful)
    seqs = {text: seq for _, seq, _, text in stored}
    yield from _overtaken([(seqs[one.turns[0][1]], one) for one in sent if one.turns[0][1] in seqs])


def _overtaken(stored: Sequence[tuple[int, Exchange]]) -> Iterator[str]:
    latest: Exchange | None = None
    for _, exchange in sorted(stored, key=lambda one: one[0]):
        if latest is not None and exchange.acked is not None and exchange.acked < latest.began:
            yield f"{exchange.key} was acknowledged before {latest.key} was sent, and stands behind it"
        if latest is None or exchange.began > latest.began:
            latest = exchange


# --- the clients ---------------------------------------------------------------------------------------------
@dataclass(frozen=True, kw_only=True, slots=True)
class Load:
    """What is asked of a service. `keys`: tenants and their tokens; `exchanges`: of each client."""

    addresses: list[str]
    keys: list[tuple[str, str]]
    clients: int
    exchanges: int


@dataclass(kw_only=True, slots=True)
class Told:
    """What the clients were told. `complaints`: what one found wrong by itself; `requests`: kind, result and seconds of each."""

    exchanges: list[Exchange] = field(default_factory=list)
    requests: list[tuple[str, str, float]] = field(default_factory=list)
    complaints: list[str] = field(default_factory=list)
    noticed: Counter[str] = field(default_factory=Counter)
    kills: int = 0
    began: float = field(default_factory=time.monotonic)
    ended: float = 0.0

    @property
    def acknowledged(self) -> list[Exchange]:
        """Those with a receipt."""
        return [exchange for exchange in self.exchanges if exchange.acked is not None]


def path_of(user: str, thread: str) -> str:
    """The address of a thread."""
    return f"/api/threads/{quote(user, safe='')}/{quote(thread, safe='')}"


class Unanswered(Exception):
    """All attempts failed until it was given up."""


class Clients:
    """Clients that talk to a service over HTTP: each sends its next exchange when the one before is acknowledged.

    It keeps trying, at the services in turn, under the same idempotency key, until it is. Until `may_end` is set, none sends its last.
    """

    def __init__(self, load: Load, told: Told, stack: AsyncExitStack) -> None:
        self._load = load
        self._told = told
        self._tokens = dict(load.keys)
        limits = httpx.Limits(max_connections=None, max_keepalive_connections=None)
        self._http = [
            httpx.AsyncClient(base_url=address, limits=limits, timeout=30.0, trust_env=False)
            for address in load.addresses
        ]
        for http in self._http:
            stack.push_async_callback(http.aclose)
        self._at = [client % len(load.addresses) for client in range(load.clients)]
        """Which service each client talks to now."""
        self._chance = random.Random(SEED)
        self.may_end = asyncio.Event()

    async def run(self, client: int) -> None:
        """All exchanges of one client."""
        for number in range(self._load.exchanges):
            if number == self._load.exchanges - 1:
                await self.may_end.wait()
            exchange = await self._update(self._begun(client, number))
            self._told.exchanges.append(exchange)
            if exchange.acked is None:
                continue
            with contextlib.suppress(Unanswered):
                if number % FETCH_EVERY == FETCH_EVERY - 1:
                    await self._fetch(exchange)
                if number % LIST_EVERY == LIST_EVERY - 1:
                    await self._list(exchange)

    def _begun(self, client: int, number: int) -> Exchange:
        """An exchange that is to be sent now. Ids hold what addresses have to encode."""
        group = client // GROUP
        return Exchange(
            client=client,
            number=number,
            tenant=self._load.keys[group % len(self._load.keys)][0],
            user=f"user/{group} é",
            thread="shared/100 %" if number % SHARED_EVERY == SHARED_EVERY - 1 else f"own {client}",
            began=time.monotonic(),
            acked=None,
        )

    async def _update(self, exchange: Exchange) -> Exchange:
        (_, asked), (_, answered) = exchange.turns
        body = {"user_msg": asked, "assistant_msg": answered, "metadata": {"client": exchange.client}}
        try:
            answer, attempts = await self._until_answered("update", "update", exchange, body)
        except Unanswered:
            return exchange
        receipt = {"turn_ids": tuple(answer["turn_ids"]), "seq": answer["seq"]}
        return replace(exchange, acked=time.monotonic(), attempts=attempts, **receipt)

    async def _fetch(self, exchange: Exchange) -> None:
        question = {"user_message": texts(exchange.client, exchange.number // 2)[0]}
        context, _ = await self._until_answered("fetch", "fetch", exchange, question)
        self._told.noticed["degraded fetches"] += bool(context["degraded"])
        if exchange.thread.startswith("own "):
            said = json.dumps(exchange.turns[0][1])[1:-1]
            self._told.noticed["fetches without the last exchange"] += said not in json.dumps(context)

    async def _list(self, exchange: Exchange) -> None:
        """The newest turns as another service tells them, too: what is acknowledged must be among them."""
        self._go_on(exchange.client)
        recent, _ = await self._until_answered("list", "turns/recent?limit=100", exchange)
        if not set(exchange.turn_ids) <= {turn["id"] for turn in recent["items"]}:
            self._told.complaints.append(
                f"{exchange.key}: acknowledged, and another service does not list it"
            )

    def _go_on(self, client: int) -> None:
        """To the next service."""
        self._at[client] = (self._at[client] + 1) % len(self._http)

    async def _until_answered(
        self, kind: str, path: str, exchange: Exchange, body: dict[str, Any] | None = None
    ) -> tuple[Any, int]:
        """The JSON of a good answer, and how many attempts it took. Raises Unanswered."""
        path = f"{path_of(exchange.user, exchange.thread)}/{path}"
        headers = {"Authorization": f"Bearer {self._tokens[exchange.tenant]}"}
        if kind == "update":
            headers["Idempotency-Key"] = exchange.key
        method = "GET" if body is None else "POST"
        until = time.monotonic() + GIVE_UP_SECONDS
        for attempt in itertools.count(1):
            http, began = self._http[self._at[exchange.client]], time.monotonic()
            pause = 0.05 * 2 ** min(attempt, 5) * self._chance.uniform(0.5, 1.0)
            try:
                answer = await http.request(method, path, headers=headers, json=body)
                result = str(answer.status_code)
            except httpx.TransportError as exc:
                result = type(exc).__name__
            self._told.requests.append((kind, result, time.monotonic() - began))
            if result.startswith("2"):
                return answer.json(), attempt
            if result.isdigit():
                if int(result) not in PASSING:
                    self._told.complaints.append(
                        f"{exchange.key}: {kind} was refused with {result}: {answer.text[:300]}"
                    )
                    break
                pause = max(pause, float(answer.headers.get("Retry-After", 0.0)))
            if time.monotonic() > until:
                break
            if result != "429":  # the limit is each service's own, but spreading out is no way around it
                self._go_on(exchange.client)
                pause = min(pause, LONGEST_PAUSE_SECONDS)
            await asyncio.sleep(pause)
        raise Unanswered(kind)


# --- a run ---------------------------------------------------------------------------------------------------
class Wrong(Exception):
    """The service and its clients disagree; the text has the first discrepancy."""


def kill_plan(names: Sequence[str], *, times: int, seed: int) -> list[tuple[str, float, float]]:
    """Who is killed, at which share of the exchanges, and for how many seconds: at random moments, the same for the same seed."""
    chance = random.Random(seed)
    killed = [*names] * times
    chance.shuffle(killed)
    width = 0.8 / max(len(killed), 1)
    # Each has a part of the run for itself, so that the processes are not down all at once.
    shares = (round(0.08 + width * (number + 0.8 * chance.random()), 3) for number in itertools.count())
    return [
        (name, share, round(chance.uniform(0.2, 1.5), 2)) for name, share in zip(killed, shares, strict=False)
    ]


def run_clients(deployment: Deployment, load: Load, kills: Sequence[tuple[str, float, float]]) -> Told:
    """Run the clients to their end, and kill and restart the deployment's processes meanwhile.

    Every client has two exchanges at least where something is killed.
    """
    told = Told()

    async def run() -> None:
        async with AsyncExitStack() as stack, asyncio.TaskGroup() as group:
            clients = Clients(load, told, stack)
            group.create_task(disturb(clients))
            for client in range(load.clients):
                group.create_task(clients.run(client))

    async def disturb(clients: Clients) -> None:
        before_the_last = load.clients * (load.exchanges - 1)  # each client's last waits for the last kill
        for name, share, down_seconds in kills:
            while len(told.exchanges) < share * before_the_last:  # noqa: ASYNC110 - told by nobody
                await asyncio.sleep(0.05)
            await asyncio.to_thread(deployment.kill, name)
            await asyncio.sleep(down_seconds)
            await asyncio.to_thread(deployment.start, name)
            told.kills += 1
        clients.may_end.set()

    asyncio.run(run())
    told.ended = time.monotonic()
    return told


# --- the end -------------------------------------------------------------------------------------------------
class Reader(ExitStack):
    """Reads a service at its end, from its processes in turn."""

    def __init__(self, deployment: Deployment, keys: Sequence[tuple[str, str]]) -> None:
        super().__init__()
        clients = (httpx.Client(base_url=url, timeout=60, trust_env=False) for url in deployment.addresses)
        self._http = itertools.cycle([self.enter_context(http) for http in clients])
        self._tokens = dict(keys)

    def ask(self, method: str, path: str, tenant: str, **options: Any) -> Any:
        """The JSON of the answer; what a limit refuses is asked again. Raises httpx.HTTPStatusError."""
        http, headers = next(self._http), {"Authorization": f"Bearer {self._tokens[tenant]}"}
        while True:
            answer = http.request(method, path, headers=headers, **options)
            if answer.status_code != 429:
                answer.raise_for_status()
                return answer.json() if answer.content else None
            time.sleep(float(answer.headers["Retry-After"]))

    def turns(self, place: tuple[str, str, str]) -> list[dict[str, Any]]:
        """All turns of a thread, a page from one process, the next from another."""
        tenant, user, thread = place
        found: list[dict[str, Any]] = []
        asked: dict[str, Any] = {"limit": _PAGE}
        while True:
            page = self.ask("GET", f"{path_of(user, thread)}/turns", tenant, params=asked)
            found += page["items"]
            if page["next_cursor"] is None:
                return found
            asked["cursor"] = page["next_cursor"]

    def found_by_search(self, exchange: Exchange) -> bool:
        """Whether the exchange's own words find its first turn."""
        where = {"user_id": exchange.user, "thread_id": exchange.thread}
        asked = {**where, "query": exchange.turns[0][1], "top_k": 5}
        found = self.ask("POST", "/api/memory/search", exchange.tenant, json=asked)
        return exchange.turn_ids[0] in [item["turn"]["id"] for item in found["items"]]

    def status(self) -> dict[str, Any]:
        """How everybody's memory stands."""
        status: dict[str, Any] = next(self._http).get("/readyz").json()
        return status


def settled(reader: Reader, *, timeout: float) -> float:
    """Wait until nothing is owed to anybody; seconds. Raises Wrong if time runs out or turns are parked."""
    began = time.monotonic()
    while True:
        status = reader.status()
        if status["status"] == "ready" and not any(status["pending"].values()):
            return time.monotonic() - began
        if status["parked"] or time.monotonic() - began > timeout:
            raise Wrong(f"not settled after {time.monotonic() - began:.0f} s: {status}")
        time.sleep(0.1)


def check(reader: Reader, told: Told, *, searches: int, seed: int) -> dict[str, int]:
    """Compare all that was said with all that is stored; what was counted. Raises Wrong with the first discrepancy."""
    if told.complaints:
        raise Wrong(f"{told.complaints[0]} ({len(told.complaints)} in all)")
    turns = 0
    places: dict[tuple[str, str, str], list[Exchange]] = defaultdict(list)
    for exchange in told.exchanges:
        places[exchange.place].append(exchange)
    for place, sent in places.items():
        found = reader.turns(place)
        turns += len(found)
        for wrong in discrepancies(sent, found):
            raise Wrong(f"{place}: {wrong}")
    acknowledged = told.acknowledged
    sample = random.Random(seed).sample(acknowledged, min(searches, len(acknowledged)))
    for exchange in sample:
        if not reader.found_by_search(exchange):
            raise Wrong(f"{exchange.place}: search does not find {exchange.key} by its own words")
    return {"turns": turns, "threads": len(places), "searches": len(sample)}


# --- the figures ---------------------------------------------------------------------------------------------
def figures(told: Told) -> dict[str, Any]:
    """What the clients saw: speed, times of requests by kind, errors by kind."""
    acknowledged, seconds = told.acknowledged, told.ended - told.began
    good: dict[str, list[float]] = defaultdict(list)
    for kind, result, took in told.requests:
        if result[:1] == "2":
            good[kind].append(took)
    return {
        "seconds": round(seconds, 1),
        "turns_acknowledged": 2 * len(acknowledged),
        "turns_per_second": round(2 * len(acknowledged) / seconds, 1),
        "given_up": len(told.exchanges) - len(acknowledged),
        "retries": sum(exchange.attempts - 1 for exchange in acknowledged),
        "errors": Counter(f"{kind} {result}" for kind, result, _ in told.requests if result[:1] != "2"),
        "requests": {kind: percentiles(its, 50, 95, 99) for kind, its in good.items()},
        "noticed": told.noticed,
    }


def measure(turns: int, clients: int, folder: Path, stack: ExitStack) -> dict[str, Any]:
    """Start everything until the stack ends, and give all figures. Raises Wrong."""
    settings, pids = stack.enter_context(servers(folder))
    settings |= {"data_dir": folder / "data", "db_name": "service_load"}
    deployment = stack.enter_context(Deployment(folder / "service", settings))
    used = {**deployment.used, **{name: Used() for name in pids}}
    for name, pid in pids.items():
        used[name].began(pid)
    load = Load(
        addresses=deployment.addresses,
        keys=[(f"tenant-{number}", deployment.key(f"tenant-{number}")[1]) for number in range(TENANTS)],
        clients=clients,
        exchanges=max(2, round(turns / 2 / clients)),
    )
    kills = kill_plan(KILLED, times=KILLS, seed=SEED)
    planned = ", ".join(f"{name} at {share:.0%} for {down} s" for name, share, down in kills)
    say(f"{load.clients * load.exchanges:,} exchanges; {planned}")
    others, before = Others(), _cpu(used)
    told = run_clients(deployment, load, kills)
    cores = (_cpu(used) - before) / (told.ended - told.began)
    cpu = {name: round(one.cpu_seconds, 1) for name, one in used.items()}
    busy = others.share() - cores / (os.cpu_count() or 1)
    reader = stack.enter_context(Reader(deployment, load.keys))
    settle_seconds = round(settled(reader, timeout=SETTLE_SECONDS), 1)
    say("settled")
    checked = check(reader, told, searches=SEARCHES, seed=SEED)
    _cpu(used)
    return {
        "machine": machine(),
        "clients_at_once": clients,
        **figures(told),
        "settle_seconds": settle_seconds,
        "checked": checked,
        "cpu_seconds": cpu,
        "others_busy": round(max(0.0, busy), 3),
        "peak_mib": {name: round(one.peak_mib) for name, one in used.items()},
        "kills": planned,
    }


def _cpu(used: Mapping[str, Used]) -> float:
    for one in used.values():
        one.look()
    return sum(one.cpu_seconds for one in used.values())


def main() -> None:
    """Parse the command line and run."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    add = parser.add_argument
    add("--turns", type=int, default=20_000, help="that are written, two an exchange (default %(default)s)")
    add("--clients", type=int, default=200, help="at once (default %(default)s)")
    given = parser.parse_args()
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        try:
            report = measure(given.turns, given.clients, folder, stack)
        except Wrong as exc:
            print(f"WRONG: {exc}")
            sys.exit(1)
    print_report(report)


if __name__ == "__main__":
    main()
