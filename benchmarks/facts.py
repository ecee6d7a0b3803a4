"""How precise the pattern extractor is: `python -m benchmarks.facts [--data FOLDER] [--show | --judge]`.

Runs `extract_facts` over every turn of a person in the recall sets (in LoCoMo and REALTALK both speakers are
people, in BEAM and LongMemEval the user is) and prints how many turns state a fact, and for each kind how many facts were found and which share of them
is right. What is right was judged by reading: `facts_judged.jsonl` holds the corpus, the turn's id, the operation, the
path, a short hash of the value and the verdict, and no word of the conversations, whose licence forbids to ship them.

A fact is right if the turn's author states that it holds for them now or in general, and its value is neither cut
wrong nor meaningless without its context. Facts that nobody has judged are counted apart and make the exit code 1.
`--judge` shows each of them with its turn, asks, and adds the answer to the file.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import sys
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final

from benchmarks.recall_sets import read_corpora
from memory_agent.text.patterns import EXTRACTOR_VERSION, extract_facts

if TYPE_CHECKING:
    from collections.abc import Iterator

    from memory_agent.domain import StatedFact

SETS: Final = ("locomo-dev", "realtalk-dev", "beam-dev", "longmemeval-dev")
JUDGED: Final = Path(__file__).with_name("facts_judged.jsonl")
Key = tuple[str, str, str, str, str]


@dataclass(frozen=True, kw_only=True, slots=True)
class Found:
    """A fact with the turn that states it."""

    corpus: str
    turn_id: str
    text: str
    fact: StatedFact

    @property
    def key(self) -> Key:
        """What the file of verdicts knows it by."""
        value = hashlib.sha256(str(self.fact.value).encode()).hexdigest()[:12]
        return self.corpus, self.turn_id, self.fact.op, ".".join(self.fact.path), value

    @property
    def kind(self) -> str:
        """Its row in the table: the path, without the names that conversations bring; retractions apart."""
        path = self.fact.path
        if path[0] == "family":
            kind = "family"
        elif path[0] == "preferences":
            kind = "preferences." + ("…_time" if path[1].endswith("_time") else path[1])
        else:
            kind = path[0]
        return f"{kind} (retract)" if self.fact.op == "retract" else kind


@dataclass(slots=True)
class Tally:
    """What was found in one recall set."""

    turns: int = 0
    turns_with_fact: int = 0
    found: list[Found] = field(default_factory=list)


def persons_turns(file: Path) -> Iterator[tuple[str, str, str]]:
    """Corpus, turn id and text of each turn that a person said."""
    for corpus in read_corpora(file):
        for turn in corpus.turns:
            if turn.role != "assistant":
                yield corpus.name, turn.id, turn.text


def extract(file: Path) -> Tally:
    """Run the extractor over a recall set."""
    tally = Tally()
    for corpus, turn_id, text in persons_turns(file):
        facts = extract_facts(text)
        tally.turns += 1
        tally.turns_with_fact += bool(facts)
        tally.found += [Found(corpus=corpus, turn_id=turn_id, text=text, fact=fact) for fact in facts]
    return tally


# --- verdicts ------------------------------------------------------------------------------------------------
def read_verdicts(file: Path) -> dict[Key, bool]:
    """The verdicts so far, by what they are about."""
    verdicts: dict[Key, bool] = {}
    if file.exists():
        for line in file.read_text(encoding="utf-8").splitlines():
            row = json.loads(line)
            verdicts[row["corpus"], row["turn"], row["op"], row["path"], row["value"]] = row["right"]
    return verdicts


def write_verdicts(file: Path, verdicts: dict[Key, bool]) -> None:
    """One JSON object a line, sorted."""
    names = ("corpus", "turn", "op", "path", "value")
    rows = [{**dict(zip(names, key, strict=True)), "right": verdicts[key]} for key in sorted(verdicts)]
    file.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")


def judge(found: list[Found], verdicts: dict[Key, bool], file: Path) -> None:
    """Ask about each fact without a verdict; `q` stops. Each answer is kept at once."""
    for item in found:
        if item.key in verdicts:
            continue
        print(f"\n{item.text}\n\n  {shown(item)}\n  said in: {item.fact.quote}")
        answer = ""
        while answer not in {"y", "n", "q"}:
            answer = input("right? [y/n/q] ").strip().lower()
        if answer == "q":
            return
        verdicts[item.key] = answer == "y"
        write_verdicts(file, verdicts)


# --- report --------------------------------------------------------------------------------------------------
def shown(item: Found) -> str:
    """A fact on one line."""
    return f"{item.fact.op} {'.'.join(item.fact.path)} = {item.fact.value!r}"


def report(tallies: dict[str, Tally], verdicts: dict[Key, bool]) -> int:
    """Print the figures; how many facts nobody has judged."""
    for name, tally in tallies.items():
        share = 100 * len(tally.found) / max(tally.turns, 1)
        print(
            f"{name}: {tally.turns} turns, {tally.turns_with_fact} with a fact, {len(tally.found)} facts, {share:.2f} per 100 turns"
        )
    rows: dict[str, Counter[str]] = defaultdict(Counter)
    for tally in tallies.values():
        for item in tally.found:
            verdict = {True: "right", False: "wrong", None: "unjudged"}[verdicts.get(item.key)]
            for kind in (item.kind, "all"):
                rows[kind][verdict] += 1
    print(f"\n{'kind':<28}{'facts':>7}{'right':>7}{'wrong':>7}{'unjudged':>10}{'precision':>11}")
    for kind in sorted(rows, key=lambda kind: (kind == "all", kind)):
        row = rows[kind]
        judged = row["right"] + row["wrong"]
        precision = f"{row['right'] / judged:.3f}" if judged else "-"
        print(
            f"{kind:<28}{row.total():>7}{row['right']:>7}{row['wrong']:>7}{row['unjudged']:>10}{precision:>11}"
        )
    return rows["all"]["unjudged"]


def main() -> int:
    """Parse the command line, run, print; 1 if facts wait for a verdict."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("--data", type=Path, default=Path("../shared/data"), help="the recall sets' folder")
    parser.add_argument("--judged", type=Path, default=JUDGED, help="the file of verdicts")
    parser.add_argument(
        "--show", action="store_true", help="print every fact with its verdict and its sentence"
    )
    parser.add_argument("--judge", action="store_true", help="ask about each fact without a verdict")
    arguments = parser.parse_args()
    print(f"extractor version {EXTRACTOR_VERSION}")
    tallies = {name: extract(arguments.data / f"{name}.jsonl.xz") for name in SETS}
    verdicts = read_verdicts(arguments.judged)
    found = [item for tally in tallies.values() for item in tally.found]
    if arguments.judge:
        judge(found, verdicts, arguments.judged)
    if arguments.show:
        for item in sorted(found, key=lambda item: item.kind):
            print(f"{verdicts.get(item.key, '?')!s:<6}{shown(item)}\n      {item.fact.quote}")
    unjudged = report(tallies, verdicts)
    if unjudged:
        print(
            f"\n{unjudged} facts have no verdict: run `python -m benchmarks.facts --judge`", file=sys.stderr
        )
    return 1 if unjudged else 0


if __name__ == "__main__":
    sys.exit(main())
