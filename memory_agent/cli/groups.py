"""The groups of commands in `memory-agent --help`, and their order."""

from __future__ import annotations

from typing import Any, Final

from memory_agent.cli.options import Group

GROUPS: Final = {
    "Start here": ("demo", "ingest", "ask", "chat"),
    "What was said": ("users", "threads", "history", "session", "compressed", "compress", "compressions"),
    "What is known": ("facts", "topics", "topic", "entities"),
    "Look after it": ("status", "settings", "worker", "retry", "sweep", "rebuild", "forget", "embedder"),
    "Serve it": ("serve", "mcp", "keys"),
}
_GROUP_OF: Final = {name: group for group, names in GROUPS.items() for name in names}
_ORDER: Final = {name: place for place, name in enumerate(_GROUP_OF)}


class Grouped(Group):
    """Commands in `GROUPS`; one that is in none comes last."""

    def __init__(self, **given: Any) -> None:
        super().__init__(**given)
        for name, command in self.commands.items():
            command.rich_help_panel = _GROUP_OF.get(name)  # type: ignore[attr-defined]  # typer's own classes have it
        self.commands = {name: self.commands[name] for name in sorted(self.commands, key=_place)}


def _place(name: str) -> int:
    return _ORDER.get(name, len(_ORDER))
