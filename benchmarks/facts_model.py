"""Facts by a language model: `python -m benchmarks.facts_model [--model NAME[=URL] …] [--peer mem0] [--talk FILE …] [--record FOLDER] [--show]`.

Remembers labelled talks (`tests/llm/README.md`), every person's as a user of their own, and holds the facts documents that come
of it against the labels: how many of the facts that must be there are, and how many of those that must not. Without `--model` by
patterns alone; else by patterns and by each model, behind an OpenAI-compatible server. Requests, tokens and replies are
counted by a proxy in between. `--record FOLDER` keeps the replies there, for the tests, as NAME-TALK.jsonl: a recording that
is broken off goes on where it was, and what a changed request asks is asked again. `--show` prints the documents.

`--peer mem0` asks mem0 with the first of the models instead. In the peers' environment (`benchmarks.peers`), for example:

    ../peers/bin/python -m benchmarks.facts_model --peer mem0 --model qwen-1.5b=http://127.0.0.1:8092/v1 --talk tests/llm/everyday.jsonl

It keeps texts, which don't say in a form of their own whose a fact is: words are judged alone, and of the must-nots those about anybody.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import os
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from benchmarks.measure import machine, markdown, say
from tests.llm.models import FOLDER, MODELS
from tests.llm.talks import TALK, Line, Said, Score, lines_of, read_talk
from tests.servers.recorded import Recorder, share_read

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

HEAD: Final = ("", "messages", "facts right", "of them ends", "must-nots violated", "replies read", "items left", "requests",
               "tokens a message: prompt + reply", "seconds")  # fmt: skip
NOBODY: Final = "http://127.0.0.1:9"
"""Nobody is asked there."""


@dataclass(kw_only=True)
class Row:
    """What came of a talk."""

    name: str
    score: Score
    documents: Mapping[str, Any]
    left: Mapping[str, int] = field(default_factory=dict)
    seconds: float


class Watched(Recorder):
    """Says how far it is."""

    def reply_to(self, path: str, body: bytes) -> tuple[int, bytes]:
        began = time.perf_counter()
        told = super().reply_to(path, body)
        say(f"request {len(self.seen)}: {told[0]} after {time.perf_counter() - began:.1f} s")
        return told


def cells(row: Row, messages: int, asked: Recorder) -> list[str]:
    """A line of the table."""
    score, answers = row.score, asked.answers
    usages = [answer["usage"] for answer in answers if answer.get("usage")]
    prompt, reply = (
        sum(usage[name] for usage in usages) / messages for name in ("prompt_tokens", "completion_tokens")
    )
    return [
        row.name,
        str(messages),
        f"{len(score.found)} of {score.musts} ({score.right:.0%})",
        str(len(score.ended)),
        f"{len(score.violated)} of {score.must_nots} ({score.wrong:.1%})",
        f"{share_read(answers):.0%}" if answers else "–",
        str(sum(row.left.values())),
        str(len(answers)) if answers else "–",
        f"{prompt:,.0f} + {reply:,.0f}" if answers else "–",
        f"{row.seconds:.0f}",
    ]


def show(row: Row) -> None:
    """The documents, a leaf a line, with what was wanted and missed, and what is there and mustn't be."""
    for who, document in row.documents.items():
        print(f"\n{who}", *(f"  {line.text}" for line in lines_of(document)), sep="\n")
    print("\nmissed", *(f"  {label}" for label in row.score.missed), sep="\n")
    print("\nviolated", *(f"  {label}: {line.text}" for label, line in row.score.violated), sep="\n")
    print("\nleft", *(f"  {count} × {reason}" for reason, count in row.left.items()), sep="\n")


# --- who is asked ----------------------------------------------------------------------------------------------
def by_memory_agent(name: str, talk: Sequence[Said], folder: Path, base_url: str | None) -> Row:
    """This project, with a model or with patterns alone."""
    from tests.llm.runs import FACTS_ALONE, of_model, run

    settings = dict(FACTS_ALONE) if base_url is None else of_model(base_url, **FACTS_ALONE)
    result = asyncio.run(run(talk, folder, **settings))
    return Row(
        name=name, score=result.score, documents=result.documents, left=result.left, seconds=result.seconds
    )


