"""`memory-agent settings`: every setting, its value here, and where that comes from."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer
from rich.text import Text

from memory_agent.cli import running
from memory_agent.cli.options import AsJson, Commands, DataDir
from memory_agent.cli.output import clean, columns, complain, print_json, print_table

if TYPE_CHECKING:
    from pathlib import Path

    from memory_agent.config import MemoryConfig

_HIDDEN: Final = "(secret)"


app = Commands()


@app.command()
def settings(
    part: Annotated[str, typer.Argument(help="Part of a name; without it, all.", show_default=False)] = "",
    data_dir: DataDir = None,
    as_json: AsJson = False,
) -> int:
    """List the settings: value, where it comes from, and what it may be.

    Arguments of a command win over MEMORY_AGENT_* variables, these over the settings file, that over the defaults.
    Secrets are not shown.

    **Examples**

        memory-agent settings

        memory-agent settings model

        memory-agent settings --json | jq -r '.[] | select(.from != "default") | .setting'
    """
    cfg = running.settings(data_dir)
    names = [name for name in type(cfg).model_fields if part.lower() in name]
    rows = [_row(cfg, name, data_dir) for name in names]
    if as_json:
        print_json(rows)
        return running.OK
    if not rows:
        complain(f"no setting has {part!r} in its name; `memory-agent settings` lists them all")
        return running.FAILED
    table = columns("+setting", "+value", "+from", "+may be")
    for row in rows:
        shown = "" if row["value"] is None else str(row["value"])
        style = "dim" if row["from"] == "default" else None
        table.add_row(
            Text(row["setting"], style="bold"),
            Text(clean(shown)),
            Text(row["from"]),
            Text(row["may_be"], style="dim"),
            style=style,
        )
    print_table(table)
    return running.OK


def _row(cfg: MemoryConfig, name: str, data_dir: Path | None) -> dict[str, Any]:
    from pydantic import SecretStr

    from memory_agent.config_words import valid_values

    value = getattr(cfg, name)
    if isinstance(value, SecretStr):
        value = _HIDDEN
    elif not isinstance(value, str | int | float | None):
        value = (
            list(value)
            if isinstance(value, tuple)
            else dict(value)
            if isinstance(value, dict)
            else str(value)
        )
    return {
        "setting": name,
        "value": value,
        "from": _origin(cfg, name, data_dir),
        "may_be": valid_values(type(cfg).model_fields[name]),
    }


def _origin(cfg: MemoryConfig, name: str, data_dir: Path | None) -> str:
    if name == "data_dir" and data_dir is not None:
        return "--data-dir"
    if name not in cfg.model_fields_set:
        return "default"
    from memory_agent.config import ENV_PREFIX

    variables = {variable.upper() for variable, value in os.environ.items() if value}
    return "environment" if f"{ENV_PREFIX}{name.upper()}" in variables else "file"
