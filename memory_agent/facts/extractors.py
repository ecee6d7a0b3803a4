"""Fact extractors: a language model where one is configured, else patterns."""

from __future__ import annotations

import asyncio
import dataclasses
import functools
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Protocol

from memory_agent.domain import ExtractionCost
from memory_agent.errors import MalformedReply, ModelRefused
from memory_agent.facts.replies import read_stated
from memory_agent.facts.request import FACTS_SCHEMA, PROMPT_VERSION, messages, shown_value
from memory_agent.llm.redact import redacted, redacted_turns
from memory_agent.llm.refusals import prose_in

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from memory_agent.domain import StatedFact
    from memory_agent.facts.request import ExtractionRequest
    from memory_agent.ports import LLM, Redactor

MAX_REPLY_TOKENS: Final = 4_000
"""A reply that is cut off there is asked for again about half of the turns: a model that repeats itself comes to an end."""
_LONG_CHARS: Final = 100_000


@dataclass(frozen=True, kw_only=True, slots=True)
class Extraction:
    """Extracted items, not vetted yet, and their cost.

    `problem`: a reply that cannot be trusted, or that says that the model will not; then nothing.
    """

    items: tuple[StatedFact, ...] = ()
    cost: ExtractionCost = field(default_factory=ExtractionCost)
    problem: MalformedReply | ModelRefused | None = None


class FactExtractor(Protocol):
    """Finds what turns state."""

    @property
    def name(self) -> str:
        """The name of the extractor (kind, model, version of prompt or rules), kept with each change."""

    @property
    def sees_conversation(self) -> bool:
        """True if it makes use of the turns around and of what is known."""

    async def extract(self, request: ExtractionRequest) -> Extraction:
        """Extract what the turns of the request state. Raises LLMUnavailable or LLMError."""


class LLMFactExtractor:
    """Asks a language model: one call for all turns of a request."""

    sees_conversation = True

    def __init__(self, llm: LLM, *, redact: Redactor | None = None) -> None:
        """`redact`: applied to every text of turns and facts before it is sent."""
        self._llm = llm
        self._redact = redact
        self.name = f"llm:{llm.model}:prompt-{PROMPT_VERSION}"

    async def extract(self, request: ExtractionRequest) -> Extraction:
        """See `FactExtractor`."""
        asked = messages(await _redacted(self._redact, request))
        try:
            completion = await self._llm.complete(asked, schema=FACTS_SCHEMA, max_tokens=MAX_REPLY_TOKENS)
        except ModelRefused as exc:
            return Extraction(cost=ExtractionCost(requests=1), problem=exc)
        sent, received = completion.prompt_tokens, completion.completion_tokens
        cost = ExtractionCost(requests=1, prompt_tokens=sent, completion_tokens=received)
        text, truncated = completion.text, completion.truncated
        read = functools.partial(read_stated, text, turns=request.turn_of, truncated=truncated)
        try:
            # Megabytes of junk take a second to read, in which nothing else could run.
            items = await asyncio.to_thread(read) if len(text) > _LONG_CHARS else read()
        except MalformedReply as exc:
            prose = "" if truncated else prose_in(text)
            problem = ModelRefused("the model answered in prose", reply=prose) if prose else exc
            return Extraction(cost=cost, problem=problem)
        return Extraction(items=tuple(items), cost=cost)


async def _redacted(redact: Redactor | None, request: ExtractionRequest) -> ExtractionRequest:
    """`request` as a language model may read it; which turn has which number stays."""
    if redact is None:
        return request
    texts = await redacted(redact, [passage.text for passage in request.passages])
    passages = zip(request.passages, texts, strict=True)
    # As they are shown: what is nested or a number may be personal as well.
    values = await redacted(redact, list(map(shown_value, request.known)))
    known = zip(request.known, values, strict=True)
    return dataclasses.replace(
        request,
        passages=tuple(dataclasses.replace(passage, text=text) for passage, text in passages),
        shown=tuple(await redacted_turns(redact, request.shown)),
        known=tuple(dataclasses.replace(record, value=value) for record, value in known),
    )


class PatternFactExtractor:
    """Runs a pure pattern matcher; the fallback without a language model. It looks at each turn alone."""

    sees_conversation = False

    def __init__(self, match: Callable[[str], Sequence[StatedFact]], *, version: str) -> None:
        self._match = match
        self.name = f"patterns:{version}"

    async def extract(self, request: ExtractionRequest) -> Extraction:
        """See `FactExtractor`. Off the event loop: a batch takes a while, and the first call half a second."""
        return Extraction(items=tuple(await asyncio.to_thread(self._found, request)))

    def _found(self, request: ExtractionRequest) -> list[StatedFact]:
        found = [
            (passage.turn.id, item) for passage in request.passages for item in self._match(passage.text)
        ]
        return [dataclasses.replace(item, turn_id=turn_id) for turn_id, item in found]
