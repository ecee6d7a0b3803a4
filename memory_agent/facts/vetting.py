"""Vetting: an extracted fact is believed only if its turn says so. Pure.

A stated fact becomes events, or is refused with the reason; both are kept with the turn.
"""

from __future__ import annotations

import bisect
import dataclasses
import itertools
import json
import re
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, Final

import regex

from memory_agent.domain import REMARK, TAGS, FactEvent, RefusedFact
from memory_agent.facts.fold import MOST_CONFIDENT, person_key, subject_of
from memory_agent.facts.merge import UnmergeableFacts, encodable, fact_path, value_events
from memory_agent.facts.tree import FactTree, fact_json, fact_words
from memory_agent.lazily import lazily
from memory_agent.text.inert import MONTHS
from memory_agent.text.languages import any_of
from memory_agent.text.terms import count_terms, normalized

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

    from memory_agent.domain import FactOp, FactRecord, StatedFact, Turn
    from memory_agent.facts.keeper import Known


REPEATED_WORDS: Final = 5
"""A quote of at least so many words that was said before is a repetition; a shorter one may mean something else."""

_BLOCK: Final = lazily(re.compile, rf"<({'|'.join(TAGS)})>.*?(?:</\1>|\Z)", re.DOTALL | re.IGNORECASE)
_END_OF_BLOCK: Final = lazily(re.compile, rf"\A.*</(?:{'|'.join(TAGS)})>", re.DOTALL | re.IGNORECASE)
"""Of one whose beginning was cut off."""
_BELOW: Final = r"(?:\n(?![ \t>]*$).+|(?:\n[ \t>]*+$)++\n(?:[ \t>]*> )? .+)*"
"""The lines below, up to an empty one that no indented line of the same turn follows: a turn may have several, and persona,
summary and topic bear no mark of their own."""
_SHOWN: Final = tuple(
    lazily(re.compile, pattern, re.MULTILINE)
    for pattern in (
        # The persona, which stands right before the remark.
        r"^[ \t>]*You are [^\n]*(?:\n[ \t>]*(?:Personality|Traits|Profile): [^\n]*)*"
        rf"(?=\n[ \t>]*{re.escape(REMARK)})",
        rf"^[ \t>]*{re.escape(REMARK)}[ \t]*${_BELOW}",
        # Turns below their day, and where one that was too long for a context goes on.
        rf"^[ \t>*-]*\[\d{{1,2}} (?:{'|'.join(MONTHS)})(?: \d{{4}})?(?:, [^\]\n]*)?\][ \t]*${_BELOW}",
        r"^[ \t>]*\[… [\d,]+ characters left out …\][ \t]*$" + _BELOW,
        # The state of the conversation.
        r"^[ \t>]*Talked about: .*$",
    )
)
_FACT: Final = lazily(re.compile, r"^[ \t>]*- (?:.*?, )??(?P<path>[^\s:]+): (?P<value>.*)$", re.MULTILINE)
_SAME_SHAPE: Final = str.maketrans("’‘ʼ‛‚‹›´`′“”„‟«»「」『』″–—―‐‑−", "'" * 10 + '"' * 11 + "-" * 6)
_BLANK_FOR_MARK: Final = {code: " " for code in range(128) if not chr(code).isalnum()}
_EDGES: Final = " \"'.,:;!?()。、"
_UNSPACED: Final = lazily(
    regex.compile, r"[\p{Han}\p{Hiragana}\p{Katakana}\p{Hangul}\p{Thai}\p{Lao}\p{Khmer}\p{Myanmar}]"
)
"""Languages that join particles to words, or put nothing between words at all."""
_IN_WORD: Final = lazily(regex.compile, r"\w")


def own_words(text: str, known: Mapping[str, Collection[str]] | None = None) -> str:
    """`text` with everything that memory put there as blanks, so that places in it stay what they are.

    `known`: what is or was known by dotted path, as `fact_json` tells it; a line that lists one of these is memory's.
    """

    def blank(match: re.Match[str]) -> str:
        return re.sub(r"\S", " ", match[0])

    def blank_if_known(match: re.Match[str]) -> str:
        there = (known or {}).get(match["path"])
        return blank(match) if there and _listed(match["value"]) <= set(there) else match[0]

    text = _END_OF_BLOCK.sub(blank, _BLOCK.sub(blank, text))
    for pattern in _SHOWN:
        text = pattern.sub(blank, text)
    return _FACT.sub(blank_if_known, text)


