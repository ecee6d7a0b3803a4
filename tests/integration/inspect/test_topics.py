"""The pages of topics, and what a user's page gives and would take: an export, a look before forgetting."""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
import time
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest

from memory_agent.adapters import open_keys
from memory_agent.clock import SystemClock
from memory_agent.domain import Topic
from memory_agent.errors import StoreUnavailable
from memory_agent.inspect.plots import decay_plot, map_of
from memory_agent.server.auth import KEY_CACHE_SECONDS
from memory_agent.topics.stats import decayed
from tests.integration.inspect.looking import ANN, HOME, HOSTILE, Looker, looking, tell_of_walnuts, text_of

TOPICS = f"{HOME}/topics"


@pytest.fixture
async def looker(tmp_path: Path) -> AsyncIterator[Looker]:
    """Signed in at the memory of the user ann, topics among it, of which two are too many."""
    settings = {"data_dir": tmp_path, "enable_fact_extraction": True, "enable_topics": True, "max_topics": 1}
    async with looking(settings) as found:
        await tell_of_walnuts(found.service)
        await found.sign_in()
        yield found


async def curated(looker: Looker, topic_id: str, **form: str) -> str:
    """The text of the page behind a form that was sent."""
    answer = await looker.send(f"{TOPICS}/{topic_id}", csrf=await looker.csrf(TOPICS), **form)
    assert answer.status_code == 303, text_of(answer.text)
    return text_of(await looker.look(answer.headers["Location"].replace("../", "")))


async def test_topics_are_listed_with_their_curves_and_lie_on_a_map(looker: Looker) -> None:
    topics = await looker.service.agent("ann", "home").topics()
    page = await looker.look(TOPICS)
    text = text_of(page)
    assert f"1 to {len(topics)} of {len(topics)}, 0 of them archived" in text
    assert all(topic.topic_title in text for topic in topics)
    assert page.count('<path class="l') == len(topics) == 3
    on_map = await looker.look(TOPICS, view="map")
    assert on_map.count("<circle") == len(topics)
    # Those that lie apart have their names beside them.
    assert on_map.count('<text class="name"') >= 2
    assert "<script>alert" not in page + on_map
    assert "view" in await looker.look(TOPICS, status=422, view="globe")
    await looker.look(f"{TOPICS}/{topics[0].topic_id[:-1]}x", status=404)
    # A curve goes through the priorities that the topic has had and will have.
    (topic, *_) = await looker.service.agent("ann", "home").topics()
    plot = decay_plot([topic])
    assert plot is not None
    points = [tuple(map(float, point.split(","))) for point in re.split("[ML]", plot.curves[0][1]) if point]
    low, high = plot.priorities[0][0], plot.priorities[-1][0]
    (end, days) = plot.days[-1]
    assert points[-1][0] == pytest.approx(end, abs=0.1)
    will_be = decayed(
        topic.importance_score, topic.inactive_seconds + days * 86_400, topic.half_life_days * 86_400
    )
    assert points[-1][1] == pytest.approx(low + (high - low) * will_be / 0.5, abs=0.1)
    assert will_be < 0.05
    assert decay_plot([]) is None
    # The plot is as long as the curves of those that have not faded need, however long ago another one did.
    old = replace(topic, inactive_seconds=400 * 86_400.0)
    longer = decay_plot([topic, old])
    assert longer is not None
    assert longer.days == plot.days


async def test_a_topic_is_merged_split_off_tagged_archived_and_restored(looker: Looker) -> None:
    memory = looker.service.agent("ann", "home")
    one, other, *_ = [topic.topic_id for topic in await memory.topics()]
    text = await curated(looker, one, do="merge", into=other)
    assert "Merged. What was merged can be split off again below." in text
    assert len(await memory.topics()) == 2
    assert "Merged into it" in text
    await curated(looker, other, do="split", part=one)
    assert len(await memory.topics()) == 3
    assert "#<b>cooking</b>" in await curated(looker, one, do="tag", tag="<b>cooking</b>")
    assert "1 to 1 of 1" in text_of(await looker.look(TOPICS, tag="<b>cooking</b>"))
    assert "#<b>" not in await curated(looker, one, do="untag", tag="<b>cooking</b>")
    assert "Restore it" in await curated(looker, one, do="archive")
    assert "1 of them archived" in text_of(await looker.look(TOPICS))
    assert "Archive it" in await curated(looker, one, do="restore")
    for wrong in ({"do": "merge", "into": one}, {"do": "split", "part": one}, {"do": "eat"}):
        answer = await looker.send(f"{TOPICS}/{one}", csrf=await looker.csrf(TOPICS), **wrong)
        assert answer.status_code == 422, wrong


async def test_the_next_sweep_is_told_of_one_thread_and_changes_nothing(looker: Looker) -> None:
    memory, sweeper = looker.service.agent("ann", "home"), looker.service.core.sweeper
    assert "Nothing: all of them stay" in text_of(await looker.look(TOPICS, view="sweep"))
    faded, *_ = [topic for topic in await memory.topics() if not topic.current]
    await memory.set_topic_importance(faded.topic_id, 0.01)
    await looker.service.agent("bob", "home").update_memory("I have a dog.", "Nice.")
    assert f"archive {faded.topic_title} 0.0100" in text_of(await looker.look(TOPICS, view="sweep"))
    assert not (await memory.topic_stats(faded.topic_id)).archived
    foreseen = [(action.deed, action.topic_id) for action in await sweeper.foresee(memory.scope)]
    done = list[Any]()
    await looker.service.sweep(each=done.append)
    assert [(action.deed, action.topic_id) for action in done] == foreseen


