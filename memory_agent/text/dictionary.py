"""Entities by dictionary: known names and their aliases found in a text, in time linear in the text.

Text and aliases are compared in NFKC, folded for case, with runs of whitespace and single hyphens between words taken
as one blank. Short acronyms ("SoS", "HHI") are words in other case, so they match only as they are written.

What may stand beside an alias depends on the script of its first and last character: `docs/entities.md` gives the
rules with examples.
"""

from __future__ import annotations

import unicodedata
from collections import Counter
from operator import add
from typing import TYPE_CHECKING, Final

import regex

from memory_agent.domain.search import Entity
from memory_agent.errors import InvalidInput
from memory_agent.lazily import lazily
from memory_agent.text.korean.grammar import PARTICLES

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

MAX_ALIAS_CHARS: Final = 100

_JAMO: Final = r"\u3131-\u318E"  # single Korean letters: "ㅋㅋ", "ㅠㅠ"
_HANGUL: Final = r"\uAC00-\uD7A3\u1100-\u11FF\uA960-\uA97F\uD7B0-\uD7FF"
_KATAKANA: Final = r"\p{Katakana}ー"
_UNSPACED: Final = r"\p{Han}\p{Hiragana}\p{Thai}\p{Lao}\p{Khmer}\p{Myanmar}々〆"
_SPACED: Final = rf"[[\p{{L}}\p{{N}}\p{{M}}]--[{_JAMO}{_HANGUL}{_KATAKANA}{_UNSPACED}]]"

# Where an alias may begin: anywhere but inside a word of the same script. Where words are not parted, anywhere.
_START: Final = lazily(
    regex.compile,
    rf"(?<!{_SPACED}){_SPACED} | (?<![{_HANGUL}])[{_HANGUL}] | (?<![{_KATAKANA}])[{_KATAKANA}]"
    rf"| (?<![{_JAMO}])[{_JAMO}] | [{_UNSPACED}] | [^\s\p{{L}}\p{{N}}\p{{M}}]",
    regex.VERBOSE | regex.V1,
)
# Where it may end: likewise, with Korean particles between it and the end of the word.
_END: Final = lazily(
    regex.compile,
    rf"(?<={_SPACED})(?!{_SPACED}) | (?<=[{_HANGUL}])(?:{PARTICLES})(?![{_HANGUL}])"
    rf"| (?<=[{_KATAKANA}])(?![{_KATAKANA}]) | (?<=[{_JAMO}])(?![{_JAMO}])"
    rf"| (?<=[{_UNSPACED}])(?!\p{{M}}) | (?<=[^\p{{L}}\p{{N}}\p{{M}}])",
    regex.VERBOSE | regex.V1,
)
# Signs around a name rather than letters of it. NFKC would make letters and digits of "™" and "①".
_READ_CHARS: Final = 100_000
"""Of a text, in which names are looked for."""
_ORNAMENTS: Final = lazily(
    regex.compile,
    r"[™℠©®\u2460-\u24FF\u2776-\u2793\u3251-\u32BF\u20E3\uFDFA\uFDFB\uFE00-\uFE0F\U0001F100-\U0001F19F]",
)
# NFKC would join a single Korean letter to the syllable before it: "즈ㄳ" becomes "즋".
_NO_JAMO: Final = lazily(regex.compile, rf"[^{_JAMO}]+")
_BLANKS: Final = lazily(regex.compile, r"\s+|(?<=\w)[-‐‑‒–](?=\w)")
_STRAIGHT: Final = str.maketrans("’‘", "''")
_ACRONYM: Final = lazily(regex.compile, r"(?=.*[A-Z].*[A-Z])[A-Za-z0-9]{2,4}")


