"""The cross-encoder: a real one of random weights, against transformers itself."""

from __future__ import annotations

import asyncio
import json
import shutil
import threading
from typing import TYPE_CHECKING

import numpy as np
import pytest

from memory_agent.errors import BackendError, RerankerError, RerankerUnavailable
from memory_agent.models.cross_encoder import CrossEncoderReranker
from tests.unit.models.local.conftest import WITHOUT_TORCH, change, python
from tests.unit.models.local.cross_encoders import make_cross_encoder

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence
    from pathlib import Path

    from tests.servers.hub import Hub

QUERY = "What is my dog called?"
TEXTS = [
    "My dog is called Biscuit.",
    "",
    "The quarterly report is due on Friday, and nobody has started on it yet. " * 3,
    "저는 서울에 살고 있어요. 🎉",
    "dog",
    "We bought a bicycle in March.",
]


@pytest.fixture(scope="session")
def crossing(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_cross_encoder(tmp_path_factory.mktemp("cross") / "encoder")


@pytest.fixture
async def reranker(crossing: Path) -> AsyncIterator[CrossEncoderReranker]:
    reranker = CrossEncoderReranker(str(crossing))
    yield reranker
    await reranker.close()


def directly(folder: Path, texts: Sequence[str]) -> list[float]:
    """The logit of each text alone, by transformers."""
    import torch
    from transformers import AutoModelForSequenceClassification, AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(folder)
    model = AutoModelForSequenceClassification.from_pretrained(folder).eval()
    found = []
    for text in texts:
        given = tokenizer([QUERY], [text], truncation=True, max_length=512, return_tensors="pt")
        with torch.inference_mode():
            found.append(model(**given).logits.item())
    return found


async def refused(model: str, words: str) -> None:
    """The first question to this model is an error with such words."""
    reranker = CrossEncoderReranker(model)
    with pytest.raises(RerankerError, match=words):
        await reranker.rerank(QUERY, TEXTS)
    await reranker.close()


async def test_scores_are_the_models_own(reranker: CrossEncoderReranker, crossing: Path) -> None:
    """They equal what transformers gives for each pair, so their order does, and are not squeezed together."""
    scores = await reranker.rerank(QUERY, TEXTS)
    expected = directly(crossing, TEXTS)
    assert scores.tolist() == pytest.approx(expected, abs=1e-4)
    assert np.argsort(scores).tolist() == np.argsort(expected).tolist()
    assert np.ptp(scores) > 0.5


async def test_a_text_longer_than_the_window_is_cut(reranker: CrossEncoderReranker, crossing: Path) -> None:
    """At 512 tokens of question and text together; what lies beyond changes nothing."""
    long = "word " * 900
    first, second = await reranker.rerank(QUERY, [long, long + "other words"])
    assert first == pytest.approx(second, abs=1e-5)
    assert first == pytest.approx(directly(crossing, [long])[0], abs=1e-4)


async def test_a_shorter_window_of_the_model_counts(crossing: Path, tmp_path: Path) -> None:
    """A model that was made for 128 positions is never given more."""
    folder = tmp_path / "short"
    shutil.copytree(crossing, folder)
    change(folder / "tokenizer_config.json", model_max_length=128)
    reranker = CrossEncoderReranker(str(folder))
    same = "word " * 200
    first, second = await reranker.rerank(QUERY, [same, same + "and more"])
    assert first == pytest.approx(second, abs=1e-5)
    await reranker.close()


async def test_the_event_loop_goes_on_meanwhile(reranker: CrossEncoderReranker) -> None:
    """Loading and scoring happen in one thread, which is not the loop's."""
    ticks = 0
    call = asyncio.create_task(reranker.rerank(QUERY, TEXTS * 20))
    while not call.done():
        await asyncio.sleep(0.001)
        ticks += 1
    assert ticks > 5
    assert len(await call) == len(TEXTS) * 20
    await asyncio.gather(*(reranker.rerank(QUERY, TEXTS) for _ in range(4)))
    assert sum(thread.name.startswith("reranker") for thread in threading.enumerate()) == 1


async def test_nothing_is_loaded_without_texts(tmp_path: Path) -> None:
    """Not even a model that isn't there is missed."""
    reranker = CrossEncoderReranker(str(tmp_path / "missing"))
    assert (await reranker.rerank(QUERY, [])).shape == (0,)
    await reranker.close()


async def test_a_missing_folder_is_told_with_the_setting(tmp_path: Path) -> None:
    """The error is a BackendError that names the folder, the setting and the ways to get a model; and again at once."""
    reranker = CrossEncoderReranker(str(tmp_path / "missing"))
    for _ in range(2):
        with pytest.raises(
            RerankerError, match=r"no such folder.*Set cross_encoder_model to a folder"
        ) as told:
            await reranker.rerank(QUERY, TEXTS)
        assert str(tmp_path / "missing") in str(told.value)
        assert isinstance(told.value, BackendError)
    await reranker.close()


@pytest.mark.parametrize("left", ["config.json", "model.safetensors"])
async def test_half_a_model_is_told(crossing: Path, tmp_path: Path, left: str) -> None:
    """Settings without weights, or weights without settings, are no model."""
    shutil.copyfile(crossing / left, tmp_path / left)
    await refused(str(tmp_path), r"holds no config\.json with weights for torch")


async def test_weights_that_cannot_be_read_are_told(crossing: Path, tmp_path: Path) -> None:
    """A corrupt file is an error of ours that names the folder."""
    folder = tmp_path / "broken"
    shutil.copytree(crossing, folder)
    (folder / "model.safetensors").write_bytes(b"bits that fell over")
    await refused(str(folder), "broken cannot be loaded")


async def test_a_classifier_of_several_classes_is_refused(tmp_path: Path) -> None:
    """Its classes are no order; the error says what is wanted."""
    await refused(
        str(make_cross_encoder(tmp_path / "three", labels=3)),
        "tells 3 classes apart; cross_encoder_model must be one",
    )


async def test_a_name_is_not_asked_for_offline() -> None:
    """With HF_HUB_OFFLINE set and nothing in the cache, the error says so."""
    await refused("ms-marco-MiniLM-L6-v2", r"'ms-marco-MiniLM-L6-v2'.*HF_HUB_OFFLINE is set")


async def test_a_name_in_the_hubs_cache_is_found(crossing: Path, offline: Path) -> None:
    """Also one that has no file of sentence-transformers' own, as many cross-encoders haven't."""
    place = offline / "models--cross-encoder--mini"
    (place / "refs").mkdir(parents=True)
    (place / "refs" / "main").write_text("0" * 40)
    shutil.copytree(crossing, place / "snapshots" / ("0" * 40))
    reranker = CrossEncoderReranker("mini")
    assert (await reranker.rerank(QUERY, TEXTS)).tolist() == pytest.approx(
        directly(crossing, TEXTS), abs=1e-4
    )
    await reranker.close()


def test_a_name_is_fetched_from_the_hub_once(crossing: Path, hub: Hub, tmp_path: Path) -> None:
    """Settings and safetensors, by a process that may; no more is asked once it is there."""
    hub.add("cross-encoder/mini", crossing)
    code = "from memory_agent.models.local.find import find_cross_encoder as find\nprint(find('mini'))"
    asked = []
    for _ in range(2):
        done = python(code, hub.environment(tmp_path))
        assert done.returncode == 0, done.stderr
        assert "models--cross-encoder--mini" in done.stdout
        asked.append(len(hub.requests))
    assert {"config.json", "model.safetensors", "tokenizer.json"} <= set(hub.fetched)
    assert asked[0] == asked[1] > 0


def test_without_torch_the_error_says_what_to_install(crossing: Path, tmp_path: Path) -> None:
    """Or what to leave unset."""
    code = f"""{WITHOUT_TORCH}
import asyncio
from memory_agent.models.cross_encoder import CrossEncoderReranker
from memory_agent.errors import RerankerError
try:
    asyncio.run(CrossEncoderReranker({str(crossing)!r}).rerank("q", ["t"]))
except RerankerError as exc:
    print(exc)
"""
    done = python(code, {"PATH": "", "HOME": str(tmp_path), "HF_HUB_OFFLINE": "1"})
    assert "[local]" in done.stdout, done.stderr
    assert "leave cross_encoder_model unset" in done.stdout


async def test_closing_waits_for_what_is_in_hand_and_refuses_what_waits(crossing: Path) -> None:
    """The call that is being scored is answered; the ones behind it, and later ones, are refused for good."""
    reranker = CrossEncoderReranker(str(crossing))
    await reranker.rerank(QUERY, ["loaded"])
    begun, go_on = threading.Event(), threading.Event()
    predict = reranker._model.predict

    def slow(*given: object, **options: object) -> object:
        begun.set()
        assert go_on.wait(20)
        return predict(*given, **options)

    reranker._model.predict = slow
    in_hand = asyncio.create_task(reranker.rerank(QUERY, TEXTS))
    while not begun.is_set():
        await asyncio.sleep(0.005)
    waiting = asyncio.create_task(reranker.rerank(QUERY, TEXTS))
    await asyncio.sleep(0.01)
    closing = asyncio.create_task(reranker.close())
    await asyncio.sleep(0.01)
    assert not closing.done()
    go_on.set()
    await closing
    await reranker.close()
    assert len(await in_hand) == len(TEXTS)
    for call in (waiting, reranker.rerank(QUERY, TEXTS)):
        with pytest.raises(RerankerUnavailable, match="closed"):
            await call


def test_the_number_of_threads_is_torchs(crossing: Path, tmp_path: Path) -> None:
    """In a process of its own, since torch keeps it."""
    code = f"""
import asyncio, json, torch
from memory_agent.models.cross_encoder import CrossEncoderReranker
async def main():
    reranker = CrossEncoderReranker({str(crossing)!r}, threads=1)
    await reranker.rerank("q", ["t"])
    threads = await asyncio.get_running_loop().run_in_executor(reranker._executor, torch.get_num_threads)
    await reranker.close()
    print(json.dumps(threads))
asyncio.run(main())
"""
    done = python(code, {"PATH": "", "HOME": str(tmp_path), "HF_HUB_OFFLINE": "1"})
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout.splitlines()[-1]) == 1
