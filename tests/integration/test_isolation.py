"""No read returns another scope's data, whatever the ids look like."""

from __future__ import annotations

import unicodedata
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from memory_agent import InvalidInput, MemoryAgent, MemoryConfig, MemoryService, Scope
from memory_agent.testing import HashEmbedder
from tests import profiles
from tests.fixtures import outgrown

HOSTILE = [
    *("$where", "a.b", "a/b", "../../etc", "*", "%", "_", "' OR 1=1 --", '{"$ne": null}', "null", "None"),
    *("é", unicodedata.normalize("NFD", "é"), "E", "e", "ß", "ss", "사용자", "👩‍🚀", "a ", "a"),
    *("x" * 512, "x" * 511 + "y", "#1", "user#0"),
]
ids = st.sampled_from(HOSTILE) | st.text(min_size=1, max_size=12).filter(
    lambda text: (
        any(unicodedata.category(char)[0] not in "CZ" for char in text)  # one that can be seen
        and not any(unicodedata.category(char) in ("Cc", "Cs") for char in text)
    )
)
scopes = st.lists(st.tuples(ids, ids), min_size=2, max_size=5, unique=True)


def letters(number: int) -> str:
    """A number in letters, for a name that people could have."""
    return "".join(chr(ord("a") + int(digit)) for digit in f"{number:03}")


async def check_isolation(service: MemoryService, pairs: list[tuple[str, str]], run: int) -> None:
    """Each (user, thread) writes its mark; then every read of every scope shows its own marks and no other."""
    pairs = [(user, f"{thread} {run}"[-512:]) for user, thread in pairs]
    marks = {
        pair: f"mark{letters(run)}x{letters(number)}" for number, pair in enumerate(dict.fromkeys(pairs))
    }
    # In the vector index too, which only the largest users are in.
    await outgrown(service, *(user for user, _ in marks))
    turn_ids = {}
    for (user, thread), mark in marks.items():
        receipt = await service.agent(user, thread).update_memory(
            f"My name is {mark.capitalize()}. The treasure map is number {mark}.", f"Noted, {mark}."
        )
        turn_ids[user, thread] = set(receipt.turn_ids)
    await service.settle(timeout=60)
    for (user, thread), mark in marks.items():
        memory = service.agent(user, thread)
        others = [other for pair, other in marks.items() if pair != (user, thread)]
        strangers = [other for pair, other in marks.items() if pair[0] != user]
        own = turn_ids[user, thread]
        seen_by_thread: list[str] = [
            str(await memory.fetch_memory("treasure map number", max_tokens=2_000)),
            str(await memory.fetch_facts()),
            str(await memory.fetch_short_term(100)),
        ]
        found = await memory.fetch_long_term("treasure map number", top_k=100)
        assert {recollection.turn.id for recollection in found} == own
        assert {turn.id for turn in await memory.fetch_short_term(100)} == own
        assert all(mark in text.casefold() for text in seen_by_thread)
        assert not [text for text in seen_by_thread for other in others if other in text.casefold()]
        of_user = await memory.fetch_long_term(f"treasure map number {mark}", top_k=100, scope="user")
        seen_by_user = [recollection.text for recollection in of_user]
        seen_by_user.append(str(await memory.fetch_facts(scope="user")))
        assert not [text for text in seen_by_user for other in strangers if other in text.casefold()]
        assert {recollection.turn.user_id for recollection in of_user} == {user}
        nearest = await service.core.vectors.query(
            Scope(user_id=user, thread_id=thread),
            (await service.core.embedder.embed(["treasure"], purpose="query"))[0],
            limit=100,
        )
        assert {similar.turn_id for similar in nearest} == own
        assert (await memory.status()).turns == 2


@pytest.mark.parametrize("way", profiles.by_day("embedded", "servers", "servers-large-users"))
async def test_no_read_returns_another_scopes_data(way: str, request: pytest.FixtureRequest) -> None:
    """A property over many users and threads with hostile ids, on one growing database."""
    name = "embedded_settings" if way == "embedded" else "server_settings"
    # With no bar of similarity a search shows everything in its scope.
    chosen: dict[str, Any] = {**request.getfixturevalue(name), "memory_scope": "thread"}
    if way == "servers-large-users":
        chosen["resident_max_turns"] = 0
    async with MemoryService(MemoryConfig(**chosen), embedder=HashEmbedder()) as service:
        runs = 0
        # Hypothesis drives a synchronous function, so examples are drawn first and run here, on one loop.
        examples: list[list[tuple[str, str]]] = []

        @settings(
            max_examples=12 if profiles.chosen() == "nightly" else 3,
            suppress_health_check=list(HealthCheck),
            database=None,
        )
        @given(scopes)
        def collect(pairs: list[tuple[str, str]]) -> None:
            examples.append(pairs)

        collect()
        # On servers each text costs some requests, so that by day every tenth has to do.
        hostile = HOSTILE if way != "servers-large-users" or profiles.chosen() == "nightly" else HOSTILE[::10]
        examples.append([(user, "thread") for user in hostile])
        examples.append([("user", thread) for thread in hostile])
        for pairs in examples:
            runs += 1
            await check_isolation(service, pairs, runs)
        assert runs > 4


async def test_impossible_ids_are_refused(embedded_settings: dict[str, Any]) -> None:
    """An empty or missing id never means "all", and none names another tenant's user, wherever it comes in."""
    async with MemoryService(MemoryConfig(**embedded_settings, run_worker=False)) as service:
        for tenant in ("default", "acme"):
            await service.agent("ann", "chat", tenant=tenant).update_memory("a", "b")
        between = ("acme\x1fann", "default\x1fann", "\x1fann", "ann\x1f")
        bad: Any
        for bad in ("", " ", "\t", "a\0b", "a\nb", "\x1b[31m", "x" * 513, "\ud800", None, 7, *between):
            told = "control character" if bad in between else "_id"
            for user, thread in ((bad, "chat"), ("ann", bad)):
                with pytest.raises(InvalidInput, match=told):
                    service.agent(user, thread)
                with pytest.raises(InvalidInput, match=told):
                    MemoryAgent(user, thread, service=service)
            for call in (
                service.forget_user(bad),
                service.rebuild_index(bad),
                service.search(bad, "a"),
                service.find_session("x", user_id=bad) if bad in between else service.forget_user(bad),
            ):
                with pytest.raises(InvalidInput, match=told):
                    await call
        for bad in (*between, "", "Acme", "a" * 64, None):
            with pytest.raises(InvalidInput, match="tenant"):
                service.agent("ann", "chat", tenant=bad)
        assert (await service.status()).turns == 4
