"""Whether turns find their topics: `python -m benchmarks.topics FILE... [--limit N]`.

FILE is a recall set (one JSON object a line: turns with their sessions). Its turns are embedded by all-MiniLM-L6-v2,
replies too, and each corpus is gone through as the topics stage does, once for each setting. A session stands for a
topic, which is nearly true of LongMemEval (a session has mostly one subject, though two may share theirs) and not of
LoCoMo (two people's chats touch several). Sessions come one after the other, so staying in the current topic would be
right too often; `interleaved` therefore deals the same sessions in pairs, three turns of one, three of the other.

For each setting, the mean over corpora, of user turns only (replies follow their question):

- topics per 100 turns, the share of topics with one turn, the median and 90th percentile of turns per topic, the
  largest topic's share of the turns, topics per session, turns per run of one topic;
- `b_cubed` precision, recall and F1 against sessions (Bagga & Baldwin 1998: for each turn, the share of its topic that
  is of its session, and of its session that is in its topic). It weighs each turn alike, where counts of pairs weigh a
  session by the square of its length and let one large topic decide. The adjusted Rand index, which counts pairs but
  corrects for chance, is given beside it;
- `stays_inside`, `stays_across`: how often two turns in a row share a topic, within a session and where one ends.

Corpora with an even number in their file are for choosing settings ("tuning"), the others for checking them ("check").
A person named as the role speaks as a user. The names' directions are taken out (`without_direction`) unless the
setting says otherwise. Prints JSON, and a table on stderr.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import json
import sys
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal

import numpy as np

from benchmarks.measure import machine
from benchmarks.recall_sets import read_corpora
from memory_agent.models.local.choose import ModelChoiceRequest
from memory_agent.models.local.embedder import LocalEmbedder
from memory_agent.topics.matching import (
    RECENT_VECTORS,
    MatchSettings,
    joined_embedding,
    match_topic,
    turn_terms,
    turn_vector,
    without_direction,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from numpy.typing import NDArray

    from benchmarks.recall_sets import SetTurn

    Vector = NDArray[np.float32]

MODEL: Final = "all-MiniLM-L6-v2"
EMBED_BATCH: Final = 256
BLOCK_TURNS: Final = 3
IN_TABLE: Final = (
    *("topics_per_100", "one_turn_topics", "p90_turns", "largest_share", "topics_per_session"),
    *("turns_per_run", "stays_inside", "stays_across", "b_cubed_f1", "adjusted_rand"),
)
DEFAULT: Final = MatchSettings()
PLAIN: Final = MatchSettings(continuation_bonus=0.0, short_turn_terms=0)
SHORT_REPLIES: Final = (
    *("yes, the second one", "ok thanks!", "no", "haha", "sounds good", "continue", "why?", "👍"),
    *("그래 좋아", "네, 두 번째 거요", "ㅋㅋㅋㅋ", "好的，第二个", "はい、二番目でお願いします"),
    *("sí, la segunda opción", "да, второй", "ใช่ อันที่สอง"),
    *("How tall is Mount Everest?", "Can you recommend a vegetarian lasagna recipe for six people?"),
)


@dataclass(frozen=True, kw_only=True, slots=True)
class Said:
    """A turn as it is matched. `plain`: the vector with the speaker's name still in it."""

    is_reply: bool
    text: str
    session: str
    terms: int
    vector: Vector | None
    plain: Vector | None


@dataclass(frozen=True, kw_only=True, slots=True)
class Setting:
    """One way of matching. `joins`: whose vectors become part of a topic; `recent`: see `joined_embedding`."""

    match: MatchSettings = DEFAULT
    recent: int | None = RECENT_VECTORS
    joins: Literal["all", "users", "worded"] = "worded"
    names: bool = False

    def label(self) -> str:
        """What tells it from others, in a few words."""
        match = self.match
        parts = [f"threshold {match.similarity_threshold:.2f}", f"bonus {match.continuation_bonus:.2f}"]
        parts += [f"short {match.short_turn_terms}", f"recent {self.recent or 'all'}"]
        parts += {"worded": [], "users": ["users' vectors only"], "all": ["short turns' vectors too"]}[
            self.joins
        ]
        return ", ".join(parts + (["names left in"] if self.names else []))


