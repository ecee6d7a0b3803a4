"""The conformance kit: the project's own suites of a port, run over anybody's adapter, and what came of it by capability.

Needs the extra `conformance` (pytest, Hypothesis), which nothing else of the package imports. The suites are the ones by which
the project's own adapters are tested: in a checkout `tests/conformance`, in an installed package `suite` beside this.
"""

from __future__ import annotations

import contextlib
import importlib
import inspect
import io
import os
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, get_args

import pytest
from hypothesis import HealthCheck
from hypothesis import settings as hypothesis_settings

from memory_agent.errors import InvalidInput

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence


_NOUN: Final = "test_document_store_"
_OF_MODULES: Final = {
    "entities": "rows",
    "compressed": "topics",
    "topics_changed": "topics",
    "compressions": "sessions",
    "facts_forgotten": "deletion",
    "topics_forgotten": "deletion",
    "forgetting": "deletion",
}
"""The capability of a module whose name is another word; of all others it is their name."""
ACROSS: Final = {
    "leakage": (
        "test_no_read_crosses_a_scope",
        "test_topics_of_others_are_out_of_reach",
        "test_tells_of_no_other_tenant_s_users",
        "test_a_watch_tells_of_its_scope_only",
        "test_refuses_rows_of_another_user",
        "test_other_users_views_are_theirs",
        "test_lists_by_number_by_id_and_within_limits",
        "test_no_user_sees_anothers_turns",
        "test_a_thread_sees_no_other_thread",
        "test_nobody_deletes_or_clears_anothers_turn",
    ),
    "deletion": (
        "test_forgets_texts_in_segments",
        "test_clearing_a_thread_leaves_no_segment",
        "test_forgetting_a_turn_drops_what_came_of_it",
        "test_forgetting_a_scope_takes_its_compressions",
        "test_forgetting_a_scope_takes_its_sessions",
        "test_what_was_forgotten_is_not_told_afterwards",
        "test_what_was_forgotten_does_not_count",
        "test_delete_takes_all_passages_of_the_named_turns",
    ),
    "crash": (
        "test_the_next_process_reads_what_was_acknowledged",
        "test_opens_and_closes_again_and_again",
        "test_completes_a_call_that_was_cut_short",
        "test_another_call_under_a_key_completes_nothing",
        "test_sweeps_what_a_late_worker_wrote",
        "test_what_was_stored_is_there_after_reopening",
        "test_a_repeated_upsert_changes_nothing",
    ),
    "order": (
        "test_numbers_turns_from_one",
        "test_numbers_rise_as_calls_return",
        "test_nothing_appears_below_what_was_seen",
        "test_a_number_is_not_given_again",
        "test_turns_of_a_thread_are_told_by_rising_number",
        "test_index_numbers_rise_with_every_change",
        "test_longest_due_threads_come_first",
        "test_users_take_turns",
        "test_nearest_come_first_with_their_cosine",
        "test_vectors_are_unit_rows_in_order",
    ),
    "concurrency": (
        "test_concurrent_repeats_agree",
        "test_concurrent_changes_are_all_kept",
        "test_of_concurrent_saves_one_wins",
        "test_of_concurrent_saves_of_a_topic_one_wins",
        "test_of_many_that_append_one_wins",
        "test_of_many_that_put_sessions_one_wins",
        "test_several_open_one_new_database_at_once",
        "test_one_wins_where_several_put_what_is_new",
        "test_a_lease_has_one_holder",
        "test_forgetting_while_packing",
        "test_calls_at_once_do_not_disturb_each_other",
        "test_concurrent_calls_get_their_own_vectors",
        "test_calls_at_once_are_all_answered",
    ),
}
"""What tests of several modules show together, by the names of these tests."""


def capabilities_of(module: str, test: str) -> tuple[str, ...]:
    """The capabilities that a test of a module shows: that of its noun, and those across.

    >>> capabilities_of("test_document_store_turns", "test_concurrent_repeats_agree")
    ('turns', 'concurrency')
    """
    noun = module.removeprefix(_NOUN).removeprefix("test_")
    found = [_OF_MODULES.get(noun, noun), *(name for name, tests in ACROSS.items() if test in tests)]
    return tuple(dict.fromkeys(found))


