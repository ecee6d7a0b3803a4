"""S2, Memory System: facts, as a language model or the built-in patterns take them out of a conversation."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest
import pytest_asyncio

from memory_agent import MemoryService
from tests.documents.conftest import Servers
from tests.documents.frame import says
from tests.integration.fact_script import add, by_words, prompt
from tests.servers.openai_script import ScriptedOpenAI

JOHN = "I'm John, I work as a software engineer. I prefer morning meetings."
SARAH = (
    "I'm Sarah, a data scientist working on ML projects. "
    "I prefer async communication and am based in PST timezone."
)
CATEGORIES = (
    "Please keep your answers concise. I'm keen on AI, Python and Machine Learning. I want to run a marathon. "
    "I'm only free after 6 pm. My timezone is America/New_York."
)


@pytest.fixture(scope="module")
def model() -> Iterator[ScriptedOpenAI]:
    """GPT-4o-mini's place: a server of the OpenAI API that states what the messages of the document say."""
    server = ScriptedOpenAI(
        by_words(
            {
                "Sarah": [
                    add("name", "Sarah", "I'm Sarah"),
                    add("occupation", "Data Scientist", "a data scientist"),
                    add("location", "PST timezone", "based in PST timezone"),
                    add("preferences.communication_style", "async", "I prefer async communication"),
                    add("preferences.work_focus", "ML projects", "working on ML projects"),
                ],
                "marathon": [
                    add("preferences.communication_style", "concise", "keep your answers concise"),
                    *(
                        add("interests", one, "I'm keen on AI, Python and Machine Learning")
                        for one in ("AI", "Python", "Machine Learning")
                    ),
                    add("goals", "run a marathon", "I want to run a marathon"),
                    add("constraints", "only after 6 pm", "I'm only free after 6 pm"),
                    add("timezone", "America/New_York", "My timezone is America/New_York"),
                ],
                "coffee": [
                    add("name", "John", "My name is John"),
                    add("preferences.drink", "coffee", "I prefer coffee"),
                ],
                "Lisbon": [add("location", "Atlantis", "I moved to Atlantis")],
            }
        )
    ).start()
    yield server
    server.stop()


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def reading(servers: Servers, model: ScriptedOpenAI) -> AsyncIterator[MemoryService]:
    """A service whose facts come from that model, on a database where no other worker reads turns."""
    name = f"{servers.cfg.db_name}_facts"
    asking = {"openai_base_url": model.base_url, "openai_api_key": "sk-test", "db_name": name}
    async with servers.another(**asking, enable_topics=False, enable_compression=False) as service:
        yield service
    servers.database.client.drop_database(name)


async def told(service: MemoryService, user: str, *texts: str) -> dict[str, Any]:
    """What is known of the user after these messages."""
    memory = service.agent(user, "t")
    for text in texts:
        await memory.update_memory(text, "Thanks for sharing! I'll keep that in mind.")
    await memory.settle()
    facts: dict[str, Any] = await memory.fetch_facts()
    return facts


@says(
    "S2",
    "**Extract and store user facts**",
    "Facts->>Mongo: Update user_facts",
    "**GPT-4 extracted** from conversations",
)
@says(
    "S2",
    "**Automatic fact extraction** - GPT-4",
    "**Powered by:** GPT-4o-mini",
    "GPT --> Parse[Parse JSON<br/>Response]",
)
@says("S2", 'GPT4-->>MemAgent: {name: "John", preference: "coffee"}', "def fetch_facts() -> Dict[str, Any]:")
async def test_the_model_of_the_document_is_asked_and_its_facts_lie_in_mongodb(
    servers: Servers, reading: MemoryService, model: ScriptedOpenAI
) -> None:
    expected = {"name": "John", "preferences": {"drink": "coffee"}}
    assert await told(reading, "coffee", "My name is John and I prefer coffee.") == expected
    stored = servers.database.client[reading.cfg.db_name].facts.find_one({"user_id": "coffee"})
    assert stored is not None
    assert stored["facts"] == expected
    assert {chat["model"] for chat in model.chats} == {"gpt-4o-mini"}
    assert {chat["response_format"]["type"] for chat in model.chats} == {"json_schema"}


