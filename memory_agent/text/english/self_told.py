"""What English speakers tell of themselves: facts about a user, and who somebody is."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from memory_agent.lazily import lazily
from memory_agent.text.english.words import ANIMALS, FAMILY, NEAR
from memory_agent.text.moments.rules import rule
from memory_agent.text.tables import alternatives, pattern_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from memory_agent.text.moments.rules import Rule
    from memory_agent.text.sentences import Sentence

_NOT_REAL: Final = r"""
    \b(?:imagine|pretend|suppose|hypothetically|let's say)\b
    \bin (?:the|this|that|my|a) (?:game|story|dream|play|film|movie|novel|song|campaign|musical|opera|sketch
      |book)\b(?! (?:industry|business|club|shop))
    \bcharacter is\b
    \b(?:if|as if|as though|like) i(?:'d)? (?:lived|worked|had|were|was|moved|owned)\b
    \b(?:i wish|would have)\b
    """
_LISTS: Final = {
    "family": FAMILY,
    "animals": ANIMALS,
    "near": NEAR,
    "not_real": alternatives(_NOT_REAL),
    "years": r"(?:\d{1,2}|five|six|seven|eight|nine|ten|eleven|twelve|\w{3,5}teen|twenty|(?:thir|for|fif)ty(?:-\w+)?)",
    "adverbs": (
        r"(?:really |absolutely |also |do |don't |do not |usually |mostly |personally |never |just |actually |always"
        r"|only |truly |still |both |currently |now |recently |finally |used to |have |no longer )*"
    ),
}


def _fact(cues: str, table: str, *, unless: str = "<not_real>", plain: bool = True) -> Rule:
    return rule("user_information", cues, table, unless=unless, role="user", plain=plain, lists=_LISTS)


_FACTS: Final = (
    _fact(
        "name name's surname nickname call",
        r"""
        \bmy (?:full |first |last |real |middle |maiden )?(?:name|surname|nickname)(?:'s| is)\b
        ^(?:please |just |you can )*call me [a-z]{2,}(?! (?:when|later|back|if|tomorrow|a ))
        """,
    ),
    _fact(
        "i'm i am im i've we're we",
        r"""
        \b(?:i'm|i am|im) (?:now |currently |almost |already )?(?:\d{1,3}(?: years old|,| and\b|\.|$)|(?:in my
          |turning) (?:early |mid|late )*[-a-z0-9]+)
        \b(?:i'm|i am|im|i've been) (?:\w+ )?(?:married|single|divorced|widowed|engaged|pregnant|retired
          |unemployed|vegan|vegetarian|diabetic|allergic|lactose|left-handed|jewish|muslim|christian|bilingual
          |an only child)\b
        \b(?:i'm|i am) (?:originally |actually |also )*from (?!the (?:future|bottom|perspective)|here|now|what
          |this|my|a (?!(?:\w+ )?(?:village|town|city|farm|family|island|suburb)))
        \b(?:i'm|i am|we're|we are) (?:the (?:youngest|oldest|eldest|middle) (?:of|child)\b|retiring
          |getting (?:married|divorced)|moving (?:to|in with)|having a baby|expecting|starting (?:a|my) new
          |based in|training for|learning|studying|majoring|raising)\b
        """,
    ),
    _fact(
        "i'm i am was work worked i've",
        r"""
        \b(?:i'm|i am|i was|i've been|i used to be|i work as|i worked as) (?:also |actually |currently |now
          \ |just )*an? (?!bit|little|lot|tad|wreck|mess|fool|idiot|loser|failure|total|complete|huge|big|step
          |hundred|ghost|few|while|good\b|bad\b|better|great\b|terrible|horrible|kind|type|person who|firm
          |strong|burden|disappointment|joke|monster|different|(?:[a-z-]+ ){0,3}(?:introvert|extrovert
          |optimist|pessimist|realist|perfectionist|dreamer|person|believer|soul|romantic|planner|fighter
          |softie|creature|being)\b)(?:[a-z-]+ ){0,3}?[a-z-]{3,}
        """,
    ),
    _fact(
        "not person have come quit afraid scared lost birth support",
        r"""
        \bi(?:'m| am) (?:not )?(?:really )?an? (?:morning|night|people|dog|cat|coffee|tea) (?:person|owl
          |bird)\b
        \bi (?:don't|do not) have (?:any |a )?(?:kids|children|siblings|brothers|sisters|pets|car|job
          |degree)\b
        \bi (?:originally |actually )?come from (?!the (?:store|gym|perspective|future))
        \bi(?:'m| am) (?:\w+ )?(?:afraid|scared|terrified) of (?:heights|spiders|flying|dogs|the dark|water)\b
        \b(?:i|we) lost (?:my|our|a) (?:\w+ )?(?:<family>|job|house|home)\b
        \bi quit (?:smoking|drinking)\b
        """,
        unless="",
        plain=False,
    ),
    _fact(
        """work worked working live lived living moved grew born rent commute retired was were study studied graduated
        majored teach run own studying""",
        r"""
        \b(?:i|we)(?:'ve|'d)? <adverbs>(?:work|worked) (?:as|at|for|in|from|part|full|\w+ days|remotely
          |nights?|on|with)\b(?! (?:it|this|that|me|you|what)\b)
        \b(?:i|we)(?:'ve|'d)? <adverbs>(?:live|lived) (?:in|with|alone|near|at|by|next to|on (?:a|the|my)
          |abroad)\b(?! (?:this|peace|fear|it))
        \b(?:i|we)(?:'ve|'d)? <adverbs>(?:moved (?:to|from|into|back|here)|grew up|(?:was|were) (?:born
          |raised)|study|studied|graduated|major(?:ed)? in|teach|run (?:a|my)(?! (?:script|test|program
          |command|query|job))|(?:own|rent) (?:a|my|our)|commute|retired)\b
        \b(?:i'm|i am|we're|i've been) <adverbs>(?:working (?:as|at|for|in)|living (?:in|with|alone|near)
          |studying)\b
        """,
        plain=False,
    ),
    _fact(
        "have i've got own adopted",
        r"""
        \b(?:i|we)(?:'ve)? <adverbs>(?:have|got|had|own|adopted) (?:a |an |one |two |three |four |\d+ |no
          \ |some |my )*(?:\w+ ){0,2}?(?:<family>|<animals>s?|siblings?|pets?|puppies|(?:golden
          \ |labrador )?retriever|diabetes|asthma|adhd|depression|anxiety|cancer|migraines?|arthritis
          |allerg(?:y|ies)|degree|phd)\b
        """,
    ),
    _fact(
        "diagnosed suffer suffering allergic medication",
        r"""
        \bi(?:'ve been| was| got| have been| am|'m)? (?:just |recently |also )?(?:diagnosed with
          |suffer(?:ing)? from|allergic to|on medication|take medication)
        """,
    ),
    _fact(
        "my our",
        r"""
        \b(?:my|our) (?:\w+ )?(?:<family>|<animals>)(?:'s name is|'s (?=an?\b|in\b|from\b|at\b|\d|married
          |pregnant)|(?: is| are) (?!driving|calling|being|so\b|such|too\b|very|just|really|always|never
          |coming|not talking|annoying|angry|mad|funny|right|wrong|here\b|the (?:\w+ )?(?:one|type|kind|best
          |worst)\b)| was (?:a|an|born|diagnosed)| ha(?:s|ve)| works?\b| runs?\b| lives?\b| lived| loves?\b
          | likes?\b| died| passed away| got| just| turned| moved| stud(?:y|ies)| lost (?:his|her|their|the)
          | and i (?:live|have|are|moved|got|were)| named|,? [a-z]+, (?:is|has|works|lives|was))
        \b(?:he|she|they)(?:'s| is|'re| are| was) (?:my|our) (?:[a-z-]+ ){0,2}<near>s?\b
        """,
    ),
    _fact(
        "my",
        r"""
        \bmy (?:birthday|job|occupation|home ?town|major|native language|mother tongue|hobby|hobbies
          |favou?rite(?: \w+)?|address|phone number|dream|goal|degree|religion|apartment|house|flat|office
          |landlord|landlady|school|company|commute)(?: \w+){0,3} (?:is|are|was)\b
        \bmy (?:dream|goal) (?:is|has always been) to
        """,
        unless=r"""
        \bmy (?:favou?rite|dream|house|job)(?: \w+)? part\b
        \bmy (?:house|flat|office|apartment|school) is (?:a mess|so|too|really|cold|hot|dirty|clean|closed
          |full)\b
        \bmy job (?:is|was) (?:done|to help)
        """,
        plain=False,
    ),
    _fact(
        """love like enjoy hate prefer adore dislike stand fan into drink eat smoke play speak collect usually normally
        often typically""",
        r"""
        \bi <adverbs>(?:love|like|enjoy|hate|prefer|adore|dislike|can't stand)(?: to)? (?!it\b|this|that|you
          |him|his\b|her|their\b|them|when you|your|how|what|the |seeing|to (?:know|ask|talk|think|hear|thank)
          |where|being|when|my life|myself|us\b|these|those|both\b|everything)[a-z]{2,}
        \bi(?:'m| am) (?:not )?(?:a |really |very |totally |also )*(?:big |huge |massive )?(?:fan of|into
          |fond of|obsessed with|addicted to) (?!you|this|that|it\b)
        \bi (?:don't|do not|never|usually|only|can't|cannot) (?:drink|eat|smoke)\b
        \bi (?:usually|normally|always|often|typically) (?:wake up|get up|go (?:to (?:bed|the gym)|running)
          |sleep|work|run|eat|drink)
        \bi (?:also |can |used to )*(?:play (?:the |[a-z]+)|speak (?!to|with|for|up|about|of|out)|collect\b)
        """,
        unless=r"\b(?:would|i'd|might|could|may|should) (?:love|like|prefer|hate)\b|<not_real>",
        plain=False,
    ),
    _fact(
        "plan planning hoping going next want dream saving",
        r"""
        \b(?:i'm|i am|we're|we are) <adverbs>(?:planning (?:to|a|on|my|our)\b|saving (?:up )?(?:for|to)
          |hoping to (?:become|move|start|get|study)|going to (?:have (?:a|an|the|my) (?:\w+ )?(?:operation
          |surgery|baby)|move|marry|get married|study|travel|start (?:a|my)|visit|open|be a (?:father|mother
          |dad|mom)))
        \b(?:i|we) plan (?:to|on)\b
        \bi (?:want|dream|hope) (?:of becoming|to (?:become|be an?|work as|study|live in|start my own
          |retire))\b
        \bnext (?:week|month|year|summer|spring|fall|winter|monday|friday|weekend),? (?:i'm|i am|i'll|we're
          |we'll)\b
        """,
    ),
    _fact(
        "started joined took been enrolled start got bought quit lost",
        r"""
        \b(?:i've|i have|we've) (?:just |recently |finally |also )*started (?!to\b|the\b|a\b|this|that|it\b|my
          |on\b|with|from|by\b|over|again|writing|reading|thinking|wondering|feeling|crying|noticing
          |asking)[a-z]{3,}
        \b(?:i|we|i've|we've) (?:just |recently |finally |also )*(?:joined (?:a|the|my) (?:\w+ )?(?:choir|band
          |gym|club|team|course|class|army|church|union|group|society|company)|took up [a-z]+|enrolled)\b
        \bi(?:'ve| have) been (?:playing|learning|working|living|teaching|studying|running|doing|married|there
          |with|a|an|at|in)\b[^.!?]{0,40}\b(?:for (?:\w+ ){1,3}(?:years?|months|weeks|decades?)|since)\b
        \bi start (?:my|at|in|as|on (?:the|mon|tue|wed|thu|fri|sat|sun|\d))
        \b(?:i|we)(?:'ve)? (?:just |recently |finally |also )*(?:got (?:a (?:new )?job|promoted|engaged
          |married|divorced|a (?:dog|cat|puppy|kitten))|started (?:a|my) (?:new )?(?:job|business|company
          |career|degree|course)|bought (?:a|our|my) (?:\w+ )?(?:house|car|apartment|flat|home)|(?:quit
          |lost) my job)\b
        """,
    ),
    _fact(
        """fired laid redundant notice go operation surgery therapist therapy counsellor offer job resigned interview exam
        appointment insulin inhaler pen wheelchair living songs poems stories dr""",
        r"""
        \b(?:i|we)(?:'ve)? (?:was|were|got|been|just got|have been) (?:fired|laid off|made redundant|let go)\b
        \bthey(?:'ve)? (?:let me go|fired me|laid me off)\b
        \bi(?:'ve)? (?:just |already |finally )?(?:handed in my (?:notice|resignation)|gave (?:my
          \ |in my )?notice|resigned)\b
        \bi(?:'m|'ll| am| have to| need to| had)? (?:be |going to )?(?:having |have |get |getting )?(?:an?|the
          |my) (?:\w+ ){0,2}(?:operation|surgery|transplant|stroke|heart attack|miscarriage)\b
        \bi(?:'ve been)? (?:see|seeing|saw) (?:a|my) (?:therapist|counsellor|psychiatrist)\b
        \bi see (?:[a-z]+,? ){0,5}(?:a |my )?dr\b
        \bi (?:carry|use|take|inject|need) (?:an? |my )?(?:epi-?pen|pen|insulin|inhaler|wheelchair)\b
        \bi(?:'m| am) (?:taking|accepting) (?:the|a|their) (?:\w+ )?(?:job|offer|position)\b
        \bi(?:'ve| have)(?: got)? (?:an?|my) (?:\w+ )?(?:interview|exam|appointment|operation)\b
        \bi (?:\w+ ){1,4}for a living\b
        \bi (?:also |still |mostly )?(?:write|paint|make|compose) (?:songs|poems|stories|furniture|music
          |films)\b
        """,
        plain=False,
    ),
    _fact(
        "mortgage rent salary pension income savings pay debt loan wage earn owe saved",
        r"""
        \b(?:my|our|the) (?:\w+ )?(?:mortgage|rent|salary|pension|income|savings|pay|debt|loan|wages?) (?:is
          |are|was|comes to|of)(?: \w+){0,3} [£$€]?\d
        \b(?:i|we) (?:only |still |now |both )?(?:earn|owe|saved|have saved)\b[^.!?]{0,25}\d
        """,
    ),
    _fact(
        "is was years since always drive ride",
        r"""
        (?:^|[ ,])[a-z]+(?:'s| is) <years> and [a-z]+(?:'s| is) <years>\b(?! o'clock)
        \bi was (?:only |about |just )?<years>(?= years old|[,.;]| when\b| and\b)
        \b(?:years?|months) (?:at|with|in|for) [^.!?]{2,40} as an? [a-z]
        \bsince i was (?:a (?:kid|child|teenager|girl|boy|student)|<years>)\b
        \bi(?:'ve| have) always (?:wanted|dreamed|dreamt) (?:to|of) [a-z]+
        \bi (?:drive|ride) an? (?!hard\b)[a-z]+
        """,
    ),
)

# --- somebody who is named: names need their capitals ------------------------------------------------------------
_INTRODUCED: Final = lazily(
    re.compile,
    r"\bI(?:'m| am) (?!(?:The|So|Not|Just|Very|Really|Sorry|Here|Sure|Fine|Done)\b)[A-Z][a-z]{1,15}\b(?![a-z-])"
    r"(?= ?(?:[.,!]|and|from|$|\bI\b|by the way))",
)
_RELATIVE_NAMED: Final = pattern_of(
    r"""
    \b(?:[Mm]y|[Oo]ur) (?:[a-z-]+ ){0,2}<near>,? <name>
    \b(?:[Mm]y|[Oo]ur) (?:[a-z-]+ ){0,2}[a-z]+(?:'s| is| are) (?:called|named) (?:\w+ )?<name>
    \b(?!(?:That|This|It|He|She|They|You|Here|There|What|Who)\b)<name>(?:'s| is|,| was) (?:my
      |our) (?:[a-z-]+ ){0,2}<near>\b
    \b(?:I|We)(?:'ve| have)(?: got)? an? (?:[a-z-]+ ){0,2}<near>,? (?:called|named) <name>
    """,
    near=NEAR,
    name=r"(?!I\b|I'|The\b|And\b|But\b|God\b|Oh\b|So\b)[A-ZÀ-ÖØ-Þ][^\W\d_]+",
)
_UNREAL: Final = pattern_of(_NOT_REAL)


def names_people(sentences: Sequence[Sentence]) -> bool:
    """ "I'm Anna." at the beginning of a turn, "my wife Ewa", "Mango is my cat" anywhere."""
    if any(not sentence.asks and _INTRODUCED.search(sentence.text) for sentence in sentences[:2]):
        return True
    return any(not sentence.asks and _names_relative(sentence) for sentence in sentences)


def _names_relative(sentence: Sentence) -> bool:
    if sentence.words.isdisjoint({"my", "our", "called", "named"}):
        return False
    match = _RELATIVE_NAMED.search(sentence.text)
    # What is blank in `low` is quoted: somebody else's words.
    return match is not None and sentence.low[match.start()] != " " and not _UNREAL.search(sentence.low)


# --- who somebody is ---------------------------------------------------------------------------------------------
_CHARACTER_LISTS: Final = {
    "not_real": alternatives(_NOT_REAL),
    "value": (
        r"(?:lie|cheat|steal|betray|judge|give up|break (?:a|my|any)|abandon|hurt|compromise|hide|pretend|back down"
        r"|keep (?:my|a|your|every)|tell (?:you )?the truth|speak (?:my mind|the truth|honestly)|stand (?:up|by|with)"
        r"|put (?:my |your |other |the )?(?:family|people|others|friends|kindness|honesty)"
        r"|try (?:my best|to (?:be|do|see|stay|understand|find|help|treat|tell|listen|keep))|strive|admit|protect|value"
        r"|believe|do my best|listen before|respect|be (?:honest|fair|there)|leave (?:anyone|someone|a friend))"
    ),
    "virtue": (
        r"(?:honesty|loyalty|family|trust|kindness|freedom|integrity|respect|friendship|faith|love|justice|truth|fairness)"
    ),
    "trait": (
        r"(?:honest|loyal|patient|stubborn|shy|introvert(?:ed)?|extro?vert(?:ed)?|optimis(?:t|tic)|pessimis(?:t|tic)"
        r"|curious (?:by nature|person|soul|at heart)|sarcastic|perfectionist|ambitious|competitive|empathetic"
        r"|compassionate|cheerful|playful|reserved|blunt|gentle|protective|independent|cautious|adventurous"
        r"|responsible|reliable|sensitive|generous|humble|disciplined|open-minded|thoughtful|warm|witty|realist"
        r"|free spirit|dreamer|fighter|planner|romantic|bookworm)"
    ),
}


def _character(cues: str, table: str, *, unless: str = "<not_real>", plain: bool = False) -> Rule:
    return rule("character_defining", cues, table, unless=unless, plain=plain, lists=_CHARACTER_LISTS)


_CHARACTERS: Final = (
    _character(
        "always never would refuse won't cannot will i'd can't",
        r"""
        \bi(?:'ll|'d)? (?:will |would |have |could |can )?(?:always|never|never ever|always will) (?:have
          \ |once )?<value>
        \bi refuse to <value>
        \bi (?:won't|will not|cannot|can't) (?:ever )?(?:lie to|betray|abandon|tolerate (?:injustice|lies)
          |stand (?:by|idly|injustice|bullies|liars))
        """,
        unless=r"\bi (?:should|wish|'d have|would have)\b|\bi never (?:said|meant|thought)\b|<not_real>",
    ),
    _character(
        """who how afraid kind type sort someone person i've myself nature principle principles values value motto weakness
        strength philosophy raised matters everything comes means believe stand care live proud pride against keep speak give don't""",
        r"""
        \bi(?:'m| am|'ve (?:always )?been)? (?:not )?(?:really |just |always )*(?:the|a) (?:kind|type
          |sort) of (?:person|guy|girl|woman|man|ai|assistant|friend|companion|one|teacher|parent)\b
        \bi(?:'m| am) (?:not )?(?:the (?:type|sort)|someone|somebody|a person|one) (?:who|that|to)\b(?! (?:you
          |is)\b)
        \bi(?:'ve| have) always been (?:an? |very |quite |so |pretty )?(?!here|to|in|afraid of|told|curious
          |fascinated|confused|interested|a fan|able|in love|my|the|happy|sad)[a-z]+
        \bi (?:consider|see|think of) myself (?:as )?
        \b(?:it's|that's) (?:just )?(?:in my nature|who i am|how i am|the way i am|how i was raised)
          |\bi was raised to\b
        \bmy (?:core |greatest |biggest |main |own )*(?:personality|principles?|values?|motto|character
          |weakness|strength|philosophy)(?: in life)? (?:is|are|has)\b
        \b<virtue> (?:is|means|matters|comes|has always been|matter) (?:everything|the (?:only|one
          |most important) thing|more|most|the most|first|above|very important|sacred|non-negotiable|my)
        \bi (?:(?:truly|really|firmly|strongly|deeply|always|still
          |genuinely) )*(?:(?<!what i )believe (?:in (?!you\b|your\b|us\b|santa|ghosts|him|her\b|it\b|this
          |that)|(?:that )?(?:everyone|everybody|people|honesty|kindness|every (?:person|human|life)|love))
          |value (?!for|your (?:time|opinion|feedback))[a-z]+|stand for|live by|care (?:deeply|a lot
          |most) about)
        \bi(?:'m| am) (?:very |deeply )?proud to be an?\b|\bi pride myself on\b
        \bi (?:don't|do not|never) (?:give up|let (?:people|anyone|a friend|friends) down|hold grudges)\b
        \bi(?:'m| am) (?:not )?(?:really |just |quite )?an? (?!(?:\w+ )?(?:morning|night|people|dog|cat|coffee
          |tea|early|different|new|changed|free|single|busy|terrible|bad|awful|sick) person)(?:very
          \ |rather )?[a-z-]+ person\b
        \b(?:goes )?against (?:everything i (?:am|believe)|my (?:principles|nature|values|conscience))
        \bi (?:keep|give) my (?:word|promises?)\b|\bi speak my mind\b
        \bi(?:'m| am) not afraid to (?:speak|say|stand|tell|fight|be)\b
        \bwhat (?:matters|i value|i care about) (?:the )?most (?:to me )?is\b
        """,
    ),
    _character(
        "i'm i am",
        r"""
        \bi(?:'m| am) (?:naturally|always|inherently|endlessly) curious\b
        \bi(?:'m| am| was born| tend to be) (?:naturally |by nature |always |very |quite |pretty |generally
          \ |fiercely |an? |bit of a |really |such |basically |hopeless |deeply |the |too |kind of
          \ |rather )*<trait>(?: (?:person|by nature|soul|at heart|one))?\b(?!,? (?:any|what|how|if|whether
          |why|when|where|who|which|do|did)\b|,? (?:with you|to (?:know|see|hear)|about (?:what|how|why|this
          |that|your|it)|for you| of (?:the|a|my|his|her)\b))
        """,
        unless=r"\b(?:to be|be|being) (?:completely |totally |perfectly |brutally )?honest\b|<not_real>",
        plain=True,
    ),
)

RULES: Final = (*_FACTS, *_CHARACTERS)
