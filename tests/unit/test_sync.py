"""The blocking classes say what the asynchronous ones say, and are used where blocking does no harm."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING

import pytest

import memory_agent
from memory_agent import MemoryConfig, NotOpen, sync
from memory_agent.sync.blocking import without_await
from memory_agent.testing import BruteForceIndex, HashEmbedder

if TYPE_CHECKING:
    from pathlib import Path

NAMES = tuple(sync.__all__)
LEFT_OUT = {"MemoryService": {"llm", "core"}}
"""What asynchronous code alone can use."""
OWN_SIGNATURE = {("MemoryService", "run_worker")}
"""It takes an asyncio.Event, which belongs to one loop."""


def public(kind: type) -> dict[str, object]:
    return {name: member for name, member in inspect.getmembers_static(kind) if not name.startswith("_")}


CALLS = [
    (name, call)
    for name in NAMES
    for call, member in public(getattr(memory_agent, name)).items()
    if callable(member) and (name, call) not in OWN_SIGNATURE
]


@pytest.mark.parametrize("name", NAMES)
def test_each_class_has_exactly_the_calls_of_the_asynchronous_one(name: str) -> None:
    """A call that is added there is one line in `memory_agent/sync/`."""
    theirs = set(public(getattr(memory_agent, name))) - LEFT_OUT.get(name, set())
    assert set(public(getattr(sync, name))) - {"scope", "cfg"} == theirs


def test_each_call_has_the_asynchronous_one_s_signature_and_docstring() -> None:
    """But for `await`, and for what a generator is called."""
    for name, call in CALLS:
        theirs, ours = getattr(getattr(memory_agent, name), call), getattr(getattr(sync, name), call)
        signature = inspect.signature(ours)
        assert (
            list(signature.parameters.values())[1:] == list(inspect.signature(theirs).parameters.values())[1:]
        )
        assert not inspect.iscoroutinefunction(ours), (name, call)
        assert not inspect.isasyncgenfunction(ours)
        assert "Async" not in str(signature.return_annotation)
        doc = inspect.getdoc(ours)
        assert doc, (name, call)
        assert "await" not in doc
        assert "async " not in doc


def test_the_agent_s_docstrings_are_taken_over() -> None:
    for call in sorted(public(memory_agent.MemoryAgent)):
        theirs = inspect.getdoc(getattr(memory_agent.MemoryAgent, call))
        assert inspect.getdoc(getattr(sync.MemoryAgent, call)) == without_await(theirs)


def test_before_it_is_opened_and_after_it_was_closed_calls_say_so(tmp_path: Path) -> None:
    service = sync.MemoryService(
        MemoryConfig(data_dir=tmp_path), embedder=HashEmbedder(), vectors=BruteForceIndex()
    )
    memory = service.agent("ada", "chat")
    with pytest.raises(NotOpen, match="use `with MemoryService"):
        memory.fetch_memory("Hello?")
    with service:
        assert memory.update_memory("Hello.", "Hello!").seq == 2
        with pytest.raises(NotOpen, match="open already"), service:
            pass
    with pytest.raises(NotOpen, match="use `with MemoryService"):
        memory.status()
    with service:  # and again
        assert memory.status().turns == 2


async def test_where_an_event_loop_runs_the_asynchronous_class_is_named() -> None:
    """Also in an agent's callback, which runs on the service's own loop."""
    with pytest.raises(RuntimeError, match="memory_agent, with `await`"), sync.MemoryService():
        pass
    with pytest.raises(RuntimeError, match="memory_agent, with `await`"):
        sync.MemoryService().agent("ada", "chat").status()
