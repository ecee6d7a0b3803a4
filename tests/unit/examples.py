"""Example tables: TOML or JSON files beside the tests, a row an example."""

import json
import tomllib
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest


def examples(name: str) -> dict[str, Any]:
    """The tables of a file below this folder, such as "text/terms.toml"."""
    text = (Path(__file__).parent / name).read_text("utf-8")
    tables: dict[str, Any] = tomllib.loads(text) if name.endswith(".toml") else json.loads(text)
    return tables


def cases(rows: Iterable[list[Any]]) -> list[Any]:
    """Rows as parameters of a test, each named by its first value."""
    return [pytest.param(*values, id=name) for name, *values in rows]


def misses(rows: Iterable[list[Any]], read: Callable[..., Any]) -> list[tuple[list[Any], Any]]:
    """Each row whose last value is not what `read` makes of those before it, with what it made of them."""
    found = [(row, read(*row[:-1])) for row in rows]
    assert found
    return [(row, value) for row, value in found if value != row[-1]]
