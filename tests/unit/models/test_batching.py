"""How concurrent calls become batches."""

import asyncio
from collections.abc import AsyncIterator, Coroutine, Sequence
from typing import Any, ClassVar, TypeVar

import numpy as np
import pytest
from numpy.typing import NDArray

from memory_agent.domain import TokenVectors
from memory_agent.errors import EmbedderError, EmbedderUnavailable
from memory_agent.models.batching import BatchingEmbedder, BatchLimits, token_vectors

T = TypeVar("T")


class Recorder(BatchingEmbedder):
    """Encodes when `gate` is open, keeps the batches, and chokes on the text "bad". Each text has one token."""

    gives_tokens: ClassVar[bool] = True

    def __init__(self, *, cache_size: int = 100, **limits: int) -> None:
        limits = {"texts": 4, **limits}
        super().__init__(BatchLimits(**limits), cache_size=cache_size)
        self.gate = asyncio.Event()
        self.gate.set()
        self.batches: list[list[str]] = []
        self.down = False
        self.released = 0
        self.too_many = 0

    async def _encode(self, texts: Sequence[str]) -> tuple[NDArray[np.float32], list[TokenVectors]]:
        self.batches.append(list(texts))
        await self.gate.wait()
        if self.down:
            raise EmbedderUnavailable("down")
        if "bad" in texts:
            raise EmbedderError("a bad text")
        if "bug" in texts:
            raise ZeroDivisionError("a bug")
        span = np.array([[0, 1]], dtype=np.int32)
        ones = np.ones((1, 4), np.float32)
        tokens = [token_vectors(span * len(text), ones) for text in (*texts, *[""] * self.too_many)]
        return np.array([[1.0, len(text), *map(ord, text[:1])] for text in texts], dtype=np.float32), tokens

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


async def pause() -> None:
    """Let everything go as far as it comes by itself, however busy the machine is."""
    for _ in range(200):
        await asyncio.sleep(0)


