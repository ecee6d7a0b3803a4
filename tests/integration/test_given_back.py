"""Prompts that a caller remembers come back neither as recollections nor inside the next prompt, and are kept as they came."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from memory_agent.domain import RECALLED, REMARK
from tests.integration.conversations import START, opened, said

pytestmark = pytest.mark.usefixtures("both_ways")  # see tests/over_http.py

ASKED = "Where do I keep bees?"


async def test_a_prompt_given_back_is_kept_and_shown_nowhere(embedded_settings: dict[str, Any]) -> None:
    """From whomever, of whichever memory; what was said around it is found as ever."""
    async with opened(embedded_settings) as service:
        memory, other = service.agent("ann", "chat"), service.agent("bo", "chat")
        await other.update_memory("My cat Tom sleeps in the LANEIGE box.", "Cute.", timestamp=START)
        await memory.update_memory("I keep bees behind the barn.", "Nice.", timestamp=START)
        await service.settle(60)
        prompt, of_bo = str(await memory.fetch_memory(ASKED)), str(await other.fetch_memory("Where is Tom?"))
        given = [
            ("system", prompt),
            ("user", f"```\n{prompt}\n```\n\nAre the bees well?"),
            ("assistant", "> " + prompt.replace("\n", "\n> ") + "\n\nThey hum."),
            ("user", of_bo),
            ("user", f"{prompt[: -len(prompt) // 4]}\n\nDo the bees sting?"),
        ]
        for minute, (role, text) in enumerate(given):
            await memory.add_turn(role, text, timestamp=START + timedelta(hours=1, minutes=minute))  # type: ignore[arg-type]
        recent = await memory.fetch_memory("And now?")
        assert str(recent).count(REMARK) == 1
        assert f"{RECALLED} Are the bees well?" in str(recent)
        assert f"{RECALLED} Do the bees sting?" in str(recent)
        assert "&lt;memory" not in str(recent)
        assert "Tom" not in str(recent)
        await memory.add_turns(said([f"Line {n}." for n in range(12)], start=START + timedelta(days=1)))
        await memory.settle(60)
        later = str(await memory.fetch_memory(ASKED))
        assert later.count(REMARK) == 1
        assert "&lt;memory" not in later
        assert [turn.content for turn in (await memory.history(after=2, limit=5)).turns] == [
            text for _, text in given
        ]
        found = await memory.fetch_long_term(ASKED, 50)
        texts = [one.text for one in found]
        assert RECALLED not in texts, "a turn that is nothing else"
        assert f"{RECALLED} They hum." in texts
        assert not [one for one in await memory.fetch_long_term("Tom's LANEIGE box", 50) if "Tom" in one.text]
        assert await memory.entities() == []
