"""Facts by a language model: `python -m benchmarks.facts_model [--model NAME[=URL] …] [--peer mem0] [--talk FILE …] [--record FOLDER] [--show]`.

Remembers labelled talks (`tests/llm/README.md`), every person's as a user of their own, and holds the facts documents that come
of it against the labels: how many of the facts that must be there are, and how many of those that must not. Without `--model` by
patterns alone; else by patterns and by each model, behind an OpenAI-compatible server. Requests, tokens and replies are
counted by a proxy in between; seconds are the model's. `--record FOLDER` keeps the replies there, for the tests, as NAME-TALK.jsonl: a recording that
is broken off goes on where it was, and what a changed request asks is asked again. `--show` prints the documents.

`--peer mem0` asks mem0 with the first of the models instead. In the peers' environment (`benchmarks.peers`), for example:

    ../peers/bin/python -m benchmarks.facts_model --peer mem0 --model qwen-1.5b=http://127.0.0.1:8092/v1 --talk tests/llm/everyday.jsonl

It keeps texts, which don't say in a form of their own whose a fact is: words are judged alone, and of the must-nots those about anybody.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final

from benchmarks.measure import machine, markdown, say
from tests.llm.models import FOLDER, MODELS
from tests.llm.talks import TALK, Line, Outcome, Said, Score, lines_of, read_talk
from tests.servers.recorded import Recorder, share_read

if TYPE_CHECKING:
    from collections.abc import Sequence

HEAD: Final = ("", "messages", "facts right", "of them ends", "must-nots violated", "replies read", "items left", "requests",
               "tokens a message: prompt + reply", "seconds")  # fmt: skip
NOBODY: Final = "http://127.0.0.1:9"
"""Nobody is asked there."""


def cells(name: str, outcome: Outcome, messages: int, asked: Recorder) -> list[str]:
    """A line of the table."""
    score, answers = outcome.score, asked.answers
    usages = [answer["usage"] for answer in answers if answer.get("usage")]
    prompt, reply = (
        sum(usage[kind] for usage in usages) / messages for kind in ("prompt_tokens", "completion_tokens")
    )
    of_model = [
        f"{share_read(answers):.0%}",
        str(outcome.left.total()),
        str(len(answers)),
        f"{prompt:,.0f} + {reply:,.0f}",
    ]
    return [
        name,
        str(messages),
        f"{len(score.found)} of {score.musts} ({score.right:.0%})",
        str(len(score.ended)),
        f"{len(score.violated)} of {score.must_nots} ({score.wrong:.1%})",
        *(of_model if answers else ["–"] * len(of_model)),
        f"{asked.seconds if answers else outcome.seconds:.0f}",
    ]


def show(outcome: Outcome) -> None:
    """The documents, a leaf a line, with what was wanted and missed, and what is there and mustn't be."""
    for who, document in outcome.documents.items():
        print(f"\n{who}", *(f"  {line.text}" for line in lines_of(document)), sep="\n")
    print("\nmissed", *(f"  {label}" for label in outcome.score.missed), sep="\n")
    print("\nviolated", *(f"  {label}: {line.text}" for label, line in outcome.score.violated), sep="\n")
    print("\nleft", *(f"  {count} × {reason}" for reason, count in outcome.left.most_common()), sep="\n")


def by_memory_agent(talk: Sequence[Said], folder: Path, base_url: str | None) -> Outcome:
    """This project, with a model or with patterns alone."""
    from tests.llm.runs import FACTS_ALONE, of_model, run

    return asyncio.run(run(talk, folder, **FACTS_ALONE, **(of_model(base_url) if base_url else {})))


def by_mem0(talk: Sequence[Said], folder: Path, base_url: str | None) -> Outcome:
    """mem0 with the same model, a call for each message and its reply, as its documentation has it."""
    from benchmarks.peers import open_mem0

    memory = open_mem0(folder, model="local", api_key="none", openai_base_url=base_url, temperature=0)
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
    return Outcome(score=score, documents=documents, seconds=seconds)


def measured(given: argparse.Namespace, name: str, url: str | None, file: Path) -> list[str]:
    """Run one talk; its line of the table."""
    talk, by = read_talk(file), by_mem0 if given.peer else by_memory_agent
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as temporary:
        kept = (given.record if given.record and url else Path(temporary)) / f"{name}-{file.stem}.jsonl"
        asked = Recorder(kept, url or NOBODY, tell=say).start()
        try:
            outcome = by(talk, Path(temporary) / "data", asked.base_url if url else None)
        finally:
            asked.stop()
        if given.record and url:
            asked.tidy()
    if given.show:
        show(outcome)
    return cells(f"{given.peer or ''} {name}, {file.stem}".strip(), outcome, len(talk), asked)


def main() -> None:
    """Parse the command line, run, print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    add, local = parser.add_argument, {model.name: model for model in MODELS}
    add(
        "--model", action="append", default=[], metavar="NAME[=URL]", help="a model, and its server's address"
    )
    add("--peer", choices=["mem0"], help="this one instead of memory_agent, with the first model")
    add("--talk", action="append", type=Path, metavar="FILE", help="labelled talks")
    add("--record", type=Path, metavar="FOLDER", help="keep the replies there, for the tests")
    add("--show", action="store_true", help="print documents, what is missed, violated and left")
    given = parser.parse_args()
    if (given.peer and not given.model) or any("=" not in one and one not in local for one in given.model):
        parser.error(
            "--model is NAME=URL, such as qwen-1.5b=http://127.0.0.1:8080/v1, or a model of `make llm`"
        )
    lines = []
    for model in given.model[:1] if given.peer else ["", *given.model]:
        name, _, url = model.partition("=")
        with contextlib.ExitStack() as started:
            if name and not url:
                from tests.servers.llama import LlamaServer

                url = started.enter_context(LlamaServer(local[name], FOLDER / f"{name}.log")).base_url
            lines += [measured(given, name or "patterns", url or None, file) for file in given.talk or [TALK]]
    print(f"\n{machine()}, {time.strftime('%Y-%m-%d')}\n\n{markdown(HEAD, lines)}")


if __name__ == "__main__":
    main()
