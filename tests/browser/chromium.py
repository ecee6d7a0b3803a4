"""A Chromium for the tests: one that is installed, or one that is fetched: Playwright's, or npm's @sparticuz/chromium.

Run as a program it fetches one where none is found (`make browser`), and fails loudly where none is to be had.
"""

from __future__ import annotations

import contextlib
import io
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[2]
FETCHED: Final = ROOT / ".browser" / "chromium"
_INSTALLED: Final = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
_PATIENCE_SECONDS: Final = 300.0
SWITCHES: Final = [
    "--no-sandbox",  # a test may run as root
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]


def found() -> str | None:
    """The program, None if there is none; the variable CHROMIUM names one."""
    named = [os.environ.get("CHROMIUM"), *map(shutil.which, _INSTALLED), str(FETCHED), *_playwrights()]
    return next((path for path in named if path and os.access(path, os.X_OK)), None)


def _playwrights() -> list[str]:
    """Those that Playwright has downloaded, the newest first."""
    folder = Path(os.environ.get("PLAYWRIGHT_BROWSERS_PATH") or Path.home() / ".cache" / "ms-playwright")
    names = ("chrome-headless-shell", "headless_shell", "chrome")
    return sorted((str(file) for name in names for file in folder.glob(f"chromium*/*/{name}")), reverse=True)


def fetch() -> None:
    """Get one: Playwright's download, else the package of npm. Raises OSError and SubprocessError where neither is to be had."""
    with contextlib.suppress(subprocess.SubprocessError):
        asked = [sys.executable, "-m", "playwright", "install", "chromium-headless-shell"]
        subprocess.run(asked, check=True, timeout=_PATIENCE_SECONDS)
    if found():
        return
    import brotli

    with tempfile.TemporaryDirectory() as folder:
        npm = ["npm", "pack", "--silent", "@sparticuz/chromium"]
        subprocess.run(npm, cwd=folder, check=True, timeout=_PATIENCE_SECONDS)
        (packed,) = Path(folder).glob("*.tgz")
        with tarfile.open(packed) as file:
            member = file.extractfile("package/bin/chromium.br")
            assert member is not None
            data = io.BytesIO(brotli.decompress(member.read()))
    FETCHED.write_bytes(data.getbuffer())
    FETCHED.chmod(0o755)


if __name__ == "__main__":
    why = ""
    if found() is None:
        try:
            fetch()
        except (OSError, subprocess.SubprocessError) as exc:
            why = f" ({exc})"
    print(
        found()
        or sys.exit(f"no Chromium was found, and none is to be had{why}: install one, or set CHROMIUM")
    )
