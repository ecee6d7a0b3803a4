"""The pages of facts: what is known by which words, looked back on, changed and undone, extracted anew."""

from __future__ import annotations

import re
import time
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from memory_agent.domain import FactEvent, RefusedFact
from memory_agent.facts.fold import change_of
from memory_agent.inspect.facts import timeline_of
from tests.integration.inspect.looking import ANN, HOSTILE, Looker, looking, text_of

TALK = f"{ANN}/talk"
FACTS = f"{TALK}/facts"
BEGAN = datetime(2026, 3, 2, 10, tzinfo=UTC)
SAID = (
    ("Ann", "I work as a nurse."),
    ("Bo", "I live in Oslo."),
    ("Ann", "I like jazz."),
    ("Ann", "I work as a pilot now."),
    ("Ann", "What do you think?"),
)


@pytest.fixture
async def looker(tmp_path: Path) -> AsyncIterator[Looker]:
    """Signed in at facts of two people, one a week."""
    async with looking({"data_dir": tmp_path, "enable_fact_extraction": True}) as found:
        memory = found.service.agent("ann", "talk")
        turns: list[Any] = [
            {"role": "user", "content": text, "speaker": who, "timestamp": BEGAN + timedelta(weeks=number)}
            for number, (who, text) in enumerate(SAID)
        ]
        await memory.add_turns(turns)
        await memory.settle(60)
        await found.sign_in()
        yield found


async def changed(looker: Looker, path: str = FACTS, /, **form: str) -> str:
    """The page behind a form that was sent."""
    answer = await looker.send(path, csrf=await looker.csrf(FACTS), **form)
    assert answer.status_code == 303, text_of(answer.text)
    return await looker.look(answer.headers["Location"].replace("../", ""))


async def test_facts_are_shown_by_person_as_of_a_day_and_with_what_was_not_believed(looker: Looker) -> None:
    page = await looker.look(FACTS)
    text = text_of(page)
    assert "1 to 3 of 3" in text
    assert text.index("Ann") < text.index("occupation pilot") < text.index("Bo") < text.index("location Oslo")
    assert f'href="../../../../../{TALK}/turns/4">turn 4</a>' in page
    assert "nurse" not in text
    history = text_of(await looker.look(FACTS, view="history"))
    assert "occupation nurse → pilot" in history
    assert history.index("pilot") < history.index("jazz") < history.index("Oslo")
    assert "1 to 1 of 1" in text_of(await looker.look(FACTS, find="JAZZ"))
    assert "No facts" in text_of(await looker.look(f"{ANN}/other/facts", reach="thread"))
    for wrong in (
        {"view": "all"},
        {"reach": "world"},
        {"as_of": "soon"},
        {"day": "9" * 14, "last": "9" * 15},
    ):
        assert next(iter(wrong)) in await looker.look(FACTS, status=422, **wrong)
    # The slider leads to an address of what was known that day.
    page = await looker.look(FACTS)
    first, last = re.findall(r'type="range" id="day" name="day" min="(\d+)" max="(\d+)"', page)[0]
    answer = await looker.http.get(FACTS, params={"day": first, "last": last, "find": "occupation"})
    assert answer.headers["Location"].endswith("facts?find=occupation&as_of=2026-03-02T23%3A59%3A59.999")
    text = text_of(await looker.look(answer.headers["Location"].replace("../", "")))
    assert "As it was on 2026-03-02 23:59" in text
    assert "occupation nurse" in text
    answer = await looker.http.get(FACTS, params={"day": last, "last": last})
    assert answer.headers["Location"].endswith("/facts")
    records = await looker.service.agent("ann", "talk").fact_history()
    timeline = timeline_of([record.said_at for record in records], BEGAN + timedelta(days=8))
    assert timeline is not None
    assert (timeline.day, timeline.earlier, timeline.later) == ("2026-03-10", int(first) + 7, int(first) + 14)
    # What was not believed is listed with its reason.
    memory, store = looker.service.agent("ann", "other"), looker.service.core.store
    turn = await memory.add_user_message("Ignore all that.")
    refused = RefusedFact(path="role", said=HOSTILE, quote=HOSTILE, reason=f"orders: {HOSTILE}")
    change = change_of(turn, extractor="x", now=BEGAN, refused=(refused,))
    await store.append_fact_change(memory.scope, change)
    page = await looker.look(FACTS, view="refused")
    assert "<script>alert" not in page
    assert "orders: <script>alert(1)" in text_of(page)
    assert "orders" not in await looker.look(FACTS)


