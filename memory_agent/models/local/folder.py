"""A sentence-transformers model on disk, read from its own configuration. Pure reading, no torch needed."""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from memory_agent.errors import EmbedderError, UnsupportedModel
from memory_agent.text.writing import scripts_in

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    Floats = NDArray[np.float32]


def pool(tokens: Floats, mask: NDArray[np.int64], modes: Sequence[str]) -> Floats:
    """`tokens`, shape (texts, length, dimension), pooled to shape (texts, len(modes) · dimension).

    `mask`, shape (texts, length): 1 for a text's own tokens, 0 for the padding behind them. Every text has a token.
    """
    return np.concatenate([POOLING_MODES[mode](tokens, mask) for mode in modes], axis=1)


def _mean(tokens: Floats, weights: NDArray[np.int64], *, root: bool = False) -> Floats:
    """The weighted sum of the tokens over the weights' sum, or over its root."""
    # A product of matrices: it makes no weighted copy of the tokens.
    summed: Floats = (weights[:, None, :].astype(np.float32) @ tokens)[:, 0]
    length: Floats = weights.sum(axis=1, keepdims=True).astype(np.float32)
    if root:
        length = np.sqrt(length)
    return summed / length


POOLING_MODES: Final[dict[str, Callable[[Floats, NDArray[np.int64]], Floats]]] = {
    "cls": lambda tokens, _: tokens[:, 0],
    "max": lambda tokens, mask: np.where(mask[:, :, None] > 0, tokens, np.float32(-np.inf)).max(axis=1),
    "mean": _mean,
    "mean_sqrt_len_tokens": lambda tokens, mask: _mean(tokens, mask, root=True),
    # Token number n, counted from 1, weighs n.
    "weightedmean": lambda tokens, mask: _mean(tokens, mask * np.arange(1, mask.shape[1] + 1)),
    "lasttoken": lambda tokens, mask: tokens[np.arange(len(tokens)), mask.sum(axis=1) - 1],
}
"""The ways of pooling that are understood, by sentence-transformers' names."""


PASSAGE_TOKENS: Final = 512
"""The longest passage, also for models that read more: attention's memory grows with the square of a passage's
length, and what a long passage says in one sentence is found worse than in a passage of its own."""

SAMPLES: Final = (
    "",
    "ok",
    "Where did I leave the bicycle?",
    "I moved to Lisbon in March, and the flat has a view of the river.",
    "저는 서울에 살고 있고, 주말마다 산에 올라가요.",
    "Mañana tengo cita con el médico a las 9:30. ¿Puedes recordármelo?",
    "def add(a: int, b: int) -> int:\n    return a + b  # wraps never",
    "👍🏽 !!! https://example.org/a?b=c&d=1",
    "The quarterly report is due on Friday, and nobody has started on it yet. " * 12,
    "One sentence follows another until no model reads any further than this. " * 60,
)
"""Texts by which models are compared: of every length, in several scripts, prose and code."""

MODULES: Final = ("Transformer", "Pooling", "Normalize")
"""What a bi-encoder may consist of to be run without torch. Normalising is done to all vectors anyway."""

ARCHITECTURE: Final = re.compile(
    "activation|attn_heads|hidden_act|hidden_activation|layer_norm_eps|local_attention|model_type|n_heads|norm_eps"
    "|num_attention_heads|num_heads|num_key_value_heads|position_embedding_type|relative_attention_num_buckets"
    "|rms_norm_eps|rope_theta|sliding_window"
)
"""What a transformer's settings say about its vectors that the shapes of its weights don't."""

_E5: Final = re.compile(r"(?:^|[-_])e5-(?:small|base|large)", re.IGNORECASE)
_E5_PROMPT: Final = "query: "
"""Before questions and turns alike, as the authors advise where what is compared is of one kind."""

_KINDS: Final = ("bert", "roberta", "distilbert", "camembert", "albert", "xlm-roberta", "xlnet")
"""Whose names the file with the transformer's settings has borne; the first that says something counts."""

