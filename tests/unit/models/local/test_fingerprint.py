"""The same weights used in the same way are the same model, in whatever files they are."""

from __future__ import annotations

import json
import os
import struct
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import onnx
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from onnx import numpy_helper
from safetensors.numpy import load_file, save_file

from memory_agent.errors import EmbedderError, ModelNotFound
from memory_agent.models.local.fingerprint import model_fingerprint, weights_digest
from tests.unit.models.local.conftest import add_module, change, linked, random_bert

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from numpy.typing import NDArray

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
@pytest.mark.parametrize(("model", "file"), [("packaged", "exported"), ("tiny", "tiny_onnx")])
def test_an_exported_file_has_the_fingerprint_of_its_weights(
    request: pytest.FixtureRequest, tmp_path: Path, model: str, file: str
) -> None:
    """A safetensors file and the ONNX file that was made of it are one model, also of mostly square matrices."""
    folder, made = request.getfixturevalue(model), request.getfixturevalue(file)
    of_weights = fingerprint(folder, folder / "model.safetensors", tmp_path)
    assert fingerprint(folder, made, tmp_path) == of_weights
    assert len(of_weights) == 12
    int(of_weights, 16)


def test_saving_a_model_again_keeps_its_fingerprint(packaged: Path, tmp_path: Path) -> None:
    """Another header, another order of tensors, in two files instead of one: the model is the same."""
    tensors = load_file(packaged / "model.safetensors")
    names = sorted(tensors, reverse=True)
    parts = [tmp_path / "model-00001.safetensors", tmp_path / "model-00002.safetensors"]
    save_file({n: tensors[n] for n in names[:50]}, parts[0], metadata={"format": "np", "by": "us"})
    save_file({n: tensors[n] for n in names[50:]}, parts[1])
    stamps = tmp_path / "stamps"
    assert fingerprint(packaged, parts, stamps) == fingerprint(
        packaged, packaged / "model.safetensors", stamps
    )


@given(tensors=TENSORS, order=st.randoms(use_true_random=False))
def test_names_order_and_orientation_make_no_difference(
    tmp_path_factory: pytest.TempPathFactory, tensors: dict[str, Any], order: Any
) -> None:
    """Renamed, reordered and transposed tensors have the digest they had."""
    folder = tmp_path_factory.getbasetemp()
    other = list(tensors.values())
    order.shuffle(other)
    other = [np.ascontiguousarray(t.T) if t.ndim == 2 and order.random() < 0.5 else t for t in other]
    assert digest_of(folder, {f"x{i}": t for i, t in enumerate(other)}) == digest_of(folder, tensors)


@given(tensors=TENSORS)
def test_an_onnx_file_with_the_same_tensors_has_the_same_digest(
    tmp_path_factory: pytest.TempPathFactory, tensors: dict[str, Any]
) -> None:
    """Whether tensors are a graph's initializers or its constants, they count as those of a safetensors file."""
    file = tmp_path_factory.getbasetemp() / "some.onnx"
    onnx_of(file, tensors)
    assert weights_digest([file]) == digest_of(file.parent, tensors)


@pytest.mark.parametrize("kind", ["F16", "BF16"])
@given(tensors=TENSORS)
def test_half_precision_counts_by_its_values(
    tmp_path_factory: pytest.TempPathFactory, kind: str, tensors: dict[str, Any]
) -> None:
    """Weights saved in half precision are the model whose float32 weights have those same values."""
    folder = tmp_path_factory.getbasetemp()
    if kind == "BF16":  # values that have no more digits than it holds
        tensors = {n: (t.view(np.uint32) & 0xFFFF0000).view(np.float32) for n, t in tensors.items()}
    raw_safetensors(folder / "half.safetensors", tensors, kind)
    assert weights_digest([folder / "half.safetensors"]) == digest_of(folder, tensors)


