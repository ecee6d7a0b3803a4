"""How concurrent calls become batches."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

import numpy as np
import pytest

from memory_agent.errors import EmbedderError, EmbedderUnavailable
from memory_agent.models.batching import BatchingEmbedder, BatchLimits
from memory_agent.models.token_vectors import TOKEN_CACHE_BYTES, token_vectors

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Coroutine, Sequence

    from numpy.typing import NDArray

    from memory_agent.domain import TokenVectors

T = TypeVar("T")
FOURS = BatchLimits(texts=4)


class Recorder(BatchingEmbedder):
    """Encodes when `gate` is open, keeps the batches, and chokes on the text "bad"."""

    def __init__(
        self,
        limits: BatchLimits = FOURS,
        *,
        cache_size: int = 100,
        token_cache_bytes: int = TOKEN_CACHE_BYTES,
    ) -> None:
        super().__init__(limits, cache_size=cache_size, token_cache_bytes=token_cache_bytes)
        self.gate = asyncio.Event()
        self.gate.set()
        self.batches: list[list[str]] = []
        self.down = False
        self.released = 0

    async def _encode(self, texts: Sequence[str]) -> NDArray[np.float32]:
        self.batches.append(list(texts))
        await self.gate.wait()
        if self.down:
            raise EmbedderUnavailable("down")
        if "bad" in texts:
            raise EmbedderError("a bad text")
        if "bug" in texts:
            raise ZeroDivisionError("a bug")
        return np.array([[1.0, len(text), *map(ord, text[:1])] for text in texts], dtype=np.float32)

    async def _dimension(self) -> int:
        return 3

    async def _release(self) -> None:
        self.released += 1


@pytest.fixture
async def embedder() -> AsyncIterator[Recorder]:
    embedder = Recorder()
    yield embedder
    embedder.gate.set()
    await embedder.close()


async def begun(call: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
    """The call, as far as it comes by itself."""
    task = asyncio.create_task(call)
    await asyncio.sleep(0.01)
    return task


async def test_what_arrives_during_a_batch_forms_the_next(embedder: Recorder) -> None:
    """Ten calls while one batch runs need three more batches of four, not ten."""
    embedder.gate.clear()
    first = await begun(embedder.embed(["first"], purpose="query"))
    rest = [asyncio.create_task(embedder.embed([f"q{n}"], purpose="query")) for n in range(10)]
    await asyncio.sleep(0.01)
    embedder.gate.set()
    await asyncio.gather(first, *rest)
    assert [len(batch) for batch in embedder.batches] == [1, 4, 4, 2]


async def test_calls_of_one_moment_share_a_batch(embedder: Recorder) -> None:
    """Calls that start together are encoded together, without waiting for anything."""
    await asyncio.gather(*(embedder.embed([f"q{n}"], purpose="query") for n in range(4)))
    assert len(embedder.batches) == 1


async def test_a_question_waits_for_one_batch_at_most(embedder: Recorder) -> None:
    """A question that arrives behind a hundred documents is in the very next batch."""
    embedder.gate.clear()
    bulk = await begun(embedder.embed([f"document {n}" for n in range(100)], purpose="document"))
    query = await begun(embedder.embed(["question"], purpose="query"))
    embedder.gate.set()
    await query
    assert embedder.batches[1] == ["question"]
    assert len(embedder.batches) < 5
    await bulk
    assert max(len(batch) for batch in embedder.batches) == 4


async def test_a_document_that_is_asked_for_becomes_a_question(embedder: Recorder) -> None:
    """A text waiting as a document moves up when a question needs the same."""
    embedder.gate.clear()
    bulk = await begun(embedder.embed([f"document {n}" for n in range(40)], purpose="document"))
    query = await begun(embedder.embed(["document 9"], purpose="query"))
    embedder.gate.set()
    await asyncio.gather(bulk, query)
    assert sum(batch.count("document 9") for batch in embedder.batches) == 1
    assert "document 9" in embedder.batches[0] + embedder.batches[1]


async def test_texts_of_like_length_share_a_batch(embedder: Recorder) -> None:
    """Within a list, long texts go with long ones, and the order of the result is that of the list."""
    texts = ["a" * n for n in (1, 50, 2, 51, 3, 52, 4, 53)]
    vectors = await embedder.embed(texts, purpose="document")
    assert [sorted(map(len, batch)) for batch in embedder.batches] == [[50, 51, 52, 53], [1, 2, 3, 4]]
    assert (vectors[:, 1] / vectors[:, 0]).tolist() == pytest.approx([len(text) for text in texts], rel=1e-4)


async def test_a_question_does_not_wait_for_documents(embedder: Recorder) -> None:
    """Questions have a lane of their own: theirs is begun while a batch of documents is still being encoded."""
    embedder.gate.clear()
    bulk = await begun(embedder.embed([f"document {n}" for n in range(20)], purpose="document"))
    query = await begun(embedder.embed(["question"], purpose="query"))
    assert [len(batch) for batch in embedder.batches] == [4, 1]
    assert embedder.batches[1] == ["question"]
    embedder.gate.set()
    await asyncio.gather(bulk, query)


async def test_documents_are_not_starved_by_questions(embedder: Recorder) -> None:
    """While questions never stop coming, documents are encoded all the same."""
    bulk = asyncio.create_task(embedder.embed([f"document {n}" for n in range(40)], purpose="document"))
    asked = 0
    while not bulk.done():
        asked += 1
        assert asked < 1_000
        await embedder.embed([f"question {asked}"], purpose="query")
    assert (await bulk).shape == (40, 3)


async def test_documents_use_all_lanes_unless_questions_come(monkeypatch: pytest.MonkeyPatch) -> None:
    """Three lanes of documents run side by side; for a while after a question two do, and then three again."""
    monkeypatch.setattr("memory_agent.models.batching.QUESTION_SECONDS", 0.2)
    embedder = Recorder(BatchLimits(texts=1, document_lanes=3))

    async def lanes_in_use(word: str) -> int:
        embedder.batches.clear()
        embedder.gate.clear()
        bulk = await begun(embedder.embed([f"{word} {n}" for n in range(9)], purpose="document"))
        running = len(embedder.batches)
        embedder.gate.set()
        await bulk
        return running

    assert await lanes_in_use("before") == 3
    await embedder.embed(["question"], purpose="query")
    assert await lanes_in_use("during") == 2
    await asyncio.sleep(0.2)
    assert await lanes_in_use("after") == 3
    await embedder.close()


async def test_a_lane_ends_when_a_question_comes_and_is_started_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Lanes that run already give way after the batch in hand, and come back within the same bulk."""
    monkeypatch.setattr("memory_agent.models.batching.QUESTION_SECONDS", 0.05)

    class Paced(Recorder):
        running = most = least = 0

        async def _encode(self, texts: Sequence[str]) -> NDArray[np.float32]:
            self.running += 1
            self.seen.append((texts[0], self.running))
            await asyncio.sleep(0.005)
            self.running -= 1
            return await super()._encode(texts)

        seen: list[tuple[str, int]]

    embedder = Paced(BatchLimits(texts=1, document_lanes=2))
    embedder.seen = []
    bulk = asyncio.create_task(embedder.embed([f"document {n:02}" for n in range(60)], purpose="document"))
    await asyncio.sleep(0.03)
    await embedder.embed(["question"], purpose="query")
    asked = next(i for i, (text, _) in enumerate(embedder.seen) if text == "question")
    await bulk
    running = [count for text, count in embedder.seen if text.startswith("document")]
    assert max(running[:asked]) == 2
    assert running[asked + 2 : asked + 5] == [1, 1, 1]
    assert max(running[asked + 5 :]) == 2
    await embedder.close()


