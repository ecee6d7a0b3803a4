"""The pages *Work* and *Keys and health*: whose work who sees, live streams and their end, and what is shown to operators alone."""

from __future__ import annotations

import asyncio
import contextlib
import re
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any, get_args, get_type_hints

import pytest

from memory_agent.adapters import open_keys
from memory_agent.clock import SystemClock
from memory_agent.domain import ALL_TENANTS, STAGES, Scope
from memory_agent.domain.work import ReceiptState
from memory_agent.errors import EmbedderUnavailable, LLMUnavailable, StoreUnavailable, VectorIndexUnavailable
from memory_agent.inspect import health, work
from memory_agent.inspect.plots import line_of
from memory_agent.inspect.texts import LANGUAGES, catalogue
from memory_agent.keys import KeyState, read_token
from memory_agent.server.metrics import Metrics, Ready, State
from tests.integration.inspect.looking import Looker, looking, tell_of_walnuts, text_of

OURS, EVERYBODYS = "of/default/work", "work"


@pytest.fixture
async def looker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Looker]:
    """At a memory of ann and of acme's bob, each with a parked turn; keys are believed no longer than they must."""
    monkeypatch.setattr(work, "PAUSE_SECONDS", 0.1)
    monkeypatch.setenv("MEMORY_AGENT_TOP_K_MEMORIES", "7")
    settings = {"data_dir": tmp_path, "enable_fact_extraction": True}
    async with looking(settings, server_key_cache_seconds=0.0) as found:
        await tell_of_walnuts(found.service)
        await found.service.pause_worker()
        for user, tenant in (("ann", "default"), ("bob", "acme")):
            turn = await found.service.agent(user, "home", tenant=tenant).add_user_message("Soon.")
            scope = Scope.of(user, "home", tenant=tenant)
            error = f"<b>{user}</b> \u202eoops"
            await found.service.core.store.postpone(scope, [turn.id], error=error, due_at=None, counted=True)
        yield found


async def parked(looker: Looker) -> list[str]:
    return [turn.scope.tenants_user_id for turn in (await looker.service.status()).parked]


@contextlib.asynccontextmanager
async def live(looker: Looker, path: str = OURS) -> AsyncIterator[AsyncIterator[str]]:
    """The lines of the page's stream."""
    async with looker.http.stream("GET", f"{path}/events") as answer:
        assert answer.status_code == 200
        assert "default-src 'none'" in answer.headers["Content-Security-Policy"]
        yield answer.aiter_lines()


async def until(lines: AsyncIterator[str], wanted: str) -> str:
    async with asyncio.timeout(20):
        while wanted not in (line := await anext(lines)):
            pass
    return line


# --- whose ---------------------------------------------------------------------------------------------------
async def test_a_key_sees_the_work_of_its_tenant_or_of_its_user_and_one_for_all_tenants_everybodys(
    looker: Looker,
) -> None:
    await looker.sign_in()
    page = await looker.look(OURS)
    assert "ann / home" in text_of(page)
    assert "bob" not in page
    assert "&lt;b&gt;ann&lt;/b&gt;" in page
    assert "U+202E" in page
    assert "Leases" not in page
    for path in (
        EVERYBODYS,
        "work/events",
        "health",
        "of/acme/work",
        "of/acme/work/events",
        "of/acme/health",
    ):
        await looker.look(path, status=403)
    await looker.sign_in("acme", user_id="eve")
    assert "All caught up" in await looker.look("of/acme/work")
    await looker.sign_in(ALL_TENANTS)
    page = await looker.look(EVERYBODYS)
    assert {"default / ann / home", "acme / bob / home"} <= set(
        re.findall(r"\w+ / \w+ / home", text_of(page))
    )
    assert "embedded by another model" not in page
    assert "bob" not in await looker.look(OURS)


async def test_operators_see_how_many_turns_another_model_embedded(looker: Looker) -> None:
    """And Prometheus does."""
    store = looker.service.core.store
    rows = await store.search_rows(Scope.of("ann").user_id)
    old = [replace(row, embedder="another") for row in rows[:3]]
    await store.put_search_rows(Scope.of("ann").user_id, old, now=looker.service.clock.now())
    await looker.sign_in(ALL_TENANTS)
    turns = (await looker.service.status()).turns
    assert f"3 of {turns} turns were embedded by another model" in text_of(await looker.look(EVERYBODYS))
    assert b"memory_agent_to_rebuild_turns 3.0" in await Metrics().render(looker.service)


