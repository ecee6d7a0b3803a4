"""A store of two nouns in dictionaries, written from the ports and the suite alone, without a look at other adapters.

Each class keeps one port's promises, in the order in which an adapter is best begun. Nothing here awaits, so every method
runs whole before another begins; an adapter of a real database has to earn what this one gets for nothing.
"""

import copy
from collections import Counter
from collections.abc import Callable, Container, Iterable, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

from memory_agent.domain import (
    OUTAGE_NAMES,
    STAGES,
    ExtractionCost,
    Lease,
    MemoryStatus,
    OldTurn,
    ParkedTurn,
    Scope,
    Stage,
    Tenant,
    Tombstone,
    Turn,
    TurnDraft,
    outages_of,
    said_otherwise,
    stored_at,
)
from memory_agent.errors import InvalidInput, StoreError

MOST_PARKED_TOLD = 100


@dataclass
class Call:
    """An append that carried an idempotency key: the ids of its turns by their place in it."""

    size: int
    turn_ids: dict[int, str] = field(default_factory=dict)


@dataclass
class Database:
    """What is stored; several stores may work on it, as processes do on one database."""

    turns: dict[str, Turn] = field(default_factory=dict)
    calls: dict[tuple[Scope, str], Call] = field(default_factory=dict)
    last_seq: Counter[Scope] = field(default_factory=Counter)
    leases: dict[str, Lease] = field(default_factory=dict)


class Noun:
    def __init__(self, database: Database) -> None:
        self._database = database


class DictionaryTurns(Noun):
    """TurnStore."""

    async def append_turns(self, scope: Scope, drafts: Sequence[TurnDraft]) -> list[Turn | Tombstone]:
        _check_thread(scope)
        key = drafts[0].idempotency_key if drafts else None
        if key is None:
            return list(self._store(scope, drafts))
        call = self._database.calls.setdefault((scope, key), Call(size=drafts[0].call_size))
        missing = [
            draft
            for draft in drafts
            if draft.call_index < call.size and draft.call_index not in call.turn_ids
        ]
        begun = [self._database.turns[turn_id] for _, turn_id in sorted(call.turn_ids.items())]
        if missing and said_otherwise(drafts, begun):
            return list(begun)
        for turn, draft in zip(self._store(scope, missing), missing, strict=True):
            call.turn_ids[draft.call_index] = turn.id
        return [self._database.turns[turn_id] for _, turn_id in sorted(call.turn_ids.items())]

    def _store(self, scope: Scope, drafts: Sequence[TurnDraft]) -> list[Turn]:
        for draft in drafts:
            if draft.id in self._database.turns:
                raise StoreError(f"turn id {draft.id!r} is taken; make a new one")
        turns = []
        for draft in drafts:
            self._database.last_seq[scope] += 1
            turns.append(_turn(draft, scope, self._database.last_seq[scope]))
        self._database.turns |= {turn.id: turn for turn in turns}
        return turns

    async def list_turns(
        self,
        scope: Scope,
        *,
        ids: Sequence[str] | None = None,
        topic_ids: Sequence[str] | None = None,
        compressed: bool | None = None,
        session_id: str | None = None,
        after_seq: int = 0,
        through: int | None = None,
        limit: int | None = None,
        newest: bool = False,
    ) -> list[Turn]:
        asked, topics = _any_of(ids), _any_of(topic_ids)
        found = [
            turn
            for turn in self._database.turns.values()
            if _is_of(turn, scope)
            and turn.id in asked
            and turn.topic_id in topics
            and (compressed is None or turn.compressed == compressed)
            and (session_id is None or turn.session_id == session_id)
            and turn.seq > after_seq
            and (through is None or turn.seq <= through)
        ]
        found.sort(key=_order_of(scope))
        if limit is None:
            return found
        return found[max(len(found) - limit, 0) :] if newest else found[:limit]

    async def turns_at(self, scope: Scope, places: Sequence[tuple[str, int]]) -> list[Turn]:
        asked = set(places)
        turns = self._database.turns.values()
        return [turn for turn in turns if _is_of(turn, scope) and (turn.thread_id, turn.seq) in asked]

    async def turns_before(
        self, time: datetime, *, after: OldTurn | None = None, limit: int
    ) -> list[OldTurn]:
        old = [
            OldTurn(
                user_id=turn.user_id,
                thread_id=turn.thread_id,
                id=turn.id,
                timestamp=turn.timestamp,
                topic_id=turn.topic_id,
            )
            for turn in self._database.turns.values()
            if turn.timestamp < time
            and (after is None or (turn.timestamp, turn.id) > (after.timestamp, after.id))
        ]
        return sorted(old, key=lambda turn: (turn.timestamp, turn.id))[:limit]


