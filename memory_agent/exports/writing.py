"""Writing of an export into a store: what is there stays, so that to write it again changes nothing."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

from memory_agent.domain import STAGES, ThreadCopy, ThreadRemains

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from datetime import datetime

    from memory_agent.domain import CopiedTurn, Scope, Topic
    from memory_agent.exports.records import Record
    from memory_agent.ports import DocumentStore, KeyStore

_AT_ONCE: Final = 500


@dataclass(kw_only=True, slots=True)
class Importer:
    """Takes records in, some hundred at a time. `new`: turns that were not there before."""

    store: DocumentStore
    keys: KeyStore | None
    now: datetime
    new: int = 0
    _scope: Scope | None = None
    _held: list[Record] = field(default_factory=list)
    _packed: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))

    async def take(self, records: Iterable[Record], progress: Callable[[int], None] | None = None) -> None:
        """Store the records."""
        for number, record in enumerate(records, start=1):
            if record.scope != self._scope or len(self._held) >= _AT_ONCE:
                await self._flush()
            if record.scope != self._scope:
                await self._pack()
                self._scope = record.scope
            self._held.append(record)
            if progress is not None and number % _AT_ONCE == 0:
                progress(number)
        await self._flush()
        await self._pack()

    async def _flush(self) -> None:
        held, self._held = self._held, []
        if self._scope is None:
            for record in held:
                await self._take_whole(record)
        elif held:
            await self._take_of_thread(self._scope, held)

    async def _take_of_thread(self, scope: Scope, held: list[Record]) -> None:
        values: Mapping[str, list[object]] = defaultdict(list)
        for record in held:
            values[record.kind].append(record.value)
        turns = [self._owing(copied) for copied in values["turn"]]  # type: ignore[arg-type]
        copies = ThreadCopy(
            turns=tuple(turns),
            sessions=tuple(values["session"]),  # type: ignore[arg-type]
            compressions=tuple(values["compression"]),  # type: ignore[arg-type]
            changes=tuple(values["change"]),  # type: ignore[arg-type]
            remains=next(iter(values["remains"]), ThreadRemains()),  # type: ignore[arg-type]
        )
        new = set(await self.store.put_copies(scope, copies))
        self.new += len(new)
        for copied in turns:
            if copied.turn.id in new and copied.turn.compressed and copied.turn.topic_id is not None:
                self._packed[copied.turn.topic_id].append(copied.turn.id)
        topics: list[Topic] = values["topic"]  # type: ignore[assignment]
        known = {topic.id for topic in await self.store.list_topics(scope, ids=[each.id for each in topics])}
        await self.store.save_topics([topic for topic in topics if topic.id not in known])
        if rows := values["row"]:
            ids = [row.turn_id for row in rows]  # type: ignore[attr-defined]
            there = {row.turn_id for row in await self.store.search_rows(scope.user_id, ids=ids)}
            alive = {turn.id for turn in await self.store.list_turns(scope, ids=ids)}
            missing = [row for row in rows if row.turn_id in alive - there]  # type: ignore[attr-defined]
            await self.store.put_search_rows(scope.user_id, missing, now=self.now)  # type: ignore[arg-type]

    def _owing(self, copied: CopiedTurn) -> CopiedTurn:
        """The turn, which owes the index too: what a search needs is made of its row, or anew."""
        owed = {*copied.turn.pending, "index"}
        pending = tuple(stage for stage in STAGES if stage in owed)
        return replace(copied, turn=replace(copied.turn, pending=pending, due_at=self.now))

    async def _pack(self) -> None:
        """Pack again the texts of turns that were packed."""
        packed, self._packed = self._packed, defaultdict(list)
        if self._scope is not None:
            for topic_id, ids in packed.items():
                await self.store.compress_turns(self._scope, topic_id, ids)

    async def _take_whole(self, record: Record) -> None:
        value = record.value
        if record.kind == "key":
            if self.keys is not None and await self.keys.find(value.id) is None:
                await self.keys.put(value)
        elif record.kind == "erasure":
            await self.store.put_erasure(replace(value, due_at=self.now))
