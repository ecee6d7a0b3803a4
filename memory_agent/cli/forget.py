"""`memory-agent forget`, `erasures` and `sweep`: turns erased, with a receipt, and what has faded let go, for cron."""

from __future__ import annotations

import asyncio
import dataclasses
import json
import signal
from datetime import datetime
from pathlib import Path  # noqa: TC003 - read when the command is declared
from typing import TYPE_CHECKING, Any, Final

import typer

from memory_agent.cli.opening import opened, say_if_unknown
from memory_agent.cli.options import (
    INTERRUPTED,
    OK,
    TENANT,
    UNFINISHED,
    FolderOptions,
    MemoryTyper,
    ThreadOptions,
    Yes,
    flag,
    option,
    settings,
)
from memory_agent.cli.output import (
    complain,
    many,
    note,
    out,
    print_json,
    print_rows,
    print_table,
    progress_bar,
    say,
    when,
)
from memory_agent.domain import ErasureReceipt
from memory_agent.errors import InvalidInput
from memory_agent.work.forget import remains_in

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from memory_agent.client import ServiceClient
    from memory_agent.service import MemoryService
    from memory_agent.topics.sweep import SweepAction, SweepProgress, SweepReport

app = MemoryTyper()

_LOOK_SECONDS: Final = 0.25


# --- forgetting ----------------------------------------------------------------------------------------------
@app.command()
def forget(
    where: ThreadOptions,
    turn: list[str] | None = option("--turn", "Id of a turn (may be repeated)."),
    whole_thread: bool = flag("--whole-thread", "All turns of the thread."),
    whole_user: bool = flag("--whole-user", "Everything of the user."),
    receipts: Path | None = option(
        "--from", "Receipts (`erasures --jsonl`) of what to erase again.", metavar="FILE"
    ),
    wait: bool = flag(
        "--wait", "Return when nothing is left in our files either: seconds, on servers ten minutes and more."
    ),
    yes: Yes = False,
) -> None:
    """Erase turns from every tier and index, for good, with a receipt.

    If the thread has no turn of an id, that is an error (1), and nothing is erased. What files and backups keep is said in the
    receipt; `memory-agent erasures` says later how far it is.

    **After a restore** `--from` erases again, for everybody, what was forgotten since the backup.

    Examples:
        memory-agent forget --user ada --thread work --turn 01890a5d-ac96-774b-bcce-b302099a8057
        memory-agent forget --user ada --whole-user --yes --wait
        memory-agent forget --from receipts.jsonl --yes
    """
    if (bool(turn), whole_thread, whole_user, receipts is not None).count(True) != 1:
        raise typer.BadParameter("give exactly one of --turn, --whole-thread, --whole-user and --from")
    if receipts is not None:
        asyncio.run(_erase_again(where, receipts, yes=yes))
        return
    what = f"everything of user {where.user!r}, in all threads,"
    if not whole_user:
        part = f"{many(len(turn), 'turn')} of" if turn else "the whole"
        what = f"{part} thread {where.thread!r} of user {where.user!r}"
    if where.tenant != TENANT:
        what += f" of tenant {where.tenant!r}"
    if not yes:
        typer.confirm(f"Erase {what} for good?", abort=True, err=True)
    asyncio.run(_erase(where, turn or [], whole_user=whole_user, wait=wait))


async def _erase_again(where: ThreadOptions, file: Path, *, yes: bool) -> None:
    given = read_receipts(file)
    if not yes:
        typer.confirm(
            f"Erase again what {many(len(given), 'receipt')} are of, for good?", abort=True, err=True
        )
    async with opened(where.data_dir) as service:
        calls = await service.replay_erasures(given)
    if where.as_json:
        print_json({"receipts": len(given), "calls": calls})
    else:
        out.print(
            f"{many(len(given), 'receipt')}: what {many(calls, 'forget call')} had erased was back, and is gone again."
        )


