"""`memory-agent ingest`: remember a file of turns, in batches that a second run recognises."""

from __future__ import annotations

import functools
import hashlib
import json
import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

import typer

from memory_agent.checks import at_home, checked_id, has_visible
from memory_agent.cli.opening import opened, tell_if_idle
from memory_agent.cli.options import FAILED, OK, UNFINISHED, MemoryTyper, ThreadOptions, argument, flag
from memory_agent.cli.output import complain, many, note, out, print_json, progress_bar, usage_text
from memory_agent.cli.status import (
    NO_TIMEOUT,
    PATIENCE,
    WITHOUT_FACTS,
    settled,
    status_as_json,
    tell_what_is_owed,
)
from memory_agent.domain import Scope, TurnInput
from memory_agent.errors import InvalidInput

if TYPE_CHECKING:
    from collections.abc import Callable

    from memory_agent.cli.opening import Service
    from memory_agent.domain import MemoryStatus

app = MemoryTyper()

BATCH_TURNS: Final = 100
BATCH_CHARS: Final = 1_000_000
"""What a service takes at once is some megabytes."""
BAD_LINES_SHOWN: Final = 20


@dataclass(frozen=True, kw_only=True, slots=True)
class Batch:
    """Turns of one thread for one call; `key` is the same in every run over the same file."""

    user_id: str
    thread_id: str
    key: str
    turns: tuple[TurnInput, ...]


@app.command()
async def ingest(
    where: ThreadOptions,
    file: str = argument("A file of turns, or - for standard input."),
    skip_bad: bool = flag("--skip-bad", "Leave bad lines out (exit code 3)."),
    no_wait: bool = flag("--no-wait", "Leave when stored; a worker does the rest later."),
    patience: float = PATIENCE,
    without_facts: bool = WITHOUT_FACTS,
) -> int:
    """Remember a file of turns.

    The file holds one JSON object per line, {"role": "user", "content": "…"}, with "speaker", "timestamp"
    (ISO 8601 with a zone), "metadata", "importance", "thread" and "user" if you like; or a JSON array of such
    messages; or lines of {"messages": [...]} as chat models are trained on. Roles are user, assistant, system
    and tool; a person's name goes into "speaker".

    Bad lines are named by number, and then nothing is stored unless you pass --skip-bad. Running the command
    again over the same content stores nothing twice; an interrupted run is completed. A file that has grown is
    another content: ingest the new lines alone.

    Examples:
        memory-agent ingest chat.jsonl --user ada --thread work
        jq -c '.[]' export.json | memory-agent ingest - --user ada
    """
    data, wait = _read(file), not no_wait
    turns = read_turns(data)
    if turns.bad and not _may_skip(turns, skip_bad=skip_bad):
        return FAILED
    if not turns.turns:
        complain(f"{file} holds no turns{_left_out(turns)}; nothing was stored")
        return FAILED
    batches = batches_of(turns, data, user_id=where.user, thread_id=where.thread)
    # Without waiting no work is begun that leaving would have to wait for.
    async with opened(where.data_dir, works=wait, new=True) as service:
        before = (await service.worker_status()).usage
        new = await _store(service, batches, where)
        left = await _settled(service, batches, where, patience, without_facts) if wait else None
        after = (await service.worker_status()).usage
    usage = None if before is None or after is None else after - before
    told = {
        "turns": len(turns.turns),
        "new": new,
        "already_there": len(turns.turns) - new,
        "threads": len({(batch.user_id, batch.thread_id) for batch in batches}),
        "invisible": turns.invisible,
        "skipped": turns.bad,
        "settled": wait and left is None and not without_facts,
        "left": None if left is None else status_as_json(left),
        "llm": usage,
    }
    if where.as_json:
        print_json(told)
    else:
        _report(turns, told, searchable=wait and (left is None or not left.pending.get("index")))
        if left is not None:
            tell_what_is_owed(left, where.data_dir)
        if usage is not None:
            note(f"language model: {usage_text(usage)}")
    return UNFINISHED if turns.bad or left is not None else OK


def _read(file: str) -> bytes:
    if file == "-":
        return sys.stdin.buffer.read()
    if not at_home(file).is_file():
        raise typer.BadParameter(f"{file} is not a file", param_hint="FILE")
    return at_home(file).read_bytes()


def batches_of(file: TurnFile, data: bytes, *, user_id: str, thread_id: str) -> list[Batch]:
    """The file's turns by thread, in its order, up to BATCH_TURNS and BATCH_CHARS a batch.

    The key is made of the content's hash and the batch's first and last place in the file, so a second run over
    the same content stores nothing twice and an interrupted one is completed.
    """
    by_thread: dict[tuple[str, str], list[ReadTurn]] = {}
    for read in file.turns:
        by_thread.setdefault((read.user or user_id, read.thread or thread_id), []).append(read)
    digest = hashlib.sha256(data).hexdigest()[:32]
    return [
        Batch(
            user_id=user,
            thread_id=thread,
            key=f"ingest:{digest}:{chunk[0].where}-{chunk[-1].where}",
            turns=tuple(read.turn for read in chunk),
        )
        for (user, thread), reads in by_thread.items()
        for chunk in _chunks(reads)
    ]


