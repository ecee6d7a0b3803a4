"""The commands `memory-agent embedder …`, with their options and help texts."""

# No `from __future__ import annotations` here: typer reads the annotations when the commands are declared.

from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from memory_agent.cli.options import Commands
from memory_agent.cli.running import run_plain

app = Commands(
    name="embedder",
    no_args_is_help=True,
    help="""Look at, make and measure the embedding model of this machine.

The settings say which one: local_embedding_model, embedding_backend, embedding_precision, embedding_threads and
model_cache_dir (MEMORY_AGENT_… in the environment, or config/memory.toml).

**Start with**: memory-agent embedder info
""",
)


class BackendName(StrEnum):
    """What runs the model."""

    AUTO = "auto"
    ONNX = "onnx"
    TORCH = "torch"


class PrecisionName(StrEnum):
    """How the weights are kept."""

    FP32 = "fp32"
    INT8 = "int8"


Model = Annotated[
    str | None,
    typer.Option("--model", "-m", help="A folder or a hub name.", show_default="local_embedding_model"),
]
Backend = Annotated[
    BackendName | None, typer.Option("--backend", help="What runs it.", show_default="embedding_backend")
]
Precision = Annotated[
    PrecisionName | None,
    typer.Option("--precision", help="How its weights are kept.", show_default="embedding_precision"),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON, for scripts.")]


def _given(**options: Any) -> dict[str, Any]:
    return {name: value for name, value in options.items() if value is not None}


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
    from memory_agent.cli.embedder import show_info

    chosen = _given(local_embedding_model=model, embedding_backend=backend, embedding_precision=precision)
    run_plain(lambda: show_info(chosen, as_json=as_json))


@app.command()
def export(
    model: Model = None,
    int8: Annotated[bool, typer.Option("--int8", help="Make the int8 file as well.")] = False,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output", "-o", help="Also write a model folder that runs without torch; new or empty."
        ),
    ] = None,
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
    from memory_agent.cli.embedder import make_files

    chosen = _given(local_embedding_model=model, embedding_backend="onnx")
    run_plain(lambda: make_files(chosen, int8=int8, output=output, force=force, as_json=as_json))


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
    if compare:
        run_plain(lambda: compare_all(chosen, as_json=as_json))
    else:
        run_plain(lambda: measure_one(chosen, as_json=as_json))
