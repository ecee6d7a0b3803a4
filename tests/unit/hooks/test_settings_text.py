"""Elements in and out of people's settings, whatever these look like."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory_agent.errors import ConfigError
from memory_agent.hooks.hosts import commands_in, with_elements, without_commands

OURS = {"Before": {"hooks": [{"command": "run 'a'"}]}, "After": {"command": 'run "b"'}}
COMMANDS = {"run 'a'", 'run "b"'}
TEXTS = {
    "nothing": "",
    "blank": "\n\n",
    "empty": "{}",
    "others": '{"model": "opus", "env": {"hooks": []}}',
    "hooks": '{"hooks": {}}\n',
    "events": '{"hooks": {"After": [], "Before": [{"hooks": [{"command": "x"}]}]}}',
    "comments": '// mine\n{ /* "hooks": {} */\n  "a": "// no comment",\n  "hooks": { // here\n "After": [ 1, ], },\n}\n',
    "windows": '\ufeff{\r\n\t"a": 1,\r\n\t"hooks": {\r\n\t\t"Before": [\r\n\t\t]\r\n\t}\r\n}\r\n',
    "twice": '{"hooks": {"Before": [1]}, "hooks": {"Before": [2]}}',
}


def plain(text: str) -> Any:
    return json.loads(text.lstrip("\ufeff"))


@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS.keys())
def test_elements_are_put_in_and_everything_else_stays_as_it_was_written(text: str) -> None:
    after = with_elements(text, OURS, {"version": 1})
    assert commands_in(after) == {*COMMANDS, *commands_in(text)}
    rest = iter(after)
    assert all(char in rest for char in text.strip())  # in this order, with what was put in between
    left = without_commands(after, COMMANDS)
    assert commands_in(left) == commands_in(text)
    assert ("\r\n" in text) == ("\r\n" in after)
    assert with_elements(left, OURS, {"version": 1})


def test_what_is_made_of_nothing_is_as_people_write_it() -> None:
    assert plain(with_elements("", OURS, {"version": 1})) == {
        "version": 1,
        "hooks": {name: [element] for name, element in OURS.items()},
    }


def test_of_a_group_with_a_hook_of_somebody_else_ours_alone_is_taken_out() -> None:
    text = (
        '{"hooks": {"Stop": [{"hooks": [{"command": "theirs"}, {"command": "ours"}]}, {"command": "ours"}]}}'
    )
    assert without_commands(text, {"ours"}) == '{"hooks": {"Stop": [{"hooks": [{"command": "theirs"}]}]}}'


@pytest.mark.parametrize("newline", ["\n", "\r\n"])
def test_lists_that_were_there_are_byte_for_byte_as_before_with_the_comments_in_them(newline: str) -> None:
    text = '// mine\n{"hooks": {\n "Before": [ // the first\n 1, // and more\n], "After": [/* none */]}, "a": 1}\n'
    text = text.replace("\n", newline)
    assert without_commands(with_elements(text, OURS, {}), COMMANDS) == text


@pytest.mark.parametrize(
    ("listed", "left"),
    [
        ("[OURS,]", "[]"),
        ("[OURS /* ours */, // mine\n 1]", "[ /* ours */ // mine\n 1]"),
        ("[1, // mine\n OURS // and this\n]", "[1 // mine\n  // and this\n]"),
        ("[1,\n OURS // and this\n]", "[1 // and this\n]"),
        ("[1,\n OURS,\n]", "[1,\n \n]"),
    ],
)
def test_comments_around_ours_stay_wherever_it_was_moved_to(listed: str, left: str) -> None:
    ours = '{"command": "ours"}'
    text = f'{{"hooks": {{"Stop": {listed.replace("OURS", ours)}}}}}'
    assert without_commands(text, {"ours"}) == f'{{"hooks": {{"Stop": {left}}}}}'


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        ('{"a": }', "line 1 cannot be read as JSON ('}')"),
        ('{"a": 1}\n{', "line 1 cannot be read"),
        ('{"a" 1}', "cannot be read"),
        ('{\n"a": "\\x"}', "line 2 cannot be read"),
        ("[1, 2", "cannot be read"),
        ("[]", "the file is [], and should be an object"),
        ('{"hooks": []}', "hooks is [], and should be an object"),
        ('{"hooks": {"Before": {}}}', "hooks.Before is {}, and should be a list"),
    ],
)
def test_what_cannot_be_read_is_refused_with_its_place(text: str, wrong: str) -> None:
    with pytest.raises(ConfigError) as told:
        with_elements(text, OURS, {})
    assert wrong in str(told.value)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=10,
)


@given(
    st.dictionaries(st.text(max_size=3), JSON, max_size=3),
    st.dictionaries(st.sampled_from(["Before", "After", "Else"]), st.lists(JSON, max_size=3)) | st.none(),
    st.sampled_from([None, 2, "\t"]),
)
def test_in_and_out_changes_nothing_but_emptied_places(
    settings: dict[str, Any], hooks: dict[str, Any] | None, indent: Any
) -> None:
    settings.pop("hooks", None)
    given = settings if hooks is None else {**settings, "hooks": hooks}
    after = with_elements(json.dumps(given, indent=indent), OURS, {})
    here = plain(after)
    for event, element in OURS.items():
        assert here["hooks"][event] == [element, *(hooks or {}).get(event, [])]
    left = plain(without_commands(after, COMMANDS))
    assert {**left, "hooks": {event: found for event, found in left["hooks"].items() if found}} == {
        **given,
        "hooks": {event: found for event, found in (hooks or {}).items() if found},
    }
