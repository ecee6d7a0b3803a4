"""A person's walk through the pages."""

from __future__ import annotations

import json
import lzma
import os
import re
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from memory_agent.domain import ALL_TENANTS, Scope
from memory_agent.inspect.work import PAUSE_SECONDS
from tests.browser.conftest import Walk
from tests.integration.inspect.looking import ANN, HOME

LOOKS = [
    {"color_scheme": scheme, "viewport": {"width": width, "height": 800}}
    for scheme in ("light", "dark")
    for width in (1440, 360)
]
ASKED = f"{HOME}/ask?q=What+shall+we+cook&missing=walnut+allergy&max_tokens=110&preset2=chat"
FACTS = f"{ANN}/years/facts"
PAGES = [
    "of/default/users", ANN, f"{ANN}?forget=1", f"{HOME}/conversation", f"{HOME}/conversation?find=walnut", f"{HOME}/turns/5", f"{HOME}/turns/99", ASKED, FACTS,
    f"{FACTS}?view=history&as_of=2024-06-01T00:00", f"{FACTS}?view=refused", f"{FACTS}?path=occupation&about=user",
    f"{HOME}/topics", f"{HOME}/topics?view=map", f"{HOME}/topics?view=sweep",
    *(f"{ANN}/chat/{page}" for page in ("conversation", "facts", "topics", "ask?q=Where+did+we+meet&missing=Utrecht&reach2=thread")),
    f"{ANN}/years/facts?path=preferences.likes", f"{ANN}/blank/conversation", f"{ANN}/blank/ask?q=Who&missing=walnuts", f"{ANN}/blank/facts?reach=thread", f"{ANN}/blank/topics",
    "of/default/work", "of/default/health", "work", "health", "health?settings=all",
]  # fmt: skip
BROKEN_WORDS = """() => {
  const found = [], texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  for (let text; text = texts.nextNode();) {
    if (!text.parentElement.closest("td, th") || !text.parentElement.checkVisibility()) continue;
    for (const word of text.data.matchAll(/[\\p{L}\\p{N}]{1,24}/gu)) {
      const range = document.createRange();
      range.setStart(text, word.index);
      range.setEnd(text, word.index + word[0].length);
      if (new Set([...range.getClientRects()].map(place => Math.round(place.top))).size > 1) found.push(word[0]);
    }
  }
  return found;
}"""
"""Those in a table's cells that begin on one line and end on another."""


async def tell_of_years(walk: Walk) -> None:
    """What the user said of an occupation in three years."""
    memory = walk.looker.service.agent("ann", "years")
    said: list[Any] = [
        {"role": "user", "content": f"I work as a {what}.", "timestamp": datetime(year, 2, 3, tzinfo=UTC)}
        for year, what in ((2023, "nurse"), (2024, "teacher"), (2025, "pilot"))
    ]
    await memory.add_turns(said)
    await memory.settle(60)


CHAT = "realtalk-dev.jsonl.xz"


async def tell_of_a_chat(walk: Walk) -> None:
    """Two real people's chat where RECALL_SETS names the folder of the recall sets, else one that is made up."""
    folder = os.environ.get("RECALL_SETS")
    said = [(who, f"Number {n} of {who}: we met in Utrecht.") for n in range(60) for who in ("Ann", "Bo")]
    if folder:
        with lzma.open(Path(folder) / CHAT, "rt", encoding="utf-8") as lines:
            said = [(turn["role"], turn["text"]) for turn in json.loads(next(lines))["turns"][:120]]
    turns: list[Any] = [{"role": "user", "content": text or "…", "speaker": who} for who, text in said]
    memory = walk.looker.service.agent("ann", "chat")
    await memory.add_turns(turns)
    await memory.settle(120)


async def test_somebody_finds_out_why_the_walnut_allergy_was_not_in_a_prompt(walk: Walk) -> None:
    """From the sign-in on, by what the pages say alone."""
    await walk.sign_in()
    page = walk.page
    await page.get_by_role("link", name="ann").click()
    await page.get_by_role("link", name="Ask, home").click()
    await page.get_by_label("Question").fill("What shall we cook on Friday?")
    await page.get_by_text("Advanced").click()
    await page.get_by_label("Budget in tokens").first.fill("110")
    await page.get_by_label("Why is this not in the prompt").fill("walnut allergy")
    await page.get_by_label("Question").press("Control+Enter")
    verdict = await page.locator(".verdict").first.inner_text()
    assert verdict.startswith("Considered for: facts, and left out: no room in")
    await page.go_back()
    assert page.url.endswith("/ask")
    await page.go_forward()
    await page.get_by_role("link", name="turn 1", exact=True).first.click()
    assert "walnut allergy" in await page.locator("pre.said").inner_text()
    assert await walk.violations() == []


