"""What kinds of moment a turn is, by rules for English and Korean. Pure, bounded, and without a language model.

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

from operator import add
from typing import TYPE_CHECKING, Final

from memory_agent.text.moments.emotions import feeling_of
from memory_agent.text.moments.english import CONCESSION, ENGLISH_RULES, LAUGHTER, LAUGHTER_CUES
from memory_agent.text.moments.english import QUARREL as ENGLISH_QUARREL
from memory_agent.text.moments.english_self import ENGLISH_SELF_RULES, NAMED, names_relative
from memory_agent.text.moments.korean import CONCESSION as KOREAN_CONCESSION
from memory_agent.text.moments.korean import CONCESSION_CUES, KOREAN_RULES, KOREAN_SELF_RULES, NO_CONCESSION
from memory_agent.text.moments.korean import QUARREL as KOREAN_QUARREL
from memory_agent.text.moments.rules import found_by, found_in_korean
from memory_agent.text.sentences import sentences_of, shortened
from memory_agent.text.subjects import content_stems, offers_help, refers_back

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from memory_agent.domain.moments import MomentKind
    from memory_agent.text.moments.rules import Rule
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
    here. Of a long turn only its beginning and its end are read (`recall.sentences`). Never raises.

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
        _apply_english(sentence, role, found)
    _apply_korean(sentences, role, found)
    if "humor_moment" not in found and any(_laughs(sentence) for sentence in sentences):
        found.add("humor_moment")
    if role == "user" and "user_information" not in found and _names_people(sentences):
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
        for rule in _ENGLISH_DECISIONS:
            if not rule.cues.isdisjoint(sentence.words) and found_by(rule, sentence):
                return shortened(sentence.text, DECISION_CHARS)
        if sentence.korean and any(found_in_korean(rule, sentence) for rule in _KOREAN_DECISIONS):
            return shortened(sentence.text, DECISION_CHARS)
    return None


def _by_cue(rules: Iterable[Rule]) -> dict[str, tuple[Rule, ...]]:
    """The rules under each of their cues, so that a sentence only meets those that it has a word of."""
    by_cue: dict[str, tuple[Rule, ...]] = {}
    for rule in rules:
        for cue in rule.cues:
            by_cue[cue] = (*by_cue.get(cue, ()), rule)
    return by_cue


_ENGLISH: Final = _by_cue((*ENGLISH_RULES, *ENGLISH_SELF_RULES))
# Each rule with the first two letters of its cues: a turn without any of these pairs is spared the search for cues.
_KOREAN: Final = tuple(
    (frozenset(cue[:2] for cue in rule.cues), rule) for rule in (*KOREAN_RULES, *KOREAN_SELF_RULES)
)
_ENGLISH_DECISIONS: Final = tuple(rule for rule in ENGLISH_RULES if rule.kind == "decision_made")
_KOREAN_DECISIONS: Final = tuple(rule for rule in KOREAN_RULES if rule.kind == "decision_made")


def _apply_english(sentence: Sentence, role: str, found: set[MomentKind]) -> None:
    tried: set[int] = set()
    for word in sentence.words & _ENGLISH.keys():
        for rule in _ENGLISH[word]:
            if rule.kind in found or id(rule) in tried or (rule.role is not None and rule.role != role):
                continue
            tried.add(id(rule))
            if found_by(rule, sentence):
                found.add(rule.kind)


def _apply_korean(sentences: Sequence[Sentence], role: str, found: set[MomentKind]) -> None:
    korean = [sentence for sentence in sentences if sentence.korean]
    if not korean:
        return
    whole = "\n".join(sentence.low for sentence in korean)
    letters = {*whole, *map(add, whole, whole[1:])}
    for beginnings, rule in _KOREAN:
        if rule.kind in found or (rule.role is not None and rule.role != role):
            continue
        if not beginnings.isdisjoint(letters) and any(found_in_korean(rule, each) for each in korean):
            found.add(rule.kind)


def _laughs(sentence: Sentence) -> bool:
    low = sentence.low
    return any(cue in low for cue in LAUGHTER_CUES) and LAUGHTER.search(low) is not None


def _names_people(sentences: Sequence[Sentence]) -> bool:
    """ "I'm Anna." at the beginning of a turn, "my wife Ewa" and "Mango is my cat" anywhere: names need their capitals."""
    if any(not sentence.asks and NAMED.search(sentence.text) for sentence in sentences[:2]):
        return True
    return any(not sentence.asks and names_relative(sentence) for sentence in sentences)


def _ends_quarrel(sentences: Sequence[Sentence], before: Sequence[tuple[str, str]]) -> bool:
    """An apology or a concession, with a quarrel in the turns before."""
    if not before or not any(_concedes(sentence) for sentence in sentences):
        return False
    return any(role in _SPEAKERS and _quarrels(text) for role, text in before)


def _concedes(sentence: Sentence) -> bool:
    if not CONCESSION.cues.isdisjoint(sentence.words) and found_by(CONCESSION, sentence):
        return True
    return (
        sentence.korean
        and not sentence.asks
        and any(cue in sentence.low for cue in CONCESSION_CUES)
        and KOREAN_CONCESSION.search(sentence.low) is not None
        and not NO_CONCESSION.search(sentence.low)
    )


def _quarrels(text: str) -> bool:
    return any(
        ENGLISH_QUARREL.search(sentence.low) or (sentence.korean and KOREAN_QUARREL.search(sentence.low))
        for sentence in sentences_of(text)
    )


def _opens_subject(text: str, sentences: Sequence[Sentence], before: Sequence[tuple[str, str]]) -> bool:
    """Whether a user's turn is the first with a subject, or shares no word with the turns before.

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
