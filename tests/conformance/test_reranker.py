"""`Reranker`, over every adapter."""

from __future__ import annotations

import asyncio
import json
import re
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from memory_agent.errors import RerankerUnavailable
from memory_agent.models.cross_encoder import CrossEncoderReranker
from memory_agent.models.llm_reranker import LLMReranker
from memory_agent.models.openai import OpenAIChat
from memory_agent.ports import Reranker
from memory_agent.testing import WordOverlapReranker
from tests.profiles import with_torch
from tests.unit.models.local.cross_encoders import make_cross_encoder

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from tests.servers.openai_script import ScriptedOpenAI

QUERY = "What is my dog called?"
TEXTS = [
    "We bought a bicycle.",
    "My dog is called Biscuit.",
    "",
    "저는 서울에 살고 있어요. 🎉",
    "word " * 3_000,
    "dog",
]


@pytest.fixture(scope="session")
def cross_encoder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_cross_encoder(tmp_path_factory.mktemp("cross") / "encoder")


def by_shared_words(request: dict[str, Any]) -> str:
    """A chat model that orders candidates by the question's words in them."""
    said = request["messages"][1]["content"]
    asked = set(re.findall(r"\w+", said.partition("</question>")[0].lower()))
    shown = re.findall(r'<candidate number="(\d+)">\n(.*?)\n</candidate>', said, re.DOTALL)
    shared = {int(number): len(asked & set(re.findall(r"\w+", text.lower()))) for number, text in shown}
    return json.dumps({"order": sorted(shared, key=lambda number: -shared[number])})


KINDS = ["cross-encoder"] if with_torch() else ["llm", "words"]


@pytest.fixture(params=KINDS)
async def reranker(request: pytest.FixtureRequest, openai_server: ScriptedOpenAI) -> AsyncIterator[Reranker]:
    openai_server.answer = by_shared_words
    chat = OpenAIChat("scripted", base_url=openai_server.base_url, max_retries=0)
    made: Reranker
    if request.param == "cross-encoder":
        made = CrossEncoderReranker(str(request.getfixturevalue("cross_encoder")))
    else:
        made = LLMReranker(chat) if request.param == "llm" else WordOverlapReranker()
    yield made
    await made.close()
    await chat.close()


async def test_each_text_has_a_score(reranker: Reranker) -> None:
    """One finite float32 per text, in the order of the texts, empty, long and doubled ones included; none for none."""
    assert isinstance(reranker, Reranker)
    for texts in ([*TEXTS, TEXTS[0]], []):
        scores = await reranker.rerank(QUERY, texts)
        assert scores.dtype == np.float32
        assert scores.shape == (len(texts),)
        assert np.isfinite(scores).all()


@pytest.mark.parametrize("reranker", ["llm", "words"], indirect=True)
async def test_the_better_text_scores_higher(reranker: Reranker) -> None:
    """Whichever place it has in the list. (The cross-encoder here has random weights; its own tests compare it.)"""
    for texts in (TEXTS[:3], TEXTS[2::-1]):
        scores = await reranker.rerank(QUERY, texts)
        assert texts[int(np.argmax(scores))] == TEXTS[1]


@pytest.mark.parametrize("reranker", [kind for kind in KINDS if kind != "llm"], indirect=True)
async def test_a_texts_score_does_not_depend_on_the_others(reranker: Reranker) -> None:
    """Where each pair is looked at alone; a language model orders what it sees together."""
    together = await reranker.rerank(QUERY, TEXTS)
    alone = [(await reranker.rerank(QUERY, [text]))[0] for text in TEXTS]
    assert together == pytest.approx(np.array(alone), abs=1e-4)


async def test_concurrent_calls_get_their_own_scores(reranker: Reranker) -> None:
    """Calls with different questions and texts do not mix."""
    calls = [(f"{QUERY} {n}", [f"text {n}", *TEXTS[: n % 4], "my dog"]) for n in range(8)]
    together = await asyncio.gather(*(reranker.rerank(query, texts) for query, texts in calls))
    for (query, texts), scores in zip(calls, together, strict=True):
        assert scores == pytest.approx(await reranker.rerank(query, texts), abs=1e-4)


async def test_closing_is_final_and_idempotent(reranker: Reranker) -> None:
    """close() can be repeated, also before anything was scored; scoring afterwards is refused."""
    await reranker.close()
    await reranker.close()
    with pytest.raises(RerankerUnavailable, match="closed"):
        await reranker.rerank(QUERY, TEXTS)
