"""Typed summaries of conversations: by a model, what stands in for it, and what is taken from turns without one."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory_agent.context.render import summary_line
from memory_agent.conversations.compress import (
    ExtractiveConversationSummarizer,
    LLMConversationSummarizer,
    within,
)
from memory_agent.domain import SUMMARY_KINDS, SummaryItem
from memory_agent.errors import MalformedReply
from memory_agent.llm.summaries import SummaryWriter, in_order
from memory_agent.models.tokens import EstimatedTokens
from memory_agent.testing import ScriptedLLM
from tests.unit.search.builders import ExactTokens, item, turn

plain = (
    st.text("abcXYZ äß가나다 .,:!|[]", min_size=1, max_size=40)
    .map(lambda text: " ".join(text.split()))
    .filter(bool)
)
some_items = st.lists(
    st.builds(
        lambda kind, first, more, who, weight, text: SummaryItem(
            kind=kind, text=text, first_seq=first, last_seq=first + more, participants=who, importance=weight
        ),
        st.sampled_from(SUMMARY_KINDS),
        st.integers(1, 50),
        st.integers(0, 5),
        st.lists(st.sampled_from(("Ann", "Bo", "민수")), max_size=3).map(tuple),
        st.integers(0, 1_000).map(lambda hundredths: hundredths / 100),
        plain.filter(lambda text: not text.startswith(":")),
    ),
    unique_by=lambda i: i.text,
    max_size=8,
)


@given(some_items, st.integers(0, 200), st.sampled_from((ExactTokens(), EstimatedTokens())))
def test_the_most_important_items_are_kept_within_the_tokens(
    items: list[SummaryItem], most: int, counter: ExactTokens
) -> None:
    """As a prompt shows them, in their order; none that is left out matters more and is no longer than one kept."""
    kept = within(items, counter, most)
    assert counter.count("\n".join(summary_line(i).shown() for i in kept)) <= most
    assert list(kept) == list(in_order(kept))

    def size(of: SummaryItem) -> int:
        return counter.count(summary_line(of).shown())

    for out in set(items) - set(kept):
        assert not any(i.importance < out.importance and size(i) >= size(out) for i in kept)


# --- by a model ----------------------------------------------------------------------------------------------
def asking(llm: ScriptedLLM) -> LLMConversationSummarizer:
    return LLMConversationSummarizer(SummaryWriter(llm, ExactTokens(), max_tokens=500))


LONG = [turn(n, f"We sail to port {n}. {'Wind and waves. ' * 100}") for n in range(1, 13)]


async def test_a_long_conversation_goes_in_several_calls_each_with_the_summary_so_far() -> None:
    """A call of which nothing can be kept is made up for by quotes, and the others count."""
    replies = [
        "SUMMARY: Wind and waves.\nDECISIONS: sail with the wind",
        "Sorry, I can't.",
        "SUMMARY: They sail on to port 12.",
    ]
    llm = ScriptedLLM(replies)
    told = [*LONG[:8], turn(9, "We have decided to take the train to Porto on 12 May."), *LONG[9:]]
    items = await asking(llm).summarize((), told)
    assert len(llm.calls) == 3
    assert "SUMMARY: Wind and waves.\nDECISIONS: sail with the wind" in llm.calls[1][-1].content
    assert {(i.kind, i.text) for i in items if i.said_at is None} == {
        ("topic", "Wind and waves."),
        ("decision", "sail with the wind"),
        ("topic", "They sail on to port 12."),
    }
    assert "We have decided to take the train to Porto on 12 May." in [i.text for i in items if i.said_at]


async def test_it_is_malformed_where_nothing_of_any_reply_can_be_kept() -> None:
    with pytest.raises(MalformedReply):
        await asking(ScriptedLLM(lambda _: "Hm.")).summarize((item(1, "They met."),), LONG)


# --- without a model -----------------------------------------------------------------------------------------
async def test_users_are_quoted_with_the_turn_and_its_time() -> None:
    """What was summarised before stays among them; nothing new changes nothing, and what tells nothing is not quoted."""
    summarizer = ExtractiveConversationSummarizer()
    said = [
        turn(5, "We have decided to take the train to Porto on 12 May.", speaker="Ann"),
        turn(6, "I booked seats 12 and 13 for you in Porto.", role="assistant"),
        turn(7, "Lovely weather. My name is Ann Holm and I live in Bergen with my sister Mia."),
        turn(8, "We have decided to take the train to Porto, on 12 May."),
    ]
    before = (item(2, "The landlord Olsen gave notice for 30 June 2026.", importance=9.0),)
    found = await summarizer.summarize(before, said)
    assert found[0] == before[0]
    assert [(i.first_seq, i.participants, i.said_at, i.text) for i in found[1:]] == [
        (5, ("Ann",), said[0].timestamp, "We have decided to take the train to Porto on 12 May."),
        (7, ("user",), said[2].timestamp, "My name is Ann Holm and I live in Bergen with my sister Mia."),
    ]
    assert (await summarizer.summarize(before, [])) == before
    assert await summarizer.summarize((), [turn(1, "Lovely weather. Or so they say.")]) == ()


async def test_a_feeling_is_quoted_where_somebody_takes_it_up() -> None:
    """Two of its words in an answer; alone it tells too little."""
    afraid = turn(1, "I'm scared of the climbing wall.")
    for answer, quoted in (("A climbing wall is safe.", 1), ("Good.", 0)):
        found = await ExtractiveConversationSummarizer().summarize(
            (), [afraid, turn(2, answer, role="assistant")]
        )
        assert len(found) == quoted
