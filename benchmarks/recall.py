"""How much of the known evidence is found: `python -m benchmarks.recall FILE [--store sqlite|mongodb]`.

Reads a recall set (one JSON object a line: turns, and questions with their gold turns), remembers each corpus
through the public API as its own user, asks each question, and prints

- turn recall@k: the mean share of a question's gold turns among the first k recollections;
- session any@5 and all@5: whether any, or all, of the gold sessions are among the first five distinct sessions;
- in context: the mean share of gold turns in a `fetch_memory` context of so many tokens;
- how long ingesting and asking took.

Gold is used for scoring only: what is remembered is role, speaker, date and text.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import lzma
import re
import sys
import time
from collections import defaultdict
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from benchmarks.measure import machine, open_service, percentiles
from memory_agent import TurnInput

if TYPE_CHECKING:
    from collections.abc import Iterator

    from memory_agent import MemoryAgent, MemoryService

DEPTH: Final = 50
KS: Final = (5, 10, 20)
BUDGETS: Final = (1_000, 2_000)
INGEST_BATCH: Final = 200
_ROLES: Final = ("user", "assistant", "system", "tool")
_DATE_FORMATS: Final = ("%I:%M %p on %d %B, %Y", "%Y/%m/%d %H:%M", "%Y-%m-%d %H:%M", "%Y-%m-%d")


@dataclass(slots=True)
class Scores:
    """Figures by question, by name; times in seconds."""

    values: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    ingest_seconds: float = 0.0
    turns: int = 0
    questions: int = 0

    def report(self) -> dict[str, Any]:
        """Means of the scores, percentiles of the times."""
        scores = {
            name: round(float(np.mean(given)), 4) for name, given in self.values.items() if "_s" not in name
        }
        return {
            "turns": self.turns,
            "questions": self.questions,
            **scores,
            "ingest_s": round(self.ingest_seconds, 1),
            "ingest_ms_per_turn": round(1_000 * self.ingest_seconds / max(self.turns, 1), 2),
            "search": percentiles(self.values["search_s"]),
            "fetch": percentiles(self.values["fetch_s"]),
        }


def read_corpora(file: Path) -> Iterator[dict[str, Any]]:
    """The corpora of a recall set, packed by xz or not."""
    with lzma.open(file, "rb") if file.suffix == ".xz" else file.open("rb") as lines:
        for line in lines:
            if line.strip():
                yield json.loads(line)


def read_date(text: str | None) -> datetime | None:
    """A recall set's date in UTC; None where it has none that we know how to read."""
    if not text:
        return None
    plain = re.sub(r"\s*\([A-Za-z]+\)", "", text)
    for form in _DATE_FORMATS:
        try:
            return datetime.strptime(plain, form).replace(tzinfo=UTC)
        except ValueError:
            continue
    return None


def as_input(turn: dict[str, Any]) -> TurnInput:
    """A turn as a caller would hand it in; a role that is a person's name becomes the speaker."""
    known = turn["role"] in _ROLES
    return TurnInput(
        role=turn["role"] if known else "user",
        speaker=None if known else turn["role"],
        content=turn["text"],
        timestamp=read_date(turn.get("date")),
    )


async def remember(memory: MemoryAgent, corpus: dict[str, Any]) -> dict[str, tuple[str, str]]:
    """Store a corpus; our turn id -> (its turn id, its session)."""
    turns = [turn for turn in corpus["turns"] if turn["text"].strip()]
    origin: dict[str, tuple[str, str]] = {}
    for start in range(0, len(turns), INGEST_BATCH):
        batch = turns[start : start + INGEST_BATCH]
        stored = await memory.add_turns([as_input(turn) for turn in batch])
        for ours, theirs in zip(stored, batch, strict=True):
            origin[ours.id] = (theirs["id"], theirs["session"])
    await memory.settle(timeout=3_600)
    return origin


