"""The reminder of who the assistant is: always there, never too long, and about how things stand now."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory_agent.context.assemble import pack_context
from memory_agent.context.budget import PRESETS, usable
from memory_agent.context.material import Material
from memory_agent.context.persona import Reminder, remind
from memory_agent.domain import Character
from memory_agent.ports import TokenCounter
from tests.unit.search.builders import COUNTERS, HOSTILE, ExactTokens

MIA = Character(
    name="Mia Holm",
    personality="warm, curious, a little ironic",
    profile="A retired lighthouse keeper from Bodø who repairs clocks. " * 12,
    traits=("patient", "never lies"),
)


def reminder(topics: list[str], *, most: int = 200, character: Character | None = MIA) -> Reminder:
    return remind(character, topics, counter=ExactTokens(), max_tokens=most)


def test_a_long_profile_is_cut_at_a_word_and_leaves_room_for_the_state() -> None:
    """Identity gets its share; the line that does not fit ends in "…"."""
    shown = reminder(["Clocks"])
    assert shown.identity[:3] == (
        "You are Mia Holm.",
        "Personality: warm, curious, a little ironic",
        "Traits: patient, never lies",
    )
    assert shown.identity[3].startswith("Profile: A retired lighthouse keeper")
    assert shown.identity[3].endswith(" …")
    assert shown.identity[3].removesuffix(" …") in f"Profile: {MIA.profile}"
    assert ExactTokens().count("\n".join(shown.identity)) <= 120
    assert shown.state == ("Talked about: Clocks",)


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
    assert counter.count(str(shown)) <= usable(most, counter)
    assert all("\n" not in line for line in (*shown.identity, *shown.state))
    context = pack_context(
        Material(persona=shown.identity, state=shown.state),
        shares=PRESETS["balanced"],
        preset="balanced",
        budget=10_000,
        counter=counter,
    )[0]
    assert context.reminder == str(shown)


CHINESE = "她在海边的灯塔里住了四十年修理钟表喜欢听雨声" * 60
KOREAN = "다정하고호기심많고가끔은장난스러운성격이에요" * 40


@pytest.mark.parametrize("counter", COUNTERS, ids=["exact", "estimated"])
def test_what_is_written_without_blanks_is_cut_within_a_word(counter: TokenCounter) -> None:
    character = Character(name="林", personality=KOREAN[:880], profile=CHINESE)
    for most in (60, 100, 200, 400):
        shown = remind(character, [], counter=_Letters(), max_tokens=most)
        assert shown.identity[0] == "You are 林."
        assert shown.identity[1].startswith("Personality: 다정하고")
        assert all(line.endswith("…") for line in shown.identity[1:])
        assert sum(map(len, shown.identity)) >= most * 0.6 - 20
        assert _Letters().count(str(shown)) <= most
    shown = remind(character, [], counter=counter, max_tokens=200)
    assert any("다정하고" in line for line in shown.identity)
    assert counter.count(str(shown)) <= usable(200, counter)


class _Letters:
    """A `TokenCounter` by which every character is a token."""

    margin = 0.0

    def count(self, text: str) -> int:
        return len(text)


@given(
    name=st.text("ab林 김", min_size=1, max_size=512).filter(str.strip),
    text=st.text("ab林 김", max_size=300),
    most=st.integers(20, 300),
)
def test_the_name_is_always_told(name: str, text: str, most: int) -> None:
    """In any reminder that may be asked for, and it never takes more than it may."""
    character = Character(name=name, personality=text, profile=text)
    shown = remind(character, [], counter=_Letters(), max_tokens=most)
    assert shown.identity[0].startswith(f"You are {name.split()[0][:1]}")
    assert len(str(shown)) <= most
