"""The rules for English moments between people; `docs/importance.md` has examples of what passes and what doesn't.

What a user tells of himself, and who somebody is, is in `english.self_told`.
"""

from __future__ import annotations

from typing import Final

from memory_agent.text.moments.rules import rule

_LISTS: Final = {
    "adverbs": (
        r"(?:(?:really|truly|definitely|just|finally|already|both|all|also|firmly|strongly|deeply|still|absolutely"
        r"|always|actually|officially|honestly|simply|probably|totally|kind of|do|now) ){0,3}"
    ),
    # How a sentence begins that settles what the other proposed: "Okay, good, then …".
    "agreeing": (
        r"(?:(?:alright|all right|okay|ok|then|right|great|fine|cool|good|perfect|yes|yep|yeah|so)[,.:]? ){0,2}"
    ),
    # "Of course it is", "What a day it is", "See you then": the same shapes, and nothing is chosen.
    "no_choice": (
        r"(?:what|how|that|this|as|so|than|i|we|you|he|she|it|they|there|here|yes|no|yeah|yep|sure|course|indeed"
        r"|where|why|who|which|because|if|when|whatever|however|whether|like|maybe|perhaps|probably|true|think"
        r"|know|afraid|only|and|but|or|not|is|are|was|were|do|did|really|certainly|definitely|actually|just"
        r"|since|until|till|by|back|before|after|even|well|bye|goodbye|night|morning|evening|afternoon|hello|hi"
        r"|later|fine|okay|ok|alright|right|now|see|thanks|sorry|never|had|have|could|would|should|more|started)"
    ),
    "bond": r"(?:mind|minds|choice|decision|pick)",
}
_CONDITION: Final = r"\b(?:if|unless|whether|what if|in case)\b"

