"""Exports and backups written, and taken in, over open stores."""

from __future__ import annotations

import asyncio
import io
from collections import defaultdict
from contextlib import AsyncExitStack, nullcontext
from dataclasses import dataclass, field, replace
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from memory_agent.adapters import open_keys, open_store
from memory_agent.data_dir import DataDirLock
from memory_agent.domain import STAGES, ForgottenTurn, Scope, SpentKey, ThreadCopy, ThreadRemains
from memory_agent.domain.work import HASHING, Hasher, is_of_remains
from memory_agent.errors import ConfigError, InvalidInput, NotFound
from memory_agent.exports.files import ExportFile, ExportWriter, Header, Record, Secret, new_file
from memory_agent.ports import RESTORING
from memory_agent.work.forget import an_hour_ago, copying, end_lost, hasher_of

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterable, Mapping, Sequence
    from datetime import datetime
    from typing import IO

    from memory_agent.config import MemoryConfig
    from memory_agent.domain import (
        Compression,
        CopiedTurn,
        ErasureReceipt,
        FactChange,
        KeyedKind,
        Session,
        Topic,
        Turn,
    )
    from memory_agent.exports.files import Written
    from memory_agent.ports import Clock, DocumentStore, KeyStore


class Forgotten:
    """The receipts of forget calls, by whose they are. `count`: turns that were left out."""

    def __init__(self, receipts: Iterable[ErasureReceipt], hasher: Hasher) -> None:
        self._hasher = hasher
        self._of_user: dict[str, dict[str, ErasureReceipt]] = defaultdict(dict)
        self.count = 0
        self.add(receipts)

    def add(self, receipts: Iterable[ErasureReceipt]) -> None:
        """Heed these receipts too."""
        for receipt in receipts:
            if receipt.key == self._hasher.key:
                self._of_user[receipt.user][receipt.id] = receipt

    def thread(self, scope: Scope) -> _Thread:
        """What is forgotten of a thread."""
        return _Thread(scope, self._hasher)

    def left(self, records: Iterable[Record], thread: _Thread) -> list[Record]:
        """The next of the thread's records without what was forgotten, its turns first, as an export has them."""
        thread.heed(self._receipts(thread.scope))
        kept: list[Record] = []
        for record in records:
            if (found := thread.left(record)) is not None:
                kept.append(found)
            elif record.kind == "turn":
                self.count += 1
        return kept

    def _receipts(self, scope: Scope) -> Sequence[ErasureReceipt]:
        if not self._of_user:
            return ()
        of_user = self._of_user.get(self._hasher.user(scope.user_id), {})
        thread = self._hasher.thread(scope.user_id, scope.thread_id or "") if of_user else ""
        return [receipt for receipt in of_user.values() if receipt.thread in (None, thread)]


class _Thread:
    """What was forgotten of one thread, as far as its turns were looked at."""

    def __init__(self, scope: Scope, hasher: Hasher) -> None:
        self.scope, self._hasher = scope, hasher
        self._users = self._before = ""
        self._hashes: set[str] = set()
        self._heeded = -1
        self._late = False
        self._topics: set[str] = set()
        self._kept_topics: set[str | None] = set()
        self._first = 0
        self._lives = False
        self._turns: list[ForgottenTurn] = []
        self._keys: list[SpentKey] = []

    def heed(self, receipts: Sequence[ErasureReceipt]) -> None:
        """Leave out what these are of.

        Where more came since some turns were let through, all that tells of several is made anew.
        """
        self._late |= self._heeded not in (-1, len(receipts))
        self._heeded = len(receipts)
        self._users = max((receipt.before_id for receipt in receipts if receipt.thread is None), default="")
        self._before = max((receipt.before_id for receipt in receipts if not receipt.turns), default="")
        self._hashes = {turn for receipt in receipts for turn in receipt.turns}

    def left(self, record: Record) -> Record | None:
        """The record as it may come in; None if it may not."""
        if record.kind == "remains":
            return self._remains(record)
        kept = self._kept(record)
        self._lives |= kept is not None
        return kept

    def _is_of_gone(self, turn_id: str) -> bool:
        return turn_id < self._before or (bool(self._hashes) and self._hasher.turn(turn_id) in self._hashes)

    def _kept(self, record: Record) -> Record | None:
        value = record.value
        if record.kind == "turn":
            if self._is_gone(value):
                return None
            self._kept_topics.add(value.turn.topic_id)
            return record
        if record.kind == "row":
            return None if self._is_of_gone(value.turn_id) else record
        if record.kind == "session":
            if value.id >= self._before:
                return record
            self._spend("session", value, value.id)
            return None
        if record.kind == "topic":
            left = self._topic(value) if self._lives else None
            return None if left is None else replace(record, value=left)
        if record.kind == "change":
            if not self._had_in_view(value):
                return record
            self._spend("edit", value, value.key)
            return None
        if record.kind == "compression":
            return None if self._tells_of(value) else record
        return record

    def _remains(self, record: Record) -> Record | None:
        """With the keys of what was left out, as the forget calls leave them; of a thread that ended under hashes, of a user not at all."""
        value: ThreadRemains = record.value
        turns = tuple(turn for turn in (*value.turns, *self._turns) if turn.turn_id >= self._users)
        keys = tuple(key for key in (*value.keys, *self._keys) if key.id >= self._users)
        if self._lives:
            return replace(record, value=replace(value, turns=turns, keys=keys))
        if self._users and not (turns or keys):
            return None
        left = ThreadRemains(last_seq=value.last_seq, turns=turns, keys=keys)
        return replace(record, value=left, scope=self._hasher.remains(self.scope))

    def _spend(self, kind: KeyedKind, value: Session | FactChange, made_id: str) -> None:
        if value.idempotency_key is not None:
            self._keys.append(SpentKey(kind=kind, key=value.idempotency_key, id=self._hasher.gone(made_id)))

    def _is_gone(self, copied: CopiedTurn) -> bool:
        turn = copied.turn
        if not self._is_of_gone(turn.id):
            return False
        if copied.idempotency_key is not None:
            self._turns.append(
                ForgottenTurn(
                    turn_id=self._hasher.gone(turn.id),
                    seq=turn.seq,
                    idempotency_key=copied.idempotency_key,
                    call_index=copied.call_index,
                    call_size=copied.call_size,
                )
            )
        self._first = min(self._first or turn.seq, turn.seq)
        if turn.topic_id is not None:
            self._topics.add(turn.topic_id)
        return True

    def _topic(self, topic: Topic) -> Topic | None:
        """The topic without what was derived of turns that are gone; None if no turn is left."""
        ids = {topic.id, *topic.absorbed, *topic.parted}
        if not self._late and self._topics.isdisjoint(ids):
            return topic
        if self._kept_topics.isdisjoint(ids):
            return None
        return replace(
            topic,
            title="",
            opener="",
            summary=None,
            words={},
            embedding=np.empty(0, dtype="<f2"),
            embedded=0,
            through=0,
            access_count=0,
            given_importance=None,
            stale=True,
        )

    def _had_in_view(self, change: FactChange) -> bool:
        if change.turn_id is None and change.key < self._before:
            return True
        return any(self._is_of_gone(turn) for turn in (change.turn_id, *change.turns) if turn is not None)

    def _tells_of(self, compression: Compression) -> bool:
        return self._late or (bool(self._first) and compression.through >= self._first)


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


