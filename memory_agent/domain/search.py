"""Search rows, entities in them, recollections and their signals."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from memory_agent.checks import checked_text
from memory_agent.errors import InvalidInput
from memory_agent.lazily import LateFields, lazily

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import datetime

    import numpy as np
    from numpy.typing import NDArray

    from memory_agent.domain.base import Role
    from memory_agent.domain.turns import Turn


MAX_NAME_CHARS: Final = 100
MAX_GIVEN_ENTITIES: Final = 100
"""How many entities a caller may give with one turn."""

_KIND: Final = lazily(re.compile, r"[a-z0-9_-]{1,32}")


@dataclass(frozen=True, kw_only=True, slots=True, order=True)
class Entity:
    """Something with a name, by its canonical one.

    Two are equal if `kind` and `name` are, character by character.

    `kind`: 1 to 32 of a-z, 0-9, "_" and "-"; `name`: 1 to 100 characters on one line, kept in Unicode's NFC, with
    single blanks inside and none around. Raises InvalidInput for any other.
    """

    kind: str
    name: str

    def __post_init__(self) -> None:
        if not isinstance(self.kind, str) or not _KIND.fullmatch(self.kind):
            raise InvalidInput(
                f"the kind of an entity is {self.kind!r:.80}; it must be 1 to 32 of a-z, 0-9, '_' and '-',"
                " such as 'brands'"
            )
        object.__setattr__(self, "name", _checked_name(self.name))

    @property
    def term(self) -> str:
        """The term of this entity in a search row. No word begins with "@", so it never meets a word."""
        return f"@{self.kind}:{self.name}"

    @classmethod
    def from_term(cls, term: str) -> Entity | None:
        """The entity whose `term` this is; None for words and whatever else is no entity's term.

        >>> Entity.from_term("@brands:LANEIGE")
        Entity(kind='brands', name='LANEIGE')
        """
        kind, colon, name = term.removeprefix("@").partition(":")
        if not term.startswith("@") or not colon:
            return None
        try:
            entity = cls(kind=kind, name=name)
        except InvalidInput:
            return None
        return entity if entity.term == term else None


@dataclass(frozen=True, kw_only=True, slots=True)
class EntityCount:
    """Count of the turns of a thread or a user that mention an entity, with the first and the last."""

    entity: Entity
    count: int
    """Turns that mention it, each once."""
    first_turn_id: str
    last_turn_id: str
    first_at: datetime
    """The timestamp of the first of these turns, in UTC."""
    last_at: datetime


def by_kind(entities: Iterable[EntityCount | Entity]) -> dict[str, list[str]]:
    """The names of each kind, each once; kinds and names in the order of their first mention.

    `entities`: counts of them, or those of a turn. What one turn mentions first keeps the order that it has there.
    """
    given = list(entities)
    counts = [each for each in given if isinstance(each, EntityCount)]
    counts.sort(key=lambda counted: (counted.first_at, counted.first_turn_id))
    names: dict[str, dict[str, None]] = {}
    for entity in (*(count.entity for count in counts), *(e for e in given if isinstance(e, Entity))):
        names.setdefault(entity.kind, {})[entity.name] = None
    return {kind: list(its_names) for kind, its_names in names.items()}


def given_entities(value: object) -> tuple[Entity, ...]:
    """A caller's own entities of one turn, each once, in the order given; () for None.

    `value`: at most 100 entities, each an `Entity` or a mapping {"kind": …, "name": …}. Raises InvalidInput that
    names the position of the first that is neither.
    """
    if value is None:
        return ()
    if not isinstance(value, list | tuple):
        raise InvalidInput(
            f"entities must be a list of {{'kind': …, 'name': …}}, not {type(value).__name__} ({value!r:.80})"
        )
    if len(value) > MAX_GIVEN_ENTITIES:
        raise InvalidInput(
            f"entities has {len(value):,} elements; at most {MAX_GIVEN_ENTITIES} are kept of a turn"
        )
    return tuple(dict.fromkeys(_given(position, element) for position, element in enumerate(value)))


def _given(position: int, element: object) -> Entity:
    if isinstance(element, Entity):
        return element
    if not isinstance(element, Mapping) or set(element) != {"kind", "name"}:
        raise InvalidInput(
            f"entities[{position}] is {element!r:.80}; it must have 'kind' and 'name' and nothing else,"
            " such as {'kind': 'brands', 'name': 'LANEIGE'}"
        )
    try:
        return Entity(kind=element["kind"], name=element["name"])
    except InvalidInput as exc:
        raise InvalidInput(f"entities[{position}]: {exc}") from exc


def _checked_name(name: object) -> str:
    text = checked_text("the name of an entity", name, max_chars=MAX_NAME_CHARS)
    for position, char in enumerate(text):
        if unicodedata.category(char) in ("Cc", "Zl", "Zp"):
            raise InvalidInput(
                f"the name of an entity has the control character {char!r} at position {position}; remove it"
            )
    composed = unicodedata.normalize("NFC", " ".join(text.split()))
    # A few characters are longer in NFC than they were.
    return checked_text("the name of an entity", composed, max_chars=MAX_NAME_CHARS)


@dataclass(frozen=True, kw_only=True, slots=True)
class TurnFeatures:
    """Features of a turn's text.

    `names`: the number of names in it, up to 3; `corrects`: it may replace an earlier turn.
    """

    asks: bool = False
    tells_when: bool = False
    counts: bool = False
    of_self: bool = False
    names: int = 0
    corrects: bool = False

    @property
    def packed(self) -> int:
        """The same as a number below 256, for stores."""
        flags = self.asks | self.tells_when << 1 | self.counts << 2 | self.of_self << 3
        return flags | self.names << 4 | self.corrects << 6

    @classmethod
    def unpacked(cls, packed: int) -> TurnFeatures:
        """The signs that `packed` stands for.

        >>> TurnFeatures.unpacked(TurnFeatures(counts=True, names=2).packed)
        TurnFeatures(asks=False, tells_when=False, counts=True, of_self=False, names=2, corrects=False)
        """
        return cls(
            asks=bool(packed & 1),
            tells_when=bool(packed & 2),
            counts=bool(packed & 4),
            of_self=bool(packed & 8),
            names=packed >> 4 & 3,
            corrects=bool(packed & 64),
        )


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class SearchRow:
    """The index entry of one turn, kept apart from its text.

    `vectors`: shape (passages, dimension), unit length, to 1/254 of the largest number of each; long turns have several passages.
    `terms`: normalised term -> how often it occurs, and the entities that the turn names (`Entity.term` -> 1);
    `length`: how many words that are, without the entities.
    `session_id`, `speaker` and `utc_offset_minutes` are the turn's, `signs` what its text shows at a glance, `told_days` the first
    and the last day of each time that it tells of, one after the other, as `date.toordinal` numbers them.
    `tokens`: the vectors of its first tokens as `search.late_interaction` packs them, for `RowStore.token_codes`; stores read rows
    without them.
    `embedder`: the fingerprint of what made the vectors, `language`: by which the terms were made; rows made otherwise
    than the current settings say are searched by what still fits, until they are made anew.
    `index_seq`: rises with every change of the user's rows; 0 until stored.
    `erased`: a stub that tells other processes to drop the turn from memory; it has no vectors and no terms.
    """

    turn_id: str
    user_id: str
    thread_id: str
    seq: int
    role: Role
    timestamp: datetime
    vectors: NDArray[np.floating[Any]]
    terms: Mapping[str, int]
    length: int
    embedder: str
    language: str
    session_id: str | None = None
    speaker: str | None = None
    utc_offset_minutes: int | None = None
    signs: TurnFeatures = TurnFeatures()
    told_days: tuple[int, ...] = ()
    tokens: bytes = b""
    index_seq: int = 0
    erased: bool = False

    def vectors_by(self, embedder: str) -> NDArray[np.floating[Any]] | None:
        """The row's vectors that this model made; None without any."""
        return self.vectors if self.embedder == embedder else None

    @classmethod
    def of(
        cls,
        turn: Turn,
        words: Mapping[str, int],
        entities: Iterable[Entity],
        features: TurnFeatures,
        told_days: tuple[int, ...],
        *,
        vectors: NDArray[np.floating[Any]],
        embedder: str,
        language: str,
        tokens: bytes = b"",
    ) -> SearchRow:
        """The row of a turn with these `words`, `entities`, `features` and `told_days`."""
        return cls(
            turn_id=turn.id,
            user_id=turn.user_id,
            thread_id=turn.thread_id,
            seq=turn.seq,
            role=turn.role,
            timestamp=turn.timestamp,
            vectors=vectors,
            terms={**words, **{entity.term: 1 for entity in entities}},
            length=sum(words.values()),
            embedder=embedder,
            language=language,
            session_id=turn.session_id,
            speaker=turn.speaker,
            utc_offset_minutes=turn.utc_offset_minutes,
            signs=features,
            told_days=told_days,
            tokens=tokens,
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class TermCandidates:
    """Rows that hold some of the asked terms, for users too large to keep resident.

    `rows` and `mean_length` (terms per row, over a recent sample) describe the user's whole collection;
    `frequency` says in how many of the user's rows each term occurs; `turn_ids` are the candidates in scope.
    """

    rows: int
    mean_length: float
    frequency: Mapping[str, int]
    turn_ids: tuple[str, ...]


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class PassageVector:
    """One passage of a turn for the vector index.

    `vector`: float32, shape (dimension,), unit length; `text`: what the turn says, where the index is to keep it.
    """

    turn_id: str
    passage: int
    thread_id: str
    role: Role
    timestamp: datetime
    vector: NDArray[np.float32]
    text: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class VectorFill:
    """How far a user's search rows are in the vector index.

    Those up to `through` are in the collection `place`. `pending`: there may be more. `marks` rises with every change of the rows that the index has to follow.
    """

    user_id: str
    place: str = ""
    through: int = 0
    pending: bool = True
    marks: int = 0


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class TokenVectors:
    """The tokens of one text as a model sees them in it, without the special ones ([CLS], [SEP]) that it adds.

    `spans`: int32, shape (tokens, 2): token n stands for the characters `text[start:end]` of the text as given, by
    rising start. Several tokens may stand for one character (the bytes of an emoji, the letters of a Korean syllable),
    and with some tokenizers a span begins with the blank before its word.
    `vectors`: float32 or float16, shape (tokens, directions), unit length; a model may tell them by fewer directions than its
    vectors of texts have numbers. A text without tokens has 0 rows in both.
    """

    spans: NDArray[np.int32]
    vectors: NDArray[np.float32] | NDArray[np.float16]


@dataclass(frozen=True, kw_only=True, slots=True)
class Similar:
    """A turn found by meaning: the cosine of its nearest passage with the query."""

    turn_id: str
    similarity: float


@dataclass(frozen=True, kw_only=True, slots=True)
class Recollection(LateFields):
    """A turn that search brought back.

    `score` in [0, 1] orders one answer's results, and only those; but a
    near-duplicate of a better one stands behind the others, and a turn that replaces another right before it, whatever its score.

    `confidence`: how probable it is that the turn answers the question or helps to, in [0, 1]; comparable between answers.
    `why`: what each signal added to the score (or took from it), the most first; together they are the score.
    `explanation`: the same in words. `similarity`: cosine of the question with the turn, None without a vector.
    `replaced_by`: the id of a later turn that says what holds instead of something in this one, if there is one: it takes that
    back, gives another value for it, or answers what it left open.
    """

    turn: Turn
    score: float
    confidence: float
    why: Mapping[str, float]
    explanation: str = ""
    similarity: float | None = None
    replaced_by: str | None = None

    @property
    def text(self) -> str:
        """What the turn says, as a prompt shows it: see `Turn.shown`."""
        return self.turn.shown

    @property
    def topic_id(self) -> str | None:
        """The topic of the turn; None until it is known."""
        return self.turn.topic_id
