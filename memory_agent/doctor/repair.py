"""Repair of what an examination found: each difference is made anew from the turns, or owed to the worker."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final

from memory_agent.data_dir import damaged_records_file
from memory_agent.doctor.aside import put_aside
from memory_agent.domain import ErasedCounts, Erasure, FactsDocument, Session, Topic, new_id
from memory_agent.errors import BackendError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence
    from datetime import datetime

    from memory_agent.doctor.findings import Finding, Repair
    from memory_agent.domain import Scope, Stage, Turn
    from memory_agent.wiring import Core

_EVER: Final = timedelta(days=36_500)
_AT_ONCE: Final = 500


class Repairer:
    """Mends findings in an open memory; what is owed afterwards is the worker's. `forgets`: turns whose text is lost are forgotten."""

    def __init__(self, core: Core, *, now: datetime, forgets: bool = False) -> None:
        self._core, self._store, self._now = core, core.store, now
        self._does: dict[Repair, Callable[[Any, list[str]], Awaitable[object]]] = {
            "files": self._files,
            "aside": self._aside,
            "anew": self._anew,
            "index": self._index,
            "embed": self._embed,
            "sweep": self._sweep,
            "facts": self._facts,
            "topics": self._topics,
            "place": lambda scope, ids: self._owe(scope, "topics", ids),
            "sessions": self._sessions,
            "retry": lambda scope, _: self._store.retry_parked(scope, now=self._now),
            "owe": self._due,
            "release": self._release,
            "vectors": lambda scope, ids: core.vectors.delete(scope.user_id, ids),
            "erase": self._erase,
            "replay": self._replay,
        }
        if forgets:
            self._does["forget"] = core.forgetter.forget

    async def mend(self, finding: Finding) -> str | None:
        """Mend it; None, or why it could not be: in words, "" where only a person can."""
        repair = finding.repair
        if repair is None or repair not in self._does:
            return ""
        try:
            await self._does[repair](finding.scope, list(finding.ids))
        except BackendError as exc:
            return str(exc)
        if finding.scope is not None:
            self._core.residents.drop(finding.scope.user_id)
            self._core.facts.drop(finding.scope.user_id)
            self._core.folder.indexes.drop(finding.scope.user_id)
        return None

    async def _files(self, _scope: None, _ids: list[str]) -> None:
        await self._store.check_files(mend=True)

    async def _aside(self, scope: Scope, _ids: list[str]) -> None:
        """Put damaged records aside. Turns among them go with all that is derived of them, and leave no receipt: a restore may bring them back."""
        records = [one for one in await self._store.damaged_records(scope) if one.table != "search_rows"]
        await asyncio.to_thread(
            put_aside, damaged_records_file(self._core.cfg), scope, records, now=self._now
        )
        await self._store.drop_damaged(scope, records)
        changes = [one.stored for one in records if one.table == "fact_events"]
        if of_turns := [str(one["turn_id"]) for one in changes if one.get("turn_id")]:
            await self._owe(scope, "facts", of_turns)
        if turns := tuple(one.of for one in records if one.table == "turns"):
            before_id = new_id()
            erasure = Erasure(
                id=before_id, scope=scope, turn_ids=turns, before_id=before_id, due_at=self._now
            )
            while await self._store.erase_turns(erasure, now=self._now, limit=_AT_ONCE) != ErasedCounts():
                pass
            await self._core.vectors.delete(scope.user_id, turns)
        await self._core.folder.renew_soon(scope.user)
        await self._core.facts.save_all(scope.user)

    async def _anew(self, scope: Scope, ids: list[str]) -> None:
        """Search rows, by the index stage."""
        records = await self._store.damaged_records(scope)
        await self._store.drop_damaged(scope, [one for one in records if one.table == "search_rows"])
        await self._owe(scope, "index", ids)

    async def _owe(self, scope: Scope, stage: Stage, ids: Sequence[str] | None) -> None:
        await self._store.owe(scope, stage, now=self._now, turn_ids=ids)

    async def _index(self, scope: Scope, ids: list[str]) -> None:
        """Of a user as a whole (terms, vectors) all rows are taken in anew; of a thread these turns'."""
        await self._owe(scope, "index", None if scope.thread_id is None else ids)

    async def _embed(self, scope: Scope, ids: list[str]) -> None:
        rows = await self._store.search_rows(scope.user_id, ids=ids)
        # Nobody's vectors, so that they are made anew.
        await self._store.put_search_rows(
            scope.user_id, [replace(row, embedder="") for row in rows], now=self._now
        )
        await self._owe(scope, "index", ids)

    async def _sweep(self, scope: Scope, _ids: list[str]) -> None:
        await self._store.sweep_orphans(scope.user, stubs_before=self._now - _EVER, now=self._now)
        await self._core.folder.renew_soon(scope.user)
        await self._core.facts.save_all(scope.user)

    async def _facts(self, scope: Scope, _ids: list[str]) -> None:
        document = await self._store.load_facts(scope)
        await self._store.save_facts(scope, FactsDocument(), expected=document.revision)
        self._core.facts.drop(scope.user_id)
        await self._core.facts.save(scope)

    async def _topics(self, scope: Scope, ids: list[str]) -> None:
        known = {topic.id: topic for topic in await self._store.list_topics(scope, ids=ids)}
        for topic_id in ids:
            there = known.get(topic_id)
            empty = there or Topic(
                id=topic_id,
                user_id=scope.user_id,
                thread_id=str(scope.thread_id),
                created_at=self._now,
                last_access=self._now,
            )
            stale = replace(empty, stale=True, through=0)
            await self._store.save_topics([stale])
        await self._core.folder.renew_soon(scope)

    async def _sessions(self, scope: Scope, ids: list[str]) -> None:
        """Sessions made anew from their turns, under numbers that are free; who took part and as whom is not known any more."""
        turns: dict[str, Turn] = {}
        after = 0
        while page := await self._store.copied_turns(scope, after_seq=after, limit=1_000, texts=False):
            for copied in page:
                turns.setdefault(copied.turn.session_id or "", copied.turn)
            after = page[-1].turn.seq
        taken = {session.number for session in await self._store.sessions(scope)}
        for session_id in sorted(ids, key=lambda each: turns[each].seq):
            first = turns[session_id]
            number = next(each for each in range(1, len(taken) + 2) if each not in taken)
            taken.add(number)
            session = Session(
                id=session_id,
                user_id=scope.user_id,
                thread_id=str(scope.thread_id),
                number=number,
                started_at=first.timestamp,
                after_seq=first.seq - 1,
            )
            await self._store.put_sessions([session])

    async def _due(self, scope: Scope, ids: list[str]) -> None:
        owed: dict[Stage, list[str]] = defaultdict(list)
        for turn in await self._store.list_turns(scope, ids=ids):
            for stage in turn.pending:
                owed[stage].append(turn.id)
        for stage, of_stage in owed.items():
            await self._owe(scope, stage, of_stage)

    async def _release(self, _scope: Scope, names: list[str]) -> None:
        for name in names:
            lease = await self._store.load_lease(name)
            if lease is not None:
                await self._store.release_leases([name], lease.holder)

    async def _erase(self, _scope: None, ids: list[str]) -> None:
        """Erase what a receipt is of once more, and let the files be written anew."""
        for receipt in await self._store.receipts(state="owed"):
            if receipt.id in ids:
                await self._core.forgetter.replay([receipt])
                await self._store.put_receipt(replace(receipt, state="swept"))

    async def _replay(self, _scope: Scope, _ids: list[str]) -> None:
        receipts = await self._store.receipts()
        await self._core.forgetter.replay([each for each in receipts if each.state != "owed"])
