"""What compaction saves and costs, and that it loses nothing: `python -m benchmarks.compaction FILE... [--store …]`.

FILE is a recall set. Each corpus is remembered by a user of its own, with compaction and without, and settled:
`--feed conversation` two turns a call, settled after each, as people talk; `--feed bulk` 200 a call. Summaries are
extractive. Every vector is known beforehand, so that seconds show what is done apart from embedding. Prints

- turns: whether every turn is readable byte for byte and in order (if not, the exit code is 1), how many are
  compressed, in how many segments of how many topics;
- space of the compressed turns in bytes a turn: their texts in UTF-8; the segments, which hold texts alone; segments
  with what stands outside of them for the same message (the role's letters, the time as 8 bytes); and with what says
  where a text is as well (on SQLite two integers of the turn, on MongoDB the segment's id in the turn and the turns'
  in the segment). What else a segment's row has is in the pages of the whole store. Beside it a peer's way for the
  same messages grouped alike:
  [{"role", "content", "timestamp"}, …] as JSON, gzip level 9, base64;
- the whole store: on SQLite the file after VACUUM, with pages by table (dbstat, a table with its indexes), on MongoDB
  collStats (`size` is BSON before WiredTiger compresses it, `storage_size` the files);
- seconds a turn with and without compaction, by the clock and of this process' processor time;
- the codecs alone, with so many turns in a row to a segment.
"""

from __future__ import annotations

import argparse
import asyncio
import base64
import contextlib
import gzip
import json
import sqlite3
import statistics
import sys
import time
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from uuid import uuid4

import bson
import pymongo
from pymongo.database import Database as MongoDatabase

from benchmarks.measure import machine, mongo_uri, open_service
from benchmarks.recall import as_input
from benchmarks.recall_sets import read_corpora
from memory_agent.models.local.choose import ModelChoiceRequest
from memory_agent.models.local.embedder import LocalEmbedder
from memory_agent.stores.segments import BROTLI, GZIP, STORED, pack_texts

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from memory_agent import MemoryService, Turn, TurnInput
    from memory_agent.ports import Embedder

CALLS: Final = {"conversation": 2, "bulk": 200}
"""Turns a call, by feed."""
PER_SEGMENT: Final = (8, 12, 20, 60)
CODECS: Final = {"stored": STORED, "gzip": GZIP, "brotli": BROTLI}
TIME_BYTES: Final = 8
SETTLE_SECONDS: Final = 3_600

Corpora = dict[str, list["TurnInput"]]
"""User id -> what was said."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Segment:
    """One segment as it is stored: whose texts, in how many bytes."""

    topic_id: str
    turn_ids: Sequence[str]
    packed_bytes: int
    places_bytes: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Run:
    """One feeding of all corpora. Seconds by the clock, and of this process' processors."""

    seconds: float
    cpu_seconds: float
    faithful: bool
    turns: dict[str, Turn]
    segments: list[Segment]
    space: dict[str, Any]


def read_inputs(files: Sequence[Path], limit: int | None) -> Corpora:
    """The corpora, empty turns left out."""
    corpora: Corpora = {}
    for file in files:
        for number, corpus in enumerate(read_corpora(file)):
            if limit is not None and number >= limit:
                break
            said = [as_input(turn) for turn in corpus.turns if turn.text.strip()]
            corpora[f"{file.name}-{corpus.name}"] = said
    return corpora


# --- one run -------------------------------------------------------------------------------------------------
async def run_once(
    store: str, uri: str | None, corpora: Corpora, embedder: Embedder, *, feed: str, compaction: bool
) -> Run:
    """Remember everything in a fresh database and look at what is stored."""
    settings: dict[str, Any] = {"db_name": f"b{uuid4().hex[:12]}"}
    if not compaction:
        settings["max_messages_per_topic"] = 100_000
    async with open_service(store, uri=uri, embedder=embedder, **settings) as service:
        began, cpu_began = time.perf_counter(), time.process_time()
        await remember(service, corpora, CALLS[feed])
        seconds, cpu_seconds = time.perf_counter() - began, time.process_time() - cpu_began
        faithful, turns = await read_back(service, corpora)
        with database(service, uri) as db:
            run = Run(
                seconds=seconds,
                cpu_seconds=cpu_seconds,
                faithful=faithful,
                turns=turns,
                segments=list(segments_of(db)),
                space=space_of(db),
            )
    print(f"{feed}, compaction {'on' if compaction else 'off'}: {seconds:.1f} s", file=sys.stderr)
    return run


