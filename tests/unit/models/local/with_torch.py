"""What ONNX Runtime and our graphs give is what torch and its libraries give; models that torch runs itself.

Run by tests/unit/models/test_apart.py in a process of its own, for torch and what comes with it take a gigabyte.
"""

import json
import logging
import shutil
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
import torch
import transformers
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from safetensors.numpy import load_file, save_file
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.modules import Pooling
from transformers.models.mpnet.modeling_mpnet import MPNetEncoder

from memory_agent.errors import EmbedderError
from memory_agent.models.local.choose import ModelChoiceRequest, least_cosine
from memory_agent.models.local.embedder import LocalEmbedder
from memory_agent.models.local.encoders import EPSILON, FAMILIES
from memory_agent.models.local.folder import POOLING_MODES, SAMPLES, pool
from memory_agent.models.local.graph import distance_buckets, open_encoder, write_onnx
from memory_agent.models.local.onnx import OnnxModel
from memory_agent.models.local.sentence_transformers import TorchModel
from tests.profiles import by_day
from tests.tiny_models import change
from tests.unit.models.local.conftest import linked
from tests.unit.models.local.test_pooling import LENGTHS, MODES, batch

# --- graphs that are written ---------------------------------------------------------------------------------
SIZES = {
    "vocab_size": 200,
    "hidden_size": 32,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "intermediate_size": 48,
    "max_position_embeddings": 300,
}
DISTIL = {"vocab_size": 200, "dim": 32, "n_layers": 3, "n_heads": 4, "hidden_dim": 48}
CASES: dict[str, dict[str, Any]] = {
    "bert": {"model_type": "bert", **SIZES},
    "bert by tanh": {"model_type": "bert", **SIZES, "hidden_act": "gelu_new", "layer_norm_eps": 1e-3},
    "electra": {"model_type": "electra", **SIZES, "embedding_size": 32},
    "electra of narrow embeddings": {"model_type": "electra", **SIZES, "embedding_size": 16},
    "roberta": {"model_type": "roberta", **SIZES, "pad_token_id": 1, "layer_norm_eps": 1e-5},
    "roberta of another padding": {"model_type": "roberta", **SIZES, "pad_token_id": 5},
    "xlm-roberta": {"model_type": "xlm-roberta", **SIZES},
    "camembert": {"model_type": "camembert", **SIZES},
    "distilbert": {"model_type": "distilbert", **DISTIL, "max_position_embeddings": 300},
    "mpnet": {"model_type": "mpnet", **SIZES},
}
HEADS = {
    "bert": "AutoModelForMaskedLM",
    "electra": "AutoModelForPreTraining",
    "distilbert": "AutoModelForMaskedLM",
    "mpnet": "AutoModelForSequenceClassification",
}
"""Weights saved with a head for training have a prefix, and tensors that no embedding passes."""


def saved(folder: Path, settings: dict[str, Any], *, kind: str = "AutoModel", half: bool = False) -> Any:
    """A model of random weights, saved by transformers into `folder`, as it is loaded from there again."""
    torch.manual_seed(11)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        config = transformers.AutoConfig.for_model(**settings)
        model = getattr(transformers, kind).from_config(config, attn_implementation="eager")
        with torch.no_grad():
            for name, weight in model.named_parameters():
                # Far enough from what they begin with that every one makes a difference.
                is_scale = "LayerNorm.weight" in name or "norm.weight" in name
                torch.nn.init.normal_(weight, mean=float(is_scale), std=0.3)
        (model.bfloat16() if half else model).save_pretrained(folder)
        load = transformers.AutoModel.from_pretrained
        return load(folder, attn_implementation="eager", dtype=torch.float32).eval()


