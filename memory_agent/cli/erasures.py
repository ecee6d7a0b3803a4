"""`memory-agent erasures`: the receipts of forget calls, how far each is, and what the files still hold."""

from __future__ import annotations

import dataclasses
import json
from datetime import datetime
from pathlib import Path  # noqa: TC003 - read when the command is declared
from typing import Any, Final

import typer

from memory_agent.cli.opening import opened
from memory_agent.cli.options import OK, UNFINISHED, FolderOptions, MemoryTyper, flag, option, settings
from memory_agent.cli.output import many, note, out, print_json, print_table, when
from memory_agent.domain import ErasureReceipt
from memory_agent.errors import InvalidInput
from memory_agent.work.remains import remains_in

app = MemoryTyper()

_STATES: Final = {
    "owed": "a worker looks once more",
    "swept": "the worker writes the files anew",
    "erased": "nothing is left in our files",
    "operator": "what the server's files and log keep is the operator's",
}
_FIELDS: Final = {field.name for field in dataclasses.fields(ErasureReceipt)}


@app.command()
async def erasures(
    where: FolderOptions,
    as_lines: bool = flag(
        "--jsonl", "The receipts line by line, to keep apart from the database for `forget --from`."
    ),
    user: str | None = option("--scan", "Look for this user id in all files of data_dir.", metavar="USER"),
    texts: Path | None = option("--texts", "And for each line of this file.", metavar="FILE"),
) -> int:
    """List what was forgotten, by hashes alone, and how far each erasure is.

    With `--scan` the files of data_dir are searched, byte by byte, for the id and the lines given; what is found leaves with 3.
    Once somebody is forgotten nobody knows the texts any more, so keep a few for this beforehand.

    Examples:
        memory-agent erasures
        memory-agent erasures --jsonl > receipts.jsonl
        memory-agent erasures --scan ada
    """
    if user is not None or texts is not None:
        return _scan(where, user, texts)
    async with opened(where.data_dir) as service:
        found = await service.erasures()
    if as_lines:
        for receipt in found:
            typer.echo(json.dumps(dataclasses.asdict(receipt), default=datetime.isoformat))
    elif where.as_json:
        print_json(found)
    elif found:
        rows = [
            (when(receipt.at), _extent(receipt), receipt.user[:12], receipt.state, _STATES[receipt.state])
            for receipt in found
        ]
        print_table(("asked", "what", "+user (hash)", "state", "what it means"), rows)
    else:
        note("Nothing was forgotten yet.")
    return OK


def _extent(receipt: ErasureReceipt) -> str:
    if receipt.turns:
        return many(len(receipt.turns), "turn")
    return "the whole user" if receipt.thread is None else "a whole thread"


def _scan(where: FolderOptions, user: str | None, texts: Path | None) -> int:
    wanted = [] if user is None else [user]
    wanted += (
        [] if texts is None else [line for line in texts.read_text("utf-8").splitlines() if line.strip()]
    )
    folder = settings(where.data_dir).data_dir
    found = remains_in(folder, wanted)
    if where.as_json:
        print_json({"folder": str(folder), "looked_for": len(wanted), "found": found})
    elif found:
        print_table(
            ("+file", ">times", "+of"), [(one.file, f"{one.times:,}", one.text[:60]) for one in found]
        )
    else:
        out.print(f"Nothing of {many(len(wanted), 'text')} is in the files of {folder}.")
    return UNFINISHED if found else OK


def read_receipts(file: Path) -> list[ErasureReceipt]:
    """The receipts in a file of `erasures --jsonl`. Raises InvalidInput, which names the line."""
    found: list[ErasureReceipt] = []
    for number, line in enumerate(file.read_text("utf-8").splitlines(), start=1):
        if line.strip():
            try:
                found.append(_receipt(json.loads(line)))
            except (ValueError, TypeError, KeyError) as exc:
                raise InvalidInput(
                    f"line {number} of {file} is no receipt of `memory-agent erasures --jsonl` ({exc}); nothing was erased"
                ) from exc
    return found


def _receipt(given: dict[str, Any]) -> ErasureReceipt:
    if unknown := given.keys() - _FIELDS:
        raise ValueError(f"unknown field {min(unknown)!r:.80}")
    values = {**given, "at": datetime.fromisoformat(given["at"]), "turns": tuple(given["turns"])}
    return ErasureReceipt(**values)
