"""How well code is detected: `python -m benchmarks.detection [--show]`.

The examples of `benchmarks/data` were labelled by somebody who had not seen the rules, and all of them are held out. Prints
precision and recall of code detection. `--show` lists what is wrong, which spends them.
`tests/unit/test_detection.py` holds the figures to what they were.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from memory_agent.text.code.detect import has_code

if TYPE_CHECKING:
    from collections.abc import Sequence

FOLDER: Final = Path(__file__).parent / "data"


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
    """Precision and recall of code."""
    counts: Counter[str] = Counter()
    for example in examples:
        found = has_code(example["text"])
        counts["hits"] += found and example["code"]
        counts["found"] += found
        counts["wanted"] += example["code"]
        if show and found != example["code"]:
            what = "missed" if example["code"] else "not code"
            print(f"{example['id']}: {what}: {example['text']!r:.140}", file=sys.stderr)
    return {
        **rates(counts["hits"], counts["found"], counts["wanted"]),
        "prose": len(examples) - counts["wanted"],
    }


def main() -> None:
    """Parse the command line and run."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("--show", action="store_true", help="list what is wrong")
    print(json.dumps(code(read("code_examples"), show=parser.parse_args().show), indent=1))


if __name__ == "__main__":
    main()
