"""Facts where things meet: reverts, forgetting and paths, redaction and nesting, long turns."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from memory_agent import (
    FactRecord,
    IdempotencyKeyReused,
    InvalidInput,
    MemoryAgent,
    MemoryService,
    NotFound,
    TurnForgotten,
)
from memory_agent.domain import Completion, Message
from memory_agent.testing import BruteForceIndex, ScriptedLLM
from tests.integration import fact_script
from tests.integration.fact_script import Item, add, by_message, reply

Rule = tuple[str, Item]
"""Words of a message, and the item that a model states of it."""


def model(*rules: Rule) -> ScriptedLLM:
    """A model that states what the rules say of the messages it is asked about."""
    return ScriptedLLM(stating(*rules))


def stating(*rules: Rule) -> Callable[[Sequence[Message]], str]:
    """The answer of such a model."""
    state = by_message(lambda message: [item for words, item in rules if words in message.text])
    return lambda messages: state({"messages": [{"content": messages[-1].content}]})


@contextlib.asynccontextmanager
async def service(folder: Path, llm: ScriptedLLM, **settings: Any) -> AsyncIterator[MemoryService]:
    parts = {"redact": settings.pop("redact", None), "llm": llm, "vectors": BruteForceIndex()}
    settings |= {"data_dir": folder, "enable_topics": False}
    async with fact_script.opened(settings, **parts) as made:
        yield made


@contextlib.asynccontextmanager
async def told(folder: Path, llm: ScriptedLLM, *texts: str, **settings: Any) -> AsyncIterator[MemoryAgent]:
    """An agent whose user said these texts, one by one, and whose turns are worked off."""
    async with service(folder, llm, **settings) as opened:
        memory = opened.agent("ann", "chat")
        for text in texts:
            await memory.add_user_message(text)
        await memory.settle(timeout=30)
        yield memory


TEACHER: Rule = ("teacher", add("occupation", "teacher", "I work as a teacher"))
BOAT: Rule = ("boat is the Mistral", add("boat", "Mistral", "the boat is the Mistral"))
BAKER: Rule = ("baker", add("occupation", "baker", "I work as a baker"))


async def test_a_revert_survives_extraction_anew(tmp_path: Path) -> None:
    """It goes back to a turn, whichever extraction of that turn counts."""
    said = ("Hello!", "I work as a teacher.", "I work as a baker.")
    async with told(tmp_path, model(TEACHER, BAKER), *said) as memory:
        first, _ = await memory.fact_history("occupation")
        await memory.revert_fact("occupation", first.id)
        await memory.reextract_facts()
        await memory.settle(timeout=30)
        assert await memory.fetch_facts() == {"occupation": "teacher"}
        await memory.forget([(await memory.fetch_short_term(3))[0].id])
        await memory.settle(timeout=30)
        assert await memory.fetch_facts() == {"occupation": "teacher"}


async def test_a_forgotten_name_is_in_no_path_and_in_nothing_refused(tmp_path: Path) -> None:
    """A later turn whose fact stands under it, or that was quoted for it, is extracted anew."""
    tells = stating(
        ("Zebulon", add("sports", "rower", "My friend Zebulon is a rower", "Zebulon")),
        ("He turned forty", add("age", "forty", "He turned forty", "Zebulon")),
        ("left town", add("note", "left", "my friend Zebulon")),
    )
    llm = ScriptedLLM(
        lambda messages: (tells if "zebulon" in messages[-1].content.casefold() else stating())(messages)
    )
    said = ("My friend Zebulon is a rower.", "He turned forty.", "He has left town.")
    async with told(tmp_path, llm, *said, facts_batch_turns=1) as memory:
        assert "zebulon" in str(await memory.fact_history()).casefold()
        await memory.forget([(await memory.fetch_short_term(3))[0].id])
        await memory.settle(timeout=30)
        assert "zebulon" not in str(await memory.fact_history()).casefold()


async def test_a_turn_that_states_nothing_without_what_was_forgotten_is_done(tmp_path: Path) -> None:
    """Its change went with the turn that was in view, before the stage was struck off; extracting anew comes to an end."""
    meant: Rule = ("She is forty", add("age", "forty", "She is forty", "Ines"))

    def answer(messages: Sequence[Message]) -> str:
        return stating(*([meant] if "Ines" in messages[-1].content else []))(messages)

    async with service(tmp_path, ScriptedLLM(answer), run_worker=False) as opened:
        memory, facts = opened.agent("ann", "chat"), opened.core.facts
        ines = await memory.add_user_message("My friend Ines rows.")
        turn = await memory.add_user_message("She is forty.")
        await facts.extract([turn])
        assert await memory.fetch_facts() == {"people": {"ines": {"age": "forty"}}}
        await memory.forget([ines.id])
        assert await memory.fetch_facts() == {}
        await facts.extract([turn])
        await facts.confirm([turn])
        assert await memory.fetch_facts() == {}


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("The boat is the Mistral.", "As I said, the boat is the Mistral."),
        ("Mistral is its name.", "The boat is the Mistral."),
    ],
    ids=["in the same words", "in words of its own"],
)
async def test_what_two_messages_of_a_request_say_outlives_either(
    tmp_path: Path, first: str, second: str
) -> None:
    """A model notes it once, with a quote of either; forgetting one leaves what the other says, also before the stage is done with."""
    tells = stating(BOAT, ("Mistral is", add("boat", "Mistral", "Mistral is its name")))

    def answer(messages: Sequence[Message]) -> str:
        both = first in messages[-1].content and second in messages[-1].content
        return stating(BOAT)(messages) if both else tells(messages)

    for gone in (0, 1):
        for before in (True, False):
            folder = tmp_path / f"{gone} {before}"
            async with service(folder, ScriptedLLM(answer), run_worker=False) as opened:
                memory, facts, store = opened.agent("ann", "chat"), opened.core.facts, opened.core.store
                turns = [await memory.add_user_message(text) for text in (first, second)]
                await facts.extract(turns)
                if before:
                    await memory.forget([turns[gone].id])
                await store.strike_off(memory.scope, [turn.id for turn in turns], "facts")
                await facts.confirm(turns)
                if not before:
                    await memory.forget([turns[gone].id])
                assert await memory.fetch_facts() == {}
                owing = await store.owed_turns(memory.scope, "facts", limit=5)
                assert [turn.id for turn in owing] == [turns[1 - gone].id]
                await facts.extract(owing)
                assert await memory.fetch_facts() == {"boat": "Mistral"}


async def test_each_message_of_a_request_has_what_it_says_in_the_same_words(tmp_path: Path) -> None:
    """As if each were asked about alone: both are sources of the fact, which is the surer for it."""
    async with service(tmp_path, model(BOAT), run_worker=False) as opened:
        memory = opened.agent("ann", "chat")
        turns = [await memory.add_user_message("The boat is the Mistral.") for _ in range(2)]
        await opened.core.facts.extract(turns)
        [record] = await memory.fact_history()
        assert [source.turn_id for source in record.sources] == [turn.id for turn in turns]


async def test_known_facts_of_any_shape_are_redacted(tmp_path: Path) -> None:
    """Nested ones and lists too; and with redact_before_storing what people set themselves."""
    llm = model()
    phone = "555-1234"

    def redact(text: str) -> str:
        return text.replace(phone, "[PHONE]")

    async with told(tmp_path / "shown", llm, redact=redact) as memory:
        await memory.set_fact("contacts", {"bob": phone})
        await memory.set_fact("numbers", [phone])
        await memory.add_user_message("Bob is among my contacts and has two numbers.")
        await memory.settle(timeout=30)
        assert phone not in str(llm.calls)
        assert str(llm.calls).count("[PHONE]") == 2
    async with told(tmp_path / "stored", llm, redact=redact, redact_before_storing=True) as memory:
        await memory.set_fact("contacts", {"bob": [phone]})
        assert await memory.fetch_facts() == {"contacts": {"bob": ["[PHONE]"]}}


async def test_what_a_model_was_shown_goes_with_its_source_that_was_forgotten_while_it_was_thinking(
    tmp_path: Path,
) -> None:
    """A name that it knew from the facts alone: the prose that it answers with it doesn't stay."""
    tells = stating(("My sister is Zebulon", add("family.sister", "Zebulon", "My sister is Zebulon")))
    shown: list[bool] = []

    class Forgetful(ScriptedLLM):
        """While it thinks about her, the turn that told of her is forgotten."""

        async def complete(self, messages: Sequence[Message], **options: Any) -> Completion:
            if "sister agrees" in messages[-1].content.rpartition("<message")[2]:
                shown.append("Zebulon" in str(messages))
                if len(shown) == 1:
                    await memory.forget([told.id])
            return await super().complete(messages, **options)

    def answer(messages: Sequence[Message]) -> str:
        if "sister agrees" not in messages[-1].content.rpartition("<message")[2]:
            return tells(messages)
        if "Zebulon" not in str(messages):
            return stating()(messages)
        return "A rhyme about Zebulon."

    async with service(tmp_path, Forgetful(answer)) as opened:
        memory = opened.agent("ann", "chat")
        told = await memory.add_user_message("My sister is Zebulon.")
        for number in range(3):
            await memory.add_user_message(f"Nothing to say. {number}")
        await memory.settle(timeout=30)
        assert await memory.fetch_facts() == {"family": {"sister": ["Zebulon"]}}
        await memory.add_user_message("My sister agrees.")
        await memory.settle(timeout=30)
        assert shown[0]
        assert not shown[-1]
        assert await memory.fetch_facts() == {}
        assert "Zebulon" not in str(await memory.fact_history())


