"""`memory-agent facts …`: facts shown with their sources, changed with a word on how to undo it, extracted anew."""

from __future__ import annotations

import asyncio
import dataclasses
import json
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final, Literal

import typer
from rich.text import Text

from memory_agent.cli.fact_output import (
    Overview,
    at_path,
    difference_as_json,
    overview_as_json,
    path_text,
    print_differences,
    print_history,
    print_known,
    print_overview,
    record_as_json,
    value_text,
)
from memory_agent.cli.opening import agent_of, opened
from memory_agent.cli.output import clean, growing_bar, note, out, print_json, settle_bar
from memory_agent.cli.running import OK, UNFINISHED, working_settings
from memory_agent.errors import InvalidInput, TurnsParked
from memory_agent.facts.compare import differences
from memory_agent.facts.edits import checked_path
from memory_agent.facts.fold import Folded

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence

    from memory_agent.cli.opening import Agent, Service
    from memory_agent.cli.options import Where
    from memory_agent.domain import ExtractionCost, FactRecord
    from memory_agent.facts.replay import FactProposal

Reach = Literal["thread", "user"]

_TICK: Final = timedelta(milliseconds=1)
"""What times are kept to."""


# --- what the commands share ---------------------------------------------------------------------------------
async def _known(
    agent: Agent, reach: Reach, *, as_of: datetime | None = None, recorded_by: datetime | None = None
) -> Folded:
    """What is known, with the records that it stands by."""
    document = await agent.fetch_facts(scope=reach, as_of=as_of, recorded_by=recorded_by)
    records = await agent.fact_history(scope=reach, as_of=as_of, recorded_by=recorded_by)
    return Folded(document=document, records=tuple(records))


@asynccontextmanager
async def _opened(where: Where, reach: Reach = "thread", *, new: bool = False) -> AsyncIterator[Agent]:
    """The memory of the thread, `new` if there is none; errors name commands where the library's name methods."""
    async with agent_of(where, new=new, reach=reach) as agent:
        try:
            yield agent
        except InvalidInput as exc:
            message = str(exc)
            for method, command in (("fact_history()", "facts history"), ("retract_fact", "facts retract")):
                message = message.replace(method, f"`{where.command(command)}`")
            raise InvalidInput(message) from exc


def _keys(path: str | None) -> tuple[str, ...]:
    """The keys of a path; () for the whole document."""
    return checked_path(path) if path else ()


# --- looking -------------------------------------------------------------------------------------------------
async def show(
    where: Where,
    path: str | None,
    *,
    reach: Reach,
    as_of: datetime | None,
    recorded_by: datetime | None,
    sources: bool,
) -> int:
    """Print what is known at `path`: for people as a tree with sources, else the plain document or its records."""
    keys = _keys(path)
    async with _opened(where, reach) as agent:
        known = await _known(agent, reach, as_of=as_of, recorded_by=recorded_by)
    found = at_path(known.document, keys)
    if where.as_json and sources:
        print_json([record_as_json(record) for record in _about(known.standing(), keys, found)])
    elif where.as_json:
        print_json(found)
    elif found:
        title = _title(where, reach, as_of, recorded_by)
        threads = reach == "user"
        print_known(title, known.document, keys, known.standing(), now=datetime.now(UTC), threads=threads)
    else:
        _note_nothing(where, keys, reach, then=as_of is not None or recorded_by is not None)
    return OK


def _about(records: Sequence[FactRecord], path: tuple[str, ...], found: Any) -> Iterator[FactRecord]:
    """Those of `records` that stand at, above or below `path`; none if nothing is known there."""
    for record in records:
        shared = min(len(record.path), len(path))
        if found is not None and record.path[:shared] == path[:shared]:
            below = path[shared:]
            if not below or at_path(record.value, below) is not None:
                yield record


def _title(where: Where, reach: Reach, as_of: datetime | None, recorded_by: datetime | None) -> str:
    title = f"Known about user {where.user_id!r}"
    title += f" from thread {where.thread_id!r}" if reach == "thread" else " from all threads"
    if as_of is not None:
        title += f", as of {as_of.isoformat()}"
    if recorded_by is not None:
        title += f", as recorded by {recorded_by.isoformat()}"
    return title


def _note_nothing(where: Where, path: tuple[str, ...], reach: Reach, *, then: bool) -> None:
    at = f" at {path_text(path)}" if path else ""
    thread = (
        f" from thread {where.thread_id!r}; --scope user looks at all threads" if reach == "thread" else ""
    )
    known = "were known" if then else "are known"
    note(f"No facts {known} about user {where.user_id!r}{at}{' then' if then else ' yet'}{thread}.")