def test_another_spelling_of_the_configuration_is_the_same_model(packaged: Path, tmp_path: Path) -> None:
    """What is written otherwise but means the same changes nothing, nor does leaving out the last step."""
    copy = linked(packaged, tmp_path / "copy")
    (copy / "1_Pooling" / "config.json").write_text(
        json.dumps({"embedding_dimension": 384, "pooling_mode": "mean", "include_prompt": True})
    )
    modules = json.loads((copy / "modules.json").read_text())
    (copy / "modules.json").write_text(json.dumps(modules[:2]))  # vectors are normalised anyway
    weights, stamps = packaged / "model.safetensors", tmp_path / "stamps"
    assert fingerprint(copy, weights, stamps) == fingerprint(packaged, weights, stamps)


@pytest.mark.parametrize("head", ["pooler.dense.weight", "bert.pooler.dense.bias", "cls.predictions.bias"])
def test_heads_for_training_make_no_difference(tmp_path: Path, head: str) -> None:
    """Tensors that no embedding passes may be there or not, with whatever values."""
    tensors = random_bert()
    without = digest_of(tmp_path, tensors)
    assert digest_of(tmp_path, tensors | {head: np.ones((3, 3), np.float32)}) == without
    assert digest_of(tmp_path, tensors | {"lm_head.weight": np.ones((2, 3), np.float32)}) == without
    assert digest_of(tmp_path, tensors | {"cls_token": np.ones((2, 3), np.float32)}) != without


# --- another model
@given(tensors=TENSORS, data=st.data())
def test_another_weight_is_another_model(
    tmp_path_factory: pytest.TempPathFactory, tensors: dict[str, Any], data: st.DataObject
) -> None:
    """One changed number among the tensors of more than one makes another digest."""
    folder = tmp_path_factory.getbasetemp()
    sized = {name: t for name, t in tensors.items() if t.size > 1} or {"a": np.zeros((2, 2), np.float32)}
    name = data.draw(st.sampled_from(sorted(sized)))
    place = data.draw(st.integers(0, sized[name].size - 1))
    changed = {n: t.copy() for n, t in sized.items()}
    changed[name].flat[place] = 9.0  # outside the values drawn
    assert digest_of(folder, changed) != digest_of(folder, sized)


def test_what_decides_about_a_vector_is_in_the_fingerprint(packaged: Path, tmp_path: Path) -> None:
    """Another pooling, prompt, case or layer is another model each, and so is int8."""
    weights, stamps = packaged / "model.safetensors", tmp_path / "stamps"
    seen = {
        "plain": fingerprint(packaged, weights, stamps),
        "int8": fingerprint(packaged, weights, stamps, precision="int8"),
    }
    changes: dict[str, tuple[str, dict[str, Any]]] = {
        "pooling": ("1_Pooling/config.json", {"pooling_mode": "cls"}),
        "two poolings": ("1_Pooling/config.json", {"pooling_mode": ["cls", "mean"]}),
        "their order": ("1_Pooling/config.json", {"pooling_mode": ["mean", "cls"]}),
        "lower case": ("sentence_bert_config.json", {"do_lower_case": True}),
        "prompt": (
            "config_sentence_transformers.json",
            {"prompts": {"q": "query: "}, "default_prompt_name": "q"},
        ),
        "other prompt": (
            "config_sentence_transformers.json",
            {"prompts": {"q": "text: "}, "default_prompt_name": "q"},
        ),
    }
    for what, (file, values) in changes.items():
        copy = linked(packaged, tmp_path / what)
        change(copy / file, **values)
        seen[what] = fingerprint(copy, weights, stamps)
    dense = add_module(linked(packaged, tmp_path / "dense"), "Dense")
    seen["module"] = fingerprint(dense, weights, stamps)
    assert len(set(seen.values())) == len(seen), seen


def test_a_prompt_that_is_not_used_changes_nothing(packaged: Path, tmp_path: Path) -> None:
    """Prompts without a default among them are no part of the model."""
    copy = linked(packaged, tmp_path / "copy")
    change(copy / "config_sentence_transformers.json", prompts={"q": "query: "})
    weights, stamps = packaged / "model.safetensors", tmp_path / "stamps"
    assert fingerprint(copy, weights, stamps) == fingerprint(packaged, weights, stamps)


