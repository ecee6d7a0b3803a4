"""What survives compression: `python -m benchmarks.conversations`.

Remembers each scripted conversation of `benchmarks/data/conversations` through the public API, lets it be compressed as
the settings say, calls `compress()` at the end, and prints which share of the marked facts, decisions and code is in the
compressed context, at which share of the conversation's tokens: with a scripted language model behind a real HTTP server
(it answers with summaries written by hand, `*.llm.json`) and without one; beside the last turns alone in as many tokens,
and beside the summary alone. Also how long compressing takes without the model's calls (`--overhead`).
"""

from __future__ import annotations

import argparse
import asyncio
import json
import re
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from benchmarks.measure import machine, open_service, percentiles
from memory_agent.domain import prompt_text
from memory_agent.models.tokens import best_token_counter
from tests.servers.openai_script import ScriptedOpenAI

if TYPE_CHECKING:
    from collections.abc import Sequence

    from memory_agent import CompressedContext, Turn
    from memory_agent.ports import TokenCounter

FOLDER: Final = Path(__file__).parent / "data" / "conversations"
_NUMBER: Final = re.compile(r'<turn number="(\d+)"')
_SO_FAR: Final = re.compile(r"<summary_so_far>\n(.*?)\n</summary_so_far>", re.DOTALL)
_TYPED: Final = "running summary of a long conversation"


class Conversation:
    """A scripted conversation: turns, marks, and what a good model would say of it."""

    def __init__(self, name: str) -> None:
        self.name = name
        lines = (FOLDER / f"{name}.jsonl").read_text(encoding="utf-8").splitlines()
        self.turns: list[dict[str, Any]] = [json.loads(line) for line in lines]
        self.marks: list[dict[str, Any]] = _read(f"{name}.marks.json")["marks"]
        self.blocks: list[dict[str, Any]] = _read(f"{name}.llm.json")["blocks"]

    def found(self, text: str) -> list[dict[str, Any]]:
        """The marks that `text` holds."""
        folded = text.casefold()
        return [
            mark
            for mark in self.marks
            if any(all(needle.casefold() in folded for needle in needles) for needles in mark["any_of"])
        ]

    def answer(self, request: dict[str, Any]) -> str:
        """The scripted model: of conversations the summary so far and what the hand-written one says of the turns."""
        system, question = (message["content"] for message in request["messages"][:2])
        if _TYPED not in system:
            return '{"facts": []}' if "response_format" in request else "They talk on."
        numbers = [int(number) for number in _NUMBER.findall(question)]
        so_far = _SO_FAR.search(question)
        lines = so_far[1].splitlines() if so_far else []
        for block in self.blocks:
            for item in block["items"]:
                if numbers[0] <= item["last"] <= numbers[-1]:
                    who = ", ".join(item["participants"])
                    turns = f"{item['first']}-{item['last']}"
                    lines.append(f"[{item['kind']} | {turns} | {who} | {item['importance']}] {item['text']}")
        return "\n".join(lines)


def _read(name: str) -> Any:
    return json.loads((FOLDER / name).read_text(encoding="utf-8"))


def names() -> list[str]:
    """The scripted conversations."""
    return sorted(file.name.removesuffix(".jsonl") for file in FOLDER.glob("*.jsonl"))


async def survival(conversation: Conversation, *, llm: bool, **settings: Any) -> dict[str, Any]:
    """The share of marks in the compressed context, and its share of the tokens."""
    server = ScriptedOpenAI(conversation.answer).start() if llm else None
    try:
        if server is not None:
            settings |= {"openai_base_url": server.base_url, "openai_api_key": "none"}
        async with open_service("sqlite", **settings) as service:
            memory = service.agent("user", conversation.name)
            await memory.start_session()
            await memory.add_turns(conversation.turns)
            await memory.settle(600)
            context = await memory.compress()
            made = await memory.compressions()
            turns = (await memory.history(limit=10_000)).turns
            counter = service.core.counter
    finally:
        if server is not None:
            server.stop()
    whole = sum(turn.tokens for turn in turns)
    return {
        "turns": len(turns),
        "tokens": whole,
        "compressions": len(made),
        "compressed_tokens": context.tokens,
        "share_of_tokens": round(context.tokens / whole, 3),
        **_shares(conversation, str(context)),
        "missing": sorted(mark["id"] for mark in missing(conversation, str(context))),
        "last_turns_alone": _shares(conversation, _last_turns(turns, context.tokens, counter)),
        "summary_alone": _shares(conversation, _summary(context)),
    }


