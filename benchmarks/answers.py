"""What a language model answers from a memory: `python -m benchmarks.answers SET --answers FILE --reader NAME=URL --row ROW …`.

Remembers each corpus of a recall set, gets notes for its questions in several ways, has a model behind an OpenAI-compatible server
answer from the notes alone, and holds the answers against the right ones (a JSON object by question). A row is one way to get notes:

    evidence                the turns that answer the question, with their days: the ceiling
    last?k=10               the last turns alone
    best?k=8                the best turns of `fetch_long_term` as a plain list with their days; `by=time` has them in order
    found?peer=chroma&k=8   the best of a peer, as a list likewise, from `benchmarks.peers --found FILE`
    fetch?price=thrifty     `fetch_memory` as a caller would, with any of its arguments: price, max_tokens, preset, …
    MODULE:FUNCTION?…       a function of your own: `async def form(asked: Asked, **options) -> str`

`LABEL=ROW` names a row otherwise. Questions are asked from a new thread of the user, so that no running conversation is in the
prompt. The table goes to standard error, JSON to standard output; docs/benchmarks.md, "Answers", says what the figures are.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import hashlib
import importlib
import json
import os
import random
import re
import string
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import parse_qsl

import Stemmer
from openai import AsyncOpenAI

from benchmarks.measure import machine, open_service, print_report, say
from benchmarks.recall import remember, setting_option
from benchmarks.recall_sets import BadRecallSet, read_date, read_with_gold, set_name
from benchmarks.scoring import BadRun, Result, Run, read_runs, summary, systems_table, write_runs
from benchmarks.vectors import cache_option

if TYPE_CHECKING:
    from datetime import datetime

    from benchmarks.recall_sets import Corpus, Gold, Question
    from memory_agent import MemoryAgent, MemoryService

INSTRUCTIONS: Final = (
    "Answer the question from the notes in as few words as possible: a name, a date such as 3 May 2021, a short list. "
    "No sentence. Notes tell the day on which something was said; reckon other days from it."
)
JUDGES: Final = "Does the reply say what the right answer says? Other words are no matter. Answer yes or no."
REPLY_TOKENS: Final = 40
PATIENCE_SECONDS: Final = 1_800
SEED: Final = 47
COMPARED: Final = ("f1", "holds", "judged")
BESIDE: Final = ("tokens", "prompt", "seconds")


# --- notes ---------------------------------------------------------------------------------------------------
@dataclass(frozen=True, kw_only=True, slots=True)
class Asked:
    """A question, and what a row may look at. `evidence` is for the row of that name alone.

    `memory`: a thread of the corpus' user that holds nothing. `found`: ids of turns by peer and question, best first.
    """

    question: Question
    corpus: Corpus
    evidence: frozenset[str]
    memory: MemoryAgent
    found: Mapping[str, Mapping[str, Sequence[str]]]


Row = Callable[[Asked], Awaitable[str]]


def plain(day: datetime | None, who: str, text: str) -> str:
    """A line of a plain list, its day written as `fetch_memory` writes it."""
    return f"[{day.day} {day:%B %Y}] {who}: {text}" if day else f"{who}: {text}"


def turns(asked: Asked, ids: Sequence[str] | None = None) -> list[str]:
    """The lines of these turns of the corpus in this order, or of all."""
    lines = {turn.id: plain(read_date(turn.date), turn.role, turn.text) for turn in asked.corpus.turns}
    return [lines[turn] for turn in ids] if ids is not None else list(lines.values())


async def evidence(asked: Asked) -> str:
    """The turns that answer the question, in their order."""
    return "\n".join(turns(asked, [turn.id for turn in asked.corpus.turns if turn.id in asked.evidence]))


async def last(asked: Asked, k: int = 10) -> str:
    """The corpus' last turns."""
    return "\n".join(turns(asked)[-k:])


