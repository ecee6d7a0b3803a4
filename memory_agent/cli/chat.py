"""`memory-agent chat`: a conversation that is remembered, with a model if one is configured."""

from __future__ import annotations

import asyncio
import logging
import os
import sys
from contextlib import AsyncExitStack, contextmanager
from typing import TYPE_CHECKING, Final

import typer

from memory_agent.cli.opening import opened
from memory_agent.cli.options import MODELS_LOG, MemoryTyper, TalkOptions, settings
from memory_agent.cli.output import complain, note, print_facts, say
from memory_agent.domain import Message
from memory_agent.errors import MemoryAgentError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from memory_agent.cli.opening import Agent, Service
    from memory_agent.ports import LLM

PROMPT: Final = "you> "
_CHUNK: Final = 65_536
INSTRUCTIONS: Final = (
    "You are a helpful assistant with a long memory. Use what was remembered where it helps, and say so when you"
    " don't know something."
)
HELP: Final = "/facts shows what is known, /context the last context sent, /quit leaves."


app = MemoryTyper()


@app.command()
async def chat(where: TalkOptions) -> None:
    """Talk; every exchange is remembered.

    With openai_api_key or openai_base_url set a model answers (any endpoint that speaks the OpenAI API, Ollama
    included); without one you see the context that it would be sent. /facts shows what is known, /quit leaves.

    Examples:
        memory-agent chat --user ada
        MEMORY_AGENT_OPENAI_BASE_URL=http://127.0.0.1:11434/v1 MEMORY_AGENT_FACT_EXTRACTION_MODEL=llama3.2 memory-agent chat
    """
    with collected_remarks() as remarks:
        opening = opened(where.data_dir, new=True, works=True, shares=True)
        async with opening as service, AsyncExitStack() as stack:
            llm = _own_llm(service, stack)
            if llm is None:
                unset = "No language model is configured (openai_api_key or openai_base_url)"
                note(f"{unset}: you see the context that\nit would be sent, and what you say is remembered.")
            note(HELP)
            try:
                await _talk(where.agent(service), llm, remarks)
            except asyncio.CancelledError:  # ctrl-C: close as after /quit
                if (task := asyncio.current_task()) is not None:
                    task.uncancel()
    note("Bye.")


def _own_llm(service: Service, stack: AsyncExitStack) -> LLM | None:
    """The model that answers: a service remembers, it does not talk; so it is the one of the settings here."""
    from memory_agent.adapters import make_llm
    from memory_agent.service import MemoryService

    if isinstance(service, MemoryService):
        return service.core.chat_llm(stack)
    cfg = settings(None)
    return make_llm(cfg, cfg.chat_model or cfg.fact_extraction_model, stack)


async def _talk(agent: Agent, llm: LLM | None, remarks: Remarks) -> None:
    lines = _Lines()
    context = ""
    remarks.tell()
    while (line := await lines.next()) is not None:
        said = line.strip()
        if said == "/quit":
            return
        if said == "/facts":
            facts = await agent.fetch_facts()
            print_facts(facts)
            if not facts:
                note("No facts are known yet.")
        elif said == "/context":
            say(context or "(none yet)")
        elif said.startswith("/"):
            note(HELP)
        elif said:
            try:
                context = await _exchange(agent, llm, said)
            except MemoryAgentError as exc:
                complain(str(exc))
        remarks.tell()


async def _exchange(agent: Agent, llm: LLM | None, said: str) -> str:
    """One question and its answer, remembered; the context that was (or would be) sent."""
    fetched = await agent.fetch_memory(said, include=())
    context = str(fetched)
    if fetched.degraded:
        note(f"answering without: {', '.join(fetched.degraded)}")
    reply = None
    if llm is not None:
        messages = [
            Message(role="system", content=f"{INSTRUCTIONS}\n\n{context}"),
            Message(role="user", content=said),
        ]
        try:
            reply = (await llm.complete(messages)).text.strip()
        except MemoryAgentError as exc:
            complain(f"no answer ({exc}); what you said is remembered")
    else:
        say(context)
    if reply:
        await agent.update_memory(said, reply)
        say(("memory> ", "bold cyan"), reply)
    else:
        await agent.add_turns([{"role": "user", "content": said}])
    return context


class _Lines:
    """Lines from standard input without blocking the event loop, where the worker goes on meanwhile.

    Without a thread as well: one that is blocked in a read would hold up, or crash, leaving on ctrl-C.
    """

    def __init__(self) -> None:
        self._fd = sys.stdin.fileno()
        self._unread = b""
        self._ended = False

    async def next(self) -> str | None:
        """The next line, None at the end of the input."""
        typer.echo(PROMPT, nl=False)
        while b"\n" not in self._unread and not self._ended:
            read = await self._read()
            self._unread += read
            self._ended = not read
        if not self._unread:
            return None
        line, _, self._unread = self._unread.partition(b"\n")
        return line.decode(errors="replace")

    async def _read(self) -> bytes:
        loop = asyncio.get_running_loop()
        readable = asyncio.Event()
        try:
            loop.add_reader(self._fd, readable.set)
        except PermissionError:  # a regular file, which never keeps us waiting
            return os.read(self._fd, _CHUNK)
        except NotImplementedError:  # Windows
            return await asyncio.to_thread(os.read, self._fd, _CHUNK)
        try:
            await readable.wait()
        finally:
            loop.remove_reader(self._fd)
        return os.read(self._fd, _CHUNK)


class Remarks(logging.Handler):
    """Log records that wait for the right moment, each message once."""

    def __init__(self) -> None:
        super().__init__()
        self._waiting: dict[str, None] = {}
        self._told: set[str] = set()

    def emit(self, record: logging.LogRecord) -> None:
        """Keep what it says."""
        self._waiting[record.getMessage()] = None

    def tell(self) -> None:
        """Print what was kept since the last time, and was not told yet."""
        for message in self._waiting:
            if message not in self._told:
                note(f"meanwhile: {message}")
        self._told |= self._waiting.keys()
        self._waiting.clear()


@contextmanager
def collected_remarks() -> Iterator[Remarks]:
    """Every warning of this process, and what models tell of themselves, while the block runs; the rest at its end."""
    root, models = logging.getLogger(), logging.getLogger(MODELS_LOG)
    remarks = Remarks()
    at_once, propagates = models.handlers[:], models.propagate
    models.handlers, models.propagate = [], True
    root.addHandler(remarks)
    try:
        yield remarks
    finally:
        root.removeHandler(remarks)
        models.handlers, models.propagate = at_once, propagates
        remarks.tell()
