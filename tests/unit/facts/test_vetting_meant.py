"""What a model's item comes to by the words of its message: whose fact it is, whether it is meant, what it changes."""

from datetime import UTC, datetime
from typing import Any

import pytest

from memory_agent.domain import StatedFact
from memory_agent.facts.vetting import Vetted
from tests.unit.facts.builders import item, turn
from tests.unit.facts.statements import NOTHING, holding, said_of, vetted

WISH = "it is a wish or a supposition"
ASKED = "it is a question"
QUOTED = "somebody else's words are quoted"
PLAY = "it is play, a test or a text to work on"

Said = tuple[str, str, Any] | tuple[str, str, Any, bool]
"""About whom, path, value, and whether the model says that it is over."""


def come_to(
    text: str, *said: Said, holds: dict[str, Any] | None = None, people: tuple[str, ...] = (), by: str = ""
) -> list[str]:
    """What the items come to: each event as op, path and value, each refusal as its reason."""

    def of(about: str, path: str, value: Any, over: bool = False) -> StatedFact:
        return item(path, value, text, subject=about, op="retract" if over else "add")

    known = holding(holds) if holds else NOTHING
    others = {name.casefold(): name for name in people}
    items = [of(*one) for one in said]
    made = Vetted(said_of(turn(text, speaker=by or None), *items, people=others), known)
    events = [
        f"{event.op} {event.subject and event.subject + ', '}{'.'.join(event.path)}"
        + ("" if event.value is None else f": {event.value}")
        for event in made.events
        # That what somebody likes is not among their dislikes.
        if not (event.op == "remove" and event.path[-1] in ("likes", "dislikes") and not holds)
    ]
    return [*events, *(refused.reason for refused in made.refused)]


# --- whose it is
HUSBAND = {"family": {"husband": "Emil"}}
WALNUTS = "My husband Emil is allergic to walnuts."
PIANOS = "I repair pianos in Ghent."


@pytest.mark.parametrize("about", ["me", "I", "speaker", "the user", "User", "writer", "Nora", "nora", ""])
def test_who_wrote_it_is_called_by_many_names(about: str) -> None:
    said = (about, "occupation", "repairs pianos")
    assert come_to(PIANOS, said, holds={"name": "Nora"}) == ["set occupation: repairs pianos"]
    if about:
        assert come_to(PIANOS, said, by="Nora") == ["set Nora, occupation: repairs pianos"]


WHOSE: list[tuple[str, Said, dict[str, Any], str]] = [
    (WALNUTS, ("me", "allergies", "walnuts"), {}, "add people.emil.allergies: walnuts"),
    (WALNUTS, ("Emil", "allergies", "walnuts"), {}, "add people.emil.allergies: walnuts"),
    (WALNUTS, ("husband", "health.allergies", "walnuts"), {}, "add people.emil.health.allergies: walnuts"),
    ("My husband is allergic to walnuts.", ("my husband", "allergies", "walnuts"), {"holds": HUSBAND}, "add people.emil.allergies: walnuts"),
    ("My husband is allergic to walnuts.", ("me", "allergies", "walnuts"), {}, "add people.husband.allergies: walnuts"),
    ("My colleague Tariq keeps bees.", ("me", "interests", "keeps bees"), {}, "add people.tariq.interests: keeps bees"),
    ("My boss Farouk has asthma.", ("Farouk", "health", "asthma"), {}, "add people.farouk.health: My boss Farouk has asthma"),
    ("Tariq keeps bees.", ("Tariq", "interests", "bees"), {"people": ("Tariq",)}, "add Tariq, interests: bees"),
    (PIANOS, ("Wilhelmina", "occupation", "repairs pianos"), {}, "it is about 'Wilhelmina', and nobody in the conversation has that name"),
    ("My wife Signe and I live in Aarhus.", ("me", "location", "Aarhus"), {}, "set location: Aarhus"),
    ("Our son Per turned nine.", ("Per", "age", "nine"), {}, "set people.per.age: nine"),
    ("My brother Otto lives in Graz.", ("me", "relatives", "Otto"), {}, "add family.brother: Otto"),
    ("My wife Signe bakes.", ("me", "family.wife", "Signe"), {}, "set family.wife: Signe"),
    ("My aunt Petra knits.", ("me", "family", "aunt Petra"), {}, "add family.aunt: aunt Petra"),
    ("My brother-in-law Kemal drives a tram.", ("me", "family.brother_in_law", "Kemal"), {}, "add family.brother_in_law: Kemal"),
    ("남편 민호는 새우 알레르기가 있어요.", ("me", "allergies", "새우"), {}, "add people.민호.allergies: 새우"),
    # What nobody said is noted in the words that were.
    ("I play the oboe on Sundays.", ("me", "instruments", "harpsichord"), {}, "add notes: I play the oboe on Sundays"),
    ("We fly to Rome on 3 May.", ("me", "name", "Tom"), {}, "add notes: We fly to Rome on 3 May"),
    ("My dog is Rex.", ("me", "pets", "dog Rex"), {}, "add pets: dog Rex"),
    ("My cat Moss is allergic to chicken.", ("me", "pets", "Moss"), {}, "add pets: Moss"),
    ("저는 땅콩 알레르기가 있어요.", ("me", "allergies", "땅콩"), {}, "add allergies: 땅콩"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "said", "given", "event"), WHOSE)
