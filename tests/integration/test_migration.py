"""The move to another embedding model, while clients ask: nobody's search fails, and each finds by the one model or by the other."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import os
import subprocess
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from memory_agent import (
    EmbedderUnavailable,
    InvalidInput,
    MemoryConfig,
    MemoryService,
    NotFound,
    Recollection,
)
from memory_agent.doctor.examine import Examiner
from memory_agent.doctor.findings import Finding
from memory_agent.doctor.repair import Repairer
from memory_agent.domain import EmbedderMigration, RebuildStep, Scope
from tests import profiles
from tests.constants import settings_of
from tests.integration.rest import rest_on
from tests.servers.forks import forks
from tests.tiny_models import tiny_model

USERS = 6 if profiles.chosen() == "nightly" else 3
TURNS = 12
THINGS = (
    *("gearbox violin compost harbour telescope lasagne", "passport blanket ladder thermos saddle kettle"),
    *("anchor orchard pendulum gazebo trumpet lantern", "compass mitten sandbox puzzle hammock teapot"),
)
Answer = list[tuple[str, float, float, float | None]]


@pytest.fixture(scope="session")
def models(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path, Path]:
    """Three models of different sizes, and a cache for their files."""
    folder = tmp_path_factory.mktemp("models")
    return (
        tiny_model(folder / "old", hidden=32),
        tiny_model(folder / "new", hidden=48, seed=8),
        folder / "cache",
    )


@pytest.fixture
def known(settings: dict[str, Any], models: tuple[Path, Path, Path]) -> Iterator[dict[str, Any]]:
    """Settings with the old model."""
    old, _, cache = models
    own = {"local_embedding_model": str(old), "model_cache_dir": cache, "embedding_threads": 1}
    with settings_of({**settings, **own, "enable_topics": False, "enable_fact_extraction": False}) as given:
        yield given


@contextlib.asynccontextmanager
async def opened(known: dict[str, Any], **others: Any) -> AsyncIterator[MemoryService]:
    async with MemoryService(MemoryConfig(**{**known, **others})) as service:
        yield service


def said(user: int, turn: int) -> str:
    """A text that no other turn has."""
    words = " ".join(THINGS).split()
    thing, place = words[turn % len(words)], words[(turn * 7 + user) % len(words)]
    return (
        f"Please remember that the {thing} number {turn} of mine lies in the box beside the {place} at home."
    )


async def fill(service: MemoryService, users: int = USERS, turns: int = TURNS) -> None:
    for user in range(users):
        memory = service.agent(f"u{user}", "chat")
        await memory.add_turns([{"role": "user", "content": said(user, turn)} for turn in range(turns)])
    await service.settle(60)


async def asked(service: MemoryService, users: int = USERS) -> list[Answer]:
    """What some turns' words find, with scores."""
    places = itertools.product(range(users), range(0, TURNS, 3))
    return [scored(await find(service, user, turn)) for user, turn in places]


async def answers(service: MemoryService) -> dict[tuple[int, int], Answer]:
    """What each turn's words find, by user and turn."""
    places = itertools.product(range(USERS), range(TURNS))
    return {(user, turn): scored(await find(service, user, turn)) for user, turn in places}


def scored(found: list[Recollection]) -> Answer:
    return [(each.turn.content, each.score, each.confidence, each.similarity) for each in found]


def is_first(place: tuple[int, int], answer: Answer) -> bool:
    """Whether the turn is the first that its words find."""
    return answer[0][0] == said(*place)


async def find(service: MemoryService, user: int, turn: int) -> list[Recollection]:
    return await service.search(f"u{user}", said(user, turn).partition("lies")[0], 5)


async def until(service: MemoryService, phase: str, *, user: str = "u0") -> EmbedderMigration:
    """The move once it is in this phase and nobody is left, nor this user."""
    async with asyncio.timeout(60):
        while True:
            state = await service.embedder_migration()
            assert state is not None
            at = await service.core.store.vector_pointer(user)
            if state.phase == phase and (state.is_over or (at and state.users == state.moved)):
                return state
            service.core.migrator._look_at = 0.0
            await asyncio.sleep(0.02)


