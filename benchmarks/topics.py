"""Whether topics are subjects: `python -m benchmarks.topics FILE... [--cache FOLDER]`.

The conversations of a recall set are mixed into one thread, so that each is left and comes back; beside them stand written ones whose
subjects are known (`benchmarks/data/topic_subjects.toml`). Turns go through the topics stage's own functions. docs/topics.md, "Evidence
for the defaults", says how they are mixed and what the figures are: B-cubed (Bagga & Baldwin 1998, over users' turns) has its precision by
conversation and its recall by session, and asks for too much where a session has several subjects, or two conversations the same.
A return is a block of a session that was left; it rejoins if the topic of most of its turns held mostly that conversation before.
"""

from __future__ import annotations

import argparse
import asyncio
import dataclasses
import itertools
import random
import tomllib
from collections import Counter, defaultdict
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from benchmarks.measure import print_report, say
from benchmarks.recall_sets import SetTurn, read_corpora
from benchmarks.vectors import KeptVectors, KnowingEmbedder, cache_option
from memory_agent.domain import Topic, Turn
from memory_agent.models.local.choose import ModelChoiceRequest
from memory_agent.models.local.embedder import LocalEmbedder
from memory_agent.text.subjects import everyday_kinds, everyday_sentences, languages_of
from memory_agent.text.terms import count_terms
from memory_agent.topics.index import TopicIndex
from memory_agent.topics.projection import (
    MatchSettings,
    TurnSubject,
    chance_cosine,
    folded,
    opened_by,
    subject_beside,
    turn_vector,
    without_direction,
)
from memory_agent.topics.stage import chosen_topics
from memory_agent.topics.sweep import surely_one

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from numpy.typing import NDArray

    Vectors = dict[str, NDArray[np.float32] | None]
    """By text; None: it says nothing."""

MODEL: Final = "all-MiniLM-L6-v2"
ARCHIVED_AFTER: Final = 40
_PIECE: Final = 15
_LEAST_CUT: Final = 4
"""Exchanges of a session that is cut in two, at least."""
WRITTEN: Final = Path(__file__).parent / "data" / "topic_subjects.toml"


class Said(NamedTuple):
    """A turn of a mixture: whose conversation and session it is, and in which block it comes."""

    turn: SetTurn
    conversation: str
    session: str
    block: int


# --- mixtures ------------------------------------------------------------------------------------------------
def mixed(
    conversations: Sequence[Sequence[Said]], seed: int, sizes: tuple[int, int], under_way: int | None = None
) -> list[Said]:
    """Blocks of so many exchanges, of one conversation after another, until only one is left."""
    chance = random.Random(seed)
    left = [list(_exchanges(conversation)) for conversation in conversations]
    dealt, before = list[Said](), None
    for block in itertools.count():
        open_ones = [i for i, exchanges in enumerate(left) if exchanges][:under_way]
        if len(open_ones) < 2:
            break
        chosen = chance.choice([i for i in open_ones if i != before])
        size = chance.randint(*sizes)
        dealt += [turn._replace(block=block) for exchange in left[chosen][:size] for turn in exchange]
        left[chosen], before = left[chosen][size:], chosen
    return dealt


def _exchanges(turns: Iterable[Said]) -> Iterator[list[Said]]:
    exchange = list[Said]()
    for said in turns:
        if said.turn.role != "assistant" and exchange:
            yield exchange
            exchange = []
        exchange.append(said)
    yield exchange


def mixtures_of(file: Path) -> dict[str, list[list[Said]]]:
    """The mixtures of a recall set, by half."""
    name, halves = file.name.partition("-")[0], dict[str, list[list[Said]]]()
    corpora = _corpora(file)
    for half, part in (("tuning", range(0, len(corpora), 2)), ("check", range(1, len(corpora), 2))):
        if name.startswith("longmemeval"):
            halves[f"{name} {half}"] = [
                mixed(list(_by_session(corpora[i])), seed=i, sizes=(1, 3), under_way=5) for i in part[:4]
            ]
        else:
            halves[f"{name} {half}"] = [mixed([corpora[i] for i in part], seed=1, sizes=(3, 8))]
    return halves


def _corpora(file: Path) -> list[list[Said]]:
    return [
        [
            Said(turn, corpus.name, f"{corpus.name} {turn.session}", 0)
            for turn in corpus.turns
            if turn.text.strip()
        ]
        for corpus in read_corpora(file)
    ]


