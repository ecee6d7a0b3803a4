"""How a context shows what was recalled: by day, in the order in which it was said, short answers with their question."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

from tests.integration.conversations import START, opened

if TYPE_CHECKING:
    from memory_agent import MemoryAgent

TALK = (
    ("Ines", "Do you have a dog at home, Bo?"),
    ("Bo", "Yes, two."),
    ("Bo", "Small ones."),
    ("Ines", "My dog ate the cake."),
)


async def talk(memory: MemoryAgent) -> None:
    for day, (speaker, text) in enumerate(TALK):
        at = START + timedelta(days=day // 3, minutes=day)
        await memory.add_turn("user", text, speaker=speaker, timestamp=at)
    await memory.settle(timeout=60)


async def test_recollections_stand_under_their_days_in_the_order_in_which_they_were_said(
    embedded_settings: dict[str, Any],
) -> None:
    """Whatever their rank is; `recall` has nothing of the window."""
    async with opened(embedded_settings) as service:
        memory = service.agent("ines", "friends")
        await talk(memory)
        context = await memory.fetch_memory("Which dog ate what?", preset="recall")
        assert context.short_term == ()
        lines = [
            line.shown() for block in context.blocks if block.tier == "long_term" for line in block.lines
        ]
        days = [START, START + timedelta(days=1)]
        heads = [f"[{day:%Y-%m-%d} UTC]" for day in days]
        assert [lines.index(head) for head in heads] == [0, 4]
        spoken = [line.split(":")[0].split(" (")[0] for line in lines if line not in heads]
        assert spoken == ["Ines", "Bo", "Bo", "Ines"]
        assert {found.turn.content for found in context.long_term} == {text for _, text in TALK}


async def test_a_short_answer_quotes_what_another_said_if_that_is_not_recalled_before_it(
    embedded_settings: dict[str, Any],
) -> None:
    """Never what the same person said."""
    async with opened(embedded_settings) as service:
        memory = service.agent("ines", "friends")
        await talk(memory)
        weights = {"person": 100.0}
        assert "Bo: Yes, two." in str(await memory.fetch_memory("Has Ines a dog at home?", preset="recall"))
    async with opened(embedded_settings, search_weights=weights) as service:
        memory = service.agent("ines", "friends")
        shown = str(await memory.fetch_memory("What did Bo say?", preset="recall"))
        assert "Bo (to “Do you have a dog at home, Bo?”): Yes, two." in shown
        assert "Bo: Small ones." in shown
