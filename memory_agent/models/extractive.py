"""Facts without a language model: what a user states about themselves in plain first-person sentences.

Four kinds are looked for, each by a few patterns: name, role, place, preferences. A wrong fact is worse than a
missed one, so a sentence is passed over as soon as anything makes it doubtful: a question, a condition, a wish, the
past, somebody else's words, pasted text, a task to write or translate something, or an object that only its context
explains ("I love it"). English only.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import regex

if TYPE_CHECKING:
    from collections.abc import Iterator

EXTRACTOR_VERSION: Final = "1"
"""Changes with the rules, for the record of what extracted a fact."""

MAX_TEXT_CHARS: Final = 4_000
"""Longer turns are pasted documents, whose "I" is anybody."""

MAX_VALUE_WORDS: Final = 6


def extract_facts(text: str) -> dict[str, Any]:
    """What `text` states about its author; {} if nothing is certain enough.

    {"personal_info": {"name", "role", "location"},
     "preferences": {"likes": […], "dislikes": […], "favorites": {"color": "blue"}}}, absent keys left out.
    """
    if len(text) > MAX_TEXT_CHARS or _FOREIGN_TASK.search(text):
        return {}
    personal: dict[str, str] = {}
    preferences: dict[str, Any] = {}
    place_rank = -1
    for sentence in _sentences(text):
        if (name := _name(sentence)) is not None:
            personal["name"] = name
        if (role := _role(sentence)) is not None:
            personal["role"] = role
        place = _place(sentence)
        if place is not None and place[0] >= place_rank:
            place_rank, personal["location"] = place
        for kind, value in _preferences(sentence):
            values = preferences.setdefault(kind, [])
            if value not in values:
                values.append(value)
        for subject, value in _favorites(sentence):
            preferences.setdefault("favorites", {})[subject] = value
    found = {"personal_info": personal, "preferences": preferences}
    return {group: values for group, values in found.items() if values}


# --- which sentences count -----------------------------------------------------------------------------------
def _word_set(words: str) -> frozenset[str]:
    return frozenset(words.split())


_FOREIGN_TASK: Final = regex.compile(
    r"\b(?:act as|act like|pretend|imagine|role-?play(?:ing)?|re-?write|rephrase|paraphrase|translat(?:e|ion)|persona"
    r"|proof-?read|grammar|correct (?:this|the|my|these)|summari[sz]e (?:this|the)|lyrics|screenplay"
    r"|write (?:an?|me an?|the|in) (?:\w+ ){0,4}(?:story|poem|song|script|dialogue|monologue|letter|essay|speech"
    r"|scene|bio|paragraph|review|e-?mail|post|statement|message|diary|journal)|fill in the blank"
    r"|in the style of|first[- ]person|character named|as if (?:you|i) (?:are|were)"
    r"|just kidding|only kidding|\bjk\b|said no one)\b",
    regex.IGNORECASE,
)
_NOT_SAID: Final = regex.compile(
    r"```.*?(?:```|\Z)|`[^`\n]*`|https?://\S+|^[ \t]*>.*?$|^[ \t]*(?!btw|fyi)[\w .'-]{1,30}:[ \t].*?$"
    r"|\"[^\"]*\"|“[^”]*”|«[^»]*»|(?<!\w)'[^'\n]{2,}'(?!\w)|(?<!\w)\*[^*\n]+\*(?!\w)",
    regex.DOTALL | regex.MULTILINE | regex.IGNORECASE,
)
_SENTENCE_END: Final = regex.compile(
    r"(?<!\b(?:St|Mt|Ft|Dr|Mr|Mrs|Ms|Jr|Sr|vs|etc|Prof|No|e\.g|i\.e|\p{Lu}))\.+(?=\s|$)|(?<=[!?…])\s|(?<=[!…])|\n+|;|…",
)
_DOUBT: Final = regex.compile(
    r"\b(?:if|unless|whether|suppose|wish(?:es|ed)?|would(?:n't)?|could(?:n't)?|might|may|maybe|perhaps|used to"
    r"|no longer|any ?more|not really|as a (?:kid|child|teen\w*|boy|girl)|when i was|back when|someday|one day"
    r"|hop(?:e|es|ing)|dream\w*|sa(?:y|ys|id|ying)|tell(?:s|ing)?|told|asked|claim\w*|quot\w+|joke?\w*|once upon)\b",
    regex.IGNORECASE,
)


def _sentences(text: str) -> Iterator[str]:
    """The sentences that the author states as facts, with straight apostrophes."""
    plain = _NOT_SAID.sub(' " ', text.replace("’", "'").replace("‘", "'"))
    for part in _SENTENCE_END.split(plain):
        sentence = " ".join((part or "").split())
        if sentence and not sentence.endswith("?") and not _DOUBT.search(sentence):
            yield sentence.rstrip("!.")


# A statement begins where its sentence does, after words that only lead over, or with a clause of its own.
_LEAD: Final = (
    r"(?:(?:well|so|ok|okay|oh|ah|hi|hey|hello|yes|yeah|yep|no|and|but|also|plus|anyway|actually|honestly|personally"
    r"|by the way|btw|fyi|you know|sure|thanks|thank you|for context|just so you know|as for me|in fact|to be honest"
    r"|unfortunately|fortunately|luckily|currently|these days|nowadays)(?:,| -|:)? )*"
)
_CLAUSE: Final = r"(?:^|[,–—] | - )" + _LEAD
_SUBORDINATE: Final = regex.compile(
    r"\b(?:when|whenever|where|who|whom|whose|which|what|why|how|because|until|before|after|while|thinks?|thought"
    r"|believes?|assum\w+|knows?|like|that|someone|somebody|people|everyone|he|she|they|his|her|their)\b",
    regex.IGNORECASE,
)
_I: Final = r"I "
_I_AM: Final = r"(?:I'm|I am|Im) "
_ADVERBS: Final = (
    r"(?:(?:really|absolutely|also|just|still|truly|do|personally|particularly|especially|always|definitely|genuinely"
    r"|currently|now|actually|generally|usually|mostly|totally|simply|both) )*"
)


def _statements(pattern: regex.Pattern[str], sentence: str) -> Iterator[regex.Match[str]]:
    """Matches of `pattern` that no clause before them makes somebody else's or conditional."""
    for match in pattern.finditer(sentence):
        if not _SUBORDINATE.search(sentence[: match.start()]):
            yield match


