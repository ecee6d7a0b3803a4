"""Exports and backups written, and taken in, over open stores."""

from __future__ import annotations

import asyncio
import io
from collections import defaultdict
from contextlib import AsyncExitStack, nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from memory_agent.adapters import open_keys, open_store
from memory_agent.data_dir import DataDirLock
from memory_agent.domain import STAGES, ThreadCopy, ThreadRemains
from memory_agent.domain.work import HASHING, Hasher
from memory_agent.errors import ConfigError, InvalidInput, NotFound
from memory_agent.exports.files import ExportFile, ExportWriter, Header, new_file
from memory_agent.exports.forgotten import Forgotten
from memory_agent.exports.reading import memory_records, scopes_of, thread_records
from memory_agent.ports import RESTORING
from memory_agent.work.forget import end_lost, hasher_of

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterable, Mapping, Sequence
    from datetime import datetime
    from typing import IO

    from memory_agent.config import MemoryConfig
    from memory_agent.domain import CopiedTurn, ErasureReceipt, Scope, Topic
    from memory_agent.exports.files import Written
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


_PIECE_BYTES: Final = 65_536


@dataclass(frozen=True, kw_only=True, slots=True)
class Imported:
    """A file that was taken in: how many records of each kind it has, and how many of its turns are new here, or forgotten here."""

    records: dict[str, int]
    new_turns: int
    forgotten_turns: int


async def export_to(
    target: Path | IO[bytes],
    store: DocumentStore,
    *,
    now: datetime,
    tenant: str | None = None,
    scope: Scope | None = None,
    vectors: bool = False,
    progress: Callable[[int], None] | None = None,
) -> Written:
    """Export everybody's memory, a tenant's, or that of `scope` (a user, or a thread), into a new file or an open stream.

    `progress` is called with the number of records so far. Raises NotFound for a scope of which nothing is kept, ConfigError for a file that cannot be written.
    """
    header = Header(
        content="export",
        started_at=now.isoformat(),
        vectors=vectors,
        tenant=tenant if scope is None else scope.tenant,
        user_id=None if scope is None else scope.tenants_user_id,
        thread_id=None if scope is None else scope.thread_id,
    )

    if scope is not None:
        await _check_remembered(store, scope)
    return await _written(target, store, header, scope, progress)


async def export_in_pieces(
    store: DocumentStore, user: Scope, *, now: datetime
) -> AsyncGenerator[bytes, None]:
    """The export of a user piece by piece, read no faster than it is taken. Raises NotFound before the first."""
    await _check_remembered(store, user)
    header = Header(
        content="export",
        started_at=now.isoformat(),
        vectors=False,
        tenant=user.tenant,
        user_id=user.tenants_user_id,
    )
    stream = io.BytesIO()
    writer = ExportWriter(stream, header)
    async for _ in _put_threads(writer, store, header, user):
        if stream.tell() >= _PIECE_BYTES:
            yield stream.getvalue()
            stream.seek(0)
            stream.truncate()
    writer.end()
    yield stream.getvalue()


async def _check_remembered(store: DocumentStore, scope: Scope) -> None:
    threads = await store.stored_threads(scope.user_id)
    if not threads or (scope.thread_id is not None and scope.thread_id not in threads):
        whose = f"user {scope.tenants_user_id!r:.80}"
        raise NotFound(f"nothing is remembered of {whose}{' in that thread' if scope.thread_id else ''}")


async def back_up(
    target: Path,
    store: DocumentStore,
    keys: KeyStore | None,
    *,
    now: datetime,
    progress: Callable[[int], None] | None = None,
) -> Written:
    """Write a backup of the whole memory into a new file, while it is in use. Raises ConfigError for a file that cannot be written."""
    header = Header(content="backup", started_at=now.isoformat(), vectors=True)

    return await _written(target, store, header, None, progress, memory_records(store, keys, now))


async def _written(
    target: Path | IO[bytes],
    store: DocumentStore,
    header: Header,
    scope: Scope | None,
    progress: Callable[[int], None] | None,
    last: AsyncIterator[Record] | None = None,
) -> Written:
    """Write the records of all threads, then the `last`."""
    with new_file(target) if isinstance(target, Path) else nullcontext(target) as stream:
        writer = ExportWriter(stream, header)
        async for count in _put_threads(writer, store, header, scope):
            if progress is not None and count % 500 == 0:
                progress(count)
        if last is not None:
            async for record in last:
                writer.put(record)
        return writer.end()


async def _put_threads(
    writer: ExportWriter, store: DocumentStore, header: Header, scope: Scope | None
) -> AsyncIterator[int]:
    """Write the records of all threads; after each the number so far."""
    user_id, thread_id = (None, None) if scope is None else (scope.user_id, scope.thread_id)
    count = 0
    hasher = await hasher_of(store)
    whose = {"tenant": header.tenant, "user_id": user_id, "thread_id": thread_id}
    async for thread in scopes_of(store, **whose, remains=header.content == "backup"):
        async for record in thread_records(store, thread, hasher, vectors=header.vectors):
            writer.put(record)
            count += 1
            yield count