async def history(where: Where, path: str | None, *, refused: bool, reach: Reach = "thread") -> int:
    """Print every event at, above or below `path`; what was not believed only if it is asked for."""
    async with _opened(where, reach) as agent:
        records = await agent.fact_history(path or None, scope=reach)
    shown = [record for record in records if refused or record.refused is None]
    if where.as_json:
        print_json([record_as_json(record) for record in shown])
    else:
        print_history(shown)
    if not shown:
        at = f" at {path_text(_keys(path))}" if path else ""
        whose = f"thread {where.thread_id!r} of " if reach == "thread" else ""
        note(f"The history of {whose}user {where.user_id!r} holds no fact{at}.")
    if left_out := len(records) - len(shown):
        note(f"{left_out:,} refused item(s) left out; --refused shows them with the reason")
    return OK


# --- changing ------------------------------------------------------------------------------------------------
async def set_fact(where: Where, path: str, value: Any) -> int:
    """Say what holds at `path`."""
    return await _edit(where, path, lambda agent: agent.set_fact(path, value), new=True)


async def add_fact(where: Where, path: str, value: Any) -> int:
    """Say that `value` is one more element of the list at `path`."""
    return await _edit(where, path, lambda agent: agent.add_fact(path, value), new=True)


async def retract(where: Where, path: str, value: Any | None) -> int:
    """Say that what is known at `path`, or that element of its list, holds no more."""
    return await _edit(where, path, lambda agent: agent.retract_fact(path, value), element=value)


async def revert(where: Where, path: str, to: str | datetime | None) -> int:
    """Make `path` ("": everything) what it was."""
    return await _edit(where, path, lambda agent: agent.revert_fact(path, to))


async def _edit(
    where: Where,
    path: str,
    edit: Callable[[Agent], Awaitable[FactRecord]],
    *,
    element: Any = None,
    new: bool = False,
) -> int:
    """Make an edit; print what it changed at its path, and the command that undoes it."""
    keys = _keys(path)
    async with _opened(where, new=new) as agent:
        before, user_before = await _known(agent, "thread"), await _known(agent, "user")
        record = await edit(agent)
        after, user_after = await _known(agent, "thread"), await _known(agent, "user")
    here = at_path(before.document, keys), at_path(after.document, keys)
    everywhere = at_path(user_before.document, keys), at_path(user_after.document, keys)
    undo = None
    if _differ(*here):
        undo = _revert_command(where, keys, before.records, record)
    elif _differ(*everywhere):  # a fact of another thread, which reverting this one doesn't bring back
        here, undo = everywhere, _say_again_command(where, keys, everywhere[0], element)
    if where.as_json:
        print_json(
            {
                "path": ".".join(keys),
                "before": here[0],
                "after": here[1],
                "undo": undo,
                "record": record_as_json(record),
            }
        )
    else:
        _tell_edit(keys, *here, undo)
    return OK


def _tell_edit(path: tuple[str, ...], before: Any, after: Any, undo: str | None) -> None:
    if undo is None:
        line = f"Nothing changed: {path_text(path)} is {_value(after)}."
    else:
        line = f"{path_text(path)}: {_value(before)} → {_value(after)}. Undo: {undo}"
    out.print(Text(clean(line)), soft_wrap=True)


def _value(value: Any) -> str:
    return "(nothing)" if value in (None, {}) else value_text(value)


def _revert_command(
    where: Where, path: tuple[str, ...], earlier: Sequence[FactRecord], edit: FactRecord
) -> str:
    """What brings back how `path` was before `edit`, also once more was said or replayed since."""
    before = edit.recorded_at - _TICK
    counted = [record for record in earlier if record.refused is None]
    # Turns may be dated ahead of us; then only the event itself names the moment.
    ahead = counted and max(record.last_seen for record in counted) > before
    to = counted[-1].id if ahead else before.isoformat()
    return where.command("facts revert", *([".".join(path)] if path else ["--all"]), "--to", to)


def _say_again_command(where: Where, path: tuple[str, ...], value: Any, element: Any) -> str:
    verb, said = ("facts set", value) if element is None else ("facts add", element)
    return where.command(verb, ".".join(path), "--", json.dumps(said, ensure_ascii=False))


def _differ(one: Any, other: Any) -> bool:
    """Whether two values are not the very same; 1 is not true."""
    return json.dumps(one) != json.dumps(other)


async def undo_replay(where: Where, replay_id: str | None) -> int:
    """Make a replay count no more; print what that changed."""
    async with _opened(where) as agent:
        before = await _known(agent, "thread")
        undone = await agent.undo_replay(replay_id)
        after = await _known(agent, "thread")
    found = differences(before, after)
    again = where.command("facts replay", "--again", undone)
    if where.as_json:
        print_json(
            {
                "replay": undone,
                "differences": [difference_as_json(difference) for difference in found],
                "undo": again,
            }
        )
        return OK
    print_differences(found)
    out.print(Text(clean(f"Replay {undone} counts no more. Undo: {again}")), soft_wrap=True)
    return OK


