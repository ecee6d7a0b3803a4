"""The commands together: their groups in `memory-agent --help`. Nothing heavy is imported before one runs."""

from __future__ import annotations

from importlib import import_module, metadata
from typing import Any, Final

import typer
from typer.core import TyperGroup

from memory_agent.cli.options import MemoryTyper, option

GROUPS: Final = {
    title: names.split()
    for title, names in {
        "Start here": "demo ingest ask chat",
        "What was said": "users threads history session",
        "What is known": "facts topics topic",
        "Look after it": "status settings worker retry sweep rebuild forget erasures doctor"
        " backup restore export import embedder conformance",
        "Serve it": "serve inspect mcp hook keys",
    }.items()
}
_GROUP_OF: Final = {name: group for group, names in GROUPS.items() for name in names}


class Grouped(TyperGroup):
    """Commands in `GROUPS`, in their order."""

    def __init__(self, **given: Any) -> None:
        super().__init__(**given)
        for name, command in self.commands.items():
            command.rich_help_panel = _GROUP_OF[name]  # type: ignore[attr-defined]  # typer's own classes have it
        self.commands = {name: self.commands[name] for name in _GROUP_OF}


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
_MODULES: Final = (
    "ask chat conformance demo doctor embedder exports facts forget hooks ingest keys server sessions status"
    " topics worker"
)
for module in _MODULES.split():
    app.add_typer(import_module(f"memory_agent.cli.{module}").app)


def _version(asked: bool) -> None:
    if asked:
        try:
            typer.echo(f"memory-agent {metadata.version('memory-agent')}")
        except metadata.PackageNotFoundError:
            typer.echo("memory-agent, from a folder of its modules: no version is known of it")
        raise typer.Exit


@app.callback()
def options(
    version: bool = option(
        "--version", "Print the version.", False, metavar="", is_eager=True, callback=_version
    ),
) -> None:
    """Options of no command."""