def known_subjects(file: Path) -> list[list[tuple[str, list[Said]]]]:
    """Threads of pieces with the subject of each: sessions, of which every other one is cut in two; BEAM's chats in pieces of 15 exchanges."""
    chance, corpora = random.Random(0), _corpora(file)
    threads: list[list[tuple[str, list[Said]]]] = []
    if file.name.startswith("beam"):
        pieces = [
            (turns[0].conversation, list(itertools.chain(*some)))
            for turns in corpora
            for some in itertools.zip_longest(*[_exchanges(turns)] * _PIECE, fillvalue=[])
        ]
        chance.shuffle(pieces)
        return [pieces]
    for turns in corpora[:24]:
        thread = list[tuple[str, list[Said]]]()
        for session in itertools.islice(_by_session(turns), 30):
            exchanges = list(_exchanges(session))
            at = len(exchanges) // 2 if len(exchanges) >= _LEAST_CUT and chance.random() < 0.5 else 0
            halves = [exchanges[:at], exchanges[at:]]
            thread += [(session[0].session, list(itertools.chain(*half))) for half in halves if half]
        threads.append(thread)
    return threads


def _by_session(turns: Sequence[Said]) -> Iterator[list[Said]]:
    sessions: dict[str, list[Said]] = defaultdict(list)
    for said in turns:
        sessions[said.session].append(said._replace(conversation=said.session))
    yield from sessions.values()


def written() -> dict[str, list[list[Said]]]:
    """The written conversations, by name."""
    found: dict[str, list[list[Said]]] = {}
    for name, text in tomllib.loads(WRITTEN.read_text(encoding="utf-8")).items():
        dealt, block = list[Said](), -1
        for number, line in enumerate(text.strip().splitlines()):
            subject, _, words = ("", "", line) if " | " not in line else line.partition(" | ")
            subject = subject or str(number)
            block += not dealt or dealt[-1].session != subject
            turn = SetTurn(id=str(number), session=subject, date=None, role="user", text=words)
            dealt.append(Said(turn, subject, subject, block))
        found[name] = [dealt]
    return found


# --- vectors -------------------------------------------------------------------------------------------------
async def embedded(texts: Iterable[str], cache: Path) -> Vectors:
    """One vector for each text, made of its passages as the product keeps them; those in the folder `cache` are read."""
    local = LocalEmbedder(ModelChoiceRequest(model=MODEL, backend="onnx", precision="fp32"))
    embedder = KnowingEmbedder(local, KeptVectors(cache))
    vectors: Vectors = {}
    for text in dict.fromkeys(texts):
        rows = await embedder.embed(await embedder.split(text), purpose="document")
        vectors[text] = turn_vector(rows.astype(np.float16))
    await embedder.close()
    return vectors


def subject(turn: SetTurn, vectors: Vectors) -> TurnSubject:
    """What is matched of a turn, as `TopicFolder.subjects` has it."""
    vector = vectors[turn.embedded]
    if turn.role == "assistant":
        return TurnSubject(vector=vector, embedder=MODEL, size=len(count_terms(turn.text)))
    said = subject_beside(turn.text)
    chance = 0.0
    if vector is not None:
        kinds = everyday_kinds(languages_of(turn.text))
        everyday = ([vectors[one] for one in kind] for kind in kinds)
        chance = chance_cosine(vector, [np.stack([v for v in each if v is not None]) for each in everyday])
        if turn.speaker and (name := vectors[f"{turn.speaker}:"]) is not None:
            vector = without_direction(vector, name)
    return TurnSubject(vector=vector, embedder=MODEL, chance=chance, words=said.words, size=said.size)


# --- matching, and its figures -------------------------------------------------------------------------------
def matched(mixture: Sequence[Said], vectors: Vectors, settings: MatchSettings) -> list[str | None]:
    """The topic of each turn."""
    topics: dict[str, Topic] = {}
    index = TopicIndex(MODEL)
    chosen: list[str | None] = []
    current, asked = None, 0
    joined_at: dict[str, int] = {}
    for place, said in enumerate(mixture):
        turn = _turn(place, said.turn)
        subjects = {turn.id: subject(said.turn, vectors)}
        found = chosen_topics([turn], index, subjects, current, settings, archived=True).get(turn.id)
        chosen.append(found)
        if found is None:
            continue
        topics[found] = folded(topics.get(found) or opened_by(turn, found), [turn], subjects)
        index.put(topics[found])
        current, asked = found, asked + (turn.role == "user")
        joined_at[found] = asked
        for topic_id, last in joined_at.items():
            if asked - last == ARCHIVED_AFTER:
                topics[topic_id] = dataclasses.replace(topics[topic_id], archived=True)
                index.put(topics[topic_id])
    return chosen


def _turn(place: int, turn: SetTurn) -> Turn:
    return Turn(
        id=f"{place:06}",
        user_id="u",
        thread_id="t",
        seq=place + 1,
        role="assistant" if turn.role == "assistant" else "user",
        content=turn.text,
        speaker=turn.speaker,
        timestamp=datetime(2026, 1, 1, tzinfo=UTC),
        tokens=0,
        importance=None,
        metadata={},
    )


