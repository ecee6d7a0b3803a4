"""What needs torch, or spaCy, in one process each: with either a worker would take a gigabyte and keep it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.profiles import APART, chosen

ROOT = Path(__file__).parents[3]
FILES = {
    "torch": [
        "tests/unit/models/local/with_torch.py",
        "tests/conformance/test_embedder.py",
    ],
    "spacy": ["tests/unit/models/with_spacy.py"],
}


@pytest.mark.timeout(900)
@pytest.mark.parametrize("library", FILES)
def test_what_needs_a_large_library_passes_in_a_process_of_its_own(library: str) -> None:
    """Its output says what failed; run `pytest` on the files above, with TESTS_APART set, to look closer."""
    # spaCy loads torch where it is there, and not for these.
    hidden = {} if library == "torch" else {"torch": None}
    run = f"import sys, pytest; sys.modules.update({hidden}); sys.exit(pytest.main(sys.argv[1:]))"
    command = [sys.executable, "-c", run, "-q", "-p", "no:xdist", "-p", "no:cacheprovider"]
    chosen_ones = [] if chosen() == "nightly" else ["-m", "not nightly"]
    done = subprocess.run(
        [*command, *chosen_ones, *FILES[library]],
        env={**os.environ, APART: library},
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-8_000:] + done.stderr[-2_000:]
    assert "passed" in done.stdout
