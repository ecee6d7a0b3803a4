"""Examination of a whole memory, thread by thread, and the repair of what was found."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final

from memory_agent.doctor.checks import Finding, ThreadView, findings_of
from memory_agent.domain import FactsDocument, Scope, Topic
from memory_agent.errors import BackendError, StoreError, VectorIndexUnavailable
from memory_agent.exports.reading import scopes_of

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Sequence
    from datetime import datetime

    from memory_agent.domain import SearchRow, Turn
    from memory_agent.ports import DocumentStore, KeyStore, VectorIndex
    from memory_agent.wiring import Core

_AT_ONCE: Final = 1_000
_OVERDUE: Final = timedelta(hours=1)
_SKEW: Final = timedelta(minutes=5)
_EVER: Final = timedelta(days=36_500)


@dataclass(kw_only=True, slots=True)
class Examined:
    """Totals of an examination."""

    users: int = 0
    threads: int = 0
    turns: int = 0


async def examine(
    store: DocumentStore,
    keys: KeyStore | None,
    vectors: VectorIndex | None,
    *,
    now: datetime,
    totals: Examined,
    progress: Callable[[int], None] | None = None,
) -> AsyncIterator[Finding]:
    """Compare everything; nothing is changed. `vectors`: of a Chroma server. `totals` counts what was looked at."""
    async for finding in _of_files(store, keys, now):
        yield finding
    user_id = ""
    rows: dict[str, list[SearchRow]] = {}
    async for scope in scopes_of(store):
        if scope.user_id != user_id:
            user_id, rows = scope.user_id, await _rows_of(store, scope.user_id)
            totals.users += 1
            if vectors is not None:
                async for finding in _of_vectors(store, vectors, scope.user_id):
                    yield finding
        try:
            view = await thread_view(store, scope, rows.get(str(scope.thread_id), []))
        except StoreError as exc:
            yield Finding(what=f"it cannot be read: {exc}", scope=scope)
            continue
        totals.threads += 1
        totals.turns += len(view.turns)
        for finding in findings_of(view):
            yield finding
        for finding in _of_clock(view.turns, scope, now):
            yield finding
        if progress is not None:
            progress(totals.turns)


async def _rows_of(store: DocumentStore, user_id: str) -> dict[str, list[SearchRow]]:
    """The user's search rows by thread."""
    rows: dict[str, list[SearchRow]] = defaultdict(list)
    for row in await store.search_rows(user_id):
        rows[row.thread_id].append(row)
    return rows


async def thread_view(store: DocumentStore, scope: Scope, rows: Sequence[SearchRow]) -> ThreadView:
    """Everything that is stored of a thread, whose search rows are given."""
    turns: list[Turn] = []
    while page := await store.copied_turns(scope, after_seq=turns[-1].seq if turns else 0, limit=_AT_ONCE):
        turns += [replace(copied.turn, content="") for copied in page]
    return ThreadView(
        scope=scope,
        turns=turns,
        sessions=await store.sessions(scope),
        topics=await store.list_topics(scope),
        document=await store.load_facts(scope),
        changes=await store.fact_changes(scope),
        compressions=await store.compressions(scope),
        rows=rows,
        remains=await store.thread_remains(scope),
    )


async def _of_files(store: DocumentStore, keys: KeyStore | None, now: datetime) -> AsyncIterator[Finding]:
    for said in await store.check_files():
        yield Finding(what=f"the store's file: {said}")
    state = await store.schema()
    if not state.finished:
        what = f"schema {state.version} is still kept for processes of an earlier version: `memory-agent upgrade`"
        yield Finding(what=what, wrong=False)
    if keys is not None:
        try:
            await keys.list()
        except BackendError as exc:
            yield Finding(what=f"API keys cannot be read: {exc}")
    status = await store.status(None, now=now)
    if status.lag_seconds > _OVERDUE.total_seconds():
        owed = ", ".join(f"{count:,} {stage}" for stage, count in status.pending.items() if count)
        yield Finding(
            what=f"work is owed since {status.lag_seconds / 3600:,.1f} hours ({owed}): does a worker run?",
            wrong=False,
        )
    overdue = await store.due_erasures(now - _OVERDUE, limit=1_000)
    if overdue:
        yield Finding(
            what=f"{len(overdue):,} forget calls wait for more than an hour: does a worker run?", wrong=False
        )
    late = [
        each
        for each in await store.due_erasures(now + _EVER, limit=1_000)
        if each.due_at > now + timedelta(days=1)
    ]
    if late:
        yield Finding(
            what=f"{len(late):,} forget calls are due in more than a day: was the clock ahead?", wrong=False
        )


