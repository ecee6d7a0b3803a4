"""The tensors in a model's files, safetensors or ONNX, as float32, read from the disk as they are asked for."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import PurePath
from typing import TYPE_CHECKING, Any, Final

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from numpy.typing import NDArray
    from onnx import TensorProto


SINGLE_FILE_BYTES: Final = 8_000_000
"""From here on an ONNX file's weights lie beside its graph, from where ONNX Runtime maps them instead of reading them: MiniLM is loaded in
half the time and with 90 MB less, processes share its pages, and of the table of words those that no text uses stay on the disk.
One file of this format holds 2 GB at most."""

FLOATS: Final[dict[str, Callable[[NDArray[np.uint8]], NDArray[np.float32]]]] = {
    "F32": lambda raw: raw.view("<f4"),
    "F16": lambda raw: raw.view("<f2").astype(np.float32),
    "BF16": lambda raw: (raw.view("<u2").astype(np.uint32) << 16).view(np.float32),  # a float32's upper half
}
"""The kinds of numbers that are read, from their bytes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stored:
    """Location of a tensor's values in a safetensors file."""

    file: Path
    kind: str
    shape: tuple[int, ...]
    begin: int
    end: int

    def read(self) -> NDArray[np.float32]:
        """Its values. Raises ValueError if the file ends before they do, KeyError if they are no floats."""
        raw = np.memmap(self.file, mode="r", dtype=np.uint8)[self.begin : self.end]
        return FLOATS[self.kind](raw).reshape(self.shape)


def safetensors(file: Path) -> dict[str, Stored]:
    """The tensors of a safetensors file, by their names.

    The format: 8 bytes with the header's length, the header in JSON, then the values. Raises ValueError, KeyError or
    TypeError if it isn't that.
    """
    with file.open("rb") as stream:
        start = 8 + int.from_bytes(stream.read(8), "little")
        if start > file.stat().st_size:
            raise ValueError("it is shorter than its header")
        header = json.loads(stream.read(start - 8))
    if not isinstance(header, dict) or not all(isinstance(tensor, dict) for tensor in header.values()):
        raise ValueError("its header is none of safetensors")
    return {
        name: Stored(
            file=file,
            kind=tensor["dtype"],
            shape=tuple(tensor["shape"]),
            begin=start + tensor["data_offsets"][0],
            end=start + tensor["data_offsets"][1],
        )
        for name, tensor in header.items()
        if name != "__metadata__"
    }


def onnx_tensors(file: Path) -> Iterator[NDArray[np.float32]]:
    """The float tensors among the graph's initializers and constants. Raises ValueError if it cannot be read."""
    import onnx
    from google.protobuf.message import DecodeError
    from onnx import numpy_helper
    from onnx.external_data_helper import uses_external_data

    try:
        # Weights beside the graph are read below: in the hub's cache they are links, which the library refuses.
        graph = onnx.load(str(file), load_external_data=False).graph
    except DecodeError as exc:
        raise ValueError(str(exc)) from exc
    if not graph.node:
        raise ValueError("there is no graph in it")
    constants = (
        a.t for node in graph.node if node.op_type == "Constant" for a in node.attribute if a.name == "value"
    )
    for tensor in (*graph.initializer, *constants):
        values = _beside(file, tensor) if uses_external_data(tensor) else numpy_helper.to_array(tensor)
        if values.size > 1 and (values.dtype.kind == "f" or values.dtype.name == "bfloat16"):
            yield np.asarray(values, dtype=np.float32)


def data_files(file: Path) -> list[Path]:
    """The files beside the ONNX file `file` that hold weights of its graph."""
    import onnx
    from onnx.external_data_helper import ExternalDataInfo, uses_external_data

    graph = onnx.load(str(file), load_external_data=False).graph
    names = {ExternalDataInfo(tensor).location for tensor in graph.initializer if uses_external_data(tensor)}
    return [file.with_name(PurePath(name).name) for name in sorted(names)]


def _beside(file: Path, tensor: TensorProto) -> NDArray[Any]:
    """The values of a tensor that are in a file beside the graph's. Raises ValueError if they are to be elsewhere."""
    from onnx.external_data_helper import ExternalDataInfo
    from onnx.helper import tensor_dtype_to_np_dtype

    place = ExternalDataInfo(tensor)
    if PurePath(place.location).name != place.location:
        raise ValueError(f"its weights are to be in {place.location!r}, which is not beside it")
    kind, beside = tensor_dtype_to_np_dtype(tensor.data_type), file.with_name(place.location)
    return np.memmap(beside, dtype=kind, mode="r", offset=place.offset or 0, shape=tuple(tensor.dims))
