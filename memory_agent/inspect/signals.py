"""Charts of the signals in a recollection's score. They stand in each of a hundred rows, where a template's took half of its page's time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from memory_agent.inspect.texts import seen, translated

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from markupsafe import Markup

_SEEN: Final = 5.0
"""Hundredths of the widest bar, from which on a part is named beside the chart."""
_COLOURS: Final = 5


@dataclass(frozen=True, kw_only=True, slots=True)
class Signal:
    """A part of a recollection's score: where its bar begins and how long it is, both in hundredths of the widest."""

    name: str
    share: float
    start: float
    width: float


def signals_of(why: Mapping[str, float]) -> list[Signal]:
    """The parts of a score as bars of one line, the most first; those that took from it come last, with a negative share."""
    whole = sum(abs(part) for part in why.values()) or 1.0
    start, bars = 0.0, list[Signal]()
    for name, part in sorted(why.items(), key=lambda item: -item[1]):
        width = 100 * abs(part) / whole
        bars.append(Signal(name=name, share=part, start=start, width=width))
        start += width
    return bars


def chart(language: str, bars: Sequence[Signal], explanation: str = "") -> Markup:
    """The bars, the larger ones by name, and below them the score in words."""
    from markupsafe import Markup

    drawn = "".join(
        f'<rect class="{_colour(bar, place)}" x="{bar.start:.2f}" y="0" width="{max(bar.width - 0.4, 0.1):.2f}" height="8">'
        f"<title>{_name(language, bar)}: {bar.share:.2f}</title></rect>"
        for place, bar in enumerate(bars)
    )
    named = "".join(
        f'<li><i class="{_colour(bar, place)}"></i>{_name(language, bar)} {bar.share:+.2f}</li>'
        for place, bar in enumerate(bar for bar in bars if bar.width >= _SEEN)
    )
    said = f'<p class="hint" lang="en">{seen(explanation)}</p>' if explanation else ""
    return Markup(  # noqa: S704 - numbers, names that are ours, and what is escaped
        '<svg class="signals" viewBox="0 0 100 8" preserveAspectRatio="none" aria-hidden="true">\n'
        f'{drawn}\n</svg>\n<ul class="signal-list">\n{named}\n</ul>\n{said}'
    )


def _name(language: str, bar: Signal) -> str:
    return translated(language, f"signal {bar.name}")


def _colour(bar: Signal, place: int) -> str:
    return "minus" if bar.share < 0 else f"s{place % _COLOURS}"
