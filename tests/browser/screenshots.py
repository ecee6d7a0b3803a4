"""The pictures of docs/inspect.md, made anew: `.browser/bin/python -m tests.browser.screenshots`."""

from __future__ import annotations

import asyncio
import json
import os
import re
import tempfile
from datetime import datetime, timedelta
from pathlib import Path
from typing import Final

from playwright.async_api import async_playwright

from memory_agent import MemoryService
from memory_agent.clock import SystemClock
from memory_agent.domain import ALL_TENANTS
from tests.browser.chromium import SWITCHES, found
from tests.integration.inspect.looking import ANN, HOME, looking

FOLDER: Final = Path(__file__).parents[2] / "docs" / "images"
LARGEST_BYTES: Final = 150_000
PAGE: Final = FOLDER.parent / "inspect.md"
"""Holds what was said in the thread `home`, for readers to remember."""
LATELY: Final = (
    (88, "Ann", "I work as a nurse."),
    (86, "Bo", "I live in Oslo."),
    (61, "Ann", "I like jazz."),
    (60, "Ann", "I love the piano concert in the old church."),
    (33, "Bo", "I work as a carpenter."),
    (32, "Bo", "I repaired the roof of the boat house."),
    (12, "Bo", "The boat house has a new roof, and the boat is in it."),
    (9, "Ann", "I work as a teacher now."),
    (6, "Ann", "The school has a garden with apple trees."),
    (5, "Ann", "We pruned the apple trees in the school garden."),
    (3, "Bo", "I have a dog called Rex."),
    (2, "Bo", "Rex runs after every tennis ball."),
    (2, "Ann", "Another piano concert is on Sunday."),
    (1, "Bo", "The tennis ball of Rex is under the sofa."),
    (1, "Ann", "The apple trees of the school garden are in bloom."),
)
"""Of a thread that two people share: days ago, who, what."""
TALK: Final = f"{ANN}/talk"
PICTURES: Final = {
    "inspect-ask": (f"{HOME}/ask?q=What+shall+we+cook+on+Friday%3F&missing=walnut+allergy&max_tokens=110&max_tokens2=400", "light", 1000, 1440),
    "inspect-ask-dark": (f"{HOME}/ask?q=What+shall+we+cook+on+Friday%3F&missing=walnut+allergy&max_tokens=110", "dark", 360, 1300),
    "inspect-conversation": (f"{HOME}/conversation", "light", 1000, 900),
    "inspect-turn": (f"{HOME}/turns/7", "light", 1000, 620),
    "inspect-user": (ANN, "light", 1000, 960),
    "inspect-facts": (f"{TALK}/facts", "light", 1000, 1080),
    "inspect-fact": (f"{TALK}/facts?path=occupation&about=Ann", "light", 1000, 900),
    "inspect-topics": (f"{TALK}/topics", "light", 1000, 900),
    "inspect-topics-dark": (f"{TALK}/topics", "dark", 360, 900),
    "inspect-map": (f"{TALK}/topics?view=map", "light", 1000, 900),
    "inspect-work": ("work", "light", 1000, 1300),
    "inspect-work-dark": ("of/default/work", "dark", 360, 1000),
    "inspect-health": ("health", "light", 1000, 1120),
}  # fmt: skip
"""Address, colours, width and height of each."""
FOR_ALL: Final = ("inspect-work", "inspect-health")
"""Those that are seen with a key for all tenants."""


async def tell(service: MemoryService) -> None:
    """An evening that is planned, and what two people tell of their weeks."""
    lines = re.findall(r"^  '(\{.*\})' \\$", PAGE.read_text("utf-8"), re.MULTILINE)
    turns = [json.loads(line) for line in lines]
    for turn in turns:
        turn["timestamp"] = datetime.fromisoformat(turn["timestamp"])
    now = SystemClock().now()
    lately = [
        {"role": "user", "content": text, "speaker": who, "timestamp": now - timedelta(days=days)}
        for days, who, text in LATELY
    ]
    for thread, said in (("home", turns), ("talk", lately)):
        memory = service.agent("ann", thread)
        await memory.add_turns(said)
        await memory.settle(60)


async def fail(service: MemoryService) -> None:
    """Work that is owed and parked, and users who are forgotten."""
    await service.pause_worker()
    for user in ("joe", "kim"):
        await service.agent(user, "home").add_user_message("Forget me.")
        await service.forget_user(user)
    memory = service.agent("bob", "trip", tenant="acme")
    turn = await memory.add_user_message("Our ferry to Texel leaves at nine.")
    error = "VectorIndexError: the collection has 384 dimensions, and the vector 768"
    await service.core.store.postpone(memory.scope, [turn.id], error=error, due_at=None, counted=True)
    await service.agent("eve", "trip").add_user_message("And who brings the wine?")


async def main() -> None:
    """Take them all."""
    FOLDER.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as data:
        os.chdir(data)  # nobody's folder is in a picture
        settings = {"data_dir": "data", "enable_fact_extraction": True, "enable_topics": True}
        async with looking(settings) as looker, async_playwright() as playwright:
            await tell(looker.service)
            await fail(looker.service)
            await looker.server.key("acme", label="web shop")
            await looker.server.key("acme", label="reports", read_only=True)
            plain = await looker.server.key(label="kitchen")
            operator = await looker.server.key(ALL_TENANTS, label="operator")
            browser = await playwright.chromium.launch(executable_path=found(), args=SWITCHES)
            for name, (path, scheme, width, height) in PICTURES.items():
                view = {"width": width, "height": height}
                context = await browser.new_context(color_scheme=scheme, viewport=view)
                page = await context.new_page()
                await page.goto(f"{looker.server.address}/inspect/sign-in")
                await page.get_by_label("API key").fill(operator if name in FOR_ALL else plain)
                await page.keyboard.press("Enter")
                await page.wait_for_url("**/users")
                await page.goto(f"{looker.server.address}/inspect/{path}")
                if name == "inspect-health":
                    await page.get_by_role("button", name="Examine the memory").click()
                    await page.wait_for_timeout(4_000)
                    await page.reload()
                if "work" in name:  # until there is something to plot
                    await page.wait_for_timeout(20_000)
                picture = FOLDER / f"{name}.png"
                await page.screenshot(path=picture)
                size = picture.stat().st_size
                assert size <= LARGEST_BYTES, (name, size)
                print(f"{picture.name}: {size} bytes")
                await context.close()
            await browser.close()


if __name__ == "__main__":
    asyncio.run(main())
