"""What needs torch, in a process of its own: with it a worker would take a gigabyte and keep it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.profiles import APART, chosen

ROOT = Path(__file__).parents[3]
FILES = [
    "tests/unit/models/local/with_torch.py",
    "tests/conformance/test_embedder.py",
]
AT_NIGHT = ["tests/conformance/test_embedder_models.py"]
"""with_torch.py compares the tokens' vectors."""


@pytest.mark.timeout(900)
def test_what_needs_torch_passes_in_a_process_of_its_own() -> None:
    """Its output says what failed; run `pytest` on the files above, with TESTS_APART set, to look closer."""
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:xdist", "-p", "no:cacheprovider"]
    chosen_ones = [] if chosen() == "nightly" else ["-m", "not nightly"]
    done = subprocess.run(
        [*command, *chosen_ones, *FILES, *(AT_NIGHT if chosen() == "nightly" else [])],
        env={**os.environ, APART: "torch"},
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-8_000:] + done.stderr[-2_000:]
    assert "passed" in done.stdout
