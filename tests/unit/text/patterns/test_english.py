"""English statements: what is found, and above all what is left alone."""

from __future__ import annotations

from typing import Any

import pytest

from memory_agent.text.patterns import MAX_TEXT_CHARS, extract_facts

Told = list[tuple[str, str, Any]]


def told(text: str) -> Told:
    """Operation, path and value of each fact, sorted."""
    facts = ((fact.op, ".".join(fact.path), fact.value) for fact in extract_facts(text))
    return sorted(facts, key=str)


def adds(path: str, *values: Any) -> Told:
    return [("add", path, value) for value in values]


def likes(*values: str) -> Told:
    return adds("preferences.likes", *values)


def dislikes(*values: str) -> Told:
    return adds("preferences.dislikes", *values)


def ends(path: str, value: str | None = None) -> Told:
    return [("retract", path, value)]


def becomes(path: str, value: Any) -> Told:
    return [("update", path, value)]


STATED: list[tuple[str, Told]] = [
    # name
    ("My name is Anna Schmidt.", adds("name", "Anna Schmidt")),
    ("Hi, my name's Tom!", adds("name", "Tom")),
    ("Hello! My name is Jean-Luc, nice to meet you.", adds("name", "Jean-Luc")),
    ("my full name is María José O’Neill", adds("name", "María José O'Neill")),
    ("Call me Ishmael.", adds("name", "Ishmael")),
    ("Please call me Sam", adds("name", "Sam")),
    ("You can call me Liz, by the way.", adds("name", "Liz")),
    ("My name is Tom and I live in Oslo.", adds("name", "Tom") + adds("location", "Oslo")),
    ("I changed my name to Robin.", becomes("name", "Robin")),
    ("I'm Sarah.", adds("name", "Sarah")),
    ("Hi! I'm Priya, nice to meet you.", adds("name", "Priya")),
    ("Hello, I’m Carlos and I love chess.", adds("name", "Carlos") + likes("chess")),
    ("Hey there! I am Yuki Tanaka.", adds("name", "Yuki Tanaka")),
    # age, birthday, education
    ("I'm 32 years old.", adds("age", 32)),
    ("I'm 45, and I run every day", adds("age", 45)),
    ("I just turned 30!", becomes("age", 30)),
    ("I'm a 27-year-old from Ghent", adds("age", 27)),
    ("My birthday is May 5.", adds("birthday", "May 5")),
    ("My birthday is on the 3rd of October", adds("birthday", "3rd of October")),
    ("I was born on March 12, 1990.", adds("birthday", "March 12, 1990")),
    (
        "I have a master's degree in computer science.",
        adds("education", "master's degree in computer science"),
    ),
    (
        "I graduated with a degree in Business Administration",
        adds("education", "degree in Business Administration"),
    ),
    # occupation, employer
    (
        "I work as a software engineer at Initech.",
        adds("occupation", "software engineer") + adds("employer", "Initech"),
    ),
    ("I'm working as a nurse these days", adds("occupation", "nurse")),
    ("I work part-time as a barista.", adds("occupation", "barista")),
    ("I'm a high school teacher in Ohio.", adds("occupation", "high school teacher")),
    ("I’m a PhD student", adds("occupation", "PhD student")),
    ("I am a retired electrician, so I have time.", adds("occupation", "retired electrician")),
    ("Well, I'm actually a pediatrician.", adds("occupation", "pediatrician")),
    (
        "I'm a freelance graphic designer and I love mornings",
        adds("occupation", "freelance graphic designer") + likes("mornings"),
    ),
    ("I work at Google.", adds("employer", "Google")),
    ("I'm working for the Red Cross in Geneva", adds("employer", "the Red Cross")),
    ("I'm a nurse at Mercy Hospital.", adds("occupation", "nurse") + adds("employer", "Mercy Hospital")),
    ("Actually I moved to a product role", becomes("occupation", "product role")),
    ("Actually, I've switched to a marketing role.", becomes("occupation", "marketing role")),
    ("I now work as a product manager", becomes("occupation", "product manager")),
    ("I got promoted to senior engineer", becomes("occupation", "senior engineer")),
    ("I was recently promoted to head nurse.", becomes("occupation", "head nurse")),
    ("I started working at Siemens.", becomes("employer", "Siemens")),
    ("I'm no longer a nurse.", ends("occupation")),
    ("I no longer work as a waiter", ends("occupation")),
    ("I don't work as a cook anymore.", ends("occupation")),
    ("I quit my job as a nurse.", ends("occupation") + ends("employer")),
    ("I got laid off last week.", ends("occupation") + ends("employer")),
    ("I no longer work at Google.", ends("employer")),
    # place
    ("I live in Lisbon.", adds("location", "Lisbon")),
    ("I live in St. Louis, Missouri.", adds("location", "St. Louis, Missouri")),
    ("By the way, I live in New York City with my dog.", adds("location", "New York City")),
    ("I'm living in Rio de Janeiro now", adds("location", "Rio de Janeiro")),
    ("I currently live in the Netherlands, near the sea.", adds("location", "the Netherlands")),
    ("I'm based in Nairobi and work remotely", adds("location", "Nairobi")),
    ("I moved to Denver last month.", becomes("location", "Denver")),
    ("I just moved to Lisbon in March", becomes("location", "Lisbon")),
    ("I no longer live in Paris.", ends("location")),
    ("I'm from Kraków.", adds("origin", "Kraków")),
    ("I'm originally from Seoul but I live in Berlin", adds("origin", "Seoul") + adds("location", "Berlin")),
    (
        "My sister Ana moved, and now I live in Porto",
        adds("family.sister", "Ana") + adds("location", "Porto"),
    ),
    # family, pets
    ("My wife Anna loves tea.", adds("family.wife", "Anna")),
    ("I went there with my husband, Paul, last year", adds("family.husband", "Paul")),
    ("my daughter's name is Mia", adds("family.daughter", "Mia")),
    ("My little brother is called Ben.", adds("family.brother", "Ben")),
    ("I have a son named Noah.", adds("family.son", "Noah")),
    ("It's for my mom Carol's birthday", adds("family.mother", "Carol")),
    ("I have a dog named Rex.", adds("pets", "dog Rex")),
    ("My cat Luna is sleeping", adds("pets", "cat Luna")),
    ("My golden retriever's name is Max.", adds("pets", "golden retriever Max")),
    ("I have a cat.", adds("pets", "cat")),
    ("I recently adopted a puppy, so I'm tired", adds("pets", "puppy")),
    # allergies, diet, languages
    ("I'm allergic to peanuts and shellfish.", adds("allergies", "peanuts", "shellfish")),
    ("I am severely allergic to penicillin", adds("allergies", "penicillin")),
    ("I have a peanut allergy.", adds("allergies", "peanut")),
    ("I'm a vegetarian.", adds("diet", "vegetarian")),
    ("I'm lactose intolerant, so no milk", adds("diet", "lactose intolerant")),
    ("I became vegan last year", becomes("diet", "vegan")),
    ("I'm no longer a vegetarian", ends("diet")),
    ("I'm not vegan any more.", ends("diet")),
    ("I speak French and German.", adds("languages", "French", "German")),
    ("I'm fluent in Korean", adds("languages", "Korean")),
    ("My native language is Turkish.", adds("languages", "Turkish")),
    # times
    ("I prefer morning meetings.", adds("preferences.meeting_time", "morning")),
    ("I prefer to work out in the morning", adds("preferences.workout_time", "morning")),
    ("I prefer calls in the afternoon.", adds("preferences.call_time", "afternoon")),
    ("I prefer early morning flights", adds("preferences.flight_time", "early morning")),
    ("I prefer evening classes.", adds("preferences.class_time", "evening")),
    # likes and dislikes
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
    ("I enjoy hiking and swimming", likes("hiking", "swimming")),
    ("I like dogs. I like dogs", likes("dogs")),
    ("I like dogs and I hate cats", likes("dogs") + dislikes("cats")),
    ("That's why I love sailing.", likes("sailing")),
    ("I bought it because I love jazz.", likes("jazz")),
    ("I hate cilantro.", dislikes("cilantro")),
    ("Honestly, I can't stand horror movies", dislikes("horror movies")),
    ("I don't really like crowded places", dislikes("crowded places")),
    ("I do not enjoy long flights, they hurt my back", dislikes("long flights")),
    ("I'm not a fan of musicals.", dislikes("musicals")),
    ("I don't like coffee any more", ends("preferences.likes", "coffee")),
    ("I no longer like coffee.", ends("preferences.likes", "coffee")),
    ("I stopped liking jazz.", ends("preferences.likes", "jazz")),
    ("I used to like coffee but not any more", ends("preferences.likes", "coffee")),
    ("I'm no longer into yoga.", ends("preferences.likes", "yoga")),
    ("I used to love opera, but I don't anymore.", ends("preferences.likes", "opera")),
    ("I used to love sushi, but now I hate it", ends("preferences.likes", "sushi") + dislikes("sushi")),
    ("I used to hate olives, but now I love them", ends("preferences.dislikes", "olives") + likes("olives")),
    ("I don't hate mushrooms anymore.", ends("preferences.dislikes", "mushrooms")),
    # favourites
    ("My favorite color is blue.", adds("preferences.favorites.color", "blue")),
    ("My favourite colour is green.", adds("preferences.favorites.color", "green")),
    ("My favourite band is The Beatles", adds("preferences.favorites.band", "The Beatles")),
    (
        "my all-time favorite ice cream flavor is pistachio",
        adds("preferences.favorites.ice_cream_flavor", "pistachio"),
    ),
    ("My favorite color is now red.", becomes("preferences.favorites.color", "red")),
    ("My favorite color is no longer blue.", ends("preferences.favorites.color")),
    # the first that reads like a list is not cut short
    (
        "I'm a big fan of mushrooms, onions, and extra cheese on pizza",
        likes("mushrooms", "onions", "extra cheese"),
    ),
    ("I'm allergic to cats, dogs make me happy", adds("allergies", "cats")),
    ("I prefer morning meetings over afternoon ones", adds("preferences.meeting_time", "morning")),
    ("I'm Jared.", adds("name", "Jared")),
    (
        "I work as the head of marketing at Nike",
        adds("occupation", "head of marketing") + adds("employer", "Nike"),
    ),
    # several
    (
        "I'm John, I work as a software engineer. I prefer morning meetings.",
        adds("name", "John")
        + adds("occupation", "software engineer")
        + adds("preferences.meeting_time", "morning"),
    ),
    (
        "I love jazz. I hate opera! I live in Graz.",
        likes("jazz") + dislikes("opera") + adds("location", "Graz"),
    ),
]

