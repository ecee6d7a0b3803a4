"""Commands: shared options, turning a function with them into a command, its settings and exit code."""

from __future__ import annotations

import asyncio
import functools
import inspect
import logging
import shlex
from collections.abc import Callable
from contextvars import ContextVar
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, NoReturn, TypeVar, get_type_hints

import typer

from memory_agent.checks import at_home
from memory_agent.cli.output import complain, note
from memory_agent.domain import DEFAULT_TENANT, Scope
from memory_agent.errors import MemoryAgentError, SweepRunning, TurnsParked

if TYPE_CHECKING:
    from memory_agent.cli.opening import Agent, Service
    from memory_agent.config import MemoryConfig

OK: Final = 0
FAILED: Final = 1
UNFINISHED: Final = 3
BUSY: Final = 4
INTERRUPTED: Final = 130
MODELS_LOG: Final = "memory_agent.models.local"
"""Tells at level INFO what a model's first use takes time for."""

USER: Final = "me"
THREAD: Final = "main"
TENANT: Final = DEFAULT_TENANT
LARGEST_SEQ: Final = 2**53
"""Far beyond any thread, and what every store can compare with."""
PAGE: Final = 100
"""Of a list, unless --limit or --all says otherwise."""


# --- options -------------------------------------------------------------------------------------------------
def option(names: str, about: str, default: Any = None, *, shown: str | None = None, **more: Any) -> Any:
    """An option with its `names` ("--user -u"), as a parameter's default. `shown`: its default in the help."""
    more |= {} if shown is None else {"show_default": shown}
    return typer.Option(default, *names.split(), help=about, **more)


def flag(names: str, about: str) -> Any:
    """An option without a value, False unless it is given. No metavar: `--json <bool>` reads as if a value had to follow."""
    return option(names, about, False, metavar="")


def argument(about: str, default: Any = ..., *, shown: str | bool | None = None, **more: Any) -> Any:
    """A positional argument, as a parameter's default; it must be given unless there is a `default`."""
    more |= {} if shown is None else {"show_default": shown}
    return typer.Argument(default, help=about, **more)


