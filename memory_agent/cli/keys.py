"""`memory-agent keys …`: API keys made, listed and revoked. Opens no service, so it may run beside one."""

from __future__ import annotations

import asyncio
import re
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path  # noqa: TC003 - read when the commands are declared
from typing import TYPE_CHECKING, Any, Final

import typer

from memory_agent.adapters import open_keys
from memory_agent.cli.options import Commands, FolderOptions, Yes, argument, flag, option, settings
from memory_agent.cli.output import clean, line, note, picked, print_json, print_table, when
from memory_agent.clock import SystemClock
from memory_agent.data_dir import check_memory
from memory_agent.domain import ALL_TENANTS
from memory_agent.errors import NotFound
from memory_agent.exports.files import new_file
from memory_agent.keys import new_key, read_id, state_of

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from rich.text import Text

    from memory_agent.cli.options import ThreadOptions
    from memory_agent.config import MemoryConfig
    from memory_agent.domain import ApiKey
    from memory_agent.ports import KeyStore

app = Commands(
    name="keys",
    no_args_is_help=True,
    help="""Make, list and revoke the API keys of a service.

A key is for the users of one tenant, for one of them, or for those of all tenants. Keys are kept with the document
store, embedded in a file of their own in data_dir; these commands work while a service runs.

**Start with**: memory-agent keys create --tenant acme
""",
)

_UNITS: Final = {"h": timedelta(hours=1), "d": timedelta(days=1)}
_EXPIRES_EXAMPLES: Final = "write it like 90d, 12h, 2027-01-31 or 2027-01-31T18:00:00+01:00"


@asynccontextmanager
async def opened(cfg: MemoryConfig) -> AsyncIterator[KeyStore]:
    """The keys alone, without the stores and models of a service."""
    async with AsyncExitStack() as stack:
        yield await open_keys(cfg, None, stack)


@app.command()
async def create(
    where: FolderOptions,
    tenant: str | None = option("--tenant", "Whose users the key is for (a-z, 0-9, _ and -)."),
    all_tenants: bool = flag(
        "--all-tenants",
        "Instead: everybody's, and to look after the service (status of all, retry, worker, sweep).",
    ),
    user: str | None = option("--user -u", "This user alone.", shown="all of the tenant's"),
    read_only: bool = flag("--read-only", "It may change nothing."),
    expires: str | None = option(
        "--expires",
        "From when on it is refused: in so many days or hours (90d, 12h), a day (from 0:00 UTC on), or a time"
        " with its zone.",
        shown="never",
    ),
    label: str = option("--label", "What people know it by.", ""),
    requests_per_minute: int | None = option(
        "--requests-per-minute", "Its own limit.", min=1, shown="the service's setting"
    ),
    max_body_bytes: int | None = option(
        "--max-body-bytes", "Its own limit.", min=1, shown="the service's setting"
    ),
    out: Path | None = option(
        "--out", "Write the token into this new file, which only you can read, instead of printing it."
    ),
) -> None:
    """Make a key, and print its token, or write it into a file with --out: now and never again.

    The token alone goes to standard output. What is stored of it proves that somebody has it, but cannot be turned
    back into it: keep it at once where secrets are kept.

    Examples:
        memory-agent keys create --tenant acme --label "web shop" --expires 90d
        memory-agent keys create --tenant acme --user ada --read-only --out ada.token
        memory-agent keys create --all-tenants --label operator --out operator.token
    """
    if (tenant is None) == (not all_tenants):
        raise typer.BadParameter("give either --tenant or --all-tenants")
    if all_tenants and user is not None:
        raise typer.BadParameter("--user is of one tenant: give that with --tenant")
    now = SystemClock().now()
    key, token = new_key(
        ALL_TENANTS if tenant is None else tenant,
        user_id=user,
        read_only=read_only,
        label=label,
        expires_at=None if expires is None else expiry(expires, now),
        requests_per_minute=requests_per_minute,
        max_body_bytes=max_body_bytes,
        now=now,
    )
    await _store(settings(where.data_dir), key, token, out=out, as_json=where.as_json)


async def _store(cfg: MemoryConfig, key: ApiKey, token: str, *, out: Path | None, as_json: bool) -> None:
    """Store the key, and print its token once it is stored, or write it into the new file `out`, for its owner only."""
    # The file first, for a token that cannot be kept would be lost; it goes again where the key cannot be stored.
    with ExitStack() as undoing:
        if out is not None:
            with new_file(out) as file:
                file.write(f"{token}\n".encode("ascii"))
            undoing.callback(out.unlink, missing_ok=True)
        async with opened(cfg) as keys:
            await keys.put(key)
        undoing.pop_all()
    shown: dict[str, Any] = {"token": token} if out is None else {"file": str(out)}
    if as_json:
        print_json({**shown, **key_as_json(key, key.created_at)})
    elif out is None:
        typer.echo(token)
    until = "" if key.expires_at is None else f", valid until {when(key.expires_at)} UTC"
    where = "is shown only now" if out is None else f"is in {out}, which only you can read,"
    note(
        f"Key {key.id} {_described(key)}{until}. Its token {where} and cannot be had again: keep it where"
        " secrets are kept."
    )