async def test_a_memory_moves_to_another_model_while_it_is_asked(
    known: dict[str, Any], models: tuple[Path, Path, Path]
) -> None:
    """No search fails, each is by one model wholly, recall is never below the lower of the two, and a rollback is exact."""
    new = models[1]
    async with opened(known) as service:
        await fill(service)
        before = await asked(service)
        old_answers = await answers(service)
        source = service.core.embedder.current.fingerprint
        plan = await service.plan_migration(str(new))
        assert (plan.users, plan.turns) == (USERS, USERS * TURNS)
        assert plan.disk_bytes > USERS * TURNS * 48
        assert await service.embedder_migration() is None
        meanwhile: list[tuple[tuple[int, int], Answer]] = []
        done = asyncio.Event()

        async def ask(client: int) -> None:
            for user, turn in itertools.cycle(itertools.product(range(USERS), range(TURNS))):
                if (user + turn) % 4 == client:
                    meanwhile.append(((user, turn), scored(await find(service, user, turn))))
                    if done.is_set():
                        return
                    await asyncio.sleep(0.005)

        clients = [asyncio.create_task(ask(client)) for client in range(4)]
        begun = await service.migrate_embedder(str(new))
        assert begun.phase == "moving"
        moved = await until(service, "moving")
        assert (moved.users, moved.moved) == (USERS, USERS)
        done.set()
        await asyncio.gather(*clients)
        new_answers = await answers(service)
        by_old = [old_answers[place] == answer for place, answer in meanwhile]
        by_new = [new_answers[place] == answer for place, answer in meanwhile]
        assert all(old or new for old, new in zip(by_old, by_new, strict=True))
        assert any(by_old)
        assert any(by_new)
        for place, answer in meanwhile:
            lower = min(is_first(place, old_answers[place]), is_first(place, new_answers[place]))
            assert is_first(place, answer) >= lower
        after = await asked(service)
        assert after != before
        assert {row.embedder for row in await service.core.store.search_rows("u0")} == {source}
        report = await service.compare_embedders(questions=20)
        assert report.questions == 20
        assert 0.0 < report.overlap <= 1.0
        assert report.found_by_source > 0.5
        assert report.found_by_target > 0.5
        await service.roll_back_migration()
        await until(service, "rolled back")
        assert await asked(service) == before
    async with opened(known) as service:
        assert await asked(service) == before
        with pytest.raises(InvalidInput, match="rolled back; there is none to finish"):
            await service.finish_migration()
        await service.migrate_embedder(str(new))
        await until(service, "moving")
        assert await asked(service) == after


async def test_a_finished_move_needs_the_old_model_no_more(
    known: dict[str, Any], models: tuple[Path, Path, Path], caplog: pytest.LogCaptureFixture
) -> None:
    """Results stay as they were by the new model; settings that still name the old one are overruled, with a warning."""
    old, new, _ = models
    async with opened(known) as service:
        await fill(service)
        await service.migrate_embedder(str(new))
        await until(service, "moving")
        moved = await asked(service)
        await service.finish_migration()
        assert await asked(service) == moved
        ended = await until(service, "finished")
        assert await asked(service) == moved
        rows = await service.core.store.search_rows("u1")
        assert {row.embedder for row in rows} == {ended.target.fingerprint}
        assert {row.next for row in rows} == {None}
        with pytest.raises(InvalidInput, match=r"was finished, and the vectors .* are gone"):
            await service.roll_back_migration()
        with pytest.raises(InvalidInput, match="is the model that this memory has"):
            await service.migrate_embedder(str(new))
        await service.agent("u1", "chat").add_user_message("A parrot sits on the chimney.")
        await service.settle(30)
    for model in (old, new):
        caplog.clear()
        async with opened(known, local_embedding_model=str(model)) as service:
            assert ("has moved to" in caplog.text) == (model == old)
            assert (await asked(service))[0] == moved[0]
            found = await service.search("u1", "the parrot on the chimney", 1)
            assert found[0].similarity is not None
            await service.agent("u1", "chat").add_user_message(f"A second parrot, told to {model.name}.")
            await service.settle(30)
            rows = await service.core.store.search_rows("u1")
            assert {row.embedder for row in rows} == {ended.target.fingerprint}
    async with opened(known) as service:
        back = await service.migrate_embedder(str(old))
        expected = (ended.target.fingerprint, ended.source.fingerprint)
        assert (back.source.fingerprint, back.target.fingerprint) == expected
        await until(service, "moving")


