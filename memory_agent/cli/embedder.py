"""`memory-agent embedder info` and `export`."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Final

from rich.text import Text

from memory_agent.cli.output import clean, note, out, print_json
from memory_agent.cli.running import OK
from memory_agent.errors import InvalidInput

if TYPE_CHECKING:
    from pathlib import Path

    from memory_agent.config import MemoryConfig
    from memory_agent.models.local.choose import Choice, Wanted


LABEL_WIDTH: Final = 20


def local_settings(chosen: dict[str, Any]) -> MemoryConfig:
    """The settings with the command's options over them; a local model whatever they say of endpoints."""
    from memory_agent.config import MemoryConfig

    return MemoryConfig(**{"use_local_embeddings": True, **chosen})


def show_info(chosen: dict[str, Any], *, as_json: bool) -> int:
    """Print what serves."""
    from memory_agent.adapters import wanted_model
    from memory_agent.models.local.choose import choose

    cfg = local_settings(chosen)
    facts = describe(cfg, choose(wanted_model(cfg)), wanted_model(cfg))
    if as_json:
        print_json(facts)
        return OK
    for name, value in facts.items():
        shown = f"{value:,}" if isinstance(value, int) else str(value)
        label = f"{name.replace('_', ' ')}:".ljust(LABEL_WIDTH)
        out.print(Text.assemble((label, "bold"), clean(shown)), soft_wrap=True)
    return OK


def describe(cfg: MemoryConfig, choice: Choice, wanted: Wanted) -> dict[str, Any]:
    """What `info` tells, by name."""
    from memory_agent.models.local import folder as model_folder
    from memory_agent.models.local.onnx import tokens_read
    from memory_agent.models.local.threads import default_threads, usable_cores

    cores = usable_cores()
    file = "none" if choice.file is None else str(choice.file)
    return {
        "model": wanted.model,
        "folder": str(choice.folder),
        "fingerprint": choice.fingerprint,
        "backend": choice.backend,
        "why": choice.why,
        "precision": choice.precision,
        "onnx_file": file,
        "onnx_file_is": "there" if choice.ready else "made on first use",
        "dimension": model_folder.dimension(choice.folder),
        "tokens_per_passage": tokens_read(choice.folder),
        "pooling": ", ".join(model_folder.pooling_modes(choice.folder)),
        "threads": cfg.embedding_threads or default_threads(cores),
        "cores": cores,
        "cache_folder": str(wanted.cache),
    }


def make_files(chosen: dict[str, Any], *, int8: bool, output: Path | None, force: bool, as_json: bool) -> int:
    """Make what is missing, and the folder `output`. Raises InvalidInput if that is not new or empty."""
    from memory_agent.adapters import wanted_model
    from memory_agent.models.local.export import write_folder

    if output is not None and output.exists() and (not output.is_dir() or any(output.iterdir())):
        raise InvalidInput(f"{output} is not an empty folder; name a new one for --output")
    made = []
    for precision in ("fp32", "int8") if int8 else ("fp32",):
        wanted = wanted_model(local_settings({**chosen, "embedding_precision": precision}))
        made.append(_make(wanted, again=force))
    if output is not None:
        write_folder(_choose(wanted_model(local_settings({**chosen, "embedding_precision": "fp32"}))), output)
    if as_json:
        print_json({"files": made, "folder": None if output is None else str(output)})
        return OK
    for file in made:
        took = f"made in {file['seconds']:.1f} s" if file["made"] else "was there"
        out.print(Text(f"{file['precision']}: {file['file']} ({took})"), soft_wrap=True)
    if output is not None:
        out.print(Text(f"{output} runs without torch: set local_embedding_model to it"), soft_wrap=True)
    return OK


def _choose(wanted: Wanted) -> Choice:
    from memory_agent.models.local.choose import choose

    return choose(wanted)


def _make(wanted: Wanted, *, again: bool) -> dict[str, Any]:
    from memory_agent.models.local.atomic_build import Making
    from memory_agent.models.local.choose import made_here, prepare

    choice = _choose(wanted)
    is_made = not choice.ready or (again and choice.file is not None and made_here(choice.file, wanted))
    started = time.perf_counter()
    choice = prepare(choice, wanted, Making(progress=note, again=again))
    return {
        "precision": choice.precision,
        "file": str(choice.file),
        "fingerprint": choice.fingerprint,
        "made": is_made,
        "seconds": round(time.perf_counter() - started, 1),
    }
