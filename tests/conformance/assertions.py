"""Assertions of the conformance suites about a topic."""

import dataclasses
from dataclasses import replace
from typing import Any

import numpy as np

from memory_agent.domain import Topic


def assert_same_topic(found: Topic, expected: Topic, *, revision: bool = False) -> None:
    """Equal in all fields, the embedding bit by bit; revisions only if asked."""
    for name in (field.name for field in dataclasses.fields(expected)):
        if name == "embedding":
            assert found.embedding.dtype == np.float16
            assert found.embedding.shape == expected.embedding.shape
            assert found.embedding.tobytes() == expected.embedding.tobytes()
        elif name != "revision" or revision:
            assert getattr(found, name) == getattr(expected, name), name


def assert_reset_topic(found: Topic, before: Topic) -> None:
    """Derived fields are emptied, what people set is as before, and the revision is a new one."""
    assert_same_topic(found, replace(before, **EMPTY_TOPIC))
    assert found.revision not in (None, before.revision)


EMPTY_TOPIC: dict[str, Any] = {
    "title": "",
    "summary": None,
    "embedding": np.empty(0, dtype=np.float16),
    "embedded": 0,
    "embedder": "",
    "access_count": 0,
    "through": 0,
    "given_importance": None,
    "stale": True,
}
"""What is derived from turns, as it is in a topic that was reset."""
