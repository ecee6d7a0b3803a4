"""The passage of a long turn that a prompt shows: whole neighbouring sentences, those with most of the question."""

import time
from typing import Any

import regex
from hypothesis import given
from hypothesis import strategies as st

from memory_agent.context.passages import best_passage, outline

SENTENCES = (
    "Certainly!", "The rice has to rest.", "Our oven is from Turin.", "Haha, great!", "Rice and peas go in last.",
)  # fmt: skip
TEXT = " ".join(SENTENCES)


def passage(*given: Any, **how: Any) -> str:
    found = best_passage(*given, **how)
    assert found is not None
    return found


def shown(asked: set[str], chars: int) -> str:
    return passage(TEXT, asked, "english", lambda text: len(text) <= chars)


def test_the_sentences_with_most_of_the_question_are_shown() -> None:
    """A word that few sentences have counts more; where none has any, the first that is no small talk."""
    assert shown({"oven", "turin"}, 40) == "[…] Our oven is from Turin. […]"
    assert shown({"rice", "pea"}, 40) == "[…] Rice and peas go in last."
    assert shown({"boat"}, 40) == "[…] The rice has to rest. […]"
    assert shown({"boat"}, 5) == ""
    assert shown(set(), 1_000) == TEXT


def test_what_leads_in_is_shown_with_what_it_leads_to() -> None:
    """And not with the politeness before it, though that has a word of the question."""
    reply = "Rice is a great idea for a trip. Here is what rice asks for:\n1. A wide pot.\n2. Salt, and an hour of rest."
    found = passage(reply, {"rice", "ask"}, "english", lambda text: len(text) <= 60)
    assert found == "[…] Here is what rice asks for:\n1. A wide pot. […]"


def test_blanks_within_a_passage_cost_no_time() -> None:
    """8,000 took 18 seconds."""
    long = f"A van. {'x' * 40}{' ' * 30_000}y. It rains."
    began = time.process_time()
    assert passage(long, {"van"}, "english", lambda text: text.endswith("[…]")).endswith("y. […]")
    assert time.process_time() - began < 2


def test_of_a_reply_nothing_is_shown_that_only_leads_in_or_is_polite() -> None:
    """The next best, or nothing: then its outline tells more."""
    idle = regex.compile("Happy to|Great", regex.IGNORECASE)
    reply = "Great plan for rice! Happy to help with rice. Rice is it? Peas ask for salt. Here is more rice:"
    assert (
        passage(reply, {"rice"}, "english", lambda text: len(text) <= 40, idle)
        == "[…] Peas ask for salt. […]"
    )
    polite = reply.replace("Peas ask for salt. ", "")
    assert best_passage(polite, {"rice"}, "english", lambda text: len(text) <= 40, idle) is None


def test_of_what_is_cut_away_nothing_is_announced() -> None:
    """Neither by a colon nor by the number of the next item, nor by what opens a reply with a list."""
    reply = "Rice is a fine choice. Here is how:\n1. Wash the rice twice.\n2. Let it stand for an hour in the pot."
    assert passage(reply, {"wash"}, "english", lambda text: len(text) <= 50) == "[…] Wash the rice twice. […]"
    assert passage(reply, {"choice"}, "english", lambda text: len(text) <= 50) == "Rice is a fine choice. […]"
    idle = regex.compile("Great")
    assert "choice" not in passage(reply, {"choice"}, "english", lambda text: len(text) <= 50, idle)


def test_a_paste_without_points_is_shown_where_the_question_is() -> None:
    """A transcript is one sentence of thousands of characters: a part of it fits, cut between words or behind a comma."""
    paste = f"{'so you know ' * 300}and we baked the bread in turin, {'right and then ' * 300}the end"
    found = passage(paste, {"bread", "turin"}, "english", lambda text: len(text) <= 240)
    assert "we baked the bread in turin," in found
    assert found.startswith("[…] ")
    assert found.endswith(" […]")
    assert found.removeprefix("[…] ").removesuffix(" […]") in paste
    unspaced = "빵" * 2_000 + "turin" + "빵" * 2_000
    assert passage(unspaced, {"turin"}, "english", lambda text: len(text) <= 200)


