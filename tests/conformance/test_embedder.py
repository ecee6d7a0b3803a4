"""`Embedder`, over every adapter."""

import asyncio
import re
from collections.abc import Callable

import numpy as np
import pytest

from memory_agent.errors import EmbedderUnavailable
from memory_agent.ports import Embedder

TEXTS = [
    "I moved to Lisbon in March.",
    "My dog is called Biscuit.",
    "x",
    "저는 서울에 살고 있어요.",
    "def add(a, b):\n    return a + b",
    "The quarterly report is due on Friday, and nobody has started on it yet. " * 8,
    "👩‍👩‍👧 🎉",
]


async def test_vectors_are_unit_rows_in_order(embedder: Embedder) -> None:
    """One float32 row of length 1 per text, in the order of the texts, doubles included; no rows for no texts.

    A text has the same vector alone, as a question and as a document, so it can be reused.
    """
    texts = [*TEXTS, TEXTS[0]]
    vectors = await embedder.embed(texts, purpose="document")
    nothing = await embedder.embed([], purpose="document")
    assert vectors.dtype == nothing.dtype == np.float32
    assert (len(vectors), len(nothing), nothing.ndim) == (len(texts), 0, 2)
    assert np.linalg.norm(vectors, axis=1) == pytest.approx(np.ones(len(texts)), abs=1e-5)
    alone = [await embedder.embed([text], purpose="query") for text in texts]
    assert vectors == pytest.approx(np.concatenate(alone), abs=1e-5)
    assert not np.allclose(vectors[0], vectors[1], atol=0.05)


async def test_near_in_meaning_is_near_in_cosine(embedder: Embedder) -> None:
    """A text that shares a subject and words with a question is nearer than one about something else."""
    query, near, far = await embedder.embed(
        ["what is my dog called?", "my dog is called Biscuit", "the stock market fell on Tuesday"],
        purpose="document",
    )
    assert query @ near > query @ far + 0.2


async def test_odd_texts_have_vectors(embedder: Embedder) -> None:
    """Empty, blank and monstrous texts are embedded like any other."""
    for text in ("", " ", "\n\t", "\u200b", "a" * 5_000):
        for one in {*await embedder.split(text)}:
            (vector,) = await embedder.embed([one], purpose="document")
            assert np.linalg.norm(vector) == pytest.approx(1, abs=1e-5), text


async def test_concurrent_calls_get_their_own_vectors(embedder: Embedder) -> None:
    """Calls that share batches, and texts, each get what a call alone would; cancelling one cancels only that one.

    clear_cache() may be called at any time, also while a call is under way.
    """
    calls = [[f"text {n}", "shared by all", f"text {n + 1}"] for n in range(20)]
    doomed = asyncio.create_task(embedder.embed(calls[0], purpose="document"))
    begun = [
        asyncio.create_task(embedder.embed(c, purpose="query" if n % 2 else "document"))
        for n, c in enumerate(calls)
    ]
    await asyncio.sleep(0)
    doomed.cancel()
    embedder.clear_cache()
    embedder.clear_cache()
    for call, vectors in zip(calls, await asyncio.gather(*begun), strict=True):
        assert vectors == pytest.approx(await embedder.embed(call, purpose="document"), abs=1e-5)


async def test_nothing_of_a_long_text_is_lost(embedder: Embedder) -> None:
    """Passages are parts of it, in order, and cover every character; short texts are not cut, not even trimmed."""
    for short in [*TEXTS, "", "  spaced  ", "\n"]:
        assert await embedder.split(short) == [short]
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
    """What is said last in a turn of 900 words is found, though no model reads so far."""
    filler = "The meeting went on about budgets, schedules and the colour of the new office walls. " * 60
    needle = "By the way, the brass key is hidden under the blue flowerpot."
    passages = await embedder.split(filler + needle)
    vectors = await embedder.embed(passages, purpose="document")
    (query,) = await embedder.embed(["where is the brass key hidden, under the flowerpot?"], purpose="query")
    assert "flowerpot" in passages[int(np.argmax(vectors @ query))]


async def test_the_fingerprint_is_stable(embedder: Embedder, make_embedder: Callable[[], Embedder]) -> None:
    """8 to 16 of [a-z0-9], equal for another instance of the same model."""
    assert re.fullmatch(r"[a-z0-9]{8,16}", embedder.fingerprint)
    assert make_embedder().fingerprint == embedder.fingerprint


async def test_closing_is_final_and_idempotent(make_embedder: Callable[[], Embedder]) -> None:
    """close() can be repeated, also before anything was embedded; embedding afterwards is refused."""
    embedder = make_embedder()
    await embedder.close()
    await embedder.close()
    with pytest.raises(EmbedderUnavailable, match="closed"):
        await embedder.embed(["text"], purpose="query")
    with pytest.raises(EmbedderUnavailable, match="closed"):
        await embedder.embed_tokens(["text"], purpose="query")
