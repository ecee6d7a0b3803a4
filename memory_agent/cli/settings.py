"""`memory-agent settings`: every setting, its value here, and where that comes from."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, Final

from memory_agent.cli import options
from memory_agent.cli.options import Commands, FolderOptions, argument
from memory_agent.cli.output import complain, line, print_json, print_table

if TYPE_CHECKING:
    from pathlib import Path

    from rich.text import Text

    from memory_agent.config import MemoryConfig

_HIDDEN: Final = "(secret)"

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
    cfg = options.settings(where.data_dir)
    rows = [_row(cfg, name, where.data_dir) for name in type(cfg).model_fields if part.lower() in name]
    if where.as_json:
        print_json(rows)
    elif not rows:
        complain(f"no setting has {part!r} in its name; `memory-agent settings` lists them all")
        return options.FAILED
    else:
        print_table(("+setting", "+value", "+from", "+may be"), map(_cells, rows))
    return options.OK


def _row(cfg: MemoryConfig, name: str, data_dir: Path | None) -> dict[str, Any]:
    from pydantic import SecretStr

    from memory_agent.config_words import valid_values

    value = getattr(cfg, name)
    if isinstance(value, SecretStr):
        value = _HIDDEN
    elif isinstance(value, tuple):
        value = list(value)
    elif not isinstance(value, str | int | float | dict | None):
        value = str(value)
    may_be = valid_values(type(cfg).model_fields[name])
    return {"setting": name, "value": value, "from": _origin(cfg, name, data_dir), "may_be": may_be}


def _cells(row: dict[str, Any]) -> list[Text]:
    faint = " dim" if row["from"] == "default" else ""
    shown = "" if row["value"] is None else str(row["value"])
    styled = ((row["setting"], f"bold{faint}"), (shown, faint), (row["from"], faint), (row["may_be"], "dim"))
    return [line(cell) for cell in styled]


def _origin(cfg: MemoryConfig, name: str, data_dir: Path | None) -> str:
    if name == "data_dir" and data_dir is not None:
        return "--data-dir"
    if name not in cfg.model_fields_set:
        return "default"
    from memory_agent.config import ENV_PREFIX

    variables = {variable.upper() for variable, value in os.environ.items() if value}
    return "environment" if f"{ENV_PREFIX}{name.upper()}" in variables else "file"
