"""The command `memory-agent settings`, with its options and help text."""

# No `from __future__ import annotations` here: typer reads the annotations when the commands are declared.

from typing import Annotated

import typer

from memory_agent.cli.options import AsJson, Commands, DataDir
from memory_agent.cli.running import run_plain

app = Commands()


@app.command()
def settings(
    part: Annotated[str, typer.Argument(help="Part of a name; without it, all.", show_default=False)] = "",
    data_dir: DataDir = None,
    as_json: AsJson = False,
) -> None:
    """List the settings: value, where it comes from, and what it may be.

    Arguments of a command win over MEMORY_AGENT_* variables, these over the settings file, that over the defaults.
    Secrets are not shown.

    **Examples**

        memory-agent settings

        memory-agent settings model

        memory-agent settings --json | jq -r '.[] | select(.from != "default") | .setting'
    """
    from memory_agent.cli.settings import show_settings

    run_plain(lambda: show_settings(part, data_dir, as_json=as_json))
