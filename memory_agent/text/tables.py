"""Tables of rules: regular expressions as data, one alternative a line, so that a rule can be read, added and taken out."""

from __future__ import annotations

import re
from inspect import cleandoc

from memory_agent.lazily import lazily


def alternatives(table: str, **lists: str) -> str:
    r"""The regular expression that a table stands for: its lines are alternatives, its blanks are blanks.

    A line that is indented goes on with the one before it; a blank between the two is written `\ ` at its beginning.
    `<name>` is replaced by the one of `lists` with that name.

    >>> print(alternatives("i like <kin>", kin="(?:cats|dogs)"))
    (?:i like (?:cats|dogs))
    """
    joined: list[str] = []
    for line in cleandoc(table).splitlines():
        if line.startswith(" ") and joined:
            joined[-1] += line.lstrip()
        elif line:
            joined.append(line)
    expression = f"(?:{'|'.join(joined)})"
    for name, words in lists.items():
        expression = expression.replace(f"<{name}>", words)
    return expression


def pattern_of(table: str, **lists: str) -> re.Pattern[str]:
    """The pattern of a table, compiled when it is first used."""
    return lazily(re.compile, alternatives(table, **lists))
