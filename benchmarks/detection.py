"""How well code and moments are detected: `python -m benchmarks.detection [--show development|held-out|code]`.

The examples of `benchmarks/data` were labelled by somebody who had not seen the rules. Prints precision and recall of code
detection (all, and of the languages told), and of each kind of moment, in English and in Korean. The moments in two halves:
the lines at odd positions (1st, 3rd, ...) are for development, those at even positions held out, to be read by nobody who
writes rules. All examples of code are held out. `--show` lists what is wrong in one part; of the held-out parts that
spends them. `tests/unit/test_detection.py` holds the figures to what they were.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from memory_agent.domain import MOMENT_KINDS
from memory_agent.text.code.detect import find_code
from memory_agent.text.moments.detect import detect_moments

if TYPE_CHECKING:
    from collections.abc import Sequence

FOLDER: Final = Path(__file__).parent / "data"
HALVES: Final = ("development", "held-out")
_HANGUL: Final = re.compile(r"[가-힣]")


def read(name: str) -> list[dict[str, Any]]:
    """The examples of one file."""
    lines = (FOLDER / f"{name}.jsonl").read_text(encoding="utf-8").splitlines()
    return [json.loads(line) for line in lines if line.strip()]


def rates(hits: int, found: int, wanted: int) -> dict[str, float | int]:
    """Precision of what was `found` and recall of the examples `wanted`, with their counts; 1 where there are none."""
    return {
        "precision": round(hits / found, 3) if found else 1.0,
        "recall": round(hits / wanted, 3) if wanted else 1.0,
        "found": found,
        "examples": wanted,
    }


def code(examples: Sequence[dict[str, Any]], *, show: bool = False) -> dict[str, Any]:
    """Precision and recall of code, and the share of languages that are told right where code is found."""
    counts: Counter[str] = Counter()
    for example in examples:
        found = find_code(example["text"])
        counts["hits"] += bool(found and example["code"])
        counts["found"] += found is not None
        counts["wanted"] += example["code"]
        if found and example["code"] and example["language"]:
            counts["languages"] += 1
            counts["right"] += found.language == example["language"]
        if show and (found is not None) != example["code"]:
            what = "missed" if example["code"] else f"not code, but {', '.join(found.kinds if found else ())}"
            print(f"{example['id']}: {what}: {example['text']!r:.140}", file=sys.stderr)
    return {
        **rates(counts["hits"], counts["found"], counts["wanted"]),
        "prose": len(examples) - counts["wanted"],
        "language_right": round(counts["right"] / max(counts["languages"], 1), 3),
    }


def moments(examples: Sequence[dict[str, Any]], *, show: bool = False) -> dict[str, Any]:
    """Precision and recall of each kind, and over all kinds.

    Whether a first turn opens a subject is a convention, not a matter of detection: such are not counted.
    """
    hits: Counter[str] = Counter()
    given: Counter[str] = Counter()
    wanted: Counter[str] = Counter()
    for example in examples:
        previous = [(role, text) for role, text in example["previous"]]
        found = set(detect_moments(example["text"], role=example["role"], previous=previous))
        labelled = set(example["moments"])
        if not previous:
            found.discard("topic_introduction")
            labelled.discard("topic_introduction")
        hits.update(found & labelled)
        given.update(found)
        wanted.update(labelled)
        if show and found != labelled:
            print(
                f"{example['id']}: too many {sorted(found - labelled)}, missed {sorted(labelled - found)}:"
                f" {example['text']!r:.140}",
                file=sys.stderr,
            )
    report: dict[str, Any] = {"all": rates(hits.total(), given.total(), wanted.total())}
    report.update((kind, rates(hits[kind], given[kind], wanted[kind])) for kind in MOMENT_KINDS)
    return report


def half_of(turns: Sequence[dict[str, Any]], half: str) -> Sequence[dict[str, Any]]:
    """The examples of one half: those at odd positions, counted from 1, are for development."""
    return turns[HALVES.index(half) :: 2]


def measure(*, show: str | None = None) -> dict[str, Any]:
    """Everything; `show`: the part whose mistakes are listed on standard error."""
    turns = read("moment_examples")
    report: dict[str, Any] = {"code": code(read("code_examples"), show=show == "code")}
    for half in HALVES:
        examples = half_of(turns, half)
        korean = [example for example in examples if _HANGUL.search(example["text"])]
        english = [example for example in examples if not _HANGUL.search(example["text"])]
        report[f"moments, English, {half}"] = moments(english, show=show == half)
        report[f"moments, Korean, {half}"] = moments(korean, show=show == half)
    return report


def main() -> None:
    """Parse the command line and run."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("--show", choices=("code", *HALVES), help="list what is wrong in this part")
    print(json.dumps(measure(show=parser.parse_args().show), indent=1))


if __name__ == "__main__":
    main()