Kind = Literal["store", "vectors", "embedder", "llm"]
KINDS: Final[tuple[Kind, ...]] = get_args(Kind)
_MODULES: Final[dict[Kind, str]] = {
    "store": "test_document_store_*.py",
    "vectors": "test_vector_index.py",
    "embedder": "test_embedder.py",
    "llm": "test_llm.py",
}
_SECONDS: Final = 120
"""That one test may take before it counts as failed, for a fault may be that something never ends."""
_HERE: Final = Path(__file__).parent


@dataclass(frozen=True, kw_only=True, slots=True)
class Finding:
    """A test that did not pass: what it holds the adapter to, and what came instead."""

    test: str
    holds: str
    error: str


@dataclass(kw_only=True, slots=True)
class Outcome:
    """Outcome of one capability: tests that passed, and findings about the others."""

    passed: int = 0
    findings: list[Finding] = field(default_factory=list)


@dataclass(kw_only=True, slots=True)
class Report:
    """Outcomes by capability, in the order of the suite. A test may show several."""

    outcomes: dict[str, Outcome] = field(default_factory=dict)
    ran: int = 0
    failed: int = 0

    @property
    def conforms(self) -> bool:
        """True if tests ran, and all passed."""
        return self.ran > 0 and self.failed == 0


def suite() -> Path:
    """The folder of the suites."""
    installed = _HERE / "suite"
    return installed if installed.is_dir() else _HERE.parents[1] / "tests" / "conformance"


def load_factory(spec: str) -> Callable[..., Any]:
    """The callable that MODULE:FACTORY names; modules of the working directory are found. Raises InvalidInput."""
    module, colon, name = spec.partition(":")
    if not (module and colon and name):
        raise InvalidInput(f"factory is {spec!r:.200}; pass MODULE:FACTORY, such as my_store:make")
    sys.path.insert(0, os.getcwd())
    try:
        factory = importlib.import_module(module)
        for part in name.split("."):
            factory = getattr(factory, part)
    except (ImportError, AttributeError) as exc:
        raise InvalidInput(
            f"factory is {spec!r:.200}, which cannot be imported: {type(exc).__name__}: {exc}"
        ) from exc
    finally:
        sys.path.remove(os.getcwd())
    if not callable(factory):
        raise InvalidInput(f"factory is {spec!r:.200}, a {type(factory).__name__}; pass something to call")
    return factory


def check(
    factory: Callable[..., Any],
    kind: Kind = "store",
    *,
    only: Iterable[str] = (),
    progress: Callable[[int, int], None] | None = None,
) -> Report:
    """Run the suites of `kind` over what the factory makes. `only`: these capabilities; InvalidInput if there are none such.

    A store's factory is called with a folder of the test's own, once for each store that the test opens: all that it makes
    for one folder share a database, as processes do. It gives a store, open or not, or an awaitable of one.
    """
    kit = _Kit(factory, set(only), progress)
    files = sorted(map(str, suite().glob(_MODULES[kind])))
    patient = hypothesis_settings(deadline=None, suppress_health_check=list(HealthCheck), derandomize=True)
    hypothesis_settings.register_profile("conformance", patient, max_examples=25, database=None)
    hypothesis_settings.load_profile("conformance")
    said = io.StringIO()
    with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(said):
        ini = Path(folder) / "pytest.ini"
        ini.write_text(
            "[pytest]\nasyncio_mode = auto\nasyncio_default_fixture_loop_scope = function\n"
            "markers =\n    on_every_server: x\n    telling: x\n    telling_by_any_driver: x\n    nightly: x\n"
        )
        arguments = ["-c", str(ini), "--rootdir", str(suite()), "--noconftest", "-p", "no:cacheprovider"]
        arguments += ["--tb=short", "-q", "--basetemp", str(Path(folder) / "tests"), f"--timeout={_SECONDS}"]
        ended = pytest.main([*arguments, *files], plugins=[kit])
    if kit.unknown:
        raise InvalidInput(
            f"capability is {', '.join(map(repr, kit.unknown))}; there are {', '.join(kit.known)}"
        )
    if ended not in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED):
        raise InvalidInput(f"the suite could not be run: {said.getvalue()[-2_000:]}")
    return kit.report


