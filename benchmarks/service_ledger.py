"""What clients of a service were told and what the service holds in the end: whether the two agree.

Nothing here asks a service. `python -m benchmarks.service_load` writes the one and reads the other.
"""

from __future__ import annotations

import itertools
from collections import Counter
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Final

from benchmarks.texts import sentence

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

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
