"""Options that several commands share."""

# No `from __future__ import annotations` here: typer reads the annotations when the commands are declared.

import functools
import inspect
from collections.abc import Callable
from contextvars import ContextVar
from pathlib import Path
from typing import Annotated, Any, TypeVar

import typer
from typer.core import TyperCommand, TyperGroup, TyperOption

from memory_agent.domain import DEFAULT_TENANT

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

USER = "me"
THREAD = "main"
TENANT = DEFAULT_TENANT
PATIENCE_SECONDS = 30.0
"""Longer than a restart of a model's server takes, and shorter than people look at a bar that stands still."""

# --- whose service is asked ----------------------------------------------------------------------------------
_url: ContextVar[str | None] = ContextVar("memory_agent_url", default=None)
_key_file: ContextVar[Path | None] = ContextVar("memory_agent_key_file", default=None)


def service_options() -> tuple[str | None, Path | None]:
    """What --url and --key-file of the running command say."""
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

    def __init__(self, **options: Any) -> None:
        super().__init__(**{"cls": Group, "rich_markup_mode": "markdown", **options})

    def command(self, name: str | None = None, **options: Any) -> Callable[[Function], Function]:
        """Declare a command."""
        return super().command(name, **{"cls": Command, **options})


class MemoryTyper(Commands):
    """Commands that work on a memory, here or in a running service: each has --url and --key-file."""

    def command(
        self, name: str | None = None, *, on_memory: bool = True, **options: Any
    ) -> Callable[[Function], Function]:
        """Declare a command. `on_memory`: with these two options, which `service_options` tells of."""
        declare = super().command(name, **options)

        def declared(function: Function) -> Function:
            declare(_with_service_options(function) if on_memory else function)
            return function

        return declared


def _with_service_options(function: Callable[..., Any]) -> Callable[..., Any]:
    own = {"url": Url, "key_file": KeyFile}

    @functools.wraps(function)
    def asked(*arguments: Any, url: str | None, key_file: Path | None, **given: Any) -> Any:
        _url.set(url)
        _key_file.set(key_file)
        return function(*arguments, **given)

    signature = inspect.signature(function)
    added = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=annotation)
        for name, annotation in own.items()
    ]
    asked.__signature__ = signature.replace(parameters=[*signature.parameters.values(), *added])  # type: ignore[attr-defined]
    asked.__annotations__ = {**function.__annotations__, **own}
    return asked