async def test_parked_turns_are_tried_again_by_thread_or_all_that_the_page_shows(looker: Looker) -> None:
    await looker.sign_in()
    word = await looker.csrf(OURS)
    foreign = await looker.send(f"{OURS}/retry", csrf=word, thread="acme/bob/home")
    assert (foreign.status_code, await parked(looker)) == (403, ["ann", "bob"])
    assert (await looker.send(f"{OURS}/retry", csrf=word, thread="x")).status_code == 422
    answer = await looker.send(f"{OURS}/retry", csrf=word, thread="default/ann/home")
    assert (answer.headers["Location"].endswith("of/default/work"), await parked(looker)) == (True, ["bob"])
    assert (await looker.send("work/retry", csrf=word)).status_code == 403
    await looker.sign_in("acme")
    await looker.send("of/acme/work/retry", csrf=await looker.csrf("of/acme/work"))
    assert await parked(looker) == []


async def test_forms_of_these_pages_are_refused_from_elsewhere_and_to_a_key_that_may_only_read(
    looker: Looker,
) -> None:
    await looker.sign_in(ALL_TENANTS)
    word = await looker.csrf(EVERYBODYS)
    for path in ("work/retry", "health/examine"):
        assert (await looker.send(path, csrf="x")).status_code == 403
        sent = await looker.http.post(path, data={"csrf": word}, headers={"Sec-Fetch-Site": "cross-site"})
        assert sent.status_code == 403
    await looker.sign_in(ALL_TENANTS, read_only=True)
    word = await looker.csrf(EVERYBODYS)
    assert "Try again" not in await looker.look(EVERYBODYS)
    for path in ("work/retry", "health/examine"):
        assert "may only read" in (await looker.send(path, csrf=word)).text
    assert await parked(looker) == ["ann", "bob"]
    assert "has not examined" in await looker.look("health")


# --- live ----------------------------------------------------------------------------------------------------
async def test_a_live_page_tells_what_changes_and_ends_with_the_login(looker: Looker) -> None:
    await looker.sign_in()
    word = await looker.csrf(OURS)
    async with live(looker) as lines:
        await until(lines, "1 turn is parked")
        await looker.send(f"{OURS}/retry", csrf=word)
        await until(lines, "<dt>Parked</dt><dd>0</dd>")
        await looker.send("sign-out", csrf=word)
        await until(lines, "event: end")
        assert [line async for line in lines] == ["data: ", ""]


async def test_a_live_page_ends_with_its_key_and_lives_through_an_outage_of_the_store(
    looker: Looker, monkeypatch: pytest.MonkeyPatch
) -> None:
    token = await looker.sign_in()
    async with live(looker) as lines:
        await until(lines, "1 turn is parked")
        with monkeypatch.context() as away:

            async def fail(*_: Any, **__: Any) -> None:
                raise StoreUnavailable("away")

            away.setattr(looker.service.core.store, "status", fail)
            await until(lines, "event: away")
        await until(lines, "1 turn is parked")
        key_id, _ = read_token(token) or ("", "")
        async with contextlib.AsyncExitStack() as stack:
            await (await open_keys(looker.server.cfg, None, stack)).revoke(key_id, SystemClock().now())
        await until(lines, "event: end")
    await looker.look(OURS, status=401)


async def test_a_live_page_is_sent_to_the_form_by_a_login_that_ended_and_not_by_a_key_that_asks_too_much(
    looker: Looker,
) -> None:
    asks = {"Accept": "text/event-stream"}
    assert "event: end" in (await looker.http.get(f"{OURS}/events", headers=asks)).text
    await looker.sign_in(requests_per_minute=12)  # two at once
    await looker.look(OURS)
    answer = await looker.http.get(f"{OURS}/events", headers=asks)
    assert (answer.status_code, "event: end" in answer.text) == (429, False)