def figures(mixture: Sequence[Said], chosen: Sequence[str | None]) -> dict[str, float]:
    """B-cubed, topics per 100 users' turns, and what became of returns."""
    asked = [
        (topic, said)
        for topic, said in zip(chosen, mixture, strict=True)
        if topic is not None and said.turn.role != "assistant"
    ]
    precision = _mean_share([(topic, said.conversation) for topic, said in asked], whole=0)
    recall = _mean_share([(topic, said.session) for topic, said in asked], whole=1)
    held: dict[str, Counter[str]] = defaultdict(Counter)
    seen, counts = set[str](), Counter[str]()
    for _, turns in itertools.groupby(asked, key=lambda each: each[1].block):
        of_block = list(turns)
        top = Counter(topic for topic, _ in of_block).most_common(1)[0][0]
        first = of_block[0][1]
        if first.session in seen:
            counts["returns"] += 1
            if held[top]:
                right = held[top].most_common(1)[0][0] == first.conversation
                counts["rejoin" if right else "astray"] += 1
        for topic, said in of_block:
            seen.add(said.session)
            held[topic][said.conversation] += 1
    returns = max(counts["returns"], 1)
    return {
        "precision": precision,
        "recall": recall,
        "f1": 2 * precision * recall / (precision + recall),
        "topics_per_100": 100 * len({topic for topic, _ in asked}) / len(asked),
        "rejoin": counts["rejoin"] / returns,
        "astray": counts["astray"] / returns,
    }


def merges(threads: Sequence[Sequence[tuple[str, Sequence[Said]]]], vectors: Vectors) -> dict[str, float]:
    """Of one sweep of these threads: pairs that it would merge, those that are of one subject, and all that are."""
    counts = Counter[str]()
    for thread in threads:
        topics, subject_of_topic = list[Topic](), dict[str, str]()
        for number, (name, turns) in enumerate(thread):
            topic: Topic | None = None
            for place, said in enumerate(turns):
                turn = _turn(10_000 * number + place, said.turn)
                if topic is not None or turn.role == "user":
                    topic = topic or opened_by(turn, f"{number:04}")
                    topic = folded(topic, [turn], {turn.id: subject(said.turn, vectors)})
            if topic is not None:
                topics.append(topic)
                subject_of_topic[topic.id] = name
        pairs = surely_one(topics)
        counts["named"] += len(pairs)
        counts["right"] += sum(subject_of_topic[one.id] == subject_of_topic[other.id] for one, other in pairs)
        counts["pairs"] += sum(
            count * (count - 1) // 2 for count in Counter(subject_of_topic.values()).values()
        )
    return dict(counts)


def _mean_share(pairs: Sequence[tuple[str, str]], *, whole: int) -> float:
    """For each turn the share of its topic (`whole` 0) or of its class (1) that has both; the mean of these."""
    both, wholes = Counter(pairs), Counter(pair[whole] for pair in pairs)
    return sum(both[pair] / wholes[pair[whole]] for pair in pairs) / len(pairs)


def main() -> None:
    """Parse the command line, measure, print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument(
        "files", type=Path, nargs="*", help="recall sets: JSON lines, or the same packed as .xz"
    )
    cache_option(parser)
    arguments = parser.parse_args()
    everything = {
        name: each for file in arguments.files for name, each in mixtures_of(file).items()
    } | written()
    threads = {file.name.partition("-")[0]: known_subjects(file) for file in arguments.files}
    turns = [said.turn for mixtures in everything.values() for mixture in mixtures for said in mixture]
    turns += [
        said.turn for many in threads.values() for thread in many for _, piece in thread for said in piece
    ]
    names = {f"{turn.speaker}:" for turn in turns if turn.speaker}
    everyday = [one for kind in everyday_kinds(tuple(everyday_sentences())) for one in kind]
    texts = [*(turn.embedded for turn in turns), *sorted(names), *everyday]
    vectors = asyncio.run(embedded(texts, arguments.cache))
    report: dict[str, Any] = {}
    for name, mixtures in everything.items():
        each = [figures(mixture, matched(mixture, vectors, MatchSettings())) for mixture in mixtures]
        report[name] = {key: round(float(np.mean([one[key] for one in each])), 3) for key in each[0]}
        say(f"{name:20} {report[name]}")
    for name, known in threads.items():
        report[f"{name} merges"] = merges(known, vectors)
        say(f"{name + ' merges':20} {report[f'{name} merges']}")
    print_report(report)


if __name__ == "__main__":
    main()
