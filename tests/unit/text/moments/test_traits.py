"""What a turn leaves behind for the character's reminder."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from memory_agent.text.moments.detect import (
    MOST_TRAITS,
    NOTE_CHARS,
    TRAIT_CHARS,
    observed_traits,
    relationship_note,
)
from tests.unit.examples import examples, misses

EXAMPLES = examples("text/moments/traits.toml")


def test_traits_are_what_the_assistant_shows_or_says() -> None:
    """Statements about itself and what it plays, in its own words; a user shows none of the character."""
    assert misses(EXAMPLES["traits"], lambda text: list(observed_traits(text, role="assistant"))) == []
    assert observed_traits("I never lie. *smiles*", role="user") == ()


def test_a_word_about_the_two_is_noted() -> None:
    """Trust, affection, names, disappointment; not requests, questions, conditions, other people or what a tool says."""
    for role in ("user", "assistant"):
        assert misses(EXAMPLES["notes"], lambda text, role=role: relationship_note(text, role=role)) == []
    assert [text for text in EXAMPLES["no_note"] if relationship_note(text, role="user") is not None] == []
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