# --- name ----------------------------------------------------------------------------------------------------
_PROPER: Final = r"\p{Lu}[\p{L}'’-]*"
_NAME: Final = regex.compile(
    _CLAUSE + rf"(?i:my (?:full |first |real )?name(?:'s| is)|(?:please |you can |you may |just )*call me) "
    rf"({_PROPER}(?: {_PROPER}){{0,3}})(?=$|[,)–—]| -| and | but )"
)
_NO_NAME: Final = _word_set(
    "Maybe Back Later Crazy Old When If Tomorrow Today Tonight Asap ASAP Not Now Monday Tuesday Wednesday Thursday "
    "Friday Saturday Sunday On In At I Silly Weird Stupid Lucky Anytime"
)


def _name(sentence: str) -> str | None:
    for match in _statements(_NAME, sentence):
        name = str(match[1])
        if name.split()[0] not in _NO_NAME and len(name) <= 60:
            return name
    return None


# --- role ----------------------------------------------------------------------------------------------------
_JOBS: Final = (
    "accountant actor actress actuary administrator advisor adviser agent analyst animator archaeologist architect "
    "archivist artist astronomer attorney auditor baker banker barber barista bartender biologist "
    "bookkeeper botanist broker builder butcher captain caregiver caretaker carpenter cashier chef chemist "
    "chiropractor clerk coach composer consultant contractor cook coordinator copywriter counselor counsellor curator "
    "dancer dentist designer developer dietitian director doctor driver economist editor electrician engineer "
    "entrepreneur farmer filmmaker firefighter florist freelancer gardener geologist guard hairdresser historian "
    "housekeeper illustrator instructor interpreter janitor journalist judge landscaper lawyer lecturer librarian "
    "locksmith machinist manager marketer mechanic midwife musician nanny nurse nutritionist officer optician "
    "optometrist painter paralegal paramedic pediatrician pharmacist photographer physician physicist "
    "physiotherapist pilot plumber potter principal producer professor programmer psychiatrist psychologist "
    "receptionist recruiter researcher roofer salesperson scientist sculptor secretary seamstress sergeant singer "
    "statistician student supervisor surgeon surveyor tailor teacher technician therapist tiler translator tutor "
    "veterinarian videographer waiter waitress welder writer zoologist"
)
_JOB: Final = rf"(?:{'|'.join(_JOBS.split())}|(?:research|teaching|medical|dental|legal|executive|administrative|nursing) assistant)"
_NO_MODIFIER: Final = (
    r"(?:bit|lot|kind|sort|of|not|huge|big|terrible|lousy|bad|good|great|better|best|worse|aspiring|former|ex|wannabe"
    r"|amateur|hobby|home|would-be|future|total|complete|proud|visual|natural|born|fan|slow|fast|quick|horrible|decent"
    r"|keen|avid|pretty|new|who|that|than|like|as|for|with|in|at|on|to|potential|paying|lifelong|hands-on|real)"
)
_MODIFIERS: Final = rf"(?:(?!{_NO_MODIFIER}\b)[\p{{L}}-]+ ){{0,3}}"
_ROLE_END: Final = (
    r"(?=$|[,)–—]| -| at (?!heart)| in (?!training|the making|my (?:head|dreams|spare|free))| for | with | who | and (?:I|my|we|he|she|they|it)\b"
    r"| but | by (?:trade|profession)| from | based | living | working | specializing| specialising| here\b)"
)
_ROLE: Final = regex.compile(
    _CLAUSE
    + rf"(?:(?i:{_I}{_ADVERBS}work|{_I_AM}{_ADVERBS}working) (?i:full-time |part-time )?as (?:an?|the) "
    rf"(?P<stated>[\p{{L}}-]+(?: (?!(?:at|in|for|with|who|and|but|from|on|of|so|because|since|which|that|where|to|by|these|now|right|currently|lately|until|while|when)\b)[\p{{L}}-]+){{0,3}})"
    rf"|(?i:{_I_AM}{_ADVERBS}an? )(?P<named>{_MODIFIERS}{_JOB}){_ROLE_END})"
)


