"""Clients that this project did not write, against a real service."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.servers.service import ServiceProcess
from tests.strangers import HAS_NPM, HERE, SECONDS, call, inspector, program

WALNUTS = "I'm allergic to walnuts, and I take the number 7 tram to work."
PIANO = "The piano tuner comes on Monday at ten."

pytestmark = [pytest.mark.timeout(2 * SECONDS), pytest.mark.nightly]
"""The document that a client is made of is read and called by tests of its own: unit/server/test_openapi.py, test_openapi.py."""


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServiceProcess]:
    folder = tmp_path_factory.mktemp("strangers")
    service = ServiceProcess(folder, settings={"data_dir": folder / "data"})
    service.start()
    yield service
    service.stop()


@pytest.fixture(scope="module")
def key(service: ServiceProcess) -> str:
    made = call(
        [program_of_ours(), "keys", "create", "--tenant", "acme", "--json"],
        folder=service.folder,
        environment=service.environment,
    )
    assert made.returncode == 0, made.stderr
    token: str = json.loads(made.stdout)["token"]
    return token


def program_of_ours() -> str:
    return str(Path(sys.executable).parent / "memory-agent")


# --- a client made of the OpenAPI document -----------------------------------------------------------------------
@pytest.fixture(scope="module")
def answers(service: ServiceProcess, key: str) -> dict[str, Any]:
    """What a program got with the client that openapi-python-client made."""
    made = call(
        [
            program("openapi-python-client"),
            "generate",
            "--url",
            f"{service.address}/openapi.json",
            "--output-path",
            "made",
            "--meta",
            "none",
        ],
        folder=service.folder,
        environment={**os.environ, "PATH": f"{Path(program('python')).parent}:{os.environ['PATH']}"},
    )
    assert made.returncode == 0, made.stderr
    assert "Warning" not in made.stdout, made.stdout
    ran = call(
        [program("python"), str(HERE / "generated_client.py"), service.address],
        folder=service.folder,
        environment={"KEY": key, "PYTHONPATH": str(service.folder)},
    )
    assert ran.returncode == 0, ran.stderr
    answers: dict[str, Any] = json.loads(ran.stdout)
    return answers


def test_a_generated_client_remembers_once_and_finds(answers: dict[str, Any]) -> None:
    assert answers["first"] == answers["again"]
    assert len(answers["first"]["turn_ids"]) == 2
    assert answers["found"][0] == WALNUTS
    assert WALNUTS in answers["context"]


def test_a_generated_client_reads_page_by_page_and_forgets(answers: dict[str, Any]) -> None:
    assert answers["forgotten"]["turns"] == 1
    assert answers["listed"] == [WALNUTS, "Noted.", "The tuner comes on Monday."]
    assert answers["status"]["turns"] == 3
    assert answers["facts"]["facts"]["name"] == "Ada"


def test_a_generated_client_reads_problems(answers: dict[str, Any]) -> None:
    status, missing = answers["missing"]
    assert (status, missing["status"]) == (404, 404)
    assert "no-such-topic" in missing["detail"]
    status, refused = answers["refused"]
    assert status == 422
    assert [error["field"] for error in refused["errors"]] == ["user_message"]


# --- MCP Inspector -----------------------------------------------------------------------------------------------
class Inspector:
    """MCP Inspector's command line, over one of the ways to the memory."""

    def __init__(self, target: list[str], folder: Path, environment: dict[str, str]) -> None:
        self._target = target
        self._folder = folder
        self._environment = environment

    def __call__(self, *arguments: str) -> dict[str, Any]:
        ran = call(
            [*inspector(), *self._target, "--method", *arguments],
            folder=self._folder,
            environment=self._environment,
        )
        assert ran.returncode == 0, ran.stderr
        answer: dict[str, Any] = json.loads(ran.stdout)
        return answer


@pytest.fixture(params=["http", "stdio"])
def inspect(request: pytest.FixtureRequest, service: ServiceProcess, key: str, tmp_path: Path) -> Inspector:
    if request.param == "http":
        way = ["--transport", "http", "--header", f"Authorization: Bearer {key}"]
        return Inspector([f"{service.address}/mcp", *way], tmp_path, dict(os.environ))
    alone = {**service.environment, "MEMORY_AGENT_DATA_DIR": str(tmp_path / "data")}
    passed = [
        part for name in alone if name.startswith("MEMORY_AGENT_") for part in ("-e", f"{name}={alone[name]}")
    ]
    return Inspector([*passed, program_of_ours(), "mcp", "--user", "bo"], tmp_path, alone)


@pytest.mark.skipif(not HAS_NPM, reason="MCP Inspector is a Node program, and npm is not installed")
def test_mcp_inspector_remembers_and_recalls(inspect: Inspector) -> None:
    tools = inspect("tools/list")["tools"]
    assert {"remember", "recall", "context", "facts", "topics"} <= {tool["name"] for tool in tools}
    # A key for all of a tenant's users names one in each call; a process that a client starts has its own.
    user = ("--tool-arg", "user_id=bo") if "user_id" in _arguments(tools, "recall") else ()
    stored = inspect("tools/call", "--tool-name", "remember", "--tool-arg", f"text={PIANO}", *user)
    assert not stored.get("isError")
    found = inspect(
        "tools/call", "--tool-name", "recall", "--tool-arg", "question=When does the tuner come?", *user
    )
    assert found["structuredContent"]["recollections"][0]["text"] == PIANO
    refused = inspect(
        "tools/call", "--tool-name", "recall", "--tool-arg", "question=When?", "since=yesterday", *user
    )
    assert refused["isError"]
    assert "since" in refused["content"][0]["text"]


def _arguments(tools: list[dict[str, Any]], name: str) -> dict[str, Any]:
    """The arguments that a tool takes."""
    properties: dict[str, Any] = next(t for t in tools if t["name"] == name)["inputSchema"]["properties"]
    return properties