# --- decisions: what is settled, by whomever. "decide" without its -d is still ahead --------------------------
_DECISIONS: Final = (
    rule(
        "decision_made",
        "decided",
        r"""
        \b(?!nobody|no one|neither)(?:i|[a-z]{2,20}|(?:i|we|they)'ve|s?he's|i'd|it's
          |that's) <adverbs>(?:been )?(?<!to be )decided\b(?! (?:advantage|lack|wrong|badly|wisely|by (?:the|a
          |an|others|chance)|too (?:late|soon|early)|once|yet|improvement|preference|edge|(?:that )?(?:it|that
          |this|s?he|they) (?:was|were|is|are)\b))
        """,
        unless=r"""
        \b(?:yet to|to be|will be|be|being|gets|get) decided
        nothing(?:'s| is| has been)? decided
        decided yet
        """,
        lists=_LISTS,
    ),
    rule(
        "decision_made",
        "made make came come reached decision choice answer",
        r"""
        \bmade (?:up )?(?:my|our|his|her|their) (?:mind|minds|choice|decision)\b(?! (?:up )?(?:for
          |about whether))
        \bmade (?:a|the|that|this) (?:\w+ )?(?:decision|choice)\b
        \b(?:came|come|reached) (?:to )?(?:a|the) (?:decision|agreement)\b
        \b(?:my|our|the|his|her|their) (?:final )?(?:decision|choice) (?:is|was)(?: made|:| final| to | that )
        \b(?:decision|choice) (?:is )?made\b
        \bfinal (?:decision|answer)(?: is|:)|\bdecision:[ ]
        """,
        unless=r"\b(?:to|gotta|can't|cannot) make\b",
    ),
    rule(
        "decision_made",
        "let's lets we'll i'll will going",
        r"""
        \b(?:let's|lets|(?:we|i)(?:'ll| will)|(?:i'm|we're|we are|i am) going to) (?:definitely |just
          \ |then )?(?:go (?:with|for|ahead with)|accept (?:the|your|their)|quit my|stick (?:with|to)
          |settle (?:on|for)|opt for|choose|pick|take the) (?!you\b|him\b|her\b|them\b|me\b|my\b|us\b|it when
          |a (?:walk|run|swim|drive|ride|coffee|drink|bite)|the (?:flow|bus|train|dog|kids)|(?:bus|train|tram
          |tube|dog|kids|stairs|lift|car|day off)\b|lunch|dinner|coffee|drinks|one of|your (?:mom|dad))
        \b(?:i'm|we're|i am|we are) (?:definitely |just |actually )?going (?:ahead )?(?:with|for) (?!you\b
          |him\b|her\b|them\b|my\b|a (?:walk|run|swim|drive)|it\b)
        \b(?:let's|lets) (?:do (?:it|that|this)(?! (?:again|later|some))|use [a-z0-9]|switch to|book it
          |go ahead(?! and (?:see|think|discuss)))
        """,
        unless=_CONDITION + r"|\blet's not\b|\bprobably\b",
    ),
    rule(
        "decision_made",
        "chose chosen choosing opted picked settled agreed resolved committed ended",
        r"""
        \b(?:i'm|we're) (?:choosing|picking) (?!between)
        \b(?:i|we) ended up (?:picking|choosing|going with|buying)\b
        \b(?:i|we|they|he|she) <adverbs>(?:chose|picked|opted|settled on|agreed (?:to|on|that)
          |resolved to)\b(?! (?:up|on you)\b)(?! (?:him|her|them|you|me) up)
        \b(?:i've|we've|they've|she's|he's|have|has) <adverbs>(?:chosen|picked|opted|settled on|agreed (?:to
          |on|that)|resolved to|committed to)\b(?! (?:up|on you)\b)(?! (?:him|her|them|you|me) up)
        """,
        lists=_LISTS,
    ),
    rule(
        "decision_made",
        "it then it's",
        r"""
        ^<agreeing>(?:(?!<no_choice>\b)[\w'-]{1,20} ){1,5}it is(?:,? then)?[.!]*$
        ^<agreeing>(?:(?!<no_choice>\b)[\w'-]{1,20},? ){1,3}then[.!]*$
        ^(?:ok|okay|good|right|great|fine|alright|all right|perfect|yes),? then it's (?!<no_choice>\b|(?:a|my
          |your|too|all|better|worse|easy|hard|time|about|over|clear)\b)[\w -]{2,30}[.!]*$
        """,
        plain=False,
        lists=_LISTS,
    ),
    rule(
        "decision_made",
        "go stick taking take keeping keep buying choosing i'll we'll",
        r"""
        ^<agreeing>(?:i|we) (?:will )?(?:go (?:with|for)|stick with) [\w-]+
        \b(?:i'm|we're|i'll|we'll) (?:definitely |just )?(?:taking|take|keeping|keep|buying
          |choosing) the (?:\w+ ){1,2}one\b
        \b(?:i|we)'ll (?:just )?(?:do|take|have|keep|use|buy|play|write|get) [^.!?]{3,60}(?=(?:,? and not
          |, not|,? instead of|,? rather than) (?!sure\b|yet\b|just\b|only\b|feel\b|be\b))
        """,
        unless=_CONDITION + r"|\b(?:always|usually|often|sometimes|every|each|when|normally|never)\b",
        lists=_LISTS,
    ),
    rule(
        "decision_made",
        "that's it's settled final official decided agreed voted",
        r"""
        \b(?:that's|that is|it's|it is)(?: now| all)? (?:final|settled|decided|official|agreed)(?=[.,:;!]|$
          | (?:then|and|now)\b)
        (?:^|\b(?:and|so) )that's that\b
        \b(?:we|they|the \w+) (?:have |has )?voted\b(?! (?:on|about) whether)
        """,
    ),
    # The deed that a decision ends in, where it is hard to take back.
    rule(
        "decision_made",
        """accepted accepting declining taking quit quitting booked told notice name signed enrolled enrol cancelled
        canceled turned called deposit yes no resigned withdrew""",
        r"""
        \b(?:i|we|i've|we've|i have|we have|and) <adverbs>(?:handed in (?:my|our) (?:notice|resignation)|g(?:a
          |i)ven? (?:my |in my )?notice|(?:wrote|put) my name (?:down|on)|signed (?:the (?:contract|lease
          |papers)|up (?:for|to)\b|(?:it )?(?:this morning|today|yesterday))|enroll?(?:ed)? (?:in|on|at|as
          |for)|with(?:drew|drawn) (?:my|our|the)|cancell?ed (?:the|my|our)|turned (?:it|them|the \w+) down
          |called (?:it|the \w+) off|paid the deposit|booked the|quit (?:my|the|school|smoking)|(?:said no to
          |turned down|accepted) (?:the|their|his|her)|resigned)\b
        \b(?:i'm|we're|i am) <adverbs>(?:accepting|declining|taking|turning down) (?:the|their) (?:job|offer
          |position)
        \b(?:i|we) (?:[a-z']+ ){0,5}(?:said|told (?:them|him|her)) yes\b
        \btold my (?:boss|manager|landlord|company) (?:that )?i'm (?:leaving|quitting|staying|moving)\b
        """,
        unless=_CONDITION + r"|\bnearly\b",
        lists=_LISTS,
    ),
    rule(
        "decision_made",
        "from won't not",
        r"""
        \b(?:from now on|(?:starting |as of |from )(?:today|tomorrow|next \w+)(?: on)?),? (?:no more|(?:i
          |we)(?:'ll|'m| will))\b
        \b(?:i|we) (?:won't|will not) be (?:renewing|returning|going back|signing|accepting|attending)\b
        """,
        plain=False,
        unless=_CONDITION + r"|\b(?:maybe|perhaps|not sure)\b",
    ),
)

