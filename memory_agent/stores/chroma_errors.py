"""Errors of Chroma and its HTTP client, translated into ours in one place."""

from __future__ import annotations

import json
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

from memory_agent.errors import VectorIndexError, VectorIndexUnavailable

if TYPE_CHECKING:
    from collections.abc import Iterator

    import httpx

_UNAVAILABLE_STATUS: Final = frozenset({401, 403, 408, 425, 429})


@contextmanager
def translated() -> Iterator[None]:
    """Every error that Chroma or its transport can raise, as one of ours."""
    try:
        yield
    except _driver_errors() as exc:
        raise translate(exc) from exc


def translate(exc: Exception) -> VectorIndexError | VectorIndexUnavailable:
    """`exc` of Chroma, httpx or the file system as one of ours: can the same call work later?"""
    import httpx

    detail = f"{type(exc).__name__}: {exc}" if str(exc) else type(exc).__name__
    if isinstance(exc, chroma_errors().ChromaError):
        status = exc.code()
    elif isinstance(exc, httpx.HTTPStatusError):
        status = exc.response.status_code
        detail = f"HTTP {status}: {exc.response.text[:200]}"
    elif isinstance(
        exc, (httpx.HTTPError, httpx.InvalidURL, httpx.StreamError, OSError, json.JSONDecodeError)
    ):
        # Nothing of these is the fault of what was asked; an answer that is no JSON comes from a proxy.
        return VectorIndexUnavailable(f"Chroma cannot be reached: {detail}")
    else:
        return VectorIndexError(f"Chroma refused the request: {detail}")
    if status >= 500 or status in _UNAVAILABLE_STATUS:
        return VectorIndexUnavailable(f"Chroma cannot serve the request now: {detail}")
    return VectorIndexError(f"Chroma refused the request: {detail}")


def _driver_errors() -> tuple[type[Exception], ...]:
    import httpx

    return (
        chroma_errors().ChromaError,
        httpx.HTTPError,
        httpx.InvalidURL,
        httpx.StreamError,
        OSError,  # TimeoutError and ConnectionError among them
        ValueError,
        TypeError,
        KeyError,
    )


def chroma_errors() -> Any:
    import chromadb.errors

    return chromadb.errors


async def raise_for_foreign_errors(response: httpx.Response) -> None:
    """Raise for an error that isn't in Chroma's own form, which Chroma's client would turn into a bare Exception."""
    if not response.is_error:
        return
    await response.aread()
    try:
        name = json.loads(response.text).get("error")
    except (ValueError, AttributeError):
        name = None
    if not isinstance(name, str) or name not in chroma_errors().error_types:
        response.raise_for_status()
