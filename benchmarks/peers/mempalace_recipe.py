"""MemPalace's published recipes without a language model, after its own description.

Described in its benchmarks folder: BENCHMARKS.md and HYBRID_MODE.md of March 2026, and the runners longmemeval_bench.py as of
commit 14dce2b and locomo_bench.py as of 0948696. Its "hybrid" takes verbatim text in a Chroma collection with its default metric
and shortens the distances of the nearest candidates, d · Π (1 - weight · share), where shares are of the question's
keywords, names and quoted phrases that occur in the document.

- LoCoMo's form (v5) takes three times as many candidates as are asked for; weights .5 for keywords that are no names, .6 for
  quotes, .2 for names.
- LongMemEval's form (v4) takes 50 candidates; weights .3 for keywords, .4 for nearness to the time that the question speaks
  of, .4 for names. A question about what the assistant said goes to an index with the assistant's turns as well, with .3 for
  keywords and .6 for quotes. What a user says of likes, troubles and plans is in a document of its own besides.
- LongMemEval by turn is described with keywords only (v1).

Its documents: 'NAME said, "TEXT"' for speakers with names; else the user's turns alone. Those of a session are joined by
line breaks.
"""

from __future__ import annotations

import calendar
import re
from collections import defaultdict
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, ClassVar, Final, Literal

import chromadb
from chromadb.config import Settings

from benchmarks.peers.base import sayable
from benchmarks.recall_sets import read_date

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path

    from benchmarks.peers.base import Embedder
    from benchmarks.recall_sets import Corpus, Question, SetTurn

CANDIDATES: Final = 50
_DESCRIPTION: Final = {"description": "MemPalace/mempalace benchmarks, commits 14dce2b and 0948696"}
BATCH: Final = 1_000
_STOPS: Final = """
what when where who how which did do was were have has had is are the a an my me i you your their it its in on at to for of
with by from ago last that this there about get got give gave buy bought made make
"""
_NO_NAMES_EITHER: Final = """
our can could would should will shall may might and but these those previously recently also just very more said speaker
person time date year day
"""
_SAID_BY_YOU: Final = """suggested|told me|mentioned|said|recommended|provided|listed|gave me|described|came up with|helped me"""
_STOP_WORDS: Final = frozenset(_STOPS.split())
_NO_NAMES: Final = frozenset(
    (*_STOP_WORDS, *_NO_NAMES_EITHER.split(), *map(str.lower, (*calendar.day_name, *calendar.month_name)))
)
_KEYWORD: Final = re.compile(r"\b[a-z]{3,}\b")
_NAME: Final = re.compile(r"\b[A-Z][a-z]{2,15}\b")
_QUOTED: Final = (re.compile(r"'([^']{3,60})'"), re.compile(r'"([^"]{3,60})"'))
_OF_THE_ASSISTANT: Final = re.compile(
    rf"you (?:{_SAID_BY_YOU}|explained|identified)|remind me what you|what did you|can you remind me"
)
_AGO: Final = re.compile(
    r"(?P<count>\d+|\ba couple(?: of)?|\ba)\s+(?P<unit>day|week|month|year)s?\s+ago"
    r"|\blast\s+(?P<last>week|month|year)|(?P<yesterday>yesterday)|(?P<recently>recently)"
)
_DAYS: Final = {"day": 1, "week": 7, "month": 30, "year": 365}
_TOLERANCE: Final = {"day": (2, 2), "week": (3, 5), "month": (7, 10), "year": (30, 30)}
"""Days around the time spoken of, for one unit and for a number of them."""
_PUNCTUATED_END: Final = r"\s*([^,.!?]{5,80})"
_MENTION: Final = re.compile(
    r"(?:\bi(?:'ve| have) been (?:having (?:trouble|issues?|problems?) with|feeling|(?:struggling|dealing) with"
    r"|(?:worried|concerned) about|(?:trying|attempting) to|considering|thinking about|working on|focused on"
    r"|interested in|noticing|experiencing)"
    r"|\bi(?:'m| am) (?:(?:worried|concerned|thinking) about|looking (?:to|for)|thinking of)"
    r"|\b(?:lately|recently)[,\s]+(?:i've been|i have been|i'm|i am)"
    r"|\bi (?:prefer|usually|want to|used to)|\bi (?:still )?remember(?: the| my)?"
    r"|\bwhen i was (?:in high school|in college|young|a kid|growing up)[,\s]|\bgrowing up[,\s])"
    + _PUNCTUATED_END
)
_MENTIONS: Final = 12


