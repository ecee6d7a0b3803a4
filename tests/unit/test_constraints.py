"""constraints.txt: whole, allowed by pyproject.toml, and what is installed where tests run."""

from __future__ import annotations

import re
import tomllib
from importlib.metadata import distributions
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

ROOT = Path(__file__).parents[2]
PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
LINES = [
    line for line in (ROOT / "constraints.txt").read_text("utf-8").splitlines() if not line.startswith("#")
]
PINNED = {canonicalize_name(line.split("==")[0]): Version(line.split("==")[1]) for line in LINES}
TOOLS = {"pip", "setuptools", "wheel", "memory-agent"}
"""What comes with an environment rather than by a dependency, and this package."""


def declared() -> list[Requirement]:
    extras = PROJECT["optional-dependencies"]
    lines = [*PROJECT["dependencies"], *(line for name in extras if name != "all" for line in extras[name])]
    return [Requirement(line) for line in lines]


def test_each_line_is_one_exact_release_that_anybody_can_get() -> None:
    """No address, no path, no build for one kind of machine."""
    for line in LINES:
        assert re.fullmatch(r"[A-Za-z0-9_.-]+==[0-9][0-9A-Za-z.]*", line), line
    assert len(PINNED) == len(LINES)


@pytest.mark.parametrize("requirement", declared(), ids=str)
def test_every_dependency_is_pinned_to_a_release_that_it_allows(requirement: Requirement) -> None:
    assert requirement.specifier.contains(PINNED[canonicalize_name(requirement.name)])


def test_the_environment_of_the_tests_is_the_pinned_one() -> None:
    """What is installed and needed by this package, to the last dependency's dependency, is in the file by its version."""
    installed = {canonicalize_name(d.name): d for d in distributions() if d.name}
    queue = [
        (canonicalize_name(r.name), r.extras) for r in declared() if r.marker is None or r.marker.evaluate()
    ]
    seen: set[tuple[str, frozenset[str]]] = set()
    wrong = []
    while queue:
        name, extras = queue.pop()
        key = (name, frozenset(extras))
        if key in seen or name in TOOLS:
            continue
        seen.add(key)
        found = Version(installed[name].version)
        if PINNED.get(name) != Version(found.public):
            wrong.append(
                f"{name} {found}, not {PINNED.get(name)}: `make lock`, or `make test`, which installs it"
            )
        for line in installed[name].requires or ():
            needed = Requirement(line)
            if needed.marker is None or any(
                needed.marker.evaluate({"extra": extra}) for extra in ("", *extras)
            ):
                queue.append((canonicalize_name(needed.name), needed.extras))
    assert wrong == []
    assert len(seen) > 100
