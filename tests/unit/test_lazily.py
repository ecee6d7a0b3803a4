"""No pattern is compiled before it is used: importing the package compiles none. Fields left for later are made once."""

import copy
import pickle
import re
import subprocess
import sys
from dataclasses import dataclass, replace

import pytest

from memory_agent.lazily import LateFields, lazily

COUNTING = """
import re, sys
import regex
own = []
def counted(module):
    compiled = module.compile
    def compile(*arguments, **options):
        frame = sys._getframe(1)
        if frame.f_globals.get("__name__", "").startswith("memory_agent"):
            own.append(arguments[0])
        return compiled(*arguments, **options)
    module.compile = compile
counted(re)
counted(regex)
import memory_agent
before = len(own)
from memory_agent.text.quotes import quotes_of
assert quotes_of("I've decided to take the job.")
print(before, len(own) > 10)
"""


def test_importing_the_package_compiles_no_pattern() -> None:
    """None of ours in a fresh process; what a first turn needs is compiled with it, which shows that it is counted."""
    done = subprocess.run([sys.executable, "-c", COUNTING], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["0", "True"]


def test_a_pattern_is_made_once_and_then_is_as_any_other() -> None:
    made = []

    def compiler(pattern: str, flags: int) -> re.Pattern[str]:
        made.append(pattern)
        return re.compile(pattern, flags)

    pattern = lazily(compiler, "a+", re.IGNORECASE)
    assert made == []
    assert pattern.sub("b", "cAat") == "cbt"
    assert pattern.search("xx") is None
    assert (pattern.pattern, pattern.flags & re.IGNORECASE) == ("a+", re.IGNORECASE)
    assert made == ["a+"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Told(LateFields):
    """A value of which one field may be left for later."""

    name: str
    said: str = ""


def test_a_field_that_is_left_for_later_is_made_when_it_is_read_and_once() -> None:
    """Until then nothing is made; whatever reads all fields, such as a comparison or a copy, finds it."""
    asked: list[str] = []

    def made(told: Told, field: str) -> str:
        asked.append(field)
        return f"{told.name}: {field} at last"

    told, others = (
        Told(name="a").made_later(made, "said"),
        [Told(name="a").made_later(made, "said") for _ in range(4)],
    )
    assert told.name == "a"
    assert asked == []
    assert told.said == told.said == "a: said at last"
    assert asked == ["said"]
    whole = Told(name="a", said="a: said at last")
    assert others[0] == whole
    assert repr(others[1]) == repr(whole)
    assert replace(others[2], name="b") == replace(whole, name="b")
    assert copy.copy(others[3]) == pickle.loads(pickle.dumps(others[3])) == whole
    with pytest.raises(AttributeError, match="'Told' object has no attribute 'heard'"):
        _ = told.heard  # type: ignore[attr-defined]
