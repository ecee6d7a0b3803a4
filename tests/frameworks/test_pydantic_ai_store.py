"""The conversation store of Pydantic AI: its rules, on the store that comes with Pydantic AI and on ours alike."""

import asyncio
from typing import Any

import pytest
from pydantic_ai import Agent, BinaryContent, DeferredToolRequests
from pydantic_ai.conversation import Conversation
from pydantic_ai.conversation_store import (
    ConversationConflict,
    ConversationEntry,
    ConversationRecord,
    ConversationStore,
    InMemoryConversationStore,
)
from pydantic_ai.exceptions import UserError
from pydantic_ai.messages import (
    ModelMessage,
    ModelMessagesTypeAdapter,
    ModelRequest,
    ModelResponse,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)
from pydantic_ai.models.test import TestModel
from pydantic_ai.usage import RunUsage

from memory_agent import MemoryConfig, MemoryService
from memory_agent.integrations.pydantic_ai import MemoryConversationStore
from memory_agent.testing import HashEmbedder
from tests.integration.test_redaction import CARD, hide_cards
from tests.over_http import both_ways_by_day, embedded_only

pytestmark = pytest.mark.usefixtures("both_ways")
TestModel.__test__ = False


def user(text: str) -> ModelMessage:
    return ModelRequest([UserPromptPart(text)])


def answer(text: str) -> ModelMessage:
    return ModelResponse([TextPart(text)])


def talk(conversation_id: str, *texts: str) -> Conversation:
    messages = [user(text) if n % 2 == 0 else answer(text) for n, text in enumerate(texts)]
    return Conversation(messages=messages, conversation_id=conversation_id)


async def loaded(store: ConversationStore, conversation_id: str, **how: Any) -> Conversation:
    conversation = await store.load(conversation_id, **how)
    assert conversation is not None
    return conversation


@pytest.fixture
def ours(service: MemoryService) -> MemoryConversationStore:
    return MemoryConversationStore(service, "ada")


