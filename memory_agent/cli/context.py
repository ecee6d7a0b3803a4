"""`memory-agent ask --context`: what a model would get, as text or chat messages, and the account of why."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any, Final, Literal

from rich.table import Table
from rich.text import Text

from memory_agent.cli.opening import agent_of
from memory_agent.cli.output import clean, note, out, picked, print_json, print_table, say

if TYPE_CHECKING:
    from collections.abc import Iterable

    from memory_agent.cli.options import ThreadOptions
    from memory_agent.domain import CompressedContext, LedgerEntry, MemoryContext, Preset

View = Literal["text", "ledger", "messages"]


_LEAST_WIDTH: Final = 20
"""Of what stands last, however narrow the terminal is."""
_LEFT_OUT_SHOWN: Final = 5
_ENTRY: Final = "tier item tokens score confidence kept reason text"
_GAP: Final = 2
"""Blanks between two columns."""


async def show_context(
    where: ThreadOptions,
    question: str,
    *,
    view: View = "text",
    preset: Preset | None = None,
    max_tokens: int | None = None,
) -> None:
    """Print what `fetch_memory` answers: its text, its ledger or its chat messages; as JSON text and ledger."""
    async with agent_of(where) as agent:
        context = await agent.fetch_memory(question, max_tokens=max_tokens, preset=preset)
    if view == "messages":
        print_json(context.to_messages())
    elif view == "ledger":
        show_ledger(context.ledger, as_json=where.as_json)
    elif where.as_json:
        print_json({**context_as_json(context), **picked(context, "preset degraded")})
        return
    else:
        say(str(context))
    note(f"{context.tokens:,} of {context.budget:,} tokens, preset {context.preset}")
    if context.degraded:
        note(f"missing: {', '.join(context.degraded)}")


def show_ledger(ledger: Iterable[LedgerEntry], *, as_json: bool) -> None:
    """Every item that was considered, those kept first: what it says, what it takes, and why it is in or not."""
    entries = sorted(ledger, key=lambda entry: not entry.kept)
    if as_json:
        print_json([picked(entry, _ENTRY) for entry in entries])
        return
    if not entries:
        note("The ledger is empty: there was nothing to consider.")
        return
    entries, hidden = shortened(entries) if out.is_terminal else (entries, {})
    numbers = [
        (
            entry.tier,
            "yes" if entry.kept else "no",
            f"{entry.tokens:,}",
            "" if entry.score is None else f"{entry.score:.2f}",
            "" if entry.confidence is None else f"{entry.confidence:.2f}",
        )
        for entry in entries
    ]
    table = Table(box=None, padding=(0, _GAP, 0, 0), pad_edge=False)
    taken = 0
    for name, cells in zip(
        ("tier", "in", "tokens", "score", "sure"), zip(*numbers, strict=True), strict=True
    ):
        justify: Literal["left", "right"] = "right" if name in ("tokens", "score", "sure") else "left"
        table.add_column(name, justify=justify, no_wrap=True)
        taken += max(map(len, (name, *cells))) + _GAP
    # Where nobody looks a line is an item; a terminal is too narrow for that.
    room = max(out.width - taken, _LEAST_WIDTH) if out.is_terminal else None
    for name in ("reason", "what it says") if room is None else ("reason, and what it says",):
        table.add_column(name, overflow="ellipsis", no_wrap=True, max_width=room)
    for entry, row in zip(entries, numbers, strict=True):
        said = [clean(entry.reason), " ".join(clean(entry.text or entry.item).split())]
        table.add_row(
            *row,
            *(Text(cell) for cell in (said if room is None else ["\n".join(said)])),
            style=None if entry.kept else "dim",
        )
    print_table(table)
    for (tier, reason), count in hidden.items():
        note(f"… {count:,} more of {tier}: {reason}")
    if hidden:
        note("All of them: --ledger --json, or into a file.")


def shortened(
    entries: Iterable[LedgerEntry], most: int = _LEFT_OUT_SHOWN
) -> tuple[list[LedgerEntry], dict[tuple[str, str], int]]:
    """The entries without those left out beyond `most` of one tier for one reason; how many these are, by both.

    A long memory leaves hundreds out, and the kept ones would have scrolled away.
    """
    left_out: Counter[tuple[str, str]] = Counter()
    shown = []
    for entry in entries:
        if not entry.kept:
            left_out[entry.tier, entry.reason] += 1
        if entry.kept or left_out[entry.tier, entry.reason] <= most:
            shown.append(entry)
    return shown, {of: count - most for of, count in left_out.items() if count > most}


def context_as_json(context: MemoryContext | CompressedContext) -> dict[str, Any]:
    """The fields of every context as JSON, with stable keys."""
    ledger = [picked(entry, _ENTRY) for entry in context.ledger]
    return {"text": str(context), **picked(context, "tokens budget"), "ledger": ledger}