# --- conflicts: words that settle one by themselves; the rest needs a quarrel before it (`moments.detect`) -------
_RESOLUTIONS: Final = (
    rule(
        "conflict_resolution",
        """forgive forgiven forgave forgiving accept accepted feelings hatchet amends peace reconciled behind again
        compromise over""",
        r"""
        \b(?:i|we|she|he|they|i've|you're) <adverbs>(?:forgive|forgave|forgiven|have forgiven) (?:you|him|her
          |each|them|me|us|my \w+)\b
        \byou(?:'re| are) forgiven\b
        \bthank(?:s| you) for forgiving\b
        \bapology accepted\b
        \b(?:i|we|he|she|they) (?:has |have )?<adverbs>accept(?:ed)? (?:your|his|her|my|our) apolog
        \bno (?:hard feelings|bad blood)\b
        \b(?:buried the hatchet|made (?:amends|peace)|reconciled)\b
        \b(?:that|it|this|all (?:that|this))(?:'s| is) (?:all |now |finally )?behind us\b
        \b(?:we|they|we've|and i) (?:\w+ )?(?:found|reached) (?:a |some )?(?:compromise|common ground)\b
        \b(?:fight|fighting|argument|quarrel|feud|dispute) (?:is|was) (?:finally |now )?over(?=[.,!;]|$)
        \bpeace at last\b
        \b(?:we're|we are|they're) (?:all )?(?:friends|good|fine|okay|speaking
          |talking)(?: with each other)? again\b
        """,
        unless=r"\b(?:until|before|when|hope|not over)\b",
        lists=_LISTS,
    ),
    rule(
        "conflict_resolution",
        "cleared talked made apologised apologized sorry worked sorted resolved patched put between",
        r"""
        \b(?:we|they|my \w+ and i|\w+ and i|we've|we have|and) <adverbs>(?:cleared the air|(?:talked|worked
          |sorted|patched) (?:it|things|everything) (?:out|over|through|up)|resolved (?:it|our (?:differences
          |argument|fight))|put (?:it|this|that|all that) behind us|made up(?! (?:my|our|your|a|the|stories|of
          |for)\b))
        \bwe [^.!?;]{0,40}\b(?:cleared the air|talked (?:it|things) (?:out|over|through)|made up(?=[.,!;]|$))
        \bboth (?:of us )?(?:have )?(?:apologi[sz]ed|said sorry)\b(?! to the)
        \bapologi[sz]ed to each other\b
        \b(?:said|told (?:her|him|them)) (?:that )?(?:(?:i|we|he|she|they) (?:was|were) )?sorry,? (?:too
          |as well)\b
        \b(?:okay|ok|good|fine) between us\b(?! and)
        """,
        unless=r"\bhow (?:we|they)\b|\bnot (?:\w+ )?between us",
        lists=_LISTS,
    ),
    rule(
        "conflict_resolution",
        "let's lets",
        r"\b(?:let's|lets) (?:put (?:this|it|that) behind us|make up\b(?! (?:a|the|some))|stop (?:fighting|arguing)|start over|call a truce)",
        plain=False,
    ),
    rule(
        "conflict_resolution",
        "sorry apologise apologize apologies",
        r"""
        \b(?:sorry|apologi[sz]e|apologies) (?:\w+ ){0,2}?(?:for|about|that i|i) (?:i )?(?:yell|shout|scream
          |snapp|lash|hurt|said those|what i said|how i (?:acted|spoke|treated|behaved)|being (?:so )?(?:rude
          |mean|harsh|jealous|cold|unfair|selfish|angry)|(?:our|the) (?:fight|argument)|losing my temper|blam
          |accus|lying|lied|overreact|getting (?:so )?(?:angry|mad|upset))
        """,
        unless=r"\bsorry,? (?:but|not sorry)\b|\b(?:he|she|they|you) (?:should|never|didn't|must)\b",
    ),
)