class Rules:
    """Each holds for Pydantic AI's own store as well."""

    async def test_messages_of_every_kind_come_back_equal(self, store: ConversationStore) -> None:
        image = BinaryContent(bytes(range(256)) * 400, media_type="application/pdf")
        messages: list[ModelMessage] = [
            ModelRequest([UserPromptPart(["What is it? $ % _ 🌨", image])], instructions="Be brief."),
            ModelResponse([ThinkingPart("Hm."), ToolCallPart("look", {"$at": 1}, "call_1")]),
            ModelRequest([ToolReturnPart("look", {"seen": ["a tram"]}, "call_1")]),
            answer("A tram."),
        ]
        usage = RunUsage(requests=2, input_tokens=7)
        waiting = DeferredToolRequests(calls=[ToolCallPart("ask", {"a": 1}, "call_2")])
        await store.save(
            Conversation(messages=messages, conversation_id="c", usage=usage, deferred_tool_requests=waiting),
            scope="ada",
        )
        found = await loaded(store, "c")
        assert (found.messages, found.usage, found.deferred_tool_requests) == (messages, usage, waiting)

    async def test_a_save_stores_only_what_is_new(self, store: ConversationStore) -> None:
        conversation = talk("c", "one", "two")
        first = await store.save(conversation)
        conversation.messages += [user("three"), answer("four")]
        second = await store.save(conversation)
        assert await store.save(conversation) == []
        entries = await store.load_entries("c")
        assert entries == [*first, *second]
        assert await store.read_entry(first[1].id) == first[1]

    async def test_whoever_saves_what_was_saved_meanwhile_is_refused_and_stores_nothing(
        self, store: ConversationStore
    ) -> None:
        await store.save(talk("c", "one", "two"))
        mine, theirs = await loaded(store, "c"), await loaded(store, "c")
        mine.messages += [user("mine"), answer("yes")]
        theirs.messages += [user("theirs"), answer("no")]
        await store.save(mine)
        with pytest.raises(ConversationConflict):
            await store.save(theirs)
        with pytest.raises(ConversationConflict):
            await store.save(talk("c", "again"))
        assert (await loaded(store, "c")).messages == mine.messages

    async def test_of_many_that_save_at_once_one_wins(self, store: ConversationStore) -> None:
        for attempt in ("created", "continued"):
            if attempt == "created":
                rivals = [talk("c", f"question {n}", "answer") for n in range(4)]
            else:
                rivals = [await loaded(store, "c") for _ in range(4)]
                for n, rival in enumerate(rivals):
                    rival.messages += [user(f"rival {n}"), answer("answer")]
            results = await asyncio.gather(*map(store.save, rivals), return_exceptions=True)
            (winner,) = [n for n, result in enumerate(results) if not isinstance(result, BaseException)]
            others = [result for n, result in enumerate(results) if n != winner]
            assert all(isinstance(other, ConversationConflict) for other in others), others
            assert (await loaded(store, "c")).messages == rivals[winner].messages

    async def test_a_deleted_conversation_is_gone_and_may_begin_again(self, store: ConversationStore) -> None:
        for n in range(3):
            conversation = talk("c", *["one", "two", "three"][: n + 1])
            entries = await store.save(conversation)
            old = await loaded(store, "c")
            await store.delete("c")
            await store.delete("c")
            assert await store.load("c") is None
            assert await store.list_conversations() == []
            with pytest.raises(KeyError):
                await store.read_entry(entries[0].id)
            with pytest.raises(ConversationConflict):
                await store.save(old)
            with pytest.raises(ConversationConflict):
                await store.delete_record("c", expected_revision="other")

    async def test_a_fork_shares_the_past_and_outlives_its_source(self, store: ConversationStore) -> None:
        source = talk("c", "one", "two", "three", "four")
        entries = await store.save(source)
        fork = await store.fork("c", at=2, new_conversation_id="f")
        fork.messages += [user("other"), answer("way")]
        await store.save(fork)
        forked = await store.load_entries("f")
        assert forked is not None
        assert forked[:2] == entries[:2]
        with pytest.raises(ConversationConflict):
            await store.fork("c", new_conversation_id="f")
        again = await store.fork("f", new_conversation_id="g")
        await store.delete("c")
        await store.delete("f")
        assert (
            (await loaded(store, "g")).messages
            == [*source.messages[:2], *fork.messages[2:]]
            == again.messages
        )
        with pytest.raises(KeyError):
            await store.read_entry(entries[2].id)

    async def test_a_conversation_branches_and_comes_back(self, store: ConversationStore) -> None:
        first = talk("c", "one", "two", "three", "four")
        entries = await store.save(first)
        branch = await store.branch("c", at=2, expected_revision=str(first.revision))
        branch.messages += [user("edited"), answer("five")]
        await store.save(branch)
        assert (await loaded(store, "c")).messages == branch.messages
        with pytest.raises(ConversationConflict):
            await store.branch("c", at=1, expected_revision=str(first.revision))
        back = await store.branch("c", from_entry=entries[3].id, expected_revision=str(branch.revision))
        assert back.messages == first.messages
        with pytest.raises(UserError):
            await store.branch("c", from_entry="none", expected_revision=str(back.revision))

    async def test_conversations_are_listed_by_scope_the_last_saved_first(
        self, store: ConversationStore
    ) -> None:
        for conversation_id, scope in (("a%", "x_"), ("b", "xy"), ("c", "x_")):
            await store.save(talk(conversation_id, "one"), scope=scope)
        again = await loaded(store, "a%")
        again.messages.append(answer("two"))
        await store.save(again)
        assert [record.conversation_id for record in await store.list_conversations()] == ["a%", "c", "b"]
        of_one = await store.list_conversations(scope="x_", limit=1)
        assert [record.conversation_id for record in of_one] == ["a%"]
        assert await store.load("b", scope="x_") is None
        await store.delete("b", scope="x_")
        assert await store.load("b", scope="xy") is not None

    async def test_the_last_messages_of_a_conversation(self, store: ConversationStore) -> None:
        conversation = talk("c", "one", "two", "three")
        await store.save(conversation)
        window = await loaded(store, "c", limit=2)
        assert window.messages == conversation.messages[1:]
        window.messages.append(answer("four"))
        await store.save(window)
        assert len((await loaded(store, "c")).messages) == 4
        assert (await loaded(store, "c", limit=0)).messages == []

    async def test_a_record_that_points_at_nothing_is_refused(self, store: ConversationStore) -> None:
        with pytest.raises(ConversationConflict):
            await store.write_record(
                ConversationRecord(conversation_id="c", head_id="gone"), expected_revision=None
            )
        assert await store.load("c") is None


