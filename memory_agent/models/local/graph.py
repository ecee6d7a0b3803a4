"""The ONNX file of an encoder, written from its safetensors by numpy and the onnx package alone, without torch.

The graph is the one that torch's exporter gives, less what it computes needlessly: inputs by the tokenizer's names with
the axes `texts` and `length` open, the vectors of the tokens as its only output. Its float tensors are the weights
themselves, so that its fingerprint is theirs. Steps have the form that ONNX Runtime merges when it loads them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from memory_agent.errors import EmbedderError, UnsupportedModel
from memory_agent.models.local.encoders import BUCKETS, Encoder, plan_encoder
from memory_agent.models.local.folder import module_folder, read_json, weight_files
from memory_agent.models.local.tensors import FLOATS, SINGLE_FILE_BYTES, Stored, safetensors

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path
    from typing import BinaryIO

    from numpy.typing import NDArray
    from onnx import ModelProto, NodeProto, TensorProto

    ReadTensor = Callable[[str], NDArray[np.float32]]
    KeepTensor = Callable[[str, NDArray[Any]], TensorProto]

INLINE_BYTES: Final = 1_024
"""Smaller tensors stay in the graph where the weights lie beside it: its shapes are worked out from them."""

OPSET: Final = 20
"""The first with GELU as one step."""

IR_VERSION: Final = 10
"""Read by ONNX Runtime from 1.20 on."""

FARTHEST: Final = 128
"""From this distance on, all share a bucket: MPNet's, which no setting changes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenEncoder:
    """An encoder that can be written, and where its weights are."""

    folder: Path
    encoder: Encoder
    stored: dict[str, Stored]

    @property
    def size(self) -> int:
        """Bytes that its weights take as float32."""
        return sum(4 * int(np.prod(self.stored[name].shape)) for name in self.encoder.names.values())


def open_encoder(folder: Path) -> OpenEncoder:
    """The encoder of the model in `folder`; of its weights the headers are read alone.

    Raises UnsupportedModel with what is not understood, as the end of a sentence.
    """
    files = weight_files(folder)
    if not files or files[0].suffix != ".safetensors":
        raise UnsupportedModel("its weights are no safetensors")
    floats: dict[str, Stored] = {}
    for file in files:
        try:
            tensors = safetensors(file)
        except (ValueError, KeyError, TypeError, OSError) as exc:
            raise UnsupportedModel(f"{file.name} cannot be read: {exc}") from exc
        for name, tensor in tensors.items():
            if name in floats:
                raise UnsupportedModel(f"its weights hold {name} twice")
            if tensor.kind in FLOATS:
                floats[name] = tensor
            # Else numbers of positions and the like, which are no weights.
            elif tensor.kind not in ("I64", "BOOL"):
                raise UnsupportedModel(f"its {name} is of the kind {tensor.kind}")
    settings = read_json(module_folder(folder, "Transformer") / "config.json")
    encoder = plan_encoder(settings, {name: tensor.shape for name, tensor in floats.items()})
    return OpenEncoder(folder=folder, encoder=encoder, stored=floats)


def write_onnx(encoder: OpenEncoder, file: Path, *, single_file_bytes: int = SINGLE_FILE_BYTES) -> None:
    """Write the ONNX file of `encoder`; its weights beside it, as `model.onnx_data`, if they are large.

    Raises EmbedderError if the weights cannot be read, OSError if the file cannot be written.
    """
    import onnx
    from onnx import numpy_helper

    def read(name: str) -> NDArray[np.float32]:
        try:
            return encoder.stored[name].read()
        except (ValueError, OSError) as exc:
            raise EmbedderError(f"{name} of the model in {encoder.folder} cannot be read: {exc}") from exc

    def inside(name: str, values: NDArray[Any]) -> TensorProto:
        return numpy_helper.from_array(np.ascontiguousarray(values), name)

    if encoder.size <= single_file_bytes:
        onnx.save(build_graph(encoder.encoder, read, inside), str(file))
        return
    with file.with_name(f"{file.name}_data").open("wb") as stream:

        def keep(name: str, values: NDArray[Any]) -> TensorProto:
            small = values.nbytes < INLINE_BYTES
            return inside(name, values) if small else _put(stream, name, values, f"{file.name}_data")

        onnx.save(build_graph(encoder.encoder, read, keep), str(file))


