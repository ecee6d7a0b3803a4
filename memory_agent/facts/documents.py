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
from memory_agent.facts.fold import fold_facts, fold_onto, overlap, person_key, place_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime

    from memory_agent.domain import FactChange, FactRecord
    from memory_agent.facts.fold import Folded
    from memory_agent.ports import DocumentStore

log = logging.getLogger(__name__)

Heads = dict[str, tuple[int, int, int]]
"""See `FactStore.fact_heads`."""

_MANY_CHANGES: Final = 200
_KEPT: Final = 200
"""So many scopes stay in memory; folding the 3,000 changes of one takes 0.1 s."""
_CHANGES_KEPT: Final = 50_000
"""Of so many changes altogether: one takes some 2 KB with its fact's line and words, and as much again once its history is looked at."""


@dataclass(kw_only=True, slots=True)
class CurrentFacts:
    """The facts of each person as they were folded last. They are kept, so nobody may change them.

    `items`: what prompts have made of them, kept as long.
    """

    people: Mapping[str, Mapping[str, Any]]
    items: dict[Any, Any] = field(default_factory=dict)


@dataclass(kw_only=True, slots=True)
class _History:
    """The changes of a scope, and what was made of them: the facts, and the fold as of the time that was asked for last."""

    heads: Heads
    changes: Sequence[FactChange]
    current: CurrentFacts | None = None
    folds: dict[datetime | None, Folded] = field(default_factory=dict)


class FactDocuments:
    """Keeps documents in step with their changes, and answers what is known."""

    def __init__(self, store: DocumentStore) -> None:
        self._store = store
        self._saving: WeakValueDictionary[Scope, asyncio.Lock] = WeakValueDictionary()
        self._histories: OrderedDict[Scope, _History] = OrderedDict()
        self._asked: set[Scope] = set()
        self._dropped = 0

    def drop(self, user_id: str) -> None:
        """Forget what is kept of a user, and what is being read."""
        self._dropped += 1
        for scope in [scope for scope in self._histories if scope.user_id == user_id]:
            del self._histories[scope]

    def drop_idle(self) -> None:
        """Forget what nobody has asked for since this was called last."""
        for scope in self._histories.keys() - self._asked:
            del self._histories[scope]
        self._asked.clear()

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
            for one in self._histories.values():
                one.folds.clear()  # that of 10,000 facts takes 20 MB: one stays
            history.folds[as_of] = folded
        return history.folds[as_of]

    async def changes(self, scope: Scope) -> Sequence[FactChange]:
        """The scope's changes, which are kept as well."""
        return (await self._history(scope)).changes

    async def current(self, scope: Scope) -> CurrentFacts:
        """The facts of the thread, or of all the user's threads, as they were folded last if there are no other changes since."""
        # Not from the stored document, which an erasure resets only after its changes are gone.
        return await self._facts_of(await self._history(scope))

    async def _facts_of(self, history: _History) -> CurrentFacts:
        if history.current is None:
            history.current = CurrentFacts(people=(await self.folded(history.changes)).people)
        return history.current

    async def _history(self, scope: Scope) -> _History:
        dropped, heads = self._dropped, await self._store.fact_heads(scope)
        history = self._histories.get(scope)
        if history is None or history.heads != heads:
            history = await self._grown(scope, history, heads) if history and history.changes else None
            if history is None or dropped != self._dropped:
                changes = await self._store.fact_changes(scope) if heads else []
                history = _History(heads=heads_of(changes, heads), changes=changes)
            self._histories.pop(scope, None)
            if history.changes and dropped == self._dropped:
                self._histories[scope] = history
        self._asked.add(scope)
        if scope in self._histories:
            self._histories.move_to_end(scope)
        kept = [len(one.changes) for one in self._histories.values()]
        while len(kept) > 1 and (len(kept) > _KEPT or sum(kept) > _CHANGES_KEPT):
            self._histories.popitem(last=False)
            del kept[0]
        return history

    async def _grown(self, scope: Scope, kept: _History, heads: Heads) -> _History | None:
        """What is kept of one thread with the changes since; None of several threads, and where others are gone."""
        if len(heads) != 1 or kept.heads.keys() != heads.keys():
            return None
        ((thread_id, (count, number, stripped)),) = kept.heads.items()
        thread = Scope(user_id=scope.user_id, thread_id=thread_id)
        found = await self._store.fact_changes(thread, after_seq=number - 1)
        new = [change for change in found[1:] if change.seq <= heads[thread_id][1]]
        # Numbers begin at 1 again where a thread was forgotten and nothing of it is left: then another change has the last one's.
        # If that is still there, with so many new ones and no more than these, those before are the same.
        last = max(kept.changes, key=lambda change: change.seq)
        if found[:1] != [last] or not new or heads[thread_id][::2] != (count + len(new), stripped):
            return None
        # All of a user are in the order in which they were recorded, which a clock put back may part from their numbers.
        times = [change.recorded_at for change in (kept.changes[-1], *new)]
        if times != sorted(times):
            return None
        grown = _History(heads=heads, changes=[*kept.changes, *new])
        if kept.current is not None:
            at = max(change.at for change in kept.changes)
            people = fold_onto(kept.current.people, at, new)
            grown.current = None if people is None else CurrentFacts(people=people)
        return grown

    async def save(self, scope: Scope) -> None:
        """Store the fold of the thread's changes as its document, unless it is that already."""
        # One at a time: whoever waited finds that the one before folded its change as well.
        async with self._saving.setdefault(scope, asyncio.Lock()):
            await self._save(scope)

    async def save_all(self, scope: Scope) -> None:
        """The same for the scope's thread, or for every thread of the user that has changes."""
        if scope.thread_id is not None:
            await self.save(scope)
            return
        for thread_id in sorted({change.thread_id for change in await self._store.fact_changes(scope)}):
            await self.save(Scope(user_id=scope.user_id, thread_id=thread_id))

    async def _save(self, scope: Scope) -> None:
        async for _ in Tries():
            document, history = await self._store.load_facts(scope), await self._history(scope)
            through = max((change.seq for change in history.changes), default=0)
            if through <= document.through:
                return
            times = [change.recorded_at for change in history.changes]
            updated = FactsDocument(
                people=(await self._facts_of(history)).people,
                through=through,
                created_at=min(times),
                updated_at=max(times),
            )
            if await self._store.save_facts(scope, updated, expected=document.revision):
                return
            # Another worker or an erasure was first; fold again from what is there now.
        log.warning("facts document kept changing; it is read through its events until the next change")

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


def _apart(record: FactRecord) -> FactRecord:
    """The record, with which its reader may do anything."""
    parts = {name: getattr(record, name) for name in ("value", "old")}
    own: dict[str, Any] = {
        name: copy.deepcopy(part) for name, part in parts.items() if isinstance(part, dict | list)
    }
    return dataclasses.replace(record, **own) if own else record


def heads_of(changes: Sequence[FactChange], before: Heads) -> Heads:
    """The heads of the threads that have these changes. `before`: as they were before the reading."""
    heads: Heads = {}
    for change in changes:
        count, last, _ = heads.get(change.thread_id, (0, 0, 0))
        stripped = before.get(change.thread_id, (0, 0, 0))[2]
        heads[change.thread_id] = count + 1, max(last, change.seq), stripped
    return heads