SILENT = [
    "",
    "   ",
    # name
    "What is my name?",
    "My name is not important.",
    "My name is on the list",
    "Call me back later",
    "Call me Maybe",
    "call me when you can",
    "Her name is Anna.",
    "My sister's name was on the list",
    "My friend said my name is Bob",
    "I'm Happy, I guess",
    "I'm Korean.",
    "I'm Catholic, and I go to church",
    "I'm Sorry, I was late",
    "I'm Team Edward",
    "I'm Gen Z.",
    "I'm Aries, you know",
    "I'm Batman.",
    "I'm Exhausted.",
    "This is Important.",
    "I got fired up about it",
    "I have a hot dog",
    "I work as the head of the sales department",
    "I saw the film. I'm Groot.",
    "The movie was long. I'm Legend was better",
    # age and dates
    "I'm 5 minutes late",
    "I'm 32 weeks pregnant",
    "I'm 90% sure",
    "I'm 20 miles away",
    "My brother is 32 years old",
    "I was 32 years old",
    "My birthday is next week",
    "My birthday is coming up",
    # work
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
    "We work as a team",
    "I work as a team player",
    "I work at night.",
    "I work at Night",
    "I worked at Google.",
    "I moved to the Engineering team",
    "I moved to a different role",
    "I might get promoted to manager",
    "I should quit my job",
    "I want to quit my job",
    "My brother lost my job application",
    "It's been hard since I lost my job",
    # place
    "Do you know where I live?",
    "I live in Paris?",
    "My sister lives in Lisbon.",
    "My boss says I live in Narnia",
    'She asked, "I live in Rome, and you?"',
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
    "I might move to Kyoto",
    "I'm moving to Rome",
    "I'm from Accounting",
    "I hope I live in Hawaii one day",
    # family, pets
    "My wife loves opera",
    "My mom Googled it",
    "I saw my sister Sunday",
    "My dad Christmas shops early",
    "Is my wife Anna?",
    "My friend's daughter Mia sings",
    "I want a dog named Rex",
    "My neighbor's dog Rex barks",
    "I have a dog walker",
    "I had a cat.",
    "I have a cat allergy test tomorrow",
    # allergies, diet, languages
    "I'm allergic to it",
    "I'm not allergic to nuts",
    "My son is allergic to nuts.",
    "I might be allergic to cats",
    "I'm allergic to mornings",
    "I'm looking for a vegan recipe",
    "I'm not vegan",
    "I'm vegan-curious",
    "My wife is a vegetarian",
    "I don't speak French",
    "I want to speak Korean",
    "I'm learning Spanish",
    # tastes
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
    "I used to like coffee in bed",
    "I love a safe, quiet place",
    "I like coffee with oat milk that my neighbour roasts",
    "I love watching teams that play fast",
    "I prefer flat routes",
    "I prefer meetings",
    "I prefer not to say",
    "I hate to say it",
    "I hate when that happens",
    "I think that I like him",
    "People say I love drama",
    "Maybe I like jazz",
    "You and she like jazz",
    "My favorite part is the ending",
    "My favorite is blue",
    "My favorite color is not blue",
    "My favorite color used to be red",
    "My sister's favorite color is green",
    "My favorite thing about it is the smell",
    "What's my favorite color?",
    # not the author's own words
    "Translate into German: I live in Paris.",
    "Pretend you are Bob. I live in Paris.",
    "You are a travel agent. I live in Paris.",
    "Write a story in first person. I live in Paris.",
    "Proofread this. I am a lawyer from Boston",
    "```\nI live in Paris\n```",
    "> I live in Paris",
    "Bob: I live in Paris",
    "“I love jazz”",
    "'I love jazz', it says",
    "Look! [image: a photo of me. I love jazz]",
    "print(`I love jazz`)",
    "As Tong Chi Ming, I enjoy jazz",
    "I love jazz, just kidding",
    "I'm a fan of Goodreads. " + "filler " * (MAX_TEXT_CHARS // 7),
]


@pytest.mark.parametrize(("text", "facts"), STATED, ids=[text for text, _ in STATED])
def test_what_is_stated_in_the_first_person_is_found(text: str, facts: Told) -> None:
    """A plain statement about oneself becomes a fact, in the user's own words."""
    assert told(text) == sorted(facts, key=str)


@pytest.mark.parametrize("text", SILENT, ids=[text[:60] for text in SILENT])
def test_doubt_is_silence(text: str) -> None:
    """Questions, conditions, wishes, the past, others' words and what needs its context yield nothing."""
    assert told(text) == []