class DictionaryWork(Noun):
    """WorkStore, over the turns that DictionaryTurns stores."""

    async def due_threads(self, now: datetime, stage: Stage, *, limit: int) -> list[Scope]:
        since: dict[Scope, datetime] = {}
        for turn in self._database.turns.values():
            if turn.pending[:1] == (stage,) and turn.due_at is not None and turn.due_at <= now:
                since[turn.scope] = min(since.get(turn.scope, turn.due_at), turn.due_at)
        longest = sorted(since, key=lambda scope: (since[scope], scope.user_id, scope.thread_id))
        nth, before = {}, Counter[str]()
        for scope in longest:
            nth[scope], before[scope.user_id] = before[scope.user_id], before[scope.user_id] + 1
        return sorted(longest, key=lambda scope: nth[scope])[:limit]

    async def owes_more_than(self, turns: int) -> bool:
        return sum(bool(turn.pending) and not turn.parked for turn in self._database.turns.values()) > turns

    async def owed_turns(
        self, scope: Scope, stage: Stage | None, *, limit: int, parked: bool = True, newest: bool = False
    ) -> list[Turn]:
        owed = [
            turn
            for turn in self._turns_of(scope)
            if (stage in turn.pending if stage else turn.pending) and (parked or not turn.parked)
        ]
        return sorted(owed, key=_order_of(scope), reverse=newest)[:limit]

    async def strike_off(self, scope: Scope, turn_ids: Sequence[str], *stages: Stage) -> None:
        for turn in self._turns_of(scope, turn_ids):
            if not set(stages).isdisjoint(turn.pending):
                left = tuple(owed for owed in turn.pending if owed not in stages)
                done: dict[str, Any] = {} if left else {"due_at": None, "parked": False}
                self._change(turn, pending=left, attempts=0, last_error=None, **done)

    async def postpone(
        self, scope: Scope, turn_ids: Sequence[str], *, error: str, due_at: datetime | None, counted: bool
    ) -> None:
        for turn in self._turns_of(scope, turn_ids):
            if turn.pending:
                attempts = turn.attempts + counted
                self._change(turn, attempts=attempts, last_error=error, due_at=due_at, parked=due_at is None)

    async def owe(
        self, scope: Scope, stage: Stage, *, now: datetime, turn_ids: Sequence[str] | None = None
    ) -> int:
        turns = self._turns_of(scope, turn_ids)
        for turn in turns:
            pending = tuple(owed for owed in STAGES if owed == stage or owed in turn.pending)
            self._change(turn, pending=pending, due_at=now, parked=False, attempts=0, last_error=None)
        return len(turns)

    async def retry_parked(self, scope: Scope | Tenant | None, *, now: datetime) -> int:
        parked = [turn for turn in self._turns_of(scope) if turn.parked]
        for turn in parked:
            self._change(turn, due_at=now, parked=False, attempts=0)
        return len(parked)

    async def bring_back(self, *, now: datetime, beyond: datetime) -> int:
        leases = self._database.leases
        late = [turn for turn in self._turns_of(None) if turn.due_at is not None and turn.due_at > beyond]
        lasting = [
            name for name, lease in leases.items() if lease.until > beyond and name not in OUTAGE_NAMES
        ]
        for turn in late:
            self._change(turn, due_at=now)
        leases.update({name: replace(leases[name], until=now) for name in lasting})
        return len(late) + len(lasting)

    async def status(self, scope: Scope | Tenant | None, *, now: datetime) -> MemoryStatus:
        turns = self._turns_of(scope)
        owed = [turn for turn in turns if turn.pending]
        parked = [ParkedTurn.of(turn) for turn in owed if turn.parked]
        waiting = [(now - stored_at(turn.id)).total_seconds() for turn in owed if not turn.parked]
        pending = {stage: sum(stage in turn.pending for turn in owed) for stage in STAGES}
        return MemoryStatus(
            turns=len(turns),
            pending=pending,
            owed_count=len(owed),
            parked_count=len(parked),
            parked=tuple(parked[:MOST_PARKED_TOLD]),
            lag_seconds=max(waiting, default=0.0),
            erasures=0,
            extraction=ExtractionCost(),
            outages=outages_of(self._database.leases.values(), pending),
        )

    async def acquire_leases(
        self, names: Sequence[str], holder: str, *, now: datetime, until: datetime, note: str | None = None
    ) -> set[str]:
        leases, taken = self._database.leases, set()
        for name in names:
            held = leases.get(name)
            live = held if held is not None and held.until > now else None
            if live is None or live.holder == holder:
                since = now if live is None else live.since
                leases[name] = Lease(name=name, holder=holder, since=since, until=until, note=note)
                taken.add(name)
        return taken

    async def load_lease(self, name: str) -> Lease | None:
        return self._database.leases.get(name)

    async def held_leases(self, now: datetime, *, limit: int) -> list[Lease]:
        held = sorted(self._database.leases.items())
        return [lease for name, lease in held if lease.until > now and name not in OUTAGE_NAMES][:limit]

    async def release_leases(self, names: Sequence[str], holder: str) -> None:
        for name in names:
            held = self._database.leases.get(name)
            if held is not None and held.holder == holder:
                del self._database.leases[name]

    def _turns_of(self, scope: Scope | Tenant | None, turn_ids: Sequence[str] | None = None) -> list[Turn]:
        asked = _any_of(turn_ids)
        turns = self._database.turns.values()
        return [turn for turn in turns if _holds(scope, turn.scope) and turn.id in asked]

    def _change(self, turn: Turn, **fields: Any) -> None:
        self._database.turns[turn.id] = replace(turn, **fields)


