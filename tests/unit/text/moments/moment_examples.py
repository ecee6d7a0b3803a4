"""Turns by kind of moment: what passes and what doesn't, in English and Korean. They are in `moment_examples.jsonl`.

A line with `before` names turns that several examples have before them.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from memory_agent.domain.moments import MomentKind

Turns = tuple[tuple[str, str], ...]


class Example(NamedTuple):
    text: str
    role: str
    previous: Turns


def _turns(value: Any) -> Turns:
    return BEFORE[value] if isinstance(value, str) else tuple((role, text) for role, text in value)


_LINES = Path(__file__).with_suffix(".jsonl").read_text(encoding="utf-8").splitlines()
_ROWS: list[dict[str, Any]] = [json.loads(line) for line in _LINES]
BEFORE: dict[str, Turns] = {}
BEFORE |= {row["before"]: _turns(row["turns"]) for row in _ROWS if "before" in row}
QUARREL, COOKIES = BEFORE["quarrel"], BEFORE["cookies"]
PASSES: dict[MomentKind, list[Example]] = {}
FAILS: dict[MomentKind, list[Example]] = {}
for _row in _ROWS:
    if "kind" in _row:
        _example = Example(_row["text"], _row.get("role", "user"), _turns(_row.get("previous", ())))
        (PASSES if _row["passes"] else FAILS).setdefault(_row["kind"], []).append(_example)