@pytest.mark.nightly
@pytest.mark.parametrize(
    "walk", LOOKS, indirect=True, ids=lambda look: f"{look['color_scheme']}-{look['viewport']['width']}"
)
async def test_no_page_is_hard_to_read_or_wider_than_the_window(walk: Walk) -> None:
    await walk.page.goto(f"{walk.base}sign-in")
    assert await walk.violations() == []
    await tell_of_years(walk)
    await tell_of_a_chat(walk)
    for who in ("Ann", "Bo"):
        await walk.looker.service.agent("ann", "years").add_fact("preferences.likes", "jazz", about=who)
    (topic, *_) = await walk.looker.service.agent("ann", "home").topics()
    await walk.sign_in(tenant=ALL_TENANTS)
    for user in ("ann", "gone"):
        await park_a_turn(walk, user)
    await walk.looker.service.forget_user("gone")
    for path in [*PAGES, f"{HOME}/topics/{topic.topic_id}"]:
        await walk.page.goto(walk.base + path)
        assert await walk.violations() == [], path
        width: Any = await walk.page.evaluate("[document.documentElement.scrollWidth, innerWidth]")
        assert width[0] <= width[1], path
        assert await walk.page.evaluate(BROKEN_WORDS) == [], path
    await walk.page.goto(f"{walk.base}{FACTS}?path=occupation&about=user")
    await walk.page.get_by_label("What holds").fill("diver")
    await walk.page.keyboard.press("Enter")
    await walk.page.get_by_role("button", name="Undo").wait_for()
    assert await walk.violations() == []
    walk.wrong = [said for said in walk.wrong if "404" not in said]  # a page that says so


async def tab_to(walk: Walk, name: str) -> None:
    """Press Tab until what has this name, or label, has the focus."""
    told = "[document.activeElement.ariaLabel, document.activeElement.labels?.[0]?.innerText, document.activeElement.innerText]"
    for _ in range(60):
        await walk.page.keyboard.press("Tab")
        if name in await walk.page.evaluate(told):
            return
    raise AssertionError(f"no Tab leads to {name}")


@pytest.mark.nightly
@pytest.mark.parametrize("walk", LOOKS[::3], indirect=True, ids=["light-1440", "dark-360"])
async def test_by_keyboard_alone_somebody_comes_from_page_to_page_and_back(walk: Walk) -> None:
    await walk.sign_in()
    page = walk.page
    for name, address in (("ann", "/ann"), ("Ask, home", "/home/ask")):
        await tab_to(walk, name)
        await page.keyboard.press("Enter")
        await page.wait_for_url(f"**{address}")
    await tab_to(walk, "Question")
    await page.keyboard.type("What shall we cook on Friday?")
    await tab_to(walk, "Advanced")
    await page.keyboard.press("Enter")
    await tab_to(walk, "Compare with a second prompt")
    await page.keyboard.press("Enter")
    for _ in range(6):  # to the reach of the second prompt
        await page.keyboard.press("Tab")
    await page.keyboard.press("End")
    await tab_to(walk, "Show the prompt")
    await page.keyboard.press("Enter")
    await page.get_by_role("columnheader", name="this thread").wait_for()
    for tab in ("Conversation", "Facts", "Topics"):
        await tab_to(walk, tab)
        await page.keyboard.press("Enter")
        await page.get_by_role("heading", name=tab, level=1).wait_for()
    await page.go_back()  # a headless browser has no key for it
    await page.get_by_role("heading", name="Facts", level=1).wait_for()
    await tab_to(walk, "Work")
    await page.keyboard.press("Enter")
    await page.get_by_text("All caught up").wait_for()
    await tab_to(walk, "Sign out")
    await page.keyboard.press("Enter")
    await page.wait_for_url("**/sign-in")


@pytest.mark.nightly
async def test_scrolling_goes_on_to_the_end_of_a_long_conversation(walk: Walk) -> None:
    await walk.looker.service.agent("ann", "long").add_turns(
        [{"role": "user", "content": f"No {number}."} for number in range(230)]
    )
    await walk.sign_in()
    await walk.page.goto(f"{walk.base}{ANN}/long/conversation")
    last = walk.page.locator("#turn-230")
    while not await last.count():
        await walk.page.mouse.wheel(0, 4_000)
        await walk.page.wait_for_timeout(50)
    ids = await walk.page.locator("li.turn").evaluate_all("all => all.map(one => one.id)")
    assert ids == [f"turn-{number}" for number in range(1, 231)]


async def park_a_turn(walk: Walk, user: str = "ann", thread: str = "home") -> None:
    """A turn whose work kept failing."""
    await walk.looker.service.pause_worker()
    memory = walk.looker.service.agent(user, thread)
    turn = await memory.add_user_message("And who brings the wine?")
    store = walk.looker.service.core.store
    await store.postpone(memory.scope, [turn.id], error="<b>refused</b>", due_at=None, counted=True)


