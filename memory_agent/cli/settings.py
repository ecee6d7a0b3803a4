"""`memory-agent settings`: every setting, its value here, and where that comes from."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, Final

from pydantic import SecretStr
from rich.table import Table
from rich.text import Text

from memory_agent.cli.output import clean, complain, print_json, print_table
from memory_agent.cli.running import FAILED, OK, settings
from memory_agent.config import ENV_PREFIX, MemoryConfig
from memory_agent.config_words import valid_values

if TYPE_CHECKING:
    from pathlib import Path

_HIDDEN: Final = "(secret)"


def show_settings(part: str, data_dir: Path | None, *, as_json: bool) -> int:
    """Print the settings whose name holds `part`, as they would be read now."""
    cfg = settings(data_dir)
    rows = [_row(cfg, name, data_dir) for name in MemoryConfig.model_fields if part.lower() in name]
    if as_json:
        print_json(rows)
        return OK
    if not rows:
        complain(f"no setting has {part!r} in its name; `memory-agent settings` lists them all")
        return FAILED
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False)
    for column in ("setting", "value", "from", "may be"):
        table.add_column(column, overflow="fold")
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
    return OK


def _row(cfg: MemoryConfig, name: str, data_dir: Path | None) -> dict[str, Any]:
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
        "may_be": valid_values(MemoryConfig.model_fields[name]),
    }


def _origin(cfg: MemoryConfig, name: str, data_dir: Path | None) -> str:
    if name == "data_dir" and data_dir is not None:
        return "--data-dir"
    if name not in cfg.model_fields_set:
        return "default"
    variables = {variable.upper() for variable, value in os.environ.items() if value}
    return "environment" if f"{ENV_PREFIX}{name.upper()}" in variables else "file"
