"""`memory-agent doctor`: everything that is derived is compared with the turns, and made anew from them on demand."""

from __future__ import annotations

from contextlib import AsyncExitStack
from pathlib import Path  # noqa: TC003 - read when the command is declared
from typing import TYPE_CHECKING, Any, Final

import typer

from memory_agent.cli.options import OK, UNFINISHED, FolderOptions, MemoryTyper, flag, option, settings
from memory_agent.cli.output import err, many, note, out, print_json, say
from memory_agent.data_dir import check_memory
from memory_agent.doctor.examine import BY_HAND, GIVEN_UP, HIDING, findings_by_kind, together
from memory_agent.domain import DEFAULT_TENANT
from memory_agent.errors import BackendError, ConfigError, DataDirInUse, SettleTimeout, TurnsParked

if TYPE_CHECKING:
    from collections.abc import Sequence

    from memory_agent.config import MemoryConfig
    from memory_agent.doctor.examine import Finding, Totals
    from memory_agent.domain import MemoryStatus, Scope
    from memory_agent.service import MemoryService

app = MemoryTyper()

_SHOWN: Final = 5
_ROUNDS: Final = 4
_MENDS: Final = "memory-agent doctor --repair"


@app.command()
async def doctor(
    where: FolderOptions,
    repair: bool = flag("--repair", "Make anew what is wrong; no other process may be using data_dir."),
    forget_unreadable: bool = flag(
        "--forget-unreadable", "With --repair: give up turns and people's settings that cannot be read."
    ),
    save_to: Path | None = option(
        "--save-to", "Save the turns that a damaged SQLite file still gives.", metavar="FILE"
    ),
) -> int:
    """Compare everything that is derived with the turns, say what differs, and make it anew with `--repair`.

    Looks, also while a service runs, at search rows, vectors in Chroma, large users' term index, topics, facts as the fold of their changes, sessions, compressions,
    packed texts, parked and overdue work, leases, forget calls, API keys, the schema, the SQLite file and the clock. `--repair` makes what is derived anew from the turns;
    what it can't give again it leaves, and says what to do about it. **Exit codes**, for cron: 0 nothing is wrong (any more), 3 something is, 1 it could not be examined.

    Examples:
        memory-agent doctor
        memory-agent doctor --repair
        memory-agent doctor --save-to saved.jsonl.gz
    """
    cfg = settings(where.data_dir, run_worker=repair)
    if save_to is not None:
        return _save(cfg, save_to, as_json=where.as_json)
    if forget_unreadable and not repair:
        raise typer.BadParameter("--forget-unreadable changes the memory: give --repair as well")
    from memory_agent.doctor.examine import examined, open_stores

    check_memory(cfg)
    mended: list[Finding] = []
    async with AsyncExitStack() as stack:
        if repair:
            service = await _alone(cfg, stack)
            store, vectors = service.core.store, service.core.vectors if service.core.filler else None
        else:
            store, vectors = await open_stores(cfg, stack)
        found, totals = await examined(cfg, store, vectors, _show_totals)
        for _ in range(_ROUNDS if repair else 0):
            if not any(finding.wrong for finding in found):
                break
            mended += (done := await _mend(service, found, forget_unreadable=forget_unreadable))
            found, totals = await examined(cfg, store, vectors, _show_totals)
            gone = {(finding.kind, finding.scope) for finding in found}
            mended = [finding for finding in mended if (finding.kind, finding.scope) not in gone]
            if not any(finding.kind in HIDING for finding in done):
                break  # nothing more came to light
    if where.as_json:
        print_json(
            {"totals": totals, "findings": list(map(_plain, found)), "mended": list(map(_plain, mended))}
        )
    else:
        _print(found, totals, mended)
    return UNFINISHED if any(finding.wrong for finding in found) else OK


async def _alone(cfg: MemoryConfig, stack: AsyncExitStack) -> MemoryService:
    """The memory opened to be changed; its worker waits."""
    from memory_agent.service import MemoryService

    try:
        service = await stack.enter_async_context(MemoryService.holding(cfg))
    except DataDirInUse as exc:
        raise DataDirInUse(
            f"--repair needs data_dir to itself, nothing was changed; without --repair the doctor looks while it is in use. {exc}"
        ) from exc
    await service.pause_worker()
    return service


def _show_totals(totals: Totals) -> None:
    if err.is_terminal:
        err.print(f"{many(totals.turns, 'turn')} of {many(totals.users, 'user')} examined …", end="\r")


