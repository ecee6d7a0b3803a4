"""`memory-agent backup`, `restore`, `export` and `import`: memories as files, and back; and conversations of other programs."""

from __future__ import annotations

import asyncio
import contextlib
import glob
import os
import sys
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import typer

from memory_agent.checks import at_home
from memory_agent.cli.forget import read_receipts
from memory_agent.cli.opening import opened, tell_if_idle
from memory_agent.cli.options import (
    FAILED,
    OK,
    UNFINISHED,
    USER,
    FolderOptions,
    MemoryTyper,
    TenantOptions,
    UserOptions,
    flag,
    option,
    scope_of,
    settings,
    working_settings,
)
from memory_agent.cli.output import (
    complain,
    err,
    in_words,
    many,
    note,
    out,
    picked,
    print_json,
    print_rows,
    print_table,
    progress_bar,
    when,
)
from memory_agent.cli.status import PATIENCE, settled, tell_what_is_owed
from memory_agent.clock import SystemClock
from memory_agent.data_dir import check_memory
from memory_agent.domain import Scope
from memory_agent.errors import InvalidInput

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from memory_agent.cli.opening import Service
    from memory_agent.cli.options import ThreadOptions
    from memory_agent.config import MemoryConfig
    from memory_agent.domain import MemoryStatus
    from memory_agent.exports.run import Imported
    from memory_agent.imports.run import ImportReport
    from memory_agent.ports import DocumentStore, KeyStore

app = MemoryTyper()

_BACKUP: Final[Any] = typer.Argument(help="A new file, or a folder (with / at its end).", metavar="FILE|DIR/")
_BACKUP_END: Final = ".backup.gz"
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
async def backup(
    where: FolderOptions,
    file: str = _BACKUP,
    keep: int | None = option("--keep", "In a folder: delete all but the newest so many.", min=1),
) -> int:
    """Write everything into one file: turns with what was derived of them, facts with their history, API keys, receipts of forget calls.

    Also while a service is using the memory. The file is packed if its name ends in .gz, checksummed, its owner's alone, and there only once it is
    whole. It restores into SQLite and MongoDB alike, whichever it is of. In a folder the file is named by the time, for cron.

    Examples:
        memory-agent backup memory.backup.gz
        memory-agent backup /backups/ --keep 14
    """
    from memory_agent.exports.run import back_up

    cfg, now, to = settings(where.data_dir), SystemClock().now(), at_home(file)
    in_folder = file.endswith(("/", os.sep)) or to.is_dir()
    if keep is not None and not in_folder:
        raise typer.BadParameter(f"--keep is for a folder, and {file} is a file: write {file}/ for a folder")
    if in_folder:
        to.mkdir(mode=0o700, parents=True, exist_ok=True)
        to /= f"{cfg.db_name}-{now:%Y-%m-%dT%H%M%SZ}{_BACKUP_END}"
    async with _stores(cfg) as (store, keys):
        written = await back_up(to, store, keys, now=now, progress=counting("written"))
    if keep is not None:
        for old in sorted(to.parent.glob(f"{glob.escape(cfg.db_name)}-*{_BACKUP_END}"))[:-keep]:
            old.unlink()
    _tell(written.records, to, as_json=where.as_json)
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
    from memory_agent.exports.run import restore as restored_from

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


# --- import --------------------------------------------------------------------------------------------------
_PATHS: Final[Any] = typer.Argument(help="ZIPs, folders or files.", metavar="PATH...")
_SHOWN: Final = 20
_WORKER: Final = "Make it searchable: memory-agent worker --until-idle"
_ALL_DONE: Final = "All of it is searchable."
_LOOK_SECONDS: Final = 0.2
_STORED_PER_SECOND: Final = 150
_EMBEDDED_CHARACTERS_PER_SECOND: Final = 20_000
"""Rough figures of two cores, with SQLite and all-MiniLM-L6-v2: the plan says "about"."""


