"""What a model's own configuration says of it."""

import itertools
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from memory_agent.errors import EmbedderError, UnsupportedModel
from memory_agent.models.local.folder import (
    POOLING_MODES,
    Encoding,
    is_model,
    max_tokens,
    onnx_file,
    pooling_modes,
    read_encoding,
    read_json,
    read_usage,
    refuse_foreign_code,
    tokenizer_file,
    weight_files,
)
from tests.tiny_models import change
from tests.unit.models.local.conftest import add_module, linked

LEGACY = {
    "pooling_mode_cls_token": "cls",
    "pooling_mode_max_tokens": "max",
    "pooling_mode_mean_tokens": "mean",
    "pooling_mode_mean_sqrt_len_tokens": "mean_sqrt_len_tokens",
    "pooling_mode_weightedmean_tokens": "weightedmean",
    "pooling_mode_lasttoken": "lasttoken",
}


@pytest.fixture
def copy(packaged: Path, tmp_path: Path) -> Path:
    """all-MiniLM-L6-v2 with settings that a test may change."""
    return linked(packaged, tmp_path / "copy")


def pooling(copy: Path, **settings: Any) -> None:
    (copy / "1_Pooling" / "config.json").write_text(json.dumps(settings))


def test_minilm_is_understood(packaged: Path) -> None:
    """The packaged model gives 384 numbers, the mean of at most 256 tokens, and has no prompt."""
    assert read_encoding(packaged) == Encoding(dimension=384, pooling=("mean",), prompt="")
    assert max_tokens(packaged) == 256
    assert read_usage(packaged) == {
        "modules": [],
        "pooling": ("mean",),
        "prompt": "",
        "include_prompt": True,
        "lower_case": False,
        "architecture": {
            "hidden_act": "gelu",
            "layer_norm_eps": 1e-12,
            "model_type": "bert",
            "num_attention_heads": 12,
            "position_embedding_type": "absolute",
        },
    }


# --- pooling
@pytest.mark.parametrize(
    ("settings", "modes"),
    [
        *(({**dict.fromkeys(LEGACY, False), key: True}, [mode]) for key, mode in LEGACY.items()),
        *(({"pooling_mode": mode}, [mode]) for mode in POOLING_MODES),
        *(({"pooling_mode": list(o)}, list(o)) for o in itertools.permutations(["max", "cls", "mean"])),
        (dict.fromkeys(reversed(LEGACY), True), list(LEGACY.values())),
        ({}, ["mean"]),
        (dict.fromkeys(LEGACY, False), ["mean"]),
        ({"pooling_mode": []}, ["mean"]),
        ({"pooling_mode": "max", "pooling_mode_cls_token": True}, ["max"]),
    ],
)
def test_pooling_is_read_in_every_spelling(copy: Path, settings: dict[str, Any], modes: list[str]) -> None:
    """Old flags have the library's order, new modes the order in which they are listed and go before; without any the mean.

    Each adds its own numbers to a vector.
    """
    pooling(copy, embedding_dimension=384, **settings)
    assert pooling_modes(copy) == tuple(modes)
    assert read_encoding(copy) == Encoding(dimension=len(modes) * 384, pooling=tuple(modes), prompt="")


# --- what is not understood
def test_what_is_not_understood_is_named(copy: Path) -> None:
    """A way of pooling with those that are understood, a layer of the model's own with what does run it, another task."""
    named: str | list[str]
    for named in ("attention", ["mean", "attention"]):
        pooling(copy, embedding_dimension=384, pooling_mode=named)
        with pytest.raises(
            UnsupportedModel, match=r"pools by attention; understood: cls, max, mean"
        ) as caught:
            read_encoding(copy)
        assert str(copy) in str(caught.value)
    pooling(copy, embedding_dimension=384)
    change(copy / "sentence_bert_config.json", transformer_task="sequence-classification")
    with pytest.raises(UnsupportedModel, match="sequence-classification, not for embedding"):
        read_encoding(copy)
    change(copy / "sentence_bert_config.json", transformer_task="feature-extraction")
    assert read_encoding(copy).dimension == 384
    add_module(copy, "LSTM", at=2)
    with pytest.raises(UnsupportedModel, match="module LSTM, which only embedding_backend=torch"):
        read_encoding(copy)
    assert read_usage(copy)["modules"] == [["LSTM"]]


def retype(copy: Path, kind: Callable[[str], str]) -> None:
    """Set the type of every module, by the one that it has."""
    modules = json.loads((copy / "modules.json").read_text())
    retyped = [module | {"type": kind(module["type"])} for module in modules]
    (copy / "modules.json").write_text(json.dumps(retyped))


@pytest.mark.parametrize("kind", ["custom_st.Transformer", "Transformer", "my.sentence_transformers.Pooling"])
def test_code_that_comes_with_a_model_is_not_run(copy: Path, kind: str) -> None:
    retype(copy, lambda own: kind if own.endswith("Transformer") else own)
    for refuse in (read_encoding, refuse_foreign_code):
        with pytest.raises(UnsupportedModel, match=f"modules of its own code, which is not run: {kind}"):
            refuse(copy)


