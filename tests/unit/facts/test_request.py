"""What an extractor is asked: the least that a small model needs, and what that costs."""

import itertools
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory_agent.domain import FactRecord, Message, Turn
from memory_agent.facts.extractors import (
    FIXED_TOKENS,
    ExtractionRequest,
    Passage,
    messages,
    most_related,
    parts_of,
    read_items,
    requested,
)
from memory_agent.facts.fold import fold_facts
from memory_agent.facts.keeper import Known
from memory_agent.models.tokens import EstimatedTokens
from memory_agent.text.terms import count_terms
from tests.unit.facts.builders import add, at, change, edit, put, turn

COUNTER = EstimatedTokens()


def nth(seq: int, content: str, **more: Any) -> Turn:
    return turn(content, id=f"t{seq:04d}", seq=seq, **{"timestamp": at(seq)} | more)


def records(*events: Any) -> tuple[FactRecord, ...]:
    return fold_facts([change(seq, event) for seq, event in enumerate(events, 1)]).records


def prompt(*turns: Turn, **more: Any) -> list[Message]:
    passages = tuple(Passage(turn=each, text=each.content) for each in turns)
    return messages(ExtractionRequest(passages=passages, **more))


def asked(*turns: Turn, **more: Any) -> str:
    return prompt(*turns, **more)[-1].content


# --- which turns together
MOST = 200
TEXTS = st.lists(
    st.builds(
        lambda word, times, end: word * times + end,
        st.sampled_from(["", "a", "tea ", "x\n", "é", "차 ", "words and more "]),
        st.sampled_from([0, 1, 30, 200, 900]),
        st.sampled_from(["", "!", " "]),
    ),
    max_size=8,
)


@given(TEXTS)
def test_requests_lose_no_text_and_keep_their_size(texts: list[str]) -> None:
    """Parts of a turn joined are its text, in order; no request has more tokens than it may, and each is full."""
    turns = [(nth(seq, text), text) for seq, text in enumerate(texts, 1)]
    batches = list(requested(turns, COUNTER, max_tokens=MOST))
    passages = [passage for batch in batches for passage in batch]
    for each, text in turns:
        assert "".join(passage.text for passage in passages if passage.turn is each) == text
    assert [passage.turn.seq for passage in passages] == sorted(passage.turn.seq for passage in passages)
    sizes = [[COUNTER.count(passage.text) for passage in batch] for batch in batches]
    assert all(0 < sum(size) <= MOST for size in sizes)
    for size, following in itertools.pairwise(sizes):
        assert sum(size) + following[0] > MOST


def test_long_turns_are_cut_between_words() -> None:
    parts = [*parts_of("word " * 1_000, COUNTER, MOST)]
    assert len(parts) > 2
    assert all(part.endswith("word ") for part in parts)
    assert all(COUNTER.count(part) <= MOST for part in parts_of("x" * 5_000, COUNTER, MOST))


# --- how it is said
def test_a_request_is_instructions_a_worked_example_and_the_messages() -> None:
    """Without numbers, dates or lists to choose from: each message with who wrote it."""
    system, example, answer, user = prompt(nth(1, "I row."), nth(2, "<b>Hm</b>", speaker='A<n>"n'))
    assert [each.role for each in (system, example, answer, user)] == ["system", "user", "assistant", "user"]
    assert user.content == (
        '<message from="user">\nI row.\n</message>\n<message from="A&lt;n&gt;&quot;n">\n<b>Hm</b>\n</message>'
    )
    assert not re.search(r"number|date=|confidence|additions|updates|retractions", system.content)
    assert "JSON" in system.content, "servers refuse json_object without the word"
    items = read_items(answer.content) or []
    assert [item.op for item in items] == ["add", "add", "add", "add", "retract"]
    assert all((item.quote or "nothing") in example.content for item in items)


@pytest.mark.parametrize(
    ("text", "korean"),
    [("I row.", False), ("저는 노를 저어요.", True), ("제 이름은 Ann이에요", True), ("My dog is called 초코 since May", False)],
)  # fmt: skip
def test_the_example_is_in_the_language_of_the_messages(text: str, korean: bool) -> None:
    _, example, answer, _ = prompt(nth(1, text))
    assert ("저는" in example.content) == ("지은" in answer.content) == korean


def test_what_is_known_is_one_line_and_what_is_never_noted_is_said() -> None:
    known = records(
        put("home.city", "Ber\ngen"), add("likes", "tea"), add("pets", {"kind": "dog"}), put("age", 7),
        put("occupation", "pilot", subject="Bo"),
    )  # fmt: skip
    system, *_, user = prompt(nth(1, "Hi"), known=known, never=("health", "politics"))
    assert user.content.splitlines()[0] == (
        '(Noted before: home.city: Ber gen; likes: tea; pets: {"kind": "dog"}; age: 7; Bo, occupation: pilot)'
    )
    assert system.content.endswith("\nNever note anything about: health, politics.")
    system, *_, user = prompt(nth(1, "Hi"))
    assert "Never note" not in system.content
    assert "Noted before" not in user.content