async def live_page(walk: Walk) -> Any:
    """The page Work, once it is live."""
    await walk.sign_in()
    await walk.page.goto(f"{walk.base}of/default/work")
    await walk.page.get_by_text("live", exact=True).wait_for()
    return walk.page


@pytest.mark.nightly
async def test_the_page_of_work_shows_what_happens_and_is_left_when_the_login_ends(walk: Walk) -> None:
    page = await live_page(walk)
    for thread in ("attic", "home"):
        await park_a_turn(walk, thread=thread)
    await page.get_by_text("2 turns are parked").wait_for()
    await page.get_by_role("button", name="Try again: home").focus()
    await walk.looker.service.retry_parked(Scope.of("ann", "attic"))
    await page.get_by_text("1 turn is parked").wait_for()
    # What was put in anew keeps the focus on the same button, wherever that is now.
    assert await page.evaluate("document.activeElement.getAttribute('aria-label')") == "Try again: home"
    await page.keyboard.press("Enter")
    await page.get_by_text("1 turn is parked").wait_for(state="hidden")
    other = await page.context.new_page()
    await other.goto(walk.base)
    await other.get_by_role("button", name="Sign out").click()
    await page.wait_for_url("**/sign-in?next=of%2Fdefault%2Fwork")


@pytest.mark.nightly
async def test_a_hidden_live_page_whose_login_ended_goes_to_the_form_when_it_is_looked_at(walk: Walk) -> None:
    page = await live_page(walk)
    hide = "state => { Object.defineProperty(document, 'hidden', {value: state, configurable: true}); document.dispatchEvent(new Event('visibilitychange')); }"
    await page.evaluate(hide, True)
    other = await page.context.new_page()
    await other.goto(walk.base)
    await other.get_by_role("button", name="Sign out").click()
    await page.evaluate(hide, False)
    await page.wait_for_url("**/sign-in?next=of%2Fdefault%2Fwork")


@pytest.mark.nightly
@pytest.mark.parametrize(
    "walk", [{}, {"java_script_enabled": False}], indirect=True, ids=["", "without-javascript"]
)
async def test_somebody_looks_back_corrects_a_fact_and_undoes_it(walk: Walk) -> None:
    """With the slider by keyboard alone."""
    await tell_of_years(walk)
    await walk.sign_in()
    page = walk.page
    await page.goto(f"{walk.base}{ANN}")
    await page.get_by_role("link", name="Facts, years").click()
    await page.get_by_label("Look back").focus()
    await page.keyboard.press("Home")
    await page.keyboard.press("Tab")
    await page.keyboard.press("Enter")
    assert "As it was on 2023-02-03 23:59" in await page.locator("p[role=status]").inner_text()
    assert "nurse" in await page.locator("td.fact").first.inner_text()
    await page.get_by_role("link", name="the day of changes after").click()
    assert "teacher" in await page.locator("table").inner_text()
    await page.get_by_role("link", name="As it is now").click()
    await page.get_by_role("link", name="occupation").click()
    await page.get_by_label("What holds").fill("diver")
    await page.keyboard.press("Enter")
    await page.get_by_role("button", name="Undo").click()
    assert "pilot" in await page.locator("ul.plain").first.inner_text()
    await page.get_by_role("button", name="Back to this").last.click()
    assert "nurse" in await page.locator("ul.plain").first.inner_text()


@pytest.mark.nightly
async def test_two_tabs_share_a_login_and_one_that_ended_ends_in_both(walk: Walk) -> None:
    await walk.sign_in()
    other = await walk.page.context.new_page()
    await other.goto(f"{walk.base}{ANN}")
    await walk.page.get_by_role("button", name="Sign out").click()
    await other.reload()
    assert re.search("/sign-in", other.url)


@pytest.mark.nightly
@pytest.mark.parametrize("walk", [{"java_script_enabled": False}], indirect=True, ids=["without-javascript"])
async def test_without_javascript_every_page_can_be_read(walk: Walk) -> None:
    await walk.looker.service.agent("ann", "long").add_turns(
        [{"role": "user", "content": f"No {number}."} for number in range(60)]
    )
    await walk.sign_in()
    await walk.page.goto(f"{walk.base}{ANN}/long/conversation")
    await walk.page.get_by_role("link", name="Later turns").click()
    assert await walk.page.locator("#turn-60").count() == 1
    await walk.page.get_by_role("link", name="Work").click()
    await park_a_turn(walk)
    await walk.page.wait_for_timeout(1_000 * PAUSE_SECONDS)
    await walk.page.get_by_role("link", name="Read anew").click()
    assert await walk.page.get_by_text("1 turn is parked").count() == 1