async def test_a_long_turn_does_not_hold_up_the_loop(tmp_path: Path) -> None:
    """While 100,000 characters with dozens of items are vetted, others are served: most of it happens elsewhere."""
    items = [add(f"x.k{i}", f"walking {i}", "walking in the park") for i in range(60)]
    llm = ScriptedLLM(lambda messages: reply(items))
    text = ("I like walking in the park with my dog, 공원에서 산책하는 걸 좋아해요. " * 2_000)[:100_000]
    async with told(tmp_path, llm) as memory:
        served = 0
        done = asyncio.Event()

        async def serve() -> None:
            nonlocal served
            while not done.is_set():
                await asyncio.sleep(0.005)
                served += 1

        serving = asyncio.create_task(serve())
        await memory.add_user_message(text)
        await memory.settle(timeout=120)
        done.set()
        await serving
        assert served > 30, "a loop that is held up throughout comes round a handful of times"
        assert len(llm.calls) > 5


# --- idempotency ---------------------------------------------------------------------------------------------
async def test_a_repeated_edit_changes_nothing_and_shows_the_first(tmp_path: Path) -> None:
    """Whatever stands by now; the record is as history shows it then. Another edit under its key is refused."""
    async with told(tmp_path, model()) as memory:
        first = await memory.set_fact("occupation", "baker", idempotency_key="k")
        assert await memory.set_fact("occupation", "baker", idempotency_key="k") == first
        later = await memory.set_fact("occupation", "judge")
        again = await memory.set_fact("occupation", "baker", idempotency_key="k")
        assert (again.id, again.value, again.superseded_by) == (first.id, "baker", later.id)
        for call, what in (
            (memory.set_fact("occupation", "pilot", idempotency_key="k"), "value"),
            (memory.set_fact("hobby", "baker", idempotency_key="k"), "path"),
            (memory.set_fact("occupation", "baker", about="Bo", idempotency_key="k"), "about"),
            (memory.add_fact("occupation", "baker", idempotency_key="k"), "edit"),
            (memory.retract_fact("occupation", idempotency_key="k"), "edit"),
            (memory.revert_fact("occupation", "no event", idempotency_key="k"), "edit"),
        ):
            with pytest.raises(
                IdempotencyKeyReused, match=f"'k', .* with another {what}; nothing was stored"
            ):
                await call
        assert await memory.fetch_facts() == {"occupation": "judge"}
        assert len(await memory.fact_history()) == 2
        other = memory._service.agent("ann", "other")
        assert (await other.set_fact("occupation", "pilot", idempotency_key="k")).value == "pilot"
        with pytest.raises(InvalidInput, match="idempotency_key"):
            await memory.set_fact("occupation", "x", idempotency_key="a\nb")