def _chunks(reads: list[ReadTurn]) -> Iterator[list[ReadTurn]]:
    """The turns in their order, up to BATCH_TURNS and BATCH_CHARS together, but one at least."""
    chunk: list[ReadTurn] = []
    chars = 0
    for read in reads:
        chars += len(read.turn.content)
        if chunk and (len(chunk) == BATCH_TURNS or chars > BATCH_CHARS):
            yield chunk
            chunk, chars = [], len(read.turn.content)
        chunk.append(read)
    if chunk:
        yield chunk


async def _store(service: Service, batches: list[Batch], where: ThreadOptions) -> int:
    """Store what is not there yet; how many turns that was."""
    from memory_agent.imports.run import added

    stored = new = 0
    newest: dict[tuple[str, str], int] = {}
    total = sum(len(batch.turns) for batch in batches)
    with progress_bar("Remembering turns", total, show=not where.as_json) as moved:
        for batch in batches:
            thread = batch.user_id, batch.thread_id
            agent = service.agent(*thread, tenant=where.tenant)
            if thread not in newest:
                newest[thread] = max((turn.seq for turn in await agent.fetch_short_term(1)), default=0)
            turns = await added(agent, batch.turns, batch.key)
            # A call that is repeated gives back the turns of the first one.
            new += sum(turn.seq > newest[thread] for turn in turns)
            stored += len(turns)
            moved(stored)
    return new


async def _settled(
    service: Service, batches: list[Batch], where: ThreadOptions, patience: float, without_facts: bool
) -> MemoryStatus | None:
    """Wait for the work on these threads; how everything stands if a part stays down, None if all is done."""
    turns: Counter[tuple[str, str]] = Counter()
    for batch in batches:
        turns[batch.user_id, batch.thread_id] += len(batch.turns)
    await tell_if_idle(service)

    async def settle(moved: Callable[..., None]) -> None:
        before = 0
        for thread, of in turns.items():
            agent = service.agent(*thread, tenant=where.tenant)
            done = functools.partial(moved, before=before, of=of)
            await agent.settle(NO_TIMEOUT, without=["facts"] * without_facts, progress=done)
            before += of

    # Of one user, for whom any key may ask that may store.
    scope = Scope.of(batches[0].user_id, tenant=where.tenant)
    show = not where.as_json
    return await settled(service, settle, patience=patience, show=show, scope=scope, turns=turns.total())


def _left_out(file: TurnFile) -> str:
    return f"; {many(file.invisible, 'message')} without visible text left out" if file.invisible else ""


def _may_skip(file: TurnFile, *, skip_bad: bool) -> bool:
    for bad in file.bad[:BAD_LINES_SHOWN]:
        complain(f"{bad.where}: {bad.reason}")
    if len(file.bad) > BAD_LINES_SHOWN:
        complain(f"… and {len(file.bad) - BAD_LINES_SHOWN} more bad lines")
    if not skip_bad:
        complain(f"{len(file.bad)} bad line(s), nothing was stored; mend them or pass --skip-bad")
    return skip_bad


def _report(file: TurnFile, told: dict[str, Any], *, searchable: bool) -> None:
    """Print what was stored. `searchable`: all of it can be found by now."""
    turns, waited = many(told["turns"], "turn"), "stored; a worker makes them searchable"
    if searchable:
        waited = "all searchable"
    if told["already_there"]:
        waited = f"{told['new']:,} new, {told['already_there']:,} already there, {waited}"
    said = (
        f"{turns} in {many(told['threads'], 'thread')}: {waited}"
        if told["new"]
        else f"{turns}: already there"
    )
    skipped = f"; {many(len(file.bad), 'bad line')} skipped" if file.bad else ""
    out.print(f"{said}{skipped}{_left_out(file)}.")


# --- files of turns ------------------------------------------------------------------------------------------
_TAKEN: Final = frozenset(
    {"role", "content", "speaker", "name", "timestamp", "metadata", "importance", "thread", "user"}
)
# Fields of OpenAI messages that say nothing a memory could keep.
_PASSED_OVER: Final = frozenset(
    {"id", "refusal", "annotations", "audio", "tool_calls", "tool_call_id", "function_call"}
)
_CALLS: Final = ("tool_calls", "function_call")
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, kw_only=True, slots=True)
class ReadTurn:
    """One turn of the file: where it stood, and whose it is if the line says so."""

    where: int
    turn: TurnInput
    thread: str | None
    user: str | None


@dataclass(frozen=True, kw_only=True, slots=True)
class BadLine:
    """A line (or message) that cannot be remembered, and why. `where` as people say it: `line 3, message 2`."""

    where: str
    reason: str


@dataclass(frozen=True, kw_only=True, slots=True)
class TurnFile:
    """A file's turns, good and bad, in order. `invisible`: the number of messages left out for having no text."""

    turns: tuple[ReadTurn, ...]
    bad: tuple[BadLine, ...]
    invisible: int = 0


