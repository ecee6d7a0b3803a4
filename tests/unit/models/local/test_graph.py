"""Graphs written from weights give what transformers gives, for every family of encoders, and nothing else is written."""

from __future__ import annotations

import json
import warnings
from typing import TYPE_CHECKING, Any

import numpy as np
import onnx
import onnxruntime
import pytest
from safetensors.numpy import load_file, save_file

from memory_agent.errors import UnsupportedModel
from memory_agent.models.local.encoders import (
    ACTIVATIONS,
    EPSILON,
    FAMILIES,
    plan_encoder,
    understood_family,
)
from memory_agent.models.local.export import least_cosine
from memory_agent.models.local.fingerprint import weights_digest
from memory_agent.models.local.graph import distance_buckets
from memory_agent.models.local.onnx import OnnxModel
from memory_agent.models.local.quantize import narrowing_products
from memory_agent.models.local.samples import SAMPLES
from memory_agent.models.local.sentence_transformers import TorchModel
from memory_agent.models.local.tensors import data_files
from memory_agent.models.local.write import open_encoder, write_onnx
from tests.unit.models.local.conftest import change, linked

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from numpy.typing import NDArray

SIZES = {
    "vocab_size": 200,
    "hidden_size": 32,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "intermediate_size": 48,
    "max_position_embeddings": 300,
}
CASES: dict[str, dict[str, Any]] = {
    "bert": {"model_type": "bert", **SIZES},
    "bert by tanh": {"model_type": "bert", **SIZES, "hidden_act": "gelu_new", "layer_norm_eps": 1e-3},
    "electra": {"model_type": "electra", **SIZES, "embedding_size": 32},
    "electra of narrow embeddings": {"model_type": "electra", **SIZES, "embedding_size": 16},
    "roberta": {"model_type": "roberta", **SIZES, "pad_token_id": 1, "layer_norm_eps": 1e-5},
    "roberta of another padding": {"model_type": "roberta", **SIZES, "pad_token_id": 5},
    "xlm-roberta": {"model_type": "xlm-roberta", **SIZES},
    "camembert": {"model_type": "camembert", **SIZES},
    "distilbert": {
        "model_type": "distilbert",
        "vocab_size": 200,
        "dim": 32,
        "n_layers": 3,
        "n_heads": 4,
        "hidden_dim": 48,
        "max_position_embeddings": 300,
        "sinusoidal_pos_embds": True,
    },
    "mpnet": {"model_type": "mpnet", **SIZES},
}


def saved(folder: Path, settings: dict[str, Any], *, kind: str = "AutoModel", half: bool = False) -> Any:
    """A model of random weights, saved by transformers into `folder`, as it is loaded from there again."""
    import torch
    import transformers

    torch.manual_seed(11)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        config = transformers.AutoConfig.for_model(**settings)
        model = getattr(transformers, kind).from_config(config, attn_implementation="eager")
        with torch.no_grad():
            for name, weight in model.named_parameters():
                # Far enough from what they begin with that every one makes a difference.
                torch.nn.init.normal_(
                    weight, mean=float("LayerNorm.weight" in name or "norm.weight" in name), std=0.3
                )
        (model.bfloat16() if half else model).save_pretrained(folder)
        base = transformers.AutoModel.from_pretrained(
            folder, attn_implementation="eager", dtype=torch.float32
        )
    return base.eval()