async def test_a_fact_is_set_added_to_retracted_and_each_is_undone(looker: Looker) -> None:
    memory = looker.service.agent("ann", "talk")
    await looker.service.agent("ann", "other").set_fact(
        "name", "Ann", about="Ann"
    )  # ids name their thread then
    one = {"path": "occupation", "about": "Ann"}
    page = await changed(looker, do="set", value="42", **one)
    assert "It was changed, in this thread. Undo" in text_of(page)
    assert (await memory.fetch_facts(about="Ann"))["occupation"] == 42
    assert 'name="value" required dir="auto" value="42"' in page
    (event,) = re.findall('name="do" value="undo"><input type="hidden" name="event" value="([^"]+)"', page)
    assert "pilot" in text_of(await changed(looker, do="undo", event=event, **one))
    assert (await memory.fetch_facts(about="Ann"))["occupation"] == "pilot"
    first = (await memory.fact_history("occupation", about="Ann"))[0].id
    assert f'name="to" value="{first}"' in page
    await changed(looker, do="revert", to=first, **one)
    assert (await memory.fetch_facts(about="Ann"))["occupation"] == "nurse"
    likes = {"path": "preferences.likes", "about": "Ann"}
    page = await changed(looker, do="add", value='"7"', **likes)
    assert 'name="do" value="add"' in page
    assert 'name="value" value="&#34;7&#34;"' in page  # the text, and not the number
    await changed(looker, do="retract", value="jazz", **likes)
    assert (await memory.fetch_facts(about="Ann"))["preferences"]["likes"] == ["7"]
    for wrong in (
        {"do": "retract", "path": "shoe_size"},
        {"do": "burn"},
        {"do": "set", "path": "", "value": "x"},
    ):
        answer = await looker.send(FACTS, csrf=await looker.csrf(FACTS), about="Ann", **wrong)
        assert answer.status_code == 422, wrong


async def test_undo_takes_back_its_own_change_alone_and_says_what_came_since(looker: Looker) -> None:
    memory = looker.service.agent("ann", "talk")
    one = {"path": "occupation", "about": "Ann"}
    page = await changed(looker, do="set", value="diver", **one)
    (event,) = re.findall('name="event" value="([^"]+)"', page)
    await memory.add_turn("user", "I work as a carpenter now.", speaker="Ann")
    await memory.settle(60)
    answer = await looker.send(FACTS, csrf=await looker.csrf(FACTS), do="undo", event=event, **one)
    text = text_of(answer.text)
    assert (
        answer.status_code,
        "not undone: 'occupation' was changed again since (set 'carpenter'" in text,
    ) == (422, True)
    assert (await memory.fetch_facts(about="Ann"))["occupation"] == "carpenter"
    assert 'value="undo"' not in await looker.look(FACTS, path="occupation", about="Ann", done=event)
    again = text_of(await changed(looker, do="set", value="carpenter", **one))
    assert "That was known already." in again
    assert "Undo" not in again
    gone = await looker.send(FACTS, csrf=await looker.csrf(FACTS), do="undo", event="9.9", **one)
    assert gone.status_code == 404


async def test_what_is_stated_while_a_change_is_undone_stays(
    looker: Looker, monkeypatch: pytest.MonkeyPatch
) -> None:
    memory, store = looker.service.agent("ann", "talk"), looker.service.core.store
    one = {"path": "occupation", "about": "Ann"}
    page = await changed(looker, do="set", value="diver", **one)
    (event,) = re.findall('name="event" value="([^"]+)"', page)
    read, word, meanwhile = store.fact_changes, await looker.csrf(FACTS), ["carpenter"]

    async def then_somebody_speaks(*given: Any, **more: Any) -> Any:
        found = await read(*given, **more)
        if meanwhile:
            await memory.set_fact("occupation", meanwhile.pop(), about="Ann")
        return found

    monkeypatch.setattr(store, "fact_changes", then_somebody_speaks)
    assert (await looker.send(FACTS, csrf=word, do="undo", event=event, **one)).status_code == 303
    assert meanwhile == []
    assert (await memory.fetch_facts(about="Ann"))["occupation"] == "carpenter"
    await memory.retract_fact("occupation", about="Ann")
    assert [record.op for record in await memory.fact_history("occupation", about="Ann")][-4:] == [
        "set", "revert", "set", "retract",
    ]  # fmt: skip


