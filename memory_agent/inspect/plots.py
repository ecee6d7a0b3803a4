"""Plots as numbers for SVG: curves of topics that fade, a map of topics, and how work stood over time. Pure.

They are made here and not by a library in the browser, so that they are there without JavaScript, under a policy that allows no inline
style, in the page's own colours, and at no weight.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from itertools import product
from math import ceil, log2
from textwrap import shorten
from typing import TYPE_CHECKING, Final
from unicodedata import east_asian_width

import numpy as np

from memory_agent.inspect.texts import seen, translated
from memory_agent.topics.index import newest, unmerged
from memory_agent.topics.sweep import FADE_BELOW

if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import Callable, Mapping, Sequence
    from datetime import date, datetime

    from markupsafe import Markup
    from numpy.typing import NDArray

    from memory_agent.domain import Topic
    from memory_agent.inspect.work import Point
    from memory_agent.topics.stats import TopicStats

WIDTH: Final = 720
HEIGHT: Final = 300
_LEFT: Final = 56
_TOP: Final = 18
_BOTTOM: Final = 30
_CURVES: Final = 8
_DAY: Final = 86_400.0
_POINTS: Final = 80
_MOST_DAYS: Final = 1_095
"""Before now, and after."""
_TICK: Final = 130
"""How far apart the days are written at least."""
_NAMED: Final = 15
"""Of the topics on the map, the largest."""
_EDGE: Final = 24
_NAME_LETTERS: Final = 28
_LETTER: Final = 11.0
"""Width of a letter and half the height of a line, of the largest letters that a name is written in."""
_ROUNDS: Final = 30
LINE: Final = (600, 80)
"""Width and height of the box of a line over time, and of bars."""
_BARS: Final = 30


@dataclass(frozen=True, kw_only=True, slots=True)
class Plot:
    """Curves of at most eight topics, as paths; ticks as (place, text); `now` and `fade` are where those lines are."""

    curves: tuple[tuple[TopicStats, str], ...]
    days: tuple[tuple[float, int], ...]
    priorities: tuple[tuple[float, str], ...]
    now: float
    fade: float


def decay_plot(topics: Sequence[TopicStats]) -> Plot | None:
    """The priorities of the first of these topics over time, as they were and will be if nobody comes back to them.

    None without topics. Before now a curve begins with the topic's last access. The plot is as long, and as high, as the
    curves of those that have not faded need.
    """
    shown = topics[:_CURVES]
    if not shown:
        return None
    standing = [topic for topic in shown if _days_left(topic) > 0] or [shown[0]]
    ahead = min(ceil(1.1 * max(1.0, *map(_days_left, standing))), _MOST_DAYS)
    left_alone = max(topic.inactive_seconds for topic in standing) / _DAY
    start = -min(ceil(max(ahead / 3, 1.05 * left_alone)), _MOST_DAYS)
    highest = max(2 * FADE_BELOW, *(topic.priority_in(start) for topic in shown))

    def x(day: float) -> float:
        return _LEFT + (WIDTH - _LEFT - 8) * (day - start) / (ahead - start)

    def y(priority: float) -> float:
        return _TOP + (HEIGHT - _BOTTOM - _TOP) * (1 - priority / highest)

    def curve(topic: TopicStats) -> str:
        began = max(start, -topic.inactive_seconds / _DAY)
        # More of them at its beginning, where it falls most.
        days = [began + (ahead - began) * (number / _POINTS) ** 2 for number in range(_POINTS + 1)]
        points = (f"{x(day):.1f},{y(topic.priority_in(day)):.1f}" for day in days)
        return "M" + "L".join(points)

    return Plot(
        curves=tuple((topic, curve(topic)) for topic in shown),
        days=tuple(_ticks([0, ahead, start, start // 2, ahead // 2], x)),
        priorities=tuple((y(part * highest), f"{part * highest:.2f}") for part in (0.0, 0.5, 1.0)),
        now=x(0),
        fade=y(FADE_BELOW),
    )


def _ticks(days: Sequence[int], x: Callable[[float], float]) -> list[tuple[float, int]]:
    """Those days, the first ones first, that are not written over one another."""
    ticks = list[tuple[float, int]]()
    for day in days:
        if all(abs(x(day) - place) >= _TICK for place, _ in ticks):
            ticks.append((x(day), day))
    return sorted(ticks)


def _days_left(topic: TopicStats) -> float:
    """Days until the topic's priority is below that of what may go; negative once it is."""
    doublings = log2(max(topic.importance_score, 1e-9) / FADE_BELOW)
    return topic.half_life_days * doublings - topic.inactive_seconds / _DAY


# --- the map -------------------------------------------------------------------------------------------------
@dataclass(frozen=True, kw_only=True, slots=True)
class Dot:
    """One of the largest topics on the map. `number` is that of the list beside it."""

    topic: Topic
    x: float
    y: float
    radius: float
    number: int
    current: bool


@dataclass(frozen=True, kw_only=True, slots=True)
class TopicMap:
    """Topics by the two directions in which their meaning differs most: the largest as dots, the others as points of a path.

    `told`: the share of all differences that these two tell of. `left`: those without a vector, or by another model.
    """

    dots: tuple[Dot, ...]
    active: str
    archived: str
    count: int
    told: float
    left: int


