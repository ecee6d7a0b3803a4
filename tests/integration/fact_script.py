"""Scripted answers about facts: what a model behind a real HTTP server says of the messages that it is asked about."""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from memory_agent import MemoryAgent, MemoryConfig, MemoryService
from memory_agent.domain import FactRecord
from memory_agent.testing import HashEmbedder
from tests.constants import settings_of
from tests.servers.openai_script import Request, ScriptedOpenAI

Item = dict[str, Any]
"""One item of a reply."""

_MESSAGE = re.compile(r'<message from="(?P<speaker>[^"]*)">\n(?P<text>.*?)\n</message>', re.DOTALL)
_CONTEXT = re.compile(r"^\(Before it, (?P<text>.*)\)$", re.MULTILINE)
_KNOWN = re.compile(r"^\(Noted before: (?P<facts>.*)\)$", re.MULTILINE)


# --- what was asked ------------------------------------------------------------------------------------------
@dataclass(frozen=True, kw_only=True)
class Asked:
    """One message that a request asks about."""

    speaker: str
    text: str


def prompt(body: Request) -> str:
    """What the request says besides its instructions and their example."""
    content: str = body["messages"][-1]["content"]
    return content


def asked(body: Request) -> list[Asked]:
    """The messages that the request asks about."""
    return [Asked(**found.groupdict()) for found in _MESSAGE.finditer(prompt(body))]


def context(body: Request) -> list[str]:
    """What only helps to understand the messages, each with who said it."""
    return [found["text"] for found in _CONTEXT.finditer(prompt(body))]


def known(body: Request) -> list[str]:
    """The known facts, each as its path and value."""
    found = _KNOWN.search(prompt(body))
    return found["facts"].split("; ") if found else []


# --- what is answered ----------------------------------------------------------------------------------------
def add(path: str, value: Any, quote: str | None, about: str = "me", **more: Any) -> Item:
    """What holds."""
    return {"quote": quote, "about": about, "path": path, "value": value, "over": False, **more}


def retract(path: str, quote: str, value: Any = "", about: str = "me") -> Item:
    """What is over."""
    return add(path, value, quote, about, over=True)


def reply(items: Iterable[Item]) -> str:
    """The reply that holds these items."""
    return json.dumps({"facts": [*items]})


def by_message(state: Callable[[Asked], Iterable[Item]]) -> Callable[[Request], str]:
    """A model that states of each message what `state` gives."""

    return lambda body: reply(item for message in asked(body) for item in state(message))


def by_words(rules: Mapping[str, Sequence[Item]]) -> Callable[[Request], str]:
    """A model that states the items of each rule whose words a message holds."""
    return by_message(
        lambda message: [item for words, items in rules.items() if words in message.text for item in items]
    )


# --- services ------------------------------------------------------------------------------------------------
def asking(settings: Mapping[str, Any], server: ScriptedOpenAI, **others: Any) -> dict[str, Any]:
    """Settings that ask the scripted server for facts, and for nothing else."""
    return {
        **settings,
        "openai_base_url": server.base_url,
        "openai_api_key": "sk-scripted",
        "enable_topics": False,
        "enable_compression": False,
        "max_attempts": 2,
        **others,
    }


@contextlib.asynccontextmanager
async def opened(settings: Mapping[str, Any], **parts: Any) -> AsyncIterator[MemoryService]:
    """A service with these settings, and vectors of hashed words."""
    with settings_of(settings) as known:
        async with MemoryService(MemoryConfig(**known), **{"embedder": HashEmbedder(), **parts}) as service:
            yield service


# --- what came of it -----------------------------------------------------------------------------------------
async def standing(memory: MemoryAgent, path: str | None = None) -> list[FactRecord]:
    """The records of what is known."""
    return [record for record in await memory.fact_history(path) if record.stands]


async def refused(memory: MemoryAgent) -> list[FactRecord]:
    """The records of what was not believed."""
    return [record for record in await memory.fact_history() if record.refused is not None]