QUARREL: Final = rule(
    "conflict_resolution",
    "",
    r"""
    \byou (?:never|always) (?:listen|do this|say|care|make|forget|blame|lie|ignore|think|help|take|put|twist)
    \byou(?:'re| are) (?:so |just |being |not |always |totally |completely )*(?:wrong|unfair|ridiculous
      |selfish|lying|impossible|rude|mean|listening|helping|useless|a liar|ignoring|blaming|overreacting)\b
    \byou (?:lied|hurt|betrayed|ignored|broke|forgot|promised|don't (?:care|listen|understand|even|get it)
      |didn't (?:even|listen|tell)|made me)\b
    \bthat(?:'s| is|'s just| was) (?:so |not |just |really |completely |totally )*(?:unfair|fair|true|wrong
      |rude|ridiculous|hurtful|nonsense|bullshit|what i (?:said|asked|meant))\b
    \bi (?:totally |strongly |completely )?disagree\b
    \b(?:shut up|stop (?:it|lying|yelling|blaming|talking)|leave me alone|how (?:could|dare) you)\b
    \bi(?:'m| am) (?:so |really |very |still |just |pretty )*(?:angry|mad|furious|upset|disappointed|pissed
      |fed up|sick of|tired of|done with)\b
    \bi hate (?:you|it when you)\b
    \b(?:what(?:'s| is) wrong with you|your fault|blam(?:e|ing) me|don't (?:talk|lie) to me)\b
    \b(?:had|having|have|in) an? (?:\w+ )?(?:fight|argument|falling[ -]out|quarrel|row|clash)\b
    \b(?:we|they) (?:\w+ )?(?:fought|argued|keep (?:fighting|arguing)|aren't speaking)\b
    \b(?:barely|hardly|don't|doesn't|won't|no longer|not|hasn't|haven't|stopped) (?:speak|speaks|talk|talks
      |spoken|speaking|talking)(?: (?:to|with) (?:me|him|her|each other)| any ?more|(?=[.,!;]|$)| in (?:weeks
      |months|years|days))
    \b(?:silent treatment|shouting match|same fight|bickering|arguing|quarrel(?:led|ling|ed|ing)?|fell out
      |fallen out|falling out|in court|unfair|useless|walked out|i snapped|i can't believe you)\b
    \b(?:hung up on|accus(?:es|ed|ing)|offended|insulted|humiliated|betrayed|snapped at|blam(?:es|ed)|(?:yell
      |shout|scream)(?:ed|ing|s)? at|avoid(?:s|ing)) (?:me|him|her|my|each other)\b
    \b(?:yell|shout)(?:ed|ing|s)? at\b|\bslammed the door\b|\bwhatever[.!]
    """,
).pattern
CONCESSION: Final = rule(
    "conflict_resolution",
    """sorry apologise apologize apologies wrong right fault forgive agree agreed overreacted understand mean point
    fair good okay ok appreciate truce shouldn't see thank thanks blame mistake compromise hug agreement thanked gave
    apologised apologized hugged shook let take leave start again""",
    r"""
    \bi(?:'m| am)? (?:so |really |truly |deeply |very |sincerely |terribly |also )*(?:sorry
      |apologi[sz]e)(?! to hear)\b
    \bmy (?:sincere |deepest )?apologies
    ^(?:so |very |okay,? |ok,? )?sorry(?! to hear| for your loss)\b
    \byou(?:'re| are| were) (?:absolutely |totally |completely |probably |so )?right
    \b(?:i|we) (?:was|were) (?:being )?(?:the one (?:who was )?)?(?:wrong|unfair|out of line|too harsh|rude
      |selfish|stupid)
    \bi (?:overreacted|take (?:it|that) back|shouldn't have|didn't mean to|never meant to|agree\b)
    \blet's (?:start (?:again|over)(?! with)|leave it (?:there|at that)|be friends|compromise|hug
      |meet (?:in the middle|halfway)|find a|not (?:fight|argue))
    \b(?:it's|things are|we're|it is) (?:all )?(?:good|fine|okay|well) again
    \b(?:it(?:'s| was| is) (?:all )?)?my (?:fault|bad|mistake)
    \bi (?:now |finally |do |can )?(?:understand|see) (?:now|why you|your (?:point|side)|how you|where you
      |what you)
    \b(?:fair enough|good point|fair point|you have a point|agreed)\b
    \bwe(?:'re| are) (?:good|okay|ok|fine|cool)\b
    \bi (?:really )?appreciate (?:your apology|you (?:apologi[sz]ing|saying|listening|admitting))
    \bthank(?:s| you) for (?:understanding|apologi[sz]ing|listening|saying|admitting|being honest|hearing)
    \bthanked me for
    \bit(?:'s| is) (?:okay|ok|all right|alright|fine) now
    \bi(?:'m| am) not (?:angry|mad|upset) any ?more
    \b(?:we|they|and i) (?:\w+ ){0,2}(?:signed|reached|came to|have) an? ?(?:the )?agreement
      |signed the agreement
    \b(?:i|he|she|we|they) (?:gave (?:way|in)|let it go|(?:have )?apologi[sz]ed|said sorry)
    \b(?:we|he|she|they|and) (?:\w+ )?(?:hugged|shook hands)
    """,
    unless=r"""
    \bsorry,? (?:but|not sorry)
    \b(?:not|never|isn't) (?:be )?(?:sorry|apologi)|won't apologi
    \bno i'm not\b
    right now\b(?! i)
    ,? but (?:you|that|it|this|i still|i'm not|i don't|i won't|i can't|she still|he still|they still)\b
    you(?:'re| are) right,? (?:you|that's) (?:are|an?)\b
    \b(?:don't|do not|can't|cannot) (?:agree|forgive|understand)
    """,
    plain=False,
)

