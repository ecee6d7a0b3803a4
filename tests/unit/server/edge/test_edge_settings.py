"""The service's settings from the environment, and how much the process may open."""

from pathlib import Path
from typing import Any

import pytest

from memory_agent.config import MemoryConfig
from memory_agent.server.edge.run import room_for_connections


def test_origins_are_separated_by_commas_in_the_environment(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MEMORY_AGENT_SERVER_CORS_ORIGINS", "https://a.example, http://localhost:3000")
    assert MemoryConfig().server_cors_origins == ("https://a.example", "http://localhost:3000")


@pytest.mark.parametrize(
    ("soft", "hard", "room", "made"),
    [
        (1_024, 1_048_576, 1_000, [(1_048_576, 1_048_576)]), (8_000, 8_000, 1_000, []), (-1, -1, 1_000, []),
        (1_024, -1, 1_000, [(-1, -1)]), (256, 2_048, 512, [(2_048, 2_048)]), (256, 256, 64, []),
    ],
)  # fmt: skip
def test_limit_on_open_files_is_raised_as_far_as_needed_and_believed_where_it_cannot_be(
    monkeypatch: pytest.MonkeyPatch, soft: int, hard: int, room: int, made: list[tuple[int, int]]
) -> None:
    import resource

    raised: list[tuple[int, int]] = []
    monkeypatch.setattr(resource, "getrlimit", lambda _: (soft, hard))
    monkeypatch.setattr(resource, "setrlimit", lambda _, to: raised.append(to))
    warned: list[Any] = []
    assert room_for_connections(1_000, warn=lambda *words: warned.append(words)) == room
    assert raised == made
    assert bool(warned) is (room < 1_000)
