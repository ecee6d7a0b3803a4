"""What a turn leaves behind for the character's reminder."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory_agent.text.moments.traits import (
    MOST_TRAITS,
    NOTE_CHARS,
    TRAIT_CHARS,
    observed_traits,
    relationship_note,
)


@pytest.mark.parametrize(
    ("text", "traits"),
    [
        ("I never lie.", ("I never lie",)),
        ("I'm the kind of friend who always listens!", ("I'm the kind of friend who always listens",)),
        ("*laughs softly* That is kind.", ("*laughs softly*",)),
        ("*smiles* I always try to be fair. Shall we?", ("*smiles*", "I always try to be fair")),
        ("저는 솔직한 편이에요.", ("저는 솔직한 편이에요",)),
        ("*고개를 끄덕이며* 그렇군요.", ("*고개를 끄덕이며*",)),
        ("I never lie. I never lie.", ("I never lie",)),
        ("Here is the list.", ()),
        ("This is *important* to know.", ()),
        ("2 * 3 * 4 is 24", ()),
        ("**Bold** text", ()),
        ("Do you ever lie?", ()),
        ("I can help you with that.", ()),
        ("", ()),
    ],
)
def test_traits_are_what_the_assistant_shows_or_says(text: str, traits: tuple[str, ...]) -> None:
    """Statements about itself and what it plays, in its own words."""
    assert observed_traits(text, role="assistant") == traits


def test_a_user_shows_no_traits_of_the_character() -> None:
    """The reminder is about the assistant."""
    assert observed_traits("I never lie. *smiles*", role="user") == ()


@pytest.mark.parametrize(
    ("text", "note"),
    [
        ("I trust you.", "I trust you."),
        ("Thanks. You're my best friend!", "You're my best friend!"),
        ("I'm disappointed in you.", "I'm disappointed in you."),
        ("Please call me Ann.", "Please call me Ann."),
        ("Can I call you Max?", "Can I call you Max?"),
        ("We've become good friends.", "We've become good friends."),
        ("You mean a lot to me", "You mean a lot to me"),
        ("I love you.", "I love you."),
        ("I don't trust you any more.", "I don't trust you any more."),
        ("넌 내 친구야", "넌 내 친구야"),
        ("오늘 고마웠어. 난 너를 믿어.", "난 너를 믿어."),
        ("저를 지니라고 불러 주세요.", "저를 지니라고 불러 주세요."),
        ("당신에게 실망했어요.", "당신에게 실망했어요."),
    ],
)
def test_a_word_about_the_two_is_noted(text: str, note: str) -> None:
    """Trust, affection, names, disappointment: the first sentence that says it."""
    assert relationship_note(text, role="user") == note
    assert relationship_note(text, role="assistant") == note


@pytest.mark.parametrize(
    "text",
    [
        "I need you to fix this.",
        "Do you trust me?",
        "If you were my friend, you'd help.",
        "He is my best friend.",
        "Call me when you arrive.",
        "You are right.",
        "I'd love you to come.",
        "Thank you!",
        "커피를 좋아해요.",
        "날 믿어?",
        "친구가 왔어요.",
        "",
    ],
)
def test_what_is_not_about_the_two_is_left_alone(text: str) -> None:
    """Requests, questions, conditions and other people are no note."""
    assert relationship_note(text, role="user") is None


def test_tools_say_nothing_about_anybody() -> None:
    """Only users and assistants have a relationship."""
    assert relationship_note("I trust you.", role="tool") is None


def test_long_phrases_are_cut() -> None:
    """Within their lengths, with an ellipsis."""
    note = relationship_note("I trust you " + "more than anybody " * 20, role="user")
    (trait,) = observed_traits("I never lie " + "about anything at all " * 20, role="assistant")[:1]
    assert note is not None
    assert len(note) <= NOTE_CHARS
    assert len(trait) <= TRAIT_CHARS
    assert note.endswith("…")
    assert trait.endswith("…")


@given(
    st.text(max_size=300)
    | st.lists(
        st.sampled_from(["*smiles*", "I never lie.", "*", "i trust you", "너", "믿어", "call me x"]),
        max_size=30,
    ).map(" ".join)
)
def test_any_text_gives_short_phrases(text: str) -> None:
    """Whatever comes in, what comes out is short, in one line and of bounded number."""
    traits = observed_traits(text, role="assistant")
    assert len(traits) <= MOST_TRAITS
    assert all(0 < len(trait) <= TRAIT_CHARS and "\n" not in trait for trait in traits)
    note = relationship_note(text, role="user")
    assert note is None or 0 < len(note) <= NOTE_CHARS
