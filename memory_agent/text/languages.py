"""The table of languages: what `text.moments`, `text.patterns` and `text.sentences` ask of one. The rules are in a folder for each.

A new language is a folder beside `english` and `korean` and one line in `LANGUAGES`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from memory_agent.text.english import asks as english_asks
from memory_agent.text.english import feelings as english_feelings
from memory_agent.text.english import moments as english_moments
from memory_agent.text.english import notes as english_notes
from memory_agent.text.english import self_told as english_self_told
from memory_agent.text.english import statements as english_statements
from memory_agent.text.english.facts.rules import english_facts
from memory_agent.text.korean import asks as korean_asks
from memory_agent.text.korean import feelings as korean_feelings
from memory_agent.text.korean import moments as korean_moments
from memory_agent.text.korean import notes as korean_notes
from memory_agent.text.korean import statements as korean_statements
from memory_agent.text.korean.facts.rules import korean_facts

if TYPE_CHECKING:
    import re
    from collections.abc import Callable, Iterator, Sequence

    from memory_agent.domain import StatedFact
    from memory_agent.text.moments.lexicon import Shown
    from memory_agent.text.moments.rules import Rule
    from memory_agent.text.patterns.common import Sentence as Statement
    from memory_agent.text.sentences import Sentence


@dataclass(frozen=True, kw_only=True, slots=True)
class Language:
    """What is known of one language. Sentences are lower case, without code, links and quoted speech."""

    name: str
    is_in: Callable[[Sentence], bool]
    """Whether a sentence has words that may be this language's; a sentence can have several languages'."""
    asks: Callable[[str], bool]
    """Whether a sentence without a question mark asks."""
    rules: tuple[Rule, ...]
    """What is a moment."""
    found_by: Callable[[Rule, Sentence], re.Match[str] | None]
    """Where a rule holds in a sentence."""
    quarrel: re.Pattern[str]
    """Words of a quarrel."""
    concession: Rule
    """What ends a quarrel only if there was one."""
    names_people: Callable[[Sequence[Sentence]], bool]
    """Whether a turn names its speaker or somebody near."""
    feelings: Callable[[Sentence], Iterator[Shown]]
    """The feelings of the speaker that a sentence shows."""
    acts: re.Pattern[str]
    """What an action between asterisks begins with or is."""
    is_note: Callable[[Sentence], bool]
    """Whether a sentence is about the two who talk."""
    facts: Callable[[list[Statement]], Iterator[StatedFact]]
    """What the sentences of a user's turn plainly state about the user."""


LANGUAGES: Final = (
    Language(
        name="english",
        is_in=lambda sentence: bool(sentence.words),
        asks=english_asks.asks,
        rules=(*english_moments.RULES, *english_self_told.RULES),
        found_by=english_statements.found_by,
        quarrel=english_moments.QUARREL,
        concession=english_moments.CONCESSION,
        names_people=english_self_told.names_people,
        feelings=english_feelings.feelings,
        acts=english_notes.ACTS,
        is_note=english_notes.is_note,
        facts=english_facts,
    ),
    Language(
        name="korean",
        is_in=lambda sentence: sentence.hangul,
        asks=korean_asks.asks,
        rules=korean_moments.RULES,
        found_by=korean_statements.found_by,
        quarrel=korean_moments.QUARREL,
        concession=korean_moments.CONCESSION,
        names_people=lambda _sentences: False,  # a Korean name has no capital
        feelings=korean_feelings.feelings,
        acts=korean_notes.ACTS,
        is_note=korean_notes.is_note,
        facts=korean_facts,
    ),
)