class _Recipe:
    """The recipe at both grains; a document's metadata name what it stands for."""

    package: ClassVar[str] = "chromadb"
    ranks: ClassVar[Literal["turns", "sessions"]]

    def __init__(self, folder: Path, embedder: Embedder) -> None:
        self._embedder = embedder
        self._client: Any = chromadb.PersistentClient(
            path=str(folder), settings=Settings(anonymized_telemetry=False)
        )
        self._named = False
        self._date_of: dict[str, str | None] = {}

    def remember(self, corpus: Corpus) -> None:
        """One document per turn or session, and for LongMemEval's hybrid by session the two indexes more that it asks for."""
        turns = sayable(corpus)
        self._named = any(turn.speaker for turn in turns)
        said = turns if self._named else [turn for turn in turns if turn.role == "user"]
        documents = self._documents(said)
        if self.ranks == "sessions" and not self._named:
            self._add("whole", self._documents(turns))
            documents += [
                (session, "User has mentioned: " + "; ".join(found))
                for session, its in _by_session(said).items()
                if (found := _mentions(turn.text for turn in its))
            ]
        self._add("main", documents)
        self._date_of = {turn.session: turn.date for turn in turns}

    def search(self, question: Question, depth: int) -> list[str]:
        """The least of the shortened distances first."""
        asked_whole = (
            self.ranks == "sessions"
            and not self._named
            and _OF_THE_ASSISTANT.search(question.text.lower()) is not None
        )
        pool = 3 * depth if self._named else max(CANDIDATES, depth)
        found = self._nearest("whole" if asked_whole else "main", question.text, pool)
        shortened = [
            (self._shortened(question, ref, text, distance, asked_whole), ref)
            for distance, ref, text in found
        ]
        refs = [ref for _, ref in sorted(shortened, key=lambda one: one[0])]
        return list(dict.fromkeys(refs))[:depth]

    def close(self) -> None:
        """Stop the client."""
        self._client.close()

    def _documents(self, turns: Sequence[SetTurn]) -> list[tuple[str, str]]:
        def shown(turn: SetTurn) -> str:
            return f'{turn.speaker} said, "{turn.text}"' if turn.speaker else turn.text

        if self.ranks == "turns":
            return [(turn.id, shown(turn)) for turn in turns]
        return [
            (session, "\n".join(shown(turn) for turn in its)) for session, its in _by_session(turns).items()
        ]

    def _add(self, name: str, documents: Sequence[tuple[str, str]]) -> None:
        collection = self._client.create_collection(name, embedding_function=None)
        for start in range(0, len(documents), BATCH):
            batch = documents[start : start + BATCH]
            texts = [text for _, text in batch]
            collection.add(
                ids=[str(start + number) for number in range(len(batch))],
                documents=texts,
                metadatas=[{"ref": ref} for ref, _ in batch],
                embeddings=self._embedder.embed(texts),
            )

    def _nearest(self, name: str, query: str, count: int) -> list[tuple[float, str, str]]:
        """Distance, what it stands for, and text, of the nearest documents."""
        found: Any = self._client.get_collection(name, embedding_function=None).query(
            query_embeddings=self._embedder.embed([query]),
            n_results=count,
            include=["distances", "documents", "metadatas"],
        )
        refs = (one["ref"] for one in found["metadatas"][0])
        return list(zip(found["distances"][0], refs, found["documents"][0], strict=True))

    def _shortened(
        self, question: Question, ref: str, text: str, distance: float, of_assistant: bool
    ) -> float:
        names = {name for name in _NAME.findall(question.text) if name.lower() not in _NO_NAMES}
        words = [word for word in _KEYWORD.findall(question.text.lower()) if word not in _STOP_WORDS]
        quotes = [quote.strip() for pattern in _QUOTED for quote in pattern.findall(question.text)]
        if self._named:
            spoken = {name.lower() for name in names}
            shares = (
                (0.5, _share([word for word in words if word not in spoken], text)),
                (0.6, _share(quotes, text)),
                (0.2, _share(names, text)),
            )
        elif of_assistant:
            shares = ((0.3, _share(words, text)), (0.6, _share(quotes, text)), (0.0, 0.0))
        elif self.ranks == "turns":
            shares = ((0.3, _share(words, text)), (0.0, 0.0), (0.0, 0.0))
        else:
            shares = (
                (0.3, _share(words, text)),
                (0.4, nearness(question, self._date_of.get(ref))),
                (0.4, _share(names, text)),
            )
        for weight, share in shares:
            distance *= 1.0 - weight * share
        return distance


