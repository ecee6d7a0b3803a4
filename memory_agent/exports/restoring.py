"""A backup restored: into an empty memory, or in place of one, which is put aside."""

from __future__ import annotations

import dataclasses
import itertools
from contextlib import AsyncExitStack
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from memory_agent.adapters import open_keys, open_store
from memory_agent.data_dir import DataDirLock
from memory_agent.domain.hashing import Hasher
from memory_agent.errors import ConfigError, InvalidInput, MemoryAgentError
from memory_agent.exports.run import checked_file, take_in

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from datetime import datetime

    from memory_agent.config import MemoryConfig
    from memory_agent.domain import ErasureReceipt
    from memory_agent.exports.run import Imported
    from memory_agent.ports import DocumentStore

_EVER = timedelta(days=36_500)
_BESIDE = ("", "-wal", "-shm", ".mark")


@dataclass(frozen=True, kw_only=True, slots=True)
class Restored:
    """A backup that was restored. `aside`: the file of the memory that was there before; `receipts`: how many more than its own were heeded."""

    imported: Imported
    receipts: int
    aside: Path | None = None


async def restore(
    path: Path,
    cfg: MemoryConfig,
    *,
    now: datetime,
    receipts: Sequence[ErasureReceipt] = (),
    replace: bool = False,
    progress: Callable[[int], None] | None = None,
) -> Restored:
    """Restore a backup into the memory that `cfg` names, which must be empty; what the receipts are of is left out.

    With `replace`, in data_dir, the memory that is there is put aside, and its receipts are heeded as well. The file is read to its end
    first, and the new SQLite file gets its name once it is whole: killed at any moment, there is the memory of before, or the
    restored one. On MongoDB a restore that was cut short goes on when it is run again. Raises InvalidInput for a damaged file, ConfigError for a memory that isn't empty.
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
        more = list(receipts)
        place = cfg
        if cfg.embedded:
            more += [each for each in await _receipts_there(cfg, replace=replace) if each.key == hasher.key]
            place = cfg.model_copy(update={"db_name": f"{cfg.db_name}.restoring"})
            _remove(_file(place))
        async with AsyncExitStack() as opened:
            store = await open_store(place, None, opened)
            if not cfg.embedded:
                await _check_empty(store, cfg, hasher)
            keys = await open_keys(cfg, None, opened)
            heeded = [*file.receipts, *more]
            taken = await take_in(
                file, written, store, keys, hasher, receipts=heeded, now=now, progress=progress
            )
            known = {receipt.id for receipt in file.receipts}
            for receipt in more:
                if receipt.id not in known:
                    await store.put_receipt(receipt)
            await _end_receipts(store, now)
        aside = _put_in_place(_file(place), _file(cfg), now) if cfg.embedded else None
    return Restored(imported=taken, receipts=len(more), aside=aside)


def _file(cfg: MemoryConfig) -> Path:
    return cfg.data_dir / f"{cfg.db_name}.sqlite3"


async def _receipts_there(cfg: MemoryConfig, *, replace: bool) -> list[ErasureReceipt]:
    """The receipts of the memory that will be put aside. Raises ConfigError if there is one and it must not be."""
    if not _file(cfg).exists():
        return []
    async with AsyncExitStack() as stack:
        try:
            store = await open_store(cfg, None, stack)
            if not replace and await store.stored_users(limit=1):
                raise ConfigError(
                    f"{_file(cfg)} is a memory that isn't empty; restore into another data_dir, or put it aside with --replace"
                )
            return await store.receipts()
        except ConfigError:
            raise
        except MemoryAgentError as exc:
            if replace:
                raise ConfigError(
                    f"the receipts of forget calls in {_file(cfg)} cannot be read ({exc}), so that what was forgotten since the"
                    " backup would come back; move the file away, and restore with --receipts, if you kept them"
                ) from exc
            raise


async def _end_receipts(store: DocumentStore, now: datetime) -> None:
    """Receipts that were owed and whose erasure is not here wait for the files alone: what they are of was left out."""
    under_way = {erasure.id for erasure in await store.due_erasures(now + _EVER, limit=1_000_000)}
    for receipt in await store.receipts(state="owed"):
        if receipt.id not in under_way:
            await store.put_receipt(dataclasses.replace(receipt, state="swept"))


async def _check_empty(store: DocumentStore, cfg: MemoryConfig, hasher: Hasher) -> None:
    """Raise ConfigError for a database that isn't empty, but for one into which this backup was being restored."""
    found = await store.get_meta("restoring")
    if found is None and await store.stored_users(limit=1):
        raise ConfigError(
            f"the database {cfg.db_name!r} isn't empty; restore into another one (db_name), with the receipts of this one"
            " (`memory-agent erasures --jsonl`, `--receipts`)"
        )
    await store.put_meta("restoring", {"of": hasher.key})


def _remove(file: Path) -> None:
    for end in _BESIDE:
        Path(f"{file}{end}").unlink(missing_ok=True)


def _put_in_place(new: Path, file: Path, now: datetime) -> Path | None:
    """Give the new file its name; where the one of before is now."""
    aside = None
    if file.exists():
        name = f"{file.name}.replaced-{now:%Y%m%d-%H%M%S}"
        names = (f"{name}{f'-{number}' if number else ''}" for number in itertools.count())
        aside = next(path for path in map(file.with_name, names) if not path.exists())
        for end in ("-wal", "-shm"):  # of a store that was closed: nothing is in them
            Path(f"{file}{end}").unlink(missing_ok=True)
        aside.hardlink_to(file)
    Path(f"{file}.mark").unlink(missing_ok=True)
    new.replace(file)
    Path(f"{new}.mark").replace(f"{file}.mark")
    return aside
