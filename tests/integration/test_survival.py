"""What survives compression, in scripted conversations with marked facts, decisions and code.

The conversations and marks are those of `python -m benchmarks.conversations`, which prints the figures in the docs.
"""

from __future__ import annotations

import pytest

from benchmarks.conversations import Conversation, survival
from memory_agent.testing import HashEmbedder
from tests import profiles


@pytest.mark.parametrize(
    ("name", "least"),
    profiles.by_day(("korean", 0.65), ("job_loss", 0.6), ("musician", 0.65), ("coding", 0.5)),
)
async def test_most_marks_survive_in_half_the_tokens(name: str, least: float) -> None:
    """Nine of ten with a model that summarises (scripted), far more than the last turns hold; without one at least some."""
    for llm, wanted in ((True, 0.9), (False, least)):
        found = await survival(Conversation(name), llm=llm, embedder=HashEmbedder())
        assert found["share_of_tokens"] < (
            0.5 if found["turns"] >= 60 else 0.9
        )  # the last ten turns are always shown
        assert found["marks"] >= wanted, f"lost: {found['missing']}"
        assert found["turns"] < 60 or found["marks"] > found["last_turns_alone"]["marks"]


async def test_the_scorer_notices_what_is_missing() -> None:
    """A mark that is nowhere said lowers the figures."""
    conversation = Conversation("job_loss")
    conversation.marks.append(
        {"id": "planted", "kind": "fact", "what": "never said", "any_of": [["xylophone of Ulm"]]}
    )
    found = await survival(conversation, llm=True, embedder=HashEmbedder())
    assert "planted" in found["missing"]
    assert found["marks"] < 1
