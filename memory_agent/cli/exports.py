"""`memory-agent backup`, `restore` and `export`: memories as files, and back."""

from __future__ import annotations

import sys
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import typer

from memory_agent.cli.erasures import read_receipts
from memory_agent.cli.options import (
    OK,
    FolderOptions,
    MemoryTyper,
    TenantOptions,
    flag,
    option,
    scope_of,
    settings,
)
from memory_agent.cli.output import err, many, note, picked, print_json, print_rows
from memory_agent.clock import SystemClock
from memory_agent.data_dir import check_memory

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from memory_agent.config import MemoryConfig
    from memory_agent.exports.run import Imported
    from memory_agent.ports import DocumentStore, KeyStore

app = MemoryTyper()

_FILE: Final[Any] = typer.Argument(help="The file.", metavar="FILE")
_TARGET: Final[Any] = typer.Argument(
    Path("-"), help="A new file, or - for standard output.", metavar="[FILE]"
)
IMPORTED: Final = "records new_turns forgotten_turns"
"""What JSON says of an export that was taken in."""
_PLURALS: Final = {"remains": "threads", "change": "fact changes", "row": "search rows", "key": "API keys"}


@asynccontextmanager
async def _stores(cfg: MemoryConfig) -> AsyncIterator[tuple[DocumentStore, KeyStore]]:
    """The stores alone, which several processes may read at once, whoever holds the folder."""
    from memory_agent.adapters import open_keys, open_store

    check_memory(cfg)
    async with AsyncExitStack() as stack:
        yield await open_store(cfg, None, stack), await open_keys(cfg, None, stack)


def counting(what: str) -> Callable[[int], None]:
    """Progress in records, where somebody looks."""

    def show(count: int) -> None:
        if err.is_terminal:
            err.print(f"{what} {count:,} records …", end="\r")

    return show


@app.command()
async def backup(where: FolderOptions, file: Path = _FILE) -> int:
    """Write everything into one file: turns with what was derived of them, facts with their history, API keys, receipts of forget calls.

    Also while a service is using the memory. The file is packed if its name ends in .gz, checksummed, its owner's alone, and there only once it is
    whole. It restores into SQLite and MongoDB alike, whichever it is of.

    Examples:
        memory-agent backup memory.backup.gz
    """
    from memory_agent.exports.run import back_up

    async with _stores(settings(where.data_dir)) as (store, keys):
        written = await back_up(file, store, keys, now=SystemClock().now(), progress=counting("written"))
    _tell(written.records, file, as_json=where.as_json)
    if not where.as_json:
        note(
            "It holds everything that was said, and hashes of API keys: keep it where nobody else can read it."
        )
    return OK


@app.command()
async def restore(
    where: FolderOptions,
    file: Path = _FILE,
    receipts: list[Path] | None = option(
        "--receipts",
        "Receipts (`erasures --jsonl`) of what was forgotten since. May be repeated.",
        metavar="FILE",
    ),
) -> int:
    """Restore a backup into an empty memory, without what was forgotten since.

    The file is read to its end before anything is written. A restore that was cut short goes on when it is run again; until then the memory
    cannot be opened. Afterwards a worker brings the index up to date: `memory-agent worker --until-idle`.

    Examples:
        memory-agent restore memory.backup.gz --data-dir ./restored
        memory-agent restore memory.backup.gz --data-dir ./restored --receipts receipts.jsonl
    """
    from memory_agent.exports.restoring import restore as restored_from

    cfg = settings(where.data_dir)
    kept = [receipt for one in receipts or () for receipt in read_receipts(one)]
    done = await restored_from(
        file, cfg, now=SystemClock().now(), receipts=kept, progress=counting("restored")
    )
    if where.as_json:
        print_json(picked(done, IMPORTED))
        return OK
    print_imported(done)
    note("Bring the index up to date: memory-agent worker --until-idle")
    return OK


@app.command()
async def export(
    where: TenantOptions,
    file: Path = _TARGET,
    user: str | None = option("--user -u", "Only this user's."),
    thread: str | None = option("--thread -t", "Only this conversation."),
    everybody: bool = flag("--all-tenants", "Everybody's of all tenants, instead of the tenant's."),
    vectors: bool = flag(
        "--vectors", "With search rows, so that nothing is embedded again where it is imported."
    ),
) -> int:
    """Export a thread, a user, a tenant or everybody as JSON Lines, to read or to import elsewhere.

    One record a line: turns, sessions, topics, facts as the history of their changes, compressions. docs/exports.md describes them.

    Examples:
        memory-agent export --user ada
        memory-agent export ada.jsonl --user ada
        memory-agent export everybody.jsonl.gz --all-tenants --vectors
    """
    from memory_agent.exports.run import export_to

    scope = scope_of(user, thread, where.tenant)
    target: Any = sys.stdout.buffer if str(file) == "-" else file
    async with _stores(settings(where.data_dir)) as (store, _):
        written = await export_to(
            target,
            store,
            now=SystemClock().now(),
            tenant=None if everybody else where.tenant,
            scope=scope,
            vectors=vectors,
            progress=counting("written"),
        )
    if target is not file:
        sys.stdout.buffer.flush()
    else:
        _tell(written.records, file, as_json=where.as_json)
    return OK


def _tell(records: dict[str, int], file: Path, *, as_json: bool) -> None:
    size = file.stat().st_size
    if as_json:
        print_json({"file": str(file), "bytes": size, "records": records})
    else:
        _print(records, ("file", str(file)), ("size", f"{size / 1e6:,.1f} MB"))


def _print(records: dict[str, int], *rows: tuple[str, str]) -> None:
    print_rows([*((_PLURALS.get(kind, f"{kind}s"), f"{count:,}") for kind, count in records.items()), *rows])


def print_imported(done: Imported) -> None:
    """Print what was taken in."""
    _print(done.records, ("new here", many(done.new_turns, "turn")))
    if done.forgotten_turns:
        note(f"{many(done.forgotten_turns, 'turn')} of the file were forgotten since, and left out.")
