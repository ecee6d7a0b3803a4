"""The report of a thread as one HTML file, to send to somebody: no script in it, and nothing that it loads."""

from __future__ import annotations

import contextlib
import json
from html import escape
from typing import TYPE_CHECKING, Any, Final

from memory_agent.cli.output import when
from memory_agent.exports.files import new_file
from memory_agent.inspect.texts import parts_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from pathlib import Path

    from memory_agent.cli.options import ThreadOptions
    from memory_agent.domain import Session, Turn
    from memory_agent.topics.stats import TopicStats

_STYLE: Final = """
:root { color-scheme: light dark; --ink: #1c1b19; --soft: #57534e; --paper: #fbfaf8; --line: #d9d5ce; --odd: #7a4a00; --user: #14508c; }
@media (prefers-color-scheme: dark) { :root { --ink: #ece9e3; --soft: #b0aaa0; --paper: #161513; --line: #3d3a35; --odd: #f0c37a; --user: #8dbdf2; } }
body { margin: 0 auto; max-width: 860px; padding: 20px; background: var(--paper); color: var(--ink); font: 16px/1.5 system-ui, "Noto Sans KR", sans-serif; overflow-wrap: anywhere; }
h1 { font-size: 24px; } h2 { font-size: 19px; margin-top: 32px; border-bottom: 1px solid var(--line); }
.hint, .head { color: var(--soft); font-size: 14px; } .turn { margin: 14px 0; padding-left: 12px; border-left: 3px solid var(--line); }
.head b { color: var(--ink); } .user .head b { color: var(--user); } .head, .said { margin: 0; } .said { white-space: pre-wrap; }
.odd { color: var(--odd); border: 1px dashed; border-radius: 3px; font: 12px monospace; padding: 0 3px; unicode-bidi: isolate; direction: ltr; }
dt { font-weight: 600; } dd { margin: 0 0 8px 16px; } @media print { body { max-width: none; } }
"""
_HEAD: Final = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title>
<style>{style}</style>
</head>
<body>
<h1><bdi>{name}</bdi></h1>
"""


def seen(text: str) -> str:
    """Text as HTML that shows it, with what can't be seen in it made visible.

    >>> seen("<b>\\u202e")
    '&lt;b&gt;<span class="odd" title="RIGHT-TO-LEFT OVERRIDE">U+202E</span>'
    """
    shown = (
        f'<span class="odd" title="{escape(name)}">{part}</span>' if name else escape(part)
        for part, name in parts_of(text)
    )
    return "".join(shown)


@contextlib.contextmanager
def new_report(
    file: Path,
    where: ThreadOptions,
    *,
    sessions: Sequence[Session],
    topics: Sequence[TopicStats],
    facts: Mapping[str, Any],
) -> Iterator[Callable[[Sequence[Turn]], None]]:
    """A function that writes turns into a report, which is there once the block ends. Raises ConfigError where it is there already, or cannot be written."""
    numbers = {session.id: session.number for session in sessions}
    session_id: str | None = None
    count, first, last = 0, "", ""

    def write(turns: Sequence[Turn]) -> None:
        nonlocal session_id, count, first, last
        for turn in turns:
            if turn.session_id != session_id and turn.session_id in numbers:
                session_id = turn.session_id
                written.write(_session(numbers[session_id], turn).encode())
            written.write(_turn(turn).encode())
            count, first, last = count + 1, first or when(turn.timestamp), when(turn.timestamp)

    with new_file(file) as written:
        for piece in _head(where, topics, facts):
            written.write(piece.encode())
        yield write
        told = f"{count:,} turn{'' if count == 1 else 's'}, {first} to {last} UTC"
        written.write(f'<p class="hint">{told}. Written by memory_agent.</p>\n</body>\n</html>\n'.encode())


def _head(where: ThreadOptions, topics: Sequence[TopicStats], facts: Mapping[str, Any]) -> Iterator[str]:
    name = f"{where.user} / {where.thread}"
    yield _HEAD.format(title=escape(name), name=seen(name), style=_STYLE)
    if facts:
        yield f"<h2>Known from this thread</h2>\n{_listed(facts)}\n"
    if topics:
        yield "<h2>Topics</h2>\n<ul>\n"
        for topic in topics:
            count = topic.total_messages
            yield f'<li><bdi>{seen(topic.topic_title)}</bdi> <span class="hint">{count:,} turn{"" if count == 1 else "s"}</span></li>\n'
        yield "</ul>\n"
    yield "<h2>What was said</h2>\n"


def _session(number: int, turn: Turn) -> str:
    return f'<h3>Session {number} <span class="hint">{when(turn.timestamp)}</span></h3>\n'


def _turn(turn: Turn) -> str:
    return (
        f'<article class="turn {turn.role}"><p class="head"><b><bdi>{seen(turn.speaker or turn.role)}</bdi></b>'
        f" {when(turn.timestamp)} · turn {turn.seq}</p>"
        f'<p class="said" dir="auto">{seen(turn.content)}</p></article>\n'
    )


def _listed(facts: Mapping[str, Any]) -> str:
    """Facts as a list of terms; those below one as a list within it."""
    items = (
        f"<dt><bdi>{seen(name)}</bdi></dt><dd dir='auto'>{_listed(value) if isinstance(value, dict) else seen(_text(value))}</dd>"
        for name, value in facts.items()
    )
    return f"<dl>{''.join(items)}</dl>"


def _text(value: object) -> str:
    if isinstance(value, list):
        return ", ".join(map(_text, value))
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
