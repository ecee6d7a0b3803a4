"""The structure that the design promises: who may import what, what loads when, and what tests may not do."""

from __future__ import annotations

import ast
import importlib
import re
import subprocess
import sys
from pathlib import Path

import pytest

from memory_agent.config import MemoryConfig

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "memory_agent"
MODULES = sorted(PACKAGE.rglob("*.py"))
PYTHON_FILES = sorted(
    file
    for folder in ("memory_agent", "tests", "benchmarks", "examples", "scripts")
    for file in (ROOT / folder).rglob("*.py")
)
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])

# Which files may name a driver: its adapter alone.
DRIVERS = {
    "chromadb": ("stores/chroma",),
    "pymongo": ("stores/mongo",),
    "bson": ("stores/mongo",),
    "motor": ("stores/mongo",),
    "sqlite3": ("stores/sqlite",),
    "openai": ("models/openai",),
    "sentence_transformers": (
        "models/local/sentence_transformers",
        "models/local/export_process",
        "models/cross_encoder",
    ),
    "torch": (
        "models/local/sentence_transformers",
        "models/local/export_process",
        "models/cross_encoder",
    ),
    "transformers": ("models/local/sentence_transformers", "models/cross_encoder"),
    "onnxruntime": ("models/local/onnx", "models/local/quantize"),
    "onnx": ("models/local/graph", "models/local/quantize", "models/local/tensors", "models/local/write"),
    "huggingface_hub": ("models/local/find",),
    "tiktoken": ("models/tokens",),
    "fastapi": ("server/",),
    "uvicorn": ("server/",),
    "typer": ("cli/",),
    "rich": ("cli/",),
}


def name_of(file: Path) -> str:
    return str(file.relative_to(ROOT))


def imported_by(source: str) -> set[str]:
    """Every module that a source imports, at the top, inside functions or for types only."""
    found = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "imports are absolute"
            found |= {f"{node.module}.{alias.name}" for alias in node.names} | {str(node.module)}
    return found


def reaches(imports: set[str], *packages: str) -> set[str]:
    return {name for name in imports if any(name == p or name.startswith(f"{p}.") for p in packages)}


def imports_of(file: Path) -> set[str]:
    return imported_by(file.read_text(encoding="utf-8"))


# --- who imports what ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "file",
    [f for f in MODULES if f.relative_to(PACKAGE).parts[0] in ("recall", "remember", "lifecycle")],
    ids=name_of,
)
def test_core_never_imports_an_adapter_nor_what_wires_them(file: Path) -> None:
    assert not reaches(
        imports_of(file),
        "memory_agent.stores",
        "memory_agent.models",
        "memory_agent.parts",
        "memory_agent.service",
        "memory_agent.cli",
        "memory_agent.server",
    )


def test_only_what_wires_them_sees_both_core_and_adapters() -> None:
    both = {
        name_of(file)
        for file in MODULES
        if reaches(imports_of(file), "memory_agent.stores", "memory_agent.models")
        and reaches(
            imports_of(file), "memory_agent.recall", "memory_agent.remember", "memory_agent.lifecycle"
        )
        and file.relative_to(PACKAGE).parts[0] not in ("stores", "models")
    }
    # The strategy works without a service, so it wires its own: the fallback of its summaries.
    assert both <= {"memory_agent/parts.py", "memory_agent/strategy.py"}


@pytest.mark.parametrize("file", MODULES, ids=name_of)
def test_drivers_are_named_inside_their_adapter_only(file: Path) -> None:
    place = str(file.relative_to(PACKAGE))
    for driver, allowed in DRIVERS.items():
        if reaches(imports_of(file), driver):
            assert place.startswith(allowed), f"{driver} is imported outside {allowed}"


@pytest.mark.parametrize(
    "file",
    [
        *(PACKAGE / "domain").glob("*.py"),
        *(PACKAGE / "ports").glob("*.py"),
        *(PACKAGE / name for name in ("checks.py", "errors.py")),
    ],
    ids=name_of,
)
def test_domain_and_ports_stand_below_everything(file: Path) -> None:
    ours = reaches(imports_of(file), "memory_agent")
    below = {"checks", "domain", "errors"} | ({"ports"} if file.parent.name == "ports" else set())
    assert {name.split(".")[1] for name in ours if "." in name} <= below


def test_the_check_would_notice_an_import_inside_a_function() -> None:
    source = "def f() -> None:\n    from memory_agent.stores import mongo\n"
    assert reaches(imported_by(source), "memory_agent.stores")


