"""S3, Memory System Documentation: the strategy that chooses what a model sees of a history."""

from memory_agent import HybridMemoryStrategy
from tests.documents.frame import says


@says("S3", 'return [("human", new_prompt)]', better="s3-roles")
async def test_an_empty_history_gives_the_prompt_alone() -> None:
    assert await HybridMemoryStrategy().prepare_context([], "Explain functions") == [
        ("user", "Explain functions")
    ]
