"""The choice among the older messages of a history: which of them a new prompt sees word for word.

A message's score = bonus for code + length + likeness to the prompt where there is an embedder; of equal scores the newer wins.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
from dataclasses import dataclass
from itertools import accumulate
from typing import TYPE_CHECKING, Final

from memory_agent.errors import EmbedderError, EmbedderUnavailable, LLMError, LLMUnavailable, RedactionFailed
from memory_agent.lazily import Recent
from memory_agent.llm.summaries import Said, SummaryWriter, as_text, read_form
from memory_agent.text.terms import count_terms

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import numpy as np
    from numpy.typing import NDArray

    from memory_agent.ports import LLM, Embedder, Redactor, TokenCounter


Pair = tuple[str, str]
"""(role, content)"""

log = logging.getLogger(__name__)

_NOTHING: Final = bytes(16)  # as long as every key
_KEPT: Final = 128
"""Summaries in memory."""


def beginnings(messages: Sequence[Pair]) -> list[bytes]:
    """For each message a key of all up to and including it: equal for equal roles and contents in equal order."""
    return list(accumulate(messages, _chained, initial=_NOTHING))[1:]


def content_key(content: str) -> bytes:
    """A key of one content, whoever said it."""
    return _digest(content.encode("utf-8", "surrogatepass"))


def _chained(before: bytes, message: Pair) -> bytes:
    role, content = message
    return _digest(before + f"{role}:{content}".encode("utf-8", "surrogatepass"))


def _digest(data: bytes) -> bytes:
    return hashlib.blake2b(data, digest_size=16).digest()


@dataclass(frozen=True, kw_only=True, slots=True)
class MessageSummary:
    """A summary. `degraded`: the language model could not be had, so it is sentences out of the messages."""

    text: str
    degraded: bool = False


class MessageSummaries:
    """Makes summaries of messages, on one event loop."""

    def __init__(
        self,
        llm: LLM | None,
        pick: Callable[[Sequence[Pair]], str],
        counter: TokenCounter,
        *,
        max_tokens: int,
        redact: Redactor | None = None,
    ) -> None:
        """`pick`: sentences out of messages, the fallback and what there is without `llm`.

        `max_tokens`: of a summary; `redact`: applied to what the model is shown.
        """
        self._writer = (
            None if llm is None else SummaryWriter(llm, counter, max_tokens=max_tokens, redact=redact)
        )
        self._pick = pick
        self._known = Recent[bytes, str](_KEPT)
        self._running: dict[bytes, asyncio.Task[MessageSummary]] = {}

    async def summary_of(self, messages: Sequence[Pair]) -> MessageSummary:
        """The summary of `messages` (at least one), empty if they say nothing.

        The same for equal messages while it is kept; calls at the same time share one, and one that is cancelled leaves it to the others.
        Without the language model (down, refusing, answering nothing, or its redactor failing) sentences are picked, and
        the next call asks it again.
        """
        keys = beginnings(messages)
        known = self._known.got(keys[-1])
        if known is not None:
            return MessageSummary(text=known)
        running = self._running.get(keys[-1])
        if running is None:
            running = asyncio.create_task(self._make(list(messages), keys))
            self._running[keys[-1]] = running
            running.add_done_callback(lambda _: self._running.pop(keys[-1], None))
        return await asyncio.shield(running)

    async def _make(self, messages: list[Pair], keys: list[bytes]) -> MessageSummary:
        if self._writer is None:
            text = await self._picked(messages)
        else:
            try:
                text = await self._asked(self._writer, messages, keys)
            except (LLMUnavailable, LLMError, RedactionFailed) as exc:
                log.warning("a summary is made without the language model: %s", exc)
                return MessageSummary(text=await self._picked(messages), degraded=True)
        self._known.put(keys[-1], text)
        return MessageSummary(text=text)

    async def _picked(self, messages: Sequence[Pair]) -> str:
        return await asyncio.to_thread(self._pick, messages)  # long messages take it tenths of a second

    async def _asked(self, writer: SummaryWriter, messages: Sequence[Pair], keys: Sequence[bytes]) -> str:
        summary, start = "", 0
        for count in range(len(keys), 0, -1):
            if (known := self._known.got(keys[count - 1])) is not None:
                summary, start = known, count
                break
        draft = read_form(summary)
        since = enumerate(messages[start:], start=start + 1)
        said = [
            Said(number=number, who=role, text=content, is_reply=role != "user")
            for number, (role, content) in since
        ]
        for piece in await writer.pieces(said):
            draft = await writer.write(draft, piece)
        return as_text(draft.items)


MAX_IMPORTANT: Final = 5
THRESHOLD: Final = 1.0
THRESHOLD_WITH_CODE: Final = 0.5
"""The least score of an older message that is kept; lower where code is among them, so that what was said around it
stays too."""
LIKENESS: Final = 2.0
"""Of a message that says the same as the new prompt: as much as code, so that half of it reaches the threshold."""

_FULL_LENGTH_CHARS: Final = 1000
_SCORES: Final = 32_768  # under 10 MB
_VECTORS: Final = 4_096  # 6 MB at 384 dimensions and one passage each


def message_score(chars: int, *, code_bonus: float = 0.0, likeness: float = 0.0) -> float:
    """The score of an older message: `code_bonus` + min(`chars` / 1000, 1) + `LIKENESS` x `likeness`.

    Of equal scores the newer message counts for more, which is all that recency says of messages that are all old.

    >>> [message_score(20), message_score(4_000), message_score(30, code_bonus=2), message_score(800, code_bonus=2)]
    [0.02, 1.0, 2.03, 2.8]
    """
    return round(code_bonus + min(chars / _FULL_LENGTH_CHARS, 1.0) + LIKENESS * likeness, 2)


def choose_important(scores: Sequence[float], code: Sequence[bool], shared: Sequence[int] = ()) -> list[int]:
    """The positions of the messages to keep, best first: at most min(5, max(1, n // 2)).

    Each has a score that is enough. `code`: which have code; `shared`: what stands above the score, with it any score is enough. Of equal ones the newer is first.
    """
    shared = shared or [0] * len(scores)
    ranked = sorted(zip(shared, scores, range(len(scores)), strict=True), reverse=True)
    least = THRESHOLD_WITH_CODE if any(code) else THRESHOLD
    most = min(MAX_IMPORTANT, max(1, len(scores) // 2))
    return [i for above, score, i in ranked[:most] if above or score >= least]


class OlderMessages:
    """What is found out about older messages, kept by their content: their code, and their vectors."""

    def __init__(self, find_code: Callable[[str], str | None], embedder: Embedder | None = None) -> None:
        """`find_code`: the language of a text's code, "" if nothing tells, None without code.

        It is called in a thread. `embedder`: stays its owner's.
        """
        self._find_code = find_code
        self._embedder = embedder
        self._code = Recent[bytes, tuple[str | None]](_SCORES)
        self._vectors: Recent[bytes, NDArray[np.float32]] = Recent(_VECTORS)

    def code_in(self, content: str) -> str | None:
        """What `find_code` says of one, from what is kept where that is known."""
        key = content_key(content)
        found = self._code.got(key) or self._code.put(key, (self._find_code(content),))
        return found[0]

    async def code_of(self, contents: Sequence[str]) -> list[str | None]:
        """What `find_code` says of each; those not known yet are looked at beside the event loop."""
        keys = [content_key(content) for content in contents]
        known = {key: one for key in keys if (one := self._code.got(key)) is not None}
        missing = {key: content for key, content in zip(keys, contents, strict=True) if key not in known}
        if missing:
            known |= await asyncio.to_thread(
                lambda: {key: (self._find_code(text),) for key, text in missing.items()}
            )
        for key in missing:
            self._code.put(key, known[key])
        return [known[key][0] for key in keys]

    async def likeness_to(self, prompt: str, older: Sequence[str]) -> tuple[list[float], tuple[str, ...]]:
        """The likeness of each to the prompt, 0 to 1; all 0 without an embedder, or if it is down."""
        if self._embedder is None:
            return [0.0] * len(older), ()
        try:
            return await self._cosines(self._embedder, prompt, older), ()
        except (EmbedderUnavailable, EmbedderError) as exc:
            log.warning("older messages are chosen without the embedder: %s", exc)
            return [0.0] * len(older), ("embedder",)

    async def _cosines(self, embedder: Embedder, prompt: str, contents: Sequence[str]) -> list[float]:
        """The cosine of each content's nearest passage with `prompt`, at least 0. Raises what `Embedder.embed` does."""
        [asked] = await embedder.embed([prompt], purpose="query")
        vectors = {key: self._vectors.got(key) for key in map(content_key, contents)}
        passages = {
            content_key(content): await embedder.split(content)
            for content in contents
            if vectors[content_key(content)] is None
        }
        if passages:
            rows = await embedder.embed(
                [part for parts in passages.values() for part in parts], purpose="document"
            )
            for key, parts in passages.items():
                vectors[key], rows = self._vectors.put(key, rows[: len(parts)]), rows[len(parts) :]
        found = (vectors[content_key(content)] for content in contents)
        return [max(float((of_one @ asked).max()), 0.0) for of_one in found if of_one is not None]


def shared_with(prompt: str, older: Sequence[str], code: Sequence[bool]) -> list[int]:
    """For each message with code 1 and the number of words that it shares with the prompt, else 0."""
    wanted = count_terms(prompt).keys()
    return [
        1 + len(wanted & count_terms(content).keys()) if with_code else 0
        for content, with_code in zip(older, code, strict=True)
    ]