class TestOurs(Rules):
    @pytest.fixture
    def store(self, ours: MemoryConversationStore) -> ConversationStore:
        return ours


@embedded_only("theirs knows no HTTP")
class TestTheirs(Rules):
    @pytest.fixture
    def store(self, service: MemoryService) -> ConversationStore:
        return InMemoryConversationStore()


# --- ours alone ---------------------------------------------------------------------------------------------------
@both_ways_by_day
async def test_a_conversation_goes_on_where_nothing_is_known_of_it(
    service: MemoryService, ours: MemoryConversationStore
) -> None:
    """Another process, another store object: and it still finds what forks share."""
    await ours.save(talk("c", "one", "two"))
    fork = await ours.fork("c", new_conversation_id="f")
    other = MemoryConversationStore(service, "ada")
    assert (await loaded(other, "f")).messages == fork.messages
    entries = await ours.load_entries("f")
    assert entries is not None
    assert await MemoryConversationStore(service, "ada").read_entry(entries[0].id) == entries[0]
    conversation = await loaded(other, "c")
    result = await Agent(TestModel(custom_output_text="three")).run("And now?", conversation=conversation)
    await other.save(result)
    assert len((await loaded(ours, "c")).messages) == 4


async def test_another_user_and_tenant_have_conversations_of_their_own(
    service: MemoryService, ours: MemoryConversationStore
) -> None:
    await ours.save(talk("c", "My sister Ida lives in Lisbon."))
    eve = MemoryConversationStore(service, "eve")
    assert await eve.load("c") is None
    assert await eve.list_conversations() == []
    await eve.save(talk("c", "Hello."))
    assert len(await ours.list_conversations()) == 1


async def test_what_was_said_is_remembered_once(
    service: MemoryService, ours: MemoryConversationStore
) -> None:
    conversation = talk("c", "My sister Ida lives in Lisbon.", "Noted.")
    await ours.save(conversation)
    conversation.messages += [user("Bye."), answer("Bye!")]
    await ours.save(conversation)
    await service.settle()
    memory = service.agent("ada", "c")
    said = [(t.role, t.content) for t in (await memory.history()).turns if t.role != "tool"]
    assert said == [
        ("user", "My sister Ida lives in Lisbon."),
        ("assistant", "Noted."),
        ("user", "Bye."),
        ("assistant", "Bye!"),
    ]
    (found, *_) = await service.search("ada", "Where does Ida live?")
    assert found.turn.content == "My sister Ida lives in Lisbon."


async def test_deleting_leaves_nothing_in_the_memory_but_what_came_otherwise(
    service: MemoryService, ours: MemoryConversationStore
) -> None:
    await service.agent("ada", "c").update_memory("I like trams.", "Noted.")
    conversation = talk("c", "one", "two")
    await ours.save(conversation)
    await service.agent("ada", "c").update_memory("I like boats.", "Noted.")
    assert (await loaded(ours, "c")).messages == conversation.messages
    await ours.delete("c")
    history = await service.agent("ada", "c").history()
    assert [turn.content for turn in history.turns] == ["I like trams.", "Noted.", "I like boats.", "Noted."]


