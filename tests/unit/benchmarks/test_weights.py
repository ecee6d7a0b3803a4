"""benchmarks.weights: weights are scored as the product ranks, and fitted where they are not scored."""

import numpy as np

from benchmarks.weights import Asked, recall
from memory_agent.search.user_index import ResidentIndex
from tests.unit.search.ranking import make_row

ROWS = [make_row(number) for number in range(10)]
FALLING = np.arange(10, dtype=np.float32)[::-1, None].copy()
ONE = np.array([1.0], dtype=np.float32)


def a_question(*, index: ResidentIndex, gold: tuple[int, ...], marked: int, set_name: str = "a") -> Asked:
    ids = [row.turn_id for row in ROWS]
    return Asked(set=set_name, fold=0, index=index, ids=ids, signals=FALLING, gold=gold, marked=marked)


def test_recall_is_the_share_of_the_evidence_among_the_first() -> None:
    index = ResidentIndex(ROWS, embedder="model")
    both = a_question(index=index, gold=(0, 6), marked=2)
    other = a_question(index=index, gold=(4,), marked=2, set_name="b")
    assert recall([both, other], lambda _: ONE) == {
        "a": {"recall@5": 0.5, "recall@10": 1.0, "recall@20": 1.0, "recall@50": 1.0},
        "b": {"recall@5": 0.5, "recall@10": 0.5, "recall@20": 0.5, "recall@50": 0.5},
    }


def test_near_duplicates_stand_behind_as_in_the_product() -> None:
    same = [make_row(0), make_row(1, vectors=make_row(0).vectors), *ROWS[2:]]
    asked = a_question(index=ResidentIndex(same, embedder="model"), gold=(5,), marked=1)
    assert recall([asked], lambda _: ONE)["a"]["recall@5"] == 1
