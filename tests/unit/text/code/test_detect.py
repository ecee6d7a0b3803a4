"""Code is found where there is some, and prose about code, or with a keyword in it, is left alone."""

import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memory_agent.text.code.lines import has_code
from tests.unit.examples import examples

EXAMPLES = examples("text/code/code.toml")
CODE: dict[str, str] = EXAMPLES["code"]
PROSE: dict[str, str] = EXAMPLES["prose"]


def test_code_is_found_and_prose_is_not_code() -> None:
    """Each text of the first table holds code; keywords, punctuation and technical words make none."""
    assert [name for name, text in CODE.items() if not has_code(text)] == []
    assert [name for name, text in PROSE.items() if has_code(text)] == []


def test_an_empty_fence_is_no_code() -> None:
    """Nor is one with a language and nothing below it; a single word below it is."""
    assert not has_code("Like this:\n```\n```\n")
    assert not has_code("```python title=a.py\n```".replace(" title=a.py", "  "))
    assert has_code("```text\nsome words\n```")


visible = st.text(min_size=1, max_size=60).filter(lambda body: body.strip() != "" and "`" not in body)


@settings(deadline=None)
@given(visible, st.text(max_size=40).filter(lambda before: "`" not in before and "~" not in before))
def test_fenced_text_is_always_code(body: str, before: str) -> None:
    """Closed or not, whatever stands in it and before it."""
    assert has_code(f"{before}\n```\n{body}\n```")
    assert has_code(f"{before}\n```\n{body}")


pieces = st.sampled_from([*CODE.values(), *PROSE.values()])
marks = st.text("`~ \n\t:;=(){}[]<>\"'$#|\\.-_/*x1ㄱ", max_size=120)


@settings(deadline=None)
@given(st.lists(pieces | marks | st.text(max_size=40), max_size=6).map("".join))
def test_any_text_gets_an_answer(text: str) -> None:
    assert has_code(text) in (True, False)


LONG = 60_000


UNITS = [
        *"a (`~<{[\n=.:;\"'|\\$#1가",
        "a.", "a ", "a(", "()", "a=", "```\n", "~~~a\n", "`a`", "``a", "a::", "<a ", "<a>", "x = ", "def a", "SELECT a ",
        "[a-z]", "\\d", "a_b", "aB(", "key: ", "key:\n", "a: b\n", "  a\n", "import a, ", "git -", "- ", "(\"", "$a", "for a in ",
        "https://a", "> ", "```a", "=>", "{a:", "\"a\":", "\"a\": 1,", "a.b(c)\n", "http", "\r", "\n \n", "def a(", "a, ", "class A ",
        "public a ", "function a(", "const a", "from a import ", "function ", "aA", "A a ", "a(b(c", "'a", "if a", "if (", "--a",
]  # fmt: skip


@pytest.mark.nightly
@pytest.mark.parametrize("unit", UNITS)
def test_long_repetitions_take_no_time_to_speak_of(unit: str) -> None:
    """60,000 characters, with an end that spoils a match; with the square of them it would be a minute."""
    started = time.process_time()
    has_code("def " + unit * (LONG // len(unit)) + "!\x00")
    assert time.process_time() - started < 6
