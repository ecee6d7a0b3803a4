"""Telling that a model will not answer, where it says so in prose. Pure.

"I'm sorry, I can't help with that." is an answer: asking again and again brings no other.
"""

from __future__ import annotations

from typing import Final

import regex

from memory_agent.lazily import lazily

MAX_PROSE_CHARS: Final = 600
"""Of a reply without any JSON; what is longer is an answer that went wrong, and worth another try."""
_MAX_REFUSAL_CHARS: Final = 400
_MAX_THOUGHT_CHARS: Final = 100_000
_THOUGHT: Final = lazily(regex.compile, r"</(?:think|thinking|thought|reasoning)\s*+>", regex.IGNORECASE)
_JSON_OR_THINKING: Final = lazily(
    regex.compile, r"""[{}]|\[\s*+["'\[\]]|<(?:think|thinking|thought|reasoning)\b""", regex.IGNORECASE
)
_REFUSAL: Final = lazily(
    regex.compile,
    r"^\W*(?:"
    r"(?:(?:i'?m|i am) (?:so |very |really |truly )?sorry|sorry|(?:my )?apologies|i apologi[sz]e|unfortunately)\b.{0,60}?"
    r"\b(?:can'?t|cannot|can not|won'?t|unable|not able|not comfortable)\b"
    r"|i (?:can'?t|cannot|can not|won'?t|will not|must decline|have to decline|am unable|am not able)\b"
    r"|i'?m (?:unable|not able|not comfortable|afraid (?:that )?i)\b"
    r"|as an? (?:ai|artificial intelligence|(?:large )?language model|assistant)\b"
    r"|(?:es )?tut mir (?:sehr )?leid|ich kann (?:das|dir|ihnen|diese[nrs]?|hierbei|dabei)\b.{0,80}\bnicht\b"
    r"|je suis (?:vraiment )?désolée?|désolée?\b|je ne (?:peux|suis)\b|lo siento|no puedo\b"
    r"|sinto muito|desculpe|não posso\b|mi dispiace|non posso\b|helaas|het spijt me"
    r"|죄송|미안하지만|抱歉|对不起|對不起|很遗憾|我(?:无法|不能)|申し訳|すみません|ごめんなさい|お手伝いできません"
    r"|извините|простите|к сожалению"
    r")",
    regex.IGNORECASE | regex.DOTALL,
)


def prose_in(reply: str) -> str:
    """The few sentences that a reply, which should be JSON, is outside of thinking; empty if it is anything else.

    >>> prose_in("<think>Hm.</think> I'm sorry, I can't help with that [1]."), prose_in('{"additions": [')
    ("I'm sorry, I can't help with that [1].", '')
    """
    if len(reply) > _MAX_THOUGHT_CHARS:
        return ""
    text = _THOUGHT.split(reply)[-1].strip()
    return text if len(text) <= MAX_PROSE_CHARS and not _JSON_OR_THINKING.search(text) else ""


def is_refusal(text: str) -> bool:
    """True if a reply that should be prose says that the model will not: by its words, for nothing else tells it.

    A summary speaks of a conversation; what speaks for itself, briefly and in the first person, is none.

    >>> is_refusal("I'm sorry, I can't help with that."), is_refusal("Ann is sorry that she can't come.")
    (True, False)
    """
    said = text.strip().replace("\N{RIGHT SINGLE QUOTATION MARK}", "'")
    return len(said) <= _MAX_REFUSAL_CHARS and bool(_REFUSAL.match(said))
