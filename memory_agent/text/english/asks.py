"""Which English sentences ask, with or without a question mark.

Works on lower-case sentences of bounded length (`text.sentences`), from which code, links and quotes are blanked.
"""

from __future__ import annotations

import re
from typing import Final

from memory_agent.lazily import lazily
from memory_agent.text.english.words import AUXILIARY
from memory_agent.text.word_set import word_set

_FIRST_WORD: Final = lazily(re.compile, r"[a-z]+(?:'[a-z]+)?")
_SUBJECT: Final = (
    r"(?:i|you|we|he|she|it|they|this|that|these|those|there|the|my|your|our|his|her|their|any\w*|some\w*)"
)
_LEAD: Final = r"(?:(?:so|and|but|or|well|ok|okay|oh|hey|hi|hmm|um|also|then|wait|sorry|please|now|yes|no|right|anyway),?[ ]){0,3}"

_ASKS: Final = lazily(
    re.compile,
    rf"""{_LEAD}(?:
      (?:what|why|how|when|where|who|whom)(?:'s|'re|'d|'ll)\ (?!the\ point\b)(?![^,]{{1,60}}\ is\ )\w
    | (?:what|why|where|who|whom|whose|how)\ {AUXILIARY}\b(?!\ (?:\w+\ ){{0,6}}is\ )
    | when\ {AUXILIARY}\ {_SUBJECT}\b
    | (?:what|which)\ [a-z-]{{2,20}}\ (?!is\ why\b){AUXILIARY}\ {_SUBJECT}\b
    | how\ (?:many|much|often|long|old|far|big|fast|soon|likely)\ (?:[a-z]+\ ){{0,3}}{AUXILIARY}\b
    | who\ (?!knows|cares|says|would)[a-z]+\ (?:this|that|the|it|you|me|my)\b
    | which\ (?:is|are)\ (?:the\ )?(?:better|best|right|correct|faster|cheaper|more|worse|easier)\b
    | (?:what|how|who|why|where|when)\ (?:now|so|else|though|exactly|next)\W*$
    | got\ any\ | (?:do|does|did|has)\ any(?:one|body)\ | what\ happen(?:ed|s)\b(?!\ (?:\w+\ ){{0,4}}(?:was
      |is)\b)
    | how\ (?:come|about)\ | what\ (?:about|if)\ | why\ not\b
    | (?:is|are|was|were|do|does|did|can|could|should|would|will|shall|isn't|aren't|don't|doesn't|didn't|can't
      |won't
       |wouldn't|shouldn't)\ (?:you|we|he|she|it|they|this|there|i)\ (?:\w+)
    | (?:have|has)\ (?:you|we|he|she|they|anyone)[ ]
    | (?:can|could|would|will)\ (?:someone|anyone|anybody)[ ]
    | any\ (?:idea|ideas|advice|thoughts|suggestions|recommendations|tips)\b
    | (?:what|how)\ to\ [a-z]+
    | (?:please\ )?(?:tell|show|teach)\ me\ (?:how|what|why|where|when|who|which|whether|if|more|about|your)\b
    | (?:please\ )?(?:explain|describe)\ (?:to\ me\ )?(?:how|what|why|the\ difference)\b
    | (?:i'm|i\ am|we're|just)\ (?:just\ )?(?:wondering|curious)\ (?:how|what|why|where|when|who|which|whether
      |if|about)\b
    | i\ (?:was\ )?wonder(?:ing)?\ (?:how|what|why|where|when|who|which|whether|if|about)\b
    | (?:i'd|i\ would)\ (?:like|love)\ to\ (?:know|ask|hear)\b
    | i\ (?:want|need|wanted)\ to\ (?:know|ask)\b(?!\ for)
    )""",
    re.VERBOSE,
)
_LATER: Final = lazily(
    re.compile,
    r"[,;:-] (?:but |and |so )?(?:(?:can|could|would|will) you (?!\w+ believe)|what do you|what should|how do (?:i|you|we)"
    r"|do you (?:know|have|think)|please tell me (?:how|what|why|where)|tell me (?:how|what|why|where))",
)
_STARTS: Final = word_set(
    """got what why how when where who whom whose which is are was were do does did can could should would will
    shall isn't aren't don't doesn't didn't can't won't wouldn't shouldn't have has any please tell show
    teach explain describe i i'm i'd we're just so and but or well ok okay oh hey hi hmm um also then
    wait sorry now yes no right anyway what's why's how's when's where's who's what're who're where're
    how'd what'd where'd who'll what'll"""
)
_NO_QUESTION: Final = lazily(
    re.compile,
    rf"{_LEAD}(?:(?:is|was|am|did) (?:it|i|he|she) ever!|don't you (?:dare|worry|ever)|what (?:a|an) |how (?:nice|sweet|cool|lovely|dare)|who knows\b|what can i say\b|who cares\b"
    r"|what(?:'s| is) (?:more|worse|important|great|funny)\b|what about it\b(?!\?)|how come\b$|will do\b)",
)


def asks(low: str) -> bool:
    """Whether a sentence without a question mark asks."""
    first = _FIRST_WORD.match(low)
    if first is not None and first.group() in _STARTS and _ASKS.match(low) and not _NO_QUESTION.match(low):
        return True
    return " you " in low and _LATER.search(low) is not None