async def test_a_batch_has_no_more_characters_than_allowed() -> None:
    """Long texts make batches of few texts; a text that is longer than a batch has one for itself."""
    embedder = Recorder(BatchLimits(texts=4, chars=100))
    texts = ["a" * 150, "b" * 60, "c" * 50, "d" * 40, "e" * 9, "f" * 8, "g" * 7, "h" * 6, "i" * 5]
    await embedder.embed(texts, purpose="document")
    assert [[len(text) for text in batch] for batch in embedder.batches] == [
        [150],
        [60],
        [50, 40, 9],
        [8, 7, 6, 5],
    ]
    await embedder.close()


async def test_a_known_text_is_not_encoded_again(embedder: Recorder) -> None:
    """The vector of a fetch's question serves the update that follows."""
    first = await embedder.embed(["hello"], purpose="query")
    again = await embedder.embed(["hello", "hello"], purpose="document")
    assert embedder.batches == [["hello"]]
    assert np.array_equal(again, np.concatenate([first, first]))


async def test_a_callers_changes_stay_his_own(embedder: Recorder) -> None:
    """Writing into a returned array does not change what others get."""
    first = await embedder.embed(["hello"], purpose="query")
    before = first.copy()
    first[:] = 0
    assert np.array_equal(await embedder.embed(["hello"], purpose="query"), before)