async def _of_vectors(store: DocumentStore, vectors: VectorIndex, user_id: str) -> AsyncIterator[Finding]:
    scope = Scope(user_id=user_id)
    try:
        there = await vectors.turn_ids(user_id)
    except VectorIndexUnavailable as exc:
        yield Finding(what=f"the vector index is down: {exc}", scope=scope, wrong=False)
        return
    if not there:
        return
    rows = {row.turn_id for row in await store.search_rows(user_id) if not row.erased}
    if orphans := sorted(there - rows):
        what = f"{len(orphans):,} turns that are gone have vectors in the index"
        yield Finding(what=what, scope=scope, ids=tuple(orphans), repair="vectors")
    if await store.candidates_through(user_id) is not None and (missing := sorted(rows - there)):
        what = f"{len(missing):,} turns of a large user have no vectors in the index"
        yield Finding(what=what, scope=scope, ids=tuple(missing), repair="index")


def _of_clock(turns: Sequence[Turn], scope: Scope, now: datetime) -> list[Finding]:
    ahead = [
        turn.id for turn in turns if turn.due_at is not None and turn.due_at > now + timedelta(days=1) + _SKEW
    ]
    if not ahead:
        return []
    what = f"{len(ahead):,} turns owe work that is due in more than a day: was the clock ahead?"
    return [Finding(what=what, scope=scope, ids=tuple(ahead), wrong=False)]


async def repair(core: Core, finding: Finding, *, now: datetime) -> bool:
    """Mend a finding, or let the worker; False if only a person can. Raises BackendError where it fails."""
    scope, store = finding.scope, core.store
    if scope is None or not finding.repair:
        return False
    ids: Any = list(finding.ids)
    if finding.repair in ("index", "embed"):
        if finding.repair == "embed":
            rows = await store.search_rows(scope.user_id, ids=ids)
            await store.put_search_rows(scope.user_id, [replace(row, embedder="") for row in rows], now=now)
        await store.owe(scope, "index", now=now, turn_ids=ids)
    elif finding.repair == "sweep":
        await store.sweep_orphans(scope.user, stubs_before=now - _EVER, now=now)
        await core.facts.save_all(scope)
    elif finding.repair == "facts":
        document = await store.load_facts(scope)
        await store.save_facts(scope, FactsDocument(), expected=document.revision)
        await core.facts.save(scope)
    elif finding.repair == "topics":
        await _make_topics_anew(store, scope, ids, now)
        await core.folder.renew_soon(scope.user)
    elif finding.repair == "vectors":
        await core.vectors.delete(scope.user_id, ids)
    else:
        await store.retry_parked(scope, now=now)
    core.residents.drop(scope.user_id)
    core.facts.drop(scope.user_id)
    return True


async def _make_topics_anew(store: DocumentStore, scope: Scope, ids: Sequence[str], now: datetime) -> None:
    known = {topic.id: topic for topic in await store.list_topics(scope, ids=ids)}
    for topic_id in ids:
        empty = Topic(
            id=topic_id,
            user_id=scope.user_id,
            thread_id=str(scope.thread_id),
            created_at=now,
            last_access=now,
            stale=True,
        )
        there = known.get(topic_id)
        stale = empty if there is None else replace(there, stale=True, through=0)
        await store.save_topic(stale, expected=None if there is None else there.revision)