_LEGACY_MODES: Final = {
    "pooling_mode_cls_token": "cls",
    "pooling_mode_max_tokens": "max",
    "pooling_mode_mean_tokens": "mean",
    "pooling_mode_mean_sqrt_len_tokens": "mean_sqrt_len_tokens",
    "pooling_mode_weightedmean_tokens": "weightedmean",
    "pooling_mode_lasttoken": "lasttoken",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Encoding:
    """The recipe from text to vector: the prompt before every text, and ways of pooling, side by side in a vector."""

    dimension: int
    pooling: tuple[str, ...]
    prompt: str


def is_model(folder: Path) -> bool:
    """True if the folder holds a model's configuration and its weights, in whatever form."""
    configured = any((folder / name).is_file() for name in ("modules.json", "config.json"))
    return configured and bool(weight_files(folder) or onnx_file(folder))


def weight_files(folder: Path) -> list[Path]:
    """The weights as sentence-transformers reads them: safetensors, or else pickled."""
    place = module_folder(folder, "Transformer")
    return sorted(place.glob("*.safetensors")) or sorted(place.glob("pytorch_model*.bin"))


def onnx_file(folder: Path) -> Path | None:
    """The fp32 ONNX file where the hub's repositories and exporters put it."""
    place = module_folder(folder, "Transformer")
    return next((f for f in (place / "onnx" / "model.onnx", place / "model.onnx") if f.is_file()), None)


def tokenizer_path(folder: Path) -> Path:
    """Path of the model's `tokenizer.json`, if it has one."""
    return module_folder(folder, "Transformer") / "tokenizer.json"


def tokenizer_file(folder: Path) -> Path:
    """The model's `tokenizer.json`. Raises EmbedderError if it has none."""
    file = tokenizer_path(folder)
    if not file.is_file():
        raise EmbedderError(f"{file} is missing; save the model once with a current sentence-transformers")
    return file


def read_encoding(folder: Path) -> Encoding:
    """The recipe of the model in `folder`. Raises UnsupportedModel, naming what is not understood, or EmbedderError."""
    refuse_foreign_code(folder)
    modes, usage = pooling_modes(folder), read_usage(folder)
    task = _transformer_settings(folder).get("transformer_task", "feature-extraction")
    if unknown := [name for module in _modules(folder) if (name := _class_name(module)) not in MODULES]:
        wrong = f"has the module {', '.join(unknown)}, which only embedding_backend=torch can run"
        raise UnsupportedModel(f"the model in {folder} {wrong}; understood: {', '.join(MODULES)}")
    if unknown := [mode for mode in modes if mode not in POOLING_MODES]:
        wrong = f"pools by {', '.join(unknown)}; understood: {', '.join(POOLING_MODES)}"
        raise UnsupportedModel(f"the model in {folder} {wrong}")
    if task != "feature-extraction":
        raise UnsupportedModel(f"the model in {folder} is one for {task}, not for embedding texts")
    if not usage["include_prompt"]:
        raise UnsupportedModel(
            f"the model in {folder} leaves its prompt out of pooling, which is not understood"
        )
    return Encoding(dimension=dimension(folder), pooling=modes, prompt=usage["prompt"])


def read_usage(folder: Path) -> dict[str, Any]:
    """Everything besides the weights that decides about a vector; equal for equal vectors, also of models not understood."""
    settings = read_json(folder / "config_sentence_transformers.json")
    named = (settings.get("prompts") or {}).get(settings.get("default_prompt_name") or None)
    prompt = str(named or (_E5_PROMPT if _is_e5(folder) else ""))
    architecture = read_json(module_folder(folder, "Transformer") / "config.json")
    others = [module for module in _modules(folder) if _class_name(module) not in MODULES]
    return {
        "modules": [_describe(folder, module) for module in others],
        "architecture": {name: value for name, value in architecture.items() if ARCHITECTURE.fullmatch(name)},
        "pooling": pooling_modes(folder),
        "prompt": prompt,
        "include_prompt": not prompt or _pooling_settings(folder).get("include_prompt") is not False,
        "lower_case": bool(_transformer_settings(folder).get("do_lower_case")),
    }


def _is_e5(folder: Path) -> bool:
    """True for models of the E5 family, whose configuration says nothing of the prompt that they were trained with.

    Told from the folder's name, or that of the hub's cache two folders above.
    """
    names = (folder.name, *(parent.name for parent in list(folder.parents)[:2]))
    return any(_E5.search(name) for name in names)


def max_tokens(folder: Path) -> int:
    """The number of tokens of a text that the model reads, its special ones included."""
    if own := _transformer_settings(folder).get("max_seq_length"):
        return int(own)
    transformer = module_folder(folder, "Transformer")
    named = [
        read_json(transformer / "tokenizer_config.json").get("model_max_length"),
        read_json(transformer / "config.json").get("max_position_embeddings"),
    ]
    # Some tokenizers say 10**30 for "no limit".
    return int(min((n for n in named if n and n < 1_000_000), default=512))


def dimension(folder: Path) -> int:
    """The length of the model's vectors."""
    if any(_class_name(module) == "Dense" for module in _modules(folder)):
        return int(read_json(module_folder(folder, "Dense") / "config.json")["out_features"])
    pooling = _pooling_settings(folder)
    own = read_json(module_folder(folder, "Transformer") / "config.json").get("hidden_size")
    size = pooling.get("word_embedding_dimension") or pooling.get("embedding_dimension") or own
    if not size:
        raise EmbedderError(
            f"neither the pooling's nor the model's config.json in {folder} says its dimension"
        )
    return int(size) * len(pooling_modes(folder))


def pooling_modes(folder: Path) -> tuple[str, ...]:
    """The ways of pooling, however the configuration of its day spells them; their order is the vector's."""
    config = _pooling_settings(folder)
    named = config.get("pooling_mode")
    if isinstance(named, str):
        return (named,)
    return tuple(named or [name for key, name in _LEGACY_MODES.items() if config.get(key)] or ["mean"])


def module_folder(folder: Path, kind: str) -> Path:
    """Folder of the model's module `kind` (its class name); the model's own if nothing says so."""
    usual = "1_Pooling" if kind == "Pooling" else ""
    paths = (str(module.get("path", "")) for module in _modules(folder) if _class_name(module) == kind)
    return folder / next(paths, usual)


def scripts(folder: Path) -> frozenset[str] | None:
    """The scripts that the model's vocabulary has words of; None if it does not say: pieces of bytes may be anything."""
    file = tokenizer_path(folder)
    seen = file.stat() if file.is_file() else None
    return _scripts_of(file, seen and (seen.st_mtime_ns, seen.st_size))


@lru_cache(maxsize=8)
def _scripts_of(file: Path, _seen: tuple[int, int] | None) -> frozenset[str] | None:
    """Of the tokenizer in `file`, read once by a process for all its services: tens of thousands of pieces take 80 ms."""
    vocabulary = (read_json(file).get("model") or {}).get("vocab") or ()
    # A mapping of pieces to numbers, or pairs of a piece and its score.
    pieces = [piece if isinstance(piece, str) else str(piece[0]) for piece in vocabulary]
    if not pieces or any(piece.startswith("Ġ") for piece in pieces):
        return None
    return scripts_in(pieces)


def read_json(file: Path) -> dict[str, Any]:
    """The object in `file`; an empty one if there is no such file. Raises EmbedderError if it is no JSON."""
    content = _load_json(file)
    return content if isinstance(content, dict) else {}


def _modules(folder: Path) -> list[dict[str, Any]]:
    listing = _load_json(folder / "modules.json")
    return [module for module in listing if isinstance(module, dict)] if isinstance(listing, list) else []


def _class_name(module: dict[str, Any]) -> str:
    return str(module.get("type", "")).rpartition(".")[2]


def refuse_foreign_code(folder: Path) -> None:
    """Raise UnsupportedModel if the model has modules that are none of sentence-transformers' own.

    Their code would come with the model, and would be run.
    """
    types = [str(module.get("type", "")) for module in _modules(folder)]
    if foreign := [name for name in types if not name.startswith("sentence_transformers.")]:
        wrong = f"has modules of its own code, which is not run: {', '.join(foreign)}"
        raise UnsupportedModel(f"the model in {folder} {wrong}")


def _describe(folder: Path, module: dict[str, Any]) -> list[str]:
    """A module that isn't understood: its kind and the digest of each of its files, which torch will use."""
    place = folder / str(module.get("path", ""))
    files = sorted(file for file in place.rglob("*") if file.is_file()) if place != folder else []
    return [_class_name(module), *(hashlib.sha256(file.read_bytes()).hexdigest() for file in files)]


def _transformer_settings(folder: Path) -> dict[str, Any]:
    place = module_folder(folder, "Transformer")
    files = (read_json(place / f"sentence_{kind}_config.json") for kind in _KINDS)
    return next(filter(None, files), {})


def _pooling_settings(folder: Path) -> dict[str, Any]:
    file = module_folder(folder, "Pooling") / "config.json"
    if not file.is_file() and any(_class_name(module) == "Pooling" for module in _modules(folder)):
        raise EmbedderError(f"{file} is missing, so how the model pools is not known; fetch the model again")
    return read_json(file)


def _load_json(file: Path) -> Any:
    if not file.is_file():
        return None
    try:
        return json.loads(file.read_text(encoding="utf-8"))
    except ValueError as exc:
        raise EmbedderError(f"{file} is not JSON: {exc}") from exc
