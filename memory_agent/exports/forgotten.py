"""Filter of what is taken in: what was forgotten is left out, known again by the hashes in receipts. Pure."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from memory_agent.domain import ForgottenTurn, SpentKey, ThreadRemains

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from memory_agent.domain import (
        Compression,
        CopiedTurn,
        ErasureReceipt,
        FactChange,
        KeyedKind,
        Scope,
        Session,
        Topic,
    )
    from memory_agent.domain.work import Hasher
    from memory_agent.exports.records import Record


class Forgotten:
    """The receipts of forget calls, and the records that they are of. `count`: turns that were left out."""

    def __init__(self, receipts: Iterable[ErasureReceipt], hasher: Hasher) -> None:
        self._hasher = hasher
        self._of_user: dict[str, list[ErasureReceipt]] = defaultdict(list)
        for receipt in receipts:
            if receipt.key == hasher.key:
                self._of_user[receipt.user].append(receipt)
        self.count = 0

    def left(self, records: Iterable[Record]) -> Iterator[Record]:
        """The records without what was forgotten, each thread's turns first, as an export has them."""
        scope: Scope | None = None
        thread: _Thread | None = None
        for record in records:
            if record.scope is None:
                yield record
                continue
            if thread is None or record.scope != scope:
                scope = record.scope
                thread = _Thread(scope, self._receipts(scope), self._hasher)
            kept = thread.left(record)
            if kept is not None:
                yield kept
            elif record.kind == "turn":
                self.count += 1

    def _receipts(self, scope: Scope) -> Sequence[ErasureReceipt]:
        if not self._of_user:
            return ()
        of_user = self._of_user.get(self._hasher.user(scope.user_id), [])
        thread = self._hasher.thread(scope.user_id, scope.thread_id or "") if of_user else ""
        return [receipt for receipt in of_user if receipt.thread in (None, thread)]


class _Thread:
    """What was forgotten of one thread, as far as its turns were looked at."""

    def __init__(self, scope: Scope, receipts: Sequence[ErasureReceipt], hasher: Hasher) -> None:
        self._scope, self._hasher = scope, hasher
        self._users = max((receipt.before_id for receipt in receipts if receipt.thread is None), default="")
        self._before = max((receipt.before_id for receipt in receipts if not receipt.turns), default="")
        self._hashes = {turn for receipt in receipts for turn in receipt.turns}
        self._ids: set[str] = set()
        self._topics: set[str] = set()
        self._first = 0
        self._lives = False
        self._turns: list[ForgottenTurn] = []
        self._keys: list[SpentKey] = []

    def left(self, record: Record) -> Record | None:
        if record.kind == "remains":
            return self._remains(record)
        kept = self._kept(record)
        self._lives |= kept is not None
        return kept

    def _kept(self, record: Record) -> Record | None:
        value = record.value
        if record.kind == "turn":
            return None if self._is_gone(value) else record
        if record.kind == "row":
            return None if value.turn_id in self._ids else record
        if record.kind == "session":
            if value.id >= self._before:
                return record
            self._spend("session", value, value.id)
            return None
        if record.kind == "topic":
            return replace(record, value=self._topic(value)) if self._lives else None
        if record.kind == "change":
            if not self._had_in_view(value):
                return record
            self._spend("edit", value, value.key)
            return None
        if record.kind == "compression":
            return None if self._tells_of(value) else record
        return record

    def _remains(self, record: Record) -> Record | None:
        """With the keys of what was left out, as the forget calls leave them; of a thread that ended under hashes, of a user not at all."""
        value: ThreadRemains = record.value
        turns = tuple(turn for turn in (*value.turns, *self._turns) if turn.turn_id >= self._users)
        keys = tuple(key for key in (*value.keys, *self._keys) if key.id >= self._users)
        if self._lives:
            return replace(record, value=replace(value, turns=turns, keys=keys))
        if self._users and not (turns or keys):
            return None
        left = ThreadRemains(last_seq=value.last_seq, turns=turns, keys=keys)
        return replace(record, value=left, scope=self._hasher.remains(self._scope))

    def _spend(self, kind: KeyedKind, value: Session | FactChange, made_id: str) -> None:
        if value.idempotency_key is not None:
            self._keys.append(SpentKey(kind=kind, key=value.idempotency_key, id=self._hasher.gone(made_id)))

    def _is_gone(self, copied: CopiedTurn) -> bool:
        turn = copied.turn
        if not (turn.id < self._before or (self._hashes and self._hasher.turn(turn.id) in self._hashes)):
            return False
        self._ids.add(turn.id)
        if copied.idempotency_key is not None:
            self._turns.append(
                ForgottenTurn(
                    turn_id=self._hasher.gone(turn.id),
                    seq=turn.seq,
                    idempotency_key=copied.idempotency_key,
                    call_index=copied.call_index,
                    call_size=copied.call_size,
                )
            )
        self._first = min(self._first or turn.seq, turn.seq)
        if turn.topic_id is not None:
            self._topics.add(turn.topic_id)
        return True

    def _topic(self, topic: Topic) -> Topic:
        """The topic, without what was derived of turns that are gone: it is made anew of the others."""
        if self._topics.isdisjoint({topic.id, *topic.absorbed, *topic.parted}):
            return topic
        return replace(
            topic,
            title="",
            opener="",
            summary=None,
            words={},
            embedding=np.empty(0, dtype="<f2"),
            embedded=0,
            through=0,
            access_count=0,
            given_importance=None,
            stale=True,
        )

    def _had_in_view(self, change: FactChange) -> bool:
        if change.turn_id is None and change.key < self._before:
            return True
        return change.turn_id in self._ids or not self._ids.isdisjoint(change.turns)

    def _tells_of(self, compression: Compression) -> bool:
        return bool(self._first) and compression.through >= self._first
