"""Messages as frameworks hand them over, read as plain (role, content), and frameworks' chat models, asked as an `LLM`.

Nothing is imported to know them by. Messages are dicts, pairs, LangChain's (by their `type`), OpenAI's and this package's
own (by their `role`); a model is LangChain's if it has `ainvoke`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from memory_agent.checks import MAX_CONTENT_CHARS, checked_text
from memory_agent.domain import ROLE_OF, Completion, Role, Usage, role_of
from memory_agent.errors import InvalidInput, LLMUnavailable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from memory_agent.domain import Message

_CALLS: Final = ("tool_calls", "function_call")
"""What an assistant's message may have in place of a content."""

UNSAID: Final = frozenset(
    {
        "tool_use",
        "tool_call",
        "tool_call_chunk",
        "invalid_tool_call",
        "function_call",
        "server_tool_use",
        "server_tool_call",
        "thinking",
        "redacted_thinking",
        "reasoning",
    }
)
"""Parts of a content that say nothing to anybody: calls of tools, and what a model thought before it spoke."""

_MEDIA: Final = ("image", "audio", "video")
_REMEDY: Final = (
    "pass a dict with role and content, a pair (role, content) or an object with these attributes"
)


@dataclass(frozen=True, kw_only=True, slots=True)
class PlainMessage:
    """One message. `position`: its index in what was passed, from 0; `blank`: it has no text."""

    position: int
    role: Role
    content: str

    @property
    def blank(self) -> bool:
        return not self.content.strip()

    @property
    def pair(self) -> tuple[str, str]:
        return self.role, self.content


def read_messages(messages: object) -> list[PlainMessage]:
    """Every message of `messages`, in order; those without text too, which are `blank`.

    Roles: user (human), assistant (ai, model), system (developer), tool (function). A content is text, None, or a
    list of parts, joined by line breaks: text as it is, a medium as "[image]", "[audio]" or "[video]", another
    attachment as "[attachment]"; calls of tools and a model's thoughts leave no trace.

    Raises InvalidInput naming the position of a message that cannot be read, with the remedy.
    """
    if isinstance(messages, str | bytes | Mapping) or not isinstance(messages, Iterable):
        raise InvalidInput(f"messages is a {type(messages).__name__}; pass a list of messages, oldest first")
    return [
        _read(message, position, f"messages[{position}]", _REMEDY)
        for position, message in enumerate(messages)
    ]


def read_prompt(new_prompt: object) -> PlainMessage:
    """The new prompt: text is the user's, anything else is read as one message. Raises InvalidInput if it is blank."""
    if isinstance(new_prompt, str):
        new_prompt = ("user", new_prompt)
    prompt = _read(new_prompt, 0, "new_prompt", f"pass text, or one message: {_REMEDY}")
    if prompt.blank:
        raise InvalidInput("new_prompt has no text; pass what is to be answered")
    return prompt


def _read(message: object, position: int, where: str, remedy: str) -> PlainMessage:
    if isinstance(message, tuple | list):
        if len(message) != 2:
            raise InvalidInput(f"{where} is a {type(message).__name__} of {len(message)} items; {remedy}")
        role, content = message
    elif isinstance(message, str | bytes) or not _has(message, "content", *_CALLS):
        raise InvalidInput(f"{where} is a {type(message).__name__} without a content; {remedy}")
    else:
        # LangChain's ChatMessage has both: `type` is then "chat", and `role` says whose it is.
        role = _get(message, "role")
        role = _get(message, "type") if role is None else role
        content = _get(message, "content")
    text = checked_text(
        f"{where}'s content", _text(content, where), max_chars=MAX_CONTENT_CHARS, allow_empty=True
    )
    return PlainMessage(position=position, role=_role(role, where), content=text)


def _role(given: object, where: str) -> Role:
    # LangChain calls a streamed piece "AIMessageChunk".
    name = given.strip().casefold().removesuffix("messagechunk") if isinstance(given, str) else ""
    role = role_of(name)
    if role is None:
        raise InvalidInput(f"{where} has the role {given!r:.80}; use one of: {', '.join(ROLE_OF)}")
    return role


def _text(content: object, where: str) -> str:
    if content is None:
        return ""
    if isinstance(content, str):
        return content
    if isinstance(_get(content, "type"), str):  # one part by itself, as mem0 has an image
        content = [content]
    if not isinstance(content, list | tuple):
        raise InvalidInput(
            f"{where} has a {type(content).__name__} as its content; pass text or a list of parts"
        )
    parts = (_part(part, f"{where}'s content[{i}]") for i, part in enumerate(content))
    return "\n".join(part for part in parts if part)


def _part(part: object, where: str) -> str:
    if isinstance(part, str):
        return part
    kind = _get(part, "type")
    if not isinstance(kind, str):
        raise InvalidInput(f'{where} has no type; pass text or a part such as {{"type": "text", "text": …}}')
    if kind in UNSAID:
        return ""
    if kind == "tool_result":
        return _text(_get(part, "content"), where)
    if isinstance(said := _get(part, "refusal" if kind == "refusal" else "text"), str):
        return said
    return next((f"[{medium}]" for medium in _MEDIA if medium in kind), "[attachment]")


def _get(given: object, name: str) -> object:
    return given.get(name) if isinstance(given, Mapping) else getattr(given, name, None)


def _has(given: object, *names: str) -> bool:
    return any(name in given if isinstance(given, Mapping) else hasattr(given, name) for name in names)


class InvokedModel:
    """A LangChain chat model (anything with `ainvoke`) as an `LLM`. The model stays its owner's."""

    def __init__(self, model: Any) -> None:
        self._model = model
        names = (getattr(model, name, None) for name in ("model_name", "model"))
        self.model = next((name for name in names if isinstance(name, str)), type(model).__name__)
        self.usage = Usage()

    async def complete(
        self,
        messages: Sequence[Message],
        *,
        schema: Mapping[str, object] | None = None,
        max_tokens: int | None = None,
    ) -> Completion:
        """See `LLM.complete`. `schema` and `max_tokens` are not passed on, for each model names such options its own way.

        Raises LLMUnavailable for whatever the model raises.
        """
        try:
            reply = await self._model.ainvoke([(message.role, message.content) for message in messages])
            text = reply if isinstance(reply, str) else _text(_get(reply, "content"), "the model's reply")
        except Exception as exc:  # of a library that we don't know
            # Its message may quote what was said, and this one is logged.
            raise LLMUnavailable(
                f"{self.model} failed with {type(exc).__name__}; what it says is this error's cause"
            ) from exc
        told, ended = (_get(reply, name) for name in ("usage_metadata", "response_metadata"))
        asked, answered = (_get(told, name) for name in ("input_tokens", "output_tokens"))
        used = Usage(
            requests=1,
            prompt_tokens=asked if isinstance(asked, int) else 0,
            completion_tokens=answered if isinstance(answered, int) else 0,
        )
        self.usage += used
        reasons = {_get(ended, "finish_reason"), _get(ended, "stop_reason"), _get(ended, "done_reason")}
        return Completion(
            text=text,
            prompt_tokens=used.prompt_tokens,
            completion_tokens=used.completion_tokens,
            truncated=bool(reasons & {"length", "max_tokens"}),
        )

    async def close(self) -> None:
        """Nothing: the model is its owner's."""
