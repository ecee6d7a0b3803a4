"""The rules for English moments; `docs/importance.md` has examples of what passes and what doesn't."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from memory_agent.text.moments.rules import Rule
from memory_agent.text.word_set import word_set

if TYPE_CHECKING:
    from memory_agent.domain.base import Role
    from memory_agent.domain.moments import MomentKind


def _rule(
    kind: MomentKind,
    cues: str,
    pattern: str,
    *,
    unless: str | None = None,
    role: Role | None = None,
    plain: bool = True,
    asking: bool = False,
) -> Rule:
    return Rule(
        kind=kind,
        pattern=re.compile(pattern),
        cues=word_set(cues),
        unless=None if unless is None else re.compile(unless),
        role=role,
        plain=plain,
        asking=asking,
    )


_ADVERBS: Final = (
    r"(?:(?:really|truly|definitely|just|finally|already|both|all|also|firmly|strongly|deeply|still|absolutely|always"
    r"|actually|officially|honestly|simply|probably|totally|kind of|do|now) ){0,3}"
)
_CONDITION: Final = r"\b(?:if|unless|whether|what if|in case)\b"

_AGREEING: Final = (
    r"^(?:(?:alright|all right|okay|ok|then|right|great|fine|cool|good|perfect|yes|yep|yeah|so)[,.:]? ){0,2}"
)
# "Of course it is", "What a day it is", "See you then": the same shapes, and nothing is chosen.
_NO_CHOICE: Final = (
    r"(?:what|how|that|this|as|so|than|i|we|you|he|she|it|they|there|here|yes|no|yeah|yep|sure|course|indeed|where|why|who"
    r"|which|because|if|when|whatever|however|whether|like|maybe|perhaps|probably|true|think|know|afraid|only|and|but|or|not"
    r"|is|are|was|were|do|did|really|certainly|definitely|actually|just|since|until|till|by|back|before|after|even|well|bye"
    r"|goodbye|night|morning|evening|afternoon|hello|hi|later|fine|okay|ok|alright|right|now|see|thanks|sorry|never|had|have|could|would|should|more)"
)
_NO_TAKING: Final = (
    r"(?:it|them|that|this|care|part|place|turns|pride|time|notes|breaks|photos|pictures|medication|pills|milk|sugar|our|my|your"
    r"|his|her|him|off|up|on|over|after|away|a|an|the (?:bus|train|kids|dog|car|tram|tube|stairs|lift))\b"
)

# --- decisions: what is settled, by whomever. "decide" without its -d is still ahead --------------------------
_DECISIONS: Final = (
    _rule(
        "decision_made",
        "decided",
        r"\b(?!nobody|no one|neither)(?:i|we|you|they|he|she|it|who|[a-z]{2,20}|i've|we've|they've|she's|he's|i'd|it's|that's) "
        + _ADVERBS
        + r"(?:been )?(?<!to be )decided\b(?! (?:advantage|lack|wrong|badly|wisely|by (?:the|a|an|others|chance)|too (?:late|soon|early)|once|yet|improvement|preference|edge|(?:that )?(?:it|that|this|he|she|they) (?:was|were|is|are)\b))",
        unless=r"\b(?:yet to|to be|will be|be|being|gets|get) decided|nothing(?:'s| is| has been)? decided|decided yet",
    ),
    _rule(
        "decision_made",
        "made made-up make come reached",
        r"\b(?:made (?:up )?(?:my|our|his|her|their) (?:mind|minds|choice|decision|pick)|made (?:a|the|that|this) (?:\w+ )?(?:decision|choice)"
        r"|(?:came|come|reached) (?:to )?(?:a|the) (?:decision|agreement))\b(?! (?:up )?(?:for|about whether))",
        unless=r"\b(?:to|gotta|can't|cannot) make\b",
    ),
    _rule(
        "decision_made",
        "decision choice answer verdict plan",
        r"\b(?:(?:my|our|the|his|her|their) (?:final )?(?:decision|choice|verdict) (?:is|was)(?: made|:| final| to | that )"
        r"|(?:decision|choice) (?:is )?made\b|final (?:decision|answer|choice)(?: is|:)|decision: |(?:my|our) answer is (?:yes|no)\b)",
    ),
    _rule(
        "decision_made",
        "let's lets we'll i'll will going",
        r"\b(?:let's|lets|we'll|i'll|we will|i will|i'm going to|we're going to|we are going to|i am going to) "
        r"(?:definitely |just |then |probably )?(?:go (?:with|for|ahead with)|accept (?:the|your|their)|decline the|quit my|stick (?:with|to)|settle (?:on|for)|opt for|choose|pick|take the)"
        r" (?!you\b|him\b|her\b|them\b|me\b|my\b|us\b|it when|a (?:walk|run|swim|drive|ride|coffee|drink|bite)|the (?:flow|bus|train|dog|kids)|(?:bus|train|tram|tube|dog|kids|stairs|lift|car|day off)\b"
        r"|lunch|dinner|coffee|drinks|one of|your (?:mom|dad))",
        unless=_CONDITION + r"|\blet's not\b|\bprobably\b",
    ),
    _rule(
        "decision_made",
        "we'll",
        r"\bwe'll (?:just |then )?use (?!it\b|that\b)[^,.!]{2,40}(?: then| instead)?(?:[.!]|$)",
        unless=_CONDITION + r"|\bprobably\b",
    ),
    _rule(
        "decision_made",
        "going",
        r"\b(?:i'm|we're|i am|we are) (?:definitely |just |actually )?going (?:to go )?(?:ahead with|with|for) (?!you\b|him\b|her\b|them\b|my\b|a (?:walk|run|swim|drive)|it\b)",
        unless=_CONDITION,
    ),
    _rule(
        "decision_made",
        "let's lets",
        r"\b(?:let's|lets) (?:do (?:it|that|this)(?! (?:again|later|some))|use [a-z0-9]|switch to|make it (?:official|[a-z]+day)|ship it"
        r"|schedule it|book it|go ahead(?! and (?:see|think|discuss)))",
        unless=_CONDITION,
    ),
    _rule(
        "decision_made",
        "chose chosen choosing opted picked settled agreed resolved committed concluded ended",
        r"\b(?:(?:i'm|we're) (?:choosing|picking) (?!between)|(?:i|we) ended up (?:picking|choosing|going with|buying)|(?:i|we|they|he|she) "
        + _ADVERBS
        + r"(?:chose|picked|opted|settled on|agreed (?:to|on|that)|resolved to|committed to)"
        r"|(?:i've|we've|they've|she's|he's|have|has) "
        + _ADVERBS
        + r"(?:chosen|picked|opted|settled on|agreed (?:to|on|that)|resolved to|committed to)"
        r"|(?:it's|that's|it is|that is|then it's) (?:all )?(?:settled|agreed)\b)(?! (?:up|on you)\b)(?! (?:him|her|them|you|me) up)",
    ),
    _rule(
        "decision_made",
        "accepted accepting accept taking quitting resigned signed declining rejecting turning deal",
        r"\b(?:i|we|i've|we've|i have|we have|i'm|we're|i am) "
        + _ADVERBS
        + r"(?:accepted the (?:job|offer|position|proposal)|(?:accepting|declining|rejecting|taking|turning down) the (?:job|offer|position|proposal)"
        r"|accept (?:the|your) (?:job|offer|position|proposal)|quitting my|signed the (?:contract|lease|papers))|^(?:ok,? |okay,? )?(?:it's a )?deal[!.]?$",
    ),
    _rule(
        "decision_made",
        "it",
        _AGREEING + r"(?:(?!" + _NO_CHOICE + r"\b)[\w'-]{1,20} ){1,5}it is(?:,? then)?[.!]*$",
        plain=False,
    ),
    _rule(
        "decision_made",
        "then",
        _AGREEING + r"(?:(?!" + _NO_CHOICE + r"\b)[\w'-]{1,20},? ){1,3}then[.!]*$",
        plain=False,
    ),
    _rule(
        "decision_made",
        "it's",
        r"^(?:(?:ok|okay|good|right|great|fine|alright|all right|perfect|yes),? (?:so |then )|then (?=it's the [a-z]+(?: one)?[.!]*$))it's (?!"
        + _NO_CHOICE
        + r"\b|\w+(?:ed|ing|en|able|al|ful|ous)\b|(?:a|my|your|too|all|just|fine|good|better|worse|easy|hard|time|about|over|clear)\b)[\w -]{2,30}(?: then)?[.!]*$",
    ),
    _rule(
        "decision_made",
        "choose shall book use take go stick stay keep use taking keeping going",
        _AGREEING
        + r"(?:so |then )?(?:i|we) (?:will )?(?:go (?:with|for)|stick with|stay with|use (?!it\b|to\b|the same|this\b)|choose (?!to\b|my\b|our\b|between)|take (?!"
        + _NO_TAKING
        + r")) ?[\w-]+"
        r"|\b(?:i'm|we're|i am|we are|i'll|we'll) (?:definitely |just )?(?:taking|take|keeping|keep|buying|buy|choosing) the (?:\w+ ){1,2}one\b|^(?:yes|okay|ok|good|right|great|perfect|do it|yep),? (?:please )?book (?:it|the|them)\b|\bwe shall (?:call|name|use|take|go with)\b",
        unless=_CONDITION + r"|\b(?:always|usually|often|sometimes|every|each|when|normally|never)\b",
    ),
    _rule(
        "decision_made",
        "i'll we'll",
        r"\b(?:i'll|we'll|i will|we will) (?:just )?(?:do|take|have|keep|use|buy|play|write|get|make) [^.!?]{3,60}(?=(?:,? and not|, not|,? instead of|,? rather than) (?!sure\b|yet\b|just\b|only\b|feel\b|be\b))",
        unless=_CONDITION,
    ),
    _rule(
        "decision_made",
        "that's it's final settled official that decided",
        r"\b(?:that's|that is|it's|it is)(?: now| all)? (?:final|settled|decided|official)(?=[.,:;!]|$| (?:then|and|now)\b)|\b(?:and|so) that's that\b|^that's that\b"
        r"|\bit's (?:done|agreed)[,;:] (?:i|we)(?:'m|'re|'ll| )",
    ),
    _rule(
        "decision_made",
        "all",
        r"\b(?:i'm|we're|i am|we are) (?:not )?(?:going to|going|taking|staying|keeping|moving|having|getting|selling|doing)\b[^.!?,]{0,50} after all\b|\b(?:i'll|we'll|i won't|we won't) [^.!?,]{2,50} after all\b",
        plain=False,
        unless=_CONDITION + r"|\b(?:not sure|maybe|perhaps|might)\b",
    ),
    _rule(
        "decision_made",
        "enrolling enroling off accepting quitting dropping keeping buying selling giving leaving cancelling moving taking",
        r"\b(?:i'm|we're|i am|we are) (?:definitely |officially |now )?(?:enroll?ing (?:in|on|at)|accepting(?=[.!]|$| (?:it|their|his|her)\b)|(?:quitting|dropping) (?!by\b|in\b|off\b|hints)|(?:buying|selling|cancelling|canceling) (?:the|our) (?!eye|same\b)|keeping the (?:\w+ )?(?:name|baby|dog|cat|house|flat|job|title|plan|design|money|ring|car|number|logo)\b|giving (?:the|my) \w+ to\b|taking the \w+ instead\b|leaving (?:the (?:company|firm|band|party|church|club|job)|my (?:job|husband|wife))\b)|\bthe (?:wedding|deal|trip|party|engagement|sale|merger|move|holiday) is (?:off|cancelled|canceled)\b(?! to)|\bno going back\b",
        unless=_CONDITION + r"|\b(?:always|keep|usually|every)\b",
    ),
    _rule(
        "decision_made",
        "drop chose fixed booked applied name call stay meet voted approved deal mind agreed",
        r"\bwe(?:'ll| will) (?:name|call) (?:it|her|him|them|the \w+) \w+(?=[.,!;]|$)|^so (?:we|i)(?:'re| are| will|'ll)? (?:stay|staying|keep|keeping|leave|leaving|go with|move|moving)\b|^(?:we|they|i|then)\b[^.!?]{3,50}, (?:agreed|settled|decided|deal)[.!]*$"
        r"|^(?:so |okay,? |then )?we drop the\b|,? it's (?:all )?booked[.!]*$|\b(?:we|they|the \w+) (?:have |has )?(?:voted|approved (?:it|the|our|my))\b(?! (?:on|about) whether)|\b(?:done deal|(?:plan|date|price|order) is (?:fixed|set|settled|final)(?=[.,:;!]|$| now\b)|(?:the|our|my) (?:team|board|family|committee|group|company|council|jury|club) (?:has |have )?(?:chose|chosen|picked|agreed on|settled on|opted for)|all agreed:|my mind is made up|mind's made up)\b",
        unless=_CONDITION + r"|\bwe (?:meet|see)\b|\b(?:sometimes|usually|every|often|always)\b|\bup late\b",
    ),
    _rule(
        "decision_made",
        "starting",
        r"^no more [^.!?]{2,40}\b(?:starting|from) (?:today|tomorrow|now|monday|next)",
        plain=False,
    ),
    _rule(
        "decision_made",
        "won't not",
        r"\b(?:i|we) (?:won't|will not) be (?:renewing|returning|going back|continuing|signing|accepting|selling|applying|moving|taking|attending|inviting)\b|\b(?:i'm|we're) not (?:renewing|going back|continuing|signing|accepting|selling|moving|taking the)\b",
        plain=False,
        unless=_CONDITION + r"|\b(?:not sure|maybe|perhaps)\b",
    ),
    # The deed that a decision ends in, where it is hard to take back.
    _rule(
        "decision_made",
        "quit booked told no handed notice name signed enrolled enrol cancelled canceled turned called deposit yes resigned withdrew withdrawn manager landlord",
        r"\b(?:i|we|i've|we've|i have|we have|and) "
        + _ADVERBS
        + r"(?:handed in (?:my|our) (?:notice|resignation)|gave (?:my |in my )?notice|given (?:my )?notice|(?:wrote|put|written) my name (?:down|on)|signed (?:up (?:for|to)\b|this (?:morning|afternoon)|today|yesterday|it (?:this|today|yesterday|last))|enrol(?:led|l)? (?:in|on|at|as|for)|with(?:drew|drawn) (?:my|our|the)|cancel(?:l)?ed (?:the|my|our)|turned (?:it|them|the \w+) down|called (?:it|the \w+) off|paid the deposit|booked the (?:flight|flights|trip|hotel|hall|venue|church|room|operation|tickets)|quit (?:my|the|school|smoking)|said no to (?:the|their|his|her)|turned down (?:the|their|his|her|an?)|resigned)\b"
        r"|\btold (?:my|our|the) (?:\w+ )?(?:boss|manager|landlord|company|firm|agency|agent|school|parents|board) (?:that )?(?:i'm|we're|i am|i'll be) (?:leaving|quitting|staying|moving|taking|not)\b"
        r"|\b(?:i|we|i've|we've) (?:[a-z']+ ){0,5}(?:said yes|told (?:them|him|her) (?:yes|no))\b",
        unless=_CONDITION + r"|\bnearly\b",
    ),
    _rule(
        "decision_made",
        "from",
        r"\b(?:from now on|(?:starting |as of |from )(?:today|tomorrow|this week|next week|next month)(?: on| onwards)?),? (?:no more\b|there will be no|(?:i|we)(?:'ll|'m| will| am| are|'re| won't)\b)",
        plain=False,
        unless=_CONDITION + r"|\bmaybe\b",
    ),
)

# --- conflicts: words that settle one by themselves; the rest needs a quarrel before it (`moments`) ------------
_RESOLUTIONS: Final = (
    _rule(
        "conflict_resolution",
        "forgive forgiven forgave accepted feelings hatchet amends peace reconciled",
        r"\b(?:i|we|she|he|they|i've|you're) "
        + _ADVERBS
        + r"(?:forgive|forgave|forgiven|have forgiven) (?:you|him|her|each|them|me|us|my \w+)\b"
        r"|\byou(?:'re| are) forgiven\b|\bapology accepted\b|\b(?:i|we) accept(?:ed)? (?:your|his|her|the) apolog"
        r"|\bno hard feelings\b|\bbur(?:y|ied) the hatchet\b|\bmade (?:amends|peace)\b|\b(?:we|they|and i)(?:'ve| have)? (?:finally |just )?reconciled\b",
    ),
    _rule(
        "conflict_resolution",
        "water quarrel misunderstanding differences settled sorted team blood forgiving behind compromise over fight peace friends speaking talking terms common good again halfway",
        r"\bwater under the bridge\b|\bno bad blood\b|\b(?:settled|sorted out|cleared up|resolved|ended) (?:their|our|the) (?:quarrel|misunderstanding|differences|argument|dispute|row|feud|conflict|fight)\b|\bwe(?:'re| are) a team again\b|\bthank(?:s| you) for forgiving\b|\b(?:that|it|this|all (?:that|this))(?:'s| is) (?:all |now |finally )?behind us\b|\b(?:we|they|we've|and i) (?:\w+ )?(?:found|reached|made) (?:a |some )?(?:compromise|common ground|middle way)\b|\b(?:we|they|we've) (?:\w+ )?met (?:each other )?halfway\b"
        r"|\b(?:fight|fighting|argument|quarrel|row|feud|war|dispute) (?:is|was) (?:finally |now )?over(?=[.,!;]|$| (?:now|at last|and))|\bpeace (?:at last|again|is restored)\b|\b(?:we're|we are|they're) (?:all )?(?:friends|good|fine|okay|speaking|talking|on (?:good|speaking) terms)(?: with each other)? again\b|\b(?:back on|on) (?:good|speaking) terms (?:again|now)\b",
        unless=r"\b(?:until|before|when|hope|not over|over (?:money|the|who|a))\b",
    ),
    _rule(
        "conflict_resolution",
        "cleared talked made hugged shook apologised apologized sorry",
        r"\bwe [^.!?;]{0,40}\b(?:cleared the air|talked (?:it|things) (?:out|over|through)|made up(?=[.,!;]|$| and\b| again)|hugged it out|shook hands on it)"
        r"|\bboth (?:of us )?(?:have )?(?:apologi[sz]ed|said sorry)\b(?! to the)|\bapologi[sz]ed to each other\b|\b(?:said|told (?:her|him|them)) (?:that )?(?:i|we|she|he|they) (?:was|were|am) (?:\w+ )?sorry,? (?:too|as well)\b|\bsaid (?:i was |he was |she was )?sorry,? (?:and|then) (?:i|we|she|he|they) (?:did|said)\b|\bsaid sorry,? too\b",
    ),
    _rule(
        "conflict_resolution",
        "accept accepted",
        r"\b(?:i|we) "
        + _ADVERBS
        + r"accept (?:your|his|her) apolog|\b(?:he|she|they) (?:has |have |'s )?accepted (?:my|our) apolog",
    ),
    _rule(
        "conflict_resolution",
        "talked between worked sorted resolved made patched ironed cleared settled put behind",
        r"\b(?:we|they|my \w+ and i|\w+ and i|we've|we have|we finally|glad we|and) "
        + _ADVERBS
        + r"(?:talked (?:it|things|everything) (?:out|over|through)|worked (?:it|things|everything) out|sorted (?:it|things|everything) out"
        r"|resolved (?:it|things|our|the) ?(?:differences|conflict|argument|fight|issue|dispute|misunderstanding)?|made up(?! (?:my|our|your|a|the|stories|of|for)\b)"
        r"|patched (?:it|things) up|ironed (?:it|things) out|cleared the air|settled our|put (?:it|this|that|all that) behind us)|\b(?:okay|ok|good|fine|better|alright) between us\b(?! and)",
        unless=r"\bhow (?:we|they)\b|\bnot (?:\w+ )?between us",
    ),
    _rule(
        "conflict_resolution",
        "let's lets",
        r"\b(?:let's|lets) (?:put (?:this|it|that|all this|the \w+) behind us|make up\b(?! (?:a|the|some))|not fight|stop (?:fighting|arguing)|start over|call a truce"
        r"|make peace|move past (?:this|it))",
        plain=False,
    ),
    _rule(
        "conflict_resolution",
        "sorry apologise apologize apologies",
        r"\b(?:sorry|apologi[sz]e|apologies) (?:\w+ ){0,2}?(?:for|about|that i|i) (?:i )?(?:yell|shout|scream|snapp|lash|hurt|said those|what i said|how i (?:acted|spoke|treated|behaved)|being (?:so )?(?:rude|mean|harsh|jealous|cold|unfair|selfish|angry)"
        r"|our (?:fight|argument)|the (?:fight|argument)|losing my temper|blam|accus|lying|lied|overreact|getting (?:so )?(?:angry|mad|upset)|taking it out)",
        unless=r"\bsorry,? (?:but|not sorry)\b|\b(?:he|she|they|you) (?:should|never|didn't|must)\b",
    ),
)

QUARREL: Final = re.compile(
    r"\b(?:you (?:never|always) (?:listen|do this|say|care|make|forget|blame|lie|ignore|think|help|take|put|twist)|you(?:'re| are) (?:so |just |being |not |always |totally |completely )*(?:wrong|unfair|ridiculous|selfish|lying"
    r"|impossible|rude|mean|listening|helping|useless|a liar|ignoring|blaming|overreacting)|you (?:lied|hurt|betrayed|ignored|broke|forgot|promised|don't (?:care|listen|understand|even|get it)|didn't (?:even|listen|tell))"
    r"|that(?:'s| is|'s just| was) (?:so |not |just |really |completely |totally )*(?:unfair|fair|true|wrong|rude|ridiculous|hurtful|nonsense|bullshit|what i (?:said|asked|meant))|i (?:totally |strongly |completely )?disagree"
    r"|shut up|stop (?:it|lying|yelling|blaming|talking)|leave me alone|how (?:could|dare) you|i(?:'m| am) (?:so |really |very |still |just |pretty )*(?:angry|mad|furious|upset|disappointed|pissed|fed up|sick of|tired of|done with)|i hate (?:you|it when you)"
    r"|what(?:'s| is) wrong with you|your fault|blam(?:e|ing) me|don't (?:talk to me|lie to me|blame me|yell)|(?:had|having|have|in) (?:a |an )?(?:huge |big |bad |stupid |another |terrible |awful |nasty |real |proper |loud )?(?:fight|argument|falling[ -]out|quarrel|row|clash|bust-up|shouting)"
    r"|(?:we|they) (?:\w+ )?(?:fought|argued|keep (?:fighting|arguing)|yelled|are not speaking|aren't speaking)|unfair|avoid(?:s|ing) (?:me|him|her|each other)|(?:barely|hardly|don't|doesn't|won't|no longer|not) (?:speak|speaks|talk|talks|speaking|talking)(?: to (?:me|him|her|each other)| with (?:me|him|her)| any ?more|(?=[.,!;]|$))|silent treatment|(?:slammed|hung up on|accus(?:es|ed|ing)|offended|insulted|humiliated|betrayed|snapped at|blam(?:es|ed)) (?:me|him|her|my|the door)|yell(?:ed|ing|s)? at|shout(?:ed|ing|s)? at|shouting match|same fight|bickering|arguing|quarrel(?:led|ling|ed|ing)?|fell out|fallen out|falling out|proper row|(?:hasn't|haven't|not|stopped) (?:spoken|speaking|talking) (?:to (?:me|him|her|each other)|in (?:weeks|months|years|days))|a kind word|walked out|i snapped|(?:insulted|yelled at|shouted at|screamed at) (?:me|my|him|her)|in court|useless|whatever[.!]|i can't believe you|you made me)\b"
)
CONCESSION: Final = Rule(
    kind="conflict_resolution",
    cues=word_set(
        """sorry apologise apologize apologies wrong right fault forgive agree agreed overreacted understand mean
    point fair good okay ok appreciate truce shouldn't see thank thanks blame mistake better compromise
    regret hug fight agreement thanked giving gave compromised apologised apologized hugged shook hugging forgiven let gave sorted buried disagree admitted said take leave together team cross complaint rude harsh flowers start"""
    ),
    pattern=re.compile(
        r"\b(?:i(?:'m| am)? (?:so |really |truly |deeply |very |sincerely |terribly |also )*(?:sorry|apologi[sz]e)(?! to hear)(?:\b)|my (?:sincere |deepest )?apologies|^(?:so |very |okay,? |ok,? )?sorry(?! to hear| for your loss)\b"
        r"|you(?:'re| are| were) (?:absolutely |totally |completely |probably |so )?right|(?:i|we) (?:was|were) (?:being )?(?:the one (?:who was )?)?(?:wrong|unfair|out of line|too harsh|rude|selfish|stupid)|i overreacted|i take (?:it|that) back|that was (?:rude|unfair|unkind|mean|harsh|stupid|wrong|uncalled for) of me|let's (?:start (?:again|over)(?! with)|leave it (?:there|at that)|be friends|call it quits)|(?:not|no longer) (?:cross|angry|mad|upset|offended)(?: any ?more| now)?|no bad blood|(?:i|we)(?:'ve| have)? let it go|(?:it's|things are|we're|it is) (?:all )?(?:good|fine|okay|well) again|(?:was|is) (?:her|his|their|my|partly my|also my) fault,? too|withdrew the complaint|how sorry (?:he|she|they)|i shouldn't have|it(?:'s| was| is) (?:all )?my (?:fault|mistake)|my (?:fault|bad|mistake)"
        r"|i (?:now |finally |do |can )?(?:understand|see) (?:now|why you|your (?:point|side)|how you|where you|what you)|i didn't mean to|i never meant to|(?:fair enough|good point|fair point|you have a point|agreed)\b|we(?:'re| are) (?:good|okay|ok|fine|cool)\b|i (?:really )?appreciate (?:your apology|you (?:apologi[sz]ing|saying|listening|admitting))"
        r"|thank(?:s| you) for (?:understanding|apologi[sz]ing|listening|saying|admitting|being honest|hearing)|it(?:'s| is) (?:okay|ok|all right|alright|fine) now|i(?:'m| am) not (?:angry|mad|upset) any ?more|let's (?:compromise|hug|meet (?:in the middle|halfway)|find a)|(?:we|they|and i) (?:\w+ ){0,2}(?:signed|reached|came to|have) an? ?(?:the )?agreement|signed the agreement|thanked me for|(?:i|he|she|we|they) gave way|i (?:have )?apologi[sz]ed|(?:he|she|they) (?:\w+ ){0,2}apologi[sz]ed,? and (?:i|we)\b|(?:we|he|she|they|and) (?:\w+ )?(?:hugged|shook hands)|(?:i|we) let it go|all (?:is )?forgiven|we(?:'ve| have)? buried (?:it|the)|(?:we|i|he|she|they|both) (?:both )?gave in\b|agreed to disagree|(?:it's|it is|all) (?:all )?sorted now|(?:he|she|they) (?:\w+ )?admitted (?:he|she|they|it) (?:was|were)|(?:i|we) said sorry|i agree\b|let's not (?:fight|argue))"
    ),
    unless=re.compile(
        r"\bsorry,? (?:but|not sorry)|\b(?:not|never|isn't) (?:be )?(?:sorry|apologi)|won't apologi|\bno i'm not\b|right now\b(?! i)|,? but (?:you|that|it|this|i still|i'm not|i don't|i won't|i can't|she still|he still|they still)\b"
        r"|you(?:'re| are) right,? (?:you|that's) (?:are|an?)\b|\b(?:don't|do not|can't|cannot) (?:agree|forgive|understand)"
    ),
    plain=False,
)

# --- topics ----------------------------------------------------------------------------------------------------
_TOPICS: Final = (
    _rule(
        "topic_introduction",
        "talk talking chat discuss ask discussing tell bring",
        r"\b(?:(?:i|we)(?:'d| would)? (?:really |just |also )?(?:want(?:ed)?|like|love|need(?:ed)?|have)|let's|lets|let us|can we|could we|shall we|may we|can i|could i|may i|i'm here|let me) "
        r"(?:to )?(?:please |just |also |now |first )?(?:talk (?:to you |with you )?about|discuss|chat about|ask (?:you )?about|bring up|tell you (?:about|something)|ask you something|pick your brain|talk to you about|go over)\b",
        unless=r"\b(?:don't|do not|doesn't|never|not|didn't|wouldn't) (?:really |even )?(?:want|like|need|have|wanna)\b|\blet's not\b|\bany ?more\b|\bcan we not\b|not (?:talk|discuss)",
        asking=True,
        plain=False,
    ),
    _rule(
        "topic_introduction",
        "way btw topic topics subject note forget forgot enough incidentally reminds let's matter thing track lighter turn while leaving speaking question else news switch move moving switching unrelated guess random gears meaning turning",
        r"^(?:oh,? |and |also,? |so,? |ok,? |okay,? |anyway,? |well,? |hey,? |hi,? |now,? |thanks,? |but ){0,3}(?:by the way\b(?! (?:he|she|they|you) )|btw\b|incidentally\b|before i forget\b|i (?:almost|nearly) forgot\b|that reminds me\b|(?:that's |that is )?enough (?:about|of) (?!you\b|it\b|that\b|a\b|the (?:same|time))|off[- ]topic\b|while (?:i'm here|i have you|we're at it)\b|(?:on|over) to (?:the|a|another|something) (?:next|new|other|different)|for (?:a|the) (?:new|next|different) (?:topic|subject|question)|(?:on )?to something (?:completely |quite |entirely |totally )?(?:different|else)|leaving that aside|(?:oh,? )?one more thing)|(?:^|[.,;!:-] ?)(?:oh,? |and |also,? |so,? |ok,? |okay,? |anyway,? |well,? |hey,? |now,? )*(?:(?:on|in) (?:an?other|a different|a completely different|a side|an unrelated|a lighter|other) (?:note|news|subject|topic|matter|front)|speaking of|(?:for |to )?(?:a |the )?(?:new|next|different|another) (?:topic|subject|question)\b"
        r"|(?:something|one more thing|something completely) (?:else|different)\b|guess what|random question|quick question|unrelated(?: question)?\b|turning to|moving on(?: to)?\b(?! (?:from|with my life))|changing (?:the )?(?:topic|subject)|switching (?:gears|topics))"
        r"|\b(?:change|switch|changing|switching) (?:the )?(?:topic|topics|subject|gears)\b|\b(?:i've got|i have|got|i had) (?:a |an |another |some |one more |one |big |great |good )*(?:quick |different |new |random )?(?:question|questions|news)\b|\b(?:let's|lets|can we) (?:move on|switch|turn|get) (?:over )?to\b(?! (?:it|that|know|work|bed|sleep|see|the (?:point|bottom)))"
        r"|\bi(?:'ve| have) been meaning to (?:tell|ask)",
        unless=r"\b(?:don't|do not|stop|keep|never|always|not|you) (?:you )?(?:change|changing|switch|have|switching)|\bno (?:more )?(?:question|news)|\bi had a question\b",
        asking=True,
        plain=False,
    ),
)

# --- humour ----------------------------------------------------------------------------------------------------
_HUMOUR: Final = (
    _rule(
        "humor_moment",
        "lol lolol lololol loool lmao lmfao rofl hehe hehehe teehee xd funniest joking kidding jk joke jokes pun laughing laugh laughed hilarious funny knock messing playing leg teasing myself resist coat cracked cracking",
        r"\b(?:(?:lo){1,10}l{1,10}|lmf?ao+|rofl|(?:he){2,10}|teehee|xd)\b(?! (?:account|tournament|match|rank|champion))|\b(?:just|only|i'm|i am|we're|totally) (?:just |only )?(?:joking|kidding)\b|^(?:haha )?kidding\b|\bjk\b(?! rowling)|\b(?:here's|this is) (?:a |another )?(?:\w+ )?joke\b|\bpun intended\b|\b(?:couldn't|can't|could not) resist (?:the|that|a) (?:pun|joke)\b|\bi'll (?:see myself out|get my coat|show myself out)\b|\b(?:just|only|was) a joke\b|\bfunniest\b|\bdying laughing\b|\b(?:just |only )(?:messing|playing) with you\b|\bpulling your leg\b|\b(?:just|only) teasing\b|\bknock,? knock\b"
        r"|\b(?:i'm|i am|made me|makes me|you make me|i|couldn't stop|can't stop|was|me) (?:laughed|laugh|laughing|lol)(?: so hard| out loud)?\b(?! at me)|\b(?:that's|that was|that is|this is|you're|it's|it was|so|how|too|absolutely|how) (?:so |really |absolutely |pretty |very |too |just )?(?:hilarious|funny)\b(?! (?:how|thing|because|that|feeling|taste|smell|noise|business|money|about))"
        r"|\b(?:cracked|cracks|cracking) me up\b|\bfunny(?: one)?[!]|\bgood one[!]",
        unless=r"\b(?:not|isn't|wasn't|ain't|never|don't|aren't|stop|no|nothing|hardly|can't) (?:even |be |that |so |very |really |a |at all )*(?:funny|joking|kidding|joke|hilarious|laugh(?:ing)?|play(?:ing)?)\b|\b(?:play|playing|plays|played) lol\b|you must be (?:joking|kidding)|are you kidding|no laughing",
        plain=False,
    ),
)
LAUGHTER_CUES: Final = (
    "ha",
    "ㅋㅋ",
    "ㅎㅎ",
    "ㅋㅎ",
    "ㅎㅋ",
    "하하",
    *"😂🤣😆😹😜🤪",
    "why did the",
)
LAUGHTER: Final = re.compile(
    r"\b(?:a?(?:ha){2,20}h?|ha ha(?: ha){0,5}|b?wa(?:ha){2,10})\b|\bwhy did the (?:chicken|\w+ cross)\b|[😂🤣😆😹😜🤪]|[ㅋㅎ]{2}|푸하하|하하"
)

ENGLISH_RULES: Final = (*_DECISIONS, *_RESOLUTIONS, *_TOPICS, *_HUMOUR)