def _listed(value: str) -> set[str]:
    """The values of a line of facts, as `fact_json` tells it: of a list each element."""
    try:
        found = json.loads(value)
    except (ValueError, RecursionError):
        found = value
    elements = found if isinstance(found, list) else [found]
    return {fact_json(element) for element in elements}


class SaidText:
    """A text to look quotes up in, prepared once: its words, folded, with single blanks between them."""

    def __init__(self, text: str) -> None:
        self.text = text
        self._spans = [match.span() for match in re.finditer(r"\S+", text)]
        folded = [_folded_word(text[start:end]) for start, end in self._spans]
        self._plain = " ".join(folded)
        self._starts = list(itertools.accumulate((len(word) + 1 for word in folded), initial=0))

    def find(self, quote: str) -> str | None:
        """The span of the text that `quote` means, word for word as it stands there; None if there is none.

        White space, case, and the shapes of quotation marks, apostrophes and dashes don't matter, nor do dots or
        quotation marks around the quote.
        """
        wanted = " ".join(" ".join(map(_folded_word, quote.split())).strip(_EDGES).split())
        if sum(map(str.isalnum, wanted)) < 2:
            return None
        first = start = self._plain.find(wanted)
        while start >= 0:
            # To `regex`, unlike `re`, accents and vowel signs are parts of words.
            before = start and _IN_WORD.match(self._plain, start - 1)
            if not before and not _IN_WORD.match(self._plain, start + len(wanted)):
                break
            start = self._plain.find(wanted, start + 1)
        if start < 0 and _UNSPACED.search(quote):
            start = first  # its words need not end there
        if start < 0:
            return None
        return self.text[self._place(start)[0] : self._place(start + len(wanted) - 1)[1]]

    def _place(self, position: int) -> tuple[int, int]:
        """The span of the text that the folded character at `position` comes from."""
        number = bisect.bisect_right(self._starts, position) - 1
        start, end = self._spans[number]
        within = position - self._starts[number]
        word = self.text[start:end]
        if word.isascii():
            return start + within, start + within + 1
        # By whole characters, so that composed and decomposed ones are the same.
        places: list[tuple[int, int]] = []
        for match in regex.finditer(r"\X", word):
            places += [(start + match.start(), start + match.end())] * len(_folded_word(match[0]))
        return places[within] if within < len(places) else (start, end)


def plain_words(text: str) -> list[str]:
    """The words of `text` without punctuation, for comparing what was said with what was said before."""
    if text.isascii():  # a tenth of the time, for each quote that is known
        return text.lower().translate(_BLANK_FOR_MARK).split()
    return regex.sub(r"[^\p{L}\p{N}\p{M}\s]", " ", _folded(text)).split()


def _folded(text: str) -> str:
    return normalized(text.translate(_SAME_SHAPE)).casefold()


def _folded_word(word: str) -> str:
    """A word folded; some characters come apart into white space and an accent."""
    return "".join(_folded(word).split())


USUAL_CONFIDENCE: Final = 0.8
"""Of what an extractor states without saying how sure it is."""

CATEGORIES: Final[Mapping[str, str]] = {
    "health": "health medical medication medicine illness disease diagnosis allergy allergic symptom disability "
    "therapy therapist mental pregnancy pregnant doctor depression anxiety cancer diabetes asthma surgery treatment "
    "disorder adhd autism hiv blood",
    "religion": "religion religious faith church mosque synagogue temple belief god christian muslim jewish hindu "
    "buddhist catholic atheist",
    "politics": "politics political party vote voting election democrat republican ideology union",
    "sexuality": "sexuality sexual orientation gay lesbian bisexual transgender queer gender",
    "ethnicity": "ethnicity ethnic race racial tribe",
    "finance": "finance financial income salary wage debt bank loan mortgage savings credit investment wealth",
    "contact": "phone telephone email mail address contact mobile handle",
    "identity": "passport ssn security license licence id identification tax iban account password pin",
}
"""Words by which a fact of a category is known, besides the category's own name."""

