"""A store that was written from the ports and this suite alone: what the architecture page says of adding one leads there."""

import ast
import os
import re
import shutil
import subprocess
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree

from memory_agent.ports import DocumentStore
from tests.conformance.third_party.dictionary_store import Database, DictionaryStore
from tests.documented import ROOT, blocks
from tests.servers.forks import forks

SUITE = ROOT / "tests" / "conformance"
ADAPTER = SUITE / "third_party" / "dictionary_store.py"
NOUNS = ("turns", "work")
FAULTS = {
    "self._database.last_seq[scope] += 1": "self._database.last_seq[scope] += 2",
    "turn.pending[:1] == (stage,)": "stage in turn.pending",
}
"""One for each of the nouns, and what it becomes."""
NOTICED_BY = {
    "turns": "test_numbers_turns_from_one",
    "work": "test_threads_are_due_for_the_stage_that_comes_next",
}


@dataclass(frozen=True)
class Outcome:
    """What a run of the suite came to: its words, and for every case its noun, its test and how it ended."""

    said: str
    cases: list[tuple[str, str, str]]

    def tests(self, ended: str) -> dict[str, set[str]]:
        """The tests of each noun that had a case which ended so."""
        return {noun: {test for of, test, how in self.cases if (of, how) == (noun, ended)} for noun in NOUNS}


def held_to_the_suite(
    folder: Path, *, faults: Mapping[str, str] | None = None, only: Iterable[str] = ()
) -> Outcome:
    """Follow the page in `folder` with the adapter, once each of the faults was put into it. `only`: these tests."""
    [python, shell] = [block for block in blocks("docs/architecture.md") if block.section == "Add a store"]
    shutil.copy(ADAPTER, folder)
    adapter = folder / ADAPTER.name
    for right, wrong in (faults or {}).items():
        source = adapter.read_text("utf-8")
        assert source.count(right) == 1, right
        adapter.write_text(source.replace(right, wrong), "utf-8")
    (folder / "my_store.py").write_text(python.text, "utf-8")
    told = folder / "told.xml"
    # Not as a part of the run that this test belongs to.
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    environment |= {
        "PATH": f"{forks().folder}{os.pathsep}{os.environ['PATH']}",
        "PYTEST_ADDOPTS": f"-p no:cacheprovider --junitxml={told} -k '{' or '.join(only)}'",
    }
    run = subprocess.run(
        ["bash", "-c", shell.text], cwd=folder, env=environment, capture_output=True, text=True, timeout=240
    )
    assert told.exists(), run.stdout + run.stderr
    cases = []
    for case in ElementTree.parse(told).iter("testcase"):
        module = case.get("classname", "").rpartition("test_document_store_")[2]
        ended = next((part.tag for part in case if part.tag in ("failure", "error", "skipped")), "passed")
        cases.append((module, case.get("name", "").partition("[")[0], ended))
    return Outcome(said=run.stdout[-5_000:], cases=cases)


def suite_of(noun: str) -> set[str]:
    """The tests that the suite has for a noun, as its module defines them."""
    tree = ast.parse((SUITE / f"test_document_store_{noun}.py").read_text("utf-8"))
    functions = [node.name for node in tree.body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
    return {name for name in functions if name.startswith("test_")}


def test_a_store_of_two_nouns_passes_their_suites(tmp_path: Path) -> None:
    """Every test of these nouns ran on it and passed; none was left out or skipped."""
    outcome = held_to_the_suite(tmp_path)
    assert {ended for _, _, ended in outcome.cases} == {"passed"}, outcome.said
    assert outcome.tests("passed") == {noun: suite_of(noun) for noun in NOUNS}
    assert f"\n{len(outcome.cases)} tests, of which 0 failed" in outcome.said
    assert len(outcome.cases) > 25


def test_the_suite_notices_what_a_store_does_wrong(tmp_path: Path) -> None:
    """A fault in each of the nouns fails a test of that noun."""
    outcome = held_to_the_suite(tmp_path, faults=FAULTS, only=NOTICED_BY.values())
    assert outcome.tests("failure") == {noun: {test} for noun, test in NOTICED_BY.items()}, outcome.said
    assert {ended for _, _, ended in outcome.cases} == {"failure"}, outcome.said


def test_the_store_keeps_two_ports_and_knows_nothing_else_of_the_project() -> None:
    store = DictionaryStore(Database())
    assert not isinstance(store, DocumentStore)
    assert set(re.findall(r"memory_agent\.(\w+)", ADAPTER.read_text("utf-8"))) == {"domain", "errors"}
