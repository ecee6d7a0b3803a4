"""Settings of the HTTP service and of its clients; `MemoryConfig` has them all.

Units and reasons stand in `config/memory.toml`, as every setting's do.
"""

from __future__ import annotations

import ipaddress
import re
from typing import Annotated, Any, Final

from pydantic import Field, SecretStr, field_validator
from pydantic_settings import BaseSettings, NoDecode, SettingsConfigDict

from memory_agent.lazily import lazily

Seconds = Annotated[float, Field(gt=0, le=86_400)]

_ORIGIN: Final = lazily(re.compile, r"\*|https?://[A-Za-z0-9.\[\]:_-]+")


class ServerSettings(BaseSettings):
    """The part of the settings that `memory_agent.server` and `memory_agent.client` read."""

    model_config = SettingsConfigDict(frozen=True, extra="forbid")

    server_host: Annotated[
        str, Field(pattern=r"^[^\s/@?#]+$", description="a host name or address alone, e.g. 127.0.0.1")
    ] = "127.0.0.1"
    server_port: Annotated[int, Field(ge=0, le=65_535)] = 8080
    server_max_body_bytes: Annotated[int, Field(ge=1_000, le=1_000_000_000)] = 8_000_000
    server_requests_per_minute: Annotated[int, Field(ge=0, le=10_000_000)] = 6_000
    server_shutdown_seconds: Seconds = 30.0
    server_cors_origins: Annotated[
        tuple[str, ...], NoDecode, Field(description="origins, such as ['https://app.example.org']")
    ] = ()
    server_metrics_open: bool = False
    server_trusted_proxies: Annotated[
        tuple[str, ...], NoDecode, Field(description="addresses or networks, such as ['10.0.0.0/8']")
    ] = ()
    service_url: str | None = None
    service_api_key: SecretStr | None = None

    @field_validator("server_cors_origins", "server_trusted_proxies", mode="before")
    @classmethod
    def _listed(cls, value: Any) -> Any:
        """In the environment they are separated by commas."""
        return [origin.strip() for origin in value.split(",")] if isinstance(value, str) else value

    @field_validator("server_cors_origins")
    @classmethod
    def _origins_alone(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        for origin in value:
            if not _ORIGIN.fullmatch(origin):
                raise ValueError(
                    f"{origin!r} is no origin; give scheme, host and port alone, e.g. https://app.example.org, or *"
                )
        return value

    @field_validator("server_trusted_proxies")
    @classmethod
    def _networks(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        for network in value:
            try:
                ipaddress.ip_network(network)
            except ValueError as exc:
                raise ValueError(
                    f"{network!r} is no address or network ({exc}); give one such as 10.0.0.7 or 10.0.0.0/8"
                ) from exc
        return value

    @field_validator("service_url")
    @classmethod
    def _web_address(cls, value: str | None) -> str | None:
        if value is not None and not re.match(r"https?://[^\s/?#]+[^\s?#]*$", value):
            raise ValueError(
                "must start with http:// or https:// and have no query, e.g. http://127.0.0.1:8080"
            )
        return value
