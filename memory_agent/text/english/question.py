"""What an English question asks for, and whom and what time it is about."""

from __future__ import annotations

from typing import Final

from memory_agent.text.english.words import AUXILIARY
from memory_agent.text.tables import alternatives, pattern_of

_UNIT: Final = r"(?:second|minute|hour|day|night|week|weekend|month|year|decade)s?"
_TIME: Final = r"(?: exact| specific)? (?:date|day|month|year|week|weekend|time|season|century|semester)\b"
# Where a question word asks rather than relates ("the friend who…"): first in a sentence, after "remind me" and the
# like, or later in it where an auxiliary follows.
_FIRST: Final = alternatives(
    r"""
    (?:^\W*|[.!?;:—–]\s*)(?:(?:so|and|but|or|well|hey|hi|then|also|ok|okay|please),? ){0,2}(?:(?:according to
      |based on|in|on|at|for|during|after|before|from) [^,.?!]{1,80}, )?
    \b(?:know|(?:remind|tell|show) me|remember|recall|ask|wonder|wondering|curious|guess|sure|was it
      |is it)\s+(?:exactly )?
    """
)
_LATER: Final = (
    r"(?:,\s*|\b(?:and|or|but|so|then|to|with|for|from|by|of|at|in|on|about|since|until|around|during)\s+)"
)
_DONE: Final = r"(?:did|do|does|will|should|could|can|has|have|else)"
_LISTS: Final = {
    "first": _FIRST,
    "later": _LATER,
    "aux": AUXILIARY,
    "done": _DONE,
    "s": r"(?:'s|'d|'ll|'re)?\b",
    "unit": _UNIT,
    "time": _TIME,
}

KINDS: Final = {
    "when": pattern_of(
        r"""
        <first>when<s>
        <later>when (?:<done>|am|is|are|was|were|had)\b
        \b(?:what|which)<time>
        \bhow many <unit> ago\b
        \bhow (?:long ago|recently)\b
        \bsince when\b
        """,
        **_LISTS,
    ),
    "who": pattern_of(
        r"""
        <first>(?:who|whom|whose)<s>
        <later>(?:who|whom|whose) (?:<done>|[a-z]{2,20}ed)\b
        \b(?:and|or) who (?:is|are|was|were)\b
        \b(?:what|which)(?: \w+)? (?:person|people|friends?|colleagues?|relatives?|coach|teacher|doctor
          |family members?|member|guy|woman|man|girl|boy)
        """,
        **_LISTS,
    ),
    "where": pattern_of(
        r"""
        <first>where<s>
        <later>where <aux>\b
        \b(?:what|which)(?: [\w-]+){0,2}? (?:cit(?:y|ies)|country|countries|states?|places?|towns?|villages?
          |locations?|addresse?s?|restaurants?|caf[eé]s?|shops?|stores?|venues?|parks?|hotels?
          |neighbou?rhoods?|islands?|continents?|spots?|region|airport|beach)
        """,
        **_LISTS,
    ),
    "name": pattern_of(
        r"""
        \bwhich\b(?!<time>)
        \bwhat(?! (?:motivate[sd]?|inspire[sd]?|prompted|sparked|led|caused)\b)(?: \w+){0,2} (?:city|country
          |place|book|movie|film|band|game|song|album|company|name|team|artist|brand|console|breed|author
          |series|show|school|university|restaurant)s?\b
        """,
        **_LISTS,
    ),
    "how_many": pattern_of(
        r"""
        \bhow (?:many|much|often|old|far|tall|big|high|heavy|large|\w{2,12}er)\b
        \b(?:total|combined|average|exact) (?:number|amount|cost|price|distance|weight|value|sum|time)\b
        \bwhat(?:'s| is| was| were| are)? (?:the |my )?(?:number|amount|percentage|percent|ratio|sum|count
          |price|cost|score|age|total|average)\b
        \bthe (?:number|amount|percentage) (?:of|i)\b
        \bhighest number\b
        """
    ),
    "how_long": pattern_of(
        r"""
        \bhow long\b
        \bhow (?:many|much)(?: more)? (?:<unit>|time)\b
        \b(?:the|what) duration\b
        \btotal (?:time|<unit>)\b
        """,
        **_LISTS,
    ),
}
CLAUSE_OF_WHEN: Final = pattern_of(
    rf"""
    ^\W*when (?!{AUXILIARY}\b|'s).*,\s*(?:what|who|whom|whose|where|why|which|how|{AUXILIARY})\b
    """
)
""" "When I lived in Rome, what did I eat?": the clause before the comma doesn't ask."""

