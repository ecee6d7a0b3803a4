"""Sources of requests: whose address counts, behind proxies that are trusted and without any."""

from __future__ import annotations

import functools
import ipaddress
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Sequence

    from starlette.types import Scope

    Network = ipaddress.IPv4Network | ipaddress.IPv6Network

_SITE_BITS: Final = 64
"""Of an IPv6 address: what a provider gives to one customer, who may send from any address in it."""


def source_of(scope: Scope, trusted: Sequence[Network]) -> str:
    """Whoever sent the request, as far as can be known: the address that connected, or the one a trusted proxy names.

    Of several in `X-Forwarded-For` the last that is no trusted proxy: those before it are the sender's own word. An IPv6
    address stands for its /64. Empty without an address, as on a Unix socket.
    """
    client = scope.get("client")
    if not trusted:
        return _told(client[0]) if client else ""
    source = _address(client[0]) if client else None
    forwarded = b",".join(value for name, value in scope["headers"] if name == b"x-forwarded-for")
    named = [_address(part) for part in forwarded.decode("latin-1").split(",")] if forwarded else []
    while source is not None and named and any(source in network for network in trusted):
        source = named.pop() or source
    return _named(source)


@functools.lru_cache(maxsize=1_024)
def _told(peer: str) -> str:
    """The source of a connection, whose requests are many."""
    return _named(_address(peer))


def _named(source: ipaddress.IPv4Address | ipaddress.IPv6Address | None) -> str:
    if isinstance(source, ipaddress.IPv6Address):
        return str(ipaddress.ip_network((source, _SITE_BITS), strict=False))
    return "" if source is None else str(source)


def _address(text: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        found = ipaddress.ip_address(text.strip().strip("[]"))
    except ValueError:
        return None
    return (found.ipv4_mapped or found) if isinstance(found, ipaddress.IPv6Address) else found
