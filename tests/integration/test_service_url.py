"""Commands on a service elsewhere, by --url and a key: on MongoDB and Chroma servers, with keys of a tenant and of all."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any

import pytest
from typer.testing import CliRunner

from memory_agent.cli.app import app
from memory_agent.domain import ALL_TENANTS
from tests.integration.test_shared_folder import PIANO, TURNS
from tests.servers.deployment import made_key
from tests.servers.service import ServiceProcess

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from click.testing import Result

pytestmark = pytest.mark.timeout(300)


class Elsewhere:
    """A running service, and commands in an empty folder that reach it with one key or another."""

    def __init__(self, service: ServiceProcess, settings: dict[str, Any], folder: Path) -> None:
        self.service = service
        self.settings = settings
        self.folder = folder

    def key(self, name: str, tenant: str, **options: Any) -> Path:
        """A file with a new key."""
        file = self.folder / name
        file.write_text(asyncio.run(made_key(self.settings, tenant, **options))[1] + "\n")
        return file

    def run(self, key: Path, *arguments: str, code: int = 0) -> Result:
        """How the command ends, and what it says."""
        where = ["--url", self.service.address, "--key-file", str(key)]
        ran = CliRunner().invoke(
            app, [*arguments, *where], env={"MEMORY_AGENT_DATA_DIR": str(self.folder / "none")}
        )
        assert ran.exit_code == code, (arguments, ran.stdout, ran.stderr)
        assert key.read_text().strip() not in ran.stdout + ran.stderr
        return ran  # type: ignore[return-value]  # typer's own is click's

    def json(self, key: Path, *arguments: str) -> Any:
        return json.loads(self.run(key, *arguments, "--json").stdout)


@pytest.fixture
def elsewhere(server_settings: dict[str, Any], tmp_path: Path) -> Iterator[Elsewhere]:
    service = ServiceProcess(tmp_path / "service", settings=server_settings)
    service.start()
    yield Elsewhere(service, server_settings, tmp_path)
    service.stop()
    assert not (tmp_path / "none").exists(), "a command opened stores of its own"


def test_commands_work_on_a_service_on_servers(elsewhere: Elsewhere) -> None:
    """What one tenant's key may, and what takes one for all tenants; the service's stores alone are touched."""
    acme, everybody = elsewhere.key("acme.token", "acme"), elsewhere.key("operator.token", ALL_TENANTS)
    file = elsewhere.folder / "turns.jsonl"
    file.write_text("\n".join(map(json.dumps, TURNS)))
    assert elsewhere.json(acme, "ingest", str(file), "-u", "ada")["turns"] == 4
    best = elsewhere.json(acme, "ask", "When does somebody tune the piano?", "-u", "ada")[0]
    assert best["turn"]["content"] == PIANO
    assert elsewhere.json(acme, "facts", "show", "-u", "ada")["name"] == "Ada Byron"
    undo = elsewhere.run(acme, "facts", "set", "preferences.tea", "green", "-u", "ada").stdout
    assert f"--url {elsewhere.service.address} --key-file" in undo.replace("\n", " ")
    assert elsewhere.json(acme, "topics", "-u", "ada")
    unknown = elsewhere.run(acme, "topic", "show", "nope", "-u", "ada", code=1).stderr
    assert "has no such topic; `memory-agent topics --user ada --url" in unknown
    assert elsewhere.json(acme, "status", "-u", "ada")["turns"] == 4
    assert [user["user"] for user in elsewhere.json(acme, "users")["users"]] == ["ada"]
    assert elsewhere.json(acme, "threads", "-u", "ada")["threads"][0]["turns"] == 4
    assert elsewhere.json(acme, "retry", "-u", "ada") == {"turns": 0, "settled": True}
    assert elsewhere.json(acme, "rebuild", "-u", "ada")["turns"] == 4
    assert elsewhere.json(acme, "worker", "--show")["usage"] is None
    for refused in (
        ["status"],
        ["retry"],
        ["sweep"],
        ["worker", "--pause"],
        ["status", "-u", "ada", "--tenant", "x"],
    ):
        assert "key" in elsewhere.run(acme, *refused, code=1).stderr
    # Whoever looks after it sees everybody's, and names the tenant whose user is meant.
    assert elsewhere.json(everybody, "status")["turns"] == 4
    assert elsewhere.json(everybody, "status", "-u", "ada", "--tenant", "acme")["turns"] == 4
    assert elsewhere.json(everybody, "status", "-u", "ada")["turns"] == 0
    assert elsewhere.json(everybody, "sweep", "--dry-run")["report"]["threads"] == 1
    assert elsewhere.json(everybody, "worker", "--pause")["paused"] is True
    elsewhere.run(acme, "ingest", str(file), "-u", "bob", "--no-wait")
    assert elsewhere.json(everybody, "status")["pending"]["index"] == 4
    assert elsewhere.json(everybody, "worker", "--resume")["paused"] is False
    elsewhere.run(everybody, "worker", "--until-idle")
    assert sum(elsewhere.json(everybody, "status")["pending"].values()) == 0
    assert (
        elsewhere.json(everybody, "forget", "--tenant", "acme", "-u", "bob", "--whole-user", "--yes")["turns"]
        == 4
    )
    assert elsewhere.json(everybody, "status")["turns"] == 4


def test_a_key_that_is_none_and_options_that_do_not_fit_are_said(elsewhere: Elsewhere) -> None:
    wrong = elsewhere.folder / "wrong.token"
    wrong.write_text("ma_" + "a" * 16 + "_" + "a" * 52)
    assert "the API key is unknown" in elsewhere.run(wrong, "status", code=1).stderr
    wrong.write_text("two words")
    assert "must be visible ASCII" in elsewhere.run(wrong, "status", code=1).stderr
    runner = CliRunner()
    empty = elsewhere.folder / "empty"
    empty.write_text(" \n")
    for arguments, code, said in (
        (["--url", elsewhere.service.address, "--key-file", str(empty)], 1, "is empty"),
        (["--url", elsewhere.service.address, "--key-file", str(empty) + "x"], 1, "cannot be read"),
        (["--url", elsewhere.service.address, "--data-dir", "x"], 2, "choose one"),
        (["--key-file", str(wrong)], 2, "give --url as well"),
        (["--url", "ftp://example.org"], 1, "http"),
    ):
        ran = runner.invoke(app, ["status", *arguments], env={"TERM": "dumb", "COLUMNS": "200"})
        assert (ran.exit_code, said in ran.stderr) == (code, True), (arguments, ran.stderr)