def assert_equal(folder: Path, model: Any, settings: dict[str, Any]) -> None:
    """Every token's vector, with and without padding, at lengths below and above those where distances share buckets."""
    write_onnx(open_encoder(folder), folder / "model.onnx")
    onnx.checker.check_model(str(folder / "model.onnx"), full_check=True)
    session = onnxruntime.InferenceSession(str(folder / "model.onnx"), providers=["CPUExecutionProvider"])
    random = np.random.default_rng(3)
    for length in (1, 7, 290):
        ids = random.integers(6, 200, size=(4, length))
        mask = np.ones_like(ids)
        for row, own in enumerate((length, max(1, length // 2), 1, max(1, length - 1))):
            ids[row, own:], mask[row, own:] = settings.get("pad_token_id", 1), 0
        given = {"input_ids": ids, "attention_mask": mask, "token_type_ids": np.zeros_like(ids)}
        asked = {one.name: given[one.name] for one in session.get_inputs()}
        (hidden,) = session.run(["last_hidden_state"], asked)
        with torch.no_grad():
            told = model(input_ids=torch.from_numpy(ids), attention_mask=torch.from_numpy(mask))
        found, wanted = hidden[mask == 1], told.last_hidden_state.numpy()[mask == 1]
        assert least_cosine(found, wanted) >= 0.99999
        np.testing.assert_allclose(found, wanted, atol=2e-4)


BY_DAY = ("bert", "electra of narrow embeddings", "roberta of another padding", "distilbert", "mpnet")
"""Those whose graphs differ."""


@pytest.mark.parametrize(
    "case", [case if case in BY_DAY else pytest.param(case, marks=pytest.mark.nightly) for case in CASES]
)
def test_every_family_gives_the_vectors_of_transformers(tmp_path: Path, case: str) -> None:
    """Random weights, bare and with a head: cosine of each token's vector at least 0.99999. Defaults are transformers'."""
    assert_equal(tmp_path, saved(tmp_path, CASES[case]), CASES[case])
    if head := HEADS.get(case):
        model = saved(tmp_path / "head", CASES[case], kind=head)
        assert_equal(tmp_path / "head", model, CASES[case])
    kind = CASES[case]["model_type"]
    config, family = transformers.AutoConfig.for_model(kind), FAMILIES[kind]
    assert getattr(config, family.activation) == "gelu"
    assert getattr(config, "layer_norm_eps", EPSILON) == EPSILON
    assert family.padding in (None, config.pad_token_id)
    assert not family.relative or config.relative_attention_num_buckets == 32


def test_every_family_has_a_case() -> None:
    assert {case["model_type"] for case in CASES.values()} == set(FAMILIES)


def test_weights_in_half_precision_and_of_the_first_checkpoints_are_used(tmp_path: Path) -> None:
    """bfloat16 in the file, float32 in the graph; normalisations had a gamma and a beta once."""
    model = saved(tmp_path, CASES["bert"], half=True)
    assert {tensor.kind for tensor in open_encoder(tmp_path).stored.values()} == {"BF16"}
    assert_equal(tmp_path, model, CASES["bert"])
    model = saved(tmp_path, CASES["bert"])
    file = tmp_path / "model.safetensors"
    today = {"Norm.weight": "Norm.gamma", "Norm.bias": "Norm.beta"}
    tensors = load_file(file)
    for new, old in today.items():
        tensors = {name.replace(new, old): tensor for name, tensor in tensors.items()}
    assert any(name.endswith(".gamma") for name in tensors)
    save_file(tensors, file)
    assert_equal(tmp_path, model, CASES["bert"])


def test_distances_fall_into_torch_s_buckets() -> None:
    """At every distance, also where the logarithm is a whole number."""
    distances = np.arange(-600, 601)
    wanted = MPNetEncoder.relative_position_bucket(torch.from_numpy(distances))  # type: ignore[no-untyped-call]
    np.testing.assert_array_equal(distance_buckets(distances), wanted.numpy())


# --- vectors -------------------------------------------------------------------------------------------------
def by_library(folder: Path, texts: Sequence[str]) -> NDArray[np.float32]:
    """Vectors by sentence-transformers itself."""
    options = {"dtype": torch.float32}
    model = SentenceTransformer(str(folder), device="cpu", local_files_only=True, model_kwargs=options)
    return np.asarray(model.encode(list(texts), convert_to_numpy=True, show_progress_bar=False), np.float32)


def test_the_vectors_are_those_of_sentence_transformers(packaged: Path, exported: Path) -> None:
    """all-MiniLM-L6-v2, of every length, in several scripts, by both ways of running: cosine at least 0.99999."""
    wanted = by_library(packaged, SAMPLES)
    for model in (OnnxModel(packaged, exported), TorchModel(packaged)):
        vectors = model.encode(SAMPLES)
        assert vectors.shape == (len(SAMPLES), 384)
        assert vectors.dtype == np.float32
        assert least_cosine(vectors, wanted) >= 0.99999


def assert_like_library(folder: Path, file: Path, texts: Sequence[str] = SAMPLES) -> NDArray[np.float32]:
    vectors = OnnxModel(folder, file).encode(texts)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    np.testing.assert_allclose(vectors, by_library(folder, texts), atol=2e-5)
    return vectors


@pytest.mark.parametrize(
    "modes", by_day(["max", "cls", "weightedmean"], *[([mode],) for mode in POOLING_MODES])
)
def test_every_pooling_is_that_of_sentence_transformers(
    tiny: Path, tiny_onnx: Path, tmp_path: Path, modes: list[str]
) -> None:
    """The same weights pooled in another way, or in several, give the vectors of sentence-transformers."""
    copy = linked(tiny, tmp_path / "copy")
    settings = {"embedding_dimension": 32, "pooling_mode": modes}
    (copy / "1_Pooling" / "config.json").write_text(json.dumps(settings))
    assert assert_like_library(copy, tiny_onnx).shape == (len(SAMPLES), 32 * len(modes))


@given(modes=MODES, lengths=LENGTHS, seed=st.integers(0, 2**32 - 1))
def test_pooling_gives_the_numbers_of_the_library_s_module(
    modes: list[str], lengths: list[int], seed: int
) -> None:
    """Several modes stand side by side, in the order in which they are named."""
    tokens, mask = batch(lengths, seed)
    told = {"token_embeddings": torch.from_numpy(tokens), "attention_mask": torch.from_numpy(mask)}
    wanted = Pooling(tokens.shape[2], pooling_mode=modes)(told)["sentence_embedding"].numpy()
    np.testing.assert_allclose(pool(tokens, mask, modes), wanted, atol=1e-5)


def test_prompt_case_and_length_are_the_library_s(tiny: Path, tiny_onnx: Path, tmp_path: Path) -> None:
    """A default prompt is put before texts, small letters are made where asked for, and long texts cut where it cuts them."""
    prompted = linked(tiny, tmp_path / "prompted")
    prompts = {"prompts": {"passage": "passage of a book: "}, "default_prompt_name": "passage"}
    change(prompted / "config_sentence_transformers.json", **prompts)
    assert_like_library(prompted, tiny_onnx)
    texts = ["Paris IS The CAPITAL of France", "paris is the capital of france", "ÉCOLE Été"]
    cased = linked(tiny, tmp_path / "cased")
    tokenizer = json.loads((cased / "tokenizer.json").read_text())
    tokenizer["normalizer"]["lowercase"] = False
    (cased / "tokenizer.json").write_text(json.dumps(tokenizer))
    change(cased / "tokenizer_config.json", do_lower_case=False)
    vectors = assert_like_library(cased, tiny_onnx, texts)
    assert vectors[0] @ vectors[1] < 0.99
    change(cased / "sentence_bert_config.json", do_lower_case=True)
    vectors = assert_like_library(cased, tiny_onnx, texts)
    assert vectors[0] @ vectors[1] > 0.99999
    for tokens in (3, 16, 512):
        cut = linked(tiny, tmp_path / f"cut {tokens}")
        change(cut / "sentence_bert_config.json", max_seq_length=tokens)
        assert_like_library(cut, tiny_onnx, ["the word number one is not the last " * 200])


TEXTS = ["", "Seoul 서울 👍🏽", "a longer text than the others, so that there is padding", "x"]


def test_both_ways_of_running_give_the_same_tokens(tiny: Path, tiny_onnx: Path, tmp_path: Path) -> None:
    """As they do for whole texts; with a prompt, which has none; and where a tokenizer pads on the left."""
    prompted = linked(tiny, tmp_path / "model")
    prompts = {"prompts": {"document": "passage: "}, "default_prompt_name": "document"}
    change(prompted / "config_sentence_transformers.json", **prompts)
    for folder in (tiny, prompted):
        model = TorchModel(folder)
        vectors, by_onnx = OnnxModel(folder, tiny_onnx).encode_tokens(TEXTS)
        of_torch, by_torch = model.encode_tokens(TEXTS)
        assert least_cosine(of_torch, vectors) >= 0.99999
        model._model.tokenizer.padding_side = "left"
        _, left = model.encode_tokens(TEXTS)
        for (one, own), (another, its), (third, _) in zip(by_onnx, by_torch, left, strict=True):
            assert one.tolist() == another.tolist() == third.tolist()
            assert own == pytest.approx(its, abs=2e-3)
        assert left[2][1] == pytest.approx(by_torch[2][1], abs=2e-3)  # the longest is not padded


async def test_torch_serves_where_a_models_own_file_cannot_be_loaded(
    tiny: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """With `auto` the weights beside the file are run instead, with a warning; with `onnx` the file is named."""
    folder = tmp_path / "model"
    shutil.copytree(tiny, folder)
    write_onnx(open_encoder(tiny), folder / "model.onnx")
    requests = [
        ModelChoiceRequest(model=str(folder), cache=tmp_path, backend=backend) for backend in ("auto", "onnx")
    ]
    automatic, strict = (LocalEmbedder(wanted, cache_size=0) for wanted in requests)
    assert automatic.choice.file == strict.choice.file == folder / "model.onnx"
    (folder / "model.onnx").write_bytes(b"bits that fell over")
    with caplog.at_level(logging.WARNING):
        assert (await automatic.embed(["hello"], purpose="document")).shape == (1, 32)
    assert automatic.choice.backend == "torch"
    assert "embedding by torch, which is slower" in caplog.text
    with pytest.raises(EmbedderError, match=r"model\.onnx cannot be loaded.*replace it"):
        await strict.embed(["hello"], purpose="document")
    for embedder in (automatic, strict):
        await embedder.close()
