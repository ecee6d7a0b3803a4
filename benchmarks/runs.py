"""A run of a system on recall sets as a file keeps it, and as tables people read.

A file of runs is JSON: `{"machine": …, "runs": [run, …]}`. A run holds the system's name, version and settings, figures and
times by set, and, to compare it later, the result of every question.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from benchmarks.scoring import Estimate, Result, by_type, differences, summary

if TYPE_CHECKING:
    from collections.abc import Iterable

COMPARED: Final = ("recall@5", "recall@10")
"""Figures with their intervals and differences in a table."""
BESIDE: Final = ("recall@20", "recall@50", "session_any@5", "session_all@5")
"""Figures whose means stand beside them."""


class BadRun(ValueError):
    """A file of runs that can't be used; the message says why."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Run:
    """One system's answers to recall sets.

    `times`: by set, seconds and milliseconds under names that say which; `made`: when it was run, to the minute.
    """

    system: str
    version: str = ""
    made: str = ""
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
            "made": self.made,
            "settings": dict(self.settings),
            "sets": {
                name: {
                    "questions": len(self.of(name)),
                    "figures": _plain(summary(self.of(name))),
                    "by_type": {
                        kind: _plain(summary(results)) for kind, results in by_type(self.of(name)).items()
                    },
                    "times": dict(self.times.get(name, {})),
                }
                for name in self.sets
            },
        }


def _plain(estimates: Mapping[str, Estimate]) -> dict[str, Any]:
    return {
        name: {key: round(value, 4) for key, value in asdict(one).items()} for name, one in estimates.items()
    }


# --- files ---------------------------------------------------------------------------------------------------


def write_runs(file: Path, runs: Iterable[Run], **about: Any) -> None:
    """Write runs with the result of every question; `about`: what else stands at the top."""
    records = [{**run.figures(), "results": [asdict(result) for result in run.results]} for run in runs]
    file.write_text(json.dumps({**about, "runs": records}, indent=1, ensure_ascii=False) + "\n", "utf-8")


def keep_last(folder: Path, run: Run) -> None:
    """Keep each set of `run` in `folder`, in the place of the last run on it."""
    for name in run.sets:
        file = _last(folder, name)
        file.parent.mkdir(parents=True, exist_ok=True)
        write_runs(file, [replace(run, results=run.of(name), times={name: run.times.get(name, {})})])


def _last(folder: Path, set_name: str) -> Path:
    return folder / "last" / f"{set_name}.json"


def read_runs(named: str) -> list[Run]:
    """All runs of FILE, or the one of FILE#SYSTEM. Raises BadRun."""
    name, _, system = named.partition("#")
    try:
        runs = [_run_of(record) for record in json.loads(Path(name).read_text("utf-8"))["runs"]]
    except FileNotFoundError as exc:
        raise BadRun(f"{name}: there is no such file; write one with --json {name}") from exc
    except (KeyError, TypeError, ValueError, OSError) as exc:
        raise BadRun(f"{name}: no file of runs as --json writes them ({exc!r:.80})") from exc
    found = [run for run in runs if system in ("", run.system)]
    if not found:
        names = ", ".join(sorted(run.system for run in runs))
        raise BadRun(f"{name} has no run {system!r}; it has {names or 'none'}")
    return found


def _run_of(record: Mapping[str, Any]) -> Run:
    return Run(
        system=record["system"],
        version=record.get("version", ""),
        made=record.get("made", ""),
        settings=record.get("settings", {}),
        times={name: about.get("times", {}) for name, about in record.get("sets", {}).items()},
        results=[Result(**result) for result in record["results"]],
    )


# --- tables --------------------------------------------------------------------------------------------------


def markdown(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table in Markdown; bars in cells are escaped."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines)


def set_table(results: Sequence[Result], before: Sequence[Result]) -> str:
    """The figures of one set, by type of question, with the differences from `before`, which may be empty."""
    earlier = by_type(before)
    rows = [
        ("all", results, before),
        *((kind, its, earlier.get(kind, ())) for kind, its in by_type(results).items()),
    ]
    return _table("type", [(label, its, summary(its), _change(older, its)) for label, its, older in rows])


def last_table(folder: Path, run: Run, set_name: str) -> str:
    """The figures of one set of `run`, with the differences from the last run on it that `folder` has."""
    file = _last(folder, set_name)
    before = read_runs(str(file))[0] if file.exists() else None
    head = f"{set_name}: the first run, kept in {folder}"
    if before is not None:
        settings = ", ".join(f"{name}={value}" for name, value in before.settings.items())
        head = f"{set_name}: less the run of {before.made or 'unknown date'} ({settings})"
    return f"{head}\n\n{set_table(run.of(set_name), () if before is None else before.of(set_name))}"


def systems_table(runs: Sequence[Run]) -> str:
    """The figures of all runs, a part per set, a row per system; differences are from the first of them."""
    base = runs[0]
    parts = []
    for name in dict.fromkeys(name for run in runs for name in run.sets):
        rows = [
            (
                run.system,
                run.of(name),
                summary(run.of(name)),
                {} if run is base else _change(base.of(name), run.of(name)),
            )
            for run in runs
            if run.of(name)
        ]
        parts.append(f"{name}\n\n{_table(f'less {base.system}', rows)}")
    return "\n\n".join(parts)


def comparison(before: Run, after: Run) -> str:
    """The figures of `after` and their differences from `before`, a part per set. Raises ValueError if no set is shared."""
    shared = [name for name in before.sets if name in after.sets]
    if not shared:
        raise ValueError(
            f"the runs are of different sets: {', '.join(before.sets)} and {', '.join(after.sets)}"
        )
    return "\n\n".join(f"{name}\n\n{set_table(after.of(name), before.of(name))}" for name in shared)


Row = tuple[str, Sequence[Result], Mapping[str, Estimate], Mapping[str, Estimate]]


def _table(first: str, rows: Sequence[Row]) -> str:
    """`rows`: label, results, their figures, and the differences of these."""
    figured = [name for name in (*COMPARED, *BESIDE) if any(name in figures for _, _, figures, _ in rows)]
    changed = {name for name in COMPARED if any(name in change for *_, change in rows)}
    head = [first, "questions"]
    cells = [[label, str(len(results))] for label, results, _, _ in rows]
    for name in figured:
        head += [name, "difference"] if name in changed else [name]
        for line, (_, _, figures, change) in zip(cells, rows, strict=True):
            one = figures.get(name)
            line.append("–" if one is None else str(one) if name in COMPARED else f"{one.mean:.3f}")
            if name in changed:
                line.append(signed(change.get(name)))
    return markdown(head, cells)


def signed(change: Estimate | None) -> str:
    """A difference with its interval, and a star where that leaves out 0."""
    if change is None:
        return ""
    star = "*" if change.low > 0 or change.high < 0 else ""
    return f"{change.mean:+.3f} [{change.low:+.3f}, {change.high:+.3f}]{star}"


def _change(before: Sequence[Result], after: Sequence[Result]) -> dict[str, Estimate]:
    asked = {result.key for result in before}
    return differences(before, after) if any(result.key in asked for result in after) else {}