# --- topics ----------------------------------------------------------------------------------------------------
_OPENER: Final = r"(?:oh|and|also|so|ok|okay|anyway|well|hey|hi|now|thanks|but),? "
_TOPICS: Final = (
    rule(
        "topic_introduction",
        "talk talking chat discuss ask tell bring",
        r"""
        \b(?:(?:i|we)(?:'d| would)? (?:really |just |also )?(?:want(?:ed)?|like|love|need(?:ed)?|have)|let's
          |lets|let us|(?:can|could|may) (?:we|i)|shall we|let me) (?:to )?(?:please |just |also |now
          \ |first )?(?:(?:talk|chat) (?:to you |with you )?about|discuss|ask (?:you )?about|bring up
          |tell you (?:about|something)|ask you something)\b
        """,
        unless=r"""
        \b(?:don't|do not|doesn't|never|not|didn't|wouldn't) (?:really |even )?(?:want|like|need|have|wanna)\b
        \blet's not\b
        \bany ?more\b
        \bcan we not\b
        not (?:talk|discuss)
        """,
        asking=True,
        plain=False,
    ),
    rule(
        "topic_introduction",
        """way btw topic topics subject note forget forgot enough reminds let's thing while speaking question else news
        switch move moving switching guess gears meaning changing""",
        r"""
        ^(?:<opener>){0,3}(?:by the way\b(?! (?:he|she|they|you) )|btw\b|before i forget\b|i (?:almost
          |nearly) forgot\b|that reminds me\b|(?:oh,? )?one more thing|(?:that's |that is )?enough (?:about
          |of) (?!you\b|it\b|that\b|a\b|the (?:same|time)))
        (?:^|[.,;!:-] ?)(?:<opener>){0,3}(?:(?:on|in) (?:an?other|a different|a lighter|an unrelated) (?:note
          |news|subject|topic|matter)|speaking of|guess what|moving on(?: to)?\b(?! (?:from|with my life))
          |(?:for |to )?(?:a |the )?(?:new|next|different|another) (?:topic|subject|question)\b
          |something (?:completely )?(?:different|else)\b|quick question)
        \b(?:change|changing|switch|switching) (?:the )?(?:topics?|subject|gears)\b
        \b(?:i've got|i have|i had) (?:a |an |another |some |one more |one |big |great |good )*(?:quick
          \ |different |new )?(?:question|questions|news)\b
        \b(?:let's|lets|can we) (?:move on|switch|turn) (?:over )?to\b(?! (?:it|that|bed))
        \bi(?:'ve| have) been meaning to (?:tell|ask)
        """,
        unless=r"""
        \b(?:don't|do not|stop|keep|never|always|not|you) (?:you )?(?:change|changing|switch|have|switching)
        \bno (?:more )?(?:question|news)
        \bi had a question\b
        """,
        asking=True,
        plain=False,
        lists={"opener": _OPENER},
    ),
)