async def best(asked: Asked, k: int = 8, by: str = "rank") -> str:
    """The best turns, best first or in their order."""
    now = read_date(asked.question.date)
    ranked = [hit.turn for hit in await asked.memory.fetch_long_term(asked.question.text, top_k=k, now=now)]
    if by == "time":
        ranked.sort(key=lambda turn: (turn.timestamp, turn.seq))
    return "\n".join(plain(turn.timestamp, turn.speaker or turn.role, turn.content) for turn in ranked)


async def found(asked: Asked, peer: str, k: int = 8) -> str:
    """What a peer has found, best first."""
    return "\n".join(turns(asked, asked.found[peer][asked.question.id][:k]))


async def fetch(asked: Asked, **arguments: Any) -> str:
    """The text of `fetch_memory`."""
    now = read_date(asked.question.date)
    return str(await asked.memory.fetch_memory(asked.question.text, now=now, **arguments))


ROWS: Final[Mapping[str, Callable[..., Awaitable[str]]]] = {
    one.__name__: one for one in (evidence, last, best, found, fetch)
}


def row_of(text: str) -> tuple[str, Row]:
    """A row by its label. Values of options are JSON where they can be (8, false), else text."""
    labelled = re.fullmatch(r"([^?=]+)=(.+)", text)
    label, spec = labelled.groups() if labelled else (text, text)
    name, _, options = spec.partition("?")
    module, _, function = name.rpartition(":")
    if not module and name not in ROWS:
        known = ", ".join(ROWS)
        raise argparse.ArgumentTypeError(f"{name!r} is no row; there are {known}, and MODULE:FUNCTION")
    way = getattr(importlib.import_module(module), function) if module else ROWS[name]
    given: dict[str, Any] = dict(parse_qsl(options))
    for key, value in given.items():
        with contextlib.suppress(ValueError):
            given[key] = json.loads(value)
    return label, partial(way, **given)


# --- the reader ----------------------------------------------------------------------------------------------
class Model:
    """A model behind an OpenAI-compatible server, `NAME=URL`; a request that `replies` has an answer to isn't sent again."""

    def __init__(self, named: str, replies: Path | None) -> None:
        self.name, _, url = named.partition("=")
        key = os.environ.get("OPENAI_API_KEY", "none")
        self.client = AsyncOpenAI(base_url=url or None, api_key=key, timeout=PATIENCE_SECONDS)
        self._file = replies
        rows = replies.read_text("utf-8").splitlines() if replies and replies.exists() else ()
        self._known: dict[str, dict[str, Any]] = {row["key"]: row for row in map(json.loads, rows)}

    async def answer(self, instructions: str, text: str) -> dict[str, Any]:
        """Its reply: `text`, and how many tokens of `prompt` it read and `seconds` it took when it was asked."""
        said: Any = [{"role": "system", "content": instructions}, {"role": "user", "content": text}]
        key = hashlib.sha256(json.dumps([self.name, said]).encode()).hexdigest()
        if key not in self._known:
            began = time.perf_counter()
            came = await self.client.chat.completions.create(
                model=self.name, messages=said, temperature=0, max_tokens=REPLY_TOKENS
            )
            seconds = round(time.perf_counter() - began, 2)
            content = (came.choices[0].message.content or "").strip()
            prompt = came.usage.prompt_tokens if came.usage else 0
            row = self._known[key] = {"key": key, "text": content, "prompt": prompt, "seconds": seconds}
            if self._file:
                with self._file.open("a", encoding="utf-8") as file:
                    file.write(json.dumps(row, ensure_ascii=False) + "\n")
        return self._known[key]


# --- scores --------------------------------------------------------------------------------------------------
_PUNCTUATION: Final = str.maketrans("", "", string.punctuation)
_STEMMER: Final = Stemmer.Stemmer("porter")


def words(text: str) -> Counter[str]:
    """Stems without case, signs, articles and "and", as LoCoMo's own evaluation counts them."""
    kept = re.sub(r"\b(a|an|the|and)\b", " ", text.lower().translate(_PUNCTUATION)).split()
    return Counter(_STEMMER.stemWords(kept))


