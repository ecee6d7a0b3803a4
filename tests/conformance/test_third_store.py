"""A store that was written from the ports and this suite alone: what the architecture page says of adding one leads there."""

import os
import re
import subprocess
from pathlib import Path
from xml.etree import ElementTree

from memory_agent.ports import DocumentStore
from tests.conformance.third_party.dictionary_store import Database, DictionaryStore
from tests.documented import ROOT, blocks
from tests.servers.forks import forks

SUITE = ROOT / "tests" / "conformance" / "test_document_store_turns.py"
ADAPTER = SUITE.parent / "third_party" / "dictionary_store.py"
RIGHT, WRONG = "self._database.last_seq[scope] += 1", "self._database.last_seq[scope] += 2"
NOTICED_BY = "test_numbers_turns_from_one"


def held_to_the_suite(folder: Path, *, fault: str = RIGHT, only: str = "") -> tuple[str, dict[str, str]]:
    """Follow the page in `folder` with the adapter: what a run of the suite says, and how each of its tests ended."""
    [python, shell] = [block for block in blocks("docs/architecture.md") if block.section == "Add a store"]
    source = ADAPTER.read_text("utf-8")
    assert source.count(RIGHT) == 1
    (folder / ADAPTER.name).write_text(source.replace(RIGHT, fault), "utf-8")
    (folder / "my_store.py").write_text(python.text, "utf-8")
    told = folder / "told.xml"
    # Not as a part of the run that this test belongs to.
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    environment |= {
        "PATH": f"{forks().folder}{os.pathsep}{os.environ['PATH']}",
        "PYTEST_ADDOPTS": f"-p no:cacheprovider --junitxml={told} -k '{only}'",
    }
    run = subprocess.run(
        ["bash", "-c", shell.text], cwd=folder, env=environment, capture_output=True, text=True, timeout=240
    )
    assert told.exists(), run.stdout + run.stderr
    ended: dict[str, str] = {}
    for case in ElementTree.parse(told).iter("testcase"):
        how = next((part.tag for part in case if part.tag in ("failure", "error", "skipped")), "passed")
        name = case.get("name", "").partition("[")[0]
        ended[name] = ended.get(name, how) if how == "passed" else how
    return run.stdout[-5_000:], ended


def test_a_store_of_one_noun_passes_its_suite(tmp_path: Path) -> None:
    """Every test of the noun ran on it and passed; none was left out or skipped."""
    said, ended = held_to_the_suite(tmp_path)
    suite = set(re.findall(r"^(?:async )?def (test_\w+)", SUITE.read_text("utf-8"), re.MULTILINE))
    assert ended == dict.fromkeys(suite, "passed"), said
    assert re.search(r"\n\d+ tests, of which 0 failed", said)


def test_the_suite_notices_what_a_store_does_wrong(tmp_path: Path) -> None:
    said, ended = held_to_the_suite(tmp_path, fault=WRONG, only=NOTICED_BY)
    assert ended == {NOTICED_BY: "failure"}, said


def test_the_store_keeps_one_port_and_knows_nothing_else_of_the_project() -> None:
    assert not isinstance(DictionaryStore(Database()), DocumentStore)
    assert set(re.findall(r"memory_agent\.(\w+)", ADAPTER.read_text("utf-8"))) == {"domain", "errors"}