async def _erase(where: ThreadOptions, turn_ids: Sequence[str], *, whole_user: bool, wait: bool) -> None:
    """Erase the turns named, or the whole thread if none is, or the whole user."""
    # Erasing needs no worker; what follows is a worker's.
    async with opened(where.data_dir, works=wait) as service:
        agent = where.agent(service)
        await say_if_unknown(agent, reach="user" if whole_user else "thread")
        if whole_user:
            receipt = await service.forget_user(where.user, tenant=where.tenant)
        elif turn_ids:
            receipt = await agent.forget(list(turn_ids), missing_ok=False)
        else:
            receipt = await agent.clear()
        state = await _state_at_the_end(service, receipt.id) if wait else None
    if where.as_json:
        print_json(receipt if state is None else {**dataclasses.asdict(receipt), "state": state})
        return
    rows, changes = many(receipt.search_rows, "search row"), many(receipt.fact_changes, "fact change")
    out.print(
        f"Erased {many(receipt.turns, 'turn')}, {rows}, {changes} and {many(receipt.vectors, 'vector')}."
    )
    for tier in receipt.tiers:
        if tier.note and not (state is not None and tier.state == "owed"):
            note(f"{tier.tier} ({tier.state}): {tier.note}.")
    if state is not None:
        note(f"Complete: {_STATES[state]}.")


async def _state_at_the_end(service: MemoryService | ServiceClient, receipt_id: str) -> str:
    """Wait for the last pass and for the files; what the receipt says then."""
    note("Erased; waiting for the last look and for the files (ctrl-C leaves that to a worker) …")
    while True:
        (state,) = [each.state for each in await service.erasures() if each.id == receipt_id]
        if state not in ("owed", "swept"):
            return state
        await asyncio.sleep(_LOOK_SECONDS)


# --- the sweep -----------------------------------------------------------------------------------------------
@app.command()
async def sweep(
    where: FolderOptions,
    dry_run: bool = flag("--dry-run", "Only list what would be done; nothing changes."),
    list_actions: bool = flag("--list", "List what is done, one line each."),
    quiet: bool = flag("--quiet -q", "Print nothing unless something went wrong, for cron."),
    retention_days: float | None = option("--retention-days", "Instead of the setting.", metavar="DAYS"),
    forget_facts: bool = flag("--forget-facts", "Forget what is known from those turns as well."),
) -> int:
    """Let faded topics of all users go, and forget turns past retention_days. For cron; see config/crontab.example.

    Facts stay, without the words of the turns that go, unless --forget-facts or the setting says otherwise.
    A thread with more than max_topics topics loses those whose priority fell below 0.05, never the current
    one: decay_policy says whether they are archived (`topic restore` brings them back) or deleted for good.

    One sweep runs at a time, whoever starts it. Where one was interrupted the next goes on.

    **Exit codes**: 0 done · 1 failed (a store is down, data_dir is in use) · 2 wrong usage · 3 done but not whole
    (something failed and is tried again by the next sweep, or a part was down and a worker erases there later) ·
    4 another sweep is running · 130 interrupted.

    Examples:
        memory-agent sweep --dry-run
        memory-agent sweep --quiet --retention-days 90
        memory-agent sweep --list --json | jq .report
    """
    if quiet and (dry_run or list_actions):
        raise typer.BadParameter("--quiet prints nothing and --dry-run and --list do: choose one")
    listed, as_json = list_actions or dry_run, where.as_json
    asked: dict[str, Any] = {"retention_days": retention_days, "forget_facts": forget_facts or None}
    actions: list[SweepAction] = []
    check_goes_on = _cancelled_by_signals()
    try:
        with progress_bar("Topics looked at", show=not (quiet or as_json or listed)) as moved:

            def progress(so_far: SweepProgress) -> None:
                check_goes_on()
                moved(so_far.topics)

            def each(action: SweepAction) -> None:
                if listed and as_json:
                    actions.append(action)
                elif listed:
                    print_action(action)
                check_goes_on()

            # Sweeping needs no worker; the last passes of what it erases are due later than this command lives.
            async with opened(where.data_dir) as service:
                report = await service.sweep(dry_run=dry_run, progress=progress, each=each, **asked)
            moved(report.topics)
    except asyncio.CancelledError:
        complain(f"interrupted; {'nothing was changed' if dry_run else 'the next sweep goes on from there'}")
        return INTERRUPTED
    if as_json and not (quiet and report.whole):
        print_json({**({"actions": actions} if listed else {}), "report": report_as_json(report)})
    elif not (quiet and report.whole):
        print_report(report)
    return _told_whole(report)


