"""What an open service keeps of texts in memory, and when it lets go of it."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from memory_agent.context import items as fact_items
from memory_agent.context import passages, render
from memory_agent.domain import new_id
from memory_agent.facts.documents import FactDocuments
from memory_agent.stores import codec
from memory_agent.testing import HashEmbedder
from memory_agent.text import corrections, noun_phrases, quotes, sentences, subjects, terms
from memory_agent.text.code import lines as code_lines
from tests.integration.conversations import lines, opened, said

CACHES = (
    terms._stem,
    code_lines.has_code,
    sentences.sentences_of,
    quotes.quotes_of,
    subjects.subject_of,
    subjects.content_words,
    subjects.first_words,
    subjects._kept_words,
    subjects._telling_key,
    noun_phrases._kind_alone,
    noun_phrases._is_participle,
    noun_phrases.says_nothing,
    noun_phrases.key_of,
    corrections.features_of,
    render._body_of,
    render._fact_line,
    fact_items._terms_of,
    passages._read,
    codec.unpack_derived,
)

COMPRESSED = 20
"""Turns that are more than are shown whole."""


def kept() -> list[int]:
    """How many texts or words each of the process's caches holds."""
    return [cache.cache_info().currsize for cache in CACHES]


async def test_what_rules_keep_of_texts_goes_with_what_is_forgotten_and_in_time(
    quiet: dict[str, Any],
) -> None:
    """Words, sentences and quotes of the last few texts, lines of facts, compressions, and the analyses of live threads."""
    async with opened(quiet, enable_fact_extraction=True) as service:
        memory = service.agent("ann", "chat")
        for clear in ("forget", "housekeep"):
            said = "I live in Ulm. I am so happy about the xylophone!"
            turn = await memory.add_user_message(said)
            for number in range(COMPRESSED):
                await memory.add_user_message(f"{number} bars of it " * 40)
            await memory.settle(timeout=60)
            await memory.compress()
            await memory.fetch_memory("7 bars of it")
            # As topics do, which are off: they read what is left again when something is forgotten; and as a turn that names nothing.
            subjects.subject_of(said)
            subjects.first_words(said)
            assert all(kept())
            assert (await service.get_stats()).turns > 0
            if clear == "forget":
                await memory.forget([turn.id])
            else:
                service.core.housekeep()
            assert kept() == [0] * len(CACHES)
            assert (await service.get_stats()).live_threads == 0


class HeldEmbedder(HashEmbedder):
    """Embeds the question once it may."""

    def __init__(self) -> None:
        super().__init__()
        self.asked, self.may = asyncio.Semaphore(0), asyncio.Event()

    async def embed(
        self, texts: Sequence[str], *, purpose: Literal["query", "document"]
    ) -> NDArray[np.float32]:
        if purpose == "query":
            self.asked.release()
            await self.may.wait()
        return await super().embed(texts, purpose=purpose)


async def test_a_prompt_that_is_made_meanwhile_keeps_nothing_forgotten(quiet: dict[str, Any]) -> None:
    """It has read the turn already, and reads its words once it is gone; one without room for all turns looks for moments in them."""
    embedder = HeldEmbedder()
    async with opened(quiet, embedder=embedder) as service:
        memory = service.agent("ann", "chat")
        turn = await memory.add_user_message("I am so happy about the xylophone!")
        await memory.add_turns(said(lines(COMPRESSED)))
        await service.agent("ann", "other").add_user_message(
            "Something to recall."
        )  # else nothing is embedded
        await service.settle(timeout=60)
        fetch = asyncio.create_task(memory.fetch_memory("Which clocks are new?"))
        small = asyncio.create_task(memory.fetch_memory("What else?", max_tokens=150, preset="code"))
        for _ in (fetch, small):
            await embedder.asked.acquire()
        await memory.forget([turn.id])
        assert not any(made.done() for made in (fetch, small))
        embedder.may.set()
        assert "xylophone" in str(await fetch)
        assert "line 20" in str(await small)
        assert turn.id not in {kept for known in service.core.live._threads.values() for kept in known}
        assert kept() == [0] * len(CACHES)
        assert not [text for text in service.core.counts._newer if "xylophone" in text]


async def test_a_history_of_facts_is_kept_while_nothing_changes_and_goes_when_forgotten_and_in_time(
    quiet: dict[str, Any],
) -> None:
    async with opened(quiet) as service:
        memory, facts = service.agent("ann", "chat"), service.core.facts
        await memory.set_fact("plan", {"steps": ["one"]})
        first, told = await facts.known(memory.scope), await facts.current(memory.scope.user)
        (await memory.fetch_facts())["plan"]["steps"].append("two")  # the reader's own, and a prompt's
        (await memory.fetch_memory("What is the plan?")).facts["plan"]["steps"].append("two")
        assert await facts.current(memory.scope.user) is told
        assert told.people["user"] == {"plan": {"steps": ["one"]}}
        assert told.items
        (record,) = await memory.fact_history(scope="thread")
        record.value["steps"].append("two")  # the reader's own
        assert await facts.known(memory.scope) is first
        assert first.records[0].value == {"steps": ["one"]}
        await memory.set_fact("plan", "none")
        second = await facts.known(memory.scope)
        assert (await facts.current(memory.scope.user)).people["user"] == {"plan": "none"}
        assert [one.value for one in second.records] == [{"steps": ["one"]}, "none"]
        service.core.housekeep()
        assert await facts.known(memory.scope) is second  # it was asked for since the last time
        service.core.housekeep()
        service.core.housekeep()
        third = await facts.known(memory.scope)
        assert third is not second
        await service.forget_user("ann")
        assert not facts._histories
        assert (await facts.known(memory.scope)).records == ()
        await memory.set_fact("letter", "a story told at length " * 20)
        await memory.fetch_memory("Which story?")
        assert not render._fact_line.cache_info().currsize  # thousands of long lines would fill the memory
        assert not fact_items._terms_of.cache_info().currsize


async def test_facts_kept_by_a_process_do_not_come_back_where_their_numbers_are_given_again(
    quiet: dict[str, Any],
) -> None:
    """Once nothing is left of a forgotten thread, its changes are numbered from 1 again."""
    async with opened(quiet) as service:
        memory, store = service.agent("ann", "chat"), service.core.store
        await memory.set_fact("secret", "old")
        elsewhere = FactDocuments(store)  # of a process that stands still meanwhile
        assert (await elsewhere.current(memory.scope)).people == {"user": {"secret": "old"}}
        assert [one.value for one in (await elsewhere.known(memory.scope)).records] == ["old"]
        await service.forget_user("ann")
        await store.erase_remains(memory.scope.user, before_id=new_id())
        for name in ("one", "two"):
            await memory.set_fact(name, "new")
        assert await store.fact_heads(memory.scope) == {"chat": (2, 2, 0)}
        for scope in (memory.scope, memory.scope.user):
            assert (await elsewhere.current(scope)).people == {"user": {"one": "new", "two": "new"}}
            assert [one.path for one in (await elsewhere.known(scope)).records] == [("one",), ("two",)]
