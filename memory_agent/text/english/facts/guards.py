"""What makes an English statement doubtful, and where in a sentence a statement may begin."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import regex

from memory_agent.lazily import lazily

if TYPE_CHECKING:
    from collections.abc import Iterator

    from memory_agent.text.patterns.common import Sentence

_DOUBT: Final = lazily(
    regex.compile,
    r"\b(?:if|unless|whether|suppose|wish(?:es|ed)?|would(?:n't)?|I'd|could(?:n't)?|might|(?-i:may)|maybe|perhaps"
    r"|not really|as a (?:kid|child|teen\w*|boy|girl)|when i was|back when|someday|one day|hop(?:e|es|ing)|dream\w*"
    r"|told|asked|claim\w*|quot\w+|once upon|as (?-i:(?!I\b)\p{Lu})\p{Ll}+[\w ]{0,40}(?=,)|(?<!\bthat )(?<!\bthis )(?<!\bthe )(?:sort|kind) of|supposedly|technically)\b",
    regex.IGNORECASE,
)
_TAKEN_BACK: Final = lazily(
    regex.compile,
    r"\b(?:sa(?:y|ys|id|ying)|tell(?:s|ing)?|joke?\w*|kidding|used to|no longer|any ?more|not (?:true|really))\b",
    regex.IGNORECASE,
)
_SUBORDINATE: Final = lazily(
    regex.compile,
    r"\b(?:when|whenever|where|who|whom|whose|which|what|why|how|because|until|before|after|while|thinks?|thought"
    r"|believes?|assum\w+|knows?|(?<!I )(?<!I really )(?<!I also )(?<!don't )like|that(?!'s)|someone|somebody|people|everyone|he|she|they|his|her|their)\b",
    regex.IGNORECASE,
)
_NEXT_STATEMENT: Final = lazily(
    regex.compile,
    r",? (?:and|but|so) (?:I|I'm|I've|I'd|can|could|was|my|we|what|do|any)\b|, (?:I|I'm|I've|can|could) |[–—(]| - |, (?:and|but|so) ",
    regex.IGNORECASE,
)

# A statement begins where its sentence does, after words that only lead over, or with a clause of its own.
LEAD: Final = (
    r"(?i:(?:well|so|ok|okay|oh|ah|hi|hey|hello|yes|yeah|yep|no|and|but|also|plus|anyway|actually|honestly|personally"
    r"|by the way|btw|fyi|you know|sure|thanks|thank you|for context|just so you know|as for me|in fact|to be honest"
    r"|unfortunately|fortunately|luckily|currently|these days|nowadays|recently|lately|now|good morning|update"
    r"|correction|sorry|wow|great|cool|nice|same|me too|for me|for the record|what can I say|hi there|hey there|hello there"
    r"|last (?:week|month|year)|this (?:week|month|year))(?:,| -|:|!)? ){0,6}+"
)
# Reasons are given as facts: "because I love …", "that's why I'm …".
CLAUSE: Final = (
    r"(?:(?:^|[,–—:] | - |\()" + LEAD + r"(?i:(?:because|'?cause|since|as|now that) (?=I\b|my\b))?"
    r"| (?i:and|but|so|because|'?cause|since|as|why|now that) (?=(?i:(?:now|also|currently|recently|today) )?(?:I\b|my\b))"
    + LEAD
    + ")"
)
I_AM: Final = r"(?:I'm|I am|Im) "
I_HAVE: Final = r"(?:I've|I have|I) "
ADVERBS: Final = (
    r"(?:(?:really|absolutely|also|just|still|truly|do(?! not)|personally|particularly|especially|always|definitely|genuinely"
    r"|currently|now|actually|generally|usually|mostly|totally|simply|both|recently|finally|already|officially) )*+"
)


def statements(
    pattern: regex.Pattern[str], sentence: Sentence, *, past_is_meant: bool = False
) -> Iterator[regex.Match[str]]:
    """Matches of `pattern` that nothing around them makes somebody else's, conditional or past.

    What comes before a match counts, and what follows up to where another statement begins. `past_is_meant`: the
    pattern itself says that something is over.
    """
    plain = sentence.plain
    if sentence.asks or (not past_is_meant and _TAKEN_BACK.search(plain)):
        return
    for match in pattern.finditer(plain):
        after = _NEXT_STATEMENT.search(plain, max(match.end() - 1, 0))
        scope = plain[: after.start() if after else len(plain)]
        if not _SUBORDINATE.search(
            plain, _clause_start(plain, match.start()), match.start()
        ) and not _DOUBT.search(scope):
            yield match


def _clause_start(plain: str, before: int) -> int:
    """Where the main clause begins whose part the text up to `before` is."""
    return max(plain.rfind(joint, 0, before) + 1 for joint in (", and ", ", but ", ", so ", " - "))
