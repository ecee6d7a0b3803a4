"""Products of vectors: as numpy has them, and in the caller's thread."""

import os
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory_agent.products import product

SEARCHED = """
import sys
from pathlib import Path
import numpy as np
from memory_agent.products import product

def turns_of_others():
    "How often threads other than this one were given a processor."
    tasks = Path("/proc/self/task").iterdir()
    return sum(int((task / "schedstat").read_text().split()[2]) for task in tasks if int(task.name) != main)

main = int(Path("/proc/thread-self").resolve().name)
how = product if sys.argv[1] == "ours" else lambda left, right: left @ right.T
shapes = (3_000, 384), (20, 384), (5_000, 384), (300, 48), (320, 1_536)
tokens, few, topics, same, wide = (np.ones(shape, np.float32) for shape in shapes)
before = turns_of_others()
for left, right in ((tokens, few), (topics, topics[0]), (same, same), (few, tokens), (wide, wide)) * 20:
    how(left, right)
print(turns_of_others() - before)
"""


@given(st.integers(0, 60), st.integers(1, 1_100), st.integers(1, 400), st.booleans())
def test_the_product_is_that_of_the_matrices(rows: int, others: int, dimension: int, is_one: bool) -> None:
    numbers = np.random.default_rng(rows)
    left = numbers.standard_normal((rows, dimension)).astype(np.float32)
    right = numbers.standard_normal((others, dimension)).astype(np.float32)
    right = right[0] if is_one else right
    found = product(left, right)
    assert found.shape == (left @ right.T).shape
    assert np.allclose(found, left @ right.T, atol=1e-4)


def test_products_of_a_search_wake_no_other_thread() -> None:
    """As plain products do, where OpenBLAS may use two: it would wait for a processor that something else has."""
    if len(os.sched_getaffinity(0)) < 2:
        pytest.skip("OpenBLAS has one thread here")
    env = {**os.environ, "OPENBLAS_NUM_THREADS": "2"}
    ours, plain = (
        int(subprocess.check_output([sys.executable, "-c", SEARCHED, how], env=env, text=True, timeout=120))
        for how in ("ours", "plain")
    )
    assert ours == 0
    assert plain > 0
