"""The facts documents of a thread, or of all of a user's: saved, brought up to its changes, and read.

It is only a copy of the fold of its changes, which can be made again at any time.
"""

from __future__ import annotations

import asyncio
import copy
import dataclasses
import functools
import logging
from collections import OrderedDict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final
from weakref import WeakValueDictionary

from memory_agent.concurrency import Tries
from memory_agent.domain import FactsDocument, Scope
from memory_agent.facts.fold import fold_facts, followed, overlap, person_key, place_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime

    from memory_agent.domain import FactChange, FactRecord
    from memory_agent.facts.fold import Folded
    from memory_agent.ports import DocumentStore

log = logging.getLogger(__name__)

Heads = dict[str, tuple[int, int]]
"""See `FactStore.fact_heads`."""

_MANY_CHANGES: Final = 200
_KEPT: Final = 200
"""So many documents stay in memory; folding the 3,000 changes of one takes 0.1 s."""
_CHANGES_KEPT: Final = 100_000
"""Of so many changes altogether: a fact takes some 1 KB with its line and words."""
_HISTORIES_KEPT: Final = 4
"""Histories stay too, of those who were looked at last; one of 10,000 facts takes some 30 MB, and 20 as of another time."""


@dataclass(kw_only=True, slots=True)
class CurrentFacts:
    """The facts of each person as they were folded last. They are kept, so nobody may change them.

    `at`: the last place of their changes; `last`: of one thread's the one with the highest number; `items`: what prompts have made of
    them, kept as long.
    """

    people: Mapping[str, Mapping[str, Any]]
    at: str = ""
    last: FactChange | None = None
    items: dict[Any, Any] = field(default_factory=dict)


@dataclass(kw_only=True, slots=True)
class _History:
    """The changes of a scope, and their folds: as of now (None), and of the other time that was asked for last."""

    changes: Sequence[FactChange]
    folds: dict[datetime | None, Folded] = field(default_factory=dict)


