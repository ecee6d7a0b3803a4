"""The same weights used in the same way are the same model, in whatever files they are."""

import json
import os
import struct
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from numpy.typing import NDArray
from onnx import numpy_helper
from safetensors.numpy import save_file

from memory_agent.errors import EmbedderError, ModelNotFound
from memory_agent.models.local.choose import model_fingerprint, weights_digest
from tests.tiny_models import change, random_bert
from tests.unit.models.local.conftest import add_module, linked

Precision = Any

TENSORS = st.dictionaries(
    st.text("abcdef.", min_size=1, max_size=8),
    hnp.arrays(
        np.float32,
        hnp.array_shapes(max_dims=3, max_side=5),
        elements=st.floats(-8, 8, width=16),  # exact in half precision as well
    ),
    min_size=1,
    max_size=5,
)


def fingerprint(
    folder: Path, weights: Path | Sequence[Path], stamps: Path, *, precision: Precision = "fp32"
) -> str:
    files = [weights] if isinstance(weights, Path) else weights
    return model_fingerprint(folder, files, precision=precision, stamps=stamps)


def digest_of(folder: Path, tensors: Mapping[str, NDArray[Any]]) -> str:
    file = folder / "some.safetensors"
    save_file(dict(tensors), file)
    return weights_digest([file])


def raw_safetensors(file: Path, tensors: Mapping[str, NDArray[np.float32]], kind: str) -> None:
    """A file of the given precision, written by hand: NumPy has no bfloat16."""
    header, content = {}, b""
    for name, values in tensors.items():
        if kind == "BF16":
            data = (values.view(np.uint32) >> 16).astype(np.uint16).tobytes()
        else:
            data = values.astype(np.float16).tobytes()
        offsets = [len(content), len(content) + len(data)]
        header[name] = {"dtype": kind, "shape": list(values.shape), "data_offsets": offsets}
        content += data
    head = json.dumps(header).encode()
    file.write_bytes(struct.pack("<Q", len(head)) + head + content)


def onnx_of(file: Path, tensors: Mapping[str, NDArray[np.float32]]) -> None:
    """An ONNX file whose graph holds these tensors, half of them as constants."""
    names = sorted(tensors)
    nodes = [
        onnx.helper.make_node("Constant", [], [n], value=numpy_helper.from_array(tensors[n], n))
        for n in names[::2]
    ]
    initializers = [numpy_helper.from_array(tensors[n], n) for n in names[1::2]]
    graph = onnx.helper.make_graph(nodes, "weights", [], [], initializers)
    onnx.save(onnx.helper.make_model(graph), str(file))


# --- the same model
def test_an_exported_file_has_the_fingerprint_of_its_weights(
    tiny: Path, tiny_onnx: Path, tmp_path: Path
) -> None:
    """A safetensors file and the ONNX file that was made of it are one model, also of mostly square matrices."""
    of_weights = fingerprint(tiny, tiny / "model.safetensors", tmp_path)
    assert fingerprint(tiny, tiny_onnx, tmp_path) == of_weights
    assert len(of_weights) == 12
    int(of_weights, 16)


@given(tensors=TENSORS, order=st.randoms(use_true_random=False))
def test_names_order_orientation_and_format_make_no_difference(
    tmp_path_factory: pytest.TempPathFactory, tensors: dict[str, Any], order: Any
) -> None:
    """Renamed, reordered and transposed tensors, in two files or a graph's initializers and constants, are the same."""
    folder = tmp_path_factory.getbasetemp()
    other = list(tensors.values())
    order.shuffle(other)
    other = [np.ascontiguousarray(t.T) if t.ndim == 2 and order.random() < 0.5 else t for t in other]
    own = digest_of(folder, tensors)
    assert digest_of(folder, {f"x{i}": t for i, t in enumerate(other)}) == own
    parts = [folder / "model-00001.safetensors", folder / "model-00002.safetensors"]
    for first, part in enumerate(parts):
        some = {f"x{i}": tensor for i, tensor in enumerate(other) if i % 2 == first}
        save_file(some, part, metadata={"format": "np", "by": "us"})
    assert weights_digest(parts) == own
    onnx_of(folder / "some.onnx", tensors)
    assert weights_digest([folder / "some.onnx"]) == own


@pytest.mark.parametrize("kind", ["F16", "BF16"])
@given(tensors=TENSORS)
def test_half_precision_counts_by_its_values(
    tmp_path_factory: pytest.TempPathFactory, kind: str, tensors: dict[str, Any]
) -> None:
    folder = tmp_path_factory.getbasetemp()
    if kind == "BF16":  # values that have no more digits than it holds
        tensors = {n: (t.view(np.uint32) & 0xFFFF0000).view(np.float32) for n, t in tensors.items()}
    raw_safetensors(folder / "half.safetensors", tensors, kind)
    assert weights_digest([folder / "half.safetensors"]) == digest_of(folder, tensors)