_OPPOSITES: Final[Mapping[tuple[str, ...], tuple[str, ...]]] = {
    ("preferences", "likes"): ("preferences", "dislikes"),
    ("preferences", "dislikes"): ("preferences", "likes"),
}
_LISTS: Final = (
    "likes dislikes interests hobbies goals plans constraints pets allergies languages children siblings friends"
    " skills instruments sports projects trips"
)
LISTS: Final = frozenset(_LISTS.split())
"""Where several can be true at once, whatever an extractor says."""
_WRAPPERS: Final = frozenset({"user", "personal_info", "personal", "profile", "about", "facts"})
_SAME_PATHS: Final[Mapping[tuple[str, ...], tuple[str, ...]]] = {
    (name,): usual
    for usual, names in {
        ("occupation",): "job profession role job_title",
        ("location",): "city home residence",
        ("name",): "full_name",
        ("preferences", "likes"): "likes",
        ("preferences", "dislikes"): "dislikes",
        ("interests",): "hobbies",
    }.items()
    for name in names.split()
}
_SENDERS: Final = frozenset({"user", "the user"})
"""What a model calls who wrote a message, also where that one has a name."""
_MAX_PATH_CHARS: Final = 200
_MAX_SAID_CHARS: Final = 500
_MAX_QUOTE_CHARS: Final = 1_000

_INSTRUCTION: Final = any_of("facts", "instruction", regex.IGNORECASE)


@cache
def usual_path_terms() -> frozenset[str]:
    """Words of paths that tell of nobody."""
    usual = "name occupation location birthday family preferences likes dislikes favorites interests goals constraints"
    return frozenset(count_terms(f"{usual} {_LISTS}"))


class _Refusal(Exception):
    """The reason why an item is not believed."""