async def test_many_live_pages_cost_one_reading_and_a_login_has_four_of_them(
    looker: Looker, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[Any] = []
    monkeypatch.setattr(looker.server.app.state.readings, "_monotonic", lambda: 1_000.0)
    status = looker.service.core.store.status

    async def counted(scope: Any, **more: Any) -> Any:
        read.append(scope)
        return await status(scope, **more)

    monkeypatch.setattr(looker.service.core.store, "status", counted)
    streams: list[AsyncIterator[str]] = []
    async with contextlib.AsyncExitStack() as stack:
        for _ in range(3):
            await looker.sign_in()
            for _ in range(work.MOST_STREAMS):
                streams.append(await stack.enter_async_context(live(looker)))
                await until(streams[-1], "1 turn is parked")
            assert "4 live pages" in await looker.look(f"{OURS}/events", status=429)
    assert len(read) == 1
    async with live(looker) as lines:  # what is closed makes room
        await until(lines, "1 turn is parked")
        await looker.server.app.state.readings.close()  # as the service does when it ends
        async with asyncio.timeout(10):
            assert "event: end" not in [line async for line in lines]


async def test_the_plots_reach_far_back_and_stay_bounded(looker: Looker) -> None:
    status, now = await looker.service.status(), SystemClock().now()
    points: tuple[work.Point, ...] = ()
    for second in range(5_000):
        points = work.with_point(points, now + timedelta(seconds=second), status)
    assert len(points) <= 600
    assert points[0].at == now
    assert points[-1].at - points[-2].at == timedelta(seconds=1)
    line = line_of(points, [point.owed for point in points])
    assert line.points.startswith("0.0,4.0 ")
    assert line.points.endswith(" 600.0,4.0")


def test_every_name_that_these_pages_tell_is_in_each_catalogue() -> None:
    told = {
        "stage": STAGES,
        "erasure": get_args(ReceiptState),
        "key": get_args(KeyState),
        "from": health.ORIGINS,
        "service": get_args(get_type_hints(Ready)["status"]),
        "part": {
            kind.part
            for kind in (StoreUnavailable, VectorIndexUnavailable, EmbedderUnavailable, LLMUnavailable)
        },
        "part is": get_args(State),
    }
    names = {f"{kind} {name}" for kind, all_of in told.items() for name in all_of}
    for language in LANGUAGES:
        assert names - catalogue(language).keys() == set()


# --- keys and health -----------------------------------------------------------------------------------------
async def test_keys_settings_and_the_doctor_are_shown_to_whom_they_concern(looker: Looker) -> None:
    token = await looker.sign_in(label="<i>shop</i>")
    other = await looker.server.key("acme", label="acme's", requests_per_minute=10**12)
    page = await looker.look("of/default/health")
    key_id, secret = read_token(token) or ("", "")
    assert key_id in page
    assert "&lt;i&gt;shop" in page
    assert secret not in page
    assert "acme's" not in text_of(page)
    assert "Settings in force" not in page
    await looker.sign_in(user_id="ann")
    assert key_id not in await looker.look("of/default/health")
    await looker.sign_in(ALL_TENANTS)
    text = text_of(await looker.look("health"))
    assert "acme's" in text
    assert "read and write, unlimited requests" in text
    assert not any(secret in text for secret in (token, other))
    # An operator sees settings with their origins, and lets the doctor look.
    await looker.sign_in(ALL_TENANTS)
    changed = text_of(await looker.look("health"))
    assert f"data_dir {looker.service.cfg.data_dir} argument" in changed
    assert "service_url" not in changed
    text = text_of(await looker.look("health", settings="all"))
    assert f"data_dir {looker.service.cfg.data_dir} argument" in text
    assert "top_k_memories 7 environment" in text
    assert "service_url – default" in text
    assert "onnxruntime" in text
    answer = await looker.send("health/examine", csrf=await looker.csrf("health"))
    assert answer.status_code == 303
    async with asyncio.timeout(30):
        while "Examined 10 turns in 2 threads of 2 users." not in (
            text := text_of(await looker.look("health"))
        ):
            await asyncio.sleep(0.2)
    assert "2 turns parked" in text
    assert "mend the cause, then: memory-agent retry" in text
    assert "acme / bob" in text
