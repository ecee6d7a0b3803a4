"""Options that several commands share."""

# No `from __future__ import annotations` here: typer reads the annotations when the commands are declared.

from pathlib import Path
from typing import Annotated

import typer

User = Annotated[str, typer.Option("--user", "-u", help="Whose memory.")]
Thread = Annotated[str, typer.Option("--thread", "-t", help="Which conversation of the user.")]
DataDir = Annotated[
    Path | None, typer.Option("--data-dir", help="Folder of the embedded stores.", show_default="data_dir")
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON, for scripts.")]

USER = "me"
THREAD = "main"
