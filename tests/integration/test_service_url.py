"""Commands on a service elsewhere, by --url and a key: on MongoDB and Chroma servers, with keys of a tenant and of all."""

from __future__ import annotations

import asyncio
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from memory_agent.domain import ALL_TENANTS
from tests.integration.commands import Quick, one_line
from tests.integration.test_shared_folder import PIANO, TURNS
from tests.servers.deployment import made_key
from tests.servers.service import ServiceProcess

pytestmark = pytest.mark.timeout(300)


class Elsewhere(Quick):
    """A running service, and commands in an empty folder that reach it with one key or another."""

    def __init__(self, service: ServiceProcess, settings: dict[str, Any], folder: Path) -> None:
        super().__init__(folder)
        self.service, self.settings = service, settings
        self.key = folder / "none"

    def with_key(self, tenant: str) -> Elsewhere:
        """The same with a file of a new key."""
        other = Elsewhere(self.service, self.settings, self.folder)
        other.key = self.folder / f"{len(tenant)}.token"
        other.key.write_text(asyncio.run(made_key(self.settings, tenant))[1] + "\n")
        return other

    def arguments(self, *arguments: str) -> list[str]:
        return [*arguments, "--url", self.service.address, "--key-file", str(self.key)]

    def run(self, words: list[str], **how: Any) -> subprocess.CompletedProcess[str]:
        ran = super().run(words, **how, MEMORY_AGENT_DATA_DIR="none")
        assert not self.key.is_file() or self.key.read_text().strip() not in ran.stdout + ran.stderr
        return ran


@pytest.fixture
def elsewhere(server_settings: dict[str, Any], tmp_path: Path) -> Iterator[Elsewhere]:
    service = ServiceProcess(tmp_path / "service", settings=server_settings)
    service.start()
    yield Elsewhere(service, server_settings, tmp_path)
    service.stop()
    assert not (tmp_path / "none").exists(), "a command opened stores of its own"


@pytest.mark.nightly
def test_commands_work_on_a_service_on_servers(elsewhere: Elsewhere) -> None:
    """What one tenant's key may, and what takes one for all tenants; the service's stores alone are touched."""
    acme, everybody = elsewhere.with_key("acme"), elsewhere.with_key(ALL_TENANTS)
    file = elsewhere.file(*TURNS)
    assert acme.json("ingest", file, "-u", "ada")["turns"] == 4
    best = acme.json("ask", "When does somebody tune the piano?", "-u", "ada")[0]
    assert best["turn"]["content"] == PIANO
    assert acme.json("facts", "show", "-u", "ada")["name"] == "Ada Byron"
    undo = acme("facts", "set", "preferences.tea", "green", "-u", "ada").stdout
    assert f"--url {elsewhere.service.address} --key-file" in undo.replace("\n", " ")
    assert acme.json("topics", "-u", "ada")
    unknown = acme("topic", "show", "nope", "-u", "ada", code=1).stderr
    assert "has no such topic; `memory-agent topics --user ada --url" in unknown
    assert acme.json("status", "-u", "ada")["turns"] == 4
    assert [user["user"] for user in acme.json("users")["users"]] == ["ada"]
    assert acme.json("threads", "-u", "ada")["threads"][0]["turns"] == 4
    assert acme.json("retry", "-u", "ada") == {"turns": 0, "settled": True}
    assert acme.json("rebuild", "-u", "ada")["turns"] == 4
    assert acme.json("worker", "--show")["usage"] is None
    for refused in ("status", "retry", "sweep", "worker --pause", "status -u ada --tenant x"):
        assert "key" in acme(*refused.split(), code=1).stderr
    # Whoever looks after it sees everybody's, and names the tenant whose user is meant.
    assert everybody.json("status")["turns"] == 4
    assert everybody.json("status", "-u", "ada", "--tenant", "acme")["turns"] == 4
    assert everybody.json("status", "-u", "ada")["turns"] == 0
    assert everybody.json("sweep", "--dry-run")["report"]["threads"] == 1
    assert everybody.json("worker", "--pause")["paused"] is True
    acme("ingest", file, "-u", "bob", "--no-wait")
    assert everybody.json("status")["pending"]["index"] == 4
    assert everybody.json("worker", "--resume")["paused"] is False
    everybody("worker", "--until-idle")
    assert sum(everybody.json("status")["pending"].values()) == 0
    bob = ("--tenant", "acme", "-u", "bob", "--whole-user", "--yes")
    assert everybody.json("forget", *bob)["turns"] == 4
    assert everybody.json("status")["turns"] == 4


def test_a_key_that_is_none_and_options_that_do_not_fit_are_said(elsewhere: Elsewhere) -> None:
    wrong = elsewhere.key = elsewhere.folder / "wrong.token"
    wrong.write_text("ma_" + "a" * 16 + "_" + "a" * 52)
    one_line(elsewhere("status", code=1).stderr, "the API key is unknown")
    wrong.write_text("two words")
    one_line(elsewhere("status", code=1).stderr, "must be visible ASCII")
    empty = elsewhere.folder / "empty"
    empty.write_text(" \n")
    url = ("--url", elsewhere.service.address)
    cases: list[tuple[tuple[str, ...], int, str]] = [
        ((*url, "--key-file", str(empty)), 1, "is empty"),
        ((*url, "--key-file", f"{empty}x"), 1, "cannot be read"),
        ((*url, "--data-dir", "x"), 2, "choose one"),
        (("--key-file", str(wrong)), 2, "give --url as well"),
        (("--url", "ftp://example.org"), 1, "http"),
    ]
    for arguments, code, said in cases:
        refused = elsewhere.run(["status", *arguments], code=code, TERM="dumb", COLUMNS="200")
        assert said in refused.stderr, arguments
