"""`memory-agent forget`: erase, and show the receipt."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Annotated

import typer

from memory_agent.cli.opening import opened, say_if_unknown
from memory_agent.cli.options import TENANT, MemoryTyper, ThreadOptions, Yes
from memory_agent.cli.output import many, note, out, print_json

if TYPE_CHECKING:
    from collections.abc import Sequence

app = MemoryTyper()


@app.command()
def forget(
    where: ThreadOptions,
    turn: Annotated[list[str] | None, typer.Option("--turn", help="Id of a turn (may be repeated).")] = None,
    whole_thread: Annotated[bool, typer.Option("--whole-thread", help="All turns of the thread.")] = False,
    whole_user: Annotated[bool, typer.Option("--whole-user", help="Everything of the user.")] = False,
    yes: Yes = False,
) -> None:
    """Erase turns from every tier and index, for good, with a receipt.

    If the thread has no turn of an id, that is an error (1), and nothing is erased.

    **Examples**

        memory-agent forget --user ada --thread work --turn 01890a5d-ac96-774b-bcce-b302099a8057

        memory-agent forget --user ada --whole-user --yes
    """
    if (bool(turn), whole_thread, whole_user).count(True) != 1:
        raise typer.BadParameter("give exactly one of --turn, --whole-thread and --whole-user")
    what = (
        f"{many(len(turn), 'turn')} of thread {where.thread_id!r} of user {where.user_id!r}"
        if turn
        else f"the whole thread {where.thread_id!r} of user {where.user_id!r}"
        if whole_thread
        else f"everything of user {where.user_id!r}, in all threads,"
    )
    if where.tenant != TENANT:
        what += f" of tenant {where.tenant!r}"
    if not yes:
        typer.confirm(f"Erase {what} for good?", abort=True, err=True)
    asyncio.run(_erase(where, turn or [], whole_user=whole_user))


async def _erase(where: ThreadOptions, turn_ids: Sequence[str], *, whole_user: bool) -> None:
    """Erase the turns named, or the whole thread if none is, or the whole user."""
    # Erasing needs no worker; its last pass is due later than this command lives.
    async with opened(where.data_dir) as service:
        agent = where.agent(service)
        await say_if_unknown(agent, reach="user" if whole_user else "thread")
        if whole_user:
            receipt = await service.forget_user(where.user_id, tenant=where.tenant)
        elif turn_ids:
            receipt = await agent.forget(list(turn_ids), missing_ok=False)
        else:
            receipt = await agent.clear()
    if where.as_json:
        print_json(receipt)
        return
    out.print(
        f"Erased {many(receipt.turns, 'turn')}, {many(receipt.search_rows, 'search row')},"
        f" {many(receipt.fact_changes, 'fact change')} and {many(receipt.vectors, 'vector')}."
    )
    if receipt.owed:
        note(f"Down just now, erased there as soon as it is back: {', '.join(receipt.owed)}")