class FactDocuments:
    """Keeps documents in step with their changes, and answers what is known."""

    def __init__(self, store: DocumentStore) -> None:
        self._store = store
        self._saving: WeakValueDictionary[Scope, asyncio.Lock] = WeakValueDictionary()
        self._current: OrderedDict[Scope, tuple[Heads, CurrentFacts]] = OrderedDict()
        self._histories: OrderedDict[Scope, tuple[Heads, _History]] = OrderedDict()
        self._asked: set[Scope] = set()
        self._saved: set[Scope] = set()
        """Threads whose document was found or brought up to date since `drop_idle`."""
        self._dropped = 0

    def drop(self, user_id: str) -> None:
        """Forget what is kept of a user, and what is being read."""
        self._dropped += 1
        self._saved = {scope for scope in self._saved if scope.user_id != user_id}
        for kept in self._caches():
            for scope in [scope for scope in kept if scope.user_id == user_id]:
                del kept[scope]

    def drop_idle(self) -> None:
        """Forget what nobody has asked for since this was called last."""
        for kept in self._caches():
            for scope in kept.keys() - self._asked:
                del kept[scope]
        self._asked.clear()
        self._saved.clear()

    def _caches(self) -> tuple[OrderedDict[Scope, Any], ...]:
        return self._current, self._histories

    async def folded(
        self,
        changes: Sequence[FactChange],
        *,
        as_of: datetime | None = None,
        recorded_by: datetime | None = None,
    ) -> Folded:
        """See `fold_facts`; off the event loop where it takes longer."""
        fold = functools.partial(fold_facts, changes, as_of=as_of, recorded_by=recorded_by)
        return await asyncio.to_thread(fold) if len(changes) > _MANY_CHANGES else fold()

    async def known(self, scope: Scope, as_of: datetime | None = None) -> Folded:
        """The fold of the scope's changes, see `fold_facts`. It is kept, so nobody may change it."""
        history = await self._history(scope)
        if as_of not in history.folds:
            folded = await self.folded(history.changes, as_of=as_of)
            history.folds = {
                time: fold for time, fold in history.folds.items() if time is None or as_of is None
            }
            history.folds[as_of] = folded
        return history.folds[as_of]

    async def changes(self, scope: Scope) -> Sequence[FactChange]:
        """The scope's changes, which are kept as well."""
        return (await self._history(scope)).changes

    async def _history(self, scope: Scope) -> _History:
        dropped, heads = self._dropped, await self._store.fact_heads(scope)
        of, history = self._histories.get(scope, (None, None))
        if history is None or of != heads:
            kept = () if history is None else history.changes
            new = await self._since(scope, of or {}, heads, kept[-1]) if kept else None
            # All of a user are in the order in which they were recorded, which a clock put back may part from their numbers.
            times = [change.recorded_at for change in (*kept[-1:], *(new or ()))]
            if new is None or times != sorted(times) or dropped != self._dropped:
                kept, new = (), await self._store.fact_changes(scope)
            history = _History(changes=[*kept, *new])
            if dropped == self._dropped:
                self._histories[scope] = heads_of(history.changes), history
        self._asked.add(scope)
        _bound(self._histories, scope, most=_HISTORIES_KEPT)
        return history

    async def current(self, scope: Scope) -> CurrentFacts:
        """The facts of the thread, or of all the user's threads, as they were folded last if there are no other changes since."""
        dropped, heads = self._dropped, await self._store.fact_heads(scope)
        of, facts = self._current.get(scope, ({}, CurrentFacts(people={})))
        if of != heads:
            # Not from the stored document, which an erasure resets only after its changes are gone.
            found = await self._grown(scope, of, heads, facts)
            if found is None or dropped != self._dropped:
                changes = await self._store.fact_changes(scope) if heads else []
                found = heads_of(changes), await self._folded_now(changes)
            of, facts = found
            if dropped == self._dropped and _count(of) <= _CHANGES_KEPT:
                self._current[scope] = of, facts
                while sum(_count(of) for of, _ in self._current.values()) > _CHANGES_KEPT:
                    self._current.popitem(last=False)
        self._asked.add(scope)
        _bound(self._current, scope, most=_KEPT)
        return facts

    async def _folded_now(self, changes: Sequence[FactChange]) -> CurrentFacts:
        people = (await self.folded(changes)).people if changes else {}
        last = max(changes, key=lambda change: change.seq, default=None)
        return CurrentFacts(people=people, at=max((change.at for change in changes), default=""), last=last)

    async def _grown(
        self, scope: Scope, of: Heads, heads: Heads, facts: CurrentFacts
    ) -> tuple[Heads, CurrentFacts] | None:
        """The facts of one thread with the changes since `of`; None where others are gone, or where they need a fold of them all."""
        new = None if facts.last is None else await self._since(scope, of, heads, facts.last)
        if new is None or facts.last is None:
            return None
        document = followed(FactsDocument(facts=facts.people, through=facts.last.seq, at=facts.at), new)
        if document is None:
            return None
        return heads, CurrentFacts(people=document.facts, at=document.at, last=new[-1])

    async def _since(
        self, scope: Scope, of: Heads, heads: Heads, last: FactChange
    ) -> list[FactChange] | None:
        """The changes of one thread since `of`, when `last` was its last; None of several threads, and where others are gone."""
        if len(heads) != 1 or of.keys() != heads.keys():
            return None
        ((thread_id, (count, number)),) = of.items()
        thread = Scope(user_id=scope.user_id, thread_id=thread_id)
        found = await self._store.fact_changes(thread, after_seq=number - 1)
        new = [change for change in found[1:] if change.seq <= heads[thread_id][1]]
        # Numbers begin at 1 again where a thread was forgotten and nothing of it is left: then another change has the last one's.
        # If that is still there, with so many new ones and no more than these, those before are the same.
        if found[:1] != [last] or not new or count + len(new) != heads[thread_id][0]:
            return None
        return new

    async def save(self, scope: Scope) -> None:
        """Store the fold of the thread's changes as its document, unless it is that already."""
        # One at a time: whoever waited finds that the one before folded its change as well.
        async with self._saving.setdefault(scope, asyncio.Lock()):
            await self._save(scope)

    async def heal(self, scope: Scope) -> None:
        """Save the document where it is not known to be up to date: who appended changes may have died before."""
        if scope not in self._saved:
            await self.save(scope)

    async def save_all(self, scope: Scope) -> None:
        """The same for the scope's thread, or for every thread of the user that has changes."""
        if scope.thread_id is not None:
            await self.save(scope)
            return
        for thread_id in sorted({change.thread_id for change in await self._store.fact_changes(scope)}):
            await self.save(Scope(user_id=scope.user_id, thread_id=thread_id))

    async def _save(self, scope: Scope) -> None:
        dropped = self._dropped
        async for _ in Tries():
            document, updated = await self._brought_up(scope)
            if updated is document or await self._store.save_facts(
                scope, updated, expected=document.revision
            ):
                if dropped == self._dropped:
                    self._saved.add(scope)
                return
            # Another worker or an erasure was first; fold again from what is there now.
        log.warning("facts document kept changing; it is read through its events until the next change")

    async def _brought_up(self, scope: Scope) -> tuple[FactsDocument, FactsDocument]:
        """The document as it is stored, and as its changes make it: the same if there are no new ones."""
        document = await self._store.load_facts(scope)
        new = await self._store.fact_changes(scope, after_seq=document.through)
        if not new:
            return document, document
        # Most changes follow all before them; then what is folded already need not be folded again.
        if (updated := followed(document, new)) is not None:
            return document, updated
        changes = await self._store.fact_changes(scope)
        if not changes:
            return document, document
        folded, at = await self.folded(changes), max(change.at for change in changes)
        return document, FactsDocument(facts=folded.people, through=changes[-1].seq, at=at)

    async def people(
        self,
        scope: Scope,
        *,
        as_of: datetime | None = None,
        recorded_by: datetime | None = None,
        through: int | None = None,
    ) -> dict[str, dict[str, Any]]:
        """The facts of each person in the thread, or in all the user's threads, newest statement last.

        `through`: of a thread, only from its turns up to that `seq`, and what people said themselves up to then.
        """
        if as_of is None and recorded_by is None and through is None:
            return copy.deepcopy(
                {name: {**facts} for name, facts in (await self.current(scope)).people.items()}
            )
        changes = await self._store.fact_changes(scope)
        if through is not None:
            after = place_of(through + 1)
            changes = [change for change in changes if change.kind in ("replay", "undo") or change.at < after]
        return (await self.folded(changes, as_of=as_of, recorded_by=recorded_by)).people

    async def history(
        self,
        scope: Scope,
        path: tuple[str, ...] = (),
        *,
        about: str | None = None,
        as_of: datetime | None = None,
        recorded_by: datetime | None = None,
    ) -> list[FactRecord]:
        """Every event at, above or below `path`, in the order of the fold; refused items last.

        `about`: only of the facts of the person called that. `as_of` and `recorded_by`: as it was then, see `fold_facts`.
        """
        if recorded_by is None:
            found = (await self.known(scope, as_of)).records
        else:
            changes = await self._store.fact_changes(scope)
            found = (await self.folded(changes, as_of=as_of, recorded_by=recorded_by)).records
        # What was refused without saying what it was about is about nothing in particular.
        found = tuple(record for record in found if record.path or not path or record.refused is None)
        whose = None if about is None else person_key(about)
        return [
            _apart(record)
            for record in found
            if overlap(record.path, path) and whose in (None, person_key(record.subject))
        ]


def _bound(kept: OrderedDict[Any, Any], used: object, *, most: int) -> None:
    """Keep the last `most`, of which `used` is the newest, if it was not dropped meanwhile."""
    if used in kept:
        kept.move_to_end(used)
    while len(kept) > most:
        kept.popitem(last=False)


def _apart(record: FactRecord) -> FactRecord:
    """The record, with which its reader may do anything."""
    parts = {name: getattr(record, name) for name in ("value", "old")}
    own: dict[str, Any] = {
        name: copy.deepcopy(part) for name, part in parts.items() if isinstance(part, dict | list)
    }
    return dataclasses.replace(record, **own) if own else record


def _count(heads: Heads) -> int:
    """How many changes they are the heads of."""
    return sum(count for count, _ in heads.values())


def heads_of(changes: Sequence[FactChange]) -> Heads:
    """The heads of the threads that these are all changes of."""
    heads: Heads = {}
    for change in changes:
        count, last = heads.get(change.thread_id, (0, 0))
        heads[change.thread_id] = count + 1, max(last, change.seq)
    return heads
