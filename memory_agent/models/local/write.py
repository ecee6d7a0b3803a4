"""Writing the ONNX file of a model from its safetensors, without torch: reading, the graph, and where weights are kept."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from memory_agent.errors import EmbedderError, UnsupportedModel
from memory_agent.models.local.encoders import Encoder, plan_encoder
from memory_agent.models.local.folder import module_folder, read_json, weight_files
from memory_agent.models.local.graph import build_graph
from memory_agent.models.local.quantize import SINGLE_FILE_BYTES
from memory_agent.models.local.tensors import FLOATS, Stored, safetensors

if TYPE_CHECKING:
    from pathlib import Path
    from typing import BinaryIO

    from numpy.typing import NDArray
    from onnx import TensorProto

INLINE_BYTES: Final = 1_024
"""Smaller tensors stay in the graph where the weights lie beside it: its shapes are worked out from them."""


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
    stored: dict[str, Stored] = {}
    for file in files:
        try:
            tensors = safetensors(file)
        except (ValueError, KeyError, TypeError, OSError) as exc:
            raise UnsupportedModel(f"{file.name} cannot be read: {exc}") from exc
        if twice := stored.keys() & tensors.keys():
            raise UnsupportedModel(f"its weights hold {min(twice)} twice")
        stored |= tensors
    # Numbers of positions and the like, which are no weights.
    floats = {name: tensor for name, tensor in stored.items() if not tensor.kind.startswith(("I64", "BOOL"))}
    if unknown := [name for name, tensor in floats.items() if tensor.kind not in FLOATS]:
        raise UnsupportedModel(f"its {unknown[0]} is of the kind {floats[unknown[0]].kind}")
    settings = read_json(module_folder(folder, "Transformer") / "config.json")
    encoder = plan_encoder(settings, {name: tensor.shape for name, tensor in floats.items()})
    return OpenEncoder(folder=folder, encoder=encoder, stored=floats)


def write_onnx(encoder: OpenEncoder, file: Path, *, single_file_bytes: int = SINGLE_FILE_BYTES) -> None:
    """Write the ONNX file of `encoder`; its weights beside it, as `model.onnx_data`, if they are larger than one file holds.

    Raises EmbedderError if the weights cannot be read, OSError if the file cannot be written.
    """
    import onnx
    from onnx import numpy_helper

    def read(name: str) -> NDArray[np.float32]:
        try:
            values = encoder.stored[name].read()
        except (ValueError, OSError) as exc:
            raise EmbedderError(f"{name} of the model in {encoder.folder} cannot be read: {exc}") from exc
        assert values is not None  # noqa: S101  (others were refused when it was opened)
        return values

    def inside(name: str, values: NDArray[Any]) -> TensorProto:
        return numpy_helper.from_array(np.ascontiguousarray(values), name)

    if encoder.size <= single_file_bytes:
        onnx.save(build_graph(encoder.encoder, read, inside), str(file))
        return
    beside = file.with_name(f"{file.name}_data")
    with beside.open("wb") as stream:

        def keep(name: str, values: NDArray[Any]) -> TensorProto:
            return (
                inside(name, values)
                if values.nbytes < INLINE_BYTES
                else _put(stream, name, values, beside.name)
            )

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
