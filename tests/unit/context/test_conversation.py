"""Packing what stands for a conversation: it fits, begins with the reminder, ends with the newest turns."""

import dataclasses
from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from memory_agent.context.budget import PRESERVED_TOKENS, SUMMARY_TOKENS
from memory_agent.context.conversation import ORDER, Conversation, Reminder, choose_preserved, pack_compressed
from memory_agent.context.items import SECTION_OF
from memory_agent.context.render import fact_leaves
from memory_agent.digest.fold import Digest
from memory_agent.domain import CompressedContext, KeyMoment, TopicRanges
from memory_agent.models.tokens import EstimatedTokens
from memory_agent.ports import TokenCounter
from memory_agent.text.quotes import LEAST_TELLING
from tests.unit.search.builders import (
    BUDGETS,
    COUNTERS,
    assert_fits_and_adds_up,
    conversations,
    item,
    moment,
    turn,
)

ESTIMATE = EstimatedTokens()


def pack(
    conversation: Conversation, budget: int = 4_000, *, counter: TokenCounter = ESTIMATE
) -> CompressedContext:
    return pack_compressed(conversation, budget=budget, counter=counter)


def expected_ledger(conversation: Conversation) -> list[tuple[str, str]]:
    """Tier and name of every item of the conversation, but for what key moments are shown."""
    reminder, digest = conversation.reminder, conversation.digest
    names = [("persona", f"persona[{i}]") for i in range(len(reminder.identity))]
    names += [("state", f"state[{i}]") for i in range(len(reminder.state))]
    names += [
        ("summary" if item.said_at else SECTION_OF[item.kind], f"summary[{i}]")
        for i, item in enumerate(conversation.summary)
    ]
    titled = {
        conversation.titles[t.topic_id]: t.topic_id
        for t in digest.topics
        if t.topic_id in conversation.titles
    }
    names += [("topics", topic_id) for topic_id in titled.values()]
    names += [("facts", ".".join(path)) for path, _ in fact_leaves(conversation.facts)]
    names += [("preserved", shown.id) for shown, _ in conversation.preserved]
    names += [("short_term", shown.id) for shown in conversation.recent]
    return names


@given(conversations(), st.sampled_from(BUDGETS) | st.integers(0, 600), st.sampled_from(COUNTERS))
def test_any_conversation_fits_once_and_is_accounted_for(
    conversation: Conversation, budget: int, counter: TokenCounter
) -> None:
    """Text and messages fit, the ledger has every item once and adds up, no turn is whole in two places."""
    context = pack(conversation, budget, counter=counter)
    assert_fits_and_adds_up(context, ORDER, counter, budget)
    considered = Counter((e.tier, e.item) for e in context.ledger if e.tier not in ("envelope", "moments"))
    expected = [(tier, name) for tier, name in expected_ledger(conversation) if tier != "moments"]
    assert considered == Counter(expected)
    assert len({e.item for e in context.ledger if e.tier == "moments"}) == sum(
        e.tier == "moments" for e in context.ledger
    )

    kept = [(entry.tier, entry.item) for entry in context.ledger if entry.kept]
    turns = [name for tier, name in kept if tier in ("preserved", "short_term")]
    assert len(turns) == len(set(turns))
    assert not {name for tier, name in kept if tier == "moments"} & set(turns)
    assert [shown.id for shown in context.recent] == [n for t, n in kept if t == "short_term"]
    assert [shown.id for shown in context.preserved] == [n for t, n in kept if t == "preserved"]
    assert context.metadata.preserved_ids == tuple(shown.id for shown in context.preserved)
    assert context.metadata.tokens_before == conversation.digest.tokens
    for tier, most in (("summary", SUMMARY_TOKENS), ("preserved", PRESERVED_TOKENS)):
        assert sum(e.tokens for e in context.ledger if e.kept and e.tier == tier) <= most


@given(conversations(), st.sampled_from(BUDGETS) | st.integers(0, 600), st.sampled_from(COUNTERS))
def test_the_newest_turn_is_in_whenever_it_fits_beside_the_reminder(
    conversation: Conversation, budget: int, counter: TokenCounter
) -> None:
    alone = pack(
        Conversation(
            reminder=conversation.reminder,
            digest=Digest(),
            summary=(),
            preserved=(),
            recent=conversation.recent[-1:],
            titles={},
        ),
        budget,
        counter=counter,
    )
    if alone.recent:
        context = pack(conversation, budget, counter=counter)
        assert context.recent[-1] == conversation.recent[-1]
        assert context.reminder == alone.reminder