def test_a_fact_is_whose_its_words_say(text: str, said: Said, given: dict[str, Any], event: str) -> None:
    assert come_to(text, said, **given) == [event]


@pytest.mark.parametrize(
    "said",
    [
        [("me", "family.daughter", "Ida"), ("me", "family.daughter", "Smilla")],
        [("me", "family.daughters", ["Ida", "Smilla"])],
        [("me", "family.daughter", "Ida and Smilla")],
    ],
)
def test_several_of_one_relation_are_a_list_of_names(said: list[Said]) -> None:
    for text in ("Our daughters are Ida and Smilla.", "My daughters Ida and Smilla sail."):
        assert come_to(text, *said) == ["add family.daughter: Ida", "add family.daughter: Smilla"]


def test_a_fact_of_a_relative_is_not_noted_a_second_time_as_ones_own() -> None:
    said = [("Signe", "interests", "bakes"), ("me", "interests", "bakes")]
    assert come_to("My wife Signe bakes.", *said) == ["add people.signe.interests: bakes"]


# --- whether it is meant
DOUBTS: list[tuple[str, str, str, str]] = [
    ("I wish I had a cottage by the lake.", "home", "cottage by the lake", WISH),
    ("If I won the lottery I'd move to Madeira.", "location", "Madeira", WISH),
    ("I dreamed of owning a vineyard.", "goals", "vineyard", WISH),
    ("제주도에 살고 싶어요.", "location", "제주도", WISH),
    ("Should I learn Basque?", "languages", "Basque", ASKED),
    ("서울에 살까요?", "location", "서울", ASKED),
    ("Maybe I will study botany.", "plans", "study botany", "it is not said for sure"),
    ("My friend thinks I'm French.", "nationality", "French", "somebody says or believes so"),
    ("I have three heads, just kidding.", "health", "three heads", "it is taken back as a joke"),
    ('My neighbour said "I collect stamps".', "interests", "collect stamps", QUOTED),
    ("Pretend you are a pirate. I sail the seven seas.", "occupation", "sail the seven seas", PLAY),
]


@pytest.mark.parametrize(("text", "path", "value", "why"), DOUBTS)
def test_what_is_not_meant_as_said_is_refused_with_the_reason(
    text: str, path: str, value: str, why: str
) -> None:
    assert come_to(text, ("me", path, value)) == [why]


# --- what is over
PETS = {"pets": ["cat Biscuit", "dog Moss"]}
SWEETS = {"preferences": {"likes": ["liquorice", "jam"]}}
GHENT = {"location": "Ghent"}
ENDS: list[tuple[str, Said, dict[str, Any], str]] = [
    ("I gave up fencing last autumn.", ("me", "interests", "fencing"), {"interests": ["fencing", "chess"]}, "remove interests: fencing"),
    ("I used to live in Turku.", ("me", "location", "Turku"), {}, "remove location: Turku"),
    ("담배를 끊었어요.", ("me", "habits", "담배"), {"habits": ["담배", "요가"]}, "remove habits: 담배"),
    ("Biscuit ran away last week.", ("me", "pets", "Biscuit", True), PETS, "remove pets: cat Biscuit"),
    ("I no longer have Biscuit.", ("me", "pets.cat", "Biscuit", True), PETS, "remove pets: cat Biscuit"),
    ("I don't like liquorice any more.", ("me", "likes.liquorice", "", True), SWEETS, "remove preferences.likes: liquorice"),
    ("I've gone off liquorice.", ("me", "likes", "liquorice"), SWEETS, "remove preferences.likes: liquorice"),
    ("I no longer live in Ghent.", ("me", "location.city", "Ghent", True), GHENT, "remove location: Ghent"),
    ("I no longer live in Ghent.", ("me", "location.city", "", True), GHENT, "retract location"),
    ("I quit my job at the mill.", ("me", "occupation", "mill", True), {"occupation": "miller at the mill"}, "remove occupation: miller at the mill"),
    # The model alone says so.
    ("I play the oboe on Sundays.", ("me", "instruments", "oboe", True), {"instruments": ["oboe"]}, "nothing in its words says that it is over"),
    ("I play the oboe on Sundays.", ("me", "instruments", "oboe", True), {}, "add instruments: oboe"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "said", "holds", "comes_to"), ENDS)