async def test_the_cache_keeps_what_was_used_last() -> None:
    """With room for two, the third pushes out the one not used for longest; with room for none, nothing is kept."""
    embedder = Recorder(cache_size=2)
    for text in ("a", "b", "a", "c", "a", "b"):
        await embedder.embed([text], purpose="query")
    assert embedder.batches == [["a"], ["b"], ["c"], ["b"]]
    none = Recorder(cache_size=0)
    for text in ("a", "a"):
        await none.embed([text], purpose="query")
    assert none.batches == [["a"], ["a"]]


async def test_a_cleared_cache_keeps_nothing(embedder: Recorder) -> None:
    """After clear_cache() known texts are encoded again, also those that were in flight then."""
    await embedder.embed(["known"], purpose="query")
    embedder.gate.clear()
    in_flight = await begun(embedder.embed(["in flight"], purpose="query"))
    embedder.clear_cache()
    embedder.gate.set()
    await in_flight
    await embedder.embed(["known", "in flight"], purpose="query")
    assert embedder.batches == [["known"], ["in flight"], ["in flight", "known"]]


async def test_a_text_in_flight_is_encoded_once(embedder: Recorder) -> None:
    """Several calls for one text wait for the same encoding."""
    vectors = await asyncio.gather(*(embedder.embed(["same"], purpose="query") for _ in range(6)))
    assert embedder.batches == [["same"]]
    assert all(np.array_equal(vector, vectors[0]) for vector in vectors)


async def test_a_bad_text_fails_only_its_caller(embedder: Recorder) -> None:
    """Of three calls in one batch, the one with the text that the model refuses fails alone."""
    good, bad, also_good = await asyncio.gather(
        embedder.embed(["good"], purpose="query"),
        embedder.embed(["bad"], purpose="query"),
        embedder.embed(["fine"], purpose="query"),
        return_exceptions=True,
    )
    assert isinstance(bad, EmbedderError)
    assert isinstance(good, np.ndarray)
    assert isinstance(also_good, np.ndarray)


async def test_an_outage_is_not_retried_per_caller(embedder: Recorder) -> None:
    """When the model is away, all callers are told after one try, and the next call works again."""
    embedder.down = True
    results = await asyncio.gather(
        *(embedder.embed([f"q{n}"], purpose="query") for n in range(4)), return_exceptions=True
    )
    assert all(isinstance(result, EmbedderUnavailable) for result in results)
    assert len(embedder.batches) == 1
    embedder.down = False
    assert (await embedder.embed(["q1"], purpose="query")).shape == (1, 3)


async def test_an_unexpected_error_reaches_the_caller(embedder: Recorder) -> None:
    """A bug in a model is not swallowed, hangs nobody, and leaves the embedder usable."""
    with pytest.raises(ZeroDivisionError):
        await embedder.embed(["bug"], purpose="query")
    assert (await embedder.embed(["fine"], purpose="query")).shape == (1, 3)


async def test_texts_nobody_waits_for_any_more_are_not_encoded(embedder: Recorder) -> None:
    """Cancelling the only caller takes its waiting texts out of the queue."""
    embedder.gate.clear()
    first = await begun(embedder.embed(["first"], purpose="query"))
    doomed = asyncio.create_task(embedder.embed(["doomed"], purpose="query"))
    kept = await begun(embedder.embed(["kept"], purpose="query"))
    doomed.cancel()
    embedder.gate.set()
    await asyncio.gather(first, kept)
    assert embedder.batches == [["first"], ["kept"]]
    assert (await embedder.embed(["doomed"], purpose="query")).shape == (1, 3)


