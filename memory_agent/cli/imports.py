"""`memory-agent import`: conversations of other programs, and our own exports."""

from __future__ import annotations

import contextlib
from pathlib import Path  # noqa: TC003 - read when the command is declared
from typing import TYPE_CHECKING, Any, Final

import typer

from memory_agent.cli.exports import IMPORTED, counting, print_imported
from memory_agent.cli.opening import opened
from memory_agent.cli.options import (
    FAILED,
    OK,
    UNFINISHED,
    USER,
    MemoryTyper,
    UserOptions,
    flag,
    option,
    settings,
)
from memory_agent.cli.output import (
    complain,
    in_words,
    many,
    note,
    out,
    picked,
    print_json,
    print_table,
    progress_bar,
    when,
)
from memory_agent.errors import InvalidInput

if TYPE_CHECKING:
    from memory_agent.cli.options import ThreadOptions
    from memory_agent.imports.run import ImportReport

app = MemoryTyper()

_PATHS: Final[Any] = typer.Argument(help="ZIPs, folders or files.", metavar="PATH...")
_SHOWN: Final = 20
_WORKER: Final = "Make it searchable: memory-agent worker --until-idle"
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
) -> int:
    """Import conversations of other programs, or an export of a memory.

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
        return await _take_in(where, paths[0], dry_run=dry_run)
    with progress_bar("Reading turns" if dry_run else "Importing turns", show=not where.as_json) as moved:
        given: dict[str, Any] = {"source": source, "tenant": where.tenant, "progress": moved}
        if dry_run:
            report = await import_chats(None, where.user, *paths, **given)
        else:
            async with opened(where.data_dir, new=True) as service:
                report = await import_chats(service, where.user, *paths, **given)
    for one in report.unreadable[:_SHOWN]:
        complain(f"{one.where}: {one.reason}")
    if len(report.unreadable) > _SHOWN:
        complain(f"… and {len(report.unreadable) - _SHOWN} more that could not be read")
    if where.as_json:
        print_json(_as_json(report, dry_run=dry_run))
    else:
        _print(report, dry_run=dry_run)
    if not report.turns:
        complain("nothing was found that can be imported")
        return FAILED
    return UNFINISHED if report.unreadable else OK


def _is_export(path: Path) -> bool:
    from memory_agent.imports.files import ImportFile
    from memory_agent.imports.kinds import OWN, kind_of

    with contextlib.suppress(InvalidInput, ValueError), ImportFile(path=path).values() as values:
        return kind_of(next(values, None)) == OWN
    return False


async def _take_in(where: ThreadOptions, file: Path, *, dry_run: bool) -> int:
    from memory_agent.service import MemoryService

    if dry_run or where.user != USER:
        raise typer.BadParameter(f"{file} is an export of a memory, which takes neither --user nor --dry-run")
    async with MemoryService(settings(where.data_dir, run_worker=False)) as service:
        done = await service.import_from(file, progress=counting("read"))
    if where.as_json:
        print_json(picked(done, IMPORTED))
        return OK
    print_imported(done)
    note(_WORKER)
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


def _print(report: ImportReport, *, dry_run: bool) -> None:
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
    elif report.new:
        note(_WORKER)