@given(st.sets(st.sampled_from(["rice", "oven", "pea", "haha", "boat"])), st.integers(0, 140))
def test_a_passage_is_a_run_of_whole_sentences_that_fits(asked: set[str], chars: int) -> None:
    passage = shown(asked, chars)
    assert len(passage) <= chars
    inner = passage.removeprefix("[…] ").removesuffix(" […]")
    runs = [" ".join(SENTENCES[i:j]) for i in range(5) for j in range(i + 1, 6)]
    assert not passage or inner in runs
    assert passage.startswith("[…]") == (bool(passage) and not TEXT.startswith(inner))
    assert passage.endswith("[…]") == (bool(passage) and not TEXT.endswith(inner))


REPLY = """Great! Here is how to harden the login. It takes a day.
### Passwords
1. **Hash with Argon2**: as OWASP says, with the parameters of its newest cheat sheet for servers of your size.
- **Salt**: of 16 bytes.
```python
# not a heading
**kwargs**
```
2. **Limit attempts**: five a minute.
These steps will help you.
Shall I write the middleware?"""


def test_a_laid_out_reply_is_told_by_its_titles_and_its_question() -> None:
    """Those of bullets where they fit; nothing of code; without three titles it has no outline."""
    short = [
        "Great! Here is how to harden the login",
        "### Passwords",
        "1. **Hash with Argon2**:",
        "2. **Limit attempts**: five a minute.",
        "Shall I write the middleware?",
    ]

    def lines(chars: int, text: str = REPLY) -> list[str]:
        return [
            line for line in outline(text, lambda body: len(body) <= chars).split("\n") if line[:2] != "[…"
        ]

    assert lines(1_000) == [*short[:3], "- **Salt**: of 16 bytes.", *short[3:]]
    assert lines(len(outline(REPLY, lambda _: True)) - 1) == short
    assert lines(160) == short[1:]
    assert lines(100) == lines(1_000, "One.\n# A\n# B\nTwo?") == [""]


RECIPE = """Sure, here is how I would do it, step by step, with what I have learnt from my aunt.
1. Soak the beans overnight in cold water with a spoon of salt, and pour the water off in the morning.
2. Fry onions.
3) Add the beans with tomatoes and two bay leaves, and let them simmer until they are as soft as butter inside.
- A pinch of sugar helps if the tomatoes were picked too early, as they mostly are in the north of the country.
I hope that helps!"""


@given(st.lists(st.sampled_from((REPLY + RECIPE).split("\n")), max_size=12), st.integers(0, 400))
def test_an_outline_fits_and_says_how_much_is_left_out(lines: list[str], chars: int) -> None:
    """Whatever is laid out how; nothing is in it that is not in the text."""
    text = "\n".join(lines)
    found = outline(text, lambda body: len(body) <= chars)
    assert len(found) <= chars
    parts = [line.removesuffix(" …") for line in found.split("\n") if line[:2] != "[…"]
    assert all(part in text for part in parts)
    if found:
        left_out = len(text) - sum(map(len, parts))
        assert f"[… {left_out:,} characters left out …]" in found.split("\n")


def test_of_a_sentence_that_is_too_long_one_part_is_shown_and_not_two_ends() -> None:
    """Its beginning and its end, run together, would tell of an event and a book as of one thing."""
    text = (
        "I am kinda confused about this team-building event on April 10 at The Harbor Lounge that Sharon invited me to and"
        " whether I should go considering I just started reading Freedom and Belief to understand compatibilism"
    )
    fits = lambda body: len(body) <= 130  # noqa: E731
    assert passage(text, {"event"}, "english", fits) == ""
    begun = passage(text, {"event"}, "english", fits, broken=True)
    assert begun == f"{text.partition(' should go')[0]} […]"
    assert passage("Short. " + text, {"event"}, "english", fits, broken=True).startswith("[…] I am kinda")
    assert passage(text, {"event"}, "english", lambda body: len(body) <= 40, broken=True) == ""
    assert passage(f"{' ' * 70}{text}", set(), "english", lambda body: len(body) <= 90, broken=True) != text
    unspaced = passage("가나다라" * 60, set(), "korean", lambda body: len(body) <= 130, broken=True)
    assert 120 < len(unspaced) <= 130