def test_what_means_the_same_is_the_same_model(packaged: Path, tmp_path: Path) -> None:
    """Another spelling of the configuration, prompts without a default, a last step that is done anyway: nothing changes."""
    copy = linked(packaged, tmp_path / "copy")
    pooling = {"embedding_dimension": 384, "pooling_mode": "mean", "include_prompt": True}
    (copy / "1_Pooling" / "config.json").write_text(json.dumps(pooling))
    modules = json.loads((copy / "modules.json").read_text())
    (copy / "modules.json").write_text(json.dumps(modules[:2]))  # vectors are normalised anyway
    change(copy / "config_sentence_transformers.json", prompts={"q": "query: "})
    weights, stamps = packaged / "model.safetensors", tmp_path / "stamps"
    assert fingerprint(copy, weights, stamps) == fingerprint(packaged, weights, stamps)


# --- another model
@given(tensors=TENSORS, data=st.data())
def test_another_weight_is_another_model(
    tmp_path_factory: pytest.TempPathFactory, tensors: dict[str, Any], data: st.DataObject
) -> None:
    folder = tmp_path_factory.getbasetemp()
    sized = {name: t for name, t in tensors.items() if t.size > 1} or {"a": np.zeros((2, 2), np.float32)}
    name = data.draw(st.sampled_from(sorted(sized)))
    place = data.draw(st.integers(0, sized[name].size - 1))
    changed = {n: t.copy() for n, t in sized.items()}
    changed[name].flat[place] = 9.0  # outside the values drawn
    assert digest_of(folder, changed) != digest_of(folder, sized)


PROMPTS = "config_sentence_transformers.json"
OTHERS: dict[str, tuple[str, dict[str, Any]]] = {
    "pooling": ("1_Pooling/config.json", {"pooling_mode": "cls"}),
    "two poolings": ("1_Pooling/config.json", {"pooling_mode": ["cls", "mean"]}),
    "their order": ("1_Pooling/config.json", {"pooling_mode": ["mean", "cls"]}),
    "lower case": ("sentence_bert_config.json", {"do_lower_case": True}),
    "prompt": (PROMPTS, {"prompts": {"q": "query: "}, "default_prompt_name": "q"}),
    "other prompt": (PROMPTS, {"prompts": {"q": "text: "}, "default_prompt_name": "q"}),
    "heads": ("config.json", {"num_attention_heads": 4}),
    "activation": ("config.json", {"hidden_act": "relu"}),
}


def test_what_decides_about_a_vector_is_in_the_fingerprint(tiny: Path, tmp_path: Path) -> None:
    """Another pooling, prompt, case, architecture, tokenizer or layer is another model each, and so is int8."""
    weights, stamps = tiny / "model.safetensors", tmp_path / "stamps"
    seen = {"plain": fingerprint(tiny, weights, stamps)}
    seen["int8"] = fingerprint(tiny, weights, stamps, precision="int8")

    def copy(what: str) -> Path:
        return linked(tiny, tmp_path / what)

    for what, (file, values) in OTHERS.items():
        change(copy(what) / file, **values)
    rewrite_tokenizer(copy("vocabulary"), swap_two_words)
    rewrite_tokenizer(copy("normalizer"), lambda content: content["normalizer"].update(lowercase=False))
    add_module(copy("module"), "Dense")
    for number in range(2):  # a layer that only torch runs is part of the model as well
        dense = add_module(copy(f"dense {number}"), "Dense") / "9_Dense"
        dense.mkdir()
        save_file({"linear.weight": np.full((2, 2), number, np.float32)}, dense / "model.safetensors")
    copies = [folder for folder in tmp_path.iterdir() if (folder / "modules.json").is_file()]
    seen |= {folder.name: fingerprint(folder, weights, stamps) for folder in copies}
    assert len(set(seen.values())) == len(seen) == len(OTHERS) + 7, seen
    cut = {"direction": "Right", "max_length": 7, "strategy": "LongestFirst", "stride": 0}
    rewrite_tokenizer(copy("written otherwise"), lambda content: content.update(truncation=cut), indent=3)
    assert fingerprint(tmp_path / "written otherwise", weights, stamps) == seen["plain"]


def rewrite_tokenizer(folder: Path, edit: Callable[[dict[str, Any]], object], **how: Any) -> None:
    file = folder / "tokenizer.json"
    content = json.loads(file.read_text(encoding="utf-8"))
    edit(content)
    file.unlink()
    file.write_text(json.dumps(content, **how), encoding="utf-8")


def swap_two_words(content: dict[str, Any]) -> None:
    words = content["model"]["vocab"]
    words["zebra"], words["zoo"] = words["zoo"], words["zebra"]


def test_pickled_weights_are_known_by_their_bytes(tiny: Path, tmp_path: Path) -> None:
    file = tmp_path / "pytorch_model.bin"
    file.write_bytes(b"some weights")
    first = fingerprint(tiny, file, tmp_path / "stamps")
    assert fingerprint(tiny, file, tmp_path / "others") == first
    file.write_bytes(b"some Weights.")
    assert fingerprint(tiny, file, tmp_path / "stamps") != first
    with pytest.raises(ModelNotFound, match="holds no weights"):
        fingerprint(tiny, [], tmp_path)


