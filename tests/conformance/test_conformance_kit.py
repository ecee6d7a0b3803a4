"""The conformance kit: it finds nothing wrong with the project's own adapters, and names the faults of a wrong store."""

import ast
import json
import os
from pathlib import Path
from typing import Any

import pytest

from memory_agent.conformance.kit import ACROSS
from tests.documented import ROOT
from tests.profiles import by_day
from tests.servers.forks import forks

SUITE = ROOT / "tests" / "conformance"


def kit(*arguments: str, folder: Path) -> tuple[int, dict[str, Any], str]:
    """The kit's exit code, its report, and what it complains of. In a process of its own, for it runs pytest."""
    words = ["conformance", *arguments, "--json"]
    run = forks().run(words, stdin="", cwd=ROOT, env=os.environ, timeout=300)
    return run.returncode, json.loads(run.stdout) if run.stdout else {}, run.stderr


FAULTS = [
    ("forgetful", "crash", "test_the_next_process_reads_what_was_acknowledged"),
    ("leaking", "leakage", "test_lists_by_number_by_id_and_within_limits"),
    ("keeping", "deletion", "test_erases_named_turns_with_all_derived"),
    ("doubling", "order", "test_numbers_turns_from_one"),
    ("racing", "concurrency", "test_a_lease_has_one_holder"),
]


@pytest.mark.parametrize(("fault", "capability", "test"), by_day(*FAULTS))
def test_the_fault_of_a_wrong_store_is_named(fault: str, capability: str, test: str, tmp_path: Path) -> None:
    """Under its capability: the test that showed it, what that holds a store to, and what came instead; exit code 1."""
    code, report, _ = kit(f"tests.conformance.wrong_stores:{fault}", "--only", capability, folder=tmp_path)
    assert (code, report["conforms"]) == (1, False)
    found = {
        finding["test"].rpartition("::")[2]: finding for finding in report["outcomes"][capability]["findings"]
    }
    assert test in found
    assert found[test]["holds"]
    assert found[test]["error"]


def test_a_right_store_conforms(tmp_path: Path) -> None:
    """No finding, of the capabilities that are asked for and no other; exit code 0."""
    code, report, _ = kit(
        "tests.conformance.wrong_stores:right", "--only", "order", "--only", "crash", folder=tmp_path
    )
    assert (code, report["conforms"], set(report["outcomes"])) == (0, True, {"order", "crash"})
    assert all(outcome["passed"] and not outcome["findings"] for outcome in report["outcomes"].values())


@pytest.mark.nightly
@pytest.mark.parametrize(
    ("factory", "kind"),
    [
        ("tests.conformance.wrong_stores:right", "store"),
        ("tests.conformance.own_adapters:index", "vectors"),
        ("tests.conformance.own_adapters:embedder", "embedder"),
        ("tests.conformance.own_adapters:stage", "llm"),
    ],
)
def test_the_projects_own_adapters_conform(factory: str, kind: str, tmp_path: Path) -> None:
    """Of each kind one, to every capability."""
    code, report, _ = kit(factory, "--kind", kind, folder=tmp_path)
    assert (code, report["failed"]) == (0, 0)
    assert report["ran"] >= 4


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["my_store"], "pass MODULE:FACTORY"),
        (["no_such_module:make"], "cannot be imported: ModuleNotFoundError"),
        (["tests.conformance.wrong_stores:right", "--only", "speed"], "capability is 'speed'; there are "),
    ],
)
def test_what_cannot_be_run_is_said(arguments: list[str], said: str, tmp_path: Path) -> None:
    """With exit code 1 and one line; nothing is reported."""
    code, report, complaint = kit(*arguments, folder=tmp_path)
    assert (code, report) == (1, {})
    assert said in complaint


def test_every_test_that_shows_a_capability_exists() -> None:
    """The table names tests of the suites, each once for a capability."""
    trees = [ast.parse(file.read_text("utf-8")) for file in SUITE.glob("test_*.py")]
    defined = {
        node.name
        for tree in trees
        for node in tree.body
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    }
    for tests in ACROSS.values():
        assert set(tests) <= defined
        assert len(set(tests)) == len(tests)