async def test_each_edit_can_be_repeated(tmp_path: Path) -> None:
    """Also where the first one left nothing to do: nothing more to retract, nothing before to revert to.

    Of many that race with one key one is made, and the others are refused unless they say the same. Who repeats a call from before the thread was cleared is told so.
    """
    async with told(tmp_path, model()) as memory:
        await memory.set_fact("likes", ["tea"])
        for _ in range(2):
            added = await memory.add_fact("likes", "jam", idempotency_key="add")
            assert (added.op, added.value) == ("add", "jam")
        assert await memory.fetch_facts() == {"likes": ["tea", "jam"]}
        changes = await memory._service.core.store.fact_changes(memory.scope)
        assert [change.idempotency_key for change in changes] == [None, "add"]
        removed = [await memory.retract_fact("likes", "tea", idempotency_key="remove") for _ in range(2)]
        assert removed[0] == removed[1]
        with pytest.raises(InvalidInput, match="not known there"):
            await memory.retract_fact("likes", "tea")
        retracted = [await memory.retract_fact("likes", idempotency_key="retract") for _ in range(2)]
        assert retracted[0] == retracted[1]
        assert await memory.fetch_facts() == {}
        reverted = [await memory.revert_fact("likes", idempotency_key="revert") for _ in range(2)]
        assert reverted[0] == reverted[1]
        assert await memory.fetch_facts() == {"likes": ["jam"]}
        with pytest.raises(NotFound, match="no such event"):
            await memory.revert_fact("likes", "no event")
        memory = memory._service.agent("ann", "other")
        said = ("baker", "judge", "pilot")
        records = await asyncio.gather(
            *(memory.set_fact("occupation", value, idempotency_key="k") for value in said * 3),
            return_exceptions=True,
        )
        [made] = await memory.fact_history(scope="thread")
        assert {record for record in records if isinstance(record, FactRecord)} == {made}
        refused = [type(record) for record in records if isinstance(record, Exception)]
        assert refused == [IdempotencyKeyReused] * 6
        assert await memory.fetch_facts(scope="thread") == {"occupation": made.value}
        await memory.retract_fact("occupation", idempotency_key="k2")
        await memory.clear()
        for repeat in (
            memory.set_fact("occupation", "baker", idempotency_key="k"),
            memory.retract_fact("occupation", idempotency_key="k2"),
        ):
            with pytest.raises(TurnForgotten, match="was forgotten since"):
                await repeat
        assert await memory.fetch_facts(scope="thread") == {}
        await memory.set_fact("occupation", "baker", idempotency_key="k3")
        assert await memory.fetch_facts(scope="thread") == {"occupation": "baker"}


async def test_a_single_value_is_no_list(tmp_path: Path) -> None:
    """Adding to it is refused, and a like that a person sets is joined by the next one."""
    llm = model(("I love tea", add("preferences.likes", "tea", "I love tea")))
    async with told(tmp_path, llm) as memory:
        await memory.set_fact("name", "Ann")
        with pytest.raises(InvalidInput, match=r"'Ann', no list; set_fact\(\) replaces it"):
            await memory.add_fact("name", "Bob")
        await memory.set_fact("preferences.likes", "coffee")
        await memory.add_user_message("I love tea!")
        await memory.settle(timeout=30)
        assert await memory.fetch_facts() == {"name": "Ann", "preferences": {"likes": ["coffee", "tea"]}}


async def test_a_turn_that_patterns_read_has_itself_alone_in_view(memory: MemoryAgent) -> None:
    """Or forgetting one turn would take the facts of all that were read together with it."""
    await memory.add_turns(
        [{"role": "user", "content": f"My sister {name} lives in Graz."} for name in ("Ida", "Mona", "Ruth")]
    )
    await memory.settle()
    changes = await memory._service.core.store.fact_changes(memory.scope)
    assert [change.turns for change in changes] == [(change.turn_id,) for change in changes]
    assert len(changes) == 3