def test_pickled_weights_are_known_by_their_bytes(tiny: Path, tmp_path: Path) -> None:
    """A file that only torch can read is told apart by every byte, and has a fingerprint without torch."""
    file = tmp_path / "pytorch_model.bin"
    file.write_bytes(b"some weights")
    first = fingerprint(tiny, file, tmp_path / "stamps")
    assert fingerprint(tiny, file, tmp_path / "others") == first
    file.write_bytes(b"some Weights.")
    assert fingerprint(tiny, file, tmp_path / "stamps") != first


def test_without_weights_there_is_no_fingerprint(packaged: Path, tmp_path: Path) -> None:
    """A folder with settings alone is told as one without weights."""
    with pytest.raises(ModelNotFound, match="holds no weights"):
        fingerprint(packaged, [], tmp_path)


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
    """Whatever bytes a weights file holds, either they are read or the error names the file."""
    file = tmp_path_factory.getbasetemp() / name
    file.write_bytes(content)
    try:
        read = weights_digest([file])
    except EmbedderError as exc:
        read = str(exc)
    assert len(read) == 64 or f"the weights in {file} cannot be read" in read


@pytest.mark.parametrize("keep", [0, 4, 100, 5_000, 2_000_000])
def test_weights_cut_off_are_told(tiny: Path, tiny_onnx: Path, tmp_path: Path, keep: int) -> None:
    """A download that broke off, wherever, is no model, whichever kind of file it was."""
    for whole in (tiny / "model.safetensors", tiny_onnx):
        file = tmp_path / whole.name
        file.write_bytes(whole.read_bytes()[:keep])
        with pytest.raises(EmbedderError, match=rf"{whole.name} cannot be read"):
            weights_digest([file])


# --- weights beside the graph
def beside(tiny_onnx: Path, folder: Path) -> Path:
    """`tiny_onnx` with its weights in a file of their own, as models of more than 2 GB are kept."""
    folder.mkdir()
    file = folder / "model.onnx"
    onnx.save(
        onnx.load(str(tiny_onnx)),
        str(file),
        save_as_external_data=True,
        location="model.onnx_data",
        size_threshold=0,
    )
    return file


def test_weights_beside_the_graph_are_read(tiny_onnx: Path, tmp_path: Path) -> None:
    """A graph with its weights in another file is the same model as one that holds them, also where both are links.

    The hub's cache keeps them so, to blobs of other names.
    """
    file = beside(tiny_onnx, tmp_path / "big")
    assert file.stat().st_size < 500_000
    assert weights_digest([file]) == weights_digest([tiny_onnx])
    snapshot = tmp_path / "snapshot"
    snapshot.mkdir()
    for i, part in enumerate((file, file.with_name("model.onnx_data"))):
        blob = tmp_path / f"blob{i}"
        part.rename(blob)
        (snapshot / part.name).symlink_to(blob)
    assert weights_digest([snapshot / "model.onnx"]) == weights_digest([tiny_onnx])


def test_changed_weights_beside_the_graph_are_read_again(tiny: Path, tiny_onnx: Path, tmp_path: Path) -> None:
    """What was noted doesn't count any more when the file beside the graph has changed."""
    file = beside(tiny_onnx, tmp_path / "big")
    data = file.with_name("model.onnx_data")
    before = fingerprint(tiny, file, tmp_path / "stamps")
    content = bytearray(data.read_bytes())
    content[1_000_000:1_000_004] = struct.pack("<f", 3.5)
    data.write_bytes(bytes(content))
    assert fingerprint(tiny, file, tmp_path / "stamps") != before


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
    """A second fingerprint reads no weights: they may even be unreadable by then."""
    stamps = tmp_path / "stamps"
    first = fingerprint(tiny, weights, stamps)
    spoil(weights)
    assert fingerprint(tiny, weights, stamps) == first
    with pytest.raises(EmbedderError):
        fingerprint(tiny, weights, tmp_path / "others")


