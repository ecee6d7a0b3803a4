"""Late interaction against cases worked out by hand."""

import re
from collections.abc import Mapping, Sequence
from typing import Literal, cast

import numpy as np
import pytest
from numpy.typing import NDArray

from memory_agent.domain import TokenVectors
from memory_agent.errors import EmbedderUnavailable
from memory_agent.ports import DocumentStore
from memory_agent.search.fusion import inverse_document_frequency
from memory_agent.search.late_interaction import (
    BESIDE,
    LateInteraction,
    Shortlist,
    detail,
    packed,
    token_matches,
    token_weights,
)
from memory_agent.search.postings import CollectionStatistics
from memory_agent.testing import HashEmbedder

Floats = NDArray[np.float32]

STATISTICS = CollectionStatistics(rows=100, mean_length=5, frequency={"cat": 10, "adopt": 1})


def words_of(text: str) -> TokenVectors:
    """A token for each word and sign of `text`; words of more than five letters are two."""
    spans = [match.span() for match in re.finditer(r"\w{1,5}|[^\w\s]", text)]
    array = np.array(spans, dtype=np.int32).reshape(len(spans), 2)
    return TokenVectors(spans=array, vectors=np.zeros((len(spans), 2), dtype=np.float32))


def weights_of(text: str, *, without: tuple[str, ...] = ()) -> list[float]:
    """The weight of each token of `text`."""
    weights = token_weights(text, words_of(text), STATISTICS, language="english", without=without)
    return [float(weight) for weight in weights]


def test_each_token_takes_its_best_match() -> None:
    question = TokenVectors(spans=np.zeros((2, 2), np.int32), vectors=np.eye(2, dtype=np.float16))
    turns = [[[0.6, 0.8], [1, 0]], [[-1, 0]], [], [[0, 1]]]
    codes = [packed(np.array(turn, dtype=np.float32).reshape(-1, 2)) for turn in turns]
    codes[2:3] = [b"", packed(np.zeros((0, 2), dtype=np.float32))]
    expected = np.array([[1, 0.8], [0, 0], [0, 0], [0, 0], [0, 1]])
    assert token_matches(question, codes) == pytest.approx(expected, abs=0.3)
    nothing = TokenVectors(spans=np.zeros((0, 2), np.int32), vectors=np.zeros((0, 2), np.float16))
    assert token_matches(nothing, codes).shape == (5, 0)


def test_a_token_counts_as_its_word_is_rare() -> None:
    """All tokens of a word have the idf of the word's term; a word that nobody said counts most."""
    rare, common = (inverse_document_frequency(100, frequency) for frequency in (1, 10))
    unheard = inverse_document_frequency(100, 0)
    # adopt|ed cats, zebra|s
    assert weights_of("adopted cats zebras") == pytest.approx([rare, rare, common, unheard, unheard])
    assert rare > common > 0


def test_function_words_and_signs_weigh_nothing() -> None:
    """What every question has tells no turn from another; a sign counts as part of its word."""
    assert weights_of("when did the") == [0, 0, 0]
    assert weights_of("? !") == [0, 0]
    common = inverse_document_frequency(100, 10)
    assert weights_of("the cat?") == pytest.approx([0, common, common])


def test_names_weigh_nothing() -> None:
    """Who spoke stands for the persons of a question, also in a possessive and in small letters."""
    common = inverse_document_frequency(100, 10)
    assert weights_of("Ann cat", without=("Ann Lee",)) == pytest.approx([0, common])
    assert weights_of("ann's cat", without=("Ann",))[-1] == pytest.approx(common)
    assert sum(weights_of("ann's", without=("Ann",))) == 0
    assert weights_of("Ann cat")[0] > 0


def test_what_is_found_beside_a_turn_counts_nearly_as_much() -> None:
    """The better of the turn itself and the turns before and after, those a little less."""
    matches = np.array([[1, 0], [0.2, 0.95], [0, 0.5]], dtype=np.float32)
    before, after = np.array([-1, 0, 1]), np.array([1, 2, -1])
    got = detail(matches, np.array([1, 1], dtype=np.float32), before, after)
    expected = [(1 + 0.95 * BESIDE) / 2, (1 * BESIDE + 0.95) / 2, (0.2 * BESIDE + 0.95 * BESIDE) / 2]
    assert got.tolist() == pytest.approx(expected)


# --- a shortlist ---------------------------------------------------------------------------------------------
class Kept:
    """The tokens that a store keeps of one user's turns."""

    def __init__(self, texts: Mapping[str, str], embedder: HashEmbedder) -> None:
        self._codes = {
            turn_id: packed(embedder._tokens(text).vectors) for turn_id, text in texts.items() if text
        }
        self._embedder = embedder.fingerprint

    async def token_codes(self, user_id: str, ids: Sequence[str], *, embedder: str) -> dict[str, bytes]:
        assert user_id == "ann"
        return {i: self._codes[i] for i in ids if i in self._codes and embedder == self._embedder}


async def scores_of(query: str, *texts: str, names: Sequence[str] = (), **by: HashEmbedder) -> Floats | None:
    """What is said of turns of these texts, the second right behind the first; no text: its tokens weren't kept."""
    embedder = by.get("embedder", HashEmbedder())
    ids = [f"turn {n}" for n in range(len(texts))]
    store = Kept(dict(zip(ids, texts, strict=True)), by.get("made", embedder))
    after, before = (np.full(len(ids), -1, dtype=np.intp) for _ in range(2))
    after[:1], before[1:2] = 1, 0
    shortlist = Shortlist(
        query=query,
        names=names,
        statistics=CollectionStatistics(rows=100, mean_length=5, frequency={}),
        user_id="ann",
        turn_ids=ids,
        before=before,
        after=after,
    )
    late = LateInteraction(cast("DocumentStore", store), embedder, language="english")
    return await late.score(shortlist)


async def test_turns_with_the_questions_words_come_first() -> None:
    """Words that say something, not the name of whom it is about nor function words; the turn next to it nearly as high."""
    said = ["When did the rain stop for Ann?", "Hello", "She adopted Felix"]
    scores = await scores_of("When did Ann adopted the Felix?", *said, names=["Ann"])
    assert scores is not None
    assert scores.tolist() == pytest.approx([0, 0, scores[2]], abs=0.1)
    beside = await scores_of("Felix?", "Felix", "Yes!", "No!")
    assert beside is not None
    assert beside.tolist() == pytest.approx([scores[2], BESIDE * scores[2], 0], abs=0.1)
    assert scores[2] > 0.2


async def test_a_turn_whose_tokens_were_not_kept_is_unknown() -> None:
    """NaN; nothing is said where that is so of half of them, or of all, as of those that another model made."""
    scores = await scores_of("Felix?", "Felix", "Felix", "")
    assert scores is not None
    assert np.isnan(scores).tolist() == [False, False, True]
    assert await scores_of("Felix?", "Felix", "") is None
    assert await scores_of("Felix?", "Felix", made=HashEmbedder(seed="another")) is None


async def test_an_embedder_without_tokens_or_away_says_nothing() -> None:
    class Tokenless(HashEmbedder):
        async def embed_tokens(
            self, texts: Sequence[str], *, purpose: Literal["query", "document"]
        ) -> list[TokenVectors] | None:
            return None

    away = HashEmbedder()
    away.fail = EmbedderUnavailable("gone")
    for embedder in (Tokenless(), away):
        assert await scores_of("Felix?", "Felix", embedder=embedder) is None
