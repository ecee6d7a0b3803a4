"""Declaration of commands: shared options, and turning a function with them into a command."""

from __future__ import annotations

import asyncio
import functools
import inspect
import shlex
from collections.abc import Callable
from contextvars import ContextVar
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeVar, get_type_hints

import typer
from typer.core import TyperCommand, TyperGroup, TyperOption

from memory_agent.cli.running import OK, run
from memory_agent.domain import DEFAULT_TENANT, Scope

if TYPE_CHECKING:
    from memory_agent.cli.opening import Agent, Service

User = Annotated[str, typer.Option("--user", "-u", help="Whose memory.")]
Thread = Annotated[str, typer.Option("--thread", "-t", help="Which conversation of the user.")]
Tenant = Annotated[
    str, typer.Option("--tenant", help="Whose user, where applications share a store under several tenants.")
]
DataDir = Annotated[
    Path | None, typer.Option("--data-dir", help="Folder of the embedded stores.", show_default="data_dir")
]
Patience = Annotated[
    float,
    typer.Option(
        "--patience",
        min=0,
        help="Seconds without progress until what waits for a part that is down is left owed.",
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON, for scripts.")]
Reach = Annotated[
    Literal["thread", "user"], typer.Option("--scope", help="This thread, or all threads of the user.")
]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Don't ask.")]

USER = "me"
THREAD = "main"
TENANT = DEFAULT_TENANT
LARGEST_SEQ = 2**53
"""Far beyond any thread, and what every store can compare with."""
PATIENCE_SECONDS = 30.0
"""Longer than a restart of a model's server takes, and shorter than people look at a bar that stands still."""

# --- whose service is asked ----------------------------------------------------------------------------------
_url: ContextVar[str | None] = ContextVar("memory_agent_url", default=None)
_key_file: ContextVar[Path | None] = ContextVar("memory_agent_key_file", default=None)


def service_options() -> tuple[str | None, Path | None]:
    """The values of --url and --key-file of the running command."""
    return _url.get(), _key_file.get()


Url = Annotated[
    str | None,
    typer.Option(
        "--url",
        metavar="URL",
        help="A running service to ask, instead of opening the stores here.",
        show_default="service_url",
    ),
]
KeyFile = Annotated[
    Path | None,
    typer.Option("--key-file", metavar="FILE", help="The file with its key.", show_default="service_api_key"),
]


# --- whose thread --------------------------------------------------------------------------------------------
@dataclass(frozen=True, kw_only=True, slots=True)
class ThreadOptions:
    """Whose thread a command is about, where it is kept, and how it is shown.

    The parameter `where` of a command stands for --user, --thread, --tenant, --data-dir and --json.
    """

    user_id: str
    thread_id: str
    data_dir: Path | None
    as_json: bool
    tenant: str = TENANT

    def agent(self, service: Service) -> Agent:
        """The memory of the thread. Raises InvalidInput for impossible ids."""
        return service.agent(user_id=self.user_id, thread_id=self.thread_id, tenant=self.tenant)

    def command(self, command: str, *arguments: str) -> str:
        """A command on the same thread, to be copied."""
        options = []
        if self.user_id != USER:
            options += ["--user", self.user_id]
        if self.thread_id != THREAD:
            options += ["--thread", self.thread_id]
        if self.tenant != TENANT:
            options += ["--tenant", self.tenant]
        if self.data_dir is not None:
            options += ["--data-dir", str(self.data_dir)]
        url, key_file = service_options()
        if url is not None:
            options += ["--url", url]
        if key_file is not None:
            options += ["--key-file", str(key_file)]
        return shlex.join(["memory-agent", *command.split(), *options, *arguments])


def read_time(value: str | None, option: str, *, or_else: str = "") -> datetime | None:
    """A time with its zone. Raises BadParameter."""
    if value is None:
        return None
    example = "write it like 2026-05-07T19:45:00+02:00"
    try:
        time = datetime.fromisoformat(value)
    except ValueError:
        raise typer.BadParameter(f"{value} is no time{or_else}; {example}", param_hint=option) from None
    if time.utcoffset() is None:
        raise typer.BadParameter(f"{value} has no time zone; {example}", param_hint=option)
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


# --- commands ------------------------------------------------------------------------------------------------
Function = TypeVar("Function", bound=Callable[..., Any])


def _without_types_of_flags(params: list[Any]) -> list[Any]:
    """The same, with nothing beside a flag in the help: typer's `--json <bool>` reads as if a value had to follow."""
    for param in params:
        if isinstance(param, TyperOption) and param.is_flag and param.metavar is None:
            param.metavar = ""
    return params


class Command(TyperCommand):
    """A command whose flags are shown as flags."""

    def get_params(self, ctx: Any) -> list[Any]:
        return _without_types_of_flags(super().get_params(ctx))


class Group(TyperGroup):
    """A group of commands whose flags are shown as flags."""

    def get_params(self, ctx: Any) -> list[Any]:
        return _without_types_of_flags(super().get_params(ctx))


class Commands(typer.Typer):
    """Commands, and the group of them if they are one, as the two classes above."""

    on_memory = False
    """Whether they have --url and --key-file, which `service_options` tells of."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**{"cls": Group, "rich_markup_mode": "markdown", **options})

    def command(
        self, name: str | None = None, *, quiet: bool = False, **options: Any
    ) -> Callable[[Function], Function]:
        """Declare a command: a function, or coroutine function, that gives its exit code (None: done).

        `quiet`: errors are all that is said beside what it prints itself.
        """
        declare = super().command(name, **{"cls": Command, **options})

        def declared(function: Function) -> Function:
            declare(_command(function, on_memory=self.on_memory, quiet=quiet))
            return function

        return declared


class MemoryTyper(Commands):
    """Commands that work on a memory, here or in a running service: each has --url and --key-file."""

    on_memory = True


def _command(function: Callable[..., Any], *, on_memory: bool, quiet: bool) -> Callable[..., None]:
    """The function for typer: takes the shared options, runs `function`, and leaves with its exit code."""
    hints = get_type_hints(function, include_extras=True)
    own = {name: (hints[name], one.default) for name, one in inspect.signature(function).parameters.items()}
    on_thread = own.pop("where", None) is not None
    options: dict[str, tuple[Any, Any]] = own
    if on_thread:
        options = {"user": (User, USER), "thread": (Thread, THREAD), "tenant": (Tenant, TENANT)}
        options |= {"data_dir": (DataDir, None), **own, "as_json": (AsJson, False)}
    if on_memory:
        options |= {"url": (Url, None), "key_file": (KeyFile, None)}

    @functools.wraps(function)
    def command(**given: Any) -> None:
        _url.set(given.pop("url", None))
        _key_file.set(given.pop("key_file", None))
        if on_thread:
            given["where"] = ThreadOptions(
                user_id=given.pop("user"),
                thread_id=given.pop("thread"),
                **{name: given.pop(name) for name in ("tenant", "data_dir", "as_json")},
            )

        def work() -> int:
            done = function(**given)
            return (asyncio.run(done) if inspect.iscoroutine(done) else done) or OK

        run(work, quiet=quiet or given.get("quiet", False))

    command.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
        [
            inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=kind)
            for name, (kind, default) in options.items()
        ]
    )
    command.__annotations__ = {name: kind for name, (kind, _) in options.items()}
    return command
