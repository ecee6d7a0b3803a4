"""Every operation of the OpenAPI document is called with made-up input: what it says is what the service does.

Schemathesis runs as a process of its own, as anybody may run it: no worker then imports it, and builds its tests, for nothing.
"""

from __future__ import annotations

import asyncio
import os
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from tests import profiles
from tests.integration.conversations import opened
from tests.integration.rest import document, operations
from tests.servers.service import served

SETTINGS: Final = """
headers = { Authorization = "Bearer ${SERVICE_KEY}" }
request-timeout = 120
continue-on-failure = true
suppress-health-check = ["all"]  # of how long making input up takes, on a machine that may be busy
[generation]
deterministic = true
database = "none"
no-shrink = true
# 431: what is longer than allowed may be longer than a request's head may be at all.
[checks.negative_data_rejection]
expected-statuses = ["400", "401", "403", "404", "405", "409", "410", "422", "431"]
# What JSON Schema cannot say: a cursor was given, an id is visible, a fact is known.
[checks.positive_data_acceptance]
enabled = false
"""
OPTIONAL: Final = """
[[operations]]
include-operation-id = "{name}"
[operations.checks.negative_data_rejection]
enabled = false
"""
"""Where a body may be missing, null passes for a missing one, which the document does not say."""
NEVER_ENDS: Final = "stream_events"
"""test_rest_service.py reads it."""
EXAMPLES: Final = 8 if profiles.chosen() == "nightly" else 1
"""Made-up requests of each operation, beside those with its examples."""
AT_BORDERS: Final = (
    "update_memory",
    "list_topics",
    "set_fact",
    "start_session",
    "search_memory",
    "clear_thread",
)
"""A few, with bodies, with parameters, with both, and with two methods: of all this takes two minutes."""


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, str]]:
    """A service in a thread of its own, with a little in it: its address and a key."""
    folder = tmp_path_factory.mktemp("openapi")
    found: list[tuple[str, str]] = []
    is_ready, is_done = threading.Event(), threading.Event()

    def run() -> None:
        try:
            asyncio.run(_serve(folder, found, is_ready, is_done))
        finally:
            is_ready.set()

    thread = threading.Thread(target=run)
    thread.start()
    is_ready.wait()
    try:
        yield found[0]
    finally:
        is_done.set()
        thread.join()


async def _serve(folder: Path, found: list[Any], is_ready: threading.Event, is_done: threading.Event) -> None:
    cfg = {"data_dir": folder, "max_attempts": 2}
    async with (
        opened(cfg) as service,
        served(service, server_requests_per_minute=0, server_failed_keys_per_minute=0) as running,
    ):
        memory = service.agent("user_123", "thread_abc")
        await memory.update_memory("My puppy is called Rufus.", "Cute!")
        await memory.settle(timeout=60)
        found.append((running.address, await running.key()))
        is_ready.set()
        while not is_done.is_set():
            await asyncio.sleep(0.05)


def _call(names: list[str], service: tuple[str, str], folder: Path, *options: str) -> None:
    """Call the operations: documented statuses, types, headers and shapes; wrong input and keys are refused; nothing fails."""
    address, key = service
    settings = folder / "schemathesis.toml"
    optional = [
        OPTIONAL.format(name=name)
        for name, (_, _, operation) in operations(document()).items()
        if not operation.get("requestBody", {"required": True}).get("required")
    ]
    settings.write_text(SETTINGS + "".join(optional))
    program = str(Path(sys.executable).with_name("schemathesis"))
    chosen = [word for name in names for word in ("--include-operation-id", name)]
    finished = subprocess.run(
        [program, "--config-file", str(settings), "run", f"{address}/openapi.json", *options, *chosen],
        cwd=folder,
        env={**os.environ, "SERVICE_KEY": key},
        capture_output=True,
        text=True,
        check=False,
    )
    assert finished.returncode == 0, finished.stdout + finished.stderr
    assert re.findall(r"(Selected|Tested): (\d+)", finished.stdout) == [
        ("Selected", str(len(names))),
        ("Tested", str(len(names))),
    ], finished.stdout


def test_the_service_does_what_its_document_says(service: tuple[str, str], tmp_path: Path) -> None:
    """With the examples of the document, and with input made up from its schemas."""
    names = [name for name in sorted(operations(document())) if name != NEVER_ENDS]
    _call(names, service, tmp_path, "--phases=examples,fuzzing", "--max-examples", str(EXAMPLES))


@pytest.mark.nightly
def test_it_does_so_at_the_borders_of_what_is_allowed(service: tuple[str, str], tmp_path: Path) -> None:
    """Values just within and just outside, missing headers, and methods that are not there."""
    _call(list(AT_BORDERS), service, tmp_path, "--phases=coverage")
