"""Every operation of the OpenAPI document is called with made-up input: what it says is what the service does.

More of the same, for an evening: `schemathesis run http://127.0.0.1:8080/openapi.json -n 1000 -H 'Authorization: Bearer …'`.
"""

from __future__ import annotations

import asyncio
import threading
from typing import TYPE_CHECKING, Any, Final

import pytest
import schemathesis
from hypothesis import HealthCheck, settings

from tests.fixtures import QUICK
from tests.integration.conversations import opened
from tests.integration.rest import document
from tests.servers.service import served

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

EXAMPLES: Final = 8
"""Made-up requests of each operation, beside those with its examples."""


def schema(*, borders: bool) -> schemathesis.BaseSchema:
    """The operations to call; `borders`: with every value at a border of what is allowed, and with other methods."""
    return schemathesis.openapi.from_dict(
        document(),
        config=schemathesis.Config.from_dict(
            {
                "generation": {"deterministic": True, "database": "none", "no-shrink": True},
                "phases": {"coverage": {"enabled": borders}},
                "checks": {
                    # 431: what is longer than allowed may be longer than a request's head may be at all.
                    "negative_data_rejection": {
                        "expected-statuses": ["400", "401", "403", "404", "405", "409", "410", "422", "431"]
                    },
                    # What JSON Schema cannot say: a cursor was given, an id is visible, a fact is known.
                    "positive_data_acceptance": {"enabled": False},
                },
            }
        ),
    )


# The stream of events never ends; `test_rest_service.py` reads it.
CALLED: Final = schema(borders=False).exclude(operation_id="stream_events")
# Of all operations this takes two minutes: so of a few, with bodies, with parameters, with both, and with two methods.
AT_BORDERS: Final = schema(borders=True).include(
    operation_id=[
        "update_memory",
        "list_topics",
        "set_fact",
        "start_session",
        "search_memory",
        "clear_thread",
    ]
)


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
    is_ready.wait(60)
    try:
        yield found[0]
    finally:
        is_done.set()
        thread.join(60)


async def _serve(folder: Path, found: list[Any], is_ready: threading.Event, is_done: threading.Event) -> None:
    cfg = {**QUICK, "data_dir": folder, "max_attempts": 2}
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


QUICKLY: Final = settings(
    max_examples=EXAMPLES,
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=list(HealthCheck),
)


@CALLED.parametrize()
@QUICKLY
def test_the_service_does_what_its_document_says(case: Any, service: tuple[str, str]) -> None:
    """Documented statuses, types, headers and shapes; wrong input and wrong keys are refused; nothing fails."""
    address, key = service
    case.call_and_validate(base_url=address, headers={"Authorization": f"Bearer {key}"}, timeout=120)


@pytest.mark.nightly
@AT_BORDERS.parametrize()
@QUICKLY
def test_it_does_so_at_the_borders_of_what_is_allowed(case: Any, service: tuple[str, str]) -> None:
    """Values just within and just outside, missing headers, and methods that are not there."""
    address, key = service
    case.call_and_validate(base_url=address, headers={"Authorization": f"Bearer {key}"}, timeout=120)
