"""The README's quick start of the service, followed to the letter in an empty folder."""

from __future__ import annotations

import os
import re
import socket
import stat
import subprocess
import sys
from pathlib import Path

README = Path(__file__).parents[2] / "README.md"
MARK = "<!-- quick start of the service: a test follows it -->"
PORT = 8080
_BLOCK = re.compile(r"```(?P<language>sh|python)\n(?P<text>.*?)```", re.DOTALL)


def steps() -> list[tuple[str, str]]:
    """The first three blocks behind the mark, each with its language."""
    text = README.read_text(encoding="utf-8").partition(MARK)[2]
    return [(found["language"], found["text"]) for found in _BLOCK.finditer(text)][:3]


def test_following_the_readme_gives_what_it_says(tmp_path: Path) -> None:
    with socket.socket() as probe:
        assert probe.connect_ex(("127.0.0.1", PORT)) != 0, f"something listens on port {PORT}; stop it first"
    (first, start), (second, talk), (third, program) = steps()
    assert (first, second, third) == ("sh", "sh", "python")
    script = [
        "set -euo pipefail",
        "trap 'kill %1; wait' EXIT",
        start,
        "echo; echo '--- talk'",
        talk,
        "echo; echo '--- python'",
        f"python - <<'END'\n{program}\nEND",
    ]
    own = {name: value for name, value in os.environ.items() if not name.startswith("MEMORY_AGENT_")}
    path = f"{Path(sys.executable).parent}{os.pathsep}{own['PATH']}"

    followed = subprocess.run(
        ["bash", "-c", "\n".join(script)],
        cwd=tmp_path,
        env={**own, "PATH": path, "HF_HUB_OFFLINE": "1"},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )

    log = (tmp_path / "serve.log").read_text() if (tmp_path / "serve.log").exists() else ""
    assert followed.returncode == 0, followed.stdout + followed.stderr + log
    ready, talked, printed = re.split(r"--- (?:talk|python)\n", followed.stdout)
    assert '"status":"ready"' in ready
    assert '"turn_ids":[' in talked
    assert "Porto Covo" in talked.partition('"text":')[2]
    assert "Porto Covo" in printed
    key = (tmp_path / "key.txt").read_text().strip()
    assert key.startswith("ma_")
    assert key not in log
    assert stat.S_IMODE((tmp_path / "key.txt").stat().st_mode) == 0o600
    assert "Porto Covo" not in log
