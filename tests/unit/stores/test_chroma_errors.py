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


def test_every_chroma_error_is_mapped() -> None:
    """Outages, overload and refused credentials are worth a retry, everything else is not."""
    names = {cls.__name__ for cls in chroma_errors()}
    assert names >= UNAVAILABLE_CHROMA  # a renamed error of Chroma shows
    for cls in chroma_errors():
        expected = VectorIndexUnavailable if cls.__name__ in UNAVAILABLE_CHROMA else VectorIndexError
        with pytest.raises(expected) as caught, translated():
            raise made(cls)
        assert type(caught.value.__cause__) is cls


def test_every_transport_error_is_unavailable() -> None:
    """What goes wrong on the way is no fault of what was asked."""
    assert len(transport_errors()) > 15
    for cls in transport_errors():
        if cls is not httpx.HTTPStatusError:
            with pytest.raises(VectorIndexUnavailable), translated():
                raise made(cls)


def test_a_status_of_a_proxy_is_mapped() -> None:
    """Errors that aren't in Chroma's form go by their status."""
    lasting, passing = (400, 404, 422), (401, 403, 408, 429, 500, 502, 503, 504)
    for status in (*lasting, *passing):
        response = httpx.Response(status, text="<html>", request=REQUEST)
        error = translate(httpx.HTTPStatusError("", request=REQUEST, response=response))
        assert type(error) is (VectorIndexError if status in lasting else VectorIndexUnavailable), status


def test_other_errors_are_mapped() -> None:
    """The operating system's errors are outages, refused arguments are errors."""
    outages = (TimeoutError(), ConnectionRefusedError(111, "refused"), PermissionError(13, "denied"))
    for error in (*outages, json.JSONDecodeError("no", "<html>", 0)):
        with pytest.raises(VectorIndexUnavailable), translated():
            raise error
    for refused in (ValueError("expected embeddings"), TypeError("not a list"), KeyError("ids")):
        with pytest.raises(VectorIndexError), translated():
            raise refused
