"""Examination of a whole memory, user by user and thread by thread; nothing is changed, and a user's rows are the most in memory.

While a service is at work things are under way that look like differences. So what is found is looked at once more, a moment
later, and counts if it is still there.
"""

from __future__ import annotations

import asyncio
from collections import Counter, defaultdict
from contextlib import AsyncExitStack
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from memory_agent.adapters import open_keys, open_store, open_vectors
from memory_agent.clock import SystemClock
from memory_agent.domain import stored_at
from memory_agent.errors import BackendError, StoreError, StoreUnavailable, VectorIndexUnavailable
from memory_agent.exports.run import scopes_of
from memory_agent.facts.fold import fold_facts
from memory_agent.ports import ALL_ROWS
from memory_agent.topics.index import unmerged
from memory_agent.work.claims import lease_name
from memory_agent.work.forget import hasher_of

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Mapping, Sequence, Set

    from numpy.typing import NDArray

    from memory_agent.config import MemoryConfig
    from memory_agent.domain import (
        Compression,
        CopiedTurn,
        Erasure,
        ErasureReceipt,
        FactChange,
        FactsDocument,
        Scope,
        SearchRow,
        Session,
        ThreadRemains,
        TopicHead,
    )
    from memory_agent.domain.work import Hasher
    from memory_agent.ports import DocumentStore, KeyStore, VectorIndex


