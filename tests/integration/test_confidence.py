"""Questions that share no word with what answers them, and how sure of an answer a search is."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from memory_agent import MemoryAgent, MemoryConfig, MemoryService, TurnInput
from memory_agent.models.local.embedder import LocalEmbedder
from memory_agent.text.terms import count_terms

ANSWERED: dict[str, str] = {
    "How do I get to work?": "I take the number 7 tram every morning at 8.",
    "What can't I eat?": "Walnuts make my throat swell up, so I stay away from them.",
    "Do I have any pets?": "Our tabby Miso has been asleep on the radiator since noon.",
    "Where is my home?": "We moved into a flat on Garden Street in Leeds last autumn.",
    "What is my job?": "I've been a nurse on the children's ward for six years now.",
    "Which sports do I like?": "On Tuesdays I swim forty lengths, and on Sundays there's tennis with Ravi.",
    "Do I make music?": "I practise the cello for half an hour before dinner.",
    "How old am I?": "I turned thirty-four on the third of May.",
    "Which car is mine?": "The Volvo needed new brakes again, that's the third bill this year.",
    "Who am I married to?": "My husband Tomas burnt the pancakes this morning.",
    "Why am I always so tired?": "The dog next door barks until two every night and I can't sleep.",
    "Where did I go on holiday?": "In June we spent ten days in a cabin by the sea near Porto Covo.",
}
OTHERS = (
    "Could you help me word a letter to the council about the bins?",
    "The second paragraph sounds too angry, please soften it.",
    "I've ordered a green lamp for the hallway, it should come on Friday.",
    "Remind me that the library books are due next week.",
    "My sister is expecting twins, everybody is over the moon.",
    "The washing machine makes a grinding noise when it spins.",
    "I watched a documentary about octopuses yesterday, they are so clever.",
    "Is it too late in the year to plant tulips?",
    "I finally finished the thriller you recommended, the ending was silly.",
    "We painted the kitchen yellow and regret it a little.",
    "What's the difference between baking powder and baking soda?",
    "My phone's battery is empty by noon these days.",
    "Grandma taught me to knit when I was seven.",
    "The tomatoes on the balcony are ripe at last.",
    "I'm learning Portuguese, the nasal vowels are hard.",
    "Ravi still owes me twenty pounds from the concert.",
    "Our internet was down the whole afternoon.",
    "I put the passports into the blue folder on the top shelf.",
    "The plumber comes on Thursday between nine and eleven.",
    "I gave a short speech at Ana's farewell, my knees were shaking.",
    "Half the budget is gone and the bathroom isn't even started.",
    "I dreamt about missing an exam again.",
    "The museum was closed, so we had cake instead.",
    "Somebody scratched the front door with a key.",
    "I voted early because the queue is usually long.",
    "The dentist says the wisdom tooth can stay for now.",
    "My umbrella is still in the cinema, I think.",
    "We named the sourdough starter Gerald.",
)
REPLIES = (
    "Of course, here is a draft that you can change as you like.",
    "Done. I kept the facts and made the tone friendlier.",
    "Good to hear! Anything else for today?",
    "That sounds exhausting. Would earplugs be an option?",
    "I'd check the drum bearing first, it is the usual cause.",
    "Plant them before the ground freezes, November is fine.",
    "Soda needs something sour to work, powder brings its own.",
    "Congratulations to all of you!",
)


@pytest.fixture
async def service(
    embedded_settings: dict[str, Any], shared_embedder: LocalEmbedder
) -> AsyncIterator[MemoryService]:
    async with MemoryService(MemoryConfig(**embedded_settings), embedder=shared_embedder) as opened:
        yield opened


async def places_of(memory: MemoryAgent, answered: dict[str, str]) -> dict[str, int | None]:
    """Where among the first five results each question's answer is, which shares no word with it."""
    places = {}
    for question, answer in answered.items():
        assert not count_terms(question).keys() & count_terms(answer).keys(), question
        texts = [one.text for one in await memory.fetch_long_term(question)]
        assert len(texts) == 5
        places[question] = texts.index(answer) + 1 if answer in texts else None
    return places


