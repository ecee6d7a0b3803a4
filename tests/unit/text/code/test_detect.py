"""Code is found where there is some, and prose about code, or with a keyword in it, is left alone."""

from __future__ import annotations

import math
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memory_agent.errors import InvalidInput
from memory_agent.text.code.detect import CodeRules, code_priority, find_code, has_code
from tests.unit.examples import examples

EXAMPLES = examples("text/code/code.toml")
CODE: dict[str, list[str]] = EXAMPLES["code"]
PROSE: dict[str, str] = EXAMPLES["prose"]


def test_code_is_found_with_its_language_and_prose_is_not_code() -> None:
    """Each text holds code, in the language that is given; keywords, punctuation and technical words make none."""
    for name, (language, text) in CODE.items():
        found = find_code(text)
        assert found is not None, name
        assert language in ("", found.language), name
        assert 0 < found.share <= 1, name
    assert [(name, found) for name, text in PROSE.items() if (found := find_code(text))] == []


def test_the_reasons_are_given_in_order() -> None:
    """A fence, a span and a line each leave their word, sorted and once."""
    found = find_code("Use `user_id`:\n\nx = foo(bar)\n\n```py\nx\n```\nand `a.b`")
    assert found is not None
    assert found.kinds == ("assignment", "fenced", "inline")
    assert found.language == "python"


def test_the_share_is_that_of_the_code() -> None:
    """All of a bare snippet, the block of a text around one, the span of a sentence."""
    block = "```\nx = 1\n```"
    prose = "word " * 20
    assert find_code(block).share == 1.0  # type: ignore[union-attr]
    assert find_code(prose + "\n" + block).share == pytest.approx(len(block) / (101 + len(block)))  # type: ignore[union-attr]
    inline = find_code(prose + "`user_id`")
    assert inline is not None
    assert inline.share == pytest.approx(9 / 109)
    assert find_code("def f(x):\n    y = x\n    return y\n").share == 1.0  # type: ignore[union-attr]


def test_the_fence_names_the_language() -> None:
    """By the usual short names, whatever the content looks like; a fence of plain text names none."""
    for info, language in [
        ("js", "javascript"),
        ("C++", "cpp"),
        ("{.python}", "python"),
        ("abap", "abap"),
        ("ts title=a.ts", "typescript"),
        ("text", None),
    ]:
        found = find_code(f"```{info}\nsome words\n```")
        assert found is not None
        assert found.language == language
    assert find_code("```\ndef f():\n    pass\n```").language == "python"  # type: ignore[union-attr]


def test_a_users_pattern_finds_what_nothing_else_does() -> None:
    """Line by line, as regex.MULTILINE has it, in the order of the patterns; an empty match is none."""
    rules = CodeRules(patterns={"abap": r"^WRITE .*\.$", "cobol": r"^DISPLAY"})
    found = find_code("hello\nWRITE total.\nbye", rules)
    assert found is not None
    assert (found.language, found.kinds) == ("abap", ("pattern",))
    assert found.share == pytest.approx(12 / 22)
    assert not has_code("hello\nwrite total.", rules)
    assert not has_code("hello", CodeRules(patterns={"any": "x*"}))


def test_a_bad_pattern_or_priority_is_refused_by_name() -> None:
    """The message says which language's pattern it is, shows it, and how to mend it; a factor is finite, 0 or more."""
    for factor in (-1.0, math.inf, math.nan):
        with pytest.raises(InvalidInput, match="'python'"):
            CodeRules(priorities={"python": factor})
    with pytest.raises(InvalidInput, match=r"'abap'.*'\(WRITE'.*escape"):
        CodeRules(patterns={"abap": "(WRITE"})


def test_a_runaway_pattern_is_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    """It counts as not matching; the rest is found all the same."""
    monkeypatch.setattr("memory_agent.text.code.detect.PATTERN_SECONDS", 0.05)
    rules = CodeRules(patterns={"slow": "(a|aa)+$", "py": "^def"})
    found = find_code("a" * 80 + "b\ndef f():", rules)
    assert found is not None
    assert found.language == "py"


def test_the_priority_is_base_times_the_languages_factor() -> None:
    """Nothing without code, the base where no factor is set; short names mean the same language."""
    rules = CodeRules(priorities={"py": 1.5, "SQL": 0.0})
    assert code_priority("hello there", rules, base=2.0) == 0.0
    assert code_priority("def f():", rules, base=2.0) == 3.0
    assert code_priority("SELECT * FROM users;", rules, base=2.0) == 0.0
    assert code_priority("console.log(1)", rules, base=2.0) == 2.0


visible = st.text(min_size=1, max_size=60).filter(lambda body: body.strip() != "" and "`" not in body)


@settings(deadline=None)
@given(visible, st.text(max_size=40).filter(lambda before: "`" not in before and "~" not in before))
def test_fenced_text_is_always_code(body: str, before: str) -> None:
    """Closed or not, whatever stands in it and before it."""
    for text in (f"{before}\n```\n{body}\n```", f"{before}\n```\n{body}"):
        found = find_code(text)
        assert found is not None
        assert "fenced" in found.kinds


pieces = st.sampled_from([*(text for _, text in CODE.values()), *PROSE.values()])
marks = st.text("`~ \n\t:;=(){}[]<>\"'$#|\\.-_/*x1ㄱ", max_size=120)


@settings(deadline=None)
@given(st.lists(pieces | marks | st.text(max_size=40), max_size=6).map("".join))
def test_any_text_gets_an_answer_with_a_share_from_0_to_1(text: str) -> None:
    """Nothing raises; has_code and code_priority agree with find_code."""
    found = find_code(text)
    assert has_code(text) == (found is not None)
    assert code_priority(text, CodeRules(), base=2.0) == (0.0 if found is None else 2.0)
    if found is not None:
        assert 0 < found.share <= 1
        assert found.kinds == tuple(sorted(set(found.kinds)))


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
    find_code("def " + unit * (LONG // len(unit)) + "!\x00")
    assert time.process_time() - started < 6
