"""What a question put to long-term memory asks for: its kinds, whom it names, its parts, whether the latest counts.

Rules for English, with small sets for Korean, Japanese and Chinese; the times a question names are in `recall.dates`.
All pure, for signals that raise a score: a question that no rule understands has no kinds and names nobody.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal

from memory_agent.text.names import persons_named, readable

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

__all__ = ["Kind", "Question", "gist_of", "persons_named", "read_question"]

Kind = Literal[
    "when", "who", "where", "name", "how_many", "how_long", "list", "yes_no", "why", "what", "recommend"
]


@dataclass(frozen=True, kw_only=True, slots=True)
class Question:
    """`kinds`: what is asked for, several for several parts, none for a plain "how"; `persons`: the known names in it;
    `about_user`: speaks of the asker; `about_assistant`: of what the assistant said; `latest`: wants the latest state;
    `parts`: the questions in it, in its own words, at least one.
    """

    kinds: frozenset[Kind]
    persons: tuple[str, ...]
    about_user: bool
    about_assistant: bool
    latest: bool
    parts: tuple[str, ...]


def read_question(question: str, *, known: Collection[str] = ()) -> Question:
    """What `question` asks; `known`: names of speakers, as in `persons_named`. Reads the first 2,000 characters."""
    text = readable(question)
    low = _asked_words(text)
    parts = _parts(text)
    kinds = {kind for part in parts for kind in _kinds(_asked_words(part))}
    return Question(
        kinds=frozenset(kinds),
        persons=persons_named(question, known),
        about_user=_about_user(low),
        about_assistant=_ABOUT_ASSISTANT.search(low) is not None,
        latest=_asks_latest(low),
        parts=parts,
    )


def gist_of(question: str, persons: Collection[str]) -> str:
    """What is left of `question` without its question word and the names of `persons`, which other signals stand for.

    The question itself where nothing would be left.

    >>> gist_of("When did Ann Lee adopt the cat?", ["Ann Lee"])
    'adopt the cat'
    """
    left = readable(question)
    for name in sorted({part for person in persons for part in (person, *person.split())}, key=len)[::-1]:
        left = _without_name(left, name)
    left = " ".join(_QUESTION_WORDS.sub("", left.strip(), count=1).split()).strip(" ?.!")
    return left or question


def _without_name(text: str, name: str) -> str:
    """`text` with a blank for each `name` that stands as a word, and for its 's.

    Not by a pattern of it: `re` keeps those, and what a person forgets must not stay behind there.
    """
    kept, begin, at = [], 0, text.find(name)
    while name and at >= 0:
        end = at + len(name)
        if text[end : end + 2] in ("'s", "’s") and not _is_in_word(text[end + 2 : end + 3]):
            end += 2
        if _is_in_word(text[at - 1 : at]) or _is_in_word(text[end : end + 1]):
            at = text.find(name, at + 1)
            continue
        kept.append(text[begin:at])
        begin, at = end, text.find(name, end)
    return " ".join([*kept, text[begin:]])


def _is_in_word(char: str) -> bool:
    return char.isalnum() or char == "_"


_QUESTION_WORDS: Final = re.compile(
    r"\W*(?:(?:what|when|where|who|whom|whose|why|how|which)(?:['’]s)?\b(?:\s+(?:many|much|long|often|old|kinds?|types?|of)\b){0,3})?"
    r"\s*(?:(?:is|are|was|were|do|does|did|has|have|had|can|could|would|will|might|should)\b\s*)?",
    re.IGNORECASE,
)


def _asked_words(text: str) -> str:
    """In lower case, without what is quoted (titles) and the country that would look like "us"."""
    return _NO_QUESTION.sub(" _ ", text).casefold()


_NO_QUESTION: Final = re.compile(
    r"\"[^\"]{1,120}\"|“[^”]{1,120}”|「[^」]{1,120}」|『[^』]{1,120}』|《[^》]{1,120}》|(?<!\w)'[^'\n]{1,120}'(?!\w)|\bUSA?\b"
)

# Kinds

_AUX: Final = (
    r"(?:is|are|am|was|were|do|does|did|des|can|could|should|would|will|shall|may|might|must|have|has|had"
    r"|isn't|aren't|wasn't|weren't|don't|doesn't|didn't|can't|couldn't|won't|wouldn't|shouldn't|haven't|hasn't|hadn't)"
)
_TIME_UNIT: Final = r"(?:second|minute|hour|day|night|week|weekend|month|year|decade)s?"
_PLACE: Final = (
    r"(?:cit(?:y|ies)|country|countries|states?|places?|towns?|villages?|locations?|addresse?s?|restaurants?|caf[eé]s?|shops?|stores?"
    r"|venues?|parks?|hotels?|neighbou?rhoods?|islands?|continents?|spots?|region|airport|beach)"
)
_PERSON: Final = r"(?:person|people|friends?|colleagues?|relatives?|coach|teacher|doctor|family members?|member|guy|woman|man|girl|boy)"
# Where a question word asks rather than relates ("the friend who…"): first in a sentence, after "remind me" and the
# like, or later in it where an auxiliary follows.
_FIRST: Final = (
    r"(?:^\W*|[.!?;:—–]\s*)(?:(?:so|and|but|or|well|hey|hi|then|also|ok|okay|please),? ){0,2}"
    r"(?:(?:according to|based on|in|on|at|for|during|after|before|from) [^,.?!]{1,80}, )?"
)
_TOLD: Final = r"\b(?:know|(?:remind|tell|show) me|remember|recall|ask|wonder|wondering|curious|guess|sure|was it|is it)\s+(?:exactly )?"
_LATER: Final = (
    r"(?:,\s*|\b(?:and|or|but|so|then|to|with|for|from|by|of|at|in|on|about|since|until|around|during)\s+)"
)
_DONE: Final = r"(?:did|do|does|will|should|could|can|has|have|else)"


def _asks(word: str, followed: str) -> str:
    return rf"(?:{_FIRST}|{_TOLD}){word}(?:'s|'d|'ll|'re)?\b|{_LATER}{word} {followed}\b"


_KIND_PATTERNS: Final[tuple[tuple[Kind, str], ...]] = (
    (
        "when",
        _asks("when", rf"(?:{_DONE}|am|is|are|was|were|had)")
        + r"|\b(?:what|which)(?: exact| specific)? (?:date|day|month|year|week|weekend|time|season|century|semester)\b|\bhow long ago\b"
        rf"|\bhow many {_TIME_UNIT} ago\b|\bsince when\b|\bhow recently\b",
    ),
    ("who", _asks("(?:who|whom|whose)", rf"(?:{_DONE}|[a-z]{{2,20}}ed)") + rf"|\b(?:and|or) who (?:is|are|was|were)\b|\b(?:what|which)(?: \w+)? {_PERSON}\b"),
    ("where", _asks("where", _AUX) + rf"|\b(?:what|which)(?: [\w-]+){{0,2}}? {_PLACE}\b"),
    (
        "name",
        r"\bwhich\b|\bwhat(?: \w+){0,2} (?:city|country|place|book|movie|film|band|game|song|album|company|name|team|artist|brand|console"
        r"|breed|author|series|show|school|university|restaurant)s?\b",
    ),
    (
        "how_many",
        r"\bhow (?:many|much|often|old|far|tall|big|high|heavy|large)\b|\b(?:total|combined|average|exact) (?:number|amount|cost|price|distance|weight|value|sum|time)\b"
        r"|\bwhat(?:'s| is| was| were| are)? (?:the |my )?(?:number|amount|percentage|percent|ratio|sum|count|price|cost|score|age|total|average)\b"
        r"|\bwhat (?:number|amount|percentage|age|price)\b|\bhow \w{2,12}er\b|\bthe (?:number|amount|percentage) (?:of|i)\b|\bhighest number\b",
    ),
    ("how_long", rf"\bhow long\b|\bhow (?:many|much)(?: more)? (?:{_TIME_UNIT}|time)\b|\b(?:the|what) duration\b|\btotal (?:time|{_TIME_UNIT})\b"),
    (
        "list",
        rf"\b(?:what|which) (?!(?:is|was|has|does|did|this|us)\b)(?:[\w'&+/-]+ ){{0,3}}?(?!(?:is|was|has|does|this|us|des|{_TIME_UNIT})\b)(?:[a-z-]{{2,20}}[^su\W]s|people|children|series|lines?-ups) (?:{_AUX}|of|from|for|that|to|i|in|on|were|\w+(?:ed|s))\b"
        rf"|\b(?:what|which) (?:[a-z]+ )?(?:kinds|types|sorts) of\b|\b(?:what|which) (?:kind|type|sort) of (?!(?:[\w-]+ ){{1,2}}(?:is|was)\b)[a-z-]{{2,20}}[^su\W]s\b"
        r"|\b(?:what|who|which) (?:are|were) (?!(?:you|we|they|i|he|she)\b)|\b(?:list|name|tell me|give me) (?:me )?(?:all|every|everything|some of)\b|^\W*list\b"
        r"|\ball (?:of )?(?:the|my) [\w-]+ (?:i|that|which)\b|\b(?:what|who) (?:all|else)\b|\bwhat (?:other|different|various|all)\b|\bwhere (?:has|have)\b|\bwhich of\b",
    ),
    ("why", _asks("why", _AUX) + r"|\bhow come\b|\bwhat(?:'s| is| was| were| are)? (?:the |his |her |my |their )?(?:\w+'s )?(?:main )?(?:reasons?|motivations?|motives?)\b|\bfor what reason\b"
            r"|\bwhat (?:motivate[sd]?|inspire[sd]?|prompted|sparked|led|caused|drove|drives)\b|\bwhat made (?:\w+ ){1,4}(?:decide|want|start|choose|leave|quit|stop)\b"),
    (
        "recommend",
        r"\b(?:can|could|would|will) you (?:please )?(?:recommend|suggest|advise|propose|help)\b|\b(?:please|you) (?:recommend|suggest) (?:me )?(?:a|an|some|any)\b"
        r"|^\W*(?:recommend|suggest)\b|\b(?:any|some|have|need|want|for|give me)(?: \w+){0,2} (?:recommendations?|suggestions?|advice|tips?|ideas?|thoughts|pointers)\b"
        r"|\b(?:should|shall|could|can) i (?!have\b)(?!ask\b)|\bdo you think\b|\bi(?:'m| am) looking for\b|\bhelp me (?:to )?(?:choose|pick|decide|find|plan|with)\b|\bwhat (?:do you|would you) (?:recommend|suggest|advise)\b"
        r"|\b(?:what|how) about (?:a|an|some)\b",
    ),
)  # fmt: skip
_KINDS: Final = tuple((kind, re.compile(pattern)) for kind, pattern in _KIND_PATTERNS)
_RECOMMENDED: Final = re.compile(
    r"\b(?:did|does|has|had|was|were)\b[^.!?]{1,120}\b(?:recommend|suggest|advice|advise|tips?|ideas?|suggestions?|recommendations?|thoughts)"
    r"|\byour (?:\w+ )?(?:recommendations?|suggestions?|advice)\b|\byou (?:\w+ )?(?:recommended|suggested|gave|advised)\b"
)
_WHAT: Final = re.compile(
    _asks("(?:what|which)", r"\w+")
    + r"|\bhow (?:did|does|do|is|was|are|were|has|have|had|will|would) [^?]{1,80} (?:describe|call|refer)\b"
)
_SPECIFIC_WHAT: Final = re.compile(
    rf"\b(?:what|which)(?: [\w-]+){{0,2}}? (?:{_PLACE}|{_PERSON}|dates?|days?|months?|years?|weeks?|time|percentage|number|amount|age)\b"
    r"|\bwhat(?:'s| is| was) the (?:total |average )?(?:number|amount|percentage|sum|cost|price|reason)\b"
)
# "Could you remind me what …" asks for what follows.
_REQUEST: Final = r"(?:can|could|would|will) you (?:please )?(?:remind|tell|recommend|suggest|give|help|list|name|explain|recall|share|provide)\b"
_YES_NO: Final = re.compile(
    rf"(?:^|[.!?;]\s*|,\s+)(?:(?:so|and|but|or|well|hey|hi|also|then|ok|okay|oh|please),? ){{0,2}}(?:(?:in|for|on|at) [^,]{{1,80}}, )?"
    rf"(?!{_REQUEST}){_AUX} (?!i ask\b)(?!any\b)[\w'_]"
)
_WH: Final = re.compile(r"\b(?:what|who|whom|whose|when|where|why|which|how)\b")

_ASIAN_KINDS: Final[tuple[tuple[Kind, re.Pattern[str]], ...]] = (
    ("when", re.compile(r"언제|며칠(?! ?동안)|몇 ?월|몇 ?시(?!간)|몇 ?년도|무슨 요일|いつ|何時(?!間)|何月|何年(?!間)|何曜日|什[么麼]时候|什麼時候|何时|几点|几月|几号|哪天|哪[一]?年|哪个月|幾點|幾號")),
    ("who", re.compile(r"누구|누가|누굴|누군|誰|だれ|どなた|谁")),
    ("where", re.compile(r"어디|어느 (?:나라|도시|곳|식당|가게)|무슨 (?:도시|식당|가게)|どこ|どちらへ|どの(?:町|街|国|店|都市)|哪里|哪裡|哪儿|哪兒|在哪|去哪|哪个(?:城市|国家|地方)|什么地方")),
    ("how_many", re.compile(r"몇|얼마|いくつ|いくら|何(?:個|人|回|冊|枚|本|匹|台|度|歳|杯|件|キロ|円|パーセント)|多少|几(?:个|次|本|人|只|件|岁|张|块|家|杯)|幾(?:個|次|本|人)")),
    ("how_long", re.compile(r"얼마나 (?:오래|걸|지났|됐|되)|며칠 ?동안|몇 ?(?:년|개월|달|주|일|시간|분|주일) ?(?:동안|간|이나|걸|지)|どの(?:くらい|ぐらい)|どれ(?:くらい|ぐらい|ほど)|何(?:年間|か月|ヶ月|週間|日間|時間|分)|多久|多长时间|多長時間|几(?:天|年|周|个星期|个月|小时|分钟)")),
    ("list", re.compile(r"모두|전부|목록|어떤 것들|무엇무엇|뭐뭐|것들|종류|すべて|全部|一覧|どれとどれ|何と何|哪些|有哪|列出|所有|都有")),
    ("why", re.compile(r"왜|어째서|이유|なぜ|どうして|なんで|理由|为什[么麼]|為什[么麼]|为何|為何|怎么会")),
    ("recommend", re.compile(r"추천(?!했|해 ?준|해 ?줬|해 ?주신|해 ?주셨|받|한 )|제안해|조언해|뭐가 좋을|어때(?:요)?\?|하면 좋을|おすすめ(?!し(?:た|て(?:くれ|いた)))|お勧め(?!し(?:た|て(?:くれ|いた)))|どうすれば|アドバイス(?:を)?(?:くだ|お願い|ください)|推荐(?!过|的|了)|推薦(?!過|的|了)|建议(?!过|的|了)|该怎么|应该(?:怎么|买|去|吃|选)")),
    ("what", re.compile(r"뭐|뭘|무엇|무슨|어떤|뭔|어느|何(?:が|を|の|で|に|と|も|か|だ|て|した|し|食|、)|何[？?]|なに|なん(?!で)|どんな|どの|どれ|(?<![为為])什[么麼](?!时候|時候|地方)|哪个|哪個|哪种|啥")),
)  # fmt: skip
_ASIAN_YES_NO: Final = re.compile(
    r"[가-힣][?？]\s*$|(?:니|까|나요|가요|냐)[.?？]?\s*$|か[。?？]?\s*$|[ぁ-ん][?？]\s*$|[吗嗎]|是不是|有没有|有沒有"
)


def _kinds(low: str) -> Iterator[Kind]:
    """The kinds of one part, in lower case and without what it quotes."""
    if not low.isascii():
        yield from _asian_kinds(low)
    found = {kind for kind, pattern in _KINDS if pattern.search(low)}
    if "recommend" in found and _RECOMMENDED.search(low):
        found.discard("recommend")
    if "when" in found and _subordinate_when(low):
        found.discard("when")
    if "list" in found and found & {"how_many", "when"}:
        found.discard("list")
    if found & {"when", "why"}:
        found.discard("name")  # "In which month …", "What inspired my song?"
    specific = found & {"when", "who", "where", "how_many", "why"} and _SPECIFIC_WHAT.search(low)
    if _WHAT.search(low) and not specific and not ("recommend" in found and "what" not in low):
        found.add("what")
    asked = None if "recommend" in found else _YES_NO.search(low)
    if asked is not None and not _WH.search(low[: asked.start()]):
        found.add("yes_no")
    yield from found


def _subordinate_when(low: str) -> bool:
    """ "When I lived in Rome, what did I eat?": the clause before the comma doesn't ask."""
    return (
        re.match(rf"\W*when (?!{_AUX}\b|'s)", low) is not None
        and re.search(rf",\s*(?:what|who|whom|whose|where|why|which|how|{_AUX})\b", low) is not None
    )


