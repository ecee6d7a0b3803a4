"""`memory-agent embedder bench`: how fast the embedding model is here. Each measurement has a fresh process."""

from __future__ import annotations

import asyncio
import importlib.util
import json
import subprocess
import sys
import time
from pathlib import Path
from statistics import median, quantiles
from typing import TYPE_CHECKING, Any, Final

from rich.table import Table

from memory_agent import subprocesses as child
from memory_agent.cli.embedder import local_settings
from memory_agent.cli.output import note, out, print_json
from memory_agent.errors import EmbedderError

if TYPE_CHECKING:
    from memory_agent.models.local.embedder import LocalEmbedder

QUESTIONS: Final = 40
TURNS: Final = 256
PAUSE_SECONDS: Final = 0.1
"""Between two questions of a conversation; a model asked without a pause is faster than anybody asks."""

COMPARED: Final = (("onnx", "fp32"), ("onnx", "int8"), ("torch", "fp32"))

FIGURES: Final = {
    "first_vector_s": "start to first vector, s",
    "question_p50_ms": "one question, p50, ms",
    "question_p95_ms": "one question, p95, ms",
    "turn_ms": "a turn in batches, ms",
    "peak_mb": "peak memory, MB",
}


def measure_one(chosen: dict[str, Any], *, as_json: bool) -> None:
    """Measure what the settings choose, and print it."""
    figures = _in_a_fresh_process(chosen)
    if as_json:
        print_json(figures)
    else:
        _print_table([figures])


def compare_all(chosen: dict[str, Any], *, as_json: bool) -> None:
    """Measure all that can run the model, one after the other, and print them beside each other."""
    figures = []
    for backend, precision in COMPARED:
        if backend == "torch" and not importlib.util.find_spec("sentence_transformers"):
            note("torch is left out: sentence-transformers is not installed")
            continue
        note(f"measuring {backend} {precision} …")
        figures.append(
            _in_a_fresh_process({**chosen, "embedding_backend": backend, "embedding_precision": precision})
        )
    if as_json:
        print_json(figures)
    else:
        _print_table(figures)


def _print_table(measured: list[dict[str, Any]]) -> None:
    table = Table("", *(f"{figures['backend']} {figures['precision']}" for figures in measured))
    for name, words in FIGURES.items():
        table.add_row(words, *(str(figures[name]) for figures in measured))
    out.print(table)


def _in_a_fresh_process(chosen: dict[str, Any]) -> dict[str, Any]:
    """Run `main` below; the time of the process's start counts. Raises EmbedderError with its last words."""
    cfg = local_settings(chosen)  # a wrong setting is told here
    _prepare(chosen)
    command = child.command("memory_agent.cli.embedder_bench", json.dumps(chosen), str(time.time()))
    ended = subprocess.run(  # noqa: S603  (ourselves)
        command, capture_output=True, text=True, check=False, env=child.environment()
    )
    if ended.returncode:
        words = ended.stderr.strip().splitlines()
        raise EmbedderError(
            f"measuring {cfg.local_embedding_model} failed: {words[-1] if words else 'no words'}"
        )
    figures: dict[str, Any] = json.loads(ended.stdout)
    return figures


def _prepare(chosen: dict[str, Any]) -> None:
    """Make the files first: that happens once and is no part of what is measured."""
    from memory_agent.adapters import wanted_model
    from memory_agent.models.local.atomic_build import Making
    from memory_agent.models.local.choose import choose, prepare

    wanted = wanted_model(local_settings(chosen))
    prepare(choose(wanted), wanted, Making(progress=note))


# --- in the fresh process ------------------------------------------------------------------------------------
async def _measure(embedder: LocalEmbedder, started_at: float) -> dict[str, Any]:
    from memory_agent.demo import conversation

    said = [turn.content for turn in conversation()]
    await embedder.embed(["Where did I leave my bicycle?"], purpose="query")
    first = time.time() - started_at
    times = []
    for number in range(QUESTIONS):
        await asyncio.sleep(PAUSE_SECONDS)
        began = time.perf_counter()
        await embedder.embed([f"What did I say about my plans for week {number}?"], purpose="query")
        times.append((time.perf_counter() - began) * 1_000)
    turns = [f"{said[number % len(said)]} ({number})" for number in range(TURNS)]
    began = time.perf_counter()
    await embedder.embed(turns, purpose="document")
    turn_ms = (time.perf_counter() - began) * 1_000 / len(turns)
    choice = embedder.choice
    return {
        "backend": choice.backend,
        "precision": choice.precision,
        "threads": embedder.threads,
        "first_vector_s": round(first, 2),
        "question_p50_ms": round(median(times), 2),
        "question_p95_ms": round(quantiles(times, n=20)[-1], 2),
        "turn_ms": round(turn_ms, 2),
        "peak_mb": _peak_mb(),
    }


def _peak_mb() -> int | None:
    """The most memory that this process ever had; None where the system doesn't tell (Windows)."""
    status = Path("/proc/self/status")
    if (
        status.is_file()
    ):  # Linux: what getrusage says there, a process has in part from the one that started it
        line = next(
            line for line in status.read_text(encoding="ascii").splitlines() if line.startswith("VmHWM:")
        )
        return int(line.split()[1]) // 1_000
    try:
        import resource
    except ImportError:
        return None
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak // (1_000_000 if sys.platform == "darwin" else 1_000)  # bytes there, kB elsewhere


def main(chosen: str, started_at: str) -> None:
    """Measure, and print the figures as one JSON object."""
    from memory_agent.adapters import wanted_model
    from memory_agent.models.local.embedder import LocalEmbedder

    cfg = local_settings(json.loads(chosen))

    async def measured() -> dict[str, Any]:
        embedder = LocalEmbedder(wanted_model(cfg), threads=cfg.embedding_threads, cache_size=0)
        try:
            return await _measure(embedder, float(started_at))
        finally:
            await embedder.close()

    sys.stdout.write(json.dumps(asyncio.run(measured())))


if __name__ == "__main__":
    main(*sys.argv[1:])
