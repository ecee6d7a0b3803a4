"""Facts without a language model: what a user plainly states about themselves, in English and Korean.

A wrong fact is worse than a missed one: `text.cues` tells what is a question, a wish, a joke, somebody else's, or over.
What is over takes back the same fact. `docs/patterns.md` lists the kinds and their precision.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any, Final, Literal

import regex

from memory_agent.domain import StatedFact
from memory_agent.text.cues import sentences, statement_in
from memory_agent.text.languages import languages_with
from memory_agent.text.subjects import only_reacts

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from memory_agent.text.cues import Sentence
    from memory_agent.text.tables import Table

    Reader = Callable[[Sentence, regex.Match[str]], Iterable[object]]

EXTRACTOR_VERSION: Final = "10"
"""Changes with the rules, for the record of what extracted a fact."""
MAX_TEXT_CHARS: Final = 4_000
"""Longer turns are pasted documents, whose "I" is anybody."""
MAX_VALUE_CHARS: Final = 60
Op = Literal["add", "retract"]
_MOST_MATCHES: Final = 20
"""Of one rule in a sentence: nobody states more at once."""


def extract_facts(text: str) -> list[StatedFact]:
    """The facts that `text` states about its author, in the order of its sentences; [] if none is certain enough.

    `turn_id` is left to the caller. Each `quote` is a span of `text`; what is said twice is given once.
    """
    if len(text) > MAX_TEXT_CHARS:
        return []
    own = list(sentences(text))
    found: dict[tuple[object, ...], StatedFact] = {}
    for fact in (fact for language in languages_with("facts") for fact in language.facts(own)):
        if not isinstance(fact.value, str) or 0 < len(fact.value) <= MAX_VALUE_CHARS:
            found.setdefault((fact.op, fact.path, fact.value), fact)
    return list(found.values())


def stated(
    sentence: Sentence, at: tuple[int, int], path: str, value: Any, confidence: float, op: Op = "add"
) -> StatedFact:
    """The fact that a sentence states in its part `at`; `path`: with dots."""
    return StatedFact(
        op=op, path=tuple(path.split(".")), value=value, quote=sentence.quote(*at), confidence=confidence
    )


class _Rule:
    """A `[[fact]]` of a table: docs/languages.md says what its keys are."""

    def __init__(self, its: Table) -> None:
        self.path, self.pattern = its.value("path"), its.pattern("pattern")
        self.unless = its.pattern("unless", regex.IGNORECASE)
        self.needs = its.words("needs")
        self.confidence = its.value("confidence", float, 0.85)
        self.kind, self.reader = its.value("kind", str, "claim"), its.value("read", str, "value")


class TableOfFacts:
    """The facts that a language's table `facts` finds: each `[[fact]]` a pattern and a path.

    `kin`: the name on a path for each word that the group `kin` of a pattern can match; `readers`: what makes values of
    a match, by name, where the group `value` is not all; `subject`: the name on the path for the group of that name;
    `fits`: what else must be true of a match in its sentence.
    """

    def __init__(
        self,
        its: Table,
        kin: Mapping[str, str],
        *,
        readers: Mapping[str, Reader] | None = None,
        subject: Callable[[str, str], str] = lambda _, said: said,
        fits: Callable[[Sequence[Sentence], Sentence, regex.Match[str]], bool] = lambda *_: True,
    ) -> None:
        self._kin, self._subject, self._fits = kin, subject, fits
        self._readers: Mapping[str, Reader] = {"value": _values} | dict(readers or {})
        # What does not fit from a sentence's beginning may from its second clause.
        self._overlapped = its.value("overlapped", bool, False)
        self._has = its.pattern("has") if "has" in its else None
        self._rules = [_Rule(each) for each in its.parts("fact")]

    def __call__(self, own: Sequence[Sentence]) -> Iterator[StatedFact]:
        for sentence in own:
            if self._has is None or self._has.search(sentence.plain):
                for rule in self._rules:
                    if not rule.needs or sentence.has(rule.needs):
                        yield from self._found(rule, own, sentence)

    def _found(self, rule: _Rule, own: Sequence[Sentence], sentence: Sentence) -> Iterator[StatedFact]:
        if rule.kind == "first" and not all(only_reacts(before.plain) for before in own[: sentence.number]):
            return
        kind, beside = rule.kind, rule.kind in _BESIDE
        without = "negated" if kind == "instead" else ""
        found = rule.pattern.finditer(sentence.plain, overlapped=self._overlapped)
        for match in itertools.islice(found, _MOST_MATCHES):
            if rule.unless.search(sentence.plain):
                return
            if not (beside or self._fits(own, sentence, match)):
                continue
            read = statement_in(own, sentence.number, *match.span(), without=without, beside=beside)
            ended = read.ended and not (read.negated and kind in _ONLY_ENDED)
            over = kind == "over" or (ended and kind != "instead")
            negated = match.groupdict().get("no") and not over
            if (
                read.doubt
                or negated
                or (read.owner and not beside)
                or ended is not _ONLY_ENDED.get(kind, ended)
            ):
                continue
            path = self._path(rule, match)
            for value in self._readers[rule.reader](sentence, match) if path else ():
                end = sentence.plain.find(value, match.start()) + len(value) if isinstance(value, str) else 0
                span = match.start(), max(match.end(), end)
                yield stated(sentence, span, path, value, rule.confidence, "retract" if over else "add")

    def _path(self, rule: _Rule, match: regex.Match[str]) -> str:
        """The rule's path, with what its groups `kin` and `subject` stand for; "" where that is nothing."""
        said = match.groupdict()
        if "subject" in said:
            subject = regex.sub(r"[\W_]+", "_", self._subject(rule.path, said["subject"] or ""))
            return str(rule.path.replace("*", subject)) if subject else ""
        if "kin" not in said:
            return str(rule.path)
        word = said["kin"].casefold()
        name = self._kin.get(word) or self._kin.get(word.removesuffix("s"))
        return f"{rule.path}.{name}{'_in_law' if said.get('in_law') else ''}" if name else ""


_BESIDE: Final = ("beside", "gone")
"""Kinds of rules whose words are true whatever the sentence says of them: "my wife Anna"."""
_ONLY_ENDED: Final[Mapping[str, bool]] = {"gone": True, "ends": True, "holds": False}
"""Kinds of rules that count only where it is over, or only where it isn't; "not" is part of their own pattern."""


def _values(_: Sentence, match: regex.Match[str]) -> Iterable[object]:
    return (match.captures("value") if "value" in match.groupdict() else []) or [None]