class HybridTurns(_Recipe):
    """Turns, v5 for speakers with names, else keywords only."""

    name: ClassVar[str] = "mempalace-hybrid"
    ranks: ClassVar[Literal["turns", "sessions"]] = "turns"
    settings: ClassVar[Mapping[str, Any]] = {
        **_DESCRIPTION,
        "recipe": "hybrid v5, v1 for LongMemEval",
        "grain": "turn",
    }


class HybridSessions(_Recipe):
    """Sessions, v5 for speakers with names, else v4."""

    name: ClassVar[str] = "mempalace-hybrid-sessions"
    ranks: ClassVar[Literal["turns", "sessions"]] = "sessions"
    settings: ClassVar[Mapping[str, Any]] = {
        **_DESCRIPTION,
        "recipe": "hybrid v5, v4 for LongMemEval",
        "grain": "session",
    }


def nearness(question: Question, date: str | None) -> float:
    """From 1 within the tolerance of the time that the question speaks of, down to 0 at three times as far."""
    asked, written = read_date(question.date), read_date(date)
    spoken = _spoken_time(question.text)
    if asked is None or written is None or spoken is None:
        return 0.0
    days, tolerance = spoken
    target = _day(asked) - timedelta(days=days)
    away = abs((_day(written) - target).days)
    return min(1.0, max(0.0, 1.0 - (away - tolerance) / (2 * tolerance)))


def _spoken_time(text: str) -> tuple[int, int] | None:
    """How many days ago, and give or take how many."""
    match = _AGO.search(text.lower())
    if match is None:
        return None
    if match["yesterday"]:
        return 1, 1
    if match["recently"]:
        return 14, 14
    unit = match["last"] or match["unit"]
    given = match["count"] or "a"
    count = int(given) if given.isdecimal() else 1 if given == "a" else 2
    return count * _DAYS[unit], _TOLERANCE[unit][given.isdecimal()]


def _day(moment: datetime) -> datetime:
    return moment.replace(hour=0, minute=0)


def _share(wanted: Iterable[str], text: str) -> float:
    """The share of `wanted` that `text` holds, whatever the case; 0 if nothing is wanted."""
    folded = text.lower()
    held = [one.lower() in folded for one in wanted]
    return sum(held) / len(held) if held else 0.0


def _by_session(turns: Iterable[SetTurn]) -> dict[str, list[SetTurn]]:
    sessions: dict[str, list[SetTurn]] = defaultdict(list)
    for turn in turns:
        sessions[turn.session].append(turn)
    return sessions


def _mentions(texts: Iterable[str]) -> list[str]:
    found = (match.strip() for text in texts for match in _MENTION.findall(text.lower()))
    return [one for one in dict.fromkeys(found) if len(one) >= 5][:_MENTIONS]