def _asian_kinds(low: str) -> Iterator[Kind]:
    found = {kind for kind, pattern in _ASIAN_KINDS if pattern.search(low)}
    if "how_long" in found:
        found.discard("when")
    if "when" in found:
        found.discard("how_many")
    if not found and _ASIAN_YES_NO.search(low):
        found.add("yes_no")
    if "recommend" in found:
        found.discard("what")
    yield from found


# Whom it is about

# "Remind me", "may I ask", "I was thinking about": courtesy, not the asker's life.
_COURTESY: Final = re.compile(
    r"\b(?:remind|tell|give|show|help|let|send|ask|teach|for) me\b|\b(?:may|can|could|might) i ask\b|\bi (?:want|wanted|need|would like) to (?:know|ask)\b"
    r"|\bi(?:'d| would) like to (?:know|ask)\b|\bi(?:'m| am|'ve been| was)? (?:just )?(?:wonder|wondering|curious|thinking|looking back)(?: back)?(?: about| at| to| on)? (?=if|what|who|where|when|how|why|whether|our)"
    r"|\bi (?:think|believe|guess|suppose|mean|wonder)\b|\bour (?:\w+ )?(?:conversation|chat|discussion|talk|session)s?\b|\bif i (?:remember|recall)\b"
    r"|\byou(?:'d|'ve)? (?:\w+ )?(?:told|gave|given|showed|shown|sent|taught|advised|recommended|suggested|offered|helped) me\b"
)
_USER: Final = re.compile(
    r"\b(?:i|me|my|mine|myself|we|us|our|ours|i'm|i've|i'd|i'll|we're|we've|we'd)\b(?![.]\d)"
    r"|(?<![가-힣])(?:나(?:는|도|를|한테|에게|랑|의|만)?|난|날|내가|내|제가|제|저(?:는|도|를|한테|에게|랑)?|우리(?:는|가|의|집)?|저희(?:는|가|의)?)(?![가-힣])"
    r"|私|僕|俺|わたし|あたし|ぼく|自分|うちの|我|咱"
)
_ABOUT_ASSISTANT: Final = re.compile(
    r"\byou(?:'d|'ve)? (?:had |have |also |just |once |previously |earlier |originally |initially |then |first |already ){0,2}"
    r"(?:said|told|recommended|suggested|mentioned|gave|given|provided|advised|explained|listed|wrote|written|shared|proposed|described|came up|helped|answered|showed|called|named|made|created|generated|referenced|referred|quoted|cited|taught|promised|offered)\b"
    r"|\bdid you (?:\w+ )?(?:say|tell|recommend|suggest|mention|give|provide|advise|explain|list|write|share|propose|describe|come|answer|show|call|name|create|generate|promise|offer)\b"
    r"|\byou were (?:\w+ )?(?:saying|telling|referring|talking|explaining|recommending|suggesting|describing)\b|\byour (?:\w+ ){0,2}(?:suggestions?|recommendations?|advice|answers?|reply|response|explanation|list|message|tips)\b"
    r"|\b(?:our|the) (?:\w+ )?(?:previous|last|earlier|prior|past|recent) (?:conversation|chat|discussion|session)s?\b|\bwe (?:were )?(?:discuss|talk|chat|convers|brainstorm|work)(?:ed|ing) (?:about|on|through|over|together)\b|\bwe discussed\b"
    r"|(?:네가|너가|니가|당신이|너는|넌).{0,40}(?:말했|말한|추천|알려|제안|설명|얘기|가르쳐)|(?:아까|지난번에|전에|저번에) (?:추천|말|알려|제안|설명)해? ?(?:준|줬|주셨)|(?:너|네|당신)의? (?:추천|제안|조언|답변)"
    r"|(?:あなた|君|きみ)(?:が|は).{0,40}(?:言っ|勧め|すすめ|教え|提案|説明|おすすめ)|(?:教えて|勧めて|すすめて|提案して|説明して)くれた"
    r"|[你您](?:之前|以前|上次|刚才|剛才|曾经|昨天|给我|給我|对我|跟我)?.{0,6}(?:说过|說過|说的|說的|推荐(?:过|的|了)|推薦|建议(?:过|的|了)|建議|告诉|告訴|提到|提过|解释|介绍)"
)