async def test_closing_finishes_the_batch_in_hand(embedder: Recorder) -> None:
    """close() waits for what is being encoded, fails what waits with a clear error, and releases once."""
    embedder.gate.clear()
    in_hand = await begun(embedder.embed(["in hand"], purpose="query"))
    waiting = await begun(embedder.embed(["waiting"], purpose="query"))
    closing = await begun(embedder.close())
    assert not closing.done()
    embedder.gate.set()
    await closing
    await embedder.close()
    assert (await in_hand).shape == (1, 3)
    with pytest.raises(EmbedderUnavailable, match="closed while this text waited"):
        await waiting
    assert embedder.released == 1


def test_it_serves_one_loop_after_another() -> None:
    """Made outside of a loop, and idle in between, an embedder works under several loops."""
    embedder = Recorder(cache_size=0)
    for _ in range(2):
        embedder.gate = asyncio.Event()
        embedder.gate.set()
        assert asyncio.run(embedder.embed(["text"], purpose="query")).shape == (1, 3)


def test_a_loop_that_ends_midway_leaves_nothing_behind() -> None:
    """Work cut off by the end of its loop does not block the next loop."""
    embedder = Recorder(cache_size=0)

    async def cut_off() -> None:
        embedder.gate = asyncio.Event()
        calls = [asyncio.create_task(embedder.embed([f"text {n}"], purpose="query")) for n in range(9)]
        await asyncio.sleep(0.01)
        assert not any(call.done() for call in calls)

    asyncio.run(cut_off())
    embedder.gate = asyncio.Event()
    embedder.gate.set()
    assert asyncio.run(embedder.embed(["text 0", "text 8"], purpose="query")).shape == (2, 3)


def test_a_loop_that_is_closed_midway_leaves_nothing_behind() -> None:
    """Nor does a loop that was stopped and closed without a word to its tasks."""
    embedder = Recorder(cache_size=0)
    loop = asyncio.new_event_loop()
    embedder.gate = asyncio.Event()
    task = loop.create_task(embedder.embed(["cut off"], purpose="document"))
    loop.call_later(0.05, loop.stop)
    loop.run_forever()
    loop.close()
    embedder.gate = asyncio.Event()
    embedder.gate.set()

    async def again() -> tuple[int, ...]:
        vectors = await asyncio.wait_for(embedder.embed(["cut off", "other"], purpose="document"), 5)
        await asyncio.wait_for(embedder.close(), 5)
        return vectors.shape

    assert asyncio.run(again()) == (2, 3)
    del task


async def test_a_lane_cancelled_before_it_began_is_replaced(embedder: Recorder) -> None:
    """Whoever cancels all tasks of a loop does not stop the embedder for those that go on."""
    call = asyncio.create_task(embedder.embed(["waits"], purpose="query"))
    await asyncio.sleep(0)  # it has started its lane, which has not run yet
    for lane in embedder._lanes["query"]:
        lane.cancel()
    await asyncio.sleep(0.01)
    vectors = await asyncio.wait_for(embedder.embed(["next"], purpose="query"), 5)
    assert vectors.shape == (1, 3)
    assert (await asyncio.wait_for(call, 5)).shape == (1, 3)


@pytest.mark.parametrize(
    "wrong", [np.ones((1, 3)), np.zeros((2, 3)), np.full((2, 3), np.nan), np.ones(2)], ids=str
)
async def test_vectors_that_cannot_be_are_refused(wrong: NDArray[np.float64]) -> None:
    """Too few vectors, zeros, and numbers that are none are errors, not results."""

    class Wrong(Recorder):
        async def _encode(self, texts: Sequence[str]) -> NDArray[np.float32]:
            return wrong.astype(np.float32)

    with pytest.raises(EmbedderError, match="the model gave"):
        await Wrong().embed(["a", "b"], purpose="query")


# --- tokens --------------------------------------------------------------------------------------------------
class TokenRecorder(Recorder):
    """Gives each text one token, and keeps the batches of tokens among the others, marked by their first element."""

    gives_tokens: ClassVar[bool] = True
    too_many = 0

    def __init__(self, *, token_cache_bytes: int = TOKEN_CACHE_BYTES) -> None:
        super().__init__(token_cache_bytes=token_cache_bytes)

    async def _encode_tokens(self, texts: Sequence[str]) -> list[TokenVectors]:
        self.batches.append(["tokens of", *texts])
        await self.gate.wait()
        if "bad" in texts:
            raise EmbedderError("a bad text")
        span = np.array([[0, 1]], dtype=np.int32)
        return [token_vectors(span, np.ones((1, 4), np.float32)) for _ in range(len(texts) + self.too_many)]