# --- turns ---------------------------------------------------------------------------------------------------
async def embed(texts: Iterable[str]) -> dict[str, Vector | None]:
    """One vector for each text, made of its passages as the product keeps them."""
    embedder = LocalEmbedder(ModelChoiceRequest(model=MODEL, backend="onnx", precision="fp32"))
    vectors: dict[str, Vector | None] = {}
    distinct = list(dict.fromkeys(texts))
    for start in range(0, len(distinct), EMBED_BATCH):
        batch = distinct[start : start + EMBED_BATCH]
        passages = [await embedder.split(text) for text in batch]
        rows = await embedder.embed([part for parts in passages for part in parts], purpose="document")
        first = 0
        for text, parts in zip(batch, passages, strict=True):
            vectors[text] = turn_vector(rows[first : first + len(parts)].astype(np.float16))
            first += len(parts)
        print(f"embedded {start + len(batch)} of {len(distinct)}", end="\r", file=sys.stderr)
    await embedder.close()
    return vectors


def read_turns(file: Path, limit: int | None) -> list[list[Said]]:
    """The turns of each corpus, in order; empty ones left out."""
    corpora = [
        [turn for turn in corpus.turns if turn.text.strip()]
        for corpus in itertools.islice(read_corpora(file), limit)
    ]
    turns = [turn for corpus in corpora for turn in corpus]
    names = {turn.role for turn in turns} - {"user", "assistant"}
    vectors = asyncio.run(embed([*map(_searchable, turns), *(f"{name}:" for name in sorted(names))]))
    return [[_said(turn, vectors) for turn in corpus] for corpus in corpora]


def _searchable(turn: SetTurn) -> str:
    known = turn.role in ("user", "assistant")
    return turn.text if known else f"{turn.role}: {turn.text}"


def _said(turn: SetTurn, vectors: dict[str, Vector | None]) -> Said:
    plain, name = vectors[_searchable(turn)], vectors.get(f"{turn.role}:")
    return Said(
        is_reply=turn.role == "assistant",
        text=turn.text,
        session=turn.session,
        terms=turn_terms(turn.text),
        vector=plain if plain is None or name is None else without_direction(plain, name),
        plain=plain,
    )


def interleaved(turns: Sequence[Said]) -> list[Said]:
    """The sessions in pairs, dealt in turn: BLOCK_TURNS user turns of one, with their replies, then of the other."""
    sessions = [list(group) for _, group in itertools.groupby(turns, key=lambda turn: turn.session)]
    dealt: list[Said] = []
    for first in range(0, len(sessions), 2):
        blocks = [list(_blocks(session)) for session in sessions[first : first + 2]]
        for row in itertools.zip_longest(*blocks, fillvalue=list[Said]()):
            dealt += itertools.chain.from_iterable(row)
    return dealt


def _blocks(session: Sequence[Said]) -> Iterator[list[Said]]:
    block, asked = list[Said](), 0
    for turn in session:
        if not turn.is_reply and asked == BLOCK_TURNS:
            yield block
            block, asked = [], 0
        block.append(turn)
        asked += not turn.is_reply
    yield block


# --- matching ------------------------------------------------------------------------------------------------
class Thread:
    """A thread's topics while its turns come in."""

    def __init__(self, setting: Setting) -> None:
        self.setting = setting
        self.embeddings: dict[str, NDArray[np.float16]] = {}
        self.counts: dict[str, int] = {}
        self.current: str | None = None

    def add(self, turn: Said) -> str | None:
        """The topic of the turn; None for a reply to nothing."""
        vector = turn.plain if self.setting.names else turn.vector
        if not turn.is_reply:
            match = self.setting.match
            found = match_topic(vector, turn.terms, self.embeddings, self.current, match)
            self.current = f"{len(self.counts):06}" if found is None else found
            self.counts.setdefault(self.current, 0)
        short = turn.terms < self.setting.match.short_turn_terms
        left_out = (self.setting.joins == "users" and turn.is_reply) or (
            self.setting.joins == "worded" and short
        )
        topic = self.current
        # What opens a topic is its first vector whatever the setting: a topic without one could never be joined.
        if topic is not None and vector is not None and not (left_out and self.counts[topic]):
            count = self.counts[topic]
            self.embeddings[topic] = joined_embedding(
                self.embeddings.get(topic), count, vector, recent=self.setting.recent
            )
            self.counts[topic] = count + 1
        return topic


