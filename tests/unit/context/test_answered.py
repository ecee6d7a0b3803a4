"""What a short turn answers: what another said last that has a word of it, or asks; nothing where that isn't sure."""

import pytest

from memory_agent.context.exchanges import answered, spoken_of
from memory_agent.domain import Turn
from tests.unit.search.builders import turn

TALKS: dict[str, tuple[str | None, list[str]]] = {
    "a run whose question stands further up": (
        None,
        ["B: Morning!", "A: Have you a boat?", "A: The ferry is full again.", "B: Yes, since May"],
    ),
    "the turn with the same word, not a later question": (
        "I'm glazing two vases.",
        ["A: I'm glazing two vases.", "A: Is it raining there?", "B: Oh, vases are hard"],
    ),
    "a reaction of one's own lies between": (
        "Which film was it?",
        ["A: Which film was it?", "B: Haha", "B: Stalker"],
    ),
    "a new subject": (
        None,
        ["B: My car broke down.", "A: The olives were cheap.", "B: I'm at the harbour now"],
    ),
    "a question of another thing": (
        None,
        ["A: Do you save for a house?", "B: Look, have you seen this hat?"],
    ),
    "a question about what was said": (
        "I'm off to the cinema.",
        ["A: I'm off to the cinema.", "B: Which cinema?"],
    ),
    "what points back to the only turn": (
        "Meat was dear.",
        ["A: Meat was dear.", "B: That's how my gran ate"],
    ),
    "what points back to one of several": (
        None,
        ["A: Meat was dear.", "A: Fish wasn't.", "B: That's how my gran ate"],
    ),
    "one's own turn": (None, ["A: Have you a boat?", "B: I was in Lagos.", "B: Two in fact"]),
    "an answer in Korean": ("고기는 비쌌어요.", ["A: 고기는 비쌌어요.", "B: 아니요"]),
    "a mark alone asks nothing": (
        None,
        ["A: Are they people in costumes?", "A: ?", "B: Yes, like wrestlers"],
    ),
    "a greeting": (None, ["A: How did it go?", "B: Hey Ann!"]),
    "a reaction to what was told before": (
        None,
        ["A: I had the flu.", "A: Are you well?", "B: Oh no, that sucks"],
    ),
    "a plain no": ("Are you well?", ["A: I had the flu.", "A: Are you well?", "B: No."]),
    "a reaction in Korean": (None, ["A: 어제 아팠어요.", "A: 잘 지내요?", "B: 저런, 안녕!"]),
    "a question of something new with a word of before": (
        None,
        ["A: I heard it is dear.", "B: Hey, have you heard of Porto?"],
    ),
    "a name that both say": (None, ["A: Ben called the plumber.", "A: B is late.", "B: B is B"]),
}


def said(lines: list[str]) -> list[Turn]:
    return [turn(at, line[3:], speaker=line[0]) for at, line in enumerate(lines, start=1)]


@pytest.mark.parametrize("case", TALKS)
def test_the_turn_that_a_short_one_answers_is_told(case: str) -> None:
    """Or none, for a wrong question makes another thing of an answer."""
    expected, lines = TALKS[case]
    *before, last = said(lines)
    found = answered(last, before[::-1])
    assert (found and found.content) == expected


def test_nothing_of_another_session_is_answered() -> None:
    before, last = said(["A: Have you a boat?", "B: Yes, since May"])
    assert answered(last, [before]) == before
    assert answered(last, [turn(1, before.content, speaker="A", session_id="another")]) is None


def test_of_what_names_nothing_the_last_turn_that_names_something_is_told() -> None:
    """Passing over reactions and other turns that name nothing, within the session."""
    lines = [
        "A: We saw Dune at the old cinema.",
        "B: Oh wow, that's great!",
        "A: This one!",
        "A: I just finished it",
    ]
    *before, last = said(lines)
    assert spoken_of(last, before[::-1]) == before[0]
    assert spoken_of(before[0], []) is None
    assert spoken_of(turn(9, "I just finished the book."), before[::-1]) is None
    assert spoken_of(turn(9, last.content, session_id="another"), before[::-1]) is None


def test_where_people_say_whom_they_speak_to_others_talks_are_passed_over() -> None:
    """In a channel talks run across each other: an answer is to whom it names, or to who named its speaker."""
    lines = [
        "A: my screen recorder hears no sound",
        "B: ann: is the microphone on?",
        "C: does a build for newer systems run on older ones?",
        "A: found out why",
        "D: c: it does not",
    ]
    names = {"A": "ann", "B": "bo", "C": "c", "D": "d"}
    talk = [turn(at, line[3:], speaker=names[line[0]]) for at, line in enumerate(lines, start=1)]
    assert spoken_of(talk[3], talk[2::-1]) == talk[1]
    assert answered(talk[4], talk[3::-1]) == talk[2]
    # Where nobody is named, what was said last is gone on from.
    talk[1] = turn(2, "is the microphone on?", speaker="bo")
    assert spoken_of(talk[3], talk[2::-1]) == talk[2]
    # One who was named takes nothing from the others.
    lines = ["B: ann, are you coming?", "A: Yes.", "C: Where is the party on Friday?", "D: At the harbour."]
    talk = [turn(at, line[3:], speaker=names[line[0]]) for at, line in enumerate(lines, start=1)]
    assert answered(talk[3], talk[2::-1]) == talk[2]
    # Assistant and tool are no crowd.
    flight = [
        turn(1, "Book me a flight to Porto", speaker="ann"),
        turn(2, "seats: 12A", role="tool"),
        turn(3, "Ann, I found a flight at nine.", role="assistant"),
        turn(4, "Do you want a window seat?", role="assistant"),
        turn(5, "Yes, please.", speaker="ann"),
    ]
    assert answered(flight[4], flight[3::-1]) == flight[3]
