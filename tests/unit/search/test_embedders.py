"""Which model a memory is searched by, after one move to another model and after several."""

from collections.abc import AsyncIterator, Mapping
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from memory_agent.domain import EmbedderMigration, EmbedderModel
from memory_agent.search.embedders import Embedders, stored_migration
from memory_agent.stores.sqlite import SqliteStore
from memory_agent.testing import BruteForceIndex, FixedClock, HashEmbedder
from memory_agent.work.migrate import Migrator
from tests.conformance.values import NOW


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[SqliteStore]:
    store = SqliteStore(tmp_path / "memory.db")
    await store.open()
    yield store
    await store.close()


async def opened(settings: Mapping[str, Any], _: str) -> tuple[HashEmbedder, BruteForceIndex]:
    return HashEmbedder(seed=settings["seed"]), BruteForceIndex()


def process(store: SqliteStore, seed: str) -> Embedders:
    """The models of a process whose settings name this one."""
    own = HashEmbedder(seed=seed)
    return Embedders(store, own, BruteForceIndex(), opened, name=seed, settings={"seed": seed})


@pytest.mark.parametrize("named", ["first", "second", "third"])
async def test_settings_that_name_a_model_which_was_left_long_ago_are_overruled(
    store: SqliteStore, named: str
) -> None:
    embedders = process(store, "first")
    migrator = Migrator(store, embedders, FixedClock(NOW), lease=timedelta(minutes=1))
    for target in ("second", "third"):
        await migrator.start(target, {"seed": target})
        await migrator.finish()
        while await migrator.work_off("worker"):
            pass
        state = await stored_migration(store)
        assert state is not None
        assert (state.phase, state.target.name) == ("finished", target)
    later = process(store, named)
    await later.refresh()
    assert later.fingerprint == HashEmbedder(seed="third").fingerprint
    assert embedders.fingerprint == later.fingerprint


async def test_a_model_that_no_move_has_left_is_the_settings_choice(store: SqliteStore) -> None:
    """Whoever names another model anew means it; so does whoever names one that the memory has come back to."""
    models = [
        EmbedderModel(name=seed, fingerprint=HashEmbedder(seed=seed).fingerprint, settings={"seed": seed})
        for seed in ("first", "second")
    ]
    move = EmbedderMigration(source=models[0], target=models[1], phase="finished", started_at=NOW)
    embedders = process(store, "other")
    await embedders.put(move)
    assert embedders.current is embedders.own
    assert replace(move, phase="rolled back").formers == {models[1].fingerprint}
    back = process(store, "second")
    migrator = Migrator(store, back, FixedClock(NOW), lease=timedelta(minutes=1))
    returning = await migrator.start("first", {"seed": "first"})
    assert returning.left == ()
