"""S2, Memory System: MemoryAgent, its configuration, and what lies in MongoDB and in ChromaDB."""

from typing import Any

import pytest

from memory_agent import MemoryConfig
from tests.documents.frame import says


@pytest.mark.parametrize(
    ("name", "value"),
    [
        pytest.param(name, value, marks=says("S2", f"{name}: {kind} = "))
        for name, kind, value in [
            ("short_term_window", "int", 10),
            ("memory_collection_prefix", "str", "memory"),
            ("top_k_memories", "int", 5),
            ("enable_fact_extraction", "bool", True),
            ("fact_extraction_model", "str", "gpt-4o-mini"),
            ("use_local_embeddings", "bool", True),
            ("local_embedding_model", "str", "all-MiniLM-L6-v2"),
        ]
    ],
)
def test_a_default_is_that_of_the_document(name: str, value: Any) -> None:
    assert getattr(MemoryConfig(), name) == value
