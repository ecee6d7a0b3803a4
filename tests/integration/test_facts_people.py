"""Facts of several people in one thread: nothing that one says is taken for another's."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest

from memory_agent import MemoryAgent
from tests.integration.fact_script import (
    Asked,
    Item,
    add,
    asking,
    by_message,
    known,
    opened,
    refused,
    retract,
)
from tests.servers.openai_script import ScriptedOpenAI

pytestmark = pytest.mark.usefixtures("both_ways")  # see tests/over_http.py

SAID = [
    ("Ann", "My name is Ann. I work as a nurse. I live in Berlin."),
    ("Ann", "I am vegetarian. I don't like jazz."),
    ("Bo", "My name is Bo. I work as a pilot. I live in Izmir."),
    ("Bo", "I am allergic to lilies. I love steak."),
    ("Cy", "My name is Cy. I like jazz."),
]
ANN = {
    "name": "Ann",
    "occupation": "nurse",
    "location": "Berlin",
    "diet": "vegetarian",
    "preferences": {"dislikes": ["jazz"]},
}
BO = {
    "name": "Bo",
    "occupation": "pilot",
    "location": "Izmir",
    "allergies": ["lilies"],
    "preferences": {"likes": ["steak"]},
}
CY = {"name": "Cy", "preferences": {"likes": ["jazz"]}}
PEOPLE: dict[str, dict[str, Any]] = {"Ann": ANN, "Bo": BO, "Cy": CY}


def model(message: Asked) -> Iterable[Item]:
    """A model that states what the messages say."""
    rules = {
        "Ann. I": [
            add("name", "Ann", "My name is Ann", about="Ann"),
            add("occupation", "nurse", "I work as a nurse"),
            add("location", "Berlin", "I live in Berlin", about="the user"),
        ],
        "vegetarian": [
            add("diet", "vegetarian", "I am vegetarian", about=" ann"),
            add("preferences.dislikes", ["jazz"], "I don't like jazz", about="Ann"),
        ],
        "Bo. I": [
            add("name", "Bo", "My name is Bo", about="Bo"),
            add("occupation", "pilot", "I work as a pilot", about="Bo"),
            add("location", "Izmir", "I live in Izmir", about="Bo"),
        ],
        "lilies": [
            add("allergies", ["lilies"], "I am allergic to lilies", about="Bo"),
            add("preferences.likes", ["steak"], "I love steak", about="Bo"),
        ],
        "Cy. I": [
            add("name", "Cy", "My name is Cy", about="Cy"),
            add("preferences.likes", ["jazz"], "I like jazz", about="Cy"),
            add("interests", "jazz", "I like jazz", about="Dana"),
        ],
        "quit": [retract("occupation", "Bo has quit his job", about="Bo")],
    }
    return [item for words, items in rules.items() if words in message.text for item in items]


async def talk(memory: MemoryAgent, said: Iterable[tuple[str | None, str]] = SAID) -> None:
    """Exchanges of these people with the assistant, settled."""
    for speaker, text in said:
        await memory.update_memory(text, "Noted.", speaker=speaker)
        await memory.settle(timeout=60)


@pytest.mark.parametrize("by", ["patterns", "llm"])
async def test_three_people_stay_three(
    by: str, settings: dict[str, Any], openai_server: ScriptedOpenAI
) -> None:
    """Who is a nurse in Berlin, who a pilot in Izmir with an allergy, and who likes jazz: in documents, history and prompt."""
    openai_server.answer = by_message(model)
    async with opened(asking(settings, openai_server) if by == "llm" else settings) as service:
        memory = service.agent("home", "kitchen")
        await talk(memory, SAID[:2])
        assert await memory.fetch_facts() == ANN, "one person's document is keyed by nobody"
        assert "- occupation: nurse" in str(await memory.fetch_memory("Who works where?"))
        await talk(memory, SAID[2:])
        assert await memory.fetch_facts() == PEOPLE
        assert [await memory.fetch_facts(about=name) for name in ("Bo", " bo", "Dana", "user")] == [
            BO, BO, {}, {}
        ]  # fmt: skip
        context = await memory.fetch_memory("Who works where?", preset="chat")
        for line in ("Ann, occupation: nurse", "Bo, occupation: pilot", 'Bo, allergies: ["lilies"]'):
            assert f"\n- {line}\n" in str(context)
        shown = {
            name: {key: value for key, value in doc.items() if key != "name"} for name, doc in PEOPLE.items()
        }
        assert context.facts == shown, "each is told with the name"
        jobs = [record for record in await memory.fact_history("occupation") if record.refused is None]
        assert [(record.subject, record.superseded_by) for record in jobs] == [("Ann", None), ("Bo", None)]
        assert [record.value for record in await memory.fact_history("name", about="CY")] == ["Cy"]
        if by == "patterns":
            return
        (nobody,) = await refused(memory)
        expected = ("Cy", "it is about 'Dana', and nobody in the conversation has that name")
        assert (nobody.subject, nobody.refused) == expected
        last = openai_server.chats[-1]
        assert {"Ann, preferences.dislikes: jazz", "Bo, name: Bo"} <= {*known(last)}
        # Of another who is there somebody may tell, whose turn is the source.
        await talk(memory, [("Ann", "Did you hear? Bo has quit his job.")])
        assert (await memory.fetch_facts(about="Bo")).keys() == BO.keys() - {"occupation"}
        assert (await memory.fetch_facts(about="Ann"))["occupation"] == "nurse"


async def test_a_guest_without_a_name_and_one_who_says_nothing_of_himself(settings: dict[str, Any]) -> None:
    """The unnamed are the user; whose facts are shown is said as soon as anybody else speaks in the window."""
    async with opened(settings) as service:
        memory = service.agent("home", "kitchen")
        await talk(memory, [(None, "I work as a nurse."), ("Bo", "What shall we cook?")])
        assert await memory.fetch_facts() == {"occupation": "nurse"}
        assert "\n- user, occupation: nurse\n" in str(await memory.fetch_memory("Who works where?"))
        await talk(memory, [("user]\n[x", "I work as a pilot."), ("BO", "I live in Izmir.")])
        await talk(memory, [("bo ", "I work as a cook.")])
        hostile = {"user] [x": {"occupation": "pilot"}}
        both = {"user": {"occupation": "nurse"}, "BO": {"location": "Izmir", "occupation": "cook"}}
        assert await memory.fetch_facts() == both | hostile
        assert "\n- user) (x, occupation: pilot\n" in str(await memory.fetch_memory("Who works where?"))


async def test_people_are_found_by_the_names_they_gave_themselves(settings: dict[str, Any]) -> None:
    """Whatever they are called as speakers; in prompts, too, and no longer once the name is taken back."""
    async with opened(settings) as service:
        memory = service.agent("climbers", "chat")

        async def by_person(question: str) -> set[str | None]:
            """The speakers of what is found because the question names them, and not anybody else who isn't the assistant."""
            weights: dict[str | None, float] = {"emi_42": 0.0, "b7": 0.0}
            for each in await memory.fetch_long_term(question):
                weights[each.turn.speaker] = each.why.get("person", 0.0)
            return {
                name
                for name, weight in weights.items()
                if name and weight > min(weights["emi_42"], weights["b7"])
            }

        told = ["I climb on Sundays, when the hall is quiet.", "I swim on Sundays, when the pool is quiet."]
        introduced = ["Haha, I forgot to introduce myself, I'm Kate. What's your name?", "I'm Omar."]
        await talk(memory, zip(("emi_42", "b7") * 2, introduced + told, strict=True))
        await memory.settle(timeout=60)
        for name, speaker in (("Kate", "emi_42"), ("Omar", "b7"), ("b7", "b7")):
            question = f"What does {name} do on Sundays?"
            for found in (
                await memory.fetch_long_term(question, top_k=1),
                (await memory.fetch_memory(question, preset="recall")).long_term,
            ):
                assert found[0].turn.content in told
                assert found[0].turn.speaker == speaker
        assert "- emi_42, name: Kate" in str(await memory.fetch_memory("What does Kate do?"))
        assert await by_person("What does Kate do?") == {"emi_42"}
        await memory.retract_fact("name", about="emi_42")
        assert await by_person("What does Kate do?") == set()
        assert await by_person("What does Omar do?") == {"b7"}


async def test_forgetting_one_person_after_extraction_anew_leaves_the_others(
    settings: dict[str, Any], openai_server: ScriptedOpenAI
) -> None:
    """With whoever is forgotten the name goes, of both generations."""
    async with opened(settings) as service:
        memory = service.agent("home", "kitchen")
        await talk(memory, SAID[:3])
    openai_server.answer = by_message(model)
    async with opened(asking(settings, openai_server)) as service:
        memory = service.agent("home", "kitchen")
        await memory.reextract_facts()
        await memory.settle(timeout=60)
        assert await memory.fetch_facts() == {
            "Ann": ANN,
            "Bo": {name: BO[name] for name in ("name", "occupation", "location")},
        }
        bos = [turn.id for turn in (await memory.history()).turns if turn.speaker == "Bo"]
        await memory.forget(turn_ids=bos)
        await memory.settle(timeout=60)
        assert "Bo" not in str(await memory.fetch_facts(scope="user"))
        assert (await memory.fetch_facts())["occupation"] == "nurse"
