"""`python -m benchmarks.peers FILE [FILE ...] --peer chroma|mem0|mempalace|all [--json OUT] [--cache FOLDER]`.

The same recall sets, scorer and model (all-MiniLM-L6-v2) as `python -m benchmarks.recall`; each peer remembers and searches in its
own way. They are installed into an environment of their own, from the repository's root:

    python -m venv ../peers
    ../peers/bin/pip install torch==2.13.0
    ../peers/bin/pip install -r benchmarks/peers-requirements.txt
    ../peers/bin/python -m benchmarks.peers FILE --peer all --json peers.json --cache FOLDER

`FOLDER`: that of `benchmarks.recall`, whose vectors differ from sentence-transformers' by 1e-6. Paired differences from its run are
given by `python -m benchmarks.recall --compare ours.json peers.json`, without measuring again. Times are those of the peers without the model's work, which is given besides (next to nothing where `--cache` has the vectors):
questions are embedded before the peer begins, and what it embeds to remember is taken off.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.measure import machine, percentiles, print_report, say
from benchmarks.peers.systems import MODEL, PEERS, Embedder, sayable, version_of
from benchmarks.recall_sets import BadRecallSet, files_in, read_sets
from benchmarks.scoring import DEPTH, Answer, Run, score, systems_table, write_runs

if TYPE_CHECKING:
    from collections.abc import Sequence

    from benchmarks.peers.systems import Peer
    from benchmarks.recall_sets import Corpus, Sets
    from benchmarks.scoring import Result


def answers_of(
    cls: type[Peer], corpus: Corpus, embedder: Embedder, times: dict[str, list[float]]
) -> list[Answer]:
    """What the peer finds for each question of the corpus; it gets the corpus, which holds no evidence."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        began, model_began = time.perf_counter(), embedder.seconds
        peer = cls(Path(folder), embedder)
        peer.remember(corpus)
        times["ingest"].append(time.perf_counter() - began - (embedder.seconds - model_began))
        answers = []
        for question in corpus.questions:
            began = time.perf_counter()
            answers.append(Answer(question=question.id, turns=tuple(peer.search(question, DEPTH))))
            times["search"].append(time.perf_counter() - began)
        peer.close()
    return answers


def measure(name: str, sets: Sets, embedder: Embedder) -> Run:
    """One peer on every corpus of every set."""
    cls = PEERS[name]
    results: list[Result] = []
    reports: dict[str, Any] = {}
    for set_name, corpora in sets.items():
        times: dict[str, list[float]] = {"ingest": [], "search": []}
        turns, model_began = 0, embedder.seconds
        for corpus, gold in corpora:
            embedder.embed([question.text for question in corpus.questions])
            results += score(set_name, corpus, answers_of(cls, corpus, embedder, times), gold)
            embedder.forget()
            turns += len(sayable(corpus))
            say(f"{name}: {set_name} {corpus.name}")
        reports[set_name] = {
            "turns": turns,
            "model_s": round(embedder.seconds - model_began, 1),
            "ingest_s": round(sum(times["ingest"]), 1),
            "search": percentiles(times["search"]),
        }
    return Run(
        system=name,
        version=version_of(cls.package),
        settings={"model": MODEL, **cls.settings},
        results=results,
        times=reports,
    )


def main(given: Sequence[str] | None = None) -> None:
    """Parse the command line and run."""
    parser = argparse.ArgumentParser(
        prog="benchmarks.peers", description="Other memories on the same recall sets."
    )
    add = parser.add_argument
    add("files", type=Path, nargs="+", metavar="FILE", help="recall sets, or folders of them")
    add("--peer", action="append", required=True, choices=["all", *PEERS])
    add("--json", type=Path, metavar="OUT", help="keep figures and every question's result")
    add("--cache", type=Path, metavar="FOLDER", help="keep vectors in this folder from run to run")
    add("--limit", type=int, help="only the first so many corpora of each file")
    arguments = parser.parse_args(given)
    runs: list[Run] = []
    try:
        names = list(PEERS) if "all" in arguments.peer else arguments.peer
        sets = read_sets(files_in(arguments.files), arguments.limit)
        embedder = Embedder(arguments.cache)
        for name in names:
            runs.append(measure(name, sets, embedder))
            if arguments.json:  # what was measured stays if a later peer fails
                write_runs(arguments.json, runs, machine=machine())
    except ModuleNotFoundError as exc:
        parser.error(f"{exc.name or exc} is not installed; pip install -r benchmarks/peers-requirements.txt")
    except (BadRecallSet, ValueError) as exc:
        parser.error(str(exc))
    say(systems_table(runs))
    print_report({"machine": machine(), "runs": [run.figures() for run in runs]})


if __name__ == "__main__":
    main()