def f1(reply: str, right: str, kind: str = "") -> float:
    """LoCoMo's F1: of a question of type 1 the mean over the answer's parts, of type 3 up to a semicolon."""
    if kind == "1":
        said = reply.split(",")
        parts = [max(_overlap(words(one), words(part)) for one in said) for part in right.split(",")]
        return sum(parts) / len(parts)
    return _overlap(words(reply), words(right.partition(";")[0] if kind == "3" else right))


def _overlap(said: Counter[str], right: Counter[str]) -> float:
    same = (said & right).total()
    return 2 * same / (said.total() + right.total()) if same else 0.0


def holds(reply: str, right: str, kind: str = "") -> float:
    """1 if each word of the right answer is in the reply."""
    return float(words(right.partition(";")[0] if kind == "3" else right) <= words(reply))


# --- measuring -----------------------------------------------------------------------------------------------
def spread(corpora: Sequence[tuple[Corpus, Gold]], count: int | None) -> set[str]:
    """Ids of `count` questions, of each corpus and type its share; fewer of them are among more."""
    groups: dict[tuple[str, str], list[str]] = defaultdict(list)
    for corpus, _ in corpora:
        for question in corpus.questions:
            groups[corpus.name, question.type].append(question.id)
    ordered: list[tuple[float, str]] = []
    chance = random.Random(SEED)  # a sample, no secret
    for _, ids in sorted(groups.items()):
        chance.shuffle(ids)
        start = chance.random()
        ordered += [((place + start) / len(ids), name) for place, name in enumerate(ids)]
    return {name for _, name in sorted(ordered)[:count]}


@dataclass(frozen=True, kw_only=True, slots=True)
class Task:
    """What all questions share. `found`: as in `Asked`; `shown`: gets what is to be read of each question."""

    set: str
    rows: Sequence[tuple[str, Row]]
    reader: Model
    judge: Model | None
    right: Mapping[str, str]
    found: Mapping[str, Mapping[str, Sequence[str]]]
    shown: list[str]


async def ask(task: Task, label: str, row: Row, asked: Asked, count: Callable[[str], int]) -> Result:
    """One question by one row, scored."""
    question, right = asked.question, task.right[asked.question.id]
    notes = await row(asked)
    reply = await task.reader.answer(INSTRUCTIONS, f"Notes:\n{notes}\n\nQuestion: {question.text}")
    said = reply["text"]
    figures = {score.__name__: score(said, right, question.type) for score in (f1, holds)}
    figures |= {"tokens": count(notes), "prompt": reply["prompt"], "seconds": reply["seconds"]}
    if task.judge:
        case = f"Question: {question.text}\nRight answer: {right}\nReply: {said}"
        verdict = await task.judge.answer(JUDGES, case)
        figures["judged"] = float(verdict["text"].lower().startswith("yes"))
    task.shown.append(
        f"## {question.id} (type {question.type}), {label}\n{question.text}\n\n{notes}\n\n"
        f"reply: {said}\nright: {right}\nF1 {figures['f1']:.2f}, {figures['tokens']:.0f} tokens\n"
    )
    whose = {"set": task.set, "corpus": asked.corpus.name, "question": question.id, "type": question.type}
    return Result(**whose, gold_turns={}, figures=figures)


async def remembered(service: MemoryService, corpus: Corpus) -> MemoryAgent:
    """A new thread of the user whose history the corpus is; it is stored unless it was in an earlier run."""
    user_id = f"corpus-{corpus.name}"
    history = service.agent(user_id=user_id, thread_id="history")
    if not (await history.status()).turns:
        await remember(history, corpus)
    await history.settle(timeout=3_600)
    return service.agent(user_id=user_id, thread_id="asking")


