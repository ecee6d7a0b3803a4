"""What an extractor is asked."""

import itertools
import re
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from memory_agent.domain import FactRecord, Turn
from memory_agent.facts.extractors import (
    PART_CHARS,
    REQUEST_CHARS,
    ExtractionRequest,
    Passage,
    messages,
    most_related,
    requested,
)
from memory_agent.facts.fold import fold_facts
from memory_agent.facts.keeper import Known
from memory_agent.text.terms import count_terms
from tests.unit.facts.builders import add, at, change, edit, put, turn


def nth(seq: int, content: str, **more: Any) -> Turn:
    return turn(content, id=f"t{seq:04d}", seq=seq, **{"timestamp": at(seq)} | more)


def records(*events: Any) -> tuple[FactRecord, ...]:
    return fold_facts([change(seq, event) for seq, event in enumerate(events, 1)]).records


def asked(*turns: Turn, shown: tuple[Turn, ...] = (), **more: Any) -> str:
    passages = tuple(Passage(turn=each, text=each.content) for each in turns)
    [_, user] = messages(ExtractionRequest(passages=passages, shown=shown, **more))
    return user.content


# --- which turns together
TEXTS = st.lists(
    st.builds(
        lambda word, times, end: word * times + end,
        st.sampled_from(["", "a", "tea ", "x\n", "é", "words and more "]),
        st.sampled_from([0, 1, 700, 3_000, PART_CHARS // 2, PART_CHARS, REQUEST_CHARS, 30_000]),
        st.sampled_from(["", "!", " "]),
    ),
    max_size=8,
)


@given(TEXTS)
def test_requests_lose_no_text_and_keep_their_size(texts: list[str]) -> None:
    """Parts of a turn joined are its text, in order; none is longer than a part, nor a request than a request."""
    turns = [(nth(seq, text), text) for seq, text in enumerate(texts, 1)]
    batches = list(requested(turns))
    passages = [passage for batch in batches for passage in batch]
    for each, text in turns:
        assert "".join(passage.text for passage in passages if passage.turn is each) == text
    assert [passage.turn.seq for passage in passages] == sorted(passage.turn.seq for passage in passages)
    assert all(0 < len(passage.text) <= PART_CHARS for passage in passages)
    assert all(batch and sum(len(passage.text) for passage in batch) <= REQUEST_CHARS for batch in batches)
    for batch, following in itertools.pairwise(batches):
        assert sum(len(passage.text) for passage in batch) + len(following[0].text) > REQUEST_CHARS


def test_long_turns_are_cut_between_words() -> None:
    text = "word " * 4_000
    parts = [passage.text for batch in requested([(nth(1, text), text)]) for passage in batch]
    assert len(parts) == 2
    assert all(part.endswith("word ") for part in parts)
    solid = "x" * (PART_CHARS + 5)
    parts = [passage.text for batch in requested([(nth(1, solid), solid)]) for passage in batch]
    assert [len(part) for part in parts] == [PART_CHARS, 5]
    early = "a " + "x" * (PART_CHARS + 5)
    assert next(iter(requested([(nth(1, early), early)])))[0].text == early[:PART_CHARS]


# --- how it is said
def test_the_conversation_is_in_order_with_numbers_dates_and_speakers() -> None:
    """Turns that are asked about have numbers, the others are context; today is the last one's date."""
    before = nth(1, "Where do you live?", role="assistant")
    first, between, last = (
        nth(2, "In Bergen"),
        nth(3, "Nice", role="assistant"),
        nth(4, "Yes", speaker='A<n>"n'),
    )
    text = asked(first, last, shown=(between, before, first))
    context, message = (
        '<context date="Friday 2026-11-20"',
        '<message number="{}" date="Friday 2026-11-20"'.format,
    )
    assert text.splitlines() == [
        *("Today is Friday 2026-11-20.", "<people>", "user, A n n", "</people>", "<conversation>"),
        *(f'{context} from="assistant">', "Where do you live?", "</context>"),
        *(f'{message(1)} from="user">', "In Bergen", "</message>"),
        *(f'{context} from="assistant">', "Nice", "</context>"),
        *(f'{message(2)} from="A&lt;n&gt;&quot;n">', "Yes", "</message>", "</conversation>"),
    ]


def test_what_is_known_and_what_is_never_noted_is_said() -> None:
    """Known facts line by line, with what is an element of a list; categories by name."""
    known = records(
        put("home.city", "Ber\ngen"), add("likes", "tea"), add("pets", {"kind": "dog"}), put("age", 7)
    )
    text = asked(nth(1, "Hi"), known=known, never=("health", "politics"))
    assert "<never>\nNever note anything about: health, politics\n</never>" in text
    assert (
        "<known_facts>\nuser, home.city: Ber gen\nuser, likes (in a list): tea\n"
        'user, pets (in a list): {"kind": "dog"}\nuser, age: 7\n</known_facts>'
    ) in text
    assert "<never>" not in asked(nth(1, "Hi"))
    assert "<known_facts>" not in asked(nth(1, "Hi"))


def test_context_is_cut_and_what_is_asked_about_is_not() -> None:
    """Context only helps to understand. Of markup only what looks like one of the prompt's tags is changed."""
    monday = nth(2, "Hi", timestamp=at(60 * 24 * 3))
    assert asked(nth(1, "Hi"), monday).startswith("Today is Monday 2026-11-23."), "the last one's date"
    assert "<b>x</b> &lt;message> <messenger>" in asked(nth(1, "<b>x</b> <message> <messenger>"))
    text = asked(nth(2, "x" * 5_000), shown=(nth(1, "y" * 501, role="assistant"), nth(0, "z" * 500)))
    assert "x" * 5_000 in text
    assert "y" * 500 + "…\n" in text
    assert "y" * 501 not in text
    assert "z" * 500 + "\n" in text


OURS = re.compile(r"<\s*/?\s*(messages?|context|people|known_facts|conversation|never)\b", re.IGNORECASE)
WORDS = [
    "<", "</", "< /", "message", "CONTEXT", "known_facts", "people", "conversation", "never", ">", " ", "\n", '"',
    "x",
]  # fmt: skip
HOSTILE = st.lists(st.sampled_from(WORDS), max_size=8).map("".join)


@given(HOSTILE, HOSTILE, HOSTILE, HOSTILE)
def test_no_text_can_close_or_open_a_tag(said: str, shown: str, known: str, speaker: str) -> None:
    told = asked(
        nth(2, f"a{said}", speaker=speaker or None),
        shown=(nth(1, f"b{shown}", speaker=speaker or None),),
        known=records(put("x", f"c{known}"), add("y", [f"d{known}"])),
        never=(f"e{shown}",),
    )
    assert [found[0] for found in OURS.finditer(told)] == [
        *("<never", "</never", "<people", "</people", "<known_facts", "</known_facts", "<conversation"),
        *("<context", "</context", "<message", "</message", "</conversation"),
    ]
    assert (
        len(re.findall(r'^<message number="1" date="Friday 2026-11-20" from="[^"<>]*">$', told, re.MULTILINE))
        == 1
    )


# --- which facts
def test_related_facts_come_before_newer_ones() -> None:
    known = records(
        put("favourite_drink", f"tea {'y' * 500}"), *(add("notes", f"{n} {'x' * 500}") for n in range(20))
    )
    assert known[0] not in most_related(known, ["Hello"])
    assert known[0] in most_related(known, ["a cup of tea"])
    assert known[0] in most_related(known, ["my favourite one"])
    assert known[-1] in most_related(known, ["Hello"]), "then the newest"
    known = records(put("a", "short"), put("b", "tea " * 2_000))
    assert most_related(known, ["tea"]) == known[:1], "what does not fit is left out by itself"


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
