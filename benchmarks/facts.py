"""How precise the pattern extractor is: `python -m benchmarks.facts [--data FOLDER] [--judge]`.

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
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from benchmarks.measure import markdown, say
from benchmarks.recall_sets import read_corpora, set_name
from memory_agent.text.patterns import EXTRACTOR_VERSION, extract_facts

if TYPE_CHECKING:
    from memory_agent.domain import StatedFact

SETS: Final = ("locomo-dev", "realtalk-dev", "beam-dev", "longmemeval-dev")
JUDGED: Final = Path(__file__).with_name("facts_judged.jsonl")
NAMES: Final = ("corpus", "turn", "op", "path", "value")
Key = tuple[str, ...]


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
        kind = path[0]
        if kind == "preferences":
            kind += ".…_time" if path[1].endswith("_time") else f".{path[1]}"
        return f"{kind} (retract)" if self.fact.op == "retract" else kind


def extract(file: Path) -> list[Found]:
    """Run the extractor over a recall set, and print how much it found."""
    said = [
        (corpus.name, turn)
        for corpus in read_corpora(file)
        for turn in corpus.turns
        if turn.role != "assistant"
    ]
    found = [
        Found(corpus=corpus, turn_id=turn.id, text=turn.text, fact=fact)
        for corpus, turn in said
        for fact in extract_facts(turn.text)
    ]
    telling = len({(one.corpus, one.turn_id) for one in found})
    share = 100 * len(found) / max(len(said), 1)
    counts = f"{len(said)} turns, {telling} with a fact, {len(found)} facts, {share:.2f} per 100 turns"
    print(f"{set_name(file)}: {counts}")
    return found


# --- verdicts ------------------------------------------------------------------------------------------------
def read_verdicts(file: Path) -> dict[Key, bool]:
    """The verdicts so far, by what they are about."""
    rows = map(json.loads, file.read_text(encoding="utf-8").splitlines()) if file.exists() else ()
    return {tuple(row[name] for name in NAMES): row["right"] for row in rows}


def judge(found: list[Found], verdicts: dict[Key, bool], file: Path) -> None:
    """Ask about each fact without a verdict; `q` stops. Each answer is kept at once."""
    for item in found:
        if item.key in verdicts:
            continue
        fact, answer = item.fact, ""
        print(f"\n{item.text}\n\n  {fact.op} {'.'.join(fact.path)} = {fact.value!r}\n  said in: {fact.quote}")
        while answer not in {"y", "n", "q"}:
            answer = input("right? [y/n/q] ").strip().lower()
        if answer == "q":
            return
        verdicts[item.key] = answer == "y"
        rows = [{**dict(zip(NAMES, key, strict=True)), "right": verdicts[key]} for key in sorted(verdicts)]
        file.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")


def report(found: list[Found], verdicts: dict[Key, bool]) -> int:
    """Print the figures; how many facts nobody has judged."""
    rows: dict[str, Counter[str]] = defaultdict(Counter)
    for item in found:
        verdict = {True: "right", False: "wrong", None: "unjudged"}[verdicts.get(item.key)]
        for kind in (item.kind, "all"):
            rows[kind][verdict] += 1
    lines = []
    for kind in sorted(rows, key=lambda kind: (kind == "all", kind)):
        row = rows[kind]
        judged = row["right"] + row["wrong"]
        counts = (row.total(), row["right"], row["wrong"], row["unjudged"])
        lines.append([kind, *map(str, counts), f"{row['right'] / judged:.3f}" if judged else "–"])
    print("\n" + markdown(["kind", "facts", "right", "wrong", "unjudged", "precision"], lines))
    return rows["all"]["unjudged"]


def main() -> int:
    """Parse the command line, run, print; 1 if facts wait for a verdict."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("--data", type=Path, default=Path("../shared/data"), help="the recall sets' folder")
    parser.add_argument("--judge", action="store_true", help="ask about each fact without a verdict")
    arguments = parser.parse_args()
    print(f"extractor version {EXTRACTOR_VERSION}")
    found = [item for name in SETS for item in extract(arguments.data / f"{name}.jsonl.xz")]
    verdicts = read_verdicts(JUDGED)
    if arguments.judge:
        judge(found, verdicts, JUDGED)
    unjudged = report(found, verdicts)
    if unjudged:
        say(f"\n{unjudged} facts have no verdict: run `python -m benchmarks.facts --judge`")
    return 1 if unjudged else 0


if __name__ == "__main__":
    sys.exit(main())