async def measure(
    service: MemoryService, corpora: Sequence[tuple[Corpus, Gold]], chosen: set[str], task: Task
) -> list[Run]:
    """Remember each corpus and ask what is chosen of it, row by row: a server reads again only what differs from the last prompt."""
    results: dict[str, list[Result]] = defaultdict(list)
    for corpus, gold in corpora:
        memory = await remembered(service, corpus)
        questions = [question for question in corpus.questions if question.id in chosen]
        for label, row in task.rows:
            for question in questions:
                gold_turns = gold.by_question[question.id].turns
                asked = Asked(
                    question=question, corpus=corpus, evidence=gold_turns, memory=memory, found=task.found
                )
                results[label].append(await ask(task, label, row, asked, service.core.counter.count))
            say(f"{corpus.name}, {label}: F1 {summary(results[label])['f1'] if questions else 'of nothing'}")
    about = {"reader": task.reader.name}
    return [Run(system=label, settings=about, results=its) for label, its in results.items()]


async def run(given: argparse.Namespace) -> list[Run]:
    """Open a service, measure; with the rows of earlier runs."""
    corpora = list(read_with_gold(given.set_file))
    async with contextlib.AsyncExitStack() as stack:
        folder = given.data or Path(stack.enter_context(tempfile.TemporaryDirectory()))
        reader, *judges = [Model(name, given.replies) for name in (given.reader, given.judge) if name]
        for model in (reader, *judges):
            stack.push_async_callback(model.client.close)
        task = Task(
            set=set_name(given.set_file),
            rows=given.row,
            reader=reader,
            judge=judges[0] if judges else None,
            right=json.loads(given.answers.read_text("utf-8")),
            found=json.loads(given.found.read_text("utf-8")) if given.found else {},
            shown=[],
        )
        opened = open_service("sqlite", folder=folder, cache=given.cache, **dict(given.set))
        service = await stack.enter_async_context(opened)
        runs = await measure(service, corpora, spread(corpora, given.questions), task)
    if given.show:
        given.show.write_text("\n".join(task.shown), encoding="utf-8")
    return [*runs, *(one for file in given.beside for one in read_runs(file))]


def main(given: Sequence[str] | None = None) -> None:
    """Parse the command line and run."""
    command = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    add = command.add_argument
    add("set_file", type=Path, metavar="SET", help="a recall set")
    add("--answers", type=Path, required=True, metavar="FILE", help="right answers by question id, as JSON")
    add("--reader", required=True, metavar="NAME=URL", help="the model that answers; a key in OPENAI_API_KEY")
    add("--judge", metavar="NAME=URL", help="a model that says whether a reply is right")
    add("--row", type=row_of, action="append", default=[], metavar="[LABEL=]ROW", help="repeatable")
    add("--found", type=Path, metavar="FILE", help="what peers found: `benchmarks.peers --found`")
    add("--less", metavar="LABEL", help="the row from which others differ (default: the first)")
    add("--questions", type=int, metavar="N", help="only so many, of each corpus and type its share")
    add("--replies", type=Path, metavar="FILE", help="keep replies there; a run that was stopped goes on")
    add("--data", type=Path, metavar="FOLDER", help="keep the memory there for the next run")
    add("--json", type=Path, metavar="OUT", help="keep every question's figures")
    add("--beside", action="append", default=[], metavar="FILE", help="an earlier --json; repeatable")
    add("--show", type=Path, metavar="OUT", help="write all notes and replies there, to be read")
    cache_option(command)
    setting_option(command)
    arguments = command.parse_args(given)
    try:
        runs = asyncio.run(run(arguments))
    except KeyError as exc:
        command.error(f"--answers or --found has nothing for {exc}")
    except (BadRecallSet, BadRun, OSError) as exc:
        command.error(str(exc))
    if arguments.json:
        write_runs(arguments.json, runs, machine=machine())
    runs.sort(key=lambda one: one.system != arguments.less)
    say(systems_table(runs, COMPARED, BESIDE))
    print_report({"machine": machine(), "runs": [one.figures() for one in runs]})


if __name__ == "__main__":
    main()
