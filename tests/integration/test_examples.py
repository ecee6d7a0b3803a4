"""The examples run as they are and do what they say."""

from __future__ import annotations

import asyncio
import os
from contextlib import AsyncExitStack
from datetime import UTC, datetime, timedelta
from pathlib import Path

from memory_agent import MemoryConfig, MemoryService
from memory_agent.cli.opening import share
from tests.servers.forks import forks
from tests.servers.ollama_script import ScriptedOllama
from tests.servers.openai_script import Reply, ScriptedOpenAI

EXAMPLES = Path(__file__).parents[2] / "examples"


def run(program: str, *arguments: str, folder: Path, code: int = 0, **settings: str) -> str:
    """What it prints; on standard error if it ends with another code than 0."""
    environment = {k: v for k, v in os.environ.items() if not k.upper().startswith("MEMORY_AGENT_")}
    words = [str(EXAMPLES / program), *arguments]
    source = f"import runpy, sys\nsys.argv = {words!r}\nrunpy.run_path(sys.argv[0], run_name='__main__')\n"
    environment = {**environment, "HF_HUB_OFFLINE": "1", **settings}
    finished = forks().run(["-"], stdin=source, cwd=folder, env=environment, timeout=120)
    assert finished.returncode == code, finished.stderr
    return finished.stderr if code else finished.stdout


def test_every_example_is_tested_here() -> None:
    tested = (
        Path(__file__).read_text("utf-8") + '"open_webui_filter.py"'
    )  # in integrations/test_open_webui.py
    assert [file.name for file in EXAMPLES.glob("*.py") if f'"{file.name}"' not in tested] == []


def test_quickstart_finds_what_it_remembered(tmp_path: Path) -> None:
    said = run("quickstart.py", str(tmp_path), folder=tmp_path)
    assert "Porto Covo" in said
    assert "walnuts" in said


def test_first_program_of_the_readme_has_twenty_lines() -> None:
    """That they work is shown by test_docs."""
    readme = (EXAMPLES.parent / "README.md").read_text(encoding="utf-8")
    program = readme.split("```python\n")[1].split("```")[0]
    assert len([line for line in program.splitlines() if line.strip()]) <= 20


def test_agent_loop_goes_on_without_a_model(tmp_path: Path) -> None:
    said = run("agent_loop.py", "Hello, my name is Ada.", "What is my name?", folder=tmp_path)
    assert said.count("no model configured") == 2


def test_agent_loop_stores_what_was_said_while_the_model_is_down(
    tmp_path: Path, openai_server: ScriptedOpenAI
) -> None:
    """The answer is missing and the loop goes on; the next question finds what was said."""
    down = Reply(status=404, text="no such model")
    openai_server.answer = lambda body: (
        down if "walnuts" in body["messages"][-1]["content"] else Reply(text="Noted.")
    )
    said = run(
        "agent_loop.py",
        "I can't eat walnuts.",
        "What should I buy?",
        folder=tmp_path,
        MEMORY_AGENT_OPENAI_BASE_URL=openai_server.base_url,
        MEMORY_AGENT_ENABLE_FACT_EXTRACTION="false",
    )
    assert "what you said is remembered: the model's server answered 404: no such model" in said
    assert "assistant: Noted." in said
    second = next(body for body in openai_server.chats if "buy" in body["messages"][-1]["content"])
    assert "I can't eat walnuts." in second["messages"][0]["content"]


def test_a_chat_with_ollama_remembers_in_the_next_process(tmp_path: Path) -> None:
    """What its model says in pieces is shown and remembered whole; a model that it has not is named."""
    server = ScriptedOllama("tiny", ["Noted, no walnuts.", "Hazelnuts are fine."]).start()
    try:
        where = ("--url", server.url, "--model", "tiny")
        assert (
            run("ollama_chat.py", *where, "I can't eat walnuts.", folder=tmp_path) == "Noted, no walnuts.\n"
        )
        assert "Hazelnuts are fine." in run(
            "ollama_chat.py", *where, "Which nuts may I eat?", folder=tmp_path
        )
        remembered, asked = server.chats[1]["messages"]
        assert "user: I can't eat walnuts.\nassistant: Noted, no walnuts." in remembered["content"]
        assert asked == {"role": "user", "content": "Which nuts may I eat?"}
        refused = run(
            "ollama_chat.py", "--url", server.url, "--model", "big", "Hello?", folder=tmp_path, code=1
        )
        assert "model 'big' not found; get the model with `ollama pull big`" in refused
    finally:
        server.stop()
    away = run("ollama_chat.py", "--url", server.url, "Hello?", folder=tmp_path, code=1)
    assert away.startswith(
        f"Ollama at {server.url} does not answer (ConnectError); start it with `ollama serve`"
    )


