"""The hook for personal data: a function of the application's own that takes out of texts what must not go further."""

from __future__ import annotations

import asyncio
import dataclasses
from collections import Counter, defaultdict
from typing import TYPE_CHECKING, Any, TypeVar

from memory_agent.checks import (
    MAX_CONTENT_CHARS,
    MAX_METADATA_CHARS,
    checked_metadata,
    checked_text,
    has_visible,
)
from memory_agent.domain import VERBATIM
from memory_agent.errors import InvalidInput, RedactionFailed

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from _typeshed import DataclassInstance

    from memory_agent.domain import TurnDraft
    from memory_agent.ports import Redactor, TokenCounter

T = TypeVar("T", bound="DataclassInstance")


async def redacted(redact: Redactor, texts: Sequence[str]) -> list[str]:
    """`texts` without what `redact` takes out.

    Raises RedactionFailed, without any of the text, if it fails.
    """
    clean: list[str] = await redacted_value(redact, texts)
    return clean


async def redacted_value(redact: Redactor, value: Any) -> Any:
    """`value`, JSON of any depth, with every text in it redacted. Raises RedactionFailed."""
    return await asyncio.to_thread(_redacted, redact, value)


def _redacted(redact: Redactor, value: Any) -> Any:
    if isinstance(value, str):
        return _clean(redact, value)
    if isinstance(value, dict):
        return {key: _redacted(redact, inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_redacted(redact, inner) for inner in value]
    return value


def _clean(redact: Redactor, text: str) -> str:
    if not has_visible(text):
        return text
    try:
        clean: object = redact(text)
    except Exception as exc:
        failed = type(exc).__name__  # its message may quote the text that was to be kept back
        raise RedactionFailed(f"the redactor failed with {failed}; nothing was passed on") from None
    if not isinstance(clean, str):
        raise RedactionFailed(f"the redactor returned a {type(clean).__name__}; it must return text")
    return clean


async def redacted_drafts(
    redact: Redactor, drafts: Sequence[TurnDraft], counter: TokenCounter
) -> list[TurnDraft]:
    """`drafts` with redacted content.

    Speakers' names and metadata but for VERBATIM are the caller's, and stay.

    Raises RedactionFailed, and InvalidInput if nothing of a text is left, or of VERBATIM more than metadata may hold.
    """
    contents = await redacted(redact, [draft.content for draft in drafts])
    verbatim = await _redacted_verbatim(redact, [draft.metadata for draft in drafts])
    return [
        dataclasses.replace(
            draft,
            content=checked_text("content, redacted,", content, max_chars=MAX_CONTENT_CHARS),
            tokens=counter.count(content),
            metadata=_with_verbatim(draft.metadata, value),
        )
        for draft, content, value in zip(drafts, contents, verbatim, strict=True)
    ]


def _with_verbatim(metadata: Mapping[str, Any], value: Any) -> Mapping[str, Any]:
    """The metadata with its redacted value. Raises InvalidInput if there is no room for it."""
    if VERBATIM not in metadata:
        return metadata
    changed = {**metadata, VERBATIM: value}
    if (size := len(repr(changed))) > MAX_METADATA_CHARS:
        raise InvalidInput(
            f"metadata grew from {len(repr(metadata)):,} to {size:,} characters by redaction, and at most "
            f"{MAX_METADATA_CHARS:,} are stored; pass a shorter text, or let the redactor put in less than it takes out"
        )
    return checked_metadata(changed)


async def _redacted_verbatim(redact: Redactor, given: Sequence[Mapping[str, Any]]) -> list[Any]:
    """The redacted VERBATIM values of turns.

    A text of which they hold pieces is one meanwhile: a secret may lie across a cut.
    """
    wholes: defaultdict[tuple[str, int], str] = defaultdict(str)
    for metadata in given:
        for n, piece in _pieces(metadata):
            wholes[metadata["value"], n] += piece
    others = [None if _pieces(metadata) else metadata.get(VERBATIM) for metadata in given]
    redacted_wholes, others = await redacted_value(redact, [[*wholes.values()], others])
    clean: dict[tuple[str, int], str] = dict(zip(wholes, redacted_wholes, strict=True))
    read = Counter[tuple[str, int]]()

    def cut(of: tuple[str, int], piece: str) -> str:
        """The next piece of the redacted text, as long in proportion."""
        text, size, start = clean[of], max(len(wholes[of]), 1), read[of]
        read[of] += len(piece)
        return text[len(text) * start // size : len(text) * read[of] // size]

    return [
        [[n, cut((metadata["value"], n), piece)] for n, piece in _pieces(metadata)] or other
        for metadata, other in zip(given, others, strict=True)
    ]


def _pieces(metadata: Mapping[str, Any]) -> list[Any]:
    """The pieces of a value's texts, each with its text's number; none where something else is VERBATIM."""
    kept = metadata.get(VERBATIM)
    if not isinstance(kept, list) or not isinstance(metadata.get("value"), str):
        return []
    return kept if all(_is_piece(each) for each in kept) else []


def _is_piece(each: object) -> bool:
    return isinstance(each, list) and len(each) == 2 and isinstance(each[0], int) and isinstance(each[1], str)


async def redacted_each(redact: Redactor | None, things: Sequence[T], name: str) -> list[T]:
    """`things` with the text in their field `name` as a language model may read it.

    Raises RedactionFailed.
    """
    if redact is None:
        return list(things)
    texts = await redacted(redact, [getattr(thing, name) for thing in things])
    return [dataclasses.replace(thing, **{name: text}) for thing, text in zip(things, texts, strict=True)]
