"""`memory-agent embedder info` and `export`."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

import typer
from rich.text import Text

from memory_agent.cli.options import AsJson, Commands
from memory_agent.cli.output import clean, note, out, print_json
from memory_agent.errors import InvalidInput

if TYPE_CHECKING:
    from memory_agent.config import MemoryConfig
    from memory_agent.models.local.choose import Choice, ModelChoiceRequest


LABEL_WIDTH: Final = 20

app = Commands(
    name="embedder",
    no_args_is_help=True,
    help="""Look at, make and measure the embedding model of this machine.

The settings say which one: local_embedding_model, embedding_backend, embedding_precision, embedding_threads and
model_cache_dir (MEMORY_AGENT_… in the environment, or config/memory.toml).

**Start with**: memory-agent embedder info
""",
)


OutputFolder = Annotated[
    Path | None,
    typer.Option("--output", "-o", help="Also write a model folder that runs without torch; new or empty."),
]
Model = Annotated[
    str | None,
    typer.Option("--model", "-m", help="A folder or a hub name.", show_default="local_embedding_model"),
]
Backend = Annotated[
    Literal["auto", "onnx", "torch"] | None,
    typer.Option("--backend", help="What runs it.", show_default="embedding_backend"),
]
Precision = Annotated[
    Literal["fp32", "int8"] | None,
    typer.Option("--precision", help="How its weights are kept.", show_default="embedding_precision"),
]


def _given(**options: Any) -> dict[str, Any]:
    return {name: value for name, value in options.items() if value is not None}


def local_settings(chosen: dict[str, Any]) -> MemoryConfig:
    """The settings with the command's options over them; a local model whatever they say of endpoints."""
    from memory_agent.config import MemoryConfig

    return MemoryConfig(**{"use_local_embeddings": True, **chosen})


@app.command()
def info(
    model: Model = None, backend: Backend = None, precision: Precision = None, as_json: AsJson = False
) -> None:
    """Say which model serves, what runs it and why, and where its files are.

    Makes and loads nothing; fetches the model from the hub if it isn't on this machine.

    **Examples**

        memory-agent embedder info

        memory-agent embedder info --model ./my-model --json
    """
    chosen = _given(local_embedding_model=model, embedding_backend=backend, embedding_precision=precision)
    from memory_agent.adapters import wanted_model
    from memory_agent.models.local.choose import choose

    cfg = local_settings(chosen)
    facts = describe(cfg, choose(wanted_model(cfg)), wanted_model(cfg))
    if as_json:
        print_json(facts)
        return
    for name, value in facts.items():
        shown = f"{value:,}" if isinstance(value, int) else str(value)
        label = f"{name.replace('_', ' ')}:".ljust(LABEL_WIDTH)
        out.print(Text.assemble((label, "bold"), clean(shown)), soft_wrap=True)


def describe(cfg: MemoryConfig, choice: Choice, wanted: ModelChoiceRequest) -> dict[str, Any]:
    """The rows of `info`, by name."""
    from memory_agent.models.local import folder as model_folder
    from memory_agent.models.local.embedder import default_threads, usable_cores
    from memory_agent.models.local.onnx import tokens_read

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


@app.command()
def export(
    model: Model = None,
    int8: Annotated[bool, typer.Option("--int8", help="Make the int8 file as well.")] = False,
    output: OutputFolder = None,
    force: Annotated[bool, typer.Option("--force", help="Make the files again if they are there.")] = False,
    as_json: AsJson = False,
) -> None:
    """Make the model's ONNX file now rather than on its first use.

    The file is made of the weights once and kept in model_cache_dir: in a second or two for models of BERT's family,
    by torch (extra `local`) for others. The folder that --output writes is all that a machine without torch and network
    needs: name it as local_embedding_model there.

    **Examples**

        memory-agent embedder export

        memory-agent embedder export --int8

        memory-agent embedder export --output ./minilm-onnx
    """
    chosen = _given(local_embedding_model=model, embedding_backend="onnx")
    from memory_agent.adapters import wanted_model
    from memory_agent.models.local.choose import choose
    from memory_agent.models.local.export import write_folder

    if output is not None and output.exists() and (not output.is_dir() or any(output.iterdir())):
        raise InvalidInput(f"{output} is not an empty folder; name a new one for --output")
    made = []
    for precision in ("fp32", "int8") if int8 else ("fp32",):
        wanted = wanted_model(local_settings({**chosen, "embedding_precision": precision}))
        made.append(_make(wanted, again=force))
    if output is not None:
        write_folder(choose(wanted_model(local_settings({**chosen, "embedding_precision": "fp32"}))), output)
    if as_json:
        print_json({"files": made, "folder": None if output is None else str(output)})
        return
    for file in made:
        took = f"made in {file['seconds']:.1f} s" if file["made"] else "was there"
        out.print(Text(f"{file['precision']}: {file['file']} ({took})"), soft_wrap=True)
    if output is not None:
        out.print(Text(f"{output} runs without torch: set local_embedding_model to it"), soft_wrap=True)


@app.command()
def bench(
    model: Model = None,
    backend: Backend = None,
    precision: Precision = None,
    compare: Annotated[
        bool, typer.Option("--compare", help="Measure onnx, onnx in int8, and torch where it is installed.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Measure the model here: from the start to the first vector, one question, batches of turns, memory.

    Each is measured in a fresh process. Takes about 15 s, with --compare three times as long.

    **Examples**

        memory-agent embedder bench

        memory-agent embedder bench --compare
    """
    from memory_agent.cli.embedder_bench import compare_all, measure_one

    chosen = _given(local_embedding_model=model, embedding_backend=backend, embedding_precision=precision)
    (compare_all if compare else measure_one)(chosen, as_json=as_json)


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
