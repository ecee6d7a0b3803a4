"""The reminder of who the assistant is: always there, never too long, and about how things stand now."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory_agent.context.assemble import Material
from memory_agent.context.conversation import Reminder, remind
from memory_agent.domain import Character
from memory_agent.ports import TokenCounter
from tests.unit.search.builders import COUNTERS, HOSTILE, ExactTokens, pack

MIA = Character(
    name="Mia Holm",
    personality="warm, curious, a little ironic",
    profile="A retired lighthouse keeper from Bodø who repairs clocks. " * 20,
    traits=("patient", "never lies"),
)


def reminder(topics: list[str], *, most: int = 200, character: Character | None = MIA) -> Reminder:
    return remind(character, topics, counter=ExactTokens(), max_tokens=most)


def test_a_long_profile_is_cut_at_a_word_and_the_state_has_room_of_its_own() -> None:
    """The line that does not fit ends in "…"."""
    shown = reminder(["Clocks"])
    assert shown.identity[:3] == (
        "You are Mia Holm.",
        "Personality: warm, curious, a little ironic",
        "Traits: patient, never lies",
    )
    assert shown.identity[3].startswith("Profile: A retired lighthouse keeper")
    assert shown.identity[3].endswith(" …")
    assert shown.identity[3].removesuffix(" …") in f"Profile: {MIA.profile}"
    assert 130 < ExactTokens().count("\n".join(shown.identity)) <= 200
    assert shown.state == ("Talked about: Clocks",)


def test_a_character_of_two_hundred_tokens_is_told_whole() -> None:
    """Also where one line has most of it."""
    words = "clocks " * 175
    character = Character(name="Mia Holm", personality="warm", profile=words.strip(), traits=("patient",))
    whole = ["You are Mia Holm.", "Personality: warm", "Traits: patient", f"Profile: {words.strip()}"]
    assert 180 <= ExactTokens().count("\n".join(whole)) <= 200
    assert list(reminder(["Clocks"], character=character).identity) == whole


def test_without_a_character_only_the_state_is_told() -> None:
    """The newest four topics; of a conversation without any, nothing."""
    assert reminder([], character=None) == reminder([], character=None, most=0)
    assert [tier for tier, _ in reminder([], most=0).left] == ["persona"] * 4
    state = reminder(list("ABCDEF"), character=None)
    assert (state.identity, state.state) == ((), ("Talked about: A; B; C; D",))


texts = st.text(st.characters(codec="utf-8"), min_size=1, max_size=200) | st.sampled_from(
    (*HOSTILE, "저는 " * 90, "🎉" * 60)
)


@pytest.mark.parametrize("counter", COUNTERS, ids=["exact", "estimated"])
@given(
    character=st.none()
    | st.builds(
        Character, name=texts, personality=texts, profile=texts, traits=st.lists(texts, max_size=3).map(tuple)
    ),
    notes=st.lists(texts, max_size=5),
    most=st.integers(0, 300),
)
def test_whatever_it_says_it_fits_and_is_shown_as_it_is(
    counter: TokenCounter, character: Character | None, notes: list[str], most: int
) -> None:
    """As text and in a prompt, where our tags in it are defused, it takes at most what it may."""
    shown = remind(character, notes, counter=counter, max_tokens=most)
    assert counter.count("\n".join(shown.identity)) <= most
    assert counter.count("\n".join(shown.state)) <= 60
    assert all("\n" not in line for line in (*shown.identity, *shown.state))
    material = Material(persona=shown.identity, state=shown.state)
    context = pack(material, 10_000, preset="chat", counter=counter)
    assert context.reminder == str(shown)
