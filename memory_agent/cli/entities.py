"""`memory-agent entities`: what a thread, or a user, speaks of by name."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.text import Text

from memory_agent.cli.opening import opened, unknown_is_said
from memory_agent.cli.options import MemoryTyper, Reach, ThreadOptions, service_options
from memory_agent.cli.output import clean, columns, note, picked, print_json, print_table, when
from memory_agent.cli.running import settings

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from rich.table import Table

    from memory_agent.domain import EntityCount

app = MemoryTyper()


@app.command()
async def entities(
    where: ThreadOptions,
    kind: Annotated[
        list[str] | None, typer.Option("--kind", help="Only of this kind (may be repeated).")
    ] = None,
    scope: Reach = "thread",
) -> None:
    """List what the turns name, in the order of the first mention: kind, name, in how many turns, from when to when.

    Names come from the dictionary in entities_file, from ner_model, and from those who stored the turns.

    **Examples**

        memory-agent entities --user ada --scope user

        memory-agent entities --kind brands --json | jq -r '.[].name'
    """
    async with opened(where.data_dir) as service:
        agent = where.agent(service)
        async with unknown_is_said(agent, reach=scope):
            counts = await agent.entities(scope=scope)
    shown = [count for count in counts if not kind or count.entity.kind in kind]
    if where.as_json:
        print_json([_as_json(count) for count in shown])
    elif shown:
        print_table(_table(shown))
    else:
        _note_nothing(where, counts, kind or [], scope=scope)


def _table(counts: Sequence[EntityCount]) -> Table:
    table = columns("kind", "+name", ">turns", "first mention", "last mention")
    for count in counts:
        named = Text(clean(count.entity.kind)), Text(clean(count.entity.name))
        table.add_row(*named, f"{count.count:,}", when(count.first_at), when(count.last_at))
    return table


def _note_nothing(
    where: ThreadOptions, counts: Sequence[EntityCount], kinds: Collection[str], *, scope: str
) -> None:
    thread = f"Thread {where.thread_id!r} of user" if scope == "thread" else "User"
    if counts:
        known = ", ".join(sorted({count.entity.kind for count in counts}))
        note(
            f"{thread} {where.user_id!r} names nothing of kind {', '.join(sorted(kinds))}; known kinds: {known}."
        )
        return
    wider = "; --scope user looks at all threads" if scope == "thread" else ""
    note(f"{thread} {where.user_id!r} names no entities{wider}.")
    cfg = settings(where.data_dir)
    # A service elsewhere has settings of its own, which nobody here knows.
    if service_options()[0] is None and cfg.entities_file is None and cfg.ner_model is None:
        note(
            "Beside those that callers give, texts are searched for the names in config/entities.yaml here, or else"
            " for those of the shipped example: entities_file is not set, and no ner_model."
        )


def _as_json(count: EntityCount) -> dict[str, Any]:
    """An entity and how often it is named, with stable keys."""
    about = picked(count, "turns=count first_turn_id first_at last_turn_id last_at")
    return {**picked(count.entity, "kind name"), **about}
