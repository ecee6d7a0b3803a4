"""What an English speaker feels, by words and phrases; the rules that weigh them are those of `moments.emotions`."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from memory_agent.lazily import lazily
from memory_agent.text.english.words import NEAR
from memory_agent.text.moments.lexicon import DEGREE, ONE_MORE, SLIGHT, by_strength
from memory_agent.text.tables import pattern_of
from memory_agent.text.word_set import word_set

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from memory_agent.domain.moments import Emotion
    from memory_agent.text.moments.lexicon import Shown
    from memory_agent.text.sentences import Sentence

_EXTREME: Final = 1.6
_CAPITALS: Final = 1.2
_AFTER: Final = 1.3
_NO_MORE: Final = 0.7
_LEAST_CAPITALS: Final = 3

_STATES: Final[dict[str, Shown]] = {
    **by_strength(
        "joy",
        (0.85, "overjoyed ecstatic elated euphoric blissful"),
        (0.55, "happy happiest happier joyful delighted"),
        (0.35, "glad pleased content cheerful"),
    ),
    **by_strength(
        "excitement", (0.75, "thrilled"), (0.5, "excited pumped stoked hyped psyched"), (0.35, "eager")
    ),
    **by_strength("gratitude", (0.5, "grateful thankful"), (0.4, "appreciate touched")),
    **by_strength("pride", (0.55, "proud prouder proudest")),
    **by_strength("hope", (0.45, "hopeful optimistic"), (0.3, "hope hoping")),
    **by_strength("love", (0.6, "adore cherish"), (0.35, "love loving")),
    **by_strength("relief", (0.55, "relieved"), (0.35, "reassured")),
    **by_strength(
        "surprise",
        (0.7, "flabbergasted stunned"),
        (0.6, "shocked astonished speechless"),
        (0.45, "surprised amazed"),
    ),
    **by_strength(
        "sadness",
        (0.9, "devastated heartbroken suicidal"),
        (0.8, "shattered inconsolable grieving miserable hopeless sobbing worthless"),
        (0.6, "depressed crying cried lonely grief broken heartache weeping mourning"),
        (0.5, "sad unhappy hurting hurt hurts alone empty down disappointed sadder"),
        (0.4, "upset gloomy"),
    ),
    **by_strength(
        "fear",
        (0.85, "terrified petrified horrified panicking"),
        (0.55, "scared afraid frightened panicked anxious dread dreading"),
        (0.4, "worried nervous uneasy worry worrying stressed"),
    ),
    **by_strength(
        "anger",
        (0.85, "furious livid enraged seething fuming outraged"),
        (0.55, "angry mad pissed resent"),
        (0.5, "hate"),
    ),
    **by_strength(
        "frustration",
        (0.6, "exasperated overwhelmed"),
        (0.5, "frustrated exhausted"),
        (0.4, "annoyed irritated drained"),
    ),
    **by_strength("disgust", (0.65, "disgusted repulsed revolted appalled"), (0.45, "grossed")),
    **by_strength(
        "remorse",
        (0.55, "ashamed guilty remorseful"),
        (0.45, "regret regretting"),
        (0.4, "sorry embarrassed"),
    ),
}
"""English words for what somebody feels: they count only where the speaker is the one who feels it."""

_EXCLAMATIONS: Final[dict[str, Shown]] = {
    **by_strength("joy", (0.4, "yay hooray woohoo yippee amazing awesome fantastic wonderful incredible")),
    **by_strength("excitement", (0.4, "yesss")),
    **by_strength("gratitude", (0.3, "thanks thank")),
    **by_strength("surprise", (0.45, "wow whoa omg")),
    **by_strength("anger", (0.5, "damnit goddamn wtf infuriating")),
    **by_strength("frustration", (0.4, "ugh argh frustrating annoying")),
    **by_strength("disgust", (0.5, "disgusting revolting gross eww yuck")),
    **by_strength("sadness", (0.55, "heartbreaking"), (0.35, "alas")),
    **by_strength("fear", (0.5, "terrifying")),
}
"""English words that show a feeling wherever they stand, unless they are negated or asked about."""

# What politeness and fixed names say with a feeling's words.
_BOILERPLATE: Final = pattern_of(
    r"""
    \b(?:happy|glad|pleased|excited|delighted|love|thrilled) to (?:help|assist|hear|know that
      |learn that|meet|answer|discuss|see if)\b
    \bhappy (?:birthday|new year|holidays|hour|path|ending|anniversary|meal|friday|easter|halloween
      |thanksgiving)\b
    \b(?:i'm|i am|we're) afraid (?:that|so|not|i|we|it|there|this|you|the)\b\b
    \b(?:so |very |really )?sorry (?:to hear|for your|about that|about your|you're|that you
      |for the (?:inconvenience|confusion|delay|late|trouble|wait))\b
    \b(?:hope|hoping) (?:this|that|it|you|to|your|so|everything)\b\b
    \blove (?:to|it|that|this|your|how|the)\b\b
    \bno worries\b|\bdon't worry\b|\bnever mind\b|\bnot to worry\b
    \bsad to say\b
    \bmad (?:scientist|skills|max)\b
    \bto be (?:happy|sad|proud|angry|scared)\b
    \bdown(?:load| to| the| for| with| by| in)\b
    \balone time\b
    \bthank(?:s| you) in advance\b
    \bguilty (?:of|pleasure)\b
    \bempty (?:the|list|string|array|file|room)\b
    \bbroken (?:link|build|test|leg|arm|code|into)\b
    \bhate to (?:say|ask|break|bother|interrupt)\b
    \bhurt (?:to|my (?:back|knee|foot|leg|arm|hand|shoulder|ankle))\b
    \bafraid of (?:nothing)\b
    \bcontent (?:of|is|type|page|for|and|creation|creator|on|from|that|in|warning)\b
    \blove (?:story|letter|song|life|handles)\b
    """
)

_INTENSIFIERS: Final = word_set(
    """so very really extremely absolutely incredibly totally completely utterly beyond super too truly
    insanely deeply terribly unbelievably freaking fucking damn crazy such more never"""
)
_EXTREMES: Final = word_set(
    "extremely absolutely incredibly totally completely utterly beyond insanely unbelievably deeply fucking"
)
_DIMINISHERS: Final = word_set("""bit little slightly somewhat kinda sorta mildly fairly kind sort almost""")
_NEGATIONS: Final = word_set(
    """not never no none nobody nothing without hardly barely isn't wasn't aren't weren't don't doesn't didn't
    won't can't cannot couldn't ain't haven't hasn't nor neither stop stopped quit anymore"""
)
_UNREAL: Final = word_set(
    """if would could might may wish should unless whether i'd you'd we'd wouldn't imagine pretend when maybe
    perhaps"""
)
_FIRST_PERSON: Final = word_set("i i'm im i've i'll me we we're we've us myself")
_OTHER_PERSON: Final = word_set(
    """you he she they you're he's she's they're it it's you've they've your his her their that's who everyone
    everybody people someone somebody anyone nobody this that these those there yourself"""
)
# What may come before a feeling in a sentence that leaves out "I am".
_LEADS: Final = word_set(
    """feeling feel felt just still oh god my and also well yeah yes honestly now wow man today currently
    always been ok okay hi hey omg ugh am extremely beyond absolutely pretty quite all genuinely simply
    literally being"""
)
_TOKEN: Final = lazily(re.compile, r"[a-z]+(?:'[a-z]+)?|[,;:]")
_PAST: Final = frozenset({"was", "were", "used"})
_CLAUSE_WORDS: Final = frozenset({",", ";", ":", "but", "because", "since", "while", "although", "though"})
_LEXICON: Final = frozenset((*_STATES, *_EXCLAMATIONS))
_SO_MUCH: Final = lazily(
    re.compile,
    r"^ (?:\w+ ){0,3}(?:so much|very much|so badly|a lot|more than|to death|to pieces|as hell|with all my|beyond words)\b",
)

_LISTED: Final[tuple[tuple[Emotion, float, str, str], ...]] = (
    (
        "joy",
        0.85,
        "best happiest dream dreams moon nine happier excited prouder tears crying cry joy happiness",
        r"""
        \b(?:best|happiest|greatest) (?:day|night|moment|week|news|thing|year|time)(?: \w+)? (?:of
          |in) my (?:\w+ )?life
        \ba dream come true|\bmy dreams? (?:just |finally |has |have )?c[ao]me true
        \b(?:over the moon|on cloud nine)\b
        \b(?:couldn't|could not|never been|can't|cannot) (?:be |been )?(?:so |any |this )?(?:happy|happier
          |more excited|more proud|prouder|more grateful)\b
        \b(?:tears of (?:joy|happiness)|happy tears|crying (?:with|of|from) (?:joy|happiness))\b
        \b(?:jump|scream|danc|burst|shak)(?:ing|ed)? (?:for|with) (?:joy|happiness)\b
        """,
    ),
    (
        "joy",
        0.6,
        "got won passed yes boy girl accepted pregnant engaged",
        r"""
        \b(?:i|we) (?:just |finally |actually )*(?:got (?:the (?:job|offer|part|scholarship)|in\b|accepted
          |promoted|engaged|married|the keys)|won\b|passed\b|made it\b)
        \b(?:(?:she|he) said yes|it's a (?:boy|girl)|we're pregnant|i'm pregnant)
        """,
    ),
    ("excitement", 0.55, "wait", r"\b(?:i|we) (?:just |really )?(?:can't|cannot) wait\b"),
    (
        "sadness",
        0.85,
        "worst saddest tears crying cry heart apart collapsed ruined over go gone sobbed sobbing dying",
        r"""
        \b(?:worst|saddest|darkest|hardest) (?:day|night|moment|week|news|thing|year|time)(?: \w+)? (?:of
          |in) my (?:\w+ )?life
        \bi(?:'m| am|'ve been| was| just| keep| couldn't| can't| cannot)? (?:\w+ ){0,3}?(?:stop crying
          |in tears|burst into tears|cry(?:ing)? (?:all|every|myself|my eyes|for|so|right now))
        \bmy heart (?:is |has |just )?(?:broken?|breaking|breaks|aches|aching|shattered|sank|hurts)
        \b(?:broke|breaks|breaking) my heart\b
        \b(?:i'm|i am|my (?:life|world|marriage) is|everything(?: is|'s)) (?:\w+ )?falling apart\b
        \bmy (?:whole |entire )?(?:world|life) (?:just )?(?:fell apart|collapsed|is over|is ruined)
        \bi (?:don't know how to|can't|cannot) go on\b(?! with| to)
        \bi(?:'ve been| was|'m)? (?:\w+ )?sobb(?:ed|ing)\b|\bi(?:'m| am)? (?:just )?feel(?:ing)? like (?:i'm
          \ |i am )?dying\b
        \b(?:can't|cannot) believe (?:he|she|they)(?:'s|'re| is| are) (?:really )?gone\b
        """,
    ),
    (
        "sadness",
        1.0,
        "die kill living alive disappear",
        r"""
        \bi (?:just |really )?(?:want|wanna|wanted) to (?:die|kill myself|disappear|end it all)\b
        \b(?:don't|do not) want to (?:live|be alive|exist)\b
        """,
    ),
    (
        "sadness",
        0.75,
        "died passed lost gone killing hurts",
        rf"""
        \b(?:this|it|that)(?:'s| is) killing me\b|\b(?:it|this|everything) (?:just |really )?hurts(?= so| more
          | too)
        \bmy (?:\w+ ){{0,2}}?{NEAR}(?: just| has)? (?:died|passed away|is gone)\b
        \b(?:i|we) (?:just )?lost my {NEAR}\b
        """,
    ),
    (
        "sadness",
        0.45,
        "miss",
        r"\bi (?:really |still |just |so |do |already )*miss (?:you|him|her|them|my|our|home|those|being|having)\b",
    ),
    (
        "fear",
        0.9,
        "panic panicking scared frightened shaking freaking",
        r"\bi(?:'m| am| had| have|'ve)? (?:\w+ ){0,3}?(?:panic attack|(?:scared|frightened) to death|shaking with fear|freaking out)\b",
    ),
    (
        "frustration",
        0.75,
        "take handle anymore enough bear stand",
        r"""
        \bi (?:just )?(?:can't|cannot) (?:take|handle|bear|do|stand) (?:it|this|things|him|her|them
          |you)(?: \w+)? ?any ?more\b
        \bi(?:'ve| have) (?:really )?had (?:it|enough)\b
        """,
    ),
    (
        "frustration",
        0.6,
        "fed sick driving",
        r"""
        \b(?:i'm|i am) (?:so |just |really |completely )*(?:fed up|sick (?:and tired )?of|done with)\b
        \bdriving me (?:crazy|insane|nuts|mad)\b
        """,
    ),
    (
        "anger",
        0.8,
        "anger fury shaking beside red scream explode boiling boil rage",
        r"""
        \b(?:i (?:could|want to|wanna) (?:\w+ )?(?:scream|explode|punch)|my blood (?:is )?boil(?:ing)?)\b
        \bi(?:'m| am) (?:boiling|beside myself|seeing red|(?:shaking|trembling|filled|burning) with (?:rage
          |anger|fury))\b
        """,
    ),
    (
        "anger",
        0.7,
        "hate",
        r"\bi (?:really |fucking |absolutely |so |just )*hate (?:you|him|her|them|myself|my life|everything)\b",
    ),
    (
        "love",
        0.65,
        "love",
        r"\bi (?:really |truly |do |just )*love (?:you|him|her)\b(?! guys| when| for| all)",
    ),
    ("love", 0.8, "love", r"\b(?:love of my life|madly in love|in love with (?:him|her|you))\b"),
    (
        "surprise",
        0.5,
        "believe god goodness way",
        r"""
        \bi (?:just |still |really )?(?:can't|cannot|can not) (?:even )?believe (?:it|this|that|i|we|my|he|she
          |they)\b
        \bo+h my (?:god|gosh|goodness)\b|^no way[.!]*$
        """,
    ),
    (
        "gratitude",
        0.65,
        "much means thank bottom",
        r"""
        \byou have no idea how much|\bmeans? (?:so much|the world|everything|a lot) to me
        \bcan't thank you enough|\bdon't know how to thank|\bfrom the bottom of my heart
        """,
    ),
    (
        "relief",
        0.55,
        "relief weight thank",
        r"\b(?:what a relief|such a relief|huge relief|weight (?:is )?(?:off|lifted)|thank (?:god|goodness|heavens))\b",
    ),
    ("disgust", 0.65, "sick stomach", r"\bmakes? me sick\b|\bturns my stomach\b"),
    ("remorse", 0.75, "forgive", r"\b(?:can't|cannot|never) forgive myself\b"),
)
"""Phrases that show a feeling as a whole, after words of which a sentence must have one."""
_PHRASES: Final = tuple(
    (word_set(cues), pattern_of(table), emotion, strength) for emotion, strength, cues, table in _LISTED
)


def feelings(sentence: Sentence) -> Iterator[Shown]:
    """Each feeling that the sentence shows, by a word or by a phrase."""
    yield from _words(sentence)
    yield from _phrases(sentence)


def _words(sentence: Sentence) -> Iterator[Shown]:
    if sentence.words.isdisjoint(_LEXICON):
        return
    low = _BOILERPLATE.sub(lambda match: "·" * len(match.group()), sentence.low)
    tokens = [(match.group(), match.start(), match.end()) for match in _TOKEN.finditer(low)]
    names = [token for token, _, _ in tokens]
    for i, (word, start, end) in enumerate(tokens):
        if word not in _LEXICON:
            continue
        begin = max((j + 1 for j in range(i) if names[j] in _CLAUSE_WORDS), default=0)
        before = names[begin:i]
        state = word in _STATES
        if state and not _is_the_speakers(before, names[:begin]):
            continue
        if not state and sentence.asks:
            continue
        if not _UNREAL.isdisjoint(names[max(0, i - 8) : i]) or _is_negated(before):
            continue
        emotion, strength = _STATES[word] if state else _EXCLAMATIONS[word]
        written = sentence.text[start:end]
        if len(word) >= _LEAST_CAPITALS and written.isupper():
            strength *= _CAPITALS
        if _SO_MUCH.match(low[end : end + 60]):
            strength *= _AFTER
        if not _PAST.isdisjoint(before[-5:]):
            strength *= _NO_MORE
        yield emotion, strength * _degree(before)


def _is_the_speakers(before: Sequence[str], earlier: Sequence[str]) -> bool:
    """Whether the nearest person before a word for a state is the speaker, or nobody in a sentence without a subject."""
    near = before[:-1] if before[-1:] == ["this"] else before  # "never been this angry"
    for token in reversed(near):
        if token in _FIRST_PERSON:
            return True
        if token in _OTHER_PERSON:
            return False
    if any(token in _OTHER_PERSON for token in earlier):
        return False
    return all(
        token in _LEADS or token in _INTENSIFIERS or token in _DIMINISHERS or token in _STATES
        for token in before
    )


def _is_negated(before: Sequence[str]) -> bool:
    near = before[-4:]
    if "only" in near or ("never" in near and not {"so", "more", "this"}.isdisjoint(near)):
        return False  # "not only sad", "never been so happy"
    return not _NEGATIONS.isdisjoint(near) and not {"help", "stop"}.issuperset(near[-1:])


def _degree(before: Sequence[str]) -> float:
    factor, steps = 1.0, 0
    for token in reversed(before[-4:]):
        if token in _DIMINISHERS:
            return SLIGHT
        if token in _INTENSIFIERS and steps < 2:
            factor *= ONE_MORE if steps else (_EXTREME if token in _EXTREMES else DEGREE)
            steps += 1
        elif token not in _LEADS and token not in {"a", "of", "and", "this"}:
            break
    return factor


def _phrases(sentence: Sentence) -> Iterator[Shown]:
    if sentence.asks:
        return
    for cues, pattern, emotion, strength in _PHRASES:
        if cues.isdisjoint(sentence.words) or (match := pattern.search(sentence.low)) is None:
            continue
        if " used to " in match.group():
            continue
        before = _TOKEN.findall(sentence.low[: match.start()])
        if not _UNREAL.isdisjoint(before[-8:]) or not _NEGATIONS.isdisjoint(before[-3:]):
            continue
        loud = _AFTER if _SO_MUCH.match(sentence.low[match.end() : match.end() + 60]) else 1.0
        yield emotion, min(1.0, strength * loud)
