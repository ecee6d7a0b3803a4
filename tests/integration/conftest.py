"""Fixtures of tests that ask a service over HTTP."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests import profiles
from tests.integration.commands import CommandLine, Quick
from tests.integration.conversations import STORES, settings_on
from tests.integration.rest import Rest, rest_on
from tests.servers.mongod import Mongod
from tests.servers.service import Command


@pytest.fixture(scope="session", autouse=True)
def _commands_are_forked() -> Iterator[None]:
    """From one server, which the first that needs it starts."""
    Command.forked = True
    yield
    Command.forked = False


@pytest.fixture
def quiet(request: pytest.FixtureRequest, tmp_path: Path) -> dict[str, Any]:
    """A fresh database on SQLite; nothing is extracted or grouped unless a test wants it."""
    return settings_on("sqlite", request, tmp_path)


@pytest.fixture(params=profiles.by_day(*STORES))
def rest_settings(request: pytest.FixtureRequest, tmp_path: Path) -> dict[str, Any]:
    """A fresh database with topics and facts; by day on SQLite, since what stores do is shown of each by itself."""
    wanted = {"enable_topics": True, "enable_fact_extraction": True}
    return {**settings_on(request.param, request, tmp_path), **wanted}


@pytest.fixture
async def rest(request: pytest.FixtureRequest, rest_settings: dict[str, Any]) -> AsyncIterator[Rest]:
    """A client of a served service; the test must be answered by the operations that it says it shows."""
    async with rest_on(rest_settings) as client:
        yield client
        missing = set(getattr(request.function, "shows", ())) - client.answered
        assert not missing, f"the test says that it shows {sorted(missing)}, and was not answered by them"


@pytest.fixture(params=["sqlite", "mongodb"])
def places(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    """An empty memory on each store, in turn the first."""
    server: Mongod = request.getfixturevalue("mongod")
    name = request.getfixturevalue("db_name")
    embedded: dict[str, Any] = {"data_dir": tmp_path / "embedded"}
    served: dict[str, Any] = {"data_dir": tmp_path / "served", "mongo_uri": server.uri, "db_name": name}
    return (embedded, served) if request.param == "sqlite" else (served, embedded)


@pytest.fixture
def cli(tmp_path: Path) -> CommandLine:
    """Every command is a process of its own."""
    return CommandLine(tmp_path)


@pytest.fixture
def quick(tmp_path: Path) -> Quick:
    """Commands run within this process."""
    return Quick(tmp_path)


# --- the package as it is installed
@pytest.fixture(scope="session")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Built from this tree, without fetching anything."""
    folder = tmp_path_factory.mktemp("dist")
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", str(folder)],
        cwd=Path(__file__).parents[2],
        check=True,
        capture_output=True,
        timeout=60,
    )
    (built,) = folder.glob("*.whl")
    return built


@pytest.fixture(scope="session")
def package(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder that the wheel is installed in: first on a path, it comes before this tree."""
    folder = tmp_path_factory.mktemp("site")
    with zipfile.ZipFile(wheel) as file:
        file.extractall(folder)
    return folder
