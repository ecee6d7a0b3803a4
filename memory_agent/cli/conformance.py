"""`memory-agent conformance`: an adapter of one's own, held to the contracts."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Final, Literal

from memory_agent.cli.options import FAILED, OK, AsJson, Commands, argument, option
from memory_agent.cli.output import complain, many, print_json, progress_bar, say

if TYPE_CHECKING:
    from memory_agent.conformance.kit import Report

app = Commands()

_NEEDS: Final = (
    "the conformance kit needs pytest and Hypothesis, which are the extra 'conformance' of this package"
)


@app.command()
def conformance(
    factory: str = argument("MODULE:FACTORY, what makes the adapter.", shown=False),
    kind: Literal["store", "vectors", "embedder", "llm"] = option(
        "--kind -k", "Which port it is of.", "store"
    ),
    only: list[str] | None = option("--only", "Only this capability; may be repeated.", None),
    as_json: AsJson = False,
) -> int:
    """Run the contract's tests over an adapter of your own: a store, a vector index, an embedder or a language model.

    FACTORY is called for each test. For a store: `make(folder)`, once for each one that the test opens; what it makes for one
    folder shares a database, and is opened and closed by the kit. For vectors: `make(folder, fingerprint)`, for an embedder:
    `make()`. For a language model: `make()` gives an object with `llm` and the methods `says(*texts)`, `is_down()` and
    `refuses()`, which tell it what comes next.

    Leaves with 1 if a test does not pass. Of a store of some nouns, run those with --only.

    Examples:
        memory-agent conformance my_store:make
        memory-agent conformance my_store:make --only turns --only work
        memory-agent conformance my_index:make --kind vectors --json
    """
    try:
        from memory_agent.conformance.kit import check, load_factory
    except ModuleNotFoundError as exc:
        complain(f"{_NEEDS} ({exc.name} is missing)")
        return FAILED
    made = load_factory(factory)
    with progress_bar("Checking", show=not as_json) as moved:
        report = check(made, kind, only=only or (), progress=moved)
    if as_json:
        print_json({**dataclasses.asdict(report), "conforms": report.conforms})
    else:
        _tell(report)
    return OK if report.conforms else FAILED


def _tell(report: Report) -> None:
    for name, outcome in report.outcomes.items():
        failed = len(outcome.findings)
        ended = "passed" if not failed else f"{failed} failed, {outcome.passed} passed"
        say(f"{name:<12} {ended if failed or outcome.passed else 'did not run'}")
    told = {finding.test: finding for outcome in report.outcomes.values() for finding in outcome.findings}
    for finding in told.values():
        say(f"\n{finding.test}\n  holds: {finding.holds}\n  found: {finding.error}")
    say(f"\n{many(report.ran, 'test')}, of which {report.failed:,} failed")
