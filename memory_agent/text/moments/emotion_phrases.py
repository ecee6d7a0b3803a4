"""English phrases that show a feeling as a whole, each with its emotion and its strength in (0, 1].

Each has its cues, words of which a sentence must have one before the pattern is tried. Strengths: `recall.emotion_words`.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from memory_agent.text.word_set import word_set

if TYPE_CHECKING:
    from memory_agent.domain.moments import Emotion

_LISTED: Final[tuple[tuple[str, str, Emotion, float], ...]] = (
    (
        "best happiest greatest",
        r"\b(?:best|happiest|greatest) (?:day|night|moment|week|news|thing|gift|year|time|birthday)(?: \w+)? (?:of|in) my (?:whole |entire )?life",
        "joy",
        0.85,
    ),
    (
        "worst saddest darkest",
        r"\b(?:worst|saddest|darkest|hardest) (?:day|night|moment|week|news|thing|year|time|pain)(?: \w+)? (?:of|in) my (?:whole |entire )?life",
        "sadness",
        0.85,
    ),
    (
        "dream dreams",
        r"\b(?:(?:it's|this is|like) a dream come true|my dreams? (?:just |finally |has |have )?c[ao]me true)",
        "joy",
        0.8,
    ),
    (
        "moon nine happier excited world",
        r"\b(?:over the moon|on cloud nine|on top of the world|(?:couldn't|could not|never been|can't|cannot) (?:be |been )?(?:so |any |this )?(?:happy|happier|more excited|more proud|prouder|more grateful))\b",
        "joy",
        0.85,
    ),
    ("wait", r"\b(?:i|we) (?:just |really )?(?:can't|cannot) wait\b", "excitement", 0.55),
    (
        "tears crying cry weeping sobbing",
        r"\bi(?:'m| am|'ve been| was| just| keep| couldn't| can't| cannot|'m still)? (?:\w+ ){0,3}?(?:stop crying|in tears|burst into tears|cry(?:ing)? (?:all|every|myself|my eyes|for|so|right now)|broke down|bawling)|\bcried (?:myself|my eyes|all night|for hours)",
        "sadness",
        0.85,
    ),
    (
        "tears crying cry",
        r"\b(?:tears of (?:joy|happiness)|(?:happy tears)|crying (?:with|of|from) (?:joy|happiness)|cry(?:ing)? (?:because|from) i(?:'m| am) so happy)\b",
        "joy",
        0.9,
    ),
    (
        "heart",
        r"\b(?:my heart (?:is |has |just )?(?:broke|broken|breaking|breaks|aches|aching|shattered|sank|hurts)|(?:broke|breaks|breaking) my heart)\b",
        "sadness",
        0.8,
    ),
    ("heart", r"\bmy heart is (?:so )?(?:full|bursting|racing with joy)\b", "joy", 0.75),
    (
        "falling fell fallen apart collapsed ruined over",
        r"\b(?:i'm|i am|my (?:life|world|marriage) is|everything is|everything's) (?:\w+ )?falling apart\b|\bmy (?:whole |entire )?(?:world|life) (?:just )?(?:fell apart|collapsed|is over|is ruined)",
        "sadness",
        0.85,
    ),
    (
        "panic panicking attack scared death",
        r"\bi(?:'m| am| had| have|'ve)? (?:\w+ ){0,3}?(?:panic attack|scared to death|scared out of my|frightened to death|shaking with fear)",
        "fear",
        0.9,
    ),
    (
        "die kill living alive disappear",
        r"\bi (?:just |really )?(?:want|wanna|wanted) to (?:die|kill myself|disappear|end it all)\b|\b(?:don't|do not) want to (?:live|be alive|exist)\b|\bno (?:point|reason) (?:in |to )?liv",
        "sadness",
        1.0,
    ),
    (
        "take handle anymore enough bear stand",
        r"\bi (?:just )?(?:can't|cannot) (?:take|handle|bear|do|stand) (?:it|this|things|him|her|them|you)(?: \w+)? ?any ?more\b|\bi(?:'ve| have) (?:had|really had) (?:it|enough)\b",
        "frustration",
        0.75,
    ),
    (
        "fed sick wits driving",
        r"\b(?:i'm|i am) (?:so |just |really |completely )*(?:fed up|sick (?:and tired )?of|at my wits?'? end|done with)\b|\bdriving me (?:crazy|insane|nuts|mad)\b",
        "frustration",
        0.6,
    ),
    (
        "anger shaking trembling scream explode boiling blood rage",
        r"\b(?:i (?:could|want to|wanna) (?:\w+ )?(?:scream|explode|punch)|my blood is boiling|makes my blood boil|i(?:'m| am) (?:boiling|(?:shaking|trembling) with (?:rage|anger)|beside myself)|i(?:'m| am) seeing red)\b",
        "anger",
        0.8,
    ),
    (
        "hate",
        r"\bi (?:really |fucking |absolutely |so |just )*hate (?:you|him|her|them|myself|my life|everything)\b",
        "anger",
        0.7,
    ),
    (
        "love",
        r"\bi (?:really |truly |do |just )*love (?:you|him|her)\b(?! guys| when| for| all)",
        "love",
        0.65,
    ),
    (
        "love",
        r"\b(?:love of my life|madly in love|head over heels|in love with (?:him|her|you))\b",
        "love",
        0.8,
    ),
    (
        "died passed lost gone",
        r"\bmy (?:\w+ ){0,2}?(?:mom|mum|mother|dad|father|wife|husband|son|daughter|sister|brother|grandma|grandpa|grandmother|grandfather|baby|best friend|dog|cat|boyfriend|girlfriend|fianc[eé]e?)(?: just| has)? (?:died|passed away|is gone)\b|\b(?:i|we) (?:just )?lost my (?:mom|mum|mother|dad|father|wife|husband|son|daughter|sister|brother|best friend|dog|cat|baby)\b",
        "sadness",
        0.75,
    ),
    (
        "got won passed yes boy girl accepted pregnant engaged",
        r"\b(?:(?:i|we) (?:just |finally |actually )*(?:got (?:the (?:job|offer|part|scholarship)|in\b|accepted|promoted|engaged|married|the keys)|won\b|passed\b|made it\b)|(?:she|he) said yes|it's a (?:boy|girl)|we're pregnant|i'm pregnant)",
        "joy",
        0.6,
    ),
    (
        "believe",
        r"\bi (?:just |still |really )?(?:can't|cannot|can not) (?:even )?believe (?:it|this|that|i|we|my|he|she|they)\b",
        "surprise",
        0.55,
    ),
    ("god goodness", r"\bo+h my (?:god|gosh|goodness)\b", "surprise", 0.45),
    ("way", r"^no way[.!]*$", "surprise", 0.5),
    (
        "mean much means",
        r"\b(?:you have no idea how much|means? (?:so much|the world|everything|a lot) to me|can't thank you enough|don't know how to thank|from the bottom of my heart)\b",
        "gratitude",
        0.65,
    ),
    (
        "finally relief weight",
        r"\b(?:what a relief|such a relief|huge relief|weight (?:is )?(?:off|lifted)|thank (?:god|goodness|heavens))\b",
        "relief",
        0.55,
    ),
    (
        "stomach skin makes sick",
        r"\b(?:makes? me (?:sick|want to (?:vomit|puke))|turns my stomach|makes my skin crawl)\b",
        "disgust",
        0.65,
    ),
    (
        "miss",
        r"\bi (?:really |still |just |so |do |already )*miss (?:you|him|her|them|my|our|home|those|being|having)\b",
        "sadness",
        0.45,
    ),
    ("freaking", r"\bi(?:'m| am) (?:\w+ )?freaking out\b", "fear", 0.75),
    ("hurts", r"\b(?:it|this|everything) (?:just |really )?hurts(?= so| more| too)", "sadness", 0.65),
    ("go", r"\bi (?:don't know how to|can't|cannot) go on\b(?! with| to)", "sadness", 0.8),
    (
        "forgive",
        r"\b(?:(?:can't|cannot|never) forgive myself|i hate what i(?:'ve)? d(?:id|one))\b",
        "remorse",
        0.75,
    ),
    (
        "killing",
        r"\b(?:this|it|that)(?:'s| is) killing me\b",
        "sadness",
        0.75,
    ),
    (
        "joy happiness",
        r"\b(?:jump(?:ing|ed)?|scream(?:ing|ed)?|losing my mind|bursting|shaking|dancing) (?:for|with) (?:joy|happiness)\b",
        "joy",
        0.8,
    ),
    ("sobbed sobbing", r"\bi(?:'ve been| was|'m)? (?:\w+ )?sobb(?:ed|ing)\b", "sadness", 0.75),
    ("dying", r"\bi(?:'m| am)? (?:just )?feel(?:ing)? like (?:i'm |i am )?dying\b", "sadness", 0.85),
    (
        "gone",
        r"\b(?:can't|cannot) believe (?:he|she|they)(?:'s|'re| is| are) (?:really )?gone\b",
        "sadness",
        0.8,
    ),
    ("rage", r"\bi(?:'m| am) (?:burning|filled|blind) with (?:rage|fury)\b", "anger", 0.85),
)
PHRASES: Final[tuple[tuple[frozenset[str], re.Pattern[str], Emotion, float], ...]] = tuple(
    (word_set(cues), re.compile(pattern), emotion, strength) for cues, pattern, emotion, strength in _LISTED
)