def map_of(topics: Sequence[Topic]) -> TopicMap | None:
    """The topics on a plane: the first two principal components of their embeddings. None with fewer than three."""
    standing = unmerged(topics)
    models = [topic.embedder for topic in standing if topic.embedded]
    model = max(sorted(set(models)), key=models.count, default="")
    drawn = [
        topic for topic in standing if topic.embedded and topic.embedder == model and topic.embedding.any()
    ]
    if len(drawn) < 3:
        return None
    vectors = np.stack([topic.embedding.astype(np.float32) for topic in drawn])
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    vectors -= vectors.mean(axis=0)
    places, told = _on_a_plane(vectors)
    span = np.maximum(np.abs(places).max(axis=0), 1e-9)
    middle = np.array([WIDTH, WIDTH * 0.6]) / 2
    at = middle + places / span * (middle - _EDGE)
    largest = sorted(range(len(drawn)), key=lambda place: (-drawn[place].embedded, drawn[place].id))[:_NAMED]
    current = newest(topic for topic in standing if not topic.archived)
    most = drawn[largest[0]].embedded

    def points(*, archived: bool) -> str:
        others = set(range(len(drawn))) - set(largest)
        return "".join(
            f"M{at[place, 0]:.1f},{at[place, 1]:.1f}h0"
            for place in sorted(others)
            if drawn[place].archived is archived
        )

    return TopicMap(
        dots=tuple(
            Dot(
                topic=drawn[place],
                x=float(at[place, 0]),
                y=float(at[place, 1]),
                radius=4 + 8 * (drawn[place].embedded / most) ** 0.5,
                number=number,
                current=drawn[place] is current,
            )
            for number, place in enumerate(largest, start=1)
        ),
        active=points(archived=False),
        archived=points(archived=True),
        count=len(drawn),
        told=told,
        left=len(standing) - len(drawn),
    )


@dataclass(frozen=True, kw_only=True, slots=True)
class Name:
    """A topic's name beside its dot; `anchor` as SVG has it."""

    text: str
    x: float
    y: float
    anchor: str


def names_of(dots: Sequence[Dot], titles: Mapping[str, str]) -> list[Name]:
    """The names of the dots, beside each, as far as they lie over nothing else."""
    names = list[Name]()
    taken = [(dot.x - dot.radius, dot.x + dot.radius, dot.y - dot.radius, dot.y + dot.radius) for dot in dots]
    for dot in dots:
        text = shorten(titles.get(dot.topic.id, ""), _NAME_LETTERS, placeholder=" …")
        width = sum(_LETTER * (2 if east_asian_width(letter) in "WF" else 1) for letter in text)
        for rise, side in product((0.0, 1.5 * _LETTER, -1.5 * _LETTER), (1, -1)):
            x, y = dot.x + side * (dot.radius + 5), dot.y + rise
            box = (min(x, x + side * width), max(x, x + side * width), y - _LETTER, y + _LETTER)
            fits = box[0] >= 0 and box[1] <= WIDTH
            if fits and not any(_over(box, other) for other in taken):
                names.append(Name(text=text, x=x, y=y, anchor="start" if side > 0 else "end"))
                taken.append(box)
                break
    return names


def _over(one: tuple[float, ...], other: tuple[float, ...]) -> bool:
    return one[0] < other[1] and other[0] < one[1] and one[2] < other[3] and other[2] < one[3]


def _on_a_plane(vectors: NDArray[np.float32]) -> tuple[NDArray[np.float64], float]:
    """The first two principal components of centred rows, and the share of the variance that they are.

    By subspace iteration over the covariance (Halko, Martinsson and Tropp, SIAM Review 53, 2011), whose steps are small; LAPACK's
    solvers find all directions, and wait for one another on a busy machine.
    """
    covariance = (vectors.T @ vectors).astype(np.float64)
    ways = np.random.default_rng(1).normal(size=(len(covariance), min(8, len(covariance))))
    for _ in range(_ROUNDS):
        ways, _r = np.linalg.qr(covariance @ ways)
    strengths, turned = np.linalg.eigh(ways.T @ covariance @ ways)
    best = ways @ turned[:, :-3:-1]
    return vectors @ best, float(strengths[-2:].sum() / max(np.trace(covariance), 1e-9))


# --- work ----------------------------------------------------------------------------------------------------
@dataclass(frozen=True, kw_only=True, slots=True)
class Line:
    """A line over time: `points` as SVG has them, in a box of `LINE`; `most`: the value at its top; `last`: the newest one."""

    points: str
    most: float
    last: float


@dataclass(frozen=True, kw_only=True, slots=True)
class Day:
    """A day's forget calls: where its bar begins and how high it is, in a box of `LINE`."""

    date: str
    count: int
    x: float
    height: float


def line_of(points: Sequence[Point], values: Sequence[float]) -> Line:
    """The line of the values at the points' times."""
    width, height = LINE
    began, whole = points[0].at, (points[-1].at - points[0].at).total_seconds() or 1.0
    most = max(*values, 0.0) if len(values) > 1 else max(values[0], 0.0)
    places = (
        f"{width * (point.at - began).total_seconds() / whole:.1f},{height - (height - 4) * value / (most or 1.0):.1f}"
        for point, value in zip(points, values, strict=True)
    )
    return Line(points=" ".join(places), most=most, last=values[-1])


def days_of(counts: Counter[date], now: datetime) -> list[Day]:
    """The last days, the earliest first, with the number of forget calls of each."""
    dates = [(now - timedelta(days=back)).date() for back in reversed(range(_BARS))]
    most = max((counts[date] for date in dates), default=0) or 1
    width, height = LINE
    return [
        Day(
            date=f"{date}",
            count=counts[date],
            x=width * at / _BARS,
            height=(height - 4) * counts[date] / most,
        )
        for at, date in enumerate(dates)
    ]


# --- signals in a score: in each of a hundred rows, where a template's took half of the page's time ----------
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
