"""Plots of `memory-agent topics --plot`: how each topic's priority will fall if nobody talks about it, in blocks of text."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from memory_agent.cli.output import note, out, say

if TYPE_CHECKING:
    from collections.abc import Sequence

    from memory_agent.topics.stats import TopicStats

_BLOCKS: Final = " ▁▂▃▄▅▆▇█"
_HEIGHT: Final = 3
_WIDTH: Final = 72
_HALVES: Final = 3
"""So many half-lives of the topic that lasts longest are shown: an eighth is left of it then."""


def print_curves(topics: Sequence[TopicStats]) -> None:
    """Print a curve for each topic, all on the same two axes: days from now, and priority from 0 to 1."""
    days = _HALVES * max(topic.half_life_days for topic in topics)
    width = min(max(out.width - 6, 20), _WIDTH) if out.is_terminal else _WIDTH
    for topic in topics:
        state = " (archived)" if topic.archived else ""
        say(
            (topic.topic_title, "bold"),
            state,
            (f"  {topic.priority:.3f} now, half of it in {topic.half_life_days:.3g} days", "dim"),
        )
        for row, blocks in enumerate(blocks_of(priorities(topic, days, width), _HEIGHT)):
            label = "1.0 " if row == 0 else "0.0 " if row == _HEIGHT - 1 else "    "
            say((label, "dim"), ("│", "dim"), blocks)
    end = f"in {days:.3g} days"
    say((f"    └{'─' * width}\n     now{end:>{width - 3}}", "dim"))
    note(
        "As long as nobody talks about a topic; each access begins its curve anew, and lets it fall more slowly."
    )


def priorities(topic: TopicStats, days: float, points: int) -> list[float]:
    """The topic's priority at so many times between now and so many days from now, without an access."""
    return [topic.priority_in(days * at / max(points - 1, 1)) for at in range(points)]


def blocks_of(values: Sequence[float], height: int) -> list[str]:
    """Lines of blocks, the top first, as high as the values from 0 to 1.

    >>> blocks_of([1.0, 0.5, 0.25, 0.0], 2)
    ['█   ', '██▄ ']
    """
    eighths = [round(min(max(value, 0.0), 1.0) * 8 * height) for value in values]
    return [
        "".join(_BLOCKS[min(max(whole - 8 * below, 0), 8)] for whole in eighths)
        for below in reversed(range(height))
    ]