# --- what loads when -----------------------------------------------------------------------------------------

HEAVY = (
    "torch",
    "transformers",
    "sentence_transformers",
    "onnxruntime",
    "onnx",
    "tokenizers",
    "huggingface_hub",
    "chromadb",
    "fastapi",
    "openai",
    "pymongo",
    "motor",
)


def heavy_after(statement: str) -> set[str]:
    """Which heavy packages are loaded after `statement` ran in a fresh process."""
    script = f"import sys\n{statement}\nsys.stdout.write(' '.join(m for m in {HEAVY!r} if m in sys.modules))"
    finished = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=True
    )
    return set(finished.stdout.split())


def test_importing_the_package_loads_nothing_heavy() -> None:
    assert (
        heavy_after("import memory_agent; [getattr(memory_agent, n) for n in memory_agent.__all__]") == set()
    )


def test_command_line_s_help_loads_nothing_heavy() -> None:
    assert heavy_after("import memory_agent.cli.app") == set()


def test_the_check_would_notice_a_heavy_import() -> None:
    assert "openai" in heavy_after("import openai")


# --- public names --------------------------------------------------------------------------------------------


def test_public_names_are_sorted_and_can_be_imported() -> None:
    package = importlib.import_module("memory_agent")
    assert package.__all__ == sorted(package.__all__)
    assert {"MemoryAgent", "MemoryConfig", "MemoryService"} <= set(package.__all__)
    for name in package.__all__:
        assert getattr(package, name) is not None


@pytest.mark.parametrize("file", MODULES, ids=name_of)
def test_every_module_says_what_it_is(file: Path) -> None:
    assert ast.get_docstring(ast.parse(file.read_text(encoding="utf-8")))


# --- tests ---------------------------------------------------------------------------------------------------

MOCKS = {"Mock", "MagicMock", "AsyncMock", "create_autospec", "mock", "mongomock", "mongomock_motor"}


def mocks_in(source: str) -> set[str]:
    """Names of mocking tools that the code uses; words in strings and comments don't count."""
    used = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Name):
            used.add(node.id)
        elif isinstance(node, ast.Attribute):
            used.add(node.attr)
        elif isinstance(node, ast.Import | ast.ImportFrom):
            used |= {part for alias in node.names for part in alias.name.split(".")}
            used |= set((node.module or "").split(".")) if isinstance(node, ast.ImportFrom) else set()
        elif isinstance(node, ast.arg) and node.arg == "mocker":
            used.add("mock")
    return used & MOCKS


@pytest.mark.parametrize("file", PYTHON_FILES, ids=name_of)
def test_no_driver_is_mocked(file: Path) -> None:
    assert not mocks_in(file.read_text(encoding="utf-8"))


@pytest.mark.parametrize(
    "source",
    [
        "from unittest.mock import patch",
        "import mongomock",
        "x = unittest.mock.AsyncMock()",
        "def f(mocker): ...",
    ],
)
def test_the_check_would_notice_a_mock(source: str) -> None:
    assert mocks_in(source)


# --- documentation -------------------------------------------------------------------------------------------

NOT_SETTINGS = {"config_file"}


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_pages_name_only_settings_that_exist(page: Path) -> None:
    named = {
        name.lower() for name in re.findall(r"\bMEMORY_AGENT_([A-Z][A-Z0-9_]*)\b", page.read_text("utf-8"))
    }
    assert named - NOT_SETTINGS <= set(MemoryConfig.model_fields)


def test_configuration_page_lists_every_setting_with_its_default() -> None:
    rows = dict(
        re.findall(
            r"^\| `([a-z_]+)` \| ([^|]+) \|",
            (ROOT / "docs" / "configuration.md").read_text("utf-8"),
            flags=re.MULTILINE,
        )
    )
    assert set(rows) == set(MemoryConfig.model_fields)
    for name, field in MemoryConfig.model_fields.items():
        shown = rows[name].strip().strip("`")
        if isinstance(field.default, bool):
            assert shown == str(field.default).lower()
        elif isinstance(field.default, int | float):
            assert float(shown.replace(",", "")) == field.default


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_links_between_pages_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", page.read_text("utf-8")):
        if "://" not in target:
            assert (page.parent / target).exists(), f"{page.name} links to {target}"


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_python_in_pages_is_python(page: Path) -> None:
    for block in re.findall(r"```python\n(.*?)```", page.read_text("utf-8"), flags=re.DOTALL):
        assert compile(block, page.name, "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
