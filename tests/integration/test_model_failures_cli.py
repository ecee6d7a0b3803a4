"""What the command line says of a model that fails: real processes, the embedded default."""

from __future__ import annotations

import time
from typing import Any

from tests.integration.commands import CommandLine, asking
from tests.servers.openai_script import Reply, ScriptedOpenAI


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
