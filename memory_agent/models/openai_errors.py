"""Error replies of servers that speak OpenAI's API, as our errors: whose fault it is, in which words.

The server's, for now (not reachable, overloaded), or the operator's (a key that is not accepted, a model that the
server does not know): worth a wait. Or the request's own: too long, or not allowed. A refusal with 400 or the like, or
an answer that is none, may be either of the last two: `is_doubtful`, and told apart by asking for something harmless.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any, Final

from memory_agent.errors import LLMError, ModelRefused, Unavailable

if TYPE_CHECKING:
    from memory_agent.errors import BackendError

MAX_ANSWER_CHARS: Final = 400
"""Of a server's own words, which are kept with what waits and shown by `status`."""

_UNAVAILABLE_STATUS: Final = frozenset({401, 402, 403, 404, 405, 407, 408, 409, 410, 425, 429})
_CONTENT_CODES: Final = frozenset({"context_length_exceeded", "content_filter", "string_above_max_length"})
"""`code` of a refusal that is certainly about what was sent."""
_READ_CHARS: Final = 10_000
"""Of an answer that is looked at: whole pages come from servers that are no API."""
_ECHO_CHARS: Final = 20
"""As many characters in a row of what was sent, in an answer, are no coincidence."""
_SECRETS: Final = re.compile(
    r"Bearer\s+\S+|\b(?:sk|pk|rk|ma|gsk|hf|xai|nvapi)[-_][\w.*-]{3,}|\bAIza[\w-]{10,}"
    r"|\b(?=\w*\d)[a-z0-9]{32,}\b|(?<=://)[^/\s:@]+:[^/\s@]+(?=@)",
    re.IGNORECASE,
)
"""What looks like a key, whole or in part: a proxy that refuses one likes to show it."""
_PAGE: Final = re.compile(r"\s*(?:<!doctype html|<html)\b", re.IGNORECASE)
_UNSEEN: Final = re.compile(r"<(script|style)\b.{0,5000}?</\1>|<[^<>]{0,1000}>", re.IGNORECASE | re.DOTALL)


class NoAnswer(ValueError):
    """Something else than what the API answers with, sent as if it were that."""


def translate(
    exc: Exception, *, unavailable: type[BackendError], refused: type[BackendError], sent: str = ""
) -> BackendError:
    """`exc` of the openai package as one of ours. Credentials are an operator's to mend, so they are worth a wait.

    `sent`: what an error that outlives its request must not repeat.
    """
    import openai

    detail = _SECRETS.sub("***", f"{type(exc).__name__}: {exc}"[:_READ_CHARS])
    if isinstance(exc, openai.APIStatusError):
        if exc.status_code >= 500 or exc.status_code in _UNAVAILABLE_STATUS:
            error = unavailable(f"the model's server answered {answer_of(exc, sent)}")
            if isinstance(error, Unavailable):
                error.retry_after = retry_after(getattr(exc, "response", None))
            return error
        if exc.code == "content_filter" and refused is LLMError:  # as Azure says it
            return ModelRefused(f"the model's server let nothing pass: {answer_of(exc)}", reply="")
        return refused(f"the model's server refused the request: {answer_of(exc)}")
    if isinstance(exc, (openai.APIConnectionError, OSError)):
        return unavailable(f"the model's server cannot be reached: {detail}")
    if isinstance(exc, NoAnswer):
        return refused(_SECRETS.sub("***", str(exc)))
    of_the_reply = (openai.APIError, openai.LengthFinishReasonError, openai.ContentFilterFinishReasonError)
    if not isinstance(exc, (*of_the_reply, ValueError)):
        return unavailable(f"the model's server cannot be asked: {detail}")  # no key, or no way to get one
    return refused(f"the model's server gave no usable answer: {detail}")


def retry_after(response: Any) -> float | None:
    """The seconds that an answer asks to be left alone for; None if it doesn't say."""
    try:
        seconds = float(response.headers.get("retry-after"))
    except (AttributeError, TypeError, ValueError):  # no answer, no header, or a date
        return None
    return seconds if 0 < seconds < float("inf") else None


def is_doubtful(exc: Exception) -> bool:
    """True if `exc` may be about what was sent, or about how the server is set up: a refusal, or no answer at all."""
    import openai

    return isinstance(exc, ValueError) or (
        isinstance(exc, openai.APIStatusError)
        and 400 <= exc.status_code < 500
        and exc.status_code not in _UNAVAILABLE_STATUS
        and exc.code not in _CONTENT_CODES
    )


def answer_of(exc: Exception, sent: str = "") -> str:
    """The server's answer in its own words: status and message, bounded, without secrets nor what was `sent`."""
    words = _SECRETS.sub("***", _message_of(exc))
    words = words if len(words) <= MAX_ANSWER_CHARS else f"{words[:MAX_ANSWER_CHARS]}…"
    if _echoes(words, sent):
        words = "(an answer that repeats what it was sent)"
    status = getattr(exc, "status_code", None)
    return f"{status}: {words}" if status else words


def _message_of(exc: Exception) -> str:
    """The message of the error body, in any of the usual forms; else the body; else what the package says."""
    found: Any = getattr(exc, "body", None)
    while isinstance(found, dict):
        inner = next((found[key] for key in ("error", "message", "detail") if found.get(key)), None)
        found = json.dumps(found, ensure_ascii=False) if inner is None else inner
    words = found if isinstance(found, str) else "" if found is None else str(found)
    return said(words if words.strip() else str(exc))


def said(words: str) -> str:
    """`words` in one line, bounded; of a page for people what they would read, and what it being one suggests."""
    words = words[:_READ_CHARS]
    if _PAGE.match(words):
        text = " ".join(_UNSEEN.sub(" ", words).split())[:100]
        return f"a web page ({text}); is openai_base_url the address of an API? Often it ends in /v1"
    return " ".join(words.split())


def _echoes(words: str, sent: str) -> bool:
    """True if `words` repeat some of `sent`; then they must not outlive it."""
    said = " ".join(sent.split())
    return bool(said) and any(
        words[start : start + _ECHO_CHARS] in said for start in range(len(words) - _ECHO_CHARS + 1)
    )