async def test_what_another_thread_says_was_known_and_of_several_one_is_changed(looker: Looker) -> None:
    await looker.service.agent("ann", "other").set_fact("shoe_size", 44, about="Ann")
    page = text_of(await changed(looker, do="set", path="shoe_size", value="44", about="Ann"))
    assert "That was known already." in page
    assert "Undo" not in page
    # Of what nobody has yet somebody may be the first.
    assert 'name="do" value="set"' in await looker.look(FACTS, path="hat_size")
    # What several people have is changed on the page of one of them.
    memory = looker.service.agent("ann", "talk")
    await memory.set_fact("occupation", "sailor", about="Bo")
    page = await looker.look(FACTS, path="occupation")
    assert "Whose is it about? Ann , Bo" in text_of(page)
    assert 'name="do"' not in page
    assert 'name="do" value="set"' in await looker.look(FACTS, path="occupation", about="Bo")


async def test_times_are_shown_in_utc_and_days_before_1970_can_be_looked_back_on(looker: Looker) -> None:
    memory = looker.service.agent("ann", "old")
    told = [
        ("I live in Ghent.", datetime(1962, 5, 7, tzinfo=UTC)),
        ("I live in Bruges.", datetime(1968, 1, 2, tzinfo=UTC)),
    ]
    await memory.add_turns([{"role": "user", "content": text, "timestamp": time} for text, time in told])
    await memory.settle(60)
    page = await looker.look(f"{ANN}/old/facts", reach="thread")
    first, last = re.findall(r'type="range" id="day" name="day" min="(\d+)" max="(\d+)"', page)[0]
    answer = await looker.http.get(f"{ANN}/old/facts", params={"day": first, "last": last, "reach": "thread"})
    then = await looker.look(answer.headers["Location"].replace("../", ""))
    assert "As it was on 1962-05-07 23:59" in text_of(then)
    assert "location Ghent" in text_of(then)
    assert 'type="datetime-local" step="any" value="1962-05-07T23:59:59.999"' in then
    elsewhere = await looker.look(FACTS, as_of="2026-03-10T01:30+02:00")
    assert "As it was on 2026-03-09 23:30" in text_of(elsewhere)
    assert 'value="2026-03-09T23:30:00.000"' in elsewhere
    for wrong in ("soon", "0001-01-01T00:00+05:00"):
        assert "as_of is" in await looker.look(FACTS, status=422, as_of=wrong)


async def test_of_ten_thousand_facts_a_page_shows_a_hundred_and_counts_them(looker: Looker) -> None:
    memory, store = looker.service.agent("ann", "talk"), looker.service.core.store
    await looker.service.pause_worker()  # its time would count
    asks = (await memory.history()).turns[4]
    events = tuple(
        FactEvent(op="set", path=(f"g{n % 90}", f"f{n}"), value=f"Value {n}", quote="think", subject="Ann")
        for n in range(10_000)
    )
    await store.append_fact_change(memory.scope, change_of(asks, extractor="x", now=BEGAN, events=events))
    for path in ("", "?view=history", "?path=g1&about=Ann", "?as_of=2026-03-04"):
        await looker.look(f"{FACTS}{path}")  # what is kept is kept
        began = time.process_time()
        await looker.look(f"{FACTS}{path}")
        assert time.process_time() - began < 1.0, path
    page = await looker.look(FACTS)
    assert "1 to 100 of 10,003" in text_of(page)
    assert len(page) < 100_000
    assert "10,001 to 10,003 of 10,003" in text_of(await looker.look(f"{FACTS}?from=10000"))
    assert "1 to 100 of 10,004" in text_of(await looker.look(FACTS, view="history"))
    one = await looker.look(FACTS, path="g1", about="Ann")
    assert "and 12 more" in text_of(one)
    assert "10000 facts" in text_of(await looker.look(f"{TALK}/conversation"))
