"""A browser that looks at a served memory, and notes whatever goes wrong in it."""

from __future__ import annotations

import contextlib
import os
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from playwright.async_api import async_playwright

from tests.browser.chromium import SWITCHES, found
from tests.fence import Fence
from tests.integration.inspect.looking import Looker, looking, tell_of_walnuts

AXE = (Path(__file__).parent / "axe.min.js").read_text("utf-8")


class Walk:
    """A browser's page. `wrong`: errors in its console, refusals by its policy, and requests to other hosts."""

    def __init__(self, looker: Looker, page: Any) -> None:
        self.looker, self.page = looker, page
        self.base = f"{looker.server.address}/inspect/"
        self.wrong: list[str] = []
        page.on(
            "console",
            lambda said: self.wrong.append(said.text) if said.type in ("error", "warning") else None,
        )
        page.on("pageerror", lambda error: self.wrong.append(str(error)))
        page.on("request", self._asked)

    def _asked(self, request: Any) -> None:
        if not request.url.startswith((self.looker.server.address, "data:")):
            self.wrong.append(request.url)

    async def sign_in(self, **key: Any) -> None:
        """As a person does: the form is filled in by keyboard alone."""
        await self.page.goto(self.base)
        await self.page.locator("#key:focus").wait_for()  # what is typed before would be lost
        await self.page.keyboard.type(await self.looker.server.key(**key))
        await self.page.keyboard.press("Enter")
        await self.page.wait_for_url("**/users")

    async def violations(self) -> list[str]:
        """What axe finds against WCAG 2.1, levels A and AA."""
        rules = '{runOnly: ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa"]}'
        found = await self.page.evaluate(f"{AXE};axe.run({rules}).then(found => found.violations)")
        return [f"{one['id']}: {one['nodes'][0]['html']}" for one in found]


@pytest.fixture
async def walk(tmp_path: Path, request: pytest.FixtureRequest, fence: Fence) -> AsyncIterator[Walk]:
    """At the sign-in of a memory of the user ann. Fails without a browser, and if anything went wrong in it."""
    program = found()
    assert program is not None, "there is no Chromium: `make browser` gets one"
    options: dict[str, Any] = getattr(request, "param", {})
    settings = {"data_dir": tmp_path, "enable_fact_extraction": True, "enable_topics": True}
    async with contextlib.AsyncExitStack() as stack:
        looker = await stack.enter_async_context(looking(settings))
        await tell_of_walnuts(looker.service)
        playwright = await stack.enter_async_context(async_playwright())
        # Outside of the fence: a browser asks by itself whether there is a network. What pages ask for is in `wrong`.
        own = {name: value for name, value in os.environ.items() if name not in fence.environment()}
        browser = await playwright.chromium.launch(executable_path=program, args=SWITCHES, env=own)
        stack.push_async_callback(browser.close)
        context = await browser.new_context(**options)
        walk = Walk(looker, await context.new_page())
        yield walk
        assert walk.wrong == []