async def remember(service: MemoryService, corpora: Corpora, per_call: int) -> None:
    """Store and settle all turns; conversations settle after every call."""
    for user_id, said in corpora.items():
        memory = service.agent(user_id, "history")
        for start in range(0, len(said), per_call):
            await memory.add_turns(said[start : start + per_call])
            if per_call == CALLS["conversation"]:
                await memory.settle(timeout=SETTLE_SECONDS)
    await service.settle(timeout=SETTLE_SECONDS)


async def read_back(service: MemoryService, corpora: Corpora) -> tuple[bool, dict[str, Turn]]:
    """Whether everything is there as it was said, in its order; and all turns by id."""
    turns: dict[str, Turn] = {}
    faithful = True
    for user_id, said in corpora.items():
        stored = await service.core.store.list_turns(service.agent(user_id, "history").scope)
        turns |= {turn.id: turn for turn in stored}
        same = len(stored) == len(said) and all(map(_is, stored, said))
        if not same:
            print(f"{user_id}: what is read is not what was said", file=sys.stderr)
        faithful &= same
    return faithful, turns


def _is(turn: Turn, said: TurnInput) -> bool:
    return (
        (turn.role, turn.speaker) == (said.role, said.speaker)
        and turn.content.encode() == said.content.encode()
        and said.timestamp in (None, turn.timestamp)
    )


# --- what a database holds -----------------------------------------------------------------------------------
Database = sqlite3.Connection | MongoDatabase[dict[str, Any]]


@contextlib.contextmanager
def database(service: MemoryService, uri: str | None) -> Iterator[Database]:
    """The service's database by its plain driver, dropped afterwards where it is a server's."""
    name = service.cfg.db_name
    if uri is None:
        file = service.cfg.data_dir / f"{name}.sqlite3"
        with contextlib.closing(sqlite3.connect(f"file:{file}?mode=ro", uri=True)) as connection:
            yield connection
        return
    with pymongo.MongoClient[dict[str, Any]](uri) as client:
        client.admin.command("fsync")  # collStats counts what a checkpoint has written
        yield client[name]
        client.drop_database(name)


def segments_of(db: Database) -> Iterator[Segment]:
    """All segments."""
    if isinstance(db, sqlite3.Connection):
        yield from _sqlite_segments(db)
        return
    for document in db["segments"].find():
        ids = document["turn_ids"]
        pointing = bson.encode({"segment_id": document["_id"]})
        yield Segment(
            topic_id=document["topic_id"],
            turn_ids=ids,
            packed_bytes=len(document["data"]),
            places_bytes=len(bson.encode({"turn_ids": ids})) + len(ids) * len(pointing),
        )


def _sqlite_segments(db: sqlite3.Connection) -> Iterator[Segment]:
    pointing: dict[int, list[tuple[int, str]]] = defaultdict(list)
    for segment_id, at, turn_id in db.execute(
        "SELECT segment_id, segment_at, id FROM turns WHERE segment_id IS NOT NULL"
    ):
        pointing[segment_id].append((at, turn_id))
    for segment_id, topic_id, packed in db.execute("SELECT id, topic_id, length(data) FROM segments"):
        places = sorted(pointing[segment_id])
        yield Segment(
            topic_id=topic_id,
            turn_ids=[turn_id for _, turn_id in places],
            packed_bytes=packed,
            places_bytes=sum(_column_bytes(segment_id) + _column_bytes(at) for at, _ in places),
        )


def _column_bytes(value: int) -> int:
    """What a number above -1 takes in a row, its type included: https://www.sqlite.org/fileformat2.html, 2.1."""
    sizes = {0: 2, 1: 128, 2: 1 << 15, 3: 1 << 23, 4: 1 << 31, 6: 1 << 47, 8: 1 << 63}
    return 1 + next(size for size, bound in sizes.items() if value < bound)