DataDir = Annotated[
    Path | None, typer.Option("--data-dir", help="Folder of the embedded stores.", show_default="data_dir")
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON, for scripts.", metavar="")]
SCOPE: Final[Any] = option("--scope", "All threads of the user, or this one.", shown="memory_scope")
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Don't ask.", metavar="")]
_SHARED: Final[dict[str, tuple[Any, Any]]] = {
    "user": (str, option("--user -u", "Whose memory.", USER)),
    "thread": (str, option("--thread -t", "Which conversation of the user.", THREAD)),
    "tenant": (
        str,
        option("--tenant", "Whose user, where applications share a store under several tenants.", TENANT),
    ),
    "data_dir": (DataDir, None),
    "as_json": (AsJson, False),
}
_SERVICE: Final[dict[str, tuple[Any, Any]]] = {
    "url": (
        str | None,
        option(
            "--url",
            "A running service to ask, instead of opening the stores here.",
            shown="service_url",
            metavar="URL",
        ),
    ),
    "key_file": (
        Path | None,
        option("--key-file", "The file with its key.", shown="service_api_key", metavar="FILE"),
    ),
}
_service_options: ContextVar[tuple[str | None, Path | None]] = ContextVar("service", default=(None, None))


def service_options() -> tuple[str | None, Path | None]:
    """The values of --url and --key-file of the running command."""
    return _service_options.get()


@dataclass(frozen=True, kw_only=True, slots=True)
class ThreadOptions:
    """Whose thread a command is about, where it is kept, and how it is shown.

    The parameter `where` of a command stands for --user, --thread, --tenant, --data-dir and --json, or for those
    of them that its type names.
    """

    user: str = USER
    thread: str = THREAD
    tenant: str = TENANT
    data_dir: Path | None = None
    as_json: bool = False

    @property
    def whose(self) -> str:
        """The thread and its user, as a sentence begins with them."""
        return f"Thread {self.thread!r} of user {self.user!r}"

    def agent(self, service: Service) -> Agent:
        """The memory of the thread. Raises InvalidInput for impossible ids."""
        return service.agent(user_id=self.user, thread_id=self.thread, tenant=self.tenant)

    def command(self, command: str, *arguments: str) -> str:
        """A command on the same thread, to be copied."""
        url, key_file = service_options()
        values = {
            "--user": (self.user, USER),
            "--thread": (self.thread, THREAD),
            "--tenant": (self.tenant, TENANT),
            "--data-dir": (self.data_dir, None),
            "--url": (url, None),
            "--key-file": (key_file, None),
        }
        given = [(name, str(value)) for name, (value, default) in values.items() if value != default]
        options = [word for pair in given for word in pair]
        return shlex.join(["memory-agent", *command.split(), *options, *arguments])


UserOptions = Annotated[ThreadOptions, "user tenant data_dir as_json"]
TenantOptions = Annotated[ThreadOptions, "tenant data_dir as_json"]
TalkOptions = Annotated[ThreadOptions, "user thread tenant data_dir"]
FolderOptions = Annotated[ThreadOptions, "data_dir as_json"]


def read_time(value: str | None, name: str, *, or_else: str = "") -> datetime | None:
    """A time with its zone. Raises BadParameter."""
    if value is None:
        return None
    example = "write it like 2026-05-07T19:45:00+02:00"
    try:
        time = datetime.fromisoformat(value)
    except ValueError:
        raise typer.BadParameter(f"{value} is no time{or_else}; {example}", param_hint=name) from None
    if time.utcoffset() is None:
        raise typer.BadParameter(f"{value} has no time zone; {example}", param_hint=name)
    return time


def scope_of(user: str | None, thread: str | None, tenant: str) -> Scope | None:
    """Whose turns a command is about that may be about everybody's (None). Raises BadParameter."""
    if user is not None:
        return Scope.of(user, thread, tenant=tenant)
    if thread is not None:
        raise typer.BadParameter("a thread belongs to a user: give --user as well")
    if tenant != TENANT:
        raise typer.BadParameter("a user belongs to a tenant: give --user as well")
    return None


def page_size(limit: int | None, everything: bool, every: str = "every one") -> int | None:
    """The number that --limit lets through, None with --all. Raises BadParameter."""
    if everything and limit is not None:
        raise typer.BadParameter(f"--all prints {every} and --limit so many: choose one")
    return None if everything else limit or PAGE


# --- commands ------------------------------------------------------------------------------------------------
Function = TypeVar("Function", bound=Callable[..., Any])


class Commands(typer.Typer):
    """Commands, and the group of them if they are one."""

    on_memory = False
    """Whether they have --url and --key-file, which `service_options` tells of."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**{"rich_markup_mode": "markdown", **options})

    def command(
        self,
        name: str | None = None,
        *,
        quiet: bool = False,
        on_memory: bool = False,
        **options: Any,
    ) -> Callable[[Function], Function]:
        """Declare a command: a function, or coroutine function, that gives its exit code (None: done).

        `quiet`: errors are all that is said beside what it prints itself. `on_memory`: it is about a memory, whatever the others are.
        """
        declare = super().command(name, **options)

        def declared(function: Function) -> Function:
            declare(_command(function, on_memory=on_memory or self.on_memory, quiet=quiet))
            return function

        return declared


class MemoryTyper(Commands):
    """Commands that work on a memory, here or in a running service: each has --url and --key-file."""

    on_memory = True


def _command(function: Callable[..., Any], *, on_memory: bool, quiet: bool) -> Callable[..., None]:
    """The function for typer: takes the shared options, runs `function`, and leaves with its exit code."""
    hints = get_type_hints(function, include_extras=True)
    options: dict[str, tuple[Any, Any]] = {}
    shared: list[str] = []
    for name, parameter in inspect.signature(function).parameters.items():
        if name == "where":
            of = getattr(hints[name], "__metadata__", (" ".join(_SHARED),))
            shared = of[0].split()
            options |= {name: _SHARED[name] for name in shared}
        else:
            options[name] = hints[name], parameter.default
    if "as_json" in shared:
        options["as_json"] = options.pop("as_json")  # the last one of its own
    if on_memory:
        options |= _SERVICE

    @functools.wraps(function)
    def command(**given: Any) -> None:
        # A shell expands `~` at the beginning of a word, which that of --data-dir=~/memory is not.
        given = {name: _at_home(value) for name, value in given.items()}
        _service_options.set((given.pop("url", None), given.pop("key_file", None)))
        if shared:
            given["where"] = ThreadOptions(**{name: given.pop(name) for name in shared})

        def work() -> int:
            if given.get("scope", "") is None:
                given["scope"] = settings(given["where"].data_dir).memory_scope
            done = function(**given)
            return (asyncio.run(done) if inspect.iscoroutine(done) else done) or OK

        run(work, quiet=quiet or given.get("quiet", False))

    command.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
        [
            inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=kind)
            for name, (kind, default) in options.items()
        ]
    )
    command.__doc__ = _help(function.__doc__ or "")
    command.__annotations__ = {name: kind for name, (kind, _) in options.items()}
    return command


def _at_home(value: Any) -> Any:
    if isinstance(value, list):
        return [_at_home(each) for each in value]
    return at_home(value) if isinstance(value, Path) else value


def _help(doc: str) -> str:
    """A docstring as markdown: the lines below `Examples:` each a block of code of its own."""
    text, _, examples = inspect.cleandoc(doc).partition("\nExamples:\n")
    return f"{text}\n**Examples**\n" + "".join(f"\n{line}\n" for line in examples.splitlines())


# --- running -------------------------------------------------------------------------------------------------
def settings(data_dir: Path | None, **values: Any) -> MemoryConfig:
    """The settings of a command: its options over the environment and the file. Raises ConfigError."""
    from memory_agent.config import MemoryConfig

    if data_dir is not None:
        values["data_dir"] = data_dir
    return MemoryConfig(**values)


def working_settings(data_dir: Path | None) -> MemoryConfig:
    """Settings of a command that waits for owed work: embedded stores have no other worker than its own."""
    cfg = settings(data_dir)
    return settings(data_dir, run_worker=True) if cfg.embedded else cfg


def run(command: Callable[[], int], *, quiet: bool = False) -> NoReturn:
    """Run `command` and leave with its exit code; an error of ours becomes one line on stderr.

    `quiet`: errors are all that is said.
    """
    if not quiet:
        _tell_of_the_model()
    try:
        code = command()
    except BrokenPipeError:
        raise  # whoever reads us has had enough; typer leaves quietly
    except (MemoryAgentError, OSError) as exc:
        complain(str(exc) or type(exc).__name__)
        code = {TurnsParked: UNFINISHED, SweepRunning: BUSY}.get(type(exc), FAILED)
    except KeyboardInterrupt:
        complain("interrupted; what was acknowledged is kept")
        code = INTERRUPTED
    raise typer.Exit(code)


class _Notes(logging.Handler):
    """Log records as remarks on stderr."""

    def emit(self, record: logging.LogRecord) -> None:
        note(record.getMessage())


def _tell_of_the_model() -> None:
    """A model's first use may take some seconds more, for its export: say so while it happens."""
    logger = logging.getLogger(MODELS_LOG)
    if not any(isinstance(handler, _Notes) for handler in logger.handlers):
        logger.addHandler(_Notes())
        logger.setLevel(logging.INFO)
        logger.propagate = False