async def test_what_is_told_and_forgotten_meanwhile_is_so_in_both_models(
    known: dict[str, Any], models: tuple[Path, Path, Path]
) -> None:
    """New turns get both vectors, also of users moved already; forgotten ones lose both, and a moved user is forgotten whole."""
    async with opened(known) as service:
        await fill(service)
        await service.migrate_embedder(str(models[1]))
        await until(service, "moving")
        memory = service.agent("u0", "chat")
        told = await memory.add_user_message("The umbrella hangs behind the cellar door.")
        await memory.settle(30)
        new = service.core.embedder.next
        assert new is not None
        store = service.core.store
        assert await store.turns_without("u0", new.fingerprint, limit=9) == []
        (row,) = await store.search_rows("u0", ids=[told.id])
        assert row.next is not None
        found = await service.search("u0", "the umbrella behind the cellar door", 1)
        assert found[0].turn.id == told.id
        assert found[0].similarity is not None
        await memory.forget(turn_ids=[told.id])
        (stub,) = await store.search_rows("u0", ids=[told.id])
        assert stub.erased
        assert stub.next is None
        assert await store.token_codes("u0", [told.id], embedder=new.fingerprint) == {}
        assert told.id not in [each.turn.id for each in await service.search("u0", "the umbrella", 9)]
        newcomer = service.agent("u9", "chat")
        await newcomer.add_user_message("A newcomer brings a parrot.")
        await newcomer.settle(30)
        state = await until(service, "moving", user="u9")
        assert state.users == USERS + 1
        await service.forget_user("u1")
        assert all(row.erased and row.next is None for row in await store.search_rows("u1"))