class _NoCount:
    margin = 0.0

    def count(self, text: str) -> int:
        return 0


def read_turns(data: bytes) -> TurnFile:
    """All turns of a file's content, with every bad line."""
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as exc:
        line = data[: exc.start].count(b"\n") + 1
        return TurnFile(turns=(), bad=(BadLine(where=f"line {line}", reason="is not UTF-8 text"),))
    turns: list[ReadTurn] = []
    bad: list[BadLine] = []
    invisible = 0
    for number, (where, item) in enumerate(_items(text), start=1):
        try:
            turn = _read_turn(number, item)
        except InvalidInput as exc:
            bad.append(BadLine(where=where, reason=str(exc)))
            continue
        if turn is None:
            invisible += 1
        else:
            turns.append(turn)
    return TurnFile(turns=tuple(turns), bad=tuple(bad), invisible=invisible)


def _items(text: str) -> Iterator[tuple[str, object]]:
    """Every message, or the InvalidInput that stands in its place, with the words for that place."""
    if text.lstrip().startswith("["):
        yield from _array_items(text)
        return
    # Not splitlines: JSON text may hold U+2028 and its kind unescaped.
    for number, line in enumerate(text.split("\n"), start=1):
        if not line.strip():
            continue
        try:
            item = json.loads(line)
        except (ValueError, RecursionError) as exc:
            item = InvalidInput(f"is not JSON ({exc})")
        yield from _messages(f"line {number}", f"line {number}", item)


def _array_items(text: str) -> Iterator[tuple[str, object]]:
    try:
        items = json.loads(text)
    except (ValueError, RecursionError) as exc:
        yield "the file", InvalidInput(f"starts with '[' but is not a JSON array ({exc})")
        return
    for number, item in enumerate(items, start=1):
        yield from _messages(f"message {number}", f"item {number}", item)


def _messages(where: str, whole: str, item: object) -> Iterator[tuple[str, object]]:
    """The messages of a conversation, whose place is called `whole`, or the one that stands for itself."""
    if not isinstance(item, dict) or "messages" not in item:
        yield where, item
        return
    messages = item["messages"]
    if not isinstance(messages, list):
        yield whole, InvalidInput(f"messages is a {type(messages).__name__}; it must be a list")
        return
    whose = {key: item[key] for key in ("thread", "user") if key in item}
    for number, message in enumerate(messages, start=1):
        yield f"{whole}, message {number}", {**whose, **message} if isinstance(message, dict) else message


def _read_turn(number: int, item: object) -> ReadTurn | None:
    """The turn of a message; None if it has nothing to see. Raises InvalidInput."""
    if isinstance(item, InvalidInput):
        raise item
    if not isinstance(item, Mapping):
        raise InvalidInput(f"is a {type(item).__name__}, not an object with role and content")
    if unknown := [key for key in item if key not in _TAKEN | _PASSED_OVER]:
        known = ", ".join(sorted(_TAKEN))
        raise InvalidInput(
            f"has the key {unknown[0]!r:.80}; known are {known}. Put anything else into metadata"
        )
    if "role" not in item or "content" not in item:
        raise InvalidInput("has no role or no content; both are needed")
    content = _text_of(item["content"])
    # An assistant that calls a tool says nothing meanwhile.
    if content is None and any(item.get(key) for key in _CALLS):
        content = ""
    if isinstance(content, str) and not has_visible(content):
        return None
    turn = TurnInput(
        role=item["role"],
        content=content,
        speaker=item.get("speaker", item.get("name")),
        timestamp=_time_of(item.get("timestamp")),
        metadata=item.get("metadata"),
        importance=item.get("importance"),
    )
    from memory_agent.work.admit import admit  # the rules of what may be stored take a moment

    draft = admit([turn], now=_EPOCH, counter=_NoCount(), idempotency_key=None, stages=())[0]
    thread, user = (
        None if item.get(key) is None else checked_id(key, item[key]) for key in ("thread", "user")
    )
    kept = replace(turn, role=draft.role, metadata=draft.metadata)
    return ReadTurn(where=number, turn=kept, thread=thread, user=user)


def _text_of(content: object) -> Any:
    """The text of a message's content; a part that is no text leaves its type in brackets, so that it shows."""
    if not isinstance(content, list):
        return content
    parts = []
    for part in content:
        match part:
            case str(text) | {"text": str(text)}:
                parts.append(text)
            case {"type": str(kind)}:
                parts.append(f"[{kind}]")
            case _:
                raise InvalidInput("content has a part that is neither text nor an object with a type")
    return "\n".join(parts)


def _time_of(value: object) -> datetime | None:
    if value is None:
        return None
    try:
        time = datetime.fromisoformat(value)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        time = None
    if time is None or time.tzinfo is None:
        example = "2026-03-01T18:30:00+01:00"
        raise InvalidInput(f"timestamp is {value!r:.80}; write ISO 8601 with a zone, e.g. {example}")
    return time