def batch(
    settings: dict[str, Any], length: int, *, seed: int = 3
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Token ids of four texts of unlike length, and their mask. Padded with what the model takes for padding."""
    random = np.random.default_rng(seed)
    pad = settings.get("pad_token_id", 1)
    ids = random.integers(6, 200, size=(4, length))
    mask = np.ones_like(ids)
    for row, own in enumerate((length, max(1, length // 2), 1, max(1, length - 1))):
        ids[row, own:], mask[row, own:] = pad, 0
    return ids, mask


def by_torch(model: Any, ids: NDArray[np.int64], mask: NDArray[np.int64]) -> NDArray[np.float32]:
    import torch

    with torch.no_grad():
        hidden = model(
            input_ids=torch.from_numpy(ids), attention_mask=torch.from_numpy(mask)
        ).last_hidden_state
    answer: NDArray[np.float32] = hidden.numpy()
    return answer


def by_onnx(file: Path, ids: NDArray[np.int64], mask: NDArray[np.int64]) -> NDArray[np.float32]:
    session = onnxruntime.InferenceSession(str(file), providers=["CPUExecutionProvider"])
    given = {"input_ids": ids, "attention_mask": mask, "token_type_ids": np.zeros_like(ids)}
    asked = {one.name: given[one.name] for one in session.get_inputs()}
    (hidden,) = session.run(["last_hidden_state"], asked)
    answer: NDArray[np.float32] = hidden
    return answer


def assert_equal(file: Path, model: Any, settings: dict[str, Any]) -> None:
    """Every token's vector, at lengths below and above those where distances share buckets."""
    for length in (1, 7, 150, 290):
        ids, mask = batch(settings, length)
        own = mask.astype(bool)
        found, wanted = by_onnx(file, ids, mask)[own], by_torch(model, ids, mask)[own]
        cosines = (found * wanted).sum(1) / np.linalg.norm(found, axis=1) / np.linalg.norm(wanted, axis=1)
        assert cosines.min() >= 0.99999
        np.testing.assert_allclose(found, wanted, atol=2e-4)


@pytest.mark.parametrize("case", CASES)
def test_every_family_gives_the_vectors_of_transformers(tmp_path: Path, case: str) -> None:
    """Random weights, texts with and without padding: cosine of each token's vector at least 0.99999."""
    model = saved(tmp_path / "model", CASES[case])
    encoder = open_encoder(tmp_path / "model")
    write_onnx(encoder, tmp_path / "model.onnx")
    onnx.checker.check_model(str(tmp_path / "model.onnx"), full_check=True)
    assert_equal(tmp_path / "model.onnx", model, CASES[case])


def test_every_family_has_a_case() -> None:
    assert {case["model_type"] for case in CASES.values()} == set(FAMILIES)


@pytest.mark.parametrize(
    ("case", "kind"),
    [
        ("bert", "AutoModelForMaskedLM"),
        ("electra", "AutoModelForPreTraining"),
        ("roberta", "AutoModelForMaskedLM"),
        ("distilbert", "AutoModelForMaskedLM"),
        ("mpnet", "AutoModelForSequenceClassification"),
    ],
)
def test_heads_for_training_are_left_out(tmp_path: Path, case: str, kind: str) -> None:
    """Weights saved with a head have a prefix, and tensors that no embedding passes."""
    model = saved(tmp_path / "model", CASES[case], kind=kind)
    write_onnx(open_encoder(tmp_path / "model"), tmp_path / "model.onnx")
    assert_equal(tmp_path / "model.onnx", model, CASES[case])


def test_weights_in_half_precision_are_used_in_float32(tmp_path: Path) -> None:
    """bfloat16 in the file, float32 in the graph, as torch is told to do it."""
    model = saved(tmp_path / "model", CASES["bert"], half=True)
    encoder = open_encoder(tmp_path / "model")
    assert {tensor.kind for tensor in encoder.stored.values()} == {"BF16"}
    write_onnx(encoder, tmp_path / "model.onnx")
    assert_equal(tmp_path / "model.onnx", model, CASES["bert"])


def test_names_of_the_first_checkpoints_are_known(tmp_path: Path) -> None:
    """Normalisations had a gamma and a beta once."""
    model = saved(tmp_path / "model", CASES["bert"])
    file = tmp_path / "model" / "model.safetensors"
    renamed = {
        name.replace("Norm.weight", "Norm.gamma").replace("Norm.bias", "Norm.beta"): tensor
        for name, tensor in load_file(file).items()
    }
    assert any(name.endswith(".gamma") for name in renamed)
    save_file(renamed, file)
    write_onnx(open_encoder(tmp_path / "model"), tmp_path / "model.onnx")
    assert_equal(tmp_path / "model.onnx", model, CASES["bert"])


@pytest.mark.parametrize("case", CASES)
def test_what_settings_leave_out_is_what_transformers_takes(case: str) -> None:
    """The defaults are transformers' own."""
    import transformers

    config = transformers.AutoConfig.for_model(CASES[case]["model_type"])
    family = FAMILIES[CASES[case]["model_type"]]
    assert getattr(config, family.activation) == "gelu"
    assert getattr(config, "layer_norm_eps", EPSILON) == EPSILON
    if family.padding is not None:
        assert config.pad_token_id == family.padding
    if family.relative:
        assert config.relative_attention_num_buckets == 32


def test_distances_fall_into_torch_s_buckets() -> None:
    """At every distance, also where the logarithm is a whole number."""
    import torch
    from transformers.models.mpnet.modeling_mpnet import MPNetEncoder

    distances = np.arange(-600, 601)
    wanted = MPNetEncoder.relative_position_bucket(torch.from_numpy(distances))  # type: ignore[no-untyped-call]
    np.testing.assert_array_equal(distance_buckets(distances), wanted.numpy())


# --- the real model
@pytest.fixture(scope="module")
def written(packaged: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The file of all-MiniLM-L6-v2, made anew."""
    file = tmp_path_factory.mktemp("written") / "model.onnx"
    write_onnx(open_encoder(packaged), file)
    return file


@pytest.fixture(scope="module")
def torch_vectors(packaged: Path) -> NDArray[np.float32]:
    """Vectors of the samples by sentence-transformers."""
    return TorchModel(packaged).encode(SAMPLES)


def test_the_packaged_model_gives_the_vectors_of_sentence_transformers(
    packaged: Path, written: Path, torch_vectors: NDArray[np.float32]
) -> None:
    """all-MiniLM-L6-v2, on texts of every kind: cosine at least 0.99999."""
    assert least_cosine(OnnxModel(packaged, written).encode(SAMPLES), torch_vectors) >= 0.99999


def test_a_written_file_holds_the_weights_themselves(packaged: Path, written: Path) -> None:
    """Its fingerprint is that of the safetensors file, without a note beside it."""
    assert weights_digest([written]) == weights_digest([packaged / "model.safetensors"])


def test_its_steps_can_be_told_apart_by_int8(written: Path) -> None:
    """The recipe leaves the second product of each feed-forward pair alone, by its name."""
    kept = narrowing_products(onnx.load(str(written)))
    assert kept == [f"encoder.layer.{n}.output.dense.product" for n in range(6)]


# --- weights beside the graph
def test_large_weights_lie_beside_the_graph(tiny: Path, tmp_path: Path) -> None:
    """A file of this format holds 2 GB; what is more has a file of its own, and the vectors are the same."""
    encoder = open_encoder(tiny)
    assert encoder.size == pytest.approx((tiny / "model.safetensors").stat().st_size, rel=0.01)
    (tmp_path / "apart").mkdir()
    write_onnx(encoder, tmp_path / "one.onnx", single_file_bytes=encoder.size)
    write_onnx(encoder, tmp_path / "apart" / "model.onnx", single_file_bytes=encoder.size - 1)
    assert data_files(tmp_path / "apart" / "model.onnx") == [tmp_path / "apart" / "model.onnx_data"]
    assert (tmp_path / "apart" / "model.onnx").stat().st_size < 100_000
    files = tmp_path / "one.onnx", tmp_path / "apart" / "model.onnx"
    one, apart = (OnnxModel(tiny, file).encode(SAMPLES) for file in files)
    np.testing.assert_array_equal(one, apart)
    assert weights_digest([files[1]]) == weights_digest([tiny / "model.safetensors"])


# --- what is refused
def with_tensors(folder: Path, spoil: Callable[[dict[str, Any]], object]) -> None:
    tensors = load_file(folder / "model.safetensors")
    (folder / "model.safetensors").unlink()
    spoil(tensors)
    save_file(tensors, folder / "model.safetensors")


def lora(tensors: dict[str, Any]) -> None:
    tensors["base_model.model.encoder.layer.0.lora_A.weight"] = np.ones((4, 32), dtype=np.float32)


@pytest.mark.parametrize(
    ("spoil", "reason"),
    [
        (
            lambda f: change(f / "config.json", model_type="modernbert"),
            "its model_type is 'modernbert', not one",
        ),
        (lambda f: change(f / "config.json", hidden_act="silu"), "its hidden_act is 'silu'"),
        (
            lambda f: change(f / "config.json", position_embedding_type="relative_key"),
            "its position_embedding_type is 'relative_key'",
        ),
        (lambda f: change(f / "config.json", is_decoder=True), "its is_decoder is True"),
        (
            lambda f: change(f / "config.json", quantization_config={"bits": 4}),
            "its quantization_config is 'set'",
        ),
        (
            lambda f: change(f / "config.json", num_attention_heads=None),
            "it has 2 layers of 32 numbers and 0 heads",
        ),
        (
            lambda f: change(f / "config.json", num_attention_heads=3),
            "it has 2 layers of 32 numbers and 3 heads",
        ),
        (
            lambda f: with_tensors(f, lora),
            "hold base_model.model.encoder.layer.0.lora_A.weight, which is not known",
        ),
        (
            lambda f: with_tensors(f, lambda t: t.pop("encoder.layer.1.output.dense.bias")),
            "its weights lack encoder.layer.1.output.dense.bias",
        ),
        (
            lambda f: with_tensors(
                f, lambda t: t.update({"embeddings.LayerNorm.bias": np.ones(7, np.float32)})
            ),
            r"its embeddings.LayerNorm.bias has the shape \(7,\), not \(32,\)",
        ),
        (
            lambda f: with_tensors(
                f, lambda t: t.update({"embeddings.LayerNorm.bias": np.ones(32, np.float64)})
            ),
            "its embeddings.LayerNorm.bias is of the kind F64",
        ),
        (
            lambda f: with_tensors(f, lambda t: t.clear()),
            "its weights lack embeddings.word_embeddings.weight",
        ),
        (lambda f: (f / "copy.safetensors").symlink_to(f / "model.safetensors"), "its weights hold .* twice"),
        (lambda f: (f / "more.safetensors").write_bytes(b"short"), "more.safetensors cannot be read: "),
        (lambda f: (f / "model.safetensors").unlink(), "its weights are no safetensors"),
    ],
)
def test_what_is_not_understood_is_refused_with_the_reason(
    tiny: Path, tmp_path: Path, spoil: Callable[[Path], object], reason: str
) -> None:
    """A setting, or a tensor too many, too few or of another shape: no graph is written that might be wrong."""
    folder = linked(tiny, tmp_path / "model")
    open_encoder(folder)
    spoil(folder)
    with pytest.raises(UnsupportedModel, match=reason):
        open_encoder(folder)


def test_a_plan_is_of_settings_and_shapes_alone(packaged: Path) -> None:
    """Nothing is read from the disk for it."""
    settings = json.loads((packaged / "config.json").read_text())
    tensors = load_file(packaged / "model.safetensors")
    shapes = {name: tensor.shape for name, tensor in tensors.items() if tensor.dtype == np.float32}
    plan = plan_encoder(settings, shapes)
    assert (plan.layers, plan.hidden, plan.heads, plan.positions) == (6, 384, 12, 512)
    for activation in ACTIVATIONS:
        assert understood_family(settings | {"hidden_act": activation}) is FAMILIES["bert"]
