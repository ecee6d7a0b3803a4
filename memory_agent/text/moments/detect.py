"""Classification of a turn into kinds of moment, by the rules of the languages (`moments.rules`). Pure, bounded, without a model.

Every kind is found sentence by sentence: a rule holds unless its sentence asks, supposes, wishes or denies it. A wrong
moment costs more than a missed one, for it keeps an ordinary turn in every prompt. Per kind, with examples of what
passes and what doesn't: `docs/importance.md`. In short:

- `emotional_peak`: a strong feeling of the speaker's own (`feeling_of` at `PEAK_INTENSITY` or above).
- `conflict_resolution`: words that only end a quarrel ("I forgive you", "we made up"), or an apology, a concession or
  thanks for one when a turn before had a quarrel in it.
- `decision_made`: something is settled, by the speaker or, as reported, by somebody else.
- `topic_introduction`: "by the way", "I want to talk about ..."; a user's first turn with a subject of its own; or a user's
  turn of which no word has come up in the turns before, and that neither answers a question nor refers back.
- `user_information`: a user states a fact about himself: name, age, job, home, family, health, tastes, plans.
- `character_defining`: somebody says who he is: a trait, a value, a thing he always or never does.
- `question_asked`: a question or a request for an explanation, with or without a question mark.
- `humor_moment`: laughter, or words that say it was a joke.
"""

from __future__ import annotations

import re
from functools import cache, lru_cache
from typing import TYPE_CHECKING, Final

from memory_agent.lazily import lazily
from memory_agent.text.languages import all_words, languages_with, plain_any_of, stop_words
from memory_agent.text.moments.emotions import feeling_of
from memory_agent.text.moments.rules import rules_for, rules_of_languages
from memory_agent.text.sentences import sentences_of, shortened

if TYPE_CHECKING:
    from collections.abc import Sequence

    from memory_agent.domain.moments import MomentKind
    from memory_agent.text.sentences import Sentence

PEAK_INTENSITY: Final = 0.75
"""From here on a feeling is an emotional peak: "I'm so happy!" is one, "I'm happy" isn't."""
ESSAY_CHARS: Final = 1500
"""A longer turn of an assistant is something that it wrote for somebody; the feelings in it are not its own."""
PREVIOUS_TURNS: Final = 4
"""How many turns before are looked at: for a quarrel, and for the words of the subject so far."""
DECISION_CHARS: Final = 120
TRAIT_CHARS: Final = 60
NOTE_CHARS: Final = 80
MOST_TRAITS: Final = 4

_SPEAKERS: Final = frozenset({"user", "assistant"})
_SUBSTANTIAL_STEMS: Final = 3
_NEW_SUBJECT_STEMS: Final = 6
_OLD_SUBJECT_STEMS: Final = 3


def detect_moments(
    text: str, *, role: str, previous: Sequence[tuple[str, str]] = ()
) -> frozenset[MomentKind]:
    """The kinds of moment that a turn is; empty for most turns, and for every turn of a tool or the system.

    `previous`: (role, text) of up to `PREVIOUS_TURNS` turns before, the oldest first; empty: the conversation begins
    here. Of a long turn only its beginning and its end are read (`text.sentences`). Never raises.

    >>> sorted(detect_moments("Let's go with Postgres. By the way, I live in Lisbon.", role="user"))
    ['decision_made', 'topic_introduction', 'user_information']
    >>> detect_moments("Should we decide now?", role="assistant")
    frozenset({'question_asked'})
    """
    if role not in _SPEAKERS:
        return frozenset()
    sentences = sentences_of(text)
    found: set[MomentKind] = set()
    for sentence in sentences:
        if sentence.asks:
            found.add("question_asked")
        found |= {
            rule.kind
            for rules in rules_for(sentence)
            for rule in rules.rules
            if rule.kind not in found and rule.role in (None, role) and rules.find(rule, sentence)
        }
    if any(_LAUGHTER.search(sentence.low) for sentence in sentences):
        found.add("humor_moment")
    if role == "user" and any(rules.names_people(sentences) for rules in rules_of_languages()):
        found.add("user_information")
    feeling = feeling_of(text)
    essay = role == "assistant" and len(text) > ESSAY_CHARS
    if feeling is not None and feeling.intensity >= PEAK_INTENSITY and not essay:
        found.add("emotional_peak")
    before = tuple(previous[-PREVIOUS_TURNS:])
    if "conflict_resolution" not in found and _ends_quarrel(sentences, before):
        found.add("conflict_resolution")
    if role == "user" and "topic_introduction" not in found and _opens_subject(text, sentences, before):
        found.add("topic_introduction")
    return frozenset(found)


def decision_in(text: str) -> str | None:
    """The first sentence that states a decision, up to 120 characters; None where there is no `decision_made`.

    >>> decision_in("I thought about it. I've decided to take the job.")
    "I've decided to take the job."
    """
    for sentence in sentences_of(text):
        if _states(sentence, "decision_made"):
            return shortened(sentence.text, DECISION_CHARS)
    return None


_LAUGHTER: Final = plain_any_of("moments", "laughter.pattern", within=r"[😂🤣😆😹😜🤪]|%s")


def _states(sentence: Sentence, kind: MomentKind) -> bool:
    """True if a sentence is of this kind, whoever says it, by the rules of its languages."""
    return any(
        rule.kind == kind and rules.find(rule, sentence)
        for rules in rules_for(sentence)
        for rule in rules.rules
    )


