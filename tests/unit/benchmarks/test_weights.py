"""benchmarks.weights: weights follow what tells evidence from the rest, and are scored where they were not fitted."""

from __future__ import annotations

import numpy as np

from benchmarks.weights import Asked, recall


def test_recall_is_the_share_of_the_evidence_among_the_first() -> None:
    """By hand: two of ten turns, ranked first and seventh."""
    signals = np.arange(10, dtype=np.float32)[::-1, None].copy()
    found = recall([Asked(set="", fold=0, signals=signals, gold=(0, 6))], np.array([1.0], dtype=np.float32))
    assert found == {"recall@5": [0.5], "recall@10": [1.0], "recall@20": [1.0], "recall@50": [1.0]}
