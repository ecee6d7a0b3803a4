"""Texts of the pages: the catalogue of a language, and remembered texts with what can't be seen in them made visible."""

from __future__ import annotations

import ast
import functools
import re
import unicodedata
from importlib import resources
from typing import TYPE_CHECKING, Final

import regex

from memory_agent.lazily import lazily

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    from markupsafe import Markup

LANGUAGES: Final[Mapping[str, str]] = {"en": "English", "ko": "한국어"}
"""That the pages are in; English is what the templates hold, of every other there is a catalogue."""
_ENTRY: Final = re.compile(r'^(msgid|msgid_plural|msgstr(?:\[0\])?) (".*")$')
# What nobody sees, or what turns the direction of what follows. Joiners and variation selectors are seen where they
# join: in emoji, and in scripts whose letters they shape.
_ODD: Final = lazily(
    regex.compile,
    r"(?:(?<=[\p{Extended_Pictographic}\p{Emoji_Modifier}\uFE0F])[\u200D\uFE0F]"
    r"|(?<=[\p{Arabic}\p{Devanagari}\p{Bengali}\p{Tamil}\p{Telugu}\p{Malayalam}\p{Sinhala}\p{M}])[\u200C\u200D])"
    r"(*SKIP)(*FAIL)|[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\p{Cs}\p{Default_Ignorable_Code_Point}--[\n\t]]",
    regex.V1,
)


@functools.cache
def catalogue(language: str) -> Mapping[str, str]:
    """The texts of a language, by the English ones; in English those of names alone, such as "tier long_term".

    A gettext catalogue (`ko.po`), read as it is: it needs no compiler.
    """
    found: dict[str, str] = {}
    kind, entry = "", dict[str, str]()
    for line in (resources.files(__package__) / f"{language}.po").read_text("utf-8").splitlines():
        if begins := _ENTRY.match(line):
            kind = begins[1]
            if kind == "msgid":
                entry = {}
            entry[kind] = ast.literal_eval(begins[2])
        elif line.startswith('"'):
            entry[kind] += ast.literal_eval(line)
        if text := entry.get("msgstr") or entry.get("msgstr[0]"):
            found |= {entry[name]: text for name in ("msgid", "msgid_plural") if entry.get(name)}
    return found


def translated(language: str, text: str) -> str:
    """`text` in the language; as it is where the catalogue has none."""
    return catalogue(language).get(text, text)


def pluralised(language: str, one: str, many: str, number: int) -> str:
    """`one` or `many` in the language. Korean has one form for both."""
    return translated(language, one if number == 1 else many)


def reason_in(language: str, reason: str) -> str:
    """A ledger's reason, which may be several with commas between them, in the language."""
    whole = translated(language, reason)
    return whole if whole != reason else ", ".join(translated(language, part) for part in reason.split(", "))


def language_for(header: str) -> str:
    """The first of the languages that a browser's Accept-Language names.

    >>> language_for("de-DE,de;q=0.9,ko;q=0.8"), language_for("")
    ('ko', 'en')
    """
    asked = (part.split(";")[0].strip().lower()[:2] for part in header.split(","))
    return next((language for language in asked if language in LANGUAGES), "en")


def parts_of(text: str) -> list[tuple[str, str]]:
    """`text` in parts: (text, "") as it is, ("U+202E", its name) for a character that nobody would see.

    >>> parts_of("a\\u202eb")
    [('a', ''), ('U+202E', 'RIGHT-TO-LEFT OVERRIDE'), ('b', '')]
    """
    parts, at = list[tuple[str, str]](), 0
    for odd in _ODD.finditer(text):
        parts += [(text[at : odd.start()], "")] if odd.start() > at else []
        parts.append((f"U+{ord(odd[0]):04X}", unicodedata.name(odd[0], "control character")))
        at = odd.end()
    return [*parts, (text[at:], "")] if at < len(text) else parts


def seen(text: object) -> Markup:
    """Remembered text as HTML, with what can't be seen in it made visible."""
    from markupsafe import Markup, escape

    told = str(text)
    if told.isascii() and told.replace("\n", " ").replace("\t", " ").isprintable():  # as most are
        return escape(told)
    odd = Markup('<span class="odd" title="{}">{}</span>')
    return Markup("").join(odd.format(name, part) if name else escape(part) for part, name in parts_of(told))


def when(time: datetime | None) -> str:
    """A time as pages show it; "" for none."""
    return "" if time is None else f"{time:%Y-%m-%d %H:%M}"