KINDS: Final[dict[str, tuple[str, str]]] = {
    "file_damaged": ("fault", "in the SQLite file"),
    "damaged": ("stored record", "that cannot be read, which keeps its thread from being examined"),
    "derived_damaged": ("derived record", "that cannot be read"),
    "unreadable": ("thread", "with something that cannot be read"),
    "text_lost": ("turn", "whose packed text is lost or damaged"),
    "row_missing": ("turn", "without a search row"),
    "row_orphan": ("search row", "of turns that are gone"),
    "row_false": ("search row", "with another place, role or time than the turn's"),
    "vectors_false": ("search row", "with vectors that are none"),
    "terms_missing": ("term", "missing in the large user's term index"),
    "vector_orphan": ("turn", "gone, with vectors in Chroma"),
    "vector_missing": ("turn", "without vectors where Chroma should have them"),
    "topic_missing": ("topic", "missing that turns belong to"),
    "topic_false": ("topic", "made of other turns than there are"),
    "topic_empty": ("topic", "of turns that are all gone"),
    "topicless": ("turn", "without a topic"),
    "session_missing": ("session", "missing that turns belong to"),
    "change_orphan": ("fact change", "of turns that are gone"),
    "facts_false": ("facts document", "not the fold of the thread's changes"),
    "compression_false": ("compression", "of turns that are gone, miscounted or out of order"),
    "parked": ("turn", "parked"),
    "stuck": ("turn", "with work that no worker would ever begin"),
    "lease_ahead": ("lease", "held far into the future: was a clock ahead?"),
    "erasure_lost": ("forget call", "whose last pass nobody owes"),
    "came_back": ("turn", "there again after being forgotten"),
    "keys": ("fault", "in the API keys"),
}
"""Of each kind: what is counted, and what is wrong with it."""
_BACKUP: Final = "restore a backup into another place"
_ERASE: Final = "erase it again: memory-agent erasures --jsonl > receipts.jsonl, memory-agent forget --from receipts.jsonl"
BY_HAND: Final = {
    "file_damaged": f"{_BACKUP}, or save what is readable: memory-agent doctor --save-to FILE; if it is an index alone: sqlite3 FILE REINDEX",
    "damaged": f"{_BACKUP}; or give these records up: memory-agent doctor --repair --forget-unreadable",
    "unreadable": f"{_BACKUP}, or save what is readable: memory-agent doctor --save-to FILE",
    "text_lost": f"{_BACKUP}; or give these turns up: memory-agent doctor --repair --forget-unreadable",
    "parked": "mend the cause, then: memory-agent retry",
    "erasure_lost": _ERASE,
    "came_back": _ERASE,
    "keys": "put keys.sqlite3 back from a backup, or move it away and make new keys: memory-agent keys create",
}
"""What a person does about those kinds that nothing makes anew."""
GIVEN_UP: Final = ("damaged", "text_lost")
"""Kinds of what is lost, which a person may give up."""
HIDING: Final = ("damaged", "derived_damaged")
"""Kinds of what has to be mended first, for it keeps the rest from being looked at."""
NOTES: Final = {
    "index_down": "Chroma cannot be asked, so that vectors were not looked at",
    "vectors_pending": "vectors are still to be written into Chroma; is a worker running? memory-agent worker",
    "owed": "owed for more than an hour; is a worker running? memory-agent worker",
    "erasures_owed": "forget calls wait for more than an hour; is a worker running? memory-agent worker",
    "clock": "turns have times of storing ahead of this clock; is it right?",
}
"""What is worth knowing, and nothing wrong."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Finding:
    """A difference. `ids`: what it is about, by the kind: turns, topics, sessions, fact changes; `detail`: what is known besides."""

    kind: str
    scope: Scope | None = None
    ids: tuple[str, ...] = ()
    detail: str = ""

    @property
    def wrong(self) -> bool:
        """False of what is only worth knowing."""
        return self.kind in KINDS

    @property
    def repair(self) -> bool:
        """True if it is made anew from the turns; otherwise a person has to do something."""
        return self.wrong and self.kind not in BY_HAND

    @property
    def what(self) -> str:
        """It in words, with how many."""
        more = f" ({self.detail})" if self.detail else ""
        if not self.wrong:
            return f"{NOTES[self.kind]}{more}"
        noun, rest = KINDS[self.kind]
        count = max(len(self.ids), 1)
        return f"{count:,} {noun}{'' if count == 1 else 's'} {rest}{more}"


def findings_by_kind(findings: Iterable[Finding]) -> list[list[Finding]]:
    """The findings of each kind: what is wrong before what is only worth knowing."""
    kinds: dict[str, list[Finding]] = {}
    for finding in findings:
        kinds.setdefault(finding.kind, []).append(finding)
    return sorted(kinds.values(), key=lambda of_kind: not of_kind[0].wrong)


def together(of_kind: Sequence[Finding]) -> Finding:
    """One finding in place of several of a kind, without what each says besides."""
    ids = tuple(each for one in of_kind for each in one.ids)
    return of_kind[0] if len(of_kind) == 1 else replace(of_kind[0], ids=ids, detail="")


def still_there(before: Sequence[Finding], now: Iterable[Finding]) -> list[Finding]:
    """Those of `before` that were found again, as far as they were: what is under way looks like a difference once."""
    again = {finding.kind: finding for finding in now}
    found = []
    for finding in before:
        ids = set(again[finding.kind].ids) if finding.kind in again else set()
        if kept := tuple(each for each in finding.ids if each in ids):
            found.append(replace(again[finding.kind], ids=kept))
    return found


FAR: Final = timedelta(days=1)
"""Longer than any lease, and than any pause before a retry."""
_SKEW: Final = timedelta(minutes=5)


class RowView(NamedTuple):
    """Search row, as far as it is compared. `dimension`: of its vectors, 0 without any, -1 of such as can be none."""

    turn_id: str
    seq: int
    role: str
    timestamp: datetime
    embedder: str
    dimension: int
    erased: bool

    @classmethod
    def of(cls, row: SearchRow) -> RowView:
        return cls(
            row.turn_id,
            row.seq,
            row.role,
            row.timestamp,
            row.embedder,
            _dimension(row.vectors),
            row.erased,
        )


def _dimension(vectors: NDArray[np.floating[Any]]) -> int:
    if not vectors.size:
        return 0
    return vectors.shape[1] if np.isfinite(vectors).all() and vectors.any(axis=1).all() else -1


@dataclass(frozen=True, kw_only=True, slots=True)
class ThreadView:
    """All that is stored of a thread, without texts. `dimensions`: of the user's vectors by their embedder."""

    scope: Scope
    turns: Sequence[CopiedTurn]
    sessions: Sequence[Session]
    topics: Sequence[TopicHead]
    changes: Sequence[FactChange]
    compressions: Sequence[Compression]
    rows: Sequence[RowView]
    dimensions: Mapping[str, int]
    document: FactsDocument
    remains: ThreadRemains
    now: datetime
    elsewhere: Set[str] = frozenset()
    """Of the turns that changes had in view, those that are in other threads of the user."""


