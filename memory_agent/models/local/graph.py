"""The ONNX graph of an encoder, written out from its plan and its weights by numpy and the onnx package alone.

The graph is the one that torch's exporter gives, less what it computes needlessly: inputs by the tokenizer's names with
the axes `texts` and `length` open, the vectors of the tokens as its only output. Its float tensors are the weights
themselves, so that its fingerprint is theirs. Steps have the form that ONNX Runtime merges when it loads them.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from memory_agent.models.local.encoders import BUCKETS

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray
    from onnx import ModelProto, NodeProto, TensorProto

    from memory_agent.models.local.encoders import Encoder

    ReadTensor = Callable[[str], NDArray[np.float32]]
    KeepTensor = Callable[[str, NDArray[Any]], TensorProto]

OPSET: Final = 20
"""The first with GELU as one step."""

IR_VERSION: Final = 10
"""Read by ONNX Runtime from 1.20 on."""

FARTHEST: Final = 128
"""From this distance on, all share a bucket: MPNet's, which no setting changes."""


def build_graph(encoder: Encoder, read: ReadTensor, keep: KeepTensor) -> ModelProto:
    """The model of `encoder`. `read` gives a weight by its name in the files, `keep` makes a tensor of the graph of it."""
    from onnx import TensorProto, helper

    steps = _Steps(encoder, read, keep)
    mask = _attention_mask(steps)
    bias = _distance_bias(steps) if encoder.family.relative else None
    hidden = _embeddings(steps)
    for number in range(encoder.layers):
        hidden = _layer(steps, encoder.family.layer.format(number), hidden, mask, bias)
    steps.add("Identity", [hidden], "last_hidden_state")
    inputs = ["input_ids", "attention_mask", *(["token_type_ids"] if encoder.family.asks_token_types else [])]
    graph = helper.make_graph(
        steps.nodes,
        "encoder",
        [helper.make_tensor_value_info(name, TensorProto.INT64, ["texts", "length"]) for name in inputs],
        [
            helper.make_tensor_value_info(
                "last_hidden_state", TensorProto.FLOAT, ["texts", "length", encoder.hidden]
            )
        ],
        initializer=steps.tensors,
    )
    return helper.make_model(
        graph,
        opset_imports=[helper.make_opsetid("", OPSET)],
        ir_version=IR_VERSION,
        producer_name="memory_agent",
    )


class _Steps:
    """The graph in the making: steps in their order, and the tensors that they use."""

    def __init__(self, encoder: Encoder, read: ReadTensor, keep: KeepTensor) -> None:
        self.encoder = encoder
        self.nodes: list[NodeProto] = []
        self.tensors: list[TensorProto] = []
        self._read = read
        self._keep = keep
        self._known: set[str] = set()

    def add(self, kind: str, inputs: Sequence[str], output: str, **attributes: Any) -> str:
        from onnx import helper

        # Named, because making int8 leaves steps out by their names.
        self.nodes.append(helper.make_node(kind, inputs, [output], name=output, **attributes))
        return output

    def weight(self, name: str, *, transposed: bool = False) -> str:
        """The weight of this plain name; `transposed` as a product from the right wants it."""
        values = self._read(self.encoder.names[name])
        return self._tensor(f"{name}.T" if transposed else name, values.T if transposed else values)

    def integers(self, name: str, values: Sequence[int] | NDArray[np.int64] | int) -> str:
        return self._tensor(name, np.asarray(values, dtype=np.int64))

    def number(self, name: str, value: float) -> str:
        return self._tensor(name, np.asarray(value, dtype=np.float32))

    def _tensor(self, name: str, values: NDArray[Any]) -> str:
        if name not in self._known:
            self._known.add(name)
            self.tensors.append(self._keep(name, values))
        return name

    def dense(self, name: str, given: str) -> str:
        product = self.add(
            "MatMul", [given, self.weight(f"{name}.weight", transposed=True)], f"{name}.product"
        )
        return self.add("Add", [product, self.weight(f"{name}.bias")], name)

    def norm(self, name: str, given: str) -> str:
        scale, shift = self.weight(f"{name}.weight"), self.weight(f"{name}.bias")
        return self.add(
            "LayerNormalization", [given, scale, shift], name, axis=-1, epsilon=self.encoder.epsilon
        )


def _attention_mask(steps: _Steps) -> str:
    """0 for a text's own tokens and the lowest number for padding, shape (texts, 1, 1, length), to be added to scores."""
    from onnx import TensorProto

    floats = steps.add("Cast", ["attention_mask"], "mask.floats", to=TensorProto.FLOAT)
    padding = steps.add("Sub", [steps.number("one", 1.0), floats], "mask.padding")
    lowest = steps.number("lowest", float(np.finfo(np.float32).min))
    flat = steps.add("Mul", [padding, lowest], "mask.flat")
    return steps.add("Unsqueeze", [flat, steps.integers("axes_1_2", [1, 2])], "mask")


def _embeddings(steps: _Steps) -> str:
    encoder = steps.encoder
    total = steps.add("Gather", [steps.weight("embeddings.word_embeddings.weight"), "input_ids"], "words")
    if encoder.family.token_types:
        types = "token_type_ids" if encoder.family.asks_token_types else steps.integers("type_0", [0])
        of_types = steps.add(
            "Gather", [steps.weight("embeddings.token_type_embeddings.weight"), types], "types"
        )
        total = steps.add("Add", [total, of_types], "words_and_types")
    places = _numbers(steps) if encoder.padding is None else _places_from_padding(steps)
    positions = steps.add(
        "Gather", [steps.weight("embeddings.position_embeddings.weight"), places], "positions"
    )
    total = steps.norm("embeddings.LayerNorm", steps.add("Add", [total, positions], "embeddings"))
    return steps.dense(encoder.family.projection, total) if encoder.projected else total