async def _mend(
    service: MemoryService, found: Sequence[Finding], *, forget_unreadable: bool
) -> list[Finding]:
    from memory_agent.doctor.repair import make_anew

    mendable = [each for each in found if each.repair or (forget_unreadable and each.kind in GIVEN_UP)]
    by_scope: dict[Scope, list[Finding]] = {}
    for finding in sorted(mendable, key=lambda finding: finding.kind not in HIDING):
        if finding.scope is not None:
            by_scope.setdefault(finding.scope, []).append(finding)
    mended: list[Finding] = []
    for scope, of_scope in by_scope.items():
        try:
            await make_anew(
                service.core, scope, of_scope, now=service.clock.now(), forget_unreadable=forget_unreadable
            )
            mended += of_scope
        except BackendError as exc:
            note(f"Not mended{_whose(scope)}: {exc}")
    await service.resume_worker()
    for scope in by_scope:
        try:
            await service.settle(scope=scope, progress=_show_owed)
        except (TurnsParked, SettleTimeout) as exc:
            note(f"Not all is done yet{_whose(scope)}: {exc}")
    await service.pause_worker()
    return mended


def _show_owed(status: MemoryStatus) -> None:
    if err.is_terminal:
        err.print(f"{many(status.owed_count, 'turn')} being worked on …   ", end="\r")


def _print(found: Sequence[Finding], totals: Totals, mended: Sequence[Finding]) -> None:
    for of_kind in findings_by_kind(mended):
        say(("Mended: ", "green"), _in_a_line(of_kind))
    for of_kind in findings_by_kind(found):
        _print_kind(of_kind)
    looked = (
        f"{many(totals.turns, 'turn')} in {many(totals.threads, 'thread')} of {many(totals.users, 'user')}"
    )
    wrong = sum(finding.wrong for finding in found)
    if not wrong:
        out.print(f"Examined {looked}: nothing is wrong.")
    elif any(finding.repair for finding in found):
        out.print(f"Examined {looked}. To mend it: {_MENDS}")
    else:
        out.print(f"Examined {looked}.")


def _in_a_line(found: Sequence[Finding]) -> str:
    """Findings of a kind."""
    where = _whose(found[0].scope) if len(found) == 1 else f", in {len(found):,} places"
    return together(found).what + where


def _print_kind(found: Sequence[Finding]) -> None:
    """What was found of a kind, the largest first."""
    first = found[0]
    label = ("Wrong: ", "bold red") if first.wrong else ("Note: ", "yellow")
    say(label, _in_a_line(found))
    if len(found) > 1:
        for finding in sorted(found, key=lambda each: -len(each.ids))[:_SHOWN]:
            say(
                f"  {len(finding.ids):,}{_whose(finding.scope)}{f': {finding.detail}' if finding.detail else ''}"
            )
        if len(found) > _SHOWN:
            say(f"  and {len(found) - _SHOWN:,} more, which --json lists")
    if first.kind in BY_HAND:
        say(f"  {BY_HAND[first.kind]}")


def _whose(scope: Scope | None) -> str:
    if scope is None:
        return ""
    tenant = "" if scope.tenant == DEFAULT_TENANT else f" of tenant {scope.tenant}"
    thread = "" if scope.thread_id is None else f", thread {scope.thread_id}"
    return f" (user {scope.tenants_user_id}{tenant}{thread})"


def _plain(finding: Finding) -> dict[str, Any]:
    scope = finding.scope
    return {
        "kind": finding.kind,
        "wrong": finding.wrong,
        "what": finding.what,
        "tenant": None if scope is None else scope.tenant,
        "user_id": None if scope is None else scope.tenants_user_id,
        "thread_id": None if scope is None else scope.thread_id,
        "ids": finding.ids,
        "repair": finding.repair,
    }


def _save(cfg: MemoryConfig, target: Path, *, as_json: bool) -> int:
    from memory_agent.doctor.repair import salvage

    file = cfg.data_dir / f"{cfg.db_name}.sqlite3"
    if not cfg.embedded or not file.is_file():
        raise ConfigError(f"--save-to reads the SQLite file of data_dir, and there is no {file}")
    saved = salvage(file, target)
    if as_json:
        print_json({"file": str(target), "turns": saved.turns, "lost": saved.lost})
        return OK if saved.turns else UNFINISHED
    say(f"Saved {many(saved.turns, 'turn')} in {target}.")
    if saved.lost:
        note(f"Of {many(saved.lost, 'more turn')} the text is gone.")
    if saved.turns:
        note(
            f"Take them into an empty folder, and let a worker make the rest anew: memory-agent import {target} --data-dir OTHER"
        )
        note(
            "Look there for what people had set themselves (facts, topics, sessions): it is not in the file."
        )
    return OK if saved.turns else UNFINISHED
