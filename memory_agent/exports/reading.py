"""Reading of a store for an export, while others write: thread by thread, in an order in which nothing can be missing.

A thread's turns come first. What is derived of turns that were stored later is left out: it is made again of them, or it is not known
of them. What was forgotten meanwhile is told by the receipts, which come last.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Final

from memory_agent.domain import Scope
from memory_agent.domain.work import HASHING, is_of_remains
from memory_agent.exports.records import Record, Secret

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence
    from datetime import datetime

    from memory_agent.domain import FactChange, Topic, Turn
    from memory_agent.domain.work import Hasher
    from memory_agent.ports import DocumentStore, KeyStore

_TURNS_AT_ONCE: Final = 500
_USERS_AT_ONCE: Final = 200
_EVER: Final = timedelta(days=36_500)


async def scopes_of(
    store: DocumentStore,
    *,
    tenant: str | None = None,
    user_id: str | None = None,
    thread_id: str | None = None,
    remains: bool = False,
) -> AsyncIterator[Scope]:
    """Every thread of which something is kept, or those of one tenant, one user (`user_id` as stored) or the one thread.

    `remains`: also the hashed ones that what stays of forgotten turns is kept under.
    """
    if user_id is not None:
        for scope in await _threads(store, user_id, thread_id):
            yield scope
        return
    after = ""
    while page := await store.stored_users(after=after, limit=_USERS_AT_ONCE):
        for each in page:
            if is_of_remains(each) and not remains:
                continue
            if tenant is None or Scope(user_id=each).tenant == tenant:
                for scope in await _threads(store, each, None):
                    yield scope
        after = page[-1]


async def _threads(store: DocumentStore, user_id: str, thread_id: str | None) -> list[Scope]:
    found = await store.stored_threads(user_id)
    return [Scope(user_id=user_id, thread_id=each) for each in found if thread_id in (None, each)]


async def thread_records(
    store: DocumentStore, scope: Scope, hasher: Hasher, *, vectors: bool
) -> AsyncIterator[Record]:
    """All records of a thread: turns, sessions, topics, changes of its facts, compressions, search rows, remains.

    Remains have hashes in place of ids, also those whose last pass is still to come: nobody would make it where they are taken in.
    """
    turns: dict[str, Turn] = {}
    last = 0
    while page := await store.copied_turns(scope, after_seq=last, limit=_TURNS_AT_ONCE):
        for copied in page:
            turns[copied.turn.id] = replace(copied.turn, content="")
            yield Record.of(copied, scope)
        last = page[-1].turn.seq
    for session in sorted(await store.sessions(scope), key=lambda session: session.number):
        yield Record.of(session, scope)
    owing = min((turn.seq for turn in turns.values() if "topics" in turn.pending), default=None)
    for topic in await store.list_topics(scope):
        yield Record.of(_of_copied_turns(topic, last, owing), scope)
    for change in await store.fact_changes(scope):
        if _is_of(change, turns):
            yield Record.of(change, scope)
    for compression in await store.compressions(scope):
        if turns.keys() >= set(compression.covers):
            yield Record.of(compression, scope)
    if vectors:
        async for record in _rows(store, scope, list(turns)):
            yield record
    remains = await store.thread_remains(scope)
    hashed = replace(
        remains,
        last_seq=max(remains.last_seq, last),
        turns=tuple(replace(gone, turn_id=hasher.gone(gone.turn_id)) for gone in remains.turns),
        keys=tuple(replace(spent, id=hasher.gone(spent.id)) for spent in remains.keys),
    )
    yield Record.of(hashed, scope)


def _of_copied_turns(topic: Topic, last: int, owing: int | None) -> Topic:
    """The topic; to be made anew if it may have been folded from turns that are not copied, or will be folded in again."""
    ahead = topic.through > last or (owing is not None and topic.through >= owing)
    return replace(topic, stale=True) if ahead else topic


def _is_of(change: FactChange, turns: dict[str, Turn]) -> bool:
    seen = {*change.turns, *([change.turn_id] if change.turn_id is not None else [])}
    return turns.keys() >= seen


async def _rows(store: DocumentStore, scope: Scope, ids: Sequence[str]) -> AsyncIterator[Record]:
    for start in range(0, len(ids), _TURNS_AT_ONCE):
        rows = await store.search_rows(scope.user_id, ids=ids[start : start + _TURNS_AT_ONCE])
        tokens: dict[str, bytes] = {}
        for embedder in sorted({row.embedder for row in rows}):
            of_it = [row.turn_id for row in rows if row.embedder == embedder]
            tokens |= await store.token_codes(scope.user_id, of_it, embedder=embedder)
        for row in sorted(rows, key=lambda row: row.seq):
            if not row.erased:
                yield Record.of(replace(row, tokens=tokens.get(row.turn_id, b"")), scope)


async def memory_records(store: DocumentStore, keys: KeyStore | None, now: datetime) -> AsyncIterator[Record]:
    """The records of the memory as a whole: API keys, the secret, forget calls that are under way, and receipts."""
    for key in await keys.list() if keys is not None else ():
        yield Record.of(key)
    secret = await store.get_meta(HASHING)
    if secret is not None:
        yield Record.of(Secret(key=secret["key"]))
    for erasure in await store.due_erasures(now + _EVER, limit=1_000_000):
        yield Record.of(erasure)
    for receipt in await store.receipts():
        yield Record.of(receipt)
