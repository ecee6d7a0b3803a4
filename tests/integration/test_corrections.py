"""What holds now: two chats of forty exchanges with moves, corrections, answers and a Korean passage.

`chats/moving.toml` was there while the rules were made, `chats/launch.toml` was written before and looked at after.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import AsyncIterator, Iterator
from datetime import UTC, datetime, time, timedelta
from pathlib import Path
from typing import Any

import pytest

from memory_agent import MemoryAgent, MemoryConfig, MemoryService, TurnInput
from memory_agent.models.local.embedder import LocalEmbedder

CHATS = Path(__file__).parent / "chats"
ANSWERED = re.compile(r"^assistant \(to “[^”]*”\)", re.MULTILINE)


def turns_of(chat: dict[str, Any]) -> Iterator[TurnInput]:
    """The turns of a chat, a minute apart from nine o'clock on."""
    for day in chat["day"]:
        start = datetime.combine(day["date"], time(9), UTC)
        for number, (who, text) in enumerate(day["said"]):
            is_named = who not in ("user", "assistant")
            yield TurnInput(
                role="user" if is_named else who,
                speaker=who if is_named else None,
                content=text,
                timestamp=start + timedelta(minutes=number),
            )


@pytest.fixture
async def memory(
    embedded_settings: dict[str, Any], shared_embedder: LocalEmbedder
) -> AsyncIterator[MemoryAgent]:
    async with MemoryService(MemoryConfig(**embedded_settings), embedder=shared_embedder) as service:
        yield service.agent("mina", "chat")


@pytest.mark.nightly  # by day the two tests below, and those of unit/search
@pytest.mark.parametrize(
    ("name", "stale"),
    [
        # A landlord is said to have written "the deposit is only 1,550 now", and the earlier turn speaks of none.
        ("moving", {"3,100 as a deposit"}),
        # Replaced by "is a warm orange rather than moss", "took OVH for 510", "forget my earlier figure" and "expect ninety".
        ("launch", {"is a dark green", "Hetzner would be 420", "did 350 bookings", "sixty guests"}),
    ],
)
async def test_fourteen_of_fifteen_answers_are_in_the_prompt_and_what_they_replace_is_marked(
    memory: MemoryAgent, name: str, stale: set[str]
) -> None:
    """In a thousand tokens of some five thousand. `stale`: what is not known to be replaced.

    What an answer's line quotes of the turn that it answers is no line of that turn.
    """
    chat = tomllib.loads((CHATS / f"{name}.toml").read_text(encoding="utf-8"))
    await memory.add_turns(list(turns_of(chat)))
    await memory.settle()
    missed, unmarked = [], set()
    for question in chat["question"]:
        prompt = str(await memory.fetch_memory(question["asks"], max_tokens=1_000, price="thorough"))
        if question["answer"] not in prompt:
            missed.append(question["asks"])
        outdated = question.get("outdated", "\0")
        lines = [line for line in ANSWERED.sub("", prompt).splitlines() if outdated in line]
        unmarked |= {outdated for line in lines if "(replaced on " not in line}
    assert len(chat["question"]) == 15
    assert len(missed) <= 1, missed
    assert unmarked == stale


async def test_the_earlier_result_names_the_later_which_stands_right_before_it(memory: MemoryAgent) -> None:
    """Each is replaced by the next, and by nothing that another speaker said."""
    start = datetime(2026, 5, 1, 9, tzinfo=UTC)
    said = [
        "The van for the move is booked for Tuesday 12 May.",
        "My sister plays the cello in a quartet.",
        "They pushed the van to Thursday 14 May.",
        "The garden is full of weeds again.",
        "The van was moved again to Friday 15 May.",
    ]
    turns = await memory.add_turns(
        [
            TurnInput(role="user", content=text, timestamp=start + timedelta(hours=number))
            for number, text in enumerate(said)
        ]
    )
    await memory.add_turn(
        "user",
        "Wait, the van was moved to Monday 18 May.",
        speaker="Ben",
        timestamp=start + timedelta(hours=9),
    )
    await memory.settle()
    found = await memory.fetch_long_term("When does the van for the move come?", top_k=6)
    by_id = {one.turn.id: one for one in found}
    first, _, second, _, third = (by_id[turn.id] for turn in turns)
    assert [one.replaced_by for one in (first, second, third)] == [second.turn.id, third.turn.id, None]
    order = [one.turn.id for one in found]
    assert order.index(third.turn.id) < order.index(second.turn.id) < order.index(first.turn.id)


BETWEEN = (
    "The sun was out today.",
    "Nice soup for lunch.",
    "The tram was late.",
    "My back hurts a bit.",
    "Rain again.",
)


@pytest.mark.parametrize(("kind", "least"), [("corrections", 34), ("before", 13), ("no_corrections", 18)])
async def test_a_correction_comes_first_for_a_question_about_now_and_last_for_one_about_before(
    embedded_settings: dict[str, Any], shared_embedder: LocalEmbedder, kind: str, least: int
) -> None:
    """Of forty pairs, fifteen and twenty; each with five other turns between, and a user of its own."""
    pairs = tomllib.loads((CHATS / "corrections.toml").read_text(encoding="utf-8"))[kind]
    start = datetime(2026, 3, 2, 9, tzinfo=UTC)
    wrong = []
    async with MemoryService(MemoryConfig(**embedded_settings), embedder=shared_embedder) as service:
        for number, (earlier, later, asks) in enumerate(pairs):
            memory = service.agent(f"user {number}", "chat")
            said = enumerate((earlier, *BETWEEN, later))
            turns = [
                TurnInput(role="user", content=text, timestamp=start + timedelta(days=day))
                for day, text in said
            ]
            await memory.add_turns(turns)
            await memory.settle()
            found = await memory.fetch_long_term(asks, top_k=7, now=start + timedelta(days=20))
            order = [one.turn.content for one in found]
            marked = found[order.index(earlier)].replaced_by is not None
            is_before = order.index(earlier) < order.index(later)
            right = {
                "corrections": marked and not is_before,
                "before": is_before,
                "no_corrections": not marked,
            }
            if not right[kind]:
                wrong.append(earlier)
    assert len(pairs) - len(wrong) >= least, wrong
