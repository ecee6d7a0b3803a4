"""Exports and backups written, and taken in, over open stores."""

from __future__ import annotations

import asyncio
import io
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from memory_agent.errors import InvalidInput, NotFound
from memory_agent.exports.files import ExportFile, ExportWriter, Header, new_file
from memory_agent.exports.forgotten import Forgotten
from memory_agent.exports.reading import memory_records, scopes_of, thread_records
from memory_agent.exports.writing import Importer
from memory_agent.work.receipts import hasher_of

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence
    from datetime import datetime
    from typing import IO

    from memory_agent.domain import ErasureReceipt, Scope
    from memory_agent.domain.hashing import Hasher
    from memory_agent.exports.files import Written
    from memory_agent.exports.records import Record
    from memory_agent.ports import DocumentStore, KeyStore


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
