"""The ports of models (embedders, chat models, token counters, finders of entities), and what an application hands in."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Literal, Protocol

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime

    import numpy as np
    from numpy.typing import NDArray

    from memory_agent.domain import Completion, Entity, Message, TokenVectors, Usage


class Embedder(Protocol):
    """Text to vectors. Nothing is loaded before the first call that needs it.

    An application's own may lack `scripts` (then it reads all of them) and `embed_tokens` (then it has no vectors of tokens).
    """

    @property
    def fingerprint(self) -> str:
        """Identity of the vectors: 8 to 16 of [a-z0-9], equal for equal weights. May read files."""

    @property
    def scripts(self) -> frozenset[str] | None:
        """Scripts of which the model knows words, as Unicode's names of letters begin ("LATIN", "HANGUL").

        None: all of them, or not known yet. In others its vectors tell nothing of what a text means. Reads no files.
        """

    async def split(self, text: str) -> list[str]:
        """`text` in passages that the model reads whole (nothing past its window is lost), in order, at least one.

        A text that fits is its own only passage, unchanged.
        """

    async def embed(
        self, texts: Sequence[str], *, purpose: Literal["query", "document"]
    ) -> NDArray[np.float32]:
        """float32, shape (len(texts), dimension), unit length, in the order of `texts`.

        Off the event loop; concurrent calls share batches, queries before documents. A text's vector does not
        depend on what else is in its batch (to 1e-5) nor on `purpose`.
        """

    async def embed_tokens(
        self, texts: Sequence[str], *, purpose: Literal["query", "document"]
    ) -> list[TokenVectors] | None:
        """The vectors of each text's first 128 tokens, in the order of `texts`; None if this embedder has none (an HTTP API).

        They are made with the text's own vector: right before or after `embed` of the same text this costs nothing. Off the event
        loop, in the lanes of `embed`, questions before documents. A text's vectors do not depend on what else is in its batch (to
        1e-3: they may be float16) nor on `purpose`. The arrays are shared with the cache and with other callers: not to be
        written to.
        """

    def clear_cache(self) -> None:
        """Drop every text and vector kept for reuse, those of tokens too: something was forgotten. Idempotent."""

    async def close(self) -> None:
        """Finish the batch in hand and release the executor. Idempotent."""


def known_fingerprint(embedder: Embedder) -> str:
    """The embedder's fingerprint, without waiting for it: "" while its model was not found yet.

    An embedder that may have to look for its model says so by an attribute of this name.
    """
    known: str | None = getattr(embedder, "known_fingerprint", None)
    return embedder.fingerprint if known is None else known


def known_scripts(embedder: Embedder) -> frozenset[str] | None:
    """The scripts that the embedder reads, as `Embedder.scripts` says them; None from one that says nothing."""
    scripts: frozenset[str] | None = getattr(embedder, "scripts", None)
    return scripts


async def pieces_per_word(embedder: Embedder, texts: Sequence[str]) -> float | None:
    """The mean number of pieces that the model's vocabulary makes of a word of these texts; None where it is not known.

    An embedder that can tell has a blocking method of this name.
    """
    own = getattr(embedder, "pieces_per_word", None)
    found: float | None = None if own is None else await asyncio.to_thread(own, texts)
    return found


async def tokens_by(
    embedder: Embedder, texts: Sequence[str], *, purpose: Literal["query", "document"]
) -> list[TokenVectors] | None:
    """See `Embedder.embed_tokens`; None from an embedder without it."""
    own = getattr(embedder, "embed_tokens", None)
    found: list[TokenVectors] | None = None if own is None else await own(texts, purpose=purpose)
    return found


def ahead_by(embedder: Embedder) -> Callable[[Sequence[str]], None] | None:
    """The embedder's method by which it begins with documents that will be asked for next; None from one without.

    One that keeps what it embedded has it, as `embed_ahead`, which only begins, waits for nothing and raises nothing.
    """
    own: Callable[[Sequence[str]], None] | None = getattr(embedder, "embed_ahead", None)
    return own


class LLM(Protocol):
    """A chat model."""

    @property
    def model(self) -> str:
        """The model's name, for the record of what extracted a fact."""

    @property
    def usage(self) -> Usage:
        """Requests answered and tokens used so far by this instance."""

    async def complete(
        self,
        messages: Sequence[Message],
        *,
        schema: Mapping[str, object] | None = None,
        max_tokens: int | None = None,
    ) -> Completion:
        """The model's reply; with `schema` (a JSON Schema of an object) it is asked to answer in that form.

        A server that cannot be held to a schema is asked in words only, so the reply may still be malformed:
        parsing it is the caller's. Raises LLMUnavailable (worth a retry) or LLMError.
        """

    async def close(self) -> None:
        """Release the connection pool. Idempotent."""


def warning_of(llm: LLM) -> str:
    """What somebody should mend about the model's server; "" for nothing. One that can tell has an attribute `warning`."""
    return getattr(llm, "warning", "")


class TokenCounter(Protocol):
    """Counts the tokens of a text, for budgets."""

    @property
    def margin(self) -> float:
        """The share by which a count may be too low, in [0, 1): budgets leave so much room. 0 if counts are exact."""

    def count(self, text: str) -> int:
        """Tokens of `text`; 0 for the empty text. Never less for a text than for a prefix of it, minus 1.

        May be called from several threads.
        """


class EntityFinder(Protocol):
    """Finds entities that no dictionary knows, such as a model for named entities."""

    @property
    def name(self) -> str:
        """The name of the finder, for log lines."""

    def find(self, texts: Sequence[str]) -> list[list[Entity]]:
        """The entities of each text, each once, in order of first mention; as many lists as texts.

        Blocks: it is called in a thread, in batches, from several threads at once. Whatever it raises counts as an outage, and so
        does an answer that doesn't come for a minute (of a question: three seconds). A mapping of kind and name will do as well.
        """


Redactor = Callable[[str], str]
"""A text, without what must not go further. Called in a thread, for one text at a time, from several threads at once."""


class Clock(Protocol):
    """Source of the current time."""

    def now(self) -> datetime:
        """The current instant, timezone-aware UTC, cut to milliseconds."""
