"""`memory-agent facts replay`: facts taken out of the turns anew."""

from __future__ import annotations

import asyncio
import sys
from typing import TYPE_CHECKING

import typer

from memory_agent.cli.fact_output import print_proposal, proposal_as_json
from memory_agent.cli.facts import app
from memory_agent.cli.opening import agent_of
from memory_agent.cli.options import OK, UNFINISHED, ThreadOptions, flag, option
from memory_agent.cli.output import note, print_json, progress_bar, say

if TYPE_CHECKING:
    from memory_agent.facts.replay import FactProposal

__all__ = ["app"]  # with the commands of both modules


@app.command()
def replay(
    where: ThreadOptions,
    model: str | None = option("--model", "Another chat model of the server.", shown="fact_extraction_model"),
    dry_run: bool = flag("--dry-run", "Only show what would change; nothing does."),
    yes: bool = flag("--yes -y", "Apply it without asking."),
) -> int:
    """Extract all facts of a thread anew from its turns, show what would change, and apply that once you say so.

    What people set, retracted or reverted themselves stays. It is applied wholly or not at all, and can be taken
    back. With a language model this asks it about every turn of the user. Without a terminal to ask on, and with
    --json, pass --yes or --dry-run. Leaves with exit code 3 if the replies about some turns could not be read.

    Examples:
        memory-agent facts replay --dry-run --user ada
        memory-agent facts replay --model gpt-4o --yes --json | jq -r .undo
    """
    if dry_run and yes:
        raise typer.BadParameter("--yes applies it and --dry-run doesn't: choose one")
    if not (dry_run or yes) and (where.as_json or not sys.stdin.isatty()):
        why = "--json doesn't ask" if where.as_json else "standard input is no terminal to ask on"
        raise typer.BadParameter(f"{why}: pass --yes to apply what is found, or --dry-run to look at it")
    proposal = asyncio.run(_propose(where, model))
    if not where.as_json:
        print_proposal(proposal)
    applies = bool(proposal.differences) and not dry_run
    # Nothing is held open while somebody thinks about it.
    if applies and not yes:
        applies = typer.confirm("Apply this?", err=True)
    if applies:
        asyncio.run(_apply(where, proposal))
    undo = where.command("facts revert", "--replay", proposal.id) if applies else None
    if where.as_json:
        replay_id = proposal.id if applies else None
        print_json(proposal_as_json(proposal, applied=applies, replay=replay_id, undo=undo))
    elif applies:
        say(f"Applied as replay {proposal.id}. Undo: {undo}")
    else:
        note(_why_not(proposal, dry_run=dry_run))
    return UNFINISHED if proposal.failed and not dry_run else OK


def _why_not(proposal: FactProposal, *, dry_run: bool) -> str:
    if proposal.failed and not proposal.differences:
        unread = f"{len(proposal.failed):,} turn(s) could not be read"
        return f"{unread}, and nothing else would change: nothing was applied."
    if not proposal.differences:
        return "Nothing would change, so nothing was applied."
    return "A dry run: nothing was changed." if dry_run else "Not applied; nothing was changed."


async def _propose(where: ThreadOptions, model: str | None) -> FactProposal:
    async with agent_of(where) as agent:
        with progress_bar("Extracting from turns", show=not where.as_json) as moved:
            return await agent.replay_facts(model, progress=moved)


async def _apply(where: ThreadOptions, proposal: FactProposal) -> None:
    async with agent_of(where) as agent:
        await agent.apply_replay(proposal)
