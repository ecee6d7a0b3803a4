"""Pending work: who is at it, what keeps failing, what is to be forgotten, and hashes in its receipts."""

from __future__ import annotations

import hashlib
import hmac
import secrets
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Literal

from memory_agent.domain.base import STAGES, Counts, OfThread, Scope
from memory_agent.domain.facts import ExtractionCost

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from datetime import datetime

    from memory_agent.domain.base import Stage, Usage
    from memory_agent.domain.turns import Turn


@dataclass(frozen=True, kw_only=True, slots=True)
class SchemaState:
    """State of a store's schema: opening a store of an earlier version upgrades it."""

    version: int
    left: int = 0
    """Users whose documents the worker still has to bring into the new form, which is done in the background."""
    kept: tuple[str, ...] = ()
    """Files from before the upgrade: the copy that was made first, the index of version 0.1.0. Erasing removes them."""


@dataclass(frozen=True, kw_only=True, slots=True)
class OldTurn:
    """Address of a turn of some age: enough to forget it, without its content."""

    user_id: str
    thread_id: str
    id: str
    timestamp: datetime
    topic_id: str | None


@dataclass(frozen=True, kw_only=True, slots=True)
class Lease:
    """The right to work on something: whose, until when, and since when.

    `note` is the holder's own: how far it has come, for whoever goes on.
    """

    name: str
    holder: str
    since: datetime
    until: datetime
    note: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Outage:
    """A part that a stage waits for: since when, and with which error it was last tried.

    Kept as a lease that no single worker holds, so that every process sees it; it ends with the first work done, or
    when nothing waits for it any more. `vectors`: what fills the vector index, which is no stage of a turn.
    """

    stage: Stage | Literal["vectors"]
    part: str
    since: datetime
    error: str

    @classmethod
    def of(cls, lease: Lease) -> Outage:
        """From its lease."""
        stage: Stage | Literal["vectors"] = lease.name.removeprefix(_OUTAGE)  # type: ignore[assignment]
        part, _, error = (lease.note or "").partition("\n")
        return cls(stage=stage, part=part, since=lease.since, error=error)

    @property
    def note(self) -> str:
        """The state that its lease notes."""
        return f"{self.part}\n{self.error}"


_OUTAGE: Final = "outage:"
VECTORS: Final = "vectors"
"""The worker's loop that fills the vector index."""


def outage_name(stage: str) -> str:
    """The name of the lease that an outage of the stage is kept as."""
    return f"{_OUTAGE}{stage}"


OUTAGE_NAMES: Final = tuple(outage_name(stage) for stage in (*STAGES, VECTORS))


def outages_of(leases: Iterable[Lease], pending: Mapping[Stage, int]) -> tuple[Outage, ...]:
    """The outages kept as `leases` that somebody waits for, in the order of the stages."""
    found = {lease.name: Outage.of(lease) for lease in leases}
    return tuple(
        found[outage_name(stage)]
        for stage in STAGES
        if outage_name(stage) in found and pending.get(stage, 0) > 0
    )


