"""Docstrings of a client's methods: those of what it stands for, said once."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

Client = TypeVar("Client")


def documented_as(original: type) -> Callable[[type[Client]], type[Client]]:
    """A decorator that gives each public method the docstring of the `original`'s of the same name.

    A docstring of its own says what is different over HTTP, and follows as the last paragraph.
    """

    def document(client: type[Client]) -> type[Client]:
        for name, method in vars(client).items():
            said = inspect.getdoc(getattr(original, name, None))
            if not name.startswith("_") and inspect.isfunction(method) and said is not None:
                own = inspect.getdoc(method)
                method.__doc__ = said if own is None else f"{said}\n\n{own}"
        return client

    return document
