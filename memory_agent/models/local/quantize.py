"""int8 weights for ONNX Runtime, of any exported transformer."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from typing import Any, Final

from memory_agent.errors import EmbedderError
from memory_agent.models.local.tensors import data_files

SINGLE_FILE_BYTES: Final = 1_800_000_000
"""From here on the weights lie beside the graph: one file of this format holds 2 GB at most."""


def quantize(source: Path, target: Path) -> None:
    """Write `source`, an fp32 ONNX file, as `target` with int8 weights and activations quantised while it runs.

    One scale per column. Weights use 7 of their 8 bits, because processors without VNNI add pairs of products in
    16 bits, which 8 would overflow: so the vectors are the same on all. Matrices with more rows than columns stay
    fp32: they are the second of each feed-forward pair, and what comes into them (after GELU) has outliers that
    one scale for all cannot hold. Measured in docs/benchmarks.md.
    """
    import onnx

    model = onnx.load(str(source), load_external_data=False)
    kept = narrowing_products(model)
    del model
    beside = data_files(source)
    size = sum(file.stat().st_size for file in (source, *beside))
    with tempfile.TemporaryDirectory(dir=target.parent) as folder:
        if beside:  # in the hub's cache they are links, which the library refuses
            for file in (source, *beside):
                shutil.copyfile(file, Path(folder) / file.name)
            source = Path(folder) / source.name
        _make(source, target, kept, apart=size > SINGLE_FILE_BYTES)


def _make(source: Path, target: Path, kept: list[str], *, apart: bool) -> None:
    from onnxruntime.quantization import QuantType, quantize_dynamic

    try:
        quantize_dynamic(
            source,
            target,
            op_types_to_quantize=["MatMul", "Gather"],
            per_channel=True,
            reduce_range=True,
            weight_type=QuantType.QInt8,
            nodes_to_exclude=kept,
            use_external_data_format=apart,
        )
    except (RuntimeError, ValueError, KeyError) as exc:
        raise EmbedderError(f"{source} cannot be made int8: {exc}; set embedding_precision=fp32") from exc


def narrowing_products(model: Any) -> list[str]:
    """Names of the matrix products by a weight with more rows than columns."""
    shapes = {tensor.name: tuple(tensor.dims) for tensor in model.graph.initializer}
    products = (node for node in model.graph.node if node.op_type == "MatMul")
    found = ((node.name, shapes.get(node.input[1], ())) for node in products)
    return [name for name, shape in found if len(shape) == 2 and shape[0] > shape[1]]
