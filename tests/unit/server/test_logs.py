"""Logs: one line per record, and nothing of what users said, whatever is logged."""

import io
import json
import logging
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory_agent.domain import ContextLine
from memory_agent.errors import ConfigError, InvalidInput, NotFound
from memory_agent.server.logs import (
    JsonFormatter,
    NoExceptionTexts,
    TextFormatter,
    request_id,
    safe_words,
)

SAID = "my sister lives in Porto"


@pytest.fixture
def log() -> Iterator[tuple[logging.Logger, io.StringIO, logging.Handler]]:
    """A logger of its own, what it wrote, and its handler."""
    stream = io.StringIO()
    handler = logging.StreamHandler(stream)
    handler.setFormatter(JsonFormatter())
    handler.addFilter(NoExceptionTexts())
    logger = logging.getLogger("memory_agent.tests.logs")
    logger.handlers, logger.propagate = [handler], False
    logger.setLevel(logging.DEBUG)
    yield logger, stream, handler
    logger.handlers, logger.propagate = [], True


Log = tuple[logging.Logger, io.StringIO, logging.Handler]


def failing() -> None:
    try:
        raise InvalidInput(f"content is empty ({SAID!r})")
    except InvalidInput as exc:
        raise ValueError(SAID) from exc


def test_record_has_time_level_logger_event_and_its_fields(log: Log) -> None:
    logger, stream, _ = log
    token = request_id.set("abc")
    try:
        told = {"status": 200, "level": "x", "line": ContextLine(body=SAID)}
        logger.warning("held up: %s", "llm", extra={"fields": told})
    finally:
        request_id.reset(token)
    line = json.loads(stream.getvalue())
    assert line.pop("time").endswith("Z")
    assert line == {
        "level": "warning",
        "logger": "memory_agent.tests.logs",
        "event": "held up: llm",
        "request_id": "abc",
        "status": 200,
        "line": "ContextLine",
    }


@pytest.mark.parametrize("formatter", [JsonFormatter(), TextFormatter()])
def test_no_exceptions_text_is_logged_but_its_class_and_where_it_arose(
    log: Log, formatter: logging.Formatter
) -> None:
    logger, stream, handler = log
    handler.setFormatter(formatter)
    try:
        failing()
    except ValueError as exc:
        logger.exception("failed")
        logger.error("failed: %s", exc)
        logger.error("failed: %(why)s", {"why": exc})
        logger.error(exc)
    assert SAID not in stream.getvalue().replace("{SAID!r}", "")
    assert stream.getvalue().count("ValueError") >= 4
    assert "InvalidInput" in stream.getvalue()
    assert "in failing" in stream.getvalue()


@pytest.mark.parametrize(
    ("exc", "words"),
    [
        (NotFound(SAID), "NotFound"),
        (KeyError(SAID), "KeyError"),
        (ConfigError("server_port is taken"), "ConfigError: server_port is taken"),
        (OSError(98, "Address already in use", SAID), "OSError: Address already in use"),
        (TimeoutError(SAID), "TimeoutError"),
    ],
)
def test_an_exceptions_text_is_kept_only_where_it_quotes_nobody(exc: BaseException, words: str) -> None:
    assert safe_words(exc) == words


@given(text=st.text(), name=st.text(min_size=1))
def test_any_text_stays_on_one_line_of_ascii_json(text: str, name: str) -> None:
    record = logging.LogRecord("x", logging.INFO, "", 0, "%s", (text,), None)
    record.fields = {name: text}
    line = JsonFormatter().format(record)
    assert line.isascii()
    assert "\n" not in line
    assert json.loads(line)["event"] == text