def figures(turns: Sequence[Said], setting: Setting) -> dict[str, float]:
    """Of one corpus."""
    thread = Thread(setting)
    topics = [thread.add(turn) for turn in turns]
    asked = [
        (topic, turn.session)
        for topic, turn in zip(topics, turns, strict=True)
        if topic and not turn.is_reply
    ]
    _, topic_of = np.unique([topic for topic, _ in asked], return_inverse=True)
    _, session_of = np.unique([session for _, session in asked], return_inverse=True)
    table = np.zeros((topic_of.max() + 1, session_of.max() + 1))
    np.add.at(table, (topic_of, session_of), 1)
    stays, inside = topic_of[1:] == topic_of[:-1], session_of[1:] == session_of[:-1]
    sizes = table.sum(axis=1)
    return {
        "topics_per_100": 100 * len(sizes) / len(asked),
        "one_turn_topics": float((sizes == 1).mean()),
        "median_turns": float(np.median(sizes)),
        "p90_turns": float(np.percentile(sizes, 90)),
        "largest_share": float(sizes.max() / len(asked)),
        "topics_per_session": float((table > 0).sum(axis=0).mean()),
        "turns_per_run": len(asked) / (1 + int((~stays).sum())),
        "stays_inside": float(stays[inside].mean()),
        "stays_across": float(stays[~inside].mean()) if (~inside).any() else 0.0,
        **agreement(table),
    }


def agreement(table: NDArray[np.float64]) -> dict[str, float]:
    """Of topics (rows) with sessions (columns), from the count of turns in both: B-cubed and adjusted Rand index.

    The latter as in Hubert & Arabie, "Comparing partitions" (1985).
    """
    turns, rows, columns = table.sum(), table.sum(axis=1), table.sum(axis=0)
    precision = float((table**2 / rows[:, None]).sum() / turns)
    recall = float((table**2 / columns[None, :]).sum() / turns)
    together, in_rows, in_columns = (float((x * (x - 1) / 2).sum()) for x in (table, rows, columns))
    expected = in_rows * in_columns / max(turns * (turns - 1) / 2, 1)
    most = (in_rows + in_columns) / 2
    return {
        "b_cubed_precision": precision,
        "b_cubed_recall": recall,
        "b_cubed_f1": 2 * precision * recall / (precision + recall),
        "adjusted_rand": 1.0 if most == expected else (together - expected) / (most - expected),
    }


# --- report --------------------------------------------------------------------------------------------------
def settings(*, have_names: bool) -> list[Setting]:
    """The threshold alone, then with the default's other parts, then the default with one part changed."""
    thresholds = (0.7, 0.65, 0.6, 0.55, 0.5, 0.45, 0.4, 0.3, 0.2)
    default = Setting()
    chosen = default.match
    # The threshold alone is the plainest reading of the feature: the mean of all vectors of users.
    plain = Setting(match=PLAIN, recent=None, joins="users")
    asked = [replace(plain, match=replace(PLAIN, similarity_threshold=at)) for at in thresholds]
    asked += [replace(default, match=replace(chosen, similarity_threshold=at)) for at in thresholds[:5]]
    asked += [
        replace(default, match=replace(chosen, continuation_bonus=at)) for at in (0, 0.1, 0.2, 0.25, 0.35)
    ]
    # The same cosine keeps a turn in the current topic, only other topics are nearer.
    asked += [
        replace(
            default, match=replace(chosen, similarity_threshold=at, continuation_bonus=round(at - 0.3, 2))
        )
        for at in (0.7, 0.65, 0.55, 0.5)
    ]
    asked += [replace(default, match=replace(chosen, short_turn_terms=at)) for at in (0, 2, 3, 5, 6)]
    asked += [replace(default, recent=at) for at in (1, 3, 10, None)]
    asked += [replace(default, joins="users"), replace(default, joins="all")]
    if have_names:
        asked += [replace(default, names=True), replace(plain, names=True)]
    return list(dict.fromkeys([default, *asked]))


