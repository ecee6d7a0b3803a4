"""A language's tables: TOML files in its folder, read when they are first needed and once a process.

What a value may be is said in `docs/languages.md`: words between spaces, or a table of alternatives, one regular
expression a line. A file that cannot be read, a key that is missing and an expression that is none are InvalidInput,
which names file and key: whoever adds a language reads it.
"""

from __future__ import annotations

import re
import tomllib
from functools import cache
from importlib import resources
from typing import TYPE_CHECKING, Any, Final, NoReturn

import regex

from memory_agent.errors import InvalidInput
from memory_agent.lazily import lazily

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

# Not the name of a group, as in (?P<name>…).
_LIST: Final = lazily(re.compile, r"(?<!\(\?P)<([a-z_]+)>")

# Parts whose keys are words: a list of each part's name has them.
_LISTED: Final = frozenset(
    {
        "kin", "months", "short_months", "weekdays", "seasons", "holidays", "ordinals", "units", "numbers", "vague",
        "distances", "periods", "parts", "nth", "subjects", "occasions", "conditions",
    }
)  # fmt: skip

# Whose lists a file can name.
_BEFORE: Final = {"words": (), "facts": ("words", "times")}


def alternatives(text: str, lists: Mapping[str, str] | None = None) -> str:
    r"""The regular expression that a table stands for: its lines are alternatives, its blanks are blanks.

    A line that is indented goes on with the one before it; a blank between the two is written `\ ` at its beginning.
    `<name>` is replaced by the one of `lists` with that name; KeyError for one that is not there.

    >>> print(alternatives("i like <kin>", {"kin": "(?:cats|dogs)"}))
    (?:i like (?:cats|dogs))
    """
    joined: list[str] = []
    for line in text.splitlines():
        if line.startswith(" ") and joined:
            joined[-1] += line.lstrip()
        elif line:
            joined.append(line)
    named = lists or {}
    return str(_LIST.sub(lambda match: named[match[1]], f"(?:{'|'.join(joined)})"))


class Table:
    """A file of a language's folder, or a part of it. A key with dots leads into parts: "quarrel.pattern"."""

    def __init__(self, name: str, values: Mapping[str, Any], lists: Mapping[str, str] | None = None) -> None:
        """`name`: for messages; `lists`: what patterns may name, to which the part `lists` adds its own, in order."""
        self.name = name
        self._values = values
        self._lists = dict(lists or {})
        listed = {key: tuple(self.items(key)) for key in _LISTED & values.keys()}
        listed |= {key: tuple(sorted(self.words(f"words.{key}"))) for key in values.get("words", ())}
        for key, words in listed.items():
            longest_first = sorted(words, key=len, reverse=True)
            self._lists[key] = f"(?:{'|'.join(map(re.escape, longest_first))})"
        for key in values.get("lists", ()):
            self._lists[key] = self.alternatives(f"lists.{key}")

    def __bool__(self) -> bool:
        return bool(self._values)

    def __contains__(self, key: str) -> bool:
        return self._at(key) is not None

    def _at(self, key: str) -> Any:
        value: Any = self._values
        for part in key.split("."):
            value = value.get(part) if isinstance(value, dict) else None
        return value

    def _wrong(self, key: str, what: str) -> NoReturn:
        raise InvalidInput(f"{self.name}: {key} {what}")

    def value(self, key: str, kind: type = str, default: Any = None) -> Any:
        """The value at a key, of the type `kind`; `default` if there is none."""
        value = self._at(key)
        if value is None:
            return default if default is not None else self._wrong(key, "is missing")
        return value if isinstance(value, kind) else self._wrong(key, f"is no {kind.__name__}: {value!r:.60}")

    def words(self, key: str) -> frozenset[str]:
        """The words at a key, between spaces and line ends; none where it is missing."""
        return frozenset(self.value(key, str, "").split())

    def items(self, key: str) -> dict[str, Any]:
        """The keys of a part with their values, in the order of the file; none where it is missing."""
        return dict(self.value(key, dict, {}))

    def parts(self, key: str) -> Iterator[Table]:
        """The parts of a list of parts: `[[rule]]`."""
        for number, values in enumerate(self.value(key, list, []), start=1):
            yield Table(f"{self.name}: {key} {number}", values, self._lists)

    def alternatives(self, key: str) -> str:
        """The regular expression at a key; one that nothing matches where it is missing."""
        text = self.value(key, str, r"(?!)")
        try:
            return alternatives(text, self._lists)
        except KeyError as unknown:
            known = ", ".join(self._lists) or "none"
            self._wrong(key, f"names the list <{unknown.args[0]}>, which is not there; lists: {known}")

    def pattern(self, key: str, flags: int = 0) -> regex.Pattern[str]:
        """The pattern at a key, of the package `regex`, compiled when it is first used."""
        return lazily(self.compiled, regex, key, flags)

    def plain_pattern(self, key: str, flags: int = 0) -> re.Pattern[str]:
        """The pattern at a key, of the standard library."""
        return lazily(self.compiled, re, key, flags)

    def patterns(self, part: str, keys: str = "", flags: int = 0) -> dict[str, regex.Pattern[str]]:
        """The patterns of a part by their keys: those at `keys`, between blanks, or all of them."""
        return {key: self.pattern(f"{part}.{key}", flags) for key in keys.split() or self.items(part)}

    def compiled(self, engine: Any, key: str, flags: int) -> Any:
        """The pattern at a key, of the module `re` or `regex`."""
        try:
            return engine.compile(self.alternatives(key), flags)
        except engine.error as error:
            self._wrong(key, f"is no regular expression: {error}")


@cache
def table(language: str, file: str) -> Table:
    """The file `file`.toml of a language's folder; empty if there is none. Lists of its words.toml can be named in it."""
    name = f"{language}/{file}.toml"
    path = resources.files("memory_agent.text") / language / f"{file}.toml"
    try:
        values = tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        values = {}
    except ValueError as error:  # no TOML, or no UTF-8
        raise InvalidInput(f"{name} cannot be read: {error}") from error
    lists = dict[str, str]()
    for other in _BEFORE.get(file, ("words",)):
        lists |= table(language, other)._lists
    return Table(name, values, lists)
