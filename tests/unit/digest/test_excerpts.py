"""The words of a turn that tell most, found in time that rises with its length and no faster."""

import pytest

from memory_agent.digest.fold import MAX_CHARS, excerpt_of
from memory_agent.text.code.lines import has_code
from memory_agent.text.quotes import quotes_of

BLANKS = " " * 200_000


@pytest.mark.timeout(60)
def test_long_lines_take_no_time() -> None:
    blocks = (f"{BLANKS}!", f"abc:{BLANKS}!", f"abc{BLANKS}!", f"export{BLANKS}!", "export " * 30_000)
    for text in (
        *(f"```\n{block}\n```" for block in blocks),
        f"<{BLANKS}",
        f"a ```{BLANKS}x",
        f"a ```\n{BLANKS}",
    ):
        quotes_of.cache_clear()
        assert len(excerpt_of(text, role="user", code=True).text) <= MAX_CHARS
        assert quotes_of(text) == ()
        has_code(text)


def test_the_lines_that_define_something_are_told() -> None:
    """However far they are indented, without the blanks around them."""
    indented = " " * 400 + "def area(radius):" + " " * 400
    text = f"```py\n{indented}\n    x\nTAU = 6.28318\n```"
    assert excerpt_of(text, role="user", code=True).text == "def area(radius): | TAU = 6.28318"


def test_an_assistant_is_quoted_of_its_code_alone() -> None:
    """What else it writes is mostly written for somebody."""
    said = "I booked the table for 24 October at Luso Van in Porto."
    assert excerpt_of(said, role="user").text == said
    assert excerpt_of(said, role="assistant").text == ""


FLASK = "class Loan(Model):\n    due = 7\nclass Loan(Model):\n"


def test_what_a_user_tells_comes_before_the_code_that_is_pasted_with_it() -> None:
    """A line once; where nothing is told, the code alone."""
    told = "I moved the release of the library to 24 October, since Ines is away."
    text = f"{told} Can you look at it?\n```python\n{FLASK}```"
    assert excerpt_of(text, role="user", code=True).text == f"{told} | class Loan(Model): | due = 7"
    alone = f"Can you look at it?\n```python\n{FLASK}```"
    assert excerpt_of(alone, role="user", code=True).text == "class Loan(Model): | due = 7"


def test_an_assistants_code_is_told_by_what_it_defines() -> None:
    """Settings, rows of tables, tags and assignments to a name like a keyword tell nothing by themselves."""
    code = f"```python\n{FLASK}type = Column(20)\n<body>\n| a | b |\ndef lend(tool):\n    def __init__(self):\n```"
    assert excerpt_of(code, role="assistant", code=True).text == "class Loan(Model): | def lend(tool):"
    assert excerpt_of("```html\n<body>\n```", role="assistant", code=True).text == ""
    assert excerpt_of("```sh\npip install flask\n```", role="user", code=True).text == "pip install flask"