def _ends_quarrel(sentences: Sequence[Sentence], before: Sequence[tuple[str, str]]) -> bool:
    """An apology or a concession, with a quarrel in the turns before."""
    if not before or not any(
        rules.find(rule, each) for each in sentences for rules in rules_for(each) for rule in rules.concession
    ):
        return False
    said = (each for role, text in before if role in _SPEAKERS for each in sentences_of(text))
    return any(rules.quarrel.search(each.low) for each in said for rules in rules_for(each))


def _opens_subject(text: str, sentences: Sequence[Sentence], before: Sequence[tuple[str, str]]) -> bool:
    """True if a user's turn is the first with a subject, or shares no word with the turns before.

    Fewer turns before than are looked at mean that the conversation begins with them. An answer to a question is no
    new subject, whatever its words, nor is what refers back; an offer of help is neither a question nor a subject.
    """
    stems = content_stems(text)
    if len(stems) < _SUBSTANTIAL_STEMS or not sentences:
        return False
    if not before:
        return True
    last = sentences_of(before[-1][1])
    if _refers_back(sentences) or any(each.asks and not _offers_help(each) for each in last):
        return False
    old = frozenset[str]().union(*(_said_stems(role, said) for role, said in before))
    if not stems.isdisjoint(old):
        return False
    if len(before) < PREVIOUS_TURNS and len(old) < _SUBSTANTIAL_STEMS:
        return True
    return len(stems) >= _NEW_SUBJECT_STEMS and len(old) >= _OLD_SUBJECT_STEMS


def _said_stems(role: str, text: str) -> frozenset[str]:
    """The content words of a turn before; none of an assistant's offer of help, which has no subject yet."""
    if role == "assistant" and any(_offers_help(sentence) for sentence in sentences_of(text)):
        return frozenset()
    return content_stems(text)


# --- the subject: content words, cut so that their forms meet ------------------------------------------------
_WORD: Final = lazily(re.compile, r"[가-힣]+|[^\W\d_]{2,}(?:'[a-z]+)?")
_HANGUL_STEM = 2
_LATIN_STEM = 5


@cache
def _function_words() -> frozenset[str]:
    return frozenset[str]().union(*(stop_words(each.name) for each in languages_with("words", "fillers")))


@lru_cache(maxsize=8)
def content_stems(text: str) -> frozenset[str]:
    """The distinct content words of a turn: the first five letters of each, two syllables of a Korean word.

    Function words, greetings and fillers don't count, nor do code, links and quoted speech.

    >>> sorted(content_stems("Hi, I am planning a trip to Japan"))
    ['japan', 'plann', 'trip']
    """
    stems: set[str] = set()
    fillers, stop = all_words("words", "fillers"), _function_words()
    for sentence in sentences_of(text):
        for word in _WORD.findall(sentence.low):
            korean = "가" <= word[0] <= "힣"
            stem = word[: _HANGUL_STEM if korean else _LATIN_STEM]
            stops = len(stem) < _HANGUL_STEM or stem in fillers if korean else word in stop or word in fillers
            if not stops:
                stems.add(stem)
    return frozenset(stems)


_BEGINS, _WITHIN, _EDITS, _OFFERS = (
    plain_any_of("words", f"refers.{key}") for key in ("begins", "within", "edits", "offers")
)
_OFFER_CHARS = 60


def _refers_back(sentences: Sequence[Sentence]) -> bool:
    """True if a turn takes up what was said before it: by its first words, a pronoun, or an order about the thing at hand."""
    first = sentences[0].low
    begins = _BEGINS.match(first) or _EDITS.match(first)
    return begins is not None or any(_WITHIN.search(sentence.low) for sentence in sentences[:2])


def _offers_help(sentence: Sentence) -> bool:
    """True if a question only asks what the other wants: "How can I help?", "What's on your mind?"."""
    return sentence.asks and len(sentence.low) <= _OFFER_CHARS and _OFFERS.search(sentence.low) is not None


# --- traits and notes, for the character's reminder: words of the turn itself, trimmed ----------------------
_ACTION: Final = lazily(re.compile, r"(?<!\*)\*(?!\s|\*)([^*\n]{3,60})(?<!\s)\*(?!\*)")


def observed_traits(text: str, *, role: str) -> tuple[str, ...]:
    """Traits that a turn of the assistant shows or states: at most four phrases of up to 60 characters, mostly none.

    Statements that `character_defining` finds ("I never lie", "저는 솔직한 편이에요") and what it plays
    ("*laughs softly*"), in their order, without repeats.

    >>> observed_traits("*laughs softly* I never lie. What about you?", role="assistant")
    ('*laughs softly*', 'I never lie')
    """
    if role != "assistant":
        return ()
    traits: dict[str, None] = {}
    for sentence in sentences_of(text):
        for match in _ACTION.finditer(sentence.text):
            if any(rules.gesture.match(match.group(1).lower()) for rules in rules_of_languages()):
                traits[shortened(match.group(), TRAIT_CHARS)] = None
        said = _ACTION.sub(" ", sentence.text).strip()
        if said and _states(sentence, "character_defining"):
            traits[shortened(said.rstrip(".!~ "), TRAIT_CHARS)] = None
        if len(traits) >= MOST_TRAITS:
            break
    return tuple(traits)[:MOST_TRAITS]


def relationship_note(text: str, *, role: str) -> str | None:
    """The first sentence about the two who talk, up to 80 characters: "I trust you", "call me Ann", "넌 내 친구야".

    Of users and assistants only. Questions count only where they name the other ("can I call you Max?"); conditions and
    wishes don't.

    >>> relationship_note("Thanks. You're my best friend!", role="user")
    "You're my best friend!"
    """
    for sentence in sentences_of(text) if role in _SPEAKERS else ():
        if any(rules.is_note(sentence) for rules in rules_for(sentence)):
            return shortened(sentence.text, NOTE_CHARS)
    return None
