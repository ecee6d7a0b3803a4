"""`memory-agent keys …`: API keys made, listed and revoked. Opens no service, so it may run beside one."""

from __future__ import annotations

import asyncio
import os
import shlex
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from typing import TYPE_CHECKING, Any

import typer
from rich.table import Table
from rich.text import Text

from memory_agent.adapters import open_keys
from memory_agent.cli.output import clean, note, print_json, print_table
from memory_agent.cli.running import OK, settings
from memory_agent.clock import SystemClock
from memory_agent.data_dir import check_memory
from memory_agent.domain import ALL_TENANTS
from memory_agent.errors import InvalidInput, NotFound
from memory_agent.keys import read_id, state_of

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator, Sequence
    from datetime import datetime
    from pathlib import Path

    from memory_agent.config import MemoryConfig
    from memory_agent.domain import ApiKey
    from memory_agent.ports import KeyStore


@asynccontextmanager
async def opened(cfg: MemoryConfig) -> AsyncIterator[KeyStore]:
    """The keys alone, without the stores and models of a service."""
    async with AsyncExitStack() as stack:
        yield await open_keys(cfg, None, stack)


async def create(cfg: MemoryConfig, key: ApiKey, token: str, *, out: Path | None, as_json: bool) -> int:
    """Store the key, and print its token once it is stored, or write it into the new file `out`, for its owner only."""
    with _written(out, token):
        async with opened(cfg) as keys:
            await keys.put(key)
    shown: dict[str, Any] = {"token": token} if out is None else {"file": str(out)}
    if as_json:
        print_json({**shown, **key_as_json(key, key.created_at)})
    elif out is None:
        typer.echo(token)
    until = "" if key.expires_at is None else f", valid until {_when(key.expires_at)} UTC"
    where = "is shown only now" if out is None else f"is in {out}, which only you can read,"
    note(
        f"Key {key.id} {_described(key)}{until}. Its token {where} and cannot be had again: keep it where"
        " secrets are kept."
    )
    return OK


