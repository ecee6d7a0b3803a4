"""`memory-agent compress`, `compressed` and `compressions`: what stands for a whole conversation, and since when."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

from memory_agent.cli.ask import context_as_json, show_ledger
from memory_agent.cli.opening import agent_of
from memory_agent.cli.options import LARGEST_SEQ, MemoryTyper, ThreadOptions, flag, option
from memory_agent.cli.output import many, note, picked, print_json, print_table, say, when

if TYPE_CHECKING:
    from memory_agent.cli.opening import Agent
    from memory_agent.domain import CompressedContext, Compression, CompressionMetadata

app = MemoryTyper()

_COMPRESSION = (
    "id number at reason session=session_id after_seq through turns tokens_before tokens_after made_by summary"
    " preserved"
)


# --- compressing ---------------------------------------------------------------------------------------------
@app.command()
async def compress(
    where: ThreadOptions,
    if_needed: bool = flag("--if-needed", "Only if the conversation has grown enough for it."),
) -> None:
    """Sum the conversation up to now, and show what stands for it and what that saves.

    The worker does so by itself now and then (context_limit_tokens). The history is
    untouched. With a language model this asks it.

    Examples:
        memory-agent compress --user ada --thread work
        memory-agent compress --if-needed --json | jq .compression.tokens_after
    """
    async with agent_of(where) as agent:
        before = await _last(agent)
        context = await (agent.compress_if_needed() if if_needed else agent.compress())
        after = await _last(agent)
    made = None if after is None or (before is not None and before.id == after.id) else after
    if where.as_json:
        print_json(
            {
                "compression": None if made is None else picked(made, _COMPRESSION),
                "context": None if context is None else _as_json(context),
            }
        )
        return
    if context is None:
        since = "" if after is None else f" since compression {after.number}"
        note(f"Thread {where.thread!r} has not grown enough{since}: nothing was compressed.")
        return
    _print(where, context)
    if made is not None:
        note(f"Compression {made.number} is recorded; the history is untouched.")
    elif before is not None:
        note(f"No turns since compression {before.number}: nothing new was recorded.")
    elif context.metadata.original_turns:
        note("The conversation is short enough to be shown whole: nothing was recorded.")


async def _last(agent: Agent) -> Compression | None:
    """The newest compression."""
    found = await agent.compressions()
    return found[-1] if found else None


# --- looking -------------------------------------------------------------------------------------------------
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


@app.command()
async def compressions(where: ThreadOptions) -> None:
    """List when the thread was compressed, oldest first: why, how many turns, tokens before and after, and by whom.

    Examples:
        memory-agent compressions --user ada --thread work
        memory-agent compressions --json | jq '.[].summary[].text'
    """
    async with agent_of(where) as agent:
        made = await agent.compressions()
    if where.as_json:
        print_json([picked(compression, _COMPRESSION) for compression in made])
    elif made:
        names = (">number", "at", "reason", ">up to turn", ">turns", ">tokens before", ">after", "+made by")
        print_table(names, map(_row, made))
    else:
        note(f"{where.whose} was not compressed yet.")


def _row(made: Compression) -> list[str]:
    counts = (made.through, made.turns, made.tokens_before, made.tokens_after)
    return [f"{made.number}", when(made.at), made.reason, *(f"{count:,}" for count in counts), made.made_by]


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
