"""Peers get turns and questions only, are named as they are, and their missing packages with the remedy."""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
from numpy.typing import NDArray

from benchmarks import peers
from benchmarks.peers import DIMENSIONS, Embedder
from benchmarks.recall_sets import Corpus, Evidence, Gold, Question, SetTurn, read_sets
from tests.unit.benchmarks.sets import record, written
from tests.unit.benchmarks.test_recall_sets import reachable


class Words(Embedder):
    """Vectors of words instead of the model's: texts are near each other that share words."""

    computed = 0

    def _compute(self, texts: list[str]) -> NDArray[np.float32]:
        self.computed += len(texts)
        vectors = np.full((len(texts), DIMENSIONS), 1e-3, np.float32)
        for row, text in zip(vectors, texts, strict=True):
            for word in re.findall(r"\w+", text.lower()):
                row[sum(map(ord, word)) % DIMENSIONS] += 1
        unit: NDArray[np.float32] = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
        return unit


class Recording:
    """A peer that finds the corpus' turns in their order, and keeps all that it was given."""

    package: ClassVar[str] = "numpy"
    settings: ClassVar[Mapping[str, Any]] = {}
    given: ClassVar[list[Any]] = []
    folders: ClassVar[set[Path]] = set()

    def __init__(self, folder: Path, embedder: Embedder) -> None:
        self.given.append(embedder)
        self.folders.add(folder)

    def remember(self, corpus: Corpus) -> None:
        self.given.append(corpus)
        self.turns = [turn.id for turn in corpus.turns]

    def search(self, question: Question, depth: int) -> list[str]:
        self.given.extend((question, depth))
        return self.turns[:depth]

    def close(self) -> None:
        self.given.append("closed")


@pytest.fixture
def recording(monkeypatch: pytest.MonkeyPatch) -> Iterator[type[Recording]]:
    """Stands in for every peer."""
    monkeypatch.setattr(peers, "PEERS", {"chroma": Recording})
    monkeypatch.setattr(peers, "Embedder", Words)
    Recording.given.clear()
    Recording.folders.clear()
    yield Recording
    Recording.given.clear()


def test_a_peer_is_given_no_evidence_and_a_folder_of_its_own(
    tmp_path: Path, recording: type[Recording]
) -> None:
    file = written(tmp_path / "set.jsonl", record(), record(corpus="c2"))
    run = peers.measure("chroma", read_sets([file]), Words(), {})
    things = [thing for given in recording.given for thing in reachable(given)]
    assert len([thing for thing in things if isinstance(thing, SetTurn)]) == 4
    assert not any(isinstance(thing, Gold | Evidence) for thing in things)
    assert not any("gold" in thing for thing in things if isinstance(thing, str))
    assert len(recording.folders) == 2
    assert [result.gold_turns for result in run.results] == [{"t1": 1}, {"t1": 1}]
    assert run.times["set"]["turns"] == 4