def _about_user(low: str) -> bool:
    return _USER.search(_COURTESY.sub(" _ ", low)) is not None


_LATEST: Final = re.compile(
    r"\b(?:current|currently|now|nowadays|these days|(?:most |more )?recent|(?:most )?recently|latest|newest|lately|still|at the moment|at present|presently|right now|so far|up to now|as of now"
    r"|to date|anymore|any longer|last time|today|up-to-date|these last|last (?=(?:trip|visit|appointment|meeting|session|test|game|race|project|book|movie|film|job|purchase|checkup|vacation|holiday|concert|class)\b)"
    r")\b|현재|지금|요즘|최근|아직|가장 새|최신|마지막으로|여전히|이제|今(?!日|年|月|週|度|回|朝|晩|夜|天|后|後|晚)|現在|最近|最新|まだ|現时|现在|現在|目前|如今|还在|還在|仍然|最后一次|最後に|当前"
)
_NOT_LATEST: Final = re.compile(
    r"\b(?:would|could|might)\b[^?.!]{1,60}\bstill\b|\bstill (?:life|lifes|images?|photos?|photography|water)\b|\b(?:sit|sat|stand|stood|keep|hold) still\b|\b(?:by|until|till|just|before|from) now\b|\bnow that\b|\bcurrent (?:of|flow)\b"
)
# "Where did she currently live in May 2022": the latest of then, not of now.
_DATED: Final = re.compile(
    r"\b(?:in|on|of|by|during|at|since) (?:[\w,]{1,20} ){0,3}(?:19|20)\d{2}\b|(?:19|20)\d{2} ?[年년]"
)


