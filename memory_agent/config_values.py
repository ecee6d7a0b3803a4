"""Types of settings that a number or a text alone would be too wide for, each with the error for a wrong value."""

from __future__ import annotations

import re
from typing import Annotated, Any

from pydantic import AfterValidator, Field, SecretStr

# A description says in words what a pattern means; it ends up in the error of a value that does not match.
Name = Annotated[
    str,
    Field(
        pattern=r"^[A-Za-z0-9][A-Za-z0-9_-]{0,31}$",
        description="1 to 32 ASCII letters, digits, '_' or '-', the first a letter or digit",
    ),
]
LongSeconds = Annotated[float, Field(gt=0, le=3_153_600_000)]
"""Up to 100 years."""


def listed(value: Any) -> Any:
    """The names of a list, which the environment separates by commas."""
    return [name.strip() for name in value.split(",")] if isinstance(value, str) else value


def of_signals(value: dict[str, float]) -> dict[str, float]:
    """The weights as they are. Raises ValueError for one of no signal."""
    from memory_agent.search.fusion import SIGNALS

    for name in value:
        if name not in SIGNALS:
            raise ValueError(f"no signal {name!r}; one of: {', '.join(SIGNALS)}")
    return value


def _mongo_scheme(value: SecretStr) -> SecretStr:
    if not value.get_secret_value().startswith(("mongodb://", "mongodb+srv://")):
        raise ValueError("must start with mongodb:// or mongodb+srv://, e.g. mongodb://127.0.0.1:27017")
    return value


def _http_scheme(value: str) -> str:
    if not value.startswith(("http://", "https://")):
        raise ValueError("must start with http:// or https://, e.g. http://127.0.0.1:11434/v1")
    return value


def _host_alone(value: str) -> str:
    if not re.fullmatch(r"(https?://)?[^\s/@?#]+", value):
        raise ValueError(
            "must be a host name or address, e.g. 127.0.0.1, with https:// before it where it speaks TLS; the port is"
            " chroma_port"
        )
    return value


def _with_words(value: str) -> str:
    from memory_agent.text.terms import search_languages

    known = search_languages()
    if value not in known:
        raise ValueError(f"no stemmer and no words for {value!r}; one of: {', '.join(known)}")
    return value


MongoUri = Annotated[SecretStr, AfterValidator(_mongo_scheme)]
HttpAddress = Annotated[str, AfterValidator(_http_scheme)]
HostName = Annotated[str, AfterValidator(_host_alone)]
SearchLanguage = Annotated[str, AfterValidator(_with_words)]
