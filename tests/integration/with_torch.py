"""Search with a real cross-encoder. Run by tests/unit/models/test_apart.py, as all that needs torch."""

from __future__ import annotations

from typing import TYPE_CHECKING

from memory_agent.models.cross_encoder import CrossEncoderReranker
from tests.integration.conversations import settings_on
from tests.integration.test_search import DETAIL_ALONE, NAME_OF_PET, ranking
from tests.unit.models.local.cross_encoders import make_cross_encoder

if TYPE_CHECKING:
    from pathlib import Path

    import pytest


async def test_a_cross_encoder_orders_what_was_found(request: pytest.FixtureRequest, tmp_path: Path) -> None:
    """A real, tiny model out of a folder: with its signal alone, the order is that of its scores."""
    model = str(make_cross_encoder(tmp_path / "encoder"))
    found, degraded = await ranking(
        settings_on("sqlite", request, tmp_path),
        second_stage="cross_encoder",
        cross_encoder_model=model,
        second_stage_seconds=120,
        search_weights=DETAIL_ALONE,
    )
    assert degraded == ()
    reranker = CrossEncoderReranker(model)
    lines = [f"{one.turn.speaker}: {one.text}" for one in found]
    scores = (await reranker.rerank(NAME_OF_PET, lines)).tolist()
    await reranker.close()
    assert len(set(scores)) == len(scores)
    assert scores == sorted(scores, reverse=True)