def _asks_latest(low: str) -> bool:
    return _LATEST.search(_NOT_LATEST.sub(" _ ", low)) is not None and _DATED.search(low) is None


# Parts

_CLAUSE_JOINT: Final = re.compile(
    rf"(?:,\s*|;\s*|\s)(?:and|or)(?: also| then)?\s+(?=(?:(?:(?:on|in|at|for|from|to|with|of) )?(?:what|where|when|who|whom|whose|how|why|which)(?:'s|'d|'re)? (?:(?:[\w-]+ ){{0,3}}?{_AUX}|(?!to\b)\w+ed)|(?:did|does|do) \w+ )\b)"
    r"|(?<=[가-힣ぁ-ん])(?:[,，、]\s*|\s+)(?=그리고\s)|[,，、。]?(?=そして|それから|以及|并且|而且)",
    re.IGNORECASE,
)
_HEAD: Final = re.compile(
    rf"\b(?:what|where|when|who|whom|whose|how|why|which)\b|^\W*(?:\w+,? )?{_AUX}\b|언제|누구|누가|어디|몇|얼마|왜|뭐|뭘|무엇|무슨|어떤|いつ|誰|だれ|どこ|何|いくら|なぜ|どうして|谁|哪|什么|什麼|多少|几|怎|吗",
    re.IGNORECASE,
)
_ASKED: Final = re.compile(r"[^?？]{1,2000}[?？]+[\"'”」)\s]*")
_LEAST_WORDS: Final = 3
_LEAST_ASIAN_CHARS: Final = 4


def _parts(text: str) -> tuple[str, ...]:
    """Its questions, each with the sentences before it; a whole that doesn't clearly fall into parts is one."""
    asked: list[str] = []
    end = 0
    for match in _ASKED.finditer(text):
        piece, end = match.group(), match.end()
        if asked and not (_HEAD.search(piece) and _is_long(piece)):  # "Any ideas?", "Right?"
            asked[-1] += piece
        else:
            asked.append(piece)
    if asked:
        asked[-1] += text[end:]
    else:
        asked.append(text)
    parts = tuple(part.strip() for piece in asked for part in _clauses(piece) if part.strip())
    return parts or (text.strip(),)


def _clauses(piece: str) -> Iterator[str]:
    start = 0
    for match in _CLAUSE_JOINT.finditer(piece):
        left, right = piece[start : match.start()], piece[match.end() :]
        if _HEAD.search(left) and _HEAD.search(right) and _is_long(left) and _is_long(right):
            yield left
            start = match.end()
    yield piece[start:]


def _is_long(text: str) -> bool:
    return len(text.split()) >= _LEAST_WORDS or (
        not text.isascii() and len(text.strip()) >= _LEAST_ASIAN_CHARS
    )
