"""kill -9 before and after every write of a move to another embedding model: users are found by one model or the other, wholly."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from memory_agent import MemoryService
from tests import profiles
from tests.faults import migration_jobs
from tests.faults.killing import HOUR, kill_at_every_write
from tests.faults.migration_jobs import WATCHED, step
from tests.faults.nursery import Nursery
from tests.faults.topic_jobs import AheadClock, Database, opened
from tests.tiny_models import tiny_model

SETTINGS = migration_jobs.SETTINGS
USERS = ("ann", "bob", "cyd")
TEXTS = (
    "The gearbox of my old car stands behind the greenhouse.",
    "My violin lies beside the telescope in the attic.",
    "A lasagne with mushrooms waits in the oven tonight.",
)
Answers = dict[str, list[tuple[str, float, float | None]]]


async def answers(service: MemoryService) -> Answers:
    """What each user is told, with scores."""
    return {
        user: [
            (each.turn.content, each.score, each.similarity)
            for each in await service.search(user, "Where is the violin, and where the gearbox?", 3)
        ]
        for user in USERS
    }


@pytest.fixture(scope="session")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model to move to."""
    return tiny_model(tmp_path_factory.mktemp("models") / "new")


async def prepared(database: Database, model: Path, cache: Path, *, moved: bool) -> tuple[Answers, Answers]:
    """A memory before the move, or after it; what is found by the old model and by the new one."""
    database.settings["model_cache_dir"] = str(cache)
    async with opened(database.settings) as service:
        for user in USERS:
            memory = service.agent(user, "chat")
            await memory.add_turns([{"role": "user", "content": text} for text in TEXTS])
        await service.settle(60)
        old = await answers(service)
        if not moved:
            database.keep()
        await step(service, "move", str(model))
        new = await answers(service)
        assert all(old[user] != new[user] for user in USERS)
    if moved:
        database.keep()
    return old, new


@pytest.mark.timeout(3_600)  # by night there are some hundred kills
@pytest.mark.parametrize(
    ("database", "name"),
    profiles.by_day(
        *(("embedded", "move"), ("server", "back"), ("server", "finish")),
        *(("server", "move"), ("embedded", "back"), ("embedded", "finish")),
        first=3,
    ),
    indirect=["database"],
)
async def test_killed_while_users_are_moved(
    nursery: Nursery, database: Database, model: Path, tmp_path_factory: pytest.TempPathFactory, name: str
) -> None:
    """Right after the kill each user is found by the old or by the new model alone; whoever goes on brings all to the end."""
    cache = tmp_path_factory.getbasetemp() / "model-files"
    old, new = await prepared(database, model, cache, moved=name != "move")

    async def recover(_: int) -> Any:
        async with opened({**database.settings, "run_worker": False}) as service:
            found = await answers(service)
            assert all(found[user] in (old[user], new[user]) for user in USERS), found
        async with opened(database.settings, clock=AheadClock(HOUR)) as service:
            state = await step(service, name, str(model))
            assert await answers(service) == (old if name == "back" else new)
            by = state.source if name != "finish" else state.target
            rows = [row for user in USERS for row in await service.core.store.search_rows(user)]
            assert [row.embedder for row in rows] == [by.fingerprint] * len(USERS) * len(TEXTS)
            beside = {None if row.next is None else row.next.embedder for row in rows}
            assert beside == ({state.target.fingerprint} if name == "move" else {None})
            return None

    job = {"kind": "migrate", "watched": WATCHED, "step": name, "model": str(model)}
    await kill_at_every_write(nursery, database, job, recover, least=8)