def _numbers(steps: _Steps) -> str:
    """0, 1, … to the length of the longest text."""
    # Sliced, not counted: ONNX Runtime 1.31 turns counting before a look-up into a slice that it then refuses.
    all_numbers = steps.integers("numbers.all", range(steps.encoder.positions))
    length = steps.add("Shape", ["input_ids"], "numbers.length", start=1, end=2)
    ends = [steps.integers("numbers.first", [0]), length, steps.integers("axis_0", [0])]
    return steps.add("Slice", [all_numbers, *ends], "numbers")


def _places_from_padding(steps: _Steps) -> str:
    """RoBERTa's: a text's tokens are counted from the number after that of the padding token, which padding keeps."""
    from onnx import TensorProto

    assert steps.encoder.padding is not None  # noqa: S101  (the caller asked)
    pad = steps.integers("padding", steps.encoder.padding)
    is_pad = steps.add("Equal", ["input_ids", pad], "places.is_padding")
    is_token = steps.add("Not", [is_pad], "places.is_token")
    ones = steps.add("Cast", [is_token], "places.ones", to=TensorProto.INT64)
    counted = steps.add("CumSum", [ones, steps.integers("1", 1)], "places.counted")
    own = steps.add("Mul", [counted, ones], "places.own")
    return steps.add("Add", [own, pad], "places")


def _distance_bias(steps: _Steps) -> str:
    """MPNet's bias by the distance of two tokens, shape (1, heads, length, length), the same in every layer."""
    encoder = steps.encoder
    numbers = _numbers(steps)
    columns = steps.add("Unsqueeze", [numbers, steps.integers("axis_0", [0])], "distance.to")
    rows = steps.add("Unsqueeze", [numbers, steps.integers("axis_1", [1])], "distance.from")
    distances = steps.add("Sub", [columns, rows], "distance")
    # Looked up, shifted to begin at 0: the table has every distance that the table of positions allows.
    farthest = encoder.positions - 1
    shifted = steps.add("Add", [distances, steps.integers("distance.farthest", farthest)], "distance.shifted")
    table = distance_buckets(np.arange(-farthest, farthest + 1))
    buckets = steps.add("Gather", [steps.integers("distance.table", table), shifted], "distance.buckets")
    weights = steps.weight(str(encoder.family.relative))
    of_pairs = steps.add("Gather", [weights, buckets], "distance.bias")
    first = steps.add("Transpose", [of_pairs], "distance.of_heads", perm=[2, 0, 1])
    return steps.add("Unsqueeze", [first, steps.integers("axis_0", [0])], "distance.added")


def distance_buckets(distances: NDArray[np.int64]) -> NDArray[np.int64]:
    """The bucket of each distance: half of them for either direction, small ones exact, then by the logarithm.

    T5's rule (Raffel et al., 2020), as MPNet uses it; computed in float32, as torch does.
    """
    half = BUCKETS // 2
    exact = half // 2
    direction = np.where(distances > 0, half, 0)
    far = np.abs(distances)
    share = np.log(np.maximum(far, 1).astype(np.float32) / np.float32(exact)) / np.float32(
        math.log(FARTHEST / exact)
    )
    spread = np.minimum(exact + (share * np.float32(half - exact)).astype(np.int64), half - 1)
    return direction + np.where(far < exact, far, spread)


def _layer(steps: _Steps, at: str, given: str, mask: str, bias: str | None) -> str:
    family = steps.encoder.family
    attended = steps.dense(at + family.attended, _attention(steps, at, given, mask, bias))
    middle = steps.norm(at + family.attended_norm, steps.add("Add", [attended, given], f"{at}attended"))
    inner = steps.dense(at + family.inner, middle)
    active = steps.add("Gelu", [inner], f"{at}active", approximate=steps.encoder.activation)
    outer = steps.dense(at + family.outer, active)
    return steps.norm(at + family.outer_norm, steps.add("Add", [outer, middle], f"{at}outer"))


def _attention(steps: _Steps, at: str, given: str, mask: str, bias: str | None) -> str:
    encoder = steps.encoder
    by_head = steps.integers("by_head", [0, 0, encoder.heads, encoder.hidden // encoder.heads])

    def of_heads(part: str, order: list[int]) -> str:
        split = steps.add("Reshape", [steps.dense(at + part, given), by_head], f"{at}{part}.heads")
        return steps.add("Transpose", [split], f"{at}{part}.turned", perm=order)

    query = of_heads(encoder.family.query, [0, 2, 1, 3])
    key = of_heads(encoder.family.key, [0, 2, 3, 1])
    value = of_heads(encoder.family.value, [0, 2, 1, 3])
    scale = steps.number("scale", 1 / math.sqrt(encoder.hidden // encoder.heads))
    scores = steps.add("MatMul", [query, key], f"{at}scores")
    scores = steps.add("Mul", [scores, scale], f"{at}scores.scaled")
    if bias is not None:
        scores = steps.add("Add", [scores, bias], f"{at}scores.by_distance")
    scores = steps.add("Add", [scores, mask], f"{at}scores.masked")
    shares = steps.add("Softmax", [scores], f"{at}shares", axis=-1)
    taken = steps.add("MatMul", [shares, value], f"{at}taken")
    turned = steps.add("Transpose", [taken], f"{at}taken.turned", perm=[0, 2, 1, 3])
    return steps.add(
        "Reshape", [turned, steps.integers("joined", [0, 0, encoder.hidden])], f"{at}taken.joined"
    )