async def checked_file(path: Path) -> tuple[ExportFile, Header, Written]:
    """Read a file to its end beforehand. Raises InvalidInput for one that is damaged, cut off or no export."""
    file = ExportFile(path)
    header, written = await asyncio.to_thread(file.check)
    return file, header, written


async def import_from(
    path: Path, store: DocumentStore, *, now: datetime, progress: Callable[[int], None] | None = None
) -> Imported:
    """Take an export in. What is there stays, and what this memory has forgotten stays forgotten.

    The file is read to its end first; nothing is taken in of one that is damaged. Raises InvalidInput for such a file, and StoreError where
    a thread goes on otherwise than in the file: what came before that thread is there then.
    """
    file, header, written = await checked_file(path)
    if header.content != "export":
        raise InvalidInput(f"{path} is a backup; `memory-agent restore` takes it into an empty memory")
    hasher = await hasher_of(store)
    return await take_in(
        file, written, store, None, hasher, receipts=await store.receipts(), now=now, progress=progress
    )


async def take_in(
    file: ExportFile,
    written: Written,
    store: DocumentStore,
    keys: KeyStore | None,
    hasher: Hasher,
    *,
    receipts: Sequence[ErasureReceipt],
    now: datetime,
    progress: Callable[[int], None] | None = None,
) -> Imported:
    """Store the records of a file that was checked, without what those receipts are of."""
    forgotten = Forgotten(receipts, hasher)
    importer = Importer(store=store, keys=keys, now=now)
    await importer.take(forgotten.left(file.records()), progress)
    return Imported(records=written.records, new_turns=importer.new, forgotten_turns=forgotten.count)


async def restore(
    path: Path,
    cfg: MemoryConfig,
    *,
    now: datetime,
    receipts: Sequence[ErasureReceipt] = (),
    progress: Callable[[int], None] | None = None,
) -> Imported:
    """Restore a backup into the empty memory that `cfg` names, without what the receipts are of.

    The file is read to its end first. Until all of it is there, the memory cannot be opened; a restore that was cut short goes on
    when it is run again with the same file and receipts. Raises InvalidInput for a damaged file, ConfigError for a memory that
    isn't empty.
    """
    file, header, written = await checked_file(path)
    if header.content != "backup" or file.secret is None:
        raise InvalidInput(f"{path} is an export, no backup; `memory-agent import` takes it in")
    hasher = Hasher(bytes.fromhex(file.secret))
    foreign = next((receipt for receipt in receipts if receipt.key != hasher.key), None)
    if foreign is not None:
        raise InvalidInput(
            f"the receipt {foreign.id!r:.80} is of another memory (secret {foreign.key!r:.40}, the backup's is"
            f" {hasher.key!r}); nothing was restored"
        )
    async with AsyncExitStack() as stack:
        if cfg.embedded:
            lock = DataDirLock(cfg.data_dir)
            lock.acquire()
            stack.callback(lock.release)
        store = await open_store(cfg, None, stack, restoring=True)
        await _check_empty(
            store, cfg, {"of": written.sha256, "without": sorted(each.id for each in receipts)}
        )
        keys = await open_keys(cfg, None, stack)
        await store.put_meta(HASHING, {"key": file.secret})  # by which nothing in an empty memory is hashed
        heeded = {receipt.id: receipt for receipt in (*receipts, *file.receipts)}
        taken = await take_in(
            file, written, store, keys, hasher, receipts=list(heeded.values()), now=now, progress=progress
        )
        for receipt in heeded.values():
            await store.put_receipt(receipt)
        await end_lost(store, now, heeded)
        await store.put_meta(RESTORING, {})
    return taken


async def _check_empty(store: DocumentStore, cfg: MemoryConfig, mark: dict[str, Any]) -> None:
    """Mark an empty memory as one being restored. Raises ConfigError if it isn't, but for by the same mark."""
    place = f"{cfg.data_dir / cfg.db_name}.sqlite3" if cfg.embedded else f"the database {cfg.db_name!r}"
    other = "data_dir" if cfg.embedded else "db_name"
    begun = await store.get_meta(RESTORING)
    if begun and begun != mark:
        raise ConfigError(
            f"a restore of another backup, or with other receipts, was cut short in {place}: run that one again, or delete"
            f" what it left, or restore into another {other}"
        )
    if not begun and (await store.stored_users(limit=1) or await store.receipts(limit=1)):
        raise ConfigError(
            f"{place} isn't empty; restore into another {other}, with the receipts of this one"
            " (`memory-agent erasures --jsonl`, `--receipts`). To add to a memory what another one has: `memory-agent export`"
            " there, `memory-agent import` here"
        )
    await store.put_meta(RESTORING, mark)
