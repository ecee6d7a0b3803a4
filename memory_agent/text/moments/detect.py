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

from typing import TYPE_CHECKING, Final

from memory_agent.text.languages import plain_any_of
from memory_agent.text.moments.emotions import feeling_of
from memory_agent.text.moments.rules import rules_for, rules_of_languages
from memory_agent.text.sentences import sentences_of, shortened
from memory_agent.text.subjects import content_stems, offers_help, refers_back

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
        _apply(sentence, role, found)
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
        found: set[MomentKind] = set()
        _apply(sentence, "", found, only="decision_made")
        if found:
            return shortened(sentence.text, DECISION_CHARS)
    return None


_LAUGHTER: Final = plain_any_of("moments", "laughter.pattern", within=r"[😂🤣😆😹😜🤪]|%s")


def _apply(sentence: Sentence, role: str, found: set[MomentKind], *, only: MomentKind | None = None) -> None:
    """Add to `found` what kinds of moment a sentence is by the rules of its languages."""
    for rules in rules_for(sentence):
        for rule in rules.rules:
            if rule.kind in found or only not in (None, rule.kind) or rule.role not in (None, role):
                continue
            if rules.find(rule, sentence) is not None:
                found.add(rule.kind)


def _ends_quarrel(sentences: Sequence[Sentence], before: Sequence[tuple[str, str]]) -> bool:
    """An apology or a concession, with a quarrel in the turns before."""
    if not before or not any(_concedes(sentence) for sentence in sentences):
        return False
    return any(role in _SPEAKERS and _quarrels(text) for role, text in before)


def _concedes(sentence: Sentence) -> bool:
    return any(
        rules.find(rule, sentence) is not None for rules in rules_for(sentence) for rule in rules.concession
    )


def _quarrels(text: str) -> bool:
    return any(
        rules.quarrel.search(sentence.low) for sentence in sentences_of(text) for rules in rules_for(sentence)
    )


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
    if refers_back(sentences) or any(each.asks and not offers_help(each) for each in last):
        return False
    old = frozenset[str]().union(*(_said_stems(role, said) for role, said in before))
    if not stems.isdisjoint(old):
        return False
    if len(before) < PREVIOUS_TURNS and len(old) < _SUBSTANTIAL_STEMS:
        return True
    return len(stems) >= _NEW_SUBJECT_STEMS and len(old) >= _OLD_SUBJECT_STEMS


def _said_stems(role: str, text: str) -> frozenset[str]:
    """The content words of a turn before; none of an assistant's offer of help, which has no subject yet."""
    if role == "assistant" and any(offers_help(sentence) for sentence in sentences_of(text)):
        return frozenset()
    return content_stems(text)