SAID = [turn(i, f"turn number {i}") for i in range(1, 21)]
FULL = Conversation(
    reminder=Reminder(identity=("You are Mia.",), state=("Talked about: Trains",)),
    digest=Digest(
        through=20,
        turns=20,
        tokens=900,
        moments=(moment(SAID[2], text="number 3"), moment(SAID[4], text="number 5")),
        topics=(TopicRanges(topic_id="t1", ranges=((1, 8), (12, 12))),),
    ),
    summary=(
        item(5, "They met."),
        item(6, "It rained.", last_seq=8),
        item(3, "Calm → Cold"),
        item(4, "Stay in."),
        item(7, "Has a coat."),
    ),
    preserved=((SAID[2], 8.0),),
    recent=SAID[-10:],
    titles={"t1": "Trains"},
    facts={"name": "Ann"},
)


def test_the_reminder_is_first_and_the_recent_turns_last() -> None:
    context = pack(FULL)
    assert [block.tier for block in context.blocks] == list(ORDER)
    assert context.reminder == "You are Mia.\nTalked about: Trains"
    assert [shown.seq for shown in context.recent] == list(range(11, 21))
    assert context.part("short_term").splitlines()[:2] == ["[3 May 2026]", "user: turn number 11"]
    assert context.part("preserved") == "[3 May 2026]\nuser: turn number 3"
    assert context.part("moments") == "Turn 6-8: It rained.\n[3 May 2026]\nuser: number 5"
    assert [context.part(tier) for tier in ("summary", "journey", "decisions", "facts")] == [
        *("They met.", "Calm → Cold", "- Stay in.", "- name: Ann\n- Has a coat.")
    ]
    assert (context.journey, context.decisions) == ("Calm → Cold", "Stay in.")
    assert (context.facts, context.summary) == ({"name": "Ann"}, FULL.summary)
    assert [(topic.title, topic.ranges) for topic in context.topics] == [("Trains", ((1, 8), (12, 12)))]
    metadata = context.metadata
    assert (metadata.original_turns, metadata.number, metadata.compressed_at) == (20, 0, 0)
    assert (metadata.tokens_before, metadata.tokens_after) == (900, context.tokens)


def test_a_key_moment_is_not_excerpted_where_its_turn_is_shown_whole() -> None:
    digest = dataclasses.replace(
        FULL.digest, moments=(*FULL.digest.moments, moment(SAID[15], text="number 16"))
    )
    text = pack(dataclasses.replace(FULL, digest=digest)).part("moments")
    assert "number 5" in text
    assert "number 3" not in text
    assert "number 16" not in text


# --- what is kept word for word ------------------------------------------------------------------------------
@given(
    st.lists(
        st.builds(
            lambda seq, score, tokens: moment(turn(seq, "x", tokens=tokens), score=score),
            st.integers(1, 30),
            st.floats(0, 12),
            st.integers(0, 80),
        ),
        unique_by=lambda m: m.turn_id,
    ),
    st.sets(st.integers(1, 30).map("turn{}".format)),
    st.integers(0, 1_000),
)
def test_preserved_turns_fit_and_are_the_weightiest(
    moments: list[KeyMoment], recent: set[str], room: int
) -> None:
    """At most so many tokens, no recent turn, and none left out that weighs more and is no longer than one kept."""
    digest = Digest(through=10_000, moments=tuple(moments))
    chosen, passed_over = choose_preserved(digest, kept=(), recent=recent, max_tokens=room)
    ids = {m.turn_id for m in chosen}
    assert sum(m.tokens for m in chosen) <= room
    assert not ids & recent
    for out in moments:
        if out.turn_id not in ids | recent:
            assert (out in passed_over) == (out.score >= LEAST_TELLING)
            assert not any(m.score < out.score and m.tokens >= out.tokens for m in chosen)


def test_long_prose_is_quoted_and_not_kept_whole() -> None:
    """Unless it is code, or as important as a caller can say."""
    long, code, given_ = (
        moment(turn(1, "x", tokens=81)),
        dataclasses.replace(moment(turn(2, "x", tokens=81)), code=True),
        moment(turn(3, "x", tokens=81), score=10.0),
    )
    digest = Digest(through=100, moments=(long, code, given_))
    assert choose_preserved(digest, kept=(), recent=set(), max_tokens=999) == ([given_, code], [long])