class DictionaryStore(DictionaryTurns, DictionaryWork):
    """What this store keeps: turns, and the work owed to them."""


class _Anything:
    def __contains__(self, _: object) -> bool:
        return True


def _any_of(values: Iterable[str] | None) -> Container[str | None]:
    """What a filter lets through; without one, everything."""
    return _Anything() if values is None else set(values)


def _check_thread(scope: Scope) -> None:
    if scope.thread_id is None:
        raise InvalidInput(f"the scope of user {scope.user_id!r} names no thread; this needs one")


def _is_of(stored: Turn, scope: Scope) -> bool:
    return stored.user_id == scope.user_id and scope.thread_id in (None, stored.thread_id)


def _holds(scope: Scope | Tenant | None, thread: Scope) -> bool:
    """Whether a thread is in the scope, or of the tenant; None is everybody's."""
    return scope is None or scope in (thread, thread.user, Tenant(name=thread.tenant))


def _order_of(scope: Scope) -> Callable[[Turn], Any]:
    """Of a thread by number, of a user by id."""
    return lambda turn: turn.id if scope.thread_id is None else turn.seq


def _turn(draft: TurnDraft, scope: Scope, seq: int) -> Turn:
    return Turn(
        id=draft.id,
        user_id=scope.user_id,
        thread_id=scope.thread_id or "",
        seq=seq,
        role=draft.role,
        content=draft.content,
        speaker=draft.speaker,
        timestamp=draft.timestamp,
        utc_offset_minutes=draft.utc_offset_minutes,
        tokens=draft.tokens,
        importance=draft.importance,
        metadata=copy.deepcopy(draft.metadata),
        session_id=draft.session_id,
        entities=draft.entities,
        given_entities=draft.given_entities,
        pending=tuple(stage for stage in STAGES if stage in draft.pending),
        due_at=draft.due_at if draft.pending else None,
    )
