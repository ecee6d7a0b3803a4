"""What an open service keeps of texts in memory, and when it lets go of it."""

from __future__ import annotations

from typing import TYPE_CHECKING
from unittest.mock import MagicMock

import pytest

from memory_agent.parts import Parts
from memory_agent.recall import terms
from memory_agent.recall.terms import count_terms

if TYPE_CHECKING:
    from collections.abc import Callable


@pytest.mark.parametrize(
    "let_go",
    [lambda parts: Parts._drop_caches(parts, "u"), Parts.housekeep],
    ids=["something was forgotten", "now and then"],
)
def test_stemmed_words_leave_memory(let_go: Callable[[Parts], None]) -> None:
    """They are words of turns, and may be names."""
    count_terms("Zbigniew lives in Bergen")
    let_go(
        MagicMock(
            spec=Parts, live=MagicMock(), residents=MagicMock(), searcher=MagicMock(), embedder=MagicMock()
        )
    )
    assert terms._stem.cache_info().currsize == 0