@dataclass(frozen=True, kw_only=True, slots=True)
class ParkedTurn(OfThread):
    """A turn whose stages kept failing, with the last error."""

    turn_id: str
    user_id: str
    thread_id: str
    pending: tuple[Stage, ...]
    attempts: int
    last_error: str

    @classmethod
    def of(cls, turn: Turn) -> ParkedTurn:
        return cls(
            turn_id=turn.id,
            user_id=turn.user_id,
            thread_id=turn.thread_id,
            pending=turn.pending,
            attempts=turn.attempts,
            last_error=turn.last_error or "",
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class MemoryStatus:
    """Counts of a thread (or of all threads of a user, or of everybody): turns, owed stages, parked turns.

    `pending` counts the turns that owe each stage and `owed_count` those that owe any, parked ones included;
    `lag_seconds` is the age of the oldest owed turn that is not parked (0 if none); `parked` lists at most 100 of
    `parked_count`; `erasures` counts forget calls whose last pass is still to come; `extraction` is what facts have
    cost so far; `outages` are the parts that owed stages wait for, in the order of the stages; `unread_scripts` those in
    which the newest turns are written and of which the embedding model knows no words, see `Embedder.scripts`, and
    `unread_language` the language in Latin letters (ISO 639), "" if it knows it or none is told (of everybody: neither is).
    `to_rebuild`: turns whose vectors another embedding model made, so that they are found by words (told of everybody alone).
    `vectors_missing`: turns that a Chroma does not have yet, which no search waits for.
    `store_schema`: the version of the store's schema, and what its upgrade has left (told of everybody alone).
    `warnings`: what somebody should mend about the language models of the process that tells.
    """

    turns: int
    pending: Mapping[Stage, int]
    owed_count: int
    parked_count: int
    parked: tuple[ParkedTurn, ...]
    lag_seconds: float
    erasures: int
    extraction: ExtractionCost = field(default_factory=ExtractionCost)
    outages: tuple[Outage, ...] = ()
    unread_scripts: tuple[str, ...] = ()
    unread_language: str = ""
    to_rebuild: int = 0
    vectors_missing: int = 0
    store_schema: SchemaState | None = None
    warnings: tuple[str, ...] = ()


KeyedKind = Literal["edit", "session"]
"""What a call with an idempotency key may have made besides turns, whose keys their tombstones keep."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Erasure:
    """A forget call as owed work. `turn_ids=None`: every turn of `scope` whose id sorts before `before_id`.

    `keeps_facts`: facts that were stated in the turns go on without them, and without their words.
    """

    id: str
    scope: Scope
    turn_ids: tuple[str, ...] | None
    before_id: str
    due_at: datetime
    swept: bool = False
    """True once everything was erased; the last pass, when no old lease can be live any more, is still to come."""
    keeps_facts: bool = False


TierState = Literal["erased", "owed", "operator"]
"""Of an erasure in one tier: done; the worker's to do; or out of reach, and the operator's."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ErasedTier:
    """State of an erasure in one tier. `note`: what is still to come, or what the operator has to do, and until when."""

    tier: str
    state: TierState
    note: str = ""


ReceiptState = Literal["owed", "swept", "erased", "operator"]


@dataclass(frozen=True, kw_only=True, slots=True)
class ErasureReceipt:
    """Record of a forget call that outlives what it erased, and names nobody: to show, and to erase again after a restore.

    `user`, `thread`, `turns`: HMAC-SHA-256 of their ids by the store's secret, as hex; without turns the whole scope as of
    `before_id` is meant. `key`: which secret. `state`: owed until the last pass, then `swept` until the store's files are written
    anew, where they are its own; `operator` where a server has them.
    """

    id: str
    at: datetime
    key: str
    tenant: str
    user: str
    thread: str | None
    turns: tuple[str, ...]
    before_id: str
    state: ReceiptState = "owed"
    keeps_facts: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class ErasedCounts(Counts):
    """Counts of what one erasing step removed from the document store."""

    turns: int = 0
    search_rows: int = 0
    fact_changes: int = 0
    packed_texts: int = 0
    """Texts taken out of segments."""
    topics: int = 0
    """Topics that were reset."""
    compressions: int = 0
    """Of which an erased turn was part, and those built on them."""
    sessions: int = 0


@dataclass(frozen=True, kw_only=True, slots=True)
class ForgetReceipt:
    """Receipt of an erasure. `owed` names parts that were down; the worker erases there as soon as they are back.

    `tiers`: how far it is in each tier, files included; `id`: of the `ErasureReceipt`, which says so later.
    """

    id: str
    turns: int
    search_rows: int
    fact_changes: int
    packed_texts: int
    topics: int
    """Topics whose title, summary and embedding were dropped, to be made anew from what is left."""
    vectors: int
    compressions: int = 0
    """Summaries of the conversation that were dropped, to be made anew from what is left."""
    sessions: int = 0
    owed: tuple[str, ...] = ()
    tiers: tuple[ErasedTier, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class WorkerStatus:
    """State of the worker of one process; others beside it are not in it.

    `runs`: there is one in that process; `paused`: it was told to leave everything owed. `at_work` counts the threads that
    each stage has under a lease just now. `down` are parts that were down when last needed. `extractor` names what finds
    facts. `usage` is what language models were asked since the process started, `usage_by` the same by purpose; None without
    any, and for those who may not look after everybody's memory.
    """

    runs: bool
    paused: bool
    at_work: Mapping[Stage, int]
    down: tuple[str, ...]
    extractor: str
    usage: Usage | None = None
    usage_by: Mapping[str, Usage] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True, slots=True)
class RebuildStep:
    """A step of doing something over for everybody: `turns` owe it now; `done` of `users` were taken in all steps so far, and all when it is over."""

    turns: int
    users: int
    done: int


@dataclass(frozen=True, kw_only=True, slots=True)
class LiveStats:
    """Counts of the analysis cache of a process. `turns`: analyses kept; hits and misses count turns since the start."""

    live_threads: int
    max_live_threads: int
    turns: int
    hits: int
    misses: int
    evictions: int
    """Threads that left because there were too many."""


HASHING: Final = "secret"
"""Name of the metadata that holds the secret."""
_TURN_DIGITS: Final = 20
"""80 bits: of a thousand million turns hardly two share them, and a receipt may name ten thousand."""
_TENANT: Final = "0-forgotten"
"""Whose users the hashed ones are."""
_TIME_CHARS: Final = len("01890a5d-ac96")
"""The part of a UUIDv7 that is its time. It stays, for remains are asked for by when they were made."""


@dataclass(frozen=True, slots=True)
class Hasher:
    """HMAC-SHA-256 of ids, each kind apart, by a secret of the store."""

    secret: bytes

    @classmethod
    def of(cls, meta: Mapping[str, Any]) -> Hasher:
        """By the metadata of the name `HASHING`."""
        return cls(bytes.fromhex(meta["key"]))

    @property
    def key(self) -> str:
        """Name of the secret, which does not tell it."""
        return self._hash("key", "")[:16]

    def user(self, user_id: str) -> str:
        """Hash of a stored user id, tenant included."""
        return self._hash("user", user_id)

    def thread(self, user_id: str, thread_id: str) -> str:
        """Hash of a user's thread."""
        return self._hash("thread", f"{user_id}\0{thread_id}")

    def turn(self, turn_id: str) -> str:
        """Hash of a turn's id."""
        return self._hash("turn", turn_id)[:_TURN_DIGITS]

    def remains(self, scope: Scope) -> Scope:
        """The scope under which what stays of the scope's forgotten turns is kept."""
        thread = None if scope.thread_id is None else self.thread(scope.user_id, scope.thread_id)
        return Scope.of(self._hash("remains", scope.user_id), thread, tenant=_TENANT)

    def gone(self, made_id: str) -> str:
        """The stand-in for the id of something that is gone: its time and a hash. A hash stays as it is."""
        if made_id[_TIME_CHARS : _TIME_CHARS + 1] == "#":
            return made_id
        return f"{made_id[:_TIME_CHARS]}#{self.turn(made_id)}"

    def receipt(self, erasure: Erasure, *, at: datetime) -> ErasureReceipt:
        """Receipt of an erasure that begins at that time."""
        scope = erasure.scope
        return ErasureReceipt(
            id=erasure.id,
            at=at,
            key=self.key,
            tenant=scope.tenant,
            user=self.user(scope.user_id),
            thread=None if scope.thread_id is None else self.thread(scope.user_id, scope.thread_id),
            turns=tuple(map(self.turn, erasure.turn_ids or ())),
            before_id=erasure.before_id,
            keeps_facts=erasure.keeps_facts,
        )

    def _hash(self, kind: str, text: str) -> str:
        return hmac.new(self.secret, f"{kind}:{text}".encode(), hashlib.sha256).hexdigest()


def new_secret() -> dict[str, str]:
    """Metadata with a new secret."""
    return {"key": secrets.token_hex(32)}


def is_of_remains(user_id: str) -> bool:
    """True for a user id that `Hasher.remains` made."""
    return Scope(user_id=user_id).tenant == _TENANT