async def test_a_user_without_the_new_vectors_goes_back_until_they_are_made(
    known: dict[str, Any], models: tuple[Path, Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """While the new model is away, new turns have the old one's vectors alone, and their user is searched by the old one."""
    async with opened(known) as service:
        await fill(service)
        await service.migrate_embedder(str(models[1]))
        await until(service, "moving")
        new = service.core.embedder.next
        assert new is not None

        async def away(*_: object, **__: object) -> None:
            raise EmbedderUnavailable("away")

        with monkeypatch.context() as patch:
            patch.setattr(new, "_encode", away)
            memory = service.agent("u0", "chat")
            await memory.add_user_message("The umbrella hangs behind the cellar door.")
            await memory.settle(30)
            assert await service.core.store.vector_pointer("u0") == ""
            found = await service.search("u0", "the umbrella behind the cellar door", 1)
            assert found[0].similarity is not None
            index = await service.core.residents.get("u0")
            assert index is not None
            assert index.embedder != new.fingerprint
            with pytest.raises(InvalidInput, match=r"^1 users are still to be moved"):
                await service.finish_migration()
        await until(service, "moving")
        assert await service.core.store.vector_pointer("u0") == new.fingerprint
        await service.finish_migration()
        await until(service, "finished")


async def wrong(service: MemoryService) -> list[Finding]:
    """What the doctor finds."""
    examiner = Examiner(service.core.store, None, None, now=service.clock.now(), moment_seconds=0.05)
    return [finding async for finding in examiner.findings() if finding.wrong]


async def test_the_doctor_sees_what_is_false_about_a_move_and_nothing_in_a_sound_one(
    known: dict[str, Any], models: tuple[Path, Path, Path]
) -> None:
    """A moved user whose rows lack the new vectors, and one who is pointed to a third model, are moved anew."""
    async with opened(known, enable_topics=True) as service:
        store = service.core.store
        await fill(service, 2)
        await service.migrate_embedder(str(models[1]))
        moved = await until(service, "moving")
        by_new = await asked(service, 2)
        assert await wrong(service) == []
        plants = {
            "3 search rows without vectors of the model that its user was moved to": lose_next_vectors,
            "1 user pointed to a model that nobody is moved to": point_to_a_third,
        }
        for what, plant in plants.items():
            await service.pause_worker()
            await plant(service)
            [finding] = await wrong(service)
            assert (finding.what, finding.scope) == (what, Scope(user_id="u0"))
            assert await Repairer(service.core, now=service.clock.now()).mend(finding) is None
            assert await wrong(service) == []
            assert await store.vector_pointer("u0") == ""
            await service.resume_worker()
            await until(service, "moving")
            assert await store.vector_pointer("u0") == moved.target.fingerprint
            assert await asked(service, 2) == by_new
        for end, phase in (
            (service.roll_back_migration, "rolled back"),
            (service.finish_migration, "finished"),
        ):
            await service.pause_worker()
            await end()
            assert await wrong(service) == []  # while it is under way
            await service.resume_worker()
            await until(service, phase)
            assert await wrong(service) == []
            if phase == "rolled back":
                await service.migrate_embedder(str(models[1]))
                await until(service, "moving")


async def lose_next_vectors(service: MemoryService) -> None:
    rows = await service.core.store.search_rows("u0", limit=3)
    bare = [replace(row, next=None) for row in rows]
    await service.core.store.put_search_rows("u0", bare, now=service.clock.now())


async def point_to_a_third(service: MemoryService) -> None:
    await service.core.store.set_vector_pointer("u0", "a third", now=service.clock.now())


async def test_an_export_while_a_move_is_finished_holds_the_new_vectors(
    known: dict[str, Any], models: tuple[Path, Path, Path], tmp_path: Path
) -> None:
    """The same rows, byte for byte, as after it, whoever has been done with; one before holds the old ones."""
    async with opened(known) as service:

        async def exported(name: str) -> list[str]:
            await service.export_to(tmp_path / name, vectors=True)
            lines = (tmp_path / name).read_text().splitlines()
            return [line for line in lines if '"record":"row"' in line.replace(" ", "")]

        await fill(service, 3)
        before = await exported("before")
        await service.migrate_embedder(str(models[1]))
        moved = await until(service, "moving")
        assert await exported("moved") == before
        await service.pause_worker()
        await service.finish_migration()
        await service.core.store.adopt_next_vectors("u1", moved.target.fingerprint)
        finishing = await exported("finishing")
        await service.resume_worker()
        await until(service, "finished")
        assert finishing == await exported("finished")
        assert len(finishing) == len(before) == 3 * TURNS
        assert {json.loads(line)["embedder"] for line in finishing} == {moved.target.fingerprint}


async def test_an_interrupted_rebuild_goes_on_where_it_was(
    known: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another process does the users that are left, once each, and the one after begins anew."""
    monkeypatch.setattr("memory_agent.upkeep._REBUILD_TURNS", 2 * TURNS)

    def made(step: RebuildStep) -> tuple[int, int, int]:
        return step.turns, step.users, step.done

    async with opened(known) as service:
        await fill(service, 5)
        assert made(await service.rebuild_next()) == (2 * TURNS, 5, 2)
        await service.settle(60)
    async with opened(known) as service:
        assert made(await service.rebuild_next()) == (2 * TURNS, 5, 4)
        await service.agent("u9", "chat").add_user_message("A newcomer brings a parrot.")
        await service.settle(60)
        await service.pause_worker()
        assert made(await service.rebuild_next()) == (TURNS + 1, 6, 6)
        owed = [(await service.status(Scope(user_id=f"u{at}"))).pending["index"] for at in (0, 2, 3, 4, 9)]
        assert owed == [0, 0, 0, TURNS, 1]
        await service.resume_worker()
        await service.settle(60)
        assert made(await service.rebuild_next()) == (2 * TURNS, 6, 2)


async def test_metrics_say_how_far_a_move_is(known: dict[str, Any], models: tuple[Path, Path, Path]) -> None:
    """Users and moved users as gauges."""
    async with rest_on(known, server={"server_metrics_open": True}) as rest:
        service = rest.service
        await fill(service, 3)

        async def gauges() -> dict[str, float]:
            text = (await rest.ask("GET", "/metrics")).text
            lines = [line.split() for line in text.splitlines() if not line.startswith("#")]
            return {
                each[0]: float(each[1]) for each in lines if each[0].startswith("memory_agent_migration_")
            }

        await service.migrate_embedder(str(models[1]))
        await until(service, "moving")
        assert await gauges() == {"memory_agent_migration_users": 3, "memory_agent_migration_users_moved": 3}


async def test_a_large_user_is_moved_with_its_candidates(
    known: dict[str, Any], models: tuple[Path, Path, Path]
) -> None:
    """A user too large for memory is found by the model of the pointer, at any moment."""
    async with opened({**known, "resident_max_turns": 5}) as service:
        await fill(service, 2)
        assert await service.core.residents.get("u0") is None
        before = await asked(service, 2)
        await service.migrate_embedder(str(models[1]))
        await until(service, "moving")
        after = await asked(service, 2)
        assert all(found[3] is not None for each in after for found in each)
        assert after != before
        await service.roll_back_migration()
        await until(service, "rolled back")
        assert await asked(service, 2) == before


@pytest.mark.parametrize("settings", ["servers"], indirect=True)
async def test_processes_agree_on_a_move(known: dict[str, Any], models: tuple[Path, Path, Path]) -> None:
    """One that neither began it nor works on it embeds by both models, and searches each user by the pointer's."""
    async with opened(known, run_worker=False) as asking, opened(known) as working:
        await fill(working)
        before = await asked(asking)
        await working.migrate_embedder(str(models[1]))
        await until(working, "moving")
        after = await asked(asking)
        assert after == await asked(working)
        assert after != before
        state = await asking.embedder_migration()
        assert state is not None
        assert state.moved == USERS
        await asking.roll_back_migration()
        await until(working, "rolled back")
        assert await asked(asking) == before
        assert await asked(working) == before


async def test_refusals_say_what_to_do(
    known: dict[str, Any], models: tuple[Path, Path, Path], tmp_path: Path
) -> None:
    """The same model, none, another one while a move is under way, the end of none."""
    old, new, _ = models
    third = tiny_model(tmp_path / "third", hidden=64)
    async with opened(known, run_worker=False) as service:
        await fill_unindexed(service)
        for call in (service.roll_back_migration, service.finish_migration):
            with pytest.raises(NotFound, match="was never moved"):
                await call()
        with pytest.raises(NotFound, match="nothing to compare"):
            await service.compare_embedders()
        with pytest.raises(InvalidInput, match="is the model that this memory has"):
            await service.migrate_embedder(str(old))
        with pytest.raises(Exception, match="none-such") as unknown:
            await service.plan_migration(str(tmp_path / "none-such"))
        assert type(unknown.value).__name__ == "ModelNotFound"
        await service.migrate_embedder(str(new))
        again = await service.migrate_embedder(str(new))
        assert again.phase == "moving"
        with pytest.raises(InvalidInput, match=r"is being moved to .*new.* cannot be moved to .*third"):
            await service.migrate_embedder(str(third))


async def fill_unindexed(service: MemoryService) -> None:
    await service.agent("u0", "chat").add_user_message(said(0, 0))
    assert (await service.status(Scope(user_id="u0"))).pending["index"] == 1


def test_the_command_moves_a_memory_and_tells_of_it(models: tuple[Path, Path, Path], tmp_path: Path) -> None:
    """Plan, move, report, way back and end, with exit codes; what cannot be is told in one line."""
    old, new, cache = models
    environment = {
        "MEMORY_AGENT_LOCAL_EMBEDDING_MODEL": str(old),
        "MEMORY_AGENT_MODEL_CACHE_DIR": str(cache),
        "MEMORY_AGENT_ENABLE_FACT_EXTRACTION": "false",
    }
    lines = [json.dumps({"role": "user", "content": said(0, turn)}) for turn in range(TURNS)]
    (tmp_path / "talk.jsonl").write_text("\n".join(lines))

    def run(*arguments: str, code: int = 0) -> subprocess.CompletedProcess[str]:
        surrounding = {**os.environ, "HF_HUB_OFFLINE": "1", **environment}
        ended = forks().run(arguments, stdin="", cwd=tmp_path, env=surrounding, timeout=120)
        assert ended.returncode == code, ended.stderr
        return ended

    migrate = ("embedder", "migrate")
    run("ingest", "talk.jsonl")
    assert "was never moved" in run(*migrate, code=1).stderr
    plan = json.loads(run(*migrate, "--to", str(new), "--dry-run", "--json").stdout)
    assert (plan["users"], plan["turns"]) == (1, TURNS)
    assert "is the model that this memory has" in run(*migrate, "--to", str(old), code=1).stderr
    assert "no such folder" in run(*migrate, "--to", "./none", code=1).stderr
    begun = run(*migrate, "--to", str(new), "--no-wait", code=3)
    assert "disk until --finish" in begun.stdout
    assert "users are still to be moved" in run(*migrate, "--finish", code=1).stderr
    status = json.loads(run("status", "--json").stdout)
    assert status["migration"]["phase"] == "moving"
    assert "1 of 1 user: users moved to" in run(*migrate, "--to", str(new)).stdout
    report = json.loads(run(*migrate, "--report", "--json").stdout)
    assert report["questions"] == 10
    assert "rolled back from" in run(*migrate, "--rollback").stdout
    run(*migrate, "--to", str(new))
    ended = run(*migrate, "--finish")
    assert "moved to" in ended.stdout
    assert f"MEMORY_AGENT_LOCAL_EMBEDDING_MODEL={new}" in ended.stderr
    assert "was finished" in run(*migrate, "--rollback", code=1).stderr
    assert "choose one" in run(*migrate, "--rollback", "--finish", code=2).stderr
    rebuilt = run("rebuild", "--all")
    assert f"Indexed {TURNS} turns anew; the index of 1 user is whole." in rebuilt.stdout
    assert "leave out --user" in run("rebuild", "--all", "--user", "ada", code=2).stderr