def test_what_is_over_by_its_words_goes(text: str, said: Said, holds: dict[str, Any], comes_to: str) -> None:
    """Whatever the model says, and by whatever name it takes back what is known."""
    assert come_to(text, said, holds=holds) == [comes_to]


# --- clause by clause
LIKES, DISLIKES = "add preferences.likes: ", "add preferences.dislikes: "
SPORTS = [f"{LIKES}skating", f"{LIKES}pottery", f"{DISLIKES}golf"]
CLAUSES: list[tuple[str, Said, list[str]]] = [
    ("I like skating and pottery but I can't stand golf.", ("me", "likes", ["skating", "pottery", "golf"]), SPORTS),
    ("I like skating and pottery but I can't stand golf.", ("me", "likes", "skating, pottery and golf"), SPORTS),
    ("My mother adores opera, I prefer jazz.", ("me", "likes", ["opera", "jazz"]), ["add people.mother.likes: opera", f"{LIKES}jazz"]),
    ("I used to live in Turku, now I live in Vaasa.", ("me", "location", ["Turku", "Vaasa"]), ["remove location: Turku", "set location: Vaasa"]),
    ("I hate cilantro.", ("me", "likes", "cilantro"), [f"{DISLIKES}cilantro"]),
    ("I love rhubarb.", ("me", "dislikes", "rhubarb"), [f"{LIKES}rhubarb"]),
    ("We still like karaoke.", ("me", "likes", "karaoke"), [f"{LIKES}karaoke"]),
    ("I don't like karaoke.", ("me", "preferences.likes", "karaoke"), [f"{DISLIKES}karaoke"]),
    ("I don’t really like karaoke.", ("me", "likes", "karaoke"), [f"{DISLIKES}karaoke"]),
    ("I have two turtles, Flip and Flop.", ("me", "pets", "Flip, Flop"), ["add pets: Flip", "add pets: Flop"]),
]  # fmt: skip


@pytest.mark.parametrize(("text", "said", "events"), CLAUSES)
def test_each_thing_of_a_list_is_read_by_its_own_clause(text: str, said: Said, events: list[str]) -> None:
    """Likes and dislikes by the verb before them."""
    assert come_to(text, said) == events


# --- days and changes
TRIPS = {"plans": ["trip to Porto on 3 May", "marathon in June"]}


def test_a_moved_date_takes_the_place_of_the_one_before() -> None:
    said = ("me", "plans", "trip to Porto on 21 May")
    events = ["remove plans: trip to Porto on 3 May", "add plans: trip to Porto on 21 May"]
    assert come_to("We moved the trip to Porto to 21 May.", said, holds=TRIPS) == events
    assert come_to("We fly to Porto on 21 May, a trip.", said, holds=TRIPS) == events[1:], "another one"


@pytest.mark.parametrize(
    ("when", "day"),
    [
        ("next Friday", " (2026-11-27)"),
        ("tomorrow", " (2026-11-21)"),
        ("the day after tomorrow", " (2026-11-22)"),
        ("on 3 May", ""),
    ],
)
def test_a_day_that_depends_on_the_message_is_told_with_its_date(when: str, day: str) -> None:
    said = ("me", "plans", f"exam {when}")
    [event] = come_to(f"I have an exam {when}.", said)
    assert event.endswith(f"exam {when}{day}")


def test_such_a_day_is_counted_by_the_speakers_clock() -> None:
    """Late in the evening in the west it is tomorrow already in UTC."""
    text = "I have an exam tomorrow."
    late = turn(text, timestamp=datetime(2026, 3, 4, 6, 30, tzinfo=UTC), utc_offset_minutes=-480)
    [event] = Vetted(said_of(late, item("plans", "exam tomorrow", text, subject="me")), NOTHING).events
    assert event.value.endswith("exam tomorrow (2026-03-04)")


def test_one_thing_in_two_forms_is_one() -> None:
    """Of one turn the first is kept, of several the known one; nobody is told of the other."""
    said = [("me", "interests", "climbing"), ("me", "interests", "to climb")]
    assert come_to("I love to climb. Climbing is my life.", *said) == ["add interests: climbing"]
    known = {"interests": ["climbing"]}
    assert come_to("I love to climb.", ("me", "interests", "to climb"), holds=known) == [
        "add interests: climbing"
    ]


def test_own_words_end_with_their_quote_and_say_no_measure_twice() -> None:
    text = "I used to fence, but now I row on Mondays and Fridays. Only green tea for me."
    row = StatedFact(
        op="add", path=("habits",), value="row", quote="now I row on Mondays and Fridays", turn_id="t0009"
    )
    tea = StatedFact(op="add", path=("habits",), value="green tea", quote="Only green tea", turn_id="t0009")
    assert [event.value for event in vetted(row, tea, text=text).events] == [
        "now I row on Mondays and Fridays",
        "Only green tea",
    ]