@pytest.mark.parametrize(
    ("text", "shown"),
    [("In Bergen", True), ("It is the one in old Bergen", False), ("Yes, in old Bergen by sea", True)],
)
def test_the_turn_before_is_shown_with_a_message_of_few_words_alone(text: str, shown: bool) -> None:
    """One of more is understood by itself. It stands in one line, cut where it is long."""
    said = "Where do\nyou live? " + "y" * 300
    before = {"t0002": nth(1, said, role="assistant")}
    lines = asked(nth(2, text), before=before).splitlines()
    told = f"(Before it, assistant: {said[:200]})".replace("\n", " ")
    assert lines == [*[told] * shown, '<message from="user">', text, "</message>"]


OURS = re.compile(r"<\s*/?\s*message\b|^\((?:Noted before|Before it)", re.IGNORECASE | re.MULTILINE)
WORDS = ["<", "</", "< /", "message", "MESSAGE", "messages", ">", " ", "\n", '"', "x", "\n(Noted before: "]
HOSTILE = st.lists(st.sampled_from(WORDS), max_size=8).map("".join)


@given(HOSTILE, HOSTILE, HOSTILE, HOSTILE)
def test_no_text_can_close_or_open_a_tag(said: str, before: str, known: str, speaker: str) -> None:
    turns = {"t0002": nth(1, f"b{before}", speaker=speaker or None)}
    held = records(put("x", f"c{known}"), add("y", f"d{known}"))
    short = nth(2, "a", speaker=speaker or None)
    told = asked(short, before=turns, known=held, never=(f"e{before}",))
    assert [found[0] for found in OURS.finditer(told)] == [
        "(Noted before",
        "(Before it",
        "<message",
        "</message",
    ]
    assert len(re.findall(r'^<message from="[^"<>]*">$', told, re.MULTILINE)) == 1
    system, *_, user = prompt(nth(2, f"a{said}"), never=(f"e{before}",))
    tags = re.findall(r"<\s*/?\s*message\b", user.content, re.IGNORECASE)
    assert tags == ["<message", "</message"]
    assert not re.search(r"<\s*/?\s*message\b", system.content, re.IGNORECASE)


# --- what it costs
EVERYDAY = (
    "I started at the bakery on Monday and my feet are killing me.",
    "Jonas can't have shellfish, so we are looking for a place that does good pasta.",
    "We moved the trip to Lisbon to the last week of May because of my knee.",
)
ALLTAG = (
    "월요일부터 빵집에서 일하기 시작했는데 발이 너무 아파요.",
    "남편은 조개를 못 먹어서 파스타 잘하는 집을 찾고 있어요.",
    "무릎 때문에 리스본 여행을 오월 마지막 주로 미뤘어요.",
)


@pytest.mark.parametrize("texts", [EVERYDAY, ALLTAG], ids=["english", "korean"])
def test_a_request_costs_little(texts: tuple[str, ...]) -> None:
    """1,200 tokens for one message, 350 for each of several; what does not depend on them is what is set apart for it."""

    def tokens(*said: str) -> int:
        whole = prompt(*(nth(seq, text) for seq, text in enumerate(said, 1)))
        return COUNTER.count("\n".join(message.content for message in whole))

    assert all(tokens(text) <= 1_200 for text in texts)
    assert tokens(*texts) <= 350 * len(texts)
    assert tokens("") <= FIXED_TOKENS


# --- which facts
def test_only_facts_that_share_words_with_the_messages_are_shown() -> None:
    """Those that share most, then the newest; few of them, in their order."""
    known = records(
        put("drink", "black tea"), put("pet", "cat"), *(add("notes", f"tea {n}") for n in range(20))
    )
    assert most_related(known, ["Hello"]) == ()
    shown = most_related(known, ["a cup of black tea"])
    assert len(shown) == 8
    assert shown[0] == known[0]
    assert {record.value for record in shown[1:]} == {f"tea {n}" for n in range(13, 20)}
    assert most_related(known, ["my favourite pet"]) == known[1:2]


# --- what a value was taken from
BORROWED: dict[str, tuple[Any, str, set[str]]] = {
    "what was shown is not borrowed": ("Bergen", "I live in Bergen", set()),
    "what only a known fact says is": ("Bergen", "I live there", {"t0001"}),
    "from several": ("in bergen, with Mia", "yes", {"t0001", "t0002"}),
    "after a line break": ("tea\nBergen", "tea", {"t0001"}),
    "in any depth": ({"city": ["a\tBergen"]}, "a", {"t0001"}),
    "also a word of its path": ("the home", "yes", {"t0001"}),
    "what nobody says is nobody's": ("Oslo", "yes", set()),
    "nothing": (None, "yes", set()),
    "a number": (7, "yes", {"t0003"}),
    "what a person set is no turn's": ("Ann", "yes", set()),
}


def test_words_that_no_shown_text_holds_come_from_known_facts() -> None:
    """So that forgetting a turn forgets what was written with its words."""
    known = fold_facts(
        [
            change(1, put("home", "Bergen")),
            change(2, put("sister", {"name": ["x\nMia"]})),
            change(3, put("age", 7)),
            edit(4, put("nick", "Ann")),
        ]
    )
    for name, (value, shown, turns) in BORROWED.items():
        assert Known(known).borrowed(value, count_terms(shown).keys()) == turns, name
    # A fact that several turns stated is borrowed from all.
    known = fold_facts([change(1, put("home", "Bergen")), change(2, put("home", "bergen"))])
    assert Known(known).borrowed("Bergen", {"there"}) == {"t0001", "t0002"}