def test_many_users_keeps_them_apart_and_forgets_one(tmp_path: Path) -> None:
    said = run("many_users.py", str(tmp_path), folder=tmp_path)
    assert "stored once: True" in said
    assert "ada, all threads: ['home', 'work']" in said
    assert "forgotten turns: 4" in said
    assert "ada has left: 0 ben: 2" in said


def test_topics_are_left_returned_to_and_compressed(tmp_path: Path) -> None:
    said = run("topics.py", str(tmp_path), folder=tmp_path)
    lines = said.splitlines()
    assert [line.split("-> ")[1][:9] for line in lines[:7]] == [
        "I want to" if subject == "trip" else "My sourdo"
        for subject in ("trip", "trip", "trip", "trip", "bread", "bread", "trip")
    ]
    assert "compressed" in said
    assert "All 10 turns of it, word for word, the first: I want to plan" in said
    assert "archive 0 of 2 topics" in said


def test_a_session_has_its_context_in_a_budget_and_its_history_whole(tmp_path: Path) -> None:
    said = run("sessions.py", str(tmp_path), folder=tmp_path)
    assert "session 1: Ines, Bo and Mara" in said
    assert "named: {'brands': ['LANEIGE', 'COSRX'], 'indicators': ['SoS']}" in said
    context, compressed = said.split("tokens:\n")
    assert context.index("You are Mara.") < context.index("<memory_recollections>")
    assert "60 jars of COSRX for September" in context
    assert int(context.split()[-5]) <= 600
    assert "as messages: ['system', 'user', 'assistant', 'user', 'assistant']" in said
    assert "You are Mara." in compressed.split("<memory_context>")[1]
    assert "pages of the history: [30, 30, 20]" in said


def test_the_strategy_keeps_what_matters_and_fits_into_a_small_budget(tmp_path: Path) -> None:
    said = run("strategy.py", folder=tmp_path)
    whole, small, _ = said.split("Which time zone do we store?")
    assert "22 messages; should_summarize: True" in said
    assert "Summary of 17 earlier messages" in whole
    assert "We decided to keep all times in UTC" in whole
    assert "def read_times" in whole
    assert "kept (3, 18, 19, 20, 21), 17 summarised" in said
    assert "Summary" not in small


def test_facts_are_told_with_their_sources_corrected_and_reverted(tmp_path: Path) -> None:
    said = run("facts.py", str(tmp_path), folder=tmp_path)
    assert "'occupation': 'product role'" in said
    assert "in March: software engineer" in said
    assert '"Actually I moved to a product role" (stands)' in said
    assert "corrected: {'meeting_time': 'afternoon', 'likes': ['jazz']}" in said
    assert "reverted: {'meeting_time': 'morning', 'likes': ['jazz']}" in said
    assert "extracted again from 2 turns: {'meeting_time': 'morning', 'likes': ['jazz']}" in said


def test_search_tells_why_by_person_by_date_and_word_by_word(tmp_path: Path) -> None:
    said = run("search.py", str(tmp_path), folder=tmp_path)
    who, when, how_far = (part.splitlines() for part in said.split("\n\n")[:3])
    assert "Bo: I was at the shelter as well" in who[1]
    assert any("was said by Bo, as the question suggests" in line for line in who)
    assert "02 September 2023  Ines: Suki ran away" in when[1]
    assert any("was said around the time that the question names" in line for line in when)
    assert "10 kilometres" in how_far[1]
    assert any("matches the question word by word" in line for line in how_far)
    assert "'detail': " in said


async def test_cleanup_forgets_what_is_old_and_keeps_facts(tmp_path: Path) -> None:
    """First it says what would go; then that goes, by the service that has the folder, or without one."""
    words = ("--data-dir", str(tmp_path / "data"))
    async with MemoryService(MemoryConfig(data_dir=tmp_path / "data")) as service, AsyncExitStack() as stack:
        memory = service.agent("user_123", "thread_abc")
        long_ago = datetime.now(UTC) - timedelta(days=100)
        await memory.update_memory("I'm John, I work as a nurse.", "Hello John.", timestamp=long_ago)
        await memory.update_memory("I live in Lisbon.", "Lovely.")
        await memory.settle(timeout=60)
        await share(service, stack)
        said = await asyncio.to_thread(run, "cleanup.py", *words, folder=tmp_path)
        assert "older than 90 days: 2 turns of user_123, thread_abc" in said
        assert len((await memory.history()).turns) == 4
        said = await asyncio.to_thread(run, "cleanup.py", *words, "--yes", folder=tmp_path)
        assert "forgotten: 2 turns of user_123, thread_abc" in said
        assert (
            "user_123: 2 turns, facts {'name': 'John', 'occupation': 'nurse', 'location': 'Lisbon'}" in said
        )
    said = run("cleanup.py", *words, "--yes", "--days", "0.000001", "--forget-facts", folder=tmp_path)
    assert "facts from them: forgotten, too" in said
    assert "user_123: 0 turns, facts {'name': 'John', 'occupation': 'nurse'}" in said