class _Kit:
    """A plugin of pytest: the fixtures that the suites ask for, and the report of what came of them."""

    def __init__(
        self,
        factory: Callable[..., Any],
        only: set[str],
        progress: Callable[[int, int], None] | None,
    ) -> None:
        self.report = Report()
        self.known: Sequence[str] = ()
        self.unknown: Sequence[str] = ()
        self._factory, self._only, self._progress = factory, only, progress
        self._holds: dict[str, str] = {}
        self._shows: dict[str, tuple[str, ...]] = {}

    # --- fixtures --------------------------------------------------------------------------------------------
    @pytest.fixture
    async def open_store(self, tmp_path: Path) -> AsyncIterator[Callable[[], Awaitable[Any]]]:
        """Opens one more store on the test's database; all are closed at the end."""
        async with contextlib.AsyncExitStack() as stack:

            async def opened() -> Any:
                store = await _made(self._factory, tmp_path)
                if (close := getattr(store, "close", None)) is not None:
                    stack.push_async_callback(close)
                if (begin := getattr(store, "open", None)) is not None:
                    await begin()
                return store

            yield opened

    @pytest.fixture
    async def store(self, open_store: Callable[[], Awaitable[Any]]) -> Any:
        """An open, empty store."""
        return await open_store()

    @pytest.fixture
    def index_kind(self) -> str:
        """What tells the project's own vector indexes apart."""
        return "yours"

    @pytest.fixture
    def make_index(self, tmp_path: Path) -> Callable[[str], Any]:
        """A vector index by fingerprint; those of one test share their storage."""
        return lambda fingerprint: self._factory(tmp_path, fingerprint)

    @pytest.fixture
    def make_embedder(self) -> Callable[[], Any]:
        """Fresh embedders."""
        return self._factory

    @pytest.fixture
    async def embedder(self) -> AsyncIterator[Any]:
        """A fresh embedder."""
        embedder = await _made(self._factory)
        yield embedder
        await embedder.close()

    @pytest.fixture
    async def stage(self) -> AsyncIterator[Any]:
        """A language model, and what it is going to say."""
        stage = await _made(self._factory)
        yield stage
        await stage.llm.close()

    # --- the run ---------------------------------------------------------------------------------------------
    def pytest_collection_modifyitems(self, config: pytest.Config, items: list[pytest.Item]) -> None:
        """Take those tests whose fixtures there are, of the capabilities that are asked for."""
        taken: list[pytest.Item] = []
        left: list[pytest.Item] = []
        for item in items:
            own = inspect.cleandoc(getattr(item, "function").__doc__ or "")  # noqa: B009 - not every item has one
            self._holds[item.nodeid] = own.partition("\n")[0]
            self._shows[item.nodeid] = capabilities_of(item.path.stem, item.name.partition("[")[0])
            wanted = not self._only or self._only & set(self._shows[item.nodeid])
            (taken if wanted else left).append(item)
        self.known = tuple(dict.fromkeys(name for names in self._shows.values() for name in names))
        self.unknown = sorted(self._only - set(self.known))
        config.hook.pytest_deselected(items=left)
        items[:] = [] if self.unknown else taken
        self._total = len(items)
        for name in self.known:
            if not self._only or name in self._only:
                self.report.outcomes[name] = Outcome()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Count a test that ended; what fails before or after it counts for it."""
        if report.when != "call" and report.passed:
            return
        outcomes = self.report.outcomes
        shown = [outcomes[name] for name in self._shows[report.nodeid] if name in outcomes]
        if report.passed:
            for outcome in shown:
                outcome.passed += 1
        else:
            test = report.nodeid.rpartition("/")[2]
            finding = Finding(test=test, holds=self._holds[report.nodeid], error=_error_of(report))
            for outcome in shown:
                outcome.findings.append(finding)
            self.report.failed += 1
        self.report.ran += 1
        if self._progress is not None:
            self._progress(self.report.ran, self._total)


async def _made(factory: Callable[..., Any], *arguments: Any) -> Any:
    made = factory(*arguments)
    return await made if inspect.isawaitable(made) else made


def _error_of(report: pytest.TestReport) -> str:
    crash = getattr(report.longrepr, "reprcrash", None)
    words = str(crash.message if crash is not None else report.longrepr)
    return " ".join(words.split("\n", 1)[0].split())[:300]
