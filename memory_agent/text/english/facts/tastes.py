"""What an English-speaking user likes, dislikes, likes best, and no longer likes; at what time they prefer what."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import regex

from memory_agent.lazily import lazily
from memory_agent.text.english.facts.guards import ADVERBS, CLAUSE, I_AM, I_HAVE, statements
from memory_agent.text.english.facts.words import OCCASIONS, TIMES
from memory_agent.text.patterns.common import MAX_VALUE_CHARS, Sentence, stated
from memory_agent.text.word_set import word_set

if TYPE_CHECKING:
    from collections.abc import Iterator

    from memory_agent.domain import StatedFact
    from memory_agent.text.patterns.common import Op

MAX_VALUE_WORDS: Final = 6
_LIKES, _DISLIKES = ("preferences", "likes"), ("preferences", "dislikes")

_FAN: Final = r"(?:an? (?:big |huge |massive |real |total |avid )?fan of|fond of|passionate about|obsessed with|(?:really |very |so )?into)"
_TASTE: Final = lazily(
    regex.compile,
    CLAUSE + rf"(?i:(?P<likes>I {ADVERBS}(?:love|like|enjoy|adore) |{I_AM}{ADVERBS}{_FAN} )"
    rf"|(?P<dislikes>I {ADVERBS}(?:hate|dislike|despise|loathe|detest|can't stand|cannot stand|can't bear"
    r"|(?:don't|do not) (?:really |particularly )?(?:like|enjoy|care for)) "
    rf"|{I_AM}not (?:really |particularly )?(?:an? (?:big |huge )?fan of|fond of|into) )"
    rf"|(?P<compared>I {ADVERBS}prefer ))",
)
_COMPARED: Final = lazily(
    regex.compile, r"(?P<object>(?!to )[^,]+?) (?:to|over|rather than|instead of) \S", regex.IGNORECASE
)
_NO_MORE: Final = lazily(
    regex.compile,
    CLAUSE
    + rf"(?i:(?:I (?:no longer|{ADVERBS}(?:don't|do not)) (?:really )?(?:(?P<likes>like|love|enjoy)|(?P<dislikes>hate|dislike|mind))"
    rf"|{I_HAVE}{ADVERBS}stopped (?:(?P<likes>liking|loving|enjoying)|(?P<dislikes>hating|disliking))"
    rf"|{I_AM}(?:no longer|not) (?P<likes>(?:really )?into|(?:an? )?(?:big )?fan of|fond of)"
    rf"|{I_HAVE}(?P<likes>gone off|fallen out of love with)"
    r"|I used to (?:really )?(?:(?P<likes>like|love|enjoy|adore)|(?P<dislikes>hate|dislike|can't stand))) )",
)
_SINCE: Final = lazily(
    regex.compile,
    r",? (?:but|and) (?:(?P<not>not (?:now|any ?more))|(?:now )?(?P<op>I (?:now |really |no longer |just |actually )*(?:don't|do not|hate|dislike|can't stand|love|like|enjoy))\b.*)",
    regex.IGNORECASE,
)
_ANY_MORE: Final = lazily(
    regex.compile, r",? (?:not )?\b(?:any ?more|any longer|these days|now)\b", regex.IGNORECASE
)


def tastes(sentence: Sentence) -> Iterator[StatedFact]:
    """Likes and dislikes, one fact per element."""
    for match in statements(_TASTE, sentence):
        said = sentence.plain[match.end() :]
        if match["compared"]:
            # Alone it is nearly always about the task at hand ("I prefer flat routes"); a comparison is a taste.
            compared = _COMPARED.match(said)
            if compared is None or _TIME.match(sentence.plain, match.start()):
                continue
            said = compared["object"]
        path = _DISLIKES if match["dislikes"] else _LIKES
        for value in _elements(said):
            yield stated(sentence, _span(sentence, match, value), path, value, 0.8)


def no_more(sentence: Sentence) -> Iterator[StatedFact]:
    """Likes and dislikes that hold no more."""
    for match in statements(_NO_MORE, sentence, past_is_meant=True):
        said = sentence.plain[match.end() :]
        ended, now = _DISLIKES if match["dislikes"] else _LIKES, None
        if "used to" in match[0].lower():
            since = _SINCE.search(said)
            if since is None:
                continue  # that it is over may be meant, but is not said
            said, now = said[: since.start()], _taste_now(since)
            if now == ended:
                continue
        elif "don't" in match[0] or "do not" in match[0] or " not " in match[0]:
            over = _ANY_MORE.search(said)
            if over is None or not regex.search(r"more|longer", over[0]):
                continue
            said = said[: over.start()]
        for value in _elements(_ANY_MORE.sub("", said)):
            span = _span(sentence, match, value)
            yield stated(sentence, span, ended, value, 0.9, "retract")
            if now is not None:
                yield stated(sentence, span, now, value, 0.8)


def _taste_now(since: regex.Match[str]) -> tuple[str, str] | None:
    """What came in its place: "… but now I hate it"."""
    said = (since["op"] or "").lower()
    if not said or regex.search(r"\b(?:don't|do not|no longer)\b", said):
        return None
    return _LIKES if regex.search(r"\b(?:love|like|enjoy)$", said) else _DISLIKES


def _span(sentence: Sentence, match: regex.Match[str], value: str) -> tuple[int, int]:
    found = sentence.plain.find(value, match.end())
    return match.start(), match.end() if found < 0 else found + len(value)


# --- what is liked -------------------------------------------------------------------------------------------
_OBJECT_END: Final = lazily(
    regex.compile,
    r"[,:()\"–—/]| - |\b(?:but|because|since|although|though|so|then|even|especially|particularly|in general|these days"
    r"|lately|right now|at the moment|too|a lot|very much|the most|as well|during|while|whenever|and (?:I|I'm|I've|my|it|we|they|he"
    r"|she|you|am|was|have|want|would|the|also|then|often|usually|try|can|find|how|don't|always|hate|love|prefer))\b",
    regex.IGNORECASE,
)
_CONTEXTUAL: Final = lazily(
    regex.compile,
    r"\b(?:it|its|it's|this|that|these|those|you|your|yours|him|her|his|them|their|us|our|me|my|mine|myself|here|there"
    r"|one|ones|everything|something|anything|nothing|everyone|someone|anyone|both|all|some|any|such|other|others"
    r"|another|same|each|more|less|much|many|first|second|last|latter|former|what|how|why|who|whom|not|also|idea"
    r"|ideas|suggestions?|recommendations?|options?|thing|things|stuff|way|lol|haha|too|being|having|knowing"
    r"|hearing|thinking|getting|taking|keeping|giving|doing|going|looking|working|feeling"
    r"|adding|incorporating|sound|look|feel|concept|thought|plan|approach|number|with|for|from|that"
    r"|who|which|where|when|whenever|while|if|as|than|is|are|was|were|am|has|have|did|will|can)\b",
    regex.IGNORECASE,
)
_ACTIVE: Final = lazily(
    regex.compile,
    r"to ((?:cook|bake|read|hike|run|jog|swim|travel|paint|draw|write|sing|dance|play|garden|knit|sew|ski|surf|climb|cycle"
    r"|bike|collect|camp|fish|sail|dive|photograph|sleep in|shop|exercise|walk)\b.*)",
)
_GENERAL_THE: Final = lazily(
    regex.compile,
    r"the (?:beach|mountains|ocean|sea|outdoors|rain|snow|cold|heat|countryside|city)$|The \p{Lu}",
)
_ITEM: Final = r"(?!(?:and|or)\b)[\p{L}\p{N}'&-]++(?: (?!(?:and|or|on|in|at|with|during|when|while|every|after|as|because|but|so)\b)[\p{L}\p{N}'&-]++){0,2}"
_LIST: Final = lazily(
    regex.compile,
    rf"(?P<item>{_ITEM})(?:, (?P<item>{_ITEM}))++,? (?:and|or) (?P<item>{_ITEM})(?=$|[,)–—]| (?:on|in|at|with|during|when|while|every|after|as|because|but|so)\b)",
)
_GERUND: Final = lazily(regex.compile, r"(?!thing|king|string|spring|wing|ring)\p{L}+ing\b", regex.IGNORECASE)
_NO_START: Final = word_set("a an to and or of in on at by be do get go keep no so well")
_BEFORE_ADJECTIVE: Final = word_set("a an very so really")
_COMPANY: Final = lazily(
    regex.compile, r" with (?:(?:my )?(?:family|friends|kids|children|animals|people)(?: and )?)+$"
)
_DANGLING: Final = word_set("a an the to and or of in on at by about into like")


def _elements(said: str) -> list[str]:
    """Each of "hiking, cooking, and jazz"; else the one object; [] if it says too little."""
    listed = _LIST.match(said)
    if listed is not None:
        items = [_object(item) for item in listed.captures("item")]
        if all(items):
            return [item for item in items if item]
    value = _object(said)
    if value is None:
        return []
    # "mac and cheese" is one dish; two activities are two.
    left, _, right = value.partition(" and ")
    return [left, right] if _GERUND.match(left) and _GERUND.match(right) else [value]


def _object(text: str) -> str | None:
    """What is liked or disliked, up to where its clause ends; None if it says too little or needs its context."""
    end = _OBJECT_END.search(text)
    if end and end[0] == '"':
        return None  # the name that was quoted is missing
    value = (text[: end.start()] if end else text).strip(" '.-~*!")
    active = _ACTIVE.match(value)
    if active is not None:
        value = str(active[1])
    value = _without_half_clause(value)
    words = value.split()
    if not words or len(words) > MAX_VALUE_WORDS or not 2 <= len(value) <= MAX_VALUE_CHARS:
        return None
    if end and end[0] == "," and len(words) > 1 and words[-2].lower() in _BEFORE_ADJECTIVE:
        return None  # "a safe, inviting place"
    if (
        _CONTEXTUAL.search(_COMPANY.sub("", value))
        or words[-1].lower() in _DANGLING
        or words[0].lower() in _NO_START
    ):
        return None
    if words[0].lower() == "the" and not _GENERAL_THE.match(value):
        return None
    return value


def _without_half_clause(value: str) -> str:
    """`value` without an "and …" that may begin another statement: "hiking and go every week" is "hiking"."""
    left, joined, right = value.partition(" and ")
    if not joined or not left.split():
        return value
    gerunds = left.split()[0].endswith("ing"), right.split()[0].endswith("ing") if right.split() else False
    if gerunds[0] != gerunds[1] or len(right.split()) > (3 if all(gerunds) else 2):
        return left
    return value


# --- what is liked best --------------------------------------------------------------------------------------
_FAVORITE: Final = lazily(
    regex.compile,
    CLAUSE
    + r"(?i:my (?:all-time |all time |absolute |personal )?favou?rite) (?P<subject>[\p{L}-]+(?: [\p{L}-]+){0,2}?) "
    r"(?:is|are|has always been|have always been)(?P<now> now)? (?:(?:definitely|still|absolutely|currently|probably) )?(?P<value>\S)",
)
_NO_SUBJECT: Final = lazily(
    regex.compile,
    r"\b(?:parts?|things?|way|ways|aspects?|ones?|bits?|moments?|memor(?:y|ies)|options?|ideas?|of|so|far|to|about|from|in|on"
    r"|line|lines|scenes?|quotes?|is|are|recent|new|part-time)\b",
    regex.IGNORECASE,
)
_NO_FAVORITE: Final = lazily(
    regex.compile,
    CLAUSE
    + r"(?i:my favou?rite) (?P<subject>[\p{L}-]+(?: [\p{L}-]+){0,2}?) (?:is no longer|is not|isn't) (?P<value>\S)",
)


def favorites(sentence: Sentence) -> Iterator[StatedFact]:
    """ "My favourite colour is blue": one value per subject, the subject in snake case."""
    for match in statements(_FAVORITE, sentence):
        said = regex.sub(r"^(?:called |named |an? )", "", sentence.plain[match.start("value") :])
        value = None if said.lower().startswith(("when", "the one")) else _object(said)
        if value is not None and not _NO_SUBJECT.search(match["subject"]):
            op: Op = "update" if match["now"] else "add"
            yield stated(sentence, _span(sentence, match, value), _favorite(match), value, 0.85, op)
    for match in statements(_NO_FAVORITE, sentence, past_is_meant=True):
        if regex.search(r"\bno longer\b|\bany ?more\b", sentence.plain) and not _NO_SUBJECT.search(
            match["subject"]
        ):
            yield stated(sentence, match.span(), _favorite(match), None, 0.85, "retract")


def _favorite(match: regex.Match[str]) -> tuple[str, str, str]:
    subject = regex.sub(r"colour", "color", match["subject"].lower())
    return "preferences", "favorites", regex.sub(r"[ -]+", "_", regex.sub(r"flavour", "flavor", subject))


# --- times ---------------------------------------------------------------------------------------------------
_OCCASION: Final = rf"(?P<occasion>(?:{'|'.join(OCCASIONS.split())})(?:s|es)?|work(?:ing)? ?outs?|working out|to work out|gym sessions?|doctor's appointments?)"
_TIME: Final = lazily(
    regex.compile,
    CLAUSE
    + rf"(?i:I {ADVERBS}prefer (?:(?:having |to have |to do |taking |to take |scheduling |to schedule )?(?:my )?(?P<time>{TIMES}) {_OCCASION}"
    rf"|(?:having |to have |to do |taking |to take |scheduling |to schedule |to )?(?:my )?{_OCCASION} (?:in the |at |on )(?P<time>{TIMES})))"
    r"(?=$|[,)–—!]| -| and | but | so | because | over | to | rather | if possible| whenever | as | since )",
)
_OCCASION_NAME: Final = {"working out": "workout", "to work out": "workout", "work out": "workout", "classe": "class", "doctor's appointment": "appointment", "gym session": "workout"}  # fmt: skip


def times(sentence: Sentence) -> Iterator[StatedFact]:
    """ "I prefer morning meetings": at `preferences.meeting_time`."""
    for match in statements(_TIME, sentence):
        occasion = match["occasion"].lower()
        singular = occasion if occasion.endswith("ss") else regex.sub(r"(?<=ss)es$|s$", "", occasion)
        name = _OCCASION_NAME.get(singular, singular)
        time = regex.sub(r"s$", "", match["time"].lower())
        yield stated(sentence, match.span(), ("preferences", f"{name}_time"), time, 0.9)
