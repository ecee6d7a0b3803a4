"""A backup restored into an empty memory; one that was cut short goes on when it is run again."""

from __future__ import annotations

from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Any

from memory_agent.adapters import open_keys, open_store
from memory_agent.data_dir import DataDirLock
from memory_agent.domain.hashing import HASHING, Hasher
from memory_agent.errors import ConfigError, InvalidInput
from memory_agent.exports.run import checked_file, take_in
from memory_agent.ports import RESTORING
from memory_agent.work.receipts import end_lost

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from datetime import datetime
    from pathlib import Path

    from memory_agent.config import MemoryConfig
    from memory_agent.domain import ErasureReceipt
    from memory_agent.exports.run import Imported
    from memory_agent.ports import DocumentStore


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
