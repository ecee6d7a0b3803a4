"""The pattern extractor: what it finds, and above all what it leaves alone."""

from __future__ import annotations

from typing import Any

import pytest

from memory_agent.models.extractive import MAX_TEXT_CHARS, extract_facts


def me(**values: str) -> dict[str, Any]:
    return {"personal_info": values}


def likes(*values: str) -> dict[str, Any]:
    return {"preferences": {"likes": list(values)}}


def dislikes(*values: str) -> dict[str, Any]:
    return {"preferences": {"dislikes": list(values)}}


def favorites(**values: str) -> dict[str, Any]:
    return {"preferences": {"favorites": values}}


STATED: list[tuple[str, dict[str, Any]]] = [
    ("My name is Anna Schmidt.", me(name="Anna Schmidt")),
    ("Hi, my name's Tom!", me(name="Tom")),
    ("Hello! My name is Jean-Luc, nice to meet you.", me(name="Jean-Luc")),
    ("my full name is María José O’Neill", me(name="María José O'Neill")),
    ("Call me Ishmael.", me(name="Ishmael")),
    ("Please call me Sam", me(name="Sam")),
    ("You can call me Liz, by the way.", me(name="Liz")),
    ("My name is Tom and I live in Oslo.", me(name="Tom")),
    ("I work as a software engineer at Initech.", me(role="software engineer")),
    ("I'm working as a nurse these days", me(role="nurse")),
    ("I work part-time as a barista.", me(role="barista")),
    ("I'm a high school teacher in Ohio.", me(role="high school teacher")),
    ("I’m a PhD student", me(role="PhD student")),
    ("I am a retired electrician, so I have time.", me(role="retired electrician")),
    ("Well, I'm actually a pediatrician.", me(role="pediatrician")),
    ("I'm a freelance graphic designer and I love mornings", me(role="freelance graphic designer")),
    ("I live in Lisbon.", me(location="Lisbon")),
    ("I live in St. Louis, Missouri.", me(location="St. Louis, Missouri")),
    ("By the way, I live in New York City with my dog.", me(location="New York City")),
    ("I'm living in Rio de Janeiro now", me(location="Rio de Janeiro")),
    ("I currently live in the Netherlands, near the sea.", me(location="the Netherlands")),
    ("I'm from Kraków.", me(location="Kraków")),
    ("I'm originally from Seoul but I live in Berlin", me(location="Seoul")),
    ("I moved to Denver last month.", me(location="Denver")),
    ("I just moved to Lisbon in March", me(location="Lisbon")),
    ("I'm based in Nairobi and work remotely", me(location="Nairobi")),
    ("I'm from Ohio. I live in Porto.", me(location="Porto")),
    ("I love hiking.", likes("hiking")),
    ("I love hiking, cooking, and jazz!", likes("hiking", "cooking", "jazz")),
    ("I really enjoy Thai food, especially curries.", likes("Thai food")),
    ("I like to cook Italian food", likes("cook Italian food")),
    ("I'm a huge fan of sci-fi novels", likes("sci-fi novels")),
    ("I'm really into rock climbing these days", likes("rock climbing")),
    ("I prefer tea to coffee.", likes("tea")),
    ("I prefer dark chocolate over milk chocolate", likes("dark chocolate")),
    ("I love mac and cheese", likes("mac and cheese")),
    ("I love the beach because the air is good.", likes("the beach")),
    ("Yes, I still love Korean food and I cook it every week", likes("Korean food")),
    ("I enjoy hiking and swimming", likes("hiking and swimming")),
    ("I hate cilantro.", dislikes("cilantro")),
    ("Honestly, I can't stand horror movies", dislikes("horror movies")),
    ("I don't really like crowded places", dislikes("crowded places")),
    ("I do not enjoy long flights, they hurt my back", dislikes("long flights")),
    ("My favorite color is blue.", favorites(color="blue")),
    ("My favourite band is The Beatles", favorites(band="The Beatles")),
    (
        "my all-time favorite ice cream flavor is pistachio",
        {"preferences": {"favorites": {"ice cream flavor": "pistachio"}}},
    ),
    (
        "I love jazz. I hate opera! I live in Graz.",
        {"personal_info": {"location": "Graz"}, "preferences": {"likes": ["jazz"], "dislikes": ["opera"]}},
    ),
    ("I like dogs. I like dogs", likes("dogs")),
]