@pytest.fixture
async def tokens() -> AsyncIterator[TokenRecorder]:
    embedder = TokenRecorder()
    yield embedder
    embedder.gate.set()
    await embedder.close()


async def test_tokens_wait_in_the_same_lanes(tokens: TokenRecorder) -> None:
    """Vectors and tokens never run side by side in one lane, nor in one batch; each text is answered by its wish."""
    tokens.gate.clear()
    first = await begun(tokens.embed(["first"], purpose="document"))
    wished = asyncio.create_task(tokens.embed_tokens(["a", "b"], purpose="document"))
    later = await begun(tokens.embed(["a", "b"], purpose="document"))
    assert tokens.batches == [["first"]]
    tokens.gate.set()
    assert [one.vectors.shape for one in await wished or ()] == [(1, 4), (1, 4)]
    assert (await later).shape == (2, 3)
    assert tokens.batches == [["first"], ["tokens of", "a", "b"], ["a", "b"]]
    await first


async def test_a_questions_tokens_do_not_wait_for_documents(tokens: TokenRecorder) -> None:
    """They have the questions' lane, while documents of either kind fill theirs."""
    tokens.gate.clear()
    texts = [f"document {n}" for n in range(20)]
    bulk = [
        asyncio.create_task(tokens.embed_tokens(texts, purpose="document")),
        asyncio.create_task(tokens.embed(texts, purpose="document")),
    ]
    await asyncio.sleep(0.01)
    query = await begun(tokens.embed_tokens(["question"], purpose="query"))
    assert len(tokens.batches) == 2
    assert tokens.batches[1] == ["tokens of", "question"]
    tokens.gate.set()
    await asyncio.gather(query, *bulk)


async def test_tokens_are_encoded_once(tokens: TokenRecorder) -> None:
    """While they are in flight, and afterwards while they are kept, which clear_cache() ends."""
    await asyncio.gather(*(tokens.embed_tokens(["one", "two"], purpose="query") for _ in range(3)))
    await tokens.embed_tokens(["two", "one"], purpose="document")
    assert tokens.batches == [["tokens of", "one", "two"]]
    tokens.clear_cache()
    assert len(tokens._token_cache) == 0
    await tokens.embed_tokens(["one"], purpose="document")
    assert tokens.batches[1:] == [["tokens of", "one"]]


async def test_tokens_that_were_encoded_while_the_cache_was_cleared_are_not_kept(
    tokens: TokenRecorder,
) -> None:
    """Something was forgotten meanwhile: it may be this text."""
    tokens.gate.clear()
    call = await begun(tokens.embed_tokens(["forgotten"], purpose="document"))
    tokens.clear_cache()
    tokens.gate.set()
    await call
    assert len(tokens._token_cache) == 0


async def test_kept_tokens_are_bounded_in_bytes() -> None:
    """However many texts come, no more is kept than was allowed."""
    embedder = TokenRecorder(token_cache_bytes=1_000)
    for n in range(50):
        await embedder.embed_tokens([f"text {n}"], purpose="document")
    assert 500 < embedder._token_cache.bytes <= 1_000
    await embedder.close()


async def test_wrong_tokens_and_bad_texts_are_errors(tokens: TokenRecorder) -> None:
    """Tokens of too many texts are refused, and a bad text is its own caller's error alone."""
    good, bad = await asyncio.gather(
        tokens.embed_tokens(["good"], purpose="document"),
        tokens.embed_tokens(["bad"], purpose="document"),
        return_exceptions=True,
    )
    assert isinstance(bad, EmbedderError)
    assert isinstance(good, list)
    tokens.too_many = 1
    with pytest.raises(EmbedderError, match="the tokens of 2 texts for 1"):
        await tokens.embed_tokens(["other"], purpose="document")


async def test_without_tokens_nothing_is_encoded(embedder: Recorder) -> None:
    """An embedder that has none answers None at once, and refuses once it is closed."""
    assert await embedder.embed_tokens(["text"], purpose="query") is None
    assert embedder.batches == []
    await embedder.close()
    with pytest.raises(EmbedderUnavailable, match="closed"):
        await embedder.embed_tokens(["text"], purpose="query")