@app.command(name="import")
async def import_(
    where: UserOptions,
    paths: list[Path] = _PATHS,
    source: str = option(
        "--from", "auto, chatgpt, claude, gemini, mem0, langchain, openai-jsonl or sharegpt.", "auto"
    ),
    dry_run: bool = flag("--dry-run", "Only say what there is, and how long it will take."),
    no_wait: bool = flag("--no-wait", "Leave when stored; a worker does the rest later."),
    patience: float = PATIENCE,
) -> int:
    """Import conversations of other programs, or an export of a memory, until they are searchable.

    Of ChatGPT, Claude, Gemini and mem0, and lists of messages; ZIPs as they were downloaded will do, and their shards.
    Each conversation becomes a thread of --user. To import again, also a newer export, adds what is new.

    An export (`memory-agent export`) says itself whose it is: what is there stays, and what this memory has forgotten
    stays forgotten.

    Examples:
        memory-agent import chatgpt.zip --user ada --dry-run
        memory-agent import chatgpt.zip claude.zip --user ada
        memory-agent import ada.jsonl
    """
    from memory_agent.imports.run import import_chats

    if len(paths) == 1 and source == "auto" and _is_export(paths[0]):
        return await _take_in(where, paths[0], dry_run=dry_run, wait=not no_wait, patience=patience)
    left = None
    with progress_bar("Reading turns" if dry_run else "Importing turns", show=not where.as_json) as moved:
        given: dict[str, Any] = {"source": source, "tenant": where.tenant, "progress": moved}
        if dry_run:
            report = await import_chats(None, where.user, *paths, **given)
        else:
            async with opened(where.data_dir, works=not no_wait, new=True) as service:
                report = await import_chats(service, where.user, *paths, **given)
                if report.new and not no_wait:
                    of = Scope.of(where.user, tenant=where.tenant)
                    left = await _settled(service, of, patience, show=not where.as_json)
    for one in report.unreadable[:_SHOWN]:
        complain(f"{one.where}: {one.reason}")
    if len(report.unreadable) > _SHOWN:
        complain(f"… and {len(report.unreadable) - _SHOWN} more that could not be read")
    if where.as_json:
        print_json(_as_json(report, dry_run=dry_run))
    else:
        _print_report(report, dry_run=dry_run)
        if left is not None:
            tell_what_is_owed(left, where.data_dir)
        elif report.new and not dry_run:
            note(_WORKER if no_wait else _ALL_DONE)
    if not report.turns:
        complain("nothing was found that can be imported")
        return FAILED
    return UNFINISHED if report.unreadable or left is not None else OK


def _is_export(path: Path) -> bool:
    from memory_agent.imports.files import ImportFile
    from memory_agent.imports.kinds import OWN, kind_of

    with contextlib.suppress(InvalidInput, ValueError), ImportFile(path=path).values() as values:
        return kind_of(next(values, None)) == OWN
    return False


async def _settled(service: Service, of: Scope | None, patience: float, *, show: bool) -> MemoryStatus | None:
    """Wait for all work on the scope's turns (None: anybody's).

    Returns how it stands if a part stays down, None if all is done.
    """
    await tell_if_idle(service)

    async def settle(moved: Callable[..., None]) -> None:
        while (status := await service.status(of)).owed_count > status.parked_count:
            moved(status)
            await asyncio.sleep(_LOOK_SECONDS)

    return await settled(service, settle, patience=patience, show=show, scope=of)


async def _take_in(where: ThreadOptions, file: Path, *, dry_run: bool, wait: bool, patience: float) -> int:
    from memory_agent.service import MemoryService

    if dry_run or where.user != USER:
        raise typer.BadParameter(f"{file} is an export of a memory, which takes neither --user nor --dry-run")
    left = None
    cfg = working_settings(where.data_dir) if wait else settings(where.data_dir, run_worker=False)
    async with MemoryService.holding(cfg) as service:
        done = await service.import_from(file, progress=counting("read"))
        if wait and done.new_turns:
            left = await _settled(service, None, patience, show=not where.as_json)
    if where.as_json:
        print_json(picked(done, IMPORTED))
        return OK if left is None else UNFINISHED
    print_imported(done)
    if left is not None:
        tell_what_is_owed(left, where.data_dir)
        return UNFINISHED
    if done.new_turns:
        note(_ALL_DONE if wait else _WORKER)
    return OK


def _seconds(report: ImportReport) -> float:
    """About how long the import takes, until all of it is searchable."""
    characters = sum(tally.characters for tally in report.sources.values())
    return report.turns / _STORED_PER_SECOND + characters / _EMBEDDED_CHARACTERS_PER_SECOND


def _as_json(report: ImportReport, *, dry_run: bool) -> dict[str, Any]:
    told = {
        name: picked(tally, "conversations turns new first last left_out")
        for name, tally in report.sources.items()
    }
    unreadable = [picked(one, "where reason") for one in report.unreadable]
    more = {"seconds": round(_seconds(report), 1)} if dry_run else {}
    return {"sources": told, "unreadable": unreadable, "dry_run": dry_run, **more}


def _print_report(report: ImportReport, *, dry_run: bool) -> None:
    names = ["from", ">conversations", ">turns", *([] if dry_run else [">new"]), "first", "last"]
    rows = []
    for name, tally in report.sources.items():
        counts = [tally.conversations, tally.turns, *([] if dry_run else [tally.new])]
        rows.append([name, *(f"{count:,}" for count in counts), when(tally.first), when(tally.last)])
    if rows:
        print_table(names, rows)
    for name, tally in report.sources.items():
        for reason, count in tally.left_out.most_common():
            out.print(f"{name}: left out {many(count, 'message')}: {reason}")
    if dry_run and report.turns:
        note(f"Time to import it and to make it searchable: {in_words(_seconds(report))}.")
