"""Making ONNX files, in a process of its own: `python -m memory_agent.models.local.export_process export FOLDER FILE`
or `… quantize SOURCE FILE`.

Torch takes seconds to import and half a gigabyte to keep, and both hold the interpreter's lock for long. Stages are
reported as JSON lines on stdout; the last of an export has the vectors of the samples by sentence-transformers, to
check the file against.
"""

from __future__ import annotations

import json
import logging
import os
import shutil
import sys
import tempfile
import warnings
from pathlib import Path
from typing import Any

from memory_agent.errors import EmbedderError
from memory_agent.models.local.folder import PASSAGE_TOKENS, SAMPLES
from memory_agent.models.local.tensors import SINGLE_FILE_BYTES, data_files


def report(stage: str, **values: Any) -> None:
    """One JSON line, at once."""
    sys.stdout.write(json.dumps({"stage": stage, **values}) + "\n")
    sys.stdout.flush()


# --- int8 ----------------------------------------------------------------------------------------------------
def quantize(source: Path, target: Path) -> None:
    """Write `source`, an fp32 ONNX file, as `target` with int8 weights and activations quantised while it runs.

    One scale per column. Weights use 7 of their 8 bits, because processors without VNNI add pairs of products in
    16 bits, which 8 would overflow: so the vectors are the same on all. Matrices with more rows than columns stay
    fp32: they are the second of each feed-forward pair, and what comes into them (after GELU) has outliers that
    one scale for all cannot hold. Measured in docs/benchmarks.md.
    """
    import onnx
    from onnxruntime.quantization import QuantType, quantize_dynamic

    report("making the weights int8")
    kept = narrowing_products(onnx.load(str(source), load_external_data=False))
    files = [source, *data_files(source)]
    with tempfile.TemporaryDirectory(dir=target.parent) as folder:
        if len(files) > 1:  # in the hub's cache they are links, which the library refuses
            for file in files:
                shutil.copyfile(file, Path(folder) / file.name)
            source = Path(folder) / source.name
        try:
            quantize_dynamic(
                source,
                target,
                op_types_to_quantize=["MatMul", "Gather"],
                per_channel=True,
                reduce_range=True,
                weight_type=QuantType.QInt8,
                nodes_to_exclude=kept,
                use_external_data_format=sum(file.stat().st_size for file in files) > SINGLE_FILE_BYTES,
            )
        except (RuntimeError, ValueError, KeyError) as exc:
            raise EmbedderError(f"{source} cannot be made int8: {exc}; set embedding_precision=fp32") from exc
    report("done")


def narrowing_products(model: Any) -> list[str]:
    """Names of the matrix products by a weight with more rows than columns."""
    shapes = {tensor.name: tuple(tensor.dims) for tensor in model.graph.initializer}
    products = (node for node in model.graph.node if node.op_type == "MatMul")
    found = ((node.name, shapes.get(node.input[1], ())) for node in products)
    return [name for name, shape in found if len(shape) == 2 and shape[0] > shape[1]]


# --- by torch ------------------------------------------------------------------------------------------------
def export(folder: Path, file: Path) -> None:
    """Export the model in `folder` to `file`."""
    os.environ["HF_HUB_OFFLINE"] = "1"
    warnings.simplefilter("ignore")
    report("importing torch")
    import torch
    from sentence_transformers import SentenceTransformer

    report("loading the weights")
    # The plain form of attention: ONNX Runtime recognises it and runs it as one step.
    options = {"attn_implementation": "eager", "dtype": torch.float32}
    model = SentenceTransformer(str(folder), device="cpu", local_files_only=True, model_kwargs=options)
    model.eval()
    model.max_seq_length = min(model.max_seq_length or PASSAGE_TOKENS, PASSAGE_TOKENS)
    vectors = model.encode(list(SAMPLES), convert_to_numpy=True, show_progress_bar=False)
    report("exporting to ONNX")
    _export(model, file)
    report("done", vectors=vectors.tolist())


def _export(model: Any, file: Path) -> None:
    import torch

    transformer, tokenizer = model[0].auto_model, model[0].tokenizer
    # Two texts of unlike length: a size of 1, or a mask of ones, would be taken for a constant.
    example = dict(tokenizer(["one two three four", "five"], padding=True, return_tensors="pt"))
    names = [name for name in ("input_ids", "attention_mask", "token_type_ids") if name in example]

    class TokenVectors(torch.nn.Module):
        """The transformer with its inputs by position and the vectors of the tokens as its only output."""

        def __init__(self) -> None:
            super().__init__()
            self.transformer = transformer

        def forward(self, *inputs: torch.Tensor) -> torch.Tensor:
            given = dict(zip(names, inputs, strict=True))
            hidden: torch.Tensor = self.transformer(**given, return_dict=True).last_hidden_state
            return hidden

    texts, length = torch.export.Dim("texts"), torch.export.Dim("length")
    size = sum(weight.numel() * weight.element_size() for weight in transformer.parameters())
    with torch.no_grad():
        torch.onnx.export(
            TokenVectors().eval(),
            tuple(example[name] for name in names),
            str(file),
            input_names=names,
            output_names=["last_hidden_state"],
            dynamic_shapes=(tuple({0: texts, 1: length} for _ in names),),
            dynamo=True,
            external_data=size > SINGLE_FILE_BYTES,
            verbose=False,
        )


if __name__ == "__main__":
    logging.disable(logging.WARNING)  # libraries' advice; errors end the process and are told
    {"export": export, "quantize": quantize}[sys.argv[1]](*map(Path, sys.argv[2:]))