def _put(stream: BinaryIO, name: str, values: NDArray[Any], location: str) -> TensorProto:
    """A tensor whose values are appended to `stream`, and only named in the graph."""
    from onnx import TensorProto, helper

    tensor = TensorProto(name=name, dims=values.shape, data_location=TensorProto.EXTERNAL)
    tensor.data_type = helper.np_dtype_to_tensor_dtype(values.dtype)
    offset = stream.tell()
    stream.write(np.ascontiguousarray(values).data)
    for key, value in (("location", location), ("offset", offset), ("length", values.nbytes)):
        tensor.external_data.add(key=key, value=str(value))
    return tensor


# --- the graph -----------------------------------------------------------------------------------------------
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
    names = ["input_ids", "attention_mask", *(["token_type_ids"] * encoder.family.asks_token_types)]
    of_tokens: list[Any] = ["texts", "length"]
    describe = helper.make_tensor_value_info
    inputs = [describe(name, TensorProto.INT64, of_tokens) for name in names]
    output = describe("last_hidden_state", TensorProto.FLOAT, [*of_tokens, encoder.hidden])
    graph = helper.make_graph(steps.nodes, "encoder", inputs, [output], initializer=steps.tensors)
    opsets = [helper.make_opsetid("", OPSET)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=IR_VERSION, producer_name="memory_agent")


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
        weight = self.weight(f"{name}.weight", transposed=True)
        product = self.add("MatMul", [given, weight], f"{name}.product")
        return self.add("Add", [product, self.weight(f"{name}.bias")], name)

    def norm(self, name: str, given: str) -> str:
        parts = [given, self.weight(f"{name}.weight"), self.weight(f"{name}.bias")]
        return self.add("LayerNormalization", parts, name, axis=-1, epsilon=self.encoder.epsilon)

    def look_up(self, table: str, places: str, output: str) -> str:
        """The rows of one of the tables of embeddings at these `places`."""
        return self.add("Gather", [self.weight(f"embeddings.{table}.weight"), places], output)


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
    total = steps.look_up("word_embeddings", "input_ids", "words")
    if encoder.family.token_types:
        types = "token_type_ids" if encoder.family.asks_token_types else steps.integers("type_0", [0])
        of_types = steps.look_up("token_type_embeddings", types, "types")
        total = steps.add("Add", [total, of_types], "words_and_types")
    places = _numbers(steps) if encoder.padding is None else _places_from(steps, encoder.padding)
    positions = steps.look_up("position_embeddings", places, "positions")
    total = steps.norm("embeddings.LayerNorm", steps.add("Add", [total, positions], "embeddings"))
    return steps.dense(encoder.family.projection, total) if encoder.projected else total


def _numbers(steps: _Steps) -> str:
    """0, 1, … to the length of the longest text."""
    # Sliced, not counted: ONNX Runtime 1.31 turns counting before a look-up into a slice that it then refuses.
    all_numbers = steps.integers("numbers.all", range(steps.encoder.positions))
    length = steps.add("Shape", ["input_ids"], "numbers.length", start=1, end=2)
    ends = [steps.integers("numbers.first", [0]), length, steps.integers("axis_0", [0])]
    return steps.add("Slice", [all_numbers, *ends], "numbers")


def _places_from(steps: _Steps, padding: int) -> str:
    """RoBERTa's: a text's tokens are counted from the number after that of the padding token, which padding keeps."""
    from onnx import TensorProto

    pad = steps.integers("padding", padding)
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
    share = np.log(np.maximum(far, 1).astype(np.float32) / np.float32(exact))
    share /= np.float32(math.log(FARTHEST / exact))
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
    joined = steps.integers("joined", [0, 0, encoder.hidden])
    return steps.add("Reshape", [turned, joined], f"{at}taken.joined")
