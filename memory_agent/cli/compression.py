"""`memory-agent compressed`: what stands for a whole conversation."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

from memory_agent.cli.ask import context_as_json, show_ledger
from memory_agent.cli.opening import agent_of
from memory_agent.cli.options import LARGEST_SEQ, MemoryTyper, ThreadOptions, flag, option
from memory_agent.cli.output import many, note, picked, print_json, say

if TYPE_CHECKING:
    from memory_agent.domain import CompressedContext, CompressionMetadata

app = MemoryTyper()


@app.command()
async def compressed(
    where: ThreadOptions,
    as_of: int | None = option(
        "--as-of", "As it stood at the turn of this number.", min=1, max=LARGEST_SEQ, metavar="TURN"
    ),
    ledger: bool = flag("--ledger", "Instead: every item that was considered, and why it is in or not."),
) -> None:
    """Show what stands for the whole conversation, now or as of a turn. Changes nothing.

    Examples:
        memory-agent compressed --user ada --thread work
        memory-agent compressed --as-of 120
        memory-agent compressed --json | jq .metadata.tokens_saved
    """
    async with agent_of(where) as agent:
        context = await agent.session_context(as_of)
        last = await agent.fetch_short_term(1)
    newest = last[-1].seq if last else 0
    if as_of is not None and as_of > newest:
        note(f"Thread {where.thread!r} goes up to turn {newest}: this is how it stands now.")
    if ledger:
        show_ledger(context.ledger, as_json=where.as_json)
        _note_sizes(context.metadata)
    elif where.as_json:
        print_json(_as_json(context))
    else:
        _print(where, context)


def _print(where: ThreadOptions, context: CompressedContext) -> None:
    if not context.metadata.original_turns:
        note(f"{where.whose} has no turns to stand for.")
        return
    say(str(context))
    _note_sizes(context.metadata)


def _note_sizes(about: CompressionMetadata) -> None:
    """Print the turns that the context stands for, the tokens it saves, and its summary's source."""
    saved = "nothing is saved yet"
    if about.tokens_saved > 0:
        saved = f"{about.tokens_saved:,} saved ({about.tokens_saved / about.tokens_before:.0%})"
    sizes = f"{about.tokens_before:,} tokens before, {about.tokens_after:,} after"
    note(f"{many(about.original_turns, 'turn')}: {sizes}; {saved}")
    if about.number:
        made = f"from compression {about.number}, up to turn {about.summary_through}, by {about.made_by}"
    elif about.made_by is None:
        made = "none; the conversation is shown whole"
    else:
        made = f"taken from the turns by {about.made_by}; nothing was compressed by then"
    note(f"summary: {made}")


def _as_json(context: CompressedContext) -> dict[str, Any]:
    metadata = {**dataclasses.asdict(context.metadata), "tokens_saved": context.metadata.tokens_saved}
    return {
        **context_as_json(context),
        "metadata": metadata,
        **picked(context, "reminder summary topics moments facts"),
        "preserved": [turn.id for turn in context.preserved],
        "recent": [turn.id for turn in context.recent],
    }
