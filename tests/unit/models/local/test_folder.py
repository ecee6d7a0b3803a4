"""What a model's own configuration says of it."""

from __future__ import annotations

import itertools
import json
import shutil
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory_agent.errors import EmbedderError, UnsupportedModel
from memory_agent.models.local.folder import (
    Encoding,
    dimension,
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
from memory_agent.models.local.pooling import POOLING_MODES
from tests.unit.models.local.conftest import add_module, change, linked

if TYPE_CHECKING:
    from pathlib import Path

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
@pytest.mark.parametrize(("key", "mode"), LEGACY.items())
def test_the_old_spelling_of_pooling_is_read(copy: Path, key: str, mode: str) -> None:
    """Each flag of earlier sentence-transformers means its mode."""
    pooling(copy, word_embedding_dimension=384, **(dict.fromkeys(LEGACY, False) | {key: True}))
    assert pooling_modes(copy) == (mode,)
    assert read_encoding(copy).pooling == (mode,)


@pytest.mark.parametrize("mode", POOLING_MODES)
def test_the_new_spelling_of_pooling_is_read(copy: Path, mode: str) -> None:
    """A single mode is given by its name."""
    pooling(copy, embedding_dimension=384, pooling_mode=mode)
    assert read_encoding(copy) == Encoding(dimension=384, pooling=(mode,), prompt="")


@pytest.mark.parametrize("order", list(itertools.permutations(["max", "cls", "mean"])))
def test_new_modes_keep_their_order(copy: Path, order: tuple[str, ...]) -> None:
    """Listed modes stand in a vector as they are listed, and make it so many times as long."""
    pooling(copy, embedding_dimension=384, pooling_mode=list(order))
    assert read_encoding(copy) == Encoding(dimension=3 * 384, pooling=order, prompt="")


def test_old_flags_have_the_order_of_sentence_transformers(copy: Path) -> None:
    """Whatever the order of the flags in the file, the first token comes first and the last token last."""
    pooling(copy, word_embedding_dimension=384, **dict.fromkeys(reversed(LEGACY), True))
    assert pooling_modes(copy) == tuple(LEGACY.values())
    assert dimension(copy) == 6 * 384


@pytest.mark.parametrize("settings", [{}, dict.fromkeys(LEGACY, False), {"pooling_mode": []}])
def test_without_a_mode_it_is_the_mean(copy: Path, settings: dict[str, Any]) -> None:
    """A configuration that names none means the mean, as in sentence-transformers."""
    pooling(copy, **settings)
    assert pooling_modes(copy) == ("mean",)


def test_the_new_spelling_goes_before_the_old(copy: Path) -> None:
    """Where both are written, the new one counts."""
    pooling(copy, pooling_mode="max", pooling_mode_cls_token=True)
    assert pooling_modes(copy) == ("max",)


@pytest.mark.parametrize("named", ["attention", ["mean", "attention"]])
def test_an_unknown_pooling_is_named(copy: Path, named: str | list[str]) -> None:
    """A way of pooling that isn't understood is refused by name, with those that are."""
    pooling(copy, embedding_dimension=384, pooling_mode=named)
    with pytest.raises(UnsupportedModel, match=r"pools by attention; understood: cls, max, mean") as caught:
        read_encoding(copy)
    assert str(copy) in str(caught.value)


# --- what is not understood
@pytest.mark.parametrize("module", ["Dense", "LSTM", "WeightedLayerPooling", "Router"])
def test_an_unknown_module_is_named(copy: Path, module: str) -> None:
    """A model with a layer of its own is refused by that layer's name, and what does run it is told."""
    add_module(copy, module, at=2)
    with pytest.raises(UnsupportedModel, match=rf"module {module}, which only embedding_backend=torch"):
        read_encoding(copy)
    assert read_usage(copy)["modules"] == [[module]]


@pytest.mark.parametrize("kind", ["custom_st.Transformer", "Transformer", "my.sentence_transformers.Pooling"])
def test_code_that_comes_with_a_model_is_not_run(copy: Path, kind: str) -> None:
    """Modules that aren't sentence-transformers' own are refused, also those that are called like them."""
    modules = json.loads((copy / "modules.json").read_text())
    modules[0]["type"] = kind
    (copy / "modules.json").write_text(json.dumps(modules))
    for refuse in (read_encoding, refuse_foreign_code):
        with pytest.raises(UnsupportedModel, match=f"modules of its own code, which is not run: {kind}"):
            refuse(copy)


def test_a_dense_layer_says_the_dimension(copy: Path) -> None:
    """Behind a layer that changes it, the vectors' length is that layer's, whoever runs it."""
    add_module(copy, "Dense", at=2, path="2_Dense")
    (copy / "2_Dense").mkdir()
    (copy / "2_Dense" / "config.json").write_text(json.dumps({"in_features": 384, "out_features": 48}))
    assert dimension(copy) == 48


def test_a_missing_pooling_is_not_taken_for_the_mean(copy: Path) -> None:
    """A model that was fetched in part is told, rather than pooled in some way."""
    (copy / "1_Pooling" / "config.json").unlink()
    with pytest.raises(EmbedderError, match=r"1_Pooling/config\.json is missing.*fetch the model again"):
        read_encoding(copy)


def test_modules_are_known_by_their_class(copy: Path) -> None:
    """Where the library keeps its modules in other places, the same classes are understood."""
    modules = json.loads((copy / "modules.json").read_text())
    for module in modules:
        name = module["type"].rpartition(".")[2]
        module["type"] = f"sentence_transformers.sentence_transformer.modules.{name.lower()}.{name}"
    (copy / "modules.json").write_text(json.dumps(modules))
    assert read_encoding(copy) == Encoding(dimension=384, pooling=("mean",), prompt="")


def test_a_model_for_another_task_is_refused(copy: Path) -> None:
    """A model that classifies, say, is named as one that doesn't embed."""
    change(copy / "sentence_bert_config.json", transformer_task="sequence-classification")
    with pytest.raises(UnsupportedModel, match="sequence-classification, not for embedding"):
        read_encoding(copy)
    change(copy / "sentence_bert_config.json", transformer_task="feature-extraction")
    assert read_encoding(copy).dimension == 384


def test_a_prompt_left_out_of_pooling_is_refused(copy: Path) -> None:
    """A model whose prompt isn't pooled is refused; without a prompt the same setting means nothing."""
    pooling(copy, embedding_dimension=384, pooling_mode="mean", include_prompt=False)
    assert read_encoding(copy).prompt == ""
    change(copy / "config_sentence_transformers.json", prompts={"q": "query: "}, default_prompt_name="q")
    with pytest.raises(UnsupportedModel, match="leaves its prompt out of pooling"):
        read_encoding(copy)


# --- prompt, length and dimension
@pytest.mark.parametrize(
    ("settings", "prompt"),
    [
        ({"prompts": {"q": "query: "}, "default_prompt_name": "q"}, "query: "),
        ({"prompts": {"q": "query: "}, "default_prompt_name": None}, ""),
        ({"prompts": {"q": "query: "}}, ""),
        ({"prompts": {"q": "query: "}, "default_prompt_name": "other"}, ""),
        ({"prompts": None, "default_prompt_name": "q"}, ""),
        ({"prompts": {"q": None}, "default_prompt_name": "q"}, ""),
    ],
)
def test_only_the_default_prompt_is_put_before_texts(
    copy: Path, settings: dict[str, Any], prompt: str
) -> None:
    """A model's prompts are used only if its configuration names one as the default."""
    change(copy / "config_sentence_transformers.json", **settings)
    assert read_encoding(copy).prompt == prompt


@pytest.mark.parametrize(
    ("own", "tokenizer", "positions", "tokens"),
    [
        (128, 512, 512, 128),
        (None, 200, 512, 200),
        (None, 10**30, 300, 300),
        (None, 512, 514, 512),
        (None, None, 400, 400),
        (None, None, None, 512),
        (None, 10**30, None, 512),
        (8_192, 8_192, 8_194, 8_192),
    ],
)
def test_how_many_tokens_are_read(
    copy: Path, own: int | None, tokenizer: int | None, positions: int | None, tokens: int
) -> None:
    """The model's own setting counts, else the smaller of the tokenizer's limit and the positions there are."""
    change(copy / "sentence_bert_config.json", max_seq_length=own)
    change(copy / "tokenizer_config.json", model_max_length=tokenizer)
    change(copy / "config.json", max_position_embeddings=positions)
    assert max_tokens(copy) == tokens


@pytest.mark.parametrize("model", ["roberta", "distilbert", "camembert", "albert", "xlm-roberta", "xlnet"])
def test_settings_of_the_transformer_by_older_names_are_read(copy: Path, model: str) -> None:
    """sentence-transformers reads the transformer's settings from six other files where that is missing."""
    (copy / "sentence_bert_config.json").unlink()
    change(copy / f"sentence_{model}_config.json", max_seq_length=99, do_lower_case=True)
    assert max_tokens(copy) == 99
    assert read_usage(copy)["lower_case"] is True


def test_the_dimension_is_the_poolings_or_else_the_models(copy: Path) -> None:
    """Either name of the pooling's dimension counts, then the transformer's hidden size; without any it's an error."""
    pooling(copy, embedding_dimension=11, pooling_mode=["cls", "max"])
    assert dimension(copy) == 22
    pooling(copy, word_embedding_dimension=12)
    assert dimension(copy) == 12
    pooling(copy, pooling_mode="mean")
    assert dimension(copy) == 384
    change(copy / "config.json", hidden_size=None)
    with pytest.raises(EmbedderError, match="says its dimension"):
        dimension(copy)


@given(
    modes=st.lists(st.sampled_from(sorted(POOLING_MODES)), min_size=1, max_size=6), size=st.integers(1, 4096)
)
def test_the_dimension_is_that_of_a_token_times_the_modes(
    tmp_path_factory: pytest.TempPathFactory, modes: list[str], size: int
) -> None:
    """However many ways of pooling there are, each adds its own numbers."""
    folder = tmp_path_factory.mktemp("model")
    (folder / "1_Pooling").mkdir()
    pooling(folder, embedding_dimension=size, pooling_mode=modes)
    assert dimension(folder) == size * len(modes)
    assert pooling_modes(folder) == tuple(modes)
    shutil.rmtree(folder)


# --- files
@pytest.mark.parametrize(
    "name",
    [
        "sentence_bert_config.json",
        "modules.json",
        "1_Pooling/config.json",
        "config_sentence_transformers.json",
    ],
)
@pytest.mark.parametrize("content", [b"{", b"", b"\xff\xfe{}"])
def test_a_broken_configuration_is_named(copy: Path, name: str, content: bytes) -> None:
    """A file that is no JSON is an error with its name."""
    (copy / name).write_bytes(content)
    with pytest.raises(EmbedderError) as caught:
        read_encoding(copy)
    assert f"{copy / name} is not JSON" in str(caught.value)


def test_a_json_file_of_another_shape_counts_as_empty(tmp_path: Path) -> None:
    """A list where an object is expected says nothing, nor does a file that isn't there."""
    (tmp_path / "list.json").write_text("[1]")
    assert read_json(tmp_path / "list.json") == {}
    assert read_json(tmp_path / "none.json") == {}


def test_a_model_is_its_settings_with_weights_in_any_form(tmp_path: Path) -> None:
    """Settings alone are no model, nor are weights alone; with safetensors, pickled weights or ONNX they are one."""
    (tmp_path / "model.safetensors").touch()
    assert not is_model(tmp_path)
    (tmp_path / "config.json").write_text("{}")
    assert is_model(tmp_path)
    (tmp_path / "model.safetensors").unlink()
    assert not is_model(tmp_path)
    (tmp_path / "pytorch_model.bin").touch()
    assert is_model(tmp_path)
    (tmp_path / "pytorch_model.bin").unlink()
    (tmp_path / "model.onnx").touch()
    assert is_model(tmp_path)


def test_safetensors_go_before_pickled_weights(tmp_path: Path) -> None:
    """All parts of the weights are named in order, and pickled ones only where there are no others."""
    for name in ("pytorch_model-00002-of-2.bin", "pytorch_model-00001-of-2.bin", "training_args.bin"):
        (tmp_path / name).touch()
    assert [f.name for f in weight_files(tmp_path)] == [
        "pytorch_model-00001-of-2.bin",
        "pytorch_model-00002-of-2.bin",
    ]
    (tmp_path / "model.safetensors").touch()
    assert weight_files(tmp_path) == [tmp_path / "model.safetensors"]


def test_the_onnx_file_is_where_the_hub_has_it_or_beside_the_settings(tmp_path: Path) -> None:
    """The folder `onnx` goes first; a quantised or optimised variant is not taken for the model."""
    (tmp_path / "onnx").mkdir()
    (tmp_path / "onnx" / "model_qint8_avx512.onnx").touch()
    assert onnx_file(tmp_path) is None
    (tmp_path / "model.onnx").touch()
    assert onnx_file(tmp_path) == tmp_path / "model.onnx"
    (tmp_path / "onnx" / "model.onnx").touch()
    assert onnx_file(tmp_path) == tmp_path / "onnx" / "model.onnx"


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