def _cancelled_by_signals() -> Callable[[], None]:
    """Have SIGINT and SIGTERM cancel this task, so that the sweep leaves its lease with where it came to.

    The function given raises CancelledError then: a driver may swallow the cancelling that hits it in the middle of its work.
    """
    task, asked = asyncio.current_task(), asyncio.Event()

    def ask() -> None:
        asked.set()
        if task is not None:
            task.cancel()

    def check() -> None:
        if asked.is_set():
            raise asyncio.CancelledError

    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, ask)
    return check


def _told_whole(report: SweepReport) -> int:
    """OK; or UNFINISHED, after a line that says what is left over."""
    left = []
    if report.skipped:
        made_anew = "threads skipped whose topics are being made anew"
        left.append(f"{report.skipped:,} {made_anew}, which the next sweep looks at")
    if report.failed:
        left.append(f"{report.failed:,} failed, which the next sweep tries again")
    if owed := ", ".join(report.owed):
        left.append(f"{owed} could not be reached, where a worker erases as soon as it is back")
    if not left:
        return OK
    complain(f"the sweep is not whole: {'; '.join(left)}")
    return UNFINISHED


def print_action(action: SweepAction) -> None:
    """One line, without any text of a turn."""
    line = f"{action.deed:<7}  user {action.user_id!r}  thread {action.thread_id!r}"
    line += f"  topic {action.topic_id}" if action.turn_id is None else f"  turn {action.turn_id}"
    if action.into is not None:
        line += f"  into {action.into}"
    if action.priority is not None:
        line += f"  priority {action.priority:.4f}"
    say(line)


def report_as_json(report: SweepReport) -> dict[str, Any]:
    """The report with stable keys."""
    return {**dataclasses.asdict(report), "whole": report.whole, "topics_per_second": _per_second(report)}


def _per_second(report: SweepReport) -> float:
    return report.topics / report.seconds if report.seconds else 0.0


def print_report(report: SweepReport) -> None:
    """Print a sweep's report, or a dry run's."""
    if report.dry_run:
        note("A dry run: nothing was changed.")
    packed = report.packed
    compressed = f"{packed.raw_bytes:,} to {packed.packed_bytes:,} bytes, {packed.turns:,} turns"
    print_rows(
        [
            ("threads looked at", f"{report.threads:,}"),
            ("topics looked at", f"{report.topics:,}"),
            ("topics merged", f"{report.merged:,}"),
            ("topics archived", f"{report.archived:,}"),
            ("topics deleted", f"{report.deleted:,}"),
            ("turns forgotten", f"{report.forgotten:,}"),
            ("facts from them", "forgotten with them" if report.forget_facts else "kept"),
            ("compressed", "" if report.dry_run else compressed),
            ("failed", f"{report.failed:,}"),
            ("threads skipped", f"{report.skipped:,}"),
            ("owed", ", ".join(report.owed) or "nothing"),
            ("took", f"{report.seconds:.2f} s, {_per_second(report):,.0f} topics a second"),
            ("resumed", "where one before was cut short; it looked at what this one didn't" * report.resumed),
        ]
    )


# --- receipts of erasures ------------------------------------------------------------------------------------
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
