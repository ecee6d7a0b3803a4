"""Logins of people who look at the pages: held in this process, and known to a browser by a random name alone."""

from __future__ import annotations

import hashlib
import re
import secrets
import time
from collections import OrderedDict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable

IDLE_SECONDS: Final = 3_600.0
LONGEST_SECONDS: Final = 43_200.0
"""Half a day, however busy; then the key is asked for again."""
TICKET_SECONDS: Final = 120.0
"""From when a command opens the browser to when that has asked for the page."""
_MOST_OF_A_KEY: Final = 20
"""Logins, and tickets; one more ends the one of the same key that was used least recently."""


@dataclass(slots=True)
class Login:
    """Somebody signed in with the key `key_id`, "" where no keys are asked for. `csrf`: what each of the pages' forms carries."""

    key_id: str
    began: float
    used: float
    csrf: str = field(default_factory=lambda: secrets.token_urlsafe(24))
    language: str | None = None
    """Chosen on a page; None: as the browser asks."""
    streams: int = 0
    """Of live pages that are open."""
    exports: int = 0
    """Under way."""


class Logins:
    """The logins of one process, the least recently used first. Only hashes of their names are kept."""

    def __init__(self, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._monotonic = monotonic
        self._logins: OrderedDict[str, Login] = OrderedDict()
        self._tickets: OrderedDict[str, tuple[float, str]] = OrderedDict()

    def begin(self, key_id: str) -> str:
        """A new login's name, for the cookie."""
        name, now = secrets.token_urlsafe(32), self._monotonic()
        while self._logins and now - next(iter(self._logins.values())).used > IDLE_SECONDS:
            self._logins.popitem(last=False)
        own = [hashed for hashed, login in self._logins.items() if login.key_id == key_id]
        for hashed in own[: 1 - _MOST_OF_A_KEY]:
            del self._logins[hashed]
        self._logins[_hash(name)] = Login(key_id=key_id, began=now, used=now)
        return name

    def find(self, name: str) -> Login | None:
        """The login of that name, which is used by this; None if there is none, or it has ended."""
        hashed = _hash(name)
        login = self._logins.get(hashed)
        if login is None:
            return None
        if self._is_over(login):
            del self._logins[hashed]
            return None
        login.used = self._monotonic()
        self._logins.move_to_end(hashed)
        return login

    def lasts(self, login: Login) -> bool:
        """True if the login has not ended; it is not used by this."""
        return not self._is_over(login) and any(one is login for one in self._logins.values())

    def _is_over(self, login: Login) -> bool:
        now = self._monotonic()
        return now - login.used > IDLE_SECONDS or now - login.began > LONGEST_SECONDS

    def end(self, name: str) -> None:
        """End the login, if there is one."""
        self._logins.pop(_hash(name), None)

    def ticket(self, key_id: str) -> str:
        """A word that begins one login of this key, once and soon: a browser is sent it in an address."""
        word, now = secrets.token_urlsafe(32), self._monotonic()
        while self._tickets and next(iter(self._tickets.values()))[0] <= now:
            self._tickets.popitem(last=False)
        own = [hashed for hashed, (_, of) in self._tickets.items() if of == key_id]
        for hashed in own[: 1 - _MOST_OF_A_KEY]:
            del self._tickets[hashed]
        self._tickets[_hash(word)] = now + TICKET_SECONDS, key_id
        return word

    def redeem(self, word: str) -> str | None:
        """The key that the ticket is of; None for one that was used, is too old, or is none."""
        until, key_id = self._tickets.pop(_hash(word), (0.0, ""))
        return key_id if until > self._monotonic() else None


def cookie_name(host: str) -> str:
    """The cookie's name for a Host header, with its port: browsers send a host's cookies to all of its ports.

    >>> cookie_name("localhost:8080"), cookie_name("memory.example")
    ('ma_inspect_8080', 'ma_inspect')
    """
    port = re.search(r":(\d{1,5})$", host, re.ASCII)
    return f"ma_inspect_{port[1]}" if port else "ma_inspect"


def _hash(name: str) -> str:
    return hashlib.sha256(name.encode("utf-8", "replace")).hexdigest()
