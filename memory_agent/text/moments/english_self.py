"""The rules for what English speakers tell of themselves: facts about the user, and who somebody is."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from memory_agent.text.moments.rules import Rule
from memory_agent.text.word_set import word_set

if TYPE_CHECKING:
    from memory_agent.text.sentences import Sentence


def _about_user(cues: str, pattern: str, *, unless: str | None = None, plain: bool = True) -> Rule:
    return Rule(
        kind="user_information",
        pattern=re.compile(pattern),
        cues=word_set(cues),
        unless=None if unless is None else re.compile(unless),
        role="user",
        plain=plain,
    )


_RELATION: Final = (
    r"(?:wife|husband|spouse|partner|fianc[eé]e?|girlfriend|boyfriend|mom|mum|mother|dad|father|parents|sister|brother|sisters|brothers"
    r"|son|daughter|kids|children|kid|child|baby|grandma|grandpa|grandmother|grandfather|grandparents|granny|uncle|aunt|cousin|niece|nephew|twins|family|step(?:father|mother|son|daughter|sister|brother)|in-laws|(?:mother|father|sister|brother)-in-law|grandson|granddaughter|grandchildren|late (?:wife|husband)"
    r"|dog|cat|puppy|kitten|roommate|ex)"
)
_KIN: Final = (
    r"(?:wife|husband|partner|fianc[eé]e?|girlfriend|boyfriend|mom|mum|mother|dad|father|sister|brother|son|daughter|kid|child|baby|grandma"
    r"|grandpa|grandmother|grandfather|granny|uncle|aunt|cousin|niece|nephew|stepson|stepdaughter|stepfather|stepmother|godson|goddaughter"
    r"|twins|friend|flatmate|roommate|housemate|neighbou?r|colleague|boss|manager|teacher|therapist|doctor|coach|mentor|ex"
    r"|dog|cat|puppy|kitten|horse|rabbit|parrot|hamster|tortoise|spaniel|pony)"
)
_YEARS: Final = (
    r"(?:\d{1,2}|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|thirteen|fourteen|fifteen|sixteen|seventeen|eighteen"
    r"|nineteen|(?:twenty|thirty|forty|fifty|sixty|seventy|eighty|ninety)(?:-\w{3,5})?)"
)
_NOT_REAL: Final = r"\b(?:imagine|pretend|suppose|hypothetically|let's say|in (?:the|this|that|my|a) (?:game|story|dream|play|film|movie|novel|song|campaign|musical|opera|sketch|book)\b(?! (?:industry|business|club|shop))|character is|(?:if|as if|as though|like) i(?:'d)? (?:lived|worked|had|were|was|moved|owned)|i wish|would have)\b"

_FACTS: Final = (
    _about_user(
        "name call name's surname nickname surname's",
        r"\bmy (?:full |first |last |real |middle |maiden )?(?:name|surname|nickname)(?:'s| is)\b|^(?:please |just |you can )*call me [a-z]{2,}(?! (?:when|later|back|if|tomorrow|a ))",
    ),
    _about_user(
        "i'm i am im i've we're we",
        r"\b(?:i'm|i am|im) (?:now |currently |almost |already )?(?:\d{1,3}(?: years old|,| and\b|\.|$)|(?:in my|turning) (?:early |mid|late )*[-a-z0-9]+)"
        r"|\b(?:i'm|i am|im|i've been) (?:also |actually |currently |a bit |now |really |not |only |newly |severely |badly |highly |happily |recently |partly |mildly |nearly )*(?:married|single|divorced|widowed|engaged|pregnant|retired|unemployed|self-employed|vegan|vegetarian|pescatarian|diabetic|allergic|lactose"
        r"|left-handed|gay|lesbian|bisexual|trans|jewish|muslim|christian|catholic|buddhist|hindu|autistic|dyslexic|colou?r-?blind|deaf|bilingual|celiac|gluten|nearsighted|an only child"
        r"|korean|american|british|german|french|japanese|chinese|indian|canadian|australian|mexican|italian|spanish|brazilian|dutch|polish|irish)\b"
        r"|\b(?:i'm|i am) (?:originally |actually |also )*from (?!the (?:future|bottom|perspective)|here|now|what|this|my|a (?!(?:\w+ )?(?:village|town|city|farm|family|island|suburb)))"
        r"|\b(?:i'm|i am|we're|we are) (?:the (?:youngest|oldest|eldest|middle) (?:of|child|sister|brother)\b|retiring|getting (?:married|divorced)|moving (?:to|in with)|on (?:night|day|early|late|the night|the early|the late) shifts?\b|on (?:parental|maternity|paternity|sick) leave|having a baby|expecting|starting (?:a|my) new|graduating|allergic to|based in|training for|learning|studying|majoring|raising)\b",
    ),
    _about_user(
        "i'm i am was work worked i've",
        r"\b(?:i'm|i am|i was|i've been|i used to be|i work as|i worked as) (?:also |actually |currently |now |just )*an? (?!bit|little|lot|tad|wreck|mess|fool|idiot|loser|failure|total|complete|huge|big|step|hundred|ghost|few|while|good\b|bad\b|better|great\b|terrible|horrible"
        r"|kind|type|person who|firm|strong|burden|disappointment|joke|monster|different|(?:[a-z-]+ ){0,3}(?:introvert|extrovert|optimist|pessimist|realist|perfectionist|dreamer|person|believer|soul|romantic|planner|fighter|softie|creature|being)\b)(?:[a-z-]+ ){0,3}?(?:[a-z-]{3,})",
        unless=_NOT_REAL,
    ),
    _about_user(
        "not person have come quit afraid scared terrified phobia allergy condition illness disability therapist doctor faith weigh tall m metres meters feet foot church mass mosque synagogue temple therapy gym support sold lost birth bad weak failing broken damaged worn poor gone replaced",
        r"\bi(?:'m| am) (?:not )?(?:really |much of )?an? (?:morning|night|people|dog|cat|coffee|tea|early|outdoors?) (?:person|owl|bird)\b|\bi (?:don't|do not) have (?:any |a )?(?:kids|children|siblings|brothers|sisters|pets|car|job|degree)\b|\bi (?:originally |actually )?come from (?!the (?:store|gym|perspective|future))|\bi quit (?:smoking|drinking)\b|\bi(?:'m| am) (?:\w+ )?(?:afraid|scared|terrified) of (?:lifts|elevators|cats|birds|needles|thunder|bees|wasps|ghosts|driving|the sea|(?:small|closed|tight) spaces)\b|\bmy (?:phobia|allergy|condition|illness|disability|therapist|doctor|faith) (?:is|are)\b|\bi weigh (?:about |around )?\d|\bi(?:'m| am) \d(?:[.,]\d+)? ?(?:m|metres|meters|feet|foot|tall)\b|\bi go to (?:church|mass|the mosque|the synagogue|temple|therapy|the gym)\b|\bi support (?!you|your|this|that|the (?:idea|plan|proposal|motion)|it\b)[a-z]+,|\bi sold my (?:car|house|flat|business|company|boat|bike|shop)\b|\b(?:i|we) lost (?:my|our|a) (?:\w+ )?(?:father|mother|dad|mum|mom|son|daughter|husband|wife|brother|sister|baby|job|house|home|leg|sight|hearing)\b|\bi gave birth\b|\bmy (?:knees?|hips?|back|heart|eyes|hearing|eyesight|thyroid|lungs|kidneys?) (?:is|are|has|have) (?:\w+ )?(?:bad|weak|failing|broken|damaged|worn|poor|gone|been replaced)\b|\bi(?:'m| am) (?:\w+ )?(?:afraid|scared|terrified) of (?:heights|spiders|flying|dogs|snakes|clowns|needles|water|the dark|public speaking)\b",
        plain=False,
    ),
    _about_user(
        "work worked working live lived living moved grew born rent commute retired left dropped emigrated do did done served was were study studied graduated major majored teach run own studying",
        r"\b(?:i|we)(?:'ve|'d)? (?:currently |now |still |just |recently |also |both |used to |have |don't |no longer |mostly |always |only |never )*(?:(?:work|worked) (?:as|at|for|in|from|part|full|(?:one|two|three|four|five|six) days|remotely|night|nights|on|with)\b(?! (?:it|this|that|me|you|what)\b)|(?:live|lived) (?:in|with|alone|near|at|by|above|below|next to|opposite|on (?:a|the|my|\w+ (?:street|road|avenue|lane))|abroad|just)\b(?! (?:this|peace|fear|it))|moved (?:to|from|into|back|here)\b"
        r"|grew up\b|(?:was|were) (?:born|raised)\b|study\b|studied\b|graduated\b|major(?:ed)? in|teach\b|run (?:a|my)\b(?! (?:script|test|program|command|query|job))|own (?:a|my|our)\b|rent (?:a|an|our|my|the)\b|commute\b|retired\b|left school\b|dropped out of\b|emigrated\b|(?:do|did|have done) (?:the |a )?(?:night|day|early|late|shift)[- ](?:shifts?|work)\b|(?:was|were|served) in the (?:army|navy|military|air force|police))"
        r"|\b(?:i'm|i am|we're|i've been) (?:currently |now |still |also )*(?:working (?:as|at|for|in)|living (?:in|with|alone|near)|studying)\b",
        unless=_NOT_REAL,
        plain=False,
    ),
    _about_user(
        "have have i've got own adopted",
        r"\b(?:i|we)(?:'ve)? (?:also |still |currently |recently |just |only )*(?:have|got|had|own|adopted|raise) (?:a |an |one |two |three |four |five |six |\d+ |no |some |my |twin |both )*(?:\w+ ){0,2}?(?:kids?|child(?:ren)?|sons?|daughters?|brothers?|sisters?|siblings?|dogs?|cats?|pets?|(?:golden |labrador )?retriever|labrador|poodle|terrier|bulldog|shepherd|husky|corgi|pupp(?:y|ies)|kittens?|rabbits?|parrots?"
        r"|diabetes|asthma|adhd|depression|anxiety|cancer|migraines?|arthritis|epilepsy|insomnia|hearing aids?|pacemaker|allerg(?:y|ies)|autism|ptsd|ocd|degree|phd|twins)\b",
        unless=_NOT_REAL,
    ),
    _about_user(
        "diagnosed suffer suffering allergic medication",
        r"\bi(?:'ve been| was| got| have been| am|'m)? (?:just |recently |also )?(?:diagnosed with|suffer(?:ing)? from|allergic to|on medication|take medication)",
    ),
    _about_user(
        "my our",
        rf"\bmy (?:late |older |younger |little |big |ex-|elder |youngest |oldest |new |three |two |best )*{_RELATION}(?:'s name is|'s (?=an?\b|in\b|from\b|at\b|\d|married|pregnant)| is (?!driving|calling|being|so\b|such|too\b|very|just|really|always|never|coming|not talking|annoying|angry|mad|funny|right|wrong|here\b|the (?:\w+ )?(?:one|type|kind|best|worst)\b)| are (?!driving|being|so|really|coming)| was (?:a|an|born|diagnosed)| has| have| works?\b| worked| lives?\b| lived| loves?\b| likes?\b| died| passed away"
        rf"| got| just| turned| moved| suffers?| studies| plays| speaks| taught| became| runs? a| ran a| owns?| owned| retired| emigrated| came from| grew up| teaches| drives a| lost (?:his|her|their|the)| gave me (?:his|her)| brings home| earns?| and i (?:live|have|are|moved|got|were)|,? [a-z]+, (?:is|has|works|lives|was)| named)",
        unless=_NOT_REAL,
    ),
    _about_user(
        "my our",
        r"\bmy (?:birthday|job|occupation|hometown|home town|major|native language|mother tongue|hobby|hobbies|favou?rite \w+|favou?rite|address|phone number|email|dream|goal|degree|religion|nationality|blood type|zodiac sign|pronouns|apartment|house|flat|office|landlord|landlady|school|company|workplace|commute)(?: \w+){0,3} (?:is|are|was)\b|\bmy shifts? (?:is|are|starts?|ends?)\b"
        r"|\bmy (?:dream|goal) (?:is|has always been) to",
        unless=r"\bmy (?:favou?rite|dream|house|job)(?: \w+)? part\b|\bmy (?:house|flat|office|apartment|school) is (?:a mess|so|too|really|cold|hot|dirty|clean|quiet|closed|empty|full)\b|\bmy job (?:is|was) (?:done|to help)",
        plain=False,
    ),
    _about_user(
        "love like enjoy hate prefer adore dislike stand fan into drink eat smoke play speak collect usually normally often typically",
        r"\bi (?:really |absolutely |also |do |don't |do not |usually |mostly |personally |never |just |actually |always |only |secretly |truly )*(?:love|like|enjoy|hate|prefer|adore|dislike|can't stand)(?: to)? (?!it\b|this|that|you|him|his\b|her|their\b|them|when you|your|how|what|the |seeing|to (?:know|ask|talk|think|hear|thank)|where|being|when|my life|myself|us\b|these|those|both\b|everything)[a-z]{2,}"
        r"|\bi(?:'m| am) (?:not )?(?:a |really |very |totally |also )*(?:big |huge |massive )?(?:fan of|into|fond of|obsessed with|addicted to) (?!you|this|that|it\b)"
        r"|\bi (?:don't|do not|never|usually|only|can't|cannot) (?:drink|eat|smoke)\b|\bi (?:also |can |used to )*(?:(?:usually|normally|always|often|typically) (?:wake up|get up|go to (?:bed|the gym)|go running|sleep|work|run|eat|drink|have (?:breakfast|dinner|lunch))|play (?:the |guitar|piano|violin|drums|tennis|soccer|football|basketball|golf|chess|video)|speak (?!to|with|for|up|about|of|out)|collect\b)",
        unless=r"\b(?:would|i'd|might|could|may|should) (?:love|like|prefer|hate)\b|" + _NOT_REAL,
        plain=False,
    ),
    _about_user(
        "plan planning hoping going next dream want saving",
        r"\b(?:i'm|i am|we're|we are) (?:also |currently |finally |actually )*(?:planning (?:to|a|on|my|our)\b|saving (?:up )?(?:for|to)|hoping to (?:become|move|start|get|study)|going to (?:have (?:a|an|the|my) (?:\w+ )?(?:operation|surgery|baby|scan|biopsy|transplant)|move|marry|get married|study|travel|start (?:a|my)|apply|retire|visit|open|launch|quit|japan|korea|europe|be a (?:father|mother|dad|mom)|have a baby))"
        r"|\b(?:i|we) plan (?:to|on)\b|\bi (?:want|dream|hope) (?:of becoming|to (?:become|be an?|work as|study|live in|start my own|retire))\b|\bnext (?:week|month|year|summer|spring|fall|winter|monday|friday|weekend),? (?:i'm|i am|i'll|we're|we'll)\b"
        r"|\b(?:i'm|we're|i'll|i am) (?:flying|traveling|travelling|going|visiting|moving|be \w+ing) (?:\w+ ){0,5}next (?:week|month|year|summer|spring|fall|winter|monday|friday|weekend)\b",
        unless=_NOT_REAL,
    ),
    _about_user(
        "started joined took taken been enrolled signed enrol start",
        r"\b(?:i've|i have|we've) (?:just |recently |finally |also )*started (?!to\b|the\b|a\b|this|that|it\b|my|on\b|with|from|by\b|over|again|writing|reading|thinking|wondering|feeling|crying|noticing|asking)[a-z]{3,}"
        r"|\b(?:i|we|i've|we've) (?:just |recently |finally |also )*(?:joined (?:a|the|my) (?:\w+ )?(?:choir|band|gym|club|team|course|class|army|navy|party|church|union|group|society|company|firm|orchestra)\b|(?:took|taken|take) up (?!the (?:offer|issue))[a-z]+|enrolled|enrol|enroll)"
        r"|\bi(?:'ve| have) been (?:playing|learning|working|living|teaching|studying|running|doing|married|sober|there|here|with|a|an|at|in)\b[^.!?]{0,40}\b(?:for (?:\w+ ){1,3}(?:years?|months|weeks|decades?)|since)\b"
        r"|\bi start (?:my|at|in|as|a|on (?:the|mon|tue|wed|thu|fri|sat|sun|\d))",
        unless=_NOT_REAL,
    ),
    _about_user(
        "songs poems poetry living band choir every twice once team league for",
        r"\bi (?:\w+ ){1,4}for a living\b|\bi (?:also |still |mostly )?(?:write|paint|make|compose|restore|build|repair) (?:songs|poems|poetry|stories|novels|furniture|pottery|models|music|films|portraits|landscapes)\b"
        r"|\bi (?:also |still )?(?:sing|play|row|dance|volunteer|act) (?:in|for|at) (?:a|the|our|my) (?:\w+ ){0,2}(?:band|choir|team|league|club|theatre|theater|orchestra|shelter|quartet|hospice|library)\b"
        r"|\bi (?:swim|run|cycle|climb|row|train|box|volunteer|knit|garden|fish|hike|pray|meditate|go \w+) (?:\w+ ){0,3}(?:every|twice|once|three times|on (?:sun|mon|tues|wednes|thurs|fri|satur)days|at weekends)\b",
        unless=_NOT_REAL,
        plain=False,
    ),
    _about_user(
        "drive wear take learned learnt out own",
        r"\bi (?:drive|ride|own) an? (?!hard\b|point)[a-z]+|\bi wear (?:hearing aids?|contact lenses|glasses|a (?:hearing aid|brace|wig|prosthesis|pacemaker|uniform))\b|\bi(?:'ve| have) never (?:learned|learnt|learnt how|learned how) to \w+|\bi take \w+ for (?:my|the) \w+|\bwe (?:have to|must) move out\b",
        unless=_NOT_REAL,
        plain=False,
    ),
    _about_user(
        "fired laid redundant notice go operation surgery hospital chemo diagnosed broke therapist therapy counsellor psychiatrist stroke offer job signed resigned pregnant exam interview appointment licence insulin inhaler pen wheelchair",
        r"\b(?:i|we)(?:'ve)? (?:was|were|got|been|just got|have been) (?:fired|laid off|made redundant|let go)\b|\bthey(?:'ve)? (?:let me go|fired me|laid me off|sacked me|made me redundant)\b|\bi(?:'ve)? (?:just |already |finally )?(?:handed in my (?:notice|resignation)|gave (?:my |in my )?notice|resigned)\b"
        r"|\b(?:i'm|i am|i'll be|i have to|i need to|i had to|i'm having|i had|i'm getting|i need|i've had|i'll have|i'm going to) (?:having |have |get |getting )?(?:an?|the|my) (?:\w+ ){0,2}(?:operation|surgery|transplant|biopsy|bypass|hysterectomy|stroke|heart attack|miscarriage)\b"
        r"|\bi (?:broke|fractured|tore|sprained) my \w+|\bi(?:'ve been)? (?:see|seeing|saw) (?:a|my) (?:therapist|counsellor|psychiatrist|psychologist)\b|\b(?:i'm|i am|i've been) in (?:therapy|chemo|rehab|a wheelchair)\b|\bi (?:carry|use|take|inject|need) (?:an? |my )?(?:epi-?pen|pen|insulin|inhaler|wheelchair)\b"
        r"|\bi(?:'m| am) (?:taking|accepting) (?:the|a|their) (?:\w+ )?(?:job|offer|position|post)\b|\bi(?:'ve| have)(?: got)? (?:an?|my) (?:job |driving |final |doctor's |hospital )?(?:interview|exam|appointment|operation)\b",
        unless=_NOT_REAL,
        plain=False,
    ),
    _about_user(
        "mortgage rent salary pension income savings pay debt loan wage earn owe saved save overdraft",
        r"\b(?:my|our|the) (?:\w+ )?(?:mortgage|rent|salary|pension|income|savings|redundancy pay|severance(?: pay)?|pay|debt|loan|wages?|overdraft) (?:is|are|was|comes to|went up to|of)(?: \w+){0,3} [£$€]?\d|\b(?:i|we) (?:only |still |now |both )?(?:earn|owe|saved|save|have saved|pay|live on)\b[^.!?]{0,25}\d",
        unless=_NOT_REAL,
    ),
    _about_user(
        "my our",
        rf"\b(?:he|she|they)(?:'s| is|'re| are| was) (?:my|our) (?:[a-z-]+ ){{0,2}}{_KIN}s?\b(?! (?:'s|of)\b)",
        unless=_NOT_REAL,
    ),
    _about_user(
        "is see seeing saw dr was",
        rf"(?:^|[ ,])[a-z]+(?:'s| is) {_YEARS} and [a-z]+(?:'s| is) {_YEARS}\b(?! o'clock)|\bi (?:see|saw|am seeing|go to) (?:[a-z]+,? ){{0,5}}(?:a |my )?dr\b|\bi was (?:only |about |just )?{_YEARS}(?= years old|[,.;]| when\b| and\b)",
        unless=_NOT_REAL,
    ),
    _about_user(
        "years since dream wanted always",
        r"\b(?:years?|months) (?:at|with|in|for) [^.!?]{2,40} as an? [a-z]|\bsince i was (?:a (?:kid|child|teenager|girl|boy|student)|\d+|five|six|seven|eight|nine|ten|eleven|twelve|\w+teen|twenty)\b"
        r"|\bi(?:'ve| have) always (?:wanted|dreamed|dreamt) (?:to|of) (?:become|be|becoming|being|work|working|learn|live|living|study|open|run|own|have|start)",
        unless=_NOT_REAL,
    ),
    _about_user(
        "got started bought quit lost",
        r"\b(?:i|we)(?:'ve)? (?:just |recently |finally |also )*(?:got (?:a (?:new )?job|promoted|fired|laid off|engaged|married|divorced|a (?:dog|cat|puppy|kitten))|started (?:a|my) (?:new )?(?:job|business|company|career|degree|course)|bought (?:a|our|my) (?:\w+ )?(?:house|car|apartment|flat|home)|quit my job|lost my job)\b",
    ),
)
NAMED: Final = re.compile(
    r"\bI(?:'m| am) (?!The\b|So\b|Not\b|Just\b|Very\b|Really\b|Sorry\b|Here\b|Sure\b|Fine\b|Done\b)[A-Z][a-z]{1,15}\b(?![a-z-])(?= ?(?:[.,!]|and|from|$|\bI\b|by the way|,))"
)
_PROPER: Final = r"(?!I\b|I'|The\b|And\b|But\b|God\b|Oh\b|So\b)[A-ZÀ-ÖØ-Þ][^\W\d_]+"
_RELATIVE_NAMED: Final = re.compile(
    rf"\b(?:[Mm]y|[Oo]ur) (?:[a-z-]+ ){{0,2}}{_KIN},? {_PROPER}"
    rf"|\b(?:[Mm]y|[Oo]ur) (?:[a-z-]+ ){{0,2}}[a-z]+(?:'s| is| are) (?:called|named) (?:\w+ )?{_PROPER}"
    rf"|\b(?!(?:That|This|It|He|She|They|You|Here|There|What|Who)\b){_PROPER}(?:'s| is|,| was) (?:my|our) (?:[a-z-]+ ){{0,2}}{_KIN}\b"
    rf"|\b(?:I|We)(?:'ve| have)(?: got)? an? (?:[a-z-]+ ){{0,2}}{_KIN},? (?:called|named) {_PROPER}"
)
_KIN_WORDS: Final = frozenset(_KIN.removeprefix("(?:").removesuffix(")").split("|")) | word_set(
    "fiance fiancee fiancé fiancée neighbor neighbour called named"
)
_NOT_REAL_NAMES: Final = re.compile(_NOT_REAL)


def names_relative(sentence: Sentence) -> bool:
    """Whether somebody near the speaker is named: "my wife Ewa", "Mango is my cat", "our treasurer is called Graça"."""
    if sentence.words.isdisjoint(_KIN_WORDS):
        return False
    match = _RELATIVE_NAMED.search(sentence.text)
    # What is blank in `low` is quoted: somebody else's words.
    return (
        match is not None and sentence.low[match.start()] != " " and not _NOT_REAL_NAMES.search(sentence.low)
    )


# --- who somebody is ---------------------------------------------------------------------------------------------
_VALUE_VERB: Final = (
    r"(?:lie|cheat|steal|betray|judge|give up|break (?:a|my|any)|abandon|hurt|compromise|hide|pretend|back down|turn my back|forget (?:a )?(?:friend|kindness|promise|face|favou?r|debt)|keep (?:my|a|your|every)|tell (?:you )?the truth"
    r"|speak (?:my mind|the truth|honestly)|stand (?:up|by|with)|put (?:my |your |other |the )?(?:family|people|others|friends|kindness|honesty|safety|you)|try to (?:be|do|see|stay|understand|find|help|treat|tell|listen|keep)|try my best|strive|aim to|treat (?:people|everyone|others)|listen before"
    r"|admit|say what i|follow through|help (?:others|people|those|friends)|protect|choose (?:kindness|honesty)|value|believe|do my best|look for the good|see the (?:good|best)|tell people|respect|take responsibility|be honest|be fair|be there|leave (?:anyone|someone|a friend)|think before|prefer (?:honesty|truth|kindness))"
)
_TRAIT: Final = (
    r"(?:honest|loyal|curious (?:by nature|person|soul|at heart|one|mind)|patient|stubborn|shy|introverted|extroverted|optimistic|pessimistic|sarcastic|perfectionist|ambitious|competitive|empathetic|compassionate|kind-hearted|cheerful|playful|reserved|blunt|direct|gentle"
    r"|protective|independent|cautious|adventurous|responsible|reliable|sensitive|generous|humble|disciplined|open-minded|straightforward|mischievous|fearless|thoughtful|warm|witty|idealistic|realist|optimist|pessimist|introvert|extrovert|free spirit|dreamer|fighter|planner|romantic|softie|bookworm)"
)
_NO_TRAIT: Final = r"\b(?:to be|be|being) (?:completely |totally |perfectly |brutally )?honest\b|" + _NOT_REAL

_CHARACTERS: Final = (
    Rule(
        kind="character_defining",
        cues=word_set("always never would refuse won't cannot will i'd ever"),
        pattern=re.compile(
            rf"\bi(?:'ll|'d)? (?:will |would |have |could |can )?(?:always|never|never ever|always will) (?:have |once )?{_VALUE_VERB}|\bi (?:would|could) never (?:ever )?{_VALUE_VERB}"
            rf"|\bi refuse to {_VALUE_VERB}|\bi (?:won't|will not|cannot|can't) (?:ever )?(?:lie to|betray|abandon|compromise my|tolerate (?:injustice|lies|dishonesty)|stand (?:by|idly|injustice|bullies|liars))"
        ),
        unless=re.compile(
            r"\bi (?:should|wish|'d have|would have)\b|\bi never (?:said|meant|thought)\b|" + _NOT_REAL
        ),
        plain=False,
    ),
    Rule(
        kind="character_defining",
        cues=word_set(
            """who how afraid kind type sort someone person i've been myself nature personality heart principle principles values
    value motto weakness strength matters everything comes first believe faith stand care raised live
    proud means worth trait core pride rather against always way hopeless terrible patience give keep speak too hate can't despise treat overthink need don't never"""
        ),
        pattern=re.compile(
            r"\bi(?:'m| am|'ve (?:always )?been)? (?:not )?(?:really |just |always |still )*(?:the|a) (?:kind|type|sort) of (?:person|guy|girl|woman|man|ai|assistant|friend|companion|being|one|teacher|parent)\b|\bi(?:'m| am) (?:not )?(?:the type|someone|somebody|a person|one|not one) (?:who|that|to)\b(?! (?:you|is)\b)"
            r"|\bi(?:'ve| have) always been (?:an? |very |quite |so |pretty )?(?!here|to|in|afraid of|told|curious|fascinated|confused|interested|a fan|able|in love|my|the|happy|sad)[a-z]+|\bi (?:consider|see|think of) myself (?:as )?|\b(?:it's|that's) (?:just )?(?:in my nature|who i am|how i am|how i was raised|the way i am)|\bmy (?:core |greatest |biggest |main |guiding |deepest |most important |own )*(?:personality|principles?|values?|motto|nature|character|weakness|strength|philosophy|belief|conviction)(?: in life)? (?:is|are|has)\b"
            r"|\b(?:honesty|loyalty|family|trust|kindness|freedom|integrity|respect|friendship|faith|love|justice|truth|fairness|equality|independence|creativity) (?:is|means|matters|comes|always comes|has always been|matter) (?:everything|the (?:only|one|most important) thing|more|most|the most|first|above|what matters|very important|so important|extremely important|sacred|non-negotiable|my)"
            r"|\bi (?:(?:truly|really|firmly|strongly|deeply|always|still|genuinely) )*(?:(?<!what i )believe (?:in (?!you\b|your\b|us\b|santa|ghosts|him|her\b|it\b|this|that)|(?:that )?(?:everyone|everybody|people|honesty|kindness|every (?:person|human|life)|we should all|all (?:people|life)|hard work|love|life))|value (?!for|your (?:time|opinion|feedback))[a-z]+|stand for|live by|care (?:deeply|a lot|most) about|cherish [a-z]+)"
            r"|\bi(?:'m| am) (?:very |deeply |really )?proud to be an?\b|\bi pride myself on\b|\bi(?:'m| am) too (?:proud|honest|stubborn|polite|kind|shy|soft|direct|impatient|curious|trusting|cautious) (?:to|for my own)\b|\bi (?:can't stand|hate|can't bear|despise) (?:injustice|lying|liars|unfairness|dishonesty|being late|waste|cruelty|hypocrisy|gossip|half-measures|cheating|quitting)\b|\bi treat (?:everyone|everybody|people|all)\b|\bi(?:'m| am) the sort (?:who|that|to)\b|\b(?:it's|that's) (?:just )?(?:how|the way) i(?:'m| am| was) (?:made|built|wired|raised)\b|\bi (?:worry about everything|overthink (?:everything|things)|need (?:things|everything) (?:tidy|in order|to be))\b|\bi (?:don't|do not|never) (?:give up|let (?:people|anyone|anybody|a friend|friends) down|hold grudges|suffer fools|break promises|ask for help|judge people|follow (?:rules|orders|the crowd))\b|\bi(?:'m| am) (?:not )?(?:really |just |quite |basically )?an? (?!(?:\w+ )?(?:morning|night|people|dog|cat|coffee|tea|early|outdoors?|different|new|changed|free|single|busy|terrible|horrible|bad|awful|sick) person)(?:very |rather |pretty )?[a-z-]+ person\b|,? always have(?: been)?(?=[.,;!]|$)|\b(?:goes )?against (?:everything i (?:am|believe|stand)|my (?:principles|nature|values|conscience))|\bi (?:do|did|go|live)(?: \w+){0,2} my (?:own|own sweet) way\b|\bi(?:'d| would) rather (?:lose|fail|starve|die|be (?:poor|hated|alone|disliked|honest|kind)|hear the truth|tell the truth) [^.!?]{0,50}\bthan\b|\bi(?:'m| am) (?:hopeless|terrible|useless|bad) at (?:lying|asking|saying no|small talk|apologi[sz]ing|letting go|waiting|sitting still)\b|\bi have (?:no|little) patience (?:for|with)\b|\bi (?:keep|give) my (?:word|promises?)\b|\bi (?:speak|say) (?:my mind|what i think)\b|\bi was raised to\b|\bi(?:'m| am) not afraid to (?:speak|say|stand|tell|fight|be)\b|\bwhat (?:matters|i value|i care about) (?:the )?most (?:to me )?is\b|\bi don't believe in (?!you\b|ghosts|santa|it\b|this|that)"
        ),
        unless=re.compile(_NOT_REAL + r"|\bi'm the (?:one|person) who (?:called|asked|wrote|ordered|sent)"),
        plain=False,
    ),
    Rule(
        kind="character_defining",
        cues=word_set("i'm i am i've"),
        pattern=re.compile(
            r"\bi(?:'m| am) (?:naturally|always|inherently|endlessly|insatiably) curious\b|"
            rf"\bi(?:'m| am| was born| tend to be) (?:naturally |by nature |always |very |quite |pretty |a very |a bit of |generally |fiercely |a |an |really |such |basically |hopeless |hopelessly |deeply |such a |such an |the |too |kind of |rather )*{_TRAIT}(?: (?:person|by nature|soul|at heart|one))?\b(?!,? (?:any|what|how|if|whether|why|when|where|who|which|do|did)\b|,? (?:with you|to (?:know|see|hear)|about (?:what|how|why|this|that|your|it)|for you| of (?:the|a|my|his|her)\b))"
        ),
        unless=re.compile(_NO_TRAIT),
    ),
)

ENGLISH_SELF_RULES: Final = (*_FACTS, *_CHARACTERS)