def test_a_missing_pooling_is_not_taken_for_the_mean(copy: Path) -> None:
    (copy / "1_Pooling" / "config.json").unlink()
    with pytest.raises(EmbedderError, match=r"1_Pooling/config\.json is missing.*fetch the model again"):
        read_encoding(copy)


@pytest.mark.parametrize(
    ("name", "prompt"),
    [
        ("multilingual-e5-small", "query: "),
        ("E5-base-v2", "query: "),
        ("models--intfloat--e5-large/snapshots/0a1b", "query: "),
        ("e57-scans", ""),
        ("note5-small", ""),
    ],
)
def test_models_of_the_e5_family_have_their_prompt(
    packaged: Path, tmp_path: Path, name: str, prompt: str
) -> None:
    """Their configuration says nothing of it; where one does, it counts."""
    (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
    folder = linked(packaged, tmp_path / name)
    assert read_encoding(folder).prompt == prompt
    own = {"prompts": {"search": "find: "}, "default_prompt_name": "search"}
    (folder / "config_sentence_transformers.json").unlink()
    (folder / "config_sentence_transformers.json").write_text(json.dumps(own))
    assert read_encoding(folder).prompt == "find: "


def test_a_prompt_left_out_of_pooling_is_refused(copy: Path) -> None:
    """A model whose prompt isn't pooled is refused; without a prompt the same setting means nothing."""
    pooling(copy, embedding_dimension=384, pooling_mode="mean", include_prompt=False)
    assert read_encoding(copy).prompt == ""
    change(copy / "config_sentence_transformers.json", prompts={"q": "query: "}, default_prompt_name="q")
    with pytest.raises(UnsupportedModel, match="leaves its prompt out of pooling"):
        read_encoding(copy)


# --- prompt, length and dimension


def test_settings_of_the_transformer_by_older_names_are_read(copy: Path) -> None:
    """sentence-transformers reads the transformer's settings from six other files where that is missing."""
    (copy / "sentence_bert_config.json").unlink()
    for number, kind in enumerate(("roberta", "distilbert", "camembert", "albert", "xlm-roberta", "xlnet")):
        file = copy / f"sentence_{kind}_config.json"
        change(file, max_seq_length=90 + number, do_lower_case=True)
        assert max_tokens(copy) == 90 + number
        assert read_usage(copy)["lower_case"] is True
        file.unlink()


# --- files
@pytest.mark.parametrize("name", ["sentence_bert_config.json", "modules.json", "1_Pooling/config.json"])
def test_a_broken_configuration_is_named(copy: Path, name: str) -> None:
    for content in (b"{", b"", b"\xff\xfe{}"):
        (copy / name).write_bytes(content)
        with pytest.raises(EmbedderError) as caught:
            read_encoding(copy)
        assert f"{copy / name} is not JSON" in str(caught.value)


def test_a_json_file_of_another_shape_counts_as_empty(tmp_path: Path) -> None:
    (tmp_path / "list.json").write_text("[1]")
    assert read_json(tmp_path / "list.json") == {}
    assert read_json(tmp_path / "none.json") == {}


def test_a_model_is_its_settings_with_weights_in_any_form(tmp_path: Path) -> None:
    """Settings alone are no model, nor are weights alone. Safetensors go before pickled weights, in all their parts.

    The ONNX file is in the folder `onnx` or beside the settings; a quantised variant is not taken for the model.
    """
    (tmp_path / "onnx").mkdir()
    (tmp_path / "onnx" / "model_qint8_avx512.onnx").touch()
    safe = tmp_path / "model.safetensors"
    safe.touch()
    assert not is_model(tmp_path)
    (tmp_path / "config.json").write_text("{}")
    assert is_model(tmp_path)
    assert onnx_file(tmp_path) is None
    parts = [tmp_path / f"pytorch_model-0000{n}-of-2.bin" for n in (2, 1)]
    for file in (*parts, tmp_path / "training_args.bin"):
        file.touch()
    assert weight_files(tmp_path) == [safe]
    safe.unlink()
    assert weight_files(tmp_path) == parts[::-1]
    assert is_model(tmp_path)
    for part in parts:
        part.unlink()
    assert not is_model(tmp_path)
    for file in (tmp_path / "model.onnx", tmp_path / "onnx" / "model.onnx"):
        file.touch()
        assert onnx_file(tmp_path) == file
        assert is_model(tmp_path)


def test_files_are_looked_for_in_the_transformers_own_folder(copy: Path) -> None:
    """Models of early days keep the transformer in a folder that modules.json names."""
    inner = copy / "0_Transformer"
    inner.mkdir()
    for name in ("model.safetensors", "config.json", "tokenizer.json", "sentence_bert_config.json"):
        (copy / name).rename(inner / name)
    modules = json.loads((copy / "modules.json").read_text())
    modules[0]["path"] = "0_Transformer"
    (copy / "modules.json").write_text(json.dumps(modules))
    assert weight_files(copy) == [inner / "model.safetensors"]
    assert tokenizer_file(copy) == inner / "tokenizer.json"
    assert max_tokens(copy) == 256
    assert is_model(copy)
