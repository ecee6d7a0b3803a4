"""`Embedder`, over every adapter."""

from __future__ import annotations

import asyncio
import re
from typing import TYPE_CHECKING

import numpy as np
import pytest

from memory_agent.errors import EmbedderUnavailable
from memory_agent.models.local.choose import Wanted
from memory_agent.models.local.embedder import LocalEmbedder
from memory_agent.models.openai import OpenAIEmbedder
from memory_agent.testing import HashEmbedder

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from memory_agent.ports import Embedder
    from tests.servers.openai_script import ScriptedOpenAI

TEXTS = [
    "I moved to Lisbon in March.",
    "My dog is called Biscuit.",
    "x",
    "저는 서울에 살고 있어요.",
    "def add(a, b):\n    return a + b",
    "The quarterly report is due on Friday, and nobody has started on it yet. " * 8,
    "👩‍👩‍👧 🎉",
]


LOCAL = {
    "onnx": ("shared_embedder", Wanted(model="all-MiniLM-L6-v2", backend="onnx")),
    "onnx-int8": ("int8_embedder", Wanted(model="all-MiniLM-L6-v2", backend="onnx", precision="int8")),
    "torch": ("torch_embedder", Wanted(model="all-MiniLM-L6-v2", backend="torch")),
}
"""The loaded one that tests share, and how to make a fresh one that has loaded nothing."""


@pytest.fixture(params=[*LOCAL, "openai", "hash"])
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def make_embedder(kind: str, openai_server: ScriptedOpenAI) -> Callable[[], Embedder]:
    """A fresh embedder that has loaded nothing yet."""
    if kind in LOCAL:
        return lambda: LocalEmbedder(LOCAL[kind][1])
    if kind == "openai":
        return lambda: OpenAIEmbedder("scripted", base_url=openai_server.base_url, cache_size=0)
    return HashEmbedder


@pytest.fixture
async def embedder(
    kind: str, make_embedder: Callable[[], Embedder], request: pytest.FixtureRequest
) -> AsyncIterator[Embedder]:
    if kind in LOCAL:
        shared: LocalEmbedder = request.getfixturevalue(LOCAL[kind][0])
        yield shared
        return
    embedder = make_embedder()
    yield embedder
    await embedder.close()


async def test_vectors_are_unit_rows_in_order(embedder: Embedder) -> None:
    """One float32 row of length 1 per text, in the order of the texts, doubles included."""
    texts = [*TEXTS, TEXTS[0]]
    vectors = await embedder.embed(texts, purpose="document")
    assert vectors.dtype == np.float32
    assert vectors.shape[0] == len(texts)
    assert np.linalg.norm(vectors, axis=1) == pytest.approx(np.ones(len(texts)), abs=1e-5)
    alone = [await embedder.embed([text], purpose="document") for text in texts]
    assert vectors == pytest.approx(np.concatenate(alone), abs=1e-5)
    assert not np.allclose(vectors[0], vectors[1], atol=0.05)


async def test_the_purpose_does_not_change_a_vector(embedder: Embedder) -> None:
    """A text has the same vector as a question and as a document, so it can be reused."""
    as_query = await embedder.embed(TEXTS, purpose="query")
    assert await embedder.embed(TEXTS, purpose="document") == pytest.approx(as_query, abs=1e-5)


async def test_near_in_meaning_is_near_in_cosine(embedder: Embedder) -> None:
    """A text that shares a subject and words with a question is nearer than one about something else."""
    query, near, far = await embedder.embed(
        ["what is my dog called?", "my dog is called Biscuit", "the stock market fell on Tuesday"],
        purpose="document",
    )
    assert query @ near > query @ far + 0.2


@pytest.mark.parametrize("text", ["", " ", "\n\t", "\u200b", "a" * 20_000], ids=repr)
async def test_odd_texts_have_vectors(embedder: Embedder, text: str) -> None:
    """Empty, blank and monstrous texts are embedded like any other."""
    for one in await embedder.split(text):
        (vector,) = await embedder.embed([one], purpose="document")
        assert np.linalg.norm(vector) == pytest.approx(1, abs=1e-5)