def seen_by(change: FactChange) -> set[str]:
    """The turns that a change had in view, its own among them."""
    return {*change.turns, *([change.turn_id] if change.turn_id else [])}


def findings_of(view: ThreadView) -> Iterator[Finding]:
    """The differences within a thread."""
    for check in (_turns, _rows, _topics, _sessions, _facts, _compressions):
        for kind, ids, *detail in check(view):
            if found := tuple(ids):
                yield Finding(kind=kind, scope=view.scope, ids=found, detail=detail[0] if detail else "")


_Found = tuple[str, "Iterable[str]"] | tuple[str, "Iterable[str]", str]


def _turns(view: ThreadView) -> Iterator[_Found]:
    yield "text_lost", [copied.turn.id for copied in view.turns if not copied.readable]
    turns = [copied.turn for copied in view.turns]
    parked = [turn for turn in turns if turn.parked]
    if parked:
        errors = {turn.last_error for turn in parked if turn.last_error}
        more = f", and {len(errors) - 1} other errors" if len(errors) > 1 else ""
        yield "parked", [turn.id for turn in parked], f"{parked[-1].last_error or 'no error':.120}{more}"
    never = view.now + FAR
    yield (
        "stuck",
        [turn.id for turn in turns if turn.pending and not turn.parked and (turn.due_at or never) >= never],
    )
    yield "clock", [turn.id for turn in turns[-1:] if stored_at(turn.id) > view.now + _SKEW]


def _rows(view: ThreadView) -> Iterator[_Found]:
    rows = {row.turn_id: row for row in view.rows if not row.erased}
    turns = {copied.turn.id: copied.turn for copied in view.turns}
    yield (
        "row_missing",
        [turn.id for turn in turns.values() if "index" not in turn.pending and turn.id not in rows],
    )
    yield "row_orphan", rows.keys() - turns.keys()
    there = [(row, turns[turn_id]) for turn_id, row in rows.items() if turn_id in turns]
    yield (
        "row_false",
        [
            turn.id
            for row, turn in there
            if (row.seq, row.role, row.timestamp) != (turn.seq, turn.role, turn.timestamp)
        ],
    )
    yield (
        "vectors_false",
        [
            turn.id
            for row, turn in there
            if row.dimension < 0 or row.dimension not in (0, view.dimensions.get(row.embedder, row.dimension))
        ],
    )


def _topics(view: ThreadView) -> Iterator[_Found]:
    """Of turns that owe their topic nothing is said yet."""
    home = {turn_topic: topic for topic in unmerged(view.topics) for turn_topic in topic.turns_of}
    last: dict[str, int] = {}
    done: dict[str, int] = {}
    lost: set[str] = set()
    topicless: list[str] = []
    before = False
    for turn in (copied.turn for copied in view.turns):
        owes = "topics" in turn.pending
        if turn.topic_id is None:
            # Before the first question there is nothing that an assistant's turn could follow; without any topic they were switched off.
            if not owes and view.topics and (before or turn.role == "user"):
                topicless.append(turn.id)
            continue
        before = True
        topic = home.get(turn.topic_id)
        if topic is None:
            lost |= set() if owes else {turn.topic_id}
            continue
        last[topic.id] = max(turn.seq, last.get(topic.id, 0))
        if not owes:
            done[topic.id] = max(turn.seq, done.get(topic.id, 0))
    yield "topic_missing", sorted(lost)
    fresh = [topic for topic in view.topics if not topic.stale]
    yield (
        "topic_false",
        [
            topic.id
            for topic in fresh
            if topic.id in last and not done.get(topic.id, 0) <= topic.through <= last[topic.id]
        ],
    )
    carried = {copied.turn.topic_id for copied in view.turns}
    yield "topic_empty", [topic.id for topic in fresh if topic.through and carried.isdisjoint(topic.turns_of)]
    yield "topicless", topicless


def _sessions(view: ThreadView) -> Iterator[_Found]:
    known = {session.id for session in view.sessions}
    yield (
        "session_missing",
        sorted({copied.turn.session_id for copied in view.turns if copied.turn.session_id} - known),
    )


