"""`benchmarks.kills`, a few kills of each kind of job on each store; its figures are those of many."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from pathlib import Path

import pytest

KILLS = 40


@pytest.mark.nightly
@pytest.mark.timeout(1_200)
@pytest.mark.parametrize("store", ["sqlite", "mongodb"])
async def test_processes_killed_at_any_moment_leave_the_acknowledged(store: str, tmp_path: Path) -> None:
    """Other moments each time, on purpose; what is wrong is told with the seed and the round."""
    command = [sys.executable, "-m", "benchmarks.kills", "--store", store, "--rounds", str(KILLS)]
    process = await asyncio.create_subprocess_exec(
        *command, "--place", str(tmp_path / "kills"), stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    out, said = await asyncio.wait_for(process.communicate(), 1_100)
    assert process.returncode == 0, said.decode()
    assert json.loads(out)["kills"] == KILLS