def measure(corpora: Sequence[Sequence[Said]], setting: Setting) -> dict[str, Any]:
    """Means over the corpora, by half and order of the turns."""
    report: dict[str, Any] = {}
    for half, part in (("tuning", corpora[::2]), ("check", corpora[1::2])):
        if not part:
            continue
        for order in ("in_order", "interleaved"):
            each = [
                figures(interleaved(turns) if order == "interleaved" else turns, setting) for turns in part
            ]
            report[f"{half}_{order}"] = {
                name: round(float(np.mean([one[name] for one in each])), 3) for name in each[0]
            }
    return report


def by_terms(corpora: Sequence[Sequence[Said]]) -> list[dict[str, int]]:
    """Without the rule for short turns: which of them open a topic, where a session begins and inside of one."""
    match = replace(DEFAULT, short_turn_terms=0)
    counted = [
        {"terms": n, "opens_where_session_begins": 0, "begins": 0, "opens_inside": 0, "inside": 0}
        for n in range(10)
    ]
    seen = set[str]()
    for corpus in corpora:
        thread, session = Thread(Setting(match=match)), None
        for turn in corpus:
            known = len(thread.counts)
            thread.add(turn)
            if turn.is_reply:
                continue
            # Sessions are shared by corpora; each text counts once.
            if session is not None and turn.terms < len(counted) and turn.text not in seen:
                seen.add(turn.text)
                opens, row = len(thread.counts) > known, counted[turn.terms]
                begins = turn.session != session
                row["begins" if begins else "inside"] += 1
                row["opens_where_session_begins" if begins else "opens_inside"] += opens
            session = turn.session
    return counted


def short_replies(corpora: Sequence[Sequence[Said]]) -> list[dict[str, Any]]:
    """What becomes of SHORT_REPLIES, each said after the first half of every corpus."""
    vectors = asyncio.run(embed(SHORT_REPLIES))
    threads = []
    for corpus in corpora:
        thread = Thread(Setting())
        for turn in corpus[: len(corpus) // 2]:
            thread.add(turn)
        threads.append(thread)
    rows = []
    for text in SHORT_REPLIES:
        row: dict[str, Any] = {"text": text, "terms": turn_terms(text)}
        for name, match in (
            ("threshold_0.7_alone", replace(PLAIN, similarity_threshold=0.7)),
            ("default", DEFAULT),
        ):
            found = [
                (match_topic(vectors[text], row["terms"], t.embeddings, t.current, match), t.current)
                for t in threads
            ]
            row[name] = {
                "stays": sum(topic == current for topic, current in found),
                "joins_another": sum(topic not in (None, current) for topic, current in found),
                "opens": sum(topic is None for topic, _ in found),
            }
        rows.append(row)
    return rows


def print_table(rows: Sequence[dict[str, Any]]) -> None:
    """The figures to look at first, on stderr."""
    for part in rows[0]["figures"]:
        print(f"\n{part}\n| setting | {' | '.join(IN_TABLE)} |", file=sys.stderr)
        print("|---" * (len(IN_TABLE) + 1) + "|", file=sys.stderr)
        for row in rows:
            cells = " | ".join(f"{row['figures'][part][name]:.3g}" for name in IN_TABLE)
            print(f"| {row['setting']} | {cells} |", file=sys.stderr)


def main() -> None:
    """Parse the command line, measure, print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument(
        "files", type=Path, nargs="+", help="recall sets: JSON lines, or the same packed as .xz"
    )
    parser.add_argument("--limit", type=int, help="only the first so many corpora of each file")
    arguments = parser.parse_args()
    report: dict[str, Any] = {"machine": machine(), "model": MODEL, "files": {}}
    for file in arguments.files:
        began = time.perf_counter()
        corpora = read_turns(file, arguments.limit)
        have_names = any(turn.vector is not turn.plain for corpus in corpora for turn in corpus)
        print(f"\n{file.name}", file=sys.stderr)
        rows = [
            {"setting": setting.label(), "figures": measure(corpora, setting)}
            for setting in settings(have_names=have_names)
        ]
        print_table(rows)
        report["files"][file.name] = {
            "corpora": len(corpora),
            "turns": sum(map(len, corpora)),
            "settings": rows,
            "by_terms": by_terms(corpora),
            "short_replies": short_replies(corpora),
            "seconds": round(time.perf_counter() - began),
        }
    print(json.dumps(report, indent=2, ensure_ascii=False))


if __name__ == "__main__":
    main()
