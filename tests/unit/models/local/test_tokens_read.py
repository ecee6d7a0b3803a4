"""Vectors of tokens, of models that are not like MiniLM."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

import numpy as np
import pytest

from memory_agent.models.local.onnx import OnnxModel
from memory_agent.models.local.sentence_transformers import TorchModel
from tests.unit.models.local.conftest import change

if TYPE_CHECKING:
    from pathlib import Path

TEXTS = ["", "Seoul 서울 👍🏽", "a longer text than the others, so that there is padding", "x"]


@pytest.fixture(params=["onnx", "torch"])
def run_by(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def opened(run_by: str, folder: Path, onnx: Path) -> OnnxModel | TorchModel:
    return TorchModel(folder) if run_by == "torch" else OnnxModel(folder, onnx)


def test_a_prompt_has_no_tokens_of_the_text(run_by: str, tiny: Path, tiny_onnx: Path, tmp_path: Path) -> None:
    """What the model puts before every text is read, but spans are those of the text alone."""
    folder = tmp_path / "model"
    shutil.copytree(tiny, folder)
    prompts = {"prompts": {"document": "passage: "}, "default_prompt_name": "document"}
    change(folder / "config_sentence_transformers.json", **prompts)
    plain, prompted = opened(run_by, tiny, tiny_onnx), opened(run_by, folder, tiny_onnx)
    told, of_prompted = plain.encode_tokens(TEXTS), prompted.encode_tokens(TEXTS)
    for one, another in zip(told, of_prompted, strict=True):
        assert one.spans.tolist() == another.spans.tolist()
    assert not np.allclose(told[3].vectors, of_prompted[3].vectors, atol=1e-2)


def test_both_ways_of_running_give_the_same_tokens(tiny: Path, tiny_onnx: Path) -> None:
    """As they do for whole texts."""
    by_onnx, by_torch = (opened(kind, tiny, tiny_onnx).encode_tokens(TEXTS) for kind in ("onnx", "torch"))
    for one, another in zip(by_onnx, by_torch, strict=True):
        assert one.spans.tolist() == another.spans.tolist()
        assert one.vectors == pytest.approx(another.vectors, abs=2e-3)


def test_padding_before_the_tokens_is_no_token(tiny: Path) -> None:
    """A tokenizer that pads on the left gives each text as many tokens as one that pads on the right."""
    model = TorchModel(tiny)
    right = model.encode_tokens(TEXTS)
    model._model.tokenizer.padding_side = "left"
    left = model.encode_tokens(TEXTS)
    assert [one.spans.tolist() for one in left] == [one.spans.tolist() for one in right]
    # The longest has no padding on either side.
    assert left[2].vectors == pytest.approx(right[2].vectors, abs=2e-3)