def _facts(view: ThreadView) -> Iterator[_Found]:
    there = {copied.turn.id for copied in view.turns} | view.elsewhere
    yield "change_orphan", [change.key for change in view.changes if not there >= seen_by(change)]
    through = view.document.through
    # One that is behind is right as far as it goes, and carried on by whoever reads it next.
    folded = fold_facts([change for change in view.changes if change.seq <= through])
    if through > view.remains.last_change or dict(view.document.people) != folded.people:
        yield "facts_false", ["document"]


def _compressions(view: ThreadView) -> Iterator[_Found]:
    there = {copied.turn.id for copied in view.turns}
    false = {one.id for one in view.compressions if not there.issuperset(one.covers)}
    if view.compressions and view.compressions[0].number != 1:
        false.add(view.compressions[0].id)
    false |= {
        after.id
        for before, after in pairwise(view.compressions)
        if (after.number, after.after_seq) != (before.number + 1, before.through)
    }
    if view.compressions:  # of which the last tells how many turns there are
        last = view.compressions[-1]
        if last.turns != sum(copied.turn.seq <= last.through for copied in view.turns):
            false.add(last.id)
    yield "compression_false", sorted(false)


_AT_ONCE: Final = 1_000
_TERMS_AT_ONCE: Final = 500
_OVERDUE: Final = timedelta(hours=1)
_DOUBTFUL: Final = 200
"""Threads and users of which something was found, before they are looked at once more."""
NO_END: Final = datetime(9_000, 1, 1, tzinfo=UTC)


@dataclass(kw_only=True, slots=True)
class Totals:
    """Totals of an examination."""

    users: int = 0
    threads: int = 0
    turns: int = 0


@dataclass(kw_only=True, slots=True)
class _UsersRows:
    """A user's search rows by thread, and of a large user how many rows hold each term."""

    by_thread: dict[str, list[RowView]] = field(default_factory=lambda: defaultdict(list))
    dimensions: dict[str, int] = field(default_factory=dict)
    terms: Counter[str] = field(default_factory=Counter)
    large: bool = False
    readable: bool = True
    """False if one of them is damaged; then each thread reads its own."""