async def test_a_message_that_was_forgotten_ends_the_history(
    service: MemoryService, ours: MemoryConversationStore
) -> None:
    conversation = talk("c", "one", "two", "three", "four")
    await ours.save(conversation)
    turns = (await service.agent("ada", "c").history()).turns
    await service.agent("ada", "c").forget([turn.id for turn in turns if turn.content == "two"])
    found = await loaded(ours, "c")
    assert found.messages == conversation.messages[2:]
    found.messages += [user("five")]
    await ours.save(found)
    assert len((await loaded(ours, "c")).messages) == 3


@embedded_only("the calls of the agent are cut")
async def test_a_save_that_dies_before_its_record_leaves_the_conversation_as_it_was(
    service: MemoryService, ours: MemoryConversationStore
) -> None:
    await ours.save(talk("c", "one", "two"))
    entry = ConversationEntry(parent_id=None, message=user("lost"))
    await service.agent("ada", "c").add_turns(
        [
            {
                "role": "user",
                "content": "lost",
                "metadata": {"kind": "entry", "value": "v", "kept": '{"id":"x"', "part": 0, "parts": 2},
            }
        ]
    )
    conversation = await loaded(ours, "c")
    assert len(conversation.messages) == 2
    conversation.messages.append(entry.message)
    await ours.save(conversation)
    assert len((await loaded(ours, "c")).messages) == 3


@embedded_only("the service is asked by what it is made of")
async def test_a_save_that_is_cancelled_stores_all_or_nothing_and_splits_no_pair(
    ours: MemoryConversationStore,
) -> None:
    messages = [
        user("How is it?"),
        ModelResponse([ToolCallPart("weather", {"city": "Oslo"}, "call_1")]),
        ModelRequest([ToolReturnPart("weather", "snow", "call_1")]),
        answer("It snows."),
    ]
    lengths = set()
    for milliseconds in range(100):
        conversation = Conversation(messages=messages, conversation_id=f"c{milliseconds}")
        saving = asyncio.create_task(ours.save(conversation))
        await asyncio.sleep(milliseconds / 1_000)
        saving.cancel()
        await asyncio.gather(saving, return_exceptions=True)
        found = await ours.load(f"c{milliseconds}")
        lengths.add(len(found.messages) if found else 0)
        if len(lengths) > 1:
            break
    assert lengths == {0, 4}


@embedded_only("a service of its own")
async def test_texts_of_messages_are_redacted_and_what_pydantic_ai_has_to_know_again_stays(
    embedded_settings: dict[str, Any],
) -> None:
    secret = f"My card is {CARD}."
    messages: list[ModelMessage] = [
        ModelRequest([UserPromptPart(secret)], metadata={"customer_name": CARD}),
        ModelResponse(
            [
                TextPart(secret),
                ToolCallPart(
                    "pay",
                    {"name": CARD, "kind": "binary"},
                    f"call {CARD}",
                    provider_name="google",
                    provider_details={"thought_signature": f"call {CARD}"},
                ),
            ]
        ),
        ModelRequest(
            [ToolReturnPart("pay", {"id": CARD, "paid": [secret]}, f"call {CARD}", metadata={"data": CARD})]
        ),
        answer(secret),
    ]
    cfg = MemoryConfig(**embedded_settings, redact_before_storing=True, enable_fact_extraction=False)
    async with MemoryService(cfg, redact=hide_cards, embedder=HashEmbedder()) as service:
        store = MemoryConversationStore(service, "ada")
        waiting = DeferredToolRequests(calls=[ToolCallPart("ask", {"a": secret}, "call_2")])
        await store.save(Conversation(messages=messages, conversation_id="c", deferred_tool_requests=waiting))
        found = await loaded(store, "c")
        turns = (await service.agent("ada", "c").history()).turns
    kept, given = (ModelMessagesTypeAdapter.dump_json(each).decode() for each in (found.messages, messages))
    assert kept == given.replace(CARD, "[card]").replace("call [card]", f"call {CARD}")
    assert str(turns).count(CARD) == kept.count(CARD) == 3  # in the call's id and in a signature alone
    assert found.deferred_tool_requests is not None
    assert found.deferred_tool_requests.calls[0].args == {"a": hide_cards(secret)}