def missing(conversation: Conversation, text: str) -> list[dict[str, Any]]:
    """The marks that `text` lacks."""
    ids = {mark["id"] for mark in conversation.found(text)}
    return [mark for mark in conversation.marks if mark["id"] not in ids]


def _shares(conversation: Conversation, text: str) -> dict[str, float]:
    found = {mark["id"] for mark in conversation.found(text)}
    shares = {"marks": len(found) / len(conversation.marks)}
    for kind in ("fact", "decision", "code"):
        of_kind = [mark["id"] for mark in conversation.marks if mark["kind"] == kind]
        if of_kind:
            shares[kind] = len(found.intersection(of_kind)) / len(of_kind)
    return {name: round(share, 3) for name, share in shares.items()}


def _last_turns(turns: Sequence[Turn], tokens: int, counter: TokenCounter) -> str:
    kept: list[str] = []
    for turn in reversed(turns):
        tokens -= counter.count(turn.content)
        if tokens < 0:
            break
        kept.append(turn.content)
    return "\n".join(reversed(kept))


def _summary(context: CompressedContext) -> str:
    return prompt_text([block for block in context.blocks if block.tier == "summary"])


async def overhead(conversation: Conversation) -> dict[str, Any]:
    """Milliseconds that compressing 100 turns takes, with a model that answers at once, and without any.

    `analysed`: without one, of turns that a `fetch_memory` has looked at before, as in a conversation that goes on.
    """
    report = {}
    for name, llm, looked_at in (
        ("with_instant_model", True, False),
        ("extractive", False, False),
        ("analysed", False, True),
    ):
        server = ScriptedOpenAI(conversation.answer).start() if llm else None
        settings: dict[str, Any] = {"enable_compression": False, "enable_fact_extraction": False}
        if server is not None:
            settings |= {"openai_base_url": server.base_url, "openai_api_key": "none"}
        times: list[float] = []
        async with open_service("sqlite", **settings) as service:
            memory = service.agent("user", "thread")
            for start in range(0, 10 * len(conversation.turns), 100):
                turns = [conversation.turns[(start + i) % len(conversation.turns)] for i in range(100)]
                await memory.add_turns(turns)
                await memory.settle(600)
                if looked_at:
                    await memory.fetch_memory(turns[-1]["content"])
                began = time.perf_counter()
                await memory.compress()
                times.append(time.perf_counter() - began)
        if server is not None:
            server.stop()
        report[name] = percentiles(times) | {"compressions": len(times)}
    return report


async def run(arguments: argparse.Namespace) -> None:
    """Measure and print."""
    report: dict[str, Any] = {"machine": machine(), "counter": type(best_token_counter()).__name__}
    settings = dict(pair.split("=", 1) for pair in arguments.set)
    for name in arguments.names or names():
        conversation = Conversation(name)
        report[name] = {}
        for label, llm in (("with_llm", True), ("without_llm", False)):
            print(f"{name}, {label} …", file=sys.stderr)
            report[name][label] = await survival(conversation, llm=llm, **settings)
        if arguments.show:
            for mark in conversation.marks:
                print(mark["id"], mark["kind"], mark["what"], file=sys.stderr)
    if arguments.overhead:
        report["overhead_ms"] = await overhead(Conversation("musician"))
    print(json.dumps(report, indent=2, ensure_ascii=False))


def main() -> None:
    """Parse the command line and run."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("names", nargs="*", help="conversations (default: all)")
    parser.add_argument("--overhead", action="store_true", help="also time compressing")
    parser.add_argument("--show", action="store_true", help="list the marks")
    parser.add_argument("--set", action="append", default=[], metavar="NAME=VALUE", help="a setting")
    asyncio.run(run(parser.parse_args()))


if __name__ == "__main__":
    main()