async def test_no_texts_give_no_vectors(embedder: Embedder) -> None:
    """An empty list gives an array of no rows."""
    vectors = await embedder.embed([], purpose="document")
    assert vectors.ndim == 2
    assert len(vectors) == 0
    assert vectors.dtype == np.float32


async def test_concurrent_calls_get_their_own_vectors(embedder: Embedder) -> None:
    """Calls that share batches, and texts, each get what a call alone would."""
    calls = [[f"text {n}", "shared by all", f"text {n + 1}"] for n in range(20)]
    together = await asyncio.gather(
        *(embedder.embed(c, purpose="query" if n % 2 else "document") for n, c in enumerate(calls))
    )
    for call, vectors in zip(calls, together, strict=True):
        assert vectors == pytest.approx(await embedder.embed(call, purpose="document"), abs=1e-5)


async def test_a_cancelled_call_leaves_the_others_alone(embedder: Embedder) -> None:
    """Cancelling one of several calls for the same texts cancels only that one."""
    calls = [asyncio.create_task(embedder.embed(TEXTS, purpose="document")) for _ in range(3)]
    await asyncio.sleep(0)
    calls[0].cancel()
    first, second = await asyncio.gather(*calls[1:])
    assert first == pytest.approx(second)


async def test_a_text_that_fits_is_its_own_passage(embedder: Embedder) -> None:
    """Short texts are not cut, not even trimmed."""
    for text in [*TEXTS, "", "  spaced  ", "\n"]:
        assert await embedder.split(text) == [text]


async def test_nothing_of_a_long_text_is_lost(embedder: Embedder) -> None:
    """Passages of a long text are parts of it, in order, and cover every character."""
    text = " ".join(f"Sentence {n} tells of item{n} and 물건{n}." for n in range(600)) + "\n\n" + "é" * 900
    passages = await embedder.split(text)
    assert len(passages) > 1
    covered = 0
    for passage in passages:
        begin = text.index(passage, max(0, covered - len(passage)))
        assert begin <= covered
        covered = max(covered, begin + len(passage))
    assert covered == len(text)


async def test_the_end_of_a_long_turn_is_found(embedder: Embedder) -> None:
    """What is said last in a turn of 3,000 words is found, though no model reads so far."""
    filler = "The meeting went on about budgets, schedules and the colour of the new office walls. " * 200
    needle = "By the way, the brass key is hidden under the blue flowerpot."
    passages = await embedder.split(filler + needle)
    vectors = await embedder.embed(passages, purpose="document")
    (query,) = await embedder.embed(["where is the brass key hidden, under the flowerpot?"], purpose="query")
    assert "flowerpot" in passages[int(np.argmax(vectors @ query))]


async def test_the_fingerprint_is_stable(embedder: Embedder, make_embedder: Callable[[], Embedder]) -> None:
    """8 to 16 of [a-z0-9], equal for another instance of the same model."""
    assert re.fullmatch(r"[a-z0-9]{8,16}", embedder.fingerprint)
    assert make_embedder().fingerprint == embedder.fingerprint


async def test_clearing_the_cache_changes_no_vector(embedder: Embedder) -> None:
    """clear_cache() may be called at any time, also while a call is under way."""
    call = asyncio.create_task(embedder.embed(TEXTS, purpose="document"))
    await asyncio.sleep(0)
    embedder.clear_cache()
    embedder.clear_cache()
    assert await call == pytest.approx(await embedder.embed(TEXTS, purpose="document"), abs=1e-5)


async def test_closing_is_final_and_idempotent(make_embedder: Callable[[], Embedder]) -> None:
    """close() can be repeated, also before anything was embedded; embedding afterwards is refused."""
    embedder = make_embedder()
    await embedder.close()
    await embedder.close()
    with pytest.raises(EmbedderUnavailable, match="closed"):
        await embedder.embed(["text"], purpose="query")
