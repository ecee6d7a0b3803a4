"""`Embedder.embed_tokens`, over the adapters that have vectors of tokens, and over those that say that they have none."""

import asyncio
import unicodedata
from collections.abc import Sequence

import numpy as np
import pytest

from memory_agent.domain import TokenVectors
from memory_agent.models.local.embedder import LocalEmbedder
from memory_agent.models.local.onnx import open_tokenizer
from memory_agent.ports import Embedder
from tests.conformance.embedders import KINDS, LOCAL, TOKENLESS
from tests.conformance.test_embedder import TEXTS
from tests.servers.openai_script import ScriptedOpenAI


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
