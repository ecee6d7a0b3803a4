"""Options that several commands share."""

# No `from __future__ import annotations` here: typer reads the annotations when the commands are declared.

from pathlib import Path
from typing import Annotated

import typer

from memory_agent.domain import DEFAULT_TENANT

User = Annotated[str, typer.Option("--user", "-u", help="Whose memory.")]
Thread = Annotated[str, typer.Option("--thread", "-t", help="Which conversation of the user.")]
Tenant = Annotated[
    str, typer.Option("--tenant", help="Whose user, where applications share a store under several tenants.")
]
DataDir = Annotated[
    Path | None, typer.Option("--data-dir", help="Folder of the embedded stores.", show_default="data_dir")
]
Patience = Annotated[
    float,
    typer.Option(
        "--patience",
        min=0,
        help="Seconds without progress until what waits for a part that is down is left owed.",
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON, for scripts.")]

USER = "me"
THREAD = "main"
TENANT = DEFAULT_TENANT
PATIENCE_SECONDS = 30.0
"""Longer than a restart of a model's server takes, and shorter than people look at a bar that stands still."""
