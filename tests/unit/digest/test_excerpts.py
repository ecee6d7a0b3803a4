"""The words of a turn that tell most, found in time that rises with its length and no faster."""

from __future__ import annotations

import pytest

from memory_agent.digest.excerpts import MAX_CHARS, excerpt_of, rated_sentences
from memory_agent.text.code.detect import find_code

BLANKS = " " * 200_000


@pytest.mark.timeout(20)
@pytest.mark.parametrize(
    "text",
    [
        f"```\n{BLANKS}!\n```",
        f"```\nabc:{BLANKS}!\n```",
        f"```\nabc{BLANKS}!\n```",
        f"```\nexport{BLANKS}!\n```",
        "```\n" + "export " * 30_000 + "\n```",
        f"<{BLANKS}",
        f"a ```{BLANKS}x",
        f"a ```\n{BLANKS}",
    ],
)
def test_long_lines_take_no_time(text: str) -> None:
    """Whatever they hold: 200,000 characters are no reason to stand still."""
    rated_sentences.cache_clear()
    assert len(excerpt_of(text, role="user", code=True).text) <= MAX_CHARS
    assert rated_sentences(text, "user") == ()
    find_code(text)


def test_the_lines_that_define_something_are_told() -> None:
    """However far they are indented, without the blanks around them."""
    indented = " " * 400 + "def area(radius):" + " " * 400
    text = f"```py\n{indented}\n    x\nTAU = 6.28318\n```"
    assert excerpt_of(text, role="user", code=True).text == "def area(radius): | TAU = 6.28318"


@pytest.mark.parametrize("call", ["Thanks, Caroline!", "Hey Mel!", "So true, Melanie.", "Add Income"])
def test_calling_somebody_tells_nothing(call: str) -> None:
    """A name is not enough in so few words; with a number, or as what somebody says of themselves, it is."""
    assert rated_sentences(f"Well. {call}", "user") == ()


@pytest.mark.parametrize("text", ["I'm Kate.", "In Paris, May 12.", "We met in Lisbon again."])
def test_few_words_may_tell(text: str) -> None:
    """Who somebody is, a date, or a name in a sentence of some length."""
    assert [sentence.text for sentence in rated_sentences(text, "user")] == [text]
