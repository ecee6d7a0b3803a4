"""Example tables: TOML files beside the tests, a row an example."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable


def examples(name: str) -> dict[str, Any]:
    """The tables of a file in this folder, such as "moments/traits"."""
    return tomllib.loads((Path(__file__).parent / f"{name}.toml").read_text("utf-8"))


def misses(rows: Iterable[list[Any]], read: Callable[..., Any]) -> list[tuple[list[Any], Any]]:
    """Each row whose last value is not what `read` makes of those before it, with what it made of them."""
    found = [(row, read(*row[:-1])) for row in rows]
    assert found
    return [(row, value) for row, value in found if value != row[-1]]
