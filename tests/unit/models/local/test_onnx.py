"""A model run by ONNX Runtime; with_torch.py compares its vectors with those of sentence-transformers."""

import json
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from memory_agent.errors import EmbedderError, UnsupportedModel
from memory_agent.models.local.choose import ModelChoiceRequest
from memory_agent.models.local.embedder import LocalEmbedder
from memory_agent.models.local.onnx import (
    LEAST_FILLED,
    RUN_TOKENS,
    SHORT_RUN_TOKENS,
    OnnxModel,
    open_tokenizer,
    plan_runs,
)
from tests.tiny_models import change
from tests.unit.models.local.conftest import add_module, linked

TEXTS = (
    "",
    "ok",
    "Where did I leave the bicycle?",
    "Mañana tengo cita con el médico a las 9:30.",
    "저는 서울에 살고 있고, 주말마다 산에 올라가요.",
    "  white space \n\t around 👍🏽 ",
    "I moved to Lisbon in March, and the flat has a view of the river.",
    "The quarterly report is due on Friday, and nobody has started on it yet. " * 8,
    "One sentence follows another until no model reads any further than this. " * 60,
)

LENGTHS = st.lists(st.integers(1, 700), max_size=80)


def unit(vectors: NDArray[np.float32]) -> NDArray[np.float32]:
    lengths: NDArray[np.float32] = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    return lengths