class Examiner:
    """Examines a memory. `keys`, `vectors`: None where they are not looked at; the latter of a Chroma server alone.

    `topics`: False where they are switched off, so that nobody misses any.
    """

    def __init__(
        self,
        store: DocumentStore,
        keys: KeyStore | None,
        vectors: VectorIndex | None,
        *,
        now: datetime,
        topics: bool = True,
        progress: Callable[[Totals], None] | None = None,
        moment_seconds: float = 1.0,
    ) -> None:
        self.totals = Totals()
        self._store, self._keys, self._vectors = store, keys, vectors
        self._now, self._progress, self._moment_seconds = now, progress, moment_seconds
        self._topics = topics
        self._receipts: dict[str, list[ErasureReceipt]] = {}
        self._hasher: Hasher | None = None
        self._under_way: list[Erasure] | None = None
        self._doubtful: list[tuple[list[Finding], Callable[[], Awaitable[list[Finding]]]]] = []

    async def findings(self) -> AsyncIterator[Finding]:
        """Whatever differs, and what else is worth knowing."""
        for whole in (self._files, self._api_keys, self._work, self._erasures):
            for finding in await whole():
                yield finding
        user: Scope | None = None
        threads: set[str] = set()
        rows = _UsersRows()
        async for scope in scopes_of(self._store):
            if user is None or scope.user_id != user.user_id:
                if user is not None:
                    await self._look_at_user(user, threads, rows)
                user, threads = scope.user, set()
                rows = await self._rows(user.user_id)
                self.totals.users += 1
            threads.add(str(scope.thread_id))
            await self._look_at_thread(scope, rows)
            if len(self._doubtful) >= _DOUBTFUL:
                for finding in await self._confirmed():
                    yield finding
        if user is not None:
            await self._look_at_user(user, threads, rows)
        for finding in await self._confirmed():
            yield finding

    async def _confirmed(self) -> list[Finding]:
        """What was found so far and is still so a moment later."""
        doubtful, self._doubtful = self._doubtful, []
        if doubtful:
            await asyncio.sleep(self._moment_seconds)
            self._under_way = None
        return [finding for found, look in doubtful for finding in still_there(found, await look())]

    def _note(self, found: list[Finding], look: Callable[[], Awaitable[list[Finding]]]) -> None:
        if found:
            self._doubtful.append((found, look))

    # --- the memory as a whole -------------------------------------------------------------------------------
    async def _files(self) -> list[Finding]:
        found = await self._store.check_files()
        more = f", and {len(found) - 1} more" if len(found) > 1 else ""
        return [Finding(kind="file_damaged", ids=tuple(found), detail=f"{found[0]}{more}")] if found else []

    async def _api_keys(self) -> list[Finding]:
        try:
            if self._keys is not None:
                await self._keys.list()
        except BackendError as exc:
            return [Finding(kind="keys", detail=str(exc))]
        return []

    async def _work(self) -> list[Finding]:
        status = await self._store.status(None, now=self._now)
        if status.lag_seconds <= _OVERDUE.total_seconds():
            return []
        owed = ", ".join(f"{count:,} {stage}" for stage, count in status.pending.items() if count)
        down = "".join(f"; {one.stage} waits for {one.part}: {one.error:.100}" for one in status.outages)
        what = f"{owed}; the oldest for {status.lag_seconds / 3600:,.1f} hours{down}"
        return [Finding(kind="owed", detail=what)]

    async def _erasures(self) -> list[Finding]:
        receipts = await self._store.receipts()
        if receipts:
            self._hasher = await hasher_of(self._store)
            for receipt in receipts:
                self._receipts.setdefault(receipt.user, []).append(receipt)
        found = []
        due = await self._store.due_erasures(self._now - _OVERDUE, limit=_AT_ONCE)
        if due:
            found.append(Finding(kind="erasures_owed", detail=f"{len(due):,}"))
        owed = {receipt.id for receipt in receipts if receipt.state == "owed"}
        owed -= {erasure.id for erasure in await self._store.due_erasures(NO_END, limit=1_000_000)}
        if owed:  # or they were finished between the two reads
            owed &= {receipt.id for receipt in await self._store.receipts(state="owed")}
        return [*found, *([Finding(kind="erasure_lost", ids=tuple(sorted(owed)))] if owed else [])]

    # --- a user ----------------------------------------------------------------------------------------------
    async def _rows(self, user_id: str) -> _UsersRows:
        rows = _UsersRows(large=await self._store.candidates_through(user_id) == ALL_ROWS)
        sizes: dict[str, Counter[int]] = defaultdict(Counter)
        after = 0
        try:
            while page := await self._store.search_rows(user_id, after=after, limit=_AT_ONCE):
                for row in page:
                    view = RowView.of(row)
                    rows.by_thread[row.thread_id].append(view)
                    sizes[view.embedder][view.dimension] += view.dimension > 0
                    if rows.large and not row.erased:
                        rows.terms.update(row.terms.keys())
                after = page[-1].index_seq
        except StoreUnavailable:
            raise
        except StoreError:
            return _UsersRows(readable=False)
        rows.dimensions = {embedder: of_it.most_common(1)[0][0] for embedder, of_it in sizes.items()}
        return rows

    async def _look_at_user(self, user: Scope, threads: set[str], rows: _UsersRows) -> None:
        async def look(rows: _UsersRows) -> list[Finding]:
            if not rows.readable:
                return []  # the thread of the one that is damaged says so
            checks = (self._nobodys_rows, self._terms, self._indexed)
            return [finding for check in checks for finding in await check(user, threads, rows)]

        async def again() -> list[Finding]:
            return await look(await self._rows(user.user_id))

        self._note(await look(rows), again)

    async def _nobodys_rows(self, user: Scope, threads: set[str], rows: _UsersRows) -> list[Finding]:
        left: list[str] = []
        for thread_id, views in rows.by_thread.items():
            if thread_id not in threads:
                ids = [view.turn_id for view in views if not view.erased]
                left += await self._but_under_erasure(user.user_id, thread_id, ids)
        return [Finding(kind="row_orphan", scope=user, ids=tuple(left))] if left else []

    async def _but_under_erasure(self, user_id: str, thread_id: str, ids: Sequence[str]) -> list[str]:
        """The turns that no forget call under way is of: a search row that was written meanwhile goes with its last pass."""
        if not ids:
            return []
        if self._under_way is None:
            self._under_way = await self._store.due_erasures(NO_END, limit=1_000_000)
        whose = {(user_id, None), (user_id, thread_id)}
        own = [one for one in self._under_way if (one.scope.user_id, one.scope.thread_id) in whose]
        gone = {turn_id for one in own for turn_id in one.turn_ids or ()}
        before = max((one.before_id for one in own if one.turn_ids is None), default="")
        return [turn_id for turn_id in ids if turn_id >= before and turn_id not in gone]

    async def _terms(self, user: Scope, _: set[str], rows: _UsersRows) -> list[Finding]:
        if not rows.large:
            return []
        terms, missing = sorted(rows.terms), []
        for start in range(0, len(terms), _TERMS_AT_ONCE):
            some = terms[start : start + _TERMS_AT_ONCE]
            held = (await self._store.term_candidates(user, some, limit=0)).frequency
            missing += [term for term in some if held[term] < rows.terms[term]]
        return [Finding(kind="terms_missing", scope=user, ids=tuple(missing))] if missing else []

    async def _indexed(self, user: Scope, _: set[str], rows: _UsersRows) -> list[Finding]:
        """Chroma's vectors against the rows."""
        if self._vectors is None:
            return []
        try:
            there = await self._vectors.turn_ids(user.user_id)
            found_by = await self._vectors.turn_ids(user.user_id, searched=True)
        except VectorIndexUnavailable as exc:
            return [Finding(kind="index_down", scope=user, ids=("server",), detail=f"{exc!s:.200}")]
        views = [view for of_thread in rows.by_thread.values() for view in of_thread if not view.erased]
        missing = {view.turn_id for view in views if view.dimension > 0} - found_by
        fills = await self._store.vector_fills([user.user_id], limit=1)
        is_filled = any(not fill.pending for fill in fills)
        found = [
            ("vector_orphan", there - {view.turn_id for view in views}),
            ("vector_missing" if is_filled else "vectors_pending", missing),
        ]
        return [Finding(kind=kind, scope=user, ids=tuple(sorted(ids))) for kind, ids in found if ids]

    # --- a thread --------------------------------------------------------------------------------------------
    async def _look_at_thread(self, scope: Scope, rows: _UsersRows) -> None:
        dimensions = rows.dimensions

        async def look(
            of_thread: Sequence[RowView] | None = None, others: Sequence[str] = ()
        ) -> list[Finding]:
            try:
                view = await self._view(scope, of_thread, others, dimensions)
            except StoreUnavailable:
                raise
            except StoreError as exc:
                return await self._damaged(scope, exc)
            counts.append(len(view.turns))
            found = [*findings_of(view), *self._came_back(view), *await self._leases(view)]
            for number, finding in enumerate(found):
                if finding.kind == "row_orphan":
                    ids = await self._but_under_erasure(scope.user_id, str(scope.thread_id), finding.ids)
                    found[number] = replace(finding, ids=tuple(ids))
            found = [finding for finding in found if finding.ids or finding.kind != "row_orphan"]
            return [finding for finding in found if self._topics or finding.kind != "topicless"]

        counts: list[int] = []
        found = await look(rows.by_thread.get(str(scope.thread_id), []) if rows.readable else None)
        others = [turn_id for finding in found if finding.kind == "row_orphan" for turn_id in finding.ids]
        self._note(found, lambda: look(others=others))
        self.totals.threads += 1
        self.totals.turns += sum(counts[:1])
        if self._progress is not None:
            self._progress(self.totals)

    async def _damaged(self, scope: Scope, why: StoreError) -> list[Finding]:
        """The records of the thread that cannot be read, by name where they can be told."""
        try:
            records = await self._store.damaged_records(scope)
        except StoreUnavailable:
            raise
        except StoreError:
            records = []  # pages of the file are damaged, of which no statement gets through
        found = []
        for kind in ("damaged", "derived_damaged"):
            some = [one for one in records if one.derived == (kind == "derived_damaged")]
            if some:
                detail = f"{some[0].table} {some[0].of}: {some[0].error:.120}"
                ids = tuple(f"{one.table} {one.of}" for one in some)
                found.append(Finding(kind=kind, scope=scope, ids=ids, detail=detail))
        return found or [Finding(kind="unreadable", scope=scope, ids=("thread",), detail=str(why))]

    async def _view(
        self,
        scope: Scope,
        rows: Sequence[RowView] | None,
        others: Sequence[str],
        dimensions: dict[str, int],
    ) -> ThreadView:
        """All of the thread. Without `rows` those of its turns, and of `others`, are read after these."""
        store = self._store
        turns: list[CopiedTurn] = []
        while page := await store.copied_turns(
            scope, after_seq=turns[-1].turn.seq if turns else 0, limit=_AT_ONCE, texts=False
        ):
            turns += page
        document = await store.load_facts(scope)
        changes = await store.fact_changes(scope)
        if rows is None:
            ids = [*(copied.turn.id for copied in turns), *others]
            rows = await self._rows_of(scope.user_id, ids)
        unseen = {turn_id for change in changes for turn_id in seen_by(change)}
        unseen -= {copied.turn.id for copied in turns}
        return ThreadView(
            scope=scope,
            turns=turns,
            sessions=await store.sessions(scope),
            topics=await store.topic_heads(scope),
            document=document,
            changes=changes,
            compressions=await store.compressions(scope),
            rows=rows,
            dimensions=dimensions,
            remains=await store.thread_remains(scope),
            now=self._now,
            elsewhere={turn.id for turn in await store.list_turns(scope.user, ids=sorted(unseen))}
            if unseen
            else frozenset(),
        )

    async def _rows_of(self, user_id: str, ids: Sequence[str]) -> list[RowView]:
        found: list[RowView] = []
        for start in range(0, len(ids), _AT_ONCE):
            some = await self._store.search_rows(user_id, ids=ids[start : start + _AT_ONCE])
            found += map(RowView.of, some)
        return found

    def _came_back(self, view: ThreadView) -> list[Finding]:
        """Turns of finished forget calls; those that are under way have yet to erase theirs."""
        hasher, scope = self._hasher, view.scope
        if hasher is None or not (of_user := self._receipts.get(hasher.user(scope.user_id))):
            return []
        thread = hasher.thread(scope.user_id, str(scope.thread_id))
        done = [one for one in of_user if one.thread in (None, thread) and one.state != "owed"]
        before = max((one.before_id for one in done if not one.turns), default="")
        turns = {turn for one in done for turn in one.turns}
        ids = [copied.turn.id for copied in view.turns]
        back = [turn_id for turn_id in ids if turn_id < before or (turns and hasher.turn(turn_id) in turns)]
        return [Finding(kind="came_back", scope=scope, ids=tuple(back))] if back else []

    async def _leases(self, view: ThreadView) -> list[Finding]:
        """Leases that keep what is owed from being done."""
        owed = {stage for copied in view.turns for stage in copied.turn.pending}
        found = []
        for stage in sorted(owed):
            lease = await self._store.load_lease(lease_name(stage, view.scope))
            if lease is not None and lease.until > self._now + FAR:
                found.append(lease.name)
        return [Finding(kind="lease_ahead", scope=view.scope, ids=tuple(found))] if found else []


async def open_stores(cfg: MemoryConfig, stack: AsyncExitStack) -> tuple[DocumentStore, VectorIndex | None]:
    """The stores alone, which several processes may read at once, whoever holds the folder."""
    store = await open_store(cfg, None, stack)
    return store, await open_vectors(cfg, store, lambda: "", stack) if cfg.has_chroma else None


async def examined(
    cfg: MemoryConfig,
    store: DocumentStore,
    vectors: VectorIndex | None,
    progress: Callable[[Totals], None] | None = None,
) -> tuple[list[Finding], Totals]:
    """All findings, API keys among them, and how much was looked at."""
    found: list[Finding] = []
    async with AsyncExitStack() as stack:
        keys = None
        try:
            keys = await open_keys(cfg, None, stack)
        except BackendError as exc:
            found.append(Finding(kind="keys", detail=str(exc)))
        now = SystemClock().now()
        examiner = Examiner(store, keys, vectors, now=now, topics=cfg.enable_topics, progress=progress)
        found += [finding async for finding in examiner.findings()]
    return found, examiner.totals
