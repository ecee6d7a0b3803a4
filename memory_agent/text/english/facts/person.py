"""Who an English-speaking user is: name, age, birthday, occupation, employer, education, place."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import regex

from memory_agent.lazily import lazily
from memory_agent.text.english.facts.guards import ADVERBS, CLAUSE, I_AM, I_HAVE, statements
from memory_agent.text.english.facts.words import JOB, MONTHS, NO_MODIFIER, NO_NAME, NO_PLACE
from memory_agent.text.patterns.common import MAX_VALUE_CHARS, Sentence, stated
from memory_agent.text.word_set import word_set

if TYPE_CHECKING:
    from collections.abc import Iterator

    from memory_agent.domain import StatedFact

# --- name ----------------------------------------------------------------------------------------------------
_PROPER: Final = r"\p{Lu}[\p{L}\p{M}'-]*+"
_NAME: Final = lazily(
    regex.compile,
    CLAUSE
    + r"(?i:my (?:full |first |real )?name(?:'s| is)(?P<now> now)?|(?:please |you can |you may |just )*+call me"
    rf"|(?P<changed>I(?:'ve| have)? changed my name to)) "
    rf"(?P<name>{_PROPER}(?: {_PROPER}){{0,3}})(?=$|[,)–—]| -| and | but | now$)",
)
_INTRODUCED: Final = lazily(
    regex.compile,
    r"^(?i:(?:hi|hey|hello|good (?:morning|evening|afternoon)|nice to meet you|greetings)(?: there| all| everyone)?[,! -]*+)?"
    rf"(?i:{I_AM})(?P<name>\p{{Lu}}\p{{Ll}}[\p{{L}}'-]*+(?: \p{{Lu}}\p{{Ll}}[\p{{L}}'-]*+){{0,2}})"
    r"(?=$|, (?:and )?(?i:I'm|I|nice|a|an|from|\d\d)\b| and I\b| and I'm| from \p{Lu}|, \d)",
)
_GREETING: Final = lazily(
    regex.compile,
    r"(?i:hi|hey|hello|good (?:morning|evening|afternoon)|nice to meet you|greetings|thanks|ok|okay)"
    r"(?: there| all| everyone| again)?,?",
)


_ADJECTIVE: Final = lazily(regex.compile, r"\p{L}{3,}(?:ed|ing|ous|ful|less|able|ible|ised|ized)")
_LIKE_ADJECTIVES: Final = word_set(
    "Jared Ahmed Mohammed Muhammed Mohamed Saeed Waleed Khaled Hamed Rasheed Alfred Wilfred Sterling Fleming Harding"
)


def _is_name(name: str) -> bool:
    return (
        len(name) <= MAX_VALUE_CHARS
        and not NO_NAME & set(name.split())
        and not (len(name) > 3 and name.isupper())
    )


def names(sentence: Sentence) -> Iterator[StatedFact]:
    """ "My name is …", "call me …"."""
    for match in statements(_NAME, sentence):
        if _is_name(match["name"]):
            changed = bool(match["now"] or match["changed"] or match[0].endswith(" now"))
            yield stated(
                sentence, match.span(), ("name",), match["name"], 0.95, "update" if changed else "add"
            )


def introduction(sentences: list[Sentence]) -> Iterator[StatedFact]:
    """ "I'm …" where people introduce themselves: it begins the turn, after a greeting at most."""
    for sentence in sentences:
        match = next(statements(_INTRODUCED, sentence), None)
        if match is not None:
            name = match["name"]
            described = _ADJECTIVE.fullmatch(name) and name not in _LIKE_ADJECTIVES  # "I'm Exhausted."
            if _is_name(name) and not described:
                yield stated(sentence, match.span(), ("name",), name, 0.85)
            return
        if not _GREETING.fullmatch(sentence.plain):
            return


# --- age, birthday, education --------------------------------------------------------------------------------
_AGE: Final = lazily(
    regex.compile,
    CLAUSE + rf"(?i:{I_AM}{ADVERBS}|(?P<turned>{I_HAVE}(?:just |recently )*+turned ))"
    r"(?:(?:an? )(?P<age>\d{2})[- ]years?[- ]old\b(?! \w+(?: \w+)? (?:in|at) heart)"
    r"|(?P<age>\d{2})(?: ?(?:years old|years of age|yrs old|yo|y/o))(?=$|[ ,)–—])"
    r"|(?P<age>\d{2})(?=$|,? (?:and|but) (?:I|I'm|live|work)\b|, (?:I|I'm|living|from)\b| now$))",
)
_BIRTHDAY: Final = lazily(
    regex.compile,
    CLAUSE + r"(?i:my (?:birthday|birth date|date of birth)(?:'s| is)(?: on)?|I was born on) "
    rf"(?:the )?(?P<day>(?i:{MONTHS}) \d{{1,2}}(?:st|nd|rd|th)?\b(?:,? (?:19|20)\d\d)?"
    rf"|\d{{1,2}}(?:st|nd|rd|th)?(?: of)? (?i:{MONTHS})\b(?:,? (?:19|20)\d\d)?|(?:19|20)\d\d-\d\d-\d\d)(?=$|[ ,)–—])",
)
_DEGREE: Final = lazily(
    regex.compile,
    CLAUSE
    + rf"(?i:(?:{I_HAVE}|I've got |I hold |{I_HAVE}(?:earned|got|received|completed) |I graduated with )(?:an? |my ))"
    r"(?P<degree>(?i:(?:bachelor|master)(?:'s|s)?(?: degree)?|b\.?a\.?|b\.?sc?\.?|m\.?a\.?|m\.?sc?\.?|mba|ph\.?d\.?|doctorate"
    r"|degree|associate(?:'s)? degree) in (?!my\b|the\b|a\b|it\b|this\b|that\b|progress\b)[\p{L}-]+"
    r"(?: (?:and |of )?(?!(?:from|at|and|but|which|in|so|with|last|this|years?)\b)[\p{L}-]+){0,3})"
    r"(?=$|[,)–—]| from | at | and | but | which | so | last | in (?:19|20)\d\d)",
)


def ages(sentence: Sentence) -> Iterator[StatedFact]:
    """Age in years, birthday, degrees."""
    for match in statements(_AGE, sentence):
        if int(match["age"]) >= 13:
            yield stated(
                sentence,
                match.span(),
                ("age",),
                int(match["age"]),
                0.85,
                "update" if match["turned"] else "add",
            )
    for match in statements(_BIRTHDAY, sentence):
        yield stated(sentence, match.span(), ("birthday",), match["day"], 0.95)
    for match in statements(_DEGREE, sentence):
        if len(match["degree"]) <= MAX_VALUE_CHARS:
            yield stated(sentence, match.span(), ("education",), match["degree"], 0.85)


# --- occupation and employer ---------------------------------------------------------------------------------
_MODIFIERS: Final = rf"(?:(?!{NO_MODIFIER}\b)[\p{{L}}-]+ ){{0,3}}"
_STOP: Final = (
    r"(?:at|in|for|with|who|and|but|from|on|of|so|because|since|which|that|where|to|by|these|now|right|currently"
    r"|lately|until|while|when|after|last|this|next|today|yesterday|recently|again|too|already|instead|though)\b"
)
_TITLE: Final = (
    rf"[\p{{L}}-]+(?: (?!{_STOP})[\p{{L}}-]+){{0,3}}"
    r"(?: of (?!(?:the|an?|our|my)\b)[\p{L}-]+(?: and (?!I\b)[\p{L}-]+)?)?(?! of\b)(?![\p{L}-])"
)
_ROLE_END: Final = (
    r"(?=$|[,)–—]| -| at (?!heart)| in (?!training|the making|my (?:head|dreams|spare|free))| for | with | who"
    r"| and (?:I|I'm|my|we|he|she|they|it)\b| but | by (?:trade|profession)| from | based | living | working"
    r"| speciali[sz]ing| here\b| now\b| last | this )"
)
_COMPANY: Final = (
    r"(?P<company>(?:the )?\p{Lu}[\p{L}\p{M}\d&'.-]*+(?: (?:(?:of|and|&) )?\p{Lu}[\p{L}\p{M}\d&'.-]*+){0,4})"
)
_COMPANY_END: Final = (
    r"(?=$|[,)–—]| -| as | and | but | in | since | for | now\b| so | where | on | which | remotely)"
)
_OCCUPATION: Final = lazily(
    regex.compile,
    CLAUSE
    + rf"(?:(?i:I {ADVERBS}(?:work|(?P<new>started(?: working)?|got (?:a|my) new job|started (?:a|my) new job))"
    rf"|{I_AM}{ADVERBS}(?:working|employed)|my (?P<new>new )?job is(?: working)?) (?i:full-time |part-time )?as (?:an?|the|our) "
    rf"(?P<title>{_TITLE})"
    rf"|(?i:{I_AM}{ADVERBS}an? )(?P<job>{_MODIFIERS}(?i:{JOB})(?: and {_MODIFIERS}(?i:{JOB}))?){_ROLE_END})"
    rf"(?: (?:at|for|with) {_COMPANY}{_COMPANY_END})?",
)
_CHANGED: Final = lazily(
    regex.compile,
    CLAUSE
    + rf"(?:(?i:{I_HAVE}{ADVERBS}(?:moved|switched|transitioned|changed|shifted)(?: over)? (?:in)?to (?:an?|the) )"
    r"(?P<role>(?:[\p{L}-]+ ){1,3}(?:role|position|job))(?=$|[ ,)–—])"
    rf"|(?i:(?:{I_HAVE}{ADVERBS}(?:gotten |got |was |been )|I've been |I was |I got )(?:just |recently )*promoted to (?:an? |the )?)"
    rf"(?P<job>{_MODIFIERS}(?i:{JOB})(?: of (?:\p{{L}}+))?){_ROLE_END}"
    rf"|(?i:{I_HAVE}{ADVERBS}(?:became|become) an? )(?P<job>{_MODIFIERS}(?i:{JOB})){_ROLE_END})",
)
_WORKS_FOR: Final = lazily(
    regex.compile,
    CLAUSE
    + rf"(?i:I {ADVERBS}work (?:full-time |part-time |remotely )?(?:at|for)|{I_AM}{ADVERBS}(?:working (?:at|for)"
    rf"|employed (?:at|by))|I (?:just |recently )*(?P<new>started) (?:working|a new job) (?:at|for)) {_COMPANY}{_COMPANY_END}",
)
_NOT_A_JOB: Final = word_set("team group result whole unit bridge reminder guide way couple volunteer")
_NO_COMPANY: Final = word_set(
    "Home Night Day Christmas Myself Me Him Her Them God I A An The Work School Hospital University College Church "
    "Monday Tuesday Wednesday Thursday Friday Saturday Sunday"
)
_OVER: Final = lazily(
    regex.compile,
    CLAUSE + rf"(?i:(?P<job>{I_AM}no longer (?:working )?(?:as )?an? (?:[\p{{L}}-]+ ){{0,3}}{JOB}{_ROLE_END}"
    rf"|I no longer work as |I (?:don't|do not) work as (?:an? )?[\p{{L}} -]{{1,40}}? any ?more"
    rf"|{I_AM}not an? (?:[\p{{L}}-]+ ){{0,3}}{JOB} any ?more)"
    rf"|(?P<job>(?P<both>{I_HAVE}{ADVERBS}(?:quit|left|lost|resigned from) my (?:old |current |last )?job"
    r"(?=$|[,)–—!]| as | at | last | this | and | but | to | because | so | yesterday| today| recently)))"
    rf"|(?P<both>{I_HAVE}{ADVERBS}(?:been |got |was |gotten )(?:just |recently )*(?:laid off|fired))(?=$|[,)–—]| (?:and|but|so|last|this|from|yesterday|today|recently|because|a)\b)"
    r"|I (?:no longer work|don't work) (?:at|for) (?-i:(?P<company>\p{Lu}))"
    rf"|{I_HAVE}{ADVERBS}(?:stopped|quit) working (?:at|for) (?-i:(?P<company>\p{{Lu}})))",
)

_IN_PASSING: Final = lazily(
    regex.compile, r"[,–—:( -]*(?:since|because|'?cause|as|why|now that)\b", regex.IGNORECASE
)
"""What is given as a reason happened some time before; the next job may have begun since."""


def _title(match: regex.Match[str]) -> str | None:
    """The occupation, unless it is a figure of speech ("as a team", "a bit of a chef")."""
    title = str(match["title"] or match["job"])
    modified = regex.match(rf"{NO_MODIFIER}\b", title, regex.IGNORECASE)
    if modified or title.split()[-1].lower() in _NOT_A_JOB or len(title) > MAX_VALUE_CHARS:
        return None
    return title


def _company(name: str | None) -> str | None:
    if name is None or name.split()[0] in _NO_COMPANY or len(name) > MAX_VALUE_CHARS:
        return None
    return name.rstrip(".'")


def occupations(sentence: Sentence) -> Iterator[StatedFact]:
    """What the user works as and for, and that it is over."""
    for match in statements(_OCCUPATION, sentence):
        title = _title(match)
        if title is not None:
            newly = bool(match["new"]) or regex.search(r"\bnow\b", match[0], regex.IGNORECASE)
            yield stated(
                sentence, match.span(), ("occupation",), title, 0.9 if match["title"] else 0.85,
                "update" if newly else "add",
            )  # fmt: skip
            company = _company(match["company"])
            if company and "student" not in title:
                yield stated(sentence, match.span(), ("employer",), company, 0.85)
    for match in statements(_CHANGED, sentence):
        role = match["role"]
        if role and regex.match(
            r"(?:new|different|better|smaller|bigger|larger|similar|higher|lower|full-time|part-time|remote|good|great|more|less|another)\b",
            role,
        ):
            continue
        title = role or _title_of_job(match["job"])
        if title:
            yield stated(sentence, match.span(), ("occupation",), title, 0.85, "update")
    for match in statements(_WORKS_FOR, sentence):
        company = _company(match["company"])
        if company:
            yield stated(
                sentence, match.span(), ("employer",), company, 0.85, "update" if match["new"] else "add"
            )
    yield from _ended(sentence)


def _title_of_job(job: str) -> str | None:
    return None if regex.match(rf"{NO_MODIFIER}\b", job, regex.IGNORECASE) else job


def _ended(sentence: Sentence) -> Iterator[StatedFact]:
    for match in statements(_OVER, sentence, past_is_meant=True):
        if _IN_PASSING.match(match[0]):
            continue
        if match["company"] and "don't" in match[0] and not regex.search(r"\bany ?more\b", sentence.plain):
            continue
        if match["job"] or match["both"]:
            yield stated(sentence, match.span(), ("occupation",), None, 0.85, "retract")
        if match["company"] or match["both"]:
            yield stated(sentence, match.span(), ("employer",), None, 0.85, "retract")


# --- place ---------------------------------------------------------------------------------------------------
_PLACE_WORD: Final = r"\p{Lu}[\p{L}\p{M}'.-]*+"
_PLACE_NAME: Final = (
    rf"(?:the )?{_PLACE_WORD}(?: (?:of |de |la |del |on |upon |and (?=\p{{Lu}}\p{{L}}+$))?{_PLACE_WORD}){{0,3}}"
    rf"(?:, {_PLACE_WORD}(?: {_PLACE_WORD}){{0,2}}(?=$|[,.)–—]| and | but | so | with ))?"
)
_PLACE: Final = lazily(
    regex.compile,
    CLAUSE + rf"(?i:(?P<live>I {ADVERBS}live in|{I_AM}{ADVERBS}(?:living in|based (?:in|out of)))"
    rf"|(?P<moved>{I_HAVE}{ADVERBS}(?:moved|relocated) (?:back )?to)|(?P<origin>{I_AM}(?:originally )?from)) "
    rf"(?P<place>{_PLACE_NAME})"
    r"(?=$|[,)–—]| -| and | but | so | with | now\b| right now| by | near | right | for (?!\d)| since | because | where "
    r"| in (?!(?:19|20)\d\d)| last | this | a (?:few|couple)(?! (?:years|of years|decades))| to | from (?=\p{Lu})"
    r"| about | already| though| yesterday| today| recently)",
)
_LEFT: Final = lazily(
    regex.compile,
    CLAUSE
    + r"(?i:I (?:no longer live|(?P<negated>don't live)) in |I (?:just |recently )*moved (?:away from|out of) )(?=\p{Lu})",
)


def places(sentence: Sentence) -> Iterator[StatedFact]:
    """Where the user lives, moved to, comes from, and no longer lives."""
    for match in statements(_PLACE, sentence):
        place = str(match["place"]).rstrip(".,'")
        if NO_PLACE & set(regex.split(r"[ ,]+", place)) or len(place) > MAX_VALUE_CHARS:
            continue
        rest = sentence.plain[match.end() :]
        if match["moved"] and regex.search(r"\b(?:ago|when|before|in (?:19|20)\d\d)\b", rest):
            continue  # where the user moved long ago need not be home now
        if match["origin"]:
            yield stated(sentence, match.span(), ("origin",), place, 0.85)
        elif match["moved"]:
            yield stated(sentence, match.span(), ("location",), place, 0.85, "update")
        else:
            yield stated(sentence, match.span(), ("location",), place, 0.95)
    for match in statements(_LEFT, sentence, past_is_meant=True):
        if not match["negated"] or regex.search(r"\bany ?more\b", sentence.plain):
            yield stated(sentence, match.span(), ("location",), None, 0.85, "retract")