def test_a_changed_file_is_read_again(tiny: Path, weights: Path, tmp_path: Path) -> None:
    """New weights under the old name are another model, though they have the old size."""
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


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b"\xff", b'{"digest": 1}', b'{"digest": "abc"}'])
def test_a_corrupt_note_is_passed_over(tiny: Path, weights: Path, tmp_path: Path, content: bytes) -> None:
    """A note that was cut off, or is of something else, is replaced by a right one."""
    stamps = tmp_path / "stamps"
    first = fingerprint(tiny, weights, stamps)
    right = {note: note.read_bytes() for note in stamps.iterdir()}
    assert len(right) == 2  # of the weights, and of the tokenizer
    for note in right:
        note.write_bytes(content)
    assert fingerprint(tiny, weights, stamps) == first
    assert {note: note.read_bytes() for note in stamps.iterdir()} == right


def test_where_nothing_can_be_noted_it_is_read_each_time(tiny: Path, weights: Path, tmp_path: Path) -> None:
    """A cache folder that can't be written costs time, nothing else."""
    (tmp_path / "file").write_text("no folder")
    stamps = tmp_path / "file" / "stamps"
    assert fingerprint(tiny, weights, stamps) == fingerprint(tiny, weights, tmp_path / "stamps")
    spoil(weights)
    with pytest.raises(EmbedderError):
        fingerprint(tiny, weights, stamps)


def test_one_note_serves_both_precisions_and_every_use(tiny: Path, weights: Path, tmp_path: Path) -> None:
    """What is noted is the weights' digest: another precision of them is not read for."""
    stamps = tmp_path / "stamps"
    fp32 = fingerprint(tiny, weights, stamps)
    spoil(weights)
    assert fingerprint(tiny, weights, stamps, precision="int8") != fp32
    assert len(list(stamps.iterdir())) == 2


# --- what decides about vectors besides the weights
def rewrite_tokenizer(folder: Path, edit: Callable[[dict[str, Any]], object], **how: Any) -> None:
    file = folder / "tokenizer.json"
    content = json.loads(file.read_text(encoding="utf-8"))
    edit(content)
    file.unlink()
    file.write_text(json.dumps(content, **how), encoding="utf-8")


def swap_two_words(content: dict[str, Any]) -> None:
    words = content["model"]["vocab"]
    words["zebra"], words["zoo"] = words["zoo"], words["zebra"]


@pytest.mark.parametrize(
    "change_it",
    [
        lambda folder: rewrite_tokenizer(folder, swap_two_words),
        lambda folder: rewrite_tokenizer(folder, lambda c: c["normalizer"].update(lowercase=False)),
        lambda folder: change(folder / "config.json", num_attention_heads=4),
        lambda folder: change(folder / "config.json", hidden_act="relu"),
    ],
    ids=["vocabulary", "normalizer", "heads", "activation"],
)
def test_the_same_weights_used_otherwise_are_another_model(
    tiny: Path, tmp_path: Path, change_it: Callable[[Path], None]
) -> None:
    """Another vocabulary, normalisation or architecture gives other vectors of the same weights."""
    folder = linked(tiny, tmp_path / "model")
    before = fingerprint(folder, folder / "model.safetensors", tmp_path / "stamps")
    change_it(folder)
    assert fingerprint(folder, folder / "model.safetensors", tmp_path / "stamps") != before


def test_a_tokenizer_written_otherwise_is_the_same(tiny: Path, tmp_path: Path) -> None:
    """How long texts may be, and how the file is laid out, are no part of which model it is."""
    folder = linked(tiny, tmp_path / "model")
    before = fingerprint(folder, folder / "model.safetensors", tmp_path / "stamps")
    cut = {"direction": "Right", "max_length": 7, "strategy": "LongestFirst", "stride": 0}
    rewrite_tokenizer(folder, lambda content: content.update(truncation=cut), indent=3)
    assert fingerprint(folder, folder / "model.safetensors", tmp_path / "stamps") == before


def test_weights_behind_the_pooling_count(tiny: Path, tmp_path: Path) -> None:
    """A layer that only torch runs is part of the model as well."""
    prints = set()
    for number in range(2):
        folder = add_module(linked(tiny, tmp_path / f"model{number}"), "Dense")
        (folder / "9_Dense").mkdir()
        save_file(
            {"linear.weight": np.full((2, 2), number, np.float32)}, folder / "9_Dense" / "model.safetensors"
        )
        prints.add(fingerprint(folder, folder / "model.safetensors", tmp_path / "stamps"))
    assert len(prints) == 2
