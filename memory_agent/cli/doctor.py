"""`memory-agent doctor`: everything that is derived is compared with the truth, and mended on demand."""

from __future__ import annotations

from contextlib import AsyncExitStack
from pathlib import Path  # noqa: TC003 - read when the command is declared
from typing import TYPE_CHECKING, Any

from memory_agent.cli.erasures import look_for
from memory_agent.cli.options import OK, UNFINISHED, FolderOptions, MemoryTyper, flag, option, settings
from memory_agent.cli.output import err, many, note, out, print_json, print_table
from memory_agent.clock import SystemClock
from memory_agent.data_dir import check_memory
from memory_agent.domain import DEFAULT_TENANT
from memory_agent.errors import ConfigError

if TYPE_CHECKING:
    from memory_agent.config import MemoryConfig
    from memory_agent.doctor.checks import Finding
    from memory_agent.doctor.examine import Examined

app = MemoryTyper()


@app.command()
async def doctor(
    where: FolderOptions,
    repair: bool = flag("--repair", "Mend what can be mended; no other process may be using data_dir."),
    erased: str | None = option(
        "--erased", "Look for this user id in all files of data_dir.", metavar="USER"
    ),
    save_to: Path | None = option(
        "--save-to", "Save the turns that a damaged SQLite file still gives.", metavar="FILE"
    ),
) -> int:
    """Compare everything that is derived with the turns, say what differs, and mend it with `--repair`.

    Search rows, vectors, topics, facts as the fold of their changes, sessions, compressions, packed texts, parked and overdue work, forget calls,
    API keys, the schema, the SQLite file, clocks. Also while a service runs. **Exit codes**, for cron: 0 nothing is wrong (or all was mended), 3 something is, 1 it could not be examined.

    Examples:
        memory-agent doctor
        memory-agent doctor --repair
        memory-agent doctor --erased ada
        memory-agent doctor --save-to saved.jsonl.gz
    """
    cfg = settings(where.data_dir, run_worker=False)
    if erased is not None:
        return look_for(cfg.data_dir, [erased], as_json=where.as_json)
    if save_to is not None:
        return _save(cfg, save_to, as_json=where.as_json)
    check_memory(cfg)
    found, totals = await _examined(cfg)
    mended: list[Finding] = []
    if repair and found:
        mended = await _mend(cfg, found)
        found, totals = await _examined(cfg)
    wrong = [finding for finding in found if finding.wrong]
    if where.as_json:
        print_json({"totals": totals, "findings": found, "mended": mended})
    else:
        _print(found, totals, mended)
    return UNFINISHED if wrong else OK


async def _examined(cfg: MemoryConfig) -> tuple[list[Finding], Examined]:
    from memory_agent.adapters import open_keys, open_store, open_vectors
    from memory_agent.doctor.examine import Examined, examine

    def show(turns: int) -> None:
        if err.is_terminal:
            err.print(f"examined {turns:,} turns …", end="\r")

    totals = Examined()
    async with AsyncExitStack() as stack:
        store, keys = await open_store(cfg, None, stack), await open_keys(cfg, None, stack)
        vectors = None if cfg.chroma_host is None else await open_vectors(cfg, store, lambda: "", stack)
        now = SystemClock().now()
        found = [
            finding async for finding in examine(store, keys, vectors, now=now, totals=totals, progress=show)
        ]
    return found, totals


async def _mend(cfg: MemoryConfig, found: list[Finding]) -> list[Finding]:
    from memory_agent.doctor.examine import repair
    from memory_agent.service import MemoryService

    async with MemoryService(cfg.model_copy(update={"run_worker": True})) as service:
        now = service.clock.now()
        mended = [finding for finding in found if await repair(service.core, finding, now=now)]
        await service.settle()
    return mended


def _print(found: list[Finding], totals: Examined, mended: list[Finding]) -> None:
    for finding in mended:
        out.print(f"Mended: {finding.what}{_whose(finding)}", soft_wrap=True)
    if found:
        rows = [
            ("wrong" if finding.wrong else "note", _whose(finding).strip(), finding.what, _remedy(finding))
            for finding in found
        ]
        print_table(("", "+whose", "+what", "remedy"), rows)
    looked = (
        f"{many(totals.turns, 'turn')} in {many(totals.threads, 'thread')} of {many(totals.users, 'user')}"
    )
    if any(finding.wrong for finding in found):
        note(f"Looked at {looked}.")
    else:
        out.print(f"Looked at {looked}: nothing is wrong.")


def _remedy(finding: Finding) -> str:
    return "--repair" if finding.repair else ""


def _whose(finding: Finding) -> str:
    scope = finding.scope
    if scope is None:
        return ""
    tenant = "" if scope.tenant == DEFAULT_TENANT else f" of {scope.tenant}"
    thread = "" if scope.thread_id is None else f", thread {scope.thread_id}"
    return f" (user {scope.tenants_user_id}{tenant}{thread})"


def _save(cfg: MemoryConfig, target: Path, *, as_json: bool) -> int:
    from memory_agent.doctor.salvage import salvage

    file = cfg.data_dir / f"{cfg.db_name}.sqlite3"
    if not cfg.embedded or not file.is_file():
        raise ConfigError(f"--save-to reads the SQLite file of data_dir, and there is no {file}")
    written = salvage(file, target)
    turns = written.records.get("turn", 0)
    if as_json:
        found: dict[str, Any] = {"file": str(target), "turns": turns}
        print_json(found)
    else:
        out.print(f"Saved {many(turns, 'turn')} in {target}.", soft_wrap=True)
        note(f"Take them into an empty memory: memory-agent import {target} --data-dir OTHER")
    return OK
