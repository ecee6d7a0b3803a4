"""`memory-agent settings`: every setting, its value here, and where that comes from."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from memory_agent.cli import options
from memory_agent.cli.options import Commands, FolderOptions, argument
from memory_agent.cli.output import complain, line, print_json, print_table

if TYPE_CHECKING:
    from rich.text import Text


app = Commands()


@app.command()
def settings(
    where: FolderOptions, part: str = argument("Part of a name; without it, all.", "", shown=False)
) -> int:
    """List the settings: value, where it comes from, and what it may be.

    Arguments of a command win over MEMORY_AGENT_* variables, these over the settings file, that over the defaults.
    Secrets are not shown.

    Examples:
        memory-agent settings
        memory-agent settings model
        memory-agent settings --json | jq -r '.[] | select(.from != "default") | .setting'
    """
    from memory_agent.config import setting_rows

    cfg = options.settings(where.data_dir)
    rows = setting_rows(cfg, part)
    for row in rows:
        if row["from"] == "argument":  # there is but this one
            row["from"] = "--data-dir"
    if where.as_json:
        print_json(rows)
    elif not rows:
        complain(f"no setting has {part!r} in its name; `memory-agent settings` lists them all")
        return options.FAILED
    else:
        print_table(("+setting", "+value", "+from", "+may be"), map(_cells, rows))
    return options.OK


def _cells(row: dict[str, Any]) -> list[Text]:
    faint = " dim" if row["from"] == "default" else ""
    shown = "" if row["value"] is None else str(row["value"])
    styled = ((row["setting"], f"bold{faint}"), (shown, faint), (row["from"], faint), (row["may_be"], "dim"))
    return [line(cell) for cell in styled]