def by_mem0(name: str, talk: Sequence[Said], folder: Path, base_url: str | None) -> Row:
    """mem0 with the same model, a call for each message and its reply, as its documentation has it."""
    os.environ["MEM0_TELEMETRY"] = "False"  # read when mem0 is imported
    os.environ["MEM0_DIR"] = str(folder)
    from mem0 import Memory  # type: ignore[import-not-found]  # in the peers' environment

    from benchmarks.peers import model_folder

    kept = {"collection_name": "facts", "path": str(folder / "chroma")}
    asked = {"model": "local", "api_key": "none", "openai_base_url": base_url, "temperature": 0}
    memory = Memory.from_config(
        {
            "vector_store": {"provider": "chroma", "config": kept},
            "embedder": {"provider": "huggingface", "config": {"model": str(model_folder())}},
            "llm": {"provider": "openai", "config": asked},
            "history_db_path": str(folder / "history.db"),
        }
    )
    began, score, documents = time.perf_counter(), Score(), {}
    for said in talk:
        turns = [{"role": "user", "content": said.text}, {"role": "assistant", "content": said.reply}]
        try:
            memory.add(turns, user_id=said.who)
        except Exception as exc:  # whatever it stops at, the next message is added
            say(f"mem0 failed at {said.text[:60]!r}: {exc}")
    seconds = time.perf_counter() - began
    for who in dict.fromkeys(said.who for said in talk):
        known = [one["memory"] for one in memory.get_all(filters={"user_id": who})["results"]]
        documents[who] = {"memories": known}
        lines = [Line(("memories",), text) for text in known]
        score.judge((said for said in talk if said.who == who), lines, whose=False)
    return Row(name=name, score=score, documents=documents, seconds=seconds)


def measured(
    name: str,
    file: Path,
    url: str | None,
    record: Path | None,
    by: Callable[[str, Sequence[Said], Path, str | None], Row],
) -> tuple[Row, list[str]]:
    """Run one talk, and tell the figures."""
    talk = read_talk(file)
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as temporary:
        kept = (record if record and url else Path(temporary)) / f"{name}-{file.stem}.jsonl"
        asked = Watched(kept, url or NOBODY).start()
        try:
            row = by(name, talk, Path(temporary) / "data", asked.base_url if url else None)
        finally:
            asked.stop()
        if record and url:
            asked.tidy()
    row.name = f"{name}, {file.stem}"
    return row, cells(row, len(talk), asked)


@contextlib.contextmanager
def served(model: str, context: int) -> Iterator[str | None]:
    """The address of `NAME=URL`, or of a server that is started for the model of this name; none for nobody."""
    name, _, url = model.partition("=")
    if url or not name:
        yield url or None
        return
    from tests.servers.llama import LlamaServer

    (local,) = (one for one in MODELS if one.name == name)
    with LlamaServer(local, FOLDER / f"{name}.log", context=context) as server:
        say(f"{name} answers at {server.base_url}")
        yield server.base_url


def main() -> None:
    """Parse the command line, run, print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    add = parser.add_argument
    add(
        "--model",
        action="append",
        default=[],
        metavar="NAME[=URL]",
        help="a model, and its OpenAI-compatible server",
    )
    add("--peer", choices=["mem0"], help="this one instead of memory_agent, with the first model")
    add("--talk", action="append", type=Path, metavar="FILE", help="labelled talks")
    add("--record", type=Path, metavar="FOLDER", help="keep the replies there, for the tests")
    add("--show", action="store_true", help="print documents, what is missed, violated and left")
    given = parser.parse_args()
    models: list[tuple[str, str | None]] = []
    for model in given.model:
        name, found, url = model.partition("=")
        if not found:
            parser.error(f"--model {model}: write NAME=URL, such as qwen-1.5b=http://127.0.0.1:8080/v1")
        models.append((name, url))
    if given.peer and not models:
        parser.error("--peer wants a --model")
    asked = (
        [(f"{given.peer} with {models[0][0]}", models[0][1])] if given.peer else [("patterns", None), *models]
    )
    lines = []
    for name, url in asked:
        for file in given.talk or [TALK]:
            row, line = measured(name, file, url, given.record, by_mem0 if given.peer else by_memory_agent)
            lines.append(line)
            if given.show:
                show(row)
    print(f"\n{machine()}, {time.strftime('%Y-%m-%d')}\n\n{markdown(HEAD, lines)}")


if __name__ == "__main__":
    sys.exit(main())