def _role(sentence: str) -> str | None:
    for match in _statements(_ROLE, sentence):
        role = str(match["stated"] or match["named"])
        if not regex.search(rf"^{_NO_MODIFIER}\b", role) and role.split()[-1] not in {
            "team",
            "group",
            "result",
        }:
            return role
    return None


# --- place ---------------------------------------------------------------------------------------------------
_PLACE_WORD: Final = r"\p{Lu}[\p{L}\p{M}'’.-]*"
_PLACE_NAME: Final = (
    rf"(?:the )?{_PLACE_WORD}(?: (?:of |de |la |del |on |upon |and (?=\p{{Lu}}\p{{L}}+$))?{_PLACE_WORD}){{0,3}}"
    rf"(?:, {_PLACE_WORD}(?: {_PLACE_WORD}){{0,2}}(?=$|[,.)–—]| and | but | so | with ))?"
)
_PLACE: Final = regex.compile(
    _CLAUSE + rf"(?i:(?P<live>{_I}{_ADVERBS}live in|{_I_AM}{_ADVERBS}(?:living in|based (?:in|out of)))"
    rf"|(?P<moved>(?:I|I've|I have) (?:just |recently |finally )*(?:moved|relocated) to)"
    rf"|(?P<origin>{_I_AM}(?:originally )?from)) "
    rf"(?P<place>{_PLACE_NAME})"
    r"(?=$|[,)–—]| -| and | but | so | with | now\b| right now| by | near | right | for (?!\d)| since | because | where "
    r"| in (?!(?:19|20)\d\d)| last | this | a (?:few|couple)(?! (?:years|of years|decades))| to | from (?=\p{Lu})"
    r"| about | already| though)"
)
_NO_PLACE: Final = _word_set(
    "Monday Tuesday Wednesday Thursday Friday Saturday Sunday January February March April May June July August "
    "September October November December Python Java JavaScript Linux Windows Mac React Rust Slack Teams Chrome "
    "Firefox Android iOS Apartment Unit Room Building House Gen Generation Team Accounting HR IT Finance Marketing "
    "Sales Engineering Support I God Jesus Christ Earth Mars Discord Zoom Excel"
)
_PLACE_RANK: Final = {"origin": 0, "moved": 1, "live": 2}


