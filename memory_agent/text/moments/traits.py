"""What a turn leaves behind for the character's reminder: a trait shown, a word about the two, a decision. Pure.

Each returns words of the turn itself, trimmed. Like the rules for moments they would rather miss one than make one up.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from memory_agent.text.moments.detect import decision_in
from memory_agent.text.moments.english_self import ENGLISH_SELF_RULES
from memory_agent.text.moments.korean import KOREAN_SELF_RULES
from memory_agent.text.moments.rules import found_by, found_in_korean
from memory_agent.text.sentences import sentences_of, shortened
from memory_agent.text.word_set import word_set

if TYPE_CHECKING:
    from memory_agent.text.moments.rules import Rule
    from memory_agent.text.sentences import Sentence

__all__ = ["MOST_TRAITS", "NOTE_CHARS", "TRAIT_CHARS", "decision_in", "observed_traits", "relationship_note"]

TRAIT_CHARS: Final = 60
NOTE_CHARS: Final = 80
MOST_TRAITS: Final = 4

_ACTION: Final = re.compile(r"(?<!\*)\*(?!\s|\*)([^*\n]{3,60})(?<!\s)\*(?!\*)")
_ACTING: Final = re.compile(
    r"(?:[a-z]+ly )?(?:smil|laugh|giggl|chuckl|grin|blush|sigh|nod|wink|hug|cr(?:y|ies)|sob|whisper|tilt|pout|frown|smirk|shrug|gasp|pac(?:e|ing)|lean|look|gaz|glanc|star|hold|tak|pat|strok|bow|wav|shak"
    r"|rais|roll|scratch|fidget|twirl|hum|stretch|yawn|purr|growl|snort|cross|bit|squeez|adjust|paus|clear|rub|play|sip|sit|stand|tear)[a-z]*\b"
    r"|[가-힣 ]{0,30}(?:며|면서|는다|한다|으며|다|음|기|웃|미소)$"
)
_TRAITS: Final = tuple(rule for rule in ENGLISH_SELF_RULES if rule.kind == "character_defining")
_KOREAN_TRAITS: Final = tuple(rule for rule in KOREAN_SELF_RULES if rule.kind == "character_defining")

_NOTE_CUES: Final = word_set(
    """you you're your us we we're we've friend friends trust call together you've"""
)
_NOTE: Final = re.compile(
    r"""\bi\ (?:(?:really|truly|do|don't|still|completely|totally|just|always|no\ longer|will\ always|can|can't|cannot|never|so|also|absolutely|kind\ of|fully|will)\ ){0,3}
        (?:trust|love|like|adore|miss|respect|admire|hate|believe\ in|forgive|need|care\ about|depend\ on|rely\ on|count\ on|value|look\ up\ to|cherish)[ ]
        (?:you\b(?!\ (?:to|for|when|if|guys|all|should|can|could|may|might|will)\b)|our\ (?:friendship|talks|conversations|relationship|time)|having\ you|talking\ (?:to|with)\ you)
      | \bi(?:'m|\ am)\ (?:so\ |very\ |really\ |a\ bit\ |still\ |just\ |also\ |deeply\ |truly\ )*(?:disappointed\ in|proud\ of|angry\ with|angry\ at|mad\ at|grateful\ (?:for|to)|thankful\ for|in\ love\ with|jealous\ of|lucky\ to\ have|glad\ (?:i\ have|to\ have|i\ met|we\ met)|here\ for|tired\ of|worried\ about|comfortable\ with|afraid\ of|attached\ to|fond\ of)\ (?:you|us|meeting\ you|met\ you|having\ you)\b
      | \byou(?:'re|\ are|'ve\ (?:always\ )?been|\ have\ (?:always\ )?been|\ were)\ (?:now\ |always\ |like\ |really\ |truly\ |still\ |not\ |no\ longer\ |such\ |probably\ |definitely\ )*(?:my|our|a\ (?:good|great|true|dear|real|wonderful|close|terrible|bad|big\ brother|sister|brother|mentor|father|mother)|the\ (?:only\ one|best\ friend|best\ thing|one\ person|closest|most\ important|love))\ ?
        (?:\w+\ ){0,3}?(?:friend|friends|everything|love|family|brother|sister|mentor|hero|companion|partner|rock|person|confidant|inspiration|teacher|soulmate|one|wife|husband|girlfriend|boyfriend|assistant|who\ understands|i\ trust|i\ can\ talk|to\ me|listener)\b
      | \bwe(?:'re|\ are|'ve\ (?:become|been)|\ have\ (?:become|been))\ (?:now\ |really\ |just\ |such\ |such\ a\ |a\ |the\ |like\ |more\ than\ |best\ |good\ |great\ |close\ |old\ |still\ |not\ |no\ longer\ )*(?:friends|family|partners|a\ team|team|couple|strangers|close|siblings|soulmates|enemies|rivals|together|in\ this\ together)\b
      | \bcall\ me\ (?!back|when|later|if|at|on|tomorrow|crazy|old)[a-z'-]{2,}
      | \b(?:can|may)\ i\ call\ you\ [a-z'-]{2,} | \bi(?:'ll|\ will)\ (?:just\ )?call\ you\ (?!back|when|later|if|at|on|tomorrow|in)[a-z'-]{2,}
      | \byou\ (?:mean|matter)\ (?:so\ much|a\ lot|everything|the\ world)?\ ?to\ me\b | \byou\ (?:always|never|really)\ (?:understand|listen\ to|support|make\ me|get|help|cheer|care\ about)\ ?(?:me|smile|feel)?\b
      | \byou\ (?:make\ me\ (?:feel|happy|laugh|smile|sad|nervous)|understand\ me|(?:hurt|betrayed|disappointed|lied\ to)\ (?:me|my))\b | \bour\ (?:friendship|relationship|bond)\ (?:is|means|has|was)\b""",
    re.VERBOSE,
)
_NO_NOTE: Final = re.compile(r"\b(?:if|imagine|pretend|would|wish|as if|unless|whether)\b")
_KOREAN_NOTE: Final = re.compile(
    r"(?:너|넌|네가|당신|우리|그대|자기|니가|너를|널|너는|너랑|너한테|당신을|당신은|나를|나한테|저를)[가-힣]{0,3} (?:[^.!?]{0,24})(?:친구|사랑해|사랑합|좋아해|좋아합|믿어|믿습|믿는다|실망|고마|소중|보고 ?싶|미워|싫어|가족|연인|커플|사이|의지|이해해 ?주|존경|불러|위로|최고)"
    r"|(?:사랑해|믿어|좋아해|미워|보고 ?싶어|실망했어)(?:요)?[.!~ㅠㅜㅋㅎ ]*$|(?:라고|이라고) 불러(?: ?줘|주세요|도 돼)?|말 ?(?:놓|편하게 하)(?:자|아|을게|을까|세요|아도)|(?:네|당신) 덕분에|나의 (?:친구|사랑|가족)"
)
_NO_KOREAN_NOTE: Final = re.compile(
    r"다면|라면|으면 좋|만약|척|[을를] (?:정말 |제일 |진짜 |너무 )?좋아(?:해|합)(?<!너를 좋아해)(?<!널 좋아해)(?<!당신을 좋아해)|(?:그|그녀|엄마|아빠|친구)(?:는|가|이) "
)


def observed_traits(text: str, *, role: str) -> tuple[str, ...]:
    """What a turn of the assistant shows or says of who it is: at most four phrases of up to 60 characters, mostly none.

    Statements that `character_defining` finds ("I never lie", "저는 솔직한 편이에요") and what it plays
    ("*laughs softly*"), in their order, without repeats.

    >>> observed_traits("*laughs softly* I never lie. What about you?", role="assistant")
    ('*laughs softly*', 'I never lie')
    """
    if role != "assistant":
        return ()
    traits: dict[str, None] = {}
    for sentence in sentences_of(text):
        for match in _ACTION.finditer(sentence.text):
            if _ACTING.match(match.group(1).lower()):
                traits[shortened(match.group(), TRAIT_CHARS)] = None
        said = _ACTION.sub(" ", sentence.text).strip()
        if said and _tells_who(sentence):
            traits[shortened(said.rstrip(".!~ "), TRAIT_CHARS)] = None
        if len(traits) >= MOST_TRAITS:
            break
    return tuple(traits)[:MOST_TRAITS]


def relationship_note(text: str, *, role: str) -> str | None:
    """The first sentence about the two who talk, up to 80 characters: "I trust you", "call me Ann", "넌 내 친구야".

    Of users and assistants only. Questions count only where they name the other ("can I call you Max?"); conditions and
    wishes don't.

    >>> relationship_note("Thanks. You're my best friend!", role="user")
    "You're my best friend!"
    """
    if role not in {"user", "assistant"}:
        return None
    for sentence in sentences_of(text):
        if _is_note(sentence):
            return shortened(sentence.text, NOTE_CHARS)
    return None


def _tells_who(sentence: Sentence) -> bool:
    def holds(rule: Rule) -> bool:
        return not rule.cues.isdisjoint(sentence.words) and found_by(rule, sentence) is not None

    return any(holds(rule) for rule in _TRAITS) or (
        sentence.korean and any(found_in_korean(rule, sentence) for rule in _KOREAN_TRAITS)
    )


def _is_note(sentence: Sentence) -> bool:
    if not _NOTE_CUES.isdisjoint(sentence.words):
        match = _NOTE.search(sentence.low)
        if match is not None and (not sentence.asks or "call you" in match.group()):
            return _NO_NOTE.search(sentence.low[: match.start()]) is None
    if not sentence.korean or sentence.asks:
        return False
    return _KOREAN_NOTE.search(sentence.low) is not None and not _NO_KOREAN_NOTE.search(sentence.low)
