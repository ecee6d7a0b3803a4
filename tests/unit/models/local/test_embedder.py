"""The embedder over whatever runs the model: loading, failing, mending, and what goes on meanwhile."""

import asyncio
import logging
import math
import os
import shutil
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from filelock import FileLock
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from memory_agent.errors import EmbedderError, EmbedderUnavailable
from memory_agent.models.local.choose import Choice, ModelChoiceRequest, choose
from memory_agent.models.local.embedder import (
    MOST_THREADS,
    LocalEmbedder,
    default_threads,
    quota_cores,
    usable_cores,
)


def embedder_of(folder: Path, cache: Path, **wanted: Any) -> LocalEmbedder:
    return LocalEmbedder(ModelChoiceRequest(model=str(folder), cache=cache, **wanted), cache_size=0)


@pytest.fixture
def cache(tiny_cache: Path, tmp_path: Path) -> Path:
    """A cache folder of this test's own, with the export of `tiny` in it."""
    copy = tmp_path / "cache"
    shutil.copytree(tiny_cache, copy)
    return copy


class Slow(LocalEmbedder):
    """Takes until `gate` is set to load its model."""

    gate: threading.Event

    def _open(self, choice: Choice) -> Any:
        assert self.gate.wait(20)
        return super()._open(choice)


async def test_nothing_waits_for_the_loading_but_vectors(tiny: Path, cache: Path) -> None:
    """While a model is loaded, its fingerprint is told and texts are cut at once."""
    embedder = Slow(ModelChoiceRequest(model=str(tiny), cache=cache, backend="onnx"))
    embedder.gate = threading.Event()
    known = await asyncio.to_thread(lambda: embedder.fingerprint)
    call = asyncio.create_task(embedder.embed(["hello"], purpose="document"))
    await asyncio.sleep(0.1)
    assert embedder.fingerprint == known
    assert len(await embedder.split("word " * 900)) > 1
    assert not call.done()
    embedder.gate.set()
    assert (await call).shape == (1, 32)
    await embedder.close()


async def test_a_corrupt_file_of_ours_is_made_again(
    tiny: Path, cache: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """What became of an int8 file on disk costs some seconds, not an error."""
    embedder = embedder_of(tiny, cache, backend="onnx", precision="int8")
    file = embedder.choice.file
    assert file is not None
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(b"bits that fell over")
    with caplog.at_level(logging.WARNING):
        vectors = await embedder.embed(["hello"], purpose="document")
    assert vectors.shape == (1, 32)
    assert f"{file} cannot be loaded" in caplog.text
    assert "it is made again" in caplog.text
    await embedder.close()


async def test_a_model_that_cannot_be_loaded_is_told_at_once_the_next_time(
    tiny: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Loading takes long to fail. A model of another kind stays one; a full disk is an outage, and tried again later."""
    monkeypatch.setattr("memory_agent.models.local.find.RETRY_SECONDS", 0.2)

    class Failing(LocalEmbedder):
        tries = 0
        error: EmbedderError | EmbedderUnavailable

        def _load(self) -> tuple[Any, NDArray[np.float32]]:
            self.tries += 1
            if self.tries == 1:
                raise self.error
            return super()._load()

    for error in (EmbedderError("of another kind"), EmbedderUnavailable("no room")):
        embedder = Failing(ModelChoiceRequest(model=str(tiny), cache=cache, backend="onnx"))
        embedder.error = error
        for _ in range(2):
            with pytest.raises(type(error), match=str(error)):
                await embedder.embed(["hello"], purpose="document")
        assert embedder.tries == 1
        await asyncio.sleep(0.25)
        if isinstance(error, EmbedderError):
            with pytest.raises(EmbedderError, match="of another kind"):
                await embedder.embed(["hello"], purpose="document")
        else:
            assert (await embedder.embed(["hello"], purpose="document")).shape == (1, 32)
        await embedder.close()


async def test_a_question_does_not_wait_for_a_file_to_be_made(
    tiny: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While another process makes the file, questions are refused after a while, and documents wait; closing ends it."""
    monkeypatch.setattr("memory_agent.models.local.embedder.QUESTION_PATIENCE_SECONDS", 0.3)
    embedder = embedder_of(tiny, tmp_path / "cache", backend="onnx")
    file = embedder.choice.file
    assert file is not None
    file.parent.parent.mkdir(parents=True)
    with FileLock(file.parent.with_name(f"{file.parent.name}.lock")):
        document = asyncio.create_task(embedder.embed(["hello"], purpose="document"))
        with pytest.raises(EmbedderUnavailable, match="still being made"):
            await embedder.embed(["where?"], purpose="query")
        assert not document.done()
        await asyncio.wait_for(embedder.close(), 10)
    with pytest.raises(EmbedderUnavailable, match="closed while another process made"):
        await document
    assert not file.exists()


@pytest.mark.parametrize("threads", [1, 2, 8])
async def test_any_number_of_threads_gives_the_same_vectors(tiny: Path, cache: Path, threads: int) -> None:
    texts = [f"{'word ' * (n % 40)}number {n}" for n in range(120)]
    wanted = ModelChoiceRequest(model=str(tiny), cache=cache, backend="onnx")
    embedder = LocalEmbedder(wanted, threads=threads, batch_size=8, cache_size=0)
    vectors = await embedder.embed(texts, purpose="document")
    alone = [await embedder.embed([text], purpose="query") for text in texts[::17]]
    assert vectors[::17] == pytest.approx(np.concatenate(alone), abs=1e-5)
    await embedder.close()


async def test_the_models_own_prompt_counts_in_its_passages(
    tiny: Path, tiny_cache: Path, tmp_path: Path
) -> None:
    """With a prompt before every text, passages are so much shorter that nothing is cut off."""
    folder = tmp_path / "model"
    shutil.copytree(tiny, folder)
    (folder / "config_sentence_transformers.json").write_text(
        '{"prompts": {"query": "one two three four: "}, "default_prompt_name": "query"}'
    )
    plain, prompted = embedder_of(tiny, tmp_path / "a"), embedder_of(folder, tmp_path / "b")
    text = "word " * 400
    longest = [max(len(passage.split()) for passage in await e.split(text)) for e in (plain, prompted)]
    assert longest == [254, 249]
    assert choose(ModelChoiceRequest(model=str(folder), cache=tmp_path)).fingerprint != plain.fingerprint


# --- cores
@given(st.integers(-5, 10_000), st.integers(0, 10**9), st.integers(1, 10**7))
def test_there_is_a_thread_for_each_core_up_to_a_bound(cores: int, quota: int, period: int) -> None:
    """Small machines are used whole, large ones leave cores to the rest; a container's quota is rounded up."""
    assert default_threads(cores) == min(max(cores, 1), MOST_THREADS)
    assert quota_cores(f"{quota} {period}\n") == max(1, math.ceil(quota / period))


def test_cores_that_may_not_be_used_are_not_counted() -> None:
    """What is no quota is none; a process bound to one core uses one."""
    for text in ("max 100000\n", "", "200000", "200000 0", "-1 100000", "nonsense here"):
        assert quota_cores(text) is None, text
    before = os.sched_getaffinity(0)
    assert 1 <= usable_cores() <= len(before)
    try:
        os.sched_setaffinity(0, {min(before)})
        assert usable_cores() == 1
    finally:
        os.sched_setaffinity(0, before)
