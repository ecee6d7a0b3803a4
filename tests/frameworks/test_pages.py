"""The programs of all pages as they stand, each in a process of its own."""

import re
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from tests.frameworks.gemini_script import ScriptedGemini
from tests.frameworks.pages import (
    DOCS,
    Reader,
    environment_with,
    program_of,
    sent_to,
)
from tests.servers.anthropic_script import ScriptedAnthropic
from tests.servers.loopback import Loopback
from tests.servers.ollama_script import ScriptedOllama
from tests.servers.openai_script import ScriptedOpenAI

FOOD = ["Ada eats no meat", "My sister Ida lives in Lisbon."]
PROGRAMS: list[tuple[str, int, list[Any], list[str]]] = [
    ("langgraph.md", 1, ["Noted."], ["Noted.", *FOOD]),
    ("openai-agents.md", 1, ["Noted."], ["Noted.", "2 items"]),
    ("pydantic-ai.md", 1, ["Noted."], ["Noted."]),
]
"""Of each the page, its block, what the model answers, and how what it prints begins."""


def started(stack: ExitStack, server: Loopback) -> Any:
    stack.callback(server.stop)
    return server.start()


def test_pages_name_the_releases_that_their_adapters_are_tested_with() -> None:
    told = "\n".join(page.read_text("utf-8") for page in DOCS.glob("*.md"))
    pinned = re.findall(
        r"^([a-z-]+)(?:\[\w+\])?==(\S+)",
        (DOCS.parent / "tests/frameworks/requirements.txt").read_text(),
        re.M,
    )
    unnamed = {name for name, version in pinned if f"{name} {version}" not in told}
    assert unnamed == {
        "langchain-openai",
        "llama-index-llms-ollama",
        "opentelemetry-exporter-otlp-proto-grpc",
    }


async def test_each_pages_program_runs_as_it_stands_and_the_next_process_recalls(
    tmp_path: Path, openai_server: ScriptedOpenAI
) -> None:
    with ExitStack() as stack:
        gemini: ScriptedGemini = started(stack, ScriptedGemini())
        ollama: ScriptedOllama = started(stack, ScriptedOllama("scripted", ["Noted."]))
        claude: ScriptedAnthropic = started(stack, ScriptedAnthropic())
        reader = Reader(tmp_path, environment_with(openai_server, tmp_path))
        reader.environment |= {"GOOGLE_GEMINI_BASE_URL": gemini.url, "GOOGLE_API_KEY": "none"}
        reader.environment |= {
            "OLLAMA_HOST": ollama.url,
            "ANTHROPIC_BASE_URL": claude.url,
            "ANTHROPIC_API_KEY": "none",
        }
        for page, number, replies, begins in PROGRAMS:
            openai_server.then(*replies)
            printed = await reader.runs(program_of(page, number))
            assert printed[: len(begins)] == begins, page
        asking = program_of("langgraph.md").replace(
            "My sister Ida lives in Lisbon.", "Where does my sister live?"
        )
        openai_server.then("In Lisbon.")
        assert await reader.runs(asking.replace('"family"}}', '"later"}}')) == ["In Lisbon.", *FOOD]
        assert "Lisbon" in sent_to(openai_server)[-1]
        gemini.then("Noted.")
        for page, model in (("adk.md", "gemini-2.5-flash"), ("llama-index.md", "scripted")):
            reader.environment["CHAT_MODEL"] = model
            assert await reader.runs(program_of(page)) == ["Noted."], page
        where = {"path": "/memories/trip.md"}
        claude.script_of({"command": "create", **where, "file_text": "Porto Covo in June"}, "Noted.")
        assert (await reader.runs(program_of("anthropic.md")))[0] == "Noted."
        claude.script_of({"command": "view", **where}, "Porto Covo.")
        assert (await reader.runs(program_of("anthropic.md")))[0] == "Porto Covo."
        ((note, failed),) = claude.results
        assert (note.splitlines()[1], failed) == ("     1\tPorto Covo in June", False)
