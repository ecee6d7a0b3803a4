"""`memory-agent upgrade`: how far a store's schema is upgraded, and the end of what only earlier versions need."""

from __future__ import annotations

from memory_agent.cli.options import OK, UNFINISHED, FolderOptions, MemoryTyper, flag, settings
from memory_agent.cli.output import note, out, print_json
from memory_agent.data_dir import check_memory

app = MemoryTyper()


@app.command()
async def upgrade(
    where: FolderOptions,
    finish: bool = flag("--finish", "End it: processes of earlier versions are refused from now on."),
) -> int:
    """Say how far the upgrade of the memory is, or finish it.

    Opening a memory of an earlier version copies its SQLite file and adds what is new, so that the earlier version
    can go on with it. What only that one needs, the copy too, stays until you finish. Without `--finish` it leaves with 3 if
    something is left.

    Examples:
        memory-agent upgrade
        memory-agent upgrade --finish
    """
    from memory_agent.service import MemoryService

    cfg = settings(where.data_dir, run_worker=False)
    check_memory(cfg)
    # Not over a service that runs: whoever finishes must know which processes there are.
    async with MemoryService(cfg) as service:
        state = await service.finish_upgrade() if finish else await service.schema()
    if where.as_json:
        print_json(state)
    elif state.finished:
        out.print(f"Schema {state.newest}: nothing of an earlier one is left.")
    else:
        out.print(f"Schema {state.newest}, which processes of schema {state.version} still can work on.")
        for kept in state.kept:
            out.print(f"  kept: {kept}", soft_wrap=True)
        note("When no process of an earlier version works on it any more: memory-agent upgrade --finish")
    return OK if state.finished else UNFINISHED
