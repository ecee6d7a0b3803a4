"""An error of the worker's, as it is kept with its turn and as it is logged. Pure."""

from __future__ import annotations

import traceback
from typing import Final

from memory_agent.errors import BackendError, MalformedReply, ModelRefused

MAX_ERROR_CHARS: Final = 1_000


def words_of(exc: Exception) -> str:
    """An error as it is kept with its turn, a model's reply included; it goes when the turn is forgotten."""
    reply = exc.reply if isinstance(exc, (MalformedReply, ModelRefused)) else ""
    told = f" (the reply: {reply!r:.2000})" if reply or isinstance(exc, MalformedReply) else ""
    return f"{type(exc).__name__}: {exc}"[:MAX_ERROR_CHARS] + told


def origin_of(exc: Exception) -> str:
    """An error for the log: its class, and where in the code it arose if it is none of ours. No message."""
    name = type(exc).__name__
    return (
        name
        if isinstance(exc, BackendError)
        else f"{name}\n" + "".join(traceback.format_tb(exc.__traceback__))
    )