# "Remind me", "may I ask", "I was thinking about": courtesy, not the asker's life.
COURTESY: Final = pattern_of(
    r"""
    \b(?:remind|tell|give|show|help|let|send|ask|teach|for) me\b
    \b(?:may|can|could|might) i ask\b
    \bi(?:'d| would| want| wanted| need)? (?:like )?to (?:know|ask)\b
    \bi(?:'m| am|'ve been| was)? (?:just )?(?:wonder|wondering|curious|thinking
      |looking back)(?: back)?(?: about| at| to| on)? (?=if|what|who|where|when|how|why|whether|our)
    \bi (?:think|believe|guess|suppose|mean|wonder)\b
    \bour (?:\w+ )?(?:conversation|chat|discussion|talk|session)s?\b
    \bif i (?:remember|recall)\b
    \byou(?:'d|'ve)? (?:\w+ )?(?:told|gave|given|showed|shown|sent|taught|advised|recommended|suggested
      |offered|helped) me\b
    """
)
ABOUT_USER: Final = r"\b(?:i|me|my|mine|myself|we|us|our|ours|i'm|i've|i'd|i'll|we're|we've|we'd)\b(?![.]\d)"
ABOUT_ASSISTANT: Final = r"""
    \byou(?:'d|'ve)? (?:(?:had|have|also|just|once|previously|earlier|originally|initially|then|first
      |already) ){0,2}(?:said|told|recommended|suggested|mentioned|gave|given|provided|advised|explained
      |listed|wrote|written|shared|proposed|described|came up|helped|answered|showed|called|named|made|created
      |generated|referenced|referred|quoted|cited|taught|promised|offered)\b
    \bdid you (?:\w+ )?(?:say|tell|recommend|suggest|mention|give|provide|advise|explain|list|write|share
      |propose|describe|come|answer|show|call|name|create|generate|promise|offer)\b
    \byou were (?:\w+ )?(?:saying|telling|referring|talking|explaining|recommending|suggesting|describing)\b
    \byour (?:\w+ ){0,2}(?:suggestions?|recommendations?|advice|answers?|reply|response|explanation|list
      |message|tips)\b
    \b(?:our|the) (?:\w+ )?(?:previous|last|earlier|prior|past|recent) (?:conversation|chat|discussion
      |session)s?\b
    \bwe (?:were )?(?:discuss|talk|chat|convers|brainstorm|work)(?:ed|ing) (?:about|on|through|over
      |together)\b
    \bwe discussed\b
    """
LATEST: Final = r"""
    \b(?:currently|current|now|nowadays|these days|recently|recent|latest|newest|lately|still|at the moment
      |at present|presently|so far|up to now|to date|anymore|any longer|last time|today|up-to-date|these last
      |last (?=(?:trip|visit|appointment|meeting|session|test|game|race|project|book|movie|film|job|purchase
      |checkup|vacation|holiday|concert|class)\b))\b
    """
NOT_LATEST: Final = pattern_of(
    r"""
    \b(?:would|could|might)\b[^?.!]{1,60}\bstill\b
    \bstill (?:life|lifes|images?|photos?|photography|water)\b
    \b(?:sit|sat|stand|stood|keep|hold) still\b
    \b(?:by|until|till|just|before|from) now\b
    \bnow that\b
    \bcurrent (?:of|flow)\b
    """
)
"""Words for the present that ask for nothing of the kind."""
DATED: Final = r"\b(?:in|on|of|by|during|at|since) (?:[\w,]{1,20} ){0,3}(?:19|20)\d{2}\b"
