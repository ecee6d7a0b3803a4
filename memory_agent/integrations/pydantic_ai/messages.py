"""The words in messages of Pydantic AI."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pydantic_ai.messages import ModelRequest, TextContent, UserPromptPart

if TYPE_CHECKING:
    from pydantic_ai.messages import ModelMessage


def said_by_user(message: ModelMessage) -> str:
    """The user's words in a message; empty where there are none. Images and files leave no trace."""
    if not isinstance(message, ModelRequest):
        return ""
    contents = [part.content for part in message.parts if isinstance(part, UserPromptPart)]
    pieces = [piece for given in contents for piece in ([given] if isinstance(given, str) else given)]
    texts = [piece.content if isinstance(piece, TextContent) else piece for piece in pieces]
    return "\n".join(text for text in texts if isinstance(text, str)).strip()


def said_by_model(message: ModelMessage) -> str:
    """The model's words in a message; empty where there are none, as of thoughts and calls of tools."""
    return "" if isinstance(message, ModelRequest) else (message.text or "").strip()
