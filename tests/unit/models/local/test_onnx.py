"""ONNX Runtime gives the vectors that sentence-transformers gives."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import numpy as np
import onnx
import pytest
from hypothesis import given
from hypothesis import strategies as st

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
    tokens_read,
)
from memory_agent.models.local.pooling import POOLING_MODES
from tests.unit.models.local.conftest import add_module, change, linked

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from numpy.typing import NDArray

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


def sentence_transformers(folder: Path, texts: Sequence[str]) -> NDArray[np.float32]:
    """Vectors by the library itself, not normalised by us."""
    import torch
    from sentence_transformers import SentenceTransformer

    options = {"dtype": torch.float32}
    model = SentenceTransformer(str(folder), device="cpu", local_files_only=True, model_kwargs=options)
    vectors = model.encode(list(texts), convert_to_numpy=True, show_progress_bar=False)
    return np.asarray(vectors, dtype=np.float32)


def unit(vectors: NDArray[np.float32]) -> NDArray[np.float32]:
    lengths: NDArray[np.float32] = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    return lengths


@pytest.fixture(scope="module")
def minilm(packaged: Path, exported: Path) -> OnnxModel:
    return OnnxModel(packaged, exported)


@pytest.fixture(scope="module")
def minilm_int8(packaged: Path, int8: Path) -> OnnxModel:
    return OnnxModel(packaged, int8, one_by_one=True)


# --- planning
@given(LENGTHS)
def test_every_text_is_in_one_pass(lengths: list[int]) -> None:
    """No text is left out or encoded twice."""
    runs = plan_runs(lengths)
    assert sorted(index for run in runs for index in run) == list(range(len(lengths)))
    assert all(runs)


@given(LENGTHS, st.integers(1, 2_000))
def test_a_pass_has_a_bound(lengths: list[int], most: int) -> None:
    """A pass has at most so many tokens with its padding; only a single text may have more."""
    for run in plan_runs(lengths, most_tokens=most):
        assert len(run) == 1 or len(run) * max(lengths[i] for i in run) <= most


@given(LENGTHS)
def test_texts_of_like_length_share_a_pass(lengths: list[int]) -> None:
    """No text of a longer pass is shorter than LEAST_FILLED of the longest, and long texts come first."""
    runs = plan_runs(lengths)
    for run in runs:
        longest = max(lengths[i] for i in run)
        assert (
            len(run) * longest <= SHORT_RUN_TOKENS or min(lengths[i] for i in run) >= LEAST_FILLED * longest
        )
    in_order = [lengths[i] for run in runs for i in run]
    assert in_order == sorted(lengths, reverse=True)


@given(LENGTHS)
def test_little_of_all_passes_is_padding(lengths: list[int]) -> None:
    """At most one token in eight of the longer passes is padding."""
    long = [length for length in lengths if length > SHORT_RUN_TOKENS // 2]
    passed = sum(len(run) * max(long[i] for i in run) for run in plan_runs(long))
    assert passed * LEAST_FILLED <= sum(long) <= passed


@given(st.integers(1, 100), st.integers(1, 60))
def test_texts_of_one_length_fill_their_passes(length: int, count: int) -> None:
    """Equal texts need no more passes than the bound asks for."""
    assert len(plan_runs([length] * count)) == -(-count // (RUN_TOKENS // length))


# --- vectors
def test_the_vectors_are_those_of_sentence_transformers(packaged: Path, minilm: OnnxModel) -> None:
    """Of every length, in several scripts, long texts cut off where sentence-transformers cuts them."""
    vectors = minilm.encode(TEXTS)
    assert vectors.shape == (len(TEXTS), 384)
    assert vectors.dtype == np.float32
    np.testing.assert_allclose(unit(vectors), sentence_transformers(packaged, TEXTS), atol=1e-5)


def test_a_text_alone_has_the_vector_it_has_among_others(minilm: OnnxModel) -> None:
    """What else is in a batch, and in which order, makes no difference."""
    together = minilm.encode(TEXTS)
    alone = np.concatenate([minilm.encode([text]) for text in TEXTS])
    np.testing.assert_allclose(unit(alone), unit(together), atol=1e-5)
    np.testing.assert_allclose(unit(minilm.encode(TEXTS[::-1])), unit(together)[::-1], atol=1e-5)


def test_int8_vectors_are_exactly_those_of_the_text_alone(minilm_int8: OnnxModel) -> None:
    """With int8 each text has a pass of its own, so that not a bit of its vector depends on others."""
    alone = np.concatenate([minilm_int8.encode([text]) for text in TEXTS])
    np.testing.assert_array_equal(minilm_int8.encode(TEXTS), alone)


def test_several_threads_encode_at_once(minilm: OnnxModel) -> None:
    """Eight calls at the same time give what they give one after the other."""
    wanted = minilm.encode(TEXTS)
    with ThreadPoolExecutor(8) as threads:
        for vectors in threads.map(lambda _: minilm.encode(TEXTS), range(8)):
            np.testing.assert_array_equal(vectors, wanted)


def test_no_texts_have_no_vectors(minilm: OnnxModel) -> None:
    """An empty list gives an array without rows, of the model's dimension."""
    assert minilm.encode([]).shape == (0, 384)