def space_of(db: Database) -> dict[str, Any]:
    """What the whole database takes, in bytes."""
    if isinstance(db, sqlite3.Connection):
        return _sqlite_space(db)
    report: dict[str, Any] = {}
    for name in sorted(db.list_collection_names()):
        stats = db.command("collStats", name)
        report[name] = {
            "size": stats["size"],
            "storage_size": stats["storageSize"],
            "index_size": stats["totalIndexSize"],
        }
    total = {key: sum(of[key] for of in report.values()) for key in ("size", "storage_size", "index_size")}
    return {"topics": db["topics"].count_documents({}), "total": total, "by_collection": report}


def _sqlite_space(db: sqlite3.Connection) -> dict[str, Any]:
    (file,) = (row[2] for row in db.execute("PRAGMA database_list"))
    as_it_is = Path(file).stat().st_size
    copy = Path(f"{file}.vacuumed")
    db.execute("VACUUM INTO ?", [str(copy)])
    with contextlib.closing(sqlite3.connect(copy)) as vacuumed:
        by_table = vacuumed.execute(
            "SELECT m.tbl_name, sum(s.pgsize) FROM dbstat s JOIN sqlite_master m ON m.name = s.name GROUP BY 1"
        ).fetchall()
        (topics,) = vacuumed.execute("SELECT count(*) FROM topics").fetchone()
    return {
        "topics": topics,
        "file": as_it_is,
        "total": copy.stat().st_size,
        "by_table": dict(by_table),
    }


# --- figures -------------------------------------------------------------------------------------------------
def compressed_space(run: Run) -> dict[str, Any]:
    """Bytes a compressed turn, ours and the peer's, in the segments as they are."""
    groups = [(segment, [run.turns[turn_id] for turn_id in segment.turn_ids]) for segment in run.segments]
    sizes = [len(members) for _, members in groups]
    if not sizes:
        return {"compressed_turns": 0}
    texts = sum(len(turn.content.encode()) for _, members in groups for turn in members)
    packed = sum(segment.packed_bytes for segment, _ in groups)
    outside = sum(len(turn.role) + TIME_BYTES for _, members in groups for turn in members)
    places = sum(segment.places_bytes for segment, _ in groups)
    ours = {
        "segments": packed,
        "segments_roles_times": packed + outside,
        "segments_roles_times_places": packed + outside + places,
    }
    theirs = sum(peer_bytes(members) for _, members in groups)
    count = sum(sizes)
    return {
        "compressed_turns": count,
        "segments": len(groups),
        "topics": len({segment.topic_id for segment in run.segments}),
        "turns_per_segment": {"least": min(sizes), "median": statistics.median(sizes), "most": max(sizes)},
        "bytes_per_turn": per_turn({"texts": texts, **ours, "peer": theirs}, count),
        "texts/ours": ratios(texts, ours),
        "peer/ours": ratios(theirs, ours),
    }


def peer_bytes(turns: Sequence[Turn]) -> int:
    """JSON, gzip, base64 of the same messages."""
    messages = [
        {"role": turn.role, "content": turn.content, "timestamp": turn.timestamp.isoformat()}
        for turn in turns
    ]
    encoded = json.dumps(messages, ensure_ascii=False).encode()
    return len(base64.b64encode(gzip.compress(encoded, compresslevel=9)))


def codec_space(turns: Sequence[Sequence[Turn]]) -> dict[str, Any]:
    """By turns to a segment: bytes a turn of each codec and of the peer's way, without what stands outside."""
    report = {}
    for size in PER_SEGMENT:
        # The last few turns would make a smaller segment than the size says.
        groups = [said[i : i + size] for said in turns for i in range(0, len(said) - size + 1, size)]
        taken: dict[str, int] = defaultdict(int)
        for group in groups:
            texts = [turn.content for turn in group]
            taken["texts"] += sum(len(text.encode()) for text in texts)
            for name, codec in CODECS.items():
                taken[name] += len(pack_texts(texts, codec=codec).data)
            taken["brotli_roles_times"] += sum(len(turn.role) + TIME_BYTES for turn in group)
            taken["peer"] += peer_bytes(group)
        taken["brotli_roles_times"] += taken["brotli"]
        ours = {name: taken[name] for name in ("brotli", "brotli_roles_times")}
        report[str(size)] = {
            "segments": len(groups),
            "bytes_per_turn": per_turn(taken, size * len(groups)),
            "peer/ours": ratios(taken["peer"], ours),
        }
    return report