def _place(sentence: str) -> tuple[int, str] | None:
    """How surely it is where the user lives now, and the place."""
    best: tuple[int, str] | None = None
    for match in _statements(_PLACE, sentence):
        place = str(match["place"]).rstrip(".,'")
        if _NO_PLACE & set(regex.split(r"[ ,]+", place)) or len(place) > 60:
            continue
        if match["moved"] and regex.search(
            r"\b(?:ago|when|before|in (?:19|20)\d\d)\b", sentence[match.end() :]
        ):
            continue  # where the user moved long ago need not be home now
        rank = next(rank for kind, rank in _PLACE_RANK.items() if match[kind])
        if best is None or rank > best[0]:
            best = rank, place
    return best


# --- preferences ---------------------------------------------------------------------------------------------
_FAN: Final = r"(?:an? (?:big |huge |massive |real |total |avid )?fan of|fond of|passionate about|obsessed with|(?:really |very |so )?into)"
_PREFERENCE: Final = regex.compile(
    _CLAUSE
    + rf"(?i:(?P<likes>{_I}{_ADVERBS}(?:(?:love|like|enjoy|adore) |(?=prefer ))|{_I_AM}{_ADVERBS}{_FAN} )"
    rf"|(?P<dislikes>{_I}{_ADVERBS}(?:hate|dislike|despise|loathe|detest|can't stand|cannot stand|can't bear"
    rf"|(?:don't|do not) (?:really |particularly )?(?:like|enjoy|care for)) ))"
    r"(?P<object>\S.*)$"
)
_OBJECT_END: Final = regex.compile(
    r"[,:()\"–—/]| - |\b(?:but|because|since|although|though|so|then|even|especially|particularly|in general|these days"
    r"|lately|right now|at the moment|too|a lot|very much|the most|and (?:I|I'm|I've|my|it|we|they|he"
    r"|she|you|am|was|have|want|would|the|also|then|often|usually|try|can|find|how|don't|always))\b",
    regex.IGNORECASE,
)
_COMPARED: Final = regex.compile(
    r"^prefer (?P<object>(?!to )[^,]+?) (?:to|over|rather than|instead of) \S", regex.IGNORECASE
)
_CONTEXTUAL: Final = regex.compile(
    r"\b(?:it|its|it's|this|that|these|those|you|your|yours|him|her|his|them|their|us|our|me|my|mine|myself|here|there"
    r"|one|ones|everything|something|anything|nothing|everyone|someone|anyone|both|all|some|any|such|other|others"
    r"|another|same|each|more|less|much|many|first|second|last|latter|former|what|how|why|who|whom|not|also|idea"
    r"|ideas|suggestions?|recommendations?|options?|thing|things|stuff|way|lol|haha|too|being|having|knowing|seeing"
    r"|hearing|thinking|getting|using|trying|finding|making|taking|keeping|giving|doing|going|looking|working|feeling"
    r"|learning|adding|incorporating|exploring|sound|look|feel|concept|thought|plan|approach|number|with|for|from|that|who|which|where|when|whenever|while|if|as|than|is|are|was|were|am|has)\b",
    regex.IGNORECASE,
)
_ACTIVE: Final = regex.compile(
    r"to ((?:cook|bake|read|hike|run|jog|swim|travel|paint|draw|write|sing|dance|play|garden|knit|sew|ski|surf|climb|cycle"
    r"|bike|camp|fish|sail|dive|photograph|sleep in|shop|exercise|walk)\b.*)"
)
_GENERAL_THE: Final = regex.compile(
    r"the (?:beach|mountains|ocean|sea|outdoors|rain|snow|cold|heat|countryside|city)$|The \p{Lu}"
)
_ITEM: Final = r"[\p{L}\p{N}'&-]+(?: [\p{L}\p{N}'&-]+){0,2}"
_LIST: Final = regex.compile(
    rf"(?P<item>{_ITEM})(?:, (?P<item>{_ITEM}))+,? (?:and|or) (?P<item>{_ITEM})(?=$|[,)–—])"
)