@app.command("list")
async def list_(
    where: FolderOptions, tenant: str | None = option("--tenant", "Keys of this tenant only.", shown="all")
) -> None:
    """List the keys, oldest first, expired and revoked ones too. Secrets are not among what is known of them.

    Examples:
        memory-agent keys list --tenant acme
        memory-agent keys list --json | jq -r '.[] | select(.state == "valid") | .id'
    """
    cfg = settings(where.data_dir)
    check_memory(cfg)
    async with opened(cfg) as keys:
        found = await keys.list(tenant)
    now = SystemClock().now()
    if where.as_json:
        print_json([key_as_json(key, now) for key in found])
    elif found:
        # Two lines a key, which fit eighty columns with the id whole, so that it can be copied.
        names = ("+id\nlabel", "+tenant\nuser", "+may\nlimits", "created\nstate")
        print_table(names, (_row(key, now) for key in found), below=1, first_width=16)
    else:
        note("There are no API keys." if tenant is None else f"There are no API keys of tenant {tenant!r}.")


@app.command()
def revoke(
    where: FolderOptions,
    key_id: str = argument("Id of a key, as `keys list` shows it; its token will do as well."),
    yes: Yes = False,
) -> None:
    """Revoke a key for good: whoever uses it is refused.

    It cannot be undone; make another key instead. One that is revoked already stays as it is.

    Examples:
        memory-agent keys revoke k3v5m2a7qd4xnb6t
        memory-agent keys revoke k3v5m2a7qd4xnb6t --yes
    """
    cfg = settings(where.data_dir)
    check_memory(cfg)
    key = asyncio.run(_found(cfg, key_id, where))
    before = key.revoked_at
    # Nothing is held open while somebody thinks about it.
    if before is None and not yes:
        question = f"Revoke key {key.id} {_described(key)}? Whoever uses it is refused then"
        typer.confirm(clean(f"{question}, and it cannot be undone."), abort=True, err=True)
    if before is None:
        key = asyncio.run(_revoked(cfg, key.id, where))
    if where.as_json:
        print_json(key_as_json(key, SystemClock().now()))
    elif before is None:
        note(f"Key {key.id} is revoked.")
    else:
        note(f"Key {key.id} was revoked already, on {when(before)} UTC.")


async def _found(cfg: MemoryConfig, text: str, where: ThreadOptions) -> ApiKey:
    key_id, known = read_id(text), where.command("keys list")
    if key_id is None:  # which may be a secret, so it is not repeated
        raise NotFound(f"that is no id of an API key; `{known}` shows them")
    async with opened(cfg) as keys:
        key = await keys.find(key_id)
    if key is None:
        raise NotFound(f"there is no API key {key_id}; `{known}` shows those there are")
    return key


async def _revoked(cfg: MemoryConfig, key_id: str, where: ThreadOptions) -> ApiKey:
    async with opened(cfg) as keys:
        await keys.revoke(key_id, SystemClock().now())
    return await _found(cfg, key_id, where)


# --- what is printed -----------------------------------------------------------------------------------------
def key_as_json(key: ApiKey, now: datetime) -> dict[str, Any]:
    """A key with stable names, and how it stands at `now`; nothing of its secret."""
    return {
        **picked(key, "id tenant user=user_id read_only label"),
        "state": state_of(key, now),
        **picked(key, "created_at expires_at revoked_at requests_per_minute max_body_bytes"),
    }


def _row(key: ApiKey, now: datetime) -> list[Text | str]:
    tenant = "all" if key.tenant == ALL_TENANTS else key.tenant
    limits = [
        "" if key.requests_per_minute is None else f"{key.requests_per_minute:,} requests/min",
        "" if key.max_body_bytes is None else f"{key.max_body_bytes:,} bytes",
    ]
    return [
        line((key.id, "bold"), (f"\n{key.label}", "dim")),
        f"{tenant}\n{'all' if key.user_id is None else key.user_id}",
        f"{'read' if key.read_only else 'read, write'}\n{', '.join(filter(None, limits))}",
        f"{when(key.created_at)}\n{_state(key, now)}",
    ]


def _described(key: ApiKey) -> str:
    """Whose it is and what it is called."""
    of = "all tenants" if key.tenant == ALL_TENANTS else f"tenant {key.tenant!r}"
    if key.user_id is not None:
        of = f"user {key.user_id!r} of {of}"
    called = f", {key.label!r}" if key.label else ""
    return f"({of}{called}{', read only' if key.read_only else ''})"


def _state(key: ApiKey, now: datetime) -> str:
    state = state_of(key, now)
    if state == "valid":
        return "valid" if key.expires_at is None else f"valid until {when(key.expires_at)}"
    at = key.revoked_at if state == "revoked" else key.expires_at
    return state if at is None else f"{state} {when(at)}"


def expiry(text: str, now: datetime) -> datetime:
    """The time that --expires names: so many days or hours after `now`, the beginning of a day in UTC, or a time.

    Raises BadParameter.
    """
    try:
        if after := re.fullmatch(r"([0-9]{1,9})([hd])", text):
            return now + int(after[1]) * _UNITS[after[2]]
        time = datetime.fromisoformat(text)
    except (ValueError, OverflowError):
        raise typer.BadParameter(
            f"{text} is no time to come; {_EXPIRES_EXAMPLES}", param_hint="--expires"
        ) from None
    if re.fullmatch(r"\d{4}-\d{2}-\d{2}", text):
        return time.replace(tzinfo=UTC)
    if time.utcoffset() is None:
        raise typer.BadParameter(f"{text} has no time zone; {_EXPIRES_EXAMPLES}", param_hint="--expires")
    return time
