"""`memory-agent entities`: what a thread, or a user, speaks of by name."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from rich.table import Table
from rich.text import Text

from memory_agent.cli.opening import opened, unknown_is_said
from memory_agent.cli.options import service_options
from memory_agent.cli.output import clean, note, print_json, print_table
from memory_agent.cli.running import OK, settings

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from memory_agent.cli.options import Where
    from memory_agent.domain import EntityCount


async def show_entities(where: Where, *, kinds: Collection[str], scope: Literal["thread", "user"]) -> int:
    """Print the entities that are named, by first mention; only those of `kinds`, if any is given."""
    async with opened(where.data_dir) as service:
        agent = where.agent(service)
        async with unknown_is_said(agent, reach=scope):
            counts = await agent.entities(scope=scope)
    shown = [count for count in counts if not kinds or count.entity.kind in kinds]
    if where.as_json:
        print_json([count_as_json(count) for count in shown])
    elif shown:
        print_table(_table(shown))
    else:
        _note_nothing(where, counts, kinds, scope=scope)
    return OK


def _table(counts: Sequence[EntityCount]) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False)
    table.add_column("kind")
    table.add_column("name", overflow="fold")
    table.add_column("turns", justify="right")
    table.add_column("first mention", no_wrap=True)
    table.add_column("last mention", no_wrap=True)
    for count in counts:
        table.add_row(
            Text(clean(count.entity.kind)),
            Text(clean(count.entity.name)),
            f"{count.count:,}",
            f"{count.first_at:%Y-%m-%d %H:%M}",
            f"{count.last_at:%Y-%m-%d %H:%M}",
        )
    return table


def _note_nothing(where: Where, counts: Sequence[EntityCount], kinds: Collection[str], *, scope: str) -> None:
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


def count_as_json(count: EntityCount) -> dict[str, Any]:
    """An entity and how often it is named, with stable keys."""
    return {
        "kind": count.entity.kind,
        "name": count.entity.name,
        "turns": count.count,
        "first_turn_id": count.first_turn_id,
        "first_at": count.first_at.isoformat(),
        "last_turn_id": count.last_turn_id,
        "last_at": count.last_at.isoformat(),
    }
