"""The words of a turn that say what it is about, cut so that their forms meet: for telling a change of subject."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING, Final

from memory_agent.lazily import lazily
from memory_agent.text.sentences import sentences_of
from memory_agent.text.terms import ENGLISH_STOP_WORDS
from memory_agent.text.word_set import word_set

if TYPE_CHECKING:
    from collections.abc import Sequence

    from memory_agent.text.sentences import Sentence

_WORD: Final = lazily(re.compile, r"[가-힣]+|[^\W\d_]{2,}(?:'[a-z]+)?")
_HANGUL_STEM = 2
_LATIN_STEM = 5
# Words that fill a greeting, a thanks, a reaction, or begin any sentence; none of them is a subject.
_FILLERS: Final = word_set(
    """hi hello hey good morning afternoon evening night thanks thank okay ok yes yeah yep no nope not sure
    great nice cool fine well really very just much lot bit now today please sorry oh ah wow ha haha lol course
    hmm um like know think want need get got let lets let's make made say said tell told see look go
    going come thing things something anything everything one two way kind sort right too also still
    even only maybe more most other another new same first last don't didn't isn't can't won't doesn't
    what's how's you're you've there's that'd we're they're he's she's okay bye meet feel feeling back
    up out again welcome help question doing"""
)
_KOREAN_FILLERS: Final = word_set(
    """안녕 반가 고마 감사 그래 네네 아니 정말 진짜 너무 싶지 싶어 않아 않은 얘기 이야 오늘 지금 그냥 그런 그럼 저는 나는 제가 내가 우리 저도 나도 이거 그거 그게 있어 없어 하고 해요 했어 했다 같아 같은 어떻 무슨
    뭐야 그리 그런 하지 좋아 괜찮 미안 죄송 잠깐 있는 없는 하는 되는 것이 수가 이제 다시 조금 많이 아주 완전 어제 내일 그건 이건 여기 저기 거기 당신 너는 응응"""
)


@lru_cache(maxsize=8)
def content_stems(text: str) -> frozenset[str]:
    """The distinct content words of a turn: the first five letters of each, two syllables of a Korean word.

    Function words, greetings and fillers don't count, nor do code, links and quoted speech.

    >>> sorted(content_stems("Hi, I am planning a trip to Japan"))
    ['japan', 'plann', 'trip']
    """
    stems: set[str] = set()
    for sentence in sentences_of(text):
        for word in _WORD.findall(sentence.low):
            if "가" <= word[0] <= "힣":
                stem = word[:_HANGUL_STEM]
                if len(stem) == _HANGUL_STEM and stem not in _KOREAN_FILLERS:
                    stems.add(stem)
            elif word not in ENGLISH_STOP_WORDS and word not in _FILLERS:
                stems.add(word[:_LATIN_STEM])
    return frozenset(stems)


# What begins so refers to what was said, whatever words it uses.
_CONTINUES: Final = lazily(
    re.compile,
    r"(?:and|but|so|because|it|its|it's|that(?! \w+ (?:about|i|you|we|with|from)\b)|that's|this|they|they're|he|he's|she|she's|those|these|yes|yeah"
    r"|yep|no|none|nope|ok|okay|sure|thanks|thank|right|exactly|true|same|also|too|sorry|i (?:agree|see|know|did|do|am|will|have|was|can)\b[,.!]"
    r"|i (?:agree|hope so|think so|guess|hadn't thought|never thought)|great|nice|cool|wow|ha|haha|lol|hm+|done|agreed|only|mostly|usually|of course"
    r"|perfect|good|fine|lovely|fair|honestly|actually|let's|we're good|what about|then|maybe|perhaps|well|not|both|neither|either|there|the (?:first|second|third|last|other"
    r"|former|latter|same)|call me|when you|mine|yours)\b"
    r"|(?:그래서|그리고|그래도|그럼|그러면|그러니까|그게|그건|그거|그래|응|네|예,|아니|맞아|맞아요|고마워|감사|왜냐|하지만|이건|이거|저도|나도|덕분|좋아요|좋아|역시|둘 다|그렇)",
)
# A pronoun whose noun is not in the turn, or the other's words taken up.
_REFERS: Final = lazily(
    re.compile,
    r"\b(?:like|for|about|of|with|to|in|on|from|at|by|than|after|before) (?:that|them|those|these|this)(?= ?[.,!?;:]|$| way\b)"
    r"|\b(?:that way|the same|put it (?:like that|that way)|you (?:said|say|mean|mentioned|suggested|asked|wrote|told))\b"
    r"|\byou(?:'re| are) right\b|\b(?:both|all|two|three|one|neither|none|some|most|each) of (?:them|those|these)\b",
)
# What is asked of the thing at hand: "make the second paragraph shorter".
_EDITS: Final = lazily(
    re.compile,
    r"(?:please |can you |could you )?(?:make|shorten|rewrite|rephrase|change|replace|remove|delete|add|keep|fix|translate|simplify|expand|cut|try) (?:the|it|that|this|a bit|a little|another|them|one)\b"
    r"|.{0,60}(?:줄여|고쳐|바꿔|늘려|빼|지워|넣어|추가해|수정해|다듬어|옮겨) ?(?:줘|주세요|주실|줄래)",
)
_OFFER_CHARS = 60
_OFFERS: Final = lazily(
    re.compile,
    r"\b(?:help|assist|on your mind|(?:like|want) to talk|talk about today|brings you|can i do for you|shall we talk)\b"
    r"|도와|도움|무엇을 할까|(?:무슨|어떤) (?:얘기|이야기|일)",
)


def refers_back(sentences: Sequence[Sentence]) -> bool:
    """Whether a turn takes up what was said before it: by its first words, a pronoun, or an order about the thing at hand."""
    first = sentences[0].low
    if _CONTINUES.match(first) or _EDITS.match(first):
        return True
    return any(_REFERS.search(sentence.low) for sentence in sentences[:2])


def offers_help(sentence: Sentence) -> bool:
    """Whether a question only asks what the other wants: "How can I help?", "What's on your mind?"."""
    return sentence.asks and len(sentence.low) <= _OFFER_CHARS and _OFFERS.search(sentence.low) is not None
