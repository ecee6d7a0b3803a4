"""Repair: what is derived is made anew from the turns; of a damaged SQLite file, what can be read is saved."""

from __future__ import annotations

import contextlib
from collections import defaultdict
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Final

from memory_agent.domain import Scope, Session, Topic
from memory_agent.errors import InvalidInput
from memory_agent.exports.files import ExportWriter, Header, Record, new_file, read_record
from memory_agent.stores.sqlite.salvage import DamagedStore

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence
    from pathlib import Path

    from memory_agent.doctor.examine import Finding
    from memory_agent.domain import Stage, Turn
    from memory_agent.ports import DocumentStore
    from memory_agent.wiring import Core


_EVER: Final = timedelta(days=36_500)


async def make_anew(
    core: Core, scope: Scope, found: Sequence[Finding], *, now: datetime, forget_unreadable: bool = False
) -> None:
    """Drop what these findings say is wrong with what is derived in the scope, and let its turns owe it again.

    The worker does the rest. `forget_unreadable`: what cannot be read, and no turn gives again, is given up.
    """
    ids: dict[str, list[str]] = defaultdict(list)
    for finding in found:
        ids[finding.kind] += finding.ids
    store = core.store
    for name in ids["lease_ahead"]:
        if (lease := await store.load_lease(name)) is not None:
            await store.release_leases([name], lease.holder)
    lost = ids["text_lost"]
    if ids["damaged"] or ids["derived_damaged"]:
        records = await store.damaged_records(scope)
        lost += [one.of for one in records if one.table == "turns"]
        dropped = [one for one in records if one.derived or (forget_unreadable and one.table != "turns")]
        for one in dropped:
            if one.turn_id is not None:  # owed before it goes, whatever ends this in between
                stage: Stage = "facts" if one.table == "fact_events" else "index"
                await store.owe(scope, stage, now=now, turn_ids=[one.turn_id])
        await store.drop_damaged(scope, dropped)
    if forget_unreadable and lost:
        await core.forgetter.forget(scope, lost)
    # Whatever is of turns that are gone, and every facts document, which is folded anew below.
    await store.sweep_orphans(scope.user, stubs_before=now - _EVER, now=now)
    if ids["vector_orphan"]:
        await core.vectors.delete(scope.user_id, ids["vector_orphan"])
    if false := ids["row_false"] + ids["vectors_false"]:
        rows = await store.search_rows(scope.user_id, ids=false)
        # Vectors of no model are made anew, and the row with them.
        await store.put_search_rows(scope.user_id, [replace(row, embedder="") for row in rows], now=now)
    if topics := ids["topic_missing"] + ids["topic_false"]:
        await _empty_topics(store, scope, topics, now)
    if ids["session_missing"]:
        await _put_sessions(store, scope, ids["session_missing"])
    for turn in await store.list_turns(scope, ids=ids["stuck"]) if ids["stuck"] else ():
        for stage in turn.pending:
            await store.owe(scope, stage, now=now, turn_ids=[turn.id])
    if rowless := [*ids["row_missing"], *false]:
        await store.owe(scope, "index", now=now, turn_ids=rowless)
    if ids["vector_missing"]:
        await store.want_vectors([scope.user_id], anew=True)
    if ids["terms_missing"]:  # of the user as a whole
        await store.owe(scope, "index", now=now)
    for cache in (core.residents, core.facts, core.folder.indexes):
        cache.drop(scope.user_id)
    await core.folder.renew_soon(scope.user)
    await core.facts.save_all(scope.user)
    if ids["topicless"]:  # now that there are topics to belong to
        await store.owe(scope, "topics", now=now, turn_ids=ids["topicless"])


async def _empty_topics(store: DocumentStore, scope: Scope, ids: Sequence[str], now: datetime) -> None:
    """Topics that say nothing, to be folded anew from their turns; what people set of those that are there stays."""
    known = {topic.id: topic for topic in await store.list_topics(scope, ids=ids)}
    for topic_id in ids:
        empty = known.get(topic_id) or Topic(
            id=topic_id,
            user_id=scope.user_id,
            thread_id=str(scope.thread_id),
            created_at=now,
            last_access=now,
        )
        await store.save_topics([replace(empty, stale=True, through=0)])


async def _put_sessions(store: DocumentStore, scope: Scope, ids: Collection[str]) -> None:
    """Sessions of their turns, under numbers that are free; who took part and as whom is not known any more."""
    first: dict[str, Turn] = {}
    after = 0
    while page := await store.copied_turns(scope, after_seq=after, limit=1_000, texts=False):
        for copied in page:
            first.setdefault(copied.turn.session_id or "", copied.turn)
        after = page[-1].turn.seq
    taken = {session.number for session in await store.sessions(scope)}
    free = (number for number in range(1, len(taken) + len(ids) + 1) if number not in taken)
    for session_id in sorted(ids, key=lambda each: first[each].seq):
        turn = first[session_id]
        session = Session(
            id=session_id,
            user_id=scope.user_id,
            thread_id=str(scope.thread_id),
            number=next(free),
            started_at=turn.timestamp,
            after_seq=turn.seq - 1,
        )
        await store.put_sessions([session])


@dataclass(frozen=True, kw_only=True, slots=True)
class Salvaged:
    """Counts of turns: those that were saved, and those that were found and could not be, for their text is gone."""

    turns: int
    lost: int


def salvage(file: Path, target: Path) -> Salvaged:
    """Write the turns that can be read into a new export, in the order of their threads; the damaged file is only read.

    What was derived of them is made anew where the export is imported. Raises ConfigError for a target that cannot be written.
    """
    header = Header(content="export", started_at=datetime.now(UTC).isoformat(), vectors=False)
    refused = 0
    with contextlib.closing(DamagedStore(file)) as store, new_file(target) as stream:
        writer = ExportWriter(stream, header)
        for copied in store.turns():
            scope = Scope(user_id=copied.turn.user_id, thread_id=copied.turn.thread_id)
            record = Record.of(copied, scope)
            try:
                read_record(record.line())  # whoever imports it takes all of it or nothing
            except (InvalidInput, ValueError):
                refused += 1
            else:
                writer.put(record)
        turns = writer.end().records.get("turn", 0)
    return Salvaged(turns=turns, lost=store.lost + refused)
