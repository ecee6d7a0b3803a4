"""What English speakers say of the two who talk, and how an acted gesture begins."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from memory_agent.lazily import lazily
from memory_agent.text.tables import pattern_of
from memory_agent.text.word_set import word_set

if TYPE_CHECKING:
    from memory_agent.text.sentences import Sentence

ACTS: Final = pattern_of(
    r"""
    (?:[a-z]+ly )?(?:smil|laugh|giggl|chuckl|grin|blush|sigh|nod|wink|hug|cr(?:y|ies)|sob|whisper|tilt|pout
      |frown|smirk|shrug|gasp|pac(?:e|ing)|lean|look|gaz|glanc|star|hold|tak|pat|strok|bow|wav|shak|rais|roll
      |scratch|fidget|twirl|hum|stretch|yawn|purr|growl|snort|cross|bit|squeez|adjust|paus|clear|rub|play|sip
      |sit|stand|tear)[a-z]*\b
    """
)
"""The verbs of role play: "smiles", "softly laughs"."""

_CUES: Final = word_set("you you're your us we we're we've friend friends trust call together you've")
_NOTE: Final = pattern_of(
    r"""
    \bi (?:(?:really|truly|do|don't|still|completely|totally|just|always|no longer|can|can't|cannot|never|so
      |also|absolutely|will) ){0,3}(?:trust|love|like|adore|miss|respect|admire|hate|believe in|forgive|need
      |care about|depend on|rely on|count on|value|look up to|cherish) (?:you\b(?! (?:to|for|when|if|guys|all
      |should|can|could|may|might|will)\b)|our (?:friendship|talks|conversations|relationship|time)|having you
      |talking (?:to|with) you)
    \bi(?:'m| am) (?:so |very |really |a bit |still |just |also |deeply |truly )*(?:(?:disappointed
      |comfortable) (?:in|with)|(?:proud|tired|jealous|afraid|fond) of|(?:angry|mad) (?:with|at)|(?:grateful
      |thankful) (?:for|to)|in love with|lucky to have|glad (?:i have|to have|i met|we met)|here for
      |worried about|attached to) (?:you|us|meeting you|having you)\b
    \byou(?:'re| are|'ve (?:always )?been| have (?:always )?been| were) (?:now |always |like |really |truly
      \ |still |not |no longer |such |probably |definitely )*(?:my|our|a (?:good|great|true|dear|real
      |wonderful|close|terrible|bad|big brother|sister|brother|mentor|father|mother)|the (?:only one
      |best friend|best thing|one person|closest|most important|love)) ?(?:\w+ ){0,3}?(?:friends?|everything
      |love|family|brother|sister|mentor|hero|companion|partner|rock|person|confidant|inspiration|teacher
      |soulmate|one|wife|husband|girlfriend|boyfriend|assistant|who understands|i trust|i can talk|to me
      |listener)\b
    \bwe(?:'re| are|'ve (?:become|been)| have (?:become|been)) (?:now |really |just |such |a |the |like
      \ |more than |best |good |great |close |old |still |not |no longer )*(?:friends|family|partners|team
      |couple|strangers|close|siblings|soulmates|enemies|rivals|together|in this together)\b
    \bcall me (?!back|when|later|if|at|on|tomorrow|crazy|old)[a-z'-]{2,}
    \b(?:can|may) i call you [a-z'-]{2,}
    \bi(?:'ll| will) (?:just )?call you (?!back|when|later|if|at|on|tomorrow|in)[a-z'-]{2,}
    \byou (?:mean|matter) (?:so much|a lot|everything|the world)?\ ?to me\b
    \byou (?:always|never|really) (?:understand|listen to|support|make me|get|help|cheer|care about) ?(?:me
      |smile|feel)?\b
    \byou (?:make me (?:feel|happy|laugh|smile|sad|nervous)|understand me|(?:hurt|betrayed|disappointed
      |lied to) (?:me|my))\b
    \bour (?:friendship|relationship|bond) (?:is|means|has|was)\b
    """
)
_NO_NOTE: Final = lazily(re.compile, r"\b(?:if|imagine|pretend|would|wish|as if|unless|whether)\b")


def is_note(sentence: Sentence) -> bool:
    """Whether a sentence is about the two; a question only where it names the other ("can I call you Max?")."""
    if _CUES.isdisjoint(sentence.words) or (match := _NOTE.search(sentence.low)) is None:
        return False
    asked = sentence.asks and "call you" not in match.group()
    return not asked and _NO_NOTE.search(sentence.low[: match.start()]) is None