async def test_twelve_questions_are_answered_among_four_times_as_many_turns(service: MemoryService) -> None:
    """The way to work is asked for with another word: "get to work" has a cosine of 0.13 with the tram, ten others more."""
    memory = service.agent("ada", "chat")
    said = [text for pair in zip(ANSWERED.values(), OTHERS, strict=False) for text in pair]
    said += OTHERS[len(ANSWERED) :]
    await memory.add_turns([TurnInput(role="user", content=text) for text in said])
    await memory.add_turns([TurnInput(role="assistant", content=text) for text in REPLIES])
    await memory.settle()
    assert (await memory.status()).turns == 48
    tram, *others = ANSWERED.items()
    places = await places_of(memory, {"Which transport do I use to commute?": tram[1], **dict(others)})
    # "Do I have any pets?" is the one: "tabby" is nearer to a neighbour's dog than to what a pet is.
    assert [question for question, place in places.items() if place is None] in ([], ["Do I have any pets?"])
    assert "Our tabby Miso" in " ".join(
        one.text for one in await memory.fetch_long_term("Do I have any pets?", top_k=8)
    )


async def test_a_shared_word_alone_makes_nobody_sure(service: MemoryService) -> None:
    """The cat's name has a word of the question and the best score, but a low confidence; a real answer has a higher."""
    memory = service.agent("ada", "pets")
    await memory.add_user_message("The cat's name is Tom.")
    await memory.settle()
    (cat,) = await memory.fetch_long_term("What is the name of my dentist?")
    (tom,) = await memory.fetch_long_term("What is the cat called?")
    assert cat.confidence < 0.3 < tom.confidence
    assert 0 <= cat.confidence <= 1


async def test_a_question_that_nothing_answers_has_no_confident_result(service: MemoryService) -> None:
    memory = service.agent("ada", "chat")
    await memory.add_turns([TurnInput(role="user", content=text) for text in (*ANSWERED.values(), *OTHERS)])
    await memory.settle()
    unknown = (
        "Which chess opening did the champion choose?",
        "How high is the interest rate of the mortgage?",
        "What did the marine biologist publish about plankton?",
    )
    for question in unknown:
        found = await memory.fetch_long_term(question)
        assert len(found) == 5, "what ranks is shown all the same"
        # The marine biologist comes near a documentary about octopuses.
        assert max(one.confidence for one in found) < 0.1
    answered = await memory.fetch_long_term("Which instrument is it that I practise?")
    assert answered[0].text == ANSWERED["Do I make music?"]
    assert answered[0].confidence > 0.4


async def test_min_similarity_holds_for_every_result_once_it_is_set(
    embedded_settings: dict[str, Any], shared_embedder: LocalEmbedder
) -> None:
    """Words or not; and what has no vector yet has no cosine that could be high enough."""
    async with MemoryService(
        MemoryConfig(**embedded_settings, min_similarity=0.35), embedder=shared_embedder
    ) as service:
        memory = service.agent("ada", "chat")
        await memory.add_turns(
            [TurnInput(role="user", content=text) for text in (*ANSWERED.values(), *OTHERS)]
        )
        await memory.settle()
        found = await memory.fetch_long_term("Did I practise the cello?", top_k=40)
        assert 1 <= len(found) < 40
        assert all(one.similarity is not None and one.similarity >= 0.35 for one in found)
    async with MemoryService(
        MemoryConfig(**embedded_settings, run_worker=False), embedder=shared_embedder
    ) as service:
        memory = service.agent("ada", "chat")
        assert len(await memory.fetch_long_term("Did I practise the cello?", top_k=40)) == 40
        await memory.add_user_message("The cello is at the repair shop.")
        (fresh,) = (one for one in await memory.fetch_long_term("the cello", top_k=2) if "repair" in one.text)
        assert fresh.similarity is None
        assert fresh.confidence > 0.3
    settings = {**embedded_settings, "run_worker": False, "min_similarity": 0.35}
    async with MemoryService(MemoryConfig(**settings), embedder=shared_embedder) as service:
        found = await service.agent("ada", "chat").fetch_long_term("the cello", top_k=40)
        assert "The cello is at the repair shop." not in [one.text for one in found]