@contextmanager
def _written(out: Path | None, token: str) -> Iterator[None]:
    """The new file with the token, for as long as the block lasts without an error, and from then on.

    Raises InvalidInput if there is something of that name, and OSError. Before the key is stored: a token that cannot
    be kept would be lost.
    """
    if out is None:
        yield
        return
    try:
        file = os.open(out, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        raise InvalidInput(
            f"{out} exists already, and a key in it may be in use; name a new file (no key was made)"
        ) from None
    except OSError as exc:
        raise InvalidInput(f"{out} cannot be written: {exc.strerror} (no key was made)") from exc
    try:
        with open(file, "w", encoding="ascii") as opened_file:
            opened_file.write(f"{token}\n")
            opened_file.flush()
            os.fsync(file)
        yield
    except BaseException:
        out.unlink(missing_ok=True)
        raise


async def show_all(data_dir: Path | None, tenant: str | None, *, as_json: bool) -> int:
    """Print the keys, oldest first."""
    cfg = settings(data_dir)
    check_memory(cfg)
    async with opened(cfg) as keys:
        found = await keys.list(tenant)
    now = SystemClock().now()
    if as_json:
        print_json([key_as_json(key, now) for key in found])
    elif found:
        print_table(_table(found, now))
    else:
        note("There are no API keys." if tenant is None else f"There are no API keys of tenant {tenant!r}.")
    return OK


def revoke(data_dir: Path | None, text: str, *, yes: bool, as_json: bool) -> int:
    """Revoke the key that `text` names, once that is confirmed. Raises NotFound if there is none such."""
    cfg = settings(data_dir)
    check_memory(cfg)
    key = asyncio.run(_found(cfg, text, data_dir))
    before = key.revoked_at
    # Nothing is held open while somebody thinks about it.
    if before is None and not yes:
        question = (
            f"Revoke key {key.id} {_described(key)}? Whoever uses it is refused then, and it cannot be undone"
        )
        typer.confirm(clean(f"{question}."), abort=True, err=True)
    if before is None:
        key = asyncio.run(_revoked(cfg, key.id, data_dir))
    if as_json:
        print_json(key_as_json(key, SystemClock().now()))
    elif before is None:
        note(f"Key {key.id} is revoked.")
    else:
        note(f"Key {key.id} was revoked already, on {_when(before)} UTC.")
    return OK


async def _found(cfg: MemoryConfig, text: str, data_dir: Path | None) -> ApiKey:
    key_id = read_id(text)
    if key_id is None:  # which may be a secret, so it is not repeated
        raise NotFound(f"that is no id of an API key; `{_list_command(data_dir)}` shows them")
    async with opened(cfg) as keys:
        key = await keys.find(key_id)
    if key is None:
        raise NotFound(f"there is no API key {key_id}; `{_list_command(data_dir)}` shows those there are")
    return key


async def _revoked(cfg: MemoryConfig, key_id: str, data_dir: Path | None) -> ApiKey:
    async with opened(cfg) as keys:
        await keys.revoke(key_id, SystemClock().now())
    return await _found(cfg, key_id, data_dir)


def _list_command(data_dir: Path | None) -> str:
    options = [] if data_dir is None else ["--data-dir", str(data_dir)]
    return shlex.join(["memory-agent", "keys", "list", *options])


# --- what is printed -----------------------------------------------------------------------------------------
def key_as_json(key: ApiKey, now: datetime) -> dict[str, Any]:
    """A key with stable names, and how it stands at `now`; nothing of its secret."""
    return {
        "id": key.id,
        "tenant": key.tenant,
        "user": key.user_id,
        "read_only": key.read_only,
        "label": key.label,
        "state": state_of(key, now),
        "created_at": key.created_at.isoformat(),
        "expires_at": None if key.expires_at is None else key.expires_at.isoformat(),
        "revoked_at": None if key.revoked_at is None else key.revoked_at.isoformat(),
        "requests_per_minute": key.requests_per_minute,
        "max_body_bytes": key.max_body_bytes,
    }


def _table(keys: Sequence[ApiKey], now: datetime) -> Table:
    """Two lines a key, which fit eighty columns with the id whole, so that it can be copied."""
    table = Table(box=None, padding=(0, 2, 1, 0), pad_edge=False)
    table.add_column("id\nlabel", min_width=16, overflow="fold")
    table.add_column("tenant\nuser", overflow="fold")
    table.add_column("may\nlimits", overflow="fold")
    table.add_column("created\nstate", no_wrap=True)
    for key in keys:
        name = Text(key.id, style="bold").append(f"\n{clean(key.label)}", style="not bold dim")
        table.add_row(
            name,
            Text(
                f"{'all' if key.tenant == ALL_TENANTS else key.tenant}\n{'all' if key.user_id is None else clean(key.user_id)}"
            ),
            f"{'read' if key.read_only else 'read, write'}\n{_limits(key)}",
            f"{_when(key.created_at)}\n{_state(key, now)}",
        )
    return table


def _described(key: ApiKey) -> str:
    """Whose it is and what it is called."""
    of = "all tenants" if key.tenant == ALL_TENANTS else f"tenant {key.tenant!r}"
    if key.user_id is not None:
        of = f"user {key.user_id!r} of {of}"
    called = f", {key.label!r}" if key.label else ""
    return f"({of}{called}{', read only' if key.read_only else ''})"


def _limits(key: ApiKey) -> str:
    requests = None if key.requests_per_minute is None else f"{key.requests_per_minute:,} requests/min"
    size = None if key.max_body_bytes is None else f"{key.max_body_bytes:,} bytes"
    return ", ".join(filter(None, [requests, size]))


def _state(key: ApiKey, now: datetime) -> str:
    state = state_of(key, now)
    if state == "valid":
        return "valid" if key.expires_at is None else f"valid until {_when(key.expires_at)}"
    at = key.revoked_at if state == "revoked" else key.expires_at
    return state if at is None else f"{state} {_when(at)}"


def _when(time: datetime) -> str:
    return f"{time:%Y-%m-%d %H:%M}"
