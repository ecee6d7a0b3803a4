"""What the command line says of a model that fails: real processes, the embedded default."""

from __future__ import annotations

import json
import time
from typing import Any

from tests.integration.commands import CommandLine, asking, user
from tests.integration.fact_script import add, by_words
from tests.servers.openai_script import Reply, ScriptedOpenAI

SLOW_DOWN = Reply(status=429, text="Rate limit reached for requests", headers={"Retry-After": "8"})
SOUND = by_words({"Ada": [add("name", "Ada", "My name is Ada")]})


def test_ingest_with_a_rate_limited_model_says_why_and_what_is_left(
    cli: CommandLine, openai_server: ScriptedOpenAI
) -> None:
    """All is stored and indexed; the rest is owed, `status` says the same, and the command it names finishes it."""
    openai_server.answer = lambda _: SLOW_DOWN
    file = cli.file(user("My name is Ada."), user("Tell me about bees."))
    model = asking(openai_server)
    done = cli("ingest", file, "--patience", "1", code=3, **model)
    assert "facts waits for the llm since" in done.stderr
    assert "429: Rate limit reached" in done.stderr
    assert "2 turns in 1 thread: all searchable" in done.stdout
    assert "Still owed: 2 facts" in done.stderr
    assert "memory-agent worker --until-idle --data-dir" in done.stderr
    assert len(openai_server.chats) == 1, "who asks for a pause gets it"
    shown = cli("status", **model)
    assert "facts waits for the llm" in shown.stdout
    assert "Rate limit reached" in shown.stdout
    (outage,) = cli.json("status", **model)["outages"]
    assert (outage["stage"], outage["part"]) == ("facts", "llm")
    again = cli("ingest", file, "--patience", "0.5", "--json", code=3, **model)
    told = json.loads(again.stdout)
    assert (told["settled"], told["left"]["pending"]["facts"]) == (False, 2)
    openai_server.answer = SOUND
    cli("worker", "--until-idle", **model)
    assert cli.json("status", **model)["outages"] == []
    assert cli.json("facts", "show")["name"] == "Ada"


def test_chat_talks_with_its_own_model_and_tells_of_the_workers_trouble_between_exchanges(
    cli: CommandLine, openai_server: ScriptedOpenAI
) -> None:
    """The facts' model is unknown: that is one remark, and no line of a log stands in the prompt."""

    def answer(body: dict[str, Any]) -> Reply | str:
        if body["model"] == "talker":
            if body["messages"][-1]["content"] == "How are you?":
                while not any(chat["model"] == "nobody" for chat in openai_server.chats):
                    time.sleep(0.05)  # until the worker has found out
            return "Pleased to meet you."
        return Reply(status=404, text="no model of that name")

    openai_server.answer = answer
    model = asking(openai_server, CHAT_MODEL="talker", FACT_EXTRACTION_MODEL="nobody")
    said = cli("chat", stdin="My name is Ada.\nHow are you?\n/facts\n/quit\n", **model)
    assert said.stdout.count("Pleased to meet you.") == 2
    assert {body["model"] for body in openai_server.chats} == {"talker", "nobody"}
    told = [line for line in said.stderr.splitlines() if "no model of that name" in line]
    assert len(told) == 1
    assert told[0].startswith("meanwhile: stage facts waits for the llm")


def test_a_mongodb_that_is_down_is_said_with_what_to_do(cli: CommandLine) -> None:
    """In one line, without the driver's own settings, and no credentials in it."""
    said = cli("status", code=1, MEMORY_AGENT_MONGO_URI="mongodb://ada:s3cret@127.0.0.1:9/")
    (line,) = said.stderr.splitlines()
    assert "127.0.0.1:9" in line
    assert "Start MongoDB, or correct mongo_uri" in line
    assert "s3cret" not in line
    assert "configured timeouts" not in line