@says(
    "S2",
    "User: \"I'm Sarah, a data scientist",
    '"occupation": "Data Scientist",',
    '"location": "PST timezone",',
)
@says("S2", '"communication_style": "async",', '"work_focus": "ML projects"')
async def test_sarah_is_read_as_in_the_example(reading: MemoryService) -> None:
    facts = await told(reading, "sarah", SARAH)
    assert facts.pop("occupation").lower() == "data scientist"
    assert facts == {
        "name": "Sarah",
        "location": "PST timezone",
        "timezone": "PST",
        "preferences": {"communication_style": "async", "work_focus": "ML projects"},
    }


@says("S2", '"communication_style": "concise",', '"interests": ["AI", "Python", "Machine Learning"]')
@says("S2", '"timezone": "America/New_York"', better="s2-timezone")
@says("S2", "- Personal info (name, occupation", "- Preferences (communication style", "- Interests (hobbies")
@says("S2", "- Goals (short-term, long-term)", "- Constraints (availability, limitations, requirements)")
async def test_each_category_has_its_place(reading: MemoryService) -> None:
    assert await told(reading, "categories", CATEGORIES) == {
        "preferences": {"communication_style": "concise"},
        "interests": ["AI", "Python", "Machine Learning"],
        "goals": ["run a marathon"],
        "constraints": ["only free after 6 pm"],
        "timezone": "America/New_York",
    }


@says(
    "S2",
    'User: "I\'m John, I work as a software engineer. I prefer morning meetings."',
    "**Trigger:** After each",
)
async def test_john_is_read_without_any_model(service: MemoryService) -> None:
    assert await told(service, "john", JOHN) == {
        "name": "John",
        "occupation": "software engineer",
        "preferences": {"meeting_time": "morning"},
    }


@says(
    "S2",
    "merged = deep_merge(existing['facts'], new_facts)",
    "Filter -->|Yes| Merge[Merge with<br/>Existing]",
)
@says("S2", "NewFacts -->|Yes| Upsert[Upsert to MongoDB", "**Automatically updated** as new info learned")
async def test_new_facts_are_merged_with_what_is_known_and_replace_what_has_changed(
    service: MemoryService,
) -> None:
    facts = await told(
        service,
        "merging",
        JOHN,
        "I'm allergic to peanuts.",
        "I work as a product manager now.",
        "I live in Oslo.",
    )
    assert facts["preferences"] == {"meeting_time": "morning"}
    assert (facts["name"], facts["occupation"], facts["location"]) == ("John", "product manager", "Oslo")
    assert facts["allergies"] == ["peanuts"]


@says("S2", "NewFacts -->|No| Done", "Filter -->|No| Skip[Skip Update]")
async def test_a_turn_without_facts_changes_nothing(servers: Servers) -> None:
    await told(servers.service, "unchanged", JOHN)
    before = servers.database.facts.find_one({"user_id": "unchanged"})
    assert before is not None
    await told(servers.service, "unchanged", "What's the weather?", "Thanks, good night!")
    assert servers.database.facts.find_one({"user_id": "unchanged"}) == before
    await told(servers.service, "silent", "Thanks, good night!")
    assert servers.database.facts.find_one({"user_id": "silent"}) is None


@says(
    "S2", "Analyze this conversation and extract any factual information about the user.", better="s2-quotes"
)
@says(
    "S2",
    "Only include facts explicitly stated or clearly implied. Return {} if no facts found.",
    better="s2-quotes",
)
async def test_what_the_model_says_without_words_of_the_user_is_refused(
    reading: MemoryService, model: ScriptedOpenAI
) -> None:
    assert await told(reading, "quoted", "Lisbon is so lovely in May. I work as a nurse.") == {
        "occupation": "nurse"
    }
    (refused,) = [one for one in await reading.agent("quoted", "t").fact_history() if one.refused is not None]
    assert (refused.path, refused.value) == (("location",), "Atlantis")
    assert "Lisbon is so lovely" in prompt(model.chats[-1])


@says("S2", "**Use case:** Personalization, preferences", "Personalization important")
async def test_an_answer_can_be_made_to_measure(service: MemoryService) -> None:
    await told(service, "measured", JOHN)
    context = await service.agent("measured", "another day").fetch_memory("When shall we meet?")
    assert "preferences.meeting_time: morning" in str(context)