def _preferences(sentence: str) -> Iterator[tuple[str, str]]:
    for match in _statements(_PREFERENCE, sentence):
        kind = "likes" if match["likes"] else "dislikes"
        said = match["object"]
        if said.lower().startswith("prefer "):
            # Alone it is nearly always about the task at hand ("I prefer flat routes"); a comparison is a taste.
            compared = _COMPARED.match(said)
            if compared is None:
                continue
            said = compared["object"]
        listed = _LIST.match(said)
        if listed is not None:
            items = [_object(item) for item in listed.captures("item")]
            if all(items):
                yield from ((kind, item) for item in items if item)
                continue
        value = _object(said)
        if value is not None:
            yield kind, value


def _object(text: str) -> str | None:
    """What is liked or disliked, up to where its clause ends; None if it says too little or needs its context."""
    end = _OBJECT_END.search(text)
    if end and end[0] == '"':
        return None  # the name that was quoted is missing
    value = (text[: end.start()] if end else text).strip(" '.-~*")
    active = _ACTIVE.match(value)
    if active is not None:
        value = str(active[1])
    value = _without_half_clause(value)
    words = value.split()
    if not words or len(words) > MAX_VALUE_WORDS or len(value) > 60 or len(value) < 2:
        return None
    if _CONTEXTUAL.search(value) or words[-1].lower() in _DANGLING or words[0].lower() in _NO_START:
        return None
    if words[0].lower() == "the" and not _GENERAL_THE.match(value):
        return None
    return value


_NO_START: Final = _word_set("a an to and or of in on at by be do get go keep no so well")
_DANGLING: Final = _word_set("a an the to and or of in on at by about into like")


def _without_half_clause(value: str) -> str:
    """`value` without an "and …" that may begin another statement: "hiking and go every week" is "hiking"."""
    left, joined, right = value.partition(" and ")
    if not joined:
        return value
    gerunds = left.split()[0].endswith("ing"), right.split()[0].endswith("ing") if right.split() else False
    if gerunds[0] != gerunds[1] or len(right.split()) > (3 if all(gerunds) else 2):
        return left
    return value


_FAVORITE: Final = regex.compile(
    _CLAUSE
    + r"(?i:my (?:all-time |all time |absolute |personal )?favou?rite) (?P<subject>[\p{L}-]+(?: [\p{L}-]+){0,2}?) "
    r"(?:is|are|has always been|have always been) (?:(?:definitely|still|absolutely|currently) )?(?P<value>\S.*)$"
)
_NO_SUBJECT: Final = regex.compile(
    r"\b(?:parts?|things?|way|ways|aspects?|ones?|bits?|moments?|memor(?:y|ies)|options?|ideas?|of|so|far|to|about|from|in|on"
    r"|line|lines|scenes?|quotes?|is|are|recent|new|part-time)\b",
    regex.IGNORECASE,
)


def _favorites(sentence: str) -> Iterator[tuple[str, str]]:
    for match in _statements(_FAVORITE, sentence):
        subject = str(match["subject"]).lower()
        value = regex.sub(r"^(?:an? )", "", match["value"])
        kept = None if value.lower().startswith(("probably", "when", "the one")) else _object(value)
        if kept is not None and not _NO_SUBJECT.search(subject):
            yield subject, kept