class EntityDictionary:
    """Names by kind, each with its aliases; never changed. A name is an alias of itself."""

    __slots__ = ("_folded", "_lengths", "_of_kind", "_written", "entities")

    entities: tuple[Entity, ...]
    """All that can be found, by kind and name in the order given."""

    def __init__(self, kinds: Mapping[str, Mapping[str, Sequence[str]]]) -> None:
        """`kinds`: kind -> canonical name -> aliases (of 1 to 100 characters).

        An alias may stand for one name per kind. Raises InvalidInput that names kind, name and alias.
        """
        self._of_kind: dict[tuple[str, str], Entity] = {}
        self._written: dict[str, Entity] = {}
        self._folded: dict[str, Entity] = {}
        entities = []
        for kind, names in kinds.items():
            for name, aliases in names.items():
                entity = Entity(kind=kind, name=name)
                entities.append(entity)
                if isinstance(aliases, str):
                    raise InvalidInput(f"the aliases of {kind} {name!r} are text; pass a list, [{aliases!r}]")
                for alias in (name, *aliases):
                    self._add(entity, alias)
        self.entities = tuple(dict.fromkeys(entities))
        self._lengths = _lengths((*self._folded, *map(_fold, self._written)))

    def _add(self, entity: Entity, alias: str) -> None:
        spelling = _spelling(alias).strip() if isinstance(alias, str) else ""
        if not 0 < len(spelling) <= MAX_ALIAS_CHARS:
            raise InvalidInput(
                f"{alias!r:.120} cannot be an alias of {entity.kind} {entity.name!r};"
                f" use text of 1 to {MAX_ALIAS_CHARS} visible characters"
            )
        acronym = _ACRONYM.fullmatch(spelling) is not None
        key = spelling if acronym else _fold(spelling)
        known = self._of_kind.setdefault((entity.kind, key), entity)
        if known != entity:
            raise InvalidInput(
                f"{alias!r} stands for two names of {entity.kind}, {known.name!r} and {entity.name!r};"
                " keep it for one of them"
            )
        (self._written if acronym else self._folded).setdefault(key, entity)  # the first kind wins

    def __len__(self) -> int:
        """The number of entities that can be found."""
        return len(self.entities)

    def find(self, text: str) -> tuple[Entity, ...]:
        """The entities that `text` mentions, each once, in order of first mention.

        Read from left to right; where several aliases begin, the longest wins, and of two kinds with the same alias
        the first. What an alias covers is not searched again.

        >>> EntityDictionary({"brands": {"LANEIGE": ["라네즈"]}}).find("라네즈는 laneige")
        (Entity(kind='brands', name='LANEIGE'),)
        """
        return tuple(dict.fromkeys(self._mentions(text)))

    def count(self, text: str) -> dict[Entity, int]:
        """Mentions of each entity in `text`, in order of first mention."""
        return dict(Counter(self._mentions(text)))

    def named(self, name: str, *, kind: str | None = None) -> Entity | None:
        """The entity of which `name` as a whole is an alias, of `kind` or (None) of the first kind that has it."""
        written = _spelling(name).strip()
        folded = _fold(written)
        if kind is not None:
            return self._of_kind.get((kind, written)) or self._of_kind.get((kind, folded))
        return self._written.get(written) or self._folded.get(folded)

    def _mentions(self, text: str) -> Iterator[Entity]:
        if not self.entities:
            return
        written = _spelling(text[:_READ_CHARS])
        folded = _fold(written)
        end = 0
        begins = self._lengths
        pairs = map(add, folded, folded[1:] + " ")
        # Names begin so at few places: the pattern is asked there alone.
        for start in [at for at, pair in enumerate(pairs) if pair in begins or pair[0] in begins]:
            if start >= end and _START.match(folded, start) and (found := self._at(start, written, folded)):
                entity, end = found
                yield entity

    def _at(self, start: int, written: str, folded: str) -> tuple[Entity, int] | None:
        """The entity with the longest alias at `start`, and where the alias ends."""
        two = folded[start : start + 2]
        for length in (*self._lengths.get(two, ()), *self._lengths.get(two[0], ())):
            end = start + length
            if end > len(folded):
                continue
            entity = self._written.get(written[start:end])
            if entity and (_END.match(folded, end) or _plural(written, end)):
                return entity, end
            entity = self._folded.get(folded[start:end])
            if entity and _END.match(folded, end):
                return entity, end
        return None


def united(
    found: Iterable[Entity], given: Iterable[Entity], recognised: Iterable[Entity], known: EntityDictionary
) -> tuple[Entity, ...]:
    """A turn's entities, each once: what the dictionary found, then the caller's own, then a model's.

    A caller's name that is an alias of its kind becomes the canonical one. What a model recognised is left out if the
    dictionary knows it, of whatever kind, or the caller gave that name: "LANEIGE" is a brand, then, and no organisation.
    """
    own = [known.named(entity.name, kind=entity.kind) or entity for entity in given]
    names = {entity.name for entity in own}
    others = [entity for entity in recognised if entity.name not in names and not known.named(entity.name)]
    return tuple(dict.fromkeys((*found, *own, *others)))


def _spelling(text: str) -> str:
    """`text` with one way to write what looks the same, in the case it was written in; see `_fold`."""
    if text.isascii() and "-" not in text and text.split() == text.split(" "):
        return text  # as most are
    if not text.isascii():
        text = _ORNAMENTS.sub(" ", text)
        text = _NO_JAMO.sub(lambda part: unicodedata.normalize("NFKC", part[0]), text).translate(_STRAIGHT)
        if len(text.casefold()) != len(text):  # "ß" folds to "ss"
            text = "".join(char if len(folded := char.casefold()) == 1 else folded for char in text)
    return _BLANKS.sub(" ", text)


def _fold(spelling: str) -> str:
    """A spelling without case, character by character: both are equally long."""
    return spelling.casefold()


def _plural(written: str, end: int) -> bool:
    """True if a plural's "s" follows an acronym: "HHIs"."""
    return written[end : end + 1] == "s" and _END.match(written, end + 1) is not None


def _lengths(aliases: Iterable[str]) -> dict[str, tuple[int, ...]]:
    """Lengths of the aliases that begin with the same two characters, the longest first."""
    lengths: dict[str, set[int]] = {}
    for alias in aliases:
        lengths.setdefault(alias[:2], set()).add(len(alias))
    return {begins: tuple(sorted(them, reverse=True)) for begins, them in lengths.items()}