# --- humour ----------------------------------------------------------------------------------------------------
_HUMOUR: Final = (
    rule(
        "humor_moment",
        """lol lolol lololol loool lmao lmfao rofl hehe hehehe xd funniest joking kidding jk joke pun laughing laugh
        laughed hilarious funny resist coat messing myself leg cracked""",
        r"""
        \b(?:(?:lo){1,10}l{1,10}|lmf?ao+|rofl|(?:he){2,10}|xd)\b(?! (?:account|tournament|match|rank
          |champion))
        \b(?:just|only|i'm|i am|we're|totally) (?:just |only )?(?:joking|kidding)\b
        \bjk\b(?! rowling)|\bcracked me up\b
        \b(?:here's|this is) (?:a |another )?(?:\w+ )?joke\b|\b(?:just|only|was) a joke\b
        \bpun intended\b|\b(?:couldn't|can't) resist (?:the|that|a) (?:pun|joke)\b
        \bi'll (?:see myself out|get my coat)\b
        \bfunniest\b|\bpulling your leg\b|\b(?:just|only) (?:messing with you|teasing)\b
        \b(?:i'm|i am|made me|makes me|you make me|i|couldn't stop|can't stop|was|me) (?:laughed|laugh
          |laughing)(?: so hard| out loud)?\b(?! at me)
        \b(?:that's|that was|that is|this is|you're|it's|it was|so|how|too|absolutely) (?:so |really
          \ |absolutely |pretty |very |too |just )?(?:hilarious|funny)\b(?! (?:how|thing|because|that|feeling
          |taste|smell|noise|business|money|about))
        """,
        unless=r"""
        \b(?:not|isn't|wasn't|ain't|never|don't|aren't|stop|no|nothing|hardly|can't) (?:even |be |that |so
          \ |very |really |a |at all )*(?:funny|joking|kidding|joke|hilarious|laugh(?:ing)?)\b
        \bplay(?:ing|s|ed)? lol\b
        you must be (?:joking|kidding)|are you kidding|no laughing
        """,
        plain=False,
    ),
)

RULES: Final = (*_DECISIONS, *_RESOLUTIONS, *_TOPICS, *_HUMOUR)
