"""What docs/context.md says in figures is what the code has."""

from __future__ import annotations

import re
from dataclasses import asdict, fields
from pathlib import Path

from memory_agent.context.assemble import ORDER
from memory_agent.context.budget import PRESETS, Shares

PAGE = (Path(__file__).parents[2] / "docs" / "context.md").read_text(encoding="utf-8")


def cells(row: str) -> list[str]:
    return [cell.strip() for cell in row.strip().strip("|").split("|")]


def test_the_table_of_presets_has_the_shares_of_the_code() -> None:
    """Each preset once, each tier under its name, a dash where the preset leaves it out."""
    head = next(line for line in PAGE.splitlines() if line.startswith("| preset |"))
    tiers = [name.replace("-", "_") for name in cells(head)[1:-1]]
    assert sorted(tiers) == sorted(field.name for field in fields(Shares))
    told = {}
    for row in re.findall(r"^\| `[a-z]+` \| [.–0].*$", PAGE, flags=re.MULTILINE):
        name, *shares, _ = cells(row)
        told[name.strip("`")] = {
            tier: None if share == "–" else float(share) for tier, share in zip(tiers, shares, strict=True)
        }
    assert told == {name: asdict(shares) for name, shares in PRESETS.items()}


def test_the_table_of_tiers_has_the_order_of_the_code() -> None:
    """Top to bottom as a model reads them."""
    table = PAGE.split("| tier | what | from |")[1].split("\n\n")[0]
    assert tuple(re.findall(r"^\| `([a-z_]+)` \|", table, flags=re.MULTILINE)) == ORDER
