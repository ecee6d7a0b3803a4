"""Graphs written from weights: what they hold, and what is refused. with_torch.py compares what they give."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from safetensors.numpy import load_file, save_file

from memory_agent.errors import UnsupportedModel
from memory_agent.models.local.choose import weights_digest
from memory_agent.models.local.encoders import ACTIVATIONS, FAMILIES, plan_encoder, understood_family
from memory_agent.models.local.folder import SAMPLES
from memory_agent.models.local.graph import open_encoder, write_onnx
from memory_agent.models.local.onnx import OnnxModel
from memory_agent.models.local.quantize_process import narrowing_products
from memory_agent.models.local.tensors import data_files
from tests.tiny_models import change
from tests.unit.models.local.conftest import linked


def test_a_written_file_holds_the_weights_themselves(tiny: Path, tmp_path: Path) -> None:
    """Its fingerprint is that of the safetensors file, without a note beside it."""
    write_onnx(open_encoder(tiny), tmp_path / "model.onnx")
    assert weights_digest([tmp_path / "model.onnx"]) == weights_digest([tiny / "model.safetensors"])
    # The recipe of int8 leaves the second product of each feed-forward pair alone, by its name.
    kept = narrowing_products(onnx.load(str(tmp_path / "model.onnx")))
    assert kept == [f"encoder.layer.{n}.output.dense.product" for n in range(2)]


# --- weights beside the graph
def test_large_weights_lie_beside_the_graph_and_are_mapped(
    tiny: Path, exported: Path, tmp_path: Path
) -> None:
    """So are MiniLM's. The vectors are the same, and the table of words stays in the file: pages of it that no text needs are never read."""
    assert data_files(exported) == [exported.with_name("model.onnx_data")]
    encoder = open_encoder(tiny)
    assert encoder.size == pytest.approx((tiny / "model.safetensors").stat().st_size, rel=0.01)
    (tmp_path / "apart").mkdir()
    write_onnx(encoder, tmp_path / "one.onnx", single_file_bytes=encoder.size)
    write_onnx(encoder, tmp_path / "apart" / "model.onnx", single_file_bytes=encoder.size - 1)
    assert data_files(tmp_path / "apart" / "model.onnx") == [tmp_path / "apart" / "model.onnx_data"]
    assert (tmp_path / "apart" / "model.onnx").stat().st_size < 100_000
    files = tmp_path / "one.onnx", tmp_path / "apart" / "model.onnx"
    one, apart = (OnnxModel(tiny, file) for file in files)
    np.testing.assert_array_equal(one.encode(SAMPLES), apart.encode(SAMPLES))
    assert str(tmp_path / "apart" / "model.onnx_data") in Path("/proc/self/maps").read_text("ascii")
    assert weights_digest([files[1]]) == weights_digest([tiny / "model.safetensors"])


# --- what is refused
def with_tensors(folder: Path, spoil: Callable[[dict[str, Any]], object]) -> None:
    tensors = load_file(folder / "model.safetensors")
    (folder / "model.safetensors").unlink()
    spoil(tensors)
    save_file(tensors, folder / "model.safetensors")


LORA = "base_model.model.encoder.layer.0.lora_A.weight"
SETTINGS: dict[str, dict[str, Any]] = {
    "its model_type is 'modernbert', not one": {"model_type": "modernbert"},
    "its hidden_act is 'silu'": {"hidden_act": "silu"},
    "its position_embedding_type is 'relative_key'": {"position_embedding_type": "relative_key"},
    "its is_decoder is True": {"is_decoder": True},
    "its quantization_config is 'set'": {"quantization_config": {"bits": 4}},
    "it has 2 layers of 32 numbers and 0 heads": {"num_attention_heads": None},
    "it has 2 layers of 32 numbers and 3 heads": {"num_attention_heads": 3},
}
TENSORS: dict[str, Callable[[dict[str, Any]], object]] = {
    f"hold {LORA}, which is not known": lambda t: t.update({LORA: np.ones((4, 32), np.float32)}),
    "its weights lack encoder.layer.1.output.dense.bias": lambda t: t.pop(
        "encoder.layer.1.output.dense.bias"
    ),
    r"its embeddings.LayerNorm.bias has the shape \(7,\), not \(32,\)": lambda t: t.update(
        {"embeddings.LayerNorm.bias": np.ones(7, np.float32)}
    ),
    "its embeddings.LayerNorm.bias is of the kind F64": lambda t: t.update(
        {"embeddings.LayerNorm.bias": np.ones(32, np.float64)}
    ),
    "its weights lack embeddings.word_embeddings.weight": lambda t: t.clear(),
}
FILES: dict[str, Callable[[Path], object]] = {
    "its weights hold .* twice": lambda f: (f / "copy.safetensors").symlink_to(f / "model.safetensors"),
    "more.safetensors cannot be read: ": lambda f: (f / "more.safetensors").write_bytes(b"short"),
    "its weights are no safetensors": lambda f: (f / "model.safetensors").unlink(),
}


def test_what_is_not_understood_is_refused_with_the_reason(tiny: Path, tmp_path: Path) -> None:
    """A setting, or a tensor too many, too few or of another shape: no graph is written that might be wrong."""
    spoil: dict[str, Callable[[Path], object]] = dict(FILES)
    spoil |= {reason: lambda f, t=t: with_tensors(f, t) for reason, t in TENSORS.items()}  # type: ignore[misc]
    spoil |= {reason: lambda f, s=s: change(f / "config.json", **s) for reason, s in SETTINGS.items()}  # type: ignore[misc]
    for number, (reason, do) in enumerate(spoil.items()):
        folder = linked(tiny, tmp_path / f"model{number}")
        open_encoder(folder)
        do(folder)
        with pytest.raises(UnsupportedModel, match=reason):
            open_encoder(folder)


def test_a_plan_is_of_settings_and_shapes_alone(tiny: Path) -> None:
    """Nothing is read from the disk for it; every activation that is understood is."""
    settings = json.loads((tiny / "config.json").read_text())
    tensors = load_file(tiny / "model.safetensors")
    shapes = {name: tensor.shape for name, tensor in tensors.items() if tensor.dtype == np.float32}
    plan = plan_encoder(settings, shapes)
    assert (plan.layers, plan.hidden, plan.heads, plan.positions) == (2, 32, 2, 512)
    for activation in ACTIVATIONS:
        assert understood_family(settings | {"hidden_act": activation}) is FAMILIES["bert"]
