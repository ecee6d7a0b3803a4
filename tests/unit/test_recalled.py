"""A prompt given back within what somebody says, in the shapes that it takes on its way, and what only looks like one."""

from __future__ import annotations

import html
import json
from collections.abc import Callable

import pytest

from memory_agent.domain import RECALLED, REMARK, said_in
from tests.unit.facts.builders import turn
from tests.unit.facts.test_echo import COMPRESSED, CONTEXT, WHOLE, bare, quoted

ASKED = "Where do I keep bees?"
SHAPES: dict[str, Callable[[str], str]] = {
    "as it is": str,
    "quoted": quoted,
    "fenced": "```\n{}\n```".format,
    "fenced as XML": "~~~xml\n{}\n~~~".format,
    "indented": lambda block: "\n".join(f"    {line}" for line in block.splitlines()),
    "in a list": lambda block: "- " + block.replace("\n", "\n  "),
    "escaped": html.escape,
    "in capitals": str.upper,
    "without tags": bare,
    "quoted, without tags": lambda block: quoted(bare(block)),
    "a message as JSON": lambda block: json.dumps([{"role": "system", "content": block}]),
    "a message as Python writes it": lambda block: repr([{"role": "system", "content": block}]),
}
WHOLES = {"prompt": WHOLE, "small prompt": CONTEXT, "compressed context": COMPRESSED}
THEIRS = (
    "What does the <memory_context> tag in my prompt mean?",
    "Put it between <memory_context> and </memory_context>, please.",
    "It fails at </memory_context> with an error.\nI use version 2.",
    "Why do I see <memory_context>\nin my prompt?",
    "[3 May 2026]\nWent hiking with Tom.",
    "[3 May 2026] Tom: we go hiking",
    "Talked about: the budget",
    "def first(x):\n    return x[0]",
    "What follows is my list: [1] tea, [2] jam",
)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("whole", WHOLES)
def test_a_block_is_left_out_in_any_shape_and_the_words_around_it_stay(whole: str, shape: str) -> None:
    block = SHAPES[shape](WHOLES[whole])
    assert said_in(block) == ""
    assert said_in(f"{block}\n\n{ASKED}") == ASKED
    assert said_in(f"{ASKED}\n{block}") == ASKED
    assert said_in(f"Hello!\n\n{block}\n\n{ASKED}") == f"Hello!\n\n{ASKED}"


@pytest.mark.parametrize("whole", WHOLES)
def test_a_block_of_which_a_part_was_cut_off_is_left_out_wherever_it_was_cut(whole: str) -> None:
    """A topic has lines without any mark, of which a few may stay."""
    block = WHOLES[whole]
    topic = range(block.find("They plan"), block.find("</memory_topic>") + 1) if "They plan" in block else ()
    for at in range(40, len(block) - 40, 3):
        assert said_in(f"{block[at:]}\n\n{ASKED}") == ASKED, block[at:]
        if at not in topic:
            assert said_in(block[:at]) == "", block[:at]
            assert said_in(f"{ASKED}\n\n{block[:at]}") == ASKED, block[:at]
            assert said_in(f"{block[:at]}\n\n{ASKED}") == ASKED, block[:at]


def test_what_is_said_right_below_a_block_without_an_end_stays() -> None:
    end = CONTEXT.index("\n", CONTEXT.index("user: "))
    assert said_in(f"{CONTEXT[:end]}\n{ASKED}") == ASKED


@pytest.mark.parametrize("text", THEIRS)
def test_talk_about_such_blocks_is_no_block(text: str) -> None:
    assert said_in(text) is text


def test_a_turn_says_and_shows_what_is_not_recalled() -> None:
    given_back = turn(f"{CONTEXT}\n\n{ASKED}", speaker="Ann")
    assert (given_back.said, given_back.shown) == (ASKED, f"{RECALLED} {ASKED}")
    assert given_back.searchable_text == f"Ann: {ASKED}"
    nothing_else = turn(CONTEXT, speaker="Ann")
    assert (nothing_else.said, nothing_else.shown, nothing_else.searchable_text) == ("", RECALLED, "")
    own = turn(ASKED)
    assert own.said is own.content
    assert own.shown is own.content


@pytest.mark.timeout(20)
@pytest.mark.parametrize(
    "text",
    [
        "[1 M" + " " * 200_000, "> " * 100_000 + "[1 M", "<memory_context>" * 12_000, "</memory_context>" * 12_000,
        "[1 M\n" * 40_000, ">\n" * 100_000 + ">  [1 M", "x\n\n  [1 M" * 25_000, "[3 May 2026]\nuser: x\n" * 8_000,
        "<memory_facts>\n- x: y\n</memory_facts>\n" * 5_000, "You are x [1 M\n" + "Traits: y\n" * 20_000,
        "<memory_context>\nx" + "\ny" * 100_000, f"{REMARK[:30]}\n" * 5_000,
    ],
    ids=[
        "blanks", "quoted", "opened", "closed", "headings", "empty quotes", "empty lines", "days", "blocks",
        "personas", "no marks", "remarks",
    ],
)  # fmt: skip
def test_no_text_takes_long_to_look_through(text: str) -> None:
    assert len(said_in(text)) <= len(text)
