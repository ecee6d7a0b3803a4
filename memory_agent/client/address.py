"""Address and credentials of the service. The secrets are in no text that is shown."""

from __future__ import annotations

import base64
import re
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import unquote_to_bytes

import httpx

from memory_agent.config import ENV_PREFIX, MemoryConfig
from memory_agent.errors import ConfigError

_EXAMPLE: Final = "http://127.0.0.1:8080"
_TOKEN: Final = re.compile(r"[\x21-\x7e]+")


@dataclass(frozen=True, kw_only=True, slots=True)
class Address:
    """A service. `url` ends without '/' and holds no credentials; `authorization` is the header's value."""

    url: str
    authorization: str | None = field(repr=False)

    @classmethod
    def of(cls, base_url: str | None, api_key: str | None) -> Address:
        """The address with this key; what is None is taken from the settings `service_url` and `service_api_key`.

        Raises ConfigError if there is no address at all, or one that cannot be used, or an impossible key.
        """
        if base_url is None or api_key is None:
            settings = MemoryConfig()
            base_url = settings.service_url if base_url is None else base_url
            if api_key is None and settings.service_api_key is not None:
                api_key = settings.service_api_key.get_secret_value()
        if base_url is None:
            raise ConfigError(
                f"there is no address of a service; pass base_url, e.g. {_EXAMPLE!r}, or set service_url "
                f"({ENV_PREFIX}SERVICE_URL)"
            )
        url, userinfo = _split(base_url)
        if api_key is None:
            return cls(url=url, authorization=_basic(userinfo) if userinfo else None)
        if not isinstance(api_key, str) or _TOKEN.fullmatch(api_key) is None:
            raise ConfigError(
                "api_key must be visible ASCII without blanks, such as `ma_…`; it is not shown here"
            )
        if userinfo:
            raise ConfigError(
                f"base_url holds a user name and api_key is set, but one request carries only one of both; "
                f"take the user name out of the address of {url}"
            )
        return cls(url=url, authorization=f"Bearer {api_key}")


def _split(base_url: object) -> tuple[str, bytes]:
    """The address without credentials and without a '/' at its end; the credentials. Raises ConfigError."""
    try:
        parsed = httpx.URL(base_url) if isinstance(base_url, str) else httpx.URL("")
    except (httpx.InvalidURL, UnicodeError):
        parsed = httpx.URL("")
    # What is refused is not repeated: it may hold a password.
    if parsed.scheme not in ("http", "https") or not parsed.host or parsed.query or parsed.fragment:
        raise ConfigError(
            f"base_url must be an address with http:// or https://, a host and no query, e.g. {_EXAMPLE!r}"
        )
    return str(parsed.copy_with(userinfo=b"")).rstrip("/"), parsed.userinfo


def _basic(userinfo: bytes) -> str:
    # RFC 7617: for a gateway in front of a service that asks for no key.
    name, _, password = userinfo.partition(b":")
    pair = unquote_to_bytes(name) + b":" + unquote_to_bytes(password)
    return f"Basic {base64.b64encode(pair).decode('ascii')}"