@pytest.mark.parametrize("modes", [*[[mode] for mode in POOLING_MODES], ["max", "cls", "weightedmean"]])
def test_every_pooling_is_that_of_sentence_transformers(
    tiny: Path, tiny_onnx: Path, tmp_path: Path, modes: list[str]
) -> None:
    """The same weights pooled in another way, or in several, give the vectors of sentence-transformers."""
    copy = linked(tiny, tmp_path / "copy")
    (copy / "1_Pooling" / "config.json").write_text(
        json.dumps({"embedding_dimension": 32, "pooling_mode": modes})
    )
    vectors = OnnxModel(copy, tiny_onnx).encode(TEXTS)
    assert vectors.shape == (len(TEXTS), 32 * len(modes))
    np.testing.assert_allclose(unit(vectors), sentence_transformers(copy, TEXTS), atol=2e-5)


def test_the_default_prompt_is_put_before_texts(packaged: Path, exported: Path, tmp_path: Path) -> None:
    """A model with a prompt gives what sentence-transformers gives with it, also where a long text is cut."""
    copy = linked(packaged, tmp_path / "copy")
    change(
        copy / "config_sentence_transformers.json",
        prompts={"passage": "passage of a book: "},
        default_prompt_name="passage",
    )
    vectors = unit(OnnxModel(copy, exported).encode(TEXTS))
    np.testing.assert_allclose(vectors, sentence_transformers(copy, TEXTS), atol=1e-5)
    written = unit(OnnxModel(packaged, exported).encode([f"passage of a book: {text}" for text in TEXTS]))
    np.testing.assert_allclose(vectors, written, atol=1e-5)
    assert not np.allclose(vectors, unit(OnnxModel(packaged, exported).encode(TEXTS)), atol=0.01)


def test_a_model_may_ask_for_small_letters(packaged: Path, exported: Path, tmp_path: Path) -> None:
    """With `do_lower_case`, capitals make no difference where the tokenizer itself would tell them apart."""
    texts = ["Paris IS The CAPITAL of France", "paris is the capital of france", "ÉCOLE Été"]
    copy = linked(packaged, tmp_path / "copy")
    tokenizer = json.loads((copy / "tokenizer.json").read_text())
    tokenizer["normalizer"]["lowercase"] = False
    (copy / "tokenizer.json").write_text(json.dumps(tokenizer))
    change(copy / "tokenizer_config.json", do_lower_case=False)
    cased = unit(OnnxModel(copy, exported).encode(texts))
    assert cased[0] @ cased[1] < 0.9
    np.testing.assert_allclose(cased, sentence_transformers(copy, texts), atol=1e-5)
    change(copy / "sentence_bert_config.json", do_lower_case=True)
    lowered = unit(OnnxModel(copy, exported).encode(texts))
    assert lowered[0] @ lowered[1] > 0.99999
    np.testing.assert_allclose(lowered, sentence_transformers(copy, texts), atol=1e-5)


@pytest.mark.parametrize("tokens", [3, 16, 512])
def test_a_long_text_is_read_as_far_as_the_model_says(
    tiny: Path, tiny_onnx: Path, tmp_path: Path, tokens: int
) -> None:
    """The model's own limit decides where a text is cut, as in sentence-transformers."""
    copy = linked(tiny, tmp_path / "copy")
    change(copy / "sentence_bert_config.json", max_seq_length=tokens)
    long = [f"the word number {i} is not the last " * 200 for i in range(3)]
    vectors = unit(OnnxModel(copy, tiny_onnx).encode(long))
    np.testing.assert_allclose(vectors, sentence_transformers(copy, long), atol=2e-5)
    words = long[0].split()
    read = unit(OnnxModel(copy, tiny_onnx).encode([" ".join(words[: tokens - 2])]))
    np.testing.assert_allclose(read, vectors[:1], atol=2e-5)


def test_no_passage_is_longer_than_512_tokens(tiny: Path, tmp_path: Path) -> None:
    """A model that reads more is given 512 tokens at most; one that reads less, what it reads."""
    assert tokens_read(tiny) == 256
    copy = linked(tiny, tmp_path / "copy")
    change(copy / "sentence_bert_config.json", max_seq_length=8_192)
    assert tokens_read(copy) == 512


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


# --- tokenizer
def test_the_tokenizer_neither_cuts_nor_pads(packaged: Path) -> None:
    """Whatever its file says: offsets of a whole text are asked for as well."""
    tokenizer = open_tokenizer(packaged)
    assert len(tokenizer.encode("word " * 900).ids) == 902
    assert [len(e.ids) for e in tokenizer.encode_batch(["a", "a b c"])] == [3, 5]


