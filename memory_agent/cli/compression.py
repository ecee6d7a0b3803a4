"""`memory-agent compress`, `compressed` and `compressions`: what stands for a whole conversation, and since when."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

from rich.table import Table
from rich.text import Text

from memory_agent.cli.context import context_as_json, show_ledger
from memory_agent.cli.opening import agent_of
from memory_agent.cli.output import clean, note, out, print_json, print_table
from memory_agent.cli.running import OK

if TYPE_CHECKING:
    from collections.abc import Sequence

    from memory_agent.cli.opening import Agent
    from memory_agent.cli.options import Where
    from memory_agent.domain import CompressedContext, Compression, CompressionMetadata


# --- compressing ---------------------------------------------------------------------------------------------
async def compress(where: Where, *, if_needed: bool) -> int:
    """Compress the thread, now or if it has grown enough; print what stands for it and what that saves."""
    async with agent_of(where) as agent:
        before = await _last(agent)
        context = await (agent.compress_if_needed() if if_needed else agent.compress())
        after = await _last(agent)
    made = None if after is None or (before is not None and before.id == after.id) else after
    if where.as_json:
        print_json(
            {
                "compression": None if made is None else compression_as_json(made),
                "context": None if context is None else _as_json(context),
            }
        )
        return OK
    if context is None:
        since = "" if after is None else f" since compression {after.number}"
        note(f"Thread {where.thread_id!r} has not grown enough{since}: nothing was compressed.")
        return OK
    _print(where, context)
    if made is not None:
        note(f"Compression {made.number} is recorded; the history is untouched.")
    elif before is not None:
        note(f"No turns since compression {before.number}: nothing new was recorded.")
    return OK


async def _last(agent: Agent) -> Compression | None:
    """The newest compression."""
    found = await agent.compressions()
    return found[-1] if found else None


# --- looking -------------------------------------------------------------------------------------------------
async def show_compressed(where: Where, *, as_of: int | None, ledger: bool) -> int:
    """Print what stands for the whole conversation now or as of a turn (its `seq`), or the ledger of that."""
    async with agent_of(where) as agent:
        context = await agent.session_context(as_of)
        last = await agent.fetch_short_term(1)
    newest = last[-1].seq if last else 0
    if as_of is not None and as_of > newest:
        note(f"Thread {where.thread_id!r} goes up to turn {newest}: this is how it stands now.")
    if ledger:
        show_ledger(context.ledger, as_json=where.as_json)
        _note_sizes(context.metadata)
    elif where.as_json:
        print_json(_as_json(context))
    else:
        _print(where, context)
    return OK


async def show_compressions(where: Where) -> int:
    """Print every compression of the thread, oldest first."""
    async with agent_of(where) as agent:
        compressions = await agent.compressions()
    if where.as_json:
        print_json([compression_as_json(compression) for compression in compressions])
    elif compressions:
        print_table(_table(compressions))
    else:
        note(f"Thread {where.thread_id!r} of user {where.user_id!r} was not compressed yet.")
    return OK


# --- for people ----------------------------------------------------------------------------------------------
def _print(where: Where, context: CompressedContext) -> None:
    if not context.metadata.original_turns:
        note(f"Thread {where.thread_id!r} of user {where.user_id!r} has no turns to stand for.")
        return
    out.print(Text(clean(str(context))), soft_wrap=True)
    _note_sizes(context.metadata)


def _note_sizes(about: CompressionMetadata) -> None:
    """What the context stands for, what that saves, and where its summary is from."""
    note(_saved(about))
    if about.number:
        note(
            f"summary: from compression {about.number}, up to turn {about.summary_through}, by {about.made_by}"
        )
    else:
        note(f"summary: taken from the turns by {about.made_by}; nothing was compressed by then")


def _saved(about: CompressionMetadata) -> str:
    turns = f"{about.original_turns:,} turn{'' if about.original_turns == 1 else 's'}"
    sizes = f"{turns}: {about.tokens_before:,} tokens before, {about.tokens_after:,} after"
    if about.tokens_saved <= 0:
        return f"{sizes}; nothing is saved yet"
    return f"{sizes}; {about.tokens_saved:,} saved ({about.tokens_saved / about.tokens_before:.0%})"


def _table(compressions: Sequence[Compression]) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False)
    table.add_column("number", justify="right")
    table.add_column("at", no_wrap=True)
    table.add_column("reason")
    table.add_column("up to turn", justify="right")
    for name in ("turns", "tokens before", "after"):
        table.add_column(name, justify="right")
    table.add_column("made by", overflow="fold")
    for each in compressions:
        table.add_row(
            f"{each.number}",
            f"{each.at:%Y-%m-%d %H:%M}",
            each.reason,
            f"{each.through:,}",
            f"{each.turns:,}",
            f"{each.tokens_before:,}",
            f"{each.tokens_after:,}",
            Text(clean(each.made_by)),
        )
    return table


# --- JSON ----------------------------------------------------------------------------------------------------
def _as_json(context: CompressedContext) -> dict[str, Any]:
    metadata = dataclasses.asdict(context.metadata)
    return {
        **context_as_json(context),
        "metadata": {**metadata, "tokens_saved": context.metadata.tokens_saved},
        "reminder": context.reminder,
        "summary": [dataclasses.asdict(item) for item in context.summary],
        "topics": [dataclasses.asdict(topic) for topic in context.topics],
        "moments": [dataclasses.asdict(moment) for moment in context.moments],
        "course": [dataclasses.asdict(span) for span in context.course],
        "facts": dict(context.facts),
        "decisions": [dataclasses.asdict(note) for note in context.decisions],
        "preserved": [turn.id for turn in context.preserved],
        "recent": [turn.id for turn in context.recent],
    }


def compression_as_json(compression: Compression) -> dict[str, Any]:
    """A compression with stable keys."""
    return {
        "id": compression.id,
        "number": compression.number,
        "at": compression.at.isoformat(),
        "reason": compression.reason,
        "session": compression.session_id,
        "after_seq": compression.after_seq,
        "through": compression.through,
        "turns": compression.turns,
        "tokens_before": compression.tokens_before,
        "tokens_after": compression.tokens_after,
        "made_by": compression.made_by,
        "summary": [dataclasses.asdict(item) for item in compression.summary],
        "preserved": list(compression.preserved),
    }