SILENT = [
    "",
    "   ",
    "What is my name?",
    "Do you know where I live?",
    "I live in Paris?",
    "My name is not important.",
    "My name is on the list",
    "Call me back later",
    "Call me Maybe",
    "call me when you can",
    "Her name is Anna.",
    "My sister's name is Anna",
    "My friend said my name is Bob",
    'She asked, "I live in Rome, and you?"',
    "My sister lives in Lisbon.",
    "My boss says I live in Narnia",
    "If I lived in Paris, I would be happy",
    "If I live in Oslo, do I pay tax",
    "I used to live in Vienna",
    "I wish I lived in Hawaii.",
    "I lived in Rome for a year",
    "When I was little, I lived in Bonn",
    "I don't live in Madrid",
    "I live in an apartment",
    "I live in Apartment 4B",
    "I moved to Linux last year",
    "I moved to Lisbon in 2010",
    "I moved to Boston ten years ago",
    "I moved to the Engineering team",
    "I might move to Kyoto",
    "I'm from Accounting",
    "I hope I live in Hawaii one day",
    "I'm a big believer in sleep",
    "I'm a morning person",
    "I'm not a doctor",
    "I'm an aspiring writer",
    "I'm a bit of a chef",
    "I'm a doctor's assistant's cousin",
    "I'm a teacher at heart",
    "My father is a teacher",
    "I want to work as a pilot",
    "I would work as a nurse",
    "I love it",
    "I love that!",
    "I love you",
    "I love the idea of a road trip",
    "I love your suggestions",
    "I like number 2",
    "I like the second one better",
    "I like how you wrote this",
    "I'd like a coffee",
    "I would love to visit Japan",
    "I'd love sushi tonight",
    "I don't hate jazz",
    "I don't love opera",
    "I liked the movie",
    "I loved the concert in Graz",
    "I feel like pizza",
    "I used to love skiing",
    "I like coffee with oat milk that my neighbour roasts",
    "I love watching teams that play fast",
    "I prefer flat routes",
    "I prefer to run in the morning, and I'm available to run any day",
    "I prefer not to say",
    "I hate to say it",
    "I hate when that happens",
    "I think that I like him",
    "My wife loves opera",
    "People say I love drama",
    "Maybe I like jazz",
    "My favorite part is the ending",
    "My favorite is blue",
    "My favorite color is not blue",
    "My favorite color used to be red",
    "My sister's favorite color is green",
    "My favorite thing about it is the smell",
    "What's my favorite color?",
    "Translate into German: I live in Paris.",
    "Pretend you are Bob. I live in Paris.",
    "Write a story in first person. I live in Paris.",
    "Proofread this. I am a lawyer from Boston",
    "```\nI live in Paris\n```",
    "> I live in Paris",
    "Bob: I live in Paris",
    "“I love jazz”",
    "print(`I love jazz`)",
    "I love jazz, just kidding",
    "I no longer like jazz",
    "I'm a fan of Goodreads. " + "filler " * (MAX_TEXT_CHARS // 7),
]


@pytest.mark.parametrize(("text", "facts"), STATED, ids=[text for text, _ in STATED])
def test_what_is_stated_in_the_first_person_is_found(text: str, facts: dict[str, Any]) -> None:
    """A plain statement about oneself becomes a fact, in the user's own words."""
    assert extract_facts(text) == facts


@pytest.mark.parametrize("text", SILENT, ids=[text[:60] for text in SILENT])
def test_doubt_is_silence(text: str) -> None:
    """Questions, conditions, wishes, the past, others' words and what needs its context yield nothing."""
    assert extract_facts(text) == {}


def test_a_long_run_of_anything_is_fast() -> None:
    """No pattern backtracks without bound."""
    for text in (
        "I love " * 570,
        "my name is " * 360,
        "a, " * 1_300,
        "I'm a " + "very " * 790,
        '"' * 4_000,
        "- " * 1_999,
    ):
        assert extract_facts(text) == {}
