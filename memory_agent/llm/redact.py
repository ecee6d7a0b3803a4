"""The hook for personal data: a function of the application's own that takes out of texts what must not go further."""

from __future__ import annotations

import asyncio
import dataclasses
from typing import TYPE_CHECKING, Any

from memory_agent.checks import MAX_CONTENT_CHARS, checked_metadata, checked_text
from memory_agent.domain import VERBATIM
from memory_agent.errors import RedactionFailed

if TYPE_CHECKING:
    from collections.abc import Sequence

    from memory_agent.domain import Turn, TurnDraft
    from memory_agent.ports import Redactor, TokenCounter


async def redacted(redact: Redactor, texts: Sequence[str]) -> list[str]:
    """`texts` without what `redact` takes out. Raises RedactionFailed, without any of the text, if it fails."""
    found = []
    for text in texts:
        try:
            clean = await asyncio.to_thread(redact, text)
        except Exception as exc:
            failed = type(exc).__name__  # its message may quote the text that was to be kept back
            raise RedactionFailed(f"the redactor failed with {failed}; nothing was passed on") from None
        if not isinstance(clean, str):
            raise RedactionFailed(f"the redactor returned a {type(clean).__name__}; it must return text")
        found.append(clean)
    return found


async def redacted_drafts(
    redact: Redactor, drafts: Sequence[TurnDraft], counter: TokenCounter
) -> list[TurnDraft]:
    """`drafts` with redacted content. Speakers' names and metadata but for VERBATIM are the caller's, and stay.

    Raises RedactionFailed, and InvalidInput if nothing of a text is left, or of VERBATIM more than metadata may hold.
    """
    contents = await redacted(redact, [draft.content for draft in drafts])
    verbatim = [
        {VERBATIM: await redacted_value(redact, draft.metadata[VERBATIM])}
        if VERBATIM in draft.metadata
        else {}
        for draft in drafts
    ]
    return [
        dataclasses.replace(
            draft,
            content=checked_text("content, redacted,", content, max_chars=MAX_CONTENT_CHARS),
            tokens=counter.count(content),
            metadata=checked_metadata({**draft.metadata, **value}),
        )
        for draft, content, value in zip(drafts, contents, verbatim, strict=True)
    ]


async def redacted_turns(redact: Redactor | None, turns: Sequence[Turn]) -> list[Turn]:
    """`turns` as a language model may read them. Raises RedactionFailed."""
    if redact is None:
        return list(turns)
    contents = await redacted(redact, [turn.content for turn in turns])
    return [dataclasses.replace(turn, content=content) for turn, content in zip(turns, contents, strict=True)]


async def redacted_value(redact: Redactor, value: Any) -> Any:
    """`value`, JSON of any depth, with every text in it redacted. Raises RedactionFailed."""
    if isinstance(value, str):
        return (await redacted(redact, [value]))[0]
    if isinstance(value, dict):
        return {key: await redacted_value(redact, inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [await redacted_value(redact, inner) for inner in value]
    return value
