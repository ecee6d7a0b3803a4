"""A run of a system on recall sets as a file keeps it, and as tables people read.

A file of runs is JSON: `{"machine": …, "runs": [run, …]}`. A run holds the system's name, version and settings, figures and
times by set, and, for comparing and looking at misses later, the result of every question.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, Final

from benchmarks.scoring import Estimate, Result, differences, summary, summary_by_type

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path

SHOWN: Final = (
    "recall@5",
    "recall@10",
    "recall@20",
    "recall@50",
    "session_any@5",
    "session_all@5",
    "in_context@1000",
    "in_context@2000",
)


class BadRun(ValueError):
    """A file of runs that can't be used; the message says why."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Run:
    """One system's answers to recall sets. `times`: by set, seconds and milliseconds under names that say which."""

    system: str
    version: str = ""
    settings: Mapping[str, Any] = field(default_factory=dict)
    times: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    results: Sequence[Result] = ()

    @property
    def sets(self) -> list[str]:
        """The names of the sets, in the order in which they were run."""
        return list(dict.fromkeys(result.set for result in self.results))

    def of(self, set_name: str) -> list[Result]:
        """The results on one set."""
        return [result for result in self.results if result.set == set_name]

    def figures(self) -> dict[str, Any]:
        """What is worth reading: figures and times by set, without the single questions."""
        return {
            "system": self.system,
            "version": self.version,
            "settings": dict(self.settings),
            "sets": {
                name: {
                    "questions": len(self.of(name)),
                    "figures": _plain(summary(self.of(name))),
                    "by_type": {
                        kind: _plain(estimates) for kind, estimates in summary_by_type(self.of(name)).items()
                    },
                    "times": dict(self.times.get(name, {})),
                }
                for name in self.sets
            },
        }


def _plain(estimates: Mapping[str, Estimate]) -> dict[str, Any]:
    return {
        name: {
            "mean": round(one.mean, 4),
            "low": round(one.low, 4),
            "high": round(one.high, 4),
            "count": one.count,
        }
        for name, one in estimates.items()
    }


# --- files ---------------------------------------------------------------------------------------------------


def write_runs(file: Path, runs: Iterable[Run], **about: Any) -> None:
    """Write runs with the result of every question; `about`: what else stands at the top."""
    records = [{**run.figures(), "results": [asdict(result) for result in run.results]} for run in runs]
    file.write_text(json.dumps({**about, "runs": records}, indent=1, ensure_ascii=False) + "\n", "utf-8")


def read_run(named: str, folder: Path) -> Run:
    """The run that `named` says: FILE, or FILE#SYSTEM where the file holds several. Raises BadRun.

    `folder`: what a relative FILE is relative to.
    """
    name, _, system = named.partition("#")
    try:
        records = json.loads((folder / name).read_text("utf-8"))["runs"]
        runs = {record["system"]: record for record in records}
    except FileNotFoundError as exc:
        raise BadRun(f"{name}: there is no such file; write one with --json {name}") from exc
    except (KeyError, TypeError, ValueError, OSError) as exc:
        raise BadRun(f"{name}: no file of runs as --json writes them ({exc!r:.80})") from exc
    if not system and len(runs) != 1:
        raise BadRun(f"{name} holds {len(runs)} runs; name one, as {name}#{next(iter(runs), 'SYSTEM')}")
    if system and system not in runs:
        raise BadRun(f"{name} has no run {system!r}; it has {', '.join(sorted(runs)) or 'none'}")
    record = runs[system or next(iter(runs))]
    return Run(
        system=record["system"],
        version=record.get("version", ""),
        settings=record.get("settings", {}),
        times={name: about.get("times", {}) for name, about in record.get("sets", {}).items()},
        results=[Result.from_json(result) for result in record["results"]],
    )


# --- tables --------------------------------------------------------------------------------------------------


def markdown(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table in Markdown; bars in cells are escaped."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines)


def table(runs: Sequence[Run]) -> str:
    """The figures of all runs, a part per set, a row per system; one run alone has a row per type besides."""
    parts = []
    for set_name in dict.fromkeys(name for run in runs for name in run.sets):
        rows: dict[str, Mapping[str, Estimate]] = {run.system: summary(run.of(set_name)) for run in runs}
        if len(runs) == 1:
            kinds = summary_by_type(runs[0].of(set_name))
            rows |= {f"type {kind}": estimates for kind, estimates in kinds.items()}
        names = [name for name in SHOWN if any(name in row for row in rows.values())]
        cells = [
            [label, *(str(row[name]) if name in row else "–" for name in names)]
            for label, row in rows.items()
        ]
        parts.append(f"{set_name}\n\n{markdown(['', *names], cells)}")
    return "\n\n".join(parts)


def comparison(before: Run, after: Run) -> str:
    """By how much `after` is higher than `before`, a part per set. Raises ValueError if they share no question."""
    shared = [name for name in before.sets if name in after.sets]
    parts = [f"{after.system} less {before.system}; paired over questions, 95 % bootstrap intervals"]
    for name in shared:
        found = differences(before.of(name), after.of(name))
        rows = [
            [figure, f"{one.mean:+.3f}", f"[{one.low:+.3f}, {one.high:+.3f}]", str(one.count)]
            for figure, one in found.items()
        ]
        parts.append(f"{name}\n\n{markdown(['figure', 'difference', 'interval', 'questions'], rows)}")
    if not shared:
        raise ValueError(
            f"the runs are of different sets: {', '.join(before.sets)} and {', '.join(after.sets)}"
        )
    return "\n\n".join(parts)