# --- planning
@given(LENGTHS, st.integers(1, 100), st.integers(1, 60))
def test_passes_are_planned(lengths: list[int], length: int, count: int) -> None:
    """No text is left out or encoded twice, long ones come first, and a pass has a bound but for a text alone.

    No text of a longer pass is shorter than LEAST_FILLED of the longest, so at most one token in eight is padding; equal
    texts need no more passes than the bound asks for.
    """
    runs = plan_runs(lengths)
    assert sorted(index for run in runs for index in run) == list(range(len(lengths)))
    assert [lengths[i] for run in runs for i in run] == sorted(lengths, reverse=True)
    for own in ([lengths[i] for i in run] for run in runs):
        tokens = len(own) * max(own)
        assert len(own) == 1 or tokens <= RUN_TOKENS
        assert tokens <= SHORT_RUN_TOKENS or min(own) >= LEAST_FILLED * max(own)
    assert len(plan_runs([length] * count)) == -(-count // (RUN_TOKENS // length))


# --- vectors
@pytest.fixture
def model(tiny: Path, tiny_onnx: Path) -> OnnxModel:
    return OnnxModel(tiny, tiny_onnx)


def test_a_text_alone_has_the_vector_it_has_among_others(model: OnnxModel) -> None:
    """What else is in a batch, in which order, and what other threads do makes no difference; no texts, no vectors."""
    together = model.encode(TEXTS)
    alone = np.concatenate([model.encode([text]) for text in TEXTS])
    np.testing.assert_allclose(unit(alone), unit(together), atol=1e-5)
    np.testing.assert_allclose(unit(model.encode(TEXTS[::-1])), unit(together)[::-1], atol=1e-5)
    with ThreadPoolExecutor(8) as threads:
        for vectors in threads.map(lambda _: model.encode(TEXTS), range(8)):
            np.testing.assert_array_equal(vectors, together)
    assert model.encode([]).shape == (0, 32)


def test_int8_vectors_are_exactly_those_of_the_text_alone(packaged: Path, int8: Path) -> None:
    """With int8 each text has a pass of its own, so that not a bit of its vector depends on others."""
    model = OnnxModel(packaged, int8, one_by_one=True)
    alone = np.concatenate([model.encode([text]) for text in TEXTS])
    np.testing.assert_array_equal(model.encode(TEXTS), alone)


async def test_no_passage_is_longer_than_the_model_reads(packaged: Path, tmp_path: Path) -> None:
    """Whatever a text is made of, each passage is at most 254 word pieces and two special ones."""
    embedder = LocalEmbedder(ModelChoiceRequest(model=str(packaged), cache=tmp_path))
    tokenizer = open_tokenizer(packaged)
    for text in (
        "word " * 900,
        "한국어" * 500,
        "😀" * 700,
        "antidisestablishmentarianism" * 200,
        "a.b," * 900,
        "x1y2" * 20 + " é" * 600,
    ):
        passages = await embedder.split(text)
        assert passages
        assert max(len(tokenizer.encode(passage).ids) for passage in passages) <= 256
    await embedder.close()


# --- files that cannot be run
def test_the_tokenizer_neither_cuts_nor_pads_and_is_named_where_it_is_broken(
    packaged: Path, exported: Path, tmp_path: Path
) -> None:
    """Offsets of a whole text are asked for as well. Where two files disagree, that is told, and not guessed."""
    tokenizer = open_tokenizer(packaged)
    assert len(tokenizer.encode("word " * 900).ids) == 902
    assert [len(e.ids) for e in tokenizer.encode_batch(["a", "a b c"])] == [3, 5]
    copy = linked(packaged, tmp_path / "copy")
    change(copy / "tokenizer_config.json", do_lower_case=False)
    with pytest.raises(UnsupportedModel, match=r"tokenizer_config\.json says do_lower_case=False"):
        OnnxModel(copy, exported)
    for content in ("", "{", "{}", '{"model": {"type": "Nonsense"}}'):
        (copy / "tokenizer.json").write_text(content)
        with pytest.raises(EmbedderError, match=r"tokenizer\.json cannot be read"):
            open_tokenizer(copy)


def test_a_corrupt_file_is_named_with_its_remedy(packaged: Path, tiny_onnx: Path, tmp_path: Path) -> None:
    """What isn't there, isn't ONNX or is cut off is named, and what to do about it is told."""
    file = tmp_path / "model.onnx"
    for content in (None, b"", b"no protobuf at all", bytes(1_000), tiny_onnx.read_bytes()[:1_000_000]):
        if content is not None:
            file.write_bytes(content)
        with pytest.raises(EmbedderError) as caught:
            OnnxModel(packaged, file)
        assert f"{file} cannot be loaded" in str(caught.value)
        assert "replace it, or delete it if its weights are here to export" in str(caught.value)


def graph(file: Path, inputs: Sequence[str], outputs: Sequence[str]) -> Path:
    """An ONNX file whose every output is the ids of the tokens as vectors of two equal numbers, times its number."""
    make, kinds = onnx.helper, onnx.TensorProto
    shape = ["texts", "length"]
    given = [make.make_tensor_value_info(name, kinds.INT64, shape) for name in inputs]
    nodes: list[Any] = [
        make.make_node("Cast", ["input_ids"], ["floats"], to=kinds.FLOAT),
        make.make_node("Unsqueeze", ["floats", "axes"], ["rows"]),
        make.make_node("Concat", ["rows", "rows"], ["pairs"], axis=2),
    ]
    constants = [make.make_tensor("axes", kinds.INT64, [1], [2])]
    for i, name in enumerate(outputs, start=1):
        constants.append(make.make_tensor(f"times{i}", kinds.FLOAT, [], [float(i)]))
        nodes.append(make.make_node("Mul", ["pairs", f"times{i}"], [name]))
    given_out = [make.make_tensor_value_info(name, kinds.FLOAT, [*shape, 2]) for name in outputs]
    made = make.make_graph(nodes, "small", given, given_out, constants)
    onnx.save(
        make.make_model(made, opset_imports=[make.make_opsetid("", 17)], ir_version=9),
        str(file),
    )
    return file


@pytest.fixture
def pair(tiny: Path, tmp_path: Path) -> Path:
    """Settings of a model whose vectors have two numbers: the greatest of the tokens' ids."""
    copy = linked(tiny, tmp_path / "pair")
    (copy / "1_Pooling" / "config.json").write_text(
        json.dumps({"embedding_dimension": 2, "pooling_mode": "max"})
    )
    return copy


def test_the_output_is_that_of_the_tokens(pair: Path, tmp_path: Path) -> None:
    """By the names exporters give it, else the first; and a model without token types or mask is run without them."""
    highest = max(open_tokenizer(pair).encode("hello").ids)
    for outputs, factor in (
        (["token_embeddings", "sentence_embedding"], 1),
        (["sentence_embedding", "token_embeddings"], 2),
        (["pooler_output", "last_hidden_state"], 2),
        (["something"], 1),
    ):
        file = graph(tmp_path / "small.onnx", ["input_ids", "attention_mask"], outputs)
        vectors = OnnxModel(pair, file).encode(["hello", "hello"])
        np.testing.assert_array_equal(vectors, np.full((2, 2), factor * highest, dtype=np.float32))
    file = graph(tmp_path / "small.onnx", ["input_ids"], ["last_hidden_state"])
    assert OnnxModel(pair, file).encode(["hello", "hello you all"]).shape == (2, 2)


def test_what_is_of_another_model_is_refused(pair: Path, tmp_path: Path) -> None:
    """By the input that isn't known, the dimension that the settings don't say, and the layer that the file doesn't hold."""
    file = graph(tmp_path / "small.onnx", ["input_ids", "pixel_values", "bbox"], ["last_hidden_state"])
    with pytest.raises(EmbedderError, match=r"small\.onnx asks for bbox, pixel_values, which no text model"):
        OnnxModel(pair, file).encode(["hello"])
    change(pair / "1_Pooling" / "config.json", embedding_dimension=3)
    file = graph(tmp_path / "small.onnx", ["input_ids"], ["last_hidden_state"])
    with pytest.raises(EmbedderError, match=r"small\.onnx gives vectors of shape .* not of this model"):
        OnnxModel(pair, file).encode(["hello"])
    add_module(pair, "Dense")
    with pytest.raises(UnsupportedModel, match="Dense"):
        OnnxModel(pair, file)