class _NeverNoted(_Refusal):
    """It is about a category that must not be noted: not among what is refused either."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Vetted:
    """The items of one turn that are believed, and those that are not."""

    events: tuple[FactEvent, ...] = ()
    refused: tuple[RefusedFact, ...] = ()


def vet(
    items: Sequence[StatedFact],
    turn: Turn,
    known: Known,
    *,
    people: Mapping[str, str] | None = None,
    never: Collection[str] = (),
) -> Vetted:
    """The events that `items`, said of `turn`, come to, and the items that are refused.

    `people`: whom an item may be about beside the speaker, each subject by the key of the name that was shown. An item
    is joined with what is known of its subject alone. It is refused if it is about anybody else, if it names another turn or no part of this one, if the words it quotes are not the user's own
    (memory put them there, or they repeat what a known fact came from), if the turn gives the extractor orders, if it is
    about one of the categories `never` to note, if it would make a whole group or list of facts give way to one value, or
    if no document can hold it.
    """
    own = SaidText(own_words(turn.content, known.values))
    whole = own if own.text == turn.content else SaidText(turn.content)
    orders = _INSTRUCTION.search(" ".join(own.text.split())) is not None
    trees: dict[str, FactTree[int]] = {}
    events: list[FactEvent] = []
    refused: list[RefusedFact] = []
    for item in items:
        subject = subject_of(turn.speaker)
        try:
            _check_raw_category(item, never)
            subject = _subject(item, subject, people or {})
            tree = trees[subject] = trees.get(subject) or known.tree(subject)
            quote = _quoted(item, turn, own, whole)
            if orders:
                raise _Refusal("the turn gives the extractor orders")
            path = _own_path(fact_path(item.path), tree)
            stated = _stated(item, tree)
            told = [FactEvent(op="add", path=path), *stated, *_removed(path, item.old)]
            _check_category((f"{' '.join(event.path)} {fact_words(event.value)}" for event in told), never)
            _check_repetition(item, stated, quote, known.repeated(quote, turn.id, subject))
            made = list(_events(item, path, stated, tree))
        except _NeverNoted as exc:
            refused.append(RefusedFact(path="", said="", quote=None, reason=str(exc)))
            continue
        except (_Refusal, UnmergeableFacts) as exc:
            refused.append(refusal(item, str(exc), subject))
            continue
        # What the next item says may be about what this one said.
        for event in made:
            tree.apply(event, 0)
        sure = USUAL_CONFIDENCE if item.confidence is None else min(item.confidence, MOST_CONFIDENT)
        source: dict[str, Any] = {"quote": quote, "confidence": sure, "valid_from": item.valid_from}
        events += [dataclasses.replace(event, **source, subject=subject) for event in made]
    return Vetted(events=tuple(events), refused=tuple(refused))


def refusal(item: StatedFact, reason: str, subject: str = "") -> RefusedFact:
    """`item` as it is kept when it is not believed."""
    ops: Mapping[str, FactOp] = {"add": "add", "update": "set", "retract": "retract"}
    said = item.value if isinstance(item.value, str) else _as_text(item.value)
    return RefusedFact(
        op=ops[item.op],
        path=encodable(".".join(map(str, item.path))[:_MAX_PATH_CHARS]),
        said=encodable(said[:_MAX_SAID_CHARS]),
        quote=None if item.quote is None else encodable(item.quote[:_MAX_SAID_CHARS]),
        reason=encodable(reason),
        subject=subject,
    )


def _as_text(value: Any) -> str:
    try:
        return json.dumps(value, ensure_ascii=False, default=str)
    except (RecursionError, TypeError, ValueError):
        return f"a {type(value).__name__} that cannot be written as JSON"


def _subject(item: StatedFact, speaker: str, people: Mapping[str, str]) -> str:
    """Whose fact it is: the speaker's, unless it names somebody else who is known."""
    if item.subject is None or person_key(item.subject) == person_key(speaker):
        return speaker
    named = people.get(person_key(item.subject))
    if named is None and person_key(item.subject) in _SENDERS:
        return speaker
    if named is None:
        raise _Refusal(f"it is about {item.subject!r:.80}, and nobody in the conversation has that name")
    return named


def _quoted(item: StatedFact, turn: Turn, own: SaidText, whole: SaidText) -> str:
    if item.turn_id != turn.id:
        raise _Refusal("it names a message that was not asked about")
    if not item.quote:
        raise _Refusal("it has no quote")
    said = item.quote[: 4 * _MAX_QUOTE_CHARS]
    quote = own.find(said)
    if quote is None:
        if whole.find(said) is not None:
            raise _Refusal("the quote is an echo: memory put it into the turn")
        raise _Refusal("the quote is not in its turn")
    return quote[:_MAX_QUOTE_CHARS].rstrip()


def _own_path(path: tuple[str, ...], tree: FactTree[int]) -> tuple[str, ...]:
    """The one path for what may be called by several, unless a group of facts is known by that name."""
    while len(path) > 1 and path[0] in _WRAPPERS:
        path = path[1:]
    return path if tree.is_group(path) else _SAME_PATHS.get(path, path)


def _stated(item: StatedFact, tree: FactTree[int]) -> list[FactEvent]:
    """The values that `item` states or takes back, each at its own path. Raises UnmergeableFacts."""
    path, value = fact_path(item.path), item.value
    if isinstance(value, dict):
        own = _own_path(path, tree)
        if item.op == "retract" or tree.is_list(own) or (own[-1] in LISTS and own not in tree):
            # One pet with its name and kind is an element of the pets, not a group of facts.
            value = [value]
    return [
        dataclasses.replace(event, path=_own_path(event.path, tree)) for event in value_events(path, value)
    ]


def _removed(path: tuple[str, ...], value: Any) -> list[FactEvent]:
    """The removal of each of the values, or of the one. Raises UnmergeableFacts."""
    values = value if isinstance(value, list) else [value]
    return [FactEvent(op="remove", path=path, value=event.value) for event in value_events(path, values)]


