"""Messages that go on with a conversation, through fetch_memory with MiniLM: what they go back to is found.

Five subjects on five days, of which each message goes on with one.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import pytest

from memory_agent import MemoryAgent, MemoryConfig, MemoryService
from memory_agent.models.local.embedder import LocalEmbedder

FIRST: Final = datetime(2026, 3, 2, 9, tzinfo=UTC)
DAYS: Final = (
    (
        "I want four nights in Lisbon in June, with a terrace if that can be had.",
        "Casa Alegria in Alfama is 95 euros with breakfast; Pensao Sol near Rossio is 70 and has a roof terrace.",
        "Breakfast matters less to me than the terrace. Do both take dogs?",
        "Pensao Sol does, for ten euros a night. Casa Alegria does not.",
    ),
    (
        "My novel needs another beginning, the first chapter drags.",
        "You could open with the letter that Marta burns, and bring in the harbour later.",
        "Good, the letter opens it, and chapter two stays with Marta in the lighthouse until the storm.",
        "Then chapter three can follow her brother Ilja to the shipyard, as you sketched it.",
    ),
    (
        "My sourdough stays flat, though I feed the starter each morning.",
        "It may be too cold in your kitchen. Try 26 degrees and a dough of 70 percent water.",
        "I only have an oven lamp for that. I'll note: lamp on, six hours, fold it three times.",
        "That is a good plan; look at the volume rather than at the clock.",
    ),
    (
        "The app that I write for our choir stores rehearsals in a table named rehearsal_dates.",
        "Add a column for the room, and an index on the date, for it is what you sort by.",
        "I chose SQLite for it, since there are only forty singers.",
        "That suffices. Keep the migrations in one file.",
    ),
    (
        "On 20 March I have my driving test, and I stall at hills.",
        "Practise with the handbrake: let the clutch come until the bonnet rises, then release it.",
        "My teacher Mr Osei says the same. He has a free hour on Thursday.",
        "Take it, and go up Castle Street with him.",
    ),
)


@pytest.fixture
async def memory(
    embedded_settings: dict[str, Any], shared_embedder: LocalEmbedder
) -> AsyncIterator[MemoryAgent]:
    cfg = MemoryConfig(**embedded_settings, short_term_window=2)
    async with MemoryService(cfg, embedder=shared_embedder) as service:
        memory = service.agent("rosa", "chat")
        for day, said in enumerate(DAYS):
            await memory.add_turns(
                [
                    {
                        "role": ("user", "assistant")[number % 2],
                        "content": text,
                        "timestamp": FIRST + timedelta(days=3 * day, minutes=number),
                    }
                    for number, text in enumerate(said)
                ]
            )
        await memory.settle()
        yield memory


async def days_found(memory: MemoryAgent, message: str) -> list[int]:
    """The days of what fetch_memory recalls first, without the last exchange."""
    context = await memory.fetch_memory(message, max_tokens=400)
    day_of = {text: day for day, said in enumerate(DAYS) for text in said}
    return [day_of[found.text] for found in context.long_term if found.text in day_of][:4]


@pytest.mark.parametrize(
    ("before", "message", "day"),
    [
        ("Which of the two places in Lisbon would you book?", "Ok, the second one then.", 0),
        ("I have an hour for the novel and its chapters now.", "Thanks, and which one was next?", 1),
        ("I bake sourdough bread again today.", "Hmm, how did it go again?", 2),
        ("Did we settle the place in Lisbon?", "Which of these is cheaper?", 0),
    ],
)
async def test_a_message_of_few_words_is_understood_by_what_was_said_before_it(
    memory: MemoryAgent, before: str, message: str, day: int
) -> None:
    """The subject of the user's last turn is recalled, also where the message was stored before it is asked."""
    await memory.update_memory(before, "Gladly.")
    assert (await days_found(memory, message))[0] == day
    await memory.add_user_message(message)
    assert (await days_found(memory, message))[0] == day


async def test_a_time_in_a_message_is_not_when_something_was_said(memory: MemoryAgent) -> None:
    """A question for a day recalls what was said on it; a message that names the day is about its own subject."""
    message = "My driving test is on 5 March now, which leaves me nervous, can you help me with the hills?"
    assert (await days_found(memory, message))[0] == 4
    assert (await days_found(memory, "What was I busy with on 5 March?")).count(1) >= 2