def test_topics_that_mean_the_same_lie_together_on_the_map() -> None:
    chance = np.random.default_rng(7)
    ways = np.eye(3, 64, dtype=np.float32)
    base: dict[str, Any] = {
        "user_id": "u", "thread_id": "t", "created_at": 0, "last_access": 0, "embedded": 1, "embedder": "e",
    }  # fmt: skip
    topics = [
        Topic(id=f"{way}-{n}", embedding=ways[way] + 0.05 * chance.normal(size=64).astype(np.float32), **base)
        for way in range(3)
        for n in range(20)
    ]
    found = map_of([*topics, Topic(id="none", **{**base, "embedded": 0})])
    assert found is not None
    points = [tuple(map(float, point.split(","))) for point in re.findall(r"M([^h]*)h0", found.active)]
    assert (found.count, found.left, len(found.dots), len(points)) == (60, 1, 15, 45)
    # Those that aren't numbered are drawn in the order of their topics.
    numbered = {dot.topic.id: (dot.x, dot.y) for dot in found.dots}
    others = iter(points)
    at = {topic.id: np.array(numbered.get(topic.id) or next(others)) for topic in topics}
    middles = [np.mean([at[f"{way}-{n}"] for n in range(20)], axis=0) for way in range(3)]
    for id_, place in at.items():
        assert np.argmin([np.linalg.norm(place - middle) for middle in middles]) == int(id_[0])
    assert map_of(topics[:2]) is None


# --- users and conversations ---------------------------------------------------------------------------------
async def test_a_users_memory_is_a_file_and_counted_before_it_is_forgotten(looker: Looker) -> None:
    await looker.service.agent("bob", "home").add_user_message("I am Bob.")
    answer = await looker.http.get(f"{ANN}/export")
    assert answer.headers["Content-Disposition"] == "attachment; filename*=UTF-8''ann.jsonl"
    assert answer.headers["X-Content-Type-Options"] == "nosniff"
    lines = [json.loads(line) for line in answer.text.splitlines()]
    assert lines[-1]["end"]["records"]["turn"] == 8
    assert HOSTILE in {line.get("content") for line in lines}
    assert "Bob" not in answer.text
    await looker.look("of/default/users/nobody/export", status=404)
    # What forgetting would erase is counted before it is confirmed.
    assert 'name="typed"' not in await looker.look(ANN)
    text = text_of(await looker.look(ANN, forget="1"))
    assert "Threads 1 Turns 8 Changes of facts 2 Topics 3 Search rows 8" in text
    assert (await looker.service.users()).users[0].turns == 8


async def test_an_export_is_sent_as_it_is_read_and_a_login_has_two_of_them(looker: Looker) -> None:
    await looker.service.pause_worker()  # it is about the pages
    await looker.service.agent("ann", "large").add_turns([{"role": "user", "content": "x" * 900_000}] * 12)
    async with contextlib.AsyncExitStack() as stack:
        answers = [
            await stack.enter_async_context(looker.http.stream("GET", f"{ANN}/export")) for _ in range(2)
        ]
        assert [answer.status_code for answer in answers] == [200, 200]
        assert "2 exports of this login" in await looker.look(f"{ANN}/export", status=429)
        assert json.loads((await answers[0].aread()).splitlines()[-1])["end"]["records"]["turn"] == 20
        # The other one is hung up on.
    (login,) = looker.server.app.state.logins._logins.values()
    async with asyncio.timeout(30):
        while login.exports:
            await asyncio.sleep(0.1)


@pytest.mark.parametrize("why", ["key", "outage"])
async def test_an_export_is_cut_off_when_its_key_or_the_store_goes(
    looker: Looker, why: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    await looker.service.pause_worker()  # it is about the pages
    await looker.service.agent("ann", "large").add_turns([{"role": "user", "content": "x" * 900_000}] * 12)
    async with looker.http.stream("GET", f"{ANN}/export") as answer:
        if why == "key":
            (login,) = looker.server.app.state.logins._logins.values()
            authenticator = looker.server.app.state.api.authenticator
            async with contextlib.AsyncExitStack() as stack:
                keys = await open_keys(looker.server.cfg, None, stack)
                await keys.revoke(login.key_id, SystemClock().now())
            monkeypatch.setattr(authenticator, "_monotonic", lambda: time.monotonic() + KEY_CACHE_SECONDS)
        else:

            async def fail(*_: Any, **__: Any) -> None:
                raise StoreUnavailable("away")

            monkeypatch.setattr(looker.service.core.store, "copied_turns", fail)
        with pytest.raises(httpx.RemoteProtocolError):
            await answer.aread()
    assert [record.getMessage() for record in caplog.records if record.name.endswith("inspect.people")] == [
        f"an export ended early: {'AccessDenied' if why == 'key' else 'StoreUnavailable'}"
    ]
    assert not [record for record in caplog.records if record.exc_info]


async def test_a_conversation_tells_topics_entities_and_facts_of_fifty_turns_in_a_few_reads(
    looker: Looker, monkeypatch: pytest.MonkeyPatch
) -> None:
    memory = looker.service.agent("ann", "long")
    said: list[Any] = [
        {"role": "user", "content": "I like jazz.", "entities": [{"kind": "brands", "name": f"B{n}"}]}
        for n in range(60)
    ]
    await memory.add_turns(said)
    await memory.settle(60)
    store: Any = type(looker.service.core.store)
    reads, read = list[int](), store._read

    async def counted(*given: Any) -> Any:
        reads.append(1)
        return await read(*given)

    monkeypatch.setattr(store, "_read", counted)
    await looker.look(f"{ANN}/long/conversation")  # what is kept is kept
    reads.clear()
    page = await looker.look(f"{ANN}/long/conversation")
    assert page.count('title="brands"') == page.count("1 fact</a>") == 50
    assert len(reads) < 25  # eight, and what the worker looks for meanwhile