async def begun(call: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
    """The call, as far as it comes by itself."""
    task = asyncio.create_task(call)
    await pause()
    return task


def documents(count: int) -> list[str]:
    return [f"document {n:02}" for n in range(count)]


# --- batches -------------------------------------------------------------------------------------------------
async def test_what_arrives_together_or_during_a_batch_shares_the_next(embedder: Recorder) -> None:
    """Calls of one moment are encoded together; ten calls while one batch runs need three more of four, not ten."""
    await asyncio.gather(*(embedder.embed([f"moment {n}"], purpose="query") for n in range(4)))
    embedder.gate.clear()
    first = await begun(embedder.embed(["first"], purpose="query"))
    rest = [asyncio.create_task(embedder.embed([f"q{n}"], purpose="query")) for n in range(10)]
    await pause()
    embedder.gate.set()
    await asyncio.gather(first, *rest)
    assert [len(batch) for batch in embedder.batches] == [4, 1, 4, 4, 2]


async def test_a_batch_has_no_more_characters_than_allowed() -> None:
    embedder = Recorder(chars=100)
    lengths = {"a": 150, "b": 60, "c": 50, "d": 40, "e": 9, "f": 8, "g": 7, "h": 6, "i": 5}
    await embedder.embed([char * length for char, length in lengths.items()], purpose="document")
    batches = [[len(text) for text in batch] for batch in embedder.batches]
    assert batches == [[150], [60], [50, 40, 9], [8, 7, 6, 5]]
    await embedder.close()


# --- questions and documents ---------------------------------------------------------------------------------
async def test_a_question_does_not_wait_for_documents(embedder: Recorder) -> None:
    """Theirs is a lane of their own; what waits as a document moves up when a question needs the same."""
    embedder.gate.clear()
    bulk = await begun(embedder.embed(documents(40), purpose="document"))
    asked = [await begun(embedder.embed([text], purpose="query")) for text in ("question", "document 09")]
    assert [len(batch) for batch in embedder.batches] == [4, 1]
    assert embedder.batches[1] == ["question"]
    embedder.gate.set()
    await asyncio.gather(*asked)
    assert ["document 09"] in embedder.batches[2:6]
    await bulk
    assert sum(batch.count("document 09") for batch in embedder.batches) == 1
    assert max(len(batch) for batch in embedder.batches) == 4


async def test_documents_use_all_lanes_unless_questions_come(monkeypatch: pytest.MonkeyPatch) -> None:
    """Three lanes of documents run side by side; for a while after a question two do, and then three again."""
    monkeypatch.setattr("memory_agent.models.batching.QUESTION_SECONDS", 3_600)
    embedder = Recorder(texts=1, document_lanes=3)

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
    monkeypatch.setattr("memory_agent.models.batching.QUESTION_SECONDS", 0)  # it is past
    assert await lanes_in_use("after") == 3
    await embedder.close()


# --- what is kept --------------------------------------------------------------------------------------------
async def test_a_known_text_is_not_encoded_again(embedder: Recorder) -> None:
    """The vector of a fetch's question serves the update that follows, and several calls in flight wait for one encoding.

    Writing into a returned array does not change what others get. The vectors of its tokens are made with its own.
    """
    first, again = await asyncio.gather(*(embedder.embed(["hello"], purpose="query") for _ in range(2)))
    first[:] = 0
    twice = await embedder.embed(["hello", "hello"], purpose="document")
    assert np.array_equal(twice, np.concatenate([again, again]))
    await asyncio.gather(*(embedder.embed_tokens(["one", "three"], purpose="query") for _ in range(3)))
    tokens = await embedder.embed_tokens(["three", "hello"], purpose="document")
    assert tokens is not None
    assert [of_text.spans.tolist() for of_text in tokens] == [[[0, 5]], [[0, 5]]]
    assert embedder.batches == [["hello"], ["three", "one"]]


async def test_a_cleared_cache_keeps_nothing(embedder: Recorder) -> None:
    """After clear_cache() known texts are encoded again, also those that were in flight then: one may be forgotten."""
    await embedder.embed(["known"], purpose="query")
    embedder.gate.clear()
    in_flight = await begun(embedder.embed(["in flight"], purpose="query"))
    embedder.clear_cache()
    embedder.gate.set()
    await in_flight
    await embedder.embed(["known", "in flight"], purpose="query")
    assert embedder.batches[2:] == [["in flight", "known"]]


async def test_what_was_embedded_ahead_is_there_when_it_is_asked_for(embedder: Recorder) -> None:
    """No more of it than is sure to be kept until then; what fails is encoded again, for whoever asks; after the end, nothing is."""
    embedder.embed_ahead(documents(40))
    await pause()
    ahead = [text for batch in embedder.batches for text in batch]
    assert sorted(ahead) == documents(25)
    await embedder.embed(documents(25), purpose="document")
    assert sum(map(len, embedder.batches)) == 25
    embedder.down = True
    embedder.embed_ahead(["later"])
    await pause()
    embedder.down = False
    assert (await embedder.embed(["later"], purpose="document")).shape == (1, 3)
    encoded = len(embedder.batches)
    await embedder.close()
    embedder.embed_ahead(["too late"])
    await pause()
    assert len(embedder.batches) == encoded


async def test_a_cleared_cache_sends_nothing_ahead_that_waits(embedder: Recorder) -> None:
    """It may be what was forgotten, and would be encoded again for whoever asks; what somebody asked for meanwhile stays."""
    embedder.gate.clear()
    embedder.embed_ahead(documents(20))
    await pause()
    asked = await begun(embedder.embed(["document 17"], purpose="document"))
    embedder.clear_cache()
    await pause()
    embedder.gate.set()
    assert (await asked).shape == (1, 3)
    await embedder.embed(["last"], purpose="document")
    assert embedder.batches[1:] == [["document 17"], ["last"]]


# --- failures ------------------------------------------------------------------------------------------------
async def test_a_bad_text_fails_only_its_caller(embedder: Recorder) -> None:
    """Of three calls in one batch, the one with the text that the model refuses fails alone; so with tokens."""
    for embed in (embedder.embed, embedder.embed_tokens):
        calls = (embed([text], purpose="query") for text in ("good", "bad", "fine"))
        good, bad, fine = await asyncio.gather(*calls, return_exceptions=True)
        assert isinstance(bad, EmbedderError)
        assert not isinstance(good, BaseException)
        assert not isinstance(fine, BaseException)
    with pytest.raises(ZeroDivisionError):  # a bug in a model is not swallowed, and hangs nobody
        await embedder.embed(["bug"], purpose="query")
    assert (await embedder.embed(["on"], purpose="query")).shape == (1, 3)


async def test_an_outage_is_not_retried_per_caller(embedder: Recorder) -> None:
    embedder.down = True
    calls = (embedder.embed([f"q{n}"], purpose="query") for n in range(4))
    results = await asyncio.gather(*calls, return_exceptions=True)
    assert all(isinstance(result, EmbedderUnavailable) for result in results)
    assert len(embedder.batches) == 1
    embedder.down = False
    assert (await embedder.embed(["q1"], purpose="query")).shape == (1, 3)


async def test_texts_nobody_waits_for_any_more_are_not_encoded(embedder: Recorder) -> None:
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


async def test_results_that_cannot_be_are_refused(embedder: Recorder) -> None:
    """Too few vectors, zeros, numbers that are none, and tokens of too many texts are errors, not results."""

    class Wrong(Recorder):
        wrong: NDArray[np.float64]

        async def _encode(self, texts: Sequence[str]) -> tuple[NDArray[np.float32], list[TokenVectors]]:
            return self.wrong.astype(np.float32), (await super()._encode(texts))[1]

    for wrong in (np.ones((1, 3)), np.zeros((2, 3)), np.full((2, 3), np.nan), np.ones(2)):
        of_wrong = Wrong()
        of_wrong.wrong = wrong
        with pytest.raises(EmbedderError, match="the model gave"):
            await of_wrong.embed(["a", "b"], purpose="query")
    embedder.too_many = 1
    with pytest.raises(EmbedderError, match="the tokens of 2 texts for 1"):
        await embedder.embed_tokens(["other"], purpose="document")


# --- loops ---------------------------------------------------------------------------------------------------
def encoded(embedder: Recorder, *texts: str) -> tuple[int, ...]:
    """The shape of what these are under a loop of their own."""
    embedder.gate = asyncio.Event()
    embedder.gate.set()
    return asyncio.run(asyncio.wait_for(embedder.embed(texts, purpose="document"), 5)).shape


@pytest.mark.parametrize("end", ["done", "midway", "closed"])
def test_it_serves_one_loop_after_another(end: str) -> None:
    """Made outside of a loop; work cut off by the end of one, or by a loop closed without a word, does not block the next."""
    embedder = Recorder(cache_size=0)
    embedder.gate = asyncio.Event()

    async def cut_off() -> None:
        calls = [asyncio.create_task(embedder.embed([f"text {n}"], purpose="document")) for n in range(9)]
        await pause()
        assert not any(call.done() for call in calls)

    if end == "done":
        assert encoded(embedder, "text 0") == (1, 3)
    elif end == "midway":
        asyncio.run(cut_off())
    else:
        loop = asyncio.new_event_loop()
        task = loop.create_task(embedder.embed(["text 0"], purpose="document"))
        loop.call_later(0.05, loop.stop)
        loop.run_forever()
        loop.close()
        assert not task.done()
    assert encoded(embedder, "text 0", "text 8") == (2, 3)
    asyncio.run(asyncio.wait_for(embedder.close(), 5))


async def test_a_lane_cancelled_before_it_began_is_replaced(embedder: Recorder) -> None:
    """Whoever cancels all tasks of a loop does not stop the embedder for those that go on."""
    call = asyncio.create_task(embedder.embed(["waits"], purpose="query"))
    await asyncio.sleep(0)  # it has started its lane, which has not run yet
    for lane in embedder._lanes["query"]:
        lane.cancel()
    await pause()
    vectors = await asyncio.wait_for(embedder.embed(["next"], purpose="query"), 5)
    assert vectors.shape == (1, 3)
    assert (await asyncio.wait_for(call, 5)).shape == (1, 3)
