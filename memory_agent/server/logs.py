"""Logs that hold no memories: one record per line, without the texts of exceptions, which quote what they refuse."""

from __future__ import annotations

import contextlib
import json
import logging
import sys
import traceback
from contextvars import ContextVar
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

import orjson

from memory_agent.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Mapping

request_id: ContextVar[str | None] = ContextVar("memory_agent_request_id", default=None)
"""The id of the request being answered; None outside of requests."""
_CHAINED: Final = 5
"""Causes of an exception that are told of, at most."""
_CONTROLS: Final = {code: f"\\x{code:02x}" for code in (*range(32), *range(127, 160))} | {
    0x2028: "\\u2028",
    0x2029: "\\u2029",
}


def safe_words(exc: BaseException) -> str:
    """An exception as it may be logged: its class, and its text only where we know that it quotes nobody.

    >>> safe_words(ValueError("what the user said"))
    'ValueError'
    """
    if isinstance(exc, ConfigError):
        return f"{type(exc).__name__}: {exc}"
    if isinstance(exc, OSError) and exc.strerror:
        return f"{type(exc).__name__}: {exc.strerror}"
    return type(exc).__name__


def origin(exc: BaseException) -> str:
    """An exception's origin in the code, and its causes: classes and frames, no messages."""
    parts: list[str] = []
    told: BaseException | None = exc
    while told is not None and len(parts) < _CHAINED:
        frames = "".join(traceback.format_tb(told.__traceback__))
        parts.append(f"{safe_words(told)}\n{frames}")
        told = told.__cause__ or (None if told.__suppress_context__ else told.__context__)
    return "caused by ".join(parts)


class NoExceptionTexts(logging.Filter):
    """Puts `safe_words` in the place of every exception that a record would have printed."""

    def filter(self, record: logging.LogRecord) -> bool:
        record.msg = _safe(record.msg)
        if isinstance(record.args, tuple):
            record.args = tuple(map(_safe, record.args))
        elif isinstance(record.args, dict):
            record.args = {name: _safe(value) for name, value in record.args.items()}
        return True


def _safe(value: Any) -> Any:
    return safe_words(value) if isinstance(value, BaseException) else value


_AS_CLASSES: Final = orjson.OPT_PASSTHROUGH_DATACLASS | orjson.OPT_PASSTHROUGH_DATETIME
"""Of a value that JSON does not have a line names the class alone: it may hold what somebody said."""


def _class(value: object) -> str:
    return type(value).__name__


_ENCODER: Final = json.JSONEncoder(ensure_ascii=True, separators=(",", ":"), default=_class)
"""For lines that are not plain ASCII, or hold what orjson does not write; it takes thirty times as long."""


class JsonFormatter(logging.Formatter):
    """One JSON object per line, in ASCII: time (UTC), level, logger, event, request_id, then the record's `fields`."""

    def format(self, record: logging.LogRecord) -> str:
        line = _told(record)
        if record.exc_info and (exc := record.exc_info[1]) is not None:
            line |= {"error": type(exc).__name__, "origin": origin(exc)}
        with contextlib.suppress(orjson.JSONEncodeError):
            written = orjson.dumps(line, default=_class, option=_AS_CLASSES)
            if written.isascii() and b"\x7f" not in written:
                return written.decode("ascii")
        return _ENCODER.encode(line)


class TextFormatter(logging.Formatter):
    """The same for people: one line, then the frames of an exception."""

    def format(self, record: logging.LogRecord) -> str:
        told = _told(record)
        words = [told.pop(name) for name in ("time", "level", "logger", "event")]
        words += [f"{name}={value}" for name, value in told.items() if value is not None]
        line = " ".join(words).translate(_CONTROLS)
        exc = record.exc_info[1] if record.exc_info else None
        return line if exc is None else f"{line}\n{origin(exc)}"


def _told(record: logging.LogRecord) -> dict[str, Any]:
    at = datetime.fromtimestamp(record.created, tz=UTC).isoformat(timespec="milliseconds")
    line: dict[str, Any] = {
        "time": at.replace("+00:00", "Z"),
        "level": record.levelname.lower(),
        "logger": record.name,
        "event": record.getMessage(),
    }
    if (id_ := request_id.get()) is not None:
        line["request_id"] = id_
    fields: Mapping[str, Any] = getattr(record, "fields", {})
    return line | {name: value for name, value in fields.items() if name not in line}


class _Handler(logging.StreamHandler[Any]):
    """Ours, so that configuring twice replaces it."""


def configure_logs(level: str = "info", *, json: bool = True) -> None:
    """Log to standard error: ours from `level` on, all else from warnings on (drivers log contents at DEBUG).

    `level`: debug, info, warning or error. Raises ConfigError for another one.
    """
    number = logging.getLevelNamesMapping().get(level.upper())
    if number is None:
        raise ConfigError(f"no log level {level!r}; one of: debug, info, warning, error")
    handler = _Handler(sys.stderr)
    handler.setFormatter(JsonFormatter() if json else TextFormatter())
    handler.addFilter(NoExceptionTexts())
    root = logging.getLogger()
    for old in [old for old in root.handlers if isinstance(old, _Handler)]:
        root.removeHandler(old)
    root.addHandler(handler)
    root.setLevel(max(number, logging.WARNING))
    logging.getLogger("memory_agent").setLevel(number)
    # uvicorn tells of what it does at a level of its own.
    for name in ("uvicorn", "uvicorn.error", "uvicorn.asgi"):
        logging.getLogger(name).handlers.clear()
        logging.getLogger(name).propagate = True
        logging.getLogger(name).setLevel(max(number, logging.WARNING))
