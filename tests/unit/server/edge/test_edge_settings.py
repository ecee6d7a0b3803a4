"""The service's settings: what is refused, and how much the process may open."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from memory_agent.config import MemoryConfig
from memory_agent.errors import ConfigError
from memory_agent.server.edge.connections import Connections
from memory_agent.server.edge.run import room_for_connections

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(autouse=True)
def _no_file_around(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize(
    ("name", "value", "valid"),
    [
        ("server_port", 65_536, "at most 65,535"),
        ("server_host", "http://h", "a host name or address alone"),
        ("server_host", "", "is empty"),
        ("server_max_connections", 0, "at least 1"),
        ("server_head_seconds", 0, "above 0"),
        ("server_head_seconds", True, "not a boolean"),
        ("server_requests_per_minute", -1, "at least 0"),
        ("server_cors_origins", ["https://h/path"], "is no origin"),
        ("server_cors_origins", ["h"], "is no origin"),
        ("service_url", "127.0.0.1:8080", "must start with http:// or https://"),
        ("service_url", "http://h/?x", "no query"),
    ],
)
def test_impossible_value_is_refused(name: str, value: Any, valid: str) -> None:
    with pytest.raises(ConfigError) as caught:
        MemoryConfig(**{name: value})
    assert str(caught.value).startswith(f"impossible setting: {name}: ")
    assert valid in str(caught.value)


def test_origins_are_separated_by_commas_in_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MEMORY_AGENT_SERVER_CORS_ORIGINS", "https://a.example, http://localhost:3000")
    assert MemoryConfig().server_cors_origins == ("https://a.example", "http://localhost:3000")


def limits(monkeypatch: pytest.MonkeyPatch, soft: int, hard: int) -> list[tuple[int, int]]:
    """What the limit on open files was set to, where it stood at `soft` and `hard`."""
    import resource

    made: list[tuple[int, int]] = []
    monkeypatch.setattr(resource, "getrlimit", lambda _: (soft, hard))
    monkeypatch.setattr(resource, "setrlimit", lambda _, to: made.append(to))
    return made


@pytest.mark.parametrize(
    ("soft", "hard", "room", "made"),
    [
        (1_024, 1_048_576, 1_000, [(1_048_576, 1_048_576)]),
        (8_000, 8_000, 1_000, []),
        (-1, -1, 1_000, []),
        (1_024, -1, 1_000, [(-1, -1)]),
        (256, 2_048, 512, [(2_048, 2_048)]),
        (256, 256, 64, []),
    ],
)
def test_limit_on_open_files_is_raised_as_far_as_needed_and_believed_where_it_cannot_be(
    monkeypatch: pytest.MonkeyPatch, soft: int, hard: int, room: int, made: list[tuple[int, int]]
) -> None:
    raised = limits(monkeypatch, soft, hard)
    warned: list[Any] = []
    assert room_for_connections(1_000, warn=lambda *words: warned.append(words)) == room
    assert raised == made
    assert bool(warned) is (room < 1_000)


class Peer:
    def __init__(self) -> None:
        self.is_gone = False

    def give_way(self) -> None:
        self.is_gone = True


def test_idle_give_way_in_order_then_uploads_and_busy_never() -> None:
    connections = Connections(4)
    busy, upload, idle, later = peers = [Peer() for _ in range(4)]
    assert all(map(connections.admit, peers))
    connections.works(busy)
    connections.uploads(upload)
    connections.works(idle)
    connections.idles(idle)  # was busy meanwhile, so that it has waited the shortest
    gone = []
    for _ in range(4):
        peer = Peer()
        if connections.admit(peer):
            connections.works(peer)
        gone.append([each.is_gone for each in (later, idle, upload, busy)])
    assert gone == [
        [True, False, False, False],
        [True, True, False, False],
        [True, True, True, False],
        [True, True, True, False],
    ]
    assert (len(connections), connections.evicted, connections.refused) == (4, 3, 1)
    connections.left(later)
    assert len(connections) == 4