def per_turn(sizes: Mapping[str, int], turns: int) -> dict[str, float]:
    """Each size as bytes a turn."""
    return {name: round(size / max(turns, 1), 1) for name, size in sizes.items()}


def ratios(of: int, sizes: Mapping[str, int]) -> dict[str, float]:
    """`of` as a multiple of each size."""
    return {name: round(of / max(size, 1), 2) for name, size in sizes.items()}


def cost(runs: Mapping[bool, Sequence[Run]], turns: int) -> dict[str, Any]:
    """Milliseconds a turn without and with compaction: medians of the rounds."""

    def milliseconds(seconds: Sequence[float]) -> float:
        return round(1_000 * statistics.median(seconds) / max(turns, 1), 3)

    return {
        ("with" if compaction else "without"): {
            "ms_per_turn": milliseconds([run.seconds for run in of]),
            "cpu_ms_per_turn": milliseconds([run.cpu_seconds for run in of]),
        }
        for compaction, of in runs.items()
    }


async def measure(
    arguments: argparse.Namespace, corpora: Corpora, uri: str | None
) -> tuple[bool, dict[str, Any]]:
    """All runs and their report; whether every turn came back as it was."""
    turns = sum(map(len, corpora.values()))
    embedder = LocalEmbedder(ModelChoiceRequest(model="all-MiniLM-L6-v2"), cache_size=8 * turns)
    runs: dict[bool, list[Run]] = {False: [], True: []}
    try:
        await run_once(arguments.store, uri, corpora, embedder, feed="bulk", compaction=False)
        for _ in range(arguments.rounds):
            for compaction, of in runs.items():
                of.append(
                    await run_once(
                        arguments.store, uri, corpora, embedder, feed=arguments.feed, compaction=compaction
                    )
                )
    finally:
        await embedder.close()
    last = runs[True][-1]
    whole = {"without": runs[False][-1].space, "with": last.space}
    by_user: dict[str, list[Turn]] = defaultdict(list)
    for turn in last.turns.values():
        by_user[turn.user_id].append(turn)
    faithful = all(run.faithful for of in runs.values() for run in of)
    return faithful, {
        "turns": turns,
        "all_readable_byte_for_byte": faithful,
        "compressed": compressed_space(last),
        "whole_store_bytes": whole,
        "cost": cost(runs, turns),
        "turns_in_a_row": codec_space(list(by_user.values())),
    }


def main() -> None:
    """Parse the command line, measure, print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument(
        "files", nargs="+", type=Path, help="recall sets: JSON lines, or the same packed as .xz"
    )
    parser.add_argument("--store", choices=("sqlite", "mongodb"), default="sqlite")
    parser.add_argument("--mongo-uri", help="a server to use; a fresh one is started without it")
    parser.add_argument("--feed", choices=tuple(CALLS), default="conversation")
    parser.add_argument("--rounds", type=int, default=2, help="of each way (default %(default)s)")
    parser.add_argument("--limit", type=int, help="only the first so many corpora of each file")
    arguments = parser.parse_args()
    corpora = read_inputs(arguments.files, arguments.limit)
    server = mongo_uri(arguments.mongo_uri) if arguments.store == "mongodb" else contextlib.nullcontext()
    with server as uri:
        faithful, figures = asyncio.run(measure(arguments, corpora, uri))
    report = {
        "files": [file.name for file in arguments.files],
        "store": arguments.store,
        "feed": arguments.feed,
        "machine": machine(),
        **figures,
    }
    print(json.dumps(report, indent=2))
    sys.exit(0 if faithful else 1)


if __name__ == "__main__":
    main()