async def ask(
    memory: MemoryAgent, question: dict[str, Any], origin: dict[str, tuple[str, str]], scores: Scores
) -> None:
    """Score one question."""
    began = time.perf_counter()
    found = await memory.fetch_long_term(question["text"], top_k=DEPTH)
    scores.values["search_s"].append(time.perf_counter() - began)
    turns = [origin[recollection.turn.id][0] for recollection in found]
    sessions = list(dict.fromkeys(origin[recollection.turn.id][1] for recollection in found))
    gold = set(question["gold_turns"])
    gold_sessions = set(question["gold_sessions"]) or {
        session for turn_id, session in origin.values() if turn_id in gold
    }
    if gold:
        for k in KS:
            scores.values[f"recall@{k}"].append(len(gold & set(turns[:k])) / len(gold))
        for budget in BUDGETS:
            began = time.perf_counter()
            context = await memory.fetch_memory(question["text"], max_tokens=budget)
            scores.values["fetch_s"].append(time.perf_counter() - began)
            shown = {origin[turn.id][0] for turn in context.short_term}
            shown |= {origin[recollection.turn.id][0] for recollection in context.long_term}
            scores.values[f"in_context@{budget}"].append(len(gold & shown) / len(gold))
    if gold_sessions:
        scores.values["session_any@5"].append(float(bool(gold_sessions & set(sessions[:5]))))
        scores.values["session_all@5"].append(float(gold_sessions <= set(sessions[:5])))
    scores.questions += 1


async def measure(service: MemoryService, file: Path, limit: int | None) -> Scores:
    """Remember and ask every corpus."""
    scores = Scores()
    for number, corpus in enumerate(read_corpora(file)):
        if limit is not None and number >= limit:
            break
        memory = service.agent(user_id=f"corpus-{corpus['corpus']}", thread_id="history")
        began = time.perf_counter()
        origin = await remember(memory, corpus)
        scores.ingest_seconds += time.perf_counter() - began
        scores.turns += len(origin)
        for question in corpus["questions"]:
            await ask(memory, question, origin, scores)
        print(
            f"{corpus['corpus']}: {len(origin)} turns, {len(corpus['questions'])} questions", file=sys.stderr
        )
    return scores


def setting(text: str) -> tuple[str, str]:
    """A setting of MemoryConfig as NAME=VALUE."""
    name, equals, value = text.partition("=")
    if not equals:
        raise argparse.ArgumentTypeError(f"{text!r} is not NAME=VALUE, as enable_compaction=false is")
    return name, value


async def run(arguments: argparse.Namespace) -> None:
    """Open a fresh service, measure, print."""
    settings = {
        "top_k_memories": arguments.top_k_memories,
        "embedding_backend": arguments.backend,
        "embedding_precision": arguments.precision,
        **dict(arguments.set),
    }
    async with open_service(arguments.store, uri=arguments.mongo_uri, **settings) as service:
        scores = await measure(service, arguments.file, arguments.limit)
    report = {
        "file": arguments.file.name,
        "store": arguments.store,
        "backend": arguments.backend,
        "precision": arguments.precision,
        "machine": machine(),
        "top_k_memories": arguments.top_k_memories,
        "set": dict(arguments.set),
        **scores.report(),
    }
    print(json.dumps(report, indent=2))


def main() -> None:
    """Parse the command line and run."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("file", type=Path, help="a recall set: JSON lines, or the same packed as .xz")
    parser.add_argument("--store", choices=("sqlite", "mongodb"), default="sqlite")
    parser.add_argument("--mongo-uri", help="a server to use; a fresh one is started without it")
    parser.add_argument("--backend", choices=("auto", "onnx", "torch"), default="auto")
    parser.add_argument("--precision", choices=("fp32", "int8"), default="fp32")
    parser.add_argument("--limit", type=int, help="only the first so many corpora")
    parser.add_argument(
        "--set",
        type=setting,
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="a setting of memory_agent, such as enable_compaction=false; may be given several times",
    )
    parser.add_argument(
        "--top-k-memories",
        type=int,
        default=DEPTH,
        help="recollections a context may hold (default %(default)s)",
    )
    asyncio.run(run(parser.parse_args()))


if __name__ == "__main__":
    main()