# --- files that cannot be read
@pytest.mark.parametrize("name", ["some.safetensors", "some.onnx"])
@example(content=b"")
@example(content=struct.pack("<Q", 2**63))
@example(content=struct.pack("<Q", 1) + b"1")
@example(content=struct.pack("<Q", 9) + b'{"a": [1]}')
@example(content=struct.pack("<Q", 11) + b'{"a": "b"} ')
@given(content=st.binary(max_size=64))
def test_a_file_of_something_else_is_named(
    tmp_path_factory: pytest.TempPathFactory, name: str, content: bytes
) -> None:
    file = tmp_path_factory.getbasetemp() / name
    file.write_bytes(content)
    try:
        read = weights_digest([file])
    except EmbedderError as exc:
        read = str(exc)
    assert len(read) == 64 or f"the weights in {file} cannot be read" in read


def test_weights_cut_off_are_told(tiny: Path, tiny_onnx: Path, tmp_path: Path) -> None:
    for whole in (tiny / "model.safetensors", tiny_onnx):
        content, file = whole.read_bytes(), tmp_path / whole.name
        for keep in (0, 4, 100, 5_000, 2_000_000):
            file.write_bytes(content[:keep])
            with pytest.raises(EmbedderError, match=rf"{whole.name} cannot be read"):
                weights_digest([file])


# --- weights beside the graph
def test_weights_beside_the_graph_are_read(tiny: Path, tiny_onnx: Path, tmp_path: Path) -> None:
    """They are the same model as a graph that holds them, also where both are links, as the hub's cache keeps them.

    What was noted doesn't count any more when the file beside the graph has changed.
    """
    snapshot = tmp_path / "snapshot"
    snapshot.mkdir()
    apart = {"save_as_external_data": True, "location": "model.onnx_data", "size_threshold": 0}
    onnx.save(onnx.load(str(tiny_onnx)), str(snapshot / "model.onnx"), **apart)  # type: ignore[arg-type]
    assert (snapshot / "model.onnx").stat().st_size < 500_000
    for name in ("model.onnx", "model.onnx_data"):
        (snapshot / name).rename(tmp_path / f"blob of {name}")
        (snapshot / name).symlink_to(tmp_path / f"blob of {name}")
    assert weights_digest([snapshot / "model.onnx"]) == weights_digest([tiny_onnx])
    before = fingerprint(tiny, snapshot / "model.onnx", tmp_path / "stamps")
    data = tmp_path / "blob of model.onnx_data"
    content = bytearray(data.read_bytes())
    content[1_000_000:1_000_004] = struct.pack("<f", 3.5)
    data.write_bytes(bytes(content))
    assert fingerprint(tiny, snapshot / "model.onnx", tmp_path / "stamps") != before


# --- stamps
@pytest.fixture
def weights(tmp_path: Path) -> Path:
    file = tmp_path / "model.safetensors"
    save_file(random_bert(), file)
    return file


def spoil(file: Path) -> None:
    """Other content of the same size and time of change: whoever reads it now fails."""
    status = file.stat()
    file.write_bytes(b"\xff" * status.st_size)
    os.utime(file, ns=(status.st_atime_ns, status.st_mtime_ns))


def test_weights_are_read_once(tiny: Path, weights: Path, tmp_path: Path) -> None:
    """A second fingerprint, also for another precision, reads none, unless nothing could be noted."""
    stamps, none = tmp_path / "stamps", tmp_path / "file" / "stamps"
    (tmp_path / "file").write_text("no folder")
    first = fingerprint(tiny, weights, stamps)
    assert fingerprint(tiny, weights, none) == first
    spoil(weights)
    assert fingerprint(tiny, weights, stamps) == first
    assert fingerprint(tiny, weights, stamps, precision="int8") != first
    assert len(list(stamps.iterdir())) == 2  # of the weights, and of the tokenizer
    for others in (tmp_path / "others", none):
        with pytest.raises(EmbedderError):
            fingerprint(tiny, weights, others)


def test_a_changed_file_is_read_again(tiny: Path, weights: Path, tmp_path: Path) -> None:
    stamps = tmp_path / "stamps"
    first = fingerprint(tiny, weights, stamps)
    size = weights.stat().st_size
    save_file(random_bert(seed=8), weights)
    os.utime(weights, ns=(0, 1))
    assert weights.stat().st_size == size
    second = fingerprint(tiny, weights, stamps)
    assert second != first
    save_file(random_bert(), weights)
    assert fingerprint(tiny, weights, stamps) == first


def test_a_corrupt_note_is_passed_over(tiny: Path, weights: Path, tmp_path: Path) -> None:
    stamps = tmp_path / "stamps"
    first = fingerprint(tiny, weights, stamps)
    right = {note: note.read_bytes() for note in stamps.iterdir()}
    for content in (b"", b"{", b"[]", b"\xff", b'{"digest": 1}', b'{"digest": "abc"}'):
        for note in right:
            note.write_bytes(content)
        assert fingerprint(tiny, weights, stamps) == first
        assert {note: note.read_bytes() for note in stamps.iterdir()} == right