@pytest.mark.parametrize("content", ["", "{", "{}", '{"model": {"type": "Nonsense"}}'])
def test_a_broken_tokenizer_is_named(packaged: Path, tmp_path: Path, content: str) -> None:
    """A tokenizer that can't be read is an error with its name."""
    copy = linked(packaged, tmp_path / "copy")
    (copy / "tokenizer.json").write_text(content)
    with pytest.raises(EmbedderError, match=r"tokenizer\.json cannot be read"):
        open_tokenizer(copy)


# --- files that cannot be run
@pytest.mark.parametrize("content", [b"", b"no protobuf at all", bytes(1_000)])
def test_a_corrupt_file_is_named_with_its_remedy(packaged: Path, tmp_path: Path, content: bytes) -> None:
    """What isn't ONNX is named, and what to do about it is told."""
    file = tmp_path / "model.onnx"
    file.write_bytes(content)
    with pytest.raises(EmbedderError) as caught:
        OnnxModel(packaged, file)
    assert str(file) in str(caught.value)
    assert "replace it, or delete it if its weights are here to export" in str(caught.value)


def test_a_file_that_is_cut_off_is_named(packaged: Path, tiny_onnx: Path, tmp_path: Path) -> None:
    """Half a file isn't loaded, nor is one that isn't there."""
    file = tmp_path / "model.onnx"
    with pytest.raises(EmbedderError, match=r"model\.onnx cannot be loaded"):
        OnnxModel(packaged, file)
    file.write_bytes(tiny_onnx.read_bytes()[:1_000_000])
    with pytest.raises(EmbedderError, match=r"model\.onnx cannot be loaded"):
        OnnxModel(packaged, file)


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


@pytest.mark.parametrize(
    ("outputs", "factor"),
    [
        (["token_embeddings", "sentence_embedding"], 1),
        (["sentence_embedding", "token_embeddings"], 2),
        (["pooler_output", "last_hidden_state"], 2),
        (["something"], 1),
    ],
)
def test_the_output_is_that_of_the_tokens(
    pair: Path, tmp_path: Path, outputs: list[str], factor: int
) -> None:
    """Of a file's outputs the tokens' vectors are taken, by the names exporters give them, else the first."""
    file = graph(tmp_path / "small.onnx", ["input_ids", "attention_mask"], outputs)
    ids = open_tokenizer(pair).encode("hello").ids
    vectors = OnnxModel(pair, file).encode(["hello", "hello"])
    np.testing.assert_array_equal(vectors, np.full((2, 2), factor * max(ids), dtype=np.float32))


def test_only_the_inputs_that_a_model_has_are_given(pair: Path, tmp_path: Path) -> None:
    """A model without token types or mask is run without them."""
    file = graph(tmp_path / "small.onnx", ["input_ids"], ["last_hidden_state"])
    assert OnnxModel(pair, file).encode(["hello", "hello you all"]).shape == (2, 2)


def test_an_unknown_input_is_refused(pair: Path, tmp_path: Path) -> None:
    """A model that asks for something that isn't known is refused by that name."""
    file = graph(tmp_path / "small.onnx", ["input_ids", "pixel_values", "bbox"], ["last_hidden_state"])
    with pytest.raises(EmbedderError, match=r"small\.onnx asks for bbox, pixel_values, which no text model"):
        OnnxModel(pair, file).encode(["hello"])


def test_a_file_of_another_dimension_is_told(pair: Path, tmp_path: Path) -> None:
    """A file whose vectors aren't as long as the settings say is an error of the model, not of NumPy."""
    change(pair / "1_Pooling" / "config.json", embedding_dimension=3)
    file = graph(tmp_path / "small.onnx", ["input_ids"], ["last_hidden_state"])
    with pytest.raises(EmbedderError, match=r"small\.onnx"):
        OnnxModel(pair, file).encode(["hello"])


def test_what_cannot_be_run_rightly_is_not_loaded(tiny: Path, tiny_onnx: Path, tmp_path: Path) -> None:
    """A model with a layer that the file doesn't hold is refused before anything is loaded."""
    copy = linked(tiny, tmp_path / "copy")
    add_module(copy, "Dense")
    with pytest.raises(UnsupportedModel, match="Dense"):
        OnnxModel(copy, tiny_onnx)


def test_a_tokenizer_that_two_files_describe_differently_is_refused(
    packaged: Path, exported: Path, tmp_path: Path
) -> None:
    """transformers takes the word of tokenizer_config.json, which would give other vectors: told, not guessed."""
    folder = linked(packaged, tmp_path / "model")
    change(folder / "tokenizer_config.json", do_lower_case=False)
    with pytest.raises(UnsupportedModel, match=r"tokenizer_config\.json says do_lower_case=False"):
        OnnxModel(folder, exported)
