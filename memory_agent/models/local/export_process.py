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
import sys
import warnings
from pathlib import Path
from typing import Any

from memory_agent.models.local.folder import PASSAGE_TOKENS
from memory_agent.models.local.quantize import SINGLE_FILE_BYTES
from memory_agent.models.local.samples import SAMPLES


def report(stage: str, **values: Any) -> None:
    """One JSON line, at once."""
    sys.stdout.write(json.dumps({"stage": stage, **values}) + "\n")
    sys.stdout.flush()


def quantize(source: str, file: str) -> None:
    """Make the int8 `file` of the ONNX file `source`."""
    from memory_agent.models.local.quantize import quantize as make_int8

    report("making the weights int8")
    make_int8(Path(source), Path(file))
    report("done")


def export(folder: str, file: str) -> None:
    """Export the model in `folder` to `file`."""
    os.environ["HF_HUB_OFFLINE"] = "1"
    warnings.simplefilter("ignore")
    report("importing torch")
    import torch
    from sentence_transformers import SentenceTransformer

    report("loading the weights")
    # The plain form of attention: ONNX Runtime recognises it and runs it as one step.
    options = {"attn_implementation": "eager", "dtype": torch.float32}
    model = SentenceTransformer(folder, device="cpu", local_files_only=True, model_kwargs=options)
    model.eval()
    model.max_seq_length = min(model.max_seq_length or PASSAGE_TOKENS, PASSAGE_TOKENS)
    vectors = model.encode(list(SAMPLES), convert_to_numpy=True, show_progress_bar=False)
    report("exporting to ONNX")
    _export(model, Path(file))
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
    {"export": export, "quantize": quantize}[sys.argv[1]](*sys.argv[2:])
