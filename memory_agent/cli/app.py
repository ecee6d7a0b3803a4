"""The commands together: their groups in `memory-agent --help`. Nothing heavy is imported before one runs."""

from __future__ import annotations

from typing import Annotated, Any, Final

import typer

from memory_agent.cli import (
    ask,
    chat,
    compression,
    demo,
    embedder,
    entities,
    fact_extraction,
    forget,
    ingest,
    keys,
    mcp,
    people,
    server,
    sessions,
    settings,
    status,
    sweep,
    topics,
    worker,
)
from memory_agent.cli.options import Group, MemoryTyper

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


app = MemoryTyper(
    name="memory-agent",
    cls=Grouped,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    help="""Memory for LLM agents that you host yourself.

Settings come from MEMORY_AGENT_* variables, then from config/memory.toml, then from the defaults: everything
embedded in ./data, no server, no language model.

**Exit codes**: 0 done · 1 failed, with one line on stderr that says why · 2 wrong usage ·
3 done but not whole (turns are parked, a part is down, bad lines were skipped, or a sweep left something over) ·
4 another sweep is running · 130 interrupted.

**Start with**: memory-agent demo
""",
)

for part in (
    ask.app,
    chat.app,
    compression.app,
    demo.app,
    embedder.app,
    entities.app,
    fact_extraction.group,
    forget.app,
    ingest.app,
    keys.app,
    mcp.app,
    people.app,
    server.app,
    sessions.app,
    settings.app,
    status.app,
    sweep.app,
    topics.app,
    worker.app,
):
    app.add_typer(part)


def _version(asked: bool) -> None:
    if asked:
        from importlib.metadata import PackageNotFoundError, version

        try:
            typer.echo(f"memory-agent {version('memory-agent')}")
        except PackageNotFoundError:
            typer.echo("memory-agent, from a folder of its modules: no version is known of it")
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool, typer.Option("--version", is_eager=True, callback=_version, help="Print the version.")
    ] = False,
) -> None:
    """Options of no command."""
