"""Reports of `benchmarks.speed` as tables, beside an earlier one if there is one."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any, Final

from benchmarks.measure import side_by_side

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    Case = Mapping[str, Any]

RATIOS: Final = {
    "fetch_new ÷ embedding, p50": ("fetch_new", "p50_ms", "embedding", "p50_ms"),
    "fetch_new, p95 ÷ p50": ("fetch_new", "p95_ms", "fetch_new", "p50_ms"),
    "acknowledged_busy, p95 ÷ p50": ("acknowledged_busy", "p95_ms", "acknowledged_busy", "p50_ms"),
}
PROFILED: Final = {
    "one fetch of a new question": ("fetch_new",),
    "one settled exchange": ("acknowledged", "settled"),
}
"""What is profiled, and the figures that hold its processor time."""
_BESIDE: Final = ("besides_p50_ms", "besides_p95_ms")


def key(case: Case) -> tuple[Any, ...]:
    """What makes cases of two reports the same."""
    return case["store"], case["text"], case["turns"], case["topics_wanted"]


def tables(cases: Sequence[Case], before: Mapping[tuple[Any, ...], Case]) -> str:
    """A table for each store and text, with the cases side by side, and profiles, in Markdown.

    `before`: cases of an earlier report by `key`; each figure then has its ratio to theirs, now ÷ then.
    """
    parts = []
    for _, of_one in itertools.groupby(cases, key=lambda case: (case["store"], case["text"])):
        shown = list(of_one)
        parts.append(_table(shown, [before.get(key(case)) for case in shown]))
        parts += _profiles(shown)
    return "\n\n".join(parts)


def _table(cases: Sequence[Case], before: Sequence[Case | None]) -> str:
    heads = [
        f"{case['turns']:,} turns, {case['topics']:,} topics{_made(case)}, {case['others_busy']:.0%} busy otherwise"
        for case in cases
    ]
    first = f"{cases[0]['store']}, {cases[0]['text']}: p50 / p95 / processor, ms"
    columns = [dict(_rows(case)) for case in cases]
    return side_by_side(first, heads, columns, [{} if old is None else dict(_rows(old)) for old in before])


def _made(case: Case) -> str:
    return "" if case["topics_wanted"] is None else f" ({case['topics_wanted']:,} wanted)"


def _rows(case: Case) -> Iterator[tuple[str, tuple[float, ...]]]:
    figures = case["figures"]
    for name, of in figures.items():
        yield name, (of["p50_ms"], of["p95_ms"], of["processor_ms"])
        if _BESIDE[0] in of:
            yield f"{name} besides the model, p50 / p95", (of[_BESIDE[0]], of[_BESIDE[1]])
    for name, (of, at, by, by_at) in RATIOS.items():
        yield name, (round(figures[of][at] / figures[by][by_at], 2),)
    yield "turns owed after acknowledged_busy", (case["owed_after_busy"],)
    longest = (max(of[which] for of in figures.values()) for which in ("hold_ms", "hold_own_ms"))
    yield "longest hold of the loop, its own part of it", tuple(longest)
    for part, head in (("ingest", "ingest of a turn"), ("with_model", "ingest with the model")):
        for name, value in case.get(part, {}).items():
            yield f"{head}: {name}", (value,)
    for name, size in case["bytes_a_turn"].items():
        yield f"bytes a turn: {name}", (size,)


def _profiles(cases: Sequence[Case]) -> Iterator[str]:
    for case in cases:
        for name, profile in case.get("profile", {}).items():
            processor = sum(case["figures"][figure]["processor_ms"] for figure in PROFILED[name])
            yield _profile(f"{name}, {case['store']}, {case['turns']:,} turns", profile, processor)


def _profile(name: str, profile: Mapping[str, Any], processor_ms: float) -> str:
    """`processor_ms`: what it takes when it is not profiled, shared out by the profile's shares."""
    calls, shares = profile["store_calls"], profile["share"]
    lines = [f"| {name} | processor ms (of {processor_ms:.1f}) | share | store calls |", "|---|---|---|---|"]
    for part in [*shares, *(part for part in calls if part not in shares)]:
        share = shares.get(part, 0.0)
        made = ", ".join(f"{method} {count:g}" for method, count in calls.get(part, {}).items())
        if share >= 0.002 or made:
            lines.append(f"| {part} | {share * processor_ms:.2f} | {share:.1%} | {made} |")
    spoken = [
        f"{of} " + ", ".join(f"{count:g} {kind}" for kind, count in kinds.items())
        for of, kinds in profile["statements"].items()
    ]
    total = sum(sum(of.values()) for of in calls.values())
    return (
        "\n".join(lines) + f"\n\n{total:g} store calls; statements by table: {'; '.join(spoken) or 'none'}."
    )
