"""Malicious clients beside an honest one, in small: who is served, and who is refused with what. No times are judged.

`python -m benchmarks.abuse` runs the same attacks at full size and measures.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
from benchmarks.attacks import ATTACKS, Target

from benchmarks.abuse import Client
from tests.servers.deployment import made_key
from tests.servers.service import ServiceProcess

pytestmark = [pytest.mark.timeout(120), pytest.mark.nightly]

SECONDS = 2.5
SCALE = 0.06
MOST_BYTES = 1_000_000
"""Of a body with the attacker's key."""
SETTINGS: dict[str, Any] = {
    "server_head_seconds": 1.0,
    "server_body_seconds": 1.0,
    "server_max_connections": 100,
}
EXPECTED = {
    "slow_heads": ({"408"}, set()),
    "slow_bodies": ({"408"}, {"429"}),
    "huge_announced": ({"413"}, set()),
    "huge_chunked": ({"413"}, {"429"}),
    "held_bodies": ({"429"}, {"408"}),
    "connections": ({"opened", "closed"}, {"refused"}),
    "bad_utf8": ({"400", "422"}, {"429"}),
    "deep_json": ({"400"}, {"413", "422"}),
    "huge_numbers": ({"422"}, {"400", "413", "429"}),
    "wrong_millions": ({"422"}, {"413", "429"}),
    "bulk": ({"201"}, {"429"}),
    "readers": ({"opened", "201"}, {"429"}),
    "no_key": ({"401"}, set()),
    "wrong_keys": ({"401", "429"}, set()),
}
"""What each attack must have got, and what it may have got besides. A connection may always be closed on it."""


class Attacked:
    """A service, a key of an honest client, and what an attacker knows."""

    def __init__(self, address: str, honest: str, malicious: str) -> None:
        self.address = address
        self.honest = honest
        self.target = Target(address=address, token=malicious, seconds=SECONDS, scale=SCALE)


@pytest.fixture(scope="module")
def attacked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Attacked]:
    """An embedded service in a process of its own."""
    folder: Path = tmp_path_factory.mktemp("attacked")
    settings = {**SETTINGS, "data_dir": folder / "data"}
    _, honest = asyncio.run(made_key(settings, "honest"))
    _, malicious = asyncio.run(
        made_key(settings, "malicious", max_body_bytes=MOST_BYTES, requests_per_minute=30_000)
    )
    service = ServiceProcess(folder, settings=settings)
    service.start()
    yield Attacked(service.address, honest, malicious)
    code = service.stop()
    log = service.log.read_text()
    assert [line for line in log.splitlines() if '"level": "error"' in line or "Traceback" in line] == []
    assert code == 0


@pytest.fixture
async def client(attacked: Attacked) -> AsyncIterator[Client]:
    made = Client(attacked.address, attacked.honest)
    yield made
    await made.forget("mallory", attacked.target.token)
    await made.close()


def test_every_attack_has_a_quick_version_here() -> None:
    assert set(EXPECTED) == set(ATTACKS)


@pytest.mark.parametrize("name", ATTACKS)
async def test_honest_client_is_served_beside_an_attack_that_is_refused(
    name: str, attacked: Attacked, client: Client
) -> None:
    running = asyncio.create_task(ATTACKS[name](attacked.target))
    seen = await client.run(lambda _: not running.done())
    got = await running
    assert not seen.errors
    assert seen.update
    assert seen.fetch
    must, may = EXPECTED[name]
    assert must <= set(got), got
    assert set(got) <= must | may | {"closed"}, got
    afterwards = await client.run(lambda seen: len(seen.fetch) + len(seen.errors) < 2)
    assert not afterwards.errors
