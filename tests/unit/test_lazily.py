"""No pattern is compiled before it is used: importing the package compiles none."""

from __future__ import annotations

import re
import subprocess
import sys

from memory_agent.lazily import lazily

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
