"""A store of one noun in dictionaries, written from its port and the suite alone, without a look at other adapters.

Nothing here awaits, so every method runs whole before another begins; an adapter of a real database has to earn what this
one gets for nothing.
"""

import copy
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from memory_agent.domain import OldTurn, Scope, Tombstone, Turn, TurnDraft, said_otherwise
from memory_agent.errors import InvalidInput, StoreError


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


class DictionaryStore:
    """TurnStore."""

    def __init__(self, database: Database) -> None:
        self._database = database

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
        found = [
            turn
            for turn in self._database.turns.values()
            if _is_of(turn, scope)
            and (ids is None or turn.id in ids)
            and (topic_ids is None or turn.topic_id in topic_ids)
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


def _check_thread(scope: Scope) -> None:
    if scope.thread_id is None:
        raise InvalidInput(f"the scope of user {scope.user_id!r} names no thread; this needs one")


def _is_of(stored: Turn, scope: Scope) -> bool:
    return stored.user_id == scope.user_id and scope.thread_id in (None, stored.thread_id)


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
        tokens=draft.tokens,
        importance=draft.importance,
        metadata=copy.deepcopy(draft.metadata),
        session_id=draft.session_id,
        entities=draft.entities,
        pending=draft.pending,
        due_at=draft.due_at if draft.pending else None,
    )
