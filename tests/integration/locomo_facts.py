"""Scripted extraction of a whole conversation: rules make facts of its sentences when the test runs.

The conversation is one of LoCoMo-dev where that file is (`../shared/data`; its licence forbids to ship any of its text),
and one that is made up here otherwise. The rules know nothing of either: they look at the words of each sentence.
"""

from __future__ import annotations

import functools
import json
import re
import zlib
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.recall import as_input
from benchmarks.recall_sets import read_corpora
from memory_agent import TurnInput
from tests.integration.fact_script import Asked, add, by_message, retract, update

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from tests.integration.fact_script import Item
    from tests.servers.openai_script import Request

LOCOMO = Path(__file__).resolve().parents[3] / "shared" / "data" / "locomo-dev.jsonl.xz"
SOURCE = "locomo-dev" if LOCOMO.exists() else "made-up"
"""Which conversation the tests run on; part of their names."""

_SENTENCE = re.compile(r"[^.!?\n\[\]]+[.!]")
_LEAST_WORDS = 6


def conversation() -> list[TurnInput]:
    """Two people's turns over many sessions, in order, all as users with their names."""
    if LOCOMO.exists():
        corpus = next(iter(read_corpora(LOCOMO)))
        return [as_input(turn) for turn in corpus.turns if turn.text.strip()]
    return list(_made_up())


def _made_up() -> Iterator[TurnInput]:
    begun = datetime(2026, 1, 5, 18, tzinfo=UTC)
    things = [
        "garden",
        "violin",
        "kayak",
        "bakery",
        "telescope",
        "allotment",
        "marathon",
        "choir",
        "workshop",
        "lighthouse",
    ]
    for number in range(420):
        thing, speaker = things[number * 7 % 10], ("Ines", "Jonas")[number % 2]
        # The longest word: so many places that most are gone to once, and some twice, by the same person.
        which = number % 340
        place = f"Marrow{''.join(chr(97 + which // 26**digit % 26) for digit in range(2))}holmsworth"
        yield TurnInput(
            role="user",
            speaker=speaker,
            timestamp=begun + timedelta(days=7 * (number // 22)),
            content=f"Hello again! In week {number} I went to {place} with my cousin to see the {thing}. And you?",
        )


# --- the rules -----------------------------------------------------------------------------------------------
def sentences(text: str) -> list[str]:
    """Statements of some length, as they stand in the text, but for those that another turn repeats."""
    found = (match[0].strip() for match in _SENTENCE.finditer(text))
    return [
        sentence
        for sentence in found
        if len(sentence.split()) >= _LEAST_WORDS and _times_said(_words(sentence)) == 1
    ]


def _words(text: str) -> str:
    return " ".join(re.findall(r"\w+", text.casefold()))


@functools.cache
def _all_words() -> tuple[str, ...]:
    return tuple(_words(turn.content) for turn in conversation())


@functools.cache
def _times_said(words: str) -> int:
    return sum(words in said for said in _all_words())


def chance(text: str, of: int) -> bool:
    """True for one text in `of`, always the same ones."""
    return zlib.crc32(text.encode()) % of == 0


def state(asked: Asked) -> Iterable[Item]:
    """What the scripted model says of a message.

    Of each statement: what it is about (a value each, so that a later one on the same contradicts it). Of the first:
    when they last talked, whom it is about (a restatement), now and then that the last talk is to be forgotten, and
    now and then something that nobody said.
    """
    who = asked.speaker.lower()
    for place, sentence in enumerate(sentences(asked.text)):
        yield update(f"people.{who}.on.{subject(sentence)}", sentence, sentence)
        if place:
            continue
        if chance(sentence, 3):
            yield add("people.names", [asked.speaker], sentence, confidence=0.6)
        if chance(sentence, 4):
            yield add(f"people.{who}.last_talk", asked.date, sentence)
        elif chance(sentence, 23):
            yield retract(f"people.{who}.last_talk", sentence)
        if chance(sentence, 11):
            invented = " ".join(reversed(sentence.split()))
            yield add(f"people.{who}.invented", sentence, invented)


def subject(sentence: str) -> str:
    """What a sentence is about: its longest word."""
    words: list[str] = re.findall(r"[a-z]+", sentence.lower())
    return f"about_{max(words, key=len)}"


answer = by_message(state)


@dataclass
class Metered:
    """The scripted model, with the usage that its server will count."""

    requests: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    asked_about: list[int] = field(default_factory=list)

    def __call__(self, body: Request) -> str:
        reply = answer(body)
        self.requests += 1
        self.prompt_tokens += sum(len(message["content"].split()) for message in body["messages"])
        self.completion_tokens += len(reply.split())
        self.asked_about.append(len(json.loads(reply)["additions"]))
        return reply


# --- the same rules, plainly applied ---------------------------------------------------------------------------
@dataclass
class Expected:
    """What the rules come to when a turn's statements are applied in order, retractions first, then updates."""

    values: dict[str, Any] = field(default_factory=dict)
    older: dict[str, list[Any]] = field(default_factory=dict)
    names: list[str] = field(default_factory=list)
    named: int = 0
    invented: int = 0

    def put(self, path: str, value: Any) -> None:
        before = self.values.get(path)
        if before is not None and " ".join(before.casefold().split()) == " ".join(value.casefold().split()):
            return
        if before is not None:
            self.older.setdefault(path, []).append(before)
        self.values[path] = value


def expected(turns: Sequence[TurnInput]) -> Expected:
    """What is to be known in the end."""
    known = Expected()
    order = ("retractions", "updates", "additions")
    for turn in turns:
        assert turn.timestamp is not None
        asked = Asked(
            number=1, date=f"{turn.timestamp:%A %Y-%m-%d}", speaker=turn.speaker or "user", text=turn.content
        )
        for name, item in sorted(state(asked), key=lambda said: order.index(said[0])):
            path = item["path"]
            if path.endswith(".invented"):
                known.invented += 1
            elif path == "people.names":
                known.named += 1
                known.names += [who for who in item["value"] if who not in known.names]
            elif name == "retractions":
                gone = known.values.pop(path, None)
                if gone is not None:
                    known.older.setdefault(path, []).append(gone)
            else:
                known.put(path, item["value"])
    return known
