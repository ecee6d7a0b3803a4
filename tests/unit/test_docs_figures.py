"""What docs/context.md and docs/long_term.md say in figures is what the code has."""

import re
from dataclasses import asdict, fields
from importlib.util import find_spec
from pathlib import Path

from memory_agent.context.assemble import ORDER
from memory_agent.context.budget import PRESETS, Shares
from memory_agent.search.fusion import SIGNALS, WEIGHTS, WEIGHTS_WITHOUT_DETAIL

DOCS = Path(__file__).parents[2] / "docs"
CONTEXT, LONG_TERM = ((DOCS / name).read_text(encoding="utf-8") for name in ("context.md", "long_term.md"))


def cells(row: str) -> list[str]:
    return [cell.strip() for cell in row.strip().strip("|").split("|")]


def test_the_table_of_presets_has_the_shares_of_the_code() -> None:
    head = next(line for line in CONTEXT.splitlines() if line.startswith("| preset |"))
    tiers = [name.replace("-", "_") for name in cells(head)[1:-1]]
    assert sorted([*tiers, "window"]) == sorted(field.name for field in fields(Shares))
    told = {}
    for row in re.findall(r"^\| `[a-z]+` \| [.–0].*$", CONTEXT, flags=re.MULTILINE):
        name, *shares, _ = cells(row)
        told[name.strip("`")] = {
            tier: None if share == "–" else float(share) for tier, share in zip(tiers, shares, strict=True)
        }
    assert told == {
        name: {tier: share for tier, share in asdict(shares).items() if tier != "window"}
        for name, shares in PRESETS.items()
    }


def test_the_table_of_tiers_has_the_order_of_the_code() -> None:
    table = CONTEXT.split("| tier | what | from |")[1].split("\n\n")[0]
    assert tuple(re.findall(r"^\| `([a-z_]+)` \|", table, flags=re.MULTILINE)) == ORDER


def number(cell: str) -> float:
    return float(cell.replace("−", "-"))


def test_the_table_of_signals_has_the_weights_of_the_code() -> None:
    rows = re.findall(r"^\| `([a-z_]+)` \|([^|]+)\|([^|]+)\|([^|]+)\|", LONG_TERM, flags=re.MULTILINE)
    told = {name: (weight, without) for name, _, weight, without in rows if name in SIGNALS}
    assert sorted(told) == sorted(SIGNALS)
    for name, (weight, without) in told.items():
        assert number(weight) == WEIGHTS[name], name
        assert number(without.strip() or weight) == WEIGHTS_WITHOUT_DETAIL[name], name


def test_every_benchmark_that_a_page_names_is_there() -> None:
    for page in sorted(DOCS.glob("*.md")):
        for name in re.findall(r"python -m (benchmarks\.\w+)", page.read_text(encoding="utf-8")):
            assert find_spec(name) is not None, f"{page.name} names {name}"