def _check_raw_category(item: StatedFact, never: Collection[str]) -> None:
    """Before anything else: what must not be noted must not be kept among what is refused either."""
    texts = (
        [*map(str, item.path), _as_text(item.value), _as_text(item.old), item.quote or "", item.subject or ""]
        if never
        else ()
    )
    # Words that a key runs together count one by one.
    runs = r"(?<=\p{Ll})(?=\p{Lu})|[^\p{L}\p{N}\p{M}]+"
    _check_category([regex.sub(runs, " ", text.replace("\\n", " ")) for text in texts], never)


def _check_category(texts: Iterable[str], never: Collection[str]) -> None:
    said = count_terms(" ".join(texts).replace("_", " ")) if never else {}
    for category in never:
        telling = count_terms(f"{category.replace('_', ' ')} {CATEGORIES.get(category.casefold(), '')}")
        if not telling.keys().isdisjoint(said):
            raise _NeverNoted(f"facts about {category} are never noted (setting facts_never)")


def _check_repetition(
    item: StatedFact, stated: Sequence[FactEvent], quote: str, repeated: Sequence[tuple[FactRecord, str]]
) -> None:
    said = f" {' '.join(plain_words(quote))} "
    values = {word for event in stated for word in count_terms(fact_words(event.value))}
    # With more around it, it is one only if nothing of what is stated comes from there.
    echoed = [
        record
        for record, earlier in repeated
        if said in f" {earlier} " or (item.op == "add" and values <= count_terms(earlier).keys())
    ]
    if not echoed:
        return
    known_already = {(record.path, fact_json(record.value)) for record in echoed}
    restated = all((event.path, fact_json(event.value)) in known_already for event in stated)
    if item.op == "retract" or item.old is not None or not restated:
        raise _Refusal(f"the quote is an echo: it repeats what turn {echoed[0].sources[0].turn_id} said")


def _events(
    item: StatedFact, path: tuple[str, ...], stated: Sequence[FactEvent], tree: FactTree[int]
) -> Iterator[FactEvent]:
    if item.op == "retract":
        yield from _retracted(item, path, tree)
        return
    if not stated:
        raise _Refusal("it states nothing")
    if item.op == "update" and tree.is_list(path):
        new = {fact_json(event.value) for event in stated}
        yield from (event for event in _removed(path, item.old) if fact_json(event.value) not in new)
    for event in stated:
        if (
            item.op == "update"
            and event.op == "set"
            and _is_spelled_otherwise(tree.get(event.path), event.value)
        ):
            # A name put right says the same, and must replace it.
            yield FactEvent(op="retract", path=event.path)
        yield from _joined(event, tree)


def _is_spelled_otherwise(before: Any, value: Any) -> bool:
    return isinstance(before, str) and before != value and fact_json(before) == fact_json(value)


def _retracted(item: StatedFact, path: tuple[str, ...], tree: FactTree[int]) -> Iterator[FactEvent]:
    count = sum(1 for _ in tree.leaves(path))
    if item.value is not None and (tree.is_list(path) or path[-1] in LISTS):
        removed = _removed(path, item.value)
        if not removed:
            raise _Refusal("it states nothing")
        yield from removed
    elif count > 1:
        raise _Refusal(f"{'.'.join(path)} holds {count} facts; name the one that holds no more")
    else:
        yield FactEvent(op="retract", path=path)


def _joined(event: FactEvent, tree: FactTree[int]) -> Iterator[FactEvent]:
    """`event` as it joins what is known: lists grow, and nothing that is more than it gives way to it."""
    for depth in range(1, len(event.path)):
        above = event.path[:depth]
        if above in tree and not tree.is_group(above):
            raise _Refusal(f"{'.'.join(event.path[:depth])} is known as a value, not as a group of facts")
    if tree.is_group(event.path):
        raise _Refusal(f"{'.'.join(event.path)} is a group of facts, which one value would replace")
    if event.op == "set" and (tree.is_list(event.path) or event.path[-1] in LISTS):
        event = dataclasses.replace(event, op="add")
    opposite = _OPPOSITES.get(event.path)
    if opposite is not None:
        yield FactEvent(op="remove", path=opposite, value=event.value)
    yield event
