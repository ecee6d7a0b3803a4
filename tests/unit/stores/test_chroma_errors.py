"""Every error that Chroma or its transport can raise becomes one of ours."""

from __future__ import annotations

import inspect
import json

import chromadb.errors
import httpx
import pytest

from memory_agent.errors import VectorIndexError, VectorIndexUnavailable
from memory_agent.stores.chroma_errors import translate, translated

REQUEST = httpx.Request("POST", "http://chroma.test/")


def chroma_errors() -> list[type[Exception]]:
    classes = vars(chromadb.errors).values()
    return [cls for cls in classes if inspect.isclass(cls) and issubclass(cls, chromadb.errors.ChromaError)]


def transport_errors() -> list[type[Exception]]:
    classes = [getattr(httpx, name) for name in httpx.__all__]
    roots = (httpx.HTTPError, httpx.InvalidURL, httpx.StreamError)
    return [cls for cls in classes if inspect.isclass(cls) and issubclass(cls, roots)]


UNAVAILABLE_CHROMA = {
    "AuthorizationError",
    "ChromaAuthError",
    "InternalError",
    "RateLimitError",
    "VersionMismatchError",
}


def made(cls: type[Exception]) -> Exception:
    """An instance without running a constructor, which differs from class to class."""
    exc: Exception = cls.__new__(cls, "text")
    exc.args = ("text",)
    return exc


@pytest.mark.parametrize("cls", chroma_errors(), ids=lambda cls: cls.__name__)
def test_every_chroma_error_is_mapped(cls: type[Exception]) -> None:
    """Outages, overload and refused credentials are worth a retry, everything else is not."""
    expected = VectorIndexUnavailable if cls.__name__ in UNAVAILABLE_CHROMA else VectorIndexError
    with pytest.raises(expected) as caught, translated():
        raise made(cls)
    assert type(caught.value.__cause__) is cls


def test_the_errors_named_here_exist() -> None:
    """A renamed error of Chroma shows."""
    assert {cls.__name__ for cls in chroma_errors()} >= UNAVAILABLE_CHROMA
    assert len(transport_errors()) > 15


@pytest.mark.parametrize(
    "cls",
    [cls for cls in transport_errors() if cls is not httpx.HTTPStatusError],
    ids=lambda cls: cls.__name__,
)
def test_every_transport_error_is_unavailable(cls: type[Exception]) -> None:
    """What goes wrong on the way is no fault of what was asked."""
    with pytest.raises(VectorIndexUnavailable), translated():
        raise made(cls)


@pytest.mark.parametrize(
    ("status", "expected"),
    [(400, VectorIndexError), (404, VectorIndexError), (422, VectorIndexError)]
    + [(status, VectorIndexUnavailable) for status in (401, 403, 408, 429, 500, 502, 503, 504)],
)
def test_a_status_of_a_proxy_is_mapped(status: int, expected: type[Exception]) -> None:
    """Errors that aren't in Chroma's form go by their status."""
    response = httpx.Response(status, text="<html>", request=REQUEST)
    assert type(translate(httpx.HTTPStatusError("", request=REQUEST, response=response))) is expected


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (TimeoutError(), VectorIndexUnavailable),
        (ConnectionRefusedError(111, "refused"), VectorIndexUnavailable),
        (PermissionError(13, "denied"), VectorIndexUnavailable),
        (json.JSONDecodeError("no", "<html>", 0), VectorIndexUnavailable),
        (ValueError("expected embeddings"), VectorIndexError),
        (TypeError("not a list"), VectorIndexError),
        (KeyError("ids"), VectorIndexError),
    ],
    ids=lambda value: value.__name__ if inspect.isclass(value) else type(value).__name__,
)
def test_other_errors_are_mapped(error: Exception, expected: type[Exception]) -> None:
    """The operating system's errors are outages, refused arguments are errors."""
    with pytest.raises(expected), translated():
        raise error
