"""The words of a turn that tell most, found in time that rises with its length and no faster."""

from __future__ import annotations

import pytest

from memory_agent.digest.excerpts import MAX_CHARS, excerpt_of, rated_sentences
from memory_agent.text.code.detect import find_code

BLANKS = " " * 200_000


@pytest.mark.timeout(60)
def test_long_lines_take_no_time() -> None:
    """Whatever they hold: 200,000 characters are no reason to stand still."""
    blocks = (f"{BLANKS}!", f"abc:{BLANKS}!", f"abc{BLANKS}!", f"export{BLANKS}!", "export " * 30_000)
    for text in (
        *(f"```\n{block}\n```" for block in blocks),
        f"<{BLANKS}",
        f"a ```{BLANKS}x",
        f"a ```\n{BLANKS}",
    ):
        rated_sentences.cache_clear()
        assert len(excerpt_of(text, role="user", code=True).text) <= MAX_CHARS
        assert rated_sentences(text, "user") == ()
        find_code(text)


def test_the_lines_that_define_something_are_told() -> None:
    """However far they are indented, without the blanks around them."""
    indented = " " * 400 + "def area(radius):" + " " * 400
    text = f"```py\n{indented}\n    x\nTAU = 6.28318\n```"
    assert excerpt_of(text, role="user", code=True).text == "def area(radius): | TAU = 6.28318"


def test_calling_somebody_tells_nothing_but_few_words_may() -> None:
    """A name is not enough in so few words; a date, what somebody says of themselves, or a longer sentence is."""
    for call in ("Thanks, Caroline!", "Hey Mel!", "So true, Melanie.", "Add Income"):
        assert rated_sentences(f"Well. {call}", "user") == (), call
    for text in ("I'm Kate.", "In Paris, May 12.", "We met in Lisbon again."):
        assert [sentence.text for sentence in rated_sentences(text, "user")] == [text]
