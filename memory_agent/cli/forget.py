"""`memory-agent forget`: erase, and show the receipt."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from memory_agent.cli.opening import opened, say_if_unknown
from memory_agent.cli.output import many, note, out, print_json
from memory_agent.cli.running import OK

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path


async def erase(
    *,
    user_id: str,
    thread_id: str,
    tenant: str,
    turn_ids: Sequence[str],
    whole_user: bool,
    data_dir: Path | None,
    as_json: bool,
) -> int:
    """Erase the turns named, or the whole thread if none is, or the whole user."""
    # Erasing needs no worker; its last pass is due later than this command lives.
    async with opened(data_dir) as service:
        agent = service.agent(user_id=user_id, thread_id=thread_id, tenant=tenant)
        await say_if_unknown(agent, reach="user" if whole_user else "thread")
        if whole_user:
            receipt = await service.forget_user(user_id, tenant=tenant)
        elif turn_ids:
            receipt = await agent.forget(list(turn_ids), missing_ok=False)
        else:
            receipt = await agent.clear()
    if as_json:
        print_json(dataclasses.asdict(receipt))
        return OK
    out.print(
        f"Erased {many(receipt.turns, 'turn')}, {many(receipt.search_rows, 'search row')},"
        f" {many(receipt.fact_changes, 'fact change')} and {many(receipt.vectors, 'vector')}."
    )
    if receipt.owed:
        note(f"Down just now, erased there as soon as it is back: {', '.join(receipt.owed)}")
    return OK
