"""The page *Keys and health*: who may ask, whether anything is wrong, what runs here and by which settings."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import logging
import platform
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from importlib import metadata
from typing import TYPE_CHECKING, Any, Final

from memory_agent.config import setting_rows
from memory_agent.data_dir import check_memory
from memory_agent.doctor.examine import BY_HAND, examined, findings_by_kind, open_stores, together
from memory_agent.errors import MemoryAgentError
from memory_agent.keys import MAX_LIMIT, state_of
from memory_agent.wire.problems import problem_for_network

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from starlette.responses import Response

    from memory_agent.config import MemoryConfig
    from memory_agent.doctor.examine import Finding, Totals
    from memory_agent.domain import Scope
    from memory_agent.inspect.page import Page

log = logging.getLogger(__name__)

_LONGEST_SECONDS: Final = 600.0
"""Of an examination; of a larger memory the command has its time."""
_PLACES: Final = 20
"""Of a kind of finding; how many more there are is said."""
ORIGINS: Final = ("argument", "environment", "file", "default")
"""Of settings, those first that somebody gave for this process."""
_PARTS: Final = ("fastapi", "uvicorn", "pymongo", "chromadb", "onnxruntime", "numpy", "openai", "mcp")


@dataclass(frozen=True, kw_only=True, slots=True)
class Kind:
    """Findings of one kind: in words, what to do, how many places they are at, the first of those."""

    what: str
    wrong: bool
    repair: bool
    by_hand: str
    count: int
    places: tuple[tuple[Scope | None, str], ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Examination:
    """One look of the doctor: under way until `ended`. `problem`: why there are no findings, or not all."""

    began: datetime
    ended: datetime | None = None
    totals: Totals | None = None
    kinds: tuple[Kind, ...] = ()
    problem: str = ""


class _TooLong(Exception):
    """The examination took more than it may."""


class Doctor:
    """The doctor's look at the memory of this process, one at a time, and the last one.

    It has a thread and stores of its own, for it reads everything, and neither agents nor pages should wait for it.
    """

    def __init__(self, cfg: MemoryConfig) -> None:
        self._cfg = cfg
        self._running: asyncio.Future[None] | None = None
        self._stop: Callable[[], object] | None = None
        self._ending = False
        self.last: Examination | None = None

    def start(self) -> None:
        """Begin to examine, unless that is under way."""
        if self._running is None or self._running.done():
            self.last = begun = Examination(began=datetime.now(UTC))
            self._running = asyncio.ensure_future(asyncio.to_thread(self._examine, begun))

    async def close(self) -> None:
        """End what is under way, at its next read. Idempotent."""
        self._ending = True
        stop = self._stop  # read after that: whoever sets it looks then whether it is to end
        if stop is not None:
            with contextlib.suppress(RuntimeError):  # it has just ended by itself
                stop()
        if self._running is not None:
            await asyncio.wait({self._running})

    def _examine(self, begun: Examination) -> None:
        def show(totals: Totals) -> None:
            self.last = replace(begun, totals=replace(totals))

        try:
            found, totals = asyncio.run(self._examined(show))
            ended = replace(begun, kinds=kinds_of(found), totals=totals)
        except _TooLong:
            ended = replace(begun, problem="too_long")
        except MemoryAgentError as exc:
            ended = replace(begun, problem=problem_for_network(exc).detail)
        except asyncio.CancelledError:  # the service is about to end
            return
        except (
            Exception
        ) as exc:  # nobody waits for it, and a page should not say for ever that it is under way
            log.warning("the examination failed: %s", type(exc).__name__)
            ended = replace(begun, problem=type(exc).__name__)
        self.last = replace(ended, ended=datetime.now(UTC))

    async def _examined(self, show: Callable[[Totals], None]) -> tuple[list[Finding], Totals]:
        task: Any = asyncio.current_task()
        self._stop = functools.partial(task.get_loop().call_soon_threadsafe, task.cancel)
        if self._ending:
            raise asyncio.CancelledError
        check_memory(self._cfg)
        limit = asyncio.timeout(_LONGEST_SECONDS)
        try:
            async with limit, AsyncExitStack() as stack:
                return await examined(self._cfg, *await open_stores(self._cfg, stack), show)
        except TimeoutError:
            if limit.expired():
                raise _TooLong from None
            raise


async def show(page: Page) -> Response:
    """Keys of the tenant; to whom looks after the service everybody's, the doctor's findings, versions and settings."""
    everybodys = "tenant" not in page.request.path_params
    api, now = page.api, datetime.now(UTC)
    keys = await api.authenticator.keys(page.principal, everybodys=everybodys)
    shown: dict[str, Any] = {}
    if everybodys:
        settings = sorted(setting_rows(api.cfg), key=lambda row: ORIGINS.index(row["from"]))
        shown = {
            "examination": _doctor(page).last,
            "versions": _versions(),
            "schema": (await api.service.status()).store_schema,
            "settings": settings,
            "changed": [row for row in settings if row["from"] != "default"],
        }
    return await page.show(
        "health.html",
        everybodys=everybodys,
        keys=[(key, state_of(key, now), api.authenticator.last_used.get(key.id)) for key in keys],
        asks=api.authenticator.asks,
        ready=await api.readiness.look(),
        version=page.request.app.version,
        unlimited=MAX_LIMIT,
        **shown,
    )


async def examine(page: Page) -> Response:
    """Let the doctor look at everything, in the background."""
    page.principal.check_all_tenants()
    _doctor(page).start()
    return page.go("health")


def _doctor(page: Page) -> Doctor:
    doctor: Doctor = page.request.app.state.doctor
    return doctor


def kinds_of(findings: Iterable[Finding]) -> tuple[Kind, ...]:
    """The findings kind by kind: what is wrong before what is only worth knowing."""
    return tuple(
        Kind(
            what=together(of_kind).what,
            wrong=of_kind[0].wrong,
            repair=of_kind[0].repair,
            by_hand=BY_HAND.get(of_kind[0].kind, ""),
            count=len(of_kind),
            places=tuple((one.scope, one.what) for one in of_kind[:_PLACES]),
        )
        for of_kind in findings_by_kind(findings)
    )


def _versions() -> list[tuple[str, str]]:
    """Of Python, and of the packages that are installed."""
    found = [("Python", platform.python_version())]
    for name in _PARTS:
        try:
            found.append((name, metadata.version(name)))
        except metadata.PackageNotFoundError:
            continue
    return found