_AT_ONCE: Final = 500


@dataclass(kw_only=True, slots=True)
class Importer:
    """Takes records in, some hundred at a time, without what was `forgotten`. `new`: new turns."""

    store: DocumentStore
    keys: KeyStore | None
    now: datetime
    forgotten: Forgotten
    clock: Clock | None = None
    """None where nobody can forget meanwhile."""
    new: int = 0
    _scope: Scope | None = None
    _thread: _Thread | None = None
    _since: str = field(default_factory=an_hour_ago)
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
                self._thread = None if record.scope is None else self.forgotten.thread(record.scope)
            self._held.append(record)
            if progress is not None and number % _AT_ONCE == 0:
                progress(number)
        await self._flush()
        await self._pack()

    async def _flush(self) -> None:
        held, self._held = self._held, []
        if self._thread is None:
            for record in held:
                await self._take_whole(record)
        elif held and self.clock is None:
            await self._take_of_thread(self._thread, held)
        elif held and self.clock is not None:
            async with copying(self.store, self._thread.scope.user_id, self.clock):
                self.forgotten.add(await self.store.receipts(after=self._since))
                await self._take_of_thread(self._thread, held)

    async def _take_of_thread(self, thread: _Thread, held: list[Record]) -> None:
        by_scope: dict[Scope, list[Record]] = defaultdict(list)
        for record in self.forgotten.left(held, thread):
            by_scope[record.scope or thread.scope].append(record)
        for scope, records in by_scope.items():
            await self._take_kept(scope, records)

    async def _take_kept(self, scope: Scope, held: list[Record]) -> None:
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
    target: Path | str | IO[bytes],
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
    target: Path | str,
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
    target: Path | str | IO[bytes],
    store: DocumentStore,
    header: Header,
    scope: Scope | None,
    progress: Callable[[int], None] | None,
    last: AsyncIterator[Record] | None = None,
) -> Written:
    """Write the records of all threads, then the `last`."""
    with new_file(target) if isinstance(target, Path | str) else nullcontext(target) as stream:
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


async def checked_file(path: Path | str) -> tuple[ExportFile, Header, Written]:
    """Read a file to its end beforehand. Raises InvalidInput for one that is damaged, cut off or no export."""
    file = ExportFile(path)
    header, written = await asyncio.to_thread(file.check)
    return file, header, written


async def import_from(
    path: Path | str, store: DocumentStore, *, clock: Clock, progress: Callable[[int], None] | None = None
) -> Imported:
    """Take an export in. What is there stays, and what this memory has forgotten stays forgotten.

    That holds for what is forgotten while it runs, too. The file is read to its end first; nothing is taken in of one that is damaged. Raises InvalidInput for such a file, and StoreError where
    a thread goes on otherwise than in the file: what came before that thread is there then.
    """
    file, header, written = await checked_file(path)
    if header.content != "export":
        raise InvalidInput(f"{path} is a backup; `memory-agent restore` takes it into an empty memory")
    hasher = await hasher_of(store)
    importer = Importer(
        store=store,
        keys=None,
        now=clock.now(),
        forgotten=Forgotten(await store.receipts(), hasher),
        clock=clock,
    )
    return await _take_in(importer, file, written, progress)


async def _take_in(
    importer: Importer, file: ExportFile, written: Written, progress: Callable[[int], None] | None
) -> Imported:
    """Store the records of a file that was checked."""
    await importer.take(file.records(), progress)
    return Imported(records=written.records, new_turns=importer.new, forgotten_turns=importer.forgotten.count)


async def restore(
    path: Path | str,
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
        importer = Importer(store=store, keys=keys, now=now, forgotten=Forgotten(heeded.values(), hasher))
        taken = await _take_in(importer, file, written, progress)
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
