"""docs/long_term.md tells the signals and weights that the code has."""

from __future__ import annotations

import re
from pathlib import Path

from memory_agent.search.fusion import DEFAULT_WEIGHTS, DETAILED_WEIGHTS, SIGNALS

PAGE = (Path(__file__).parents[2] / "docs" / "long_term.md").read_text(encoding="utf-8")


def number(cell: str) -> float:
    return float(cell.replace("−", "-"))


def test_the_table_of_signals_has_the_weights_of_the_code() -> None:
    """Every signal once, in the code's order, with its weight alone and beside late interaction."""
    rows = re.findall(r"^\| `([a-z_]+)` \| ([^|]+) \| ([^|]+) \| ([^|]+) \|", PAGE, flags=re.MULTILINE)
    told = {name: (weight.strip(), detailed.strip()) for name, _, weight, detailed in rows if name in SIGNALS}
    assert sorted(told) == sorted(SIGNALS)
    for name, (weight, detailed) in told.items():
        assert number(weight.split(";")[0]) == DEFAULT_WEIGHTS[name], name
        assert number(detailed) == DETAILED_WEIGHTS[name], name