# --- extracting ----------------------------------------------------------------------------------------------
async def preview(where: Where, *, every: bool) -> int:
    """Print what extraction would change."""
    async with _opened(where) as agent:
        with growing_bar("Looking at turns", show=not where.as_json) as moved:
            proposal = await agent.preview_facts(every=every, progress=moved)
    overview = Overview.of(proposal)
    if where.as_json:
        print_json(overview_as_json(overview, applied=False))
    else:
        print_overview(overview)
        note("A dry run: nothing was changed.")
    return OK


async def extract(where: Where, *, every: bool) -> int:
    """Extract facts from the turns that wait for it, wait until that is done, and print what it changed."""
    parked: TurnsParked | None = None
    async with opened(where.data_dir) as service:
        agent = where.agent(service)
        before, cost_before = await _known(agent, "thread"), (await agent.status()).extraction
        turns = await agent.extract_facts(every=every)
        if turns:
            try:
                await _settled(where, service, agent)
            except TurnsParked as exc:
                parked = exc
        after, status = await _known(agent, "thread"), await agent.status()
        extractor = (await service.worker_status()).extractor
    refused_before = {record.id for record in before.records}
    overview = Overview(
        extractor=extractor,
        turns=turns,
        differences=differences(before, after),
        refused=tuple(r for r in after.records if r.refused is not None and r.id not in refused_before),
        failed=tuple((turn.turn_id, turn.last_error) for turn in status.parked if "facts" in turn.pending),
        cost=_used(cost_before, status.extraction),
    )
    if where.as_json:
        print_json(overview_as_json(overview, applied=True))
    elif turns:
        print_overview(overview)
    else:
        note("No turns wait for extraction; --every takes those that brought about no fact yet.")
    if parked is not None:
        raise parked
    return OK


async def _settled(where: Where, service: Service, agent: Agent) -> None:
    """Wait until nothing is owed to the thread, with a worker of our own unless a service has one. Raises TurnsParked."""
    from memory_agent.service import MemoryService

    with settle_bar(show=not where.as_json) as moved:
        settling = asyncio.create_task(agent.settle(progress=moved))
        # It starts once it is known how everything was. Embedded stores have no other one than ours.
        if not isinstance(service, MemoryService) or not working_settings(where.data_dir).run_worker:
            await settling
            return
        stop = asyncio.Event()
        working = asyncio.create_task(service.run_worker(stop))
        try:
            done, _ = await asyncio.wait({settling, working}, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()
        finally:
            settling.cancel()
            stop.set()
            await working


def _used(before: ExtractionCost, after: ExtractionCost) -> ExtractionCost:
    names = [field.name for field in dataclasses.fields(after)]
    return type(after)(**{name: getattr(after, name) - getattr(before, name) for name in names})


def replay(where: Where, *, model: str | None, dry_run: bool, yes: bool) -> int:
    """Extract all facts of the thread anew, print what would change, and apply it once that is confirmed."""
    proposal = asyncio.run(_propose(where, model))
    overview = Overview.of(proposal)
    if not where.as_json:
        print_overview(overview)
    applies = bool(proposal.differences) and not dry_run
    # Nothing is held open while somebody thinks about it.
    if applies and not yes:
        applies = typer.confirm("Apply this?", err=True)
    if applies:
        asyncio.run(_apply(where, proposal))
    undo = where.command("facts revert", "--replay", proposal.id) if applies else None
    if where.as_json:
        replay_id = proposal.id if applies else None
        print_json(overview_as_json(overview, applied=applies, replay=replay_id, undo=undo))
    elif applies:
        out.print(Text(clean(f"Applied as replay {proposal.id}. Undo: {undo}")), soft_wrap=True)
    else:
        note(_why_not(overview, dry_run=dry_run))
    return UNFINISHED if overview.failed and not dry_run else OK


async def replay_again(where: Where, replay_id: str) -> int:
    """Make a replay that was undone count again; print what that changed."""
    async with _opened(where) as agent:
        before = await _known(agent, "thread")
        await agent.apply_replay(replay_id)
        after = await _known(agent, "thread")
    found = differences(before, after)
    undo = where.command("facts revert", "--replay", replay_id)
    if where.as_json:
        shown = [difference_as_json(difference) for difference in found]
        print_json({"replay": replay_id, "differences": shown, "undo": undo})
        return OK
    print_differences(found)
    out.print(Text(clean(f"Replay {replay_id} counts again. Undo: {undo}")), soft_wrap=True)
    return OK


def _why_not(overview: Overview, *, dry_run: bool) -> str:
    if overview.failed and not overview.differences:
        return f"{len(overview.failed):,} turn(s) could not be read, and nothing else would change: nothing was applied."
    if not overview.differences:
        return "Nothing would change, so nothing was applied."
    return "A dry run: nothing was changed." if dry_run else "Not applied; nothing was changed."


async def _propose(where: Where, model: str | None) -> FactProposal:
    async with _opened(where) as agent:
        with growing_bar("Extracting from turns", show=not where.as_json) as moved:
            return await agent.replay_facts(model, progress=moved)


async def _apply(where: Where, proposal: FactProposal) -> None:
    async with _opened(where) as agent:
        await agent.apply_replay(proposal)
